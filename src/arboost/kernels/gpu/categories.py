"""Splits of a feature's categories into two sets: kernels/cpu/grow/categories.py's search, a warp for each.

`sets` is () where there are no categories, and nothing of this is compiled; else
    is_category (n_features,) uint8
    features    (n_categorical,) int32: the others are searched in split.py
    limits      [max_cat_to_onehot, max_cat_threshold] int64
    keys        (n_workers, a power of two >= categories of any feature) int64: where that many warps sort
    bits        (n_nodes, n_words) uint64: the categories that go right
"""

from numba import float32, float64, int32, int64, uint64

from arboost.kernels import elementary, scalar
from arboost.kernels.gpu import split
from arboost.kernels.gpu.arrays import EVAL_IDS, EVALS, SMALLER, WARP, last_of, scan
from arboost.kernels.gpu.bounds import limits_of
from arboost.kernels.gpu.jit import cuda, formula, gpu_part
from arboost.kernels.gpu.quantize import G_UNIT, H_UNIT

NO_KEY = 0x7FFFFFFFFFFFFFFF  # after all keys
IS_CATEGORY, FEATURES, LIMITS, KEYS, BITS = range(5)  # of sets
TO_ONEHOT, THRESHOLD = 0, 1  # of the limits
_SIGN = 0x80000000
leaf_weight, bits_of = formula(scalar.leaf_weight), formula(elementary.bits_of)


@gpu_part
def key_of(weight, category):
    """An integer that orders categories as their weights, equal ones by number."""
    bits = int64(bits_of(weight if weight != float32(0.0) else float32(0.0)))  # -0.0 equals 0.0
    ordered = -(bits - _SIGN) - 1 if bits >= _SIGN else bits
    return (ordered << 32) | int64(category)


@gpu_part
def category_at(keys, k):
    """The category in place k of the order."""
    return int32(keys[k] & 0xFFFFFFFF)


@gpu_part
def sort_categories(hist, buffer, slot, plane, n, reg, keys, lane):
    """keys[:n] = those of the categories by ascending leaf weight: a bitonic sort."""
    size = int32(1)
    while size < n:
        size <<= 1
    for c in range(lane, size, WARP):
        keys[c] = NO_KEY
        if c < n:
            g, h = float64(hist[buffer, slot + c]) * reg[G_UNIT], float64(hist[buffer, plane + slot + c]) * reg[H_UNIT]
            keys[c] = key_of(float32(leaf_weight(g, h, reg)), c)
    cuda.syncwarp()
    run = int32(2)
    while run <= size:
        step = run >> 1
        while step > 0:
            for k in range(lane, size >> 1, WARP):
                low = int32(2 * k - (k & (step - 1)))
                a, b = keys[low], keys[low + step]
                if (a > b) == ((low & run) == 0):
                    keys[low], keys[low + step] = b, a
            cuda.syncwarp()
            step >>= 1
        run <<= 1


@gpu_part
def _try_single(hist, node, slot, plane, n, limits, reg, found, lane):
    """Each category alone on the right; missing values left, then right."""
    buffer = node.hist
    g_present, h_present = (
        split.sum_of_bins(hist, buffer, slot, n, lane),
        split.sum_of_bins(hist, buffer, plane + slot, n, lane),
    )
    top, code, side, top_g, top_h = 0.0, int32(0), int32(0), int64(0), int64(0)
    for c in range(lane, n, WARP):
        gc, hc = hist[buffer, slot + c], hist[buffer, plane + slot + c]
        g, h = node.g - gc, node.h - hc
        score = split.score_of(g, h, node.g, node.h, limits, reg)
        if score > top:
            top, code, side, top_g, top_h = score, int32(c), int32(1), g, h
        g, h = g_present - gc, h_present - hc
        score = split.score_of(g, h, node.g, node.h, limits, reg)
        if score > top:
            top, code, side, top_g, top_h = score, int32(c), int32(0), g, h
    best, at = split.best_of_lanes(top, code, False)
    if lane == at % WARP and best > 0.0:
        found.score, found.bin, found.default_left, found.g_left, found.h_left = best, code, side, top_g, top_h


@gpu_part
def _try_ordered(hist, node, slot, plane, n, threshold, keys, limits, reg, found, lane):
    """Prefixes of the order on the right, then suffixes on the left."""
    buffer, n_tries = node.hist, int32((threshold if threshold < n else n) - 1)
    best = 0.0
    for suffix in range(2):
        top, place, top_g, top_h = 0.0, int32(lane), int64(0), int64(0)
        g_before, h_before = int64(0), int64(0)
        for first in range(0, n_tries, WARP):
            k = first + lane
            g, h = int64(0), int64(0)
            if k < n_tries:
                at = slot + category_at(keys, n - 1 - k if suffix else k)
                g, h = hist[buffer, at], hist[buffer, plane + at]
            g, h = g_before + scan(g, lane), h_before + scan(h, lane)
            g_before, h_before = last_of(g), last_of(h)
            if k < n_tries:
                g_left, h_left = (g, h) if suffix else (node.g - g, node.h - h)
                score = split.score_of(g_left, h_left, node.g, node.h, limits, reg)
                if score > top:
                    top, place, top_g, top_h = score, int32(k), g_left, h_left
        high, at = split.best_of_lanes(top, place, False)
        if high > best:
            best = high
            if lane == at % WARP:
                found.score, found.default_left, found.g_left, found.h_left = high, 1 - suffix, top_g, top_h
                found.bin = n - 1 - at if suffix else at + 1
        cuda.syncwarp()


@gpu_part
def _find_set(hist, node, slot, plane, n, of_search, keys, limits, reg, found, lane):
    """The best split of a node on a feature of n categories (found, OUT)."""
    if lane == 0:
        found.score = 0.0
    cuda.syncwarp()
    if n < of_search[TO_ONEHOT]:
        _try_single(hist, node, slot, plane, n, limits, reg, found, lane)
    else:
        sort_categories(hist, node.hist, slot, plane, n, reg, keys, lane)
        _try_ordered(hist, node, slot, plane, n, of_search[THRESHOLD], keys, limits, reg, found, lane)


@gpu_part
def find_sets(slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, bounds, sets, reg, best):
    """`split.find_splits` for categorical features."""
    _, features, of_search, keys, _ = sets
    n, plane, lane = int32(features.shape[0]), slot_ptr[n_bins.shape[0]], int32(cuda.threadIdx.x) & 31
    warp, n_warps = int32(cuda.grid(1)) >> 5, min(int32(cuda.gridsize(1)) >> 5, int32(keys.shape[0]))
    if warp >= n_warps:
        return
    for pair in range(warp, int32(state[EVALS]) * n, n_warps):
        e = int32(pair // n)
        f = features[pair - e * n]
        i = lists[EVAL_IDS, e]
        node = nodes[i]
        if lists[SMALLER, e] >= 0:
            split.subtract(hist, node.hist, lists[SMALLER, e], slot_ptr[f], plane, n_bins[f], lane)
        if allowed[i - first_child if allowed.shape[0] > 1 else 0, f] != 0:
            limits = limits_of(bounds, nodes, i, f, reg)
            _find_set(
                hist, node, slot_ptr[f], plane, n_bins[f], of_search, keys[warp], limits, reg, best[e, f], lane
            )  # fmt: skip
        elif lane == 0:
            best[e, f].score = 0.0


@gpu_part
def keep_sets(slot_ptr, n_bins, nodes, lists, state, hist, sets, reg):
    """Write down what goes right in the nodes that were searched and are split by a set: their sums are still there."""
    is_category, _, of_search, keys, bits = sets
    plane, lane = slot_ptr[n_bins.shape[0]], int32(cuda.threadIdx.x) & 31
    warp, n_warps = int32(cuda.grid(1)) >> 5, min(int32(cuda.gridsize(1)) >> 5, int32(keys.shape[0]))
    if warp >= n_warps:
        return
    for e in range(warp, int32(state[EVALS]), n_warps):
        i = lists[EVAL_IDS, e]
        node = nodes[i]
        f = node.feature
        if f < 0 or is_category[f] == 0:
            continue
        for w in range(lane, bits.shape[1], WARP):
            bits[i, w] = 0
        cuda.syncwarp()
        if n_bins[f] < of_search[TO_ONEHOT]:
            if lane == 0:
                _add_category(bits, i, node.bin)
        else:
            sort_categories(hist, node.hist, slot_ptr[f], plane, n_bins[f], reg, keys[warp], lane)
            for k in range(lane, node.bin, WARP):
                _add_category(bits, i, category_at(keys[warp], k))
        cuda.syncwarp()


@gpu_part
def _add_category(bits, i, c):
    """Put a category that is not there into the set of node i."""
    cuda.atomic.add(bits, (i, c >> 6), uint64(1) << uint64(c & 63))


@gpu_part
def goes_left(bits, i, code, default_left, missing):
    """Whether a row with this code goes left at node i, which is split by a set."""
    if code == missing:
        return default_left != 0
    return (bits[i, code >> 6] >> uint64(code & 63)) & uint64(1) == uint64(0)
