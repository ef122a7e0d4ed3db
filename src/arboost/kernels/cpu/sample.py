"""Random rows: row r is in if hash(key, r) is below a threshold, whichever thread, page or worker asks."""

from numba import uint64

from arboost.kernels.jit import kernel
from arboost.kernels.scalar import mix


@kernel
def sample_rows(key, threshold, first_row, rows, start, stop):
    """Write the chosen ids among start..stop to rows[start:...] (OUT) and return how many there are.

    `first_row` is the global id of row 0 of this page.
    """
    k, n = uint64(key), uint64(start)
    for r in range(uint64(start), uint64(stop)):
        rows[n] = r
        n += uint64(mix(k ^ mix(uint64(first_row) + r)) >> uint64(32) < uint64(threshold))
    return n - uint64(start)
