"""Monotone and interaction constraints: the trees are XGBoost's, and no data can make a model break its promise."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost

xgboost = pytest.importorskip("xgboost")

FIELDS = ("left_children", "split_indices", "default_left", "categories", "categories_nodes")
LOSSGUIDE = {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0}
CONSTRAINTS = {
    "rises": {"monotone_constraints": (1, 0, 0, 0)},
    "rises and falls": {"monotone_constraints": (1, -1, 0, 0)},
    "as text, short": {"monotone_constraints": "(1,-1)"},
    "lossguide": {"monotone_constraints": (1, -1, 0, 0), **LOSSGUIDE},
    "all, regularised": {"monotone_constraints": (1, 1, -1, 1), "alpha": 1.0, "lambda": 0.5},
    "bounded steps": {"monotone_constraints": (1, -1), "max_delta_step": 0.3},
    "pairs": {"interaction_constraints": "[[0, 1], [2, 3]]"},
    "overlapping": {"interaction_constraints": "[[0, 1], [1, 2]]"},
    "both": {"interaction_constraints": "[[0, 1]]", "monotone_constraints": (-1, 0, 1)},
}


def make_data(n_rows, missing, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 4)), 1).astype(np.float32)
    y = X[:, 0] - np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 0] + 0.5 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y.astype(np.float32)


def trees_of(booster):
    return json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]


def check_equal(X, y, params, **options):
    params = {"max_depth": 5, "nthread": 2, **params}
    own, peer = arboost.DMatrix(X, y, **options), xgboost.DMatrix(X, y, **options)
    ours, theirs = arboost.train(params, own, 5), xgboost.train({**params, "tree_method": "hist"}, peer, 5)
    for a, b in zip(trees_of(ours), trees_of(theirs), strict=True):
        for field in FIELDS:
            assert a[field] == b[field], field
    np.testing.assert_allclose(ours.predict(own), theirs.predict(peer), atol=2e-6)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("case", CONSTRAINTS)
def test_the_trees_are_xgboosts(case, missing):
    X, y = make_data(800, missing)
    check_equal(X, y, CONSTRAINTS[case])
    X, y = make_data(3000, missing, seed=1)
    check_equal(X, (y > 0).astype(np.float32), {**CONSTRAINTS[case], "objective": "binary:logistic"})


@pytest.mark.parametrize("direction", [1, -1])
def test_beside_categories(direction):
    X, y = make_data(1500, 0.1)
    X[:, 1] = np.abs(np.round(X[:, 1] * 5)) % 12
    options = {"feature_types": ["q", "c", "q", "q"], "enable_categorical": True}
    check_equal(X, y, {"monotone_constraints": (direction, 0, 0, 0)}, **options)


def test_by_name():
    X, y = make_data(500, 0.0)
    data = arboost.DMatrix(X, y, feature_names=["a", "b", "c", "d"])
    named = arboost.train({"monotone_constraints": {"c": -1, "a": 1}, "interaction_constraints": [["a", "c"]]}, data, 3)
    numbered = arboost.train({"monotone_constraints": (1, 0, -1), "interaction_constraints": [[0, 2]]}, data, 3)
    assert named.save_raw() == numbered.save_raw()


def test_the_same_bytes_for_any_number_of_threads():
    X, y = make_data(30_000, 0.1)
    params = {"monotone_constraints": (1, -1), "interaction_constraints": "[[0, 1], [2, 3]]", "subsample": 0.7}
    data = arboost.DMatrix(X, y)
    models = [arboost.train({**params, "nthread": n}, data, 4).save_raw() for n in (1, 2, 3, 8)]
    assert all(model == models[0] for model in models)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, -1]), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_never_violated(seed, direction, lossguide, missing):
    """On any data, whatever the other features: over a dense grid, the missing value aside, predictions keep order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 200))
    X = np.round(rng.normal(size=(n, 3)), int(rng.integers(0, 3))).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    y = rng.normal(size=n).astype(np.float32) * 10.0 ** float(rng.integers(-2, 3))
    params = {"monotone_constraints": (direction, 0, 0), "min_child_weight": 0, "lambda": 0.1, "max_depth": 6}
    booster = arboost.train(params | (LOSSGUIDE if lossguide else {}), arboost.DMatrix(X, y), 8)
    grid = np.sort(np.append(np.linspace(-4, 4, 61), np.unique(X[:, 0][~np.isnan(X[:, 0])])))
    for other in X[rng.integers(0, n, 8), 1:]:
        rows = np.column_stack([grid, np.tile(other, (len(grid), 1))]).astype(np.float32)
        steps = np.diff(booster.inplace_predict(rows).astype(np.float64))
        assert (direction * steps >= -1e-6 * (1 + np.abs(y).max())).all()


def test_paths_keep_to_their_sets():
    X, y = make_data(2000, 0.1)
    groups = [{0, 1}, {1, 2}]
    booster = arboost.train({"interaction_constraints": [[0, 1], [1, 2]], "max_depth": 6}, arboost.DMatrix(X, y), 10)

    def walk(tree, node, path):
        if tree["left_children"][node] < 0:
            assert len(path) <= 1 or any(path <= group for group in groups)
            return
        for child in (tree["left_children"][node], tree["right_children"][node]):
            walk(tree, child, path | {tree["split_indices"][node]})

    for tree in trees_of(booster):
        walk(tree, 0, set())


@pytest.mark.parametrize("value", [[], (), "[]", [[]], "[[]]", "", " "])
def test_no_sets(value):
    """No set: every feature goes alone. No text: no constraint (of a blank XGBoost cannot make sense)."""
    X, y = make_data(500, 0.0)
    ours, theirs = (
        library.train({"interaction_constraints": given, "max_depth": 3}, library.DMatrix(X, y), 2)
        for library, given in ((arboost, value), (xgboost, value.strip() if isinstance(value, str) else value))
    )
    np.testing.assert_allclose(
        ours.predict(arboost.DMatrix(X)), theirs.predict(xgboost.DMatrix(X)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"monotone_constraints": (1, 0, 0, 0, 1)}, "less or equal to the number of features"),
        ({"monotone_constraints": {"nobody": 1}}, "not a subset"),
        ({"monotone_constraints": (0.5, 0)}, "monotone_constraints"),
        ({"monotone_constraints": "up"}, "monotone_constraints"),
        ({"interaction_constraints": [[0, 9]]}, "not a subset"),
        ({"interaction_constraints": [["nobody"]]}, "not a subset"),
        ({"interaction_constraints": "[[0, 1"}, "interaction_constraints"),
        ({"interaction_constraints": [0, 1]}, "list of lists"),
        ({"interaction_constraints": "()"}, "interaction_constraints"),
        ({"interaction_constraints": "7"}, "list of lists"),
    ],
)
def test_impossible_constraints(params, message):
    X, y = make_data(50, 0.0)
    with pytest.raises(arboost.core.XGBoostError, match=message):
        arboost.train(params, arboost.DMatrix(X, y), 1)
