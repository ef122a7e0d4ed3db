"""What labels and weights must be where rows come in query groups, and what ranks count in them."""

import numpy as np

from arboost.kernels.ops import rank
from arboost.matrix.meta import MetaInfo
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

MAX_EXP_RELEVANCE = 31  # XGBoost's bound for gains of 2**label - 1
_GRAIN = 1024  # rows below which a second thread does not pay


def check_group_weight(info: MetaInfo) -> None:
    """Raise XGBoostError unless there is one weight per group."""
    n_groups = 1 if info.group_ptr is None else len(info.group_ptr) - 1
    if info.weight is not None and len(info.weight) != n_groups:
        raise XGBoostError(
            "Size of weight must equal to the number of query groups when ranking group is used: "
            f"{len(info.weight)} weights for {n_groups} groups."
        )


def check_relevance(label: np.ndarray, exp_gain: bool) -> None:
    """Raise XGBoostError unless labels are relevance degrees that NDCG can use."""
    if not ((label >= 0.0) & (label == np.floor(label))).all():
        raise XGBoostError(
            "When using relevance degree as target, label must be either 0 or positive integer: found "
            f"{label[(label < 0.0) | (label != np.floor(label))].flat[0]:g}."
        )
    if exp_gain and label.size and label.max() > MAX_EXP_RELEVANCE:
        raise XGBoostError(
            f"Relevance degress must be lesser than or equal to {MAX_EXP_RELEVANCE} when the exponential NDCG gain "
            f"function is used (found {label.max():g}). Set `ndcg_exp_gain` to false to use custom DCG gain."
        )


def check_binary(label: np.ndarray, name: str) -> None:
    """Raise XGBoostError unless every label is 0 or 1."""
    if not ((label == 0.0) | (label == 1.0)).all():
        raise XGBoostError(f"{name} can only be used with binary labels: a label is neither 0 nor 1.")


def group_grain(n_groups: int, n_rows: int) -> int:
    """Groups that hold about `_GRAIN` rows."""
    return max(1, _GRAIN * n_groups // max(n_rows, 1))


def discounts(ctx: Context, group_ptr: np.ndarray, top: int) -> np.ndarray:
    """1 / log2(rank + 2) for every rank that a document of these groups can have, up to `top` of them."""
    discount = np.empty(min(int(np.diff(group_ptr).max(initial=0)), top))
    ctx.run_ranges(len(discount), 65_536, rank.fill_discounts, discount)
    return discount


def inverse_ideal_dcg(
    ctx: Context, label: np.ndarray, group_ptr: np.ndarray, discount: np.ndarray, top: int, exp_gain: bool
) -> np.ndarray:
    """One over the largest DCG of each group's `top` first ranks; 0 where nothing is relevant."""
    values = np.empty(len(group_ptr) - 1)
    grain = group_grain(len(values), len(label))
    ctx.run_ranges(len(values), grain, rank.invert_ideal_dcg, label, group_ptr, discount, top, exp_gain, values)
    return values
