"""What rows that a model has not seen tell about it: the temperature of its probabilities, the size of its errors."""

import math

import numpy as np

_LOWEST, _HIGHEST = 0.25, 4.0  # temperatures looked at
_STEPS = 40  # of the search: the last interval is 1e-8 of the first
_MIN_NATS = 2.0  # that a temperature must save on all rows together: twice that is chi-square
_MAX_RESIDUALS = 2001  # quantiles that stand for all residuals


def fit_temperature(margin: np.ndarray, label: np.ndarray, weight: np.ndarray | None) -> float:
    """What margins are best divided by: least log loss, by golden section on the logarithm."""
    weight = np.ones(len(label)) if weight is None else weight.astype(np.float64)
    if not weight.sum() > 0 or len(np.unique(label[weight > 0])) < 2:
        return 1.0

    def loss(log_t: float) -> float:
        return float((row_losses(margin / math.exp(log_t), label, is_classes=True) * weight).sum())

    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = math.log(_LOWEST), math.log(_HIGHEST)
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    f_c, f_d = loss(c), loss(d)
    for _ in range(_STEPS):
        if f_c <= f_d:
            b, d, f_d = d, c, f_c
            c = b - ratio * (b - a)
            f_c = loss(c)
        else:
            a, c, f_c = c, d, f_d
            d = a + ratio * (b - a)
            f_d = loss(d)
    found = (a + b) / 2.0
    return math.exp(found) if loss(0.0) - loss(found) > _MIN_NATS else 1.0


def row_losses(margin: np.ndarray, label: np.ndarray, is_classes: bool) -> np.ndarray:
    """(n,) log loss of margins (n,) or (n, classes), or squared error of numbers."""
    if not is_classes:
        errors = (margin - label) ** 2
        return errors if errors.ndim == 1 else errors.mean(axis=1)
    if margin.ndim == 1:
        margin = np.column_stack([np.zeros(len(margin)), margin])
    margin = margin - margin.max(axis=1, keepdims=True)
    return np.log(np.exp(margin).sum(axis=1)) - margin[np.arange(len(label)), label.astype(np.int64)]


def residual_sample(errors: np.ndarray) -> np.ndarray:
    """Absolute errors in order; of many, as many quantiles as suffice."""
    errors = np.sort(errors.astype(np.float64))
    if len(errors) <= _MAX_RESIDUALS:
        return errors
    places = np.ceil(np.linspace(0.0, 1.0, _MAX_RESIDUALS) * (len(errors) - 1)).astype(np.int64)
    return errors[places]


def interval_width(residuals: np.ndarray, n_heldout: int, coverage: float) -> float:
    """Half the width of an interval: the error that ceil((n + 1) coverage) of n held-out rows do not exceed."""
    share = min(1.0, math.ceil((n_heldout + 1) * coverage) / n_heldout)
    return float(residuals[min(len(residuals) - 1, math.ceil(share * len(residuals)) - 1)])
