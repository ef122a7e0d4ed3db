"""Bounds of weights on a device, of monotone constraints and of smoothing: kernels/cpu/grow/bounds.py's rules.

`bounds` is () where there are none, and nothing of this is compiled; else (constraints (n_features,) int64: 1, -1 or 0;
spans (n_nodes, 3) float64: of every node the least weight, the largest, and its own as a leaf).
A node and a feature have limits = (least weight, largest weight, constraint, score of the node, hessian that the node's
own weight counts for in its children, that weight), or ().
"""

from numba import float64, int64

from arboost.kernels import scalar
from arboost.kernels.gpu.jit import formula, gpu_part
from arboost.kernels.gpu.quantize import G_UNIT, H_UNIT

LEAST, LARGEST, OWN = 0, 1, 2
PATH_SMOOTH = 7  # its place in reg
INFINITY = float("inf")
bounded_weight, score_of_weight = formula(scalar.bounded_weight), formula(scalar.score_of_weight)
leaf_weight = formula(scalar.leaf_weight)


@gpu_part
def smooth_of(nodes, reg):
    """The hessian at which a node's own weight counts as much as that of its parent: that of path_smooth usual rows."""
    root = nodes[0]
    n_rows = root.stop - root.start if root.stop > root.start else int64(1)
    return reg[PATH_SMOOTH] * float64(root.h) * reg[H_UNIT] / float64(n_rows)


@gpu_part
def begin(bounds, nodes, reg):
    """The root's weight is free."""
    if len(bounds) > 0:
        spans, root = bounds[1], nodes[0]
        spans[0, LEAST], spans[0, LARGEST] = -INFINITY, INFINITY
        spans[0, OWN] = leaf_weight(float64(root.g) * reg[G_UNIT], float64(root.h) * reg[H_UNIT], reg)


@gpu_part
def weight_of(bounds, nodes, i, reg):
    """The weight of node i as a leaf."""
    if len(bounds) > 0:
        return bounds[1][i, OWN]
    return leaf_weight(float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT], reg)


@gpu_part
def limits_of(bounds, nodes, i, f, reg):
    """What bounds leave to the children of node i, if it is split on feature f."""
    if len(bounds) > 0:
        constraints, spans = bounds
        g, h, own = float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT], spans[i, OWN]
        score = score_of_weight(g, h, own, reg)
        return spans[i, LEAST], spans[i, LARGEST], constraints[f], score, smooth_of(nodes, reg), own
    return ()


@gpu_part
def gain_within(gl, hl, gr, hr, limits, reg):
    """What a split gains whose children's weights are within the limits; -1 where they run the wrong way."""
    least, largest, constraint, parent, smooth, above = limits
    wl = bounded_weight(gl, hl, least, largest, smooth, above, reg)
    wr = bounded_weight(gr, hr, least, largest, smooth, above, reg)
    if (constraint > 0 and wl > wr) or (constraint < 0 and wl < wr):
        return -1.0
    return score_of_weight(gl, hl, wl, reg) + score_of_weight(gr, hr, wr, reg) - parent


@gpu_part
def hand_down(bounds, nodes, i, reg):
    """Bounds of the children of node i."""
    if len(bounds) > 0:
        constraints, spans = bounds
        node = nodes[i]
        left, right = node.left, node.right
        least, largest = spans[i, LEAST], spans[i, LARGEST]
        gl, hl = float64(node.g_left) * reg[G_UNIT], float64(node.h_left) * reg[H_UNIT]
        gr, hr = float64(node.g - node.g_left) * reg[G_UNIT], float64(node.h - node.h_left) * reg[H_UNIT]
        smooth, above = smooth_of(nodes, reg), spans[i, OWN]
        wl = bounded_weight(gl, hl, least, largest, smooth, above, reg)
        wr = bounded_weight(gr, hr, least, largest, smooth, above, reg)
        middle, constraint = (wl + wr) / 2.0, constraints[node.feature]
        spans[left, LEAST], spans[left, LARGEST] = least, largest
        spans[right, LEAST], spans[right, LARGEST] = least, largest
        if constraint > 0:
            spans[left, LARGEST], spans[right, LEAST] = middle, middle
        elif constraint < 0:
            spans[left, LEAST], spans[right, LARGEST] = middle, middle
        spans[left, OWN] = bounded_weight(gl, hl, spans[left, LEAST], spans[left, LARGEST], smooth, above, reg)
        spans[right, OWN] = bounded_weight(gr, hr, spans[right, LEAST], spans[right, LARGEST], smooth, above, reg)
