"""Shapley values by their definition, over all sets of features: the referee of explanations."""

import itertools
import math

import numpy as np


def goes_left(tree, i, x):
    """Whether a row takes the left side of inner node i; XGBoost's meaning of categories and missing values."""
    value = x[tree.feature[i]]
    if value != value:
        return bool(tree.default_left[i])
    if len(tree.split_type) and tree.split_type[i]:
        k = list(tree.categories_nodes).index(i)
        start = tree.categories_segments[k]
        return not (value >= 0 and int(value) in set(tree.categories[start : start + tree.categories_sizes[k]]))
    return bool(value < tree.threshold[i])


def leaf_of(tree, x):
    i = 0
    while tree.left[i] >= 0:
        i = int(tree.left[i] if goes_left(tree, i, x) else tree.right[i])
    return i


def shares(tree, i):
    """What part of a node's cover each child has; half where nothing is known."""
    left, right = (max(0.0, float(tree.cover[c])) for c in (tree.left[i], tree.right[i]))
    return (left / (left + right), right / (left + right)) if left + right > 0 else (0.5, 0.5)


def expectation(tree, x, known, i=0):
    """Mean weight below node i when only the features in `known` are known: others are split by cover."""
    if tree.left[i] < 0:
        return float(tree.threshold[i])
    left, right = (expectation(tree, x, known, int(c)) for c in (tree.left[i], tree.right[i]))
    if int(tree.feature[i]) in known:
        return left if goes_left(tree, i, x) else right
    share = shares(tree, i)
    return share[0] * left + share[1] * right


def _subsets(features):
    return (frozenset(s) for n in range(len(features) + 1) for s in itertools.combinations(features, n))


def contributions(tree, x):
    """(F + 1,) float64: Shapley values of one tree for one row, and the mean."""
    n = len(x)
    values = {s: expectation(tree, x, s) for s in _subsets(range(n))}
    phi = np.zeros(n + 1)
    for f in range(n):
        for s in _subsets([g for g in range(n) if g != f]):
            weight = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
            phi[f] += weight * (values[s | {f}] - values[s])
    phi[n] = values[frozenset()]
    return phi


def interactions(tree, x):
    """(F + 1, F + 1) float64: Shapley interaction values of one tree for one row, and the mean."""
    n = len(x)
    values = {s: expectation(tree, x, s) for s in _subsets(range(n))}
    phi = np.zeros((n + 1, n + 1))
    for f, g in itertools.permutations(range(n), 2):
        for s in _subsets([h for h in range(n) if h not in (f, g)]):
            weight = math.factorial(len(s)) * math.factorial(n - len(s) - 2) / math.factorial(n - 1) / 2
            phi[f, g] += weight * (values[s | {f, g}] - values[s | {f}] - values[s | {g}] + values[s])
    alone = contributions(tree, x)
    phi[range(n), range(n)] = alone[:n] - phi[:n, :n].sum(axis=1)
    phi[n, n] = alone[n]
    return phi


def approximate_contributions(tree, x):
    """(F + 1,) float64: the change in mean at each node of the row's path goes to the node's feature."""
    phi = np.zeros(len(x) + 1)
    i, mean = 0, expectation(tree, x, ())
    phi[-1] = mean
    while tree.left[i] >= 0:
        child = int(tree.left[i] if goes_left(tree, i, x) else tree.right[i])
        below = expectation(tree, x, (), child)
        phi[tree.feature[i]] += below - mean
        i, mean = child, below
    return phi


def add_statistics(rng, tree, category_rate=0.0, empty_rate=0.0, n_categories=130):
    """Give a random tree covers, some of them empty, and categorical nodes."""
    n = tree.n_nodes
    cover = np.where(rng.random(n) < empty_rate, 0, rng.integers(1, 50, n)).astype(np.float64)
    for i in reversed(range(n)):
        if tree.left[i] >= 0:
            cover[i] = cover[tree.left[i]] + cover[tree.right[i]]
    tree.cover = cover.astype(np.float32)
    is_categorical = (tree.left >= 0) & (rng.random(n) < category_rate)
    if is_categorical.any():
        tree.split_type = is_categorical.astype(np.uint8)
        tree.categories_nodes = np.flatnonzero(is_categorical).astype(np.int32)
        sets = []
        for _ in tree.categories_nodes:
            top = int(rng.choice([4, n_categories]))
            sets.append(np.unique(np.append(rng.integers(0, 3), rng.integers(0, top, rng.integers(1, top)))))
        tree.categories_sizes = np.array([len(s) for s in sets], np.int64)
        tree.categories_segments = np.cumsum(tree.categories_sizes) - tree.categories_sizes
        tree.categories = np.concatenate(sets).astype(np.int32)
    return tree


def make_rows(rng, n_rows, n_features):
    """Whole numbers that meet thresholds and categories, invalid codes and missing values among them."""
    data = rng.integers(-3, 5, (n_rows, n_features)).astype(np.float32)
    strange = rng.random(data.shape) < 0.2
    data[strange] = rng.choice([-0.5, 1.7, 63, 64, 127, 129, 200, 1e6, 2**24, 3e38, -3e38], strange.sum())
    data[rng.random(data.shape) < 0.15] = np.nan
    return data
