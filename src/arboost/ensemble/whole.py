"""Trees of forests: each grown by one thread in one call, on plain features.

What has categories is left to `growing.py`, whose engine has a search for them, and so is sparse data of two classes or
one number, of which it makes no columns, and several numbers at once.
"""

from dataclasses import dataclass

import numpy as np

from arboost.ensemble.decision_tree import Task
from arboost.ensemble.growing import Limits, center_thresholds, dense_values, find_leaves
from arboost.levels.whole import Labels, WholeRules, WholeTree, WholeTreeEngine
from arboost.matrix.adapt import SparseData
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.page import BinnedPage
from arboost.tree.model import NO_PARENT, NO_THRESHOLD, Tree


def can_grow_whole(data: DMatrix, task: Task, limits: Limits) -> bool:
    """Whether a `WholeTreeBuilder` takes this."""
    has_columns = not isinstance(data.raw, SparseData) or len(task.base) > 1 or limits.extra
    return has_columns and "c" not in (data.feature_types or ()) and (task.codes is not None or len(task.base) == 1)


def value_ends(data: DMatrix) -> np.ndarray:
    """(2, n_features) float32: the least and the largest value of every feature, NaN where it has none."""
    ends = np.full((2, data.num_col()), np.nan, np.float32)
    for _, values in data.chunks():
        ends[0] = np.fmin(ends[0], np.fmin.reduce(values))
        ends[1] = np.fmax(ends[1], np.fmax.reduce(values))
    return ends


class WholeTreeBuilder:
    """Grows trees on one matrix, one after the other, in the calling thread.

    Parameters
    ----------
    data, limits, task
        The features, when trees stop, what they are to learn.
    page
        The features as bins, a column each.
    ends
        See `WholeTreeEngine`: `value_ends(data)` for trees that draw their thresholds.
    """

    def __init__(self, data: DMatrix, limits: Limits, task: Task, page: BinnedPage, ends: np.ndarray | None):
        self._task, self._limits, self._n_features = task, limits, data.num_col()
        if task.codes is not None:
            labels = Labels.of_classes(task.codes, task.n_classes)
        else:
            labels = Labels.of_numbers(task.targets[0])
        self._engine = WholeTreeEngine(page, labels, ends)
        # thresholds that are drawn are not moved midway
        self._values = dense_values(data) if limits.max_bin > data.num_row() and not limits.extra else None
        self._no_column = np.zeros(data.num_row(), np.int32)

    def grow(self, weight: np.ndarray, key: int) -> "GrownWhole":
        """A tree on the rows that have a weight; its leaves hold means."""
        grown = self._engine.grow(weight, self._rules(weight), key)
        tree = self._make_tree(grown, self._means(grown, weight))
        if self._values is not None:
            center_thresholds(tree, self._values, grown.rows)
        return GrownWhole(tree, grown, self._engine, self._values)

    def _rules(self, weight: np.ndarray) -> WholeRules:
        limits, total = self._limits, float(weight.sum())
        least_split, least_leaf = limits.weights(total / np.count_nonzero(weight), total)
        return WholeRules(
            max_depth=limits.max_depth,
            max_leaves=limits.max_leaves,
            least_split=least_split,
            least_leaf=least_leaf,
            least_gain=limits.min_decrease * total / self._task.impurity,
            n_drawn=limits.n_features,
        )

    def _means(self, grown: WholeTree, weight: np.ndarray) -> np.ndarray:
        """(n_nodes, K) float32: what nodes weigh as leaves."""
        task = self._task
        if task.codes is not None:
            sums = grown.sums(task.codes, weight, max(2, task.n_classes))
            shares = sums / sums.sum(axis=1, keepdims=True)
            return (shares if task.n_classes > 2 else shares[:, 1:]).astype(np.float32)
        sums, total = (grown.sums(self._no_column, values, 1) for values in (weight * task.targets[0], weight))
        return (sums / total).astype(np.float32)

    def _make_tree(self, grown: WholeTree, means: np.ndarray) -> Tree:
        nodes, n_targets = grown.nodes, means.shape[1]
        left, parent = nodes["left"].copy(), nodes["parent"].copy()
        is_leaf = left < 0
        parent[0] = NO_PARENT
        threshold = np.where(is_leaf, NO_THRESHOLD if n_targets > 1 else means[:, 0], self._engine.thresholds(nodes))
        tree = Tree(
            left,
            nodes["right"].copy(),
            parent,
            np.where(is_leaf, 0, nodes["feature"]).astype(np.int32),
            threshold.astype(np.float32),
            np.where(is_leaf, 0, nodes["default_left"]).astype(np.uint8),
            np.where(is_leaf, 0.0, nodes["gain"] * grown.gain_unit).astype(np.float32),
            (nodes["h"] * (grown.weight_unit * n_targets)).astype(np.float32),
            means if n_targets > 1 else means[:, 0],
            self._n_features,
        )
        if n_targets > 1:
            tree.vectors = np.where(is_leaf[:, None], means, np.float32(0.0))
        return tree


@dataclass
class GrownWhole:
    """A tree, and where rows of its data end in it."""

    tree: Tree
    grown: WholeTree
    engine: WholeTreeEngine
    values: np.ndarray | None  # of all rows, where thresholds have been moved

    def predict(self, n_rows: int) -> np.ndarray:
        """(n, K) float32: the tree's prediction for every row of the data, seen or not."""
        tree, rows = self.tree, np.arange(n_rows, dtype=np.int32)
        if self.values is not None:  # rows that were not seen may lie between a bin's end and the threshold
            leaves = find_leaves(tree, self.values, rows)
        else:
            leaves = self.engine.find_leaves(self.grown, rows)
        return tree.vectors[leaves] if tree.has_vectors else tree.threshold[leaves][:, None]
