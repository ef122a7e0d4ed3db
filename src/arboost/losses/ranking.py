"""Learning to rank: LambdaMART on NDCG, mean average precision or plain pairs, with XGBoost's conventions.

Pairs are made within query groups: each of the top documents by score with everything below it (`topk`), or every
document with a few random ones (`mean`). With `lambdarank_unbiased` the loss keeps the bias of the positions at which
documents were shown, and learns it round by round. Scores have no scale of their own, so base_score is 0.
"""

from collections.abc import Container
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from arboost.kernels import rank_formulas as entries
from arboost.kernels.ops import rank as kernels
from arboost.losses.base import Loss, check_finite, column, register
from arboost.matrix import groups
from arboost.matrix.groups import check_binary, check_group_weight, check_relevance
from arboost.matrix.meta import MetaInfo
from arboost.params.resolve import LearnerParams
from arboost.params.table import PARAMS
from arboost.runtime import rng, sums
from arboost.runtime.comm import Comm, Runs, in_turn, locate
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError, XGBoostError

_NOT_SET = 2**32 - 1
_DEFAULT_TOP, _DEFAULT_DRAWS = 32, 1
_MAX_POSITIONS = 32  # positions with a bias of their own where `topk` does not say
_PAIRS = 101  # what a draw is for, beside those of runtime/rng.py


@dataclass(frozen=True)
class RankPlan:
    """What depends on labels and groups alone, kept from round to round."""

    label: np.ndarray
    group_ptr: np.ndarray
    weight: np.ndarray | None
    per_group: np.ndarray  # (2, n_groups): weight that sums to n_groups, one over the ideal DCG
    discount: np.ndarray
    runs: Runs  # where the rows lie among those of all workers
    comm: Comm


@dataclass
class _State:
    """What a loss carries from round to round: the positions' bias and the plan of the last matrix."""

    bias: np.ndarray | None = None  # (2, n_positions) float32: of the higher (ti+) and the lower document (tj-)
    plan: RankPlan | None = None


@dataclass(frozen=True)
class LambdaRank(Loss):
    """What the three ranking losses share; they differ in how much a pair weighs."""

    config_group = "lambdarank_param"
    kind: ClassVar[int]
    metric: ClassVar[str]

    lambdarank_pair_method: str = "topk"
    lambdarank_num_pair_per_sample: int = _NOT_SET
    lambdarank_normalization: bool = True
    lambdarank_score_normalization: bool = True
    lambdarank_unbiased: bool = False
    lambdarank_bias_norm: float = 1.0
    ndcg_exp_gain: bool = True
    state: _State = field(default_factory=_State, init=False, compare=False, repr=False)

    @property
    def is_topk(self) -> bool:
        return self.lambdarank_pair_method == "topk"

    @property
    def n_pairs(self) -> int:
        """Top documents that are paired, or random partners of each document."""
        given = self.lambdarank_num_pair_per_sample
        return given if given != _NOT_SET else _DEFAULT_TOP if self.is_topk else _DEFAULT_DRAWS

    def n_positions(self, largest_group: int = _MAX_POSITIONS) -> int:
        """Positions whose bias is learned."""
        if not self.lambdarank_unbiased:
            return 0
        return self.n_pairs if self.is_topk else min(_MAX_POSITIONS, largest_group)

    def _fits(self, bias: np.ndarray) -> bool:
        """Whether this loss can go on with a bias (2, n) that was learned before."""
        n, most = bias.shape[1], self.n_positions()
        return 0 < n == most if self.is_topk else 0 < n <= most

    @property
    def default_metric(self) -> str:
        return f"{self.metric}@{self.n_pairs}" if self.is_topk else self.metric

    def n_targets(self, n_label_columns: int = 1) -> int:
        return 1

    # ---- training ----

    def check_info(self, info: MetaInfo) -> None:
        label, ptr = info.label, info.group_ptr
        if ptr is None:
            raise XGBoostError(
                f"Either `group` or `qid` is required for ranking task: {self.name} orders the rows of a query. Pass "
                "qid= or group= to the DMatrix; group=[number of rows] if all rows are of one query."
            )
        if label is None or len(label) != info.n_rows:
            raise XGBoostError(
                "Invalid query group structure. The number of rows obtained from group doesn't equal to the size of "
                f"label: {info.n_rows} and {0 if label is None else len(label)}. Pass label= to DMatrix."
            )
        if label.ndim > 1 and label.shape[1] > 1:
            raise XGBoostError(f"multi-output for LTR is not yet supported: the label has {label.shape[1]} columns.")
        check_group_weight(info)
        self.check_label(label)

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        check_finite(label)

    def base_score_of(self, ctx: Context, info: MetaInfo) -> np.ndarray:
        return np.zeros(1, np.float32)

    def gradient(self, *args: Any) -> None:
        raise XGBoostError(f"{self.name} needs the groups of the rows; use gradient_of.")

    def detached(self) -> "LambdaRank":
        twin = replace(self)
        twin.state.bias = self.state.bias  # never changed in place
        return twin

    def take_over(self, earlier: Loss, given: Container[str]) -> None:
        if isinstance(earlier, LambdaRank) and earlier.state.bias is not None and self._fits(earlier.state.bias):
            self.state.bias = earlier.state.bias

    def gradient_of(
        self, ctx: Context, key: int, margin: np.ndarray, info: MetaInfo, g: np.ndarray, h: np.ndarray
    ) -> None:
        plan = self.plan(ctx, info)
        n_groups, n_rows = len(plan.group_ptr) - 1, len(plan.label)
        bias = self._bias(ctx, plan.group_ptr)
        cost = np.empty((2, n_rows if bias.shape[1] else 0))
        head = (column(margin, 0), plan.label, plan.group_ptr, plan.per_group, plan.discount)
        grain = groups.group_grain(n_groups, n_rows)
        for run in plan.runs:
            chosen = _groups_of(plan.group_ptr, run.start, run.stop)
            args = (*head, self.settings(key, run.offset), bias, g[0], h[0], cost)
            ctx.run_ranges(len(chosen), grain, _lambda_gradients, chosen.start, args)
        if bias.shape[1]:
            self._learn_bias(ctx, plan, cost)

    def settings(self, key: int, first_row: int) -> np.ndarray:
        """What kernels are told, for a round's key and rows that begin with this one among those of all workers."""
        settings = np.empty(entries.N_SETTINGS, np.int64)
        settings[entries.KIND] = self.kind
        settings[entries.N_PAIRS] = self.n_pairs
        settings[entries.AT_RANDOM] = not self.is_topk
        settings[entries.BY_DISTANCE] = self.lambdarank_score_normalization
        settings[entries.NORMALISE] = self.lambdarank_normalization
        settings[entries.EXP_GAIN] = self.ndcg_exp_gain
        settings[entries.FIRST_ROW] = first_row
        settings.view(np.uint64)[entries.KEY] = self.pair_key(key)
        return settings

    def pair_key(self, key: int) -> int:
        """What partners are drawn with in the round of this key."""
        return rng.make_key(key, _PAIRS)

    def plan(self, ctx: Context, info: MetaInfo) -> RankPlan:
        """The plan for this matrix: made anew where its labels, groups or weights are others."""
        label, ptr, plan = info.label, info.group_ptr, self.state.plan
        assert label is not None and ptr is not None
        fields = (label, ptr, info.weight, ctx.comm)
        known = () if plan is None else (plan.label, plan.group_ptr, plan.weight, plan.comm)
        if plan is None or any(a is not b for a, b in zip(known, fields, strict=True)):
            n_groups = len(ptr) - 1
            discount = groups.discounts(ctx, ptr, _NOT_SET)
            per_group = np.zeros((2, n_groups))
            per_group[0] = _mean_one(ctx, n_groups, info.weight)
            if self.kind == entries.NDCG:
                top = self.n_pairs if self.is_topk else _NOT_SET
                per_group[1] = groups.inverse_ideal_dcg(ctx, label, ptr, discount, top, self.ndcg_exp_gain)
            runs = locate(ctx.comm, len(label), info.runs)
            plan = self.state.plan = RankPlan(label, ptr, info.weight, per_group, discount, runs, ctx.comm)
        return plan

    # ---- position bias ----

    def _bias(self, ctx: Context, group_ptr: np.ndarray) -> np.ndarray:
        """(2, n_positions) float64; without a position where no bias is to be corrected."""
        known = self.state.bias
        if known is None:
            largest = ctx.comm.allreduce_max(np.array([np.diff(group_ptr).max(initial=0)], np.int64))[0]
            n = self.n_positions(int(largest))
            known = self.state.bias = np.ones((2, n), np.float32)
        return known.astype(np.float64)

    def _learn_bias(self, ctx: Context, plan: RankPlan, cost: np.ndarray) -> None:
        """The bias of the next round: the loss at each position over that at the first."""
        assert self.state.bias is not None
        bias = self.state.bias.copy()
        n = bias.shape[1]

        def add(so_far: np.ndarray, start: int, stop: int) -> None:
            chosen = _groups_of(plan.group_ptr, start, stop)
            kernels.sum_positions(plan.group_ptr[chosen.start : chosen.stop + 1], cost, so_far, 0, n)

        # floats, added in the order of the groups: a worker goes on where the one before has stopped
        totals = in_turn(ctx.comm, np.zeros((2, n)), add, plan.runs)
        kernels.position_bias(totals, 1.0 / (1.0 + self.lambdarank_bias_norm), bias, 0, n)
        self.state.bias = bias

    # ---- files ----

    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"name": self.name, "lambdarank_param": _param_texts(self)}
        if self.lambdarank_unbiased:
            bias = self.state.bias
            plus, minus = ([], []) if bias is None else bias.tolist()
            config |= {"ti+": plus, "tj-": minus}
        return config

    @classmethod
    def from_params(cls, params: LearnerParams) -> "LambdaRank":
        return cls(**{name: getattr(params, name) for name in PARAM_NAMES})

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LambdaRank":
        group = config.get("lambdarank_param", {})
        if not isinstance(group, dict):
            raise ModelFileError("learner.objective.lambdarank_param: an object was expected.")
        try:
            loss = cls(**{name: PARAMS[name].parse(group[name]) for name in PARAM_NAMES if name in group})
        except XGBoostError as error:
            raise ModelFileError(f"learner.objective.lambdarank_param: {error}") from error
        bias = _read_bias(config)
        loss.state.bias = bias if bias is not None and loss._fits(bias) else None
        return loss


PARAM_NAMES = tuple(sorted(f.name for f in fields(LambdaRank) if f.name != "state"))


def _groups_of(group_ptr: np.ndarray, start: int, stop: int) -> range:
    """The groups that rows start..stop are."""
    first, last = np.searchsorted(group_ptr, (start, stop)).tolist()
    return range(first, last)


def _lambda_gradients(first: int, args: tuple, start: int, stop: int) -> None:
    """The gradients of groups first + start..first + stop."""
    kernels.lambda_gradients(*args, first + start, first + stop)


def _param_texts(loss: LambdaRank) -> dict[str, str]:
    """XGBoost's "lambdarank_param" object."""
    values = {name: getattr(loss, name) for name in PARAM_NAMES}
    return {
        n: f"{v:.9g}" if isinstance(v, float) else v if isinstance(v, str) else str(int(v)) for n, v in values.items()
    }


def _mean_one(ctx: Context, n_groups: int, weight: np.ndarray | None) -> np.ndarray | float:
    """The groups' weights, scaled to a mean of 1 over all workers."""
    if weight is None:
        return 1.0
    total = sums.exact_sum(ctx, weight)
    if not total > 0.0:
        raise XGBoostError("There is nothing to learn from: the weights of the query groups sum to zero.")
    return weight * (sums.count_rows(ctx, n_groups) / total)


def _read_bias(config: dict[str, Any]) -> np.ndarray | None:
    """The positions' bias of a model file; None where there is none yet."""
    sides = [config.get(name) for name in ("ti+", "tj-")]
    if not all(sides):
        return None
    try:
        bias = np.array(sides, np.float32)
    except (TypeError, ValueError) as error:
        raise ModelFileError("learner.objective: `ti+` and `tj-` are lists of numbers of one length.") from error
    if bias.ndim != 2 or not (np.isfinite(bias) & (bias >= 0.0)).all():
        raise ModelFileError("learner.objective: `ti+` and `tj-` hold finite numbers that are not negative.")
    return bias


@register
@dataclass(frozen=True)
class RankNdcg(LambdaRank):
    """A pair weighs what swapping it would change of the normalised discounted cumulative gain."""

    name = "rank:ndcg"
    kind = entries.NDCG
    metric = "ndcg"

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        super().check_label(label)
        check_relevance(label, self.ndcg_exp_gain)


@register
@dataclass(frozen=True)
class RankMap(LambdaRank):
    """A pair weighs what swapping it would change of the average precision; labels are 0 or 1."""

    name = "rank:map"
    kind = entries.MAP
    metric = "map"

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        super().check_label(label)
        check_binary(label, "map")


@register
@dataclass(frozen=True)
class RankPairwise(LambdaRank):
    """Every pair weighs the same; labels are any numbers, of which only the order counts."""

    name = "rank:pairwise"
    kind = entries.PAIRWISE
    metric = "ndcg"
