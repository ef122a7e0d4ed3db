"""What one row adds to a metric, and the areas under curves.

Row functions write values[0 : stop - start] (OUT, float64) for rows start..stop; `sums.sum_rows` adds them exactly.
Predictions and labels are float32 and computed with in float64. Those that need only + - * / and sqrt, which NumPy
rounds as every machine does, are NumPy functions and cost no compilation; the others are kernels.
"""

import numpy as np
from numba import float64, uint64

from arboost.kernels.elementary import exp, log, log1p, log_gamma
from arboost.kernels.jit import kernel

_LOG_FLOOR = 1e-16  # probabilities and means below this count as this
_RATIO_FLOOR = 1e-6  # XGBoost's kRtEps
_ROW_MASK = 0xFFFFFFFF


def _difference(pred: np.ndarray, label: np.ndarray, values: np.ndarray, start: int, stop: int) -> np.ndarray:
    out = values[: stop - start]
    return np.subtract(label[start:stop], pred[start:stop], out=out, dtype=np.float64)


def squared_error(pred: np.ndarray, label: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    d = _difference(pred, label, values, start, stop)
    np.multiply(d, d, out=d)


def absolute_error(pred: np.ndarray, label: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    d = _difference(pred, label, values, start, stop)
    np.abs(d, out=d)


def relative_error(pred: np.ndarray, label: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    """|label - pred| / |label|: inf where the label is 0."""
    d = _difference(pred, label, values, start, stop)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(d, label[start:stop], out=d)
    np.abs(d, out=d)


def pseudo_huber(pred: np.ndarray, label: np.ndarray, slope: float, values: np.ndarray, start: int, stop: int) -> None:
    """slope**2 (sqrt(1 + (z / slope)**2) - 1)."""
    d = _difference(pred, label, values, start, stop)
    np.divide(d, slope, out=d)
    np.multiply(d, d, out=d)
    np.add(d, 1.0, out=d)
    np.sqrt(d, out=d)
    np.subtract(d, 1.0, out=d)
    np.multiply(d, slope * slope, out=d)


def pinball(pred: np.ndarray, label: np.ndarray, alpha: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    """alpha d for d = label - pred >= 0, (alpha - 1) d below: alpha holds one value per row."""
    d = _difference(pred, label, values, start, stop)
    a = alpha[start:stop]
    np.multiply(d, np.where(d >= 0.0, a, a - 1.0), out=d)


def wrong_side(
    pred: np.ndarray, label: np.ndarray, threshold: np.float32, values: np.ndarray, start: int, stop: int
) -> None:
    """1 - label where pred > threshold, else label: the error of a 0/1 decision."""
    y = label[start:stop].astype(np.float64)
    values[: stop - start] = np.where(pred[start:stop] > threshold, 1.0 - y, y)


def wrong_class(pred: np.ndarray, label: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    """1 where the most probable class, the lowest of equals, is not the label."""
    values[: stop - start] = pred[start:stop].argmax(axis=1) != label[start:stop]


@kernel
def squared_log_error(pred, label, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        d = log1p(float64(label[i])) - log1p(float64(pred[i]))
        values[i - uint64(start)] = d * d


@kernel
def log_loss(pred, label, values, start, stop):
    """Cross entropy of a probability; a term with no share of the label is absent, even if it were inf."""
    for i in range(uint64(start), uint64(stop)):
        p = float64(pred[i])
        y = float64(label[i])
        q = 1.0 - p
        first = y * log(p if p > _LOG_FLOOR else _LOG_FLOOR) if y != 0.0 else 0.0
        second = (1.0 - y) * log(q if q > _LOG_FLOOR else _LOG_FLOOR) if y != 1.0 else 0.0
        values[i - uint64(start)] = -first - second


@kernel
def class_log_loss(pred, label, values, start, stop):
    """-ln of the label's probability; labels are valid columns of pred."""
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = float64(pred[i, uint64(label[i])])
    for j in range(uint64(stop - start)):
        p = values[j]
        values[j] = -log(p if p > _LOG_FLOOR else _LOG_FLOOR)


@kernel
def poisson_log_loss(pred, label, values, start, stop):
    """-ln of the Poisson probability of the label."""
    for i in range(uint64(start), uint64(stop)):
        mean = float64(pred[i])
        mean = mean if mean > _LOG_FLOOR else _LOG_FLOOR
        y = float64(label[i])
        values[i - uint64(start)] = log_gamma(y + 1.0) + mean - log(mean) * y


@kernel
def gamma_log_loss(pred, label, values, start, stop):
    """-ln of the gamma density with shape 1, up to a constant."""
    for i in range(uint64(start), uint64(stop)):
        mean = float64(pred[i])
        mean = mean if mean > _RATIO_FLOOR else _RATIO_FLOOR
        values[i - uint64(start)] = float64(label[i]) / mean + log(mean)


@kernel
def gamma_deviance(pred, label, values, start, stop):
    """Half the unit deviance of the gamma distribution."""
    for i in range(uint64(start), uint64(stop)):
        mean = float64(pred[i]) + _RATIO_FLOOR
        y = float64(label[i]) + _RATIO_FLOOR
        values[i - uint64(start)] = log(mean / y) + y / mean - 1.0


@kernel
def tweedie_log_loss(pred, label, power, values, start, stop):
    """-ln of the Tweedie likelihood, up to terms of the label only."""
    for i in range(uint64(start), uint64(stop)):
        log_mean = log(float64(pred[i]))
        a = float64(label[i]) * exp((1.0 - power) * log_mean) / (1.0 - power)
        b = exp((2.0 - power) * log_mean) / (2.0 - power)
        values[i - uint64(start)] = b - a


# Curves take the rows by falling prediction. `ranked` holds one uint64 a row, sorted:
#     | key, smaller for a larger prediction : 32 | row : 32 |
# Rows with equal keys form one step of the curve. positive and negative are int64 weights, so that the rows of a
# step may come in any order.


def rank_rows(pred: np.ndarray) -> np.ndarray:
    """Rows by falling prediction, as the curves take them."""
    bits = (pred + np.float32(0.0)).view(np.uint32)  # -0 becomes 0
    keys = np.where(bits >> np.uint32(31), bits, bits ^ np.uint32(0x7FFFFFFF))
    ranked = keys.astype(np.uint64) << np.uint64(32)
    ranked |= np.arange(len(pred), dtype=np.uint64)
    ranked.sort()
    return ranked


@kernel
def roc_area(ranked, positive, negative, area, start, stop):
    """area[0] (OUT) = area under positive over negative weight."""
    total = 0.0
    tp_before = 0
    tp = 0
    fp_step = 0
    for j in range(uint64(start), uint64(stop)):
        i = ranked[j] & uint64(_ROW_MASK)
        tp += positive[i]
        fp_step += negative[i]
        if j + uint64(1) == uint64(stop) or (ranked[j] ^ ranked[j + uint64(1)]) > uint64(_ROW_MASK):
            total += float64(fp_step) * (0.5 * (float64(tp_before) + float64(tp)))
            tp_before = tp
            fp_step = 0
    area[0] = total


@kernel
def precision_recall_area(ranked, positive, negative, total_positive, area, start, stop):
    """area[0] (OUT) = area under precision over recall; Davis & Goadrich (2006), Keilwagen et al. (2014).

    Within a step false positives grow linearly with true positives, so that with recall r the precision is
    r / (a r + b); a r + b is the share of rows taken so far, over that of the positives.
    """
    total = 0.0
    scale = float64(total_positive)
    tp = 0
    fp = 0
    tp_before = 0
    fp_before = 0
    for j in range(uint64(start), uint64(stop)):
        i = ranked[j] & uint64(_ROW_MASK)
        tp += positive[i]
        fp += negative[i]
        if j + uint64(1) == uint64(stop) or (ranked[j] ^ ranked[j + uint64(1)]) > uint64(_ROW_MASK):
            if tp != tp_before:
                slope = float64(fp - fp_before) / float64(tp - tp_before)
                a = 1.0 + slope
                b = (float64(fp_before) - slope * float64(tp_before)) / scale
                recall = float64(tp - tp_before) / scale
                if b != 0.0:
                    recall -= b / a * log(float64(tp + fp) / float64(tp_before + fp_before))
                total += recall / a
            tp_before = tp
            fp_before = fp
    area[0] = total
