"""Categorical splits: the trees are XGBoost's, one-hot and by partition, with missing values, under every limit."""

import itertools
import json

import numpy as np
import pytest

import arboost

xgboost = pytest.importorskip("xgboost")

FIELDS = ("left_children", "split_indices", "split_type", "default_left")
SETS = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


def make_data(n_rows, n_categories, missing, seed=0):
    """Two categorical features and one number with so few values that both libraries have the same cuts."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, n, n_rows) for n in n_categories]
    X = np.column_stack([*columns, np.round(rng.normal(size=n_rows), 1)]).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    code, other, number = np.nan_to_num(X).T
    y = code % 3 - (other % 2) * number + 0.3 * rng.normal(size=n_rows)
    return X, y.astype(np.float32)


def matrix(library, X, y):
    return library.DMatrix(X, y, feature_types=["c", "c", "q"], enable_categorical=True)


def trees_of(booster):
    return json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]


CASES = {
    "one-hot and partition": (500, (3, 7), 0.0, {}),
    "missing": (500, (3, 7), 0.1, {}),
    "many": (2000, (20, 100), 0.1, {}),
    "two-byte bins": (2000, (20, 300), 0.05, {"max_cat_threshold": 16}),
    "lossguide": (3000, (5, 40), 0.1, {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0}),
    "all one-hot": (1000, (2, 9), 0.2, {"max_cat_to_onehot": 10}),
    "heavy children": (1500, (6, 30), 0.1, {"min_child_weight": 20}),
    "regularised": (1500, (6, 30), 0.1, {"alpha": 1.5, "lambda": 0.3}),
    "few rows": (60, (4, 6), 0.1, {}),
    "bounded steps": (1500, (6, 30), 0.0, {"max_delta_step": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_trees_are_xgboosts(case):
    n_rows, n_categories, missing, params = CASES[case]
    X, y = make_data(n_rows, n_categories, missing)
    params = {"max_depth": 4, "eta": 0.3, "nthread": 2, **params}
    ours = arboost.train(params, matrix(arboost, X, y), 5)
    theirs = xgboost.train({**params, "tree_method": "hist"}, matrix(xgboost, X, y), 5)
    for mine, peer in zip(trees_of(ours), trees_of(theirs), strict=True):
        for field in FIELDS + SETS:
            assert mine[field] == peer[field], field
        np.testing.assert_allclose(mine["split_conditions"], peer["split_conditions"], atol=1e-5)
    loaded = xgboost.Booster(model_file=ours.save_raw("json"))
    expected = theirs.predict(matrix(xgboost, X, y))
    np.testing.assert_allclose(loaded.predict(matrix(xgboost, X, y)), expected, atol=1e-5)
    np.testing.assert_allclose(ours.predict(matrix(arboost, X, y)), expected, atol=1e-5)
    back = arboost.Booster(model_file=theirs.save_raw("ubj"))
    np.testing.assert_allclose(back.predict(matrix(arboost, X, y)), expected, atol=1e-5)


@pytest.mark.parametrize("sampling", [{}, {"subsample": 0.6}, {"colsample_bynode": 0.7, "colsample_bytree": 0.7}])
def test_kept_margins_are_the_models_predictions(sampling):
    """Rows in and out of the sample, and those of the last level, went where prediction sends them."""
    X, y = make_data(1500, (10, 80), 0.1)
    data, log = matrix(arboost, X, y), {}
    params = {"max_depth": 5, "seed": 3, **sampling}
    booster = arboost.train(params, data, 10, evals=[(data, "train")], evals_result=log, verbose_eval=False)
    error = booster.predict(data) - y
    assert np.sqrt(np.mean(error**2)) == pytest.approx(log["train"]["rmse"][-1], rel=1e-5)


def test_any_number_of_threads_gives_the_same_bytes():
    X, y = make_data(40_000, (6, 200), 0.05)
    models = [
        arboost.train({"max_depth": 6, "subsample": 0.8, "nthread": n}, matrix(arboost, X, y), 4).save_raw()
        for n in (1, 2, 3, 8)
    ]
    assert all(model == models[0] for model in models)


def test_a_partition_is_the_best_of_all_sets():
    """With no penalty, sorting by leaf weight finds the best of all 2**(n - 1) - 1 ways to part the categories."""
    rng = np.random.default_rng(5)
    for n in (5, 6, 7):
        codes = np.append(rng.integers(0, n, 200), np.arange(n)).astype(np.float32)
        y = rng.normal(size=len(codes)).astype(np.float32)
        data = arboost.DMatrix(codes[:, None], y, feature_types=["c"], enable_categorical=True)
        params = {"max_depth": 1, "lambda": 0, "min_child_weight": 0, "base_score": 0.0}
        tree = trees_of(arboost.train(params, data, 1))[0]
        g, h = -np.bincount(codes.astype(int), y), np.bincount(codes.astype(int))
        gains = []
        for members in itertools.product((False, True), repeat=n):
            right = np.array(members)
            if right.any() and not right.all():
                gain = g[right].sum() ** 2 / h[right].sum() + g[~right].sum() ** 2 / h[~right].sum()
                gains.append(gain - g.sum() ** 2 / h.sum())
        assert tree["loss_changes"][0] == pytest.approx(max(gains), rel=1e-5)


@pytest.mark.parametrize("bad", [-1.0, 65_535.0, 1e7])
def test_codes_out_of_range_are_refused(bad):
    X = np.array([[0.0], [1.0], [bad]], np.float32)
    data = arboost.DMatrix(X, np.zeros(3), feature_types=["c"], enable_categorical=True)
    with pytest.raises(arboost.core.XGBoostError, match="Invalid categorical value"):
        arboost.train({}, data, 1)
