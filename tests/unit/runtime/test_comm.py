"""One process alone: reductions change nothing. And what is reduced gives a group of workers one answer."""

from itertools import chain

import numpy as np
import pytest

import pages
from arboost.levels.quantize import quantize
from arboost.runtime.comm import (
    LocalComm,
    Run,
    current,
    gather_rows,
    in_turn,
    locate,
    rows_before,
    turns,
    using,
)
from arboost.runtime.context import Context
from arboost.runtime.errors import WorkerError, XGBoostError
from thread_workers import run_workers


def test_alone():
    comm = LocalComm()
    assert (comm.rank, comm.world_size) == (0, 1)
    values = np.array([3, -1])
    assert comm.allreduce_sum(values) is values
    assert comm.allreduce_max(values) is values
    assert values.tolist() == [3, -1]


@pytest.mark.parametrize("kind", pages.KINDS)
def test_workers_agree_on_the_scale_of_gradients(kind):
    """Each worker holds a part of the rows; together they have the integers and the sums that one would have."""
    g, h = pages.make_gradients(np.random.default_rng(0), 90, kind)
    alone = quantize(Context(), g, h)
    parts, totals = [None] * 3, [None] * 3

    def work(comm):
        rows = slice(30 * comm.rank, 30 * comm.rank + 30)
        ctx = Context(comm=comm)
        parts[comm.rank] = quantize(ctx, g[rows].copy(), h[rows].copy())
        totals[comm.rank] = parts[comm.rank].total(ctx, None)

    run_workers(3, work)
    assert {(p.g_unit, p.h_unit) for p in parts} == {(alone.g_unit, alone.h_unit)}
    for i, whole in enumerate(pages.unpack(alone)):
        assert list(chain.from_iterable(pages.unpack(part)[i] for part in parts)) == whole
    assert totals == [alone.total(Context(), None)] * 3


def test_rows_in_the_order_of_workers():
    sizes = [2, 0, 3]

    def work(comm):
        first = rows_before(comm, sizes[comm.rank])
        rows = np.arange(first, first + sizes[comm.rank], dtype=np.float32)
        table = gather_rows(comm, np.stack([rows, -rows], axis=1))
        gathered = gather_rows(comm, rows)
        gathered[0] = 7.0  # nobody else's
        return first, table.tolist(), gathered.tolist()

    table = [[i, -i] for i in range(5)]
    assert run_workers(3, work) == [(first, table, [7, 1, 2, 3, 4]) for first in (0, 2, 2)]
    rows = np.arange(3)
    assert gather_rows(LocalComm(), rows) is rows
    assert rows_before(LocalComm(), 5) == 0


def test_floats_are_added_in_one_order():
    """What one machine gets, to the bit: a tree of partial sums would not."""
    values = np.random.default_rng(0).normal(size=(4, 25)) * 10.0 ** np.arange(25)

    def add(total, part):
        for value in part:
            total += value

    def work(comm):
        own = values[comm.rank]
        runs = locate(comm, len(own), None)
        return in_turn(comm, np.zeros(1), lambda so_far, start, stop: add(so_far, own[start:stop]), runs).tolist()

    alone = np.zeros(1)
    add(alone, values.ravel())
    assert run_workers(4, work) == [alone.tolist()] * 4


# rank -> its runs: rows of three workers that lie between each other's
DEALT = [
    [Run(0, 2, 1), Run(2, 3, 4)],
    [Run(0, 1, 0), Run(1, 4, 2), Run(4, 5, 3)],
    [],
]


def test_rows_between_those_of_others():
    ids = [[i + offset for start, stop, offset in runs for i in range(start, stop)] for runs in DEALT]
    assert sorted(chain.from_iterable(ids)) == list(range(8))

    def work(comm):
        own, seen = np.array(ids[comm.rank], np.float32), []
        runs = locate(comm, len(own), DEALT[comm.rank])
        table = gather_rows(comm, np.stack([own, -own], axis=1), runs)

        def look(so_far, start, stop):
            assert so_far[0] == (own[start] if start < stop else 0)
            so_far += stop - start
            seen.append((start, stop))

        total = in_turn(comm, np.zeros(1), look, runs)
        assert seen == [(start, stop) for start, stop, _ in runs]
        return table[:, 0].tolist(), table[:, 1].tolist(), total.tolist(), turns(comm, runs)

    order = [(1, 0, 1), (0, 0, 2), (1, 1, 4), (0, 2, 3), (1, 4, 5)]
    rows = list(range(8))
    assert run_workers(3, work) == [(rows, [-row for row in rows], [8], order)] * 3


def test_who_is_out_of_step_is_told():
    def work(comm):
        with pytest.raises(WorkerError, match="out of step"):
            comm.allreduce_sum(np.zeros(2 + (comm.rank == 1), np.int64))
        with pytest.raises(WorkerError, match="out of step"):
            comm.broadcast(b"", 0) if comm.rank else comm.allgather(b"")
        with pytest.raises(TypeError, match="integers, not float64"):
            comm.allreduce_sum(np.zeros(2))

    run_workers(3, work)


def test_the_first_error_is_the_one_that_is_raised():
    def work(comm):
        if comm.rank == 1:
            raise ZeroDivisionError("mine")
        comm.allgather(b"")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run_workers(3, work)


def test_a_worker_for_the_length_of_a_block():
    assert isinstance(current(), LocalComm)
    other = LocalComm()
    with using(other):
        assert current() is other
        assert Context().comm is other
    assert current() is not other


def test_what_needs_one_machine():
    Context().refuse_workers("this", "use that.")
    assert Context().alone() == Context()

    def work(comm):
        ctx = Context()
        assert ctx.alone().is_alone
        with pytest.raises(XGBoostError, match="this is not for several workers, there are 2: use that"):
            ctx.refuse_workers("this", "use that.")
        return ctx.is_alone

    assert run_workers(2, work) == [False, False]
