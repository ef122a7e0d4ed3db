"""`process_type="update"`: a round goes over the trees of a round of the model that there was before.

The model begins anew, without trees, and takes them back one round after the other, refreshed or pruned. So the
gradients of a round are taken at the margins of the trees that have been updated already, as in XGBoost. Weights of
DART's trees stay as they are, and no tree is dropped.
"""

import numpy as np

from arboost.boosters.gbtree import GBTree
from arboost.boosters.rounds import Margins, Round
from arboost.levels.quantize import quantize
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import TreeParams
from arboost.params.table import TREE_MODIFIERS
from arboost.predict.forest import Forest
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree
from arboost.tree.update import add_leaf_sums, prune, refresh


def start_update(model: GBTree) -> GBTree:
    """The model to be updated, without trees at first; one that is being updated is itself."""
    started = model if model.waiting is not None else model.emptied()
    assert started.waiting is not None
    if started.n_rounds >= started.waiting.n_rounds:
        raise XGBoostError(
            "No more tree left for updating. For updating existing trees, boosting rounds can not exceed previous "
            f"training rounds: there are {started.waiting.n_rounds}. Give the model as `xgb_model`."
        )
    return started


class TreeReviser:
    """Refreshes and prunes trees on one matrix."""

    takes_split = False
    keeps_margins = False

    def __init__(self, ctx: Context, params: TreeParams):
        self._ctx = ctx
        self._params = params

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change between rounds."""
        self._params = params

    def train_round(self, model: GBTree, turn: Round) -> Margins:
        """Let the model take one round's trees back, updated."""
        before = model.waiting
        assert before is not None
        chosen = before.trees_of(model.n_rounds, model.n_rounds + 1)
        targets = before.tree_info[chosen]
        model.take_back(self.revise(turn.data, before.trees[chosen], targets, turn.g, turn.h), targets)
        return Margins.BEHIND

    def revise(self, data: DMatrix, trees: list[Tree], targets: list[int], g: np.ndarray, h: np.ndarray) -> list[Tree]:
        """The trees of one round after every step of `updater`, from gradients (K, n) of the data."""
        if any(tree.has_vectors for tree in trees):
            raise XGBoostError(
                "Updating support for multi-target tree is not yet implemented: the leaves of this model hold a weight "
                "for every output; train it with multi_strategy='one_output_per_tree'."
            )
        if any(tree.is_linear for tree in trees):
            raise XGBoostError("Trees with linear leaves (linear_leaves) cannot be updated: train them anew.")
        eta = np.float32(self._params.eta) / np.float32(max(1, self._params.num_parallel_tree))
        trees = list(trees)
        for step in [name for name in self._params.updater if name in TREE_MODIFIERS]:
            if step == "prune":
                trees = [prune(tree, self._params, eta) for tree in trees]
            else:
                for target in sorted(set(targets)):
                    own = [i for i, t in enumerate(targets) if t == target]
                    new = self._refresh(data, [trees[i] for i in own], g[target], h[target], eta)
                    for i, tree in zip(own, new, strict=True):
                        trees[i] = tree
        return trees

    def _refresh(self, data: DMatrix, trees: list[Tree], g: np.ndarray, h: np.ndarray, eta: np.float32) -> list[Tree]:
        """Trees of one target with statistics of these gradients."""
        gradients = quantize(self._ctx, g, h)
        forest = Forest(trees, [0] * len(trees))
        sums = [np.zeros((tree.n_nodes, 2), np.int64) for tree in trees]
        for first, values in data.chunks():
            leaves = np.zeros((len(values), len(trees)), np.int32)
            forest.find_leaves(self._ctx, values, slice(None), leaves)
            add_leaf_sums(self._ctx, leaves, first, gradients, sums)
        pairs = zip(trees, sums, strict=True)
        return [refresh(self._ctx, tree, total, gradients, self._params, eta) for tree, total in pairs]
