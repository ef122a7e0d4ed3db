"""A finished tree as a struct of arrays, in XGBoost's node order and meaning.

Node 0 is the root; a leaf has left == -1. `threshold` holds the split value of an inner node (x < threshold goes
left) and the leaf weight (already times eta) of a leaf. Training state lives in `grow.py` and dies there.
A leaf may hold a weight for each of several targets: then `vectors` has them, and `base_weight` one column a target.
A leaf may be linear: `terms` are then added to its weight, unless a row lacks one of their features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache

import numpy as np

from arboost.kernels.dtypes import LINEAR_TERM

NO_THRESHOLD = np.float32(1e-45)  # what XGBoost's files hold where a node has no threshold
NO_PARENT = 2147483647  # XGBoost's mark for the root's parent in model files
DELETED = 2147483647  # feature of a node that pruning has cut off; it keeps its place, nothing points to it


@cache
def _empty(dtype: type, shape: tuple[int, ...] = (0,)) -> np.ndarray:
    """An array without elements, one for all trees."""
    return np.zeros(shape, dtype)


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
    vectors: np.ndarray = field(
        default_factory=lambda: _empty(np.float32, (0, 0))
    )  # (n_nodes, n_targets) weights of leaves, 0 elsewhere; empty: one target
    terms: np.ndarray = field(default_factory=lambda: np.zeros(0, LINEAR_TERM))  # of linear leaves, in node order

    @classmethod
    def blank(cls, n_features: int, n_targets: int = 0) -> "Tree":
        """A single leaf that adds nothing; with `n_targets` it holds a vector."""
        root, zero = np.zeros(1, np.int32), np.zeros(1, np.float32)
        vectors = np.zeros((int(n_targets > 0), n_targets), np.float32)
        base_weight = vectors.copy() if n_targets else zero.copy()
        is_root = np.full(1, NO_PARENT, np.int32)
        threshold = np.full(1, NO_THRESHOLD if n_targets else 0.0, np.float32)
        flags = np.zeros(1, np.uint8)
        none = np.full(1, -1, np.int32)
        return cls(
            none, none.copy(), is_root, root, threshold, flags, zero, zero.copy(), base_weight, n_features,
            vectors=vectors,
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        return len(self.left)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.left < 0))

    @property
    def has_vectors(self) -> bool:
        """Whether a leaf holds weights for several targets."""
        return self.vectors.size > 0

    @property
    def is_linear(self) -> bool:
        """Whether leaves have linear parts."""
        return len(self.terms) > 0

    @property
    def n_targets(self) -> int:
        """How many targets a leaf has a weight for."""
        return self.vectors.shape[1] if self.has_vectors else 1

    @property
    def sets(self) -> dict[int, np.ndarray]:
        """The categories that go right, of every node that is split by a set of them."""
        runs = zip(self.categories_segments.tolist(), self.categories_sizes.tolist(), strict=True)
        members = [self.categories[start : start + size] for start, size in runs]
        return dict(zip(self.categories_nodes.tolist(), members, strict=True))

    def take_sets(self, sets: Mapping[int, np.ndarray]) -> None:
        """Have these nodes, ascending, and no others, split by such sets, whose members ascend."""
        nodes, sizes = np.array(list(sets), np.int32), np.array([len(s) for s in sets.values()], np.int64)
        self.split_type = np.zeros(self.n_nodes, np.uint8)
        self.split_type[nodes] = 1
        self.categories = np.concatenate([_empty(np.int32), *sets.values()]).astype(np.int32)
        self.categories_nodes, self.categories_sizes = nodes, sizes
        self.categories_segments = np.cumsum(sizes) - sizes

    def scaled(self, factor: float | np.float32) -> "Tree":
        """The same tree, all that its leaves and nodes hold multiplied; linear parts of leaves are not."""
        if factor == 1:
            return self
        factor = np.float32(factor)
        threshold = self.threshold
        if not self.has_vectors:
            threshold = np.where(self.left < 0, threshold * factor, threshold)
        return replace(self, threshold=threshold, vectors=self.vectors * factor, base_weight=self.base_weight * factor)

    def of_target(self, target: int) -> "Tree":
        """The same tree with the weights of one of its targets."""
        threshold = np.where(self.left < 0, self.vectors[:, target], self.threshold)
        base_weight = np.ascontiguousarray(self.base_weight[:, target])
        return replace(self, threshold=threshold, base_weight=base_weight, vectors=np.zeros((0, 0), np.float32))

    def per_target(self, target: int) -> list[tuple["Tree", int]]:
        """Trees of one target that add the same, each with its target; `target` is this tree's if it has but one."""
        return [(self.of_target(t), t) for t in range(self.n_targets)] if self.has_vectors else [(self, target)]

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
