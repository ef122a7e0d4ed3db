"""Trees of weighted targets: thresholds midway, rows that a tree has not seen, draws of features."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import arboost
from arboost.ensemble import DecisionTreeRegressor
from arboost.ensemble.growing import Limits, TreeBuilder, count_features, find_leaves
from arboost.runtime.context import Context

RNG = np.random.default_rng(4)
X = RNG.normal(size=(300, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=300)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("max_bin", [16, 301], ids=["bins", "midway"])
def test_rows_that_were_not_seen_are_predicted_as_by_the_model(n_targets, max_bin):
    data = arboost.DMatrix(X)
    builder = TreeBuilder(Context(), data, Limits(max_bin=max_bin, min_leaf=3), n_targets)
    weight = RNG.integers(0, 3, 300).astype(float)
    targets = np.stack([Y, -Y][:n_targets])
    made = builder.grow(targets, weight, 1)
    leaves = find_leaves(made.tree, X, np.arange(300))
    values = made.tree.vectors if n_targets == 2 else made.tree.threshold[:, None]
    np.testing.assert_array_equal(made.predict(300), values[leaves])
    for leaf in np.unique(leaves[weight > 0]):
        rows = (leaves == leaf) & (weight > 0)
        np.testing.assert_allclose(values[leaf, 0], np.average(Y[rows], weights=weight[rows]), rtol=1e-6)


def test_thresholds_lie_midway():
    tree = DecisionTreeRegressor(max_depth=1).fit(np.array([[1.0], [2.0], [5.0]]), [0.0, 0.0, 1.0]).tree_
    assert tree.threshold[0] == 3.5
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    tree = DecisionTreeRegressor().fit(np.array([[low], [high]]), [0.0, 1.0]).tree_
    assert low < tree.threshold[0] <= high


@pytest.mark.parametrize(
    "given, n", [(None, 50), ("sqrt", 7), ("log2", 5), (3, 3), (0.5, 25), (1.0, 50), (0.001, 1), (99, 50)]
)
def test_features_of_a_node(given, n):
    assert count_features(given, 50) == n


def test_every_node_draws_its_features():
    X = RNG.normal(size=(2000, 6))
    y = X.sum(axis=1)
    trees = [DecisionTreeRegressor(max_features=1, max_depth=3, random_state=seed).fit(X, y).tree_ for seed in range(8)]
    assert len({int(tree.feature[0]) for tree in trees}) > 2
    assert len(set(trees[0].feature[trees[0].left >= 0].tolist())) > 1
