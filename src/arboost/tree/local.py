"""Approximate split finding (the paper, section 3.2), local proposals: every node draws candidates of its own.

The search is kernels/cpu/local.py; the loop is `loop.py`'s, which this grower fills in. Sorted columns are kept parted
by nodes, so the candidates of a node are quantiles of its runs, and its sums come with them: there are no histograms.
"""

from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.cpu import constrained, exact, partition, summary
from arboost.kernels.cpu import local as ops
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.matrix.adapt import RawData
from arboost.matrix.cuts import bounds_of_values
from arboost.matrix.proposed import most_bins
from arboost.matrix.sorted import SortedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range
from arboost.tree.approx import count_bins
from arboost.tree.constraints import monotone_vector
from arboost.tree.driver import Driver
from arboost.tree.loop import NO_IDS, GrownTree, GrowthLoop
from arboost.tree.quantize import QuantizedGradients

_GRAIN = 32_768  # rows
_EVERY_ROW = np.zeros(0, np.uint8)
SHARED_ENTRIES = 50_000  # entries of a batch that are worth other threads


class _OfNodes(NamedTuple):
    """What is known of every node besides its record."""

    thresholds: np.ndarray  # float32, of its split
    places: np.ndarray  # int64, the first entry of its run that goes right
    least: np.ndarray  # float64, bounds of its weight
    largest: np.ndarray


_KINDS = (np.float32, np.int64, np.float64, np.float64)


class LocalGrower(GrowthLoop):
    """Grows trees on one page of sorted columns.

    Parameters
    ----------
    ctx
        Threads.
    columns
        The sorted columns.
    raw
        The same data by rows, for rows that are left out of a tree's sample.
    params
        Parameters of the trees.
    feature_weights
        Weights with which features are drawn, or None.
    feature_names
        Names that constraints may use, or None.
    """

    def __init__(
        self,
        ctx: Context,
        columns: SortedPage,
        raw: RawData,
        params: TreeParams,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
    ):
        n_features, ptr = columns.n_features, columns.ptr
        super().__init__(ctx, params, n_features, feature_weights, feature_names)
        self._page, self._raw = columns, raw
        self.monotone = monotone_vector(params.monotone_constraints, feature_names, n_features)
        self._is_bounded = np.array([self.monotone.any()], np.int64)
        self._n_bins = most_bins(columns, count_bins(params))
        ends = np.append(columns.values, np.float32(0))  # an empty feature at the end has something to point at
        self._outer_cuts = np.stack(bounds_of_values(ends[ptr[:-1]], ends[ptr[1:] - 1], ptr[1:] == ptr[:-1]))
        self._target = (np.empty_like(columns.rows), np.empty_like(columns.values))
        self._row_ids, self._temp = np.empty(columns.n_rows, np.int32), np.empty(columns.n_rows, np.int32)
        self._side = np.zeros(columns.n_rows, np.uint8)
        self._scratch = [self._make_scratch(int(np.diff(ptr).max(initial=0))) for _ in range(ctx.n_threads)]
        self._counts = np.zeros(ops.N_COUNTS, np.int64)
        self._nodes, self._runs = np.zeros(0, NODE), np.zeros((0, n_features, 2), np.int64)
        self._of_nodes = _OfNodes(*(np.zeros(0, kind) for kind in _KINDS))
        self._free: list[int] = []
        self._make_search_arrays(64)

    def _make_scratch(self, longest: int) -> tuple[np.ndarray, ...]:
        """One thread's memory: see kernels/cpu/local.py."""
        n_bins = int(self._n_bins.max(initial=0))
        prefix, firsts = np.empty((3, summary.N_BLOCKS + 1), np.int64), np.empty(n_bins + 1, np.int64)
        sums = np.empty((3, n_bins + 1), np.int64)
        sums[ops.EVERY_BIN] = np.arange(n_bins + 1)
        return prefix, firsts, sums, np.empty(longest + 1, np.int32), np.empty(longest + 1, np.float32)

    def _start(self, gradients: QuantizedGradients, sampled: np.ndarray | None) -> np.ndarray:
        """The root: all (sampled) rows, runs and sums; returns it if it has a split."""
        n_rows = self._page.n_rows if sampled is None else len(sampled)
        self._gradients, self._n_sampled = gradients, n_rows
        self._row_ids[:n_rows] = np.arange(n_rows) if sampled is None else sampled
        self._now = (self._page.ptr, self._page.rows, self._page.values)  # where the runs are; later in the target
        if self._interactions is not None:
            self._interactions.forget()
        self._free = list(range(len(self._runs)))[::-1]
        self._counts[:] = 1  # the root, to be evaluated
        self._evals[0] = 0
        self._room_for(0)
        root = self._nodes[0]
        rows = NO_IDS if sampled is None else sampled
        root["g"], root["h"] = gradients.total(self._ctx, rows) if n_rows else (0, 0)
        root["start"], root["stop"] = 0, n_rows
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = 0
        self._of_nodes.least[0], self._of_nodes.largest[0] = -np.inf, np.inf
        if n_rows < 2 or root["h"] < self._limits[1]:
            return NO_IDS
        root["hist"] = self._take_slots(1)[0]
        chosen = _EVERY_ROW
        if sampled is not None:
            chosen = np.zeros(self._page.n_rows, np.uint8)
            chosen[sampled] = 1
        self._search(ops.start_features, (chosen, self._nodes), n_rows)
        if sampled is not None:
            self._now = (self._page.ptr, *self._target)
        return self._choose()

    def _open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        self._part(batch)
        n_evals = int(self._counts[ops.EVALS])
        closed = self._nodes["hist"][batch]
        if not n_evals:
            self._free += closed.tolist()
            return NO_IDS
        slots = self._take_slots(n_evals)
        self._nodes["hist"][self._evals[:n_evals]] = slots
        self._search(ops.open_features, (self._side, self._nodes, batch), self._count_rows(batch))
        self._free += closed.tolist()
        self._now = (self._page.ptr, *self._target)
        return self._choose()

    def _close(self, batch: np.ndarray) -> None:
        """Make children, all leaves."""
        self._part(batch)

    def _part(self, batch: np.ndarray) -> None:
        """Part the rows of the batch, and make children."""
        self._room_for(len(batch))
        n_left = np.zeros(len(batch), np.int64)
        sources = (self._nodes, batch, self._runs, self._of_nodes.places, self._now)
        spans = split_range(len(batch), self._n_threads(self._count_rows(batch)), 1)
        tasks = [(*sources, self._row_ids, self._side, self._temp, n_left, *span) for span in spans]
        self._ctx.run_tasks(ops.split_rows, tasks)
        ops.make_children(self._nodes, batch, n_left, self._limits, self._evals, self._counts)
        if self._is_bounded[0]:
            no_sets = np.full(len(self._nodes), -1, np.int32)
            bounds = (self.monotone, no_sets, self._of_nodes.least, self._of_nodes.largest)
            constrained.bound_children(self._nodes, batch, self._reg, *bounds, 0, len(batch))

    def _search(self, kernel: Any, args: tuple, n_rows: int) -> None:
        """Run a kernel that searches the evaluated nodes, of n_rows in all, feature by feature."""
        n_evals = int(self._counts[ops.EVALS])
        self._allowed = self._columns.allowed()
        if self._differs_by_node:
            self._allowed = np.zeros((n_evals, self._page.n_features), np.uint8)
            self._write_allowed(n_evals)
        n_bins = self._n_bins * self._columns.allowed()[0]
        self._found = (n_bins, self._reg, self._best[:n_evals], self._best_places, self._allowed)
        bounds = (self.monotone, self._of_nodes.least, self._of_nodes.largest, self._is_bounded)
        head = (self._now, self._target, *args, self._runs, self._gradients.arrays, self._found, bounds)
        spans = split_range(self._page.n_features, self._n_threads(n_rows * self._page.n_features), 1)
        tasks = [(*head, scratch, *span) for scratch, span in zip(self._scratch, spans, strict=False)]
        self._ctx.run_tasks(kernel, tasks)

    def _choose(self) -> np.ndarray:
        """Give the evaluated nodes their best split; returns those that have one, the others give back their slots."""
        evals = self._evals[: int(self._counts[ops.EVALS])]
        sources = (self._nodes, evals, self._found, int(self._is_bounded[0]), self._runs, self._now[2])
        out = (self._of_nodes.thresholds, self._of_nodes.places, self._opened, self._counts)
        ops.choose_splits(*sources, self._outer_cuts, *out)
        lost = evals[self._nodes["feature"][evals] < 0]
        self._free += self._nodes["hist"][lost].tolist()
        return self._opened[: int(self._counts[ops.OPENED])].copy()

    def _count_rows(self, batch: np.ndarray) -> int:
        return int((self._nodes["stop"][batch] - self._nodes["start"][batch]).sum())

    def _n_threads(self, n_entries: int) -> int:
        return self._ctx.n_threads if n_entries >= SHARED_ENTRIES else 1

    def _take_slots(self, n: int) -> list[int]:
        """Slots for the runs of n nodes."""
        if len(self._free) < n:
            old = self._runs
            self._runs = np.zeros((2 * len(old) + n, *old.shape[1:]), np.int64)
            self._runs[: len(old)] = old
            self._free = list(range(len(old), len(self._runs)))[::-1] + self._free
        return [self._free.pop() for _ in range(n)]

    def _room_for(self, n_batch: int) -> np.ndarray:
        """The nodes, with room for the children of n_batch of them."""
        n_nodes = int(self._counts[ops.NODES]) + 2 * n_batch
        n_more = max(256, 2 * n_nodes) - len(self._nodes)
        if n_nodes > len(self._nodes):
            self._nodes, *of_nodes = (np.append(a, np.zeros(n_more, a.dtype)) for a in (self._nodes, *self._of_nodes))
            self._of_nodes = _OfNodes(*of_nodes)
        if 2 * n_batch > len(self._evals):
            self._make_search_arrays(2 * n_batch)
        return self._nodes

    def _make_search_arrays(self, n_batch: int) -> None:
        """Room for opening n_batch nodes at once and evaluating their children."""
        shape = (2 * n_batch, self._page.n_features)
        self._evals, self._opened = np.zeros(2 * n_batch, np.int32), np.zeros(2 * n_batch, np.int32)
        self._best, self._best_places = np.zeros(shape, CANDIDATE), np.zeros(shape, np.int64)

    def _make_room(self, driver: Driver) -> int:
        """How many nodes may be opened at once: any number, there are no histograms."""
        return int(np.iinfo(np.int32).max)

    def _finish(self, last_splits: np.ndarray) -> GrownTree:
        n, eta = int(self._counts[ops.NODES]), np.float32(self._params.eta)
        nodes = self._nodes[:n].copy()
        # a node's `bin` is its own number, so thresholds are the cuts of one feature
        no_ptr = np.zeros(self._page.n_features + 1, np.int32)
        tree = self._make_tree(nodes, no_ptr, self._of_nodes.thresholds)
        if self._is_bounded[0]:
            bounds = self._of_nodes.least, self._of_nodes.largest
            constrained.bound_weights(nodes, self._reg, eta, *bounds, tree.threshold, tree.base_weight, 0, n)
        return GrownTree(tree, nodes, np.flatnonzero(tree.left < 0).astype(np.int32), NO_IDS)

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int, sampled: np.ndarray | None) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        tree, n_rows = grown.tree, self._n_sampled
        args = (grown.nodes, grown.leaves, tree.threshold, self._row_ids[:n_rows], target, margin)
        self._ctx.run_ranges(n_rows, _GRAIN, partition.add_leaf_weights, *args)
        if sampled is not None:
            node_of_row = np.full(self._page.n_rows, -1, np.int32)
            node_of_row[sampled] = 0
            splits = (tree.left, tree.right, tree.feature, tree.threshold, tree.default_left)
            for first, values in self._raw.chunks():
                rows = (values, first, node_of_row, splits, target, margin)
                self._ctx.run_ranges(len(values), _GRAIN, exact.add_tree_by_values, *rows)

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the training rows of grown.leaves, one leaf after the other."""
        starts, stops = grown.nodes["start"][grown.leaves], grown.nodes["stop"][grown.leaves]
        pieces = [self._row_ids[a:b] for a, b in zip(starts, stops, strict=True)]
        return np.concatenate(pieces), np.append(0, np.cumsum(stops - starts)).astype(np.int64)
