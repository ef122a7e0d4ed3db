"""A loss from a user's own formula, compiled into the gradient loop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.kernels.ops import gradient
from arboost.losses.base import DEFAULT_BASE_SCORE, ElementwiseLoss
from arboost.losses.regression import SquaredError
from arboost.matrix.meta import label_columns
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@dataclass(frozen=True)
class ScalarLoss(ElementwiseLoss):
    """A custom loss given by the derivatives of one row.

    Parameters
    ----------
    function
        function(margin, label) -> (gradient, hessian) of plain numbers, in the part of Python that Numba compiles;
        a function that is already compiled with ``numba.njit`` is taken as it is. Row weights are applied to what
        it returns.
    metric
        Name of the metric reported when the user names none.

    Notes
    -----
    It is compiled when the object is made (a fraction of a second) and kept in memory only. As with any custom
    objective of XGBoost, training starts from `base_score`, 0.5 unless set, predictions are margins, and a saved
    model says ``reg:squarederror``.

    Examples
    --------
    >>> def log_cosh(margin, label):
    ...     t = math.tanh(margin - label)
    ...     return t, 1.0 - t * t
    >>> loss = ScalarLoss(log_cosh)  # doctest: +SKIP
    """

    name = "custom"

    function: Callable[[float, float], tuple[float, float]]
    metric: str = "rmse"
    kernel: Any = field(init=False, repr=False, compare=False)  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", _compile(self.function))

    @property
    def default_metric(self) -> str:
        return self.metric

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        return np.full(self.n_targets(label_columns(label)), DEFAULT_BASE_SCORE, np.float32)

    def config(self) -> dict[str, Any]:
        return SquaredError().config()

    def __reduce__(self) -> tuple:
        return ScalarLoss, (self.function, self.metric)


def _compile(function: Callable) -> Any:
    """The gradient kernel, tried on one row so that a bad function fails here and not in a thread."""
    if not callable(function):
        raise XGBoostError(f"A scalar loss needs a function(margin, label) -> (gradient, hessian), not {function!r}.")
    kernel = gradient.compile_gradient(function)
    margin, label, g, h = np.zeros((4, 1), np.float32)
    try:
        kernel(margin, label, g, h, 0, 1)
    except Exception as error:  # whatever Numba or the function itself says
        name = getattr(function, "__name__", repr(function))
        raise XGBoostError(
            f"The loss {name} cannot be compiled: it must take two numbers (margin, label), return the two numbers "
            f"(gradient, hessian) and use only what Numba supports. {error}"
        ) from error
    return kernel
