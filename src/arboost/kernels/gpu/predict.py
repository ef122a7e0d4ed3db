"""Margins and leaves of raw float32 rows through a packed forest, a row a thread: kernels/cpu/model/predict.py's walk.

Leaf weights are added in tree order for every row, so sums have the CPU's bits. `sets` is (category, bits) of a forest
with categorical nodes, as it is there; else it is (), and nothing of them is compiled.
"""

from numba import int64

from arboost.kernels.cpu.model import predict
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part

goes_left_mixed = formula(predict.goes_left_mixed)


@gpu_part
def _goes_left(x, at, threshold, default_left, sets):
    """Whether a row whose value is x goes left at a node."""
    if len(sets) > 0:
        category, bits = sets
        return goes_left_mixed(x, threshold[at], default_left[at], category[at], bits)
    return x < threshold[at] or (x != x and default_left[at] != 0)


@gpu_part
def _place_of(data, r, tree, feature, threshold, default_left, child, sets):
    """The number of row r's leaf within the tree."""
    i = int64(0)
    if tree.depth >= 0:
        for _ in range(tree.depth):
            at = tree.node + i
            left = _goes_left(data[r, feature[at]], at, threshold, default_left, sets)
            i = 2 * i + 1 if left else 2 * i + 2
        return i - ((int64(1) << tree.depth) - 1)
    while child[tree.node + i] >= 0:
        at = tree.node + i
        left = _goes_left(data[r, feature[at]], at, threshold, default_left, sets)
        i = int64(child[at]) if left else int64(child[at]) + 1
    return i


def _predict_margins(data, trees, begin, end, feature, threshold, default_left, child, sets, leaf_weight, margin):
    """margin[r, target] += the weights of row r's leaves in trees begin..end (PACKED_TREE records)."""
    for r in range(cuda.grid(1), margin.shape[0], cuda.gridsize(1)):
        for t in range(begin, end):
            tree = trees[t]
            place = _place_of(data, r, tree, feature, threshold, default_left, child, sets)
            margin[r, tree.target] += leaf_weight[tree.leaf + place]


def _predict_leaves(data, trees, begin, end, feature, threshold, default_left, child, sets, leaf_node, leaves):
    """leaves[r, t] = node number, in the tree's own order, of row r's leaf in tree begin + t."""
    for r in range(cuda.grid(1), leaves.shape[0], cuda.gridsize(1)):
        for t in range(begin, end):
            tree = trees[t]
            place = _place_of(data, r, tree, feature, threshold, default_left, child, sets)
            leaves[r, t - begin] = leaf_node[tree.leaf + place]


predict_margins = gpu_kernel(_predict_margins)
predict_leaves = gpu_kernel(_predict_leaves)
