"""Which trainer a model, its parameters and a matrix ask for."""

from arboost.boosters.gblinear import LinearTrainer
from arboost.boosters.gbtree import GBTree, TreeTrainer, make_grower
from arboost.boosters.ordered import OrderedTrainer
from arboost.boosters.permuted import PermutedTrainer
from arboost.boosters.rounds import Trainer
from arboost.boosters.update import TreeReviser
from arboost.boosters.vector import VectorTrainer
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

NO_DART = (
    "dart support for multi-target tree is not yet implemented: use booster='gbtree', or "
    "multi_strategy='one_output_per_tree'."
)


def make_trainer(ctx: Context, data: DMatrix, model: GBTree, params: TreeParams, n_vector: int) -> Trainer:
    """A trainer on one matrix; n_vector > 0: of trees that hold so many weights in a leaf."""
    if model.is_linear:
        ctx.refuse_workers("booster='gblinear'", "its sweep goes through all rows in turn. Use 'gbtree'.")
        return LinearTrainer(ctx, data)
    reviser = TreeReviser(ctx, params)
    if params.process_type == "update":
        return reviser
    if params.boosting_type == "ordered":
        if n_vector or model.kind == "dart":
            what = "multi_strategy='multi_output_tree'" if n_vector else "booster='dart'"
            raise XGBoostError(f"boosting_type='ordered' does not go with {what}: use 'plain'.")
        return OrderedTrainer(ctx, data, params)
    if not n_vector and data.n_permutations > 1:
        return PermutedTrainer(ctx, data, params, reviser)
    if not n_vector:
        return TreeTrainer(ctx, data.num_row(), params, make_grower(ctx, data, params), reviser, data.info.runs)
    if model.kind == "dart":
        raise XGBoostError(NO_DART)
    pages = data.pages(ctx, params.max_bin, enable_bundle=False, keep_sparse=False)
    features = data.info.feature_weights, data.info.feature_names
    return VectorTrainer(ctx, pages, params, n_vector, *features, reviser=reviser, runs=data.info.runs)
