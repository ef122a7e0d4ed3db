"""Losses of a real-valued label: squared, squared log and pseudo-Huber error."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import gradient
from arboost.losses.base import ElementwiseLoss, mean_base_score, newton_base_score, register
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@dataclass(frozen=True)
class WeightedPositives(ElementwiseLoss):
    """The losses for which rows with a label of exactly 1 weigh `scale_pos_weight` times more.

    XGBoost starts them at the mean label, and at one Newton step where positives are re-weighted.
    """

    config_group = "reg_loss_param"
    scale_pos_weight: float = 1.0

    def row_weight(self, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if self.scale_pos_weight == 1.0:
            return weight
        scale = np.where(label == 1.0, np.float32(self.scale_pos_weight), np.float32(1.0))
        return scale if weight is None else scale * weight

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        if self.scale_pos_weight == 1.0:
            return mean_base_score(ctx, label, weight)
        return newton_base_score(self, ctx, label, weight)


@register
@dataclass(frozen=True)
class SquaredError(WeightedPositives):
    """Half the squared difference."""

    name = "reg:squarederror"
    default_metric = "rmse"
    kernel = staticmethod(gradient.squared_error)


@register
@dataclass(frozen=True)
class SquaredLogError(ElementwiseLoss):
    """Half the squared difference of ln(1 + x)."""

    name = "reg:squaredlogerror"
    default_metric = "rmsle"
    kernel = staticmethod(gradient.squared_log_error)

    def _check_range(self, low: float, high: float) -> None:
        if low <= -1.0:
            raise XGBoostError(
                f"label must be greater than -1 for rmsle so that log(label + 1) can be valid, found {low:g}."
            )


@register
@dataclass(frozen=True)
class PseudoHuberError(ElementwiseLoss):
    """Squared near zero, absolute beyond `huber_slope`, smooth between."""

    name = "reg:pseudohubererror"
    default_metric = "mphe"
    config_group = "pseudo_huber_param"
    kernel: ClassVar[Any] = staticmethod(gradient.pseudo_huber)
    huber_slope: float = 1.0

    def __post_init__(self) -> None:
        if self.huber_slope == 0.0:
            raise XGBoostError("slope for pseudo huber cannot be 0: set huber_slope to another number.")

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        return (np.float32(self.huber_slope),)
