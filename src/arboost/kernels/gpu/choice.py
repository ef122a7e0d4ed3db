"""Searches that do not take every candidate: children need so many rows, or one candidate of every feature is drawn.

`choice` is () where all are taken, and nothing of this is compiled; else
    key     (1,) uint64: seeds the draw of one candidate for every node and feature; 0: all are tried
    rows    [least rows of a child, plane of the histogram that counts rows] int64
Rows that weigh nothing do not count. Where hessians do not count the others, plane 2 does, and after it comes how many
there are in the node. Rules and draws are those of kernels/cpu/grow/choice.py.
"""

from numba import int32, int64, uint64

from arboost.kernels import scalar
from arboost.kernels.dtypes import FEW_ROWS
from arboost.kernels.gpu import quantize, split
from arboost.kernels.gpu.arrays import ALL_LANES, EVAL_IDS, EVALS, SMALLER, WARP, last_of, scan
from arboost.kernels.gpu.jit import cuda, formula, gpu_part

LEAST, PLANE = 0, 1  # of rows
COUNTS = 2  # the plane of its own
mix = formula(scalar.mix)


@gpu_part
def begin(choice, found):
    """Say where rows are counted, once gradients are integers."""
    rows = choice[1]
    counts = quantize.hessians_count(found) or rows[LEAST] <= 1
    rows[PLANE] = 1 if counts else COUNTS


@gpu_part
def _largest_of_warp(value):
    """For all lanes."""
    return cuda.shfl_sync(ALL_LANES, quantize.largest(value), 0)


@gpu_part
def _largest_before(value, lane):
    """The largest of the lanes before this one, 0 if none is larger."""
    before = cuda.shfl_up_sync(ALL_LANES, value, 1)
    before = int64(0) if lane == 0 else before
    for k in range(5):
        other = cuda.shfl_up_sync(ALL_LANES, before, 1 << k)
        if lane >= (1 << k) and other > before:
            before = other
    return before


@gpu_part
def _drawn(key, i, f, first, last):
    """The bin drawn for node i and feature f, of those from its first to its last one, after which nothing is left."""
    if last <= first:
        return last
    place = mix(uint64(key) ^ mix((uint64(i) << uint64(32)) ^ uint64(f)))
    return first + int64(place % uint64(last - first))


@gpu_part
def _range(hist, buffer, slot, plane, begin, end, n, key, i, f):
    """(lo, hi): a split after any of the bins lo .. hi - 1 parts the rows as one after the drawn bin does."""
    first, last = int64(n), int64(-1)
    for j in range(begin, end):
        if (hist[buffer, slot + j] | hist[buffer, plane + slot + j]) != 0:
            first, last = int64(j) if j < first else first, int64(j)
    first, last = -_largest_of_warp(-first), _largest_of_warp(last)
    drawn = _drawn(key, i, f, first, last)
    lo, hi = int64(-1), int64(n)
    for j in range(begin, end):
        if (hist[buffer, slot + j] | hist[buffer, plane + slot + j]) != 0:
            if j <= drawn:
                lo = int64(j)
            elif j < hi:
                hi = int64(j)
    return _largest_of_warp(lo), -_largest_of_warp(-hi)


@gpu_part
def find_split(hist, smaller, node, i, f, slot, plane, n, choice, reg, found, lane):
    """The best split of node i on feature f, whose n bins begin at `slot` (found, OUT); a lane has a run of bins.

    The CPU counts rows up to bins that hold some sum, or up to every bin where the node has many rows: so does this.
    """
    key, rows = choice
    buffer, least, counted = node.hist, rows[LEAST], rows[LEAST] > 1
    n_rows = node.stop - node.start
    every = 2 * n_rows >= n and (i == 0 or n_rows > FEW_ROWS)
    run = (n + WARP - 1) // WARP
    begin = lane * run if lane * run < n else n
    end = begin + run if begin + run < n else n
    lo, hi = int64(-1), int64(n)
    if key[0] != uint64(0):
        lo, hi = _range(hist, buffer, slot, plane, begin, end, n, key[0], i, f)
    of_counts, total = slot, int64(0)
    if counted:
        of_counts, total = slot + rows[PLANE] * plane, node.h
        if rows[PLANE] == COUNTS:
            total = hist[buffer, 3 * plane] - (hist[smaller, 3 * plane] if smaller >= 0 else int64(0))
    g, h, c, c_upto = int64(0), int64(0), int64(0), int64(0)  # c_upto: rows up to the last bin that the CPU looks at
    for j in range(begin, end):
        gj, hj = hist[buffer, slot + j], hist[buffer, plane + slot + j]
        g += gj
        h += hj
        c += hist[buffer, of_counts + j]
        if every or (gj | hj) != 0:
            c_upto = c
    g_before, h_before, c_before = scan(g, lane), scan(h, lane), scan(c, lane)
    g_missing, h_missing = node.g - last_of(g_before), node.h - last_of(h_before)
    g, h, c = g_before - g, h_before - h, c_before - c
    c_upto = c + c_upto if c_upto != 0 else int64(0)
    c_missing = total - _largest_of_warp(c_upto)
    c_upto = _largest_before(c_upto, lane)
    has_missing = (g_missing | h_missing) != 0
    right, right_bin, right_g, right_h = 0.0, int32(0), int64(0), int64(0)
    left, left_bin, left_g, left_h = 0.0, int32(0), int64(0), int64(0)
    for j in range(begin, end):
        gj, hj = hist[buffer, slot + j], hist[buffer, plane + slot + j]
        is_tried = every or (gj | hj) != 0
        if is_tried and has_missing and lo < j and j <= hi:
            count = c_upto + c_missing
            if not counted or (count >= least and total - count >= least):
                score = split.score_of(g + g_missing, h + h_missing, node.g, node.h, (), reg)
                if score > 0.0 and score >= left:
                    left, left_bin, left_g, left_h = score, int32(j), g + g_missing, h + h_missing
        g += gj
        h += hj
        c += hist[buffer, of_counts + j]
        if is_tried:
            c_upto = c
            if lo <= j and j < hi and (not counted or (c >= least and total - c >= least)):
                score = split.score_of(g, h, node.g, node.h, (), reg)
                if score > right:
                    right, right_bin, right_g, right_h = score, int32(j), g, h
    best, best_bin = split.best_of_lanes(right, right_bin, False)
    other, other_bin = split.best_of_lanes(left, left_bin, True)
    if other > best:
        if lane == other_bin // run:
            found.score, found.bin, found.default_left = other, other_bin - 1, 1
            found.g_left, found.h_left = left_g, left_h
    elif lane == best_bin // run:
        found.score, found.bin, found.default_left, found.g_left, found.h_left = best, best_bin, 0, right_g, right_h


@gpu_part
def find_splits(slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, choice, reg, best):
    """`split.find_splits` with a choice."""
    n_features, plane = int32(n_bins.shape[0]), slot_ptr[n_bins.shape[0]]
    lane = int32(cuda.threadIdx.x) & 31
    for pair in range(int32(cuda.grid(1)) >> 5, int32(state[EVALS]) * n_features, int32(cuda.gridsize(1)) >> 5):
        e = int32(pair // n_features)
        f = int32(pair - e * n_features)
        i = lists[EVAL_IDS, e]
        node, smaller = nodes[i], lists[SMALLER, e]
        if smaller >= 0:
            split.subtract(hist, node.hist, smaller, slot_ptr[f], plane, n_bins[f], lane)
            if hist.shape[1] > 2 * plane:
                for j in range(slot_ptr[f] + lane, slot_ptr[f] + n_bins[f], WARP):
                    hist[node.hist, 2 * plane + j] -= hist[smaller, 2 * plane + j]
                cuda.syncwarp()
        if allowed[i - first_child if allowed.shape[0] > 1 else 0, f] != 0:
            find_split(hist, smaller, node, i, f, slot_ptr[f], plane, n_bins[f], choice, reg, best[e, f], lane)
        elif lane == 0:
            best[e, f].score = 0.0


@gpu_part
def subtract_totals(nodes, lists, state, hist, n_slots, t, n_threads):
    """Numbers of rows, as `split.subtract` does it for bins; all searches are done."""
    for e in range(t, int32(state[EVALS]), n_threads):
        smaller = lists[SMALLER, e]
        if smaller >= 0 and hist.shape[1] > 2 * n_slots:
            hist[nodes[lists[EVAL_IDS, e]].hist, 3 * n_slots] -= hist[smaller, 3 * n_slots]
