"""Which rows a tree sees: draws by a hash of the row's id, so any thread or worker agrees.

Uniform draws take all rows alike. Gradient-based ones (Ibragimov & Gusev 2019, "Minimal Variance Sampling in
Stochastic Gradient Boosting"; Ou 2020) take a row with probability p = min(1, size / level), where size is
sqrt(g^2 + lambda h^2) and the level makes the p sum to the wanted number of rows; gradients are divided by p, so that
sums over the sample are right on average. GOSS (Ke et al. 2017, "LightGBM", Algorithm 2) takes all rows with the
largest |g h|, and of the others a random part, whose gradients are multiplied by what that part is of them.
"""

import numpy as np

from arboost.kernels.ops import sample as ops
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.pool import split_range

_GRAIN = 65_536


def sample_rows(ctx: Context, n_rows: int, subsample: float, key: int, first_row: int = 0) -> np.ndarray | None:
    """Ids of the chosen rows, ascending, int32; None when all rows are taken.

    `first_row` counts the rows of the workers before this one: draws go by the ids that rows have among all.
    """
    if subsample >= 1.0:
        return None
    key = rng.make_key(key, rng.ROWS)
    threshold = round(subsample * 2**32)
    rows = np.empty(n_rows, np.int32)
    spans = split_range(n_rows, ctx.n_threads, _GRAIN)
    counts = ctx.run_tasks(ops.sample_rows, [(np.uint64(key), threshold, first_row, rows, a, b) for a, b in spans])
    return _join(rows, spans, counts)


def sample_by_gradient(
    ctx: Context, g: np.ndarray, h: np.ndarray, subsample: float, reg_lambda: float, key: int, first_row: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, g, h): ids of the chosen rows, and gradients (K, n) divided by the rows' probability, 0 for others."""
    n_rows = g.shape[1]
    key = rng.make_key(key, rng.ROWS)
    size = np.empty(n_rows, np.float32)
    ctx.run_ranges(n_rows, _GRAIN, ops.gradient_sizes, g, h, float(reg_lambda), size)
    level = _find_level(ctx, size, subsample)
    rows, g_out, h_out = np.empty(n_rows, np.int32), np.empty_like(g), np.empty_like(h)
    spans = split_range(n_rows, ctx.n_threads, _GRAIN)
    head = (np.uint64(key), size, level, g, h, first_row, rows, g_out, h_out)
    counts = ctx.run_tasks(ops.sample_by_size, [(*head, a, b) for a, b in spans])
    return _join(rows, spans, counts), g_out, h_out


def sample_goss(
    ctx: Context, g: np.ndarray, h: np.ndarray, rates: tuple[float, float], key: int, first_row: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, factor): ids of the chosen rows, and what the gradients of all rows are multiplied by, 0 for others.

    g and h (K, n); rates: parts of all rows that have the largest gradients, and that are drawn from the rest. Of rows
    with equal sizes all are among the largest or none, so that these are never more than asked for.
    """
    n_rows = g.shape[1]
    size = np.empty(n_rows, np.float32)
    ctx.run_ranges(n_rows, _GRAIN, ops.goss_sizes, g, h, size)
    bits, spans = size.view(np.uint32), split_range(n_rows, ctx.n_threads, _GRAIN)
    counts, _ = _count_sizes(ctx, bits, spans)
    n_total = int(counts.sum())
    largest, n_large = _find_largest(ctx, bits, spans, counts, int(rates[0] * n_total))
    chance = min(1.0, max(rates[1] * n_total, 1.0) / max(1, n_total - n_large))
    rows, factor = np.empty(n_rows, np.int32), np.empty(n_rows, np.float32)
    head = (np.uint64(rng.make_key(key, rng.ROWS)), bits, largest, chance, first_row, rows, factor)
    found = ctx.run_tasks(ops.sample_others, [(*head, a, b) for a, b in spans])
    return _join(rows, spans, found), factor


def _find_largest(
    ctx: Context, bits: np.ndarray, spans: list[tuple[int, int]], counts: np.ndarray, wanted: int
) -> tuple[int, int]:
    """(size, n): the least size, as bits, that no more than `wanted` rows exceed, and how many do."""
    above = counts[::-1].cumsum()[::-1]  # rows of every bucket and of those above it
    bucket = int(np.searchsorted(-above, -wanted)) - 1  # the last one that brings more than wanted
    if bucket < 0:  # all rows are wanted
        return -1, int(above[0])
    found = np.zeros((len(spans), 1 << ops.LOW_BITS), np.int64)
    ctx.run_tasks(ops.count_low_bits, [(bits, bucket, found[i], a, b) for i, (a, b) in enumerate(spans)])
    low = ctx.comm.allreduce_sum(found.sum(axis=0))
    higher = int(above[bucket + 1]) if bucket + 1 < len(above) else 0
    beyond = higher + low[::-1].cumsum()[::-1] - low  # rows that exceed every size of the bucket
    place = int(np.argmax(beyond <= wanted))
    return (bucket << ops.LOW_BITS) + place, int(beyond[place])


def _join(rows: np.ndarray, spans: list[tuple[int, int]], counts: list) -> np.ndarray:
    """The rows that each span has chosen, one after the other."""
    return np.concatenate([rows[a : a + int(n)] for (a, _), n in zip(spans, counts, strict=True)])


def _count_sizes(ctx: Context, bits: np.ndarray, spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(counts, lows): rows of all workers in buckets 1/256 wide, and the sums of the low bits of their sizes."""
    found = np.zeros((2, len(spans), ops.N_BUCKETS), np.int64)
    ctx.run_tasks(ops.count_sizes, [(bits, found[0, i], found[1, i], a, b) for i, (a, b) in enumerate(spans)])
    counts, lows = ctx.comm.allreduce_sum(found.sum(axis=1))
    if not np.isfinite(_lowest_of(np.flatnonzero(counts))).all():
        raise XGBoostError(
            "The objective gave a gradient or hessian that is NaN or infinite, or too large for sampling by gradient."
        )
    return counts, lows


def _lowest_of(buckets: np.ndarray) -> np.ndarray:
    """The lowest size in each bucket."""
    return (buckets.astype(np.uint32) << np.uint32(ops.LOW_BITS)).view(np.float32).astype(np.float64)


def _find_level(ctx: Context, size: np.ndarray, subsample: float) -> float:
    """The level at which sum(min(1, size / level)) is the wanted number of rows.

    Sizes are counted in buckets, whose integer counts and sums do not depend on the order of rows.
    """
    counts, lows = _count_sizes(ctx, size.view(np.uint32), split_range(len(size), ctx.n_threads, _GRAIN))
    buckets = np.flatnonzero(counts)
    low = _lowest_of(buckets)
    unit = np.spacing(low.astype(np.float32)).astype(np.float64)
    counts, sums = counts[buckets].astype(np.float64), counts[buckets] * low + lows[buckets] * unit
    wanted = subsample * counts.sum()
    # rows of bucket i and above are taken for certain; the others share what is left of the wanted rows
    certain = np.append(np.cumsum(counts[::-1])[::-1], 0.0)
    shared = np.append(0.0, np.cumsum(sums))
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = shared / (wanted - certain)
    fits = (certain < wanted) & (levels <= np.append(low, np.inf))
    level = float(levels[np.argmax(fits)]) if fits.any() else 0.0
    return level if level > 0.0 else float(np.finfo(np.float32).smallest_subnormal)
