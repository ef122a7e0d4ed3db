"""A tree with smoothed weights (path_smooth), grown row by row. See `naive.py`."""

import itertools

import numpy as np

import naive
from naive_symmetric import score_of_weight


def smoothed(g, h, above, strength, p):
    """A node's weight, drawn to the one above it."""
    weight = naive.leaf_weight(g, h, p)
    return (weight * h + above * strength) / (h + strength) if h >= 0.0 else weight


def find_split(bins, node, output, g, h, n_bins, strength, p):
    """The best split of a node whose own weight is `output`, by the scores of the weights taken."""
    g_node, h_node = float(node.g) * p.g_unit, float(node.h) * p.h_unit
    as_leaf = score_of_weight(g_node, h_node, output, p)
    best, top = None, 0.0
    for f in range(len(n_bins)):
        sums = naive.histogram(bins, node.rows, g, h, f, n_bins[f])
        occupied = [b for b in range(n_bins[f]) if sums[b] != [0, 0]]
        has_missing = sums[-1] != [0, 0]
        right = [(b, b) for b in (occupied if has_missing else occupied[:-1])]
        left = [(a, b - 1) for a, b in itertools.pairwise(occupied)][::-1] if has_missing else []
        alone = [(-1, occupied[0] - 1)] if has_missing and occupied else []
        for default_left, order in ((False, right), (True, left + alone)):
            for last, b in order:
                g_left = sum(sums[k][0] for k in range(last + 1)) + default_left * sums[-1][0]
                h_left = sum(sums[k][1] for k in range(last + 1)) + default_left * sums[-1][1]
                sides = [
                    (float(a) * p.g_unit, float(c) * p.h_unit)
                    for a, c in ((g_left, h_left), (node.g - g_left, node.h - h_left))
                ]
                if any(side[1] < p.min_child_weight or side[1] <= 0.0 for side in sides):
                    continue
                weights = [smoothed(*side, output, strength, p) for side in sides]
                scores = [score_of_weight(*side, w, p) for side, w in zip(sides, weights)]
                score = scores[0] + scores[1] - as_leaf
                if score > top:
                    top, best = score, naive.Split(score, f, b, default_left, g_left, h_left)
    return best if best and top > naive.MIN_GAIN and top >= p.gamma else None


def grow(bins, g, h, n_bins, p):
    """Nodes, level by level; weights are float32."""
    rows = list(range(len(bins)))
    nodes = [naive.Node(rows, sum(g), sum(h))]
    root = (float(nodes[0].g) * p.g_unit, float(nodes[0].h) * p.h_unit)
    strength = p.path_smooth * nodes[0].h * p.h_unit / len(rows)
    outputs = {0: naive.leaf_weight(*root, p)}
    level, depth = [0], 0
    while level and depth < p.max_depth:
        below = []
        for i in level:
            nodes[i].split = find_split(bins, nodes[i], outputs[i], g, h, n_bins, strength, p)
        for i in level:
            if nodes[i].split is not None:
                naive.open_node(nodes, i, bins)
                for child in (nodes[i].left, nodes[i].right):
                    sums = (float(nodes[child].g) * p.g_unit, float(nodes[child].h) * p.h_unit)
                    outputs[child] = smoothed(*sums, outputs[i], strength, p)
                    below.append(child)
        level, depth = below, depth + 1
    for i, node in enumerate(nodes):
        node.weight = np.float32(outputs[i])
    return nodes
