"""Which rows are in which node: one permutation of row ids, each node a range of it (`RowSets`), or every row's node.

Until the first split the ids are 0, 1, 2, ... and are not written down at all (`in_order`). Partitions are stable, so
the ids of a node ascend.
"""

from collections.abc import Sequence

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

    def leaf_rows(
        self, records: np.ndarray, leaves: np.ndarray, sampled: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows of each leaf, one after the other; of `sampled`, where others went along."""
        spans = zip(records["start"][leaves].tolist(), records["stop"][leaves].tolist(), strict=True)
        ids = np.arange(len(self.ids), dtype=np.int32) if self.in_order else self.ids
        pieces = [ids[start:stop] for start, stop in spans]
        if sampled is not None:
            pieces = [piece[np.isin(piece, sampled)] for piece in pieces]
        return np.concatenate([ids[:0], *pieces]), _ends([len(piece) for piece in pieces])

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


def rows_by_node(node_of_row: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same from the leaf that every row is in, -1 for none; `leaves` ascend, and no other node has rows."""
    n_leaves = len(leaves)
    number = np.full(
        leaves[-1] + 2, n_leaves, np.uint16 if n_leaves < 65535 else np.int64
    )  # the last one is that of -1
    number[leaves] = np.arange(n_leaves)
    leaf_of_row = number[node_of_row]
    leaf_ptr = _ends(np.bincount(leaf_of_row, minlength=n_leaves + 1)[:n_leaves])
    return np.argsort(leaf_of_row, kind="stable")[: leaf_ptr[-1]].astype(np.int32), leaf_ptr


def _ends(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(counts)).astype(np.int64)
