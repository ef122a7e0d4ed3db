"""Which nodes are opened next: a level at a time (depthwise) or the one with the largest gain (lossguide).

A policy is an order and a batch size, nothing else; the growth loop in `grow.py` serves both.
"""

import heapq

import numpy as np


class Driver:
    """A queue of nodes that have a split, under the limit of `max_leaves` (0: none)."""

    def __init__(self, max_leaves: int, best_first: bool):
        self._max_leaves = max_leaves
        self._best_first = best_first
        self._n_leaves = 1
        self._queue: list[tuple[float, int]] = []  # (-gain or depth, node): ties go to the lower node

    def push(self, nodes: np.ndarray, ids: np.ndarray) -> None:
        """Offer evaluated nodes; those without a split stay leaves."""
        split = ids[nodes["feature"][ids] >= 0]
        keys = -nodes["gain"][split] if self._best_first else nodes["depth"][split]
        if self._best_first:
            for item in zip(keys.tolist(), split.tolist(), strict=True):
                heapq.heappush(self._queue, item)
        else:  # arrives level by level, so it is sorted already
            self._queue.extend(zip(keys.tolist(), split.tolist(), strict=True))

    def pop(self, limit: int) -> np.ndarray:
        """Up to `limit` nodes to open together; empty when the tree is finished."""
        room = limit if not self._max_leaves else min(limit, self._max_leaves - self._n_leaves)
        if not self._queue or room <= 0:
            return np.zeros(0, np.int32)
        if self._best_first:
            batch = [heapq.heappop(self._queue)[1]]
        else:
            depth = self._queue[0][0]
            level = [node for d, node in self._queue[:room] if d == depth]
            batch, self._queue = level, self._queue[len(level) :]
        self._n_leaves += len(batch)
        return np.array(batch, np.int32)

    def waiting(self) -> np.ndarray:
        """Nodes that are still queued, the last to be opened first."""
        return np.array([node for _, node in sorted(self._queue, reverse=True)], np.int32)
