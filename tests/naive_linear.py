"""Linear leaves, slowly and plainly: a weighted ridge regression in float64 for every leaf, and its value of a row."""

import numpy as np


def leaves_of(tree, X):
    """The node that each row ends in."""
    found = []
    for row in X:
        node = 0
        while tree.left[node] >= 0:
            x = row[tree.feature[node]]
            left = tree.default_left[node] if np.isnan(x) else x < tree.threshold[node]
            node = tree.left[node] if left else tree.right[node]
        found.append(node)
    return np.array(found)


def features_above(tree, leaf, most):
    """The features on the way from a leaf to the root, each once, the nearest first."""
    found, node = [], leaf
    while node != 0:
        node = tree.parent[node]
        if tree.feature[node] not in found and node not in tree.categories_nodes:
            found.append(int(tree.feature[node]))
    return found[:most]


def fit_leaf(X, g, h, penalty):
    """(weights, means) of sum g w.d + h (w.d)^2 / 2 + penalty: d = X - means, penalty on features of variance 1."""
    means = h @ X / h.sum()
    d = X - means
    scale = np.sqrt(h @ d**2 / h.sum())
    z = d / scale
    a = z.T @ (h[:, None] * z) + penalty * np.eye(X.shape[1])
    return np.linalg.solve(a, -g @ z) / scale, means


def fit_tree(tree, X, g, h, penalty, eta, most=8, least_rows=2):
    """{leaf: {feature: (weight, mean, low, high)}} of all leaves with enough rows that have all their features."""
    at, found = leaves_of(tree, X), {}
    for leaf in np.flatnonzero(tree.left < 0):
        features = features_above(tree, leaf, most)
        rows = np.flatnonzero((at == leaf) & ~np.isnan(X[:, features]).any(axis=1))
        features = [f for f in features if len(rows) and np.ptp(X[rows, f]) > 0]
        if len(rows) < least_rows * (1 + len(features)) or not features:
            continue
        values = X[np.ix_(rows, features)].astype(np.float64)
        weights, means = fit_leaf(values, g[rows].astype(np.float64), h[rows].astype(np.float64), penalty)
        columns = zip(features, weights * eta, means, values.min(axis=0), values.max(axis=0), strict=True)
        found[int(leaf)] = {f: tuple(rest) for f, *rest in columns}
    return found


def values_of(tree, X):
    """What a tree adds to every row's margin, float32."""
    out = np.empty(len(X), np.float32)
    for i, (row, leaf) in enumerate(zip(X, leaves_of(tree, X), strict=True)):
        value, terms = float(tree.threshold[leaf]), tree.terms[tree.terms["node"] == leaf]
        x = row[terms["feature"]]
        if not np.isnan(x).any():
            kept = np.clip(x, terms["low"], terms["high"]).astype(np.float64)
            total = 0.0
            for term, v in zip(terms, kept, strict=True):
                total += float(term["weight"]) * (v - float(term["mean"]))
            value += total
        out[i] = value
    return out
