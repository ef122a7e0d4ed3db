"""Losses without curvature: absolute error and quantiles.

Trees are grown on the sign of the residuals; then each leaf's value is replaced by the exact quantile of its
residuals, as in XGBoost: interpolated without weights, a step function with them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.cpu import gradient, leaf_quantile, sums
from arboost.losses.base import ElementwiseLoss, check_weight, column, register
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_IDENTITY = np.empty(0, np.int32)  # rows 0, 1, 2, ...
_GRAIN = 4096  # rows below which a second thread does not pay


@dataclass(frozen=True)
class _QuantileLeaves(ElementwiseLoss):
    """A loss that knows the best value of a leaf from the residuals in it."""

    def leaf_values(
        self,
        ctx: Context,
        target: int,
        rows: np.ndarray,
        leaf_ptr: np.ndarray,
        label: np.ndarray,
        margin: np.ndarray,
        weight: np.ndarray | None,
    ) -> np.ndarray:
        y, m = column(label, target), column(margin, target)
        return _quantiles(ctx, self._alpha(target), rows, leaf_ptr, y, m, weight)

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The quantile of the labels themselves."""
        check_weight(len(label), weight)
        if not len(label):
            raise XGBoostError("base_score cannot be estimated: there are no rows.")
        n_targets = self.n_targets(1 if label.ndim == 1 else label.shape[1])
        leaf_ptr = np.array([0, len(label)], np.int64)
        zero = np.zeros(len(label), np.float32)
        scores = [
            _quantiles(ctx, self._alpha(k), _IDENTITY, leaf_ptr, column(label, k), zero, weight)
            for k in range(n_targets)
        ]
        return np.concatenate(scores)

    def _alpha(self, target: int) -> float:
        """The quantile of this target."""
        raise NotImplementedError


def _quantiles(
    ctx: Context,
    alpha: float,
    rows: np.ndarray,
    leaf_ptr: np.ndarray,
    label: np.ndarray,
    margin: np.ndarray,
    weight: np.ndarray | None,
) -> np.ndarray:
    """The alpha-quantile of label - margin in every leaf, label and margin being vectors."""
    leaf_ptr = np.ascontiguousarray(leaf_ptr, np.int64)
    values = np.empty(len(leaf_ptr) - 1, np.float32)
    keys = np.empty(leaf_ptr[-1], np.uint32)
    args: tuple[Any, ...] = (rows, leaf_ptr, label, margin)
    if weight is None:
        kernel, args = leaf_quantile.leaf_quantiles, (*args, alpha, keys, values)
    else:
        fixed, unit = sums.fixed_point_weights(ctx, len(label), weight)
        kernel, args = leaf_quantile.weighted_leaf_quantiles, (*args, fixed, unit, alpha, keys, values)
    ctx.run_tasks(kernel, [(*args, start, stop) for start, stop in _spans(leaf_ptr, ctx.n_threads)])
    return values


def _spans(leaf_ptr: np.ndarray, n_threads: int) -> list[tuple[int, int]]:
    """Ranges of leaves with about the same number of rows, at most one per thread."""
    n_leaves = len(leaf_ptr) - 1
    n_rows = int(leaf_ptr[-1])
    n_parts = max(1, min(n_threads, n_rows // _GRAIN))
    goals = [n_rows * part // n_parts for part in range(1, n_parts)]
    edges = [0, *np.searchsorted(leaf_ptr, goals).tolist(), n_leaves]
    return [(a, b) for a, b in pairwise(edges) if a < b]


@register
@dataclass(frozen=True)
class AbsoluteError(_QuantileLeaves):
    """|margin - label|: leaves hold medians."""

    name = "reg:absoluteerror"
    default_metric = "mae"
    leaf_alphas = (0.5,)
    kernel = staticmethod(gradient.absolute_error)

    def _alpha(self, target: int) -> float:
        return 0.5


@register
@dataclass(frozen=True)
class QuantileError(_QuantileLeaves):
    """The pinball loss: one target per entry of `quantile_alpha`."""

    name = "reg:quantileerror"
    default_metric = "quantile"
    config_group = "quantile_loss_param"
    kernel: ClassVar[Any] = staticmethod(gradient.quantile_error)
    quantile_alpha: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.quantile_alpha:
            raise XGBoostError("quantile_alpha is needed for reg:quantileerror: give one number or a list.")
        if not all(0.0 <= alpha <= 1.0 for alpha in self.quantile_alpha):
            raise XGBoostError(f"quantile alpha must be in the range [0.0, 1.0], found {list(self.quantile_alpha)}.")
        object.__setattr__(self, "quantile_alpha", tuple(float(np.float32(a)) for a in self.quantile_alpha))

    @property
    def leaf_alphas(self) -> tuple[float, ...]:
        return self.quantile_alpha

    def n_targets(self, n_label_columns: int = 1) -> int:
        if n_label_columns > 1:
            raise XGBoostError("Multi-target is not yet supported by the quantile loss: give one label a row.")
        return len(self.quantile_alpha)

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.n_targets(1 if label.ndim == 1 else label.shape[1])
        super().check_label(label, weight)

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        return (np.float32(self.quantile_alpha[target]),)

    def _alpha(self, target: int) -> float:
        return self.quantile_alpha[target]
