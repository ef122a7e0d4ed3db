"""Metrics of times until an event: likelihoods of Cox and AFT models, and how often an interval is hit."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.kernels.ops import survival
from arboost.matrix.meta import MetaInfo
from arboost.metrics.base import Metric, as_float32, register, require_label
from arboost.metrics.elementwise import mean_over_rows
from arboost.params.resolve import LearnerParams
from arboost.runtime import sums
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@register
@dataclass(frozen=True)
class CoxLogLoss(Metric):
    """Mean over the events of -ln(partial likelihood); predictions are hazard ratios, weights are not read."""

    base_name = "cox-nloglik"

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        ctx.refuse_workers(self.name, "a row's risk set is among all rows. Evaluate it on one machine.")
        label = require_label(label, self.name)
        pred = as_float32(pred).reshape(-1)
        if label.ndim != 1 or len(pred) != len(label):
            raise XGBoostError(f"label and prediction size not match for {self.name}: {label.shape} and {pred.shape}.")
        rows, by_time, first = survival.time_order(label)
        hazard = pred[rows].astype(np.float64)
        at_risk = survival.sums_at_risk(first, hazard)
        total = sums.sum_rows(ctx, len(label), None, survival.cox_log_loss, by_time, hazard, at_risk)
        n_events = int(np.count_nonzero(label > 0))
        return total / n_events if n_events else math.nan


@dataclass(frozen=True)
class _IntervalMetric(Metric):
    """The weighted mean of a number per row that follows from its margin and its bounds."""

    def row_values(self) -> tuple[Any, tuple[Any, ...]]:
        """The kernel, and its arguments after the bounds."""
        raise NotImplementedError

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        lower, upper = info.label_lower_bound, info.label_upper_bound
        if lower is None or upper is None:
            raise XGBoostError(
                f"{self.name} needs label_lower_bound and label_upper_bound: pass both to the evaluated DMatrix."
            )
        pred = as_float32(pred).reshape(-1)
        if len(pred) != info.n_rows:
            raise XGBoostError(f"{self.name} needs one prediction a row: {len(pred)} for {info.n_rows} rows.")
        kernel, args = self.row_values()
        return mean_over_rows(ctx, info.n_rows, info.row_weight(), kernel, pred, lower, upper, *args)


@register
@dataclass(frozen=True)
class AftLogLoss(_IntervalMetric):
    """-ln(likelihood) of the bounds under an AFT model; predictions are margins."""

    base_name = "aft-nloglik"
    aft_loss_distribution: str = "normal"
    aft_loss_distribution_scale: float = 1.0

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        super().parse(argument, params)
        if not 0.0 < params.aft_loss_distribution_scale < math.inf:
            raise XGBoostError(
                f"aft_loss_distribution_scale must be positive, found {params.aft_loss_distribution_scale:g}."
            )
        return cls(params.aft_loss_distribution, params.aft_loss_distribution_scale)

    def row_values(self) -> tuple[Any, tuple[Any, ...]]:
        return survival.aft_log_loss, (
            survival.DISTRIBUTIONS[self.aft_loss_distribution],
            self.aft_loss_distribution_scale,
        )


@register
@dataclass(frozen=True)
class IntervalAccuracy(_IntervalMetric):
    """Share of the rows whose predicted time e**margin lies within its bounds."""

    base_name = "interval-regression-accuracy"
    maximize = True

    def row_values(self) -> tuple[Any, tuple[Any, ...]]:
        return survival.inside_bounds, ()
