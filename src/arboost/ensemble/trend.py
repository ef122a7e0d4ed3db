"""A linear trend that boosting starts from: trees cannot go on where the training data ends, a line can.

Ridge regression of the label on the numerical columns (missing ones are the mean), from a bounded number of rows. Sums
are made in a fixed order and not by a library of linear algebra, whose order depends on its threads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.matrix.dmatrix import DMatrix

MAX_ROWS = 20_000
MAX_COLUMNS = 128
_RIDGE = 1e-3  # of a standardised column's squares


@dataclass(frozen=True)
class Trend:
    """label ~ intercept + sum(slope * (x - mean)) over some columns."""

    columns: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    low: np.ndarray  # values outside of what training had are taken to be at its ends
    high: np.ndarray
    intercept: float

    def margin(self, data: DMatrix) -> np.ndarray:
        """(n,) float32, of data in the model's columns."""
        margin = np.empty(data.num_row(), np.float32)
        for first, chunk in data.chunks():
            values = _filled(chunk[:, self.columns].astype(np.float64), self.mean)
            values = np.clip(values, self.low, self.high) - self.mean
            total = np.full(len(values), self.intercept)
            for column, slope in zip(values.T, self.slope, strict=True):
                total += slope * column
            margin[first : first + len(chunk)] = total
        return margin

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        arrays = ("columns", "mean", "slope", "low", "high")
        return {name: getattr(self, name).tolist() for name in arrays} | {"intercept": self.intercept}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Trend":
        """The way back."""
        mean, slope, low, high = (np.asarray(saved[name], np.float64) for name in ("mean", "slope", "low", "high"))
        return cls(np.asarray(saved["columns"], np.int64), mean, slope, low, high, float(saved["intercept"]))


def fit_trend(data: DMatrix) -> Trend | None:
    """The trend of training data; None where no column is numerical, or they are too many."""
    types = data.feature_types or ["float"] * data.num_col()
    columns = np.array([f for f, kind in enumerate(types) if kind != "c"], np.int64)
    label = data.info.label
    if not 0 < len(columns) <= MAX_COLUMNS or label is None or label.ndim > 1:
        return None
    step = -(-data.num_row() // MAX_ROWS)
    parts = [chunk[(-first) % step :: step][:, columns] for first, chunk in data.chunks()]
    values, y = np.concatenate(parts).astype(np.float64), label[::step].astype(np.float64)
    present = ~np.isnan(values)
    mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    values = _filled(values, mean)
    low, high = values.min(axis=0), values.max(axis=0)
    values -= mean
    deviation = np.sqrt((values**2).mean(axis=0))
    used = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))
    if not used.any():
        return None
    values, columns = values[:, used] / deviation[used], columns[used]
    intercept = float(y.mean())
    squares = np.einsum("ni,nj->ij", values, values) / len(values)
    products = np.einsum("ni,n->i", values, y - intercept) / len(values)
    slope = np.linalg.solve(squares + _RIDGE * np.eye(len(squares)), products) / deviation[used]
    return Trend(columns, mean[used], slope, low[used], high[used], intercept)


def _filled(values: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), mean, values)
