"""Trees whose leaves hold a weight for every target: one tree a round serves them all.

The growth loop is `grow.py`'s. A node's histogram has planes for every target, the gain of a split is the sum over
targets (kernels/cpu/level_vector.py), and beside the nodes lie their sums: (n_nodes, 2 * K), g and h of each target.
"""

from dataclasses import dataclass

import numpy as np

from arboost.kernels.cpu import expand, level_vector, vector
from arboost.kernels.scalar import LAMBDA
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.pool import Team
from arboost.tree.constraints import monotone_vector
from arboost.tree.grow import TreeGrower
from arboost.tree.histstore import HistogramStore
from arboost.tree.loop import GrownTree
from arboost.tree.model import NO_PARENT, NO_THRESHOLD, Tree
from arboost.tree.quantize import QuantizedGradients, quantize

_GRAIN = 16_384


@dataclass(frozen=True)
class VectorGradients(QuantizedGradients):
    """Integer gradients of all rows and targets, a stack of every target's planes; units are per target."""

    targets: tuple[QuantizedGradients, ...] = ()

    @property
    def units(self) -> np.ndarray:
        """(K, 2) float64: what one quantum of g and of h is worth."""
        return np.array([(target.g_unit, target.h_unit) for target in self.targets], np.float64)

    @property
    def sources(self) -> np.ndarray:
        """(K, 2) int64: a target's first plane, and the shift that parts g and h in it."""
        n_planes = np.array([len(target.planes) for target in self.targets])
        shifts = [int(target.packings[0, 0]) for target in self.targets]
        return np.column_stack([np.cumsum(n_planes) - n_planes, shifts]).astype(np.int64)

    def totals(self, ctx: Context, rows: np.ndarray) -> np.ndarray:
        """(2 * K,) int64: the sums over `rows` (empty: all rows)."""
        return np.array([target.total(ctx, rows) for target in self.targets], np.int64).ravel()


def quantize_targets(ctx: Context, g: np.ndarray, h: np.ndarray, room: np.ndarray) -> VectorGradients:
    """Integers for float32 gradients (K, n), each target with a scale of its own; `room` (K, n) int64 lends memory."""
    targets = tuple(quantize(ctx, *arrays) for arrays in zip(g, h, room, strict=True))
    packings = np.concatenate([target.packings for target in targets])
    packings[:, 1] += np.repeat(2 * np.arange(len(targets)), [len(target.planes) for target in targets])
    all_packed = len(packings) == len(targets)
    planes = room if all_packed else np.concatenate([target.planes for target in targets])
    return VectorGradients(planes, packings, 1.0, 1.0, targets=targets)


class VectorGrower(TreeGrower):
    """Grows trees with a weight for each of `n_targets` targets in their leaves."""

    def __init__(
        self,
        ctx: Context,
        page: BinnedPage,
        params: TreeParams,
        n_targets: int,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
    ):
        _refuse(page, params, feature_names)
        page = page.unbundled(ctx)
        super().__init__(ctx, page, params, feature_weights, feature_names)
        self._store = HistogramStore(ctx, page, n_targets)
        self._team = Team(ctx.n_threads, level_vector.carry_out)
        self._row_updates *= n_targets
        self._sums, self._left_sums = np.zeros((2, len(self._nodes), 2 * n_targets), np.int64)
        scores = np.empty((ctx.n_threads, 2, int(page.n_bins.max(initial=0)) + 1), np.float64)
        self._scratch = (scores, scores.view(np.int64))

    def _sum_root(self, gradients: QuantizedGradients) -> tuple[int, int]:
        """A node's own sums are not used, but for a mark that it may gain by a split; see level_vector.py."""
        assert isinstance(gradients, VectorGradients)
        self._sums[0] = gradients.totals(self._ctx, self.rowsets.current)
        return 0, 1

    def _more_arrays(self) -> tuple:
        """What kernels/cpu/level_vector.py calls vectors."""
        n_more = len(self._nodes) - len(self._sums)
        if n_more > 0:
            more = np.zeros((n_more, self._sums.shape[1]), np.int64)
            self._sums, self._left_sums = (np.concatenate([sums, more]) for sums in (self._sums, self._left_sums))
        return ((self._sums, self._left_sums, self._units, self._sources, self._scratch),)

    def _make_reg(self, gradients: QuantizedGradients) -> np.ndarray:
        """As a tree of one target has it; the units are each target's own."""
        assert isinstance(gradients, VectorGradients)
        self._units, self._sources = gradients.units, gradients.sources
        self._sums[0] = 0  # of a sample without rows
        return super()._make_reg(gradients)

    def _make_limits(self, gradients: QuantizedGradients) -> np.ndarray:
        """[max_depth, the mark of a node that may gain by a split]."""
        return np.array([self._params.max_depth, 1], np.int64)

    def _finish(self, last_splits: np.ndarray) -> GrownTree:
        n = int(self._store.counts[expand.NODES])
        nodes, cuts = self._nodes[:n].copy(), self._page.cuts
        sums = self._sums[:n]
        vector.hand_down(nodes, np.arange(n, dtype=np.int32), sums, self._left_sums, 0, n)
        is_leaf = nodes["left"] < 0
        weights = self._weights(sums, self._units)
        weights[is_leaf] *= np.float32(self._params.eta)
        feature = np.where(is_leaf, 0, nodes["feature"]).astype(np.int32)
        place = np.where(is_leaf, 0, cuts.ptr[feature] + nodes["bin"])
        parent = nodes["parent"].copy()
        parent[0] = NO_PARENT
        tree = Tree(
            left=nodes["left"].copy(),
            right=nodes["right"].copy(),
            parent=parent,
            feature=feature,
            threshold=np.where(is_leaf, NO_THRESHOLD, cuts.values[place]).astype(np.float32),
            default_left=np.where(is_leaf, 0, nodes["default_left"]).astype(np.uint8),
            gain=np.where(is_leaf, 0.0, nodes["gain"]).astype(np.float32),
            cover=(sums[:, 1::2] * self._units[:, 1]).sum(axis=1).astype(np.float32),
            base_weight=weights,
            n_features=self._page.n_features,
            vectors=np.where(is_leaf[:, None], weights, np.float32(0)),
        )
        return self._grown(tree, nodes, last_splits)

    def set_weights(self, grown: GrownTree, gradients: VectorGradients) -> None:
        """Give a tree, all of whose rows were partitioned, the weights that other gradients than its own ask for.

        Splits, gains and covers stay; the targets of the weights are those of `gradients`.
        """
        tree = grown.tree
        rows, leaf_ptr = self.leaf_rows(grown)
        sums = np.zeros((tree.n_nodes, 2 * len(gradients.targets)), np.int64)
        for leaf, first, last in zip(grown.leaves, leaf_ptr, leaf_ptr[1:], strict=False):
            if first < last:  # to `totals` no rows are all rows
                sums[leaf] = gradients.totals(self._ctx, rows[first:last])
        for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
            sums[tree.parent[node]] += sums[node]
        is_leaf = tree.left < 0
        weights = self._weights(sums, gradients.units)
        weights[is_leaf] *= np.float32(self._params.eta)
        tree.base_weight, tree.vectors = weights, np.where(is_leaf[:, None], weights, np.float32(0))

    def _weights(self, sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """(n_nodes, K) float32: the best weight of every target, as kernels/scalar.py's `leaf_weight` has it."""
        p, reg = self._params, self._reg
        g, h = sums[:, 0::2] * units[:, 0], sums[:, 1::2] * units[:, 1]
        shrunk = np.sign(g) * np.maximum(np.abs(g) - p.reg_alpha, 0.0)
        counts = (h > 0.0) & (h >= p.min_child_weight)
        weights = np.zeros(g.shape)
        np.divide(-shrunk, h + reg[LAMBDA], out=weights, where=counts)
        if p.max_delta_step:
            np.clip(weights, -p.max_delta_step, p.max_delta_step, out=weights)
        return weights.astype(np.float32)

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int, sampled: np.ndarray | None) -> None:
        """Add the tree's leaf weights to every training row's margins; `target` is not looked at."""
        nodes, weights, page = grown.nodes, grown.tree.vectors, self._page
        rows, ctx = self.rowsets.current, self._ctx
        n_rows = expand.count_rows(nodes, grown.leaves)
        ctx.run_ranges(n_rows, _GRAIN, vector.add_leaf_vectors, nodes, grown.leaves, weights, rows, margin)
        n_rows, missing = expand.count_rows(nodes, grown.last_splits), page.missing_code
        args: tuple = (page.columns, nodes, grown.last_splits, weights, rows, missing, margin)
        ctx.run_ranges(n_rows, _GRAIN, vector.add_split_vectors, *args)
        if sampled is not None:
            chosen = np.zeros(page.n_rows, np.uint8)
            chosen[sampled] = 1
            args = (self._row_bins, self._routes(nodes), weights, chosen, missing, margin)
            ctx.run_ranges(page.n_rows, _GRAIN, vector.add_vectors_by_bins, *args)


def _refuse(page: BinnedPage, params: TreeParams, feature_names: list[str] | None) -> None:
    """Raise XGBoostError for what trees with vectors in their leaves cannot do; XGBoost cannot either."""
    advice = "use multi_strategy='one_output_per_tree'."
    if params.tree_method not in ("hist", "auto"):
        raise XGBoostError(
            "Only the hist tree method is supported for building multi-target trees with vector leaf, found "
            f"tree_method={params.tree_method!r}: leave it out, or {advice}"
        )
    if page.cuts.is_categorical.any():
        raise XGBoostError(f"Categorical features support for multi-target tree is not yet implemented: {advice}")
    if monotone_vector(params.monotone_constraints, feature_names, page.n_features).any():
        raise XGBoostError(f"Monotonic constraint support for multi-target tree is not yet implemented: {advice}")
