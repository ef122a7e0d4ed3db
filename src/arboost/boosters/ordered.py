"""Ordered boosting: a row's gradient comes from a model that has not learnt from the row.

Each of s permutations of the rows has log2 N support models. Model k learns from the first 2^(k-1) rows and gives
margins to as many more, so the row at place p (from 0) has the gradient of model k where 2^(k-1) <= p < 2^k; the first
row's model has learnt nothing. A round draws a permutation, grows a tree on its gradients and adds the tree's structure
to all support models of all permutations, with leaf weights from the rows that each may see; the model itself has them
from all rows. (Prokhorenkova et al. 2018, section 4 and appendix B.)
"""

from dataclasses import dataclass

import numpy as np

from arboost.boosters.gbtree import GBTree
from arboost.boosters.permuted import PermutedTrainer, drawn_permutation
from arboost.boosters.rounds import Margins, Round
from arboost.kernels.ops import support as ops
from arboost.losses import Loss
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.meta import MetaInfo
from arboost.matrix.statistics import permuted_rows
from arboost.params.resolve import TreeParams, count_permutations
from arboost.predict.forest import Forest
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.constraints import hold_monotone
from arboost.tree.model import Tree


@dataclass
class Support:
    """The support models of one permutation, one after the other."""

    rows: np.ndarray  # (m,) int32: the rows of every model, those it learns from first
    ptr: np.ndarray  # (models + 1,) int64: where each begins
    n_learn: np.ndarray  # (models,) int64
    own: np.ndarray  # (n,) int64: where a row stands in the model that gives its gradient
    info: MetaInfo  # labels and weights of `rows`
    margin: np.ndarray  # (K, m) float32

    @property
    def n_models(self) -> int:
        return len(self.n_learn)


def make_support(order: np.ndarray, info: MetaInfo, margin: np.ndarray) -> Support:
    """Support models that have learnt nothing, on rows in this order; margin (n, K) is where they begin."""
    n_rows = len(order)
    n_models = 1 + max(0, n_rows - 1).bit_length()
    lengths = np.array([min(1 << k, n_rows) for k in range(n_models)], np.int64)
    n_learn = np.array([0] + [1 << (k - 1) for k in range(1, n_models)], np.int64)
    ptr = np.append(0, np.cumsum(lengths))
    rows = np.concatenate([order[:length] for length in lengths])
    own = np.empty(n_rows, np.int64)
    for first, start, stop in zip(ptr, n_learn, lengths, strict=False):
        own[order[start:stop]] = first + np.arange(start, stop)
    return Support(rows, ptr, n_learn, own, info.take(rows), np.ascontiguousarray(margin[rows].T))


class OrderedTrainer(PermutedTrainer):
    """Grows rounds whose splits are found on the support models' gradients."""

    def __init__(self, ctx: Context, data: DMatrix, params: TreeParams):
        ctx.refuse_workers("boosting_type='ordered'", "its models go through all rows in turn. Use 'plain'.")
        if params.num_parallel_tree > 1:
            raise XGBoostError("boosting_type='ordered' adds one tree a round: leave num_parallel_tree at 1.")
        super().__init__(ctx, data, params)
        self._versions = [data.permuted(p) for p in range(data.n_permutations)]
        self._supports: list[Support] = []

    def train_round(self, model: GBTree, turn: Round) -> Margins:
        """One round of trees."""
        loss = _checked(turn)
        n_permutations = count_permutations(self._params)
        if not self._supports:
            orders = [permuted_rows(self._ctx.seed, p, self._n_rows) for p in range(n_permutations)]
            self._supports = [make_support(order, turn.data.info, turn.margin) for order in orders]
        drawn = drawn_permutation(turn.key, n_permutations)
        gradients = [self._gradients(loss, support, turn.key) for support in self._supports]
        own = self._supports[drawn].own
        g, h = (np.ascontiguousarray(x[:, own]) for x in gradients[drawn])
        self._grower = self._growers[drawn % len(self._growers)]
        trees = [self._grow_tree(turn, target, g[target], h[target], drawn, gradients) for target in range(len(g))]
        model.num_parallel_tree = 1
        model.add_round(trees, list(range(len(g))))
        return Margins.ADDED

    def _gradients(self, loss: Loss, support: Support, key: int) -> tuple[np.ndarray, np.ndarray]:
        """(K, m) g and h of all rows of all models of a permutation."""
        g, h = np.empty_like(support.margin), np.empty_like(support.margin)
        loss.gradient_of(self._ctx, key, np.ascontiguousarray(support.margin.T), support.info, g, h)
        return g, h

    def _grow_tree(self, turn: Round, target: int, g: np.ndarray, h: np.ndarray, drawn: int, gradients: list) -> Tree:
        """A tree of one target, its leaves' weights from all rows; support models have learnt it too."""
        tree_key = rng.make_key(turn.key, target, 0)
        seen, sampled = self._sample(self._quantize(g, h), g, h, tree_key)
        tree = self._grower.grow(seen, sampled, tree_key).tree
        leaves = [self._leaves(tree, version) for version in self._versions]
        all_rows = (np.arange(self._n_rows, dtype=np.int32), np.array([0, self._n_rows]), np.array([self._n_rows]))
        margin, own_leaves = turn.margin[:, target].copy(), leaves[drawn % len(leaves)]
        weights = self._add(all_rows, own_leaves, turn.g[target], turn.h[target], tree, margin)[0]
        is_leaf = tree.left < 0
        tree.threshold[is_leaf] = weights[is_leaf]
        if self._grower.monotone.any():  # splits were bounded, by other rows than these weights are of
            hold_monotone(tree, self._grower.monotone)
            margin = turn.margin[:, target] + tree.threshold[own_leaves]
        turn.margin[:, target] = margin
        tree.base_weight[is_leaf] = tree.threshold[is_leaf]
        for p, (support, (sg, sh)) in enumerate(zip(self._supports, gradients, strict=True)):
            segments = (support.rows, support.ptr, support.n_learn)
            self._add(segments, leaves[p % len(leaves)], sg[target], sh[target], tree, support.margin[target])
        return tree

    def _add(
        self, segments: tuple, leaf_of_row: np.ndarray, g: np.ndarray, h: np.ndarray, tree: Tree, margin: np.ndarray
    ) -> np.ndarray:
        """(models, n_nodes): the weights that each model gives the tree's leaves; they are added to its margins."""
        params, n_models = self._params, len(segments[2])
        reg = np.array([params.reg_lambda, params.reg_alpha, params.max_delta_step, 0.0])
        sums = np.zeros((n_models, tree.n_nodes, 2))
        weights = np.empty((n_models, tree.n_nodes), np.float32)
        eta = np.float32(params.eta)
        self._ctx.run_ranges(
            n_models, 1, ops.add_leaf_weights, segments, leaf_of_row, g, h, reg, eta, sums, weights, margin
        )
        return weights

    def _leaves(self, tree: Tree, data: DMatrix) -> np.ndarray:
        """(n,) int32: the node that each row ends in."""
        leaves = np.zeros((self._n_rows, 1), np.int32)
        forest = Forest([tree], [0])
        for first, values in data.chunks():
            forest.find_leaves(self._ctx, values, slice(None), leaves[first : first + len(values)])
        return leaves[:, 0].copy()


def _checked(turn: Round) -> Loss:
    """The loss of a round; refuses what has no gradient of one row by itself."""
    loss, info = turn.loss, turn.data.info
    if loss is None:
        raise XGBoostError("boosting_type='ordered' needs the objective, not gradients of it: use 'plain'.")
    if info.group_ptr is not None or loss.name.startswith(("rank:", "survival:")) or loss.leaf_alphas is not None:
        raise XGBoostError(
            f"boosting_type='ordered' is for losses that are a sum over rows with a hessian; {loss.name!r} is none: "
            "use 'plain'."
        )
    return loss
