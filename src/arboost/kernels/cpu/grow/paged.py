"""The steps of growth for a set of nodes whose rows lie on several pages; every page is looked at once a level.

Row ids in a node ascend, so the rows that it has on a page are a run of its own:

    ids of a node   | on page 0 | on page 1 | on page 2 |
    SPLIT, a page   | left right|           |           |     the page's run becomes two, in place
    BUILD, a page     summed for the child that is planned
    PLACE           | left left left | right right right |    once all pages are split

PLAN comes first, from sums known before any row is moved. A last level is not moved at all: see `narrow`.
"""

from numba import int64, uint64
from numba.extending import overload

from arboost.kernels.cpu.grow import nodes, orders
from arboost.kernels.cpu.grow.arrays import IN_ORDER, PagedLevel, as_paged_level, is_of
from arboost.kernels.cpu.grow.jobs import BUILD_JOBS, SPLIT_JOBS
from arboost.kernels.cpu.grow.level import BUILD, FIND, PLAN, SPLIT, build, find, split_batch
from arboost.kernels.cpu.grow.team import barrier, take_job
from arboost.kernels.jit import OPTIONS, kernel, part

PLACE = 16


@part
def _first_from(ids, in_order, start, stop, row):
    """The first place in start..stop whose row is not before `row`; ids ascend there."""
    if in_order:
        return start if row < start else stop if row > stop else row
    lo, hi = start, stop
    while lo < hi:
        middle = (lo + hi) // 2
        if int64(ids[middle]) < row:
            lo = middle + 1
        else:
            hi = middle
    return lo


@part
def _run_of(page, ids, in_order, start, stop):
    """The part of a node's range start..stop that lies on the page."""
    after = page.first_row + page.columns.shape[1]
    return _first_from(ids, in_order, start, stop, page.first_row), _first_from(ids, in_order, start, stop, after)


@part
def _plan(level):
    """Children and plan for the batch; the buffers that are built begin at zero."""
    plan, batch = level.plan, level.search.batch[: level.plan.counts[nodes.BATCH]]
    level.runs.counts[0] = 0
    for b in range(batch.shape[0]):
        node = level.nodes[batch[b]]
        level.rows.n_left[b] = 0
        level.runs.spans[b, 0], level.runs.spans[b, 1] = node.start, node.stop
    nodes.plan_children(level.extra, level.nodes, batch, level.rows.n_left, level.search.reg, plan)


@part
def _clear_builds(level, thread, n_threads):
    """Every thread clears its part of the buffers that are built."""
    hist = level.buffers.hist
    width = hist.shape[1]
    for k in range(level.plan.counts[nodes.BUILDS]):
        hist[level.plan.builds[k].hist, width * thread // n_threads : width * (thread + 1) // n_threads] = 0


@part
def _narrow(level):
    """Give the nodes of the batch the ranges that they have on this page."""
    in_order = level.rows.state[IN_ORDER] != 0
    for b in range(level.plan.counts[nodes.BATCH]):
        node, span = level.nodes[level.search.batch[b]], level.runs.spans[b]
        node.start, node.stop = _run_of(level.page, level.rows.ids, in_order, span[0], span[1])
        level.rows.n_left[b] = 0


@part
def _note_runs(level):
    """Write the page's runs down: where they lie and how many of their rows go left."""
    for b in range(level.plan.counts[nodes.BATCH]):
        node = level.nodes[level.search.batch[b]]
        piece = level.runs.pieces[level.runs.counts[0]]
        piece.node, piece.start, piece.stop, piece.n_left = b, node.start, node.stop, level.rows.n_left[b]
        level.runs.counts[0] += 1


@part
def _plan_page(level):
    """The plan's builds as far as rows of this page go (runs.builds, OUT); returns the number of rows."""
    plan, runs, n_rows = level.plan, level.runs, int64(0)
    in_order = level.rows.state[IN_ORDER] != 0
    first_run = runs.counts[0] - plan.counts[nodes.BATCH]
    for k in range(plan.counts[nodes.BUILDS]):
        planned, mine = plan.builds[k], runs.builds[k]
        node = level.nodes[planned.node]
        if planned.place < 0:
            span = _run_of(level.page, level.rows.ids, in_order, node.start, node.stop)
        else:
            run = runs.pieces[first_run + planned.place]
            middle = run.start + run.n_left
            is_left = level.nodes[node.parent].left == planned.node
            span = (run.start, middle) if is_left else (middle, run.stop)
        mine.start, mine.stop, mine.first = span[0], span[1], n_rows
        mine.hist, mine.sign, mine.fresh = planned.hist, planned.sign, 0
        n_rows += span[1] - span[0]
    return n_rows


@part
def _plan_places(level):
    """Where the parts of all runs go; the nodes of the batch, and their children, get their ranges."""
    rows, runs, n_batch = level.rows, level.runs, level.plan.counts[nodes.BATCH]
    for b in range(n_batch):
        rows.n_left[b] = 0
    for p in range(runs.counts[0]):
        rows.n_left[runs.pieces[p].node] += runs.pieces[p].n_left
    for b in range(n_batch):
        start, stop = runs.spans[b, 0], runs.spans[b, 1]
        node, middle = level.nodes[level.search.batch[b]], start + rows.n_left[b]
        node.start, node.stop = start, stop
        left, right = level.nodes[node.left], level.nodes[node.right]
        left.start, left.stop, right.start, right.stop = start, middle, middle, stop
        for p in range(b, runs.counts[0], n_batch):
            run = runs.pieces[p]
            run.left_at, run.right_at = start, middle
            start += run.n_left
            middle += run.stop - run.start - run.n_left


@part
def _copy(source, start, n, target, to):
    for i in range(uint64(n)):
        target[uint64(to) + i] = source[uint64(start) + i]


@part
def _place_runs(level, team, n_threads):
    """Put the rows of all nodes of the batch together, those that go left in front; True if the team was given up."""
    rows, runs = level.rows, level.runs
    p = take_job(team, SPLIT_JOBS, int64(-1), n_threads)
    while p < runs.counts[0]:
        run = runs.pieces[p]
        _copy(rows.ids, run.start, run.n_left, rows.temp, run.left_at)
        _copy(rows.ids, run.start + run.n_left, run.stop - run.start - run.n_left, rows.temp, run.right_at)
        p = take_job(team, SPLIT_JOBS, p, n_threads)
    if barrier(team, n_threads):
        return True
    p = take_job(team, BUILD_JOBS, int64(-1), n_threads)
    while p < runs.counts[0]:
        run = runs.pieces[p]
        _copy(rows.temp, run.start, run.stop - run.start, rows.ids, run.start)
        p = take_job(team, BUILD_JOBS, p, n_threads)
    return barrier(team, n_threads)


@kernel
def narrow(nodes, batch, ids, in_order, first_row, n_rows, narrowed, start, stop):
    """The ranges that nodes of the batch have on the page of n_rows from first_row on: narrowed[i] (OUT) for node i."""
    for b in range(start, stop):
        i = batch[b]
        first = _first_from(ids, in_order, nodes[i].start, nodes[i].stop, int64(first_row))
        last = _first_from(ids, in_order, nodes[i].start, nodes[i].stop, int64(first_row) + int64(n_rows))
        narrowed[i].start, narrowed[i].stop = first, last


def _perform(order, level, team, thread, n_threads):
    counts = level.plan.counts
    if order & PLAN:
        if thread == 0:
            _plan(level)
        if barrier(team, n_threads):
            return True
        _clear_builds(level, thread, n_threads)
        if barrier(team, n_threads):
            return True
    if order & SPLIT:
        if thread == 0:
            _narrow(level)
        if barrier(team, n_threads) or split_batch(level, team, thread, n_threads):
            return True
        if thread == 0:
            _note_runs(level)
        if barrier(team, n_threads):
            return True
    if order & BUILD:
        if thread == 0:
            counts[nodes.BUILD_ROWS] = _plan_page(level)
        if barrier(team, n_threads):
            return True
        # rows of the batch have been written down by SPLIT; the root's may be in their first order
        in_order = counts[nodes.BATCH] == 0 and level.rows.state[IN_ORDER] != 0
        builds, n_rows = level.runs.builds[: counts[nodes.BUILDS]], counts[nodes.BUILD_ROWS]
        ids, gradients, grains = level.rows.ids, level.gradients, level.plan.grains
        build(level.page, ids, in_order, gradients, builds, n_rows, level.buffers, grains, team, thread, n_threads)
        if barrier(team, n_threads):
            return True
    if order & PLACE:
        if thread == 0:
            _plan_places(level)
        if barrier(team, n_threads) or _place_runs(level, team, n_threads):
            return True
        if thread == 0:
            level.rows.state[IN_ORDER] = 0
    return order & FIND != 0 and find(level, team, thread, n_threads)


@overload(orders.perform, jit_options=OPTIONS)
def _perform_on_pages(order, level, team, thread, n_threads):
    return _perform if is_of(level, PagedLevel) else None


@kernel
def carry_out(order, arrays, team, thread, n_threads):
    """See orders.py; `arrays` are those of a PagedLevel."""
    orders.carry_out(order, as_paged_level(arrays), team, thread, n_threads)
