"""A grown tree's nodes as XGBoost's arrays."""

from numba import float64, int64, types

from arboost.kernels.cpu.grow.arrays import Bounds, Special, Vectors, as_extra, is_of
from arboost.kernels.cpu.grow.split import G_UNIT, H_UNIT
from arboost.kernels.jit import forms_of, kernel, part
from arboost.kernels.scalar import bounded_weight, leaf_weight

NO_THRESHOLD = 1.401298464324817e-45  # the smallest float32: what XGBoost's files hold where a node has no threshold


def _threshold(cuts, extra, nodes, i):
    """The split value of inner node i: cuts = (ptr, values, lowest) of bins, or a threshold of every node."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _threshold_of_node(cuts, extra, nodes, i):
    return cuts[i]


@part
def _threshold_of_bin(cuts, node):
    ptr, values, lowest = cuts
    if node.bin < 0:  # below all values: missing ones are parted from the others
        return lowest[node.feature]
    return values[int64(ptr[node.feature]) + node.bin]


def _threshold_by_bin(cuts, extra, nodes, i):
    return _threshold_of_bin(cuts, nodes[i])


def _threshold_by_bin_or_set(cuts, extra, nodes, i):
    return NO_THRESHOLD if extra.sets.is_set[i] else _threshold_of_bin(cuts, nodes[i])


@forms_of(_threshold)
def _choose_threshold(cuts, extra, nodes, i):
    if isinstance(cuts, types.Array):
        return _threshold_of_node
    return _threshold_by_bin_or_set if is_of(extra, Special) else _threshold_by_bin


def _weigh(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    """Write node i's cover and base_weight, and if it is a leaf its weights (all OUT)."""
    raise NotImplementedError  # only its compiled forms below are ever called


@part
def _write_weight(weight, is_leaf, i, eta, keep_base, base_weight, weights):
    base_weight[i] = weight
    if is_leaf:
        weights[i] = base_weight[i] * eta
        if not keep_base:
            base_weight[i] = weights[i]


def _weigh_plain(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    g, h = float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT]
    cover[i] = h
    _write_weight(leaf_weight(g, h, reg), nodes[i].left < 0, i, eta, keep_base, base_weight, weights)


@part
def _weigh_within(bounds, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    g, h = float64(nodes[i].g) * reg[G_UNIT], float64(nodes[i].h) * reg[H_UNIT]
    cover[i] = h
    if bounds.in_force[1] > 0.0:
        weight = bounds.outputs[i]
    elif bounds.in_force[0] != 0:
        weight = bounded_weight(g, h, bounds.least[i], bounds.largest[i], 0.0, 0.0, reg)
    else:
        weight = leaf_weight(g, h, reg)
    _write_weight(weight, nodes[i].left < 0, i, eta, keep_base, base_weight, weights)


def _weigh_bounded(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    _weigh_within(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights)


def _weigh_special(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    _weigh_within(extra.bounds, nodes, i, reg, eta, keep_base, cover, base_weight, weights)


def _weigh_vector(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    sums, units = extra.sums[i], extra.units
    total = 0.0
    for t in range(units.shape[0]):
        g, h = float64(sums[2 * t]) * units[t, 0], float64(sums[2 * t + 1]) * units[t, 1]
        total += h
        weights[i, t] = 0.0
        _write_weight(leaf_weight(g, h, reg), nodes[i].left < 0, t, eta, keep_base, base_weight[i], weights[i])
    cover[i] = total


@forms_of(_weigh)
def _choose_weigh(extra, nodes, i, reg, eta, keep_base, cover, base_weight, weights):
    if is_of(extra, Special):
        return _weigh_special
    if is_of(extra, Bounds):
        return _weigh_bounded
    return _weigh_vector if is_of(extra, Vectors) else _weigh_plain


@kernel
def finish_tree(
    nodes, cuts, extra_arrays, reg, eta, keep_base, links, threshold, default_left, gain_cover, bases, weights
):
    """Write XGBoost's per-node arrays; a leaf's weight is scaled by eta, and unless `keep_base` its base_weight too.

    OUT: links (4, n) int32: left, right, parent, feature; gain_cover (2, n) float32; threshold (n,): of a leaf, its
    weight where `weights` is the same array; bases and weights (n,), or (n, K) where leaves hold vectors.
    """
    extra = as_extra(extra_arrays)
    left, right, parent, feature = links[0], links[1], links[2], links[3]
    gain, cover = gain_cover[0], gain_cover[1]
    for i in range(nodes.shape[0]):
        node = nodes[i]
        left[i], right[i], parent[i] = node.left, node.right, node.parent
        if node.left < 0:
            feature[i], default_left[i], gain[i], threshold[i] = 0, 0, 0.0, NO_THRESHOLD
        else:
            feature[i], default_left[i], gain[i] = node.feature, node.default_left, node.gain
            threshold[i] = _threshold(cuts, extra, nodes, i)
        _weigh(extra, nodes, i, reg, eta, keep_base, cover, bases, weights)
