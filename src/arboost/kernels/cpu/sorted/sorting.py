"""Column blocks: every feature's present values in ascending order, each with its row (the paper, section 4.1).

A value and its row travel as one uint64, sort key above row id, through a stable radix sort of three 11-bit digits.
"""

from numba import uint32, uint64

from arboost.kernels.cpu.data.counting import KEY_MISSING, KEY_ZERO, key_of_bits
from arboost.kernels.jit import kernel, part

DIGIT_BITS, N_DIGITS = 11, 3
N_CELLS = 1 << DIGIT_BITS


@part
def _collect(bits, entry_rows, first, last, entries, ends):
    """Packs the present values of one column and counts their digits (ends); returns how many there are."""
    for digit in range(N_DIGITS):
        for value in range(N_CELLS):
            ends[digit, value] = 0
    n = uint64(0)
    low = uint64(N_CELLS - 1)
    has_rows = entry_rows.shape[0] > 0
    for j in range(uint64(first), uint64(last)):
        key = key_of_bits(bits[j])
        if key != uint32(KEY_MISSING):
            row = uint64(uint32(entry_rows[j])) if has_rows else j - uint64(first)
            entries[n] = (uint64(key) << uint64(32)) | row
            n += uint64(1)
            ends[uint64(0), uint64(key) & low] += 1
            ends[uint64(1), (uint64(key) >> uint64(DIGIT_BITS)) & low] += 1
            ends[uint64(2), uint64(key) >> uint64(2 * DIGIT_BITS)] += 1
    return n


@part
def _sort_digit(entries, n, digit, ends, out):
    """One pass, stable; False, and nothing written, where all entries have the same digit."""
    shift = uint64(32) + uint64(DIGIT_BITS) * uint64(digit)
    low = uint64(N_CELLS - 1)
    if n == uint64(0) or ends[digit, (entries[uint64(0)] >> shift) & low] == n:
        return False
    position = uint64(0)
    for value in range(uint64(N_CELLS)):
        count = ends[digit, value]
        ends[digit, value] = position
        position += count
    for i in range(n):
        value = (entries[i] >> shift) & low
        to = ends[digit, value]
        ends[digit, value] = to + uint64(1)
        out[to] = entries[i]
    return True


@part
def bits_of_key(key):
    """The float32's bits of a sort key; zero is +0.0."""
    zero = uint32(KEY_ZERO)
    return key - zero if key >= zero else (zero - key) | zero


@kernel
def sort_columns(column_ptr, bits, entry_rows, ptr, entries, spare, ends, rows, value_bits, start, stop):
    """rows and value_bits (OUT) at ptr[f] .. ptr[f + 1]: column f's present values ascending, ties by row.

    bits[column_ptr[f] : column_ptr[f + 1]] are its float32 values, NaN for missing, and entry_rows their ascending row
    ids; where there are none of these, they are 0, 1, 2, ... entries, spare (longest column,) uint64 and
    ends (N_DIGITS, N_CELLS) uint64 are scratch memory.
    """
    for f in range(start, stop):
        n = _collect(bits, entry_rows, column_ptr[f], column_ptr[f + 1], entries, ends)
        source, target = entries, spare
        for digit in range(N_DIGITS):
            if _sort_digit(source, n, digit, ends, target):
                source, target = target, source
        first = uint64(ptr[f])
        for i in range(n):
            entry = source[i]
            rows[first + i] = uint32(entry & uint64(0xFFFFFFFF))
            value_bits[first + i] = bits_of_key(uint32(entry >> uint64(32)))
