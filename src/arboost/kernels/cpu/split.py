"""The best split of each node from its histogram: Algorithms 1 and 3 of the paper over bins.

For every feature the missing values are sent right, then left. The order of preference is total and is that of
XGBoost's scan: larger gain; lower feature; missing right before missing left; then the lower bin (missing right)
or the higher bin (missing left) of those that separate the node's rows alike. `reg` is scalar.py's vector
followed by [gamma, g_unit, h_unit]: sums are integers times a unit.
"""

import numpy as np
from numba import float64, int64, uint64

from arboost.kernels.jit import kernel, scalar
from arboost.kernels.scalar import ALPHA, LAMBDA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, MIN_GAIN, leaf_score

GAMMA, G_UNIT, H_UNIT = 4, 5, 6


@scalar
def _occupied(hist, slot, n_slots, n, bins, g_left, h_left):
    """List the bins that hold rows, with running sums up to each; returns how many there are."""
    k = uint64(0)
    g, h = int64(0), int64(0)
    slot, plane = uint64(slot), uint64(slot + n_slots)
    for j in range(uint64(n)):
        gj, hj = hist[slot + j], hist[plane + j]
        g += gj
        h += hj
        bins[k] = j
        g_left[k] = g
        h_left[k] = h
        k += uint64((gj | hj) != 0)
    return int64(k)


@scalar
def _score_all(g_left, h_left, n, g_extra, h_extra, g_total, h_total, reg, score):
    """score[k] = what splitting after the k-th occupied bin leaves, or -1 where a side is too light."""
    g_unit, h_unit, lam, least = reg[G_UNIT], reg[H_UNIT], reg[LAMBDA], reg[MIN_CHILD_WEIGHT]
    if reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0:  # the common case, written so that it vectorises
        for k in range(uint64(n)):
            gl, hl = float64(g_left[k] + g_extra) * g_unit, float64(h_left[k] + h_extra) * h_unit
            gr = float64(g_total - g_left[k] - g_extra) * g_unit
            hr = float64(h_total - h_left[k] - h_extra) * h_unit
            both = gl * gl / (hl + lam) + gr * gr / (hr + lam)
            score[k] = both if (hl >= least) & (hr >= least) & (hl > 0.0) & (hr > 0.0) else -1.0
        return
    for k in range(uint64(n)):
        gl, hl = float64(g_left[k] + g_extra) * g_unit, float64(h_left[k] + h_extra) * h_unit
        gr = float64(g_total - g_left[k] - g_extra) * g_unit
        hr = float64(h_total - h_left[k] - h_extra) * h_unit
        score[k] = -1.0
        if hl >= least and hr >= least and hl > 0.0 and hr > 0.0:
            score[k] = leaf_score(gl, hl, reg) + leaf_score(gr, hr, reg)


@kernel
def find_splits(nodes, evals, hist, slot_ptr, n_bins, allowed, reg, best, start, stop):
    """best[e, f] for pairs (e, f) number start..stop: the best split of node evals[e] on feature f.

    allowed (n_evals or 1, n_features) uint8: features that column sampling and constraints leave to a node.
    """
    n_features = n_bins.shape[0]
    n_slots = slot_ptr[n_features]
    size = 1
    for f in range(n_features):
        size = max(size, n_bins[f] + 1)
    bins, score = np.empty(size, np.int64), np.empty(size, np.float64)
    g_left, h_left = np.empty(size, np.int64), np.empty(size, np.int64)
    for pair in range(start, stop):
        e, f = pair // n_features, pair % n_features
        found = best[e, f]
        found.gain, found.bin, found.default_left = 0.0, -1, 0
        if allowed[min(e, allowed.shape[0] - 1), f] == 0:
            continue
        node = nodes[evals[e]]
        out = hist[node.hist]
        n = _occupied(out, slot_ptr[f], n_slots, n_bins[f], bins, g_left, h_left)
        if n == 0:
            continue
        g_missing, h_missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
        has_missing = g_missing != 0 or h_missing != 0
        _score_all(g_left, h_left, n, 0, 0, node.g, node.h, reg, score)
        top = 0.0
        for k in range(n if has_missing else n - 1):
            if score[k] > top:
                top = score[k]
                found.gain, found.bin = top, bins[k]
        if has_missing and n > 1:
            _score_all(g_left, h_left, n - 1, g_missing, h_missing, node.g, node.h, reg, score)
            for k in range(n - 2, -1, -1):
                if score[k] > top:
                    top = score[k]
                    found.gain, found.bin, found.default_left = top, bins[k + 1] - 1, 1


@kernel
def select_splits(nodes, evals, hist, slot_ptr, n_bins, best, reg, start, stop):
    """Give nodes evals[start:stop] their best split over all features, or feature -1 if none gains enough."""
    n_features = n_bins.shape[0]
    n_slots = slot_ptr[n_features]
    for e in range(start, stop):
        node = nodes[evals[e]]
        top, feature = 0.0, -1
        for f in range(n_features):
            if best[e, f].gain > top:
                top, feature = best[e, f].gain, f
        node.feature = -1
        if feature < 0:
            continue
        gain = top - leaf_score(float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT], reg)
        if gain <= MIN_GAIN or gain < reg[GAMMA]:
            continue
        node.gain, node.feature = gain, feature
        node.bin, node.default_left = best[e, feature].bin, best[e, feature].default_left
        out, slot = hist[node.hist], slot_ptr[feature]
        g, h = int64(0), int64(0)
        for j in range(slot, slot + node.bin + 1):
            g += out[j]
            h += out[n_slots + j]
        if node.default_left:
            missing = slot + n_bins[feature]
            g += out[missing]
            h += out[n_slots + missing]
        node.g_left, node.h_left = g, h
