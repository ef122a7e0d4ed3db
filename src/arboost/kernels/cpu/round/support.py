"""Support models of ordered boosting: each learns a tree's leaf weights from the first rows of a permutation.

rows     | model 0 | model 1   | model 2           | ...     every model lists the rows that it gives margins to:
segment  ptr[0]    ptr[1]      ptr[2]                ptr[3]  first those it learns from (n_learn), then as many more
"""

from numba import float32, float64, uint64

from arboost.kernels.jit import kernel
from arboost.kernels.scalar import leaf_weight


@kernel
def add_leaf_weights(segments, leaf_of_row, g, h, reg, eta, sums, weights, margin, start, stop):
    """Give the leaves of a tree the weights that the models start..stop find, and add them to the models' margins.

    segments = (rows, ptr, n_learn): rows (m,) int32, ptr (models + 1,) and n_learn (models,) int64; leaf_of_row (n,)
    int32, the node that a row ends in; g, h (m,) float32; OUT: sums (models, n_nodes, 2) float64, begun at 0; weights
    (models, n_nodes) float32; margin (m,) float32. One model's sums are made in one order, whoever makes them.
    """
    rows, ptr, n_learn = segments
    for k in range(uint64(start), uint64(stop)):
        first, last = uint64(ptr[k]), uint64(ptr[k + uint64(1)])
        own = sums[k]
        for j in range(first, first + uint64(n_learn[k])):
            leaf = uint64(leaf_of_row[uint64(rows[j])])
            own[leaf, 0] += float64(g[j])
            own[leaf, 1] += float64(h[j])
        for leaf in range(uint64(own.shape[0])):
            weights[k, leaf] = float32(float32(leaf_weight(own[leaf, 0], own[leaf, 1], reg)) * eta)
        for j in range(first, last):
            margin[j] += weights[k, uint64(leaf_of_row[uint64(rows[j])])]
