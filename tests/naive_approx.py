"""Slow, obvious twins of approximate split finding: proposals by sorting, for a tree or for every node."""

import numpy as np

import naive
from naive_matrix import feature_bins, feature_cuts


def most_bins(column, max_bin):
    """Bins that a feature may have: with missing values 256 are one too many for a byte."""
    return 255 if max_bin == 256 and np.isnan(column).any() else max_bin


def propose(X, rows, h, max_bin):
    """Cuts of every feature at quantiles of these rows, weighted by h where that is positive."""
    weights = [max(int(h[r]), 0) for r in rows]
    return [feature_cuts(column[rows], weights, most_bins(column, max_bin))[1] for column in X.T]


def outer_cuts(X):
    """The last cut of every feature, above all its values."""
    return [feature_cuts(column, [1] * len(column), 2)[1][-1] for column in X.T]


def bins_of(X, rows, cuts):
    """Bins of these rows, by row number."""
    columns = [feature_bins(X[rows, f], cut, naive.MISSING) for f, cut in enumerate(cuts)]
    return dict(zip(rows, map(list, zip(*columns)), strict=True))


def grow_global(X, g, h, max_bin, p, sampled=None):
    """(nodes, thresholds): a tree on candidates proposed once, from the rows that it sees."""
    rows = list(range(len(X))) if sampled is None else [int(r) for r in sampled]
    cuts = []
    for column, proposed in zip(X.T, propose(X, rows, h, max_bin), strict=True):
        distinct = np.unique(column[~np.isnan(column)])
        few = len(distinct) <= most_bins(column, max_bin)  # all are candidates, whoever is sampled
        cuts.append(np.append(distinct[1:], np.float32(0)).astype(np.float32) if few else proposed)
    bins = bins_of(X, list(range(len(X))), cuts)
    nodes = naive.grow([bins[r] for r in range(len(X))], g, h, [len(cut) for cut in cuts], p, rows)
    return nodes, [threshold_of(X, node, cuts) for node in nodes]


def grow_local(X, g, h, max_bin, p, sampled=None):
    """(nodes, thresholds): a tree whose nodes propose from their own rows; bins are those of a row's present node."""
    rows = list(range(len(X))) if sampled is None else [int(r) for r in sampled]
    nodes = [naive.Node(rows, sum(g[r] for r in rows), sum(h[r] for r in rows))]
    bins, cuts = {}, {}

    def evaluate(i):
        node = nodes[i]
        if p.max_depth == 0 or node.depth < p.max_depth:
            cuts[i] = propose(X, node.rows, h, max_bin)
            bins.update(bins_of(X, node.rows, cuts[i]))
            node.split = naive.find_split(bins, node.rows, g, h, [len(cut) for cut in cuts[i]], p)

    evaluate(0)
    n_leaves = 1
    while p.max_leaves == 0 or n_leaves < p.max_leaves:
        waiting = [i for i, node in enumerate(nodes) if node.is_leaf and node.split is not None]
        if not waiting:
            break
        best_first = p.grow_policy == "lossguide"
        i = min(waiting, key=lambda i: (-nodes[i].split.gain, i) if best_first else i)
        naive.open_node(nodes, i, bins)
        evaluate(nodes[i].left)
        evaluate(nodes[i].right)
        n_leaves += 1
    for node in nodes:
        node.weight = np.float32(naive.leaf_weight(float(node.g) * p.g_unit, float(node.h) * p.h_unit, p))
    return nodes, [threshold_of(X, node, cuts.get(i)) for i, node in enumerate(nodes)]


def threshold_of(X, node, cuts):
    """The value below which rows go left at an opened node; None at a leaf."""
    if node.is_leaf:
        return None
    f, b = node.split.feature, node.split.bin
    return np.float32(cuts[f][b]) if b < len(cuts[f]) - 1 else outer_cuts(X)[f]
