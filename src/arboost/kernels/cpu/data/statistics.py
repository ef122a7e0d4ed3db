"""Target statistics of categories: sums over the rows that come before a row in a permutation.

Sums are integers (a label and a weight in fixed point), so what they hold after any set of rows is exact, and the order
matters only where it is meant to: a row's statistic never holds its own label (Prokhorenkova et al. 2018, section 3).
"""

from numba import float32, float64, int64, uint64

from arboost.kernels.jit import kernel


@kernel
def add_in_order(codes, order, target, weight, units, priors, strengths, sums, out, start, stop):
    """Statistics of targets start..stop of every row, from the rows before it in `order`.

    codes (n,) int32; order (n,) int32, a permutation; target (K, n) int64, weighted labels in units[0]; weight (n,) or
    (1,) int64 in units[1]; priors (K,) and strengths (P,) float64; OUT: sums (K, 2, n_codes) int64, begun at 0, end as
    the sums of all rows; out (K * P, n) float32, unless it has no rows.
    """
    n_priors, has_weights = uint64(strengths.shape[0]), weight.shape[0] > 1
    writes = out.shape[0] > 0
    for k in range(uint64(start), uint64(stop)):
        total, seen, labels = sums[k, 0], sums[k, 1], target[k]
        for i in range(uint64(order.shape[0])):
            r = uint64(order[i])
            c = uint64(codes[r])
            if writes:
                s, w = float64(total[c]) * units[0], float64(seen[c]) * units[1]
                for p in range(n_priors):
                    out[k * n_priors + p, r] = float32((s + strengths[p] * priors[k]) / (w + strengths[p]))
            total[c] += labels[r]
            seen[c] += weight[r] if has_weights else weight[0]


@kernel
def predict_in_order(codes, order, residual, unit, strength, sums, predicted, start, stop):
    """predicted (K, n) float64, OUT: sum / (count + strength) of the rows before a row, of targets start..stop.

    residual (K, n) int64 in `unit`; sums (K, 2, n_codes) int64, begun at 0.
    """
    for k in range(uint64(start), uint64(stop)):
        total, seen, values = sums[k, 0], sums[k, 1], residual[k]
        for i in range(uint64(order.shape[0])):
            r = uint64(order[i])
            c = uint64(codes[r])
            predicted[k, r] = float64(total[c]) * unit / (float64(seen[c]) + strength)
            total[c] += values[r]
            seen[c] += int64(1)


@kernel
def look_up(codes, table, absent, out, start, stop):
    """out[:, r] (float32, OUT) = table[:, codes[r]], or `absent` where the code is negative."""
    for r in range(uint64(start), uint64(stop)):
        c = codes[r]
        for j in range(uint64(table.shape[0])):
            out[j, r] = table[j, uint64(c)] if c >= 0 else absent[j]
