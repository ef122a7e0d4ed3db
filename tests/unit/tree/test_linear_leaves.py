"""The fit of linear leaves against a plain ridge regression, and where it must leave a leaf alone."""

import numpy as np
import pytest

import arboost
from arboost.core import XGBoostError
from arboost.kernels.dtypes import LINEAR_TERM
from naive_linear import fit_tree, leaves_of, values_of

RNG = np.random.default_rng(3)
X = RNG.normal(size=(1500, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
Z = np.nan_to_num(X)
Y = (np.sin(2 * Z[:, 0]) + Z[:, 1] * (Z[:, 2] > 0) + 0.3 * Z[:, 3]).astype(np.float32)
LINEAR = {"linear_leaves": True, "max_depth": 3, "nthread": 2}


def train(params, y=Y, X=X, rounds=1, **fields):
    return arboost.train(LINEAR | params, arboost.DMatrix(X, y, **fields), rounds)


def trees_of(booster):
    return booster._learner.model.trees


def gradients(objective, booster, y, weight=1.0):
    """g and h at the margins that the first tree was grown at."""
    start = booster._learner.base_margin()[0]
    if objective == "reg:squarederror":
        return (start - y) * weight, np.ones_like(y) * weight
    p = 1 / (1 + np.exp(-start))
    return (p - y) * weight, np.full_like(y, p * (1 - p)) * weight


@pytest.mark.parametrize("method", ["hist", "exact", "approx"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_fit_is_a_ridge_regression(objective, weighted, method):
    weight = RNG.random(len(Y)).astype(np.float32) + 0.1 if weighted else np.ones(len(Y), np.float32)
    y = Y if objective == "reg:squarederror" else (Y > 0).astype(np.float32)
    params = {"objective": objective, "linear_lambda": 2.5, "eta": 0.4, "tree_method": method}
    booster = train(params, y, weight=weight)
    (tree,) = trees_of(booster)
    g, h = gradients(objective, booster, y, weight)
    expected = fit_tree(tree, X, g, h, 2.5, 0.4)
    assert len(expected) >= 5
    got = {}
    for node, feature, *numbers in tree.terms.tolist():
        got.setdefault(node, {})[feature] = numbers
    assert got.keys() == expected.keys()
    for leaf, terms in expected.items():
        assert got[leaf].keys() == terms.keys()
        for feature, numbers in terms.items():
            np.testing.assert_allclose(got[leaf][feature], numbers, rtol=2e-4, atol=2e-5)


def test_values_and_kept_margins():
    booster = train({}, rounds=4)
    data = arboost.DMatrix(X)
    for r, tree in enumerate(trees_of(booster)):
        with_tree, without = (booster[: r + 1], booster[:r] if r else None)
        before = without.predict(data, output_margin=True) if r else booster._learner.base_margin()[0]
        added = with_tree.predict(data, output_margin=True)
        np.testing.assert_array_equal(added, (before + values_of(tree, X)).astype(np.float32))


def test_constants_are_those_of_the_same_tree_without_linear_parts():
    """The first tree's splits and weights do not know of the terms."""
    plain, linear = trees_of(train({"linear_leaves": False}))[0], trees_of(train({}))[0]
    assert not plain.is_linear
    assert linear.is_linear
    for name in ("left", "feature", "threshold", "cover", "base_weight", "gain"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(linear, name))


def test_sampled_rows_alone_are_fitted():
    booster = train({"subsample": 0.3, "max_depth": 2})
    (tree,) = trees_of(booster)
    everybody = fit_tree(tree, X, *gradients("reg:squarederror", booster, Y), 1.0, 0.3)
    ends = np.array([everybody[node][feature][2:] for node, feature in tree.terms[["node", "feature"]].tolist()])
    assert (tree.terms["low"] >= ends[:, 0]).all()
    assert (tree.terms["high"] <= ends[:, 1]).all()
    assert (tree.terms["high"] < ends[:, 1]).any()


def test_a_linear_function_is_found_at_once():
    y = (2 * Z[:, 0] - 3).astype(np.float32)
    whole = np.where(np.isnan(X), 0, X).astype(np.float32)
    booster = train({"eta": 1.0, "max_depth": 1, "linear_lambda": 0, "lambda": 0}, y, whole)
    assert np.abs(booster.predict(arboost.DMatrix(whole)) - y).max() < 1e-5


def test_beyond_the_rows_of_a_leaf_its_value_stays():
    whole = Z.astype(np.float32)
    booster = train({"max_depth": 1}, 5 * Z[:, 0], whole)
    far = np.zeros((4, 4), np.float32)
    far[:, 0] = [whole[:, 0].min(), -1e30, whole[:, 0].max(), 1e30]
    low, lower, high, higher = booster.predict(arboost.DMatrix(far))
    assert low == lower
    assert high == higher


def test_what_says_nothing_has_no_weight():
    """Constant and repeated features, and leaves of few rows."""
    x = RNG.normal(size=400).astype(np.float32)
    table = np.column_stack([x, x, np.ones(400)]).astype(np.float32)
    booster = train({"max_depth": 4, "linear_lambda": 0, "colsample_bynode": 0.7}, np.sin(3 * x), table, rounds=5)
    for tree in trees_of(booster):
        assert not (tree.terms["feature"] == 2).any()
        rows = np.bincount(leaves_of(tree, table), minlength=tree.n_nodes)
        assert (rows[tree.terms["node"]] >= 4).all()
        assert np.abs(tree.terms["weight"]).max() < 20  # two of the same share no huge weights
    assert not trees_of(train({"max_depth": 3}, Y[:3], X[:3]))[0].is_linear


def test_values_stay_within_the_largest_step():
    reach = {}
    for limit in (0.0, 1.2):
        (tree,) = trees_of(train({"max_delta_step": limit, "eta": 1.0, "max_depth": 2}, 2 * Z[:, 0]))
        assert tree.is_linear
        reach[limit] = np.abs(values_of(tree, X)).max()
    assert reach[0.0] > 1.3
    assert reach[1.2] <= 1.2 * (1 + 1e-6)


def test_loss_falls_at_least_as_far_as_with_constants():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(300, 3)).astype(np.float32) ** 3
        y = rng.normal(size=300) + table[:, 0] * (seed % 2)
        loss = {}
        for linear in (False, True):
            booster = train({"linear_leaves": linear, "eta": 1.0, "max_depth": 4}, y, table)
            loss[linear] = np.mean((booster.predict(arboost.DMatrix(table)) - y) ** 2)
        assert loss[True] <= loss[False]


def test_categories_are_in_no_term():
    table = X.copy()
    table[:, 1] = RNG.integers(0, 12, len(X))
    y = Y + np.sin(table[:, 1])
    types = ["float", "c", "float", "float"]
    booster = arboost.train(LINEAR, arboost.DMatrix(table, y, feature_types=types), 5)
    used = np.concatenate([tree.feature[tree.left >= 0] for tree in trees_of(booster)])
    terms = np.concatenate([tree.terms for tree in trees_of(booster)])
    assert (used == 1).any()
    assert len(terms)
    assert not (terms["feature"] == 1).any()
    data = arboost.DMatrix(table, y, feature_types=types)
    parts = booster.predict(data, pred_contribs=True)
    np.testing.assert_allclose(parts.sum(axis=1), booster.predict(data), atol=1e-5)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"booster": "dart"}, "booster='dart'"),
        ({"boosting_type": "ordered"}, "boosting_type='ordered'"),
        ({"monotone_constraints": "(1)"}, "monotone_constraints"),
        ({"updater": "grow_histmaker,refresh"}, "updater='refresh'"),
        ({"objective": "reg:absoluteerror"}, "objective"),
        ({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, "objective"),
    ],
)
def test_what_linear_leaves_do_not_go_with(params, words):
    with pytest.raises(XGBoostError, match=rf"linear_leaves.*{words}"):
        train(params)


def test_no_vectors_in_linear_leaves():
    with pytest.raises(XGBoostError, match=r"linear_leaves.*multi_output_tree"):
        train({"multi_strategy": "multi_output_tree"}, np.column_stack([Y, -Y]))


def test_bins_are_not_enough():
    bins = arboost.QuantileDMatrix(X, Y)
    with pytest.raises(XGBoostError, match=r"linear_leaves.*QuantileDMatrix"):
        arboost.train(LINEAR, bins, 1)
    with pytest.raises(XGBoostError, match=r"linear leaves.*QuantileDMatrix"):
        train({}).predict(bins)
    with pytest.raises(XGBoostError, match=r"linear leaves.*QuantileDMatrix"):
        train({}).predict(bins, pred_contribs=True)


def test_old_trees_are_neither_updated_nor_dropped():
    booster, data = train({}), arboost.DMatrix(X, Y)
    with pytest.raises(XGBoostError, match=r"linear_leaves.*cannot be updated"):
        arboost.train({"process_type": "update", "updater": "refresh"}, data, 1, xgb_model=booster)
    with pytest.raises(XGBoostError, match=r"linear_leaves.*dart"):
        arboost.train({"booster": "dart"}, data, 1, xgb_model=booster)


@pytest.mark.parametrize("export", ["to_python", "to_onnx", "to_shap"])
def test_exports_refuse_linear_leaves(export):
    with pytest.raises(XGBoostError, match="linear_leaves"):
        getattr(train({}), export)()


def test_alias_and_estimator():
    by_alias = train({"linear_leaves": None, "linear_tree": True}, rounds=3)
    assert by_alias.save_raw() == train({}, rounds=3).save_raw()
    model = arboost.XGBRegressor(linear_leaves=True, n_estimators=3, max_depth=3).fit(X, Y, eval_set=[(X, Y)])
    np.testing.assert_array_equal(model.predict(X), by_alias.predict(arboost.DMatrix(X)))
    assert LINEAR_TERM.names[0] == "node"
