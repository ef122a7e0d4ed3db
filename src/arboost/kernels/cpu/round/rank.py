"""Ranking: gradients of pairs, and metrics of lists, one query group after another.

The rows of group q are group_ptr[q] .. group_ptr[q + 1]; a group is the work of one thread, and everything inside it
happens in a fixed order. Ranks count from 0, the highest score first, equal scores in row order. A pair of documents
with different labels adds delta * log(1 + e**-(s_high - s_low)) to the loss, where s_high is the score of the one
with the higher label and delta, held fixed, says how much the metric would change if the two swapped ranks
(Burges 2010, From RankNet to LambdaRank to LambdaMART).
"""

import numpy as np
from numba import float32, float64, int64, uint64

from arboost.kernels.elementary import exp, log, log1p
from arboost.kernels.jit import kernel, part, scalar
from arboost.kernels.rank_formulas import (
    AT_RANDOM,
    BY_DISTANCE,
    EXP_GAIN,
    FIRST_ROW,
    KEY,
    KIND,
    LN2,
    MAP,
    N_PAIRS,
    NDCG,
    NORMALISE,
    ROW_MASK,
    TINY,
    draw_partner,
    falling_key,
    gain,
    group_factor,
    pair_derivatives,
    precision_change,
)

PRECISION = 2  # of the metrics, instead of PAIRWISE
_NAN = float("nan")
_RUN = 8  # keys sorted by insertion before runs are merged
# rows of the float scratch: the first six by rank, the others by pair
_SCORE, _LABEL, _GAIN, _HITS, _G, _H, _DISTANCE, _DELTA, _LAMBDA, _HESSIAN, _N_WORK = range(11)


@scalar
def _insert_runs(keys, n):
    """Sort every _RUN keys by insertion; returns the inversions undone."""
    inversions = 0
    for i in range(uint64(1), n):
        key = keys[i]
        j = i
        while j % uint64(_RUN) != uint64(0) and keys[j - uint64(1)] > key:
            keys[j] = keys[j - uint64(1)]
            j -= uint64(1)
            inversions += 1
        keys[j] = key
    return inversions


@scalar
def _merge(source, target, first, middle, last):
    """target[first:last] (OUT) = the merged runs source[first:middle] and source[middle:last]; inversions undone."""
    inversions = 0
    a, b = first, middle
    for k in range(first, last):
        if b >= last or (a < middle and source[a] < source[b]):
            target[k] = source[a]
            a += uint64(1)
        else:
            target[k] = source[b]
            b += uint64(1)
            inversions += int64(middle - a)
    return inversions


@part
def _sort_keys(keys, spare, n):
    """Sort keys[:n], all different; returns how many pairs were out of order."""
    inversions = _insert_runs(keys, n)
    width = uint64(_RUN)
    while width < n:
        first = uint64(0)
        while first < n:
            middle = first + width if first + width < n else n
            last = middle + width if middle + width < n else n
            inversions += _merge(keys, spare, first, middle, last)
            first = last
        for i in range(n):
            keys[i] = spare[i]
        width *= uint64(2)
    return inversions


@part
def _sort_rows(values, first, n, keys, spare):
    """keys[:n] (OUT): rows from `first` on by falling value; a key's low half is the row's place in the group."""
    for i in range(n):
        keys[i] = (falling_key(values[first + i]) << uint64(32)) | i
    return _sort_keys(keys, spare, n)


@scalar
def _largest_group(group_ptr, start, stop):
    size = uint64(1)
    for q in range(uint64(start), uint64(stop)):
        n = uint64(group_ptr[q + uint64(1)] - group_ptr[q])
        size = n if n > size else size
    return size


@kernel
def fill_discounts(discount, start, stop):
    """discount[i] (OUT) = 1 / log2(i + 2): what a gain at rank i counts."""
    for i in range(uint64(start), uint64(stop)):
        discount[i] = LN2 / log(float64(i + uint64(2)))


@kernel
def invert_ideal_dcg(label, group_ptr, discount, top, exp_gain, values, start, stop):
    """values[q] (OUT) = 1 / the largest DCG that the `top` first ranks of group q can have; 0 if that is 0."""
    keys = np.empty((2, _largest_group(group_ptr, start, stop)), np.uint64)
    for q in range(uint64(start), uint64(stop)):
        first = uint64(group_ptr[q])
        n = uint64(group_ptr[q + uint64(1)]) - first
        _sort_rows(label, first, n, keys[0], keys[1])
        ideal = 0.0
        for i in range(n if n < uint64(top) else uint64(top)):
            ideal += gain(label[first + (keys[0, i] & uint64(ROW_MASK))], exp_gain) * discount[i]
        values[q] = 1.0 / ideal if ideal > 0.0 else 0.0


# ---- gradients ----


@part
def _take_by_rank(margin, label, first, n, settings, keys, work):
    """Scores, labels and what the metric needs, by rank (OUT); g and h start at 0."""
    hits = 0.0
    precisions = 0.0
    for i in range(n):
        row = first + (keys[i] & uint64(ROW_MASK))
        y = label[row]
        work[_SCORE, i] = float64(margin[row])
        work[_LABEL, i] = float64(y)
        work[_G, i] = 0.0
        work[_H, i] = 0.0
        if settings[KIND] == NDCG:
            work[_GAIN, i] = gain(y, settings[EXP_GAIN] != 0)
        elif settings[KIND] == MAP:
            hits += float64(y)
            precisions += float64(y) / float64(i + uint64(1))
            work[_HITS, i] = hits
            work[_GAIN, i] = precisions  # sum of label / (rank + 1) so far


@scalar
def _map_delta(work, a, b, n):
    """Change of the average precision if ranks a < b swapped."""
    between = work[_GAIN, b - uint64(1)] - work[_GAIN, a]
    falls = work[_LABEL, a] > work[_LABEL, b]
    return precision_change(falls, work[_HITS, a], work[_HITS, b], work[_HITS, n - uint64(1)], between, a, b)


@part
def _measure_pairs(kind, i, partner, n_partners, n, inverse_ideal, discount, work):
    """Signed distance s_high - s_low and delta (OUT) of the pairs of rank i with its partners."""
    score, y, own = work[_SCORE, i], work[_LABEL, i], work[_GAIN, i]
    for t in range(n_partners):
        j = partner[t]
        d = score - work[_SCORE, j]
        work[_DISTANCE, t] = d if y > work[_LABEL, j] else -d
        if kind == NDCG:
            change = (own - work[_GAIN, j]) * (discount[i] - discount[j])
            work[_DELTA, t] = abs(change) * inverse_ideal
        elif kind == MAP:
            work[_DELTA, t] = _map_delta(work, i if i < j else j, j if i < j else i, n)
        else:
            work[_DELTA, t] = 1.0


@part
def _fill_lambdas(distance, delta, by_distance, n_pairs, lambdas, hessians):
    """First derivative by s_high and (XGBoost's, twice the true) second of each pair (OUT); delta is made final."""
    for t in range(n_pairs):
        lambdas[t], hessians[t], delta[t] = pair_derivatives(distance[t], delta[t], by_distance)


@part
def _correct_bias(i, partner, n_partners, first, keys, bias, work, cost):
    """Divide each pair by the bias of its documents' positions, and add its loss to theirs (cost, OUT).

    Hu et al. (2019), Unbiased LambdaMART. A document's position is its place in the group as given; bias[0] is of
    the higher label, bias[1] of the lower.
    """
    n_positions = uint64(bias.shape[1])
    own = keys[i] & uint64(ROW_MASK)
    for t in range(n_partners):
        j = partner[t]
        other = keys[j] & uint64(ROW_MASK)
        is_high = work[_LABEL, i] > work[_LABEL, j]
        high = own if is_high else other
        low = other if is_high else own
        if high < n_positions and low < n_positions:
            loss = log1p(exp(work[_DISTANCE, t])) * work[_DELTA, t]
            plus, minus = bias[0, high], bias[1, low]
            if plus >= TINY and minus >= TINY:
                work[_LAMBDA, t] /= plus * minus
                work[_HESSIAN, t] /= plus * minus
            if minus >= TINY:
                cost[0, first + high] += loss / minus
            if plus >= TINY:
                cost[1, first + low] += loss / plus


@part
def _spread(i, partner, n_partners, work):
    """Add the pairs of rank i to g and h (OUT) of both documents; returns the sum of their lambdas, both counted."""
    y, g, h, total = work[_LABEL, i], 0.0, 0.0, 0.0
    for t in range(n_partners):
        j = partner[t]
        pull = work[_LAMBDA, t] if y > work[_LABEL, j] else -work[_LAMBDA, t]
        bend = work[_HESSIAN, t]
        g += pull
        h += bend
        work[_G, j] -= pull
        work[_H, j] += bend
        total -= 2.0 * work[_LAMBDA, t]
    work[_G, i] += g
    work[_H, i] += h
    return total


@scalar
def _partners_below(labels, i, n, partner):
    """Ranks below i with another label (OUT), and how many there are."""
    count = uint64(0)
    for j in range(i + uint64(1), n):
        partner[count] = j
        count += uint64(labels[j] != labels[i])
    return count


@scalar
def _same_label(labels, sorted_ranks, at, n):
    """The stretch of documents by falling label around `at` that share its label."""
    first, last = at, at + uint64(1)
    y = labels[sorted_ranks[at]]
    while first > uint64(0) and labels[sorted_ranks[first - uint64(1)]] == y:
        first -= uint64(1)
    while last < n and labels[sorted_ranks[last]] == y:
        last += uint64(1)
    return first, last


@part
def _add_pairs(
    i, partner, n_partners, first, n, inverse_ideal, by_distance, discount, settings, bias, keys, work, cost
):
    """All steps for the pairs of one rank; returns the sum of their lambdas."""
    _measure_pairs(settings[KIND], i, partner, n_partners, n, inverse_ideal, discount, work)
    _fill_lambdas(work[_DISTANCE], work[_DELTA], by_distance, n_partners, work[_LAMBDA], work[_HESSIAN])
    if bias.shape[1]:
        _correct_bias(i, partner, n_partners, first, keys, bias, work, cost)
    return _spread(i, partner, n_partners, work)


@part
def _pair_top(first, n, inverse_ideal, by_distance, discount, settings, bias, keys, places, work, cost):
    """Pairs of the top ranks with everything below; returns the factor that normalises the group."""
    total = 0.0
    top = uint64(settings[N_PAIRS])
    for i in range(n if n < top else top):
        m = _partners_below(work[_LABEL], i, n, places[0])
        total += _add_pairs(
            i, places[0], m, first, n, inverse_ideal, by_distance, discount, settings, bias, keys, work, cost
        )
    return group_factor(total)


@part
def _pair_at_random(label, first, n, inverse_ideal, by_distance, discount, settings, bias, keys, places, work, cost):
    """A few random partners of another label for every document; returns the factor that normalises the group."""
    n_draws = uint64(settings[N_PAIRS])
    rank_of, sorted_ranks = places[1], places[2]
    for i in range(n):
        rank_of[keys[0, i] & uint64(ROW_MASK)] = i
    _sort_rows(label, first, n, keys[1], keys[2])
    for at in range(n):
        sorted_ranks[at] = rank_of[keys[1, at] & uint64(ROW_MASK)]
    same_first, same_last = uint64(0), uint64(0)
    for at in range(n):
        if at >= same_last:
            same_first, same_last = _same_label(work[_LABEL], sorted_ranks, at, n)
        if same_last - same_first == n:
            break
        row = uint64(settings[FIRST_ROW]) + first + (keys[1, at] & uint64(ROW_MASK))  # its id among all workers
        for k in range(n_draws):
            place = draw_partner(uint64(settings[KEY]), row * n_draws + k, same_first, same_last, n)
            places[0, 0] = sorted_ranks[place]
            i = sorted_ranks[at]
            _add_pairs(
                i, places[0], uint64(1), first, n, inverse_ideal, by_distance, discount, settings, bias, keys[0], work,
                cost,
            )  # fmt: skip
    return 1.0 / float64(n_draws)


@kernel
def lambda_gradients(margin, label, group_ptr, per_group, discount, settings, bias, g, h, cost, start, stop):
    """g and h (OUT) of the rows of groups start .. stop.

    per_group[0] is the weight of each group, per_group[1] one over its ideal DCG. bias (2, n_positions) divides the
    pairs of the first positions; without positions it is not wanted. cost (2, n_rows) (OUT, zeroed here) is the loss
    of each row as the higher and as the lower of its pairs.
    """
    size = _largest_group(group_ptr, start, stop)
    work = np.empty((_N_WORK, size), np.float64)
    keys = np.empty((3, size), np.uint64)
    places = np.empty((3, size), np.uint64)
    for q in range(uint64(start), uint64(stop)):
        first = uint64(group_ptr[q])
        n = uint64(group_ptr[q + uint64(1)]) - first
        _sort_rows(margin, first, n, keys[0], keys[1])
        _take_by_rank(margin, label, first, n, settings, keys[0], work)
        if cost.shape[1]:
            for i in range(first, first + n):
                cost[0, i] = 0.0
                cost[1, i] = 0.0
        inverse_ideal = per_group[1, q]
        scale = 1.0
        by_distance = settings[BY_DISTANCE] != 0 and n > uint64(0) and work[_SCORE, 0] != work[_SCORE, n - uint64(1)]
        if settings[AT_RANDOM]:
            scale = _pair_at_random(
                label, first, n, inverse_ideal, by_distance, discount, settings, bias, keys, places, work, cost
            )
        else:
            scale = _pair_top(
                first, n, inverse_ideal, by_distance, discount, settings, bias, keys[0], places, work, cost
            )
        scale = per_group[0, q] * (scale if settings[NORMALISE] else 1.0)
        for i in range(n):
            row = first + (keys[0, i] & uint64(ROW_MASK))
            g[row] = float32(work[_G, i] * scale)
            h[row] = float32(work[_H, i] * scale)


@kernel
def sum_positions(group_ptr, cost, sums, start, stop):
    """sums[:, p] (IN/OUT) += cost of the rows at position p of their groups, added in the order of the groups."""
    for p in range(uint64(start), uint64(stop)):
        plus, minus = sums[0, p], sums[1, p]
        for q in range(uint64(group_ptr.shape[0] - 1)):
            row = uint64(group_ptr[q]) + p
            if row < uint64(group_ptr[q + uint64(1)]):
                plus += cost[0, row]
                minus += cost[1, row]
        sums[0, p] = plus
        sums[1, p] = minus


@kernel
def position_bias(sums, power, bias, start, stop):
    """bias[:, p] (OUT) = (cost at position p over that at the first) ** power; kept where the first has no cost."""
    for side in range(2):
        first = sums[side, 0]
        for p in range(start, stop):
            if first >= TINY:
                bias[side, p] = float32(exp(power * log(sums[side, p] / first)))


# ---- metrics: values[0 : stop - start] (OUT, float64) of groups start..stop, which `sums.sum_rows` adds exactly ----


@scalar
def _dcg(label, first, top, keys, exp_gain, discount):
    total = 0.0
    for i in range(top):
        total += gain(label[first + (keys[i] & uint64(ROW_MASK))], exp_gain) * discount[i]
    return total


@scalar
def _count_hits(label, first, n, top, keys):
    """Hits of the whole list, of its top, and the sum of the precisions at the top's hits."""
    hits = 0.0
    top_hits = 0.0
    precisions = 0.0
    for i in range(n):
        y = label[first + (keys[i] & uint64(ROW_MASK))]
        hits += float64(y)
        if i < top:
            top_hits = hits
            precisions += float64(y) * hits / float64(i + uint64(1))
    return hits, top_hits, precisions


@kernel
def list_scores(pred, label, group_ptr, inverse_ideal, discount, settings, values, start, stop):
    """NDCG, average precision or precision of the top of each list.

    settings: [which, ranks that count, value of a list without relevance (0 or 1), whether the gain is exponential].
    inverse_ideal and discount are for NDCG alone, and may be empty for the others.
    """
    keys = np.empty((2, _largest_group(group_ptr, start, stop)), np.uint64)
    nothing = float64(settings[2])
    for q in range(uint64(start), uint64(stop)):
        first = uint64(group_ptr[q])
        n = uint64(group_ptr[q + uint64(1)]) - first
        top = n if n < uint64(settings[1]) else uint64(settings[1])
        _sort_rows(pred, first, n, keys[0], keys[1])
        value = nothing
        if settings[0] == NDCG:
            if inverse_ideal[q] > 0.0:
                value = _dcg(label, first, top, keys[0], settings[3] != 0, discount) * inverse_ideal[q]
        else:
            hits, top_hits, precisions = _count_hits(label, first, n, top, keys[0])
            if settings[0] == PRECISION:
                value = top_hits / float64(top) if top > uint64(0) else 0.0
            elif hits > 0.0:
                value = precisions / (hits if hits < float64(top) else float64(top))
        values[q - uint64(start)] = value


@kernel
def ordered_pairs(pred, label, group_ptr, values, start, stop):
    """Share of pairs that are in order, ties of the scores counting half, rows taken by falling label.

    Pairs of equal labels count too, the earlier row as the higher, as in XGBoost. NaN for fewer than three rows.
    """
    size = _largest_group(group_ptr, start, stop)
    keys = np.empty((3, size), np.uint64)
    for q in range(uint64(start), uint64(stop)):
        first = uint64(group_ptr[q])
        n = uint64(group_ptr[q + uint64(1)]) - first
        _sort_rows(label, first, n, keys[0], keys[1])
        for i in range(n):
            row = first + (keys[0, i] & uint64(ROW_MASK))
            keys[2, i] = (falling_key(pred[row]) << uint64(32)) | i
        wrong = float64(_sort_keys(keys[2], keys[1], n))
        run = 0
        for i in range(uint64(1), n):
            run = run + 1 if (keys[2, i] ^ keys[2, i - uint64(1)]) <= uint64(ROW_MASK) else 0
            wrong += 0.5 * float64(run)
        pairs = 0.5 * float64(n) * (float64(n) - 1.0)
        values[q - uint64(start)] = (pairs - wrong) / pairs if n > uint64(2) else _NAN
