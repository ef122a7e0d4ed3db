"""The best split of each node: Algorithms 1 and 3 of the paper over bins.

For every feature the missing values are sent right, then left. The order of preference is total and is that of
XGBoost's scan: larger gain; lower feature; missing right before missing left; then the lower bin (missing right)
or the higher bin (missing left) of those that separate the node's rows alike. `reg` is scalar.py's vector
followed by [gamma, g_unit, h_unit]: sums are integers times a unit. Nodes with few rows are summed from their rows.
"""

from numba import float64, int64, uint64

from arboost.kernels.cpu.grow.arrays import Special, is_of
from arboost.kernels.dtypes import BY_ROWS
from arboost.kernels.intrinsics import count_trailing_zeros
from arboost.kernels.jit import forms_of, part, section
from arboost.kernels.scalar import ALPHA, LAMBDA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, MIN_GAIN, leaf_score

GAMMA, G_UNIT, H_UNIT = 4, 5, 6

# Rows of a thread's scratch memory, (SCRATCH_ROWS, bins of the widest feature + 1) int64. The last three are zero
# between calls. With it go scores (bins + 1,) float64, and the same memory as int64.
EVERY_BIN, BINS, G_LEFT, H_LEFT, PART_BINS, PART_G_LEFT, PART_H_LEFT, G_SUMS, H_SUMS, OCCUPIED = range(10)
SCRATCH_ROWS = 10


@part
def all_sums(hist, slot, n_slots, n, g_left, h_left):
    """Running sums up to every bin, empty ones included: for nodes that fill most bins."""
    g, h = int64(0), int64(0)
    slot, plane = uint64(slot), uint64(slot + n_slots)
    for j in range(uint64(n)):
        g += hist[slot + j]
        g_left[j] = g
    for j in range(uint64(n)):
        h += hist[plane + j]
        h_left[j] = h


@part
def _note(j, gj, hj, g, h, k, bins, g_left, h_left):
    """Write entry k for bin j; it stays, and k moves on, only if the bin holds rows."""
    bins[k] = j
    g_left[k] = g
    h_left[k] = h
    return k + uint64((gj | hj) != 0)


@part
def occupied_sums(hist, slot, n_slots, n, bins, g_left, h_left):
    """Running sums up to each bin that holds rows; returns how many there are. Four empty bins are one test."""
    k, one, two, three = uint64(0), uint64(1), uint64(2), uint64(3)
    g, h = int64(0), int64(0)
    slot, plane, fours = uint64(slot), uint64(slot + n_slots), uint64(n // 4 * 4)
    for j in range(uint64(0), fours, uint64(4)):
        a, b = slot + j, plane + j
        g0, g1, g2, g3 = hist[a], hist[a + one], hist[a + two], hist[a + three]
        h0, h1, h2, h3 = hist[b], hist[b + one], hist[b + two], hist[b + three]
        if (g0 | g1 | g2 | g3 | h0 | h1 | h2 | h3) == 0:
            continue
        k = _note(j, g0, h0, g + g0, h + h0, k, bins, g_left, h_left)
        k = _note(j + one, g1, h1, g + g0 + g1, h + h0 + h1, k, bins, g_left, h_left)
        k = _note(j + two, g2, h2, g + g0 + g1 + g2, h + h0 + h1 + h2, k, bins, g_left, h_left)
        g += g0 + g1 + g2 + g3
        h += h0 + h1 + h2 + h3
        k = _note(j + three, g3, h3, g, h, k, bins, g_left, h_left)
    for j in range(fours, uint64(n)):
        gj, hj = hist[slot + j], hist[plane + j]
        g += gj
        h += hj
        k = _note(j, gj, hj, g, h, k, bins, g_left, h_left)
    return int64(k)


@part
def score_all(g_left, h_left, n, g_extra, h_extra, g_total, h_total, reg, score):
    """score[k] = sum of the children's leaf scores when split after entry k, or -1 where a side is too light.

    Without L1 and max_delta_step the two fractions are brought on one denominator: one division, and it vectorises.
    """
    g_unit, h_unit, lam, least = reg[G_UNIT], reg[H_UNIT], reg[LAMBDA], reg[MIN_CHILD_WEIGHT]
    simple = reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0
    if simple:
        for k in range(uint64(n)):
            gl, hl = float64(g_left[k] + g_extra) * g_unit, float64(h_left[k] + h_extra) * h_unit
            gr = float64(g_total - g_left[k] - g_extra) * g_unit
            hr = float64(h_total - h_left[k] - h_extra) * h_unit
            dl, dr = hl + lam, hr + lam
            both = (gl * gl * dr + gr * gr * dl) / (dl * dr)
            score[k] = both if (hl >= least) & (hr >= least) & (hl > 0.0) & (hr > 0.0) else -1.0
        return
    for k in range(uint64(n)):
        gl, hl = float64(g_left[k] + g_extra) * g_unit, float64(h_left[k] + h_extra) * h_unit
        gr = float64(g_total - g_left[k] - g_extra) * g_unit
        hr = float64(h_total - h_left[k] - h_extra) * h_unit
        score[k] = -1.0
        if hl >= least and hr >= least and hl > 0.0 and hr > 0.0:
            score[k] = leaf_score(gl, hl, reg) + leaf_score(gr, hr, reg)


@part
def top_bits(score_bits, n):
    """The largest score as bits: floats >= 0 order like their bits, -1.0 is below them, and integers vectorise."""
    top = int64(0)
    for k in range(uint64(n)):
        top = score_bits[k] if score_bits[k] > top else top
    return top


@part
def best_of(bins, g_left, h_left, n, node, reg, scores, found):
    """The best split after one of n bins, given running sums; what the sums lack of the node is missing."""
    score, score_bits = scores
    g_missing, h_missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
    has_missing = (g_missing | h_missing) != 0
    n_right = n if has_missing else n - 1  # without missing values the last bin leaves nothing on the right
    score_all(g_left, h_left, n_right, int64(0), int64(0), node.g, node.h, reg, score)
    top = top_bits(score_bits, n_right)
    if top > 0:
        k = 0
        while score_bits[k] != top:
            k += 1
        found.score, found.bin, found.default_left = score[k], bins[k], 0
        found.g_left, found.h_left = g_left[k], h_left[k]
    if has_missing and n > 1:
        score_all(g_left, h_left, n - 1, g_missing, h_missing, node.g, node.h, reg, score)
        if top_bits(score_bits, n - 1) > top:
            top = top_bits(score_bits, n - 1)
            k = n - 2
            while score_bits[k] != top:
                k -= 1
            found.score, found.bin, found.default_left = score[k], bins[k + 1] - 1, 1
            found.g_left, found.h_left = g_left[k] + g_missing, h_left[k] + h_missing


def offer(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found):
    """The best split of node i on feature f after one of n bins, given running sums; see choice.py for `source`."""
    raise NotImplementedError  # only its compiled forms are ever called


@forms_of(offer)
def _choose_offer(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found):
    if len(scratch) > 2:
        return None
    return lambda scratch, i, f, source, bins, g_left, h_left, n, node, reg, found: best_of(
        bins, g_left, h_left, n, node, reg, scratch[1], found
    )


def is_special(extra, f):
    """Whether feature f has a search of its own: special.py."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(is_special)
def _choose_is_special(extra, f):
    if is_of(extra, Special):
        return lambda extra, f: extra.is_special[f] != 0
    return lambda extra, f: False


@section
def find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    """best[e, f] for pairs (e, f) number start..stop whose node evals[e] has a histogram.

    allowed (n_evals or 1, n_features) uint8: features that column sampling and constraints leave to a node;
    scratch: see `SCRATCH_ROWS`.
    """
    slot_ptr, n_bins = page.slot_ptr, page.n_bins
    n_features = n_bins.shape[0]
    n_slots, rows = slot_ptr[n_features], scratch[0]
    every_bin, bins, g_left, h_left = rows[EVERY_BIN], rows[BINS], rows[G_LEFT], rows[H_LEFT]
    last_allowed = allowed.shape[0] - 1
    for pair in range(start, stop):
        e, f = pair // n_features, pair % n_features
        i = evals[e]
        node = nodes[i]
        if node.hist == BY_ROWS:
            continue
        found = best[e, f]
        found.score = 0.0
        if allowed[e if e < last_allowed else last_allowed, f] != 0 and not is_special(extra, f):
            out, slot, n = hist[node.hist], slot_ptr[f], int64(n_bins[f])
            source = out, slot, n_slots, slot_ptr[f + 1] - slot
            if 2 * (node.stop - node.start) >= n:
                all_sums(out, slot, n_slots, n, g_left, h_left)
                offer(scratch, i, f, source, every_bin, g_left, h_left, n, node, reg, found)
                continue
            n = occupied_sums(out, slot, n_slots, n, bins, g_left, h_left)
            if n > 0:
                offer(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found)


@part
def sum_few_rows(column, rows, start, stop, g_values, h_values, shift, n, g_sums, h_sums, occupied):
    """Add rows[start:stop] to the sums of their bins and mark these; codes of n and above are missing."""
    mask = (int64(1) << shift) - 1
    for i in range(uint64(start), uint64(stop)):
        r = uint64(rows[i])
        b = uint64(column[r])
        if b < uint64(n):
            v = g_values[r]
            if shift > 0:
                g_sums[b] += v >> shift
                h_sums[b] += v & mask
            else:
                g_sums[b] += v
                h_sums[b] += h_values[r]
            occupied[b >> uint64(6)] |= int64(1) << int64(b & uint64(63))


@part
def collect_bins(g_sums, h_sums, occupied, n, bins, g_left, h_left):
    """`occupied_sums` from marked bins, clearing marks and sums on the way."""
    k = uint64(0)
    g, h = int64(0), int64(0)
    for w in range(uint64((n + 63) // 64)):
        bits = uint64(occupied[w])
        occupied[w] = 0
        while bits != uint64(0):
            b = (w << uint64(6)) + count_trailing_zeros(bits)
            bits &= bits - uint64(1)
            gj, hj = g_sums[b], h_sums[b]
            g_sums[b], h_sums[b] = 0, 0
            g += gj
            h += hj
            bins[k] = b
            g_left[k] = g
            h_left[k] = h
            k += uint64((gj | hj) != 0)
    return int64(k)


@section
def find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    """best[e, f] for nodes evals[start:stop] that are marked BY_ROWS, straight from their rows.

    data = (row ids, g_values, h_values, shift): with shift > 0, g_values hold both, packed.
    """
    ids, g_values, h_values, shift = data
    columns, n_bins = page.columns, page.n_bins
    n_features = n_bins.shape[0]
    work = scratch[0]
    bins, g_left, h_left = work[BINS], work[G_LEFT], work[H_LEFT]
    g_sums, h_sums, occupied = work[G_SUMS], work[H_SUMS], work[OCCUPIED]
    last_allowed = allowed.shape[0] - 1
    for e in range(start, stop):
        i = evals[e]
        node = nodes[i]
        if node.hist != BY_ROWS:
            continue
        for f in range(n_features):
            found = best[e, f]
            found.score = 0.0
            if allowed[e if e < last_allowed else last_allowed, f] != 0 and not is_special(extra, f):
                span = node.start, node.stop
                sum_few_rows(
                    columns[f], ids, span[0], span[1], g_values, h_values, shift, n_bins[f], g_sums, h_sums, occupied
                )
                n = collect_bins(g_sums, h_sums, occupied, n_bins[f], bins, g_left, h_left)
                if n > 0:
                    source = columns[f], data, n_bins[f]
                    offer(scratch, i, f, source, bins, g_left, h_left, n, node, reg, found)


@section
def select_splits(nodes, evals, best, reg, start, stop):
    """Give nodes evals[start:stop] their best split over all features, or feature -1 if none gains enough."""
    for e in range(start, stop):
        node = nodes[evals[e]]
        top, feature = 0.0, -1
        for f in range(best.shape[1]):
            if best[e, f].score > top:
                top, feature = best[e, f].score, f
        node.feature = -1
        if feature < 0:
            continue
        gain = top - leaf_score(float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT], reg)
        if gain > MIN_GAIN and gain >= reg[GAMMA]:
            found = best[e, feature]
            node.gain, node.feature, node.bin, node.default_left = gain, feature, found.bin, found.default_left
            node.g_left, node.h_left = found.g_left, found.h_left
