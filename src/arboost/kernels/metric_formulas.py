"""What one row, or one step of a curve, adds to a metric: float64 in and out, for loops of every back end.

Those of + - * / and sqrt alone the CPU computes with NumPy (`kernels/cpu/round/metric.py`), operation by operation as
they stand here, for nothing need be compiled then.
"""

from math import sqrt

from numba import float64

from arboost.kernels.elementary import exp, inlined, log, log1p, log_gamma

LOG_FLOOR = 1e-16  # probabilities and means below this count as this
RATIO_FLOOR = 1e-6  # XGBoost's kRtEps


@inlined
def squared_error(pred, label):
    d = label - pred
    return d * d


@inlined
def absolute_error(pred, label):
    return abs(label - pred)


@inlined
def relative_error(pred, label):
    """|label - pred| / |label|: inf where the label is 0."""
    return abs((label - pred) / label)


@inlined
def pseudo_huber(pred, label, slope):
    """slope**2 (sqrt(1 + (z / slope)**2) - 1)."""
    z = (label - pred) / slope
    return (sqrt(z * z + 1.0) - 1.0) * (slope * slope)


@inlined
def pinball(pred, label, alpha):
    """alpha d for d = label - pred >= 0, (alpha - 1) d below."""
    d = label - pred
    return d * (alpha if d >= 0.0 else alpha - 1.0)


@inlined
def asymmetric_square(pred, label, alpha):
    """alpha d**2 for d = label - pred > 0, (1 - alpha) d**2 below."""
    d = label - pred
    return d * d * (alpha if d > 0.0 else 1.0 - alpha)


@inlined
def wrong_side(pred, label, threshold):
    """1 - label where pred > threshold, else label: the error of a 0/1 decision."""
    return 1.0 - label if pred > threshold else label


@inlined
def squared_log_error(pred, label):
    d = log1p(label) - log1p(pred)
    return d * d


@inlined
def log_loss(pred, label):
    """Cross entropy of a probability; a term with no share of the label is absent, even if it were inf."""
    q = 1.0 - pred
    first = label * log(pred if pred > LOG_FLOOR else LOG_FLOOR) if label != 0.0 else 0.0
    second = (1.0 - label) * log(q if q > LOG_FLOOR else LOG_FLOOR) if label != 1.0 else 0.0
    return -first - second


@inlined
def class_log_loss(p):
    """-ln of the probability of the label."""
    return -log(p if p > LOG_FLOOR else LOG_FLOOR)


@inlined
def poisson_log_loss(pred, label):
    """-ln of the Poisson probability of the label."""
    mean = pred if pred > LOG_FLOOR else LOG_FLOOR
    return log_gamma(label + 1.0) + mean - log(mean) * label


@inlined
def gamma_log_loss(pred, label):
    """-ln of the gamma density with shape 1, up to a constant."""
    mean = pred if pred > RATIO_FLOOR else RATIO_FLOOR
    return label / mean + log(mean)


@inlined
def gamma_deviance(pred, label):
    """Half the unit deviance of the gamma distribution."""
    mean = pred + RATIO_FLOOR
    y = label + RATIO_FLOOR
    return log(mean / y) + y / mean - 1.0


@inlined
def tweedie_log_loss(pred, label, power):
    """-ln of the Tweedie likelihood, up to terms of the label only."""
    log_mean = log(pred)
    a = label * exp((1.0 - power) * log_mean) / (1.0 - power)
    b = exp((2.0 - power) * log_mean) / (2.0 - power)
    return b - a


# Steps of a curve: rows of equal predictions. tp and fp are the integer weights of positive and negative rows that are
# predicted as high, *_before those of rows that are predicted higher.


@inlined
def roc_area(tp_before, fp_before, tp, fp, scale):
    """Area under positive over negative weight."""
    return float64(fp - fp_before) * (0.5 * (float64(tp_before) + float64(tp)))


@inlined
def precision_recall_area(tp_before, fp_before, tp, fp, scale):
    """Area under precision over recall, scale: all positive weight; Davis & Goadrich (2006), Keilwagen et al. (2014).

    Within a step false positives grow linearly with true positives, so that with recall r the precision is
    r / (a r + b); a r + b is the share of rows taken so far, over that of the positives.
    """
    if tp == tp_before:
        return 0.0
    slope = float64(fp - fp_before) / float64(tp - tp_before)
    a = 1.0 + slope
    b = (float64(fp_before) - slope * float64(tp_before)) / scale
    recall = float64(tp - tp_before) / scale
    if b != 0.0:
        recall -= b / a * log(float64(tp + fp) / float64(tp_before + fp_before))
    return recall / a
