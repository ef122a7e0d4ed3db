"""Exact greedy search on column blocks: Algorithms 1 and 3 of the paper, section 4.2's prefetch.

entries   sort key of a value << 32 | its row. Of feature f's, ptr[f] .. ptr[f + 1], every node of a level has a run:
          | node 3, ascending | node 4, ascending | closed nodes | node 5 ... |   Missing values have no entry.
segments  (2, n_slots, n_features, 2): where runs begin and end. A level reads one half, writes the other. A node's
          `hist` is its slot, its `bin` the place in its run of the last entry that goes left.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numba.extending import overload

from arboost.kernels.cpu.data.counting import key_of_bits
from arboost.kernels.cpu.grow import bounds as bounding
from arboost.kernels.cpu.grow import nodes as nodes_
from arboost.kernels.cpu.grow import orders, split
from arboost.kernels.cpu.grow.arrays import Bounds, Gradients, is_of
from arboost.kernels.cpu.grow.nodes import BATCH, EVALS, OPENED
from arboost.kernels.cpu.grow.team import STOP, barrier, take_job
from arboost.kernels.cpu.sorted.column_scan import AHEAD, FULL, PIECE, find_bounded, keep_better, scan_run, sum_run
from arboost.kernels.cpu.sorted.sorting import bits_of_key
from arboost.kernels.jit import OPTIONS, kernel, part, section
from arboost.kernels.scalar import clip

LOAD, OPEN, CLOSE = STOP + 1, STOP + 2, STOP + 3
HALF, SAMPLED, PIECES, LONG_RUN = range(nodes_.N_COUNTS, nodes_.N_COUNTS + 4)  # counts besides nodes.py's
N_COUNTS = nodes_.N_COUNTS + 4
GAP = np.float32(1e-6)  # XGBoost's: a threshold beyond all values lies so far from the last one
JOBS, PIECE_JOBS = np.int64(0), np.int64(1)
MARK_GRAIN, ROUTE_GRAIN = 16_384, 1_024  # entries to mark and words of 64 rows to route that are worth a thread
SPARE_JOBS = 8  # jobs per thread: whoever is slow takes fewer
# A piece of a long run: pair, start, stop, and then for each child: where its part of the piece has come to (FROM, TO),
# sums of the run before it, and sums of the child's rows without an entry.
PAIR, START, STOP_AT, FROM, TO, G, H, G_MISSING, H_MISSING = range(9)
CHILD = H_MISSING - FROM + 1  # columns of a child
PIECE_COLUMNS = FROM + 2 * CHILD
PIECES_PER_THREAD = 6  # fewer than n_threads runs are long, and pieces are at least a quarter of a thread's share


class Blocks(NamedTuple):
    """The sorted columns."""

    ptr: np.ndarray
    rows: np.ndarray
    bits: np.ndarray  # values as uint32
    entries: np.ndarray
    spare: np.ndarray  # (n_threads, longest column)
    kinds: np.ndarray  # FULL, HOLED or CONSTANT


class Routes(NamedTuple):
    """Where rows are, and where they go."""

    node_of_row: np.ndarray  # -1: not in the tree's sample
    side: np.ndarray
    goes_right: np.ndarray  # a bit a row


class Runs(NamedTuple):
    """The nodes of a level and their runs."""

    batch: np.ndarray
    evals: np.ndarray
    opened: np.ndarray
    segments: np.ndarray
    allowed: np.ndarray
    used: np.ndarray  # features that the tree may use
    counts: np.ndarray


class Search(NamedTuple):
    """What is searched and found."""

    reg: np.ndarray
    best: np.ndarray  # (n_slots, n_features) CANDIDATE
    threshold: np.ndarray  # of every node
    scratch: tuple  # a thread's (sums, scores, the same as integers)
    tuning: np.ndarray
    pieces: np.ndarray
    found: np.ndarray  # the best of every piece


class ExactLevel(NamedTuple):
    """Everything that a level needs."""

    blocks: Blocks
    nodes: np.ndarray
    routes: Routes
    gradients: Gradients
    runs: Runs
    bounds: Bounds
    search: Search


# ---- moving entries ----


@part
def _load(blocks, start, stop, node_of_row, sampled):
    """Start a tree: entries of start..stop whose rows are sampled, in order; returns their end."""
    rows, bits, entries = blocks.rows, blocks.bits, blocks.entries
    if sampled == 0:
        for i in range(uint64(start), uint64(stop)):
            entries[i] = (uint64(key_of_bits(bits[i])) << uint64(32)) | uint64(uint32(rows[i]))
        return int64(stop)
    k = uint64(start)
    for i in range(uint64(start), uint64(stop)):
        row = uint64(uint32(rows[i]))
        entries[k] = (uint64(key_of_bits(bits[i])) << uint64(32)) | row
        k += uint64(node_of_row[row] >= 0)
    return int64(k)


@part
def _split_run(entries, start, stop, goes_right, spare):
    """Put the entries of a run that go left in front of those that go right; returns where the latter begin."""
    low, one, six, last_bits = uint64(0xFFFFFFFF), uint64(1), uint64(6), uint64(63)
    left, right = uint64(start), uint64(0)
    for i in range(uint64(start), uint64(stop)):
        entry = entries[i]
        row = entry & low
        bit = (goes_right[row >> six] >> (row & last_bits)) & one
        entries[left] = entry  # both are written, one is kept: no branch
        spare[right] = entry
        left += one - bit
        right += bit
    for j in range(right):
        entries[left + j] = spare[j]
    return int64(left)


@section
def _mark(nodes, batch, segments, entries, side, start, stop):
    """side[row] (OUT) of entries number start..stop that do not go where their node's missing values go."""
    first = int64(0)
    for b in range(batch.shape[0]):
        node = nodes[batch[b]]
        segment = segments[node.hist, node.feature]
        middle = segment[0] + node.bin + 1
        begin, end = (middle, segment[1]) if node.default_left != 0 else (segment[0], middle)
        mark = np.uint8(2) if node.default_left != 0 else np.uint8(1)
        lo, hi = clip(start - first, end - begin), clip(stop - first, end - begin)
        first += end - begin
        for i in range(uint64(begin + lo), uint64(begin + hi)):
            side[entries[i] & uint64(0xFFFFFFFF)] = mark


@section
def _count_marks(nodes, batch, segments):
    """How many entries `_mark` goes over."""
    n = int64(0)
    for b in range(batch.shape[0]):
        node = nodes[batch[b]]
        segment = segments[node.hist, node.feature]
        n += segment[1] - segment[0] - node.bin - 1 if node.default_left != 0 else node.bin + 1
    return n


@section
def _route(nodes, routes, start, stop):
    """Send rows 64 * start .. 64 * stop to their nodes' children, clearing marks; goes_right (OUT) has a bit a row."""
    node_of_row, side, goes_right = routes.node_of_row, routes.side, routes.goes_right
    n_rows = uint64(node_of_row.shape[0])
    for word in range(uint64(start), uint64(stop)):
        bits = uint64(0)
        end = (word + uint64(1)) << uint64(6)
        for r in range(word << uint64(6), end if end < n_rows else n_rows):
            i = node_of_row[r]
            if i < 0 or nodes[i].left < 0:
                continue
            mark = side[r]
            side[r] = 0
            right = uint64(mark == 2) if mark != 0 else uint64(nodes[i].default_left == 0)
            node_of_row[r] = nodes[i].left + int64(right)
            bits |= right << (r & uint64(63))
        goes_right[word] = bits


# ---- a level, by a team of threads ----


@section
def _may_use(level, e, f):
    """Whether the node in slot e may be split on feature f."""
    allowed = level.allowed
    return e >= 0 and allowed[e if e < allowed.shape[0] else allowed.shape[0] - 1, f] != 0


@part
def _find(blocks, nodes, gradients, level, bounds, search, f, e, thread):
    """best[e, f] of the node in slot e, from its run; score 0 if there is none."""
    evals, segments, counts = level.evals, level.segments, level.counts
    reg, found, scratch = search.reg, search.best[e, f], search.scratch
    found.score, found.default_left = 0.0, 0
    run = segments[counts[HALF], e, f, 0], segments[counts[HALF], e, f, 1]
    if run[0] == run[1] or not _may_use(level, e, f):
        return
    i = evals[e]
    node, kind, entries = nodes[i], blocks.kinds[f], blocks.entries
    if bounds.in_force[0] != 0:
        limits = bounding.limits_of(bounds, nodes, i, f, reg)
        find_bounded(entries, run, kind, gradients, node, limits, reg, found)
        return
    missing = int64(0), int64(0)
    if kind != FULL:
        g, h = sum_run(entries, run[0], run[1], gradients, search.tuning[AHEAD])
        missing = node.g - g, node.h - h
    own = scratch[0][thread], scratch[1][thread], scratch[2][thread]
    nothing = int64(0), int64(0)
    scan_run(entries, run, run, nothing, missing, kind, gradients, node, reg, own, search.tuning, found)


@part
def _pair(order, blocks, nodes, level, pair):
    """(feature, slots of the children, run) of a pair; slots are -1 where there is nothing to search.

    LOAD has a pair for each feature, and the root for a left child.
    """
    batch, segments, used, counts = level.batch, level.segments, level.used, level.counts
    if order == LOAD:
        slot = int64(0 if used[pair] != 0 else -1)
        return pair, slot, int64(-1), blocks.ptr[pair], blocks.ptr[pair + 1]
    f, node = pair // counts[BATCH], nodes[batch[pair % counts[BATCH]]]
    if used[f] == 0:
        return f, int64(-1), int64(-1), int64(0), int64(0)
    run = segments[1 - counts[HALF], node.hist, f]
    return f, int64(nodes[node.left].hist), int64(nodes[node.right].hist), run[0], run[1]


@part
def _divide(order, blocks, routes, counts, start, stop, thread):
    """Load start..stop of the blocks, or split it; returns where the right child's entries begin, and their end."""
    if order == LOAD:
        end = _load(blocks, start, stop, routes.node_of_row, counts[SAMPLED])
        return end, end
    return _split_run(blocks.entries, start, stop, routes.goes_right, blocks.spare[thread]), stop


@part
def _search_pairs(order, blocks, nodes, routes, gradients, level, bounds, search, thread, start, stop):
    """Pairs number start..stop, less those that are cut into pieces: divide, and search the children while hot."""
    segments, counts = level.segments, level.counts
    for pair in range(start, stop):
        f, left, right, begin, end = _pair(order, blocks, nodes, level, pair)
        if (left < 0 and right < 0) or end - begin > counts[LONG_RUN]:
            continue
        middle, end = _divide(order, blocks, routes, counts, begin, end, thread)
        for side in range(2):
            slot = left if side == 0 else right
            if slot >= 0:
                segment = segments[counts[HALF], slot, f]
                segment[0], segment[1] = (begin, middle) if side == 0 else (middle, end)
                _find(blocks, nodes, gradients, level, bounds, search, f, slot, thread)


# ---- long runs, cut into pieces: where there are fewer of them than threads ----


@section
def _cut_long_runs(order, blocks, nodes, level, bounds, search, n_pairs, n_threads):
    """List the pieces of runs that are clearly more than a thread's fair share of the level (pieces, OUT)."""
    counts, pieces, tuning = level.counts, search.pieces, search.tuning
    counts[PIECES], counts[LONG_RUN] = 0, int64(1) << 62
    if n_threads == 1 or bounds.in_force[0] != 0:
        return
    total = int64(0)
    for pair in range(n_pairs):
        _, left, right, begin, end = _pair(order, blocks, nodes, level, pair)
        total += end - begin if left >= 0 or right >= 0 else 0
    length = total // (4 * n_threads) + 1
    length = length if length > tuning[PIECE] else tuning[PIECE]
    share = total * 5 // (4 * n_threads)
    counts[LONG_RUN] = share if share > length else length
    for pair in range(n_pairs):
        _, left, right, begin, end = _pair(order, blocks, nodes, level, pair)
        if (left < 0 and right < 0) or end - begin <= counts[LONG_RUN]:
            continue
        n = (end - begin + length - 1) // length
        for k in range(n):
            piece = pieces[counts[PIECES]]
            piece[PAIR] = pair
            piece[START], piece[STOP_AT] = begin + (end - begin) * k // n, begin + (end - begin) * (k + 1) // n
            counts[PIECES] += 1


@part
def _divide_piece(order, blocks, nodes, routes, gradients, level, piece, ahead, thread):
    """Divide a piece in itself, and add up each child's part."""
    _, left, right, _, _ = _pair(order, blocks, nodes, level, piece[PAIR])
    middle, end = _divide(order, blocks, routes, level.counts, piece[START], piece[STOP_AT], thread)
    piece[FROM], piece[TO], piece[CHILD + FROM], piece[CHILD + TO] = piece[START], middle, middle, end
    for side in range(2):
        child = piece[side * CHILD :]
        if (left if side == 0 else right) >= 0:
            child[G], child[H] = sum_run(blocks.entries, child[FROM], child[TO], gradients, ahead)


@part
def _join_pieces(order, blocks, nodes, level, pieces, thread):
    """Put the pieces of one run together: all left parts, then all right parts; sums become those before each part."""
    entries, spare, segments, counts = blocks.entries, blocks.spare[thread], level.segments, level.counts
    f, left, right, begin, _ = _pair(order, blocks, nodes, level, pieces[0, PAIR])
    to, n_right = begin, int64(0)
    for p in range(pieces.shape[0]):
        piece = pieces[p]
        n = piece[TO] - piece[FROM]
        for i in range(n):  # never forward: nothing is overwritten before it is read
            entries[to + i] = entries[piece[FROM] + i]
        piece[FROM], piece[TO] = to, to + n
        to += n
        n = piece[CHILD + TO] - piece[CHILD + FROM]
        for i in range(n):
            spare[n_right + i] = entries[piece[CHILD + FROM] + i]
        piece[CHILD + FROM], piece[CHILD + TO] = n_right, n_right + n
        n_right += n
    for i in range(n_right):
        entries[to + i] = spare[i]
    for side in range(2):
        slot = left if side == 0 else right
        if slot < 0:
            continue
        segment = segments[counts[HALF], slot, f]
        segment[0], segment[1] = (begin, to) if side == 0 else (to, to + n_right)
        g, h = int64(0), int64(0)
        for p in range(pieces.shape[0]):
            child = pieces[p, side * CHILD :]
            g, child[G] = g + child[G], g
            h, child[H] = h + child[H], h
            child[FROM] += side * to
            child[TO] += side * to
        node = nodes[level.evals[slot]]
        for p in range(pieces.shape[0]):
            child = pieces[p, side * CHILD :]
            child[G_MISSING], child[H_MISSING] = node.g - g, node.h - h


@part
def _search_part(order, blocks, nodes, gradients, level, search, p, side, thread):
    """The best split in one child's part of piece p (best of pieces, OUT)."""
    piece, found, scratch = search.pieces[p], search.found[p, side], search.scratch
    found.score, found.default_left = 0.0, 0
    f, left, right, _, _ = _pair(order, blocks, nodes, level, piece[PAIR])
    slot = left if side == 0 else right
    if _may_use(level, slot, f):
        child, segment = piece[side * CHILD :], level.segments[level.counts[HALF], slot, f]
        run, span = (segment[0], segment[1]), (child[FROM], child[TO])
        sums, missing = (child[G], child[H]), (child[G_MISSING], child[H_MISSING])
        own = scratch[0][thread], scratch[1][thread], scratch[2][thread]
        node = nodes[level.evals[slot]]
        scan_run(
            blocks.entries,
            run,
            span,
            sums,
            missing,
            blocks.kinds[f],
            gradients,
            node,
            search.reg,
            own,
            search.tuning,
            found,
        )


@section
def _merge_pieces(order, blocks, nodes, level, search):
    """best[e, f] of long runs from what was found in their pieces, in order."""
    pieces, n_pieces = search.pieces, level.counts[PIECES]
    for p in range(n_pieces):
        f, left, right, _, _ = _pair(order, blocks, nodes, level, pieces[p, PAIR])
        for side in range(2):
            slot = left if side == 0 else right
            if slot >= 0:
                found = search.best[slot, f]
                if p == 0 or pieces[p - 1, PAIR] != pieces[p, PAIR]:
                    found.score, found.default_left = 0.0, 0
                keep_better(search.found[p, side], found)


@part
def _finish_pieces(order, blocks, nodes, gradients, level, search, team, thread, n_threads):
    """Join the pieces, all divided, and search them; True if the team was given up."""
    pieces, n_pieces = search.pieces, level.counts[PIECES]
    first, n_runs = int64(0), int64(0)
    while first < n_pieces:
        last = first + 1
        while last < n_pieces and pieces[last, PAIR] == pieces[first, PAIR]:
            last += 1
        if n_runs % n_threads == thread:
            _join_pieces(order, blocks, nodes, level, pieces[first:last], thread)
        first, n_runs = last, n_runs + 1
    if barrier(team, n_threads):
        return True
    job = take_job(team, PIECE_JOBS, int64(-1), n_threads)
    while job < 2 * n_pieces:
        _search_part(order, blocks, nodes, gradients, level, search, job // 2, job % 2, thread)
        job = take_job(team, PIECE_JOBS, job, n_threads)
    if barrier(team, n_threads):
        return True
    if thread == 0:
        _merge_pieces(order, blocks, nodes, level, search)
    return False


# ---- orders ----


@section
def _move_rows(blocks, nodes, routes, level, team, thread, n_threads):
    """Send the rows of the batch to their children; True if the team was given up."""
    counts = level.counts
    batch, segments = level.batch[: counts[BATCH]], level.segments[1 - counts[HALF]]
    n = _count_marks(nodes, batch, segments)
    share = clip(n // MARK_GRAIN, n_threads - 1) + 1
    if thread < share:
        _mark(nodes, batch, segments, blocks.entries, routes.side, n * thread // share, n * (thread + 1) // share)
    if barrier(team, n_threads):
        return True
    n = int64(routes.goes_right.shape[0])
    share = clip(n // ROUTE_GRAIN, n_threads - 1) + 1
    if thread < share:
        _route(nodes, routes, n * thread // share, n * (thread + 1) // share)
    return barrier(team, n_threads)


@part
def _clear_unused(level, search):
    """Nothing is found on features that the tree does not use, whatever an earlier tree has found there."""
    for f in range(level.used.shape[0]):
        if level.used[f] == 0:
            for e in range(level.counts[EVALS]):
                search.best[e, f].score = 0.0


@part
def _search_jobs(order, blocks, nodes, routes, gradients, level, bounds, search, team, thread, n_threads):
    """Take jobs until none is left: pieces of long runs, then other pairs in runs of neighbours; True if given up."""
    n_features, counts = int64(blocks.kinds.shape[0]), level.counts
    n = n_features if order == LOAD else n_features * counts[BATCH]
    if thread == 0:
        _clear_unused(level, search)
        _cut_long_runs(order, blocks, nodes, level, bounds, search, n, n_threads)
    if barrier(team, n_threads):
        return True
    n_pieces = counts[PIECES]
    most = SPARE_JOBS * n_threads
    n_jobs = int64(1) if n_threads == 1 else most if n > most else n
    job = take_job(team, JOBS, int64(-1), n_threads)
    while job < n_pieces + n_jobs:
        if job < n_pieces:
            _divide_piece(
                order, blocks, nodes, routes, gradients, level, search.pieces[job], search.tuning[AHEAD], thread
            )
        else:
            k = job - n_pieces
            start, stop = n * k // n_jobs, n * (k + 1) // n_jobs
            _search_pairs(order, blocks, nodes, routes, gradients, level, bounds, search, thread, start, stop)
        job = take_job(team, JOBS, job, n_threads)
    if barrier(team, n_threads):
        return True
    return n_pieces > 0 and _finish_pieces(order, blocks, nodes, gradients, level, search, team, thread, n_threads)


@part
def _value(entry):
    """The float32 value of an entry."""
    return np.uint32(bits_of_key(uint32(entry >> uint64(32)))).view(np.float32)


@part
def _threshold(entries, run, node):
    """Half-way between the last value on the left and the first on the right, as XGBoost rounds; beyond the last one
    where all present values go to one side.
    """
    first_right = run[0] + node.bin + 1
    if first_right == run[0]:
        value = _value(entries[first_right])
        return value - (abs(value) + GAP)
    low = _value(entries[first_right - 1])
    if first_right == run[1]:
        return low + (abs(low) + GAP)
    high = _value(entries[first_right])
    middle = float32((float64(low) + float64(high)) * 0.5)
    return high if middle == low else middle


@section
def _choose(blocks, nodes, level, bounds, search):
    """Give every evaluated node its best split and threshold; `opened` (OUT) lists the nodes that have one."""
    segments, opened, counts = level.segments, level.opened, level.counts
    evals = level.evals[: counts[EVALS]]
    reg, best, threshold = search.reg, search.best, search.threshold
    if bounds.in_force[0] != 0:
        bounding.select_by_gain(nodes, evals, best, reg)
    else:
        split.select_splits(nodes, evals, best, reg, int64(0), int64(evals.shape[0]))
    counts[OPENED] = 0
    for e in range(evals.shape[0]):
        node = nodes[evals[e]]
        if node.feature >= 0:
            segment = segments[counts[HALF], e, node.feature]
            threshold[evals[e]] = _threshold(blocks.entries, (segment[0], segment[1]), node)
            opened[counts[OPENED]] = evals[e]
            counts[OPENED] += 1


def _perform(order, level, team, thread, n_threads):
    """LOAD: fill the blocks, search the root. OPEN: move the batch's rows and entries to the children, search these.
    CLOSE: move the rows only; the children stay leaves."""
    blocks, nodes, routes, runs, bounds, search = (
        level.blocks, level.nodes, level.routes, level.runs, level.bounds, level.search
    )  # fmt: skip
    if order != LOAD and _move_rows(blocks, nodes, routes, runs, team, thread, n_threads):
        return True
    if order != CLOSE:
        if _search_jobs(order, blocks, nodes, routes, level.gradients, runs, bounds, search, team, thread, n_threads):
            return True
        if thread == 0:
            _choose(blocks, nodes, runs, bounds, search)
    return False


@overload(orders.perform, jit_options=OPTIONS)
def _perform_exact(order, level, team, thread, n_threads):
    return _perform if is_of(level, ExactLevel) else None


@kernel
def carry_out(order, arrays, team, thread, n_threads):
    """See grow/orders.py; `arrays` are those of an ExactLevel."""
    blocks, nodes, routes, gradients, runs, bounds, search = arrays
    level = ExactLevel(
        Blocks(*blocks), nodes, Routes(*routes), Gradients(*gradients), Runs(*runs), Bounds(*bounds), Search(*search)
    )  # fmt: skip
    orders.carry_out(order, level, team, thread, n_threads)


# ---- around the search ----


@kernel
def plan_children(bounds, nodes, batch, n_left, limits, reg, evals, counts):
    """Children for the nodes of `batch`; those that may be split are listed (evals, OUT), and get slots so."""
    nodes_.open_for_search(Bounds(*bounds), nodes, batch, n_left, limits, reg, evals, counts)
    for e in range(counts[EVALS]):
        nodes[evals[e]].hist = e


@kernel
def add_weights(node_of_row, weights, target, margin, start, stop):
    """margin[r, target] += the weight of r's node, for rows start..stop that took part in the tree."""
    t = uint64(target)
    for r in range(uint64(start), uint64(stop)):
        i = node_of_row[r]
        if i >= 0:
            margin[r, t] += weights[i]


@kernel
def add_tree_by_values(values, first_row, node_of_row, splits, target, margin, start, stop):
    """The same for rows first_row + (start..stop) that did not: each walks the tree by its values.

    splits = (left, right, feature, threshold, default_left), a leaf's threshold being its weight.
    """
    left, right, feature, threshold, default_left = splits
    for r in range(uint64(start), uint64(stop)):
        row = uint64(first_row) + r
        if node_of_row[row] >= 0:
            continue
        i = int64(0)
        while left[i] >= 0:
            x = values[r, uint64(feature[i])]
            goes_left = x < threshold[i] or (np.isnan(x) and default_left[i] != 0)
            i = int64(left[i] if goes_left else right[i])
        margin[row, uint64(target)] += threshold[i]
