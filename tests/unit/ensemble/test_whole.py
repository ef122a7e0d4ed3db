"""Trees of forests: rows that a tree has not seen, values of leaves and nodes, and what is left to the other engine."""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn", minversion="1.6")

import arboost
from arboost.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from arboost.ensemble.decision_tree import classification_task, regression_task
from arboost.ensemble.growing import Limits, find_leaves
from arboost.ensemble.whole import WholeTreeBuilder, can_grow_whole, value_ends
from arboost.runtime.context import Context

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
NUMBERS = np.nan_to_num(X[:, 0]) + RNG.normal(size=300)
WEIGHT = RNG.integers(0, 3, 300).astype(float)
TASKS = {
    "numbers": regression_task(NUMBERS, WEIGHT),
    "two": classification_task((NUMBERS > 0).astype(int), 2),
    "four": classification_task(np.digitize(NUMBERS, [-1, 0, 1]), 4),
}


@pytest.mark.parametrize("max_bin", [16, 301], ids=["bins", "midway"])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_every_row_is_predicted_as_by_the_model(task, extra, max_bin):
    data, task = arboost.DMatrix(X), TASKS[task]
    limits = Limits(max_bin=max_bin, min_leaf=3, extra=extra)
    page = data.binned(Context(n_threads=1), max_bin)
    made = WholeTreeBuilder(data, limits, task, page, value_ends(data) if extra else None).grow(WEIGHT, 1)
    tree, leaves = made.tree, find_leaves(made.tree, X, np.arange(300))
    values = tree.vectors if tree.has_vectors else tree.threshold[:, None]
    np.testing.assert_array_equal(made.predict(300), values[leaves])
    total = tree.cover / max(1, values.shape[1])
    assert total[0] == WEIGHT.sum()
    for leaf in np.unique(leaves[WEIGHT > 0]):
        rows = (leaves == leaf) & (WEIGHT > 0)
        expected = np.average(task.targets[:, rows], axis=1, weights=WEIGHT[rows])
        np.testing.assert_allclose(values[leaf], expected, rtol=1e-6, atol=1e-7)
        assert total[leaf] == WEIGHT[rows].sum()
    inner = tree.left >= 0
    below = tree.base_weight.reshape(len(total), -1) * total[:, None]
    np.testing.assert_allclose(below[inner], (below[tree.left] + below[tree.right])[inner], rtol=1e-5, atol=1e-4)
    assert (tree.gain[~inner] == 0).all()


def test_ends_of_values():
    low, high = value_ends(arboost.DMatrix(np.array([[1.0, np.nan], [np.nan, np.nan], [-2.0, np.nan]])))
    np.testing.assert_array_equal(low, [-2, np.nan])
    np.testing.assert_array_equal(high, [1, np.nan])


def test_what_is_left_to_the_other_engine():
    dense, sparse = arboost.DMatrix(X), arboost.DMatrix(sp.csr_matrix(np.nan_to_num(X)))
    of_kinds = arboost.DMatrix(np.ones((300, 1)), feature_types=["c"], enable_categorical=True)
    both = regression_task(np.column_stack([NUMBERS, NUMBERS]), WEIGHT)
    assert all(can_grow_whole(dense, task, Limits()) for task in TASKS.values())
    assert [can_grow_whole(sparse, task, Limits()) for task in TASKS.values()] == [False, False, True]
    assert can_grow_whole(sparse, TASKS["two"], Limits(extra=True))
    assert not can_grow_whole(of_kinds, TASKS["two"], Limits())
    assert not can_grow_whole(dense, both, Limits())


def test_sparse_rows_give_forests_too():
    whole = np.where(RNG.random((300, 5)) < 0.5, 0, RNG.normal(size=(300, 5))).astype(np.float32)
    y = (whole[:, 0] + whole[:, 1] > 0).astype(int) + (whole[:, 2] > 0.5)
    for kind, labels in ((RandomForestClassifier, y > 0), (RandomForestClassifier, y), (ExtraTreesClassifier, y)):
        assert kind(n_estimators=10).fit(sp.csr_matrix(whole), labels).score(sp.csr_matrix(whole), labels) > 0.9
    assert RandomForestRegressor(n_estimators=10).fit(sp.csr_matrix(whole), y).score(sp.csr_matrix(whole), y) > 0.7


def test_a_split_need_not_gain():
    """Neither feature alone tells anything of their exclusive or; both together tell all."""
    table = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32).repeat(5, axis=0)
    y = table[:, 0] != table[:, 1]
    forest = RandomForestClassifier(n_estimators=3, bootstrap=False, max_features=None).fit(table, y)
    np.testing.assert_array_equal(forest.predict(table), y)
