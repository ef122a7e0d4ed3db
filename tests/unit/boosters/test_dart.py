"""Dropout: which trees are dropped, what they weigh afterwards, and margins that follow the weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arboost
from arboost.boosters.dart import Dart, WeighedForest, choose_dropped, step_weights
from arboost.boosters.gbtree import GBTree
from arboost.params.resolve import DartParams, resolve
from arboost.predict.forest import Forest
from arboost.runtime import rng as draws
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from boosting_cases import make_features, make_label
from forests import random_tree

X = make_features(300, missing=0.1)
Y = make_label("reg:squarederror", X)
BASE = {"booster": "dart", "max_depth": 3, "rate_drop": 0.3, "seed": 5}


def dart_params(**changes):
    return DartParams("uniform", "tree", 0.0, False, 0.0)._replace(**changes)


def train(n_rounds=12, data=None, **params):
    return arboost.train({**BASE, **params}, data or arboost.DMatrix(X, Y), n_rounds)


@pytest.mark.parametrize("sample_type", ["uniform", "weighted"])
def test_trees_are_dropped_at_their_rate(sample_type):
    """Over many rounds a tree is dropped with the probability rate_drop, times its share of the weights if weighted."""
    weights = np.array([1.0, 0.5, 0.25, 1.25], np.float32)
    params = dart_params(rate_drop=0.4, sample_type=sample_type)
    counts = np.zeros(4)
    for key in range(4000):
        counts[choose_dropped(weights, params, key)] += 1
    wanted = 0.4 * (4 * weights / weights.sum() if sample_type == "weighted" else np.ones(4))
    np.testing.assert_allclose(counts / 4000, wanted, atol=0.03)


@pytest.mark.parametrize("sample_type", ["uniform", "weighted"])
def test_one_drop(sample_type):
    """Without luck one tree is dropped all the same, by its share of the weights if weighted."""
    weights = np.array([1.0, 0.0, 3.0], np.float32)
    params = dart_params(one_drop=True, sample_type=sample_type)
    counts = np.zeros(3)
    for key in range(3000):
        (tree,) = choose_dropped(weights, params, key)
        counts[tree] += 1
    wanted = [0.25, 0.0, 0.75] if sample_type == "weighted" else [1 / 3] * 3
    np.testing.assert_allclose(counts / 3000, wanted, atol=0.04)
    assert not len(choose_dropped(weights[:0], params, 0))


def test_rounds_are_skipped_at_their_rate():
    params = dart_params(rate_drop=1.0, one_drop=True, skip_drop=0.25)
    skipped = [not len(choose_dropped(np.ones(2, np.float32), params, key)) for key in range(3000)]
    assert abs(np.mean(skipped) - 0.25) < 0.03
    assert not len(choose_dropped(np.ones(9, np.float32), params._replace(skip_drop=1.0), 1))


@given(st.integers(1, 50), st.integers(1, 6), st.floats(0.01, 1.0))
def test_a_step_is_shared(n_dropped, n_new, eta):
    """tree: the dropped trees and a step of eta new ones weigh what the dropped did; forest: all shrink alike."""
    factor, weight = step_weights(n_dropped, n_new, eta, "tree")
    np.testing.assert_allclose(factor + weight * np.float32(eta / n_new), 1.0, rtol=1e-6)
    np.testing.assert_allclose(factor, n_dropped * weight, rtol=1e-6)
    factor, weight = step_weights(n_dropped, n_new, eta, "forest")
    assert factor == weight
    np.testing.assert_allclose(weight, 1 / (1 + eta / n_new), rtol=1e-6)
    assert step_weights(0, n_new, eta, "tree") == (1, 1)


@pytest.mark.parametrize("normalize_type", ["tree", "forest"])
def test_against_a_naive_loop(normalize_type):
    """Round by round: leave the drawn trees out, fit a plain tree to the rest's margins, settle the weights."""
    params = {**BASE, "normalize_type": normalize_type, "base_score": 0.5, "eta": 0.4}
    resolved = resolve(params)
    data = arboost.DMatrix(X)
    steps, weights = [], np.zeros(0, np.float32)
    for r in range(10):
        dropped = choose_dropped(weights, resolved.dart, draws.make_key(BASE["seed"], r))
        margin = np.full(len(Y), 0.5, np.float32)
        for i in sorted(set(range(r)) - set(dropped)):
            margin += steps[i] * weights[i]
        plain = {"max_depth": 3, "eta": 0.4, "seed": 5, "base_score": 0.0}
        tree = arboost.train(plain, arboost.DMatrix(X, Y, base_margin=margin), 1)
        steps.append(tree.predict(data, output_margin=True))
        factor, weight = step_weights(len(dropped), 1, resolved.tree.eta, normalize_type)
        weights[dropped] *= factor
        weights = np.append(weights, weight)
    assert np.any(weights != 1)
    booster = train(10, **{k: v for k, v in params.items() if k not in BASE})
    np.testing.assert_array_equal(booster._learner.model.weights, weights)
    wanted = np.full(len(Y), 0.5, np.float32)
    for step, weight in zip(steps, weights, strict=True):
        wanted += step * weight
    np.testing.assert_array_equal(booster.predict(data), wanted)


@pytest.mark.parametrize("params", [{"rate_drop": 0}, {"skip_drop": 1}], ids=str)
def test_without_drops_it_is_gbtree(params):
    plain, dart = arboost.train({"max_depth": 3, "seed": 5}, arboost.DMatrix(X, Y), 6), train(6, **params)
    assert all(a.equals(b) for a, b in zip(plain._learner.model.trees, dart._learner.model.trees, strict=True))
    assert np.all(dart._learner.model.weights == 1)
    assert np.array_equal(plain.predict(arboost.DMatrix(X)), dart.predict(arboost.DMatrix(X)))


@pytest.mark.parametrize("extra", [{}, {"num_parallel_tree": 2}, {"objective": "multi:softprob", "num_class": 3}])
@pytest.mark.parametrize("skip_drop", [0.0, 0.7])
def test_kept_margins_are_exact(extra, skip_drop):
    """Margins kept through rounds that change weights, and rounds that do not, are those of a prediction."""
    y = np.digitize(Y, np.quantile(Y, [0.3, 0.6])) if "num_class" in extra else Y
    dtrain, dvalid = arboost.DMatrix(X, y), arboost.DMatrix(X[:100], y[:100])
    booster = arboost.Booster({**BASE, "skip_drop": skip_drop, **extra}, [dtrain])
    for r in range(12):
        booster.update(dtrain, r)
        if r % 3:
            booster.eval_set([(dvalid, "valid"), (dtrain, "train")], r)
    learner = booster._learner
    for data in (dtrain, dvalid):
        np.testing.assert_array_equal(learner.margins(data), learner.predict_margins(data, slice(None)))


@pytest.mark.parametrize("extra", [{}, {"sample_type": "weighted", "one_drop": True, "subsample": 0.6}])
def test_same_bits_for_any_number_of_threads(extra):
    large = make_features(5000, seed=3)
    data = arboost.DMatrix(large, make_label("reg:squarederror", large))
    assert train(8, data, nthread=1, **extra).save_raw() == train(8, data, nthread=3, **extra).save_raw()


def test_continued_training_is_training_in_one_go():
    data = arboost.DMatrix(X, Y)
    part = arboost.Booster(model_file=train(5).save_raw())
    assert arboost.train(BASE, data, 7, xgb_model=part).save_raw() == train(12).save_raw()


def test_trees_without_dropout_may_go_on_with_it():
    data = arboost.DMatrix(X, Y)
    plain = arboost.train({"max_depth": 3}, data, 3)
    booster = arboost.train({**BASE, "rate_drop": 1.0}, data, 1, xgb_model=plain)
    factor, weight = step_weights(3, 1, np.float32(0.3), "tree")
    np.testing.assert_array_equal(booster._learner.model.weights, [factor] * 3 + [weight])
    with pytest.raises(XGBoostError, match="was trained with 'dart'"):
        arboost.train({"booster": "gbtree", "verbosity": 0}, data, 1, xgb_model=booster)


def test_slices_keep_their_weights():
    booster, data = train(8, num_parallel_tree=2), arboost.DMatrix(X)
    weights = booster._learner.model.weights
    part = booster[1:6:2]
    np.testing.assert_array_equal(part._learner.model.weights, weights[[2, 3, 6, 7, 10, 11]])
    assert np.array_equal(booster[2:5].predict(data), booster.predict(data, iteration_range=(2, 5)))
    assert booster[2:5].save_raw() == booster.copy()[2:5].save_raw()


def test_training_predictions_leave_out_what_the_next_round_drops():
    booster, data = train(10, skip_drop=0.0, one_drop=True), arboost.DMatrix(X, Y)
    model = booster._learner.model
    dropped = choose_dropped(model.weights, booster._learner.resolved.dart, draws.make_key(BASE["seed"], 10))
    kept = [i for i in range(2, 9) if i not in dropped]
    forest = Forest([model.weighed_trees()[i] for i in kept], [0] * len(kept))
    margin = booster._learner.start_margin(len(X), None)
    forest.add_margins(Context(), X, slice(None), margin)
    found = booster.predict(data, training=True, iteration_range=(2, 9), output_margin=True)
    np.testing.assert_array_equal(found, margin[:, 0])
    assert np.array_equal(booster.predict(data, training=True), booster.predict(data, training=True))
    assert not np.array_equal(booster.predict(data, training=True), booster.predict(data))


def test_own_objectives_drop_the_same_trees():
    def squared_error(margin, data):
        return margin - data.get_label(), np.ones(len(margin))

    own = arboost.train({**BASE, "base_score": 0.5}, arboost.DMatrix(X, Y), 10, obj=squared_error)
    assert own._learner.model.weights.tolist() == train(10, base_score=0.5)._learner.model.weights.tolist()


def test_gradients_of_your_own_drop_trees_only_after_a_training_prediction():
    booster, data = train(4, rate_drop=1.0), arboost.DMatrix(X, Y)
    ones = np.ones(len(Y))
    booster.boost(data, 4, grad=ones, hess=ones)
    assert booster._learner.model.weights[-1] == 1
    booster.predict(data, training=True)
    booster.boost(data, 5, grad=ones, hess=ones)
    assert booster._learner.model.weights[-1] < 0.25


@pytest.mark.parametrize("deep", [False, True])
def test_a_forest_grows_as_if_packed_at_once(deep):
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, 5, 40 if deep else 6, 30 if deep else 4) for _ in range(7)]
    targets = [0, 1, 0, 1, 1, 0, 0]
    weights = rng.uniform(0.1, 1, 7).astype(np.float32)
    rows = rng.normal(size=(200, 5)).astype(np.float32)
    grown = WeighedForest(trees[:2], targets[:2], weights[:2]).extended(trees[2:3], targets[2:3], weights[:3])
    grown = grown.extended(trees[3:], targets[3:], weights)
    whole = Dart.of_trees(GBTree(trees, targets, [0, 7]), weights)
    results = []
    for forest in (grown, whole.forest(), Forest(whole.weighed_trees(), targets)):
        margin = np.zeros((200, 2), np.float32)
        forest.add_margins(Context(), rows, slice(None), margin)
        leaves = np.zeros((200, 7), np.int32)
        forest.find_leaves(Context(), rows, slice(None), leaves)
        results.append((margin.tobytes(), leaves.tobytes()))
    assert len(set(results)) == 1


def test_bins_are_walked_like_values():
    """Training on a QuantileDMatrix, as estimators do, drops trees from margins that its bins give."""
    model = arboost.XGBRegressor(**BASE | {"random_state": BASE["seed"]}, n_estimators=8).fit(X, Y)
    assert model.get_booster().save_raw() == train(8).save_raw()


def test_exports_carry_the_weights():
    booster = train(6, base_score=0.5)
    scope: dict = {}
    exec(booster.to_python(), scope)
    rows = np.nan_to_num(X[:20])
    wanted = booster.predict(arboost.DMatrix(rows))
    np.testing.assert_allclose([scope["predict"](row.tolist()) for row in rows], wanted, rtol=1e-6)
    leaves = booster.to_shap()["trees"][0]["values"]
    assert np.all(np.isin(np.float32(leaves), booster._learner.model.weighed_trees()[0].threshold) | (leaves == 0))


def test_categories():
    """Forests with categorical splits are packed anew, and explain themselves."""
    codes = np.random.default_rng(2).integers(0, 12, (300, 2)).astype(np.float32)
    label = (codes[:, 0] % 3) + 0.1 * codes[:, 1]
    data = arboost.DMatrix(codes, label, feature_types=["c", "q"], enable_categorical=True)
    booster = train(10, data, max_cat_to_onehot=1)
    assert any(len(tree.categories_nodes) for tree in booster._learner.model.trees)
    np.testing.assert_array_equal(booster._learner.margins(data)[:, 0], booster.predict(data))
    np.testing.assert_allclose(booster.predict(data, pred_contribs=True).sum(axis=1), booster.predict(data), atol=1e-5)
