"""Losses of classic gradient boosting (Friedman 2001, "Greedy Function Approximation", section 4).

Each gives the constant to start from, the negative gradient (what a tree is fitted to), the best value of a leaf, and
its mean. Scores are (n, K) float64, labels (n,): numbers, or codes of classes.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.special

from arboost.ensemble.growing import GrownOnRows

_LEAST = 1e-150  # a hessian below this: no step can lower the loss


def weighted_quantile(values: np.ndarray, weight: np.ndarray, q: float) -> float:
    """The smallest value with q of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    place = np.searchsorted(below, q * below[-1], side="left")
    return float(values[order[min(int(place), len(values) - 1)]])


class ClassicLoss(ABC):
    """A loss; K is `n_outputs`."""

    n_outputs = 1

    @abstractmethod
    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        """(K,) the constant of the least loss."""

    def begin_round(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> None:  # noqa: B027 - most have none
        """Look at the residuals before a round, where a parameter of the loss follows them."""

    @abstractmethod
    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        """(n,) of output k."""

    def leaf_values(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, k: int
    ) -> np.ndarray:
        """(n_leaves,) the best value of each leaf, or a Newton step towards it; here: means."""
        return made.leaf_means(self.negative_gradient(y, score, k)[None], weight)[:, 0]

    @abstractmethod
    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        """The mean loss."""


def line_search(
    loss: ClassicLoss, y: np.ndarray, score: np.ndarray, weight: np.ndarray, step: np.ndarray, k: int
) -> float:
    """The factor rho >= 0 at which score + rho * step has the least loss: there its slope changes sign (convex)."""

    def slope(rho: float) -> float:
        moved = score.copy()
        moved[:, k] += rho * step
        return -float((weight * loss.negative_gradient(y, moved, k) * step).sum())

    low, high = 0.0, 1.0
    if not step.any() or slope(low) >= 0:
        return 0.0
    while slope(high) < 0 and high < 2.0**40:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (low + high) / 2


def _newton(made: GrownOnRows, gradient: np.ndarray, hessian: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sums of the gradient over sums of the hessian, 0 where there is no curvature."""
    seen = weight[made.rows]
    upper, lower = made.leaf_sums(seen * gradient[made.rows]), made.leaf_sums(seen * hessian[made.rows])
    return np.divide(upper, lower, out=np.zeros_like(upper), where=np.abs(lower) >= _LEAST)


class SquaredLoss(ClassicLoss):
    """(y - F)^2; leaves hold the means of the residuals."""

    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        return np.array([np.average(y, weights=weight)])

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        return y - score[:, 0]

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        return float(np.average((y - score[:, 0]) ** 2, weights=weight))


class _QuantileStart(ClassicLoss):
    """A loss whose best constant is a quantile of what is left."""

    def __init__(self, q: float):
        self._q = q

    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        return np.array([weighted_quantile(y, weight, self._q) if is_weighted else np.quantile(y, self._q)])

    def leaf_values(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, k: int
    ) -> np.ndarray:
        residual = y - score[:, 0]
        pieces = np.split(made.rows, made.leaf_ptr[1:-1])
        return np.array([self._best(residual[rows], weight[rows]) for rows in pieces])

    def _best(self, residual: np.ndarray, weight: np.ndarray) -> float:
        return weighted_quantile(residual, weight, self._q)


class AbsoluteLoss(_QuantileStart):
    """|y - F|: trees are fitted to signs, leaves hold medians."""

    def __init__(self) -> None:
        super().__init__(0.5)

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        # at 0 any slope from -1 to 1 is one; scikit-learn has 1 there too
        return np.where(y >= score[:, 0], 1.0, -1.0)

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        return float(np.average(np.abs(y - score[:, 0]), weights=weight))


class QuantileLoss(_QuantileStart):
    """alpha |y - F| above, (1 - alpha) |y - F| below."""

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        return np.where(y >= score[:, 0], self._q, self._q - 1.0)

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        residual = y - score[:, 0]
        return float(np.average(np.maximum(self._q * residual, (self._q - 1.0) * residual), weights=weight))


class HuberLoss(_QuantileStart):
    """Squared up to delta, linear above; delta is the `alpha` quantile of |y - F|, found anew every round."""

    def __init__(self, alpha: float):
        super().__init__(0.5)
        self._alpha, self.delta = alpha, 0.0

    def begin_round(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> None:
        self.delta = weighted_quantile(np.abs(y - score[:, 0]), weight, self._alpha)

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        residual = y - score[:, 0]
        return np.where(np.abs(residual) <= self.delta, residual, self.delta * np.sign(residual))

    def _best(self, residual: np.ndarray, weight: np.ndarray) -> float:
        median = weighted_quantile(residual, weight, 0.5)
        rest = residual - median
        return median + float(np.average(np.sign(rest) * np.minimum(self.delta, np.abs(rest)), weights=weight))

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        size, delta = np.abs(y - score[:, 0]), self.delta
        loss = np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))
        return float(np.average(loss, weights=weight))


class BinomialLoss(ClassicLoss):
    """The deviance of two classes, twice the log loss; scores are log odds."""

    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        return scipy.special.logit(_share_of_ones(y, weight))

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        return y - scipy.special.expit(score[:, 0])

    def leaf_values(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, k: int
    ) -> np.ndarray:
        p = scipy.special.expit(score[:, 0])
        return _newton(made, y - p, p * (1.0 - p), weight)

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        return 2.0 * float(np.average(np.logaddexp(0.0, score[:, 0]) - y * score[:, 0], weights=weight))


class ExponentialLoss(ClassicLoss):
    """exp(-y F) with y of -1 and 1, AdaBoost's; scores are half of the log odds."""

    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        return 0.5 * scipy.special.logit(_share_of_ones(y, weight))

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        sign = 2.0 * y - 1.0
        return sign * np.exp(-sign * score[:, 0])

    def leaf_values(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, k: int
    ) -> np.ndarray:
        gradient = self.negative_gradient(y, score, 0)
        return _newton(made, gradient, np.abs(gradient), weight)

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        return float(np.average(np.exp((1.0 - 2.0 * y) * score[:, 0]), weights=weight))


class MultinomialLoss(ClassicLoss):
    """The deviance of K classes: a tree for each of them in every round."""

    def __init__(self, n_classes: int):
        self.n_outputs = n_classes

    def start(self, y: np.ndarray, weight: np.ndarray, is_weighted: bool) -> np.ndarray:
        shares = np.bincount(y.astype(np.int64), weight, self.n_outputs) / weight.sum()
        logs = np.log(np.clip(shares, np.finfo(np.float64).eps, 1.0))
        return logs - logs.mean()  # what all scores have in common changes nothing

    def negative_gradient(self, y: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
        return (y == k) - self._probability(score, k)

    @staticmethod
    def _probability(score: np.ndarray, k: int) -> np.ndarray:
        return np.exp(score[:, k] - scipy.special.logsumexp(score, axis=1))

    def leaf_values(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, k: int
    ) -> np.ndarray:
        p = self._probability(score, k)
        return _newton(made, (y == k) - p, p * (1.0 - p), weight) * ((self.n_outputs - 1) / self.n_outputs)

    def mean(self, y: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
        own = score[np.arange(len(y)), y.astype(np.int64)]
        return float(np.average(scipy.special.logsumexp(score, axis=1) - own, weights=weight))


def _share_of_ones(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(1,) kept off 0 and 1, whose log odds are infinite."""
    eps = np.finfo(np.float64).eps
    return np.clip(np.array([np.average(y, weights=weight)]), eps, 1.0 - eps)


def regression_loss(name: Any, alpha: float) -> ClassicLoss:
    """The loss that a regressor's parameters name."""
    if name in ("huber", "quantile") and not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    losses = {
        "squared_error": SquaredLoss,
        "absolute_error": AbsoluteLoss,
        "huber": lambda: HuberLoss(alpha),
        "quantile": lambda: QuantileLoss(alpha),
    }
    if name not in losses:
        raise ValueError(f"loss must be one of {', '.join(map(repr, losses))}, got {name!r}.")
    return losses[name]()


def classification_loss(name: Any, n_classes: int) -> ClassicLoss:
    """The loss that a classifier's parameters name."""
    if name not in ("log_loss", "exponential"):
        raise ValueError(f"loss must be 'log_loss' or 'exponential', got {name!r}.")
    if name == "exponential":
        if n_classes > 2:
            raise ValueError(f"loss='exponential' is for two classes, there are {n_classes}: use 'log_loss'.")
        return ExponentialLoss()
    return BinomialLoss() if n_classes <= 2 else MultinomialLoss(n_classes)
