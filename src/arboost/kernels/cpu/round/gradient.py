"""Thin loops that turn margins into gradients, and margins into predictions.

Element-wise losses: margin, label, g (OUT), h (OUT) are float32 vectors over rows, parameters are float32 scalars.
Softmax: margin (n_rows, n_classes), g and h (n_classes, n_rows). All formulas are in `kernels/loss_formulas.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, float64, njit, uint64
from numba.extending import is_jitted

from arboost.kernels import loss_formulas as formula
from arboost.kernels.jit import kernel, part

_BLOCK = 64  # rows whose class probabilities stay in L1
_LEAST_UNSHIFTED = -80.0


@kernel
def squared_error(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.squared_error(margin[i], label[i])


@kernel
def squared_log_error(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.squared_log_error(margin[i], label[i])


@kernel
def logistic(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.logistic(margin[i], label[i])


@kernel
def hinge(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.hinge(margin[i], label[i])


@kernel
def pseudo_huber(margin, label, slope, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.pseudo_huber(margin[i], label[i], slope)


@kernel
def absolute_error(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.absolute_error(margin[i], label[i])


@kernel
def quantile_error(margin, label, alpha, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.quantile_error(margin[i], label[i], alpha)


@kernel
def poisson(margin, label, max_delta_step, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.poisson(margin[i], label[i], max_delta_step)


@kernel
def gamma(margin, label, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.gamma(margin[i], label[i])


@kernel
def tweedie(margin, label, power, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = formula.tweedie(margin[i], label[i], power)


@kernel
def transform_sigmoid(margin, out, start, stop):
    """out = sigmoid(margin), both float32 vectors."""
    for i in range(uint64(start), uint64(stop)):
        out[i] = formula.sigmoid32(margin[i])


@kernel
def transform_exp(margin, out, start, stop):
    """out = e**margin, both float32 vectors."""
    for i in range(uint64(start), uint64(stop)):
        out[i] = formula.exp32(margin[i])


def transform_step(margin: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out = 1 where margin > 0, else 0, both float32 vectors."""
    out[start:stop] = margin[start:stop] > 0.0


@part
def _exp_of_block(margin, first, n, least, e, shift, total):
    """e[k, b] (OUT) = e**(margin[first + b, k] - shift[b]), total[b] (OUT) = its sum over k, for b < n.

    The shift is the row's largest margin, or 0 where that lies between `least` and 0. Classes are the rows of e, so
    that every loop runs over neighbours.
    """
    n_classes = uint64(margin.shape[1])
    for b in range(n):
        for k in range(n_classes):
            e[k, b] = margin[first + b, k]
    for b in range(n):
        shift[b] = e[uint64(0), b]
        total[b] = 0.0
    for k in range(uint64(1), n_classes):
        for b in range(n):
            shift[b] = e[k, b] if e[k, b] > shift[b] else shift[b]
    for b in range(n):
        shift[b] = float32(0.0) if (float32(least) < shift[b]) & (shift[b] < float32(0.0)) else shift[b]
    for k in range(n_classes):
        for b in range(n):
            e[k, b] = formula.exp32(e[k, b] - shift[b])
        for b in range(n):
            total[b] += float64(e[k, b])


@kernel
def softmax(margin, label, g, h, start, stop):
    """Cross entropy of softmax(margin) for class `label`.

    XGBoost does not shift rows whose margins are all negative; so here, down to where e**margin loses bits.
    """
    n_classes = uint64(margin.shape[1])
    e = np.empty((margin.shape[1], _BLOCK), np.float32)
    shift, total = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float64)
    for block in range(start, stop, _BLOCK):
        first, n = uint64(block), uint64(min(_BLOCK, stop - block))
        _exp_of_block(margin, first, n, _LEAST_UNSHIFTED, e, shift, total)
        for k in range(n_classes):
            g_row, h_row = g[k], h[k]
            for b in range(n):
                p = e[k, b] / float32(total[b])
                g_row[first + b], h_row[first + b] = formula.softmax(p, label[first + b] == float32(k))


@kernel
def transform_softmax(margin, out, start, stop):
    """out[i] = softmax(margin[i]), both (n_rows, n_classes)."""
    n_classes = uint64(margin.shape[1])
    e = np.empty((margin.shape[1], _BLOCK), np.float32)
    shift, total = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float64)
    for block in range(start, stop, _BLOCK):
        first, n = uint64(block), uint64(min(_BLOCK, stop - block))
        _exp_of_block(margin, first, n, 0.0, e, shift, total)
        for b in range(n):
            for k in range(n_classes):
                out[first + b, k] = e[k, b] / float32(total[b])


def compile_gradient(function: Callable) -> Any:
    """A gradient kernel around a user's function(margin, label) -> (g, h) of float64 numbers.

    It closes over the function, so it lives in memory only: Numba's disk cache cannot hold such a closure.
    """
    user_formula = function if is_jitted(function) else njit(nogil=True, error_model="numpy")(function)

    def gradient(margin, label, g, h, start, stop):
        for i in range(uint64(start), uint64(stop)):
            g[i], h[i] = user_formula(float64(margin[i]), float64(label[i]))

    return njit(nogil=True, error_model="numpy")(gradient)
