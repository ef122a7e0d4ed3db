"""Linear leaves beside LightGBM's, and beside constants: smooth functions of unseen rows."""

import numpy as np
import pytest

import arboost
from datasets import DataUnavailable, load

lightgbm = pytest.importorskip("lightgbm")

SHARED = {"learning_rate": 0.1, "lambda": 0.0, "min_child_weight": 20.0, "max_depth": 4, "nthread": 2}
OURS = {**SHARED, "grow_policy": "lossguide", "max_leaves": 15}
THEIRS = {"learning_rate": 0.1, "num_leaves": 15, "max_depth": 4, "verbosity": -1, "num_threads": 2}


def smooth(n_rows=6000, seed=0):
    """Linear within pieces, and a wave."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 5)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 2 * X[:, 1], -X[:, 1] + 3 * X[:, 2]) + np.sin(2 * X[:, 3]) + 0.1 * rng.normal(size=n_rows)
    return X, y.astype(np.float32)


def rmse(found, y):
    return float(np.sqrt(np.mean((found - y) ** 2)))


def errors(X, y, test_X, test_y, rounds=60):
    """RMSE on unseen rows of constants, of linear leaves, and of LightGBM's."""
    found = []
    for linear in (False, True):
        model = arboost.train(OURS | {"linear_leaves": linear}, arboost.DMatrix(X, y), rounds)
        found.append(rmse(model.predict(arboost.DMatrix(test_X)), test_y))
    data = lightgbm.Dataset(X, y, params={"linear_tree": True})
    theirs = lightgbm.train(THEIRS | {"linear_tree": True}, data, rounds)
    return *found, rmse(theirs.predict(test_X), test_y)


def test_smooth_functions():
    constant, linear, theirs = errors(*smooth(), *smooth(seed=1))
    assert linear < 0.75 * constant
    assert linear < 1.15 * theirs


def test_california_housing():
    try:
        data = load("california_housing").sample(8000)
    except DataUnavailable as reason:
        pytest.skip(str(reason))
    train, test = slice(0, 6000), slice(6000, None)
    constant, linear, theirs = errors(data.X[train], data.y[train], data.X[test], data.y[test])
    assert linear < constant
    assert linear < 1.02 * theirs
