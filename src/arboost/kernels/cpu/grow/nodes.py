"""Bookkeeping of growth for a whole set of nodes in one call: children, and who needs which histogram.

`counts` and `limits` are indexed by the constants below. What is planned follows from sums over all workers' rows, and
from a node's own rows only where `limits` allows it: then there are no rows elsewhere. A plan says what is added up,
never what comes out: which child is built, and from what, cannot change a bit.
"""

from numba import int32, int64

from arboost.kernels.cpu.grow import bounds as bounding
from arboost.kernels.cpu.grow import vectors
from arboost.kernels.cpu.grow.arrays import Bounds, Plan, Special, Vectors, as_extra, is_of
from arboost.kernels.dtypes import BY_ROWS, NO_HIST
from arboost.kernels.jit import forms_of, kernel, part

NODES, FREE, BUILDS, SUBTRACTS, EVALS, BUILD_ROWS, BY_ROWS_EVALS, OPENED, BATCH = range(9)
N_COUNTS = 9
# [greatest depth (0: none), least quantised hessian that can be split, least rows that can, the most rows that are
# searched without a histogram, whether rows may say which child is the smaller]
MAX_DEPTH, LEAST_H, LEAST_ROWS, FEW, ROWS_DECIDE = range(5)
N_LIMITS = 5
NEVER = -1  # of FEW
_WANTED = -3  # `hist` of a child that needs one, for a moment


# ---- what a special kind of tree adds ----


def hand_down(extra, nodes, i, reg):
    """What the children of node i take over from it besides its sums."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _hand_down_nothing(extra, nodes, i, reg):
    pass


def _hand_down_special(extra, nodes, i, reg):
    bounding.hand_down(extra.bounds, nodes, i, reg)


def _hand_down_bounds(extra, nodes, i, reg):
    bounding.hand_down(extra, nodes, i, reg)


def _hand_down_sums(extra, nodes, i, reg):
    vectors.hand_down(nodes, i, extra.sums, extra.left_sums)


@forms_of(hand_down)
def _choose_hand_down(extra, nodes, i, reg):
    if is_of(extra, Special):
        return _hand_down_special
    if is_of(extra, Bounds):
        return _hand_down_bounds
    return _hand_down_sums if is_of(extra, Vectors) else _hand_down_nothing


def begin(extra, nodes, reg):
    """What the root has besides its sums."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(begin)
def _choose_begin(extra, nodes, reg):
    if is_of(extra, Special):
        return lambda extra, nodes, reg: bounding.begin(extra.bounds, nodes, reg)
    return lambda extra, nodes, reg: None


def is_heavy(extra, nodes, i, limits, reg):
    """A cheap bound: whether node i could have two children that are heavy enough."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _is_heavy(extra, nodes, i, limits, reg):
    return nodes[i].h >= limits[LEAST_H]


def _is_heavy_somewhere(extra, nodes, i, limits, reg):
    return vectors.is_heavy(extra.sums[i], extra.units, reg) != 0


@forms_of(is_heavy)
def _choose_is_heavy(extra, nodes, i, limits, reg):
    return _is_heavy_somewhere if is_of(extra, Vectors) else _is_heavy


@part
def may_split(extra, nodes, i, limits, reg):
    """Whether it is worth looking for a split of node i."""
    node = nodes[i]
    is_shallow = limits[MAX_DEPTH] == 0 or node.depth < limits[MAX_DEPTH]
    return is_shallow and node.stop - node.start >= limits[LEAST_ROWS] and is_heavy(extra, nodes, i, limits, reg)


# ---- children ----


@part
def _make_child(nodes, i, parent_idx, start, stop, g, h):
    node = nodes[i]
    node.start, node.stop, node.g, node.h = start, stop, g, h
    node.parent, node.depth = parent_idx, nodes[parent_idx].depth + 1
    node.left, node.right, node.feature, node.hist, node.gain = -1, -1, -1, NO_HIST, 0.0


@part
def make_children(extra, nodes, i, n_left, reg, counts):
    """Two children of node i by its best split, the first n_left of its rows the left one's; returns that one."""
    node = nodes[i]
    left = counts[NODES]
    counts[NODES] += 2
    middle = node.start + n_left
    _make_child(nodes, left, i, node.start, middle, node.g_left, node.h_left)
    _make_child(nodes, left + 1, i, middle, node.stop, node.g - node.g_left, node.h - node.h_left)
    node.left, node.right = left, left + 1
    hand_down(extra, nodes, i, reg)
    return left


@kernel
def make_leaves(extra, nodes, batch, reg, counts):
    """Children for the nodes of `batch`, all of them leaves, whose rows nobody looks at."""
    named = as_extra(extra)
    for b in range(batch.shape[0]):
        make_children(named, nodes, batch[b], int64(0), reg, counts)


@part
def open_for_search(extra, nodes, batch, n_left, limits, reg, evals, counts):
    """Children for the nodes of `batch`; those that may be split are listed (evals, OUT). n_left has a length of 0
    where rows have no ranges."""
    counts[EVALS] = 0
    for b in range(batch.shape[0]):
        n = n_left[b] if n_left.shape[0] > 0 else int64(0)
        left = make_children(extra, nodes, batch[b], n, reg, counts)
        for child in range(left, left + 2):
            if may_split(extra, nodes, child, limits, reg):
                evals[counts[EVALS]] = child
                counts[EVALS] += 1


# ---- who needs which histogram ----


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
def _add_build(plan, node, i, place, buffer, sign):
    counts = plan.counts
    build = plan.builds[counts[BUILDS]]
    build.start, build.stop, build.hist, build.node, build.place = node.start, node.stop, buffer, i, place
    build.sign, build.fresh = sign, sign > 0
    build.first = counts[BUILD_ROWS]
    counts[BUILD_ROWS] += node.stop - node.start
    counts[BUILDS] += 1


@part
def _plan_pair(nodes, place, small, large, buffer, need_small, need_large, plan):
    """Build the smaller child; the larger is what remains of the parent's buffer, if that is still there."""
    counts = plan.counts
    rows_decide = plan.limits[ROWS_DECIDE] != 0
    via_small = need_large and buffer >= 0
    if need_small or (via_small and not rows_decide):
        nodes[small].hist = buffer if buffer >= 0 and not need_large else _take(plan.free, counts)
        _add_build(plan, nodes[small], small, place, nodes[small].hist, int32(1))
    if not need_large:
        if not need_small:
            _give(plan.free, counts, buffer)
        return
    if buffer < 0:
        nodes[large].hist = _take(plan.free, counts)
        _add_build(plan, nodes[large], large, place, nodes[large].hist, int32(1))
        return
    nodes[large].hist = buffer
    if nodes[small].hist >= 0:
        subtract = plan.subtracts[counts[SUBTRACTS]]
        subtract.large, subtract.small = buffer, nodes[small].hist
        counts[SUBTRACTS] += 1
    else:  # all rows are here: take them from the parent's sums one by one
        _add_build(plan, nodes[small], small, place, buffer, int32(-1))


@part
def _reset(counts):
    counts[BUILDS], counts[SUBTRACTS], counts[EVALS], counts[BUILD_ROWS], counts[BY_ROWS_EVALS] = 0, 0, 0, 0, 0


@kernel
def plan_root(extra, nodes, reg, plan):
    """Plan what the root needs: a histogram, or nothing if it cannot be split."""
    named, planned = as_extra(extra), Plan(*plan)
    counts = planned.counts
    counts[NODES] = 1
    _reset(counts)
    root = nodes[0]
    root.hist = NO_HIST
    begin(named, nodes, reg)
    if may_split(named, nodes, 0, planned.limits, reg):
        root.hist = _take(planned.free, counts)
        _add_build(planned, root, int64(0), int64(-1), root.hist, int32(1))
        planned.evals[0] = 0
        counts[EVALS] = 1


@part
def plan_children(extra, nodes, batch, n_left, reg, plan):
    """Open the nodes of `batch` by their best split, of whose rows n_left[b] have gone left.

    nodes, plan.free, plan.counts IN/OUT; plan.builds, subtracts, evals OUT: what the children need next.
    """
    counts, limits = plan.counts, plan.limits
    _reset(counts)
    for b in range(batch.shape[0]):
        i = batch[b]
        node = nodes[i]
        left = make_children(extra, nodes, i, n_left[b], reg, counts)
        small_left = 2 * node.h_left <= node.h
        if limits[ROWS_DECIDE] != 0:
            small_left = 2 * n_left[b] <= node.stop - node.start
        small, large = (left, left + 1) if small_left else (left + 1, left)
        for child in range(left, left + 2):
            if may_split(extra, nodes, child, limits, reg):
                plan.evals[counts[EVALS]] = child
                counts[EVALS] += 1
                if nodes[child].stop - nodes[child].start <= limits[FEW]:
                    nodes[child].hist = BY_ROWS
                    counts[BY_ROWS_EVALS] += 1
                else:
                    nodes[child].hist = _WANTED
        need_small, need_large = nodes[small].hist == _WANTED, nodes[large].hist == _WANTED
        _plan_pair(nodes, b, small, large, node.hist, need_small, need_large, plan)
        node.hist = NO_HIST


@part
def open_nodes(nodes, plan, opened):
    """List the evaluated nodes that found a split (opened OUT, counts[OPENED]); the others give their buffers back."""
    counts = plan.counts
    counts[OPENED] = 0
    for e in range(counts[EVALS]):
        node = nodes[plan.evals[e]]
        if node.feature < 0:
            _give(plan.free, counts, node.hist)
            node.hist = NO_HIST
        else:
            opened[counts[OPENED]] = plan.evals[e]
            counts[OPENED] += 1
    for b in range(counts[BUILDS]):  # those that were built only to be subtracted
        node = nodes[plan.builds[b].node]
        if node.feature < 0:
            _give(plan.free, counts, node.hist)
            node.hist = NO_HIST


@part
def can_go_on(nodes, batch, opened, hist, plan):
    """Whether the children of the opened nodes can have splits, and there is room for them in all arrays."""
    counts, n = plan.counts, plan.counts[OPENED]
    if n == 0 or (plan.limits[MAX_DEPTH] != 0 and nodes[opened[0]].depth + 1 >= plan.limits[MAX_DEPTH]):
        return False
    n_held = plan.free.shape[0] - counts[FREE]
    has_buffers = 2 * n <= counts[FREE] and n_held + 2 * n <= hist.shape[0]
    has_lists = n <= batch.shape[0] and 2 * n <= plan.evals.shape[0] and 2 * n <= plan.builds.shape[0]
    return has_buffers and has_lists and counts[NODES] + 2 * n <= nodes.shape[0]


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
