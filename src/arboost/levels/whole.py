"""Trees that one thread grows in one call, on rows with labels and weights that are small integers."""

from dataclasses import dataclass

import numpy as np

from arboost.kernels.cpu.grow import whole as ops
from arboost.kernels.dtypes import NODE
from arboost.matrix.page import BinnedPage

_WEIGHT_BITS = 30  # of all rows together: the square of their sum is an int64
_LABEL_BITS = 30
_ANY_SPLIT = 1  # quanta of a child: none has no weight


@dataclass(frozen=True)
class WholeRules:
    """When nodes are split. Weights and gains are in the units of the data."""

    max_depth: int = 0  # 0: no limit
    max_leaves: int = 0
    least_split: float = 0.0  # weight of a node that is split
    least_leaf: float = 0.0  # and of a leaf
    least_gain: float = 0.0
    n_drawn: int = 0  # features for every node; 0: all


@dataclass(frozen=True)
class Labels:
    """What rows are labelled with, as integers: classes, or numbers times 1 / unit."""

    values: np.ndarray  # (n,) int32
    unit: float
    n_classes: int = 0  # 0: numbers

    @staticmethod
    def of_classes(codes: np.ndarray, n_classes: int) -> "Labels":
        """Of two classes the share of one says everything, and is a number."""
        return Labels(codes.astype(np.int32), 1.0, n_classes if n_classes > 2 else 0)

    @staticmethod
    def of_numbers(values: np.ndarray) -> "Labels":
        largest = float(np.abs(values).max(initial=0.0))
        unit = np.ldexp(1.0, int(np.frexp(largest)[1]) - _LABEL_BITS) if largest > 0 else 1.0
        return Labels(np.rint(values / unit).astype(np.int32), float(unit))


@dataclass(frozen=True)
class WholeTree:
    """A tree, and the rows that it has seen."""

    nodes: np.ndarray  # NODE records, parents before their children; h in quanta of weight
    rows: np.ndarray  # those of node i are rows[nodes[i].start : nodes[i].stop]
    weight_unit: float
    gain_unit: float

    def sums(self, columns: np.ndarray, values: np.ndarray, n_columns: int) -> np.ndarray:
        """(n_nodes, n_columns) float64: the sums of `values` (n,) of every node's rows, each in its row's column."""
        sums = np.zeros((len(self.nodes), n_columns))
        ops.sum_nodes(self.nodes, self.rows, columns, values, sums)
        return sums


class WholeTreeEngine:
    """Grows one tree after the other on a page with a column for every feature.

    Parameters
    ----------
    page
        The features as bins; none of them has categories.
    labels
        What is to be learnt.
    ends
        (2, n_features) float32, the least and the largest values of features: of each of them one cut alone is looked
        at, which is drawn. None: all are.
    """

    def __init__(self, page: BinnedPage, labels: Labels, ends: np.ndarray | None = None):
        assert page.bundles is None
        self._page, self._labels = page, labels
        cuts, n_codes, n_rows = page.cuts, int(page.missing_code) + 1, page.n_rows
        n_codes = n_codes if cuts.has_missing.any() else int(page.n_bins.max(initial=0)) + 1
        # where nothing is missing this code may be a bin
        self._columns = page.columns, np.where(cuts.has_missing, page.missing_code, -1).astype(np.int32)
        self._edges = () if ends is None else (cuts.ptr, cuts.values, *ends)
        sums, occupied = np.zeros((2, n_codes), np.int64), np.zeros(n_codes // 64 + 1, np.uint64)
        self._work = (np.empty(n_rows, np.int32), sums[0], sums[1], occupied, np.empty(n_codes + 1, np.int32))
        self._classes: tuple[np.ndarray, ...] = ()
        if labels.n_classes:
            weights = np.zeros((2, labels.n_classes), np.int64)
            self._classes = (*weights, np.empty(n_codes, np.int64), np.empty((2, n_rows), np.int32))

    def grow(self, weight: np.ndarray, rules: WholeRules, key: int) -> WholeTree:
        """A tree on the rows that have a weight; `key` seeds its draws."""
        rows = np.flatnonzero(weight > 0).astype(np.int32)
        seen = weight[rows]
        unit = _weight_unit(seen)
        of_rows = (rows, self._labels.values[rows], np.rint(seen / unit).astype(np.int32))
        room = tuple(np.empty_like(array) for array in of_rows)
        least = [max(_ANY_SPLIT, int(np.ceil(size / unit))) for size in (rules.least_split, rules.least_leaf)]
        n_features = self._page.n_features
        limits = np.array([rules.max_depth, rules.max_leaves, *least, rules.n_drawn or n_features], np.int64)
        gain_unit = unit * self._labels.unit**2
        nodes = np.empty(max(1, 2 * len(rows) - 1), NODE)
        n_nodes = ops.grow(
            self._columns, (*of_rows, *room), limits, rules.least_gain / gain_unit,
            np.arange(n_features, dtype=np.int32), self._edges, self._classes, self._work,
            np.array([key], np.uint64), nodes,
        )  # fmt: skip
        return WholeTree(nodes[:n_nodes].copy(), rows, unit, gain_unit)

    def find_leaves(self, tree: WholeTree, rows: np.ndarray) -> np.ndarray:
        """The nodes where `rows` end."""
        leaves = np.empty(len(rows), np.int32)
        ops.find_leaves(self._columns, tree.nodes, rows, leaves, 0, len(rows))
        return leaves

    def thresholds(self, nodes: np.ndarray) -> np.ndarray:
        """(n,) float32: values of inner nodes below which rows go left; of leaves, nothing that means anything."""
        cuts = self._page.cuts
        feature = np.maximum(nodes["feature"], 0)
        bins = np.maximum(nodes["bin"], 0)
        return cuts.values[np.minimum(cuts.ptr[feature] + bins, len(cuts.values) - 1)]


def _weight_unit(weight: np.ndarray) -> float:
    """1 where weights are whole numbers, and few; else so small a power of two that sums lose nothing to speak of."""
    total = float(weight.sum())
    if total < 2.0**_WEIGHT_BITS and (weight == np.rint(weight)).all():
        return 1.0
    return float(np.ldexp(1.0, int(np.frexp(total)[1]) - _WEIGHT_BITS))
