"""The weighted quantile summary of the XGBoost paper's appendix: made from a sorted run, merged, pruned, asked.

A summary is a list of entries in ascending order of value: values (n,) float32 and ranks (3, n) int64 = rmin, at most
the weight below the value; rmax, at least the weight up to and with it; w, at most the weight of the value itself.
First and last entry are the smallest and the largest value seen. Weights are integers below 2**61 in all, so that no
result depends on an order of additions. Ranks asked for may be fractions: twice the rank, rounded down, stands for
one, since it is compared with integers only.

A *run* is rows[start:stop] and values[start:stop], ascending, of one sorted column; a row weighs weights[row] & mask.
"""

from numba import int64, uint64

from arboost.kernels.cpu.data.counting import wanted_rank
from arboost.kernels.intrinsics import prefetch_item
from arboost.kernels.jit import kernel, part

RMIN, RMAX, WEIGHT = 0, 1, 2
N_BLOCKS = 8192  # a run is weighed in at most so many blocks, 64 KiB of sums; then few entries are looked at again,
MIN_BLOCK = 16  # and blocks are long enough for their sums not to matter
AHEAD = uint64(16)  # entries to prefetch ahead: about one memory latency of work


@part
def weight_of(weights, mask, row):
    """The weight of a row; negative ones (of hessians) do not count."""
    weight = weights[row] & mask
    return weight if weight > 0 else int64(0)


@part
def block_length(start, stop):
    """Entries per block of a run."""
    return (stop - start) // N_BLOCKS + MIN_BLOCK


@part
def _weigh_blocks(rows, start, stop, weights, mask, prefix):
    """prefix[j] (OUT) = weight of a run's first j blocks; returns the weight of all."""
    step = block_length(start, stop)
    total, j, last = int64(0), int64(0), uint64(stop - 1)
    for first in range(start, stop, step):
        prefix[j] = total
        j += 1
        for i in range(uint64(first), uint64(first + step if first + step < stop else stop)):
            prefetch_item(weights, uint64(rows[i + AHEAD if i + AHEAD < last else last]))
            total += weight_of(weights, mask, uint64(rows[i]))
    prefix[j] = total
    return total


@part
def _weight_before(rows, start, stop, weights, mask, prefix, at):
    """Weight of the run's entries before position `at`."""
    step = block_length(start, stop)
    block = (at - start) // step
    total = prefix[block]
    for i in range(uint64(start + block * step), uint64(at)):
        total += weight_of(weights, mask, uint64(rows[i]))
    return total


@part
def _first_not_below(values, low, high, value):
    """The first position in low .. high whose value is not below `value`, high if there is none."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _first_above(values, low, high, value):
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _end_of_ties(values, first, stop):
    """Where the values equal to that at `first` end: looked for in steps that double, then halved."""
    value, low, step = values[first], first, int64(1)
    while low + step < stop and values[low + step] == value:
        low += step
        step *= 2
    return _first_above(values, low + 1, low + step if low + step < stop else stop, value)


@part
def _pick_all(rows, values, start, stop, weights, mask, limit, firsts):
    """firsts (OUT) = where each distinct value that has a weight begins; limit + 1 if they are more than `limit`."""
    n, first = int64(0), start
    while first < stop:
        end, at = _end_of_ties(values, first, stop), first
        while at < end and weight_of(weights, mask, uint64(rows[at])) == 0:
            at += 1
        if at < end:
            if n == limit:
                return limit + 1
            firsts[n] = first
            n += 1
        first = end
    return n


@part
def _pick_ranks(rows, values, start, stop, weights, mask, n_bins, prefix, total, firsts):
    """firsts (OUT) = where the values of ranks 0, total / n_bins, 2 total / n_bins, ..., total begin, each once."""
    step = block_length(start, stop)
    n, block, below, at = int64(0), int64(0), int64(0), start  # `below` is the weight before entry `at`
    for k in range(n_bins + 1):
        rank = wanted_rank(k, total, n_bins)
        if prefix[block + 1] <= rank:
            while prefix[block + 1] <= rank:
                block += 1
            at, below = start + block * step, prefix[block]
        weight = weight_of(weights, mask, uint64(rows[at]))
        while below + weight <= rank:
            below += weight
            at += 1
            weight = weight_of(weights, mask, uint64(rows[at]))
        if n == 0 or values[at] != values[firsts[n - 1]]:
            firsts[n] = _first_not_below(values, start if n == 0 else firsts[n - 1], at, values[at])
            n += 1
    return n


@part
def pick_run(rows, values, start, stop, weights, mask, n_bins, prefix, total, firsts):
    """(n_picks, n_cuts): firsts (OUT, n_bins + 1) = where the picked values begin; picks 1 .. n_cuts are cuts.

    matrix/cuts.py's definition: up to n_bins distinct values are all picked, else those at n_bins + 1 even ranks; the
    smallest is no cut, and the largest only where the last inner rank falls on it.
    """
    if total == 0:
        return int64(0), int64(0)
    n = _pick_all(rows, values, start, stop, weights, mask, n_bins, firsts)
    if n <= n_bins:
        return n, n - 1
    n = _pick_ranks(rows, values, start, stop, weights, mask, n_bins, prefix, total, firsts)
    below_last = _weight_before(rows, start, stop, weights, mask, prefix, firsts[n - 1])
    return n, n - 1 if wanted_rank(n_bins - 1, total, n_bins) >= below_last else n - 2


@kernel
def propose_cuts(ptr, rows, values, weights, features, n_bins, prefix, firsts, n_cuts, start, stop):
    """Picks of features[start:stop]: firsts[f] and n_cuts[f] (OUT), see `pick_run`; prefix (N_BLOCKS + 1,) scratch."""
    for a in range(start, stop):
        f = features[a]
        first, last, mask = ptr[f], ptr[f + 1], int64(-1)
        total = _weigh_blocks(rows, first, last, weights, mask, prefix)
        found = pick_run(rows, values, first, last, weights, mask, int64(n_bins[f]), prefix, total, firsts[f])
        n_cuts[f] = found[1]


@kernel
def summarise_run(rows, values, weights, n_bins, prefix, firsts, out_values, out_ranks):
    """Entries (OUT) for the values picked from one run, with their true ranks; returns how many there are."""
    start, stop, mask = int64(0), int64(rows.shape[0]), int64(-1)
    total = _weigh_blocks(rows, start, stop, weights, mask, prefix)
    n, _ = pick_run(rows, values, start, stop, weights, mask, n_bins, prefix, total, firsts)
    for k in range(n):
        first = firsts[k]
        last = _first_above(values, first, stop, values[first])
        below = _weight_before(rows, start, stop, weights, mask, prefix, first)
        upto = _weight_before(rows, start, stop, weights, mask, prefix, last)
        out_values[k] = values[first]
        out_ranks[RMIN, k], out_ranks[RMAX, k], out_ranks[WEIGHT, k] = below, upto, upto - below
    return n


@part
def _ranks_of(ranks, j, is_entry):
    """(rmin, rmax, w) of entry j, or of a value that lies before it and after the one before."""
    n = ranks.shape[1]
    if is_entry:
        return ranks[RMIN, j], ranks[RMAX, j], ranks[WEIGHT, j]
    if j == 0:
        return int64(0), int64(0), int64(0)
    if j == n:
        return ranks[RMAX, n - 1], ranks[RMAX, n - 1], int64(0)
    return ranks[RMIN, j - 1] + ranks[WEIGHT, j - 1], ranks[RMAX, j] - ranks[WEIGHT, j], int64(0)


@kernel
def merge_summaries(a_values, a_ranks, b_values, b_ranks, out_values, out_ranks):
    """The summary (OUT) of what two summaries stand for together; returns its number of entries. No error is added."""
    i, j, n = int64(0), int64(0), int64(0)
    n_a, n_b = int64(a_values.shape[0]), int64(b_values.shape[0])
    while i < n_a or j < n_b:
        from_a = j == n_b or (i < n_a and a_values[i] <= b_values[j])
        from_b = i == n_a or (j < n_b and b_values[j] <= a_values[i])
        out_values[n] = a_values[i] if from_a else b_values[j]
        of_a, of_b = _ranks_of(a_ranks, i, from_a), _ranks_of(b_ranks, j, from_b)
        out_ranks[RMIN, n], out_ranks[RMAX, n] = of_a[0] + of_b[0], of_a[1] + of_b[1]
        out_ranks[WEIGHT, n] = of_a[2] + of_b[2]
        n += 1
        i += int64(from_a)
        j += int64(from_b)
    return n


@part
def _entry_at(ranks, twice_rank, i):
    """The entry nearest to a rank (the appendix's g(Q, d)), looked for from entry i on, which is not behind it."""
    n = ranks.shape[1]
    while i + 1 < n and ranks[RMIN, i + 1] + ranks[RMAX, i + 1] <= twice_rank:
        i += 1
    if i + 1 == n or twice_rank < ranks[RMIN, i] + ranks[RMAX, i]:
        return i
    middle = ranks[RMIN, i] + ranks[WEIGHT, i] + ranks[RMAX, i + 1] - ranks[WEIGHT, i + 1]
    return i if twice_rank < middle else i + 1


@kernel
def prune_summary(values, ranks, n_steps, out_values, out_ranks):
    """At most n_steps + 1 entries (OUT): those at even ranks. Returns how many; adds total / n_steps to the error."""
    n, at = int64(0), int64(-1)
    twice_total = 2 * ranks[RMAX, values.shape[0] - 1]
    whole, rest = twice_total // n_steps, twice_total % n_steps
    for k in range(n_steps + 1):
        found = _entry_at(ranks, whole * k + rest * k // n_steps, at if at > 0 else int64(0))
        if found != at:
            at = found
            out_values[n] = values[at]
            for rank in range(3):
                out_ranks[rank, n] = ranks[rank, at]
            n += 1
    return n


@kernel
def find_entries(ranks, twice_ranks, out):
    """out[q] (OUT) = the entry nearest to each rank; ranks may come in any order."""
    for q in range(twice_ranks.shape[0]):
        out[q] = _entry_at(ranks, twice_ranks[q], int64(0))
