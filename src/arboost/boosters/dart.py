"""DART: boosted trees with dropout (Rashmi & Gilad-Bachrach 2015, "DART: Dropouts meet Multiple Additive Regression
Trees", Algorithm 1).

A round leaves some trees out, takes gradients at the margins of the others, and afterwards shares the step between the
dropped trees and the new ones: every tree has a weight (float32) that its leaves are multiplied by. Draws depend on
the seed, the round and the tree alone.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.boosters.gbtree import GBTree
from arboost.params.resolve import DartParams, Resolved
from arboost.predict.forest import Forest
from arboost.predict.shap import Explainer
from arboost.runtime import rng
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

_SKIP, _TREES, _ONE = range(3)  # what a draw decides: the round, every tree, the tree that must be dropped


@dataclass
class Dart(GBTree):
    """Trees with weights. `forest_of_round` draws the trees to drop, `add_round` settles their weights."""

    kind = "dart"
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        self._version = self.revision
        self._dropped = np.zeros(0, np.int64)
        self._step = (0.0, "tree")  # eta and normalize_type of the round that drops them
        self._packed: tuple[int, WeighedForest] | None = None

    @classmethod
    def of_trees(cls, model: GBTree, weights: np.ndarray | None = None) -> "Dart":
        """Trees of a model that had no weights, or those of a model file."""
        if any(tree.is_linear for tree in model.trees):
            raise XGBoostError("linear_leaves does not go with booster='dart', whose trees are multiplied by weights.")
        if weights is None:
            weights = np.ones(len(model.trees), np.float32)
        return cls(model.trees, model.tree_info, model.iteration_ptr, model.num_parallel_tree, weights)

    @property
    def version(self) -> int:
        """Counts the rounds that changed weights."""
        return self._version

    def forest_of_round(self, params: Resolved, key: int, chosen: slice = slice(None)) -> Forest | None:
        """The chosen trees but those that the next round drops; None if it drops none, as an update never does."""
        if self.waiting is not None:
            return None
        self._dropped = choose_dropped(self.weights, params.dart, key)
        self._step = (params.tree.eta, params.dart.normalize_type)
        if not len(self._dropped):
            return None
        return self._forest().without(self._dropped, chosen)

    def add_round(self, trees: list[Tree], targets: list[int]) -> None:
        """Append one round's trees; they and the dropped ones get the weights of a shared step."""
        super().add_round(trees, targets)
        dropped, self._dropped = self._dropped, np.zeros(0, np.int64)
        factor, weight = step_weights(len(dropped), len(trees), *self._step)
        weights = self.weights.copy()  # copies of the model may hold the old ones
        weights[dropped] *= factor
        self.weights = np.append(weights, np.full(len(trees), weight))
        self._version += bool(len(dropped))

    def take_back(self, trees: list[Tree], targets: list[int]) -> None:
        """Append a round of updated trees; they keep their weights."""
        assert isinstance(self.waiting, Dart)
        super().take_back(trees, targets)
        self.weights = self.waiting.weights[: len(self.trees)]

    def slice_rounds(self, rounds: range) -> "Dart":
        """A model of the chosen rounds; trees are shared, not copied (they never change)."""
        ptr = self.iteration_ptr
        weights = np.concatenate([self.weights[:0], *(self.weights[ptr[r] : ptr[r + 1]] for r in rounds)])
        return Dart.of_trees(super().slice_rounds(rounds), weights)

    def append(self, other: GBTree) -> None:
        """Put the rounds of another model, with their weights, behind these."""
        assert isinstance(other, Dart)
        super().append(other)
        self.weights = np.concatenate([self.weights, other.weights])

    def weighed_trees(self, chosen: slice = slice(None)) -> list[Tree]:
        """Trees whose leaves hold what they add to margins."""
        return [tree.scaled(w) for tree, w in zip(self.trees[chosen], self.weights[chosen], strict=True)]

    def forest(self, first_tree: int = 0) -> Forest:
        """Trees from `first_tree` on, packed for prediction, leaves times weights."""
        if first_tree == 0:
            return self._forest()
        return Forest(self.weighed_trees(slice(first_tree, None)), self.tree_info[first_tree:])

    def saved(self) -> dict[str, Any]:
        """Its own fields of a `SavedModel`."""
        return super().saved() | {"tree_weights": self.weights.tolist()}

    def _forest(self) -> "WeighedForest":
        """All trees; a tree is packed once, whatever becomes of its weight."""
        if self._packed is None:
            self._packed = (self._version, WeighedForest(list(self.trees), list(self.tree_info), self.weights))
        version, packed = self._packed
        if len(packed.trees) < len(self.trees) or version != self._version:
            n = len(packed.trees)
            packed = packed.extended(self.trees[n:], self.tree_info[n:], self.weights)
            self._packed = (self._version, packed)
        return packed


def choose_dropped(weights: np.ndarray, params: DartParams, key: int) -> np.ndarray:
    """Ids of the trees that a round leaves out, ascending."""
    key = rng.make_key(key, rng.DROPS)
    ids = np.arange(len(weights))
    if not len(ids) or _draw(key, _SKIP) < params.skip_drop:
        return ids[:0]
    is_weighted = params.sample_type == "weighted"
    shares = (
        weights.astype(np.float64) / weights.sum(dtype=np.float64) if is_weighted else np.full(len(ids), 1 / len(ids))
    )
    dropped = ids[rng.uniform(rng.make_key(key, _TREES), ids) < params.rate_drop * len(ids) * shares]
    if params.one_drop and not len(dropped):
        one = np.searchsorted(np.cumsum(shares), _draw(key, _ONE), side="right")
        dropped = np.minimum(ids[-1:], one)
    return dropped


def _draw(key: int, what: int) -> float:
    return float(rng.uniform(rng.make_key(key, what), np.zeros(1, np.int64))[0])


def step_weights(n_dropped: int, n_new: int, eta: float, normalize_type: str) -> tuple[np.float32, np.float32]:
    """The factor of the dropped trees' weights, and the weight of each new tree, rounded where XGBoost rounds."""
    if n_dropped == 0:
        return np.float32(1), np.float32(1)
    step = np.float32(eta / n_new)
    if normalize_type == "forest":
        factor = np.float32(1.0 / (1.0 + float(step)))
        return factor, factor
    total = float(np.float32(n_dropped) + step)
    return np.float32(n_dropped / total), np.float32(1.0 / total)


class WeighedForest(Forest):
    """A packed forest whose leaves are multiplied by their trees' weights."""

    def __init__(self, trees: list[Tree], targets: list[int], weights: np.ndarray):
        super().__init__(trees, targets)
        self._own_weight = self._leaf_weight
        self._weigh_leaves(weights)

    def _weigh_leaves(self, weights: np.ndarray) -> None:
        """Leaf weights as margins get them: one product, rounded to float32, as XGBoost's."""
        self._weights = weights
        n_leaves = np.diff(self.trees["leaf"], append=len(self._own_weight))
        self._leaf_weight = self._own_weight * np.repeat(weights, n_leaves)

    def extended(self, trees: list[Tree], targets: list[int], weights: np.ndarray) -> "WeighedForest":
        """These trees and more, with new weights for all; this forest stays as it is."""
        if trees and (self._has_categories or any(len(tree.categories_nodes) for tree in trees)):
            return WeighedForest(self._sources + trees, self._targets + targets, weights)
        whole = copy.copy(self)
        whole._explainer = None
        if trees:
            whole._append(Forest(trees, targets))
        whole._weigh_leaves(weights)
        return whole

    def _append(self, more: Forest) -> None:
        """Put another packed forest, without categories, behind this one."""
        records = more.trees.copy()
        records["node"] += len(self._feature)
        records["leaf"] += len(self._own_weight)
        n, m = len(self.trees), len(records)
        self._mean_depth = (self._mean_depth * n + more._mean_depth * m) / (n + m)
        self._sources, self._targets = self._sources + more._sources, self._targets + more._targets
        self.trees = np.concatenate([self.trees, records])
        for name in ("_feature", "_threshold", "_default_left", "_child", "_leaf_node"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))
        self._own_weight = np.concatenate([self._own_weight, more._leaf_weight])
        self._is_symmetric = self._is_symmetric and more._is_symmetric
        if self._is_symmetric:
            self._note_used()

    def without(self, dropped: np.ndarray, chosen: slice) -> Forest:
        """The chosen trees but the dropped ones; good for margins only."""
        is_left = np.zeros(len(self.trees), np.bool_)
        is_left[chosen] = True
        is_left[dropped] = False
        rest = copy.copy(self)
        rest.trees = self.trees[is_left]
        return rest

    def explainer(self, n_features: int) -> Explainer:
        """The same trees packed for explanations; made on the first call."""
        if self._explainer is None:
            trees = [tree.scaled(w) for tree, w in zip(self._sources, self._weights, strict=True)]
            self._explainer = Explainer(trees, self._targets, n_features)
        return self._explainer
