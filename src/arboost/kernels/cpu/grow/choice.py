"""Searches that do not take every candidate: children need so many rows, or one candidate of every feature is drawn.

    min_data_in_leaf    a histogram has a third plane, which counts rows; where all hessians are alike, they count rows
    extra_trees         a bin between the lowest and the highest that the node has, by a hash of tree, node and feature

Compiled only where a level's search has a `choice`: its forms of split.py's functions are registered here.
"""

from numba import int64, uint64
from numba.extending import overload

from arboost.kernels.cpu.grow import split
from arboost.kernels.cpu.grow.arrays import Choice, is_of
from arboost.kernels.jit import OPTIONS, part
from arboost.kernels.scalar import mix

LEAST, PLANE = 0, 1  # of Choice.rows


@part
def draw(choice, i, f, n):
    """One of n for node i and feature f."""
    return int64(mix(uint64(choice.key[0]) ^ mix((uint64(i) << uint64(32)) ^ uint64(f))) % uint64(n))


# ---- rows ----


def _count_by_bins(choice, out, slot, n_slots, width, bins, n, c_left):
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


@overload(split.count_by_bins, jit_options=OPTIONS)
def _choose_count_by_bins(choice, out, slot, n_slots, width, bins, n, c_left):
    return _count_by_bins if is_of(choice, Choice) else None


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


def _count_by_rows(choice, column, rows, node, data, n_bins, bins, n, c_left):
    if choice.rows[LEAST] <= 1:
        return int64(0)
    _, g_values, h_values, shift = data
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


@overload(split.count_by_rows, jit_options=OPTIONS)
def _choose_count_by_rows(choice, column, rows, node, data, n_bins, bins, n, c_left):
    return _count_by_rows if is_of(choice, Choice) else None


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


def _best_candidate(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, scores, found):
    g_missing, h_missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
    has_missing = (g_missing | h_missing) != 0
    lo, hi = int64(0), int64(n)
    if choice.key[0] != 0:
        lo, hi = _drawn(choice, i, f, bins, g_left, h_left, n)
    least, score = choice.rows[LEAST], scores[0]
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


@overload(split.best_candidate, jit_options=OPTIONS)
def _choose_best_candidate(choice, i, f, c_left, total, bins, g_left, h_left, n, node, reg, scores, found):
    return _best_candidate if is_of(choice, Choice) else None
