"""Trees whose leaves hold a weight for each of K targets: scores of splits, sums of nodes.

    sums (n_nodes, 2 * K) int64             a node's [g, h] of target 0, of target 1, ...
    left_sums, of the same shape            the left child's under the best split
    units (K, 2) float64                    what one quantum of a target's g and of its h is worth

A target whose hessian in a child is below min_child_weight gets the weight 0 there and adds nothing to the gain, as in
XGBoost; it does not forbid the split. Where `reg` goes on (to STRICT and LEAST_SPLIT), it does.
"""

import numpy as np
from numba import float64, int64, uint64

from arboost.kernels.jit import part, scalar
from arboost.kernels.scalar import ALPHA, LAMBDA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, leaf_weight, soft_threshold

# Places in reg behind gamma and the units, if it has them:
STRICT = 7  # not 0: children below min_child_weight forbid a split
LEAST_SPLIT = 8  # the hessian that a node must have to be split
FORBIDDEN = -np.inf


@scalar
def is_strict(reg):
    """Whether children below min_child_weight forbid a split."""
    return reg.shape[0] > STRICT and reg[STRICT] != 0.0


@scalar
def target_score(g, h, reg):
    """What one target of a leaf with sums g and h adds to its score."""
    return -soft_threshold(g, reg[ALPHA]) * leaf_weight(g, h, reg)


@scalar
def node_score(sums, units, reg):
    """The score of a node: the sum over targets."""
    score = 0.0
    for t in range(units.shape[0]):
        score += target_score(float64(sums[2 * t]) * units[t, 0], float64(sums[2 * t + 1]) * units[t, 1], reg)
    return score


@scalar
def is_heavy(sums, units, reg):
    """1 if a target's hessian allows a weight other than 0: else no split below can gain."""
    least = reg[LEAST_SPLIT] if reg.shape[0] > LEAST_SPLIT else reg[MIN_CHILD_WEIGHT]
    for t in range(units.shape[0]):
        h = float64(sums[2 * t + 1]) * units[t, 1]
        if h > 0.0 and h >= least:
            return 1
    return 0


@part
def add_scores(g_left, h_left, n, missing, total, unit, reg, score):
    """score[k] += one target's scores of both children when split after entry k.

    g_left, h_left: running sums; missing = (g, h) that go left too; total = (g, h) of the node.
    Without L1 and max_delta_step the two fractions are brought on one denominator: one division, and it vectorises.
    """
    g_unit, h_unit = unit[0], unit[1]
    lam, least, strict = reg[LAMBDA], reg[MIN_CHILD_WEIGHT], is_strict(reg)
    simple = reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0
    if simple:
        for k in range(uint64(n)):
            gl, hl = float64(g_left[k] + missing[0]) * g_unit, float64(h_left[k] + missing[1]) * h_unit
            gr = float64(total[0] - g_left[k] - missing[0]) * g_unit
            hr = float64(total[1] - h_left[k] - missing[1]) * h_unit
            counts_l, counts_r = (hl >= least) & (hl > 0.0), (hr >= least) & (hr > 0.0)
            dl, dr = hl + lam if counts_l else 1.0, hr + lam if counts_r else 1.0
            both = (gl * gl if counts_l else 0.0) * dr + (gr * gr if counts_r else 0.0) * dl
            score[k] += FORBIDDEN if strict and not (counts_l and counts_r) else both / (dl * dr)
        return
    for k in range(uint64(n)):
        gl, hl = float64(g_left[k] + missing[0]) * g_unit, float64(h_left[k] + missing[1]) * h_unit
        gr = float64(total[0] - g_left[k] - missing[0]) * g_unit
        hr = float64(total[1] - h_left[k] - missing[1]) * h_unit
        too_light = strict and min(hl, hr) < least
        score[k] += FORBIDDEN if too_light else target_score(gl, hl, reg) + target_score(gr, hr, reg)


@part
def hand_down(nodes, i, sums, left_sums):
    """Sums (OUT) of the children of node i."""
    left, right = int64(nodes[i].left), int64(nodes[i].right)
    for j in range(sums.shape[1]):
        sums[left, j] = left_sums[i, j]
        sums[right, j] = sums[i, j] - left_sums[i, j]


@part
def total_hessian(sums):
    """The sum of the quantised hessians of all targets: how heavy a node is, for plans."""
    total = int64(0)
    for j in range(1, sums.shape[0], 2):
        total += sums[j]
    return total
