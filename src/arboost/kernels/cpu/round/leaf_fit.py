"""What a linear fit in each leaf needs of the rows: ranges of features, then sums of products, all of them integers.

`pieces` (n_pieces, 4) int64 [leaf, start, stop, place] are spans of `rows`; row r's values are values[r - first_row]. A
leaf's features are features[leaf], those from n_used[leaf] on are none. Only rows that have all of them count.
A leaf's rows lie apart, so their values are gathered once, into `packed`: from a piece's place on, feature by feature.

Within its leaf's range a feature becomes an integer z, and so do h, g and h z. Sums of a leaf, for at most K features:
[h, g | h z_i | g z_i | z_i (h z_j) for j <= i]. Scales are chosen by `tree/linear_leaves.py` so that none overflows.
"""

import numpy as np
from numba import float32, float64, int32, int64, uint64

from arboost.kernels.intrinsics import prefetch_row
from arboost.kernels.jit import kernel, part, scalar

BLOCK = 64
LEAST, MOST = np.int32(-(2**31)), np.int32(2**31 - 1)


@scalar
def _fetch(values, first_row, rows, start, stop, features, leaf, n_used):
    """Ask the cache for the values of rows[start:stop]."""
    for at in range(uint64(start), uint64(stop)):
        row = uint64(rows[at]) - uint64(first_row)
        for i in range(uint64(n_used)):
            prefetch_row(values, row, uint64(features[leaf, i]))


@scalar
def _unpack(planes, shift, row):
    """(g, h) of a row in quanta; shift > 0: both in one plane (levels/quantize.py)."""
    v = planes[0, row]
    if shift > 0:
        return v >> int64(shift), v & ((int64(1) << int64(shift)) - int64(1))
    return v, planes[1, row]


@scalar
def _find_whole(packed, place, n_rows, n_used, n, whole):
    """whole[r] (OUT) = 1 where row r of n has all values, else 0; returns how many have."""
    for r in range(uint64(n)):
        whole[r] = 1
    for i in range(uint64(n_used)):
        for r in range(uint64(n)):
            x = packed[uint64(place) + uint64(i) * uint64(n_rows) + r]
            whole[r] &= int32(x == x)
    count = int64(0)
    for r in range(uint64(n)):
        count += int64(whole[r])
    return count


@scalar
def _ordered(bits):
    """The int32 that is to others as the float32 of these bits is to theirs; and back: it is its own inverse."""
    return bits ^ ((bits >> int32(31)) & MOST)


@part
def _keep_ends(keys, place, n_rows, n_used, whole, n, ends):
    """ends (2, K) int32 (OUT): least and largest of every feature, as `_ordered` has them, of n more whole rows."""
    for i in range(uint64(n_used)):
        low, high = ends[0, i], ends[1, i]
        for r in range(uint64(n)):
            key = _ordered(keys[uint64(place) + uint64(i) * uint64(n_rows) + r])
            low = min(low, key if whole[r] != 0 else MOST)
            high = max(high, key if whole[r] != 0 else LEAST)
        ends[0, i], ends[1, i] = low, high


@kernel
def gather(pieces, rows, values, first_row, leaves, planes, shift, packed, ranges, tops, start, stop):
    """Of every piece, all OUT: its rows' values in `packed`, (float32, the same as int32); ranges (n_pieces, 2, K)
    float32, least and largest values; tops (n_pieces, 3) int64: max |g|, max |h| and the number of rows that have all
    values. leaves = (features, n_used)."""
    features, n_used = leaves
    out, keys = packed
    whole = np.empty(BLOCK, np.int32)
    ends = np.empty((2, features.shape[1]), np.int32)
    one = np.empty(1, np.int32)
    for p in range(uint64(start), uint64(stop)):
        leaf = uint64(pieces[p, 0])
        k, first, last, place = uint64(n_used[leaf]), uint64(pieces[p, 1]), uint64(pieces[p, 2]), uint64(pieces[p, 3])
        ends[0], ends[1] = MOST, LEAST
        top_g, top_h, count = int64(0), int64(0), int64(0)
        _fetch(values, first_row, rows, first, min(first + uint64(BLOCK), last), features, leaf, k)
        for at in range(first, last, uint64(BLOCK)):
            n, after = min(uint64(BLOCK), last - at), min(at + uint64(2 * BLOCK), last)
            _fetch(values, first_row, rows, at + n, after, features, leaf, k)
            to = place + at - first
            for i in range(k):
                f = uint64(features[leaf, i])
                for r in range(n):
                    out[to + i * (last - first) + r] = values[uint64(rows[at + r]) - uint64(first_row), f]
            n_whole = _find_whole(out, to, last - first, k, n, whole)
            count += n_whole
            _keep_ends(keys, to, last - first, k, whole, n, ends)
            for r in range(n):
                g, h = _unpack(planes, shift, uint64(rows[at + r]))
                g, h = g * int64(whole[r]), h * int64(whole[r])
                top_g, top_h = max(top_g, abs(g)), max(top_h, abs(h))
        if count > 0:
            for i in range(k):
                for side in range(uint64(2)):
                    one[0] = _ordered(ends[side, i])
                    ranges[p, side, i] = one.view(np.float32)[0]
        tops[p, 0], tops[p, 1], tops[p, 2] = top_g, top_h, count


@scalar
def _add_products(z, w, n, n_used, sums):
    """sums (OUT) += the products of n rows' integers: z of features, w of h, g and h z."""
    n_most = uint64(z.shape[0])
    for k in range(uint64(2) + n_used):
        total = int64(0)
        for r in range(n):
            total += int64(w[k, r])
        sums[k] += total
    at = uint64(2) + n_most
    for i in range(n_used):
        total = int64(0)
        for r in range(n):
            total += int64(z[i, r]) * int64(w[1, r])
        sums[at + i] += total
    at += n_most
    for i in range(n_used):
        for j in range(i + uint64(1)):
            total = int64(0)
            for r in range(n):
                total += int64(z[i, r]) * int64(w[uint64(2) + j, r])
            sums[at] += total
            at += uint64(1)


@kernel
def sum_products(pieces, rows, packed, leaves, planes, shift, sums, start, stop):
    """sums (n_pieces, n_sums) int64 (OUT) of every piece.

    leaves = (n_used, middles (n_leaves, K), scales (n_leaves, K + 3)): z = (x - middle) scale, with a scale for each
    feature; then those of h, of g and of the products h z. A row that lacks a value weighs nothing.
    """
    n_used, middles, scales = leaves
    n_most = uint64(middles.shape[1])
    whole, weight = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float64)
    z, w = np.empty((n_most, BLOCK), np.int32), np.empty((n_most + uint64(2), BLOCK), np.int32)
    for p in range(uint64(start), uint64(stop)):
        leaf = uint64(pieces[p, 0])
        k, first, last, place = uint64(n_used[leaf]), uint64(pieces[p, 1]), uint64(pieces[p, 2]), uint64(pieces[p, 3])
        h_scale, g_scale, hz_scale = scales[leaf, n_most], scales[leaf, n_most + 1], scales[leaf, n_most + 2]
        for at in range(first, last, uint64(BLOCK)):
            n, begin = min(uint64(BLOCK), last - at), place + at - first
            _find_whole(packed, begin, last - first, k, n, whole)
            for r in range(n):
                g, h = _unpack(planes, shift, uint64(rows[at + r]))
                weight[r] = float64(h * int64(whole[r])) * h_scale
                w[0, r] = int32(np.rint(weight[r]))
                w[1, r] = int32(np.rint(float64(g * int64(whole[r])) * g_scale))
            for i in range(k):
                middle, scale = middles[leaf, i], scales[leaf, i]
                for r in range(n):
                    x = float64(packed[begin + i * (last - first) + r])
                    scaled = (x - middle if whole[r] != 0 else 0.0) * scale
                    z[i, r] = int32(np.rint(scaled))
                    w[uint64(2) + i, r] = int32(np.rint(scaled * hz_scale * weight[r]))
            _add_products(z, w, n, k, sums[p])


@kernel
def add_values(pieces, rows, packed, leaf_values, terms, columns, term_ptr, margin, target, start, stop):
    """margin[r, target] (OUT) += the values of the pieces' rows, as `model/linear_leaves.py` has them, bit for bit.

    A leaf's constant is leaf_values[leaf], its LINEAR_TERM records are terms[term_ptr[leaf]:term_ptr[leaf + 1]], and
    the values of term t are in the piece's column columns[t].
    """
    value, whole = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.int32)
    for p in range(uint64(start), uint64(stop)):
        leaf = uint64(pieces[p, 0])
        first, last, place = uint64(pieces[p, 1]), uint64(pieces[p, 2]), uint64(pieces[p, 3])
        constant = float64(leaf_values[leaf])
        for at in range(first, last, uint64(BLOCK)):
            n, begin = min(uint64(BLOCK), last - at), place + at - first
            for r in range(n):
                value[r], whole[r] = 0.0, 1
            for t in range(uint64(term_ptr[leaf]), uint64(term_ptr[leaf + uint64(1)])):
                weight, mean, low, high = float64(terms[t].weight), float64(terms[t].mean), terms[t].low, terms[t].high
                column = begin + uint64(columns[t]) * (last - first)
                for r in range(n):
                    x = packed[column + r]
                    whole[r] &= int32(x == x)
                    value[r] += weight * (float64(min(max(x, low), high)) - mean)
            for r in range(n):
                added = float32(constant + (value[r] if whole[r] != 0 else 0.0))
                margin[uint64(rows[at + r]), uint64(target)] += added
