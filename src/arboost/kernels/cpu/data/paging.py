"""Pages of bins beside training: checksums of their bytes, rows picked out of them, and values instead of bins.

The checksum of a piece is a chain of steps h = (rotate(h) ^ word) * odd number, in eight lanes side by side. A step can
be undone, so a change of a single word always shows; other changes go unseen once in 2^64.
"""

from numba import uint64

from arboost.kernels.cpu.data.binning import ROW_BLOCK
from arboost.kernels.jit import kernel, scalar

LANE_BYTES = 64  # of all lanes: eight words


@scalar
def word_at(data, i):
    """The eight bytes from i on, lowest first: one load, once compiled."""
    low = uint64(data[i]) | uint64(data[i + uint64(1)]) << uint64(8)
    low |= uint64(data[i + uint64(2)]) << uint64(16) | uint64(data[i + uint64(3)]) << uint64(24)
    high = uint64(data[i + uint64(4)]) << uint64(32) | uint64(data[i + uint64(5)]) << uint64(40)
    return low | high | uint64(data[i + uint64(6)]) << uint64(48) | uint64(data[i + uint64(7)]) << uint64(56)


@scalar
def mixed(h, word):
    """One step of a lane."""
    return ((h << uint64(29) | h >> uint64(35)) ^ word) * uint64(0x9E3779B97F4A7C15)


@scalar
def checksum(data, first, last):
    """Of the bytes first .. last."""
    i, a, b, c, d = first, uint64(1), uint64(2), uint64(3), uint64(4)
    e, f, g, h = uint64(5), uint64(6), uint64(7), uint64(8)
    while i + uint64(LANE_BYTES) <= last:
        a, b = mixed(a, word_at(data, i)), mixed(b, word_at(data, i + uint64(8)))
        c, d = mixed(c, word_at(data, i + uint64(16))), mixed(d, word_at(data, i + uint64(24)))
        e, f = mixed(e, word_at(data, i + uint64(32))), mixed(f, word_at(data, i + uint64(40)))
        g, h = mixed(g, word_at(data, i + uint64(48))), mixed(h, word_at(data, i + uint64(56)))
        i += uint64(LANE_BYTES)
    while i < last:
        a = mixed(a, uint64(data[i]))
        i += uint64(1)
    whole = mixed(mixed(mixed(last - first, a), b), c)
    whole = mixed(mixed(mixed(whole, d), e), f)
    whole = mixed(mixed(whole, g), h)
    return whole ^ whole >> uint64(32)


@kernel
def checksums(data, ends, sums, start, stop):
    """sums[p] (OUT) of the bytes ends[p] .. ends[p + 1] of data (uint8), for pieces p = start .. stop."""
    for p in range(uint64(start), uint64(stop)):
        sums[p] = checksum(data, uint64(ends[p]), uint64(ends[p + uint64(1)]))


@kernel
def gather_rows(words, rows, first_row, picked, start, stop):
    """picked[j] (OUT) = words[rows[j] - first_row] for j = start .. stop."""
    n_words = uint64(words.shape[1])
    for j in range(uint64(start), uint64(stop)):
        i = uint64(rows[j]) - uint64(first_row)
        for w in range(n_words):
            picked[j, w] = words[i, w]


@kernel
def copy_to_columns(rows, columns, start, stop):
    """columns[c, i] (OUT) = rows[i, c] for i = start .. stop: the way back of `bundle.copy_to_rows`."""
    block = uint64(start)
    while block < uint64(stop):
        block_end = min(block + uint64(ROW_BLOCK), uint64(stop))
        for c in range(uint64(columns.shape[0])):
            for i in range(block, block_end):
                columns[c, i] = rows[i, c]
        block = block_end


@kernel
def values_of_bins(rows, lows, last, values, start, stop):
    """values[i, f] (OUT) = lows[f, code], code = rows[i, f] but at most last[f], for i = start .. stop."""
    for i in range(uint64(start), uint64(stop)):
        for f in range(uint64(values.shape[1])):
            values[i, f] = lows[f, min(uint64(rows[i, f]), uint64(last[f]))]
