"""Boosted trees: each round adds, for every target, trees fitted to the current gradients.

`GBTree` is the model (trees in the order they were grown); `TreeTrainer` holds what training on one matrix needs
and is dropped with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from arboost.boosters.rounds import LeafSolver, Margins, Round
from arboost.boosters.sampling import sample_by_gradient, sample_goss, sample_rows
from arboost.levels.exact import check_memory
from arboost.levels.quantize import QuantizedGradients, quantize
from arboost.matrix.adapt import SparseData
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import Resolved, TreeParams
from arboost.predict.forest import Forest
from arboost.runtime import rng, settings
from arboost.runtime.comm import Runs, locate
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.approx import ApproxGrower
from arboost.tree.constraints import hold_monotone
from arboost.tree.grow import GrownTree
from arboost.tree.growers import ExactGrower, histogram_grower, local_grower, refuse_own_parameters
from arboost.tree.model import Tree


@dataclass
class GBTree:
    """Trees, the target each adds to, and where each round begins in the list."""

    kind: ClassVar[str] = "gbtree"  # the parameter `booster`
    starts_alike: ClassVar[bool] = False
    trees: list[Tree] = field(default_factory=list)
    tree_info: list[int] = field(default_factory=list)
    iteration_ptr: list[int] = field(default_factory=lambda: [0])
    num_parallel_tree: int = 1
    waiting: "GBTree | None" = field(default=None, kw_only=True, repr=False)  # the model whose trees are being updated
    revision: int = field(default=0, kw_only=True)

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
        return self.revision

    @property
    def is_fitted(self) -> bool:
        """Whether there are rounds, or rounds that wait to be updated."""
        return self.n_rounds > 0 or self.waiting is not None

    @property
    def n_targets(self) -> int:
        """How many outputs the trees of a round add to; 0 without rounds."""
        if self.waiting is not None:
            return self.waiting.n_targets
        if not self.trees:
            return 0
        return max(self.trees[0].n_targets, 1 + max(self.tree_info[: self.iteration_ptr[1]]))

    def as_trees(self) -> "GBTree":
        """Itself: what it is made of are trees."""
        return self

    def trees_per_round(self, asked: int) -> int:
        """Every round of a model has as many trees as its first."""
        return self.num_parallel_tree if self.is_fitted else asked

    def end_update(self) -> None:
        """Forget the rounds that wait to be updated."""
        self.waiting = None

    def emptied(self) -> "GBTree":
        """A model without trees that will take these ones back, updated, round by round."""
        parallel = self.num_parallel_tree
        return type(self)(num_parallel_tree=parallel, waiting=self, revision=self.version + 1)

    def take_back(self, trees: list[Tree], targets: list[int]) -> None:
        """Append a round of updated trees."""
        GBTree.add_round(self, trees, targets)

    def forest_of_round(self, params: Resolved, key: int, chosen: slice = slice(None)) -> Forest | None:
        """Those of the chosen trees that the next round's gradients see; None: all of them."""
        return None

    def add_round(self, trees: list[Tree], targets: list[int]) -> None:
        """Append one round's trees."""
        self.trees += trees
        self.tree_info += targets
        self.iteration_ptr.append(len(self.trees))

    def add_blank_round(self, n_features: int, n_outputs: int, has_vectors: bool, n_parallel: int) -> None:
        """Append a round that adds nothing; one that waits to be updated comes back as it was."""
        if self.waiting is not None:
            chosen = self.waiting.trees_of(self.n_rounds, self.n_rounds + 1)
            self.take_back(self.waiting.trees[chosen], self.waiting.tree_info[chosen])
            return
        targets = [target for target in range(1 if has_vectors else n_outputs) for _ in range(n_parallel)]
        self.num_parallel_tree = n_parallel
        self.add_round([Tree.blank(n_features, n_outputs if has_vectors else 0) for _ in targets], targets)

    def copied(self) -> "GBTree":
        """The same rounds in lists of their own."""
        return self.slice_rounds(range(self.n_rounds))

    def slice_rounds(self, rounds: range) -> "GBTree":
        """A model of the chosen rounds; trees are shared, not copied (they never change)."""
        part = type(self)(num_parallel_tree=self.num_parallel_tree)
        for r in rounds:
            trees = slice(self.iteration_ptr[r], self.iteration_ptr[r + 1])
            part.add_round(self.trees[trees], self.tree_info[trees])
        return part

    def append(self, other: "GBTree") -> None:
        """Put the rounds of another model behind these."""
        for r in range(other.n_rounds):
            trees = other.trees_of(r, r + 1)
            GBTree.add_round(self, other.trees[trees], other.tree_info[trees])

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

    def saved(self) -> dict[str, Any]:
        """Its own fields of a `SavedModel`."""
        names = ("trees", "tree_info", "iteration_ptr", "num_parallel_tree")
        return {name: getattr(self, name) for name in names}


class Grower(Protocol):
    """What grows trees on one training matrix; the methods are described in `tree/grow.py`."""

    @property
    def monotone(self) -> np.ndarray: ...

    def set_params(self, params: TreeParams) -> None: ...

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree: ...

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int) -> None: ...

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]: ...


def make_grower(ctx: Context, data: DMatrix, params: TreeParams) -> Grower:
    """The grower that `tree_method` names, for one matrix."""
    features = data.info.feature_weights, data.info.feature_names
    if params.tree_method == "exact":
        return _make_exact(ctx, data, params)
    if params.tree_method == "approx":
        return _make_approx(ctx, data, params)
    pages = data.pages(ctx, params.max_bin, params.enable_bundle, keep_sparse=True)
    return histogram_grower(params)(ctx, pages, params, *features)


def _make_exact(ctx: Context, data: DMatrix, params: TreeParams) -> ExactGrower:
    """An exact grower, where the data allows for one."""
    refuse_own_parameters(params, "tree_method='exact'")
    ctx.refuse_workers("tree_method='exact'", "every worker would need all sorted columns. Use 'hist' or 'approx'.")
    if data.feature_types is not None and "c" in data.feature_types:
        raise XGBoostError(
            "Updater `grow_colmaker` or `exact` tree method doesn't support categorical features. Use tree_method "
            "'hist' or 'approx'."
        )
    if data.raw is None:
        raise XGBoostError(f"Only `hist` tree method can use `{type(data).__name__}`: pass a DMatrix to `exact`.")
    if params.grow_policy != "depthwise" or params.max_leaves:
        settings.warn("tree_method `exact` grows level by level: grow_policy and max_leaves are ignored, as in XGBoost")
    check_memory(ctx, data.num_row(), data.num_nonmissing(), int(data.raw.scan(ctx).max(initial=0)))
    features = data.info.feature_weights, data.info.feature_names
    return ExactGrower(ctx, data.sorted(ctx), data.raw, params, *features)


def _make_approx(ctx: Context, data: DMatrix, params: TreeParams) -> Grower:
    """A grower on proposed candidates, global or local."""
    if data.raw is None:
        kind = type(data).__name__
        raise XGBoostError(f"Only the `hist` tree method can use the `{kind}`: pass a DMatrix to `approx`.")
    features = data.info.feature_weights, data.info.feature_names
    if params.sketch_proposal == "local":
        refuse_own_parameters(params, "sketch_proposal='local'")
        ctx.refuse_workers("sketch_proposal='local'", "every worker would need all sorted columns. Use 'global'.")
        if data.feature_types is not None and "c" in data.feature_types:
            raise XGBoostError(
                "sketch_proposal='local' doesn't support categorical features: a category is no quantile. Use 'global'."
            )
        return local_grower(ctx, data.sorted(ctx), data.raw, params, *features)
    columns = data.sorted(ctx, params.max_bin) if ctx.is_alone else None
    by_rows = data.raw if columns is None or isinstance(data.raw, SparseData) else None
    return ApproxGrower(ctx, columns, by_rows, params, data.feature_types, *features)


class Reviser(Protocol):
    """What changes grown trees once more, where `updater` says so: `boosters/update.py`."""

    def set_params(self, params: TreeParams) -> None: ...

    def revise(
        self, data: DMatrix, trees: list[Tree], targets: list[int], g: np.ndarray, h: np.ndarray
    ) -> list[Tree]: ...


class TreeTrainer:
    """Grows rounds of trees on one matrix of n_rows."""

    takes_split = False
    keeps_margins = False
    parts_leaves = False  # whether the rows of all leaves must be parted

    def __init__(
        self,
        ctx: Context,
        n_rows: int,
        params: TreeParams,
        grower: Grower,
        reviser: Reviser | None = None,
        runs: Runs | None = None,
    ):
        self._ctx, self._reviser = ctx, reviser
        self._n_rows = n_rows
        self._runs = locate(ctx.comm, n_rows, runs)
        self._params = params
        self._packed = np.empty(n_rows, np.int64)  # kept: fresh memory would be paged in anew every round
        self._grower = grower

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change between rounds."""
        self._params = params
        for grower in self._all_growers():
            grower.set_params(params._replace(eta=float(self._eta)))

    @property
    def _eta(self) -> np.float32:
        """What the weights of a tree's leaves are multiplied by: parallel trees share the step of their round."""
        return np.float32(self._params.eta) / np.float32(self._params.num_parallel_tree)

    def _all_growers(self) -> Iterable[Grower]:
        return (self._grower,)

    def train_round(self, model: GBTree, turn: Round) -> Margins:
        """One round of trees."""
        trees, targets = self._grow(turn)
        margins = Margins.ADDED
        if "refresh" in self._params.updater and self._reviser is not None:
            # another sample of rows, or none, may have grown them
            self._reviser.set_params(self._params)
            trees, margins = self._reviser.revise(turn.data, trees, targets, turn.g, turn.h), Margins.VOID
        model.num_parallel_tree = self._params.num_parallel_tree
        model.add_round(trees, targets)
        return margins

    def _grow(self, turn: Round) -> tuple[list[Tree], list[int]]:
        return self.grow_round(turn.g, turn.h, turn.margin, turn.key, turn.solver)

    def grow_round(
        self, g: np.ndarray, h: np.ndarray, margin: np.ndarray, key: int, solver: LeafSolver | None
    ) -> tuple[list[Tree], list[int]]:
        """One round from gradients (K, n): trees and their targets; their weights are added to margin (n, K)."""
        trees: list[Tree] = []
        targets: list[int] = []
        shared = self._samples_of_round(g, h, key)
        for target in range(len(g)):
            gradients = self._quantize(g[target], h[target])
            # the solver must see the margins that the gradients came from, whatever this round adds
            before = margin.copy() if solver is not None and self._params.num_parallel_tree > 1 else margin
            for parallel in range(self._params.num_parallel_tree):
                tree_key = rng.make_key(key, target, parallel)
                sampled: np.ndarray | None
                if shared is not None:
                    sampled, factor = shared[parallel]
                    gradients = self._quantize(g[target] * factor, h[target] * factor)
                else:
                    gradients, sampled = self._sample(gradients, g[target], h[target], tree_key)
                grown = self._grower.grow(
                    gradients, sampled, tree_key, partition_all=solver is not None or self.parts_leaves
                )
                if solver is not None:
                    self._solve_leaves(grown, solver, before, target)
                self._add_tree(grown, gradients, margin, target)
                trees.append(grown.tree)
                targets.append(target)
        return trees, targets

    def _add_tree(self, grown: GrownTree, gradients: QuantizedGradients, margin: np.ndarray, target: int) -> None:
        """Add a tree that was grown on these gradients to the margins."""
        self._grower.add_weights(grown, margin, target)

    def _quantize(self, g: np.ndarray, h: np.ndarray) -> QuantizedGradients:
        return quantize(self._ctx, g, h, self._packed)

    def _samples_of_round(self, g: np.ndarray, h: np.ndarray, key: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Samples that the trees of all targets share, one for each of the parallel trees: (rows, factor)."""
        params = self._params
        if params.sampling_method != "goss":
            return None
        rates, n = (params.top_rate, params.other_rate), params.num_parallel_tree
        return [sample_goss(self._ctx, g, h, rates, rng.make_key(key, 0, p), self._runs) for p in range(n)]

    def _sample(
        self, gradients: QuantizedGradients, g: np.ndarray, h: np.ndarray, key: int
    ) -> tuple[QuantizedGradients, np.ndarray | None]:
        """The rows that a tree is grown on (None: all), and the gradients they have in it."""
        params = self._params
        if params.subsample >= 1.0 or params.sampling_method == "uniform":
            return gradients, sample_rows(self._ctx, self._n_rows, params.subsample, key, self._runs)
        args = (params.subsample, params.reg_lambda, key, self._runs)
        rows, g, h = sample_by_gradient(self._ctx, g[None], h[None], *args)
        return self._quantize(g[0], h[0]), rows

    def _solve_leaves(self, grown: GrownTree, solver: LeafSolver, margin: np.ndarray, target: int) -> None:
        rows, leaf_ptr = self._grower.leaf_rows(grown)
        values = solver(target, rows, leaf_ptr, margin)
        solved = ~np.isnan(values)  # a leaf without rows keeps its value
        grown.tree.threshold[grown.leaves[solved]] = values[solved] * self._eta
        hold_monotone(grown.tree, self._grower.monotone)
