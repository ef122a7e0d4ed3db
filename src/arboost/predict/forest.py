"""All trees of a model in one set of arrays, laid out for the walk (`ops.predict`)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from arboost.kernels.dtypes import PACKED_TREE
from arboost.kernels.ops import predict as ops
from arboost.kernels.ops import symmetric as symmetric_ops
from arboost.predict.shap import Explainer, pack_bitsets
from arboost.runtime.context import Context
from arboost.tree.model import Tree

MAX_PERFECT_DEPTH = 10  # deeper trees would mostly repeat leaves
_ROW_GRAIN = 512
_SMALL_WORK = 200_000  # node visits below which a second thread is not worth waking


class Forest:
    """Packed trees; `targets[t]` is the margin column that tree t adds to."""

    def __init__(self, trees: list[Tree], targets: list[int]):
        self.trees = np.zeros(len(trees), PACKED_TREE)
        self._has_categories = any(len(tree.categories_nodes) for tree in trees)
        self._sources, self._targets = trees, targets
        self._explainer: Explainer | None = None
        self._leaf_vectors: np.ndarray | None = None
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
        if self._has_categories:
            self._pack_bitsets(trees)
        if any(tree.has_vectors for tree in trees):
            self._pack_vectors(trees)
        self._pack_conditions(trees)

    def _pack_conditions(self, trees: list[Tree]) -> None:
        """Where all trees are symmetric: the condition of every level at its leftmost place in the heap.

        A leaf may stand above that place, and is repeated below itself: there the condition changes nothing.
        """
        self._is_symmetric = False
        if self._has_categories or self._leaf_vectors is not None or not self.trees["depth"].max(initial=0) > 1:
            return  # a forest of stumps needs no kernel of its own
        found = []
        for tree, depth in zip(trees, self.trees["depth"].tolist(), strict=True):
            conditions = level_conditions(tree) if depth >= 0 else None
            if conditions is None:
                return
            found.append(conditions)
        for node, conditions in zip(self.trees["node"].tolist(), found, strict=True):
            for k, i in enumerate(conditions):
                place = node + (1 << k) - 1
                self._feature[place], self._threshold[place] = i.feature, i.threshold
                self._default_left[place] = i.default_left
        self._is_symmetric = True
        self._note_used()

    def _note_used(self) -> None:
        """The features that conditions name, and their places among them."""
        self._used = np.unique(self._feature)
        self._slot_of = np.zeros(int(self._used.max(initial=0)) + 1, np.int32)
        self._slot_of[self._used] = np.arange(len(self._used))

    def _pack_vectors(self, trees: list[Tree]) -> None:
        """(n_leaves, K) weights; a tree of one target, which may stand beside, adds 0 to the others."""
        n_targets = max(tree.n_targets for tree in trees)
        self._leaf_vectors = np.zeros((len(self._leaf_weight), n_targets), np.float32)
        stops = np.append(self.trees["leaf"][1:], len(self._leaf_weight))
        for record, stop, tree in zip(self.trees, stops, trees, strict=True):
            leaves = slice(record["leaf"], stop)
            if tree.has_vectors:
                self._leaf_vectors[leaves] = tree.vectors[self._leaf_node[leaves]]
            else:
                self._leaf_vectors[leaves, record["target"]] = self._leaf_weight[leaves]

    def _pack_bitsets(self, trees: list[Tree]) -> None:
        """Bitsets, and their places in the order of the packed nodes."""
        self._category = np.zeros(len(self._feature), np.int32)
        places, self._bits = pack_bitsets(trees)
        others = (self._threshold, self._default_left, self._child, self._leaf_weight, self._leaf_node)
        first = 0
        for t, tree in enumerate(trees):  # packed once more, the places where the features were: the rest is as it is
            own = places[first : first + tree.n_nodes]
            source = (tree.left, tree.right, own, tree.threshold, tree.default_left)
            ops.pack_tree(*source, t, self.trees, self._category, *others)
            first += tree.n_nodes

    def explainer(self, n_features: int) -> Explainer:
        """The same trees packed for explanations; made on the first call."""
        if self._explainer is None:
            kind = Explainer if self._leaf_vectors is None else _VectorExplainer
            self._explainer = kind(self._sources, self._targets, n_features)
        return self._explainer

    def add_margins(self, ctx: Context, data: np.ndarray, trees: slice, margin: np.ndarray) -> None:
        """margin (n, K) float32 += the chosen trees' weights for the float32 rows of `data`."""
        chosen = self.trees[trees]
        if len(chosen) and self._leaf_vectors is not None:
            self._add_vectors(ctx, data, trees, margin)
        elif len(chosen):
            kernel = ops.predict_margins_mixed if self._has_categories else ops.predict_margins
            kernel = symmetric_ops.predict_margins if self._is_symmetric else kernel
            self._run(ctx, kernel, data, chosen, self._leaf_weight, margin)

    def _add_vectors(self, ctx: Context, data: np.ndarray, trees: slice, margin: np.ndarray) -> None:
        assert self._leaf_vectors is not None
        if not self._has_categories:
            self._run(ctx, ops.predict_vectors, data, self.trees[trees], self._leaf_vectors, margin)
            return
        # trees of one target with categorical splits beside trees with vectors: too rare for a kernel of its own
        leaves = np.zeros((len(data), len(self.trees[trees])), np.int32)
        self.find_leaves(ctx, data, trees, leaves)
        for tree, target, nodes in zip(self._sources[trees], self._targets[trees], leaves.T, strict=True):
            if tree.has_vectors:
                margin += tree.vectors[nodes]
            else:
                margin[:, target] += tree.threshold[nodes]

    def find_leaves(self, ctx: Context, data: np.ndarray, trees: slice, leaves: np.ndarray) -> None:
        """leaves (n, n_trees) int32 = the node where each row ends in each chosen tree."""
        kernel = ops.predict_leaves_mixed if self._has_categories else ops.predict_leaves
        kernel = symmetric_ops.predict_leaves if self._is_symmetric else kernel
        self._run(ctx, kernel, data, self.trees[trees], self._leaf_node, leaves)

    def _run(
        self,
        ctx: Context,
        kernel: Callable,
        data: np.ndarray,
        chosen: np.ndarray,
        leaf_values: np.ndarray,
        out: np.ndarray,
    ) -> None:
        nodes: tuple[np.ndarray, ...] = (self._feature, self._threshold, self._default_left)
        nodes += (self._used, self._slot_of) if self._is_symmetric else (self._child,)
        if self._has_categories:
            nodes += (self._category, self._bits)
        work = len(data) * len(chosen) * (1 + self._mean_depth)
        if work < 2 * _SMALL_WORK:
            kernel(data, chosen, *nodes, leaf_values, out, 0, len(data))
        else:
            grain = max(1, int(len(data) * _SMALL_WORK / work))
            ctx.run_ranges(len(data), grain, kernel, data, chosen, *nodes, leaf_values, out)


class Condition(NamedTuple):
    """What a numerical split asks."""

    feature: int
    threshold: float
    default_left: int


def level_conditions(tree: Tree) -> list[Condition] | None:
    """The condition of every level, if all nodes of a level that are split have the same one; else None."""
    found: list[Condition] = []
    nodes = np.zeros(1, np.int64)
    while True:
        nodes = nodes[tree.left[nodes] >= 0]
        if not len(nodes):
            return found
        asked = tree.feature[nodes], tree.threshold[nodes], tree.default_left[nodes]
        if any((column != column[0]).any() for column in asked):
            return None
        found.append(Condition(int(asked[0][0]), float(asked[1][0]), int(asked[2][0])))
        nodes = np.concatenate([tree.left[nodes], tree.right[nodes]])


class _VectorExplainer(Explainer):
    """Explains a tree with vectors in its leaves as so many trees of one target."""

    def __init__(self, trees: list[Tree], targets: list[int], n_features: int):
        copies = [tree.per_target(target) for tree, target in zip(trees, targets, strict=True)]
        self._first = np.cumsum([0, *map(len, copies)])
        flat = [pair for pairs in copies for pair in pairs]
        super().__init__([tree for tree, _ in flat], [target for _, target in flat], n_features)

    def _copies(self, trees: slice) -> slice:
        """The copies of the chosen trees, which lie side by side."""
        start, stop, step = trees.indices(len(self._first) - 1)
        assert step == 1
        return slice(int(self._first[start]), int(self._first[max(start, stop)]))

    def mean(self, trees: slice, n_targets: int) -> np.ndarray:
        return super().mean(self._copies(trees), n_targets)

    def _run(
        self, ctx: Context, kernel: Callable, data: np.ndarray, trees: slice, args: tuple, out: np.ndarray
    ) -> None:
        super()._run(ctx, kernel, data, self._copies(trees), args, out)
