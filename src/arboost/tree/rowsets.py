"""Which rows are in which node: one permutation of row ids, each node a range of it.

Until the first split the ids are 0, 1, 2, ... and are not written down at all (`current` is empty).
"""

import numpy as np

from arboost.kernels.cpu import expand, level, partition
from arboost.kernels.dtypes import PIECE
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context

_GRAIN = 16_384
_NO_ROWS = np.empty(0, np.int32)


class RowSets:
    """The rows of every node of one growing tree; its arrays serve all trees of a training."""

    def __init__(self, ctx: Context, page: BinnedPage):
        self._ctx = ctx
        self.columns = page.columns
        self.layout: tuple[np.ndarray, ...] = ()  # see kernels/cpu/routes.py
        self._missing_code = page.missing_code
        self._rows = np.empty(page.n_rows, np.int32)
        self._temp = np.empty(page.n_rows, np.int32)
        self._pieces = np.empty((level.SPARE_JOBS * ctx.n_threads, 2), PIECE)
        self._n_left = np.zeros(0, np.int64)
        self.current = _NO_ROWS

    def reset(self, sampled: np.ndarray | None) -> int:
        """Start a tree on all rows, or on the sampled ones; returns how many there are."""
        self.current = _NO_ROWS
        if sampled is None:
            return len(self._rows)
        self.current = self._rows[: len(sampled)]
        self.current[:] = sampled
        return len(sampled)

    def arrays(self, n_batch: int) -> tuple[np.ndarray, ...]:
        """What kernels/cpu/level.py calls rowsets, with room for splitting n_batch nodes."""
        if len(self._n_left) < n_batch:
            self._n_left = np.zeros(n_batch, np.int64)
        return self._rows, self._temp, self._n_left, self._pieces

    def mark_split(self) -> None:
        """From the first split on, the ids are written down."""
        if not len(self.current):
            self.current = self._rows

    def add_leaf_weights(
        self, nodes: np.ndarray, leaves: np.ndarray, weights: np.ndarray, margin: np.ndarray, target: int
    ) -> None:
        """margin[r, target] += weights[leaf of r] for the rows of `leaves`."""
        args = (nodes, leaves, weights, self.current, target, margin)
        self._ctx.run_ranges(expand.count_rows(nodes, leaves), 2 * _GRAIN, partition.add_leaf_weights, *args)

    def add_split_weights(
        self, nodes: np.ndarray, batch: np.ndarray, weights: np.ndarray, margin: np.ndarray, target: int
    ) -> None:
        """The same for unpartitioned nodes whose two children are leaves."""
        args = (self.columns, self.layout, nodes, batch, weights, self.current, self._missing_code, target, margin)
        self._ctx.run_ranges(expand.count_rows(nodes, batch), _GRAIN, partition.add_split_weights, *args)
