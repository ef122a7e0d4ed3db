"""Quantiles of the residuals of many leaves at once, by radix selection: no sorting, no dependence on row order.

`rows` holds the row ids leaf after leaf, leaf l's at leaf_ptr[l] : leaf_ptr[l + 1]; an empty `rows` means 0, 1, 2, ...
Residuals label - margin are float32, kept as uint32 `keys` (scratch, one per row) that sort as the floats do.
Selection fixes eight bits of the wanted key at a time, by counting the keys that agree with it so far.
"""

import numpy as np
from numba import float32, float64, int64, uint32, uint64

from arboost.kernels.elementary import bits_of, float_of
from arboost.kernels.jit import kernel, scalar

_SIGN = 0x80000000
_ALL = 0xFFFFFFFF


@scalar
def key_of(x):
    """A uint32 that orders as the float32 x; -0 and 0 are one, every NaN is above all numbers."""
    if x != x:  # which of the many NaN it is differs from processor to processor
        return uint32(_ALL)
    bits = bits_of(x + float32(0.0))
    return bits ^ (uint32(_ALL) if bits & uint32(_SIGN) else uint32(_SIGN))


@scalar
def value_of(key):
    """The float32 whose key this is."""
    return float_of(uint32(key ^ (uint32(_SIGN) if key & uint32(_SIGN) else uint32(_ALL))))


@scalar
def place_of(alpha, n):
    """(rank, share of the way to the next) of the alpha-quantile of n > 0 values; n is a float."""
    position = alpha * (n + 1.0)
    rank = int64(position) - 1
    if alpha <= 1.0 / (n + 1.0):
        return int64(0), 0.0
    if alpha >= n / (n + 1.0):
        return int64(n) - 1, 0.0
    return rank, (position - 1.0) - float64(rank)


@scalar
def goal_of(total, unit, alpha):
    """The weight that is to be reached in a leaf with a total of so many units, in float32 as in XGBoost."""
    return float32(float64(float32(float64(total) * unit)) * alpha)


@scalar
def reaches(reached, unit, goal):
    """Whether a weight of so many units is enough."""
    return float32(float64(reached) * unit) >= goal


@scalar
def _row_at(rows, i):
    return uint64(rows[i]) if rows.shape[0] else i


@scalar
def _fill_keys(rows, label, margin, keys, first, last):
    """keys[first:last] (OUT) of one leaf's residuals."""
    for i in range(first, last):
        r = _row_at(rows, i)
        keys[i] = key_of(label[r] - margin[r])


@scalar
def _select_rank(keys, first, last, rank, counts):
    """The key of this rank among keys[first:last], and whether the next rank has the same."""
    prefix = uint32(0)
    mask = uint32(0)
    more = False
    for step in range(4):
        shift = uint32(24 - 8 * step)
        for digit in range(256):
            counts[digit] = 0
        for i in range(first, last):
            if keys[i] & mask == prefix:
                counts[uint64((keys[i] >> shift) & uint32(255))] += 1
        digit = uint64(0)
        while rank >= counts[digit]:
            rank -= counts[digit]
            digit += uint64(1)
        prefix |= uint32(digit) << shift
        mask |= uint32(255) << shift
        more = rank + 1 < counts[digit]
    return prefix, more


@scalar
def _next_above(keys, first, last, key):
    """The smallest of keys[first:last] above `key`."""
    best = uint32(_ALL)
    for i in range(first, last):
        best = min(best, keys[i]) if keys[i] > key else best
    return best


@kernel
def leaf_quantiles(rows, leaf_ptr, label, margin, alpha, keys, values, start, stop):
    """values[start:stop] (OUT) = alpha-quantile of each leaf's residuals; NaN for a leaf without rows.

    The quantile is interpolated at position alpha (n + 1) of the n sorted residuals, counted from 1.
    """
    counts = np.empty(256, np.int64)
    for leaf in range(start, stop):
        first, last = uint64(leaf_ptr[leaf]), uint64(leaf_ptr[leaf + 1])
        n = float64(last - first)
        if n == 0.0:
            values[leaf] = np.nan
            continue
        _fill_keys(rows, label, margin, keys, first, last)
        rank, share = place_of(alpha, n)
        key, more = _select_rank(keys, first, last, rank, counts)
        low = value_of(key)
        high = low if more or share == 0.0 else value_of(_next_above(keys, first, last, key))
        values[leaf] = float64(low) + share * float64(high - low)


@kernel
def weighted_leaf_quantiles(rows, leaf_ptr, label, margin, weight, unit, alpha, keys, values, start, stop):
    """values[start:stop] (OUT) = smallest residual whose cumulated weight reaches alpha of its leaf's weight.

    `weight` holds int64 multiples of `unit`. As in XGBoost the comparison is made in float32.
    """
    counts = np.empty((256, 2), np.int64)  # residuals, and their weight
    for leaf in range(start, stop):
        first, last = uint64(leaf_ptr[leaf]), uint64(leaf_ptr[leaf + 1])
        if first == last:
            values[leaf] = np.nan
            continue
        _fill_keys(rows, label, margin, keys, first, last)
        total = int64(0)
        for i in range(first, last):
            total += weight[_row_at(rows, i)]
        goal = goal_of(total, unit, alpha)
        prefix = uint32(0)
        mask = uint32(0)
        below = int64(0)  # weight of all keys below the prefix
        for step in range(4):
            shift = uint32(24 - 8 * step)
            for digit in range(256):
                counts[digit, 0] = 0
                counts[digit, 1] = 0
            for i in range(first, last):
                if keys[i] & mask == prefix:
                    digit = uint64((keys[i] >> shift) & uint32(255))
                    counts[digit, 0] += 1
                    counts[digit, 1] += weight[_row_at(rows, i)]
            chosen = uint32(0)
            passed = int64(0)
            reached = below
            for digit in range(256):
                if counts[digit, 0] == 0:
                    continue
                chosen = uint32(digit)  # the last one with residuals, should rounding keep all below the goal
                passed = reached
                reached += counts[digit, 1]
                if reaches(reached, unit, goal):
                    break
            below = passed
            prefix |= chosen << shift
            mask |= uint32(255) << shift
        values[leaf] = value_of(prefix)


# ---- the same steps one by one, for leaves whose rows lie on several workers ----


@kernel
def fill_keys(rows, leaf_ptr, label, margin, keys, start, stop):
    """keys (OUT) of the residuals of leaves start..stop."""
    _fill_keys(rows, label, margin, keys, uint64(leaf_ptr[start]), uint64(leaf_ptr[stop]))


@kernel
def count_digits(rows, leaf_ptr, keys, weight, prefix, step, counts, start, stop):
    """counts[leaf, digit] (OUT) += (1, weight) of the leaf's keys that begin with prefix, by their next eight bits.

    A weight of one value is that of all rows.
    """
    shift = uint32(24 - 8 * step)
    mask = uint32(uint64(_ALL) << uint64(32 - 8 * step))
    for leaf in range(start, stop):
        for i in range(uint64(leaf_ptr[leaf]), uint64(leaf_ptr[leaf + 1])):
            if keys[i] & mask == prefix[leaf]:
                digit = uint64((keys[i] >> shift) & uint32(255))
                counts[leaf, digit, 0] += 1
                counts[leaf, digit, 1] += weight[_row_at(rows, i) if weight.shape[0] > 1 else uint64(0)]


@kernel
def next_keys(leaf_ptr, keys, chosen, above, start, stop):
    """above[leaf] (OUT) = the smallest of the leaf's keys above the chosen one."""
    for leaf in range(start, stop):
        first, last = uint64(leaf_ptr[leaf]), uint64(leaf_ptr[leaf + 1])
        above[leaf] = int64(_next_above(keys, first, last, uint32(chosen[leaf])))


@kernel
def values_of_keys(keys, values, start, stop):
    """values (OUT): the float32 whose keys these are."""
    for i in range(start, stop):
        values[i] = value_of(keys[i])
