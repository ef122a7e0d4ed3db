"""Walk a growing or grown tree by bins: for training rows that were left out of its sample."""

from numba import int64, uint64

from arboost.kernels.jit import kernel


@kernel
def add_tree_by_bins(bins, nodes, weights, skip, missing_code, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for rows start..stop where skip[r] == 0.

    bins (n_rows, at least n_features) row-major; nodes are NODE records, so a split is feature, bin, default_left.
    """
    for r in range(uint64(start), uint64(stop)):
        if skip[r]:
            continue
        i = int64(0)
        while nodes[i].left >= 0:
            node = nodes[i]
            b = int64(bins[r, uint64(node.feature)])
            goes_left = (b <= node.bin) | ((b == missing_code) & (node.default_left != 0))
            i = int64(node.left if goes_left else node.right)
        margin[r, uint64(target)] += weights[i]
