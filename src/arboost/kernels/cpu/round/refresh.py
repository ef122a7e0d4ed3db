"""New statistics for the nodes of an old tree: integer sums of gradients by leaf, then XGBoost's formulas by node."""

from numba import float64, int64, uint64

from arboost.kernels.jit import kernel, scalar
from arboost.kernels.scalar import ALPHA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, leaf_score, leaf_weight


@kernel
def add_leaf_sums(leaves, tree_idx, planes, shift, first_row, sums, start, stop):
    """sums[leaf] (n_nodes, 2) int64 += (g, h) of rows start..stop, which lie in leaves[:, tree_idx].

    Row r of `leaves` is row first_row + r of the gradients; shift > 0: both in one plane (tree/quantize.py).
    """
    t, mask = uint64(tree_idx), (int64(1) << int64(shift)) - int64(1)
    for r in range(uint64(start), uint64(stop)):
        leaf, row = uint64(leaves[r, t]), uint64(first_row) + r
        v = planes[0, row]
        if shift > 0:
            sums[leaf, 0] += v >> int64(shift)
            sums[leaf, 1] += v & mask
        else:
            sums[leaf, 0] += v
            sums[leaf, 1] += planes[1, row]


@scalar
def _node_score(g, h, reg):
    """The loss reduction of a node as refreshing counts it: 0 for one too light, L1 paid for a bounded step."""
    if h < reg[MIN_CHILD_WEIGHT]:
        return 0.0
    score = leaf_score(g, h, reg)
    if reg[MAX_DELTA_STEP] != 0.0:
        score += reg[ALPHA] * abs(leaf_weight(g, h, reg))
    return score


@kernel
def refresh_nodes(left, right, sums, units, reg, gain, cover, base_weight, start, stop):
    """Gain, cover and base_weight (float32, OUT) of nodes start..stop from the sums; units = [g_unit, h_unit]."""
    for i in range(start, stop):
        g, h = float64(sums[i, 0]) * units[0], float64(sums[i, 1]) * units[1]
        cover[i] = h
        base_weight[i] = leaf_weight(g, h, reg)
        gain[i] = 0.0
        if left[i] >= 0:
            score = -_node_score(g, h, reg)
            for side in range(2):
                child = left[i] if side == 0 else right[i]
                score += _node_score(float64(sums[child, 0]) * units[0], float64(sums[child, 1]) * units[1], reg)
            gain[i] = score
