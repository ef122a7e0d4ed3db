"""Metrics that are weighted means over rows (and targets): squared, absolute and log errors, likelihoods."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import expectile
from arboost.kernels.ops import metric as rows
from arboost.matrix.meta import MetaInfo
from arboost.metrics.base import Metric, RowSum, as_float32, flatten_targets, plain_label, register, require_label
from arboost.params.resolve import LearnerParams
from arboost.runtime import sums
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@dataclass(frozen=True)
class MeanMetric(Metric):
    """The weighted mean of one number per row and target."""

    row_values: ClassVar[Any]  # (pred, label, *arguments, values, start, stop)

    def arguments(self) -> tuple[Any, ...]:
        """Parameters of `row_values`."""
        return ()

    def finish(self, mean: float) -> float:
        """The metric from the mean."""
        return mean

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        label = require_label(label, self.name)
        pred = as_float32(pred)
        if pred.size != label.size:
            raise XGBoostError(
                f"label and prediction size not match for {self.name}: {label.size} labels, {pred.size} predictions; "
                "hint: use merror or mlogloss for multi-class classification."
            )
        n_entries, may_lack = label.size, label.ndim > 1
        pred, label, weight = flatten_targets(pred, label, weight)
        if may_lack and sums.count_rows(ctx, n_entries) and not sums.count_rows(ctx, label.size):
            return math.nan  # not one label: nothing is known
        return self.finish(mean_over_rows(ctx, label.size, weight, self.row_values, pred, label, *self.arguments()))

    def as_sum(self, ctx: Context, info: MetaInfo, n_outputs: int) -> RowSum | None:
        label = plain_label(info, info.n_rows * n_outputs)
        if label is None:
            return None
        mean = mean_from_sum(ctx, label.size, _spread(info.row_weight(), label))
        return RowSum(
            self.row_values, label, info.row_weight(), self.arguments(), lambda total: self.finish(mean(total))
        )


def mean_over_rows(ctx: Context, n: int, weight: np.ndarray | None, row_values: Any, *args: Any) -> float:
    """The weighted mean of what `row_values` gives; the sum, as in XGBoost, where the weights sum to 0."""
    return mean_from_sum(ctx, n, weight)(sums.sum_rows(ctx, n, weight, row_values, *args))


def mean_from_sum(ctx: Context, n: int, weight: np.ndarray | None) -> Callable[[float], float]:
    """How the weighted mean follows from a weighted sum."""
    total_weight = sums.sum_weights(ctx, n, weight)
    return lambda total: total / total_weight if total_weight != 0.0 else total


def _spread(weight: np.ndarray | None, label: np.ndarray) -> np.ndarray | None:
    """Row weights repeated for every target."""
    if weight is None or label.size == weight.size:
        return weight
    return np.repeat(weight, label.size // max(weight.size, 1))


@register
@dataclass(frozen=True)
class RootMeanSquaredError(MeanMetric):
    base_name = "rmse"
    row_values = staticmethod(rows.squared_error)

    def finish(self, mean: float) -> float:
        return _root(mean)


@register
@dataclass(frozen=True)
class RootMeanSquaredLogError(MeanMetric):
    base_name = "rmsle"
    row_values = staticmethod(rows.squared_log_error)

    def finish(self, mean: float) -> float:
        return _root(mean)


def _root(mean: float) -> float:
    return math.sqrt(mean) if mean >= 0.0 else math.nan


@register
@dataclass(frozen=True)
class MeanAbsoluteError(MeanMetric):
    base_name = "mae"
    row_values = staticmethod(rows.absolute_error)


@register
@dataclass(frozen=True)
class MeanAbsolutePercentageError(MeanMetric):
    base_name = "mape"
    row_values = staticmethod(rows.relative_error)


@register
@dataclass(frozen=True)
class MeanPseudoHuberError(MeanMetric):
    base_name = "mphe"
    row_values: ClassVar[Any] = staticmethod(rows.pseudo_huber)
    huber_slope: float = 1.0

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        super().parse(argument, params)
        return cls(params.huber_slope)

    def arguments(self) -> tuple[Any, ...]:
        return (self.huber_slope,)


@register
@dataclass(frozen=True)
class LogLoss(MeanMetric):
    base_name = "logloss"
    row_values = staticmethod(rows.log_loss)


@register
@dataclass(frozen=True)
class BinaryError(MeanMetric):
    """Share of rows on the wrong side of a threshold."""

    base_name = "error"
    row_values: ClassVar[Any] = staticmethod(rows.wrong_side)
    threshold: float = 0.5

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        return cls() if argument is None else cls(_number(argument, "the threshold value for the error metric"))

    @property
    def name(self) -> str:
        return "error" if self.threshold == 0.5 else f"error@{self.threshold:g}"

    def arguments(self) -> tuple[Any, ...]:
        return (np.float32(self.threshold),)


@register
@dataclass(frozen=True)
class PoissonLogLoss(MeanMetric):
    base_name = "poisson-nloglik"
    row_values = staticmethod(rows.poisson_log_loss)


@register
@dataclass(frozen=True)
class GammaLogLoss(MeanMetric):
    base_name = "gamma-nloglik"
    row_values = staticmethod(rows.gamma_log_loss)


@register
@dataclass(frozen=True)
class GammaDeviance(MeanMetric):
    base_name = "gamma-deviance"
    row_values = staticmethod(rows.gamma_deviance)

    def finish(self, mean: float) -> float:
        return 2.0 * mean


@register
@dataclass(frozen=True)
class TweedieLogLoss(MeanMetric):
    base_name = "tweedie-nloglik"
    row_values: ClassVar[Any] = staticmethod(rows.tweedie_log_loss)
    power: float = 1.5

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        if argument is None:
            raise XGBoostError(
                "tweedie-nloglik must be in format tweedie-nloglik@rho, for example tweedie-nloglik@1.5."
            )
        power = _number(argument, "the variance power of tweedie-nloglik")
        if not 1.0 <= power < 2.0:
            raise XGBoostError(f"tweedie variance power must be in interval [1, 2), found {argument}.")
        return cls(power)

    @property
    def name(self) -> str:
        return f"tweedie-nloglik@{self.power:g}"

    def arguments(self) -> tuple[Any, ...]:
        return (self.power,)


@dataclass(frozen=True)
class _AlphaMetric(Metric):
    """The weighted mean over rows and alphas, each with its own column of predictions."""

    row_values: ClassVar[Any]  # (pred, label, alpha, values, start, stop)
    alphas: tuple[float, ...] = ()

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        super().parse(argument, params)
        alphas = getattr(params, f"{cls.base_name}_alpha")
        if not alphas:
            raise XGBoostError(f"The {cls.base_name} metric needs the parameter {cls.base_name}_alpha.")
        return cls(tuple(alphas))

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        label, pred, n_alphas = require_label(label, self.name), as_float32(pred), len(self.alphas)
        if pred.size != label.size * n_alphas:
            raise XGBoostError(
                f"The {self.name} metric expects {n_alphas} predictions a label (one for each {self.name}_alpha), "
                f"found {pred.size} predictions and {label.size} labels."
            )
        flat_label = np.repeat(label.reshape(-1), n_alphas)
        alpha = np.tile(np.array(self.alphas, np.float64), label.size)
        args = (pred.reshape(-1), flat_label, alpha)
        return mean_over_rows(ctx, pred.size, _spread(weight, flat_label), self.row_values, *args)

    def as_sum(self, ctx: Context, info: MetaInfo, n_outputs: int) -> RowSum | None:
        label = plain_label(info, info.n_rows)
        if label is None or n_outputs != len(self.alphas):
            return None
        weight = info.row_weight()
        spread = None if weight is None else np.repeat(weight, n_outputs)
        finish = mean_from_sum(ctx, label.size * n_outputs, spread)
        return RowSum(self.row_values, label, weight, self.alphas, finish)


@register
@dataclass(frozen=True)
class QuantileError(_AlphaMetric):
    """Mean pinball loss of the quantiles of `quantile_alpha`."""

    base_name = "quantile"
    row_values = staticmethod(rows.pinball)


@register
@dataclass(frozen=True)
class ExpectileError(_AlphaMetric):
    """Mean asymmetric squared error of the expectiles of `expectile_alpha`."""

    base_name = "expectile"
    row_values = staticmethod(expectile.asymmetric_square)


def _number(text: str, what: str) -> float:
    """A number in a metric's name, as float32 is what XGBoost reads."""
    try:
        return float(np.float32(text))
    except ValueError:
        raise XGBoostError(f"unable to parse {what}: {text!r} is not a number.") from None
