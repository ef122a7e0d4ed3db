"""Accelerated failure time and proportional hazards: derivatives, likelihoods, survival curves, concordance.

Cox: sums over the rows at risk go from the last time to the first, in one fixed order, for any number of threads.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, int64, uint64

from arboost.kernels import survival_formulas
from arboost.kernels.elementary import exp, log
from arboost.kernels.jit import kernel, scalar
from arboost.kernels.survival_formulas import (
    EXTREME,
    LOGISTIC,
    NORMAL,
    aft_density,
    aft_mass,
    logistic,
    mills,
    normal_density,
    standardised,
)

DISTRIBUTIONS = {"normal": NORMAL, "logistic": LOGISTIC, "extreme": EXTREME}
_LEAST_LIKELIHOOD = 1e-12
_LEAST_RISK = 1e-150  # its inverse square is finite


@kernel
def aft_gradient(margin, lower, upper, kind, sigma, g, h, start, stop):
    for i in range(uint64(start), uint64(stop)):
        g[i], h[i] = survival_formulas.aft_gradient(margin[i], lower[i], upper[i], kind, sigma)


@kernel
def aft_log_loss(margin, lower, upper, kind, sigma, values, start, stop):
    """-ln of each row's likelihood, which counts as 1e-12 where it is less (as in XGBoost)."""
    for i in range(uint64(start), uint64(stop)):
        m = float64(margin[i])
        y = float64(lower[i])
        a = standardised(y, m, sigma)
        b = standardised(float64(upper[i]), m, sigma)
        p = 0.0
        if lower[i] == upper[i]:
            p = aft_density(kind, a) / (sigma * y) if y > 0.0 else 0.0
        elif a < b:
            p = aft_mass(kind, a, b)
        values[i - uint64(start)] = -log(p if p > _LEAST_LIKELIHOOD else _LEAST_LIKELIHOOD)


@kernel
def inside_bounds(margin, lower, upper, values, start, stop):
    """1 where e**margin lies between the bounds, else 0."""
    for i in range(uint64(start), uint64(stop)):
        time = exp(float64(margin[i]))
        inside = time >= float64(lower[i]) and time <= float64(upper[i])
        values[i - uint64(start)] = 1.0 if inside else 0.0


@kernel
def aft_survival(margin, log_time, kind, sigma, out, start, stop):
    """out[i, j] = P(time of row i > time j), float32."""
    for i in range(uint64(start), uint64(stop)):
        m = float64(margin[i])
        for j in range(uint64(log_time.shape[0])):
            z = (log_time[j] - m) / sigma
            if kind == NORMAL:
                tail = normal_density(z) * mills(abs(z)) if abs(z) < 40.0 else 0.0
                out[i, j] = float32(tail if z > 0.0 else 1.0 - tail)
            elif kind == LOGISTIC:
                out[i, j] = float32(logistic(-z))
            else:
                out[i, j] = float32(exp(-exp(z)))


# Proportional hazards. Labels are times, negative where the event was not seen (censored).


class TimeOrder(NamedTuple):
    """Rows by rising time, equal times in the order of the rows."""

    rows: np.ndarray  # (n,) int32
    label: np.ndarray  # (n,) float32, in this order
    first: np.ndarray  # (n,) int64: position of the first row with the same time


_ORDERS: dict[int, tuple[Any, TimeOrder]] = {}  # by the identity of the labels, as long as they live


def time_order(label: np.ndarray) -> TimeOrder:
    """The order of a label vector, found once: the labels must not change afterwards."""
    key = id(label)
    known = _ORDERS.get(key)
    if known is None or known[0]() is not label:
        known = (weakref.ref(label, lambda _: _ORDERS.pop(key, None)), _sort_by_time(label))
        _ORDERS[key] = known
    return known[1]


def _sort_by_time(label: np.ndarray) -> TimeOrder:
    time = np.abs(label)
    rows = np.argsort(time, kind="stable").astype(np.int32)
    time = time[rows]
    positions = np.arange(len(label), dtype=np.int64)
    positions[1:][time[1:] == time[:-1]] = 0
    return TimeOrder(rows, label[rows], np.maximum.accumulate(positions))


def sums_at_risk(first: np.ndarray, hazard: np.ndarray) -> np.ndarray:
    """Sum of the hazards of all rows with this time or a later one (Breslow's risk set), all in time order."""
    sums = np.cumsum(hazard[::-1])[::-1]  # strictly sequential, so the same bits everywhere
    return np.maximum(sums[first], _LEAST_RISK)


def cumulative_rates(label: np.ndarray, at_risk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of 1 / at_risk and of its square over the events up to each position."""
    rate = np.divide(label > 0, at_risk)
    return np.cumsum(rate), np.cumsum(rate * rate)


@kernel
def hazards(rows, margin, shift, hazard, start, stop):
    """hazard[k] (OUT, float64) = e**(margin - shift) of the k-th row in time."""
    for k in range(uint64(start), uint64(stop)):
        hazard[k] = exp(float64(margin[uint64(rows[k])]) - shift)


@kernel
def cox_gradient(rows, label, hazard, rate, rate_squares, g, h, start, stop):
    """Derivatives of the partial likelihood.

    As in XGBoost a row counts the events before it in the order, itself included: of events at the same time the
    later rows count the earlier ones, not the other way round.
    """
    for k in range(uint64(start), uint64(stop)):
        i = uint64(rows[k])
        e = hazard[k]
        expected = e * rate[k]
        g[i] = float32(expected - (1.0 if label[k] > 0 else 0.0))
        curvature = expected - e * e * rate_squares[k]
        h[i] = float32(curvature if curvature > 0.0 else 0.0)


@kernel
def cox_log_loss(label, hazard, at_risk, values, start, stop):
    """-ln of each event's partial likelihood, 0 for censored rows; all in time order."""
    for k in range(uint64(start), uint64(stop)):
        values[k - uint64(start)] = log(at_risk[k]) - log(hazard[k]) if label[k] > 0 else 0.0


@kernel
def cox_survival(margin, cumulative, out, start, stop):
    """out[i, j] = exp(-cumulative[j] e**margin[i]), float32."""
    for i in range(uint64(start), uint64(stop)):
        hazard = exp(float64(margin[i]))
        for j in range(uint64(cumulative.shape[0])):
            out[i, j] = float32(exp(-cumulative[j] * hazard)) if cumulative[j] > 0.0 else float32(1.0)


@scalar
def add_count(tree, position):
    """Count one value at `position` (1 ..) of a Fenwick tree (OUT)."""
    while position < int64(len(tree)):
        tree[position] += 1
        position += position & -position


@scalar
def count_up_to(tree, position):
    """Values counted at positions 1 .. `position`."""
    total = int64(0)
    while position > 0:
        total += tree[position]
        position -= position & -position
    return total


@kernel
def count_pairs(label, first, rank, tree, counts, start, stop):
    """counts (OUT, int64) += [concordant, tied, all] pairs of an event and a row that is known to outlive it.

    Rows are in time order, ranks (1 ..) rise with the predicted risk, `tree` holds zeros, one slot more than ranks.
    A row censored at the time of an event outlives it; two events at one time are no pair.
    """
    last = stop
    n_later = int64(0)
    while last > start:
        begin = first[last - 1]
        for k in range(begin, last):
            if not label[k] > 0:
                add_count(tree, int64(rank[k]))
                n_later += 1
        for k in range(begin, last):
            if label[k] > 0:
                below = count_up_to(tree, int64(rank[k]) - 1)
                counts[0] += below
                counts[1] += count_up_to(tree, int64(rank[k])) - below
                counts[2] += n_later
        for k in range(begin, last):
            if label[k] > 0:
                add_count(tree, int64(rank[k]))
                n_later += 1
        last = begin
