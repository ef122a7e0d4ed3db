"""`tree_method="exact"`: trees grown on sorted columns, every distinct value a candidate.

The search is kernels/cpu/exact.py. A tree grows a level at a time; like XGBoost's, it grows without regard to gamma
and is pruned afterwards, so a split that gains little stays if one below it gains enough. A grower is made once per
training matrix and keeps its arrays from tree to tree.
"""

import numpy as np

from arboost.kernels.cpu import column_scan, constrained
from arboost.kernels.cpu import exact as ops
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.matrix.adapt import RawData
from arboost.matrix.sorted import SortedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.memory import check_room
from arboost.runtime.pool import Team
from arboost.tree.columns import ColumnSampler
from arboost.tree.constraints import Interactions, interaction_sets, monotone_vector
from arboost.tree.loop import GrownTree
from arboost.tree.model import DELETED, NO_PARENT, Tree
from arboost.tree.quantize import QuantizedGradients
from arboost.tree.update import prune

PREFETCH_AHEAD = 32  # entries; benchmarks/cache_aware.py measures both of these
BLOCK_ENTRIES = 512  # of a run that are summed before they are scored: 8 KiB of sums
PIECE_ENTRIES = 16_384  # the least that a run is cut into where there are fewer runs than threads
TEAM_ENTRIES = 30_000  # entries of a level that are worth calling other threads for
_GRAIN = 32_768
_NO_IDS = np.zeros(0, np.int32)


def check_memory(ctx: Context, n_rows: int, n_present: int, longest: int) -> None:
    """Refuses data whose sorted columns, and a grower's copy of them, do not fit the machine's memory."""
    n_bytes = 16 * n_present + (16 * ctx.n_threads + 8) * longest + 16 * n_rows
    advice = "Use tree_method='hist', which holds a byte a value, or fewer rows or features."
    check_room(n_bytes, f"tree_method='exact' on {n_present} values", advice)


class ExactGrower:
    """Grows trees on one page of sorted columns.

    Parameters
    ----------
    ctx
        Threads.
    page
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
        page: SortedPage,
        raw: RawData,
        params: TreeParams,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
    ):
        self._ctx, self._page, self._raw, self._params = ctx, page, raw, params
        self._feature_weights = feature_weights
        n, n_features = page.n_rows, page.n_features
        self._all_columns = ColumnSampler((1.0, 1.0, 1.0), n_features, None, 0)
        self.monotone = monotone_vector(params.monotone_constraints, feature_names, n_features)
        self._is_bounded = bool(self.monotone.any())
        sets = interaction_sets(params.interaction_constraints, feature_names, n_features)
        self._interactions = Interactions(sets) if len(sets) else None
        entries = np.zeros(len(page.rows) + column_scan.MAX_AHEAD + 1, np.uint64)  # looked ahead in
        spare = np.empty((ctx.n_threads, int(np.diff(page.ptr).max(initial=0)) + 1), np.uint64)
        self._blocks = (page.ptr, page.rows, page.values.view(np.uint32), entries, spare, _kinds(page))
        goes_right = np.zeros(-(-n // 64), np.uint64)
        self._routes = (np.zeros(n, np.int32), np.zeros(n, np.uint8), goes_right)
        self._counts = np.zeros(ops.N_COUNTS, np.int64)
        self._counts[ops.BOUNDED] = self._is_bounded
        work = np.zeros((ctx.n_threads, column_scan.N_SUMS, column_scan.MAX_BLOCK + 2), np.int64)
        scores = np.zeros((ctx.n_threads, column_scan.MAX_BLOCK + 2))
        n_pieces = ops.PIECES_PER_THREAD * ctx.n_threads
        pieces = (np.zeros((n_pieces, ops.PIECE_COLUMNS), np.int64), np.zeros((n_pieces, 2), CANDIDATE))
        self._tuning = np.zeros(column_scan.N_TUNING, np.int64)
        self._tuning[column_scan.PIECE] = PIECE_ENTRIES
        self.tune(PREFETCH_AHEAD, BLOCK_ENTRIES)
        self._scratch = ((work, scores, scores.view(np.int64)), self._tuning, *pieces)
        self._team = Team(ctx.n_threads, ops.carry_out)
        self._nodes, self._threshold = np.zeros(0, NODE), np.zeros(0, np.float32)
        self._bounds = (self.monotone, np.zeros(0), np.zeros(0))  # of every node's weight: least, largest
        self._segments = np.zeros((2, 0, n_features, 2), np.int64)
        self._make_node_arrays(64)
        self._make_level_arrays(32)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        self._params = params

    def tune(self, ahead: int, block: int) -> None:
        """Prefetch gradients so many entries ahead (0: not), and score so many at a time; trees stay the same."""
        self._tuning[column_scan.AHEAD] = min(max(ahead, 0), column_scan.MAX_AHEAD)
        self._tuning[column_scan.BLOCK] = min(max(block, 1), column_scan.MAX_BLOCK)

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Grow one tree; `key` seeds its draws. The rows of all leaves are always known, whatever `partition_all`."""
        p = self._params
        rates = (p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode)
        self._columns = self._all_columns
        if rates != (1.0, 1.0, 1.0):
            self._columns = ColumnSampler(rates, self._page.n_features, self._feature_weights, key)
        self._gradients = gradients
        units = [gradients.g_unit, gradients.h_unit]
        regularisation = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight]
        self._reg = np.array([*regularisation, 0.0, *units], np.float64)  # gamma is for pruning
        least = np.ceil(2.0 * p.min_child_weight / gradients.h_unit)
        self._limits = np.array([p.max_depth, min(least, 2.0**62)], np.float64).astype(np.int64)
        try:
            batch = self._start(sampled)
            while len(batch):
                batch = self._open(batch)
        finally:
            self._team.stop()
        return self._finish()

    def _start(self, sampled: np.ndarray | None) -> np.ndarray:
        """The root, with all (sampled) rows; returns it if it has a split."""
        node_of_row, counts, root = self._routes[0], self._counts, self._nodes[0]
        node_of_row.fill(0 if sampled is None else -1)
        n_rows = self._page.n_rows
        if sampled is not None:
            node_of_row[sampled] = 0
            n_rows = len(sampled)
        rows = _NO_IDS if sampled is None else sampled
        root["g"], root["h"] = self._gradients.total(self._ctx, rows) if n_rows else (0, 0)
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = root["hist"] = 0
        self._bounds[1][0], self._bounds[2][0] = -np.inf, np.inf
        if self._interactions is not None:
            self._interactions.forget()
        counts[ops.NODES], counts[ops.EVALS], counts[ops.HALF] = 1, 1, 0
        counts[ops.SAMPLED] = sampled is not None
        self._evals[0] = 0
        self._bind()
        if n_rows < 2 or root["h"] < self._limits[1]:
            return _NO_IDS
        is_small = len(self._page.rows) < TEAM_ENTRIES
        if not is_small:
            self._team.start(self._args)
        return self._search(ops.LOAD, is_small)

    def _open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        counts, n_batch = self._counts, len(batch)
        self._room_for(n_batch)
        ops.make_children(self._nodes, batch, self._limits, self._evals, counts)
        self._batch[:n_batch] = batch
        counts[ops.BATCH], counts[ops.HALF] = n_batch, 1 - counts[ops.HALF]
        if self._is_bounded:
            no_sets, bounds = np.full(len(self._nodes), -1, np.int32), self._bounds
            constrained.bound_children(
                self._nodes, batch, self._reg, bounds[0], no_sets, bounds[1], bounds[2], 0, n_batch
            )
        is_small = len(self._page.rows) < TEAM_ENTRIES
        if not counts[ops.EVALS]:
            self._team.order(ops.CLOSE, self._args, is_small)
            return _NO_IDS
        return self._search(ops.OPEN, is_small)

    def _search(self, order: int, is_small: bool) -> np.ndarray:
        if self._differs_by_node:
            self._write_allowed()
        self._team.order(order, self._args, is_small)
        return self._opened[: int(self._counts[ops.OPENED])].copy()

    @property
    def _differs_by_node(self) -> bool:
        """Whether nodes of one tree may use different features."""
        return self._columns.per_node or self._interactions is not None

    def _write_allowed(self) -> None:
        """Which features the nodes to evaluate may use."""
        evals, nodes = self._evals[: self._counts[ops.EVALS]], self._nodes
        if self._columns.per_node:
            self._columns.write_allowed(nodes, evals, self._allowed)
        else:
            self._allowed[:] = self._columns.allowed()
        if self._interactions is not None:
            for row, i in zip(self._allowed, evals.tolist(), strict=False):
                row &= self._interactions.allowed(nodes, i, nodes["feature"])

    def _room_for(self, n_batch: int) -> None:
        """Room for the children of n_batch nodes; followers that hold older arrays are called anew."""
        n_nodes, grown = int(self._counts[ops.NODES]) + 2 * n_batch, False
        if n_nodes > len(self._nodes):
            self._make_node_arrays(2 * n_nodes)
            grown = True
        if 2 * n_batch > len(self._evals):
            self._make_level_arrays(4 * n_batch)
            grown = True
        if grown:
            self._bind()

    def _make_node_arrays(self, n_nodes: int) -> None:
        """Arrays of n_nodes, keeping what is known."""
        nodes, threshold, least, largest = self._nodes, self._threshold, *self._bounds[1:]
        n = len(nodes)
        self._nodes, self._threshold = np.zeros(n_nodes, NODE), np.zeros(n_nodes, np.float32)
        self._bounds = (self.monotone, np.zeros(n_nodes), np.zeros(n_nodes))
        self._nodes[:n], self._threshold[:n] = nodes, threshold
        self._bounds[1][:n], self._bounds[2][:n] = least, largest

    def _make_level_arrays(self, n_evals: int) -> None:
        """Room for searching n_evals nodes at once, keeping the runs of those that were searched last."""
        n_features = self._page.n_features
        segments = np.zeros((2, n_evals, n_features, 2), np.int64)
        segments[:, : self._segments.shape[1]] = self._segments
        self._segments, self._best = segments, np.zeros((n_evals, n_features), CANDIDATE)
        self._batch, self._evals, self._opened = (np.zeros(n_evals, np.int32) for _ in range(3))

    def _bind(self) -> None:
        """Bundle the arrays for kernels/cpu/exact.py."""
        used = self._columns.allowed()
        self._best["score"][:, used[0] == 0] = 0.0  # nobody looks for splits of these, other trees may have
        shape = (len(self._evals), self._page.n_features)
        self._allowed = np.zeros(shape, np.uint8) if self._differs_by_node else used
        level = (self._batch, self._evals, self._opened, self._segments, self._allowed, used[0], self._counts)
        search = (self._reg, self._best, self._threshold, *self._scratch)
        self._args = (
            self._blocks, self._nodes, self._routes, self._gradients.arrays, level, self._bounds, search
        )  # fmt: skip
        if self._team.stop():
            self._team.start(self._args)

    def _finish(self) -> GrownTree:
        n, eta = int(self._counts[ops.NODES]), np.float32(self._params.eta)
        nodes = self._nodes[:n].copy()
        feature, default_left = np.empty(n, np.int32), np.empty(n, np.uint8)
        threshold, gain, cover, base_weight = (np.empty(n, np.float32) for _ in range(4))
        out = (feature, threshold, default_left, gain, cover, base_weight)
        ops.finish_tree(nodes, self._threshold, self._reg, eta, self._bounds, self._is_bounded, out)
        left, right, parent = (nodes[name].copy() for name in ("left", "right", "parent"))
        parent[0] = NO_PARENT
        n_features = self._page.n_features
        tree = Tree(left, right, parent, feature, threshold, default_left, gain, cover, base_weight, n_features)
        tree = prune(tree, self._params, eta)
        gone = tree.feature == DELETED
        if gone.any():
            self._lift_rows(tree, gone)
        leaves = np.flatnonzero((tree.left < 0) & ~gone).astype(np.int32)
        return GrownTree(tree, nodes, leaves, _NO_IDS)

    def _lift_rows(self, tree: Tree, gone: np.ndarray) -> None:
        """Rows of nodes that pruning has cut off belong to the leaf above."""
        leaf_of = np.arange(tree.n_nodes + 1, dtype=np.int32)  # children come after their parents
        for i in np.flatnonzero(gone):
            leaf_of[i] = leaf_of[tree.parent[i]]
        leaf_of[-1] = -1  # rows that are in no node
        self._routes[0][:] = leaf_of[self._routes[0]]

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int, sampled: np.ndarray | None) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        tree, node_of_row = grown.tree, self._routes[0]
        self._ctx.run_ranges(
            self._page.n_rows, _GRAIN, ops.add_weights, node_of_row, tree.threshold, target, margin
        )  # fmt: skip
        if sampled is not None:
            splits = (tree.left, tree.right, tree.feature, tree.threshold, tree.default_left)
            for first, values in self._raw.chunks():
                self._ctx.run_ranges(
                    len(values), 8192, ops.add_tree_by_values, values, first, node_of_row, splits, target, margin
                )

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the training rows of grown.leaves, one leaf after the other."""
        number = np.full(
            grown.tree.n_nodes + 1, len(grown.leaves), np.uint16 if len(grown.leaves) < 65535 else np.int64
        )
        number[grown.leaves] = np.arange(len(grown.leaves))
        leaf_of_row = number[self._routes[0]]
        counts = np.bincount(leaf_of_row, minlength=len(grown.leaves) + 1)[: len(grown.leaves)]
        leaf_ptr = np.append(0, np.cumsum(counts)).astype(np.int64)
        return np.argsort(leaf_of_row, kind="stable")[: leaf_ptr[-1]].astype(np.int32), leaf_ptr


def _kinds(page: SortedPage) -> np.ndarray:
    """FULL, HOLED or CONSTANT: in which directions XGBoost looks for splits of a column."""
    first, last = page.ptr[:-1], page.ptr[1:] - 1
    kinds = np.where(last - first + 1 == page.n_rows, column_scan.FULL, column_scan.HOLED)
    present = (kinds == column_scan.HOLED) & (last >= first)
    kinds[present] = np.where(
        page.values[first[present]] == page.values[last[present]], column_scan.CONSTANT, column_scan.HOLED
    )  # fmt: skip
    return kinds.astype(np.int64)
