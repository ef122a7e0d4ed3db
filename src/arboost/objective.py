"""Base classes of custom objectives that are objects, `train(..., obj=MyObjective())`; what users' functions return.

A plain function (margin, dtrain) -> (gradient, hessian) does as well; an object also learns the round.
"""

import json
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from arboost.matrix.dmatrix import DMatrix
from arboost.runtime import comm
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

        For trees with vectors in their leaves (`multi_strategy="multi_output_tree"`): (n,) or (n, J) arrays made from
        `grad` and `hess` (n, n_outputs), such as their means, make the search for splits cheaper. The leaves' weights
        are those of `grad` and `hess`.
        """
        return None


def gradients(
    fobj: Any, iteration: int, margin: Any, dtrain: DMatrix
) -> tuple[Any, Any, tuple[np.ndarray, np.ndarray] | None]:
    """What a custom objective, function or object, says of these margins, and what splits are to be found on."""
    if not callable(fobj):
        raise TypeError(f"A custom objective is a function (margins, dtrain) -> (gradient, hessian), got {fobj!r}.")
    if not isinstance(fobj, Objective):
        return *_pair(fobj(margin, dtrain)), None
    grad, hess = _pair(fobj(iteration, margin, dtrain))
    split = fobj.split_grad(iteration, grad, hess) if isinstance(fobj, TreeObjective) else None
    if split is None:
        return grad, hess, None
    split_g, split_h = (np.asarray(part, np.float32) for part in _pair(split))
    if split_g.shape != split_h.shape or split_g.ndim not in (1, 2) or len(split_g) != dtrain.num_row():
        raise XGBoostError(
            f"split_grad returns two arrays of one shape, (n,) or (n, J), for {dtrain.num_row()} rows; these have the "
            f"shapes {split_g.shape} and {split_h.shape}."
        )
    shape = (len(split_g), -1 if split_g.ndim == 1 else split_g.shape[1])
    return grad, hess, (split_g.reshape(shape), split_h.reshape(shape))


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


def mean_scores(scores: list[tuple[str, float]], n_rows: int) -> list[tuple[str, float]]:
    """A custom metric's values on the workers' rows, averaged by their number: not the metric of all rows together.

    It is, for a mean over rows. A worker without rows gives no scores and takes those of the others.
    """
    group = comm.current()
    if group.world_size == 1:
        return scores
    shares = [json.loads(data) for data in group.allgather(json.dumps([n_rows, scores]).encode())]
    shares = [(n, found) for n, found in shares if n]
    names = {tuple(name for name, _ in found) for _, found in shares}
    if len(names) > 1:
        raise XGBoostError(f"The custom metric returns different names on different workers: {sorted(names)}.")
    n_all = sum(n for n, _ in shares)
    return [
        (name, math.fsum(n * found[i][1] for n, found in shares) / n_all)
        for i, name in enumerate(next(iter(names), ()))
    ]
