"""Histogram buffers of one growing tree: a bounded number, kept and re-used from tree to tree."""

import numpy as np

from arboost.kernels.cpu.data.bundle import PLAIN
from arboost.kernels.cpu.grow import nodes, split
from arboost.kernels.cpu.grow.arrays import Buffers, Plan
from arboost.kernels.cpu.grow.jobs import SPARE_JOBS
from arboost.kernels.dtypes import BLOCK_FEATURES, BUILD, STRIDE, SUBTRACT
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.runtime.memory import check_room

MAX_BYTES = 1 << 29  # memory for buffers; a tree that wants more rebuilds some histograms from rows
MIN_BUFFERS, MAX_BUFFERS = 16, 4096
# Work that is worth a thread: rows to partition, (row, feature) additions, slots to merge, slots to scan
GRAIN_ROWS, GRAIN_UPDATES, GRAIN_MERGED, GRAIN_FOUND = 8_192, 100_000, 32_768, 6_000


class HistogramStore:
    """The buffers, the plan of what to build next, and the scratch memory of every thread."""

    def __init__(self, ctx: Context, page: BinnedPage, n_targets: int = 1, counts_rows: bool = False):
        self.slot_ptr = slot_ptr_of(page)
        self._width = (2 * n_targets + counts_rows) * int(self.slot_ptr[-1])
        self.capacity = min(MAX_BUFFERS, max(MIN_BUFFERS, MAX_BYTES // max(1, 8 * self._width)))
        self.buffers = np.empty((MIN_BUFFERS, self._width), np.int64)
        self._all_free = np.arange(self.capacity, dtype=np.int32)[::-1].copy()
        self.free = self._all_free.copy()
        is_u8 = page.bin_dtype == np.uint8
        # the rows of a thread's accumulator lie on different pages of memory: no two threads share a cache line
        self._acc = np.zeros((ctx.n_threads, BLOCK_FEATURES * STRIDE if is_u8 else 1), np.int64)
        n_blocks = -(-page.n_columns // BLOCK_FEATURES) + (page.sparse is not None)
        jobs = SPARE_JOBS if page.sparse is None else 1  # a span of sparse rows is as wide as all their bins
        max_spans = min(jobs * ctx.n_threads // n_blocks, MAX_BYTES // 8 // (16 * max(1, self._width)))
        max_spans = max(1, max_spans if ctx.n_threads > 1 else 1)
        self._partial = np.empty((max_spans, 2, self._width), np.int64)
        self._bounds = np.zeros(max_spans + 1, np.int64)
        widest = int(max(page.n_bins.max(initial=0), np.diff(self.slot_ptr).max(initial=0))) + 1
        scratch = np.zeros((ctx.n_threads, split.SCRATCH_ROWS, widest), np.int64)
        scratch[:, split.EVERY_BIN] = np.arange(widest)
        scores = np.empty((ctx.n_threads, widest), np.float64)
        # every thread's memory for finding splits, scores, and these as integers: kernels/cpu/grow/split.py
        self.scratch = (scratch, scores, scores.view(np.int64))
        self.widest = widest
        self.builds = np.empty(0, BUILD)
        self.subtracts = np.empty(0, SUBTRACT)
        self.counts = np.zeros(nodes.N_COUNTS, np.int64)
        self.arrays = self._bundle()
        self._grains = np.array([GRAIN_ROWS, GRAIN_UPDATES, GRAIN_MERGED, GRAIN_FOUND], np.int64)

    def hold(self, n_nodes: int) -> None:
        """Let so many nodes have histograms at a time, however much memory that takes; between trees only."""
        if n_nodes > self.capacity:
            self.capacity = n_nodes
            self._all_free = np.arange(self.capacity, dtype=np.int32)[::-1].copy()
            self.free = self._all_free.copy()

    def reset(self) -> None:
        """All buffers free again, lowest number on top of the stack."""
        self.free[:] = self._all_free
        self.counts[:] = 0
        self.counts[nodes.FREE] = self.capacity

    def reserve(self, n: int) -> bool:
        """Room for the plan of opening n nodes, and buffers for their children; True if arrays were replaced."""
        grown = False
        if len(self.builds) < 2 * n:
            self.builds, self.subtracts, grown = np.empty(4 * n, BUILD), np.empty(4 * n, SUBTRACT), True
        used = self.capacity - int(self.counts[nodes.FREE]) + 2 * n
        if used > len(self.buffers):
            # the stack hands out fresh numbers only when no freed one is left, so numbers in use stay below `used`
            n_buffers = min(self.capacity, max(2 * len(self.buffers), used))
            if 8 * n_buffers * self._width > MAX_BYTES:
                check_room(
                    8 * n_buffers * self._width, f"Histograms of {n_buffers} nodes", "Lower max_depth or max_bin."
                )
            buffers = np.empty((n_buffers, self._width), np.int64)
            buffers[: len(self.buffers)] = self.buffers
            self.buffers, grown = buffers, True
            self.arrays = self._bundle()
        return grown

    def _bundle(self) -> tuple:
        """What the kernels call buffers."""
        return tuple(Buffers(self._acc, self._partial, self._bounds, self.buffers))

    def plan(self, limits: np.ndarray, evals: np.ndarray) -> tuple:
        """What the kernels call the plan."""
        return tuple(Plan(limits, self.free, self.builds, self.subtracts, evals, self.counts, self._grains))


def slot_ptr_of(page: BinnedPage) -> np.ndarray:
    """Where each column's slots begin in a histogram; after them, if there are any, those of all sparse features."""
    if page.bundles is None:
        n_slots = page.n_bins + page.cuts.has_missing
    else:
        n_slots = page.bundles.n_codes.astype(np.int64)
        alone = (page.bundles.unstored == PLAIN) & page.cuts.has_missing
        n_slots[page.bundles.column[alone]] += 1
    if page.sparse is not None:
        n_slots = np.append(n_slots, page.sparse.slot_ptr[-1])
    return np.append(0, np.cumsum(n_slots)).astype(np.int64)
