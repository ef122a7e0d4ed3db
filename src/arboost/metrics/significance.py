"""`ams@ratio`: the approximate median significance of the Higgs boson challenge (Cowan et al., 2011)."""

from dataclasses import dataclass

import numpy as np

from arboost.matrix.meta import MetaInfo
from arboost.metrics.base import Metric, as_float32, register, require_label
from arboost.params.resolve import LearnerParams
from arboost.runtime.comm import gather_rows
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_BACKGROUND = 10.0  # added to the background, so that few selected rows are not significant by chance


@register
@dataclass(frozen=True)
class MedianSignificance(Metric):
    """Significance of a signal (label 1) among the rows predicted highest.

    With a ratio, of that share of the rows; with ratio 0, of the best number of rows, among those that end where the
    prediction changes.
    """

    base_name = "ams"
    maximize = True
    ratio: float = 0.0

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> Metric:
        try:
            ratio = float(argument or "")
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise XGBoostError("AMS metric needs a ratio between 0 and 1 in its name, such as ams@0.15 or ams@0.")
        return cls(ratio)

    @property
    def name(self) -> str:
        return f"ams@{self.ratio:g}"

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        info = MetaInfo(len(label), 0)
        info.label, info.weight = label, weight
        return self.evaluate_info(ctx, pred, info)

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        label, pred = require_label(info.label, self.name).reshape(-1), as_float32(pred).reshape(-1)
        weight = info.row_weight()
        # one order of all workers' rows: of equal predictions the first rows are taken
        label, pred = (gather_rows(ctx.comm, rows, info.runs) for rows in (label, pred))
        weight = None if weight is None else gather_rows(ctx.comm, weight, info.runs)
        if pred.size != label.size:
            raise XGBoostError(f"{self.name} needs one prediction a row: {pred.size} predictions, {label.size} labels.")
        n_top = int(np.float32(self.ratio) * np.float32(pred.size)) or pred.size
        n = min(n_top, pred.size - 1)
        if n < 1:
            return 0.0
        order = np.argsort(-pred, kind="stable")
        top = order[:n]
        mass = np.ones(n) if weight is None else weight[top].astype(np.float64)
        is_signal = label[top] > 0.5
        significance = _significance(np.cumsum(mass * is_signal), np.cumsum(mass * ~is_signal))
        if n_top < pred.size:
            return float(significance[-1])
        ends = pred[top] != pred[order[1 : n + 1]]
        return float(significance[ends].max(initial=0.0))


def _significance(signal: np.ndarray, background: np.ndarray) -> np.ndarray:
    """sqrt(2 ((s + b) log(1 + s / b) - s)) with the background's constant in b."""
    background = background + _BACKGROUND
    return np.sqrt(2 * ((signal + background) * np.log1p(signal / background) - signal))
