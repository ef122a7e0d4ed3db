"""Boosting with vectors in the leaves: a round is one tree for all targets (times `num_parallel_tree`).

Splits may be found on other gradients, usually fewer, than the leaves' weights are made of: the user's, or a few sums
of all targets' with signs drawn for the round (`split_outputs`).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from arboost.boosters.gbtree import Grower, Reviser, TreeTrainer
from arboost.boosters.rounds import Gradients, LeafSolver, Round
from arboost.boosters.sampling import sample_by_gradient, sample_goss, sample_rows
from arboost.levels.vectors import VectorGradients, quantize_targets
from arboost.matrix.page import BinnedPage
from arboost.matrix.store import count_rows
from arboost.params.resolve import TreeParams
from arboost.runtime import rng
from arboost.runtime.comm import Runs
from arboost.runtime.context import Context
from arboost.tree.grow import GrownTree
from arboost.tree.growers import HistogramGrower, histogram_grower
from arboost.tree.model import Tree


class VectorTrainer(TreeTrainer):
    """Grows rounds of trees with vectors in their leaves."""

    takes_split = True

    def __init__(
        self,
        ctx: Context,
        pages: Sequence[BinnedPage],
        params: TreeParams,
        n_targets: int,
        feature_weights: np.ndarray | None,
        feature_names: list[str] | None = None,
        reviser: Reviser | None = None,
        runs: Runs | None = None,
    ):
        self._pages, self._features = pages, (feature_weights, feature_names)
        self._growers = {n_targets: histogram_grower(params)(ctx, pages, params, *self._features, n_targets)}
        n_rows = count_rows(pages)
        super().__init__(ctx, n_rows, params, self._growers[n_targets], reviser, runs)
        self._packed = np.empty((n_targets, n_rows), np.int64)

    def _all_growers(self) -> Iterable[Grower]:
        return self._growers.values()

    def _grow(self, turn: Round) -> tuple[list[Tree], list[int]]:
        n_sums, split = self._params.split_outputs, None
        if turn.split is None and 0 < n_sums < len(turn.g):
            split = draw_sums(turn.g, turn.h, n_sums, rng.make_key(turn.key, rng.SIGNS))
        elif turn.split is not None:
            split = (np.ascontiguousarray(turn.split[0].T), np.ascontiguousarray(turn.split[1].T))
        return self.grow_round(turn.g, turn.h, turn.margin, turn.key, turn.solver, split)

    def grow_round(
        self,
        g: np.ndarray,
        h: np.ndarray,
        margin: np.ndarray,
        key: int,
        solver: LeafSolver | None,
        split: Gradients | None = None,
    ) -> tuple[list[Tree], list[int]]:
        """One round from gradients (K, n): trees, whose weights are added to margin (n, K).

        With `split`, gradients (J, n), splits are found on these.
        """
        seen_by = (g, h) if split is None else split
        grower = self._grower_of(len(seen_by[0]))
        room = self._packed if split is None else np.empty(seen_by[0].shape, np.int64)
        gradients = quantize_targets(self._ctx, *seen_by, room)
        n_trees = self._params.num_parallel_tree
        before = margin.copy() if solver is not None and n_trees > 1 else margin
        trees = []
        for parallel in range(n_trees):
            tree_key = rng.make_key(key, 0, parallel)
            seen, sampled, factor = self._sample_vectors(gradients, *seen_by, tree_key)
            grown = grower.grow(seen, sampled, tree_key, partition_all=solver is not None or split is not None)
            if split is not None:
                value: Gradients = (g, h) if factor is None else (g * factor, h * factor)
                grower.set_weights(grown, quantize_targets(self._ctx, *value, self._packed))
            if solver is not None:
                self._solve_vectors(grower, grown, solver, before)
            grower.add_weights(grown, margin, 0)
            trees.append(grown.tree)
        return trees, [0] * n_trees

    def _grower_of(self, n_targets: int) -> HistogramGrower:
        """The grower that finds splits on so many targets, made on its first use."""
        if n_targets not in self._growers:
            make = histogram_grower(self._params)
            self._growers[n_targets] = make(self._ctx, self._pages, self._params, *self._features, n_targets)
            self.set_params(self._params)
        return self._growers[n_targets]

    def _sample_vectors(
        self, gradients: VectorGradients, g: np.ndarray, h: np.ndarray, key: int
    ) -> tuple[VectorGradients, np.ndarray | None, np.ndarray | None]:
        """The rows that a tree is grown on (None: all), the gradients they have in it, and their factor (None: 1)."""
        params = self._params
        if params.sampling_method == "goss":
            rows, factor = sample_goss(self._ctx, g, h, (params.top_rate, params.other_rate), key, self._runs)
            return quantize_targets(self._ctx, g * factor, h * factor, np.empty(g.shape, np.int64)), rows, factor
        if params.subsample >= 1.0 or params.sampling_method == "uniform":
            return gradients, sample_rows(self._ctx, self._n_rows, params.subsample, key, self._runs), None
        args = (params.subsample, params.reg_lambda, key, self._runs)
        rows, new_g, new_h = sample_by_gradient(self._ctx, g, h, *args)
        old, new = (np.abs(a).sum(axis=0) + np.abs(b).sum(axis=0) for a, b in ((g, h), (new_g, new_h)))
        factor = np.divide(new, old, out=np.zeros_like(old), where=old > 0)
        return quantize_targets(self._ctx, new_g, new_h, np.empty(g.shape, np.int64)), rows, factor

    def _solve_vectors(self, grower: HistogramGrower, grown: GrownTree, solver: LeafSolver, margin: np.ndarray) -> None:
        rows, leaf_ptr = grower.leaf_rows(grown)
        eta = self._eta
        for target in range(grown.tree.n_targets):
            values = solver(target, rows, leaf_ptr, margin)
            solved = ~np.isnan(values)  # a leaf without rows keeps its value
            grown.tree.vectors[grown.leaves[solved], target] = values[solved] * eta


def draw_sums(g: np.ndarray, h: np.ndarray, n_sums: int, key: int) -> Gradients:
    """Gradients (n_sums, n) whose squared sums over any rows are, in the mean over draws, those of all K targets.

    Each is the sum of all gradients with random signs over sqrt(K), its hessian their mean: a penalty weighs with it
    what it weighs with one target. Terms are added row by row in the order of the targets: bits are the same in parts.
    """
    n_targets, n_rows = g.shape
    draws = rng.uniform(key, np.arange(n_sums * n_targets)).reshape(n_sums, n_targets, 1)
    signs = np.where(draws < 0.5, np.float32(-1.0), np.float32(1.0))
    sums, total = np.zeros((n_sums, n_rows), np.float32), np.zeros(n_rows, np.float32)
    for target in range(n_targets):
        sums += signs[:, target] * g[target]
        total += h[target]
    sums /= np.float32(np.sqrt(n_targets))
    total /= np.float32(n_targets)
    return sums, np.repeat(total[None, :], n_sums, axis=0)
