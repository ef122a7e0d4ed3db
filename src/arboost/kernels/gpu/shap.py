"""Exact Shapley values and interactions, a row a thread: kernels/cpu/model/shap.py's walk, addition by addition.

All threads walk the same nodes in the same order, so they never part, and a row's sums have the CPU's bits. What the
CPU keeps for a block of rows, every thread keeps in a column of its own, so that neighbours' numbers lie side by side.
Where a child is a leaf, its mean is taken from the node. `up` (n_nodes,) is 2 * parent + side, -1 for a root.
"""

from numba import float32, float64, int64

from arboost.kernels.cpu.model import predict
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part

SHALLOW_THREADS, SHALLOW_LEVELS, SHALLOW_ROWS = 64, 6, 18  # 30 KB: trees of depth 6 and no more
_goes_left = formula(predict.goes_left_mixed)


@gpu_part
def _decide(node, x, bits, lv, t, c, k):
    """k[level] > 0 for a row that goes left, < 0 for right, 0 if it left the path where the feature was seen."""
    v = x[node.slot, t]
    if node.category == 0:
        left = v < node.threshold or (v != v and node.default_left != 0)
    else:
        left = _goes_left(v, node.threshold, node.default_left, node.category, bits)
    found = node.z_right if left else -node.z_left
    if node.seen >= 0:
        sign = 1.0 - 2.0 * node.seen_side
        found = found if k[node.seen, c] * sign > 0.0 else 0.0
    k[lv, c] = found


@gpu_part
def _descend(node, points, n_points, lv, c, to_right, k, share):
    """share[level + 1] = share[level] times what goes to one side."""
    z = node.z_right if to_right else node.z_left
    known = k[lv, c]
    for q in range(n_points):
        at = points[node.point + q]
        at = -at if to_right else at
        share[(lv + 1) * n_points + q, c] = share[lv * n_points + q, c] * (z + known * at)


@gpu_part
def _set_ratio(node, ratios, n_points, lv, c, to_right, k, ratio):
    """ratio[level] = derivative of the share of one side by the node's own t, over that share."""
    first, known = 2 * (node.point + (n_points if to_right else 0)), k[lv, c]
    for q in range(n_points):
        there = 0.0
        if known > 0.0:
            there = ratios[first + q]
        elif known < 0.0:
            there = ratios[first + n_points + q]
        ratio[lv * n_points + q, c] = there


@gpu_part
def _combine(node, points, n_points, lv, c, k, share, from_left, from_right, is_right, two_leaves, with_pairs):
    """The node's value for its parent, from its children's; returns the derivative by its own t, but for k.

    Where there are pairs, from_left becomes from_left - from_right.
    """
    z, known, total = node.z_left, k[lv, c], 0.0
    for q in range(n_points):
        at, w, here = points[node.point + q], points[node.point + n_points + q], lv * n_points + q
        left = node.mean_left if node.left < 0 else from_left[here, c]
        right = node.mean_right if node.right < 0 else from_right[here, c]
        d = left - right
        value = right + (z + known * at) * d
        if lv > 0 and is_right:
            from_right[here - n_points, c] = value
        elif lv > 0:
            from_left[here - n_points, c] = value
        total += w * d * share[here, c] if two_leaves else w * share[here, c] * d
        if with_pairs:
            from_left[here, c] = d
    return total


@gpu_part
def _add_pairs(node, points, pairs, n_points, lv, t, c, k, share, terms, ratio, sums, n_used):
    """Interactions of a node's feature with those of all nodes above; terms is what `_combine` left in from_left."""
    for q in range(n_points):
        here = lv * n_points + q
        terms[here, c] *= points[node.point + n_points + q] * share[here, c]
    for above in range(lv):
        pair = pairs[node.pair + above]
        if pair >= 0:  # else the same feature
            total = 0.0
            for q in range(n_points):
                total += terms[lv * n_points + q, c] * ratio[above * n_points + q, c]
            sums[n_used + pair, t] += 0.5 * k[lv, c] * total


@gpu_part
def _walk(tree, nodes, up, points, bits, ratios, pairs, with_pairs, n_used, t, c, x, sums, k, share, sides, ratio):
    """sums[slot] += one tree's Shapley values; where there are pairs, sums[n_used + pair] += its interactions."""
    from_left, from_right = sides[0], sides[1]
    n_points, lv, done, i = int64(tree.n_points), int64(0), int64(0), int64(tree.root)
    for q in range(n_points):
        share[q, c] = 1.0
    while i >= 0:
        node = nodes[i]
        two_leaves = node.left < 0 and node.right < 0 and not with_pairs
        if done == 0:
            _decide(node, x, bits, lv, t, c, k)
        if done < 2 and not two_leaves:
            child = int64(node.right if done == 1 else node.left)
            if child < 0:
                done += 1
                continue
            _descend(node, points, n_points, lv, c, done == 1, k, share)
            if with_pairs:
                _set_ratio(node, ratios, n_points, lv, c, done == 1, k, ratio)
            i, lv, done = child, lv + 1, int64(0)
            continue
        above = int64(up[i])
        total = _combine(
            node, points, n_points, lv, c, k, share, from_left, from_right, (above & 1) != 0, two_leaves, with_pairs
        )
        sums[node.slot, t] += k[lv, c] * total
        if with_pairs:
            _add_pairs(node, points, pairs, n_points, lv, t, c, k, share, from_left, ratio, sums, n_used)
        i, lv, done = above >> 1, lv - 1, (above & 1) + 1


@gpu_part
def _load_row(data, r, used, t, x):
    """x[:, t] = the row's values of the features in use."""
    for u in range(used.shape[0]):
        x[u, t] = data[r, used[u]]


@gpu_part
def _write_row(sums, t, out):
    """out (OUT) = a thread's sums, then 0."""
    for s in range(sums.shape[0]):
        out[s] = float32(sums[s, t])
    out[sums.shape[0]] = float32(0.0)


@gpu_part
def _sum_trees(
    target,
    trees,
    nodes,
    up,
    points,
    bits,
    ratios,
    pairs,
    with_pairs,
    n_used,
    t,
    c,
    x,
    sums,
    k,
    share,
    sides,
    ratio,
):
    """sums[:, t] (OUT) of all trees of a target."""
    for s in range(sums.shape[0]):
        sums[s, t] = 0.0
    for i in range(trees.shape[0]):
        if trees[i].target == target:
            _walk(
                trees[i],
                nodes,
                up,
                points,
                bits,
                ratios,
                pairs,
                with_pairs,
                n_used,
                t,
                c,
                x,
                sums,
                k,
                share,
                sides,
                ratio,
            )


@gpu_part
def _explain(data, trees, nodes, up, points, used, bits, c, x, sums, k, share, sides, out):
    """All rows of a thread: see `_explain_rows`; c: its column of k, share and sides."""
    t = cuda.grid(1)
    for r in range(t, data.shape[0], cuda.gridsize(1)):
        _load_row(data, r, used, t, x)
        for target in range(out.shape[1]):
            _sum_trees(
                target, trees, nodes, up, points, bits, points, used, False, 0, t, c, x, sums, k, share, sides, share
            )
            _write_row(sums, t, out[r, target])


def _explain_rows(data, trees, nodes, up, points, used, bits, x, sums, k, share, sides, out):
    """out[r, target] (OUT) float32 = Shapley values of the features in use, then 0.

    Scratch, a column a thread: x (n_used,) float32; in float64 sums (n_used), k (levels), share and the two of sides
    (levels times points).
    """
    _explain(data, trees, nodes, up, points, used, bits, cuda.grid(1), x, sums, k, share, sides, out)


def _explain_shallow(data, trees, nodes, up, points, used, bits, x, sums, out):
    """The same for trees that ask for little: blocks of SHALLOW_THREADS have k, share and sides in shared memory."""
    k = cuda.shared.array((SHALLOW_LEVELS, SHALLOW_THREADS), float64)
    share = cuda.shared.array((SHALLOW_ROWS, SHALLOW_THREADS), float64)
    sides = cuda.shared.array((2, SHALLOW_ROWS, SHALLOW_THREADS), float64)
    _explain(data, trees, nodes, up, points, used, bits, int64(cuda.threadIdx.x), x, sums, k, share, sides, out)


def _explain_pairs(
    data, trees, nodes, up, points, used, bits, ratios, pairs, pair_slots, x, sums, k, share, sides, ratio, out
):
    """The same with interactions: out[r, target] = the diagonal, then the pairs, then 0; sums (n_used + n_pairs)."""
    t, n_used = cuda.grid(1), int64(used.shape[0])
    for r in range(t, data.shape[0], cuda.gridsize(1)):
        _load_row(data, r, used, t, x)
        for target in range(out.shape[1]):
            _sum_trees(
                target,
                trees,
                nodes,
                up,
                points,
                bits,
                ratios,
                pairs,
                True,
                n_used,
                t,
                t,
                x,
                sums,
                k,
                share,
                sides,
                ratio,
            )
            for p in range(pair_slots.shape[0]):  # the diagonal is what the pairs leave of a feature's Shapley value
                sums[pair_slots[p, 0], t] -= sums[n_used + p, t]
                sums[pair_slots[p, 1], t] -= sums[n_used + p, t]
            _write_row(sums, t, out[r, target])


explain_rows = gpu_kernel(_explain_rows, max_registers=80)
explain_shallow = gpu_kernel(_explain_shallow, max_registers=128, shared_memory_carveout=100)
explain_pairs = gpu_kernel(_explain_pairs, max_registers=80)
