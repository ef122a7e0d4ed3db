"""Bookkeeping of growth for a whole set of nodes in one call: children, and who needs which histogram.

`counts` is indexed by the constants below; `free` is a stack of buffer numbers.
`limits` = [max_depth (0: none), least quantised hessian that can be split].
"""

from numba import float64, int32, int64

from arboost.kernels.cpu.split import G_UNIT, H_UNIT
from arboost.kernels.dtypes import BY_ROWS, FEW_ROWS, NO_HIST
from arboost.kernels.jit import kernel, part, section
from arboost.kernels.scalar import leaf_weight

NODES, FREE, BUILDS, SUBTRACTS, EVALS, BUILD_ROWS, BY_ROWS_EVALS, OPENED, BATCH, ORDERED_ROWS = range(10)
N_COUNTS = 10


@part
def _make_child(nodes, i, parent_idx, start, stop, g, h):
    node = nodes[i]
    node.start, node.stop, node.g, node.h = start, stop, g, h
    node.parent, node.depth = parent_idx, nodes[parent_idx].depth + 1
    node.left, node.right, node.feature, node.hist, node.gain = -1, -1, -1, NO_HIST, 0.0


@part
def _may_split(node, limits):
    """A cheap bound: deep enough, or too light for two children of min_child_weight."""
    return (limits[0] == 0 or node.depth < limits[0]) and node.h >= limits[1] and node.stop - node.start > 1


@part
def _take(free, counts):
    counts[FREE] -= 1
    return free[counts[FREE]]


@part
def _give(free, counts, buffer):
    if buffer >= 0:
        free[counts[FREE]] = buffer
        counts[FREE] += 1


@part
def _add_build(builds, counts, node, buffer, sign):
    build = builds[counts[BUILDS]]
    build.start, build.stop, build.hist, build.sign = node.start, node.stop, buffer, sign
    build.first = counts[BUILD_ROWS]
    counts[BUILD_ROWS] += node.stop - node.start
    counts[BUILDS] += 1


@part
def _wants_histogram(node, limits):
    """Mark a child as to be evaluated by rows, or tell that it needs a histogram."""
    if not _may_split(node, limits):
        return False
    if node.stop - node.start <= FEW_ROWS:
        node.hist = BY_ROWS
        return False
    return True


@part
def _plan_histograms(nodes, small, large, buffer, limits, free, builds, subtracts, counts):
    """Build the smaller child; the larger is what remains of the parent's buffer, if that is still there."""
    need_small, need_large = _wants_histogram(nodes[small], limits), _wants_histogram(nodes[large], limits)
    if need_small:
        nodes[small].hist = buffer if buffer >= 0 and not need_large else _take(free, counts)
        _add_build(builds, counts, nodes[small], nodes[small].hist, int32(1))
    if need_large:
        if buffer < 0:
            nodes[large].hist = _take(free, counts)
            _add_build(builds, counts, nodes[large], nodes[large].hist, int32(1))
            return
        nodes[large].hist = buffer
        if need_small:
            subtract = subtracts[counts[SUBTRACTS]]
            subtract.large, subtract.small = buffer, nodes[small].hist
            counts[SUBTRACTS] += 1
        else:
            _add_build(builds, counts, nodes[small], buffer, int32(-1))
    elif not need_small:
        _give(free, counts, buffer)


@kernel
def plan_root(nodes, limits, free, builds, evals, counts):
    """Plan what the root needs: nothing if it cannot be split, a histogram, or evaluation by rows."""
    counts[NODES] = 1
    counts[BUILDS], counts[SUBTRACTS], counts[EVALS], counts[BUILD_ROWS], counts[BY_ROWS_EVALS] = 0, 0, 0, 0, 0
    root = nodes[0]
    root.hist = NO_HIST
    if _may_split(root, limits):
        root.hist = _take(free, counts)
        _add_build(builds, counts, root, root.hist, int32(1))
        evals[0] = 0
        counts[EVALS] = 1


@kernel
def expand_nodes(nodes, batch, n_left, limits, free, builds, subtracts, evals, counts):
    """Open the nodes of `batch` by their best split; n_left[b] rows went left (rows are in place).

    nodes, free, counts IN/OUT; builds, subtracts, evals OUT: what their children need next.
    """
    counts[BUILDS], counts[SUBTRACTS], counts[EVALS], counts[BUILD_ROWS], counts[BY_ROWS_EVALS] = 0, 0, 0, 0, 0
    for b in range(batch.shape[0]):
        i = batch[b]
        node = nodes[i]
        left = counts[NODES]
        right = left + 1
        counts[NODES] += 2
        middle = node.start + n_left[b]
        _make_child(nodes, left, i, node.start, middle, node.g_left, node.h_left)
        _make_child(nodes, right, i, middle, node.stop, node.g - node.g_left, node.h - node.h_left)
        node.left, node.right = left, right
        small_left = 2 * n_left[b] <= node.stop - node.start
        small, large = (left, right) if small_left else (right, left)
        _plan_histograms(nodes, small, large, node.hist, limits, free, builds, subtracts, counts)
        node.hist = NO_HIST
        for child in range(left, right + 1):
            if nodes[child].hist != NO_HIST:
                evals[counts[EVALS]] = child
                counts[EVALS] += 1
                counts[BY_ROWS_EVALS] += nodes[child].hist == BY_ROWS


@section
def open_nodes(nodes, evals, free, counts, opened):
    """List the evaluated nodes that found a split (opened OUT, counts[OPENED]); the others give their buffers back."""
    counts[OPENED] = 0
    for e in range(evals.shape[0]):
        node = nodes[evals[e]]
        if node.feature < 0:
            _give(free, counts, node.hist)
            node.hist = NO_HIST
        else:
            opened[counts[OPENED]] = evals[e]
            counts[OPENED] += 1


@kernel
def count_rows(nodes, ids):
    """Rows of all nodes in `ids` together."""
    n = int64(0)
    for b in range(ids.shape[0]):
        n += nodes[ids[b]].stop - nodes[ids[b]].start
    return n


@kernel
def release_histograms(nodes, ids, free, counts):
    """Take the buffers of `ids` back: their children will be built from rows, both of them."""
    for b in range(ids.shape[0]):
        _give(free, counts, nodes[ids[b]].hist)
        nodes[ids[b]].hist = NO_HIST


@kernel
def finish_tree(nodes, cut_ptr, cut_values, reg, eta, integers, floats, default_left):
    """Write XGBoost's per-node arrays from the grown nodes; a leaf's weight is scaled by eta.

    OUT: integers (4, n) int32: left, right, parent, feature; floats (4, n): threshold, gain, cover, base_weight.
    """
    left, right, parent, feature = integers[0], integers[1], integers[2], integers[3]
    threshold, gain, cover, base_weight = floats[0], floats[1], floats[2], floats[3]
    for i in range(nodes.shape[0]):
        node = nodes[i]
        g, h = float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT]
        left[i], right[i], parent[i] = node.left, node.right, node.parent
        cover[i] = h
        base_weight[i] = leaf_weight(g, h, reg)
        if node.left < 0:
            base_weight[i] *= eta
            threshold[i] = base_weight[i]
            feature[i], default_left[i], gain[i] = 0, 0, 0.0
        else:
            feature[i], default_left[i], gain[i] = node.feature, node.default_left, node.gain
            threshold[i] = cut_values[int64(cut_ptr[node.feature]) + node.bin]
