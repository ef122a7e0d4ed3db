"""Searches that do not take every candidate: children need so many rows, or one candidate of every feature is drawn.

    min_data_in_leaf    a histogram has a third plane, which counts rows; where all hessians are alike, they count rows
    extra_trees         a bin between the lowest and the highest that the node has, by a hash of tree, node and feature

What split.py's searches offer a node is judged here, when compiled, where `scratch` has a choice as its third part.
The `source` of an offer is what its sums come from, for rows are counted there once more:

    (the node's histogram, the feature's first slot, slots of a plane, slots of the feature)
    (the feature's column, data, n_bins) where a node is searched by its rows; data as in `split.find_splits_by_rows`
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import split
from arboost.kernels.jit import forms_of, part
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


def _offer_by_bins(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found):
    (rows, (score, _), choice), (out, slot, n_slots, width) = scratch, source
    c_left = rows[split.PART_G_LEFT]
    total = _count_by_bins(choice, out, slot, n_slots, width, bins, n, c_left)
    _best_of(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, score, found)


def _offer_by_rows(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found):
    (rows, (score, _), choice), (column, data, n_bins) = scratch, source
    c_left = rows[split.PART_G_LEFT]
    total = _count_by_rows(choice, column, node, data, n_bins, bins, n, c_left)
    _best_of(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, score, found)


@forms_of(split.offer)
def _choose_offer(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found):
    if len(scratch) == 2:
        return None
    return _offer_by_bins if len(source) == 4 else _offer_by_rows
