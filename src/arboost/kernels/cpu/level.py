"""The two steps of growth for a set of nodes, carried out by a whole team of threads.

OPEN: split the rows of the batch, make children, build the histograms that cannot be had by subtraction.
FIND: subtract, find the best split of every new node, list those that have one.
Between the two, workers of a cluster add up their histograms; a single one does both in one order. Here is only who
does which part of the work; the result does not depend on it: sums are integers.
    page = (bins, columns, slot_ptr, n_bins, layout, ...); layout: see routes.py, shared.py
    gradients = (planes (n_planes, n_rows), packings)   plan = (limits, free, builds, subtracts, evals, counts)
    rowsets = (rows, temp, n_left, pieces)      store = (acc, partial, bounds, hist)
    search = (batch, opened, allowed, reg, best, scratch, scores)
"""

import numpy as np
from numba import int64

from arboost.kernels.cpu import expand, histogram, partition, shared, split
from arboost.kernels.cpu.team import N_COUNTERS, STOP, await_order, barrier, post, take_job
from arboost.kernels.dtypes import BLOCK_FEATURES, FEW_ROWS
from arboost.kernels.jit import kernel, part, section

OPEN, FIND, OPEN_AND_FIND = STOP + 1, STOP + 2, STOP + 3
# Work that is worth a thread; typed, for a function is compiled again for every plain number it is given.
SPLIT_ROWS = np.int64(8_192)  # rows to partition,
BUILD_UPDATES = np.int64(100_000)  # (row, feature) additions,
MERGE_SLOTS = np.int64(32_768)  # slots to add or subtract,
FIND_SLOTS = np.int64(6_000)  # slots to scan
SPARE_JOBS = 4  # jobs per thread, at most, where jobs are taken one by one,
LARGE_JOB = 8  # and how many of the above a job must hold: every cut is paid for in sums to merge
SPLIT_JOBS, BUILD_JOBS, FIND_JOBS = (np.int64(counter) for counter in range(N_COUNTERS))


@part
def _share(work, grain, n_threads):
    """How many threads a piece of work deserves."""
    share = work // grain
    return n_threads if share > n_threads else share if share > 1 else int64(1)


@part
def _n_jobs(work, grain, n_threads):
    """Into how many jobs work is cut: more than threads, if they stay large, so that a slow thread takes fewer."""
    share = _share(work, grain, n_threads)
    n_large = work // (LARGE_JOB * grain)
    most = SPARE_JOBS * share if share > 1 else int64(1)
    return most if n_large > most else n_large if n_large > share else share


@section
def _split(page, nodes, batch, current, rowsets, missing_code, team, thread, n_threads):
    """Partition the batch's rows; True if the team was given up."""
    rows, temp, n_left, pieces = rowsets
    n = expand.count_rows(nodes, batch)
    n_spans = _n_jobs(n, SPLIT_ROWS, n_threads)
    s = take_job(team, SPLIT_JOBS, int64(-1), n_threads)
    while s < n_spans:
        span = n * s // n_spans, n * (s + 1) // n_spans
        partition.split_rows(
            page[1], page[4], nodes, batch, current, missing_code, temp, rows, n_left, pieces[s], span[0], span[1]
        )
        s = take_job(team, SPLIT_JOBS, s, n_threads)
    if barrier(team, n_threads):
        return True
    if n_spans > 1:
        flat = pieces[:n_spans].reshape(-1)
        first, last = 2 * n_spans * thread // n_threads, 2 * n_spans * (thread + 1) // n_threads
        partition.place_rows(nodes, batch, flat, temp, rows, n_left, first, last)
        return barrier(team, n_threads)
    return False


@section
def _build(page, rows, gradients, builds, n_rows, store, team, thread, n_threads):
    """Sum the planned rows into buffers: blocks of features times spans of rows, dealt out evenly."""
    bins, slot_ptr, n_bins = page[0], page[2], page[3]
    acc, partial, bounds, hist = store
    _, _, n_updates, is_sparse = shared.row_sizes(page)
    n_dense = (n_bins.shape[0] + BLOCK_FEATURES - 1) // BLOCK_FEATURES
    n_blocks = n_dense + is_sparse
    n_spans = _n_jobs(n_rows * n_updates, BUILD_UPDATES, n_threads) // n_blocks
    most = int64(partial.shape[0])
    n_spans = most if n_spans > most else n_spans if n_spans > 1 else 1
    n_spans = n_rows if n_spans > n_rows else n_spans
    if thread == 0:
        for s in range(n_spans + 1):
            bounds[s] = n_rows * s // n_spans
    job = take_job(team, BUILD_JOBS, int64(-1), n_threads)
    while job < n_blocks * n_spans:
        block, s = job // n_spans, job % n_spans
        start, stop = n_rows * s // n_spans, n_rows * (s + 1) // n_spans
        for p in range(gradients[0].shape[0]):
            values, packing = gradients[0][p], gradients[1][p]
            if block == n_dense:
                shared.add_entries(page, rows, values, packing, builds, partial[s], hist, start, stop)
                continue
            histogram.build_histograms(
                bins, rows, values, packing, builds, slot_ptr, n_bins, acc[thread], partial[s], hist, block, start, stop
            )
        job = take_job(team, BUILD_JOBS, job, n_threads)
    if n_spans > 1:
        if barrier(team, n_threads):
            return
        width = hist.shape[1]
        share = _share(width * n_spans, MERGE_SLOTS, n_threads)
        if thread < share:
            span = width * thread // share, width * (thread + 1) // share
            histogram.merge_histograms(builds, bounds[: n_spans + 1], partial, hist, span[0], span[1])


@part
def open_batch(page, nodes, rowsets, missing_code, gradients, plan, store, search, team, thread, n_threads):
    """Open the batch (none: build the root, which is planned already) and build what is new."""
    limits, free, builds, subtracts, evals, counts = plan
    rows = rowsets[0][: counts[expand.ORDERED_ROWS]]  # empty: still in their first order
    n_batch = counts[expand.BATCH]
    if n_batch > 0:
        batch = search[0][:n_batch]
        if _split(page, nodes, batch, rows, rowsets, missing_code, team, thread, n_threads):
            return
        rows = rowsets[0]
        if thread == 0:
            expand.expand_nodes(nodes, batch, rowsets[2], limits, free, builds, subtracts, evals, counts)
        if barrier(team, n_threads):
            return
    n_builds = counts[expand.BUILDS]
    if n_builds > 0:
        n_rows = counts[expand.BUILD_ROWS]
        _build(page, rows, gradients, builds[:n_builds], n_rows, store, team, thread, n_threads)


@section
def _subtract(plan, hist, thread, n_threads):
    """Turn parents' buffers into those of their larger children; True if there was anything to do."""
    n_subtracts = plan[5][expand.SUBTRACTS]
    if n_subtracts == 0:
        return False
    width = hist.shape[1]
    share = _share(width * n_subtracts, MERGE_SLOTS, n_threads)
    if thread < share:
        span = width * thread // share, width * (thread + 1) // share
        histogram.subtract_histograms(plan[3][:n_subtracts], hist, span[0], span[1])
    return True


@part
def search_bins(page, nodes, rowsets, gradients, plan, hist, search, team, thread, n_threads):
    """Subtract, then find the best split of every node in the plan's evals on every feature."""
    all_evals, counts = plan[4], plan[5]
    _, _, allowed, reg, best, all_scratch, all_scores = search
    scratch = all_scratch[thread], (all_scores[0][thread], all_scores[1][thread])
    evals = all_evals[: counts[expand.EVALS]]
    rows = rowsets[0][: counts[expand.ORDERED_ROWS]]
    n_features, n_slots, n_updates, _ = shared.row_sizes(page)
    n = int64(evals.shape[0])
    n_by_rows = counts[expand.BY_ROWS_EVALS]
    if _subtract(plan, hist, thread, n_threads) and barrier(team, n_threads):
        return
    pairs = n * n_features if n_by_rows < n else int64(0)
    n_jobs = _n_jobs((n - n_by_rows) * n_slots, FIND_SLOTS, n_threads)
    job = take_job(team, FIND_JOBS, int64(-1), n_threads)
    while job < n_jobs:
        span = pairs * job // n_jobs, pairs * (job + 1) // n_jobs
        shared.find_splits(page, nodes, evals, hist, allowed, reg, best, scratch, span[0], span[1])
        job = take_job(team, FIND_JOBS, job, n_threads)
    share = _share(n_by_rows * n_updates * FEW_ROWS, FIND_SLOTS, n_threads)
    if n_by_rows > 0 and thread < share:
        planes = gradients[0]
        data = (page[1], rows, planes[0], planes[planes.shape[0] - 1], gradients[1][0, 0])
        span = n * thread // share, n * (thread + 1) // share
        shared.find_splits_by_rows(page, nodes, evals, data, allowed, reg, best, scratch, span[0], span[1])


@section
def choose_splits(nodes, plan, search):
    """Give every evaluated node its best split over all features; `opened` lists the nodes that have one."""
    evals = plan[4][: plan[5][expand.EVALS]]
    split.select_splits(nodes, evals, search[4], search[3], int64(0), int64(evals.shape[0]))
    expand.open_nodes(nodes, evals, plan[1], plan[5], search[1])


@kernel
def carry_out(order, page, nodes, rowsets, missing_code, gradients, plan, store, search, team, thread, n_threads):
    """The leader (thread 0) carries out one order; a follower all orders until it is sent home.

    For a follower, `order` is the number of orders that were posted before it came.
    """
    if thread == 0:
        post(team, order, n_threads)
    n_seen = order
    while True:
        if thread > 0:
            order = await_order(team, n_seen)
            n_seen += 1
        if order != FIND and order != STOP:
            open_batch(page, nodes, rowsets, missing_code, gradients, plan, store, search, team, thread, n_threads)
        if order == OPEN_AND_FIND:
            if barrier(team, n_threads):
                return
            if thread == 0 and plan[5][expand.BATCH] > 0 and plan[5][expand.ORDERED_ROWS] == 0:
                plan[5][expand.ORDERED_ROWS] = rowsets[0].shape[0]  # the first split has written the row ids down
            if barrier(team, n_threads):
                return
        if order == FIND or order == OPEN_AND_FIND:
            search_bins(page, nodes, rowsets, gradients, plan, store[3], search, team, thread, n_threads)
            if barrier(team, n_threads):
                return
            if thread == 0:
                choose_splits(nodes, plan, search)
        # all must be through before the leader goes on, or a follower would read the next plan
        if order == STOP or barrier(team, n_threads) or thread == 0:
            return
