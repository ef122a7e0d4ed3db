"""Boosting with vectors in the leaves, from the face down: rounds, continuing, slicing, files, explanations."""

import pickle

import numpy as np
import pytest

import arboost as ab
from arboost.boosters.vector import draw_sums
from arboost.runtime import rng
from arboost.runtime.errors import XGBoostError

VECTOR = {"multi_strategy": "multi_output_tree", "max_depth": 4, "verbosity": 0}
N = 300


def make_data(n_targets=3, n_rows=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    x = np.nan_to_num(X)
    Y = np.stack([x[:, k % 4] + x[:, (k + 1) % 4] * x[:, 2] for k in range(n_targets)], axis=1)
    return X, Y.astype(np.float32)


@pytest.fixture(scope="module")
def data():
    X, Y = make_data()
    return ab.DMatrix(X, Y)


@pytest.fixture(scope="module")
def model(data):
    return ab.train(VECTOR, data, 4)


def trees_of(model):
    return model._learner.model.trees


def walk(model, X):
    """Margins by hand."""
    margin = np.tile(model._learner.base_margin(), (len(X), 1))
    for tree in trees_of(model):
        for r, x in enumerate(X):
            i = 0
            while tree.left[i] >= 0:
                value = x[tree.feature[i]]
                left = bool(tree.default_left[i]) if value != value else value < tree.threshold[i]
                i = tree.left[i] if left else tree.right[i]
            margin[r] += tree.vectors[i]
    return margin


def test_a_round_is_one_tree(model, data):
    assert len(trees_of(model)) == 4
    assert all(tree.vectors.shape == (tree.n_nodes, 3) for tree in trees_of(model))
    assert model._learner.model.tree_info == [0] * 4
    X, _ = make_data()
    expected = walk(model, X)
    assert np.array_equal(model.predict(data), expected)
    assert np.array_equal(model._learner.margins(data), expected)
    assert np.array_equal(model.inplace_predict(X), expected)
    assert model.predict(data, pred_leaf=True).shape == (N, 4)
    assert model.predict(data, pred_leaf=True, strict_shape=True).shape == (N, 4, 1, 1)


def test_margins_of_rows_outside_the_sample(data):
    X, _ = make_data()
    for params in ({"subsample": 0.5}, {"subsample": 0.4, "sampling_method": "gradient_based"}):
        for extra in ({}, {"num_parallel_tree": 3}, {"objective": "reg:absoluteerror"}):
            booster = ab.Booster(VECTOR | params | extra, [data])
            for i in range(3):
                booster.update(data, i)
            kept = booster._learner.margins(data)
            assert np.array_equal(kept, booster._learner.predict_margins(data, slice(None)))
            np.testing.assert_array_equal(kept, walk(booster, X))


@pytest.mark.parametrize(
    "params", [{}, {"subsample": 0.6, "colsample_bynode": 0.7}, {"objective": "reg:absoluteerror"}]
)
def test_same_bits_for_any_number_of_threads(params):
    X, Y = make_data(n_rows=20_000)
    raws = set()
    for nthread in (1, 2, 3, 8):
        model = ab.train(VECTOR | params | {"nthread": nthread}, ab.DMatrix(X, Y), 2)
        raws.add(bytes(model.save_raw()))
    assert len(raws) == 1


def test_continued_training_is_training_in_one_go(data):
    for params in ({}, {"num_parallel_tree": 2, "subsample": 0.7}):
        whole = ab.train(VECTOR | params, data, 5)
        first = ab.train(VECTOR | params, data, 2)
        assert bytes(ab.train(VECTOR | params, data, 3, xgb_model=first).save_raw()) == bytes(whole.save_raw())
        loaded = ab.Booster(model_file=first.save_raw())
        assert bytes(ab.train(VECTOR | params, data, 3, xgb_model=loaded).save_raw()) == bytes(whole.save_raw())


def test_trees_of_both_kinds_in_one_model(data):
    """XGBoost goes on with whatever strategy the parameters name."""
    scalar = ab.train({"max_depth": 3}, data, 2)
    mixed = ab.train(VECTOR, data, 2, xgb_model=scalar)
    assert [tree.has_vectors for tree in trees_of(mixed)] == [False] * 6 + [True] * 2
    mixed = ab.train({"max_depth": 3, "multi_strategy": "one_output_per_tree"}, data, 1, xgb_model=mixed)
    kept = mixed.predict(data)
    parts = [ab.Booster(model_file=mixed[r].save_raw()).predict(data) - mixed._learner.base_margin() for r in range(5)]
    np.testing.assert_allclose(sum(parts) + mixed._learner.base_margin(), kept, atol=1e-5)
    assert np.array_equal(ab.Booster(model_file=mixed.save_raw()).predict(data), kept)
    np.testing.assert_allclose(mixed.predict(data, pred_contribs=True).sum(axis=-1), kept, atol=1e-5)
    assert mixed.predict(data, pred_leaf=True).shape == (N, 11)
    with pytest.raises(XGBoostError, match="strict_shape"):
        mixed.predict(data, pred_leaf=True, strict_shape=True)


def test_slices_copies_and_pickles(model, data):
    expected = model.predict(data, iteration_range=(1, 3))
    assert np.array_equal(model[1:3].predict(data), expected)
    for twin in (pickle.loads(pickle.dumps(model)), model.copy(), ab.Booster(model_file=model.save_raw("json"))):
        assert np.array_equal(twin.predict(data), model.predict(data))
        assert bytes(twin.save_raw()) == bytes(model.save_raw())
        assert all(a.equals(b) for a, b in zip(trees_of(twin), trees_of(model)))
    again = pickle.loads(pickle.dumps(model))
    again.update(data, 4)
    assert trees_of(again)[-1].has_vectors


def test_explanations_sum_to_the_margins(model, data):
    margin = model.predict(data, output_margin=True)
    contribs = model.predict(data, pred_contribs=True)
    assert contribs.shape == (N, 3, 5)
    np.testing.assert_allclose(contribs.sum(axis=2), margin, atol=1e-5)
    pairs = model.predict(data, pred_interactions=True)
    np.testing.assert_allclose(pairs.sum(axis=3), contribs, atol=1e-5)
    cheap = model.predict(data, pred_contribs=True, approx_contribs=True)
    np.testing.assert_allclose(cheap.sum(axis=2), margin, atol=1e-5)
    some = model.predict(data, pred_contribs=True, iteration_range=(1, 3))
    np.testing.assert_allclose(some.sum(axis=2), model.predict(data, iteration_range=(1, 3)), atol=1e-5)


def test_early_stopping_and_metrics():
    X, Y = make_data()
    train, test = ab.DMatrix(X[:200], Y[:200]), ab.DMatrix(X[200:], Y[200:])
    log = {}
    model = ab.train(
        VECTOR | {"eta": 1.0}, train, 60, evals=[(test, "test")], early_stopping_rounds=3, evals_result=log,
        verbose_eval=False,
    )  # fmt: skip
    assert model.num_boosted_rounds() < 60
    best = model.predict(test, iteration_range=(0, model.best_iteration + 1))
    assert np.sqrt(np.mean((best - Y[200:]) ** 2)) == pytest.approx(model.best_score, rel=1e-6)


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_classes(objective):
    X, Y = make_data()
    y = np.digitize(Y[:, 0], [-0.7, 0.7])
    model = ab.train(VECTOR | {"objective": objective, "num_class": 3}, ab.DMatrix(X, y), 15)
    assert len(trees_of(model)) == 15
    prediction = model.predict(ab.DMatrix(X))
    classes = prediction.argmax(axis=1) if objective == "multi:softprob" else prediction
    assert np.mean(classes == y) > 0.85


def test_quantiles_share_trees():
    X, Y = make_data()
    params = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9], "quantile_crossing": "forbid"}
    model = ab.train(VECTOR | params, ab.DMatrix(X, Y[:, 0]), 10)
    prediction = model.predict(ab.DMatrix(X))
    assert trees_of(model)[0].n_targets == 3
    assert (np.diff(prediction, axis=1) >= 0).all()


def test_custom_objectives(data):
    def squared(margin, matrix):
        assert margin.shape == (N, 3)
        return margin - matrix.get_label(), np.ones_like(margin)

    params = VECTOR | {"base_score": 0.0}
    own = ab.train(params, data, 3, obj=squared)
    np.testing.assert_allclose(own.predict(data), ab.train(params, data, 3).predict(data), atol=1e-6)
    with pytest.raises(XGBoostError, match=r"grad.*shape|number of columns in gradient"):
        ab.train(params, data, 1, obj=lambda margin, matrix: (margin[:, 0], margin[:, 0]))


def test_one_target_needs_no_vectors():
    X, Y = make_data()
    one = ab.train(VECTOR, ab.DMatrix(X, Y[:, 0]), 2)
    assert not any(tree.has_vectors for tree in trees_of(one))
    plain = {name: value for name, value in VECTOR.items() if name != "multi_strategy"}
    assert bytes(one.save_raw()) == bytes(ab.train(plain, ab.DMatrix(X, Y[:, 0]), 2).save_raw())


def test_wrong_shapes(model, data):
    X, Y = make_data()
    fewer = ab.DMatrix(X, Y[:, :2])
    with pytest.raises(XGBoostError, match="Invalid shape of labels"):
        ab.train(VECTOR, fewer, 1, xgb_model=model)
    with pytest.raises(XGBoostError, match="nvalid shape of labels"):
        ab.train(VECTOR, data, 1, evals=[(fewer, "fewer")], verbose_eval=False)
    with pytest.raises(XGBoostError, match="base_margin"):
        ab.train(VECTOR, ab.DMatrix(X, Y, base_margin=np.zeros((N, 2))), 1)
    with pytest.raises(XGBoostError, match="base_score"):
        ab.train(VECTOR | {"base_score": [0.0, 1.0]}, data, 1)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"booster": "dart"}, "dart support for multi-target tree"),
        ({"tree_method": "exact"}, "Only the hist tree method"),
        ({"tree_method": "approx"}, "Only the hist tree method"),
        ({"monotone_constraints": (1, 0, 0, 0)}, "Monotonic constraint support for multi-target tree"),
    ],
    ids=str,
)
def test_what_xgboost_refuses_too(data, params, words):
    with pytest.raises(XGBoostError, match=words):
        ab.train(VECTOR | params, data, 1)


def test_categories_and_dart_are_refused(model, data):
    X, Y = make_data()
    coded = np.nan_to_num(X).round().clip(0, 3)
    categories = ab.DMatrix(coded, Y, feature_types=["c", "q", "q", "q"], enable_categorical=True)
    with pytest.raises(XGBoostError, match="Categorical features support for multi-target tree"):
        ab.train(VECTOR, categories, 1)
    with pytest.raises(XGBoostError, match="dart support for multi-target tree"):
        ab.train({"booster": "dart"}, data, 1, xgb_model=model)


def test_estimators():
    X, Y = make_data()
    options = {"n_estimators": 20, "multi_strategy": "multi_output_tree", "max_depth": 3}
    regressor = ab.XGBRegressor(**options).fit(X, Y)
    assert regressor.predict(X).shape == Y.shape
    assert len(trees_of(regressor.get_booster())) == 20
    assert regressor.score(X, Y) > 0.8
    assert regressor.feature_importances_.shape == (4,)
    assert regressor.apply(X).shape == (N, 20)
    labels = (Y > 0).astype(int)
    classifier = ab.XGBClassifier(**options).fit(X, labels)
    assert classifier.predict_proba(X).shape == Y.shape
    assert np.mean(classifier.predict(X) == labels) > 0.9
    classes = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.7, 0.7])]
    assert ab.XGBClassifier(**options).fit(X, classes).score(X, classes) > 0.8


def test_splits_are_found_on_a_few_signed_sums_of_all_outputs():
    """The tree is that of `split_grad` with the same sums; its weights are those of all outputs."""
    X, _ = make_data()
    y = np.random.default_rng(1).integers(0, 6, N)
    params = VECTOR | {"objective": "multi:softprob", "num_class": 6, "eta": 0.5, "lambda": 2.0, "min_child_weight": 0}
    data = ab.DMatrix(X, y)
    model = ab.Booster(params | {"split_outputs": 2}, [data])
    model.update(data, 0)
    g, h = model._learner.last_gradients()
    key = rng.make_key(rng.make_key(model._learner.ctx.seed, 0), rng.SIGNS)
    sums = draw_sums(g, h, 2, key)
    signs = np.where(rng.uniform(key, np.arange(12)).reshape(2, 6) < 0.5, -1.0, 1.0)
    assert len(np.unique(signs)) == 2
    np.testing.assert_allclose(sums[0], signs @ g / np.sqrt(6), atol=1e-6)
    np.testing.assert_allclose(sums[1], np.tile(h.mean(axis=0), (2, 1)), rtol=1e-5)
    other = ab.Booster(params, [data])
    other._learner.base_margin()
    other._learner.boost(data, g.T, h.T, (sums[0].T, sums[1].T))
    tree, same = trees_of(model)[0], trees_of(other)[0]
    np.testing.assert_array_equal(tree.feature, same.feature)
    np.testing.assert_array_equal(tree.vectors, same.vectors)
    leaf = model.predict(data, pred_leaf=True).astype(int)
    for node in np.unique(leaf):
        rows = leaf == node
        weight = -0.5 * g[:, rows].sum(axis=1) / (h[:, rows].sum(axis=1) + 2.0)
        np.testing.assert_allclose(tree.vectors[node], weight, rtol=1e-4, atol=1e-6)


def test_as_many_sums_as_outputs_are_the_outputs(data):
    full = ab.train(VECTOR, data, 2)
    for n in (0, 3, 7):
        same = ab.train(VECTOR | {"split_outputs": n}, data, 2)
        np.testing.assert_array_equal(same.predict(data), full.predict(data))
    assert (ab.train(VECTOR | {"split_outputs": 1}, data, 2).predict(data) != full.predict(data)).any()


@pytest.mark.parametrize("extra", [{}, {"sampling_method": "goss"}, {"subsample": 0.5, "grow_policy": "symmetric"}])
def test_sums_keep_every_bit_on_any_threads(extra):
    X, Y = make_data(5)
    params = VECTOR | extra | {"split_outputs": 2}
    found = {bytes(ab.train(params | {"nthread": n}, ab.DMatrix(X, Y), 4).save_raw()) for n in (1, 3)}
    assert len(found) == 1


def test_random_sums_are_those_of_all_outputs_in_the_mean():
    g, h = np.random.default_rng(0).random((2, 7, 20), np.float32)
    squares = [np.mean(draw_sums(g, h, 4, key)[0].astype(np.float64).sum(axis=1) ** 2) for key in range(400)]
    assert np.mean(squares) == pytest.approx(np.mean(g.astype(np.float64).sum(axis=1) ** 2), rel=0.1)
