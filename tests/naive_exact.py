"""Exact greedy growth in plain Python: the referee of kernels/cpu/sorted/exact.py.

values[row][feature] are floats, NaN for missing; g[row], h[row] integers counted in the units of `naive.Params`.
"""

import math
from dataclasses import dataclass

import numpy as np

from naive import MIN_GAIN, leaf_score, leaf_weight, split_score

GAP = np.float32(1e-6)


@dataclass
class ExactNode:
    """A node; `split` is (gain, feature, threshold, default_left) or None for a leaf."""

    rows: list
    depth: int
    split: tuple | None = None
    left: "ExactNode | None" = None
    right: "ExactNode | None" = None


def candidates(column, all_columns_values):
    """(left rows' largest place, threshold, default_left) of one node's column, in XGBoost's order of trying.

    column: sorted [(value, row), ...] of the node; all_columns_values: the values of all rows of the matrix.
    """
    n = len(column)
    ends = [i for i in range(n) if i + 1 == n or column[i][0] != column[i + 1][0]]
    present = [v for v in all_columns_values if not math.isnan(v)]
    has_missing = len(present) < len(all_columns_values)
    if has_missing and min(present) != max(present):
        for i in ends:
            yield i, threshold_after(column, i), False
    for i in [*reversed(ends), -1]:
        yield i, threshold_after(column, i), True


def threshold_after(column, i):
    """Half-way between place i and the next; beyond all values where there is none."""
    if i < 0:
        v = np.float32(column[0][0])
        return v - (abs(v) + GAP)
    low = np.float32(column[i][0])
    if i + 1 == len(column):
        return low + (abs(low) + GAP)
    high = np.float32(column[i + 1][0])
    middle = np.float32((float(low) + float(high)) / 2)
    return high if middle == low else middle


def find_split(values, rows, all_rows, g, h, p, allowed=None):
    """(gain, feature, threshold, default_left, left rows) of the best split, or None."""
    g_node, h_node = sum(g[r] for r in rows), sum(h[r] for r in rows)
    best, best_score = None, 0.0
    for f in range(len(values[0])):
        column = sorted((values[r][f], r) for r in rows if not math.isnan(values[r][f]))
        if not column or (allowed is not None and not allowed[f]):
            continue
        missing = [r for r in rows if math.isnan(values[r][f])]
        for i, threshold, default_left in candidates(column, [values[r][f] for r in all_rows]):
            left = [r for _, r in column[: i + 1]] + (missing if default_left else [])
            g_left, h_left = sum(g[r] for r in left), sum(h[r] for r in left)
            score = split_score(
                float(g_left) * p.g_unit,
                float(h_left) * p.h_unit,
                float(g_node - g_left) * p.g_unit,
                float(h_node - h_left) * p.h_unit,
                p,
            )
            if score is not None and score > best_score:
                best_score, best = score, (f, threshold, default_left, left)
    if best is None:
        return None
    gain = best_score - leaf_score(float(g_node) * p.g_unit, float(h_node) * p.h_unit, p)
    return (gain, *best) if gain > MIN_GAIN else None


def grow(values, g, h, p, rows=None, allowed=None):
    """The root of a tree grown level by level and then pruned."""
    all_rows = list(range(len(values)))
    root = ExactNode(all_rows if rows is None else list(rows), 0)
    waiting = [root]
    while waiting:
        node = waiting.pop(0)
        if p.max_depth and node.depth == p.max_depth:
            continue
        found = find_split(values, node.rows, all_rows, g, h, p, allowed)
        if found is not None:
            gain, feature, threshold, default_left, left = found
            node.split = (gain, feature, threshold, default_left)
            chosen = set(left)
            node.left = ExactNode([r for r in node.rows if r in chosen], node.depth + 1)
            node.right = ExactNode([r for r in node.rows if r not in chosen], node.depth + 1)
            waiting += [node.left, node.right]
    prune(root, p.gamma)
    return root


def prune(node, gamma):
    """Takes back, from the bottom up, splits of two leaves that gain less than gamma."""
    if node.split is None:
        return
    prune(node.left, gamma)
    prune(node.right, gamma)
    if node.left.split is None and node.right.split is None and np.float32(node.split[0]) < gamma:
        node.split = None


def leaf_value(node, g, h, p):
    total = [sum(x[r] for r in node.rows) for x in (g, h)]
    return leaf_weight(float(total[0]) * p.g_unit, float(total[1]) * p.h_unit, p)
