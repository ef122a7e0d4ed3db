"""Which nodes are opened next: a level at a time (depthwise) or the one with the largest gain (lossguide).

A policy is an order and a batch size, nothing else; the growth loop in `grow.py` serves all of them.
"""

import heapq

import numpy as np

_NONE = np.zeros(0, np.int32)


class Driver:
    """A queue of nodes that have a split, under the limit of `max_leaves` (0: none)."""

    def __init__(self, max_leaves: int, best_first: bool):
        self._room = max_leaves - 1 if max_leaves else np.iinfo(np.int32).max  # splits that may still be made
        self._best_first = best_first
        self._levels: list[np.ndarray] = []  # depthwise: nodes in the order they came, which is level by level
        self._heap: list[tuple[float, int]] = []  # lossguide: (-gain, node), so ties go to the lower node

    def push(self, nodes: np.ndarray, ids: np.ndarray) -> None:
        """Queue nodes that have a split."""
        if not self._best_first:
            if len(ids):  # an empty level would look like the end of the tree
                self._levels.append(ids)
            return
        for gain, node in zip(nodes["gain"][ids].tolist(), ids.tolist(), strict=True):
            heapq.heappush(self._heap, (-gain, node))

    def pop(self, limit: int) -> np.ndarray:
        """Up to `limit` nodes to open together; empty when the tree is finished."""
        limit = min(limit, self._room)
        if limit <= 0 or not (self._levels or self._heap):
            return _NONE
        if self._best_first:
            batch = np.array([heapq.heappop(self._heap)[1]], np.int32)
        else:
            level = self._levels.pop(0)
            batch = level[:limit]
            if len(level) > limit:
                self._levels.insert(0, level[limit:])
        self._room -= len(batch)
        return batch

    def waiting(self) -> np.ndarray:
        """Nodes that are still queued, the last to be opened first."""
        ids = [node for _, node in sorted(self._heap)] + [int(i) for level in self._levels for i in level]
        return np.array(ids[::-1], np.int32)


class WholeLevels(Driver):
    """Levels are opened as a whole, or not at all: of symmetric trees."""

    def __init__(self, max_leaves: int):
        super().__init__(max_leaves, best_first=False)

    def pop(self, limit: int) -> np.ndarray:
        """All nodes of the level, if there is room for as many more leaves."""
        if self._levels and len(self._levels[0]) > min(limit, self._room):
            self._levels.clear()
        return super().pop(limit)
