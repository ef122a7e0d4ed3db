"""Boosted trees: each round adds, for every target, trees fitted to the current gradients.

`GBTree` is the model (trees in the order they were grown); `TreeTrainer` holds what training on one matrix needs
and is dropped with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from arboost.boosters.sampling import sample_rows
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import Resolved, TreeParams
from arboost.predict.forest import Forest
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.grow import GrownTree, TreeGrower
from arboost.tree.model import Tree
from arboost.tree.quantize import quantize

LeafSolver = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(target, rows, leaf_ptr, margin) -> the best value of each leaf, for losses whose best is not -G/(H + lambda)."""


@dataclass
class GBTree:
    """Trees, the target each adds to, and where each round begins in the list."""

    kind: ClassVar[str] = "gbtree"  # the parameter `booster`
    trees: list[Tree] = field(default_factory=list)
    tree_info: list[int] = field(default_factory=list)
    iteration_ptr: list[int] = field(default_factory=lambda: [0])
    num_parallel_tree: int = 1

    @property
    def n_rounds(self) -> int:
        return len(self.iteration_ptr) - 1

    @property
    def n_terms(self) -> int:
        """How many terms a margin is the sum of: the trees."""
        return len(self.trees)

    @property
    def version(self) -> int:
        """Changes when what trees add to margins has changed: margins and packed trees made before are void."""
        return 0

    def forest_of_round(self, params: Resolved, key: int, chosen: slice = slice(None)) -> Forest | None:
        """Those of the chosen trees that the next round's gradients see; None: all of them."""
        return None

    def add_round(self, trees: list[Tree], targets: list[int]) -> None:
        """Append one round's trees."""
        self.trees += trees
        self.tree_info += targets
        self.iteration_ptr.append(len(self.trees))

    def slice_rounds(self, rounds: range) -> "GBTree":
        """A model of the chosen rounds; trees are shared, not copied (they never change)."""
        part = type(self)(num_parallel_tree=self.num_parallel_tree)
        for r in rounds:
            trees = slice(self.iteration_ptr[r], self.iteration_ptr[r + 1])
            part.add_round(self.trees[trees], self.tree_info[trees])
        return part

    def trees_of(self, begin: int, end: int) -> slice:
        """The trees of rounds begin..end."""
        if not 0 <= begin <= end <= self.n_rounds:
            raise XGBoostError(f"iteration_range {(begin, end)} is out of range for a model of {self.n_rounds} rounds.")
        return slice(self.iteration_ptr[begin], self.iteration_ptr[end])

    def weighed_trees(self, chosen: slice = slice(None)) -> list[Tree]:
        """Trees whose leaves hold what they add to margins."""
        return self.trees[chosen]

    def forest(self, first_tree: int = 0) -> Forest:
        """Trees from `first_tree` on, packed for prediction."""
        return Forest(self.trees[first_tree:], self.tree_info[first_tree:])


class TreeTrainer:
    """Grows rounds of trees on one binned page."""

    def __init__(
        self,
        ctx: Context,
        page: BinnedPage,
        params: TreeParams,
        feature_weights: np.ndarray | None,
        feature_names: list[str] | None = None,
    ):
        self._ctx = ctx
        self._n_rows = page.n_rows
        self._params = params
        self._packed = np.empty(page.n_rows, np.int64)  # kept: fresh memory would be paged in anew every round
        self._grower = TreeGrower(ctx, page, params, feature_weights, feature_names)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change between rounds."""
        self._params = params
        eta = float(np.float32(params.eta) / np.float32(params.num_parallel_tree))
        self._grower.set_params(params._replace(eta=eta))

    def grow_round(
        self, g: np.ndarray, h: np.ndarray, margin: np.ndarray, key: int, solver: LeafSolver | None
    ) -> tuple[list[Tree], list[int]]:
        """One round from gradients (K, n): trees and their targets; their weights are added to margin (n, K)."""
        trees: list[Tree] = []
        targets: list[int] = []
        for target in range(len(g)):
            gradients = quantize(self._ctx, g[target], h[target], self._packed)
            # the solver must see the margins that the gradients came from, whatever this round adds
            before = margin.copy() if solver is not None and self._params.num_parallel_tree > 1 else margin
            for parallel in range(self._params.num_parallel_tree):
                tree_key = rng.make_key(key, target, parallel)
                sampled = sample_rows(self._ctx, self._n_rows, self._params.subsample, tree_key)
                grown = self._grower.grow(gradients, sampled, tree_key, partition_all=solver is not None)
                if solver is not None:
                    self._solve_leaves(grown, solver, before, target)
                self._grower.add_weights(grown, margin, target, sampled)
                trees.append(grown.tree)
                targets.append(target)
        return trees, targets

    def _solve_leaves(self, grown: GrownTree, solver: LeafSolver, margin: np.ndarray, target: int) -> None:
        rows, leaf_ptr = self._grower.leaf_rows(grown)
        values = solver(target, rows, leaf_ptr, margin)
        eta = np.float32(self._params.eta) / np.float32(self._params.num_parallel_tree)
        solved = ~np.isnan(values)  # a leaf without rows keeps its value
        grown.tree.threshold[grown.leaves[solved]] = values[solved] * eta
