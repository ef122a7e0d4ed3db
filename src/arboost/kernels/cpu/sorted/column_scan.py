"""One node's entries in one column: the best place to split them (Algorithms 1 and 3 of the paper).

`entries` are ascending in the sort key of their value, in the upper half; the lower half is the row. A node's are a run
of them. Rows of the node that are not in it have no value there. Order of preference, XGBoost's: larger gain; missing
values right, of equals the lowest place; missing left, of equals the highest. Columns without missing values send them
left. Gradient sums are prefetched (section 4.2): the rows of a run are in no order that the hardware could guess.
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import bounds, split
from arboost.kernels.intrinsics import prefetch_item
from arboost.kernels.jit import part

FULL, HOLED, CONSTANT = 0, 1, 2  # kinds of columns: no missing values; some; some, and all present ones equal
G_LEFT, H_LEFT, N_SUMS = range(3)  # rows of a thread's scratch memory
# Numbers of entries: from a prefetch to its use (0: none), summed before they are scored, least in a piece of a run
AHEAD, BLOCK, PIECE, N_TUNING = range(4)
MAX_AHEAD, MAX_BLOCK = 256, 4096  # packed sums of so many rows cannot overflow (tree/quantize.py)


@part
def _sum_packed(entries, start, stop, values, shift, ahead, g_left, h_left):
    """Running sums, from place 1 on, up to every entry that the next one's value differs from.

    Returns how many, and the totals.
    """
    low, high, one = uint64(0xFFFFFFFF), uint64(32), uint64(1)
    mask = (int64(1) << shift) - 1
    k, total = one, int64(0)
    if ahead == 0:
        for i in range(uint64(start), uint64(stop)):
            entry = entries[i]
            total += values[entry & low]
            g_left[k] = total >> shift
            h_left[k] = total & mask
            k += uint64((entries[i + one] ^ entry) >> high != uint64(0))
        return int64(k - one), total >> shift, total & mask
    for i in range(uint64(start), uint64(stop)):
        entry = entries[i]
        prefetch_item(values, entries[i + uint64(ahead)] & low)
        total += values[entry & low]
        g_left[k] = total >> shift
        h_left[k] = total & mask
        k += uint64((entries[i + one] ^ entry) >> high != uint64(0))
    return int64(k - one), total >> shift, total & mask


@part
def _sum_planes(entries, start, stop, planes, ahead, g_left, h_left):
    """The same for gradients and hessians that have a plane each."""
    low, high, one = uint64(0xFFFFFFFF), uint64(32), uint64(1)
    g_values, h_values = planes[0], planes[1]
    k, g, h = one, int64(0), int64(0)
    for i in range(uint64(start), uint64(stop)):
        entry = entries[i]
        prefetch_item(g_values, entries[i + uint64(ahead)] & low)
        prefetch_item(h_values, entries[i + uint64(ahead)] & low)
        row = entry & low
        g += g_values[row]
        h += h_values[row]
        g_left[k] = g
        h_left[k] = h
        k += uint64((entries[i + one] ^ entry) >> high != uint64(0))
    return int64(k - one), g, h


@part
def _sum_block(entries, start, stop, is_last, gradients, ahead, work):
    """G_LEFT and H_LEFT (OUT) of one block of a run; returns how many of them, and the block's sums."""
    planes, shift = gradients[0], gradients[1][0, 0]
    if shift == 0:
        n, g, h = _sum_planes(entries, start, stop, planes, ahead, work[G_LEFT], work[H_LEFT])
    else:
        n, g, h = _sum_packed(entries, start, stop, planes[0], shift, ahead, work[G_LEFT], work[H_LEFT])
    # what follows a run is another's entry: a value that it happens to share is no tie
    if is_last and (entries[stop] ^ entries[stop - 1]) >> uint64(32) == uint64(0):
        n += 1
    return n, g, h


@part
def sum_run(entries, start, stop, gradients, ahead):
    """Sums of all entries of a run."""
    planes, shift = gradients[0], gradients[1][0, 0]
    g_values, h_values = planes[0], planes[planes.shape[0] - 1]
    mask = (int64(1) << shift) - 1
    g, h = int64(0), int64(0)
    for i in range(uint64(start), uint64(stop)):
        prefetch_item(g_values, entries[i + uint64(ahead)] & uint64(0xFFFFFFFF))
        row = entries[i] & uint64(0xFFFFFFFF)
        v = g_values[row]
        g += v >> shift
        h += v & mask if shift > 0 else h_values[row]
    return g, h


@part
def _place_of(entries, start, stop, k):
    """Place of the k-th entry (from 0) of start..stop whose value the next one does not share."""
    i = uint64(start)
    while i + uint64(1) < uint64(stop):
        if (entries[i + uint64(1)] ^ entries[i]) >> uint64(32) != uint64(0):
            if k == 0:
                break
            k -= 1
        i += uint64(1)
    return int64(i)


@part
def _score_block(sums, first, n, base, node, reg, scores, side):
    """Score splits after sums first .. n of a block; returns the best one's number, of equals the lowest, or on side 1
    (missing left) the highest; -1 if there is none.
    """
    score, bits = scores
    n_scores = n + 1 - first
    split.score_all(sums[G_LEFT, first:], sums[H_LEFT, first:], n_scores, base[0], base[1], node.g, node.h, reg, score)
    top = split.top_bits(bits, n_scores)
    if top <= 0:
        return int64(-1)
    k, step = (n_scores - 1, int64(-1)) if side != 0 else (int64(0), int64(1))
    while bits[k] != top:
        k += step
    return k


@part
def _is_better(score, found):
    """Whether a candidate that comes later in the order of trying takes the place of what was found."""
    return score > found.score or (score == found.score and score > 0.0 and found.default_left != 0)


@part
def scan_run(entries, run, span, sums, missing, kind, gradients, node, reg, scratch, tuning, found):
    """The best split of a node in a span of its run, if it is better than what was found before (found, IN/OUT).

    sums = (g, h) of the run's entries before the span, missing those of the node's rows that have no entry.
    """
    work, scores = scratch[0], (scratch[1], scratch[2])
    g, h = sums
    g_missing, h_missing = missing
    has_missing = (g_missing | h_missing) != 0
    work[G_LEFT, 0], work[H_LEFT, 0] = 0, 0  # missing values alone on the left
    start = span[0]
    while start < span[1]:
        stop = start + tuning[BLOCK]
        stop = stop if stop < span[1] else span[1]
        n, g_block, h_block = _sum_block(entries, start, stop, stop == run[1], gradients, tuning[AHEAD], work)
        for side in range(2):  # where missing values go: 0 right, 1 left
            if (side == 0 and kind != HOLED) or (side == 1 and kind != FULL and not has_missing):
                continue
            base = g + side * g_missing, h + side * h_missing
            first = int64(0 if side == 1 and has_missing and start == run[0] else 1)
            k = _score_block(work, first, n, base, node, reg, scores, side)
            if k >= 0 and _is_better(scores[0][k], found):
                found.score, found.default_left = scores[0][k], side
                k += first
                found.g_left, found.h_left = work[G_LEFT, k] + base[0], work[H_LEFT, k] + base[1]
                place = start + k - 1 if n == stop - start or k == 0 else _place_of(entries, start, stop, k - 1)
                found.bin = place - run[0]
        g += g_block
        h += h_block
        start = stop


@part
def keep_better(later, found):
    """Take what a later span of the run has found (found, IN/OUT) if it is better."""
    if _is_better(later.score, found):
        found.score, found.bin, found.default_left = later.score, later.bin, later.default_left
        found.g_left, found.h_left = later.g_left, later.h_left


@part
def find_bounded(entries, run, kind, gradients, node, limits, reg, found):
    """The best split of a run under bounds (grow/bounds.py), candidate by candidate (found, IN/OUT)."""
    planes, shift = gradients[0], gradients[1][0, 0]
    g_values, h_values = planes[0], planes[planes.shape[0] - 1]
    mask, low, high = (int64(1) << shift) - 1, uint64(0xFFFFFFFF), uint64(32)
    g, h = int64(0), int64(0)
    for i in range(run[0], run[1] if kind == HOLED else run[0]):
        row = entries[i] & low
        g += g_values[row] >> shift
        h += g_values[row] & mask if shift > 0 else h_values[row]
        if i + 1 == run[1] or (entries[i + 1] ^ entries[i]) >> high != uint64(0):
            bounds.offer(g, h, node, limits, reg, i - run[0], 0, found)
    g, h = node.g, node.h
    for i in range(run[1] - 1, run[0] - 1, -1):
        row = entries[i] & low
        g -= g_values[row] >> shift
        h -= g_values[row] & mask if shift > 0 else h_values[row]
        if i == run[0] or (entries[i - 1] ^ entries[i]) >> high != uint64(0):
            bounds.offer(g, h, node, limits, reg, i - 1 - run[0], 1, found)
