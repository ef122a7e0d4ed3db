"""Growers of every kind: the growth loop with the level engine that `tree_method` asks for."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from arboost.levels.base import GAMMA, Rules, TreeKind
from arboost.levels.exact import ExactEngine
from arboost.levels.gathering import make_engine
from arboost.levels.local_proposals import LocalProposalsEngine
from arboost.levels.quantize import QuantizedGradients
from arboost.levels.vectors import VectorGradients
from arboost.matrix.adapt import RawData
from arboost.matrix.cuts import MAX_BIN_LIMIT
from arboost.matrix.page import BinnedPage
from arboost.matrix.sorted import SortedPage
from arboost.matrix.store import head_of
from arboost.params.resolve import MAX_SYMMETRIC_DEPTH, TreeParams
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.constraints import monotone_vector
from arboost.tree.driver import Driver, WholeLevels
from arboost.tree.grow import Grower, GrownTree
from arboost.tree.model import DELETED, Tree
from arboost.tree.update import prune

Names = list[str] | None


def histogram_grower(params: TreeParams) -> type["HistogramGrower"]:
    """The kind of grower on binned rows that `grow_policy` asks for."""
    return SymmetricGrower if params.grow_policy == "symmetric" else HistogramGrower


def count_bins(params: TreeParams) -> int:
    """Bins that candidates cut a feature into: none may weigh more than `sketch_eps` of all; else `max_bin`."""
    if params.sketch_eps is None:
        return params.max_bin
    tolerant = 1.0 - 1e-6  # 0.01 as a float32 is a little less, and still means 100
    return min(MAX_BIN_LIMIT, max(2, ceil(tolerant / params.sketch_eps)))


class HistogramGrower(Grower):
    """Grows trees on pages of binned rows; `n_targets` > 0: with a vector of so many weights in a leaf."""

    symmetric = False

    def __init__(
        self,
        ctx: Context,
        pages: BinnedPage | Sequence[BinnedPage],
        params: TreeParams,
        feature_weights: np.ndarray | None = None,
        feature_names: Names = None,
        n_targets: int = 0,
    ):
        pages = [pages] if isinstance(pages, BinnedPage) else pages
        head = head_of(pages)
        n_features = head.n_features
        monotone = monotone_vector(params.monotone_constraints, feature_names, n_features)
        if n_targets:
            _refuse_vectors(head, params, monotone)
        _refuse_choice(head, params, monotone)
        chosen = (params.min_data_in_leaf > 1, params.extra_trees, params.path_smooth > 0, params.linear_leaves)
        self._histograms = make_engine(ctx, pages, monotone, TreeKind(n_targets, self.symmetric, *chosen))
        super().__init__(self._histograms, params, n_features, feature_weights, feature_names, monotone)
        self.set_params(params)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        super().set_params(params)
        self._histograms.set_category_limits(params.max_cat_to_onehot, params.max_cat_threshold)

    def set_weights(self, grown: GrownTree, gradients: VectorGradients) -> None:
        """Give a tree, all of whose rows were parted, the weights that other gradients than its own ask for.

        Splits, gains and covers stay; the targets of the weights are those of `gradients`.
        """
        engine: Any = self._histograms  # trees with vectors are grown on no device
        again = engine.weigh_again(gradients, grown.leaves, np.float32(self._params.eta))
        assert again.vectors is not None
        grown.tree.base_weight, grown.tree.vectors = again.base_weight, again.vectors


class SymmetricGrower(HistogramGrower):
    """Grows trees all of whose nodes of a level are split by the same condition (CatBoost's oblivious trees)."""

    symmetric = True

    @property
    def _max_depth(self) -> int:
        return self._params.max_depth or MAX_SYMMETRIC_DEPTH

    def _driver(self) -> Driver:
        return WholeLevels(self._params.max_leaves)

    def _rules(self, gradients: QuantizedGradients) -> Rules:
        """A node stays in its level if it is heavy enough for a weight of its own: its children need not be."""
        least = self._params.min_child_weight / gradients.h_unit
        return super()._rules(gradients)._replace(least_h=max(1, ceil(min(least, 2.0**62))))


class ExactGrower(Grower):
    """Grows trees on sorted columns, every distinct value a candidate.

    Like XGBoost's, a tree grows level by level without regard to gamma and is pruned afterwards, so a split that gains
    little stays if one below it gains enough.
    """

    def __init__(
        self,
        ctx: Context,
        columns: SortedPage,
        raw: RawData,
        params: TreeParams,
        feature_weights: np.ndarray | None = None,
        feature_names: Names = None,
    ):
        monotone = monotone_vector(params.monotone_constraints, feature_names, columns.n_features)
        self.columns_engine = ExactEngine(ctx, columns, raw, monotone)
        super().__init__(self.columns_engine, params, columns.n_features, feature_weights, feature_names, monotone)

    def _driver(self) -> Driver:
        return Driver(max_leaves=0, best_first=False)

    def _rules(self, gradients: QuantizedGradients) -> Rules:
        rules = super()._rules(gradients)
        rules.reg[GAMMA] = 0.0
        return rules

    def _finish(self, tree: Tree, closed: np.ndarray, eta: np.float32) -> GrownTree:
        tree = prune(tree, self._params, eta)
        gone = tree.feature == DELETED
        if gone.any():
            self.columns_engine.lift_rows(_leaf_above(tree, gone))
        return GrownTree(tree, np.flatnonzero((tree.left < 0) & ~gone).astype(np.int32), closed)


def _leaf_above(tree: Tree, gone: np.ndarray) -> np.ndarray:
    """(n_nodes,): itself, or for nodes that pruning has cut off the leaf above."""
    leaf_of = np.arange(tree.n_nodes, dtype=np.int32)  # children come after their parents
    for i in np.flatnonzero(gone):
        leaf_of[i] = leaf_of[tree.parent[i]]
    return leaf_of


def local_grower(
    ctx: Context,
    columns: SortedPage,
    raw: RawData,
    params: TreeParams,
    feature_weights: np.ndarray | None = None,
    feature_names: Names = None,
) -> Grower:
    """Grows trees on sorted columns, every node with candidates of its own (the paper, section 3.2)."""
    monotone = monotone_vector(params.monotone_constraints, feature_names, columns.n_features)
    engine = LocalProposalsEngine(ctx, columns, raw, count_bins(params), monotone)
    return Grower(engine, params, columns.n_features, feature_weights, feature_names, monotone)


def _own_parameters(params: TreeParams) -> dict[str, bool]:
    """Parameters of binned rows alone, as messages call them, and whether they are set."""
    return {
        "grow_policy='symmetric'": params.grow_policy == "symmetric",
        "min_data_in_leaf": params.min_data_in_leaf > 1,
        "extra_trees": params.extra_trees,
        "path_smooth": params.path_smooth > 0,
    }


def refuse_own_parameters(params: TreeParams, what: str) -> None:
    """Raise XGBoostError where candidates are not bins that all nodes share."""
    for name, is_set in _own_parameters(params).items():
        if is_set:
            raise XGBoostError(f"{name} needs bins that all nodes share; {what} has none: use tree_method='hist'.")


def _refuse_choice(page: BinnedPage, params: TreeParams, monotone: np.ndarray) -> None:
    """Raise XGBoostError where rows cannot be counted, or candidates drawn."""
    beside = {
        "categorical features": bool(page.cuts.is_categorical.any()),
        "monotone_constraints": bool(monotone.any()),
        "path_smooth": params.path_smooth > 0,
    }
    for name in ("min_data_in_leaf", "extra_trees"):
        if _own_parameters(params)[name]:
            for other, is_there in beside.items():
                if is_there:
                    raise XGBoostError(f"{name} is not there together with {other}: leave one of them out.")
    if params.grow_policy == "symmetric" and params.min_data_in_leaf > 1:
        raise XGBoostError(
            "min_data_in_leaf is not there for grow_policy='symmetric', whose levels are split as a whole: use "
            "min_child_weight, which gives light leaves the weight 0."
        )


def _refuse_vectors(page: BinnedPage, params: TreeParams, monotone: np.ndarray) -> None:
    """Raise XGBoostError for what trees with vectors in their leaves cannot do; XGBoost cannot either."""
    advice = "use multi_strategy='one_output_per_tree'."
    for name, is_set in _own_parameters(params).items():
        if is_set and not name.startswith("grow_policy"):
            raise XGBoostError(f"{name} is not there for trees with vectors in their leaves: {advice}")
    if params.tree_method not in ("hist", "auto"):
        raise XGBoostError(
            "Only the hist tree method is supported for building multi-target trees with vector leaf, found "
            f"tree_method={params.tree_method!r}: leave it out, or {advice}"
        )
    if page.cuts.is_categorical.any():
        raise XGBoostError(f"Categorical features support for multi-target tree is not yet implemented: {advice}")
    if monotone.any():
        raise XGBoostError(f"Monotonic constraint support for multi-target tree is not yet implemented: {advice}")
