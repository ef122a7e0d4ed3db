"""Local proposals: every node draws candidates from its own rows (the paper, section 3.2), on sorted columns.

Rows (int32) and values (float32) of a column are kept parted by nodes, each node a run of it, ascending by value; a
split puts the left child's entries in front. Missing values have no entry. The run of the node in a slot (its field
`hist`) goes from runs[slot, f, 0] to before runs[slot, f, 1]. thresholds[i] is node i's split value, places[i] the
first entry of its run that goes right. Features that a tree does not use have 0 bins.
    columns = (ptr, rows, values)     search = (n_bins, reg, best, best_places, allowed)
    scratch = (prefix (3, N_BLOCKS + 1), firsts, sums (3, n_bins + 1), spare rows, spare values), of one thread
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow import bounds as bounding
from arboost.kernels.cpu.grow import nodes as nodes_
from arboost.kernels.cpu.grow import split
from arboost.kernels.cpu.grow.arrays import Bounds
from arboost.kernels.cpu.grow.nodes import OPENED
from arboost.kernels.cpu.sorted.summary import AHEAD, block_length, pick_run
from arboost.kernels.intrinsics import prefetch_item
from arboost.kernels.jit import kernel, part

EVERY_BIN, G_LEFT, H_LEFT = 0, 1, 2  # rows of `sums`


# ---- moving rows ----


@part
def _split_run(source, target, start, stop, side, spare):
    """Entries that go left in front of those that go right, from one pair of arrays to another or in place.

    Returns where the right ones begin.
    """
    rows, values, spare_rows, spare_values = source[0], source[1], spare[0], spare[1]
    left, right = uint64(start), uint64(0)
    for i in range(uint64(start), uint64(stop)):
        row, value = rows[i], values[i]
        goes_right = uint64(side[uint64(row)])
        target[0][left] = row  # both are written, one is kept: no branch
        target[1][left] = value
        spare_rows[right] = row
        spare_values[right] = value
        left += uint64(1) - goes_right
        right += goes_right
    for j in range(right):
        target[0][left + j] = spare_rows[j]
        target[1][left + j] = spare_values[j]
    return int64(left)


@kernel
def split_rows(nodes, batch, runs, places, columns, row_ids, side, temp, n_left, start, stop):
    """Part the rows of nodes batch[start:stop]: row_ids (IN/OUT, n_left[b] go left) and side (OUT, 1 = right)."""
    rows = columns[1]
    for b in range(start, stop):
        i = batch[b]
        node = nodes[i]
        run = runs[node.hist, node.feature]
        if run[1] - run[0] < node.stop - node.start:  # some are missing
            for j in range(uint64(node.start), uint64(node.stop)):
                side[uint64(row_ids[j])] = node.default_left == 0
        for j in range(uint64(run[0]), uint64(places[i])):
            side[uint64(rows[j])] = 0
        for j in range(uint64(places[i]), uint64(run[1])):
            side[uint64(rows[j])] = 1
        left, right = uint64(node.start), uint64(node.start)
        for j in range(uint64(node.start), uint64(node.stop)):
            row = row_ids[j]
            goes_right = uint64(side[uint64(row)])
            row_ids[left] = row
            temp[right] = row
            left += uint64(1) - goes_right
            right += goes_right
        n_left[b] = int64(left) - node.start
        for j in range(right - uint64(node.start)):
            row_ids[left + j] = temp[uint64(node.start) + j]


@kernel
def plan_children(bounds, nodes, batch, n_left, limits, reg, evals, counts):
    """Children for the nodes of `batch`; those that may be split are listed (evals, OUT)."""
    nodes_.open_for_search(Bounds(*bounds), nodes, batch, n_left, limits, reg, evals, counts)


# ---- proposing and searching ----


@part
def _gradient(gradients, row):
    """(g, h) of a row."""
    planes, shift = gradients[0], gradients[1][0, 0]
    value = planes[uint64(0), row]
    if shift > 0:
        return value >> shift, value & ((int64(1) << shift) - 1)
    return value, planes[uint64(1), row]


@part
def _sum_blocks(rows, start, stop, gradients, prefix):
    """prefix[:, j] (OUT) = weight, g and h of a run's first j blocks; returns how many blocks there are."""
    step = block_length(start, stop)
    values = gradients[0][gradients[0].shape[0] - 1]
    j, last = int64(0), uint64(stop - 1)
    weight, g, h = int64(0), int64(0), int64(0)
    for first in range(start, stop, step):
        prefix[0, j], prefix[1, j], prefix[2, j] = weight, g, h
        j += 1
        for i in range(uint64(first), uint64(first + step if first + step < stop else stop)):
            prefetch_item(values, uint64(rows[i + AHEAD if i + AHEAD < last else last]))
            g_row, h_row = _gradient(gradients, uint64(rows[i]))
            g += g_row
            h += h_row
            weight += h_row if h_row > 0 else int64(0)
    prefix[0, j], prefix[1, j], prefix[2, j] = weight, g, h
    return j


@part
def _sums_before(rows, start, stop, gradients, prefix, at):
    """(g, h) of the run's entries before position `at`."""
    step = block_length(start, stop)
    block = (at - start) // step
    g, h = prefix[1, block], prefix[2, block]
    for i in range(uint64(start + block * step), uint64(at)):
        g_row, h_row = _gradient(gradients, uint64(rows[i]))
        g += g_row
        h += h_row
    return g, h


@part
def _find(columns, run, nodes, i, f, gradients, n_bins, reg, bounds, scratch, found):
    """The best split of node i on feature f (found, OUT) at quantiles of its run; returns its place in the run."""
    prefix, firsts, sums = scratch[0], scratch[1], scratch[2]
    rows, values = columns[1], columns[2]
    start, stop = run
    found.score, found.bin = 0.0, -1
    if start == stop:
        return start
    planes, shift = gradients[0], gradients[1][0, 0]
    mask = (int64(1) << shift) - 1 if shift > 0 else int64(-1)
    hessians = planes[planes.shape[0] - 1]
    n_blocks = _sum_blocks(rows, start, stop, gradients, prefix)
    _, n_cuts = pick_run(rows, values, start, stop, hessians, mask, n_bins, prefix[0], prefix[0, n_blocks], firsts)
    for k in range(n_cuts):
        sums[G_LEFT, k], sums[H_LEFT, k] = _sums_before(rows, start, stop, gradients, prefix, firsts[k + 1])
    sums[G_LEFT, n_cuts], sums[H_LEFT, n_cuts] = prefix[1, n_blocks], prefix[2, n_blocks]
    node = nodes[i]
    limits = bounding.limits_of(Bounds(*bounds), nodes, i, f, reg)
    bounding.offer_bins(sums[EVERY_BIN], sums[G_LEFT], sums[H_LEFT], n_cuts + 1, node, limits, reg, found)
    return start if found.bin < 0 else firsts[found.bin + 1] if found.bin < n_cuts else stop


@part
def _load(columns, f, chosen, target):
    """Start a sampled tree: feature f's entries of the chosen rows, in order; returns their end."""
    ptr, rows, values = columns
    k = uint64(ptr[f])
    for i in range(uint64(ptr[f]), uint64(ptr[f + 1])):
        target[0][k] = rows[i]
        target[1][k] = values[i]
        k += uint64(chosen[uint64(rows[i])])
    return int64(k)


@kernel
def start_features(columns, target, chosen, nodes, runs, gradients, search, bounds, scratch, start, stop):
    """Give the root its runs of features start..stop, and search them; an empty `chosen` means all rows.

    Sampled entries are copied to target = (rows, values), OUT.
    """
    n_bins, reg, best, best_places, allowed = search
    loaded = columns[0], target[0], target[1]
    for f in range(start, stop):
        best[0, f].score = 0.0
        run = columns[0][f], columns[0][f + 1]
        if n_bins[f] == 0:
            continue
        if chosen.shape[0] > 0:
            run = run[0], _load(columns, f, chosen, target)
        runs[nodes[0].hist, f, 0], runs[nodes[0].hist, f, 1] = run
        if allowed[0, f] != 0:
            source = columns if chosen.shape[0] == 0 else loaded
            best_places[0, f] = _find(
                source, run, nodes, int64(0), f, gradients, int64(n_bins[f]), reg, bounds, scratch, best[0, f]
            )


@kernel
def open_features(columns, target, side, nodes, batch, runs, gradients, search, bounds, scratch, start, stop):
    """Part the batch's runs of features start..stop between their nodes' children, and search these.

    columns has the runs as they are, target = (rows, values) OUT; they may be the same arrays.
    """
    n_bins, reg, best, best_places, allowed = search
    parted = columns[0], target[0], target[1]
    last_allowed = allowed.shape[0] - 1
    for f in range(start, stop):
        if n_bins[f] == 0:
            for e in range(best.shape[0]):
                best[e, f].score = 0.0
            continue
        e = int64(0)
        for b in range(batch.shape[0]):
            node = nodes[batch[b]]
            if nodes[node.left].hist < 0 and nodes[node.right].hist < 0:
                continue
            run = runs[node.hist, f]
            spare = scratch[3], scratch[4]
            middle = _split_run((columns[1], columns[2]), target, run[0], run[1], side, spare)
            for child in range(node.left, node.right + 1):
                slot = nodes[child].hist
                if slot < 0:
                    continue
                span = (run[0], middle) if child == node.left else (middle, run[1])
                runs[slot, f, 0], runs[slot, f, 1] = span
                best[e, f].score = 0.0
                if allowed[e if e < last_allowed else last_allowed, f] != 0:
                    best_places[e, f] = _find(
                        parted, span, nodes, child, f, gradients, int64(n_bins[f]), reg, bounds, scratch, best[e, f]
                    )
                e += 1


@kernel
def choose_splits(nodes, evals, search, in_force, runs, values, outer_cuts, thresholds, places, opened, counts):
    """Give the evaluated nodes their best split, its threshold and place; `opened` (OUT) lists those that have one.

    outer_cuts (2, n_features): below and above all values of a feature, for splits of missing from present ones.
    """
    _, reg, best, best_places, _ = search
    if in_force != 0:
        bounding.select_by_gain(nodes, evals, best, reg)
    else:
        split.select_splits(nodes, evals, best, reg, int64(0), int64(evals.shape[0]))
    counts[OPENED] = 0
    for e in range(evals.shape[0]):
        i = evals[e]
        node = nodes[i]
        if node.feature < 0:
            continue
        f, place = int64(node.feature), best_places[e, node.feature]
        run = runs[node.hist, f]
        thresholds[i] = outer_cuts[0, f] if place == run[0] else outer_cuts[1, f] if place == run[1] else values[place]
        places[i] = place
        opened[counts[OPENED]] = i
        counts[OPENED] += 1
