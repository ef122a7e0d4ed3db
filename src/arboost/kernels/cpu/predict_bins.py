"""Walk a grown tree by bins: for training rows that were left out of its sample."""

from numba import uint64

from arboost.kernels.cpu.routes import leaf_of
from arboost.kernels.jit import kernel


@kernel
def add_tree_by_bins(bins, table, weights, skip, missing_code, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for rows start..stop where skip[r] == 0.

    bins (n_rows, at least n_columns) row-major; table: see `routes.write_routes`.
    """
    for r in range(uint64(start), uint64(stop)):
        if skip[r]:
            continue
        margin[r, uint64(target)] += weights[leaf_of(bins, r, table, missing_code)]
