"""Exact weighted quantiles: radix histograms of integers for large data, a radix sort for small data.

A float32 becomes a uint32 key of the same order (-0.0 and +0.0 share one key, NaN has the largest). Three levels of
counters look at 16, 8 and 8 bits of the key. After each, `pick_cells` keeps the cells that hold a wanted rank (or all
of them while they are few: that finds the distinct values) and numbers them 1, 2, ... as *slots* in which the next
level counts; slot 0 is for everything else. Counters only add, so chunks, threads and workers cannot change them.

Shapes: bits (n_rows, n_columns) uint32 = float32 data, feature f in column first_column + f; weights (n_rows,) int64
or one value for all rows; counts (n_features, n_cells) int64; slots (n_features, n_cells) int32.
"""

import numpy as np
from numba import int64, uint8, uint32, uint64

from arboost.kernels.jit import kernel, scalar

KEY_ZERO = 0x80000000
KEY_MISSING = 0xFFFFFFFF
LARGEST_FINITE = 0x7F800000  # bits of +inf: a larger magnitude is NaN
MISSING_CELL = 65535  # of level 1; no number gets here, +inf has cell 0xFF80
ROW_BLOCK = 128  # rows read for one feature before the next, small enough to stay in L1


@scalar
def key_of_bits(bits):
    """Order-preserving uint32 of a float32's bits; NaN (either sign) becomes KEY_MISSING."""
    magnitude = bits & uint32(0x7FFFFFFF)
    key = uint32(KEY_ZERO) - magnitude if bits > uint32(KEY_ZERO) else uint32(KEY_ZERO) + magnitude
    return uint32(KEY_MISSING) if magnitude > uint32(LARGEST_FINITE) else key


@scalar
def index_mask(values):
    """i & mask is i, or 0 where one value stands for all."""
    return uint64(0) if values.shape[0] == 1 else ~uint64(0)


@kernel
def count_top_bits(bits, first_column, weights, counts, low_bits, start, stop):
    """Adds each row's weight to counts[f, key >> 16] (OUT), ors its key into low_bits[f] (OUT)."""
    column = uint64(first_column)
    mask = index_mask(weights)
    seen = np.zeros(stop - start, np.uint32)  # not low_bits itself: threads would share its cache lines
    for i in range(uint64(bits.shape[0])):
        weight = weights[i & mask]
        for f in range(uint64(start), uint64(stop)):
            key = key_of_bits(bits[i, column + f])
            counts[f, uint64(key >> uint32(16))] += weight
            seen[f - uint64(start)] |= key if key != uint32(KEY_MISSING) else uint32(0)
    for f in range(start, stop):
        low_bits[f] |= seen[f - start]


@kernel
def count_low_bits(bits, first_column, weights, features, slots, deep_slots, hits, hit_weights, counts, start, stop):
    """Levels 2 and 3: adds each row's weight to the cell of its slot (counts, OUT).

    Level 2 (deep_slots has no cells): counts[a, slots[f, key >> 16] * 256 + third byte]. Level 3 looks up that cell's
    slot in deep_slots[a] and counts the last byte in it. Here f = features[a], a = start .. stop. Rows outside of
    every slot are dropped first: hits (n_features, n_rows + 1) and hit_weights (likewise, or (n_features, 1)) take
    slot << 16 | low half of the others, so that counting touches one feature's counters at a time. (Finite floats have
    65,281 prefixes of 16 bits: the slot fits.)
    """
    column = uint64(first_column)
    mask = index_mask(weights)
    hit_mask = uint64(0) if hit_weights.shape[1] == 1 else ~uint64(0)
    is_deep = deep_slots.shape[1] > 0
    n_hits = np.zeros(stop - start, np.uint64)
    n_rows = uint64(bits.shape[0])
    block = uint64(0)
    while block < n_rows:
        block_end = min(block + uint64(ROW_BLOCK), n_rows)
        for a in range(uint64(start), uint64(stop)):
            f = uint64(features[a])
            n = n_hits[a - uint64(start)]
            for i in range(block, block_end):
                key = key_of_bits(bits[i, column + f])
                slot = uint32(slots[f, uint64(key >> uint32(16))])
                hits[a, n] = (slot << uint32(16)) | (key & uint32(0xFFFF))
                hit_weights[a, n & hit_mask] = weights[i & mask]
                n += uint64(slot != uint32(0))
            n_hits[a - uint64(start)] = n
        block = block_end
    for a in range(uint64(start), uint64(stop)):
        for j in range(n_hits[a - uint64(start)]):
            hit = hits[a, j]
            cell = uint64(hit >> uint32(8))
            if is_deep:
                cell = (uint64(deep_slots[a, cell]) << uint64(8)) + uint64(uint8(hit))
            counts[a, cell] += hit_weights[a, j & hit_mask]


@scalar
def wanted_rank(k, total, n_bins):
    """Rank k = 0 .. n_bins: 0 asks for the minimum, n_bins for the maximum, the others floor(k * total / n_bins)."""
    if k >= n_bins:
        return total - int64(1)
    whole = total // n_bins
    return whole * k + (total - whole * n_bins) * k // n_bins  # k * total could exceed 64 bits


@kernel
def pick_cells(counts, features, n_bits, totals, n_bins, n_slots, bases, prefixes, all_kept, slots, start, stop):
    """Keeps the cells that the next level must look into: rewrites n_slots, bases, prefixes, all_kept (IN/OUT).

    Feature f = features[a] has slots 1 .. n_slots[f] (level 1: slot 0 alone, 65536 cells wide) in key order, and
    counts[a] their cells of n_bits bits each. bases[f, s] is the weight below slot s and prefixes[f, s] the leading
    bits of its keys; the new tables are written to the upper half of these rows while the old ones are read.
    all_kept[f]: every cell with a weight has been kept so far, which goes on while they are at most n_bins[f].
    slots[a, cell] (OUT, zeros before) is the kept cell's number.
    """
    width = uint64(1) << uint64(n_bits)
    half = uint64(bases.shape[1] // 2)
    for a in range(start, stop):
        f = features[a]
        first_slot = uint64(0) if n_bits == 16 else uint64(1)
        last_slot = uint64(n_slots[f])
        if all_kept[f]:
            n_filled = int64(0)
            for cell in range(first_slot * width, (last_slot + uint64(1)) * width):
                n_filled += int64(counts[a, cell] > 0)
            all_kept[f] = n_filled <= n_bins[f]
        keep_all = all_kept[f]
        n_kept = uint64(0)
        k = int64(0)
        rank = wanted_rank(k, totals[f], n_bins[f])
        for slot in range(first_slot, last_slot + uint64(1)):
            below = bases[f, slot]
            prefix = prefixes[f, slot] << uint32(n_bits)
            for offset in range(width):
                count = counts[a, slot * width + offset]
                if count == 0:
                    continue
                above = below + count
                if keep_all or rank < above:
                    n_kept += uint64(1)
                    bases[f, half + n_kept] = below
                    prefixes[f, half + n_kept] = prefix + uint32(offset)
                    slots[a, slot * width + offset] = n_kept
                while rank < above and k <= n_bins[f]:
                    k += 1
                    rank = wanted_rank(k, totals[f], n_bins[f]) if k <= n_bins[f] else totals[f]
                below = above
        n_slots[f] = n_kept
        for slot in range(uint64(1), n_kept + uint64(1)):
            bases[f, slot] = bases[f, half + slot]
            prefixes[f, slot] = prefixes[f, half + slot]


@scalar
def sort_pairs(keys, weights, n, spare_keys, spare_weights):
    """Radix sort of keys[:n] in three digits, weights[:n] along with them unless it has one value.

    The sorted pairs end up in the spare arrays.
    """
    mask = index_mask(weights)
    ends = np.zeros((3, 2048), np.uint64)
    for i in range(n):
        key = uint64(keys[i])
        ends[uint64(0), key & uint64(2047)] += uint64(1)
        ends[uint64(1), (key >> uint64(11)) & uint64(2047)] += uint64(1)
        ends[uint64(2), key >> uint64(22)] += uint64(1)
    for digit in range(uint64(3)):
        position = uint64(0)
        for value in range(uint64(2048)):
            position += ends[digit, value]
            ends[digit, value] = position - ends[digit, value]
        shift = uint64(11) * digit
        for i in range(n):
            value = (uint64(keys[i]) >> shift) & uint64(2047)
            to = ends[digit, value]
            ends[digit, value] = to + uint64(1)
            spare_keys[to] = keys[i]
            spare_weights[to & mask] = weights[i & mask]
        keys, spare_keys = spare_keys, keys
        weights, spare_weights = spare_weights, weights


@kernel
def pick_sorted(column_ptr, bits, weights, n_bins, n_slots, bases, prefixes, totals, all_kept, start, stop):
    """What the three levels of counting find, by sorting: n_slots, bases, prefixes (now whole keys), ... (OUT).

    Values column_ptr[f] .. column_ptr[f + 1] of `bits` are those of feature f; weights belong to them one by one.
    """
    mask = index_mask(weights)
    longest = int64(1)
    for f in range(start, stop):
        longest = max(longest, column_ptr[f + 1] - column_ptr[f])
    keys, sorted_keys = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    n_weights = longest if mask else int64(1)
    own, sorted_weights = np.ones(n_weights, np.int64), np.ones(n_weights, np.int64)
    for f in range(start, stop):
        n = uint64(0)
        total = int64(0)
        for j in range(uint64(column_ptr[f]), uint64(column_ptr[f + 1])):
            key = key_of_bits(bits[j])
            weight = weights[j & mask]
            keys[n] = key
            own[n & mask] = weight
            is_counted = (key != uint32(KEY_MISSING)) & (weight > 0)
            total += weight if is_counted else int64(0)
            n += uint64(is_counted)
        totals[f] = total
        sort_pairs(keys, own, n, sorted_keys, sorted_weights)
        n_distinct = int64(n > 0)
        for i in range(uint64(1), n):
            n_distinct += int64(sorted_keys[i] != sorted_keys[i - uint64(1)])
        all_kept[f] = n_distinct <= n_bins[f]
        keep_all = all_kept[f]
        n_kept = int64(0)
        k = int64(0)
        rank = wanted_rank(k, total, n_bins[f])
        below = int64(0)
        i = uint64(0)
        while i < n:
            key = sorted_keys[i]
            above = below
            while i < n and sorted_keys[i] == key:
                above += sorted_weights[i & mask]
                i += uint64(1)
            if keep_all or rank < above:
                n_kept += 1
                bases[f, n_kept] = below
                prefixes[f, n_kept] = key
            while rank < above and k <= n_bins[f]:
                k += 1
                rank = wanted_rank(k, total, n_bins[f]) if k <= n_bins[f] else total
            below = above
        n_slots[f] = n_kept
