"""Pages of bins beside training: checksums of their bytes, rows picked out of them, and values instead of bins.

The checksum of a piece comes from two sums: of its words, so that a change of one word always shows; and of products of
the two halves of each word after its place has been mixed in, so that other changes go unseen once in 2^32 or less.
Both run in vectors, at the speed of the cache.
"""

from numba import uint64

from arboost.kernels.cpu.data.binning import ROW_BLOCK
from arboost.kernels.jit import kernel, scalar

STEP = 0x9E3779B97F4A7C15  # odd, and without a pattern: what the key of a word differs by from that of the one before


@scalar
def checksum(words, first, last):
    """Of the words first .. last."""
    plain, products, key = uint64(0), uint64(0), uint64(0)
    for i in range(first, last):
        key += uint64(STEP)
        word = words[i] ^ key
        plain += words[i]
        products += (word & uint64(0xFFFFFFFF)) * (word >> uint64(32))
    whole = ((plain << uint64(29) | plain >> uint64(35)) ^ products) * uint64(STEP)
    return whole ^ whole >> uint64(32)


@kernel
def checksums(words, ends, sums, start, stop):
    """sums[p] (OUT) of the words ends[p] .. ends[p + 1], for pieces p = start .. stop."""
    for p in range(uint64(start), uint64(stop)):
        sums[p] = checksum(words, uint64(ends[p]), uint64(ends[p + uint64(1)]))


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
