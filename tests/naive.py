"""Slow, obvious twins of the kernels and of whole boosting rounds: the referee of every back end.

Plain Python over lists; no Numba, no vectors, no tricks. Bins are bins[row][feature], MISSING where there is no value.
Gradients g[row], h[row] are either integers, counted in `g_unit` and `h_unit` (Python's integers, so nothing can
overflow), or floats with units of 1: then this is a float64 trainer that knows no quantisation.
What is fixed to the bit is the order of float64 operations in `leaf_weight`, `leaf_score` and `split_score`.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from naive_matrix import feature_bins, feature_cuts

MISSING = -1
MIN_GAIN = 1e-6
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Params:
    """Parameters of a tree, with XGBoost's defaults."""

    eta: float = float(np.float32(0.3))
    gamma: float = 0.0
    max_depth: int = 6
    max_leaves: int = 0
    min_child_weight: float = 1.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0
    min_data_in_leaf: int = 0
    path_smooth: float = 0.0
    grow_policy: str = "depthwise"
    g_unit: float = 1.0
    h_unit: float = 1.0


@dataclass(frozen=True)
class Split:
    """Rows with a bin <= `bin` go left; missing values go where `default_left` says."""

    gain: float
    feature: int
    bin: int
    default_left: bool
    g_left: float
    h_left: float


@dataclass
class Node:
    """A node of a growing tree; `split` is the best one, whether or not the node was opened by it."""

    rows: list
    g: float
    h: float
    depth: int = 0
    parent: int = -1
    left: int = -1
    right: int = -1
    split: Split | None = None
    weight: np.float32 = field(default=np.float32(0))  # before eta

    @property
    def is_leaf(self):
        return self.left < 0


# ---- formulas ----


def soft_threshold(g, alpha):
    """g moved towards zero by alpha, at most to zero."""
    return max(abs(g) - alpha, 0.0) * (1.0 if g > 0.0 else -1.0)


def leaf_weight(g, h, p):
    """The best weight of a leaf, 0 if it is too light, clipped to max_delta_step."""
    if h < p.min_child_weight or h <= 0.0:
        return 0.0
    weight = -soft_threshold(g, p.reg_alpha) / (h + p.reg_lambda)
    if p.max_delta_step != 0.0:
        weight = min(max(weight, -p.max_delta_step), p.max_delta_step)
    return weight


def leaf_score(g, h, p):
    """Twice the loss that a leaf saves."""
    if h <= 0.0:
        return 0.0
    if p.max_delta_step == 0.0:
        return soft_threshold(g, p.reg_alpha) * soft_threshold(g, p.reg_alpha) / (h + p.reg_lambda)
    w = leaf_weight(g, h, p)
    return -(2.0 * g * w + (h + p.reg_lambda) * w * w)


def split_score(g_left, h_left, g_right, h_right, p):
    """The children's scores together, or None if a child is too light. In the plain case on one denominator."""
    for h in (h_left, h_right):
        if h < p.min_child_weight or h <= 0.0:
            return None
    if p.reg_alpha != 0.0 or p.max_delta_step != 0.0:
        return leaf_score(g_left, h_left, p) + leaf_score(g_right, h_right, p)
    d_left, d_right = h_left + p.reg_lambda, h_right + p.reg_lambda
    return (g_left * g_left * d_right + g_right * g_right * d_left) / (d_left * d_right)


# ---- one node ----


def histogram(bins, rows, g, h, feature, n_bins):
    """[[sum of g, sum of h], ...] of each bin; the last entry is that of the missing values."""
    sums = [[0, 0] for _ in range(n_bins + 1)]
    for r in rows:
        b = bins[r][feature]
        slot = sums[n_bins if b == MISSING else b]
        slot[0] += g[r]
        slot[1] += h[r]
    return sums


def counted(bins, rows, g, h, feature, side):
    """How many of the rows that weigh anything go to a side: side(bin) says so."""
    return sum(side(bins[r][feature]) for r in rows if g[r] != 0 or h[r] != 0)


def drawn_bins(sums, draw):
    """(bin with missing values right, bin with them left) that part the rows as a drawn bin does; -1: none."""
    occupied = [b for b, sum_ in enumerate(sums[:-1]) if sum_ != [0, 0]]
    if len(occupied) < 2:
        return (occupied[0], -1) if occupied else (-1, -1)
    at = occupied[0] + draw(occupied[-1] - occupied[0])
    return max(b for b in occupied if b <= at), min(b for b in occupied if b > at) - 1


def find_split(bins, rows, g, h, n_bins, p, allowed=None, draw=None):
    """The best split, or None. Every bin of every feature is tried with missing values right, then left.

    A later candidate must be strictly better, so the order of trying is the order of preference: lower features
    first; missing right before missing left; bins upwards with missing right, downwards with missing left.
    With `draw`, which gives one of n for a feature, one bin of every feature is tried.
    """
    g_node, h_node = sum(g[r] for r in rows), sum(h[r] for r in rows)
    best, best_score = None, 0.0
    for f in range(len(n_bins)):
        if allowed is not None and not allowed[f]:
            continue
        sums = histogram(bins, rows, g, h, f, n_bins[f])
        prefix = [sums[0]]
        for b in range(1, n_bins[f]):
            prefix.append([prefix[-1][0] + sums[b][0], prefix[-1][1] + sums[b][1]])
        drawn = None if draw is None else drawn_bins(sums, lambda n, f=f: draw(f, n))
        for default_left in (False, True):
            order = range(n_bins[f]) if drawn is None else [b for b in [drawn[default_left]] if b >= 0]
            for b in reversed(order) if default_left else order:
                g_left, h_left = prefix[b]
                if default_left:
                    g_left, h_left = g_left + sums[-1][0], h_left + sums[-1][1]
                score = split_score(
                    float(g_left) * p.g_unit,
                    float(h_left) * p.h_unit,
                    float(g_node - g_left) * p.g_unit,
                    float(h_node - h_left) * p.h_unit,
                    p,
                )
                if p.min_data_in_leaf > 1:
                    n_left = counted(bins, rows, g, h, f, lambda x, b=b, d=default_left: d if x == MISSING else x <= b)
                    n_right = counted(bins, rows, g, h, f, lambda x: True) - n_left
                    if min(n_left, n_right) < p.min_data_in_leaf:
                        continue
                if score is not None and score > best_score:
                    best_score = score
                    best = Split(0.0, f, b, default_left, g_left, h_left)
    if best is None:
        return None
    gain = best_score - leaf_score(float(g_node) * p.g_unit, float(h_node) * p.h_unit, p)
    if gain <= MIN_GAIN or gain < p.gamma:
        return None
    return Split(gain, best.feature, best.bin, best.default_left, best.g_left, best.h_left)


def goes_left(b, split):
    return split.default_left if b == MISSING else b <= split.bin


def partition(bins, rows, split):
    """(left rows, right rows), both in their old order."""
    left = [r for r in rows if goes_left(bins[r][split.feature], split)]
    right = [r for r in rows if not goes_left(bins[r][split.feature], split)]
    return left, right


# ---- one tree ----


def grow(bins, g, h, n_bins, p, rows=None, allowed=None, draw=None):
    """A tree as a list of nodes, numbered as they are made; allowed(node number, depth) masks features.

    draw(node number, feature, n) gives one of n, where one bin of every feature is tried.
    """
    rows = list(range(len(bins))) if rows is None else list(rows)
    nodes = [Node(rows, sum(g[r] for r in rows), sum(h[r] for r in rows))]

    def evaluate(i):
        node = nodes[i]
        if p.max_depth == 0 or node.depth < p.max_depth:
            mask = None if allowed is None else allowed(i, node.depth)
            own_draw = None if draw is None else lambda f, n: draw(i, f, n)
            node.split = find_split(bins, node.rows, g, h, n_bins, p, mask, own_draw)

    evaluate(0)
    n_leaves = 1
    while p.max_leaves == 0 or n_leaves < p.max_leaves:
        waiting = [i for i, node in enumerate(nodes) if node.is_leaf and node.split is not None]
        if not waiting:
            break
        if p.grow_policy == "lossguide":
            i = min(waiting, key=lambda i: (-nodes[i].split.gain, i))
        else:
            i = min(waiting)
        open_node(nodes, i, bins)
        evaluate(nodes[i].left)
        evaluate(nodes[i].right)
        n_leaves += 1
    for node in nodes:
        node.weight = np.float32(leaf_weight(float(node.g) * p.g_unit, float(node.h) * p.h_unit, p))
    return nodes


def open_node(nodes, i, bins):
    """Append the two children of node i."""
    node, split = nodes[i], nodes[i].split
    left, right = partition(bins, node.rows, split)
    node.left, node.right = len(nodes), len(nodes) + 1
    nodes.append(Node(left, split.g_left, split.h_left, node.depth + 1, i))
    nodes.append(Node(right, node.g - split.g_left, node.h - split.h_left, node.depth + 1, i))


def leaf_value(node, p):
    """What the leaf adds to a margin: the weight times eta, in float32."""
    return node.weight * np.float32(p.eta)


def leaf_of_bins(nodes, bins_of_row):
    """Number of the leaf that a row of bins ends in."""
    i = 0
    while not nodes[i].is_leaf:
        split = nodes[i].split
        i = nodes[i].left if goes_left(bins_of_row[split.feature], split) else nodes[i].right
    return i


def leaf_of_values(tree, x):
    """Number of the leaf that raw float32 values end in, for a tree as a struct of arrays (tree/model.py)."""
    i = 0
    while tree.left[i] >= 0:
        value = x[tree.feature[i]]
        left = bool(tree.default_left[i]) if value != value else bool(value < tree.threshold[i])
        i = int(tree.left[i] if left else tree.right[i])
    return i


def predict(trees, targets, data, margin):
    """Margins of raw rows: float32 leaf values added one tree after the other."""
    margin = margin.copy()
    for r, x in enumerate(data):
        for tree, target in zip(trees, targets):
            margin[r, target] += tree.threshold[leaf_of_values(tree, x)]
    return margin


# ---- whole rounds ----


def bin_matrix(data, max_bin=256):
    """(bins, n_bins, cuts) of raw rows by sorting each feature; NaN is missing."""
    columns, n_bins, cuts = [], [], []
    for values in np.asarray(data, np.float32).T:
        n = 255 if max_bin == 256 and np.isnan(values).any() else max_bin
        _, cut = feature_cuts(values, [1] * len(values), n)
        columns.append(feature_bins(values, cut, MISSING))
        n_bins.append(len(cut))
        cuts.append(cut)
    return [list(row) for row in zip(*columns)], n_bins, cuts


def boost(bins, n_bins, gradient, margin, p, n_rounds):
    """Rounds of boosting one target: (trees, margins). gradient(margin) -> (g, h), lists of floats, units of 1.

    With margins in float64 this is the reference without rounding; leaf values are not rounded either.
    """
    trees = []
    for _ in range(n_rounds):
        g, h = gradient(margin)
        nodes = grow(bins, g, h, n_bins, p)
        margin = list(margin)
        for node in nodes:
            if node.is_leaf:
                for r in node.rows:
                    margin[r] += p.eta * leaf_weight(node.g, node.h, p)
        trees.append(nodes)
    return trees, margin


# ---- numbers ----


def quanta(values, unit):
    """Each value as the nearest whole number of units, halves to even."""
    return [round(Fraction(float(v)) / Fraction(unit)) for v in values]


def mix(x):
    """splitmix64's finaliser on Python integers."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def sample_rows(key, threshold, first_row, n_rows):
    """Rows of a page whose hash is below threshold / 2**32."""
    return [r for r in range(n_rows) if mix(key ^ mix(first_row + r)) >> 32 < threshold]
