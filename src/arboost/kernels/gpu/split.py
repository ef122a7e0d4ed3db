"""The best split of each node, one warp for a node and a feature: kernels/cpu/grow/split.py's search and preferences.

A lane takes eight neighbouring bins at a time, and sums go from lane to lane. Of equal scores the lower feature wins;
missing right before missing left; then the lower bin (missing right) or the higher one (missing left).
"""

from numba import float64, int32, int64

from arboost.kernels import scalar
from arboost.kernels.gpu.arrays import ALL_LANES, EVAL_IDS, EVALS, SMALLER, WARP, last_of, scan
from arboost.kernels.gpu.bounds import gain_within, limits_of
from arboost.kernels.gpu.jit import cuda, formula, gpu_part
from arboost.kernels.gpu.quantize import G_UNIT, H_UNIT
from arboost.kernels.scalar import ALPHA, LAMBDA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, MIN_GAIN

GAMMA = 4
BINS_OF_LANE = 8
BINS_OF_WARP = BINS_OF_LANE * WARP
leaf_score = formula(scalar.leaf_score)


@gpu_part
def score_of(g_left, h_left, g_total, h_total, limits, reg):
    """The sum of the children's leaf scores, the gain where there are limits, or -1 where a side is too light."""
    gl, hl = float64(g_left) * reg[G_UNIT], float64(h_left) * reg[H_UNIT]
    gr, hr = float64(g_total - g_left) * reg[G_UNIT], float64(h_total - h_left) * reg[H_UNIT]
    least = reg[MIN_CHILD_WEIGHT]
    if not (hl >= least and hr >= least and hl > 0.0 and hr > 0.0):
        return -1.0
    if len(limits) > 0:
        return gain_within(gl, hl, gr, hr, limits, reg)
    if reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0:
        dl, dr = hl + reg[LAMBDA], hr + reg[LAMBDA]
        return (gl * gl * dr + gr * gr * dl) / (dl * dr)
    return leaf_score(gl, hl, reg) + leaf_score(gr, hr, reg)


@gpu_part
def subtract(hist, buffer, smaller, slot, plane, n, lane):
    """What remains of a parent's sums of one feature when those of the smaller child are taken away."""
    for j in range(lane, n, WARP):
        hist[buffer, slot + j] -= hist[smaller, slot + j]
        hist[buffer, plane + slot + j] -= hist[smaller, plane + slot + j]
    cuda.syncwarp()


@gpu_part
def sum_of_bins(hist, buffer, first, n, lane):
    """The sum over all bins, for all lanes."""
    total = int64(0)
    for j in range(lane, n, WARP):
        total += hist[buffer, first + j]
    return last_of(scan(total, lane))


@gpu_part
def best_of_lanes(score, at, higher):
    """(score, bin) of the best lane; of equal scores the lower bin wins, or the higher one."""
    for k in range(5):
        other, there = cuda.shfl_down_sync(ALL_LANES, score, 1 << k), cuda.shfl_down_sync(ALL_LANES, at, 1 << k)
        if other > score or (other == score and ((there > at) == higher)):
            score, at = other, there
    return cuda.shfl_sync(ALL_LANES, score, 0), cuda.shfl_sync(ALL_LANES, at, 0)


@gpu_part
def find_split(hist, node, slot, plane, n, limits, reg, found, lane):
    """The best split of a node on the feature whose n bins begin at `slot` (found, OUT)."""
    buffer = node.hist
    g_all, h_all = sum_of_bins(hist, buffer, slot, n, lane), sum_of_bins(hist, buffer, plane + slot, n, lane)
    g_missing, h_missing = node.g - g_all, node.h - h_all
    has_missing = (g_missing | h_missing) != 0
    n_right = n if has_missing else n - 1  # without missing values the last bin leaves nothing on the right
    right, right_bin, right_g, right_h = 0.0, int32(0), int64(0), int64(0)
    left, left_bin, left_g, left_h = 0.0, int32(0), int64(0), int64(0)
    if len(limits) > 0 and lane == WARP - 1:  # -1 // BINS_OF_LANE % WARP is its owner
        # missing values alone: without limits that is the last candidate of the others, mirrored
        score = score_of(g_missing, h_missing, node.g, node.h, limits, reg)
        if score > 0.0:
            left, left_bin, left_g, left_h = score, int32(-1), g_missing, h_missing
    g_before, h_before = int64(0), int64(0)
    for first in range(0, n, BINS_OF_WARP):
        begin = first + lane * BINS_OF_LANE
        end = begin + BINS_OF_LANE if begin + BINS_OF_LANE < n else n
        g, h = int64(0), int64(0)
        for j in range(begin, end):
            g += hist[buffer, slot + j]
            h += hist[buffer, plane + slot + j]
        g_upto, h_upto = scan(g, lane), scan(h, lane)
        g, h = g_before + g_upto - g, h_before + h_upto - h
        for j in range(begin, end):
            gj, hj = hist[buffer, slot + j], hist[buffer, plane + slot + j]
            g += gj
            h += hj
            if j > begin and (gj | hj) == 0:
                # an empty bin parts the rows as the one before does: with missing values left, it is the better of two
                if has_missing and left_bin == j - 1 and left > 0.0 and j < n - 1:
                    left_bin = int32(j)
                continue
            if j < n_right:
                score = score_of(g, h, node.g, node.h, limits, reg)
                if score > right:
                    right, right_bin, right_g, right_h = score, int32(j), g, h
            if has_missing and j < n - 1:
                score = score_of(g + g_missing, h + h_missing, node.g, node.h, limits, reg)
                if score > 0.0 and score >= left:
                    left, left_bin, left_g, left_h = score, int32(j), g + g_missing, h + h_missing
        g_before += last_of(g_upto)
        h_before += last_of(h_upto)
    best, best_bin = best_of_lanes(right, right_bin, False)
    owner = (best_bin // BINS_OF_LANE) % WARP
    best_g, best_h, default_left = (
        cuda.shfl_sync(ALL_LANES, right_g, owner),
        cuda.shfl_sync(ALL_LANES, right_h, owner),
        int32(0),
    )
    if has_missing:
        other, other_bin = best_of_lanes(left, left_bin, True)
        owner = (other_bin // BINS_OF_LANE) % WARP
        other_g, other_h = cuda.shfl_sync(ALL_LANES, left_g, owner), cuda.shfl_sync(ALL_LANES, left_h, owner)
        if other > best:
            best, best_bin, best_g, best_h, default_left = other, other_bin, other_g, other_h, int32(1)
    if lane == 0:
        found.score, found.bin, found.default_left = best, best_bin, default_left
        found.g_left, found.h_left = best_g, best_h


@gpu_part
def _is_category(sets, f):
    """Whether a feature is searched in categories.py."""
    if len(sets) > 0:
        return sets[0][f] != 0
    return False


@gpu_part
def find_splits(slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, bounds, sets, reg, best):
    """best[e, f] for all nodes that are searched; allowed: a row for every child of the batch, or one for all."""
    n_features, plane = int32(n_bins.shape[0]), slot_ptr[n_bins.shape[0]]
    lane = int32(cuda.threadIdx.x) & 31
    n_pairs = int32(state[EVALS]) * n_features
    for pair in range(int32(cuda.grid(1)) >> 5, n_pairs, int32(cuda.gridsize(1)) >> 5):
        e = int32(pair // n_features)
        f = int32(pair - e * n_features)
        if _is_category(sets, f):
            continue
        i = lists[EVAL_IDS, e]
        node = nodes[i]
        if lists[SMALLER, e] >= 0:
            subtract(hist, node.hist, lists[SMALLER, e], slot_ptr[f], plane, n_bins[f], lane)
        if allowed[i - first_child if allowed.shape[0] > 1 else 0, f] != 0:
            limits = limits_of(bounds, nodes, i, f, reg)
            find_split(hist, node, slot_ptr[f], plane, n_bins[f], limits, reg, best[e, f], lane)
        elif lane == 0:
            best[e, f].score = 0.0


@gpu_part
def _gain_of(score, node, bounds, reg):
    """What a split of a node gains; under bounds its score says so."""
    if len(bounds) > 0:
        return score
    return score - leaf_score(float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT], reg)


@gpu_part
def select_splits(nodes, lists, state, best, bounds, reg, warp, n_warps, lane):
    """Give every searched node its best split over all features, or feature -1 if none gains enough."""
    for e in range(warp, int32(state[EVALS]), n_warps):
        top, feature = 0.0, int32(0x7FFFFFFF)
        for f in range(lane, best.shape[1], WARP):
            if best[e, f].score > top:
                top, feature = best[e, f].score, int32(f)
        top, feature = best_of_lanes(top, feature, False)
        if lane == 0:
            node = nodes[lists[EVAL_IDS, e]]
            node.feature = -1
            if top > 0.0:
                gain = _gain_of(top, node, bounds, reg)
                if gain > MIN_GAIN and gain >= reg[GAMMA]:
                    found = best[e, feature]
                    node.gain, node.feature, node.bin, node.default_left = gain, feature, found.bin, found.default_left
                    node.g_left, node.h_left = found.g_left, found.h_left
