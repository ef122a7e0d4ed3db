"""A linear trend that boosting starts from: trees cannot go on where the training data ends, a line can.

Ridge or logistic regression on the numerical columns (missing ones are the mean), from a bounded number of rows. Sums
are made in a fixed order and not by a library of linear algebra, whose order depends on its threads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.matrix.dmatrix import DMatrix

MAX_ROWS = 20_000
MAX_COLUMNS = 128
_RIDGE = 1e-3  # of a standardised column's squares
_LOGISTIC_RIDGE = 1e-2
_NEWTON_STEPS = 8
_MAX_LOG_ODDS = 6.0  # of a logistic trend: trees must be able to say otherwise


@dataclass(frozen=True)
class Trend:
    """label, or its log odds ~ intercept + sum(slope * (x - mean)) over some columns."""

    columns: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    low: np.ndarray  # values outside of what training had are taken to be at its ends
    high: np.ndarray
    intercept: float
    limit: float  # of the margin's size

    def margin(self, data: DMatrix) -> np.ndarray:
        """(n,) float32, of data in the model's columns."""
        margin = np.empty(data.num_row(), np.float32)
        for first, chunk in data.chunks():
            values = _filled(chunk[:, self.columns].astype(np.float64), self.mean)
            values = np.clip(values, self.low, self.high) - self.mean
            total = np.full(len(values), self.intercept)
            for column, slope in zip(values.T, self.slope, strict=True):
                total += slope * column
            margin[first : first + len(chunk)] = np.clip(total, -self.limit, self.limit)
        return margin

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        arrays = ("columns", "mean", "slope", "low", "high")
        return {name: getattr(self, name).tolist() for name in arrays} | {
            "intercept": self.intercept,
            "limit": self.limit,
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Trend":
        """The way back."""
        mean, slope, low, high = (np.asarray(saved[name], np.float64) for name in ("mean", "slope", "low", "high"))
        return cls(
            np.asarray(saved["columns"], np.int64),
            mean,
            slope,
            low,
            high,
            *map(float, (saved["intercept"], saved["limit"])),
        )


def fit_trend(data: DMatrix, is_logistic: bool = False) -> Trend | None:
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
    solve = _fit_logistic if is_logistic else _fit_linear
    slope, intercept = solve(np.column_stack([values, np.ones(len(values))]), y)
    limit = _MAX_LOG_ODDS if is_logistic else float(np.finfo(np.float32).max)
    return Trend(columns, mean[used], slope / deviation[used], low[used], high[used], intercept, limit)


def _fit_linear(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """(slopes, intercept) of least squares; the last column is 1."""
    step = _newton_step(values, np.ones(len(y)), y, np.zeros(values.shape[1]), _RIDGE)
    return step[:-1], float(step[-1])


def _fit_logistic(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The same for the log odds of a label 0 or 1."""
    weights = np.zeros(values.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(np.einsum("ni,i->n", values, weights), -30.0, 30.0)))
        weights = weights + _newton_step(values, p * (1.0 - p) + 1e-6, y - p, weights, _LOGISTIC_RIDGE)
    return weights[:-1], float(weights[-1])


def _newton_step(values: np.ndarray, h: np.ndarray, g: np.ndarray, at: np.ndarray, ridge: float) -> np.ndarray:
    squares = np.einsum("ni,nj->ij", values * h[:, None], values) / len(values)
    products = np.einsum("ni,n->i", values, g) / len(values)
    penalty = np.full(len(at), ridge)
    penalty[-1] = 0.0  # the intercept is free
    return np.linalg.solve(squares + np.diag(penalty), products - penalty * at)


def _filled(values: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), mean, values)
