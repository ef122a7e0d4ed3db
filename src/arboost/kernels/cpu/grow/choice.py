"""Searches that do not take every candidate: children need so many rows, or one candidate of every feature is drawn.

    min_data_in_leaf    a histogram has a third plane, which counts rows; where all hessians are alike, they count rows
    extra_trees         a bin between the lowest and the highest that the node has, by a hash of tree, node and feature

The twins of split.py's searches; search.py takes these, when compiled, where a level's search has a `choice`.
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import split
from arboost.kernels.dtypes import BY_ROWS
from arboost.kernels.jit import part
from arboost.kernels.scalar import mix

LEAST, PLANE = 0, 1  # of Choice.rows


@part
def draw(choice, i, f, n):
    """One of n for node i and feature f."""
    return int64(mix(uint64(choice.key[0]) ^ mix((uint64(i) << uint64(32)) ^ uint64(f))) % uint64(n))


# ---- rows ----


@part
def _count_by_bins(choice, out, slot, n_slots, width, bins, n, c_left):
    """Running counts of rows (c_left, OUT) up to each of n entries of a feature; returns the node's count.

    out: the node's histogram; the feature has `width` slots of it, the missing one included. 0 if nothing is counted.
    """
    if choice.rows[LEAST] <= 1:
        return int64(0)
    first, j, count = choice.rows[PLANE] * n_slots + slot, int64(0), int64(0)
    for k in range(n):
        while j <= bins[k]:
            count += out[first + j]
            j += 1
        c_left[k] = count
    while j < width:
        count += out[first + j]
        j += 1
    return count


@part
def _place_of(bins, n, b):
    """The first of n entries whose bin is not below b."""
    lo, hi = int64(0), n
    while lo < hi:
        middle = (lo + hi) // 2
        if bins[middle] < b:
            lo = middle + 1
        else:
            hi = middle
    return lo


@part
def _count_by_rows(choice, column, node, data, n_bins, bins, n, c_left):
    """The same from the few rows of a node."""
    if choice.rows[LEAST] <= 1:
        return int64(0)
    rows, g_values, h_values, shift = data
    total = int64(0)
    for k in range(n):
        c_left[k] = 0
    for i in range(node.start, node.stop):
        r = int64(rows[i])
        if (g_values[r] | (h_values[r] if shift == 0 else int64(0))) == 0:
            continue  # a row that weighs nothing
        total += 1
        b = int64(column[r])
        k = _place_of(bins, n, b) if b < n_bins else n
        if k < n:
            c_left[k] += 1
    for k in range(1, n):
        c_left[k] += c_left[k - 1]
    return total


# ---- the best of what is left ----


@part
def _drawn(choice, i, f, bins, g_left, h_left, n):
    """(lo, hi): the entries that part the node's rows as a drawn bin does."""
    first, last = int64(0), int64(n - 1)
    while first < last and (g_left[first] | h_left[first]) == 0:
        first += 1
    while last > first and g_left[last - 1] == g_left[n - 1] and h_left[last - 1] == h_left[n - 1]:
        last -= 1
    lo = last
    if last > first:
        drawn = bins[first] + draw(choice, i, f, bins[last] - bins[first])
        lo = _place_of(bins, int64(n), drawn + 1) - 1
    hi = lo + 1
    while lo > 0 and g_left[lo - 1] == g_left[lo] and h_left[lo - 1] == h_left[lo]:
        lo -= 1
    while hi < n and g_left[hi] == g_left[lo] and h_left[hi] == h_left[lo]:
        hi += 1
    return lo, hi


@part
def _best_of(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, score, found):
    """The best split of node i after one of n bins of feature f, given running sums and counts."""
    g_missing, h_missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
    has_missing = (g_missing | h_missing) != 0
    lo, hi = int64(0), int64(n)
    if choice.key[0] != 0:
        lo, hi = _drawn(choice, i, f, bins, g_left, h_left, n)
    least = choice.rows[LEAST]
    counted = least > 1
    c_missing = total - c_left[n - 1] if counted else int64(0)
    last = hi if has_missing or hi < n else int64(n - 1)
    split.score_all(g_left[lo:hi], h_left[lo:hi], last - lo, int64(0), int64(0), node.g, node.h, reg, score)
    for k in range(lo, last):
        fits = not counted or (c_left[k] >= least and total - c_left[k] >= least)
        if fits and score[k - lo] > found.score:
            found.score, found.bin, found.default_left = score[k - lo], bins[k], 0
            found.g_left, found.h_left = g_left[k], h_left[k]
    last = hi if hi < n else int64(n - 1)
    if has_missing and last > lo:
        split.score_all(g_left[lo:hi], h_left[lo:hi], last - lo, g_missing, h_missing, node.g, node.h, reg, score)
        for k in range(last - 1, lo - 1, -1):
            count = c_left[k] + c_missing
            fits = not counted or (count >= least and total - count >= least)
            if fits and score[k - lo] > found.score:
                found.score, found.bin, found.default_left = score[k - lo], bins[k + 1] - 1, 1
                found.g_left, found.h_left = g_left[k] + g_missing, h_left[k] + h_missing


# ---- split.py's loops ----


def find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    """`split.find_splits` among the candidates that a choice leaves."""
    slot_ptr, n_bins = page.slot_ptr, page.n_bins
    n_features = n_bins.shape[0]
    rows, (score, _), choice = scratch
    every_bin, bins, g_left, h_left = rows[split.EVERY_BIN], rows[split.BINS], rows[split.G_LEFT], rows[split.H_LEFT]
    c_left, n_slots = rows[split.PART_G_LEFT], slot_ptr[n_features]
    last_allowed = allowed.shape[0] - 1
    for pair in range(start, stop):
        e, f = pair // n_features, pair % n_features
        i = evals[e]
        node, found = nodes[i], best[e, f]
        if node.hist == BY_ROWS:
            continue
        found.score = 0.0
        if allowed[e if e < last_allowed else last_allowed, f] == 0:
            continue
        out, slot, n, width = hist[node.hist], slot_ptr[f], int64(n_bins[f]), slot_ptr[f + 1] - slot_ptr[f]
        if 2 * (node.stop - node.start) >= n:
            split.all_sums(out, slot, n_slots, n, g_left, h_left)
            total = _count_by_bins(choice, out, slot, n_slots, width, every_bin, n, c_left)
            _best_of(choice, i, f, c_left, total, every_bin, g_left, h_left, n, node, reg, score, found)
            continue
        n = split.occupied_sums(out, slot, n_slots, n, bins, g_left, h_left)
        if n > 0:
            total = _count_by_bins(choice, out, slot, n_slots, width, bins, n, c_left)
            _best_of(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, score, found)


def find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    """`split.find_splits_by_rows` among the candidates that a choice leaves."""
    ids, g_values, h_values, shift = data
    columns, n_bins = page.columns, page.n_bins
    work, (score, _), choice = scratch
    bins, g_left, h_left, c_left = work[split.BINS], work[split.G_LEFT], work[split.H_LEFT], work[split.PART_G_LEFT]
    g_sums, h_sums, occupied = work[split.G_SUMS], work[split.H_SUMS], work[split.OCCUPIED]
    last_allowed = allowed.shape[0] - 1
    for e in range(start, stop):
        i = evals[e]
        node = nodes[i]
        if node.hist != BY_ROWS:
            continue
        for f in range(n_bins.shape[0]):
            found = best[e, f]
            found.score = 0.0
            if allowed[e if e < last_allowed else last_allowed, f] == 0:
                continue
            span = node.start, node.stop
            split.sum_few_rows(
                columns[f], ids, span[0], span[1], g_values, h_values, shift, n_bins[f], g_sums, h_sums, occupied
            )
            n = split.collect_bins(g_sums, h_sums, occupied, n_bins[f], bins, g_left, h_left)
            if n > 0:
                total = _count_by_rows(choice, columns[f], node, data, n_bins[f], bins, n, c_left)
                _best_of(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, score, found)
