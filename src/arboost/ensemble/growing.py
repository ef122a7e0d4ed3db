"""One tree at a time, by least squares of weighted targets: what forests, AdaBoost and classic boosting are made of.

Variance is the impurity. Of one-hot classes it is Gini's (of two classes one column says it all, and is half of it).
Targets are (K, n) float64. They are scaled by a power of two on their way to the engine, whose splits must gain 1e-6,
and so are weights. Leaves are means of the rows that a tree has seen, in float64 and in the order of rows, so that
they depend neither on threads nor on how gradients are packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, frexp, log2, sqrt
from typing import Any

import numpy as np

from arboost.kernels.dtypes import FEW_ROWS
from arboost.levels.base import Rules
from arboost.levels.histogram import AGAIN_ROWS, HistogramEngine
from arboost.levels.quantize import QuantizedGradients, quantize
from arboost.levels.vectors import VectorGradients, quantize_targets
from arboost.matrix.cuts import MAX_BIN_LIMIT
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams, resolve
from arboost.runtime.context import Context
from arboost.tree.grow import GrownTree
from arboost.tree.growers import HistogramGrower
from arboost.tree.model import Tree
from arboost.tree.update import levels

EXACT_ROWS = 10_000  # up to here every value is a candidate, and thresholds lie midway between two rows, ...
EXACT_CELLS = 1 << 25  # ... if the values of all rows may be looked up in one array
DEFAULT_BINS = 256
_PURE = 1e-6  # a class of less share than this is rounding
_SCALED_BITS = 6  # targets are scaled to about 2**5 .. 2**6: gains of 1e-6 are noise then, and so are smaller ones


@dataclass(frozen=True)
class Limits:
    """When a tree stops growing. Counts of rows are of rows of the mean weight."""

    max_depth: int = 0  # 0: no limit
    max_leaves: int = 0
    min_split: float = 2.0  # rows of a node that may be split
    min_leaf: float = 1.0  # rows of a leaf
    min_leaf_share: float = 0.0  # of all weight
    min_decrease: float = 0.0  # of the impurity, as scikit-learn counts it
    n_features: int = 0  # drawn for every node; 0: all
    max_bin: int = DEFAULT_BINS
    extra: bool = False  # whether one candidate of every feature is drawn, instead of looking at all

    def weights(self, row: float, total: float) -> tuple[float, float]:
        """Least weights of a node that is split and of a leaf, where rows weigh `row` on average; 0: any."""
        # one row is in every leaf anyway: weights may be unequal
        leaf = max(self.min_leaf * row if self.min_leaf > 1 else 0.0, self.min_leaf_share * total)
        split = self.min_split * row if self.min_split > 2 else 0.0
        return split * (1 - 1e-6), leaf * (1 - 1e-6)


def read_limits(estimator: Any, data: DMatrix, default_bins: int | None = None) -> Limits:
    """The limits that an estimator's parameters, named as scikit-learn's, set for trees on `data`."""
    n_rows = data.num_row()
    max_bin = getattr(estimator, "max_bin", None)
    if max_bin is None:
        max_bin = default_bins or (max(DEFAULT_BINS, n_rows + 1) if n_rows <= EXACT_ROWS else DEFAULT_BINS)
    n_features = count_features(estimator.max_features, data.num_col())
    return Limits(
        max_depth=_count("max_depth", estimator.max_depth, 1, none=0),
        max_leaves=_count("max_leaf_nodes", estimator.max_leaf_nodes, 2, none=0),
        min_split=_rows("min_samples_split", estimator.min_samples_split, 2, n_rows),
        min_leaf=_rows("min_samples_leaf", estimator.min_samples_leaf, 1, n_rows),
        min_leaf_share=_number("min_weight_fraction_leaf", estimator.min_weight_fraction_leaf, 0.0, 0.5),
        min_decrease=_number("min_impurity_decrease", estimator.min_impurity_decrease, 0.0, np.inf),
        n_features=0 if n_features == data.num_col() else n_features,
        max_bin=min(_count("max_bin", max_bin, 2, none=0), MAX_BIN_LIMIT),
    )


def _count(name: str, value: Any, lower: int, none: int) -> int:
    if value is None:
        return none
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lower:
        raise ValueError(f"{name} must be a whole number of at least {lower}, or None, got {value!r}.")
    return int(value)


def _number(name: str, value: Any, lower: float, upper: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not lower <= value <= upper:
        raise ValueError(f"{name} must be a number from {lower} to {upper}, got {value!r}.")
    return float(value)


def _rows(name: str, value: Any, lower: int, n_rows: int) -> float:
    """A number of rows: itself, or a share of all."""
    if isinstance(value, float | np.floating) and not isinstance(value, bool):
        if not 0.0 < value <= 1.0:
            raise ValueError(f"{name} must be a whole number of at least {lower} or a share up to 1.0, got {value!r}.")
        return float(max(lower, ceil(value * n_rows)))
    return float(_count(name, value, lower, none=lower))


def count_features(max_features: Any, n_features: int) -> int:
    """How many features a node may use."""
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        if max_features not in ("sqrt", "log2"):
            raise ValueError(f"max_features must be 'sqrt', 'log2', a number or None, got {max_features!r}.")
        return max(1, int(sqrt(n_features) if max_features == "sqrt" else log2(n_features)))
    if isinstance(max_features, float | np.floating):
        return max(1, int(_number("max_features", max_features, 0.0, 1.0) * n_features))
    return min(_count("max_features", max_features, 1, none=n_features), n_features)


class _Grower(HistogramGrower):
    """The growth loop, which does not split nodes of little weight."""

    min_split = 0.0

    @property
    def _engine_in_memory(self) -> HistogramEngine:
        assert isinstance(self._histograms, HistogramEngine)  # forests are grown on arrays
        return self._histograms

    def search_on(self, one: float | None) -> None:
        """Look at further features where those drawn do not part a node, if something could.

        Far from the root most features of a node have one value, above all those that are 0 or 1. `one`: all targets
        are 0 or this, so that means tell whether a node is pure.
        """

        def is_impure(ids: np.ndarray) -> np.ndarray:
            if one is None:
                return np.ones(len(ids), np.bool_)
            share = self._engine_in_memory.node_means(ids) / one
            return np.any((share > _PURE) & (share < 1.0 - _PURE), axis=1, keepdims=True)[:, 0]

        self._engine_in_memory.worth_more = is_impure

    def search_by_rows(self, few_rows: int) -> None:
        """Search nodes of up to so many rows by these, without a histogram."""
        self._engine_in_memory.few_rows = few_rows

    def _rules(self, gradients: QuantizedGradients) -> Rules:
        rules = super()._rules(gradients)
        if isinstance(gradients, VectorGradients):
            least_leaf = self._params.min_child_weight
            # of the kernels of vectors: whether light children forbid a split, and how heavy their parent must be
            return rules._replace(reg=np.append(rules.reg, [least_leaf > 0, max(self.min_split, 2 * least_leaf)]))
        least = ceil(min(self.min_split / gradients.h_unit, 2.0**62))
        return rules._replace(least_h=max(rules.least_h, least))


class TreeBuilder:
    """Grows trees on one matrix, one after the other.

    Parameters
    ----------
    ctx
        Threads.
    data
        The features.
    limits
        When trees stop.
    n_targets
        Columns of the targets; more than one are vectors in the leaves.
    pages
        The features as bins, if they have been made before: `make_pages`.
    of_classes
        Whether all targets are 0 or 1.
    """

    def __init__(
        self,
        ctx: Context,
        data: DMatrix,
        limits: Limits,
        n_targets: int = 1,
        pages: Sequence[BinnedPage] | None = None,
        of_classes: bool = False,
    ):
        self._ctx, self._limits, self.n_rows, self.n_targets = ctx, limits, data.num_row(), n_targets
        self._params = _tree_params(limits, data.num_col())
        pages = make_pages(ctx, data, limits, n_targets) if pages is None else pages
        self._grower = _Grower(ctx, pages, self._params, None, data.feature_names, n_targets if n_targets > 1 else 0)
        if limits.n_features:  # looking at rows pays for more of them where fewer features are looked at
            self._grower.search_by_rows(min(AGAIN_ROWS, FEW_ROWS * data.num_col() // limits.n_features))
        self._of_classes = of_classes
        self._packed = np.empty((n_targets, self.n_rows), np.int64)
        self._values = dense_values(data) if limits.max_bin > self.n_rows else None

    def grow(self, targets: np.ndarray, weight: np.ndarray, key: int, impurity: float = 1.0) -> "GrownOnRows":
        """A tree of `targets` (K, n) on the rows that have a weight; its leaves hold means.

        `impurity`: how many times the variance the impurity is that `min_impurity_decrease` speaks of.
        """
        chosen = np.flatnonzero(weight > 0).astype(np.int32)
        seen = targets if len(chosen) == self.n_rows else targets[:, chosen]
        mean = float(weight.sum()) / len(chosen)
        unit, scale = _power_of_two(mean, 1), 1.0 / _power_of_two(sqrt(float(np.square(seen).mean())), _SCALED_BITS)
        self._set_limits(mean / unit, len(chosen), scale * scale / impurity)
        h = (weight / unit).astype(np.float32)
        g = (targets * (weight * (-scale / unit))).astype(np.float32)
        if self.n_targets > 1:
            gradients: QuantizedGradients = quantize_targets(
                self._ctx, g, np.broadcast_to(h, g.shape).copy(), self._packed
            )
        else:
            gradients = quantize(self._ctx, g[0], h, self._packed[0])
        self._grower.search_on(scale if self._of_classes else None)
        sampled = None if len(chosen) == self.n_rows else chosen
        grown = self._grower.grow(gradients, sampled, key, partition_all=True)
        _rescale(grown.tree, scale, unit)
        made = GrownOnRows(grown, self._grower, *self._grower.leaf_rows(grown), self._values)
        made.set_leaves(made.leaf_means(targets, weight))
        if self._values is not None:
            center_thresholds(grown.tree, self._values, chosen)
        return made

    def _set_limits(self, row: float, n_rows: int, gain: float) -> None:
        """Tell the grower the limits in its own units: `row` is the weight of a row, `gain` that of a decrease."""
        limits, total = self._limits, row * n_rows
        self._grower.min_split, least = limits.weights(row, total)
        gamma = limits.min_decrease * total * gain
        self._grower.set_params(self._params._replace(min_child_weight=least, gamma=gamma))


def _power_of_two(size: float, bits: int) -> float:
    """2**k with size / 2**k below 2**bits and not below half of that; 1 where there is no size."""
    return 2.0 ** (frexp(size)[1] - bits) if size > 0 else 1.0


def _tree_params(limits: Limits, n_features: int) -> TreeParams:
    n_drawn = limits.n_features or n_features
    given = {
        "eta": 1.0,
        "reg_lambda": 0.0,
        "max_depth": limits.max_depth,
        "max_leaves": limits.max_leaves,
        "grow_policy": "lossguide" if limits.max_leaves else "depthwise",
        "max_bin": limits.max_bin,
        "extra_trees": limits.extra,
        # so many features, however the engine rounds their share
        "colsample_bynode": 1.0 if n_drawn == n_features else (n_drawn + 0.5) / n_features,
    }
    return resolve(given, warn=False).tree


def make_pages(ctx: Context, data: DMatrix, limits: Limits, n_targets: int) -> Sequence[BinnedPage]:
    """The features as bins; trees with vectors in their leaves have no use for shared columns."""
    return data.pages(ctx, limits.max_bin, enable_bundle=n_targets == 1, keep_sparse=n_targets == 1)


def dense_values(data: DMatrix) -> np.ndarray | None:
    """All values, (n, n_features) float32, where they are few and all of them numbers; else None."""
    if data.num_row() * data.num_col() > EXACT_CELLS or "c" in (data.feature_types or ()):
        return None
    return np.concatenate([values.copy() for _, values in data.chunks()])


def _rescale(tree: Tree, scale: float, unit: float) -> None:
    """Give a tree of scaled targets and weights the statistics it would have without."""
    tree.base_weight = (tree.base_weight / scale).astype(np.float32)
    with np.errstate(over="ignore"):
        tree.gain = (tree.gain.astype(np.float64) * (unit / scale / scale)).astype(np.float32)
    tree.cover = (tree.cover * unit).astype(np.float32)


@dataclass
class GrownOnRows:
    """A tree, and which rows are in its leaves, until the next one is grown."""

    grown: GrownTree
    grower: HistogramGrower
    rows: np.ndarray  # that the tree has seen, one leaf after the other
    leaf_ptr: np.ndarray
    values: np.ndarray | None  # of all rows, where thresholds have been moved

    @property
    def tree(self) -> Tree:
        return self.grown.tree

    @property
    def leaf_of_rows(self) -> np.ndarray:
        """For each of `rows` the place of its leaf among `grown.leaves`."""
        return np.repeat(np.arange(len(self.leaf_ptr) - 1), np.diff(self.leaf_ptr))

    def leaf_sums(self, values: np.ndarray) -> np.ndarray:
        """(n_leaves,) sums of `values`, one for each of `rows`."""
        return np.bincount(self.leaf_of_rows, values, len(self.leaf_ptr) - 1)

    def leaf_means(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """(n_leaves, K) weighted means of the targets (K, n) in the leaves."""
        seen = weight[self.rows]
        total = self.leaf_sums(seen)
        return np.stack([self.leaf_sums(seen * target[self.rows]) / total for target in targets], axis=1)

    def node_sums(self, targets: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(weights (n_nodes,), weighted sums (n_nodes, K)) of the targets in every node."""
        seen, leaves = weight[self.rows], self.grown.leaves
        columns = [self.leaf_sums(seen), *(self.leaf_sums(seen * target[self.rows]) for target in targets)]
        sums = np.zeros((self.tree.n_nodes, len(columns)))
        sums[leaves] = np.stack(columns, axis=1)
        for nodes in reversed(levels(self.tree)[1:]):
            np.add.at(sums, self.tree.parent[nodes], sums[nodes])
        return sums[:, 0], sums[:, 1:]

    def set_leaves(self, values: np.ndarray) -> None:
        """Give the leaves values (n_leaves, K)."""
        tree, leaves = self.tree, self.grown.leaves
        if tree.has_vectors:
            tree.vectors[leaves] = tree.base_weight[leaves] = values
        else:
            tree.threshold[leaves] = tree.base_weight[leaves] = values[:, 0]

    def predict(self, n_rows: int) -> np.ndarray:
        """(n, K) float32: the tree's prediction for every row of the training data."""
        tree, found = self.tree, np.zeros((n_rows, self.tree.n_targets), np.float32)
        self.grower.add_weights(self.grown, found, 0)
        if self.values is not None and len(self.rows) < n_rows:
            # rows that the tree has not seen may lie between a bin's end and the threshold
            others = np.ones(n_rows, np.bool_)
            others[self.rows] = False
            leaves = find_leaves(tree, self.values, np.flatnonzero(others))
            found[others] = tree.vectors[leaves] if tree.has_vectors else tree.threshold[leaves][:, None]
        return found


def _step(tree: Tree, values: np.ndarray, rows: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values that the tests of inner nodes see, whether rows go left)."""
    x = values[rows, tree.feature[node]]
    return x, np.where(np.isnan(x), tree.default_left[node] == 1, x < tree.threshold[node])


def find_leaves(tree: Tree, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The leaves of rows, by thresholds."""
    node = np.zeros(len(rows), np.int64)
    while True:
        inner = np.flatnonzero(tree.left[node] >= 0)
        if not len(inner):
            return node
        _, goes_left = _step(tree, values, rows[inner], node[inner])
        node[inner] = np.where(goes_left, tree.left[node[inner]], tree.right[node[inner]])


def center_thresholds(tree: Tree, values: np.ndarray, rows: np.ndarray) -> None:
    """Move thresholds midway between the rows on either side; no row of `rows` changes sides."""
    highest, lowest = np.full(tree.n_nodes, -np.inf, np.float32), np.full(tree.n_nodes, np.inf, np.float32)
    node = np.zeros(len(rows), np.int64)
    while True:
        inner = tree.left[node] >= 0
        rows, node = rows[inner], node[inner]
        if not len(rows):
            break
        x, goes_left = _step(tree, values, rows, node)
        is_there = ~np.isnan(x)
        np.maximum.at(highest, node[goes_left & is_there], x[goes_left & is_there])
        np.minimum.at(lowest, node[~goes_left & is_there], x[~goes_left & is_there])
        node = np.where(goes_left, tree.left[node], tree.right[node])
    between = np.isfinite(highest) & np.isfinite(lowest) & (tree.left >= 0)
    below, above = highest[between], lowest[between]
    middle = ((below.astype(np.float64) + above) / 2).astype(np.float32)  # in float64, where no sum overflows
    tree.threshold[between] = np.where(middle > below, middle, above)  # of two neighbours there may be no middle
