"""The leaves of a packed forest that has linear ones, and what they add to margins and to explanations."""

import numpy as np

from arboost.kernels.dtypes import LINEAR_LEAF
from arboost.kernels.ops import linear_leaves as ops
from arboost.tree.model import Tree


class LinearLeaves:
    """All leaves of all trees with their terms; node numbers are the trees' own."""

    def __init__(self, trees: list[Tree], targets: list[int]):
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        self._first = np.cumsum(sizes) - sizes
        self._targets = np.array(targets, np.int32)
        self._records = np.zeros(int(sizes.sum()), LINEAR_LEAF)
        self._records["value"] = np.concatenate([tree.threshold for tree in trees])
        self._terms = np.concatenate([tree.terms for tree in trees])
        node = np.concatenate([tree.terms["node"] + first for tree, first in zip(trees, self._first, strict=True)])
        self._records["count"] = np.bincount(node, minlength=len(self._records))
        self._records["first"] = np.cumsum(self._records["count"]) - self._records["count"]

    def add_values(
        self, data: np.ndarray, leaves: np.ndarray, trees: slice, margin: np.ndarray, start: int, stop: int
    ) -> None:
        """margin (n, K) += the values of the leaves (n, n_trees) of rows start..stop in the chosen trees."""
        args = (self._records, self._targets[trees], self._terms, self._first[trees], margin)
        ops.add_leaf_values(data, leaves, *args, start, stop)

    def add_contributions(self, data: np.ndarray, leaves: np.ndarray, trees: slice, out: np.ndarray) -> None:
        """out (n, K, F + 1) += what the terms of the rows' leaves add to margins, each to its feature."""
        args = (self._records, self._targets[trees], self._terms, self._first[trees], out)
        ops.add_term_values(data, leaves, *args, 0, len(data))
