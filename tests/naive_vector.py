"""Slow, obvious trees with a weight for each of several targets in their leaves; the twin of tree/vector.py.

Rows are lists of bins; `targets` is a list of (g, h, g_unit, h_unit), g and h integer lists over rows. Formulas are
those of XGBoost's vector-leaf trees: the score of a child is the sum over targets of -T(g) w, where T is the L1
shrinkage and w the leaf weight, 0 for a target that is too light there.
"""

from dataclasses import dataclass

import numpy as np

import naive
from naive import MIN_GAIN, MISSING


@dataclass
class VectorNode:
    """A node under construction; sums are [(g, h), ...] of the targets."""

    rows: list
    sums: list
    depth: int = 0
    parent: int = -1
    left: int = -1
    right: int = -1
    split: naive.Split | None = None

    @property
    def is_leaf(self):
        return self.left < 0


def sum_rows(rows, targets):
    return [(sum(g[r] for r in rows), sum(h[r] for r in rows)) for g, h, _, _ in targets]


def target_score(g, h, p):
    return -naive.soft_threshold(g, p.reg_alpha) * naive.leaf_weight(g, h, p)


def pair_score(left, right, target, p):
    """One target's score of both children; in the plain case on one denominator."""
    (gl, hl), (gr, hr) = ((float(g) * target[2], float(h) * target[3]) for g, h in (left, right))
    if p.reg_alpha != 0.0 or p.max_delta_step != 0.0:
        return target_score(gl, hl, p) + target_score(gr, hr, p)
    terms = []
    for g, h in ((gl, hl), (gr, hr)):
        counts = h > 0.0 and h >= p.min_child_weight
        terms.append((g * g if counts else 0.0, h + p.reg_lambda if counts else 1.0))
    (a, dl), (b, dr) = terms
    return (a * dr + b * dl) / (dl * dr)


def node_score(sums, targets, p):
    return sum(target_score(float(g) * t[2], float(h) * t[3], p) for (g, h), t in zip(sums, targets))


def rest(sums, left):
    return [(g - gl, h - hl) for (g, h), (gl, hl) in zip(sums, left)]


def find_split(bins, node, targets, n_bins, p, allowed=None):
    """The best split, or None; the order of trying is that of `naive.find_split`."""
    best, best_score, best_left = None, 0.0, None
    for f in range(len(n_bins)):
        if allowed is not None and not allowed[f]:
            continue
        for default_left in (False, True):
            order = range(n_bins[f])
            for b in reversed(order) if default_left else order:
                goes = [r for r in node.rows if (default_left if bins[r][f] == MISSING else bins[r][f] <= b)]
                left = sum_rows(goes, targets)
                right = rest(node.sums, left)
                score = 0.0
                for pair in zip(left, right, targets):
                    score += pair_score(*pair, p)
                if score > best_score:
                    best, best_score, best_left = (f, b, default_left), score, left
    if best is None:
        return None
    gain = best_score - node_score(node.sums, targets, p)
    sides = best_left, rest(node.sums, best_left)
    if gain <= MIN_GAIN or gain < p.gamma or any(all(h == 0 for _, h in side) for side in sides):
        return None
    return naive.Split(gain, *best, best_left, None)


def grow(bins, targets, n_bins, p, rows=None, allowed=None):
    """A tree as a list of nodes, numbered as they are made."""
    rows = list(range(len(bins))) if rows is None else list(rows)
    nodes = [VectorNode(rows, sum_rows(rows, targets))]

    def evaluate(i):
        node = nodes[i]
        if p.max_depth == 0 or node.depth < p.max_depth:
            mask = None if allowed is None else allowed(i, node.depth)
            node.split = find_split(bins, node, targets, n_bins, p, mask)

    evaluate(0)
    n_leaves = 1
    while p.max_leaves == 0 or n_leaves < p.max_leaves:
        waiting = [i for i, node in enumerate(nodes) if node.is_leaf and node.split is not None]
        if not waiting:
            break
        i = min(waiting, key=lambda i: (-nodes[i].split.gain, i)) if p.grow_policy == "lossguide" else min(waiting)
        node = nodes[i]
        parts = naive.partition(bins, node.rows, node.split)
        node.left, node.right = len(nodes), len(nodes) + 1
        sums = node.split.g_left, rest(node.sums, node.split.g_left)
        nodes += [VectorNode(part, s, node.depth + 1, i) for part, s in zip(parts, sums)]
        evaluate(node.left)
        evaluate(node.right)
        n_leaves += 1
    return nodes


def weights(node, targets, p):
    """Float32 weights before eta."""
    pairs = [(float(g) * t[2], float(h) * t[3]) for (g, h), t in zip(node.sums, targets)]
    return np.array([naive.leaf_weight(g, h, p) for g, h in pairs], np.float32)
