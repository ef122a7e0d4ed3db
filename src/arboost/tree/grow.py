"""THE growth loop: find splits, pop the nodes to open, open them, until none is left.

It works on sets of nodes; both steps are one call each (kernels/cpu/level.py), and between them workers of a cluster
add up their histograms. It knows neither threads nor devices: those live in the parts it calls. A grower is made
once per training matrix and keeps its arrays from tree to tree.
"""

from dataclasses import dataclass

import numpy as np

from arboost.kernels.cpu import expand, level, predict_bins
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.tree.columns import ColumnSampler
from arboost.tree.driver import Driver
from arboost.tree.histstore import HistogramStore
from arboost.tree.model import NO_PARENT, Tree
from arboost.tree.quantize import QuantizedGradients
from arboost.tree.rowsets import RowSets

_NO_IDS = np.zeros(0, np.int32)
_NO_LIMITS = np.zeros(2, np.int64)
TEAM_SLOTS = 100_000  # histogram slots to scan that are
TEAM_UPDATES = 150_000  # (row, feature) pairs in a set of nodes that are worth calling other threads for


@dataclass
class GrownTree:
    """A finished tree and where the training rows ended up in it."""

    tree: Tree
    nodes: np.ndarray
    leaves: np.ndarray  # leaves whose rows are a range of the row sets
    last_splits: np.ndarray  # nodes at the depth limit: split, but their rows were not partitioned


class TreeGrower:
    """Grows trees on one page of binned rows."""

    def __init__(self, ctx: Context, page: BinnedPage, params: TreeParams, feature_weights: np.ndarray | None = None):
        self._ctx = ctx
        self._page = page
        self._params = params
        self._feature_weights = feature_weights
        self._row_bins = page.words.view(page.bin_dtype)
        self._all_columns = ColumnSampler((1.0, 1.0, 1.0), page.n_features, None, 0)
        self.rowsets = RowSets(ctx, page)
        self._store = HistogramStore(ctx, page)
        bins = page.words if page.bin_dtype == np.uint8 else self._row_bins
        self._page_arrays = (bins, page.columns, self._store.slot_ptr, page.n_bins)
        self._missing_code = page.missing_code
        self._grow_arrays(64)

    def _grow_arrays(self, n_batch: int) -> None:
        """Room for opening n_batch nodes at once; nodes themselves are kept elsewhere."""
        self._evals = np.zeros(2 * n_batch, np.int32)
        self._best = np.empty((2 * n_batch, self._page.n_features), CANDIDATE)
        if not hasattr(self, "_nodes"):
            self._nodes = np.zeros(256, NODE)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        self._params = params

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Grow one tree; `key` seeds its draws; `partition_all` also orders the rows of the deepest leaves."""
        params = self._params
        columns = self._column_sampler(key)
        driver = Driver(params.max_leaves, params.grow_policy == "lossguide")
        reg, limits = self._reg(gradients), self._limits(gradients)
        last_splits = _NO_IDS
        n_evals = self._start(gradients, sampled, limits)
        while True:
            if n_evals:
                driver.push(self._nodes, self._find(n_evals, gradients, columns, reg))
            batch = driver.pop(self._make_room(driver))
            if not len(batch):
                return self._finish(reg, last_splits)
            if not partition_all and self._nodes[batch[0]]["depth"] + 1 == limits[0]:
                # the depth limit closes all children of this batch: their rows are scored as they lie
                last_splits = np.concatenate([last_splits, batch])
                self._expand(batch, limits)
                n_evals = 0
            else:
                n_evals = self._open(batch, gradients, limits)

    def _start(self, gradients: QuantizedGradients, sampled: np.ndarray | None, limits: np.ndarray) -> int:
        """The root: all (sampled) rows, their sums, and its histogram if it may be split."""
        store, root = self._store, self._nodes[0]
        n_rows = self.rowsets.reset(sampled)
        store.reset()
        g, h = gradients.total(self._ctx, self.rowsets.current) if n_rows else (0, 0)
        root["start"], root["stop"], root["g"], root["h"] = 0, n_rows, g, h
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = 0
        store.reserve(1)
        expand.plan_root(self._nodes, limits, store.free, store.builds, self._evals, store.counts)
        if store.counts[expand.BUILDS]:
            self._open(_NO_IDS, gradients, limits)
        return int(store.counts[expand.EVALS])

    def _open(self, batch: np.ndarray, gradients: QuantizedGradients, limits: np.ndarray) -> int:
        """Open the batch (none: the planned root) and build its histograms; returns how many nodes to evaluate."""
        store, nodes = self._store, self._room_for(len(batch))
        rowsets = self.rowsets.arrays(len(batch))
        plan = (limits, store.free, store.builds, store.subtracts, self._evals, store.counts)
        n_rows = expand.count_rows(nodes, batch) if len(batch) else self._page.n_rows
        args = (self._page_arrays, nodes, batch, rowsets, self._missing_code, gradients.arrays, plan, store.arrays())
        self._ctx.run_team(level.open_level, *args, alone=n_rows * self._page.n_features < TEAM_UPDATES)
        if len(batch):
            self.rowsets.mark_split()
        return int(store.counts[expand.EVALS])

    def _find(self, n_evals: int, gradients: QuantizedGradients, columns: ColumnSampler, reg: np.ndarray) -> np.ndarray:
        """Find splits for the planned nodes; returns those that have one."""
        store, evals = self._store, self._evals[:n_evals]
        plan = (_NO_LIMITS, store.free, store.builds, store.subtracts, self._evals, store.counts)
        opened = np.empty(n_evals, np.int32)
        rows, allowed = self.rowsets.current, columns.allowed(self._nodes, evals)
        args = (self._page_arrays, self._nodes, rows, gradients.arrays, plan, store.buffers, allowed, reg, self._best)
        work = n_evals * int(store.slot_ptr[-1])
        self._ctx.run_team(level.find_level, *args, opened, alone=work < TEAM_SLOTS)
        return opened[: int(store.counts[expand.OPENED])]

    def _expand(self, batch: np.ndarray, limits: np.ndarray) -> None:
        """Make children without looking at their rows."""
        store, nodes = self._store, self._room_for(len(batch))
        n_left = np.zeros(len(batch), np.int64)
        plan = (store.free, store.builds, store.subtracts, self._evals, store.counts)
        expand.expand_nodes(nodes, batch, n_left, limits, *plan)

    def _room_for(self, n_batch: int) -> np.ndarray:
        """The nodes, with room for the children of n_batch of them, and for everything planned about them."""
        store = self._store
        n_nodes = int(store.counts[expand.NODES]) + 2 * n_batch
        if n_nodes > len(self._nodes):
            self._nodes = np.concatenate([self._nodes, np.zeros(n_nodes, NODE)])
        if 2 * n_batch > len(self._evals):
            self._grow_arrays(2 * n_batch)
        store.reserve(n_batch)
        return self._nodes

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int, sampled: np.ndarray | None) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        weights, nodes = grown.tree.threshold, grown.nodes
        self.rowsets.add_leaf_weights(nodes, grown.leaves, weights, margin, target)
        self.rowsets.add_split_weights(nodes, grown.last_splits, weights, margin, target)
        if sampled is not None:
            chosen = np.zeros(self._page.n_rows, np.uint8)
            chosen[sampled] = 1
            args = (self._row_bins, nodes, weights, chosen, self._page.missing_code, target, margin)
            self._ctx.run_ranges(self._page.n_rows, 8192, predict_bins.add_tree_by_bins, *args)

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the training rows of grown.leaves, one leaf after the other."""
        starts, stops = grown.nodes["start"][grown.leaves], grown.nodes["stop"][grown.leaves]
        rows = self.rowsets.current if len(self.rowsets.current) else np.arange(stops.max(), dtype=np.int32)
        pieces = [rows[a:b] for a, b in zip(starts, stops, strict=True)]
        return np.concatenate(pieces), np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)

    def _column_sampler(self, key: int) -> ColumnSampler:
        p = self._params
        rates = (p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode)
        if rates == (1.0, 1.0, 1.0):
            return self._all_columns
        return ColumnSampler(rates, self._page.n_features, self._feature_weights, key)

    def _reg(self, gradients: QuantizedGradients) -> np.ndarray:
        """The parameter vector of kernels/scalar.py and kernels/cpu/split.py."""
        p = self._params
        regularisation = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight]
        return np.array([*regularisation, p.gamma, gradients.g_unit, gradients.h_unit], np.float64)

    def _limits(self, gradients: QuantizedGradients) -> np.ndarray:
        """[max_depth, least quantised hessian of a node that can have two valid children]."""
        least = 2.0 * self._params.min_child_weight / gradients.h_unit
        return np.array([self._params.max_depth, min(np.ceil(least), 2.0**62)], np.float64).astype(np.int64)

    def _make_room(self, driver: Driver) -> int:
        """How many nodes may be opened at once; waiting nodes give up their histograms when buffers run out."""
        store = self._store
        least = store.capacity // 4
        if store.counts[expand.FREE] < least:
            waiting = driver.waiting()
            holders = waiting[self._nodes["hist"][waiting] >= 0]  # others have none to give: small, or asked before
            expand.release_histograms(self._nodes, holders[:least], store.free, store.counts)
        return max(1, int(store.counts[expand.FREE]) // 2)

    def _finish(self, reg: np.ndarray, last_splits: np.ndarray) -> GrownTree:
        n = int(self._store.counts[expand.NODES])
        nodes, cuts = self._nodes[:n].copy(), self._page.cuts
        feature, threshold = np.empty(n, np.int32), np.empty(n, np.float32)
        default_left = np.empty(n, np.uint8)
        gain, cover, base_weight = (np.empty(n, np.float32) for _ in range(3))
        out = (feature, threshold, default_left, gain, cover, base_weight)
        expand.finish_tree(nodes, cuts.ptr, cuts.values, reg, np.float32(self._params.eta), *out)
        left, right = nodes["left"].copy(), nodes["right"].copy()
        parent = nodes["parent"].copy()
        parent[0] = NO_PARENT
        n_features = self._page.n_features
        tree = Tree(left, right, parent, feature, threshold, default_left, gain, cover, base_weight, n_features)
        is_leaf = left < 0
        if len(last_splits):  # their children own no rows: the parent's range stands for both
            is_leaf[left[last_splits]] = is_leaf[right[last_splits]] = False
        return GrownTree(tree, nodes, np.flatnonzero(is_leaf).astype(np.int32), last_splits.astype(np.int32))
