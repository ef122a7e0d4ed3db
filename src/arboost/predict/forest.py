"""All trees of a model in one set of arrays, laid out for the walk (kernels/cpu/predict.py)."""

from collections.abc import Callable

import numpy as np

from arboost.kernels.cpu import predict as ops
from arboost.kernels.dtypes import PACKED_TREE
from arboost.runtime.context import Context
from arboost.tree.model import Tree

MAX_PERFECT_DEPTH = 10  # deeper trees would mostly repeat leaves
_ROW_GRAIN = 512
_SMALL_WORK = 200_000  # node visits below which a second thread is not worth waking


class Forest:
    """Packed trees; `targets[t]` is the margin column that tree t adds to."""

    def __init__(self, trees: list[Tree], targets: list[int]):
        self.trees = np.zeros(len(trees), PACKED_TREE)
        depths = [tree.depth() for tree in trees]
        node = leaf = 0
        for record, tree, depth, target in zip(self.trees, trees, depths, targets, strict=True):
            perfect = depth <= MAX_PERFECT_DEPTH and (1 << depth) <= 8 * tree.n_nodes
            record["node"], record["leaf"], record["target"] = node, leaf, target
            record["depth"] = depth if perfect else -1
            node += (1 << depth) - 1 if perfect else tree.n_nodes
            leaf += 1 << depth if perfect else tree.n_nodes
        self._mean_depth = sum(depths) / max(1, len(depths))
        self._feature = np.zeros(node, np.int32)
        self._threshold = np.full(node, np.inf, np.float32)
        self._default_left = np.zeros(node, np.uint8)
        self._child = np.zeros(node, np.int32)
        self._leaf_weight = np.zeros(leaf, np.float32)
        self._leaf_node = np.zeros(leaf, np.int32)
        out = (self._feature, self._threshold, self._default_left, self._child, self._leaf_weight, self._leaf_node)
        for t, tree in enumerate(trees):
            source = (tree.left, tree.right, tree.feature, tree.threshold, tree.default_left)
            ops.pack_tree(*source, t, self.trees, *out)

    def add_margins(self, ctx: Context, data: np.ndarray, trees: slice, margin: np.ndarray) -> None:
        """margin (n, K) float32 += the chosen trees' weights for the float32 rows of `data`."""
        chosen = self.trees[trees]
        if len(chosen):
            self._run(ctx, ops.predict_margins, data, chosen, self._leaf_weight, margin)

    def find_leaves(self, ctx: Context, data: np.ndarray, trees: slice, leaves: np.ndarray) -> None:
        """leaves (n, n_trees) int32 = the node where each row ends in each chosen tree."""
        self._run(ctx, ops.predict_leaves, data, self.trees[trees], self._leaf_node, leaves)

    def _run(
        self,
        ctx: Context,
        kernel: Callable,
        data: np.ndarray,
        chosen: np.ndarray,
        leaf_values: np.ndarray,
        out: np.ndarray,
    ) -> None:
        nodes = (self._feature, self._threshold, self._default_left, self._child)
        work = len(data) * len(chosen) * (1 + self._mean_depth)
        if work < 2 * _SMALL_WORK:
            kernel(data, chosen, *nodes, leaf_values, out, 0, len(data))
        else:
            grain = max(1, int(len(data) * _SMALL_WORK / work))
            ctx.run_ranges(len(data), grain, kernel, data, chosen, *nodes, leaf_values, out)
