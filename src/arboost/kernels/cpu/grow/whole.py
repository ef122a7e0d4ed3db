"""A whole tree, grown by one thread in one call: what forests are made of.

A row has a label and a weight, both small integers. Numbers, and two classes as 0 and 1, are scored by squares of sums
over sums of weights; for more classes the sums of squares of the classes' weights are kept up to date row by row, so
that a row costs the same however many there are. Nodes go depth first: a child's rows are in the cache, and features
that are constant in a node are known to be so below it. What a kind of tree does not need is not compiled: `classes`
and `edges` are empty tuples where leaves hold one number, and where every cut is a candidate.
"""

import numpy as np
from numba import float64, int64, uint64

from arboost.kernels.intrinsics import count_trailing_zeros
from arboost.kernels.jit import forms_of, kernel, part, scalar
from arboost.kernels.scalar import mix

MAX_DEPTH, MAX_LEAVES, LEAST_SPLIT, LEAST_LEAF, N_DRAWN = range(5)  # places in `limits`; 0: no limit of the first two
NO_SCORE = -1.0


# ---- draws ----


@scalar
def _draw(state):
    """64 random bits; `state` (1,) uint64 goes on."""
    state[0] += uint64(1)
    return mix(state[0])


@scalar
def _draw_below(state, n):
    return int64(((_draw(state) >> uint64(32)) * uint64(n)) >> uint64(32))


@part
def _draw_cut(edges, f, low, top, state):
    """A bin from low to top - 1: of a value drawn between those of the two, as far as bins tell them."""
    ptr, values, least, largest = edges
    if top <= low + 1:
        return low
    first = int64(ptr[f]) - 1  # values[first + b] is where bin b begins
    begin = float64(values[first + low] if low > 0 else least[f])
    end = float64(values[first + top] if first + top + 1 < int64(ptr[f + 1]) else largest[f])
    x = begin + (end - begin) * (float64(_draw(state) >> uint64(11)) * 2.0**-53)
    while top - low > 1:  # bin low begins at or before x, bin top behind it
        middle = (low + top) // 2
        is_before = float64(values[first + middle]) <= x
        low, top = middle if is_before else low, top if is_before else middle
    return low


# ---- what a node's rows add up to ----


def _open(node, rows, classes):
    """Set node.g and node.h; returns whether all labels are the same."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _open_numbers(node, rows, classes):
    """g: the sum of labels times weights, h: of weights."""
    labels, weights = rows[1], rows[2]
    g, h, low, high = int64(0), int64(0), int64(labels[node.start]), int64(labels[node.start])
    for i in range(uint64(node.start), uint64(node.stop)):
        label, weight = int64(labels[i]), int64(weights[i])
        g += label * weight
        h += weight
        low, high = min(low, label), max(high, label)
    node.g, node.h = g, h
    return low == high


def _open_classes(node, rows, classes):
    """g: the sum of the squares of the classes' weights, which are left in `classes`."""
    labels, weights, totals = rows[1], rows[2], classes[0]
    totals[:] = 0
    for i in range(uint64(node.start), uint64(node.stop)):
        totals[uint64(labels[i])] += weights[i]
    g, h = int64(0), int64(0)
    for k in range(uint64(totals.shape[0])):
        g += totals[k] * totals[k]
        h += totals[k]
    node.g, node.h = g, h
    return g == h * h


@forms_of(_open)
def _choose_open(node, rows, classes):
    return _open_classes if len(classes) else _open_numbers


def _score(node, classes):
    """The score of a node that is not split."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _score_numbers(node, classes):
    return float64(node.g) * float64(node.g) / float64(node.h)


def _score_classes(node, classes):
    return float64(node.g) / float64(node.h)


@forms_of(_score)
def _choose_score(node, classes):
    return _score_classes if len(classes) else _score_numbers


@part
def _read_codes(column, ids, start, stop, codes):
    """codes (OUT): the bins of a node's rows; returns the least and the largest."""
    low, high = int64(column[uint64(ids[start])]), int64(column[uint64(ids[start])])
    for i in range(uint64(start), uint64(stop)):
        code = int64(column[uint64(ids[i])])
        codes[i - uint64(start)] = code
        low, high = min(low, code), max(high, code)
    return low, high


# ---- the best split of a node on one feature: (score, bin, whether missing values go left) ----


def _search(node, rows, f, low, high, missing, least, edges, classes, work, state):
    raise NotImplementedError  # only its compiled forms below are ever called


@scalar
def _score_two(g, h, node, least):
    """The score of two children, of which the left one has the sums g and h."""
    other_g, other_h = float64(node.g - g), node.h - h
    if h < least or other_h < least:
        return NO_SCORE
    return float64(g) * float64(g) / float64(h) + other_g * other_g / float64(other_h)


@part
def _is_dense(n, low, high):
    """Whether looking at all bins from low to high costs less than marking those of n rows."""
    return high - low < 4 * n


@part
def _mark_bins(codes, n, occupied):
    for i in range(uint64(n)):
        code = uint64(codes[i])
        occupied[code >> uint64(6)] |= uint64(1) << (code & uint64(63))


@part
def _list_bins(sums, occupied, is_dense, low, high, bins):
    """bins (OUT): those from low to high that have sums, or are marked; no mark stays. Returns their number."""
    k = uint64(0)
    if is_dense:
        for code in range(uint64(low), uint64(high) + uint64(1)):
            bins[k] = code
            k += uint64(sums[code] != 0)
        return k
    for word in range(uint64(low >> 6), uint64(high >> 6) + uint64(1)):
        bits = occupied[word]
        occupied[word] = uint64(0)
        while bits != uint64(0):
            bins[k] = (word << uint64(6)) + count_trailing_zeros(bits)
            bits &= bits - uint64(1)
            k += uint64(1)
    return k


def _best_of_numbers(node, rows, f, low, high, missing, least, edges, classes, work, state):
    """Of all cuts: those between bins that rows are in, half way in the list of bins."""
    labels, weights, (codes, g_of, h_of, occupied, bins) = rows[1], rows[2], work
    is_dense = _is_dense(node.stop - node.start, low, high)
    if not is_dense:
        _mark_bins(codes, node.stop - node.start, occupied)
    for i in range(uint64(node.start), uint64(node.stop)):
        code, weight = uint64(codes[i - uint64(node.start)]), int64(weights[i])
        g_of[code] += weight * int64(labels[i])
        h_of[code] += weight
    has_missing = high == missing
    g_missing = g_of[missing] if has_missing else int64(0)
    h_missing = h_of[missing] if has_missing else int64(0)
    best, cut, side = NO_SCORE, int64(-1), int64(0)
    g, h, last, is_last = int64(0), int64(0), int64(-1), False  # is_last: the cut is behind the last bin
    for k in range(_list_bins(h_of, occupied, is_dense, low, high, bins)):
        code = uint64(bins[k])
        more_g, more_h = g_of[code], h_of[code]
        g_of[code], h_of[code] = 0, 0
        if int64(code) == missing:
            continue
        if is_last:
            cut = (cut + int64(code) - 1) // 2
        is_last = False
        if has_missing and last >= 0:
            score = _score_two(g + g_missing, h + h_missing, node, least)
            if score > best:
                best, cut, side = score, (last + int64(code) - 1) // 2, int64(1)
        g, h, last = g + more_g, h + more_h, int64(code)
        score = _score_two(g, h, node, least)
        if score > best:
            best, cut, side, is_last = score, last, int64(0), True
    return best, cut, side


@part
def _sort_by_code(node, rows, low, high, missing, work, classes):
    """Labels and weights in the order of bins, in classes' `by_code`; the bins that rows are in, in work's `bins`, and
    where each of them ends, in `ends`. Returns the number of bins but the missing one, which is the last."""
    labels, weights, (codes, _, h_of, occupied, bins) = rows[1], rows[2], work
    _, _, ends, by_code = classes
    n = uint64(node.stop - node.start)
    is_dense = _is_dense(int64(n), low, high)
    if not is_dense:
        _mark_bins(codes, n, occupied)
    for i in range(n):
        h_of[uint64(codes[i])] += 1
    n_bins, place = _list_bins(h_of, occupied, is_dense, low, high, bins), int64(0)
    for k in range(n_bins):
        code = uint64(bins[k])
        place, h_of[code] = place + h_of[code], place
        ends[k] = place
    for i in range(n):
        code = uint64(codes[i])
        to = uint64(h_of[code])
        h_of[code] += 1
        by_code[0, to], by_code[1, to] = labels[uint64(node.start) + i], weights[uint64(node.start) + i]
    for k in range(n_bins):
        h_of[uint64(bins[k])] = 0
    return int64(n_bins) - int64(high == missing)


@part
def _scan_classes(node, n_bins, with_missing, least, classes):
    """The best score of children parted behind one of n_bins, and which; `with_missing`: these go left."""
    totals, left, ends, by_code = classes
    left[:] = 0
    left_g, right_g, h = int64(0), node.g, int64(0)
    best, at = NO_SCORE, int64(-1)
    begin = uint64(ends[n_bins - 1])  # missing values come last
    for k in range(int64(-1) if with_missing else int64(0), n_bins):
        first = uint64(ends[k - 1]) if k > 0 else uint64(0)
        last = uint64(ends[k])
        if k < 0:
            first, last = begin, uint64(node.stop - node.start)
        for p in range(first, last):
            label, weight = uint64(by_code[0, p]), int64(by_code[1, p])
            here = left[label]
            left_g += weight * (2 * here + weight)
            right_g -= weight * (2 * (totals[label] - here) - weight)
            left[label] = here + weight
            h += weight
        if k >= 0 and h >= least and node.h - h >= least:
            score = float64(left_g) / float64(h) + float64(right_g) / float64(node.h - h)
            if score > best:
                best, at = score, k
    return best, at


def _best_of_classes(node, rows, f, low, high, missing, least, edges, classes, work, state):
    n_bins = _sort_by_code(node, rows, low, high, missing, work, classes)
    best, at = _scan_classes(node, n_bins, False, least, classes)
    side, bins = int64(0), work[4]
    if high == missing:
        score, place = _scan_classes(node, n_bins, True, least, classes)
        if score > best:
            best, at, side = score, place, int64(1)
    if at < 0:
        return best, at, side
    cut = int64(bins[at])
    return best, (cut + int64(bins[at + 1]) - 1) // 2 if at + 1 < n_bins else cut, side


@part
def _highest(codes, n, missing):
    """The largest code but the missing one."""
    high = int64(-1)
    for i in range(uint64(n)):
        code = int64(codes[i])
        high = max(high, code if code != missing else int64(-1))
    return high


def _drawn_of_numbers(node, rows, f, low, high, missing, least, edges, classes, work, state):
    """Of one cut that is drawn."""
    labels, weights, codes = rows[1], rows[2], work[0]
    n = node.stop - node.start
    cut = _draw_cut(edges, f, low, _highest(codes, n, missing) if high == missing else high, state)
    g, h, g_missing, h_missing = int64(0), int64(0), int64(0), int64(0)
    for i in range(uint64(n)):
        at = uint64(node.start) + i
        weight = int64(weights[at]) if int64(codes[i]) <= cut else int64(0)
        g += weight * int64(labels[at])
        h += weight
    score = _score_two(g, h, node, least)
    if high == missing:
        for i in range(uint64(n)):
            at = uint64(node.start) + i
            weight = int64(weights[at]) if int64(codes[i]) == missing else int64(0)
            g_missing += weight * int64(labels[at])
            h_missing += weight
        other = _score_two(g + g_missing, h + h_missing, node, least)
        if other > score:
            return other, cut, int64(1)
    return score, cut, int64(0)


@part
def _score_classes_of(left, node, totals, least):
    left_g, right_g, h = int64(0), int64(0), int64(0)
    for k in range(uint64(totals.shape[0])):
        h += left[k]
        left_g += left[k] * left[k]
        right_g += (totals[k] - left[k]) * (totals[k] - left[k])
    if h < least or node.h - h < least:
        return NO_SCORE
    return float64(left_g) / float64(h) + float64(right_g) / float64(node.h - h)


def _drawn_of_classes(node, rows, f, low, high, missing, least, edges, classes, work, state):
    labels, weights, codes, totals, left = rows[1], rows[2], work[0], classes[0], classes[1]
    n = node.stop - node.start
    cut = _draw_cut(edges, f, low, _highest(codes, n, missing) if high == missing else high, state)
    left[:] = 0
    for i in range(uint64(n)):
        weight = int64(weights[uint64(node.start) + i])
        left[uint64(labels[uint64(node.start) + i])] += weight if int64(codes[i]) <= cut else int64(0)
    score = _score_classes_of(left, node, totals, least)
    if high == missing:
        for i in range(uint64(n)):
            weight = int64(weights[uint64(node.start) + i])
            left[uint64(labels[uint64(node.start) + i])] += weight if int64(codes[i]) == missing else int64(0)
        other = _score_classes_of(left, node, totals, least)
        if other > score:
            return other, cut, int64(1)
    return score, cut, int64(0)


@forms_of(_search)
def _choose_search(node, rows, f, low, high, missing, least, edges, classes, work, state):
    if len(edges):
        return _drawn_of_classes if len(classes) else _drawn_of_numbers
    return _best_of_classes if len(classes) else _best_of_numbers


# ---- nodes ----


@part
def _find_split(node, page, rows, limits, gamma, features, edges, classes, work, state):
    """Give a node its sums and its best split, feature -1 if there is none.

    features[:node.hist] are constant in the node. As in scikit-learn a draw of one of these counts as one of the
    N_DRAWN, what is drawn goes on until something can part the node, and a split need not gain: those below it may.
    """
    columns, missing = page
    node.feature = node.left = node.right = -1
    is_pure = _open(node, rows, classes)
    is_last = limits[MAX_DEPTH] > 0 and node.depth >= limits[MAX_DEPTH]
    if is_pure or is_last or node.h < limits[LEAST_SPLIT]:
        return
    n_known = n_constant = int64(node.hist)
    end, n_drawn = int64(features.shape[0]), int64(0)
    best, feature = NO_SCORE, int64(-1)
    while end > n_constant and (n_drawn < limits[N_DRAWN] or feature < 0):
        n_drawn += 1
        at = _draw_below(state, n_known + end - n_constant)
        if at < n_known:
            n_known -= 1
            continue
        at += n_constant - n_known
        f = int64(features[at])
        low, high = _read_codes(columns[f], rows[0], node.start, node.stop, work[0])
        if low == high:
            features[at], features[n_constant] = features[n_constant], f
            n_constant += 1
            continue
        end -= 1
        features[at], features[end] = features[end], f
        least, code = limits[LEAST_LEAF], int64(missing[f])
        score, cut, side = _search(node, rows, f, low, high, code, least, edges, classes, work, state)
        if score > best:  # of equals the first drawn: trees that prefer a feature are alike
            best, feature = score, f
            node.bin, node.default_left = cut, side
    node.hist = n_constant
    node.gain = max(0.0, best - _score(node, classes))
    if node.gain >= gamma:
        node.feature = feature


@part
def _part_rows(node, column, missing, rows):
    """Part a node's rows, in order; returns where those of the right child begin."""
    ids, labels, weights, other_ids, other_labels, other_weights = rows
    left, n_right = uint64(node.start), uint64(0)
    for i in range(uint64(node.start), uint64(node.stop)):
        row, label, weight = ids[i], labels[i], weights[i]
        code = int64(column[uint64(row)])
        goes_left = (code <= node.bin) | ((code == missing) & (node.default_left != 0))
        ids[left], labels[left], weights[left] = row, label, weight
        other_ids[n_right], other_labels[n_right], other_weights[n_right] = row, label, weight
        left += uint64(goes_left)
        n_right += uint64(not goes_left)
    for i in range(n_right):
        ids[left + i], labels[left + i], weights[left + i] = other_ids[i], other_labels[i], other_weights[i]
    return int64(left)


@part
def _make_child(nodes, i, parent, start, stop):
    nodes[i].start, nodes[i].stop, nodes[i].parent = start, stop, parent
    nodes[i].depth, nodes[i].hist, nodes[i].gain = nodes[parent].depth + 1, nodes[parent].hist, 0.0


@part
def _take_next(nodes, waiting, n, best_first):
    """Take the last one of n waiting nodes, or the one that gains most, to the end of the list."""
    if best_first:
        best = int64(0)
        for k in range(1, n):
            if nodes[waiting[k]].gain > nodes[waiting[best]].gain:
                best = k
        waiting[best], waiting[n - 1] = waiting[n - 1], waiting[best]
    return int64(waiting[n - 1])


@kernel
def grow(page, rows, limits, gamma, features, edges, classes, work, key, nodes):
    """Grow a tree into `nodes` (OUT, NODE records), of which it returns the number.

    page     (columns, the code of missing values of each feature, -1: it has none)
    rows     (ids, labels, weights), and room for as many
    limits   see above; gamma: what a split must gain; features: all numbers, in any order
    edges    where cuts are drawn (ptr and values of all cuts, least and largest values of features)
    classes  (weights of all rows, of those on the left, ends of bins, rows in order), if leaves hold shares of classes
    work     (bins of rows; g and h of bins, which of them are occupied, all zero between calls; a list of bins)
    key      (1,) uint64, seeds the draws
    """
    best_first = limits[MAX_LEAVES] > 0
    waiting, n_waiting, n_nodes, n_leaves = np.empty(nodes.shape[0], np.int32), int64(1), int64(1), int64(1)
    waiting[0] = 0
    nodes[0].start, nodes[0].stop, nodes[0].parent = 0, rows[0].shape[0], -1
    nodes[0].depth, nodes[0].hist, nodes[0].gain = 0, 0, 0.0
    if best_first:
        _find_split(nodes[0], page, rows, limits, gamma, features, edges, classes, work, key)
    while n_waiting > 0 and not (best_first and n_leaves >= limits[MAX_LEAVES]):
        i = _take_next(nodes, waiting, n_waiting, best_first)
        n_waiting -= 1
        node = nodes[i]
        if not best_first:
            _find_split(node, page, rows, limits, gamma, features, edges, classes, work, key)
        if node.feature < 0:
            continue
        middle = _part_rows(node, page[0][node.feature], int64(page[1][node.feature]), rows)
        node.left, node.right = n_nodes, n_nodes + 1
        _make_child(nodes, n_nodes, i, node.start, middle)
        _make_child(nodes, n_nodes + 1, i, middle, node.stop)
        if best_first:  # nodes wait for others, which draw features in between: what is constant is not known then
            for child in range(n_nodes, n_nodes + 2):
                nodes[child].hist = 0
                _find_split(nodes[child], page, rows, limits, gamma, features, edges, classes, work, key)
        waiting[n_waiting], waiting[n_waiting + 1] = n_nodes + 1, n_nodes
        n_waiting, n_nodes, n_leaves = n_waiting + 2, n_nodes + 2, n_leaves + 1
    return n_nodes


@kernel
def sum_nodes(nodes, ids, columns, values, sums):
    """sums[i, columns[r]] (OUT) += values[r] for the rows r of every node i; those of leaves first, then their sums."""
    for i in range(uint64(nodes.shape[0])):
        if nodes[i].left < 0:
            for at in range(uint64(nodes[i].start), uint64(nodes[i].stop)):
                r = uint64(ids[at])
                sums[i, uint64(columns[r])] += values[r]
    for i in range(nodes.shape[0] - 1, 0, -1):  # children come after their parents
        parent = uint64(nodes[i].parent)
        for k in range(uint64(sums.shape[1])):
            sums[parent, k] += sums[uint64(i), k]


@kernel
def find_leaves(page, nodes, rows, leaves, start, stop):
    """leaves[k] (OUT): the node where row rows[k] ends, by its bins."""
    columns, missing = page
    for k in range(uint64(start), uint64(stop)):
        i = int64(0)
        while nodes[i].left >= 0:
            feature = nodes[i].feature
            code = int64(columns[feature, uint64(rows[k])])
            goes_left = code <= nodes[i].bin or (code == missing[feature] and nodes[i].default_left != 0)
            i = int64(nodes[i].left if goes_left else nodes[i].right)
        leaves[k] = i
