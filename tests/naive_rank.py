"""Ranking by the book: the pairwise loss, its gradients, position bias and list metrics in plain float64 loops."""

import numpy as np


def ranking(scores):
    """Documents by falling score, equal ones in order."""
    return np.argsort(-np.asarray(scores, np.float64), kind="stable")


def gains(label, exp_gain=True):
    return 2.0 ** np.asarray(label, np.float64) - 1.0 if exp_gain else np.asarray(label, np.float64)


def dcg(label, order, top, exp_gain=True):
    gain = gains(label, exp_gain)[order][:top]
    return float((gain / np.log2(np.arange(len(gain)) + 2.0)).sum())


def average_precision(label, order):
    hits = np.cumsum(label[order])
    return float((label[order] * hits / np.arange(1, len(label) + 1)).sum() / max(hits[-1], 1))


def swapped(order, a, b):
    order = order.copy()
    order[[a, b]] = order[[b, a]]
    return order


def delta(kind, label, order, a, b, top, exp_gain):
    """What swapping ranks a and b changes of the metric, by measuring both orders."""
    n = len(label)
    other = swapped(order, a, b)
    if kind == "rank:map":
        return abs(average_precision(label, order) - average_precision(label, other))
    if kind == "rank:ndcg":
        ideal = dcg(label, ranking(label), top, exp_gain)
        return abs(dcg(label, order, n, exp_gain) - dcg(label, other, n, exp_gain)) / ideal if ideal else 0.0
    return 1.0


def top_pairs(kind, label, scores, top=32, by_distance=True, exp_gain=True):
    """(higher document, lower document, weight) of every pair that `topk` makes."""
    order = ranking(scores)
    spread = scores[order[0]] != scores[order[-1]]
    pairs = []
    for a in range(min(top, len(label))):
        for b in range(a + 1, len(label)):
            i, j = order[a], order[b]
            if label[i] == label[j]:
                continue
            high, low = (i, j) if label[i] > label[j] else (j, i)
            weight = delta(kind, label, order, a, b, top, exp_gain)
            if by_distance and spread:
                weight /= abs(scores[i] - scores[j]) + 0.01
            pairs.append((high, low, weight))
    return pairs


def pair_loss(pairs, scores):
    """The logistic loss of fixed pairs."""
    return sum(w * np.logaddexp(0.0, scores[low] - scores[high]) for high, low, w in pairs)


def gradients(pairs, scores):
    """First derivatives of `pair_loss`, twice its second ones, and the sum of lambdas over both ends of the pairs."""
    g, h, total = np.zeros(len(scores)), np.zeros(len(scores)), 0.0
    for high, low, weight in pairs:
        p = 1.0 / (1.0 + np.exp(scores[low] - scores[high]))
        g[high] -= (1.0 - p) * weight
        g[low] += (1.0 - p) * weight
        h[[high, low]] += 2.0 * p * (1.0 - p) * weight
        total += 2.0 * (1.0 - p) * weight
    return g, h, total


def normalisation(total):
    return np.log2(1.0 + total) / total if total > 0 else 1.0


def list_metric(name, label, scores, top=32, empty=1.0, exp_gain=True):
    """ndcg, map or pre of one list."""
    label = np.asarray(label, np.float64)
    order = ranking(scores)
    n_top = min(top, len(label))
    if name == "ndcg":
        ideal = dcg(label, ranking(label), top, exp_gain)
        return dcg(label, order, top, exp_gain) / ideal if ideal else empty
    hits = np.cumsum(label[order])
    if name == "pre":
        return hits[n_top - 1] / n_top
    precision = label[order] * hits / np.arange(1, len(label) + 1)
    return precision[:top].sum() / min(hits[-1], n_top) if hits[-1] else empty
