"""The best split of each node where leaves hold a weight for every target: compiled only where there are some.

A histogram has 2 * K planes: gradients and hessians of target 0, of target 1, ... The gain of a split is the sum over
targets. A node's sums lie beside it, in the level's `extra`, which is Vectors.
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import nodes, split, vectors
from arboost.kernels.cpu.grow.jobs import FIND_JOBS, FIND_SLOTS, n_jobs
from arboost.kernels.cpu.grow.team import take_job
from arboost.kernels.dtypes import BY_ROWS, FEW_ROWS
from arboost.kernels.intrinsics import count_trailing_zeros
from arboost.kernels.jit import part
from arboost.kernels.scalar import MIN_GAIN


@part
def _clear(scores, n):
    for k in range(uint64(n)):
        scores[0, k] = 0.0
        scores[1, k] = 0.0


@part
def keep_best(bins, n, has_missing, scores, score_bits, found):
    """The best of n entries; scores[0] sends missing values right, scores[1] left. Ties: see split.py."""
    n_right = n if has_missing else n - 1  # without missing values the last bin leaves nothing on the right
    top = split.top_bits(score_bits[0], n_right)
    if top > 0:
        k = 0
        while score_bits[0, k] != top:
            k += 1
        found.score, found.bin, found.default_left = scores[0, k], bins[k], 0
    if has_missing and n > 1 and split.top_bits(score_bits[1], n - 1) > top:
        top = split.top_bits(score_bits[1], n - 1)
        k = n - 2
        while score_bits[1, k] != top:
            k -= 1
        found.score, found.bin, found.default_left = scores[1, k], bins[k + 1] - 1, 1


@part
def _add_target(work, n, can_miss, sums, t, unit, reg, scores):
    """Add one target's scores from its running sums in `work`; True if rows of the node are missing from them."""
    g_left, h_left = work[split.G_LEFT], work[split.H_LEFT]
    total = sums[2 * t], sums[2 * t + 1]
    missing = total[0] - g_left[n - 1], total[1] - h_left[n - 1]
    vectors.add_scores(g_left, h_left, n, (int64(0), int64(0)), total, unit, reg, scores[0])
    if can_miss:
        vectors.add_scores(g_left, h_left, n, missing, total, unit, reg, scores[1])
    return (missing[0] | missing[1]) != 0


@part
def _find_by_bins(node_sums, out, f, slot_ptr, n, units, reg, work, scores, score_bits, found):
    """The best split of a node on feature f from its histogram `out`."""
    n_features = slot_ptr.shape[0] - 1
    slot, n_slots = slot_ptr[f], slot_ptr[n_features]
    can_miss = slot_ptr[f + 1] - slot > n
    has_missing = False
    _clear(scores, n)
    for t in range(units.shape[0]):
        split.all_sums(out[2 * t * n_slots :], slot, n_slots, n, work[split.G_LEFT], work[split.H_LEFT])
        has_missing |= _add_target(work, n, can_miss, node_sums, t, units[t], reg, scores)
    keep_best(work[split.EVERY_BIN], n, has_missing, scores, score_bits, found)


@part
def _occupied_bins(column, rows, start, stop, n, work):
    """List the bins of rows[start:stop] in work[BINS] and every bin's place in the list in work[G_SUMS]."""
    occupied, bins, place = work[split.OCCUPIED], work[split.BINS], work[split.G_SUMS]
    for i in range(uint64(start), uint64(stop)):
        b = uint64(column[uint64(rows[i])])
        if b < uint64(n):
            occupied[b >> uint64(6)] |= int64(1) << int64(b & uint64(63))
    k = uint64(0)
    for w in range(uint64((n + 63) // 64)):
        bits = uint64(occupied[w])
        occupied[w] = 0
        while bits != uint64(0):
            b = (w << uint64(6)) + count_trailing_zeros(bits)
            bits &= bits - uint64(1)
            bins[k] = b
            place[b] = k
            k += uint64(1)
    return int64(k)


@part
def _sum_target(column, rows, start, stop, n, planes, source, work, n_occupied):
    """Running sums of one target over the occupied bins."""
    g_left, h_left, place = work[split.G_LEFT], work[split.H_LEFT], work[split.G_SUMS]
    for k in range(uint64(n_occupied)):
        g_left[k], h_left[k] = 0, 0
    plane, shift = source[0], source[1]
    mask = (int64(1) << shift) - 1
    values, h_values = planes[plane], planes[plane if shift > 0 else plane + 1]
    for i in range(uint64(start), uint64(stop)):
        r = uint64(rows[i])
        b = uint64(column[r])
        if b < uint64(n):
            k = uint64(place[b])
            v = values[r]
            g_left[k] += v >> shift
            h_left[k] += v & mask if shift > 0 else h_values[r]
    g, h = int64(0), int64(0)
    for k in range(uint64(n_occupied)):
        g += g_left[k]
        h += h_left[k]
        g_left[k], h_left[k] = g, h


@part
def _find_by_rows(node, node_sums, column, rows, n, planes, sources, units, reg, work, scores, score_bits, found):
    """The best split of a node of few rows on one feature, straight from its rows."""
    n_occupied = _occupied_bins(column, rows, node.start, node.stop, n, work)
    if n_occupied > 0:
        has_missing = False
        _clear(scores, n_occupied)
        for t in range(units.shape[0]):
            _sum_target(column, rows, node.start, node.stop, n, planes, sources[t], work, n_occupied)
            has_missing |= _add_target(work, n_occupied, True, node_sums, t, units[t], reg, scores)
        keep_best(work[split.BINS], n_occupied, has_missing, scores, score_bits, found)
    for k in range(uint64(n_occupied)):
        work[split.G_SUMS, uint64(work[split.BINS, k])] = 0  # split.py's own: zero between calls


@part
def find_splits(level, team, thread, n_threads):
    """The best split of every node in the plan's evals on every feature."""
    page, extra, counts = level.page, level.extra, level.plan.counts
    columns, slot_ptr, n_bins = page.columns, page.slot_ptr, page.n_bins
    evals = level.plan.evals[: counts[nodes.EVALS]]
    allowed, reg, work = level.search.allowed, level.search.reg, level.search.scratch[thread]
    sums, units, sources = extra.sums, extra.units, extra.sources
    scores, score_bits = extra.scores[thread], extra.score_bits[thread]
    n_by_rows, last_allowed = counts[nodes.BY_ROWS_EVALS], allowed.shape[0] - 1
    n, n_features = int64(evals.shape[0]), int64(n_bins.shape[0])
    n_slots = (n - n_by_rows) * slot_ptr[n_features] + n_by_rows * n_features * FEW_ROWS
    most = n_jobs(n_slots * units.shape[0], level.plan.grains[FIND_SLOTS], n_threads)
    job = take_job(team, FIND_JOBS, int64(-1), n_threads)
    while job < most:
        for pair in range(n * n_features * job // most, n * n_features * (job + 1) // most):
            e, f = pair // n_features, pair % n_features
            i = evals[e]
            node, found, n_b = level.nodes[i], level.search.best[e, f], int64(n_bins[f])
            found.score = 0.0
            if allowed[e if e < last_allowed else last_allowed, f] == 0:
                continue
            if node.hist == BY_ROWS:
                planes, ids = level.gradients.planes, level.rows.ids
                _find_by_rows(
                    node, sums[i], columns[f], ids, n_b, planes, sources, units, reg, work, scores, score_bits, found
                )
            else:
                out = level.buffers.hist[node.hist]
                _find_by_bins(sums[i], out, f, slot_ptr, n_b, units, reg, work, scores, score_bits, found)
        job = take_job(team, FIND_JOBS, job, n_threads)


@part
def sum_left_by_bins(node, out, slot_ptr, n, sums, left):
    """The left child's sums from a histogram: all bins up to the split, and the missing values if they go left."""
    n_slots, slot = slot_ptr[slot_ptr.shape[0] - 1], slot_ptr[node.feature]
    first, last = (node.bin + 1, n) if node.default_left else (0, node.bin + 1)
    for j in range(left.shape[0]):
        total = int64(0)
        for b in range(uint64(slot + first), uint64(slot + last)):
            total += out[uint64(j * n_slots) + b]
        left[j] = sums[j] - total if node.default_left else total


@part
def _sum_left_by_rows(node, column, rows, n, planes, sources, left):
    """The same from the rows."""
    for j in range(left.shape[0]):
        left[j] = 0
    for i in range(uint64(node.start), uint64(node.stop)):
        r = uint64(rows[i])
        b = int64(column[r])
        if b <= node.bin or (b >= n and node.default_left != 0):
            for t in range(sources.shape[0]):
                plane, shift = sources[t, 0], sources[t, 1]
                v = planes[plane, r]
                left[2 * t] += v >> shift
                left[2 * t + 1] += v & ((int64(1) << shift) - 1) if shift > 0 else planes[plane + 1, r]


@part
def _has_hessian(sums, left):
    """Whether both children have some."""
    any_left, any_right = int64(0), int64(0)
    for j in range(1, left.shape[0], 2):
        any_left |= left[j]
        any_right |= sums[j] - left[j]
    return any_left != 0 and any_right != 0


@part
def select_splits(level, thread, n_threads):
    """Every thread gives its part of the evaluated nodes their best split, or feature -1 if none gains enough."""
    page, extra, gradients = level.page, level.extra, level.gradients
    evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
    reg, best, units, sources = level.search.reg, level.search.best, extra.units, extra.sources
    n = int64(evals.shape[0])
    for e in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        i = evals[e]
        node, sums, left = level.nodes[i], extra.sums[i], extra.left_sums[i]
        top, feature = 0.0, int64(-1)
        for f in range(best.shape[1]):
            if best[e, f].score > top:
                top, feature = best[e, f].score, int64(f)
        node.feature = -1
        if feature < 0:
            continue
        gain = top - vectors.node_score(sums, units, reg)
        if not (gain > MIN_GAIN and gain >= reg[split.GAMMA]):
            continue
        found = best[e, feature]
        node.feature, node.bin, node.default_left, node.gain = feature, found.bin, found.default_left, gain
        n_bins = int64(page.n_bins[feature])
        if node.hist == BY_ROWS:
            _sum_left_by_rows(node, page.columns[feature], level.rows.ids, n_bins, gradients.planes, sources, left)
        else:
            sum_left_by_bins(node, level.buffers.hist[node.hist], page.slot_ptr, n_bins, sums, left)
        node.g_left, node.h_left = 0, vectors.total_hessian(left)
        if not _has_hessian(sums, left):
            node.feature = -1
