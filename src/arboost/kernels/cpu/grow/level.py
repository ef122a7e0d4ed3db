"""The steps of growth for a set of nodes whose rows are in memory, carried out by a whole team of threads.

An order is a sum of steps, done one after the other:
    SPLIT   move the rows of the batch to the two sides
    PLAN    make the children; which of them is built, which is what remains of the parent
    BUILD   sum the rows that are planned
    FIND    subtract, find the best split of every new node, list those that have one
    GO_ON   all this for the nodes that were listed, and so on, to the last level that has splits (the leader alone)
Workers of a cluster add up their histograms between BUILD and FIND. Here is only who does which part of the work; the
result does not depend on it: sums are integers.
"""

from numba import int64

from arboost.kernels.cpu.grow import (
    histogram,
    nodes,
    orders,
    partition,
    search,
    search_vectors,
    special,
    split,
    symmetric,
)
from arboost.kernels.cpu.grow.arrays import IN_ORDER, Level, Special, Symmetric, Vectors, as_level, is_of
from arboost.kernels.cpu.grow.jobs import (
    BUILD_JOBS,
    BUILD_UPDATES,
    FIND_JOBS,
    FIND_SLOTS,
    MERGE_SLOTS,
    SPLIT_JOBS,
    SPLIT_ROWS,
    n_jobs,
    n_shares,
)
from arboost.kernels.cpu.grow.team import barrier, take_job
from arboost.kernels.cpu.round.sample import sample_columns_of_node
from arboost.kernels.dtypes import BLOCK_FEATURES, FEW_ROWS
from arboost.kernels.jit import forms_of, kernel, part, section

SPLIT, PLAN, BUILD, FIND, GO_ON = 1, 2, 4, 8, 16


@part
def split_batch(level, team, thread, n_threads):
    """Partition the batch's rows; True if the team was given up."""
    rows = level.rows
    batch = level.search.batch[: level.plan.counts[nodes.BATCH]]
    in_order = rows.state[IN_ORDER] != 0
    n = nodes.count_rows(level.nodes, batch)
    n_spans = n_jobs(n, level.plan.grains[SPLIT_ROWS], n_threads)
    s = take_job(team, SPLIT_JOBS, int64(-1), n_threads)
    while s < n_spans:
        span = n * s // n_spans, n * (s + 1) // n_spans
        pieces = rows.pieces[s]
        partition.split_rows(
            level.page, level.extra, level.nodes, batch, rows, in_order, pieces, span[0], span[1]
        )  # fmt: skip
        s = take_job(team, SPLIT_JOBS, s, n_threads)
    if barrier(team, n_threads):
        return True
    if n_spans > 1:
        flat = rows.pieces[:n_spans].reshape(-1)
        first, last = 2 * n_spans * thread // n_threads, 2 * n_spans * (thread + 1) // n_threads
        partition.place_rows(level.nodes, batch, flat, rows, first, last)
        return barrier(team, n_threads)
    return False


@part
def build(page, ids, in_order, gradients, builds, n_rows, buffers, grains, team, thread, n_threads):
    """Sum the builds' rows into buffers: blocks of features times spans of rows, dealt out evenly."""
    acc, partial, bounds, hist = buffers.acc[thread], buffers.partial, buffers.bounds, buffers.hist
    _, _, n_updates, any_entries = search.row_sizes(page)
    n_dense = (page.n_bins.shape[0] + BLOCK_FEATURES - 1) // BLOCK_FEATURES
    n_blocks = n_dense + any_entries
    n_spans = n_jobs(n_rows * n_updates, grains[BUILD_UPDATES], n_threads) // n_blocks
    most = int64(partial.shape[0])
    n_spans = most if n_spans > most else n_spans if n_spans > 1 else 1
    n_spans = n_rows if n_spans > n_rows else n_spans
    if thread == 0:
        for s in range(n_spans + 1):
            bounds[s] = n_rows * s // n_spans if n_spans > 0 else int64(0)
    job = take_job(team, BUILD_JOBS, int64(-1), n_threads)
    while job < n_blocks * n_spans:
        block, s = job // n_spans, job % n_spans
        start, stop = n_rows * s // n_spans, n_rows * (s + 1) // n_spans
        for p in range(gradients.planes.shape[0]):
            values, packing = gradients.planes[p], gradients.packings[p]
            if block == n_dense:
                search.add_entries(page, ids, in_order, values, packing, builds, partial[s], hist, start, stop)
                continue
            histogram.build_histograms(
                page, ids, in_order, values, packing, builds, acc, partial[s], hist, block, start, stop
            )
        job = take_job(team, BUILD_JOBS, job, n_threads)
    if n_spans > 1:
        if barrier(team, n_threads):
            return
        width = hist.shape[1]
        share = n_shares(width * n_spans, grains[MERGE_SLOTS], n_threads)
        if thread < share:
            span = width * thread // share, width * (thread + 1) // share
            histogram.merge_histograms(builds, bounds[: n_spans + 1], partial, hist, span[0], span[1])


# ---- finding splits ----


@section
def _subtract(level, thread, n_threads):
    """Turn parents' buffers into those of their larger children; True if there was anything to do."""
    hist, n_subtracts = level.buffers.hist, level.plan.counts[nodes.SUBTRACTS]
    if n_subtracts == 0:
        return False
    width = hist.shape[1]
    share = n_shares(width * n_subtracts, level.plan.grains[MERGE_SLOTS], n_threads)
    if thread < share:
        span = width * thread // share, width * (thread + 1) // share
        histogram.subtract_histograms(level.plan.subtracts[:n_subtracts], hist, span[0], span[1])
    return True


def _with_choice(scratch, scores, choice):
    """What searches work with: scratch memory, scores, and a choice of candidates where there is one."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(_with_choice)
def _choose_with_choice(scratch, scores, choice):
    if len(choice):
        return lambda scratch, scores, choice: (scratch, scores, choice)
    return lambda scratch, scores, choice: (scratch, scores)


@part
def _search_bins(level, team, thread, n_threads):
    """The best split of every node in the plan's evals on every feature that has no search of its own."""
    page, plan, gradients = level.page, level.plan, level.gradients
    allowed, reg, best = level.search.allowed, level.search.reg, level.search.best
    scores = level.search.scores[thread], level.search.score_bits[thread]
    scratch = _with_choice(level.search.scratch[thread], scores, level.search.choice)
    evals = plan.evals[: plan.counts[nodes.EVALS]]
    n_features, n_slots, n_updates, _ = search.row_sizes(page)
    n = int64(evals.shape[0])
    n_by_rows = plan.counts[nodes.BY_ROWS_EVALS]
    pairs = n * n_features if n_by_rows < n else int64(0)
    most = n_jobs((n - n_by_rows) * n_slots, plan.grains[FIND_SLOTS], n_threads)
    job = take_job(team, FIND_JOBS, int64(-1), n_threads)
    while job < most:
        span = pairs * job // most, pairs * (job + 1) // most
        search.find_splits(
            page, level.extra, level.nodes, evals, level.buffers.hist, allowed, reg, best, scratch, span[0], span[1]
        )
        job = take_job(team, FIND_JOBS, job, n_threads)
    share = n_shares(n_by_rows * n_updates * FEW_ROWS, plan.grains[FIND_SLOTS], n_threads)
    if n_by_rows > 0 and thread < share:
        planes = gradients.planes
        data = (level.rows.ids, planes[0], planes[1 if planes.shape[0] > 1 else 0], gradients.packings[0, 0])
        span = n * thread // share, n * (thread + 1) // share
        search.find_splits_by_rows(
            page, level.extra, level.nodes, evals, data, allowed, reg, best, scratch, span[0], span[1]
        )


def _choose(level, team, thread, n_threads):
    """Search, and give every evaluated node its best split over all features; True if the team was given up."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _choose_plain(level, team, thread, n_threads):
    _search_bins(level, team, thread, n_threads)
    if barrier(team, n_threads):
        return True
    if thread == 0:
        evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
        split.select_splits(
            level.nodes, evals, level.search.best, level.search.reg, int64(0), int64(evals.shape[0])
        )  # fmt: skip
    return False


def _choose_special(level, team, thread, n_threads):
    _search_bins(level, team, thread, n_threads)
    if barrier(team, n_threads):  # split.py's zeros are written before they are replaced
        return True
    special.find_special(level, thread, n_threads)
    if barrier(team, n_threads):
        return True
    if thread == 0:
        special.select_splits(level)
    return False


def _choose_vectors(level, team, thread, n_threads):
    search_vectors.find_splits(level, team, thread, n_threads)
    if barrier(team, n_threads):
        return True
    search_vectors.select_splits(level, thread, n_threads)
    return barrier(team, n_threads)


def _choose_symmetric(level, team, thread, n_threads):
    symmetric.find_conditions(level, team, thread, n_threads)
    if barrier(team, n_threads):
        return True
    if thread == 0:
        symmetric.select_condition(level)
    return False


@forms_of(_choose)
def _choose_form(level, team, thread, n_threads):
    searched = level[level.fields.index("search")]
    if is_of(searched[searched.fields.index("symmetric")], Symmetric):
        return _choose_symmetric
    extra = level[level.fields.index("extra")]
    if is_of(extra, Special):
        return _choose_special
    return _choose_vectors if is_of(extra, Vectors) else _choose_plain


@part
def find(level, team, thread, n_threads):
    """The step FIND; True if the team was given up."""
    if _subtract(level, thread, n_threads) and barrier(team, n_threads):
        return True
    if _choose(level, team, thread, n_threads):
        return True
    if thread == 0:
        nodes.open_nodes(level.nodes, level.plan, level.search.opened)
    return False


# ---- orders ----


@part
def _draw_columns(level):
    """Features of the nodes that are searched, where they are drawn here; of a symmetric level, those of the first."""
    columns, allowed, evals = level.search.columns, level.search.allowed, level.plan.evals
    n = min(level.plan.counts[nodes.EVALS], int64(allowed.shape[0]))
    for e in range(n):
        sample_columns_of_node(
            columns.key[0], evals[e], columns.features, columns.n_chosen[0], columns.draws, allowed[e]
        )  # fmt: skip


@part
def _perform_once(order, level, team, thread, n_threads):
    plan, rows = level.plan, level.rows
    if order & SPLIT and split_batch(level, team, thread, n_threads):
        return True
    if order & PLAN:
        if thread == 0:
            batch = level.search.batch[: plan.counts[nodes.BATCH]]
            rows.state[IN_ORDER] = 0  # the first split has written the row ids down
            nodes.plan_children(level.extra, level.nodes, batch, rows.n_left, level.search.reg, plan)
        if barrier(team, n_threads):
            return True
    if order & BUILD and plan.counts[nodes.BUILDS] > 0:
        builds, in_order = plan.builds[: plan.counts[nodes.BUILDS]], rows.state[IN_ORDER] != 0
        n_rows = plan.counts[nodes.BUILD_ROWS]
        ids, grains = rows.ids, plan.grains
        build(
            level.page, ids, in_order, level.gradients, builds, n_rows, level.buffers, grains, team, thread, n_threads
        )
        if order & FIND and barrier(team, n_threads):
            return True
    if order & FIND == 0:
        return False
    if n_threads == 1 and level.search.columns.n_chosen[0] > 0:
        _draw_columns(level)
    return find(level, team, thread, n_threads)


def _perform(order, level, team, thread, n_threads):
    counts, batch, opened = level.plan.counts, level.search.batch, level.search.opened
    while True:
        if _perform_once(order, level, team, thread, n_threads):
            return True
        if order & GO_ON == 0 or not nodes.can_go_on(level.nodes, batch, opened, level.buffers.hist, level.plan):
            return False
        counts[nodes.BATCH] = counts[nodes.OPENED]
        for b in range(counts[nodes.BATCH]):
            batch[b] = opened[b]
        order = SPLIT | PLAN | BUILD | FIND | GO_ON


@forms_of(orders.perform)
def _perform_in_memory(order, level, team, thread, n_threads):
    return _perform if is_of(level, Level) else None


@kernel
def carry_out(order, arrays, team, thread, n_threads):
    """See orders.py; `arrays` are those of a Level."""
    orders.carry_out(order, as_level(arrays), team, thread, n_threads)
