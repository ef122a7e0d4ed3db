"""Margins and leaves of raw float32 rows through a packed forest.

Perfect layout (shallow trees): node i's children are 2i+1 and 2i+2, every path has the same length, a leaf higher up
is repeated below itself; no child index is loaded and 64 rows go down together, a level at a time, so that their
loads overlap. General layout (deep trees): child[i] is the left child, the right one follows it, -1 marks a leaf.
x < threshold goes left, NaN to the default side. Leaf weights are added in tree order for every row.
Forests with categorical nodes have kernels of their own (`*_mixed`): category[i] is the place of node i's bitset in
`bits`, its number of 64-bit words and then the words; 0, an empty bitset, for a numerical node.
"""

import numpy as np
from numba import int32, int64, uint32, uint64

from arboost.kernels.jit import kernel, part, scalar

BLOCK = 64
MOST_ROWS, MOST_VALUES = 4096, 1 << 18  # that go through a large tree before the next one is looked at
CHECK_TREES = 8  # with fewer trees, looking for NaN first costs more than it saves


@part
def _any_missing(data, first, n):
    for r in range(uint64(first), uint64(first + n)):
        for f in range(uint64(data.shape[1])):
            if data[r, f] != data[r, f]:
                return True
    return False


@part
def _descend_perfect(data, first, n, tree, feature, threshold, default_left, missing, place):
    """place[r] = leaf number (0 .. 2**depth - 1) of row first + r."""
    base, r0 = uint64(tree.node), uint64(first)
    for r in range(uint64(n)):
        place[r] = 0
    for _ in range(tree.depth):
        if missing:
            for r in range(uint64(n)):
                i = uint64(place[r])
                x = data[r0 + r, uint64(feature[base + i])]
                left = (x < threshold[base + i]) | ((x != x) & (default_left[base + i] != 0))
                place[r] = uint64(2) * i + uint64(1) + uint64(not left)
        else:
            for r in range(uint64(n)):
                i = uint64(place[r])
                left = data[r0 + r, uint64(feature[base + i])] < threshold[base + i]
                place[r] = uint64(2) * i + uint64(1) + uint64(not left)
    for r in range(uint64(n)):
        place[r] -= uint32((1 << tree.depth) - 1)


@part
def _descend_general(data, first, n, tree, feature, threshold, default_left, child, place):
    """place[r] = number, within the tree, of row first + r's leaf node.

    All rows that are not in a leaf yet go down one level, and are listed again: no branch depends on where they go, so
    that their loads overlap, however deep each of them ends. The lists lie behind the n places.
    """
    base, r0, n = uint64(tree.node), uint64(first), uint64(n)
    waiting = place[n:]
    n_waiting = uint64(0)
    for r in range(n):
        place[r] = 0
        if child[base] >= 0:
            waiting[r] = r
            n_waiting += uint64(1)
    while n_waiting > uint64(0):
        n_left = uint64(0)
        for k in range(n_waiting):
            r = uint64(waiting[k])
            i = base + uint64(place[r])
            x = data[r0 + r, uint64(feature[i])]
            left = (x < threshold[i]) | ((x != x) & (default_left[i] != 0))
            next_place = uint64(child[i]) + uint64(not left)
            place[r] = next_place
            waiting[n_left] = r
            n_left += uint64(child[base + next_place] >= 0)
        n_waiting = n_left


@scalar
def goes_left_mixed(x, threshold, default_left, category, bits):
    """Codes of the bitset go right; all others, those outside of it and negative ones included, go left.

    Nothing is skipped for a numerical node: a branch that the processor guesses wrong would cost more.
    """
    start = uint64(category)
    inside = (x >= 0) & (x < 64.0 * int64(bits[start]))
    code = uint64(x if inside else 0.0)
    word = bits[start + uint64(1) + (code >> uint64(6))]
    in_set = inside & ((word >> (code & uint64(63))) & uint64(1) != uint64(0))
    left = (not in_set) if category != 0 else x < threshold
    return (default_left != 0) if x != x else left


@part
def _descend_mixed(data, first, n, tree, nodes, place):
    """`_descend_perfect` and `_descend_general` in a forest with categorical nodes."""
    feature, threshold, default_left, child, category, bits = nodes
    base, r0 = uint64(tree.node), uint64(first)
    for r in range(uint64(n)):
        place[r] = 0
    if tree.depth >= 0:
        for _ in range(tree.depth):
            for r in range(uint64(n)):
                i = base + uint64(place[r])
                x = data[r0 + r, uint64(feature[i])]
                left = goes_left_mixed(x, threshold[i], default_left[i], category[i], bits)
                place[r] = uint32(2) * place[r] + uint32(1) + uint32(not left)
        for r in range(uint64(n)):
            place[r] -= uint32((1 << tree.depth) - 1)
    else:
        for r in range(uint64(n)):
            i = base
            while child[i] >= 0:
                x = data[r0 + r, uint64(feature[i])]
                left = goes_left_mixed(x, threshold[i], default_left[i], category[i], bits)
                i = base + uint64(child[i]) + uint64(not left)
            place[r] = i - base


@part
def _rows_at_a_time(data, trees):
    """Rows that go through tree after tree: as many as the cache has room for where trees are large, else a block."""
    for t in range(trees.shape[0]):
        if trees[t].depth < 0:
            return max(
                int64(BLOCK), min(int64(MOST_ROWS), int64(MOST_VALUES // max(1, data.shape[1])) // BLOCK * BLOCK)
            )
    return int64(BLOCK)


@part
def _find_places(data, first, n, tree, nodes, missing, place):
    """place[r] = number of row first + r's leaf in the tree."""
    feature, threshold, default_left, child = nodes
    if tree.depth >= 0:
        _descend_perfect(data, first, n, tree, feature, threshold, default_left, missing, place)
    else:
        _descend_general(data, first, n, tree, feature, threshold, default_left, child, place)


@kernel
def predict_margins(data, trees, feature, threshold, default_left, child, leaf_weight, margin, start, stop):
    """margin[r, target] += the weights of rows start..stop's leaves in `trees` (PACKED_TREE records)."""
    nodes, step = (feature, threshold, default_left, child), _rows_at_a_time(data, trees)
    place = np.empty(2 * BLOCK, np.uint32)
    for begin in range(start, stop, step):
        end, missing = min(begin + step, stop), True
        if trees.shape[0] >= CHECK_TREES:
            missing = _any_missing(data, begin, end - begin)
        for t in range(trees.shape[0]):
            tree = trees[t]
            target, leaf = uint64(tree.target), uint64(tree.leaf)
            for first in range(begin, end, BLOCK):
                n = min(BLOCK, end - first)
                _find_places(data, first, n, tree, nodes, missing, place)
                for r in range(uint64(n)):
                    margin[uint64(first) + r, target] += leaf_weight[leaf + uint64(place[r])]


@kernel
def predict_vectors(data, trees, feature, threshold, default_left, child, leaf_vectors, margin, start, stop):
    """`predict_margins` in a forest whose leaves hold a weight for every target: leaf_vectors (n_leaves, K)."""
    nodes, step = (feature, threshold, default_left, child), _rows_at_a_time(data, trees)
    place = np.empty(2 * BLOCK, np.uint32)
    for begin in range(start, stop, step):
        end, missing = min(begin + step, stop), True
        if trees.shape[0] >= CHECK_TREES:
            missing = _any_missing(data, begin, end - begin)
        for t in range(trees.shape[0]):
            tree = trees[t]
            for first in range(begin, end, BLOCK):
                n = min(BLOCK, end - first)
                _find_places(data, first, n, tree, nodes, missing, place)
                for r in range(uint64(n)):
                    leaf = uint64(tree.leaf) + uint64(place[r])
                    for k in range(uint64(leaf_vectors.shape[1])):
                        margin[uint64(first) + r, k] += leaf_vectors[leaf, k]


@kernel
def predict_leaves(data, trees, feature, threshold, default_left, child, leaf_node, leaves, start, stop):
    """leaves[r, t] = node number, in the tree's own order, of row r's leaf in tree t."""
    nodes, step = (feature, threshold, default_left, child), _rows_at_a_time(data, trees)
    place = np.empty(2 * BLOCK, np.uint32)
    for begin in range(start, stop, step):
        end = min(begin + step, stop)
        for t in range(trees.shape[0]):
            tree = trees[t]
            for first in range(begin, end, BLOCK):
                n = min(BLOCK, end - first)
                _find_places(data, first, n, tree, nodes, True, place)
                for r in range(n):
                    leaves[first + r, t] = leaf_node[tree.leaf + int32(place[r])]


@kernel
def predict_margins_mixed(
    data, trees, feature, threshold, default_left, child, category, bits, leaf_weight, margin, start, stop
):
    """`predict_margins` in a forest with categorical nodes."""
    nodes = (feature, threshold, default_left, child, category, bits)
    place = np.empty(BLOCK, np.uint32)
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        for t in range(trees.shape[0]):
            tree = trees[t]
            _descend_mixed(data, first, n, tree, nodes, place)
            for r in range(uint64(n)):
                margin[uint64(first) + r, uint64(tree.target)] += leaf_weight[uint64(tree.leaf) + uint64(place[r])]


@kernel
def predict_leaves_mixed(
    data, trees, feature, threshold, default_left, child, category, bits, leaf_node, leaves, start, stop
):
    """`predict_leaves` in a forest with categorical nodes."""
    nodes = (feature, threshold, default_left, child, category, bits)
    place = np.empty(BLOCK, np.uint32)
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        for t in range(trees.shape[0]):
            tree = trees[t]
            _descend_mixed(data, first, n, tree, nodes, place)
            for r in range(n):
                leaves[first + r, t] = leaf_node[tree.leaf + int32(place[r])]


@part
def _pack_perfect(left, right, tree, feature, threshold, default_left, out, weight, node_of):
    """Lay a tree out as a heap; a leaf above the last level fills all leaves below its place."""
    f, t, d = out
    n_inner = (1 << tree.depth) - 1
    stack = np.empty((left.shape[0], 3), np.int64)  # node, place in the heap, level
    stack[0] = 0
    size = 1
    while size > 0:
        size -= 1
        i, place, level = stack[size]
        if left[i] < 0:
            width = 1 << (tree.depth - level)
            lo = (place + 1) * width - 1 - n_inner
            for j in range(lo, lo + width):
                weight[tree.leaf + j] = threshold[i]
                node_of[tree.leaf + j] = i
            continue
        f[tree.node + place], t[tree.node + place] = feature[i], threshold[i]
        d[tree.node + place] = default_left[i]
        for side in range(2):
            child = left[i] if side == 0 else right[i]
            stack[size, 0], stack[size, 1], stack[size, 2] = child, 2 * place + 1 + side, level + 1
            size += 1


@kernel
def pack_tree(left, right, feature, threshold, default_left, tree_idx, trees, f, t, d, child, weight, node_of):
    """Write one tree into the packed arrays (f ... node_of, all OUT) at the place that trees[tree_idx] gives."""
    tree = trees[tree_idx]
    if tree.depth >= 0:
        _pack_perfect(left, right, tree, feature, threshold, default_left, (f, t, d), weight, node_of)
        return
    # depth first, a node's children side by side: rows that go left find the next node near by
    waiting, size, n = np.empty((left.shape[0], 2), np.int64), 1, 1  # nodes, and their places
    waiting[0, 0], waiting[0, 1] = 0, 0
    while size > 0:  # what pruning has cut off is never met
        size -= 1
        i, place = waiting[size, 0], waiting[size, 1]
        weight[tree.leaf + place] = threshold[i]
        node_of[tree.leaf + place] = i
        f[tree.node + place], t[tree.node + place], d[tree.node + place] = feature[i], threshold[i], default_left[i]
        child[tree.node + place] = -1
        if left[i] >= 0:
            child[tree.node + place] = n
            waiting[size, 0], waiting[size, 1] = right[i], n + 1
            waiting[size + 1, 0], waiting[size + 1, 1] = left[i], n
            size, n = size + 2, n + 2
