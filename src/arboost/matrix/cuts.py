"""Where a feature's bins begin and end: exact weighted quantiles, the same for any chunks, threads or workers.

Definition, for a feature with at most B bins and total (integer) weight W: if it has at most B distinct values, each
is a bin. Otherwise v_k is the smallest value with weight(<= v_k) > floor(k * W / B), k = 1 .. B - 1, and the cuts are
the distinct v_k above the minimum. A last cut above the maximum closes the last bin. Rows of weight 0 do not count,
but their values lie between the first and the last cut too, or bins and values would send them different ways.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arboost.kernels.ops import counting
from arboost.matrix.adapt import FeatureSource, RawData, SparseData
from arboost.matrix.on_device import values_on
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

MAX_BIN_LIMIT = 65535
MAX_CATEGORIES = 65535  # codes must fit two-byte bins beside the missing code
_TILE_CELLS = 1 << 21  # counters alive at a time (16 MiB): features are handled in tiles that fit
_TILE_VALUES = 1 << 21  # values sorted, or set aside for counting, at a time (8 MiB)
STREAMED_CELLS = 1 << 24  # counters (128 MiB), and values, of a tile at most where each tile reads a source anew
_SORT_ROWS = 1 << 16  # up to here sorting a feature is cheaper than clearing and scanning its counters
_EPS = 1e-5
_NO_VALUE = np.float32(1e-5)  # XGBoost's minimum for a feature without values; its one cut is 3e-5


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of all features, one after the other; bin of x = number of the feature's cuts <= x, at most n_bins - 1."""

    ptr: np.ndarray  # (n_features + 1,) int32
    values: np.ndarray  # float32; the last of each feature lies above its maximum
    min_values: np.ndarray  # (n_features,) float32, below every value
    has_missing: np.ndarray  # (n_features,) bool
    is_categorical: np.ndarray  # (n_features,) bool: bins are codes, and have no order

    @property
    def n_features(self) -> int:
        return len(self.min_values)

    @cached_property
    def n_bins(self) -> np.ndarray:
        """Bins of each feature, without the one for missing values: (n_features,) int32."""
        return np.diff(self.ptr)

    @cached_property
    def digest(self) -> str:
        """The same for the same bins."""
        whole = hashlib.sha256()
        for array in (self.ptr, self.values, self.min_values, self.has_missing, self.is_categorical):
            whole.update(array.tobytes())
        return whole.hexdigest()


class _Picked:
    """The values picked so far for a tile of features: slots 1 .. n_slots[f] of row f, as the kernels need them."""

    def __init__(self, n_bins: np.ndarray, most_values: int = MAX_BIN_LIMIT):
        n_features = len(n_bins)
        table = (n_features, 2 * (min(int(n_bins.max()), most_values) + 2))
        self.n_bins = n_bins
        self.n_slots = np.zeros(n_features, np.int64)
        self.bases = np.zeros(table, np.int64)  # weight below the slot
        self.prefixes = np.zeros(table, np.uint32)  # leading bits of its keys
        self.totals = np.zeros(n_features, np.int64)
        self.all_kept = np.ones(n_features, np.bool_)

    def share(self, ctx: Context) -> None:
        """Adds up the tables of all workers, of which at most one is not empty."""
        for table in (self.n_slots, self.bases, self.prefixes, self.totals):
            ctx.comm.allreduce_sum(table)
        self.all_kept = ctx.comm.allreduce_max((~self.all_kept).astype(np.int64)) == 0

    def cuts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(number of cuts, minimum) of every feature and the cuts of all, from slots that hold whole keys."""
        rows = np.arange(len(self.n_bins))
        values = values_of_keys(self.prefixes)
        is_empty = self.n_slots == 0
        minimum, sentinel = bounds_of_values(values[rows, 1], values[rows, self.n_slots], is_empty)
        # The maximum was picked for its own sake: unless the last quantile falls on it, it is no cut.
        last_base = self.bases[rows, self.n_slots]
        last_rank = [int(total) * (int(n) - 1) // int(n) for total, n in zip(self.totals, self.n_bins, strict=True)]
        not_a_cut = ~self.all_kept & (np.array(last_rank) < last_base)
        n_cuts = np.maximum(self.n_slots - not_a_cut, 1)  # slots 2, 3, ... and then the sentinel
        values[rows, n_cuts + 1] = sentinel
        columns = np.arange(values.shape[1])
        return n_cuts, minimum, values[(columns >= 2) & (columns <= n_cuts[:, None] + 1)]


def bounds_of_values(smallest: np.ndarray, largest: np.ndarray, is_empty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(below every value, the last cut: above every value) of features, float32, given their extreme values."""
    low = np.where(is_empty, _NO_VALUE, smallest).astype(np.float64)
    high = np.where(is_empty, _NO_VALUE, largest).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # near the largest float the last cut is inf, as in XGBoost
        sentinel = (high + (abs(high) + _EPS)).astype(np.float32)
        minimum = np.where(is_empty, _NO_VALUE, low - (abs(low) + _EPS)).astype(np.float32)
    return minimum, np.where(np.isnan(sentinel), np.float32(np.inf), sentinel)


def make_cuts(
    ctx: Context, raw: RawData, weight: np.ndarray | None, max_bin: int, feature_types: list[str] | None = None
) -> Cuts:
    """Exact weighted quantile cuts of every feature.

    Parameters
    ----------
    ctx
        Threads and communicator.
    raw
        The data.
    weight
        (n_rows,) float32, finite and not negative, or None for all ones.
    max_bin
        Bins per feature, 2 to 65535. With max_bin = 256 a feature that has missing values gets 255, so that bins and
        the missing code fit a byte.
    feature_types
        "c" marks categorical features: their bins are their codes, whatever max_bin says.
    """
    return cut_at_weights(ctx, raw, quantize_weight(ctx, raw.n_rows, weight), max_bin, feature_types)[0]


def cut_at_weights(
    ctx: Context, raw: RawData, weights: np.ndarray, max_bin: int, feature_types: list[str] | None = None
) -> tuple[Cuts, np.ndarray]:
    """`make_cuts` for integer weights, (n_rows,) int64 or one for all; and which features have a bin for each value."""
    has_missing = ctx.comm.allreduce_max(raw.n_rows - raw.scan(ctx)) > 0
    n_bins = most_bins(has_missing, max_bin)
    shares = _Shares.of(ctx, raw)
    picked = _pick_on_device(ctx, raw, weights, n_bins, feature_types)
    if picked is not None:
        picks = [picked]
    elif shares.can_sort:
        lengths = _lengths(ctx, raw, weights)
        tiles = _tiles(raw.n_features, shares, max_bin, lengths)
        picks = [_pick_by_sorting(ctx, raw, weights, n_bins, lengths, *tile) for tile in tiles]
    else:
        source = raw.by_feature()
        tiles = _tiles(raw.n_features, shares, max_bin, np.zeros(0, np.int64))
        picks = [_pick_by_counting(ctx, source, weights, n_bins, *tile) for tile in tiles]
    parts = [(*picked.cuts(), picked.all_kept) for picked in picks]
    n_cuts, minima, values, all_kept = (np.concatenate(arrays) for arrays in zip(_NO_CUTS, *parts, strict=True))
    is_categorical = np.array([kind == "c" for kind in feature_types or [""] * raw.n_features], np.bool_)
    cuts = Cuts(np.append(0, np.cumsum(n_cuts)).astype(np.int32), values, minima, has_missing, is_categorical)
    if ctx.comm.allreduce_max(np.array([weights.min(initial=1) == 0], np.int64))[0]:
        cuts = _around_all_values(ctx, raw, cuts)
    return _cut_at_codes(ctx, raw, cuts) if is_categorical.any() else cuts, all_kept | is_categorical


def _around_all_values(ctx: Context, raw: RawData, cuts: Cuts) -> Cuts:
    """The same cuts with a first and a last one around the values of all rows, also of those that weigh nothing."""
    low, high = _range_of_values(ctx, raw)
    low, high = -ctx.comm.allreduce_max(-low), ctx.comm.allreduce_max(high)
    minima, sentinels = bounds_of_values(low, high, low > high)
    values, last = cuts.values.copy(), cuts.ptr[1:] - 1
    values[last] = np.where(low > high, values[last], np.maximum(values[last], sentinels))
    minima = np.where(low > high, cuts.min_values, np.minimum(cuts.min_values, minima))
    return replace(cuts, values=values, min_values=minima)


def _range_of_values(ctx: Context, raw: RawData) -> tuple[np.ndarray, np.ndarray]:
    """(lowest, highest) value of every feature, float32; inf and -inf where it has none."""
    low, high = np.full(raw.n_features, np.inf, np.float32), np.full(raw.n_features, -np.inf, np.float32)
    if isinstance(raw, SparseData):
        has_values = raw.scan(ctx) > 0
        found = values_of_keys(raw.key_range(ctx))
        low[has_values], high[has_values] = found[0][has_values], found[1][has_values]
        return low, high
    for _, values in raw.chunks():
        is_missing = np.isnan(values)  # not left to fmin: it takes a signalling NaN for a value
        low = np.minimum(low, np.where(is_missing, np.float32(np.inf), values).min(axis=0, initial=np.inf))
        high = np.maximum(high, np.where(is_missing, np.float32(-np.inf), values).max(axis=0, initial=-np.inf))
    return low, high


def _cut_at_codes(ctx: Context, raw: RawData, cuts: Cuts) -> Cuts:
    """The same cuts for numerical features; one bin for every code 0 .. largest of the categorical ones."""
    features = np.flatnonzero(cuts.is_categorical)
    low, high = _range_of_codes(ctx, raw, features)
    low, high = -ctx.comm.allreduce_max(-low), ctx.comm.allreduce_max(high)
    check_codes(features, low, high, raw.feature_names)
    pieces = [cuts.values[a:b] for a, b in pairwise(cuts.ptr.tolist())]
    minima = cuts.min_values.copy()
    for f, largest in zip(features.tolist(), high.tolist(), strict=True):
        pieces[f], minima[f] = np.arange(1, int(largest) + 2, dtype=np.float32), 0.0
    ptr = np.append(0, np.cumsum([len(piece) for piece in pieces])).astype(np.int32)
    return replace(cuts, ptr=ptr, values=np.concatenate(pieces), min_values=minima)


def check_codes(features: np.ndarray, low: np.ndarray, high: np.ndarray, names: list[str] | None) -> None:
    """Refuse categorical features whose smallest or largest code cannot be one."""
    wrong = (low < 0) | (high >= MAX_CATEGORIES)
    if wrong.any():
        f = int(features[wrong.argmax()])
        raise XGBoostError(
            f"Invalid categorical value in feature {names[f] if names else f}: codes must be "
            f"0, 1, 2, ... below {MAX_CATEGORIES}. Encode the categories first, or pass a data frame with them."
        )


def _range_of_codes(ctx: Context, raw: RawData, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lowest or 0, highest or 0) value of each of these features; of sparse data only entries are looked at.

    A value that is no whole number, and so no code, makes the lowest negative.
    """
    if isinstance(raw, SparseData):
        values = values_of_keys(raw.key_range(ctx))[:, features]
        values[:, raw.scan(ctx)[features] == 0] = 0
        values[0, np.isin(features, raw.indices[raw.values > np.floor(raw.values)])] = -1
        return np.minimum(values[0], 0).astype(np.float64), np.maximum(values[1], 0).astype(np.float64)
    low, high = np.zeros(len(features)), np.zeros(len(features))
    for _, values in raw.chunks():
        codes = values[:, features]
        if raw.categories is None:  # codes that a user has made
            low = np.fmin(low, -np.fmax.reduce(codes - np.floor(codes), axis=0, initial=0))
        low = np.fmin(low, np.fmin.reduce(codes, axis=0, initial=0))
        high = np.fmax(high, np.fmax.reduce(codes, axis=0, initial=0))
    return low, high


_NO_CUTS = (np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.bool_))


def check_max_bin(max_bin: int) -> None:
    """Refuses a number of bins that no page can hold."""
    if not 2 <= max_bin <= MAX_BIN_LIMIT:
        raise XGBoostError(f"`max_bin` must be equal to or greater than 2 and at most {MAX_BIN_LIMIT}, got {max_bin}.")


def most_bins(has_missing: np.ndarray, max_bin: int) -> np.ndarray:
    """(n_features,) int64: bins that features may have; 256 must fit a byte together with the missing code."""
    check_max_bin(max_bin)
    return np.where(has_missing & (max_bin == 256), 255, max_bin).astype(np.int64)


def quantize_weight(ctx: Context, n_rows: int, weight: np.ndarray | None) -> np.ndarray:
    """Weights as int64 on a power-of-two scale that keeps the sum over all workers' rows below 2**62; [1] for None.

    A positive weight stays positive, however small it is beside the largest.
    """
    if weight is None:
        return np.ones(1, np.int64)
    all_rows = int(ctx.comm.allreduce_sum(np.array([n_rows], np.int64))[0])
    largest = float(ctx.comm.allreduce_max(np.array([weight.max(initial=0.0)], np.float64))[0])
    bits = min(40, 61 - all_rows.bit_length())
    scaled = weight.astype(np.float64)
    np.ldexp(scaled, bits - int(np.frexp(largest)[1]), out=scaled)
    np.maximum(np.rint(scaled, out=scaled), 1.0, out=scaled)
    scaled[weight <= 0] = 0.0
    return scaled.astype(np.int64)


def values_of_keys(keys: np.ndarray) -> np.ndarray:
    """float32 values of sort keys."""
    zero = np.uint32(counting.KEY_ZERO)
    return np.where(keys >= zero, keys - zero, (zero - keys) | zero).view(np.float32)


def keys_of_values(values: np.ndarray) -> np.ndarray:
    """Sort keys of float32 values without NaN."""
    bits = values.view(np.uint32)
    zero = np.uint32(counting.KEY_ZERO)
    magnitude = bits & ~zero
    return np.where(bits > zero, zero - magnitude, zero + magnitude)


class _Shares(NamedTuple):
    """What the workers' shares are like together: the same answer on every worker, so that all take the same steps."""

    can_sort: bool  # one worker holds all rows, and sorting them is cheaper than counting
    is_sparse: bool  # whether the rows, or some of them, are
    n_streamed: int  # values of the largest share that is read anew for every tile

    @classmethod
    def of(cls, ctx: Context, raw: RawData) -> "_Shares":
        n_streamed = raw.n_rows * raw.n_features if raw.is_streamed else 0
        is_sparse = isinstance(raw, SparseData) and raw.n_rows > 0
        most_rows, sparse, n_streamed = ctx.comm.allreduce_max(np.array([raw.n_rows, is_sparse, n_streamed], np.int64))
        all_rows = ctx.comm.allreduce_sum(np.array([raw.n_rows], np.int64))[0]
        can_sort = all_rows == most_rows and (all_rows <= _SORT_ROWS or sparse)
        return cls(bool(can_sort), bool(sparse), int(n_streamed))


def _tiles(n_features: int, shares: _Shares, max_bin: int, lengths: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of features handled together, so that tables and buffers stay bounded; no lengths: by counting."""
    # Where each tile reads a source anew, tiles are wider; their tables still stay below the size of the page to come,
    # which may be larger than memory if it goes to disk.
    n_page = shares.n_streamed
    if len(lengths):
        cost = np.maximum(lengths, 4 * np.minimum(lengths, max_bin))  # of its values, or of its slots
        # Every tile of sparse data looks at all entries; two bytes for each are not more than the page to come.
        most = max(_TILE_VALUES // 2, -(-int(cost.sum()) // 2)) if shares.is_sparse else _TILE_VALUES
        load = (np.cumsum(cost) - cost) // max(most, min(n_page // 2, STREAMED_CELLS))
    else:
        n_cells = max(_TILE_CELLS, min(n_page // 4, STREAMED_CELLS))
        load = np.arange(n_features) // max(1, n_cells // cells_of_feature(max_bin))
    edges = [0, *(np.flatnonzero(np.diff(load)) + 1).tolist(), n_features]
    return [(first, stop) for first, stop in pairwise(edges) if first < stop]


def cells_of_feature(max_bin: int) -> int:
    """Counters that a feature needs at most."""
    return max(256, max_bin + 2) * 256


def _is_single(ctx: Context, raw: SparseData, weights: np.ndarray) -> np.ndarray:
    """Features of which one value stands for all: they are equal, and all rows count."""
    low, high = raw.key_range(ctx)
    return (low == high) & (weights.min(initial=1) > 0)


def _lengths(ctx: Context, raw: RawData, weights: np.ndarray) -> np.ndarray:
    """How many values of each feature are sorted, on the worker that has any."""
    lengths = np.full(raw.n_features, raw.n_rows, np.int64)
    if isinstance(raw, SparseData):
        lengths = np.where(_is_single(ctx, raw, weights), 1, raw.scan(ctx))
    return ctx.comm.allreduce_max(lengths)


def _values_of_sparse(
    ctx: Context, raw: SparseData, first: int, stop: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(column_ptr, values, weights) of features first..stop, but one value where that has the same cuts as all."""
    is_single = _is_single(ctx, raw, weights)[first:stop]
    ptr = np.append(0, np.cumsum(np.where(is_single, 1, raw.scan(ctx)[first:stop])))
    values = np.empty(ptr[-1], np.float32)
    values[ptr[:-1][is_single]] = values_of_keys(raw.key_range(ctx)[0, first:stop][is_single])
    rows = np.zeros(0 if len(weights) == 1 else len(values), np.int32)
    several = np.flatnonzero(~is_single)
    if len(several):
        raw.gather(first + several, ptr[several], rows, values)
    return ptr, values, weights if len(weights) == 1 else weights[rows]


def _pick_by_sorting(
    ctx: Context, source: RawData, weights: np.ndarray, n_bins: np.ndarray, lengths: np.ndarray, first: int, stop: int
) -> _Picked:
    """Picks by sorting each feature's values."""
    picked = _Picked(n_bins[first:stop], int(lengths[first:stop].max()))
    if isinstance(source, SparseData):
        column_ptr, values, entry_weights = _values_of_sparse(ctx, source, first, stop, weights)
    else:
        column_ptr, values, _ = source.feature_values(ctx, first, stop)
        entry_weights = weights if len(weights) == 1 else np.tile(weights, stop - first)
    ctx.run_ranges(
        stop - first, 1, counting.pick_sorted,
        column_ptr, values.view(np.uint32), entry_weights,
        picked.n_bins, picked.n_slots, picked.bases, picked.prefixes, picked.totals, picked.all_kept,
    )  # fmt: skip
    picked.share(ctx)
    return picked


def _pick_by_counting(
    ctx: Context, source: FeatureSource, weights: np.ndarray, n_bins: np.ndarray, first: int, stop: int
) -> _Picked:
    """Picks by three levels of counting, each within the cells that the last one kept."""
    picked = _Picked(n_bins[first:stop])
    features = np.arange(stop - first)
    counts, low_bits = _count_top(ctx, source, weights, first, stop)
    picked.totals[:] = counts.sum(axis=1)
    slots = _pick(ctx, picked, counts, features, 16)
    del counts  # the next level's take its place
    deep_slots = np.zeros((len(features), 0), np.int32)
    for shift in (16, 8):
        # Where no value has any of the lower bits, the prefix is already the value.
        below = ctx.comm.allreduce_max(low_bits & np.uint32((1 << shift) - 1)) > 0
        goes_on = below[features]
        exact = features[~goes_on]
        picked.prefixes[exact] <<= np.uint32(shift)
        features, deep_slots = features[goes_on], deep_slots[goes_on] if len(exact) else deep_slots
        if len(features):
            counts = _count_deeper(ctx, source, weights, (first, stop), features, slots, deep_slots, picked.n_slots)
            deep_slots = _pick(ctx, picked, counts, features, 8)
            del counts
    return picked


def _pick_on_device(
    ctx: Context, raw: RawData, weights: np.ndarray, n_bins: np.ndarray, feature_types: list[str] | None
) -> _Picked | None:
    """Picks by counting on the context's device; None where the CPU has to."""
    values = values_on(ctx, raw, feature_types)
    if values is None:
        return None
    found, picked = values.pick(weights, n_bins), _Picked(n_bins)
    width = found.bases.shape[1]
    picked.bases[:, :width], picked.prefixes[:, :width] = found.bases, found.prefixes
    picked.n_slots, picked.totals, picked.all_kept = found.n_slots, found.totals, found.all_kept
    return picked


def _count_top(
    ctx: Context, source: FeatureSource, weights: np.ndarray, first: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """Level 1: weight of every 16-bit prefix of the keys, missing values left out, and the bits that occur in keys."""
    counts, low_bits = np.zeros((stop - first, 65536), np.int64), np.zeros(stop - first, np.uint32)
    for first_row, values, column in source.tiles(first, stop):
        part = _part(weights, first_row, len(values))
        ctx.run_ranges(stop - first, 1, counting.count_top_bits, values.view(np.uint32), column, part, counts, low_bits)
    ctx.comm.allreduce_sum(counts)
    counts[:, counting.MISSING_CELL] = 0
    return counts, low_bits


def _pick(ctx: Context, picked: _Picked, counts: np.ndarray, features: np.ndarray, n_bits: int) -> np.ndarray:
    """Which cells of `counts` become slots of the next level: their numbers, 0 for none."""
    slots = np.zeros(counts.shape, np.int32)
    ctx.run_ranges(
        len(features), 1, counting.pick_cells,
        counts, features, n_bits, picked.totals, picked.n_bins, picked.n_slots, picked.bases, picked.prefixes,
        picked.all_kept, slots,
    )  # fmt: skip
    return slots


def _count_deeper(
    ctx: Context, source: FeatureSource, weights: np.ndarray, tile: tuple[int, int], features: np.ndarray,
    slots: np.ndarray, deep_slots: np.ndarray, n_slots: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Counts of the cells in `features`' slots, one level below deep_slots (or below slots, if that is empty)."""
    n_features = len(features)
    counts = np.zeros((n_features, (int(n_slots[features].max()) + 1) << 8), np.int64)
    has_weights = len(weights) > 1
    n_rows = min(source.n_rows, max(1, _TILE_VALUES // (n_features * (3 if has_weights else 1))))
    hits = np.empty((n_features, n_rows + 1), np.uint32)
    hit_weights = np.ones((n_features, n_rows + 1 if has_weights else 1), np.int64)
    for first_row, values, column in source.tiles(*tile):
        for start in range(0, len(values), n_rows):
            block = values[start : start + n_rows].view(np.uint32)
            part = _part(weights, first_row + start, len(block))
            ctx.run_ranges(
                n_features, 1, counting.count_low_bits,
                block, column, part, features, slots, deep_slots, hits, hit_weights, counts,
            )  # fmt: skip
    return ctx.comm.allreduce_sum(counts)


def _part(weights: np.ndarray, first_row: int, n_rows: int) -> np.ndarray:
    return weights[first_row : first_row + n_rows] if len(weights) > 1 else weights
