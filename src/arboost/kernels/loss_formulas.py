"""Gradient and hessian of one row, for each loss: margin and label in, (g, h) out, all float32.

The formulas follow XGBoost's float32 steps one by one, so that the gradients are its gradients; only exp and log
are our own, computed in float64 and rounded. Weights multiply g and h afterwards. No loops live here.
"""

from math import sqrt

from numba import float32, float64

from arboost.kernels.elementary import exp, inlined, log1p

MIN_HESSIAN = 1e-16
_MIN_LOG_HESSIAN = 1e-6
_LOG_FLOOR = -1.0 + 1e-6  # margins of the squared log error are held above -1
_EXP_LIMIT = 88.7  # e**88.7 is the last that float32 holds
_TINY = 2.0**-126  # smallest normal float32


@inlined
def exp32(x):
    """e**x rounded to float32."""
    return float32(exp(float64(x)))


@inlined
def sigmoid32(margin):
    """1 / (1 + e**-margin) in float32."""
    x = -margin
    x = float32(_EXP_LIMIT) if x > float32(_EXP_LIMIT) else x
    return float32(1.0) / (exp32(x) + float32(1.0))


@inlined
def squared_error(margin, label):
    """(margin - label)**2 / 2."""
    return margin - label, float32(1.0)


@inlined
def squared_log_error(margin, label):
    """(ln(margin + 1) - ln(label + 1))**2 / 2; its hessian is kept positive."""
    margin = float32(_LOG_FLOOR) if margin < float32(_LOG_FLOOR) else margin
    above = margin + float32(1.0)
    difference = float32(log1p(float64(margin))) - float32(log1p(float64(label)))
    h = float32(float64(float32(1.0) - difference) / (float64(above) * float64(above)))
    return difference / above, float32(_MIN_LOG_HESSIAN) if h < float32(_MIN_LOG_HESSIAN) else h


@inlined
def logistic(margin, label):
    """Cross entropy of a probability sigmoid(margin)."""
    p = sigmoid32(margin)
    h = p * (float32(1.0) - p)
    return p - label, float32(MIN_HESSIAN) if h < float32(MIN_HESSIAN) else h


@inlined
def softmax(p, is_label):
    """Cross entropy of a class with probability p; XGBoost's hessian has the factor 2."""
    h = float32(2.0) * p * (float32(1.0) - p)
    return p - float32(1.0) if is_label else p, float32(MIN_HESSIAN) if h < float32(MIN_HESSIAN) else h


@inlined
def hinge(margin, label):
    """max(0, 1 - y margin) with y = 2 label - 1; no curvature is known, so h = 1 inside the margin."""
    y = label * float32(2.0) - float32(1.0)
    inside = margin * y < float32(1.0)
    return -y if inside else float32(0.0), float32(1.0) if inside else float32(_TINY)


@inlined
def pseudo_huber(margin, label, slope):
    """slope**2 (sqrt(1 + (z / slope)**2) - 1), z = margin - label: squared near 0, absolute far out."""
    z = margin - label
    square = slope * slope
    root = sqrt(float32(1.0) + (z * z) / square)
    return z / root, square / ((square + z * z) * root)


@inlined
def absolute_error(margin, label):
    """|margin - label|; leaf values come from residual medians."""
    return float32(margin > label) - float32(margin < label), float32(1.0)


@inlined
def quantile_error(margin, label, alpha):
    """The pinball loss of the alpha-quantile; leaf values come from residual quantiles."""
    below = float32(0.0) - alpha  # a device negates zero to zero
    return float32(1.0) - alpha if margin >= label else below, float32(1.0)


@inlined
def poisson(margin, label, max_delta_step):
    """e**margin - label margin; the hessian is inflated by max_delta_step to tame the steps."""
    return exp32(margin) - label, exp32(margin + max_delta_step)


@inlined
def gamma(margin, label):
    """label / e**margin + margin, the deviance of a gamma distribution."""
    ratio = label / exp32(margin)
    return float32(1.0) - ratio, ratio


@inlined
def tweedie(margin, label, power):
    """The negative log likelihood of a Tweedie distribution with variance mean**power, 1 <= power < 2."""
    a = float32(1.0) - power
    b = float32(2.0) - power
    # a label of 0 has no first term: 0 * inf at a margin of -inf would be NaN
    first = exp32(a * margin) if label > float32(0.0) else float32(0.0)
    second = exp32(b * margin)
    return second - label * first, b * second - (label * a) * first
