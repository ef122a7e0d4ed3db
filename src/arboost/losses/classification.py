"""Losses of classes: logistic (probability, raw or as regression on [0, 1]), hinge, softmax."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.kernels.loss_formulas import MIN_HESSIAN
from arboost.kernels.ops import gradient
from arboost.losses.base import (
    GRAIN,
    SERIAL,
    ElementwiseLoss,
    Loss,
    check_base_score,
    check_finite,
    register,
    weigh_range,
)
from arboost.losses.regression import WeightedPositives
from arboost.runtime import sums
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_EPSILON = np.float32(1e-6)  # XGBoost's kRtEps: how far a base score is kept from 0 and 1


@dataclass(frozen=True)
class _LabelInUnitInterval(WeightedPositives):
    kernel = staticmethod(gradient.logistic)

    def _check_range(self, low: float, high: float) -> None:
        if low < 0.0 or high > 1.0:
            raise XGBoostError(
                f"label must be in [0,1] for logistic regression, found labels from {low:g} to {high:g}."
            )


@register
@dataclass(frozen=True)
class LogisticRegression(_LabelInUnitInterval):
    """Cross entropy of sigmoid(margin), for labels that are probabilities."""

    name = "reg:logistic"
    default_metric = "rmse"
    link = staticmethod(gradient.transform_sigmoid)

    def to_margin(self, base_score: np.ndarray) -> np.ndarray:
        p = check_base_score(base_score)
        if (p < 0.0).any() or (p > 1.0).any():
            raise XGBoostError(f"base_score must be in (0,1) for the logistic loss, found {p.tolist()}.")
        p = np.clip(p, _EPSILON, np.float32(1.0) - _EPSILON)
        odds_against = np.float32(1.0) / p - np.float32(1.0)
        # rounded to float32, libm's last bit is gone
        return np.array([-math.log(odds) for odds in odds_against.tolist()], np.float32)


@register
@dataclass(frozen=True)
class BinaryLogistic(LogisticRegression):
    """Cross entropy of sigmoid(margin), for labels 0 and 1; predicts the probability of 1."""

    name = "binary:logistic"
    default_metric = "logloss"


@register
@dataclass(frozen=True)
class BinaryLogitRaw(_LabelInUnitInterval):
    """The logistic loss that predicts margins; as in XGBoost its base_score is a margin too."""

    name = "binary:logitraw"
    default_metric = "logloss"


@register
@dataclass(frozen=True)
class BinaryHinge(ElementwiseLoss):
    """The support vector machine's loss; predicts 0 or 1."""

    name = "binary:hinge"
    default_metric = "error"
    kernel = staticmethod(gradient.hinge)
    link = staticmethod(gradient.transform_step)


@dataclass(frozen=True)
class _Softmax(Loss):
    """Cross entropy of softmax(margin): one target per class."""

    config_group = "softmax_multiclass_param"
    num_class: int = 0

    default_metric = "mlogloss"

    def __post_init__(self) -> None:
        if self.num_class < 1:
            raise XGBoostError(
                f"value {self.num_class} for Parameter num_class should be greater equal to 1: "
                f"{self.name} needs the number of classes."
            )

    def n_targets(self, n_label_columns: int = 1) -> int:
        if n_label_columns > 1:
            raise XGBoostError(f"{self.name} takes one label a row: multi-target-multi-class is not supported.")
        return self.num_class

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        super().check_label(label, weight)
        if not np.array_equal(label, np.floor(label)):
            self._refuse("a label is not a whole number")

    def _check_range(self, low: float, high: float) -> None:
        if low < 0.0 or high >= self.num_class:
            self._refuse(f"found labels from {low:g} to {high:g}, num_class is {self.num_class}")

    def _refuse(self, found: str) -> None:
        raise XGBoostError(f"label must be discrete values in the range of [0, num_class) for {self.name}: {found}.")

    def gradient(
        self,
        ctx: Context,
        margin: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray | None,
        g: np.ndarray,
        h: np.ndarray,
    ) -> None:
        n_rows = len(margin)
        grain = max(GRAIN // self.num_class, 1)
        ctx.run_ranges(n_rows, grain, gradient.softmax, margin, label.reshape(-1), g, h)
        if weight is not None:
            ctx.run_ranges(n_rows, grain, _weigh_classes, weight, g, h)

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Centred logarithms of the class frequencies."""
        check_finite(label)
        classes = label.reshape(-1).astype(np.int64)
        totals = np.zeros(self.num_class, np.int64)
        parts: Any = 1
        if weight is not None:
            parts, _ = sums.fixed_point_weights(ctx, len(classes), weight)
        np.add.at(totals, classes, parts)  # integers: free of order
        frequencies = ctx.comm.allreduce_sum(totals).tolist()
        total = sum(frequencies)
        if not total:
            raise XGBoostError("base_score cannot be estimated: there are no rows, or their weights sum to zero.")
        logs = [math.log(f / total + float(_EPSILON)) for f in frequencies]
        centre = math.fsum(logs) / len(logs)
        return np.array([value - centre for value in logs], np.float32)

    def blank_base_score(self, n_targets: int) -> np.ndarray:
        """All classes alike; like the estimate, on the scale of margins."""
        return np.zeros(n_targets, np.float32)

    def _probabilities(self, margin: np.ndarray, ctx: Context) -> np.ndarray:
        margin = np.ascontiguousarray(margin, np.float32)
        out = np.empty_like(margin)
        ctx.run_ranges(len(margin), max(GRAIN // self.num_class, 1), gradient.transform_softmax, margin, out)
        return out

    def eval_transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        return self._probabilities(margin, ctx)


def _weigh_classes(weight: np.ndarray, g: np.ndarray, h: np.ndarray, start: int, stop: int) -> None:
    """Every class's g and h times the weight; XGBoost keeps the product h above its minimum."""
    for k in range(len(g)):
        weigh_range(weight, g[k], h[k], start, stop)
        np.maximum(h[k, start:stop], np.float32(MIN_HESSIAN), out=h[k, start:stop])


@register
@dataclass(frozen=True)
class Softmax(_Softmax):
    """Predicts the most probable class, the lowest of equals."""

    name = "multi:softmax"

    def transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        return margin.argmax(axis=1).astype(np.float32).reshape(-1, 1)


@register
@dataclass(frozen=True)
class Softprob(_Softmax):
    """Predicts the probability of every class."""

    name = "multi:softprob"

    def transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        return self._probabilities(margin, ctx)
