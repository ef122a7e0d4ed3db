"""What one row adds to a metric, and the areas under curves, by the formulas of `kernels/metric_formulas.py`.

Row functions write values[0 : stop - start] (OUT, float64) for rows start..stop; `sums.sum_rows` adds them exactly.
Predictions and labels are float32 and computed with in float64. Those that need only + - * / and sqrt, which NumPy
rounds as every machine does, are NumPy functions of the same operations, which cost no compilation.
"""

import numpy as np
from numba import float64, uint64

from arboost.kernels import metric_formulas as formula
from arboost.kernels.cpu.round.sums import add_carried, add_exact
from arboost.kernels.jit import kernel

_ROW_MASK = 0xFFFFFFFF
_EXACT_BELOW = 2.0**52


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
        values[i - uint64(start)] = formula.squared_log_error(float64(pred[i]), float64(label[i]))


@kernel
def log_loss(pred, label, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = formula.log_loss(float64(pred[i]), float64(label[i]))


@kernel
def class_log_loss(pred, label, values, start, stop):
    """-ln of the label's probability; labels are valid columns of pred."""
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = float64(pred[i, uint64(label[i])])
    for j in range(uint64(stop - start)):
        values[j] = formula.class_log_loss(values[j])


@kernel
def poisson_log_loss(pred, label, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = formula.poisson_log_loss(float64(pred[i]), float64(label[i]))


@kernel
def gamma_log_loss(pred, label, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = formula.gamma_log_loss(float64(pred[i]), float64(label[i]))


@kernel
def gamma_deviance(pred, label, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = formula.gamma_deviance(float64(pred[i]), float64(label[i]))


@kernel
def tweedie_log_loss(pred, label, power, values, start, stop):
    for i in range(uint64(start), uint64(stop)):
        values[i - uint64(start)] = formula.tweedie_log_loss(float64(pred[i]), float64(label[i]), power)


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
def roc_area(ranked, positive, negative, scale, acc, start, stop):
    """Add to an accumulator (OUT) what the steps add to the area under positive over negative weight.

    scale is the product of both sides' weights: below 2**52 all sums are exact in float64.
    """
    tp, fp, tp_before, fp_before, high, low = 0, 0, 0, 0, 0.0, 0.0
    is_small = scale < _EXACT_BELOW
    for j in range(uint64(start), uint64(stop)):
        i = ranked[j] & uint64(_ROW_MASK)
        tp += positive[i]
        fp += negative[i]
        if j + uint64(1) == uint64(stop) or (ranked[j] ^ ranked[j + uint64(1)]) > uint64(_ROW_MASK):
            value = formula.roc_area(tp_before, fp_before, tp, fp, scale)
            if is_small:
                high += value
            else:
                high, low = add_carried(acc, high, low, value)
            tp_before, fp_before = tp, fp
    add_exact(acc, high)
    add_exact(acc, low)


@kernel
def precision_recall_area(ranked, positive, negative, scale, acc, start, stop):
    """Add to an accumulator (OUT) what the steps add to the area under precision over recall; scale is n_positive."""
    tp, fp, tp_before, fp_before, high, low = 0, 0, 0, 0, 0.0, 0.0
    for j in range(uint64(start), uint64(stop)):
        i = ranked[j] & uint64(_ROW_MASK)
        tp += positive[i]
        fp += negative[i]
        if j + uint64(1) == uint64(stop) or (ranked[j] ^ ranked[j + uint64(1)]) > uint64(_ROW_MASK):
            if tp != tp_before:
                value = formula.precision_recall_area(tp_before, fp_before, tp, fp, scale)
                high, low = add_carried(acc, high, low, value)
            tp_before, fp_before = tp, fp
    add_exact(acc, high)
    add_exact(acc, low)
