"""Constraints on trees whose leaves a loss has set itself."""

import numpy as np
import pytest

import arboost
from arboost.tree.constraints import hold_monotone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = X[:, 0] + 2 * RNG.normal(size=300) + X[:, 1]


@pytest.mark.parametrize("objective", [{"objective": "reg:absoluteerror"}, {"quantile_alpha": [0.2, 0.7]}], ids=str)
@pytest.mark.parametrize("tree_method", ["hist", "exact", "approx", "local"])
@pytest.mark.parametrize("direction", [1, -1])
def test_medians_and_quantiles_push_one_way(objective, tree_method, direction):
    """Leaves are quantiles of residuals, found without regard to the constraint: they are clipped to it."""
    params = {"objective": "reg:quantileerror", **objective, "monotone_constraints": (direction, 0, 0), "nthread": 1}
    params |= (
        {"tree_method": "approx", "sketch_proposal": "local"}
        if tree_method == "local"
        else {"tree_method": tree_method}
    )
    data = arboost.DMatrix(X, direction * Y)
    model = arboost.train({**params, "max_depth": 6, "num_parallel_tree": 2}, data, 6)
    table = np.repeat(X[:20], 50, axis=0)
    table[:, 0] = np.tile(np.linspace(-3, 3, 50), 20)
    steps = np.diff(model.predict(arboost.DMatrix(table)).reshape(20, 50, -1), axis=1)
    assert (direction * steps).min() >= -1e-6
    np.testing.assert_allclose(
        model._learner.margins(data), model.predict(arboost.DMatrix(X)).reshape(300, -1), rtol=1e-5
    )


def test_trees_that_obey_stay_as_they_are():
    """Where the sides of a split do not overlap, nothing is clipped, though a leaf lies beyond the middle."""
    model = arboost.train({"max_depth": 3, "nthread": 1}, arboost.DMatrix(X, X[:, 0]), 1)
    tree = model._learner.model.trees[0]
    before = tree.threshold.copy()
    hold_monotone(tree, np.array([1, 0, 0]))
    np.testing.assert_array_equal(tree.threshold, before)
    hold_monotone(tree, np.array([-1, 0, 0]))
    assert len(np.unique(tree.threshold[tree.left < 0])) == 1
