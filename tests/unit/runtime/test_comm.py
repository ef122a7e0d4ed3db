"""One process alone: reductions change nothing. And what is reduced gives a group of workers one answer."""

import threading
from itertools import chain

import numpy as np
import pytest

import pages
from arboost.levels.quantize import quantize
from arboost.runtime.comm import LocalComm
from arboost.runtime.context import Context
from naive_matrix import BarrierComm


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

    threads = [threading.Thread(target=work, args=(comm,)) for comm in BarrierComm.group(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(p.g_unit, p.h_unit) for p in parts} == {(alone.g_unit, alone.h_unit)}
    for i, whole in enumerate(pages.unpack(alone)):
        assert list(chain.from_iterable(pages.unpack(part)[i] for part in parts)) == whole
    assert totals == [alone.total(Context(), None)] * 3
