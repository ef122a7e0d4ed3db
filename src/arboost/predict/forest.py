"""All trees of a model in one set of arrays, laid out for the walk (`ops.predict`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arboost.kernels.dtypes import PACKED_TREE
from arboost.kernels.ops import predict as ops
from arboost.kernels.ops import symmetric as symmetric_ops
from arboost.matrix.dmatrix import DMatrix
from arboost.predict.linear_leaves import LinearLeaves
from arboost.predict.shap import Explainer, pack_bitsets
from arboost.runtime.context import Context
from arboost.runtime.device import device_of
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

if TYPE_CHECKING:
    from arboost.predict.device import DeviceForest

MAX_PERFECT_DEPTH = 10  # deeper trees would mostly repeat leaves
_ROW_GRAIN = 512
_LEAVES_AT_A_TIME = 32_768  # of rows times trees, where leaves are found before their values: a cache holds them
_DEVICE_WORK = 20_000_000  # node visits that are worth sending rows to a device
_DEVICE_VISITS = 64  # of a row: fewer take less time than sending it
_SMALL_WORK = 200_000  # node visits below which a second thread is not worth waking


class Forest:
    """Packed trees; `targets[t]` is the margin column that tree t adds to."""

    def __init__(self, trees: list[Tree], targets: list[int]):
        self.trees = np.zeros(len(trees), PACKED_TREE)
        self._has_categories = any(len(tree.categories_nodes) for tree in trees)
        self._sources, self._targets = trees, targets
        self._explainer: Explainer | None = None
        self._leaf_vectors: np.ndarray | None = None
        self._linear = LinearLeaves(trees, targets) if any(tree.is_linear for tree in trees) else None
        self._device_forest: DeviceForest | None = None
        shapes = [_shape_of(tree) for tree in trees]
        depths = [depth for depth, _ in shapes]
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
        self._pack_conditions(trees, [asking for _, asking in shapes])

    def _pack_conditions(self, trees: list[Tree], asking: list[np.ndarray | None]) -> None:
        """Where all trees are symmetric: the condition of every level at its leftmost place in the heap.

        A leaf may stand above that place, and is repeated below itself: there the condition changes nothing.
        """
        self._is_symmetric = False
        if self._has_categories or self._leaf_vectors is not None or not self.trees["depth"].max(initial=0) > 1:
            return  # a forest of stumps needs no kernel of its own
        if any(nodes is None for nodes in asking) or self.trees["depth"].min() < 0:
            return
        for node, tree, nodes in zip(self.trees["node"].tolist(), trees, asking, strict=True):
            assert nodes is not None
            places = node + (1 << np.arange(len(nodes))) - 1
            self._feature[places], self._threshold[places] = tree.feature[nodes], tree.threshold[nodes]
            self._default_left[places] = tree.default_left[nodes]
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
            if self._linear is not None:
                self._explainer.add_terms = self._add_terms
        return self._explainer

    def check_values(self, data: DMatrix) -> None:
        """Refuse data that has bins alone where leaves are linear: trees need no more, but these do."""
        if self._linear is not None and data.raw is None:
            raise XGBoostError(
                f"A model with linear leaves needs values, of which a {type(data).__name__} has bins: use a DMatrix."
            )

    def add_margins(self, ctx: Context, data: Any, trees: slice, margin: np.ndarray) -> None:
        """margin (n, K) float32 += the chosen trees' weights for the float32 rows of `data`, also of a device."""
        chosen = self.trees[trees]
        if self._linear is not None:
            grain = max(_ROW_GRAIN, _SMALL_WORK // max(1, len(chosen)))
            ctx.run_ranges(len(data), grain, self._add_linear, _on_host(data), trees, margin)
            return
        on_device = self._on_device(ctx, data, len(chosen))
        if on_device is not None:
            begin = trees.indices(len(self.trees))[0]
            on_device.add_margins(data, begin, begin + len(chosen), margin, ctx.n_threads)
            return
        data = _on_host(data)
        if len(chosen) and self._leaf_vectors is not None:
            self._add_vectors(ctx, data, trees, margin)
        elif len(chosen):
            kernel = ops.predict_margins_mixed if self._has_categories else ops.predict_margins
            kernel = symmetric_ops.predict_margins if self._is_symmetric else kernel
            self._run(ctx, kernel, data, chosen, self._leaf_weight, margin)

    def _add_linear(self, data: np.ndarray, trees: slice, margin: np.ndarray, start: int, stop: int) -> None:
        """`add_margins` for rows start..stop, block by block: the leaves they end in, then what these add."""
        assert self._linear is not None
        n_trees = len(self.trees[trees])
        rows = max(64, _LEAVES_AT_A_TIME // max(1, n_trees))
        leaves = np.empty((min(rows, stop - start), n_trees), np.int32)
        for first in range(start, stop, rows):
            part = slice(first, min(first + rows, stop))
            found = leaves[: part.stop - first]
            self._find_leaves(data[part], trees, found)
            self._linear.add_values(data[part], found, trees, margin[part], 0, len(found))

    def _add_terms(self, ctx: Context, data: np.ndarray, trees: slice, out: np.ndarray) -> None:
        """out (n, K, F + 1) += what linear leaves add to their constants, each term to its feature."""
        assert self._linear is not None
        leaves = np.zeros((len(data), len(self.trees[trees])), np.int32)
        self.find_leaves(ctx, data, trees, leaves)
        self._linear.add_contributions(data, leaves, trees, out)

    def _find_leaves(self, data: np.ndarray, trees: slice, leaves: np.ndarray) -> None:
        args = (*self._nodes(), self._leaf_node, leaves)
        self._leaf_kernel()(data, self.trees[trees], *args, 0, len(data))

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

    def find_leaves(self, ctx: Context, data: Any, trees: slice, leaves: np.ndarray) -> None:
        """leaves (n, n_trees) int32 = the node where each row ends in each chosen tree."""
        on_device = self._on_device(ctx, data, leaves.shape[1])
        if on_device is not None:
            begin = trees.indices(len(self.trees))[0]
            on_device.find_leaves(data, begin, begin + leaves.shape[1], leaves, ctx.n_threads)
            return
        self._run(ctx, self._leaf_kernel(), _on_host(data), self.trees[trees], self._leaf_node, leaves)

    def _leaf_kernel(self) -> Callable:
        kernel: Callable = ops.predict_leaves_mixed if self._has_categories else ops.predict_leaves
        return symmetric_ops.predict_leaves if self._is_symmetric else kernel

    def _on_device(self, ctx: Context, data: Any, n_trees: int) -> "DeviceForest | None":
        """The forest on the context's device, where there is one and enough to do for it, or the data lies there."""
        owner = device_of(ctx)
        if owner is None or not n_trees or self._leaf_vectors is not None:
            return None
        visits = n_trees * (1 + self._mean_depth)
        if isinstance(data, np.ndarray) and (visits < _DEVICE_VISITS or len(data) * visits < _DEVICE_WORK):
            return None
        if self._linear is not None:
            return None  # values follow leaves block by block, which no device is asked for
        if self._is_symmetric:
            return None  # the CPU's bit-index walk is the faster one, and conditions have overwritten other nodes
        if self._device_forest is None or self._device_forest.device is not owner:
            from arboost.predict.device import DeviceForest

            nodes, leaves = self._nodes(), (self._leaf_weight, self._leaf_node)
            self._device_forest = DeviceForest(owner, self.trees, nodes[:4], nodes[4:], leaves)
        return self._device_forest

    def _run(
        self,
        ctx: Context,
        kernel: Callable,
        data: np.ndarray,
        chosen: np.ndarray,
        leaf_values: np.ndarray,
        out: np.ndarray,
    ) -> None:
        nodes = self._nodes()
        work = len(data) * len(chosen) * (1 + self._mean_depth)
        if work < 2 * _SMALL_WORK:
            kernel(data, chosen, *nodes, leaf_values, out, 0, len(data))
        else:
            grain = max(1, int(len(data) * _SMALL_WORK / work))
            ctx.run_ranges(len(data), grain, kernel, data, chosen, *nodes, leaf_values, out)

    def _nodes(self) -> tuple[np.ndarray, ...]:
        """What kernels read of the nodes."""
        nodes: tuple[np.ndarray, ...] = (self._feature, self._threshold, self._default_left)
        nodes += (self._used, self._slot_of) if self._is_symmetric else (self._child,)
        return (*nodes, self._category, self._bits) if self._has_categories else nodes


def _on_host(data: Any) -> np.ndarray:
    found: np.ndarray = data if isinstance(data, np.ndarray) else data.copy_to_host()
    return found


def _shape_of(tree: Tree) -> tuple[int, np.ndarray | None]:
    """Its depth, and for every level a node that asks what all of the level do; None where they differ."""
    room = np.empty((2, tree.n_nodes), np.int32)
    source = (tree.left, tree.right, tree.feature, tree.threshold, tree.default_left)
    depth, is_symmetric = symmetric_ops.find_conditions(*source, *room)
    return depth, room[1, :depth] if is_symmetric else None


class _VectorExplainer(Explainer):
    """Explains a tree with vectors in its leaves as so many trees of one target."""

    def __init__(self, trees: list[Tree], targets: list[int], n_features: int):
        copies = [tree.per_target(target) for tree, target in zip(trees, targets, strict=True)]
        self._first = np.cumsum([0, *map(len, copies)])
        flat = [pair for pairs in copies for pair in pairs]
        super().__init__([tree for tree, _ in flat], [target for _, target in flat], n_features)

    def _packed(self, trees: slice) -> slice:
        """The copies of the chosen trees, which lie side by side."""
        start, stop, step = trees.indices(len(self._first) - 1)
        assert step == 1
        return slice(int(self._first[start]), int(self._first[max(start, stop)]))
