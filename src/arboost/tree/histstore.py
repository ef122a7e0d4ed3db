"""Histogram buffers of one growing tree: a bounded number, kept and re-used from tree to tree.

Building is split over row spans times blocks of 64 features, so that a thread's accumulator stays in its cache;
spans that cut a node leave partial sums which `merge_histograms` adds up: integers, so the order is free.
"""

import numpy as np

from arboost.kernels.cpu import expand, histogram
from arboost.kernels.dtypes import BLOCK_WORDS, BUILD, STRIDE, SUBTRACT
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range
from arboost.tree.quantize import QuantizedGradients

MAX_BYTES = 1 << 29  # memory for buffers; a tree that wants more rebuilds some histograms from rows
MIN_BUFFERS, MAX_BUFFERS = 16, 4096
SPAN_UPDATES = 100_000  # (row, feature) updates that are worth a thread's wake-up
_MERGE_GRAIN = 16_384


class HistogramStore:
    """The buffers, and how they are filled for a set of nodes at once."""

    def __init__(self, ctx: Context, page: BinnedPage):
        self._ctx = ctx
        self._is_u8 = page.bin_dtype == np.uint8
        self._bins = page.words if self._is_u8 else page.words.view(np.uint16)
        self._n_bins = page.n_bins
        n_slots = self._n_bins + page.cuts.has_missing.astype(np.int32)
        self.slot_ptr = np.zeros(page.n_features + 1, np.int64)
        np.cumsum(n_slots, out=self.slot_ptr[1:])
        self._width = 2 * int(self.slot_ptr[-1])
        self.capacity = min(MAX_BUFFERS, max(MIN_BUFFERS, MAX_BYTES // max(1, 8 * self._width)))
        self.buffers = np.empty((MIN_BUFFERS, self._width), np.int64)
        self._all_free = np.arange(self.capacity, dtype=np.int32)[::-1].copy()
        self.free = self._all_free.copy()
        self._n_blocks = -(-page.n_features // (8 * BLOCK_WORDS))
        self._acc = np.zeros((ctx.n_threads if self._is_u8 else 0, BLOCK_WORDS * 8 * STRIDE), np.int64)
        self._partial = np.empty((0, 2, self._width), np.int64)
        self.builds = np.empty(0, BUILD)
        self.subtracts = np.empty(0, SUBTRACT)
        self.counts = np.zeros(8, np.int64)

    def reset(self) -> None:
        """All buffers free again, lowest number on top of the stack."""
        self.free[:] = self._all_free
        self.counts[:] = 0
        self.counts[expand.FREE] = self.capacity

    def reserve(self, n: int) -> None:
        """Room for the plan of opening n nodes, and buffers for their children."""
        if len(self.builds) < 2 * n:
            self.builds, self.subtracts = np.empty(2 * n, BUILD), np.empty(2 * n, SUBTRACT)
        used = self.capacity - int(self.counts[expand.FREE]) + 2 * n
        if used > len(self.buffers):
            # the stack hands out fresh numbers only when no freed one is left, so numbers in use stay below `used`
            grown = np.empty((min(self.capacity, max(2 * len(self.buffers), used)), self._width), np.int64)
            grown[: len(self.buffers)] = self.buffers
            self.buffers = grown

    def build(self, rows: np.ndarray, gradients: QuantizedGradients) -> None:
        """Carry out the plan in `builds` and `subtracts`; an empty `rows` stands for all rows in order."""
        n_builds, n_subtracts = int(self.counts[expand.BUILDS]), int(self.counts[expand.SUBTRACTS])
        if not n_builds:
            return
        n_rows = int(self.counts[expand.BUILD_ROWS])
        builds, n_features = self.builds[:n_builds], len(self._n_bins)
        heavy = self._ctx.n_threads > 1 and n_rows * n_features >= 2 * SPAN_UPDATES
        spans = [(0, n_rows)]
        if heavy:  # enough row spans to keep all threads busy on every block of features
            n_spans = -(-self._ctx.n_threads // self._n_blocks)
            spans = split_range(n_rows, n_spans, max(1, SPAN_UPDATES // n_features))
        if len(self._partial) < len(spans):
            self._partial = np.empty((len(spans), 2, self._width), np.int64)
        jobs = [(block, s) for block in range(self._n_blocks) for s in range(len(spans))]
        for plane, packing in zip(gradients.planes, gradients.packings, strict=True):
            common = (self._bins, rows, plane, packing, builds, self.slot_ptr, self._n_bins)
            if heavy:
                shares = split_range(len(jobs), self._ctx.n_threads, 1)
                tasks = [(common, t, jobs[a:b], spans) for t, (a, b) in enumerate(shares)]
                self._ctx.run_tasks(self._run_jobs, tasks)
            else:
                self._run_jobs(common, 0, jobs, spans)
        if len(spans) > 1 or n_subtracts:
            bounds = np.array([start for start, _ in spans] + [n_rows], np.int64)
            args = (builds, bounds, self._partial, self.subtracts[:n_subtracts], self.buffers)
            work = n_subtracts + 2 * len(spans)
            self._ctx.run_ranges(self._width, max(1, _MERGE_GRAIN * 4 // work), histogram.merge_histograms, *args)

    def _run_jobs(self, common: tuple, thread: int, jobs: list, spans: list) -> None:
        """One thread's share of (block of features, span of rows) jobs, with its own accumulator."""
        for block, s in jobs:
            if self._is_u8:
                out = (self._acc[thread], self._partial[s], self.buffers)
                histogram.build_histograms(*common, *out, block, *spans[s])
            else:
                histogram.build_histograms_u16(*common, self._partial[s], self.buffers, block, *spans[s])
