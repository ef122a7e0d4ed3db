"""Splits under bounds: monotone constraints keep a node's weight between what its ancestors' splits allow.

XGBoost's rule: a split on a feature that must rise needs left weight <= right weight; the middle of the two then bounds
both children's subtrees, from above on the left and from below on the right. With bounds a leaf's weight is not the
best one, so scores are those of the weights taken, may be negative, and candidates are compared by their gain.
Smoothed weights (path_smooth) are the other reason not to take the best: a node's is drawn to that of its parent.

A node and a feature have limits = (least weight, largest weight, constraint, score of the node, 1 if there are any,
hessian that the node's own weight counts for in its children, that weight).
"""

from numba import float64, int64

from arboost.kernels.cpu.grow.split import (
    BINS,
    G_LEFT,
    G_SUMS,
    G_UNIT,
    GAMMA,
    H_LEFT,
    H_SUMS,
    H_UNIT,
    OCCUPIED,
    collect_bins,
    occupied_sums,
    sum_few_rows,
)
from arboost.kernels.dtypes import BY_ROWS
from arboost.kernels.jit import part
from arboost.kernels.scalar import (
    ALPHA,
    LAMBDA,
    MAX_DELTA_STEP,
    MIN_CHILD_WEIGHT,
    MIN_GAIN,
    bounded_weight,
    leaf_score,
    leaf_weight,
    score_of_weight,
)


@part
def _weight_of_node(bounds, nodes, i, reg):
    """The weight of node i as a leaf, under its bounds."""
    if bounds.in_force[1] > 0.0:
        return bounds.outputs[i]
    g, h = float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT]
    return bounded_weight(g, h, bounds.least[i], bounds.largest[i], 0.0, 0.0, reg)


@part
def offer(g_left, h_left, node, limits, reg, code, default_left, found):
    """Take a candidate (found, OUT) if it is allowed and scores more than what was found before."""
    gl, hl = float64(g_left) * reg[G_UNIT], float64(h_left) * reg[H_UNIT]
    gr, hr = float64(node.g - g_left) * reg[G_UNIT], float64(node.h - h_left) * reg[H_UNIT]
    heavy = reg[MIN_CHILD_WEIGHT]
    if hl < heavy or hr < heavy or hl <= 0.0 or hr <= 0.0:
        return
    least, largest, constraint, parent, bounded, smooth, above = limits
    if bounded == 0 and reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0:
        dl, dr = hl + reg[LAMBDA], hr + reg[LAMBDA]  # split.py's form, so that equal sums are a tie to the last bit
        score = (gl * gl * dr + gr * gr * dl) / (dl * dr)
    elif bounded == 0:
        score = leaf_score(gl, hl, reg) + leaf_score(gr, hr, reg)
    else:
        wl = bounded_weight(gl, hl, least, largest, smooth, above, reg)
        wr = bounded_weight(gr, hr, least, largest, smooth, above, reg)
        if (constraint > 0 and wl > wr) or (constraint < 0 and wl < wr):
            return
        score = score_of_weight(gl, hl, wl, reg) + score_of_weight(gr, hr, wr, reg) - parent
    if score > found.score:
        found.score, found.bin, found.default_left = score, code, default_left
        found.g_left, found.h_left = g_left, h_left


@part
def offer_bins(bins, g_left, h_left, n, node, limits, reg, found):
    """Offer a split after each of n bins, given running sums; what the sums lack of the node is missing."""
    g_missing, h_missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
    has_missing = (g_missing | h_missing) != 0
    for k in range(n if has_missing else n - 1):
        offer(g_left[k], h_left[k], node, limits, reg, bins[k], 0, found)
    if has_missing:
        for k in range(n - 2, -1, -1):
            offer(g_left[k] + g_missing, h_left[k] + h_missing, node, limits, reg, bins[k + 1] - 1, 1, found)
        # Missing values alone on the left: without bounds that is the first loop's last candidate, mirrored.
        offer(g_missing, h_missing, node, limits, reg, bins[0] - 1, 1, found)


@part
def find_bounded(node, f, source, slot_ptr, n, limits, reg, work, found):
    """The best split of a node on a numerical feature under bounds; the order of preference is split.py's.

    source = (histograms, columns, row ids, gradients, hessians, shift), as special.py has it.
    """
    hist, columns, ids, g_values, h_values, shift = source
    bins, g_left, h_left = work[BINS], work[G_LEFT], work[H_LEFT]
    if node.hist == BY_ROWS:
        g_sums, h_sums, marks, span = work[G_SUMS], work[H_SUMS], work[OCCUPIED], (node.start, node.stop)
        sum_few_rows(columns[f], ids, span[0], span[1], g_values, h_values, shift, n, g_sums, h_sums, marks)
        n = collect_bins(g_sums, h_sums, marks, n, bins, g_left, h_left)
    else:
        n = occupied_sums(hist[node.hist], slot_ptr[f], slot_ptr[slot_ptr.shape[0] - 1], n, bins, g_left, h_left)
    if n > 0:
        offer_bins(bins, g_left, h_left, n, node, limits, reg, found)


@part
def select_by_gain(nodes, evals, best, reg):
    """`split.select_splits` where candidates' scores are gains already."""
    for e in range(evals.shape[0]):
        node = nodes[evals[e]]
        top, feature = 0.0, -1
        for f in range(best.shape[1]):
            if best[e, f].score > top:
                top, feature = best[e, f].score, f
        node.feature = -1
        if feature >= 0 and top > MIN_GAIN and top >= reg[GAMMA]:
            found = best[e, feature]
            node.gain, node.feature, node.bin, node.default_left = top, feature, found.bin, found.default_left
            node.g_left, node.h_left = found.g_left, found.h_left


@part
def limits_of(bounds, nodes, i, f, reg):
    """What bounds leave to the children of node i, if it is split on feature f: see above."""
    if bounds.in_force[0] == 0:
        return 0.0, 0.0, int64(0), 0.0, int64(0), 0.0, 0.0
    least, largest, weight = bounds.least[i], bounds.largest[i], _weight_of_node(bounds, nodes, i, reg)
    g, h = float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT]
    score = score_of_weight(g, h, weight, reg)
    return least, largest, bounds.constraints[f], score, int64(1), bounds.in_force[1], weight


@part
def begin(bounds, nodes, reg):
    """The root's own weight: nothing is above it that it could be drawn to."""
    g, h = float64(nodes[0].g) * reg[G_UNIT], float64(nodes[0].h) * reg[H_UNIT]
    bounds.outputs[0] = leaf_weight(g, h, reg)


@part
def hand_down(bounds, nodes, i, reg):
    """Bounds of the children of node i (least and largest, OUT for them)."""
    if bounds.in_force[0] == 0:
        return
    node, least, largest = nodes[i], bounds.least, bounds.largest
    smooth, above = bounds.in_force[1], bounds.outputs[i]
    gl, hl = float64(node.g_left) * reg[G_UNIT], float64(node.h_left) * reg[H_UNIT]
    wl = bounded_weight(gl, hl, least[i], largest[i], smooth, above, reg)
    gr, hr = float64(node.g - node.g_left) * reg[G_UNIT], float64(node.h - node.h_left) * reg[H_UNIT]
    wr = bounded_weight(gr, hr, least[i], largest[i], smooth, above, reg)
    middle = (wl + wr) / 2.0
    for child in range(node.left, node.right + 1):
        least[child], largest[child] = least[i], largest[i]
    constraint = bounds.constraints[node.feature]
    if constraint > 0:
        largest[node.left], least[node.right] = middle, middle
    elif constraint < 0:
        least[node.left], largest[node.right] = middle, middle
    bounds.outputs[node.left] = bounded_weight(gl, hl, least[node.left], largest[node.left], smooth, above, reg)
    bounds.outputs[node.right] = bounded_weight(gr, hr, least[node.right], largest[node.right], smooth, above, reg)
