"""Areas under the ROC and the precision-recall curve, binary and one class against the rest.

Weights become integers, so equal predictions may be summed in any order; the steps of the curve are summed exactly. A
set with one class only has no curve: NaN, with a warning, as in XGBoost. Workers give each other all predictions,
labels and weights, 12 bytes a row, and each finds the same area.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import metric as kernels
from arboost.matrix.meta import MetaInfo
from arboost.metrics.base import CurveSum, Metric, as_float32, flatten_targets, plain_label, register, require_label
from arboost.metrics.multiclass import class_arrays
from arboost.runtime import settings, sums
from arboost.runtime.comm import gather_rows
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@dataclass(frozen=True)
class _AreaUnderCurve(Metric):
    maximize = True
    steps: ClassVar[Any]  # (ranked, positive, negative, scale, acc, start, stop): adds up the steps of the curve

    @property
    def blank_value(self) -> float:
        self._warn()
        return math.nan

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        label, pred = (gather_rows(ctx.comm, a) for a in (require_label(label, self.name), as_float32(pred)))
        weight = None if weight is None else gather_rows(ctx.comm, weight)
        ctx = ctx.alone()
        if label.size and pred.size == label.size:
            found = flatten_targets(pred, label, weight)
            value = self._evaluate_binary(ctx, *found) if len(found[0]) else math.nan
        elif label.size and label.size == len(pred):
            value = self._evaluate_classes(ctx, *class_arrays(pred, label, self.name), weight)
        elif label.size:
            raise XGBoostError(f"{self.name}: {pred.size} predictions do not match {label.size} labels.")
        else:
            value = math.nan
        if math.isnan(value):
            self._warn()
        return value

    def _warn(self) -> None:
        settings.warn(f"{self.name}: dataset is empty, or contains only positive or negative samples.")

    def _evaluate_binary(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None) -> float:
        if label.min() < 0.0 or label.max() > 1.0:
            raise XGBoostError(f"{self.name}: label must be in [0, 1] for binary classification.")
        return self._area(pred, *_masses(ctx, label, weight))[0]

    def as_sum(self, ctx: Context, info: MetaInfo, n_outputs: int) -> CurveSum | None:
        label, weight = plain_label(info, info.n_rows), info.row_weight()
        if label is None or n_outputs != 1 or info.group_ptr is not None or label.min() < 0.0 or label.max() > 1.0:
            return None
        positive, negative = _masses(ctx, label, weight)
        n_pos, n_neg = int(positive.sum()), int(negative.sum())
        if n_pos <= 0 or n_neg <= 0:
            return None
        scale, largest = self._scales(n_pos, n_neg)
        return CurveSum(self.steps, positive, negative, scale, largest, lambda total: total / largest)

    def _evaluate_classes(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None) -> float:
        """The mean over classes of each against the rest."""
        mass = np.ones(len(label), np.int64)
        if weight is not None:
            mass, _ = sums.fixed_point_weights(ctx, len(label), weight)
        tasks = [(pred, label, mass, k) for k in range(pred.shape[1])]
        results = ctx.run_tasks(self._class_area, tasks)
        return self._average(np.array([area for area, _ in results]), np.array([mass for _, mass in results]))

    def _average(self, areas: np.ndarray, masses: np.ndarray) -> float:
        """One number from the areas of the classes and their weights."""
        raise NotImplementedError

    def _class_area(self, pred: np.ndarray, label: np.ndarray, mass: np.ndarray, k: int) -> tuple[float, int]:
        is_class = label == k
        return self._area(np.ascontiguousarray(pred[:, k]), np.where(is_class, mass, 0), np.where(is_class, 0, mass))

    def _area(self, pred: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> tuple[float, int]:
        """The normalised area (NaN where one side has no weight) and the positive weight."""
        n_positive, n_negative = int(positive.sum()), int(negative.sum())
        if n_positive <= 0 or n_negative <= 0:
            return math.nan, n_positive
        scale, largest = self._scales(n_positive, n_negative)
        total = sums.sum_of(self.steps, kernels.rank_rows(pred), positive, negative, scale)
        return total / largest, n_positive

    def _scales(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        """What steps are scaled by, and what their sum is divided by, which is more than each adds."""
        raise NotImplementedError


def _masses(ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Integer weights of the rows as positive and as negative ones."""
    if weight is None and bool(((label == 0.0) | (label == 1.0)).all()):
        positive = label.astype(np.int64)
        return positive, 1 - positive
    w = np.ones(len(label), np.float32) if weight is None else weight
    mass, _ = sums.fixed_point_weights(ctx, len(label), w)
    share = np.rint(label.astype(np.float64) * mass).astype(np.int64)
    positive = np.where(label == 1.0, mass, np.minimum(share, mass))
    return positive, mass - positive


@register
@dataclass(frozen=True)
class AreaUnderRoc(_AreaUnderCurve):
    """Probability that a positive row is ranked above a negative one; classes count by their weight."""

    base_name = "auc"
    steps = staticmethod(kernels.roc_area)

    def _scales(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        whole = float(n_positive) * float(n_negative)
        return whole, whole

    def _average(self, areas: np.ndarray, masses: np.ndarray) -> float:
        return float(math.fsum(areas * masses) / math.fsum(masses))


@register
@dataclass(frozen=True)
class AreaUnderPrecisionRecall(_AreaUnderCurve):
    """Precision averaged over recall; classes count equally."""

    base_name = "aucpr"
    steps = staticmethod(kernels.precision_recall_area)

    def _scales(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        return float(n_positive), 1.0

    def _average(self, areas: np.ndarray, masses: np.ndarray) -> float:
        return math.fsum(areas) / len(areas)
