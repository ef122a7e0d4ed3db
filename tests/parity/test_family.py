"""Symmetric trees and LightGBM's rules beside the libraries they come from, and as XGBoost reads them."""

import numpy as np
import pytest

import arboost

xgboost = pytest.importorskip("xgboost")


def table(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6)).astype(np.float32)
    X[:, 5] = rng.integers(0, 9, n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + np.nan_to_num(X[:, 5]) % 3
    return X, (score + 0.5 * rng.normal(size=n_rows)).astype(np.float32)


KINDS = {
    "symmetric": ({"grow_policy": "symmetric"}, None),
    "symmetric classes": ({"grow_policy": "symmetric", "objective": "multi:softprob", "num_class": 3}, None),
    "symmetric sets": ({"grow_policy": "symmetric", "min_child_weight": 8}, ["q"] * 5 + ["c"]),
    "symmetric dart": ({"grow_policy": "symmetric", "booster": "dart", "rate_drop": 0.3}, None),
    "goss": ({"sampling_method": "goss"}, None),
    "lightgbm": ({"min_data_in_leaf": 20, "extra_trees": True}, None),
    "smooth": ({"path_smooth": 30.0}, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_reads_the_model(kind, tmp_path):
    params, types = KINDS[kind]
    X, y = table()
    y = np.digitize(y, [0, 2]) if "num_class" in params else y
    of_types = {"feature_types": types, "enable_categorical": types is not None}
    data = arboost.DMatrix(X, y, **of_types)
    booster = arboost.train({"max_depth": 5, **params}, data, 6)
    for name in ("model.json", "model.ubj"):
        booster.save_model(tmp_path / name)
        theirs = xgboost.Booster(model_file=tmp_path / name)
        expected = booster.predict(data)
        np.testing.assert_allclose(theirs.predict(xgboost.DMatrix(X, **of_types)), expected, rtol=1e-5, atol=1e-6)
        again = arboost.Booster(model_file=tmp_path / name)
        assert bytes(again.save_raw()) == bytes(booster.save_raw())
    contributions = theirs.predict(xgboost.DMatrix(X[:50], **of_types), pred_contribs=True)
    ours = booster.predict(arboost.DMatrix(X[:50], **of_types), pred_contribs=True)
    if "dart" not in kind:
        np.testing.assert_allclose(ours, contributions, rtol=1e-3, atol=2e-4)


def test_no_worse_than_catboost():
    """The same limits, the same kind of trees: the losses on unseen rows are alike."""
    catboost = pytest.importorskip("catboost")
    X, y = table(6000)
    X = np.nan_to_num(X)
    train, test = slice(0, 4000), slice(4000, None)
    params = {
        "grow_policy": "symmetric",
        "max_depth": 6,
        "eta": 0.1,
        "min_child_weight": 0,
        "max_bin": 255,
        "lambda": 3,
    }
    booster = arboost.train(params, arboost.DMatrix(X[train], y[train]), 100)
    theirs = catboost.CatBoostRegressor(
        iterations=100, learning_rate=0.1, depth=6, border_count=254, l2_leaf_reg=3, random_strength=0,
        bootstrap_type="No", boosting_type="Plain", leaf_estimation_iterations=1, thread_count=1,
        allow_writing_files=False, logging_level="Silent", score_function="L2",
    ).fit(X[train], y[train])  # fmt: skip
    ours = np.sqrt(np.mean((booster.predict(arboost.DMatrix(X[test])) - y[test]) ** 2))
    other = np.sqrt(np.mean((theirs.predict(X[test]) - y[test]) ** 2))
    assert ours < 1.03 * other


def test_leaves_have_the_rows_that_lightgbm_asks_for():
    """At equal limits both find the same first tree: min_data_in_leaf means the same rows."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(1000, 3)).astype(np.float64)
    y = np.sin(X[:, 0] / 4) + 0.02 * X[:, 1]
    limits = {"min_data_in_leaf": 60, "max_bin": 255, "num_leaves": 8, "min_sum_hessian_in_leaf": 0}
    theirs = lightgbm.train(
        {**limits, "objective": "regression", "learning_rate": 1.0, "verbosity": -1, "num_threads": 1,
         "boost_from_average": True},
        lightgbm.Dataset(X, y), 1,
    ).predict(X)  # fmt: skip
    ours = arboost.train(
        {"min_data_in_leaf": 60, "max_leaves": 8, "grow_policy": "lossguide", "max_depth": 0, "lambda": 0, "eta": 1.0,
         "min_child_weight": 0},
        arboost.DMatrix(X, y), 1,
    ).predict(arboost.DMatrix(X))  # fmt: skip
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
