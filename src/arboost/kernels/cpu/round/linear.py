"""Coordinate descent on a linear model, one weight after the other (Shalev-Shwartz & Tewari 2011).

The data is CSC: feature f has values[col_ptr[f]:col_ptr[f + 1]] in the given rows (int32); what is absent adds nothing.
g, h (K, n) float32; weight (F + 1, K) float32, its last row the bias; step float64: eta, then the penalties lambda and
alpha times the sum of row weights. A weight's change is the Newton step of its coordinate, cut off at zero by alpha;
the gradients then move to where the new weight puts them. Rows with a negative hessian are left out. Targets do not
touch each other, and sums run in a fixed order: threads share targets or features, never a sum.
"""

import numpy as np
from numba import int64, uint64

from arboost.kernels.jit import kernel, part, scalar

LEAST_HESSIAN = 1e-5  # of a coordinate: below this it stays


@scalar
def weight_change(sum_g, sum_h, w, penalty, alpha):
    """The step of one weight that minimises the quadratic model with both penalties."""
    if sum_h < LEAST_HESSIAN:
        return 0.0
    g, h = sum_g + penalty * w, sum_h + penalty
    if w - g / h >= 0:
        change = -(g + alpha) / h
        return change if change > -w else -w
    change = -(g - alpha) / h
    return change if change < -w else -w


@part
def _sum_column(rows, values, first, last, g, h):
    """(sum of g x, sum of h x^2) over one feature's entries, in two interleaved sums each."""
    g0 = g1 = h0 = h1 = 0.0
    i = uint64(first)
    while i + uint64(1) < uint64(last):
        r, s = uint64(rows[i]), uint64(rows[i + uint64(1)])
        x, y = np.float64(values[i]), np.float64(values[i + uint64(1)])
        if h[r] >= 0:
            g0 += g[r] * x
            h0 += h[r] * x * x
        if h[s] >= 0:
            g1 += g[s] * y
            h1 += h[s] * y * y
        i += uint64(2)
    if i < uint64(last):
        r, x = uint64(rows[i]), np.float64(values[i])
        if h[r] >= 0:
            g0 += g[r] * x
            h0 += h[r] * x * x
    return g0 + g1, h0 + h1


@kernel
def update_bias(step, g, h, weight, start, stop):
    """One Newton step of the bias of targets start..stop. INOUT: g, weight."""
    for k in range(start, stop):
        sum_g = sum_h = 0.0
        for r in range(g.shape[1]):
            if h[k, r] >= 0:
                sum_g += g[k, r]
                sum_h += h[k, r]
        change = np.float32(step[0] * (-sum_g / sum_h)) if sum_h > 0 else np.float32(0)
        weight[-1, k] += change
        for r in range(g.shape[1]):
            if h[k, r] >= 0:
                g[k, r] += h[k, r] * change


@kernel
def update_weights(col_ptr, rows, values, order, step, g, h, weight, start, stop):
    """Update the features order[k] of targets k in start..stop, one after the other. INOUT: g, weight."""
    for k in range(start, stop):
        for f in order[k]:
            first, last = int64(col_ptr[f]), int64(col_ptr[f + 1])
            sum_g, sum_h = _sum_column(rows, values, first, last, g[k], h[k])
            change = np.float32(step[0] * weight_change(sum_g, sum_h, np.float64(weight[f, k]), step[1], step[2]))
            if change == 0:
                continue
            weight[f, k] += change
            for i in range(uint64(first), uint64(last)):
                r = uint64(rows[i])
                if h[k, r] >= 0:
                    g[k, r] += h[k, r] * values[i] * change


@kernel
def find_changes(col_ptr, rows, values, k, step, g, h, weight, changes, start, stop):
    """changes[f] float64 OUT = the change that target k's weight of each feature in start..stop would make now."""
    for f in range(start, stop):
        sum_g, sum_h = _sum_column(rows, values, int64(col_ptr[f]), int64(col_ptr[f + 1]), g[k], h[k])
        changes[f] = weight_change(sum_g, sum_h, np.float64(weight[f, k]), step[1], step[2])


@kernel
def add_products(data, weight, margin, start, stop):
    """margin (n, K) float32 += bias + the weights times the values of rows start..stop; NaN adds nothing. INOUT."""
    n_features = weight.shape[0] - 1
    for r in range(start, stop):
        for k in range(margin.shape[1]):
            total = margin[r, k] + weight[n_features, k]
            for f in range(n_features):
                x = data[r, f]
                if x == x:
                    total += x * weight[f, k]
            margin[r, k] = total
