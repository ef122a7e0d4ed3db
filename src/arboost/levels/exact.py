"""The level engine on sorted columns, every distinct value a candidate: `tree_method="exact"`.

The search is kernels/cpu/sorted/exact.py. Rows are known by the node they are in, so leaves own no ranges of ids.
"""

from collections.abc import Callable

import numpy as np

from arboost.kernels.cpu.grow import nodes
from arboost.kernels.cpu.sorted import column_scan
from arboost.kernels.cpu.sorted import exact as ops
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.levels.base import NO_IDS, Features, Finished, Rules, Walk
from arboost.levels.finish import finish_nodes
from arboost.levels.quantize import QuantizedGradients
from arboost.levels.rowsets import rows_by_node
from arboost.levels.special import grown_bounds, make_bounds
from arboost.matrix.adapt import RawData
from arboost.matrix.sorted import SortedPage
from arboost.runtime.context import Context
from arboost.runtime.memory import check_room
from arboost.runtime.pool import Team

PREFETCH_AHEAD = 32  # entries; benchmarks/cache_aware.py measures both of these
BLOCK_ENTRIES = 512  # of a run that are summed before they are scored: 8 KiB of sums
PIECE_ENTRIES = 16_384  # the least that a run is cut into where there are fewer runs than threads
TEAM_ENTRIES = 30_000  # entries of a level that are worth calling other threads for
_GRAIN = 32_768
_WALK_GRAIN = 8192
_NO_RANGES = np.zeros(0, np.int64)


def check_memory(ctx: Context, n_rows: int, n_present: int, longest: int) -> None:
    """Refuses data whose sorted columns, and a grower's copy of them, do not fit the machine's memory."""
    n_bytes = 16 * n_present + (16 * ctx.n_threads + 8) * longest + 16 * n_rows
    advice = "Use tree_method='hist', which holds a byte a value, or fewer rows or features."
    check_room(n_bytes, f"tree_method='exact' on {n_present} values", advice)


class ExactEngine:
    """Grows trees on one page of sorted columns.

    Parameters
    ----------
    ctx
        Threads.
    page
        The sorted columns.
    raw
        The same data by rows, for rows that are left out of a tree's sample.
    monotone
        (n_features,) the directions that weights must follow, 0 where they are free.
    """

    def __init__(self, ctx: Context, page: SortedPage, raw: RawData, monotone: np.ndarray):
        self._ctx, self._page, self._raw = ctx, page, raw
        n, n_features = page.n_rows, page.n_features
        entries = np.zeros(len(page.rows) + column_scan.MAX_AHEAD + 1, np.uint64)  # looked ahead in
        spare = np.empty((ctx.n_threads, int(np.diff(page.ptr).max(initial=0)) + 1), np.uint64)
        values = page.values.view(np.uint32)
        self._blocks = tuple(ops.Blocks(page.ptr, page.rows, values, entries, spare, _kinds(page)))
        goes_right = np.zeros(-(-n // 64), np.uint64)
        self._node_of_row = np.zeros(n, np.int32)
        self._routes = tuple(ops.Routes(self._node_of_row, np.zeros(n, np.uint8), goes_right))
        self._counts = np.zeros(ops.N_COUNTS, np.int64)
        work = np.zeros((ctx.n_threads, column_scan.N_SUMS, column_scan.MAX_BLOCK + 2), np.int64)
        scores = np.zeros((ctx.n_threads, column_scan.MAX_BLOCK + 2))
        n_pieces = ops.PIECES_PER_THREAD * ctx.n_threads
        pieces = (np.zeros((n_pieces, ops.PIECE_COLUMNS), np.int64), np.zeros((n_pieces, 2), CANDIDATE))
        self._tuning = np.zeros(column_scan.N_TUNING, np.int64)
        self._tuning[column_scan.PIECE] = PIECE_ENTRIES
        self.tune(PREFETCH_AHEAD, BLOCK_ENTRIES)
        self._scratch = ((work, scores, scores.view(np.int64)), self._tuning, *pieces)
        self._team = Team(ctx.n_threads, ops.carry_out)
        self.nodes, self._threshold = np.zeros(0, NODE), np.zeros(0, np.float32)
        self._bounds = make_bounds(monotone)
        self._segments = np.zeros((2, 0, n_features, 2), np.int64)
        self._make_node_arrays(64)
        self._make_level_arrays(32)

    def tune(self, ahead: int, block: int) -> None:
        """Prefetch gradients so many entries ahead (0: not), and score so many at a time; trees stay the same."""
        self._tuning[column_scan.AHEAD] = min(max(ahead, 0), column_scan.MAX_AHEAD)
        self._tuning[column_scan.BLOCK] = min(max(block, 1), column_scan.MAX_BLOCK)

    def start(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""
        counts, root = self._counts, self.nodes[0]
        self._gradients, self._rules, self._features = gradients, rules, features
        self._limits = np.zeros(nodes.N_LIMITS, np.int64)
        self._limits[nodes.MAX_DEPTH], self._limits[nodes.LEAST_H] = rules.max_depth, rules.least_h
        self._node_of_row.fill(0 if sampled is None else -1)
        if sampled is not None:
            self._node_of_row[sampled] = 0
        root["g"], root["h"] = gradients.total(self._ctx, sampled)
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = root["hist"] = 0
        counts[nodes.NODES], counts[nodes.EVALS], counts[ops.HALF] = 1, 1, 0
        counts[ops.SAMPLED] = sampled is not None
        self._evals[0] = 0
        self._bind()
        n_rows = self._page.n_rows if sampled is None else len(sampled)
        if n_rows < 2 or root["h"] < rules.least_h:
            return NO_IDS
        if len(self._page.rows) >= TEAM_ENTRIES:
            self._team.start((self._args,))
        return self._search(ops.LOAD)

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once: a whole level, and no less, for runs of its nodes lie in one half."""
        return int(np.iinfo(np.int32).max)

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        self._make_children(batch)
        if not self._counts[nodes.EVALS]:
            self._order(ops.CLOSE)
            return NO_IDS
        return self._search(ops.OPEN)

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; every row is told its own."""
        self._make_children(batch)
        self._order(ops.CLOSE)
        return NO_IDS

    def _make_children(self, batch: np.ndarray) -> None:
        counts, n_batch = self._counts, len(batch)
        self._room_for(n_batch)
        plan = (_NO_RANGES, self._limits, self._rules.reg, self._evals, counts)
        ops.plan_children(tuple(self._bounds), self.nodes, batch, *plan)
        self._batch[:n_batch] = batch
        counts[nodes.BATCH], counts[ops.HALF] = n_batch, 1 - counts[ops.HALF]

    def _search(self, order: int) -> np.ndarray:
        if self._features.differ:
            self._features.write(self.nodes, self._evals[: self._counts[nodes.EVALS]], self._allowed)
        self._order(order)
        return self._opened[: int(self._counts[nodes.OPENED])].copy()

    def _order(self, order: int) -> None:
        self._team.order(order, (self._args,), len(self._page.rows) < TEAM_ENTRIES)

    def stop(self) -> None:
        """Send other threads home."""
        self._team.stop()

    # ---- the grown tree ----

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta, but not their base_weight."""
        made, extra = self.nodes[: int(self._counts[nodes.NODES])], tuple(self._bounds)
        return finish_nodes(made, self._threshold, extra, self._rules.reg, eta, keep_base=True)

    def lift_rows(self, leaf_of: np.ndarray) -> None:
        """Rows of node i belong to node leaf_of[i] from now on."""
        self._node_of_row[:] = np.append(leaf_of, -1)[self._node_of_row]  # -1, the last: rows that are in no node

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows; those in no leaf walk the tree by their values."""
        known = (self._node_of_row, walk.weights, target, margin)
        self._ctx.run_ranges(self._page.n_rows, _GRAIN, ops.add_weights, *known)
        if self._counts[ops.SAMPLED]:
            walk_others(self._ctx, self._raw, self._node_of_row, walk, margin, target)

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
        return rows_by_node(self._node_of_row, leaves)

    # ---- arrays ----

    def _room_for(self, n_batch: int) -> None:
        """Room for the children of n_batch nodes; followers that hold older arrays are called anew."""
        n_nodes, grown = int(self._counts[nodes.NODES]) + 2 * n_batch, False
        if n_nodes > len(self.nodes):
            self._make_node_arrays(2 * n_nodes)
            grown = True
        if 2 * n_batch > len(self._evals):
            self._make_level_arrays(4 * n_batch)
            grown = True
        if grown:
            self._bind()

    def _make_node_arrays(self, n_nodes: int) -> None:
        """Arrays of n_nodes, keeping what is known."""
        n_more = n_nodes - len(self.nodes)
        self.nodes = np.concatenate([self.nodes, np.zeros(n_more, NODE)])
        self._threshold = np.concatenate([self._threshold, np.zeros(n_more, np.float32)])
        self._bounds = grown_bounds(self._bounds, n_nodes)

    def _make_level_arrays(self, n_evals: int) -> None:
        """Room for searching n_evals nodes at once, keeping the runs of those that were searched last."""
        n_features = self._page.n_features
        segments = np.zeros((2, n_evals, n_features, 2), np.int64)
        segments[:, : self._segments.shape[1]] = self._segments
        self._segments, self._best = segments, np.zeros((n_evals, n_features), CANDIDATE)
        self._batch, self._evals, self._opened = (np.zeros(n_evals, np.int32) for _ in range(3))

    def _bind(self) -> None:
        """Bundle the arrays for kernels/cpu/sorted/exact.py."""
        used = self._features.of_tree()
        shape = (len(self._evals), self._page.n_features)
        self._allowed = np.zeros(shape, np.uint8) if self._features.differ else used
        runs = (self._batch, self._evals, self._opened, self._segments, self._allowed, used[0], self._counts)
        search = (self._rules.reg, self._best, self._threshold, *self._scratch)
        gradients, bounds = tuple(self._gradients.arrays), tuple(self._bounds)
        self._args = (self._blocks, self.nodes, self._routes, gradients, runs, bounds, search)
        if self._team.stop():
            self._team.start((self._args,))


def walk_others(
    ctx: Context, raw: RawData, node_of_row: np.ndarray, walk: Walk, margin: np.ndarray, target: int
) -> None:
    """margin[r, target] += the weight of r's leaf, for rows of no node (-1), which walk the tree by their values."""
    splits = tuple(walk[:5])
    for first, values in raw.chunks():
        rows = (values, first, node_of_row, splits, target, margin)
        ctx.run_ranges(len(values), _WALK_GRAIN, ops.add_tree_by_values, *rows)


def _kinds(page: SortedPage) -> np.ndarray:
    """FULL, HOLED or CONSTANT: in which directions XGBoost looks for splits of a column."""
    first, last = page.ptr[:-1], page.ptr[1:] - 1
    kinds = np.where(last - first + 1 == page.n_rows, column_scan.FULL, column_scan.HOLED)
    present = (kinds == column_scan.HOLED) & (last >= first)
    kinds[present] = np.where(
        page.values[first[present]] == page.values[last[present]], column_scan.CONSTANT, column_scan.HOLED
    )  # fmt: skip
    return kinds.astype(np.int64)
