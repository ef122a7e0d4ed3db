"""A symmetric tree grown row by row: the referee of grow_policy="symmetric". See `naive.py`.

A condition is (feature, bins that go left, whether missing values go left). Every condition is tried on all nodes of
the level; later ones must be strictly better, so the order of trying is the order of preference.
"""

from dataclasses import dataclass

import numpy as np

import naive
from naive import MISSING, Node


@dataclass(frozen=True)
class Condition:
    """Rows with a bin of `left` go left; missing values go where `default_left` says."""

    feature: int
    left: frozenset
    default_left: bool
    bin: int = 0  # of a numerical one: the last that goes left
    gain: float = 0.0  # of one node


def child_score(g, h, p):
    """A child that is too light has the weight 0."""
    return naive.leaf_score(g, h, p) if h >= p.min_child_weight else 0.0


def pair_score(g_left, h_left, g_right, h_right, p):
    if p.reg_alpha != 0.0 or p.max_delta_step != 0.0:
        return child_score(g_left, h_left, p) + child_score(g_right, h_right, p)
    left_counts, right_counts = (h >= p.min_child_weight and h > 0.0 for h in (h_left, h_right))
    d_left, d_right = h_left + p.reg_lambda if left_counts else 1.0, h_right + p.reg_lambda if right_counts else 1.0
    both = (g_left * g_left if left_counts else 0.0) * d_right + (g_right * g_right if right_counts else 0.0) * d_left
    return both / (d_left * d_right)


def clipped_weight(g, h, bounds, p):
    return min(max(naive.leaf_weight(g, h, p), bounds[0]), bounds[1])


def score_of_weight(g, h, w, p):
    return -(2.0 * g * w + (h + p.reg_lambda) * w * w) if h > 0.0 else 0.0


def child_weights(sums, bounds, direction, p):
    """The two weights within bounds; where they go the wrong way, the one between for both."""
    left, right = (clipped_weight(*side, bounds, p) for side in sums)
    if (direction > 0 and left > right) or (direction < 0 and left < right):
        left = right = (left + right) / 2.0
    return left, right


class Grower:
    """One tree. `monotone` has a direction for each feature, or is None; `categorical` features are split by sets."""

    def __init__(self, bins, g, h, n_bins, p, monotone=None, categorical=(), max_onehot=4, max_set=64):
        self.bins, self.g, self.h, self.n_bins, self.p = bins, g, h, n_bins, p
        self.monotone, self.categorical = monotone, categorical
        self.max_onehot, self.max_set = max_onehot, max_set
        self.bounds = {0: (-np.inf, np.inf)}

    def sums(self, rows):
        """(g, h) of rows in quanta."""
        return sum(self.g[r] for r in rows), sum(self.h[r] for r in rows)

    def units(self, g, h):
        return float(g) * self.p.g_unit, float(h) * self.p.h_unit

    def is_heavy(self, node):
        return node.h >= 1 and float(node.h) * self.p.h_unit >= self.p.min_child_weight

    def conditions(self, f, level):
        """All conditions on feature f, in order."""
        n = self.n_bins[f]
        if f not in self.categorical:
            for default_left in (False, True):
                for b in reversed(range(n)) if default_left else range(n):
                    yield Condition(f, frozenset(range(b + 1)), default_left, b)
            return
        every = frozenset(range(n))
        if n < self.max_onehot:
            for c in range(n):
                yield Condition(f, every - {c}, True)
                yield Condition(f, every - {c}, False)
            return
        rows = [r for node in level for r in node.rows]
        weights = []
        for c in range(n):
            sums = self.units(*self.sums([r for r in rows if self.bins[r][f] == c]))
            weights.append(np.float32(naive.leaf_weight(*sums, self.p)))
        order, most = sorted(range(n), key=lambda c: (weights[c], c)), min(self.max_set, n)
        for k in range(1, most):
            yield Condition(f, every - frozenset(order[:k]), True)
        for k in range(n - 1, n - most, -1):
            yield Condition(f, frozenset(order[k:]), False)

    def goes_left(self, r, condition):
        b = self.bins[r][condition.feature]
        return condition.default_left if b == MISSING else b in condition.left

    def sides(self, node, condition):
        """Sums of both children in units."""
        g, h = self.sums([r for r in node.rows if self.goes_left(r, condition)])
        return self.units(g, h), self.units(node.g - g, node.h - h)

    def gain(self, i, node, condition):
        """What one node gains; without bounds, its children's scores: the node's own is taken off in the end."""
        left, right = self.sides(node, condition)
        if self.monotone is None:
            return pair_score(*left, *right, self.p)
        weights = child_weights((left, right), self.bounds[i], self.monotone[condition.feature], self.p)
        own = self.units(node.g, node.h)
        as_leaf = score_of_weight(*own, clipped_weight(*own, self.bounds[i], self.p), self.p)
        score = score_of_weight(*left, weights[0], self.p) + score_of_weight(*right, weights[1], self.p)
        return score - as_leaf

    def find(self, nodes, ids, allowed):
        """The best condition for the nodes `ids`, or None."""
        best, top = None, 0.0
        for f in range(len(self.n_bins)):
            if allowed is not None and not allowed[f]:
                continue
            for condition in self.conditions(f, [nodes[i] for i in ids]):
                score = 0.0
                for i in ids:
                    score += self.gain(i, nodes[i], condition)
                if score > top:
                    best, top = condition, score
        before = 0.0
        if self.monotone is None:
            for i in ids:
                before += naive.leaf_score(*self.units(nodes[i].g, nodes[i].h), self.p)
        gain = top - before
        return best if best and gain > naive.MIN_GAIN and gain >= self.p.gamma * len(ids) else None

    def open(self, nodes, i, condition):
        """Append the two children of node i."""
        node, p = nodes[i], self.p
        gain = self.gain(i, node, condition)
        if self.monotone is None:
            gain -= naive.leaf_score(*self.units(node.g, node.h), p)
        node.split = Condition(condition.feature, condition.left, condition.default_left, condition.bin, gain)
        node.left, node.right = len(nodes), len(nodes) + 1
        for side in (True, False):
            rows = [r for r in node.rows if self.goes_left(r, condition) == side]
            nodes.append(Node(rows, *self.sums(rows), node.depth + 1, i))
        if self.monotone is not None:
            self.hand_down(node, i, condition)

    def hand_down(self, node, i, condition):
        left, right = (clipped_weight(*side, self.bounds[i], self.p) for side in self.sides(node, condition))
        middle, direction = (left + right) / 2.0, self.monotone[condition.feature]
        low, high = self.bounds[i]
        self.bounds[node.left] = (low, middle) if direction > 0 else (middle, high) if direction < 0 else (low, high)
        self.bounds[node.right] = (middle, high) if direction > 0 else (low, middle) if direction < 0 else (low, high)

    def grow(self, rows=None, allowed=None):
        """Nodes, numbered as they are made; allowed(first node of the level, depth) masks features."""
        rows = list(range(len(self.bins))) if rows is None else list(rows)
        nodes, p = [Node(rows, *self.sums(rows))], self.p
        level, depth, n_leaves = [0], 0, 1
        while depth < (p.max_depth or 16):
            ids = [i for i in level if self.is_heavy(nodes[i])]
            mask = None if allowed is None or not ids else allowed(ids[0], depth)
            condition = self.find(nodes, ids, mask)
            if condition is None or (p.max_leaves and n_leaves + len(ids) > p.max_leaves):
                break
            level = []
            for i in ids:
                self.open(nodes, i, condition)
                level += [nodes[i].left, nodes[i].right]
            depth, n_leaves = depth + 1, n_leaves + len(ids)
        for i, node in enumerate(nodes):
            weight = naive.leaf_weight(*self.units(node.g, node.h), p)
            if self.monotone is not None:
                weight = min(max(weight, self.bounds[i][0]), self.bounds[i][1])
            node.weight = np.float32(weight)
        return nodes
