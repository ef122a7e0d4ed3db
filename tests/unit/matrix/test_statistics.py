"""Target statistics against loops over dicts, and what a model makes of them."""

import json
import pickle

import numpy as np
import pytest

import arboost as xgb
from arboost.matrix.statistics import make_statistics, make_targets, permuted_rows
from arboost.runtime import memory
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError

TYPES = ["q", "c", "c"]
NO_CATS: dict = {"enc": [], "feature_segments": [], "sorted_idx": []}


def make_data(n=400, n_a=12, n_b=7, seed=0, **fields):
    """A number, two categories (some missing), and a label that depends on all."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal(n), rng.integers(0, n_a, n), rng.integers(0, n_b, n)]).astype(np.float32)
    y = (X[:, 0] + np.sin(7 * X[:, 1]) + 0.3 * rng.standard_normal(n)).astype(np.float32)
    X[rng.random(n) < 0.1, 1] = np.nan
    return X, y, xgb.DMatrix(X, y, feature_types=TYPES, enable_categorical=True, **fields)


def naive_statistics(codes, order, values, weight, prior):
    """Statistic of every row from those before it, in the given order."""
    total, seen, found = {}, {}, np.empty(len(codes))
    for r in order:
        c = codes[r]
        found[r] = (total.get(c, 0.0) + prior) / (seen.get(c, 0.0) + 1.0)
        total[c] = total.get(c, 0.0) + weight[r] * values[r]
        seen[c] = seen.get(c, 0.0) + weight[r]
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_training_rows_see_the_rows_before_them(weighted):
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    X, y, data = make_data(weight=weight)
    ctx = Context(seed=5)
    made = make_statistics(ctx, data, 0, 3, 2)
    twin = made.for_training(ctx, data, 0, 3)
    w = np.ones(400) if weight is None else weight.astype(np.float32)
    prior = np.sum(w * y) / np.sum(w)
    for p in range(3):
        values = next(twin.permuted(p).chunks())[1]
        for group, places in zip(made.groups, made.places(), strict=True):
            codes = [tuple("missing" if np.isnan(v) else v for v in row) for row in X[:, list(group.features)]]
            expected = naive_statistics(codes, permuted_rows(5, p, 400), y, w, prior)
            np.testing.assert_allclose(values[:, places[0]], expected, rtol=2e-6, atol=2e-6)
            np.testing.assert_array_equal(values[:, places[-1]], [codes.count(c) for c in codes])
        np.testing.assert_array_equal(values[:, 0], X[:, 0])


def test_prediction_sees_all_rows_and_unknown_values_the_prior():
    X, y, data = make_data()
    made = make_statistics(Context(), data, 0, 3, 2)
    new = np.array([[0.5, 3, 2], [0.5, np.nan, 2], [0.5, 99, 2]], np.float32)
    values = made.encode(xgb.DMatrix(new, feature_types=TYPES, enable_categorical=True))
    prior, is_three, is_missing = y.mean(), X[:, 1] == 3, np.isnan(X[:, 1])
    expected = [(y[rows].sum() + prior) / (rows.sum() + 1) for rows in (is_three, is_missing)]
    np.testing.assert_allclose(values[:, 1], [*expected, prior], rtol=1e-5)
    drawn_in = (y[is_three].sum() + 10 * prior) / (is_three.sum() + 10)
    np.testing.assert_allclose(values[0, made.places()[0][1]], drawn_in, rtol=1e-5)
    count = made.places()[0][-1]
    np.testing.assert_array_equal(values[:, count], [is_three.sum(), is_missing.sum(), 0])


def test_a_statistic_for_every_class():
    X, y, _ = make_data()
    classes = np.digitize(y, [-0.5, 0.5])
    data = xgb.DMatrix(X, classes, feature_types=TYPES, enable_categorical=True)
    made = make_statistics(Context(), data, 3, 3, 1)
    values = made.encode(data)
    for k, place in enumerate(made.places()[0][:-1:2]):
        rows = X[:, 1] == 3
        expected = ((classes[rows] == k).sum() + (classes == k).mean()) / (rows.sum() + 1)
        np.testing.assert_allclose(values[rows, place], expected, rtol=1e-5)
    names = ["ts0(f1)", "ts0~10(f1)", "ts1(f1)", "ts1~10(f1)", "ts2(f1)", "ts2~10(f1)", "count(f1)"]
    assert [name for name in made.encoded_names if "f1" in name] == names


def test_few_categories_stay_categories():
    _, _, data = make_data(n_a=3)
    made = make_statistics(Context(), data, 0, 4, 1)
    assert made.replaced == [2]
    assert made.encoded_types == ["q", "c", "float", "float", "float"]
    assert make_statistics(Context(), data, 0, 30, 1) is None


@pytest.mark.parametrize("value", [0.0, 1.0, -3e38])
def test_equal_labels_leave_nothing_for_combinations(value):
    """There is no scale for residuals that are all zero."""
    codes = np.random.default_rng(0).integers(0, 6, (60, 3)).astype(np.float32)
    data = xgb.DMatrix(codes, np.full(60, value), feature_types=["c"] * 3, enable_categorical=True)
    model = xgb.train({"cat_strategy": "ordered_ts", "max_cat_combination": 3, "max_cat_to_onehot": 1}, data, 2)
    np.testing.assert_allclose(model.predict(data), value, rtol=1e-6)


def test_combinations_that_tell_more_than_their_parts_are_found():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 6, (4000, 4))
    sign = rng.choice([-1.0, 1.0], (6, 6))
    y = sign[codes[:, 1], codes[:, 3]] + 0.1 * rng.standard_normal(4000)
    data = xgb.DMatrix(codes, y, feature_types=["c"] * 4, enable_categorical=True)
    made = make_statistics(Context(), data, 0, 3, 3)
    found = [group.features for group in made.groups]
    assert found[:5] == [(0,), (1,), (2,), (3,), (1, 3)]
    assert all(len(features) <= 3 for features in found)


def test_fixed_point_keeps_labels_of_any_size():
    info = xgb.DMatrix(np.zeros((3, 1)), [1e30, -2e30, 3.0]).info
    targets = make_targets(info, 0)
    np.testing.assert_allclose(targets.label[0] * targets.units[0], [1e30, -2e30, 3.0], rtol=1e-6, atol=1e14)
    np.testing.assert_allclose(targets.priors, [-1e30 / 3], rtol=1e-6)


def noise(n, seed):
    """A category of many values and a label that knows nothing of it."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, n // 3, (n, 1)).astype(np.float32), rng.integers(0, 2, n)


def test_plain_statistics_leak_and_ordered_ones_do_not():
    """Without signal, a category's mean label tells a row its own label, unless the row is left out of it."""
    X, y = noise(3000, 0)
    X_new, y_new = noise(3000, 1)
    params = {"objective": "binary:logistic", "eta": 0.1, "max_depth": 4, "eval_metric": "logloss"}
    means = np.array([y[X[:, 0] == c].mean() if (X[:, 0] == c).any() else y.mean() for c in range(1000)])
    plain, plain_new = (xgb.DMatrix(means[x[:, 0].astype(int), None], t) for x, t in ((X, y), (X_new, y_new)))
    leaking = xgb.train(params, plain, 30)
    ordered, ordered_new = (
        xgb.DMatrix(x, t, feature_types=["c"], enable_categorical=True) for x, t in ((X, y), (X_new, y_new))
    )
    honest = xgb.train(params | {"cat_strategy": "ordered_ts"}, ordered, 30)

    def loss(model, data):
        return float(model.eval(data).rpartition(":")[2])

    chance = np.log(2)
    assert loss(leaking, plain) < 0.6 < chance + 0.05 < loss(leaking, plain_new)
    assert abs(loss(honest, ordered_new) - chance) < 0.02


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_models_are_the_same_for_any_threads_and_survive_files(objective, tmp_path):
    X, y, _ = make_data()
    if objective != "reg:squarederror":
        y = np.digitize(y, [0.0] if objective == "binary:logistic" else [-0.5, 0.5])
    data = xgb.DMatrix(X, y, feature_types=TYPES, enable_categorical=True)
    params = {"objective": objective, "cat_strategy": "ordered_ts", "max_depth": 3}
    params |= {"num_class": 3} if objective == "multi:softprob" else {}
    models = [xgb.train(params | {"nthread": n}, data, 6) for n in (1, 3)]
    assert models[0].save_raw() == models[1].save_raw()
    expected = models[0].predict(data)
    for suffix in ("json", "ubj"):
        models[0].save_model(tmp_path / f"m.{suffix}")
        again = xgb.Booster(model_file=tmp_path / f"m.{suffix}")
        np.testing.assert_array_equal(again.predict(data), expected)
        assert again.save_raw() == models[0].save_raw()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(models[0])).predict(data), expected)
    np.testing.assert_array_equal(models[0].inplace_predict(X), expected)
    contributions = models[0].predict(data, pred_contribs=True)
    assert contributions.shape[-1] == X.shape[1] + 1
    margin = models[0].predict(data, output_margin=True)
    np.testing.assert_allclose(contributions.sum(axis=-1), margin, rtol=1e-4, atol=1e-4)


def test_xgboost_is_refused_by_name(tmp_path):
    theirs = pytest.importorskip("xgboost")
    _, _, data = make_data()
    xgb.train({"cat_strategy": "ordered_ts"}, data, 2).save_model(tmp_path / "m.json")
    with pytest.raises(theirs.core.XGBoostError, match="arboost_target_statistics"):
        theirs.Booster(model_file=tmp_path / "m.json")


def test_training_goes_on_as_if_it_had_not_stopped():
    _, _, data = make_data()
    params = {"cat_strategy": "ordered_ts", "max_depth": 3, "permutation_count": 3}
    whole = xgb.train(params, data, 8)
    half = xgb.train(params, data, 4)
    assert xgb.train(params, data, 4, xgb_model=half).save_raw() == whole.save_raw()


def test_importances_belong_to_the_columns_of_the_data():
    _, _, data = make_data()
    model = xgb.train({"cat_strategy": "ordered_ts", "max_cat_combination": 2}, data, 5)
    assert set(model.get_score()) <= {"f0", "f1", "f2"}
    trees = model._learner.model.trees
    assert sum(model.get_score(importance_type="total_gain").values()) == pytest.approx(
        sum(float(tree.gain.sum()) for tree in trees), rel=1e-5
    )
    assert any("ts(f1)" in text for text in model.get_dump())
    assert model.num_features() == 3


def test_what_cannot_be_had_is_refused_by_name():
    X, y, data = make_data()
    params = {"cat_strategy": "ordered_ts"}
    bins = xgb.QuantileDMatrix(X, y, feature_types=TYPES, enable_categorical=True)
    with pytest.raises(xgb.core.XGBoostError, match="QuantileDMatrix"):
        xgb.train(params, bins, 1)
    model = xgb.train(params, data, 1)
    with pytest.raises(xgb.core.XGBoostError, match="target statistics"):
        model.to_python()
    with pytest.raises(ValueError, match="expected: 3, got 2"):
        model.inplace_predict(X[:, :2])
    with pytest.raises(xgb.core.XGBoostError, match="target statistics"):
        xgb.Booster.concat([model, xgb.train(params, data, 1)])


def test_frames_with_unseen_and_missing_categories():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = pd.Categorical(rng.choice(list("abcdefgh"), 300))
    frame = pd.DataFrame({"x": rng.standard_normal(300), "c": names})
    y = frame["x"] + names.codes
    model = xgb.XGBRegressor(n_estimators=20, enable_categorical=True, cat_strategy="ordered_ts").fit(frame, y)
    new = pd.DataFrame({"c": pd.Categorical(["h", "z", None]), "x": [0.0, 0.0, 0.0]})
    found = model.predict(new)
    assert found[0] > 5
    assert found[1] == found[2]
    assert model.n_features_in_ == 2
    assert model.feature_importances_.shape == (2,)


def test_onehot_and_partition_are_limits_of_xgboosts():
    _, _, data = make_data()
    own = {"onehot": 2**31 - 1, "partition": 1}
    for strategy, limit in own.items():
        ours = xgb.train({"cat_strategy": strategy}, data, 3)
        theirs = xgb.train({"max_cat_to_onehot": limit}, data, 3)
        np.testing.assert_array_equal(ours.predict(data), theirs.predict(data))


def test_columns_that_do_not_fit_are_refused_first(monkeypatch):
    """Data may lie on a disk, its statistics do not."""
    _, _, data = make_data(n=4000)
    model = xgb.train({"cat_strategy": "ordered_ts"}, data, 1)
    monkeypatch.setattr(memory, "limit", 200_000)
    with pytest.raises(xgb.core.XGBoostError, match=r"'ordered_ts' of 4000 rows in \d+ columns needs about .* memory"):
        model.predict(make_data(n=4000)[2])


def test_a_damaged_file_is_refused_by_the_field():
    _, _, data = make_data()
    document = json.loads(bytes(xgb.train({"cat_strategy": "ordered_ts"}, data, 1).save_raw("json")))
    statistics = document["learner"]["gradient_booster"]["target_statistics"]
    for field, wrong in (("groups", []), ("num_columns", 0), ("priors", []), ("codes", {"feature": [9], "count": [3]})):
        broken = json.loads(json.dumps(document))
        broken["learner"]["gradient_booster"]["target_statistics"][field] = wrong
        with pytest.raises(xgb.core.XGBoostError, match=rf"target_statistics\.{field}"):
            xgb.Booster(model_file=bytearray(json.dumps(broken).encode()))
    statistics["groups"][0]["table"].pop()
    with pytest.raises(xgb.core.XGBoostError, match=r"groups\[0\]\.table"):
        xgb.Booster(model_file=bytearray(json.dumps(document).encode()))


def test_categories_beside_damaged_statistics_are_checked():
    """What would be another category's statistic, or a place that is not there."""
    pd = pytest.importorskip("pandas")
    X, y, _ = make_data()
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical([f"c{v}" for v in X[:, 2]])})
    model = xgb.train({"cat_strategy": "ordered_ts"}, xgb.DMatrix(frame, y, enable_categorical=True), 1)
    document = json.loads(bytes(model.save_raw("json")))
    sound = document["learner"]["gradient_booster"]["target_statistics"]
    n_codes = sound["codes"]["count"][0]
    names = sound["cats"]["enc"][1]
    wrong = {
        r"cats\.enc": {"cats": {**sound["cats"], "enc": sound["cats"]["enc"][:1]}},
        r"cats\.sorted_idx": {"cats": {**sound["cats"], "sorted_idx": [0] * (n_codes - 1)}},
        r"cats\.enc\[1\]\.offsets": {
            "cats": {**sound["cats"], "enc": [sound["cats"]["enc"][0], {**names, "offsets": [0, 99]}]}
        },
        r"codes\.count": {"codes": {**sound["codes"], "count": [n_codes - 1]}},
        r"groups\[0\]\.features: .* combinations": {
            "num_columns": 4, "feature_names": [], "feature_types": [], "cats": {**NO_CATS},
            "codes": {"feature": [0, 1, 2, 3], "count": [2**31 - 1] * 4},
            "groups": [{"features": [0, 1, 2, 3], "keys": [1], "table": [0.5] * 5}],
        },
    }  # fmt: skip
    for field, fields in wrong.items():
        document["learner"]["gradient_booster"]["target_statistics"] = {**sound, **fields}
        with pytest.raises(ModelFileError, match=field):
            xgb.Booster(model_file=bytearray(json.dumps(document).encode()))
