"""Rounds of trees with linear leaves: a tree is grown as any other, then each leaf is fitted to its rows' values."""

from collections.abc import Iterable

import numpy as np

from arboost.boosters.gbtree import GBTree, Grower, Reviser, TreeTrainer
from arboost.boosters.rounds import Margins, Round
from arboost.levels.quantize import QuantizedGradients
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import TreeParams
from arboost.predict.forest import Forest
from arboost.runtime.comm import Runs
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.grow import GrownTree
from arboost.tree.linear_leaves import LeafRows, fit_leaves


def check_linear_leaves(data: DMatrix, params: TreeParams, booster: str, n_vector: int, grower: Grower) -> None:
    """Refuse what linear leaves do not go with."""
    beside = {
        "booster='dart'": booster == "dart",
        "multi_strategy='multi_output_tree'": n_vector > 0,
        "boosting_type='ordered'": params.boosting_type == "ordered",
        "permutation_count above 1": data.n_permutations > 1,
        "monotone_constraints": bool(grower.monotone.any()),
        "updater='refresh'": "refresh" in params.updater,
    }
    for name, is_there in beside.items():
        if is_there:
            raise XGBoostError(f"linear_leaves does not go with {name}: leave one of them out.")
    if data.raw is None:
        raise XGBoostError(f"linear_leaves needs the values, of which a {type(data).__name__} has bins: use a DMatrix.")


class LinearLeavesTrainer(TreeTrainer):
    """Grows rounds of trees with linear leaves."""

    parts_leaves = True

    def __init__(
        self,
        ctx: Context,
        data: DMatrix,
        params: TreeParams,
        grower: Grower,
        reviser: Reviser | None = None,
        runs: Runs | None = None,
    ):
        super().__init__(ctx, data.num_row(), params, grower, reviser, runs)
        self._data = data

    def train_round(self, model: GBTree, turn: Round) -> Margins:
        """One round of trees."""
        if turn.solver is not None:
            raise XGBoostError(
                "linear_leaves needs an objective whose leaves are Newton steps, which those of quantiles and absolute "
                "errors are not: use another objective, as reg:pseudohubererror."
            )
        return super().train_round(model, turn)

    def _chunks(self) -> Iterable[tuple[int, np.ndarray]]:
        return self._data.chunks()

    def _add_tree(self, grown: GrownTree, gradients: QuantizedGradients, margin: np.ndarray, target: int) -> None:
        """Fit the leaves and add what they hold, as prediction does: the values of a row are the same bits then."""
        ctx, tree = self._ctx, grown.tree
        found = LeafRows(grown.leaves, *self._grower.leaf_rows(grown))
        fitted = fit_leaves(ctx, tree, found, self._chunks, gradients, self._params, self._eta)
        tree.terms = fitted.terms
        if len(found.rows) == self._n_rows:
            fitted.add_values(ctx, tree.threshold[found.leaves], margin, target)
            return
        forest = Forest([tree], [target])  # of the other rows nobody knows the leaves
        for first, values in self._chunks():
            forest.add_margins(ctx, values, slice(None), margin[first : first + len(values)])
