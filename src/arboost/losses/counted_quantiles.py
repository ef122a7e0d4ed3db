"""Quantiles of the residuals of leaves whose rows lie on several workers: the bits that `leaf_quantile` finds on one.

Every step fixes eight bits of each leaf's wanted key: workers count their keys that agree with it so far, and add up
the counts, which are integers.
"""

import numpy as np

from arboost.kernels.ops import leaf_quantile
from arboost.runtime import sums
from arboost.runtime.context import Context

_ALL_BITS = np.int64(0xFFFFFFFF)
_NO_WEIGHT = np.ones(1, np.int64)


def count_quantiles(
    ctx: Context,
    alpha: float,
    rows: np.ndarray,
    leaf_ptr: np.ndarray,
    label: np.ndarray,
    margin: np.ndarray,
    weight: np.ndarray | None,
) -> np.ndarray:
    """The alpha-quantile of label - margin in every leaf, over all workers; NaN for leaves without rows."""
    n_leaves = len(leaf_ptr) - 1
    keys = np.empty(leaf_ptr[-1], np.uint32)
    ctx.run_ranges(n_leaves, n_leaves, leaf_quantile.fill_keys, rows, leaf_ptr, label, margin, keys)
    if weight is None:
        return _interpolated(ctx, alpha, rows, leaf_ptr, keys)
    fixed, unit = sums.fixed_point_weights(ctx, len(label), weight)
    return _stepped(ctx, alpha, rows, leaf_ptr, keys, fixed, unit)


def _count(
    ctx: Context,
    rows: np.ndarray,
    leaf_ptr: np.ndarray,
    keys: np.ndarray,
    weight: np.ndarray,
    prefix: np.ndarray,
    step: int,
) -> np.ndarray:
    """(n_leaves, 256, 2): keys of all workers by their next eight bits, and their weight."""
    n_leaves = len(prefix)
    counts = np.zeros((n_leaves, 256, 2), np.int64)
    args = (rows, leaf_ptr, keys, weight, prefix.astype(np.uint32), step, counts)
    ctx.run_ranges(n_leaves, n_leaves, leaf_quantile.count_digits, *args)
    return ctx.comm.allreduce_sum(counts)


def _interpolated(ctx: Context, alpha: float, rows: np.ndarray, leaf_ptr: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """As `leaf_quantile.leaf_quantiles`: between the two residuals around position alpha (n + 1)."""
    n = ctx.comm.allreduce_sum(np.diff(leaf_ptr)).astype(np.float64)
    position = alpha * (n + 1.0)
    rank = position.astype(np.int64) - 1
    share = (position - 1.0) - rank.astype(np.float64)
    is_low, is_high = alpha <= 1.0 / (n + 1.0), alpha >= n / (n + 1.0)
    rank = np.where(is_low, 0, np.where(is_high, n.astype(np.int64) - 1, rank))
    share[is_low | is_high] = 0.0
    leaves, prefix = np.arange(len(n)), np.zeros(len(n), np.int64)
    more = np.zeros(len(n), np.bool_)
    for step in range(4):
        counts = _count(ctx, rows, leaf_ptr, keys, _NO_WEIGHT, prefix, step)[:, :, 0]
        upto = np.cumsum(counts, axis=1)
        digit = np.minimum(np.count_nonzero(upto <= rank[:, None], axis=1), 255)
        rank = rank - (upto[leaves, digit] - counts[leaves, digit])
        more = rank + 1 < counts[leaves, digit]
        prefix |= digit << (24 - 8 * step)
    above = np.full(len(n), _ALL_BITS)
    ctx.run_ranges(len(n), len(n), leaf_quantile.next_keys, leaf_ptr, keys, prefix, above)
    above = _ALL_BITS - ctx.comm.allreduce_max(_ALL_BITS - above)
    low = _values_of(prefix)
    high = _values_of(np.where(more | (share == 0.0), prefix, above))
    values = (low.astype(np.float64) + share * (high - low).astype(np.float64)).astype(np.float32)
    values[n == 0] = np.nan
    return values


def _stepped(
    ctx: Context,
    alpha: float,
    rows: np.ndarray,
    leaf_ptr: np.ndarray,
    keys: np.ndarray,
    weight: np.ndarray,
    unit: float,
) -> np.ndarray:
    """As `leaf_quantile.weighted_leaf_quantiles`: the first residual whose cumulated weight reaches the goal."""
    n_leaves = len(leaf_ptr) - 1
    leaves, prefix = np.arange(n_leaves), np.zeros(n_leaves, np.int64)
    below, goal = np.zeros(n_leaves, np.int64), np.zeros(n_leaves, np.float32)
    is_empty = np.zeros(n_leaves, np.bool_)
    for step in range(4):
        counts = _count(ctx, rows, leaf_ptr, keys, weight, prefix, step)
        if step == 0:
            total = counts[:, :, 1].sum(axis=1)
            goal = ((total.astype(np.float64) * unit).astype(np.float32).astype(np.float64) * alpha).astype(np.float32)
            is_empty = counts[:, :, 0].sum(axis=1) == 0
        reached = below[:, None] + np.cumsum(counts[:, :, 1], axis=1)
        has_any = counts[:, :, 0] > 0
        is_enough = has_any & ((reached.astype(np.float64) * unit).astype(np.float32) >= goal[:, None])
        last = 255 - np.argmax(has_any[:, ::-1], axis=1)  # should rounding keep all below the goal
        digit = np.where(is_enough.any(axis=1), np.argmax(is_enough, axis=1), last)
        below = reached[leaves, digit] - counts[leaves, digit, 1]
        prefix |= digit << (24 - 8 * step)
    values = _values_of(prefix)
    values[is_empty] = np.nan
    return values


def _values_of(keys: np.ndarray) -> np.ndarray:
    """The float32 values whose keys these are."""
    values = np.empty(len(keys), np.float32)
    leaf_quantile.values_of_keys(keys.astype(np.uint32), values, 0, len(keys))
    return values
