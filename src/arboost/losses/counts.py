"""Losses with a log link, for counts, durations and amounts: the prediction is e**margin, so never negative."""

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import gradient
from arboost.losses.base import ElementwiseLoss, Loss, check_base_score, mean_base_score, register
from arboost.losses.regression import WeightedPositives
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


class _LogLink:
    """Output scale e**margin. A mean of 0 is legal and has the margin -inf."""

    link = staticmethod(gradient.transform_exp)

    def to_margin(self, base_score: np.ndarray) -> np.ndarray:
        base_score = check_base_score(base_score)
        if (base_score < 0.0).any():
            raise XGBoostError(f"base_score must not be negative for a log link, found {base_score.min():g}.")
        # rounded to float32, libm's last bit is gone
        return np.array([math.log(b) if b > 0.0 else -math.inf for b in base_score.tolist()], np.float32)


@dataclass(frozen=True)
class _NonNegative(_LogLink, ElementwiseLoss):
    """Poisson and Tweedie: labels from 0, started at the mean label."""

    def _check_range(self, low: float, high: float) -> None:
        if low < 0.0:
            raise XGBoostError(f"label must be non-negative for Poisson/Tweedie regression, found {low:g}.")

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        return mean_base_score(ctx, label, weight)


@register
@dataclass(frozen=True)
class Poisson(_NonNegative):
    """Counts; `max_delta_step` enlarges the hessian by e**max_delta_step."""

    name = "count:poisson"
    default_metric = "poisson-nloglik"
    config_group = "poisson_regression_param"
    kernel: ClassVar[Any] = staticmethod(gradient.poisson)
    max_delta_step: float = float(np.float32(0.7))

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        return (np.float32(self.max_delta_step),)

    def take_over(self, earlier: Loss, given: Container[str]) -> None:
        if isinstance(earlier, Poisson) and "max_delta_step" not in given:  # a model file's
            object.__setattr__(self, "max_delta_step", earlier.max_delta_step)


@register
@dataclass(frozen=True)
class Tweedie(_NonNegative):
    """Amounts that are often 0, with variance mean**tweedie_variance_power."""

    name = "reg:tweedie"
    config_group = "tweedie_regression_param"
    kernel: ClassVar[Any] = staticmethod(gradient.tweedie)
    tweedie_variance_power: float = 1.5

    def __post_init__(self) -> None:
        if not 1.0 <= self.tweedie_variance_power < 2.0:
            raise XGBoostError(
                f"tweedie variance power must be in interval [1, 2), found {self.tweedie_variance_power:g}."
            )

    @property
    def default_metric(self) -> str:
        return f"tweedie-nloglik@{self.tweedie_variance_power:g}"

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        return (np.float32(self.tweedie_variance_power),)


@register
@dataclass(frozen=True)
class Gamma(_LogLink, WeightedPositives):
    """Positive amounts with a constant relative spread."""

    name = "reg:gamma"
    default_metric = "gamma-deviance"
    kernel = staticmethod(gradient.gamma)

    def _check_range(self, low: float, high: float) -> None:
        if low <= 0.0:
            raise XGBoostError(f"label must be positive for gamma regression, found {low:g}.")

    def to_margin(self, base_score: np.ndarray) -> np.ndarray:
        if (check_base_score(base_score) <= 0.0).any():
            raise XGBoostError("`base_score` must be greater than 0 for gamma regression.")
        return super().to_margin(base_score)
