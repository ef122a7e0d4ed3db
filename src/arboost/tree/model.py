"""A finished tree as a struct of arrays, in XGBoost's node order and meaning.

Node 0 is the root; a leaf has left == -1. `threshold` holds the split value of an inner node (x < threshold goes
left) and the leaf weight (already times eta) of a leaf. Training state lives in `grow.py` and dies there.
"""

from dataclasses import dataclass, field, fields

import numpy as np

NO_PARENT = 2147483647  # XGBoost's mark for the root's parent in model files


def _empty(dtype: type) -> np.ndarray:
    return np.zeros(0, dtype)


@dataclass
class Tree:
    """One tree; all arrays have one entry per node unless said otherwise."""

    left: np.ndarray  # int32, -1 for a leaf
    right: np.ndarray  # int32, -1 for a leaf
    parent: np.ndarray  # int32, NO_PARENT for the root
    feature: np.ndarray  # int32, 0 for a leaf
    threshold: np.ndarray  # float32, leaf weight for a leaf
    default_left: np.ndarray  # uint8
    gain: np.ndarray  # float32, loss change; 0 for a leaf
    cover: np.ndarray  # float32, sum of hessians
    base_weight: np.ndarray  # float32, as XGBoost stores it
    n_features: int
    split_type: np.ndarray = field(
        default_factory=lambda: _empty(np.uint8)
    )  # 0 numerical, 1 categorical; empty = all 0
    categories: np.ndarray = field(default_factory=lambda: _empty(np.int32))  # all nodes' right-going categories
    categories_nodes: np.ndarray = field(default_factory=lambda: _empty(np.int32))  # nodes that have categories
    categories_segments: np.ndarray = field(default_factory=lambda: _empty(np.int64))  # their starts in `categories`
    categories_sizes: np.ndarray = field(default_factory=lambda: _empty(np.int64))  # and lengths

    @property
    def n_nodes(self) -> int:
        return len(self.left)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.left < 0))

    def depth(self) -> int:
        """Length of the longest path from the root to a leaf (a single leaf has depth 0)."""
        depth = 0
        level = np.array([0])
        while True:
            children = np.concatenate([self.left[level], self.right[level]])
            level = children[children >= 0]
            if not len(level):
                return depth
            depth += 1

    def equals(self, other: "Tree") -> bool:
        """Same bits in every array."""
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
