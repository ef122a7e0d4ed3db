"""Base classes of custom objectives that are objects, `train(..., obj=MyObjective())`; what users' functions return.

A plain function (margin, dtrain) -> (gradient, hessian) does as well; an object also learns the round.
"""

from abc import ABC, abstractmethod
from typing import Any

from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.errors import XGBoostError

__all__ = ["Objective", "TreeObjective"]


class Objective(ABC):
    """A custom objective that is told the round.

    Examples
    --------
    >>> class SquaredError(Objective):
    ...     def __call__(self, iteration, y_pred, dtrain):
    ...         return y_pred - dtrain.get_label(), np.ones_like(y_pred)
    """

    @abstractmethod
    def __call__(self, iteration: int, y_pred: Any, dtrain: DMatrix) -> tuple[Any, Any]:
        """Gradient and hessian of every row (and output) at the margins `y_pred`."""


class TreeObjective(Objective):
    """A custom objective that may find the trees' structure on other gradients than the leaves' values."""

    def split_grad(self, iteration: int, grad: Any, hess: Any) -> tuple[Any, Any] | None:
        """Gradient and hessian for finding splits, or None to use those of the call.

        Only None is available: splits are found on the gradients of the call.
        """
        return None


def gradients(fobj: Any, iteration: int, margin: Any, dtrain: DMatrix) -> tuple[Any, Any]:
    """What a custom objective, function or object, says of these margins."""
    if not callable(fobj):
        raise TypeError(f"A custom objective is a function (margins, dtrain) -> (gradient, hessian), got {fobj!r}.")
    if not isinstance(fobj, Objective):
        return _pair(fobj(margin, dtrain))
    grad, hess = _pair(fobj(iteration, margin, dtrain))
    if isinstance(fobj, TreeObjective) and fobj.split_grad(iteration, grad, hess) is not None:
        raise XGBoostError(
            "split_grad is not available: trees find their splits on the objective's own gradients, also those with "
            "vectors in their leaves (multi_strategy='multi_output_tree'); return None."
        )
    return grad, hess


def _pair(found: Any) -> tuple[Any, Any]:
    """A custom objective's result, which must be two arrays."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        what = f"{len(found)} values" if isinstance(found, tuple | list) else f"a {type(found).__name__}"
        raise TypeError(f"A custom objective returns two arrays, (gradient, hessian); this one returned {what}.")
    return found[0], found[1]


def custom_scores(found: Any) -> list[tuple[str, float]]:
    """(name, value) pairs of a custom metric's result, which must be one such pair or a list of them."""
    scores = []
    for pair in found if isinstance(found, list) else [found]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"A custom metric returns (name, value) or a list of such pairs; this one returned {pair!r}."
            )
        name, value = pair
        try:
            number = None if isinstance(value, str | bytes) else float(value)
        except (TypeError, ValueError):
            number = None
        if number is None:
            raise TypeError(f"The value of the custom metric {name} must be one number, got {value!r}.")
        scores.append((str(name), number))
    return scores
