"""Which rows are in which node: one permutation of row ids, each node a range of it.

Until the first split the ids are 0, 1, 2, ... and are not written down at all (`in_order`). Partitions are stable, so
the ids of a node ascend.
"""

import numpy as np

from arboost.kernels.cpu.grow import arrays, nodes, partition
from arboost.kernels.cpu.grow.jobs import SPARE_JOBS
from arboost.kernels.dtypes import PIECE
from arboost.runtime.context import Context

_GRAIN = 16_384


class RowSets:
    """The rows of every node of one growing tree; its arrays serve all trees of a training."""

    def __init__(self, ctx: Context, n_rows: int):
        self._ctx = ctx
        self.ids = np.empty(n_rows, np.int32)
        self.temp = np.empty(n_rows, np.int32)
        self._pieces = np.empty((SPARE_JOBS * ctx.n_threads, 2), PIECE)
        self._n_left = np.zeros(0, np.int64)
        self._state = np.zeros(1, np.int64)
        self._arrays = arrays.Rows(self.ids, self.temp, self._n_left, self._pieces, self._state)

    @property
    def in_order(self) -> bool:
        """Whether the ids are 0, 1, 2, ... and not written down."""
        return bool(self._state[arrays.IN_ORDER])

    def reset(self, sampled: np.ndarray | None) -> int:
        """Start a tree on all rows, or on the sampled ones; returns how many there are."""
        self._state[arrays.IN_ORDER] = sampled is None
        if sampled is None:
            return len(self.ids)
        self.ids[: len(sampled)] = sampled
        return len(sampled)

    def arrays(self, n_batch: int) -> arrays.Rows:
        """What the kernels call rows, with room for splitting n_batch nodes."""
        if len(self._n_left) < n_batch:
            self._n_left = np.zeros(n_batch, np.int64)
            self._arrays = self._arrays._replace(n_left=self._n_left)
        return self._arrays

    def of_nodes(self, records: np.ndarray, ids: np.ndarray) -> list[np.ndarray]:
        """The rows of each of these nodes."""
        starts, stops = records["start"][ids].tolist(), records["stop"][ids].tolist()
        if self.in_order:
            return [np.arange(a, b, dtype=np.int32) for a, b in zip(starts, stops, strict=True)]
        return [self.ids[a:b] for a, b in zip(starts, stops, strict=True)]

    def add_leaf_weights(
        self, records: np.ndarray, leaves: np.ndarray, weights: np.ndarray, margin: np.ndarray, target: int
    ) -> None:
        """margin[r, target] += weights[leaf of r] for the rows of `leaves`."""
        args = (records, leaves, weights, self.ids, self.in_order, target, margin)
        self._ctx.run_ranges(nodes.count_rows(records, leaves), 2 * _GRAIN, partition.add_leaf_weights, *args)

    def add_split_weights(
        self,
        page: tuple,
        extra: tuple,
        records: np.ndarray,
        batch: np.ndarray,
        weights: np.ndarray,
        margin: np.ndarray,
        target: int,
    ) -> None:
        """The same for unpartitioned nodes whose two children are leaves."""
        args = (page, extra, records, batch, weights, self.ids, self.in_order, target, margin)
        self._ctx.run_ranges(nodes.count_rows(records, batch), _GRAIN, partition.add_split_weights, *args)


def join_rows(pieces: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(rows, leaf_ptr) of the rows of leaves, one after the other."""
    rows = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
    return rows, np.append(0, np.cumsum([len(piece) for piece in pieces])).astype(np.int64)
