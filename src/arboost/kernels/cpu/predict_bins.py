"""Walk a grown tree by bins: for training rows that were left out of its sample."""

from numba import int64, uint64

from arboost.kernels.cpu.routes import COLUMN, FIRST, FLIP, LEFT, RIGHT, WIDTH, goes_left
from arboost.kernels.jit import kernel


@kernel
def add_tree_by_bins(bins, table, weights, skip, missing_code, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for rows start..stop where skip[r] == 0.

    bins (n_rows, at least n_columns) row-major; table: see `routes.write_routes`.
    """
    for r in range(uint64(start), uint64(stop)):
        if skip[r]:
            continue
        i = int64(0)
        while table[i, LEFT] >= 0:
            code = bins[r, uint64(table[i, COLUMN])]
            is_left = goes_left(code, table[i, FIRST], table[i, WIDTH], table[i, FLIP], missing_code)
            i = table[i, LEFT] if is_left else table[i, RIGHT]
        margin[r, uint64(target)] += weights[i]
