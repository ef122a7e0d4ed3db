"""Margins and leaves through a forest of symmetric trees: a leaf's number is made of the bits of its conditions.

All nodes of a level have the same condition, so nothing is looked up on the way: each condition is compared with a
whole block of one feature's values at once, and adds one bit to the rows' leaf numbers. In the packed forest
(predict.py's perfect layout) condition k of a tree is that of the leftmost node of its level, node 2**k - 1.
"""

import numpy as np
from numba import int32, uint32, uint64

from arboost.kernels.jit import kernel, part

BLOCK = 128  # rows whose values are turned into columns together


@part
def _fill_columns(data, first, n, used, columns):
    """columns[j, r] (OUT) = the value of feature used[j] in row first + r."""
    for r in range(uint64(n)):
        for j in range(uint64(used.shape[0])):
            columns[j, r] = data[uint64(first) + r, uint64(used[j])]


@part
def _add_bits(values, threshold, default_left, place):
    """One bit more for every row of a block: 0 if it goes left. Missing values compare as false."""
    if default_left != 0:
        for r in range(uint64(BLOCK)):
            place[r] = (place[r] << uint32(1)) | uint32(values[r] >= threshold)
    else:
        for r in range(uint64(BLOCK)):
            place[r] = (place[r] << uint32(1)) | uint32(not values[r] < threshold)


@part
def _find_places(columns, slot_of, tree, feature, threshold, default_left, place):
    """place[r] (OUT) = leaf number of row r of the block."""
    for r in range(uint64(BLOCK)):
        place[r] = uint32(0)
    for level in range(tree.depth):
        i = uint64(tree.node) + (uint64(1) << uint64(level)) - uint64(1)
        _add_bits(columns[uint64(slot_of[feature[i]])], threshold[i], default_left[i], place)


@kernel
def predict_margins(
    data, trees, feature, threshold, default_left, used, slot_of, leaf_weight, margin, start, stop
):  # fmt: skip
    """`predict.predict_margins`; used: the features that conditions name, slot_of[f]: f's place among them."""
    columns = np.zeros((used.shape[0], BLOCK), np.float32)
    place = np.empty(BLOCK, np.uint32)
    sums = np.zeros((margin.shape[1], BLOCK), np.float32)
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        _fill_columns(data, first, n, used, columns)
        for r in range(n):
            for k in range(margin.shape[1]):
                sums[k, r] = margin[first + r, k]
        for t in range(trees.shape[0]):
            tree = trees[t]
            _find_places(columns, slot_of, tree, feature, threshold, default_left, place)
            weights, added = leaf_weight[tree.leaf :], sums[uint64(tree.target)]
            for r in range(uint64(BLOCK)):
                added[r] += weights[uint64(place[r])]
        for r in range(n):
            for k in range(margin.shape[1]):
                margin[first + r, k] = sums[k, r]


@kernel
def predict_leaves(
    data, trees, feature, threshold, default_left, used, slot_of, leaf_node, leaves, start, stop
):  # fmt: skip
    """`predict.predict_leaves`, in the same way."""
    columns = np.zeros((used.shape[0], BLOCK), np.float32)
    place = np.empty(BLOCK, np.uint32)
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        _fill_columns(data, first, n, used, columns)
        for t in range(trees.shape[0]):
            tree = trees[t]
            _find_places(columns, slot_of, tree, feature, threshold, default_left, place)
            for r in range(n):
                leaves[first + r, t] = leaf_node[tree.leaf + int32(place[r])]


@kernel
def find_conditions(left, right, feature, threshold, default_left, queue, asking):
    """(depth of the tree, whether all nodes of a level that are split ask the same).

    asking[k] (OUT): the first node of level k that is split. queue: scratch memory for all nodes.
    """
    first, last, depth, alike = 0, 1, 0, True
    queue[0] = 0
    while True:
        n, one = last, -1
        for place in range(first, last):
            i = queue[place]
            if left[i] < 0:
                continue
            one = i if one < 0 else one
            same_place = threshold[i] == threshold[one] and default_left[i] == default_left[one]
            alike &= feature[i] == feature[one] and same_place
            queue[n], queue[n + 1] = left[i], right[i]
            n += 2
        if one < 0:
            return depth, alike
        asking[depth] = one
        first, last, depth = last, n, depth + 1
