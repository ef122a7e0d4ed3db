"""Best splits for a set of nodes: one scan per (node, feature) pair, then one choice per node."""

import numpy as np

from arboost.kernels.cpu import split
from arboost.kernels.dtypes import CANDIDATE
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.tree.histstore import HistogramStore

_GRAIN_SLOTS = 40_000  # histogram slots to scan that are worth a thread's wake-up


class Evaluator:
    """Finds splits from the store's histograms; `reg` is the parameter vector of kernels/cpu/split.py."""

    def __init__(self, ctx: Context, page: BinnedPage, store: HistogramStore):
        self._ctx = ctx
        self._n_bins = page.n_bins
        self._store = store
        self._best = np.empty((0, page.n_features), CANDIDATE)
        slots_per_pair = max(1, int(store.slot_ptr[-1]) // page.n_features)
        self._grain = max(1, _GRAIN_SLOTS // slots_per_pair)

    def find(self, nodes: np.ndarray, evals: np.ndarray, allowed: np.ndarray, reg: np.ndarray) -> None:
        """Write the best split of every node in `evals` into its record."""
        if not len(evals):
            return
        if len(self._best) < len(evals):
            self._best = np.empty((2 * len(evals), len(self._n_bins)), CANDIDATE)
        store, n_bins = self._store, self._n_bins
        pairs = len(evals) * len(n_bins)
        args = (nodes, evals, store.buffers, store.slot_ptr, n_bins, allowed, reg, self._best)
        self._ctx.run_ranges(pairs, self._grain, split.find_splits, *args)
        split.select_splits(nodes, evals, store.buffers, store.slot_ptr, n_bins, self._best, reg, 0, len(evals))
