"""Exact Shapley values of trees (path-dependent TreeSHAP), and pairwise interactions, for blocks of rows.

A node sends the share c = z_left + k * t of a row's weight to the left: t = 0 is "its feature is unknown" (shares by
cover), t = 1 is "known" (k = z_right if the row goes left, -z_left if right). Shapley's average over coalitions is the
integral over t in [0, 1] of the derivative by one feature's t, all others at the same t. It is a polynomial of degree
below the number of features on a path, so Gauss-Legendre points give it exactly: O(nodes * points) a row, in one walk
of the tree. If a feature comes again below itself, t is rescaled there (predict/shap.py), and k is 0 for rows that
left the path above. Interactions are the derivative by two features' t: a node's own, times that of each node above
over the share that came from there. Scratch arrays are (level * n_points + point, row) or (level, row), float64.
"""

import numpy as np
from numba import int64, uint64

from arboost.kernels.cpu.model.predict import goes_left_mixed
from arboost.kernels.jit import kernel, part

BLOCK = 128  # rows that walk together: loops over them become vector instructions
MAX_PAIR_SUMS = 1 << 20  # sums of interactions that one thread keeps (8 MiB), by taking fewer rows at a time

SHAP_NODE = np.dtype(
    [
        ("threshold", "f8"),
        ("z_left", "f8"),  # share of the cover; the shares of both sides sum to 1
        ("z_right", "f8"),
        ("mean_left", "f8"),  # mean of the child, its weight if it is a leaf
        ("mean_right", "f8"),
        ("category", "i8"),  # place of its bitset, 0 if numerical
        ("point", "i8"),  # its first constant in `points`
        ("pair", "i8"),  # its first entry in `pairs`, one for every level above
        ("left", "i4"),  # among the packed inner nodes, -1 for a leaf
        ("right", "i4"),
        ("slot", "i4"),  # of its feature among the features in use
        ("default_left", "i4"),
        ("seen", "i4"),  # level of the nearest node above with the same feature, -1 if none
        ("seen_side", "i4"),  # 0 if this node lies left of it, 1 if right
    ],
    align=True,
)
"""An inner node, packed for explanations."""

SHAP_TREE = np.dtype(
    [("root", "i4"), ("depth", "i4"), ("n_points", "i4"), ("target", "i4"), ("mean", "f8")], align=True
)
"""Root among the packed nodes (-1 if it is a leaf), levels of inner nodes, points, target, mean over the cover."""


@part
def _load_block(data, used, first, n, x):
    """x[slot, r] = the rows' values."""
    for r in range(n):
        for u in range(uint64(used.shape[0])):
            x[u, r] = data[uint64(first) + r, uint64(used[u])]


@part
def _fill(out, row, n, value):
    for r in range(n):
        out[row, r] = value


@part
def _decide(node, x, bits, lv, n, k):
    """k[level] > 0 for rows that go left, < 0 for right, 0 for those that left the path where the feature was seen."""
    slot = uint64(node.slot)
    z_left, z_right = node.z_left, node.z_right
    threshold, default_left = node.threshold, node.default_left != 0
    if node.category == 0:
        for r in range(n):
            v = x[slot, r]
            k[lv, r] = z_right if (v < threshold) | ((v != v) & default_left) else -z_left
    else:
        for r in range(n):
            left = goes_left_mixed(x[slot, r], threshold, default_left, node.category, bits)
            k[lv, r] = z_right if left else -z_left
    if node.seen >= 0:
        seen, sign = uint64(node.seen), 1.0 - 2.0 * node.seen_side
        for r in range(n):
            k[lv, r] = k[lv, r] if k[seen, r] * sign > 0.0 else 0.0


@part
def _descend(node, points, n_points, lv, n, to_right, k, share):
    """share[level + 1] = share[level] times what goes to one side."""
    z = node.z_right if to_right else node.z_left
    for q in range(n_points):
        t = points[uint64(node.point) + q]
        t = -t if to_right else t
        above = lv * n_points + q
        below = above + n_points
        for r in range(n):
            share[below, r] = share[above, r] * (z + k[lv, r] * t)


@part
def _combine(node, points, n_points, lv, n, k, share, from_left, from_right, out, total):
    """out[level - 1] = the node's value from its children's; total = the derivative by its own t, but for k.

    from_left becomes from_left - from_right.
    """
    z = node.z_left
    _fill(total, uint64(0), n, 0.0)
    for q in range(n_points):
        t, w = points[uint64(node.point) + q], points[uint64(node.point) + n_points + q]
        here = lv * n_points + q
        above = here - n_points if lv > 0 else here
        for r in range(n):
            d = from_left[here, r] - from_right[here, r]
            from_left[here, r] = d
            out[above, r] = from_right[here, r] + (z + k[lv, r] * t) * d
        for r in range(n):
            total[uint64(0), r] += w * share[here, r] * from_left[here, r]


@part
def _combine_leaves(node, points, n_points, lv, n, k, share, out, total):
    """The same for a node with two leaves."""
    z, right, d = node.z_left, node.mean_right, node.mean_left - node.mean_right
    _fill(total, uint64(0), n, 0.0)
    for q in range(n_points):
        t, w = points[uint64(node.point) + q], points[uint64(node.point) + n_points + q]
        here = lv * n_points + q
        above = here - n_points if lv > 0 else here
        for r in range(n):
            out[above, r] = right + (z + k[lv, r] * t) * d
        w *= d
        for r in range(n):
            total[uint64(0), r] += w * share[here, r]


@part
def _add(k, lv, n, total, factor, out, slot):
    for r in range(n):
        out[slot, r] += factor * k[lv, r] * total[uint64(0), r]


@part
def _set_ratio(node, ratios, n_points, lv, n, to_right, k, ratio):
    """ratio[level] = derivative of the share of one side by the node's own t, over that share."""
    first = uint64(2) * (uint64(node.point) + (n_points if to_right else uint64(0)))
    for q in range(n_points):
        if_left, if_right = ratios[first + q], ratios[first + n_points + q]
        here = lv * n_points + q
        for r in range(n):
            s = k[lv, r]
            ratio[here, r] = if_left if s > 0.0 else (if_right if s < 0.0 else 0.0)


@part
def _add_pairs(node, points, pairs, n_points, lv, n, k, share, terms, ratio, total, pair_sum):
    """Interactions of a node's feature with those of all nodes above; terms is what `_combine` left in from_left."""
    for q in range(n_points):
        w, here = points[uint64(node.point) + n_points + q], lv * n_points + q
        for r in range(n):
            terms[here, r] *= w * share[here, r]
    for above in range(lv):
        pair = pairs[uint64(node.pair) + above]
        if pair >= 0:  # else the same feature
            _fill(total, uint64(0), n, 0.0)
            for q in range(n_points):
                here, there = lv * n_points + q, above * n_points + q
                for r in range(n):
                    total[uint64(0), r] += terms[here, r] * ratio[there, r]
            _add(k, lv, n, total, 0.5, pair_sum, uint64(pair))


@part
def _walk(tree, nodes, points, bits, ratios, pairs, n, x, phi, pair_sum, scratch, path):
    """phi[slot] += one tree's Shapley values; where there are pairs, pair_sum[pair] += its interactions."""
    k, share, from_left, from_right, total, ratio = scratch
    with_pairs = pair_sum.shape[0] > 0
    n_points = uint64(tree.n_points)
    for q in range(n_points):
        _fill(share, q, n, 1.0)
    path[0, 0], path[0, 1] = tree.root, 0  # a level's node, and how many of its children are done
    level = int64(0)
    while level >= 0:
        node = nodes[uint64(path[level, 0])]
        lv, done = uint64(level), path[level, 1]
        two_leaves = (node.left < 0) & (node.right < 0) & (not with_pairs)
        if done == 0:
            _decide(node, x, bits, lv, n, k)
        if (done < 2) & (not two_leaves):
            to_right = done == 1
            path[level, 1] += 1
            child = node.right if to_right else node.left
            if child >= 0:
                _descend(node, points, n_points, lv, n, to_right, k, share)
                if with_pairs:
                    _set_ratio(node, ratios, n_points, lv, n, to_right, k, ratio)
                level += 1
                path[level, 0], path[level, 1] = child, 0
            else:
                into, mean = (from_right, node.mean_right) if to_right else (from_left, node.mean_left)
                for q in range(n_points):
                    _fill(into, lv * n_points + q, n, mean)
            continue
        # the root's value goes where nobody reads it
        is_right = level == 0 or path[level - 1, 1] == 2
        out = from_right if is_right else from_left
        if two_leaves:
            _combine_leaves(node, points, n_points, lv, n, k, share, out, total)
        else:
            _combine(node, points, n_points, lv, n, k, share, from_left, from_right, out, total)
        _add(k, lv, n, total, 1.0, phi, uint64(node.slot))
        if with_pairs:
            _add_pairs(node, points, pairs, n_points, lv, n, k, share, from_left, ratio, total, pair_sum)
        level -= 1


@part
def _sizes(trees):
    """Levels, and rows of a scratch array with all points of every level."""
    levels = rows = int64(1)
    for t in range(trees.shape[0]):
        n = int64(trees[t].depth) + 1
        levels = n if n > levels else levels
        n *= int64(trees[t].n_points)
        rows = n if n > rows else rows
    return levels, rows


@part
def _write(phi, used, out, first, n, target):
    for r in range(n):
        for u in range(uint64(used.shape[0])):
            out[uint64(first) + r, target, uint64(used[u])] = phi[u, r]


@part
def _write_pairs(phi, pair_sum, pair_slots, used, width, out, first, n, target):
    """Both halves of the symmetric matrix; the diagonal is what the pairs leave of a feature's Shapley value."""
    for p in range(uint64(pair_sum.shape[0])):
        i, j = uint64(pair_slots[p, 0]), uint64(pair_slots[p, 1])
        for r in range(n):
            phi[i, r] -= pair_sum[p, r]
            phi[j, r] -= pair_sum[p, r]
        f, g = uint64(used[i]), uint64(used[j])
        for r in range(n):
            out[uint64(first) + r, target, f * width + g] = pair_sum[p, r]
            out[uint64(first) + r, target, g * width + f] = pair_sum[p, r]
    for u in range(uint64(used.shape[0])):
        f = uint64(used[u])
        for r in range(n):
            out[uint64(first) + r, target, f * width + f] = phi[u, r]


@kernel
def explain_rows(data, trees, nodes, points, used, bits, ratios, pairs, pair_slots, out, start, stop):
    """Shapley values of rows start..stop; only entries of features in use are written.

    out (n, targets, n_features + 1) float32, OUT; with pairs (n, targets, (n_features + 1)**2), the interactions.
    pairs[node.pair + level] is the pair of a node's feature with that of its ancestor at `level`, -1 if the same.
    """
    levels, rows = _sizes(trees)
    n_used, n_pairs = used.shape[0], pair_slots.shape[0]
    block = BLOCK
    while block > 8 and n_pairs * block > MAX_PAIR_SUMS:
        block //= 2
    x, phi, pair_sum = np.empty((n_used, block)), np.empty((n_used, block)), np.empty((n_pairs, block))
    k, total, ratio = np.empty((levels, block)), np.empty((1, block)), np.empty((rows if n_pairs > 0 else 0, block))
    share, from_left, from_right = np.empty((rows, block)), np.empty((rows, block)), np.empty((rows, block))
    scratch = (k, share, from_left, from_right, total, ratio)
    path = np.empty((levels, 2), np.int64)
    for first in range(start, stop, block):
        n = uint64(stop - first if stop - first < block else block)
        _load_block(data, used, first, n, x)
        for target in range(uint64(out.shape[1])):
            for u in range(uint64(n_used)):
                _fill(phi, u, n, 0.0)
            for p in range(uint64(n_pairs)):
                _fill(pair_sum, p, n, 0.0)
            for t in range(trees.shape[0]):
                tree = trees[t]
                if (uint64(tree.target) == target) & (tree.root >= 0):
                    _walk(tree, nodes, points, bits, ratios, pairs, n, x, phi, pair_sum, scratch, path)
            if n_pairs > 0:
                _write_pairs(phi, pair_sum, pair_slots, used, uint64(data.shape[1] + 1), out, first, n, target)
            else:
                _write(phi, used, out, first, n, target)


@kernel
def approximate_rows(data, trees, nodes, used, bits, out, start, stop):
    """Saabas' contributions of rows start..stop: each node on the row's path gives its feature the change in mean.

    out (n, targets, n_features + 1) float32, OUT; only entries of features in use are written.
    """
    phi = np.empty((used.shape[0], BLOCK))
    for first in range(start, stop, BLOCK):
        n = uint64(stop - first if stop - first < BLOCK else BLOCK)
        for target in range(uint64(out.shape[1])):
            for u in range(uint64(used.shape[0])):
                _fill(phi, u, n, 0.0)
            for t in range(trees.shape[0]):
                if uint64(trees[t].target) != target:
                    continue
                for r in range(n):
                    mean, i = trees[t].mean, int64(trees[t].root)
                    while i >= 0:
                        node = nodes[uint64(i)]
                        v = data[uint64(first) + r, uint64(used[uint64(node.slot)])]
                        left = goes_left_mixed(v, node.threshold, node.default_left, node.category, bits)
                        below = node.mean_left if left else node.mean_right
                        phi[uint64(node.slot), r] += below - mean
                        mean = below
                        i = int64(node.left if left else node.right)
            _write(phi, used, out, first, n, target)
