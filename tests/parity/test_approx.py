"""`tree_method="approx"` against XGBoost's: equal trees where every value is a candidate, else equal accuracy."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy.stats import t as student_t

import arboost
from boosting_cases import OBJECTIVES, loss_params, make_features, make_label

xgboost = pytest.importorskip("xgboost")

BASE = {"tree_method": "approx", "nthread": 1, "max_depth": 4, "verbosity": 0}
SEEDS = 5


def structure(tree):
    """A dumped tree without its numbers for gain, cover and leaf values."""
    if "leaf" in tree:
        return tree["nodeid"]
    keys = ("nodeid", "depth", "split", "split_condition", "yes", "no", "missing")
    return (*(tree[key] for key in keys), *(structure(child) for child in tree["children"]))


def train(library, params, X, y, n_rounds, **fields):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return library.train(BASE | params, library.DMatrix(X, y, **fields), n_rounds)


def assert_same_trees(params, X, y, n_rounds=4, **fields):
    dumps, predictions = [], []
    for library in (arboost, xgboost):
        booster = train(library, params, X, y, n_rounds, **fields)
        dumps.append([json.loads(tree) for tree in booster.get_dump(dump_format="json", with_stats=True)])
        predictions.append(booster.predict(library.DMatrix(X)))
    assert [structure(tree) for tree in dumps[0]] == [structure(tree) for tree in dumps[1]]
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "binary:hinge"])  # hinge makes ties
def test_same_trees_where_all_values_are_candidates(objective, missing):
    X = make_features(missing=missing)
    assert_same_trees(loss_params(objective), X, make_label(objective, X))


@pytest.mark.parametrize(
    "params",
    [
        {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
        {"monotone_constraints": "(1,-1,0,0,0,0)"},
        {"interaction_constraints": "[[0,1],[2,3,4,5]]"},
        {"gamma": 3.0, "min_child_weight": 8},
    ],
    ids=lambda params: next(iter(params)),
)
def test_same_trees_under_other_limits(params):
    X = make_features(missing=0.1)
    assert_same_trees(params, X, make_label("reg:squarederror", X))


def test_same_trees_on_continuous_values_with_weights():
    """Weights are part of the hessians. (XGBoost's sketch may lose a light value even if it has bins for all.)"""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + rng.normal(size=80) > 0).astype(np.float32)
    weight = rng.uniform(0.5, 2, 80).astype(np.float32)
    assert_same_trees({"objective": "binary:logistic", "max_bin": 256}, X, y, weight=weight)


def test_first_trees_on_many_values_have_the_same_candidates():
    """Quantiles weighted by hessians are XGBoost's where no two fall close together: also in the second tree."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=20_000) > 0).astype(np.float32)
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 64}
    thresholds = []
    for library in (arboost, xgboost):
        frame = train(library, params, X, y, 2).trees_to_dataframe()
        thresholds.append(frame.Split.dropna().to_numpy())
    assert thresholds[0].shape == thresholds[1].shape
    np.testing.assert_allclose(*thresholds, atol=0.05)


def score(library, params, data, rows, metric):
    train_rows, test_rows = rows
    booster = train(library, params, data.X[train_rows], data.y[train_rows], 25)
    p, y = booster.predict(library.DMatrix(data.X[test_rows])).astype(np.float64), data.y[test_rows]
    if metric == "rmse":
        return float(np.sqrt(np.mean((p - y) ** 2)))
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


@pytest.mark.parametrize("proposal", ["global", "local"])
@pytest.mark.parametrize(
    ("name", "objective", "metric"),
    [
        ("california_housing", "reg:squarederror", "rmse"),
        ("electricity", "binary:logistic", "logloss"),
        ("gmsc", "binary:logistic", "logloss"),
    ],
)
def test_accuracy_is_within_the_noise_of_xgboosts(load_dataset, name, objective, metric, proposal):
    """The yardstick is XGBoost's own spread over seeds of row sampling. It has no local proposals: near is enough."""
    data = load_dataset(name, 5000)
    params = {"objective": objective, "eta": 0.2, "max_depth": 5, "subsample": 0.8, "max_bin": 64}
    ours, theirs, again = [], [], []
    for seed in range(SEEDS):
        rows = np.split(np.random.default_rng(seed).permutation(len(data.y)), [3500])
        own = params | {"seed": seed, "sketch_proposal": proposal}
        ours.append(score(arboost, own, data, rows, metric))
        theirs.append(score(xgboost, params | {"seed": seed}, data, rows, metric))
        again.append(score(xgboost, params | {"seed": seed + 1000}, data, rows, metric))
    noise = math.sqrt(np.mean((np.array(again) - theirs) ** 2))
    limit = max(student_t.ppf(0.995, SEEDS) * noise / math.sqrt(SEEDS), 2e-3 * np.mean(theirs))
    limit += 0.02 * np.mean(theirs) * (proposal == "local")
    assert abs(np.mean(ours) - np.mean(theirs)) <= limit
