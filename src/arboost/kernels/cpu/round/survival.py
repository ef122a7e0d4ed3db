"""Accelerated failure time and proportional hazards: derivatives, likelihoods, survival curves, concordance.

AFT: ln(time) = margin + sigma * noise. A row knows its time to lie in [lower, upper]; with a = (ln lower - margin) /
sigma and b likewise, its likelihood is the mass of the noise between a and b (its density where a == b). Formulas
below are in units of sigma and use differences that do not cancel, so that tails keep their digits.

Cox: sums over the rows at risk go from the last time to the first, in one fixed order, for any number of threads.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, int64, uint64

from arboost.kernels.elementary import exp, log
from arboost.kernels.jit import kernel, scalar

NORMAL, LOGISTIC, EXTREME = 0, 1, 2
DISTRIBUTIONS = {"normal": NORMAL, "logistic": LOGISTIC, "extreme": EXTREME}
_INV_SQRT_TWO_PI = 0.3989422804014327
_NARROW = 1e-5  # an interval so narrow (in sigmas) is a point: the error is of its square
_FAR = 1e6  # beyond, the curvature of the normal tail is 1
_MOST_GRADIENT = 15.0  # XGBoost's limits
_LEAST_HESSIAN, _MOST_HESSIAN = 1e-16, 15.0
_LEAST_LIKELIHOOD = 1e-12
_LEAST_RISK = 1e-150  # its inverse square is finite
_INF = float("inf")


@scalar
def expm1(x):
    """e**x - 1 without cancellation, after Kahan: the rounding error of e**x is undone by its logarithm."""
    u = exp(x)
    if x > 1.0 or x < -1.0:
        return u - 1.0
    return x if u == 1.0 else (u - 1.0) * x / log(u)


@scalar
def mills(z):
    """The normal tail over the density, Q(z) / phi(z), for z >= 0: errs by less than 2 ulp.

    A polynomial in (z - 5) / (z + 5), from the Chebyshev series of (1 + z) Q(z) / phi(z) at 100 digits; the first
    neglected term is below 1e-17.
    """
    t = (z - 5.0) / (z + 5.0)
    p = 6.288377855498677e-11
    p = p * t - 9.564832934712551e-10
    p = p * t - 1.0846925288860795e-09
    p = p * t + 1.1032071151574336e-08
    p = p * t + 1.0082895646260188e-08
    p = p * t - 7.758520236786343e-08
    p = p * t - 6.738323465177047e-08
    p = p * t + 4.91996233147834e-07
    p = p * t + 3.2197131609042185e-07
    p = p * t - 3.277287633208865e-06
    p = p * t - 1.7723438185601556e-07
    p = p * t + 2.270961270923768e-05
    p = p * t - 2.48054584472145e-05
    p = p * t - 0.0001343742785571135
    p = p * t + 0.00045704381820007954
    p = p * t + 1.9530638370790786e-05
    p = p * t - 0.004201290310663574
    p = p * t + 0.01634823128102938
    p = p * t - 0.038026592187762366
    p = p * t + 0.0615050458401865
    p = p * t - 0.0661776007789934
    p = p * t + 0.0250721793016388
    p = p * t + 0.07778159886873554
    p = p * t - 0.22948753825211315
    p = p * t + 1.1568486282918946
    return p / (1.0 + z) if z < 1e15 else 1.0 / z


@scalar
def normal_density(z):
    return _INV_SQRT_TWO_PI * exp(-0.5 * z * z)


@scalar
def logistic(z):
    """1 / (1 + e**-z)."""
    return 1.0 / (1.0 + exp(-z))


@scalar
def normal_parts(a, b):
    """Of the normal distribution between a < b, one of them perhaps infinite: (mass, rise, bend, scale).

    mass = P(a < z < b), rise = phi(b) - phi(a) and bend = b phi(b) - a phi(a), each over `scale`. An interval on one
    side of 0 is taken on the right (rise and bend are those of the mirrored one), with its largest density as scale.
    """
    mirrored = b <= 0.0
    low = -b if mirrored else a
    high = -a if mirrored else b
    if low >= 0.0:
        fall = exp(-0.5 * (high - low) * (high + low))  # phi(high) / phi(low)
        mass = mills(low)
        bend = -low
        if fall > 0.0:
            mass -= fall * mills(high)
            bend += fall * high
        return mass, fall - 1.0, bend, normal_density(low)
    at_low = normal_density(low)
    at_high = normal_density(high)
    mass = 1.0
    bend = 0.0
    if at_low > 0.0:
        mass -= at_low * mills(-low)
        bend -= at_low * low
    if at_high > 0.0:
        mass -= at_high * mills(high)
        bend += at_high * high
    return mass, at_high - at_low, bend, 1.0


@scalar
def normal_derivatives(a, b):
    """First and second derivative of -ln(P(a < z < b)) as both bounds fall together."""
    if b - a < _NARROW:
        return -0.5 * (a + b), 1.0
    mass, rise, bend, _ = normal_parts(a, b)
    g = rise / mass
    h = g * g + bend / mass
    low = -b if b <= 0.0 else a
    h = 1.0 if (h > 1.0 or low > _FAR) else h  # one minus a variance that truncation makes smaller than 1
    return (-g if b <= 0.0 else g), h


@scalar
def extreme_derivatives(a, b):
    """The same for noise with P(z > x) = exp(-e**x), by d = e**b - e**a and r = d / (e**d - 1)."""
    w = exp(a)
    d = w * expm1(b - a) if b - a < 1.0 else exp(b) - w
    if b == a:
        d = 0.0
    r = 0.0
    bend = 0.0
    if d < _NARROW:
        r = 1.0 - d * (0.5 - d / 12.0)
        bend = r * d * (0.5 + d / 12.0)
    elif d < 700.0:
        r = d / expm1(d)
        bend = r * (r - 1.0 + d)
    return r - w, bend + w


@scalar
def aft_derivatives(kind, a, b):
    """First and second derivative of the noise's -ln(likelihood) between a and b as both fall together."""
    if kind == NORMAL:
        return normal_derivatives(a, b)
    if kind == EXTREME:
        return extreme_derivatives(a, b)
    p_low, p_high = logistic(a), logistic(b)
    q_low, q_high = logistic(-a), logistic(-b)
    return q_low - p_high, p_low * q_low + p_high * q_high


@scalar
def aft_density(kind, z):
    if kind == NORMAL:
        return normal_density(z)
    if kind == LOGISTIC:
        return logistic(z) * logistic(-z)
    return exp(z - exp(z))


@scalar
def aft_mass(kind, a, b):
    """P(a < z < b)."""
    if kind == NORMAL:
        mass, _, _, scale = normal_parts(a, b)
        return mass * scale
    if kind == LOGISTIC:
        return -expm1(a - b) * logistic(b) * logistic(-a)
    w = exp(a)
    d = w * expm1(b - a) if b - a < 1.0 else exp(b) - w
    return -expm1(-d) * exp(-w) if d < _INF else exp(-w)


@scalar
def standardised(bound, margin, sigma):
    """(ln(bound) - margin) / sigma; -inf for a bound of 0 or less, which is none."""
    return (log(bound) - margin) / sigma if bound > 0.0 else -_INF


@scalar
def clipped(x, least, most):
    return least if x < least else most if x > most else x


@kernel
def aft_gradient(margin, lower, upper, kind, sigma, g, h, start, stop):
    """Derivatives by the margin, within XGBoost's limits; lower <= 0 and upper = inf are open ends."""
    for i in range(uint64(start), uint64(stop)):
        m = float64(margin[i])
        a = standardised(float64(lower[i]), m, sigma)
        b = standardised(float64(upper[i]), m, sigma)
        first, second = aft_derivatives(kind, a, b)
        g[i] = float32(clipped(first / sigma, -_MOST_GRADIENT, _MOST_GRADIENT))
        h[i] = float32(clipped(second / (sigma * sigma), _LEAST_HESSIAN, _MOST_HESSIAN))


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
