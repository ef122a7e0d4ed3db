"""Accelerated failure time: ln(time) = margin + sigma * noise, for every back end. No loops live here.

A row knows its time to lie in [lower, upper]; with a = (ln lower - margin) / sigma and b likewise, its likelihood is
the mass of the noise between a and b (its density where a == b). Formulas are in units of sigma and use differences
that do not cancel, so that tails keep their digits.
"""

from numba import float32, float64

from arboost.kernels.elementary import exp, log
from arboost.kernels.jit import scalar

NORMAL, LOGISTIC, EXTREME = 0, 1, 2
_INV_SQRT_TWO_PI = 0.3989422804014327
_NARROW = 1e-5  # an interval so narrow (in sigmas) is a point: the error is of its square
_FAR = 1e6  # beyond, the curvature of the normal tail is 1
_MOST_GRADIENT = 15.0  # XGBoost's limits
_LEAST_HESSIAN, _MOST_HESSIAN = 1e-16, 15.0
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


@scalar
def aft_gradient(margin, lower, upper, kind, sigma):
    """Derivatives by the margin, within XGBoost's limits; lower <= 0 and upper = inf are open ends. All float32."""
    m = float64(margin)
    a = standardised(float64(lower), m, sigma)
    b = standardised(float64(upper), m, sigma)
    first, second = aft_derivatives(kind, a, b)
    g = float32(clipped(first / sigma, -_MOST_GRADIENT, _MOST_GRADIENT))
    return g, float32(clipped(second / (sigma * sigma), _LEAST_HESSIAN, _MOST_HESSIAN))
