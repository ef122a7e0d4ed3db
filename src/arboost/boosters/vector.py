"""Boosting with vectors in the leaves: a round is one tree for all targets (times `num_parallel_tree`)."""

from collections.abc import Sequence

import numpy as np

from arboost.boosters.gbtree import LeafSolver, TreeTrainer
from arboost.boosters.sampling import sample_by_gradient, sample_rows
from arboost.levels.vectors import VectorGradients, quantize_targets
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.tree.grow import GrownTree
from arboost.tree.growers import HistogramGrower
from arboost.tree.model import Tree


class VectorTrainer(TreeTrainer):
    """Grows rounds of trees with vectors in their leaves on one binned page."""

    def __init__(
        self,
        ctx: Context,
        pages: Sequence[BinnedPage],
        params: TreeParams,
        n_targets: int,
        feature_weights: np.ndarray | None,
        feature_names: list[str] | None = None,
    ):
        grower = HistogramGrower(ctx, pages, params, feature_weights, feature_names, n_targets)
        n_rows = sum(page.n_rows for page in pages)
        super().__init__(ctx, n_rows, params, grower)
        self._packed = np.empty((n_targets, n_rows), np.int64)

    def grow_round(
        self, g: np.ndarray, h: np.ndarray, margin: np.ndarray, key: int, solver: LeafSolver | None
    ) -> tuple[list[Tree], list[int]]:
        """One round from gradients (K, n): trees, whose weights are added to margin (n, K)."""
        gradients = quantize_targets(self._ctx, g, h, self._packed)
        n_trees = self._params.num_parallel_tree
        before = margin.copy() if solver is not None and n_trees > 1 else margin
        trees = []
        for parallel in range(n_trees):
            tree_key = rng.make_key(key, 0, parallel)
            seen, sampled = self._sample_vectors(gradients, g, h, tree_key)
            grown = self._grower.grow(seen, sampled, tree_key, partition_all=solver is not None)
            if solver is not None:
                self._solve_vectors(grown, solver, before)
            self._grower.add_weights(grown, margin, 0)
            trees.append(grown.tree)
        return trees, [0] * n_trees

    def _sample_vectors(
        self, gradients: VectorGradients, g: np.ndarray, h: np.ndarray, key: int
    ) -> tuple[VectorGradients, np.ndarray | None]:
        """The rows that a tree is grown on (None: all), and the gradients they have in it."""
        params = self._params
        if params.subsample >= 1.0 or params.sampling_method == "uniform":
            return gradients, sample_rows(self._ctx, self._n_rows, params.subsample, key)
        rows, g, h = sample_by_gradient(self._ctx, g, h, params.subsample, params.reg_lambda, key)
        return quantize_targets(self._ctx, g, h, np.empty(g.shape, np.int64)), rows

    def _solve_vectors(self, grown: GrownTree, solver: LeafSolver, margin: np.ndarray) -> None:
        rows, leaf_ptr = self._grower.leaf_rows(grown)
        eta = np.float32(self._params.eta) / np.float32(self._params.num_parallel_tree)
        for target in range(grown.tree.n_targets):
            values = solver(target, rows, leaf_ptr, margin)
            solved = ~np.isnan(values)  # a leaf without rows keeps its value
            grown.tree.vectors[grown.leaves[solved], target] = values[solved] * eta
