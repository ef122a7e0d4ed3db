"""The level engine on proposals of every node (the paper, section 3.2): each draws candidates from its own rows.

The search is kernels/cpu/sorted/local_proposals.py. Sorted columns are kept parted by nodes, so the candidates of a
node are quantiles of its runs, and its sums come with them: there are no histograms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.cpu.grow import nodes
from arboost.kernels.cpu.sorted import local_proposals as ops
from arboost.kernels.cpu.sorted import summary
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.levels.base import NO_IDS, Features, Finished, Rules, Walk
from arboost.levels.exact import walk_others
from arboost.levels.finish import finish_nodes
from arboost.levels.quantize import QuantizedGradients
from arboost.levels.rowsets import RowSets
from arboost.levels.special import grown_bounds, make_bounds
from arboost.matrix.adapt import RawData
from arboost.matrix.cuts import most_bins
from arboost.matrix.proposed import outer_cuts
from arboost.matrix.sorted import SortedPage
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range

_EVERY_ROW = np.zeros(0, np.uint8)
SHARED_ENTRIES = 50_000  # entries of a batch that are worth other threads


class _OfNodes(NamedTuple):
    """What is known of every node besides its record."""

    thresholds: np.ndarray  # float32, of its split
    places: np.ndarray  # int64, the first entry of its run that goes right


class LocalProposalsEngine:
    """Grows trees on one page of sorted columns.

    Parameters
    ----------
    ctx
        Threads.
    columns
        The sorted columns.
    raw
        The same data by rows, for rows that are left out of a tree's sample.
    max_bin
        The most bins that a node's candidates cut a feature into.
    monotone
        (n_features,) the directions that weights must follow, 0 where they are free.
    """

    def __init__(self, ctx: Context, columns: SortedPage, raw: RawData, max_bin: int, monotone: np.ndarray):
        n_features, ptr = columns.n_features, columns.ptr
        self._ctx, self._page, self._raw = ctx, columns, raw
        self._n_bins = most_bins(columns.has_missing, max_bin)
        self._outer_cuts = np.stack(outer_cuts(columns))
        self._target = (np.empty_like(columns.rows), np.empty_like(columns.values))
        self._rowsets = RowSets(ctx, columns.n_rows)
        self._side = np.zeros(columns.n_rows, np.uint8)
        self._scratch = [self._make_scratch(int(np.diff(ptr).max(initial=0))) for _ in range(ctx.n_threads)]
        self._counts = np.zeros(nodes.N_COUNTS, np.int64)
        self.nodes, self._runs = np.zeros(0, NODE), np.zeros((0, n_features, 2), np.int64)
        self._of_nodes = _OfNodes(np.zeros(0, np.float32), np.zeros(0, np.int64))
        self._bounds = make_bounds(monotone)
        self._free: list[int] = []
        self._make_search_arrays(64)

    def _make_scratch(self, longest: int) -> tuple[np.ndarray, ...]:
        """One thread's memory: see kernels/cpu/sorted/local_proposals.py."""
        n_bins = int(self._n_bins.max(initial=0))
        prefix, firsts = np.empty((3, summary.N_BLOCKS + 1), np.int64), np.empty(n_bins + 1, np.int64)
        sums = np.empty((3, n_bins + 1), np.int64)
        sums[ops.EVERY_BIN] = np.arange(n_bins + 1)
        return prefix, firsts, sums, np.empty(longest + 1, np.int32), np.empty(longest + 1, np.float32)

    def start(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""
        every = np.arange(self._page.n_rows, dtype=np.int32)
        self._gradients, self._rules, self._features, self._sampled = gradients, rules, features, sampled
        self._limits = np.zeros(nodes.N_LIMITS, np.int64)
        self._limits[[nodes.MAX_DEPTH, nodes.LEAST_H, nodes.LEAST_ROWS]] = rules.max_depth, rules.least_h, 2
        n_rows = self._rowsets.reset(every if sampled is None else sampled)
        self._now = (self._page.ptr, self._page.rows, self._page.values)  # where the runs are; later in the target
        self._free = list(range(len(self._runs)))[::-1]
        self._counts[nodes.NODES] = self._counts[nodes.EVALS] = 1
        self._evals[0] = 0
        self._room_for(0)
        root = self.nodes[0]
        root["g"], root["h"] = gradients.total(self._ctx, sampled)
        root["start"], root["stop"] = 0, n_rows
        root["left"] = root["right"] = root["feature"] = root["parent"] = -1
        root["depth"] = root["gain"] = 0
        if n_rows < 2 or root["h"] < rules.least_h:
            return NO_IDS
        root["hist"] = self._take_slots(1)[0]
        chosen = _EVERY_ROW
        if sampled is not None:
            chosen = np.zeros(self._page.n_rows, np.uint8)
            chosen[sampled] = 1
        self._search(ops.start_features, (chosen, self.nodes), n_rows)
        if sampled is not None:
            self._now = (self._page.ptr, *self._target)
        return self._choose()

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once: any number, there are no histograms."""
        return int(np.iinfo(np.int32).max)

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        self._part(batch)
        n_evals = int(self._counts[nodes.EVALS])
        closed = self.nodes["hist"][batch]
        if not n_evals:
            self._free += closed.tolist()
            return NO_IDS
        slots = self._take_slots(n_evals)
        self.nodes["hist"][self._evals[:n_evals]] = slots
        n_rows = nodes.count_rows(self.nodes, batch)
        self._search(ops.open_features, (self._side, self.nodes, batch), n_rows)
        self._free += closed.tolist()
        self._now = (self._page.ptr, *self._target)
        return self._choose()

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; their rows are parted."""
        self._part(batch)
        return NO_IDS

    def stop(self) -> None:
        """Nothing: threads are called for every search."""

    def _part(self, batch: np.ndarray) -> None:
        """Part the rows of the batch, and make children."""
        self._room_for(len(batch))
        n_left = np.zeros(len(batch), np.int64)
        sources = (self.nodes, batch, self._runs, self._of_nodes.places, self._now)
        spans = split_range(len(batch), self._n_threads(nodes.count_rows(self.nodes, batch)), 1)
        rows = (self._rowsets.ids, self._side, self._rowsets.temp)
        self._ctx.run_tasks(ops.split_rows, [(*sources, *rows, n_left, *span) for span in spans])
        plan = (self._limits, self._rules.reg, self._evals, self._counts)
        ops.plan_children(tuple(self._bounds), self.nodes, batch, n_left, *plan)

    def _search(self, kernel: Any, args: tuple, n_rows: int) -> None:
        """Run a kernel that searches the evaluated nodes, of n_rows in all, feature by feature."""
        n_evals = int(self._counts[nodes.EVALS])
        allowed = used = self._features.of_tree()
        if self._features.differ:
            allowed = np.zeros((n_evals, self._page.n_features), np.uint8)
            self._features.write(self.nodes, self._evals[:n_evals], allowed)
        n_bins = self._n_bins * used[0]
        self._found = (n_bins, self._rules.reg, self._best[:n_evals], self._best_places, allowed)
        gradients, bounds = tuple(self._gradients.arrays), tuple(self._bounds)
        head = (self._now, self._target, *args, self._runs, gradients, self._found, bounds)
        spans = split_range(self._page.n_features, self._n_threads(n_rows * self._page.n_features), 1)
        tasks = [(*head, scratch, *span) for scratch, span in zip(self._scratch, spans, strict=False)]
        self._ctx.run_tasks(kernel, tasks)

    def _choose(self) -> np.ndarray:
        """Give the evaluated nodes their best split; returns those that have one, the others give back their slots."""
        evals = self._evals[: int(self._counts[nodes.EVALS])]
        in_force = int(self._bounds.in_force[0])
        sources = (self.nodes, evals, self._found, in_force, self._runs, self._now[2])
        out = (self._of_nodes.thresholds, self._of_nodes.places, self._opened, self._counts)
        ops.choose_splits(*sources, self._outer_cuts, *out)
        lost = evals[self.nodes["feature"][evals] < 0]
        self._free += self.nodes["hist"][lost].tolist()
        return self._opened[: int(self._counts[nodes.OPENED])].copy()

    def _n_threads(self, n_entries: int) -> int:
        return self._ctx.n_threads if n_entries >= SHARED_ENTRIES else 1

    # ---- the grown tree ----

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta."""
        made, extra = self.nodes[: int(self._counts[nodes.NODES])], tuple(self._bounds)
        return finish_nodes(made, self._of_nodes.thresholds, extra, self._rules.reg, eta)

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows; those not sampled walk the tree."""
        self._rowsets.add_leaf_weights(self.nodes, leaves, walk.weights, margin, target)
        if self._sampled is not None:
            node_of_row = np.full(self._page.n_rows, -1, np.int32)
            node_of_row[self._sampled] = 0
            walk_others(self._ctx, self._raw, node_of_row, walk, margin, target)

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
        return self._rowsets.leaf_rows(self.nodes, leaves)

    # ---- arrays ----

    def _take_slots(self, n: int) -> list[int]:
        """Slots for the runs of n nodes."""
        if len(self._free) < n:
            old = self._runs
            self._runs = np.zeros((2 * len(old) + n, *old.shape[1:]), np.int64)
            self._runs[: len(old)] = old
            self._free = list(range(len(old), len(self._runs)))[::-1] + self._free
        return [self._free.pop() for _ in range(n)]

    def _room_for(self, n_batch: int) -> None:
        """Room for the children of n_batch nodes."""
        n_nodes = int(self._counts[nodes.NODES]) + 2 * n_batch
        n_more = max(256, 2 * n_nodes) - len(self.nodes)
        if n_nodes > len(self.nodes):
            self.nodes, *of_nodes = (np.append(a, np.zeros(n_more, a.dtype)) for a in (self.nodes, *self._of_nodes))
            self._of_nodes = _OfNodes(*of_nodes)
            self._bounds = grown_bounds(self._bounds, len(self.nodes))
        if 2 * n_batch > len(self._evals):
            self._make_search_arrays(2 * n_batch)

    def _make_search_arrays(self, n_batch: int) -> None:
        """Room for opening n_batch nodes at once and evaluating their children."""
        shape = (2 * n_batch, self._page.n_features)
        self._evals, self._opened = np.zeros(2 * n_batch, np.int32), np.zeros(2 * n_batch, np.int32)
        self._best, self._best_places = np.zeros(shape, CANDIDATE), np.zeros(shape, np.int64)
