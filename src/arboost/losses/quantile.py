"""Parts of a distribution: the median (absolute error), quantiles and expectiles.

The first two have no curvature: trees are grown on the sign of the residuals; then each leaf's value is replaced by
the exact quantile of its residuals, as in XGBoost: interpolated without weights, a step function with them.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from arboost.kernels.ops import expectile, gradient, leaf_quantile
from arboost.losses.base import (
    GRAIN,
    MIN_HESSIAN_SUM,
    SERIAL,
    ElementwiseLoss,
    Loss,
    check_base_score,
    check_weight,
    column,
    fixed_base_score,
    lacks_labels,
    mean_base_score,
    register,
    weigh,
)
from arboost.losses.counted_quantiles import count_quantiles
from arboost.matrix.meta import label_columns
from arboost.runtime import sums
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
        if lacks_labels(label):
            rows, leaf_ptr = _labelled(y, rows, leaf_ptr)
        return _quantiles(ctx, self.alpha_of(target), rows, leaf_ptr, y, m, weight)

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The quantile of the labels themselves."""
        check_weight(len(label), weight)
        if not sums.count_rows(ctx, len(label)):
            raise XGBoostError("base_score cannot be estimated: there are no rows.")
        n_targets = self.n_targets(label_columns(label))
        leaf_ptr = np.array([0, len(label)], np.int64)
        zero = np.zeros((len(label), n_targets), np.float32)
        scores = [self.leaf_values(ctx, k, _IDENTITY, leaf_ptr, label, zero, weight) for k in range(n_targets)]
        return np.concatenate(scores)

    def alpha_of(self, target: int) -> float:
        """The quantile of this target."""
        raise NotImplementedError  # absolute and quantile error each have their own


def _labelled(label: np.ndarray, rows: np.ndarray, leaf_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, leaf_ptr) without the rows that have no label."""
    rows = rows if len(rows) else np.arange(leaf_ptr[-1], dtype=np.int32)
    is_kept = ~np.isnan(label[rows])
    return rows[is_kept], np.append(0, np.cumsum(is_kept))[leaf_ptr]


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
    if not ctx.is_alone:
        return count_quantiles(ctx, alpha, rows, leaf_ptr, label, margin, weight)
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

    def alpha_of(self, target: int) -> float:
        return 0.5


@register
@dataclass(frozen=True)
class QuantileError(_QuantileLeaves):
    """The pinball loss: one target per entry of `quantile_alpha`.

    Where `quantile_crossing` is "forbid", the predictions of a row are put in the order of their quantiles, which
    never makes the pinball loss larger (Chernozhukov, Fernandez-Val & Galichon, 2010). Margins stay as they are.
    """

    name = "reg:quantileerror"
    default_metric = "quantile"
    config_group = "quantile_loss_param"
    kernel: ClassVar[Any] = staticmethod(gradient.quantile_error)
    quantile_alpha: tuple[float, ...] = ()
    quantile_crossing: str = "allow"

    def __post_init__(self) -> None:
        if self.quantile_crossing not in ("allow", "forbid"):
            raise XGBoostError(f"quantile_crossing is 'allow' or 'forbid', found {self.quantile_crossing!r}.")
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

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        return (np.float32(self.quantile_alpha[target]),)

    def alpha_of(self, target: int) -> float:
        return self.quantile_alpha[target]

    def transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        if self.quantile_crossing == "allow" or len(self.quantile_alpha) == 1:
            return margin
        out = np.empty_like(margin)
        out[:, np.argsort(self.quantile_alpha, kind="stable")] = np.sort(margin, axis=1)
        return out

    def config(self) -> dict[str, Any]:
        """XGBoost's object; what it does not know is written only where it matters."""
        config = super().config()
        if self.quantile_crossing == "allow":
            del config["quantile_loss_param"]["quantile_crossing"]
        return config


@register
@dataclass(frozen=True)
class ExpectileError(Loss):
    """The asymmetric squared error: one target per entry of `expectile_alpha`, as in XGBoost 3.3.

    The first margin is the lowest expectile, each other one makes the positive gap above the one before it, so that
    the predictions of a row never cross.
    """

    name = "reg:expectileerror"
    default_metric = "expectile"
    config_group = "expectile_loss_param"
    expectile_alpha: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        alphas = self.expectile_alpha
        if not alphas:
            raise XGBoostError("expectile_alpha is needed for reg:expectileerror: give one number or a list.")
        if not all(0.0 <= alpha <= 1.0 for alpha in alphas):
            raise XGBoostError(f"expectile alpha must be in the range [0.0, 1.0], found {list(alphas)}.")
        if any(a > b for a, b in pairwise(alphas)):
            raise XGBoostError(f"expectile_alpha must be sorted in ascending order, found {list(alphas)}.")
        object.__setattr__(self, "expectile_alpha", tuple(float(np.float32(a)) for a in alphas))

    def n_targets(self, n_label_columns: int = 1) -> int:
        if n_label_columns > 1:
            raise XGBoostError("Multi-target is not yet supported by the expectile loss: give one label a row.")
        return len(self.expectile_alpha)

    def gradient(
        self,
        ctx: Context,
        margin: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray | None,
        g: np.ndarray,
        h: np.ndarray,
    ) -> None:
        alphas = np.array(self.expectile_alpha)
        ctx.run_ranges(len(label), GRAIN, expectile.expectile_gradient, margin, label, alphas, g, h)
        for k in range(len(alphas)):
            weigh(ctx, weight, g[k], h[k])

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """One Newton step from the mean towards each expectile, kept in order."""
        mean = mean_base_score(ctx, label, weight)
        start = np.repeat(mean, len(label)).reshape(-1, 1)
        scores = []
        for alpha in self.expectile_alpha:
            g, h = np.empty((2, 1, len(label)), np.float32)
            ExpectileError((alpha,)).gradient(ctx, start, label, weight, g, h)
            curvature = max(sums.exact_sum(ctx, h[0]), MIN_HESSIAN_SUM)
            scores.append(float(mean[0]) - sums.exact_sum(ctx, g[0]) / curvature)
        return np.maximum.accumulate(np.array(scores, np.float32))

    def to_margin(self, base_score: np.ndarray) -> np.ndarray:
        scores = fixed_base_score(check_base_score(base_score), len(self.expectile_alpha)).astype(np.float64)
        gaps = np.maximum(np.diff(scores) - expectile.LEAST_GAP, expectile.LEAST_GAP)
        # ln(e**gap - 1); rounded to float32, libm's last bit is gone
        return np.array([scores[0], *(gap + math.log(-math.expm1(-gap)) for gap in gaps.tolist())], np.float32)

    def transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        if margin.shape[1] == 1:
            return margin
        out = np.empty_like(margin)
        ctx.run_ranges(len(margin), GRAIN, expectile.transform_expectiles, margin, out)
        return out
