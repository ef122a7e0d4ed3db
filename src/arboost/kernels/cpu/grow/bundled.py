"""Splits and sums where features share columns, or have no column at all (matrix/bundles.py).

What is not stored is what the other bins leave of a node's sums, so results are those of a column for every feature.
Such a page has a `layout`, and its slots are those of codes of columns; after them come those of sparse features.
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import split
from arboost.kernels.cpu.grow.arrays import origin_of
from arboost.kernels.dtypes import BY_ROWS
from arboost.kernels.jit import part
from arboost.kernels.scalar import clip


@part
def _sums_around(hist, slot, n_slots, n, gap, node, g_left, h_left):
    """Running sums up to each of n bins, of which bin `gap` has no slot: it holds the rest of the node."""
    slot, plane = uint64(slot), uint64(slot + n_slots)
    g_rest, h_rest = node.g, node.h
    for j in range(uint64(n - 1)):
        g_rest -= hist[slot + j]
        h_rest -= hist[plane + j]
    g, h = int64(0), int64(0)
    for j in range(uint64(n)):
        before = j < uint64(gap)
        k = j if before else j - uint64(1)
        g += g_rest if j == uint64(gap) else hist[slot + k]
        h += h_rest if j == uint64(gap) else hist[plane + k]
        g_left[j] = g
        h_left[j] = h


def find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    """`split.find_splits` for features that share columns."""
    unstored, n_bins = page.layout.unstored, page.layout.n_bins
    slot_of, n_slots = page.slot_of, page.slot_ptr[page.slot_ptr.shape[0] - 1]
    n_features = n_bins.shape[0]
    rows, scores = scratch
    every_bin, bins, g_left, h_left = rows[split.EVERY_BIN], rows[split.BINS], rows[split.G_LEFT], rows[split.H_LEFT]
    last_allowed = allowed.shape[0] - 1
    for pair in range(start, stop):
        e, f = pair // n_features, pair % n_features
        node = nodes[evals[e]]
        if node.hist == BY_ROWS:
            continue
        found = best[e, f]
        found.score = 0.0
        if allowed[e if e < last_allowed else last_allowed, f] != 0:
            out, slot, n = hist[node.hist], int64(slot_of[f]), int64(n_bins[f])
            if unstored[f] >= 0:
                _sums_around(out, slot, n_slots, n, int64(unstored[f]), node, g_left, h_left)
                split.best_of(every_bin, g_left, h_left, n, node, reg, scores, found)
                continue
            if 2 * (node.stop - node.start) >= n:
                split.all_sums(out, slot, n_slots, n, g_left, h_left)
                split.best_of(every_bin, g_left, h_left, n, node, reg, scores, found)
                continue
            n = split.occupied_sums(out, slot, n_slots, n, bins, g_left, h_left)
            if n > 0:
                split.best_of(bins, g_left, h_left, n, node, reg, scores, found)


def sum_bins(page, node, out, f, g_left, h_left):
    """`search.sum_bins` for features that share columns."""
    slot, n_slots, n = int64(page.slot_of[f]), page.slot_ptr[page.slot_ptr.shape[0] - 1], int64(page.layout.n_bins[f])
    gap = int64(page.layout.unstored[f])
    if gap >= 0:
        _sums_around(out, slot, n_slots, n, gap, node, g_left, h_left)
    else:
        split.all_sums(out, slot, n_slots, n, g_left, h_left)
    return n


@part
def _sum_entries(entries, rows, start, stop, base, values, shift, g_sums, h_sums, occupied):
    """`split.sum_few_rows` for the sparse features of rows[start:stop]; values = (g, h)."""
    row_ptr, slots = entries.row_ptr, entries.slots
    g_values, h_values = values
    mask = (int64(1) << shift) - 1
    for i in range(uint64(start), uint64(stop)):
        r = uint64(rows[i])
        v = g_values[r]
        g, h = (v >> shift, v & mask) if shift > 0 else (v, h_values[r])
        for j in range(uint64(row_ptr[r]), uint64(row_ptr[r + uint64(1)])):
            b = uint64(slots[j])
            g_sums[b] += g
            h_sums[b] += h
            occupied[b >> uint64(6)] |= int64(1) << int64(b & uint64(63))


@part
def _note(bin_, g, h, k, out):
    """Entry k of a feature's running sums."""
    bins, g_left, h_left = out
    bins[k], g_left[k], h_left[k] = bin_, g, h
    return k + 1


@part
def _part_of(codes, a, z, first, gap, node, out):
    """The running sums of one feature, given those of its column at entries a..z; returns how many there are.

    codes = (codes, g_left, h_left) of the column, out = (bins, g_left, h_left) of the feature; gap: unstored bin or -1.
    """
    code, g_left, h_left = codes
    g_before, h_before = (g_left[a - 1], h_left[a - 1]) if a > 0 else (int64(0), int64(0))
    g_rest = node.g - (g_left[z - 1] - g_before)
    h_rest = node.h - (h_left[z - 1] - h_before)
    waiting = gap >= 0 and (g_rest | h_rest) != 0
    g, h, k = int64(0), int64(0), int64(0)
    g_extra, h_extra = int64(0), int64(0)
    for i in range(a, z):
        b = code[i] - first
        b += int64(gap >= 0 and b >= gap)
        if waiting and b > gap:
            g_extra, h_extra, waiting = g_rest, h_rest, False
            k = _note(gap, g + g_extra, h + h_extra, k, out)
        g, h = g_left[i] - g_before, h_left[i] - h_before
        k = _note(b, g + g_extra, h + h_extra, k, out)
    if waiting:
        k = _note(gap, g + g_rest, h + h_rest, k, out)
    return k


@part
def _offer_parts(page, node, codes, n, base, allowed, reg, work, scores, best):
    """best[f] for every feature that has some of the n codes of a column whose slots begin at `base`."""
    slot_of, feature_of = page.slot_of, page.feature_of
    out = work[split.PART_BINS], work[split.PART_G_LEFT], work[split.PART_H_LEFT]
    a = int64(0)
    while a < n:
        f = int64(feature_of[base + codes[0][a]])
        z = a + 1
        while z < n and int64(feature_of[base + codes[0][z]]) == f:
            z += 1
        if f >= 0 and allowed[f] != 0:
            first = int64(slot_of[f]) - base
            k = _part_of(codes, a, z, first, int64(page.layout.unstored[f]), node, out)
            split.best_of(out[0], out[1], out[2], k, node, reg, scores, best[f])
        a = z


def find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    """`split.find_splits_by_rows` for features that share columns: a column is summed once for all of them."""
    rows, g_values, h_values, shift = data
    columns, slot_ptr, n_codes, entries = page.columns, page.slot_ptr, page.n_bins, page.entries
    work, scores = scratch
    codes = work[split.BINS], work[split.G_LEFT], work[split.H_LEFT]
    g_sums, h_sums, occupied = work[split.G_SUMS], work[split.H_SUMS], work[split.OCCUPIED]
    last_allowed = allowed.shape[0] - 1
    n_columns = int64(n_codes.shape[0])
    for e in range(start, stop):
        node = nodes[evals[e]]
        if node.hist != BY_ROWS:
            continue
        for f in range(best.shape[1]):
            best[e, f].score = 0.0
        may = allowed[e if e < last_allowed else last_allowed]
        for c in range(n_columns + entries.any_entries[0]):
            base = int64(slot_ptr[c])
            n = n_codes[c] if c < n_columns else slot_ptr[n_columns + 1] - base
            if c < n_columns:
                split.sum_few_rows(
                    columns[c], rows, node.start, node.stop, g_values, h_values, shift, n, g_sums, h_sums, occupied
                )
            else:
                values = g_values, h_values
                _sum_entries(entries, rows, node.start, node.stop, base, values, shift, g_sums, h_sums, occupied)
            n = split.collect_bins(g_sums, h_sums, occupied, n, codes[0], codes[1], codes[2])
            _offer_parts(page, node, codes, n, base, may, reg, work, scores, best[e])


def add_entries(page, ids, in_order, values, packing, builds, partial, hist, start, stop):
    """Sum the sparse features' bins of the builds' rows number start..stop, as `histogram.build_histograms` does."""
    row_ptr, slots, origin = page.entries.row_ptr, page.entries.slots, origin_of(page.first_row)
    slot_ptr, shift = page.slot_ptr, packing[0]
    n_slots = slot_ptr[slot_ptr.shape[0] - 1]
    base = uint64(slot_ptr[page.n_bins.shape[0]])
    mask = (int64(1) << shift) - 1
    for b in range(builds.shape[0]):
        build = builds[b]
        n = build.stop - build.start
        lo, hi = clip(start - build.first, n), clip(stop - build.first, n)
        if lo >= hi:
            continue
        whole = lo == 0 and hi == n
        out = hist[build.hist] if whole else partial[1 if lo == 0 else 0]
        sign, fresh = (int64(build.sign), build.fresh != 0) if whole else (int64(1), True)
        g_out, h_out = out[packing[1] * n_slots :][base:n_slots], out[n_slots:][base:n_slots]
        if fresh:
            g_out[:] = 0
            if shift > 0:
                h_out[:] = 0
        for i in range(uint64(build.start + lo), uint64(build.start + hi)):
            r = i if in_order else uint64(ids[i])
            v = sign * (values[r] >> shift)
            w = sign * (values[r] & mask)
            for j in range(uint64(row_ptr[r - origin]), uint64(row_ptr[r - origin + uint64(1)])):
                slot = uint64(slots[j])
                g_out[slot] += v
                if shift > 0:
                    h_out[slot] += w


def row_sizes(page):
    """(features, slots, entries of a typical row, 1 if some of them are sparse)."""
    row_ptr, any_entries = page.entries.row_ptr, page.entries.any_entries[0]
    n_rows = row_ptr.shape[0] - 1
    n_entries = row_ptr[n_rows] // (n_rows if n_rows > 0 else 1) if any_entries else int64(0)
    n_slots = page.slot_ptr[page.slot_ptr.shape[0] - 1]
    return int64(page.layout.n_bins.shape[0]), n_slots, int64(page.n_bins.shape[0]) + n_entries, any_entries
