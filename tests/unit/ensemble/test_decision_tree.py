"""A single tree against scikit-learn's, its limits, and cost-complexity pruning."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn.tree
from sklearn.datasets import load_iris

from arboost.ensemble import DecisionTreeClassifier, DecisionTreeRegressor
from arboost.ensemble.pruning import keep_above

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 5)).astype(np.float32)
NUMBERS = X[:, 0] * 3 + np.sin(4 * X[:, 1]) + 0.3 * RNG.normal(size=400)
CLASSES = np.digitize(NUMBERS, [-2, 1.5])
WEIGHT = RNG.integers(1, 4, 400).astype(float)
NEW = RNG.normal(size=(500, 5)).astype(np.float32)

LIMITS = [
    {"max_depth": 4},
    {"max_depth": 8, "min_samples_leaf": 7},
    {"max_depth": 8, "min_samples_split": 30, "min_samples_leaf": 4},
    {"max_depth": 6, "min_weight_fraction_leaf": 0.03},
    {"max_leaf_nodes": 9},
    {"max_depth": 6, "min_impurity_decrease": 0.01},
    {"max_depth": 5, "min_samples_leaf": 0.02},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("targets", [1, 2])
def test_regressor_is_scikit_learns(limits, targets):
    y = NUMBERS if targets == 1 else np.column_stack([NUMBERS, X[:, 2] ** 2])
    ours = DecisionTreeRegressor(**limits).fit(X, y)
    theirs = sklearn.tree.DecisionTreeRegressor(random_state=0, **limits).fit(X, y)
    assert ours.get_n_leaves() == theirs.get_n_leaves()
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-6, atol=1e-6)  # leaves are float32
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-6)


@pytest.mark.parametrize("limits", [LIMITS[i] for i in (0, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_is_scikit_learns(limits, n_classes):
    """Weights that are all different: counts of classes tie, and scikit-learn draws one of equal splits."""
    y, weight = np.array(["a", "b", "c"])[np.minimum(CLASSES, n_classes - 1)], 1 + RNG.random(400)
    ours = DecisionTreeClassifier(**limits).fit(X, y, sample_weight=weight)
    theirs = sklearn.tree.DecisionTreeClassifier(random_state=0, **limits).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(NEW), theirs.predict(NEW))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaves_and_splits_have_so_many_rows(n_classes):
    y = np.minimum(CLASSES, n_classes - 1)
    leaves = DecisionTreeClassifier(min_samples_leaf=9).fit(X, y)
    assert np.unique(leaves.apply(X), return_counts=True)[1].min() >= 9
    for least in (2, 60):
        tree = DecisionTreeClassifier(min_samples_split=least).fit(X, y).tree_
        assert tree.cover[tree.left >= 0].min() >= least
    assert tree.n_leaves > 3


def test_weights_are_repeated_rows():
    repeated = np.repeat(np.arange(400), WEIGHT.astype(int))
    for kind, y in ((DecisionTreeRegressor, NUMBERS), (DecisionTreeClassifier, CLASSES)):
        weighted = kind(max_depth=6).fit(X, y, sample_weight=WEIGHT)
        drawn = kind(max_depth=6).fit(X[repeated], y[repeated])
        np.testing.assert_allclose(weighted._margin(NEW), drawn._margin(NEW), atol=1e-6)


def test_small_and_large_targets_are_the_same_tree():
    """The engine refuses gains below 1e-6: targets must not reach it as they are."""
    trees = [DecisionTreeRegressor(max_depth=6).fit(X, NUMBERS * scale).tree_ for scale in (1.0, 2.0**-30, 2.0**40)]
    for tree in trees[1:]:
        np.testing.assert_array_equal(tree.feature, trees[0].feature)
        np.testing.assert_array_equal(tree.left, trees[0].left)


def test_weights_that_are_all_small_are_no_limit():
    whole, small = (DecisionTreeRegressor(max_depth=5).fit(X, NUMBERS, sample_weight=WEIGHT * w) for w in (1, 2.0**-40))
    np.testing.assert_array_equal(whole.predict(NEW), small.predict(NEW))


def test_missing_values_have_a_side():
    holes = X.copy()
    holes[RNG.random(X.shape) < 0.2] = np.nan
    ours = DecisionTreeRegressor(max_depth=5).fit(holes, NUMBERS)
    theirs = sklearn.tree.DecisionTreeRegressor(max_depth=5, random_state=0).fit(holes, NUMBERS)
    assert ours.score(holes, NUMBERS) == pytest.approx(theirs.score(holes, NUMBERS), abs=0.02)


@pytest.mark.parametrize(
    "ours, theirs, y",
    [
        (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor, NUMBERS),
        (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier, CLASSES),
        (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier, (CLASSES > 0).astype(int)),
    ],
)
@pytest.mark.parametrize("weight", [np.ones(400), 1 + RNG.random(400)], ids=["alike", "weighted"])
def test_pruning_path_is_scikit_learns(ours, theirs, y, weight):
    limits = {"max_depth": 3}
    path = ours(**limits).cost_complexity_pruning_path(X, y, sample_weight=weight)
    wanted = theirs(random_state=0, **limits).cost_complexity_pruning_path(X, y, sample_weight=weight)
    np.testing.assert_allclose(path.ccp_alphas, wanted.ccp_alphas, atol=1e-9)
    np.testing.assert_allclose(path.impurities, wanted.impurities, atol=1e-9)
    for alpha in (path.ccp_alphas[len(path.ccp_alphas) // 2] + 1e-9, path.ccp_alphas[-2] + 1e-9):
        pruned = ours(ccp_alpha=alpha, **limits).fit(X, y, sample_weight=weight)
        known = theirs(random_state=0, ccp_alpha=alpha, **limits).fit(X, y, sample_weight=weight)
        assert pruned.get_n_leaves() == known.get_n_leaves()
        np.testing.assert_allclose(pruned.predict(NEW), known.predict(NEW), rtol=1e-6)


def test_pruning_to_the_root_leaves_the_mean():
    root = DecisionTreeRegressor(ccp_alpha=1e6).fit(X, NUMBERS)
    assert root.get_n_leaves() == 1 and root.get_depth() == 0
    np.testing.assert_allclose(root.predict(NEW), NUMBERS.mean(), rtol=1e-6)


def test_pruned_trees_are_whole():
    """Numbers, links and files of a pruned tree are those of a tree that never was larger."""
    model = DecisionTreeClassifier(ccp_alpha=0.01).fit(*load_iris(return_X_y=True))
    tree = model.tree_
    inner = tree.left >= 0
    assert (tree.parent[tree.left[inner]] == np.flatnonzero(inner)).all()
    assert tree.n_nodes == 2 * tree.n_leaves - 1
    assert keep_above(tree, tree.left < 0).equals(tree)
    assert len(model.get_booster().save_raw()) > 0


@pytest.mark.parametrize(
    "params, message",
    [
        ({"criterion": "entropy"}, "criterion"),
        ({"max_depth": 0}, "max_depth"),
        ({"min_samples_leaf": 1.5}, "min_samples_leaf"),
        ({"max_features": "most"}, "max_features"),
        ({"ccp_alpha": -1.0}, "ccp_alpha"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes"),
        ({"min_impurity_decrease": -0.1}, "min_impurity_decrease"),
    ],
)
def test_parameters_are_checked_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        DecisionTreeClassifier(**params).fit(X, CLASSES)
