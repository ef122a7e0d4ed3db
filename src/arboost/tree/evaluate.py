"""Best splits for a set of nodes: one scan per (node, feature) pair, then one choice per node."""

import numpy as np

from arboost.kernels.cpu import expand, split
from arboost.kernels.dtypes import CANDIDATE, FEW_ROWS
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.tree.histstore import HistogramStore
from arboost.tree.quantize import QuantizedGradients

_GRAIN_SLOTS = 40_000  # histogram slots to scan that are worth a thread's wake-up


class Evaluator:
    """Finds splits from the store's histograms, or from rows; `reg` is the vector of kernels/cpu/split.py."""

    def __init__(self, ctx: Context, page: BinnedPage, store: HistogramStore):
        self._ctx = ctx
        self._columns, self._n_bins = page.columns, page.n_bins
        self._store = store
        self._best = np.empty((0, page.n_features), CANDIDATE)
        self._grain = max(1, _GRAIN_SLOTS * page.n_features // max(1, int(store.slot_ptr[-1])))
        self._few_rows_grain = max(1, _GRAIN_SLOTS // (FEW_ROWS * page.n_features))

    def find(
        self,
        nodes: np.ndarray,
        evals: np.ndarray,
        rows: np.ndarray,
        gradients: QuantizedGradients,
        allowed: np.ndarray,
        reg: np.ndarray,
    ) -> None:
        """Write the best split of every node in `evals` into its record."""
        n = len(evals)
        if len(self._best) < n:
            self._best = np.empty((2 * n, len(self._n_bins)), CANDIDATE)
        store, n_bins, best = self._store, self._n_bins, self._best
        n_by_rows = int(store.counts[expand.BY_ROWS_EVALS])
        if n_by_rows < n:
            args = (nodes, evals, store.buffers, store.slot_ptr, n_bins, allowed, reg, best)
            self._ctx.run_ranges(n * len(n_bins), self._grain, split.find_splits, *args)
        if n_by_rows:
            planes, shift = gradients.planes, int(gradients.packings[0][0])
            data = (nodes, evals, self._columns, rows, planes[0], planes[-1], shift, n_bins)
            self._ctx.run_ranges(n, self._few_rows_grain, split.find_splits_by_rows, *data, allowed, reg, best)
        split.select_splits(nodes, evals, best, reg, 0, n)
