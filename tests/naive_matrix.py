"""Slow, obvious twins of the cuts and the bins: the referee of the kernels in counting.py and binning.py."""

import numpy as np

EPS = 1e-5
NO_VALUE = np.float32(1e-5)


def feature_cuts(values, weights, n_bins):
    """(minimum, cuts) of one feature by sorting; weights are integers (Python's, so they cannot overflow)."""
    pairs = sorted((float(v) + 0.0, int(w)) for v, w in zip(values, weights) if v == v and w > 0)
    all_values = [float(v) for v in values if v == v]
    if not all_values:
        return NO_VALUE, np.array([np.float32(3e-5)])
    low, high = min(all_values), max(all_values)  # of rows that weigh nothing too
    with np.errstate(over="ignore"):
        minimum, sentinel = np.float32(low - (abs(low) + EPS)), np.float32(high + (abs(high) + EPS))
    if not pairs:
        return min(NO_VALUE, minimum), np.array([max(np.float32(3e-5), sentinel)])
    distinct = sorted({v for v, _ in pairs})
    if len(distinct) <= n_bins:
        inner = distinct[1:]
    else:
        total = sum(w for _, w in pairs)
        inner, position, below = [], 0, 0
        for k in range(1, n_bins):
            rank = k * total // n_bins
            while below + pairs[position][1] <= rank:
                below += pairs[position][1]
                position += 1
            inner.append(pairs[position][0])
        inner = sorted({v for v in inner if v > distinct[0]})
    return minimum, np.array([*inner, sentinel], np.float32)


def feature_bins(values, cuts, missing_code):
    """Bin of every value: the number of cuts <= value, without the sentinel."""
    return [missing_code if x != x else sum(bool(c <= x) for c in cuts[:-1]) for x in values]
