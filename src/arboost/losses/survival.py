"""Times until an event, often only known to be later than something: proportional hazards and accelerated failure."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.kernels.ops import survival
from arboost.losses.base import (
    DEFAULT_BASE_SCORE,
    GRAIN,
    SERIAL,
    Loss,
    check_weight,
    register,
    weigh,
)
from arboost.losses.counts import _LogLink
from arboost.matrix.meta import MetaInfo
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@register
@dataclass(frozen=True)
class Cox(_LogLink, Loss):
    """Proportional hazards: the prediction multiplies the hazard. A negative label is a time of censoring."""

    name = "survival:cox"
    default_metric = "cox-nloglik"

    def n_targets(self, n_label_columns: int = 1) -> int:
        return _one_target(self.name, n_label_columns)

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        super().check_label(label, weight)
        n_zero = int(np.count_nonzero(label == 0))
        if n_zero:
            raise XGBoostError(
                f"survival:cox needs times other than 0, found {n_zero} labels that are 0: a positive label is the "
                "time of an event, a negative one the time of censoring. Drop these rows or set a small time."
            )

    def gradient(
        self,
        ctx: Context,
        margin: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray | None,
        g: np.ndarray,
        h: np.ndarray,
    ) -> None:
        ctx.refuse_workers("survival:cox", "a row's risk set is among all rows. Use survival:aft.")
        n_rows = len(label)
        if not n_rows:
            return
        rows, by_time, first = survival.time_order(label)
        hazard = np.empty(n_rows)
        # hazards count relative to each other only: the largest becomes 1, so that none overflows
        ctx.run_ranges(n_rows, GRAIN, survival.hazards, rows, margin.reshape(-1), float(margin.max()), hazard)
        rates = survival.cumulative_rates(by_time, survival.sums_at_risk(first, hazard))
        ctx.run_ranges(n_rows, GRAIN, survival.cox_gradient, rows, by_time, hazard, *rates, g[0], h[0])
        weigh(ctx, weight, g[0], h[0])


@register
@dataclass(frozen=True)
class AcceleratedFailureTime(_LogLink, Loss):
    """ln(time) = margin + scale * noise, the time known to lie between two bounds."""

    name = "survival:aft"
    config_group = "aft_loss_param"
    default_metric = "aft-nloglik"
    aft_loss_distribution: str = "normal"
    aft_loss_distribution_scale: float = 1.0

    def __post_init__(self) -> None:
        check_distribution(self.aft_loss_distribution, self.aft_loss_distribution_scale)

    def n_targets(self, n_label_columns: int = 1) -> int:
        return _one_target(self.name, n_label_columns)

    def check_info(self, info: MetaInfo) -> None:
        lower, upper = bounds_of(info, self.name)
        check_weight(info.n_rows, info.row_weight())
        problems = (
            (np.isnan(lower) | np.isnan(upper), "a bound is NaN"),
            (lower > upper, "label_lower_bound is larger than label_upper_bound"),
            (~(upper > 0), "label_upper_bound is not positive"),
            (lower == np.inf, "label_lower_bound is infinite"),
        )
        for is_bad, what in problems:
            if is_bad.any():
                i = int(is_bad.argmax())
                raise XGBoostError(
                    f"survival:aft: {what} in row {i}: [{lower[i]:g}, {upper[i]:g}]. A known time has two equal "
                    "positive bounds; an upper bound of inf means later than the lower one, a lower bound of 0 "
                    "earlier than the upper one."
                )

    def gradient_of(
        self, ctx: Context, key: int, margin: np.ndarray, info: MetaInfo, g: np.ndarray, h: np.ndarray
    ) -> None:
        args = (margin.reshape(-1), *bounds_of(info, self.name), *self.noise(), g[0], h[0])
        ctx.run_ranges(info.n_rows, GRAIN, survival.aft_gradient, *args)
        weigh(ctx, info.row_weight(), g[0], h[0])

    def base_score_of(self, ctx: Context, info: MetaInfo) -> np.ndarray:
        """XGBoost estimates none."""
        return self.blank_base_score(1)

    def blank_base_score(self, n_targets: int) -> np.ndarray:
        return np.full(n_targets, DEFAULT_BASE_SCORE, np.float32)

    def eval_transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        """Metrics are given the margins, as in XGBoost."""
        return margin

    def noise(self) -> tuple[int, float]:
        """What kernels are told of it: the distribution and its scale."""
        return survival.DISTRIBUTIONS[self.aft_loss_distribution], self.aft_loss_distribution_scale


def check_distribution(distribution: Any, scale: float) -> None:
    """Raise XGBoostError unless this is noise that AFT knows."""
    if not isinstance(distribution, str) or distribution not in survival.DISTRIBUTIONS:
        raise XGBoostError(
            f"aft_loss_distribution is one of {', '.join(survival.DISTRIBUTIONS)}, found {distribution!r}."
        )
    if not 0.0 < scale < np.inf:
        raise XGBoostError(f"aft_loss_distribution_scale must be positive and finite, found {scale:g}.")


def bounds_of(info: MetaInfo, name: str) -> tuple[np.ndarray, np.ndarray]:
    """label_lower_bound and label_upper_bound of a matrix; raises XGBoostError if it has none."""
    lower, upper = info.label_lower_bound, info.label_upper_bound
    if lower is None or upper is None:
        absent = "label_lower_bound" if lower is None else "label_upper_bound"
        raise XGBoostError(
            f"{name} needs label_lower_bound and label_upper_bound for every row; {absent} is not set. Pass both to "
            "DMatrix: equal for a time that is known, inf as upper bound for a censored one."
        )
    return lower, upper


def _one_target(name: str, n_label_columns: int) -> int:
    if n_label_columns > 1:
        raise XGBoostError(f"Multi-target is not supported by {name}: give one label a row.")
    return 1
