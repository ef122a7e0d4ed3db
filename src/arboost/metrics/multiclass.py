"""Metrics of class probabilities: (n_rows, n_classes) predictions, labels 0 .. n_classes - 1."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import metric as rows
from arboost.matrix.meta import MetaInfo
from arboost.metrics.base import Metric, RowSum, as_float32, plain_label, register, require_label
from arboost.metrics.elementwise import mean_from_sum, mean_over_rows
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@dataclass(frozen=True)
class ClassMetric(Metric):
    """The weighted mean of one number per row, from the row's probabilities and its label."""

    row_values: ClassVar[Any]  # (pred, label, values, start, stop)

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        pred, label = class_arrays(pred, require_label(label, self.name), self.name)
        return mean_over_rows(ctx, len(label), weight, self.row_values, pred, label)

    def as_sum(self, ctx: Context, info: MetaInfo, n_outputs: int) -> RowSum | None:
        label = plain_label(info, info.n_rows)
        if label is None or label.min() < 0 or label.max() >= n_outputs:
            return None
        weight = info.row_weight()
        return RowSum(self.row_values, label, weight, (), mean_from_sum(ctx, len(label), weight))


def class_arrays(pred: np.ndarray, label: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (n_rows, n_classes) and labels (n_rows,), checked."""
    label = label.reshape(-1)
    pred = as_float32(pred).reshape(len(label), -1) if len(label) else np.empty((0, 1), np.float32)
    n_classes = pred.shape[1]
    if len(label) and not (label.min() >= 0 and label.max() < n_classes):
        bad = label[~((label >= 0) & (label < n_classes))][0]
        raise XGBoostError(
            f"{name}: label must be in [0, num_class), num_class={n_classes} but found {bad:g} in label."
        )
    return pred, label


@register
@dataclass(frozen=True)
class MultiClassError(ClassMetric):
    base_name = "merror"
    row_values = staticmethod(rows.wrong_class)


@register
@dataclass(frozen=True)
class MultiClassLogLoss(ClassMetric):
    base_name = "mlogloss"
    row_values = staticmethod(rows.class_log_loss)
