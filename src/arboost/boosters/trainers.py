"""Which trainer a model, its parameters and a matrix ask for."""

from arboost.boosters.gblinear import LinearTrainer
from arboost.boosters.gbtree import TreeTrainer, make_grower
from arboost.boosters.linear_leaves import LinearLeavesTrainer, check_linear_leaves
from arboost.boosters.model import Model
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


def make_trainer(ctx: Context, data: DMatrix, model: Model, params: TreeParams, n_vector: int) -> Trainer:
    """A trainer on one matrix; n_vector > 0: of trees that hold so many weights in a leaf."""
    ctx = ctx.leave_device(_why_on_cpu(data, model, params))
    if model.kind == "gblinear":
        ctx.refuse_workers("booster='gblinear'", "its sweep goes through all rows in turn. Use 'gbtree'.")
        return LinearTrainer(ctx, data)
    reviser = TreeReviser(ctx, params)
    if params.process_type == "update":
        return reviser
    if params.linear_leaves:
        grower = make_grower(ctx, data, params)
        check_linear_leaves(data, params, model.kind, n_vector, grower)
        return LinearLeavesTrainer(ctx, data, params, grower, reviser, data.info.runs)
    if params.boosting_type == "ordered":
        if n_vector or model.kind == "dart":
            what = "multi_strategy='multi_output_tree'" if n_vector else "booster='dart'"
            raise XGBoostError(f"boosting_type='ordered' does not go with {what}: use 'plain'.")
        return OrderedTrainer(ctx, data, params)
    if not n_vector and data.n_permutations > 1:
        return PermutedTrainer(ctx, data, params, reviser)
    if not n_vector:
        grower = make_grower(ctx, data, params)
        args = (ctx, data.num_row(), params, grower, reviser, data.info.runs)
        if not ctx.is_on_cpu:
            from arboost.boosters.device import DeviceTrainer, engine_of

            engine = engine_of(grower)
            if engine is not None:
                return DeviceTrainer(*args, engine=engine, data=data)
        return TreeTrainer(*args)
    if model.kind == "dart":
        raise XGBoostError(NO_DART)
    pages = data.pages(ctx, params.max_bin, enable_bundle=False, keep_sparse=False)
    features = data.info.feature_weights, data.info.feature_names
    return VectorTrainer(ctx, pages, params, n_vector, *features, reviser=reviser, runs=data.info.runs)


def _why_on_cpu(data: DMatrix, model: Model, params: TreeParams) -> str:
    """What keeps a training from a device, whatever its bins are; empty: nothing."""
    if model.kind == "gblinear":
        return "booster='gblinear'"
    if params.process_type == "update":
        return "process_type='update'"
    if params.boosting_type == "ordered":
        return "boosting_type='ordered'"
    if data.n_permutations > 1:
        return "permutation_count above 1"
    return f"tree_method={params.tree_method!r}" if params.tree_method in ("approx", "exact") else ""
