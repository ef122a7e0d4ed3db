"""What every metric is: predictions and labels in, one number out, the same for any number of threads and workers.

Predictions are the loss's `eval_transform` of the margins: (n_rows,), (n_rows, 1) or (n_rows, n_outputs) float32.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from arboost.matrix.meta import MetaInfo
from arboost.params.resolve import LearnerParams
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


class RowSum(NamedTuple):
    """A metric as an exact sum over the entries of its predictions, row by row, weighted."""

    values: Any  # what an entry (of a class metric a row) adds: a function of `ops.metric`, which says it by its name
    label: np.ndarray  # (m,) float32: each is that of so many entries, which lie side by side
    weight: np.ndarray | None  # (n_rows,) float32, or None for 1; the same
    arguments: tuple[float, ...]  # of `values`; several: one for each column of the predictions
    finish: Callable[[float], float]  # the metric from the sum


class CurveSum(NamedTuple):
    """A metric as an exact sum over the steps of a curve, which takes the rows by falling prediction."""

    steps: Any  # what adds them up: a kernel of `ops.metric`, which says it by its name
    positive: np.ndarray  # (n_rows,) int64 weights
    negative: np.ndarray
    scale: float  # of the steps
    largest: float  # no step adds more
    finish: Callable[[float], float]


@dataclass(frozen=True)
class Metric:
    """One evaluation metric with its parameters.

    Attributes
    ----------
    name
        As XGBoost prints it, parameter included: "error@0.7".
    maximize
        Whether larger is better.
    """

    base_name: ClassVar[str]
    maximize: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.base_name

    @property
    def blank_value(self) -> float:
        """The value where there are no rows at all."""
        return 0.0

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> "Metric":
        """The metric from what follows "@" in its name (None if there is no "@") and the user's parameters."""
        if argument is not None:
            raise XGBoostError(f"Metric {cls.base_name} takes no parameter, found `{cls.base_name}@{argument}`.")
        return cls()

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        """The metric's value.

        Parameters
        ----------
        ctx
            Context: threads and communicator.
        pred
            (n_rows,) or (n_rows, n_outputs) predictions on the output scale.
        label
            (n_rows,) or (n_rows, n_targets).
        weight
            (n_rows,), or None for 1.
        """
        raise NotImplementedError

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        """The same for a matrix: for metrics that need its groups or bounds."""
        if info.label is None:
            raise XGBoostError("Evaluation needs labels: pass label= to the DMatrix that is evaluated.")
        return self.evaluate(ctx, pred, info.label, info.row_weight())

    def as_sum(self, ctx: Context, info: MetaInfo, n_outputs: int) -> RowSum | CurveSum | None:
        """The metric of a matrix as one exact sum, for who has its predictions elsewhere and adds it up there.

        None: it is no such sum, or not of this matrix; then `evaluate_info` gives it, or says what is wrong.
        """
        return None


MetricClass = TypeVar("MetricClass", bound=type[Metric])
METRICS: dict[str, type[Metric]] = {}
"""Every metric by XGBoost's name without its parameter."""


def register(cls: MetricClass) -> MetricClass:
    """Class decorator: make the metric known by its name."""
    METRICS[cls.base_name] = cls
    return cls


def make_metric(name: str, params: LearnerParams) -> Metric:
    """The metric of this name, such as "rmse" or "error@0.7".

    Raises
    ------
    XGBoostError
        The name is unknown (the message suggests a near one) or its parameter is bad.
    """
    base_name, at, argument = name.partition("@")
    if base_name not in METRICS:
        close = difflib.get_close_matches(base_name, METRICS, n=1)
        hint = f" Did you mean `{close[0]}`?" if close else ""
        raise XGBoostError(f"Unknown metric function {name}.{hint} Known metrics: {', '.join(sorted(METRICS))}.")
    return METRICS[base_name].parse(argument if at else None, params)


def as_float32(values: np.ndarray) -> np.ndarray:
    """A C-contiguous float32 array; no copy if it is one."""
    return np.ascontiguousarray(values, np.float32)


def require_label(label: np.ndarray | None, name: str) -> np.ndarray:
    """The labels as float32; raises XGBoostError if there are none."""
    if label is None:
        raise XGBoostError(f"label set cannot be empty: {name} needs labels.")
    return as_float32(label)


def plain_label(info: MetaInfo, n_entries: int) -> np.ndarray | None:
    """The labels in one row, where there are so many and none is missing."""
    label = info.label
    if label is None or label.size != n_entries or info.n_rows == 0 or (label.ndim == 2 and np.isnan(label).any()):
        return None
    return as_float32(label).reshape(-1)


def flatten_targets(
    pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Predictions, labels and weights of all rows and targets in one row; those without a label (NaN) are left out."""
    may_lack = label.ndim == 2 and label.shape[1] > 1
    pred, label = pred.reshape(-1), label.reshape(-1)
    if weight is not None and weight.size != label.size:
        weight = np.repeat(weight, label.size // max(weight.size, 1))
    if may_lack and np.isnan(label.sum(dtype=np.float64)):
        is_kept = ~np.isnan(label)
        pred, label, weight = pred[is_kept], label[is_kept], None if weight is None else weight[is_kept]
    return pred, label, weight
