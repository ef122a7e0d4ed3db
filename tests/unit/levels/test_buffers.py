"""Histogram buffers: how many there may be, and that numbers handed out lie within what is allocated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pages
from arboost.kernels.cpu.grow import jobs, nodes
from arboost.levels import buffers
from arboost.levels.buffers import HistogramStore
from arboost.runtime.context import Context


def make_store(n_bins=(4, 3), missing=0.0, n_threads=1):
    bins = pages.make_bins(np.random.default_rng(0), 50, n_bins, missing)
    return HistogramStore(Context(n_threads=n_threads), pages.make_page(bins, n_bins))


def test_a_slot_for_every_bin_and_for_missing_values():
    assert make_store().slot_ptr.tolist() == [0, 4, 7]
    store = make_store(missing=[0.5, 0.0])
    assert store.slot_ptr.tolist() == [0, 5, 8]
    assert store.buffers.shape[1] == 16  # gradients, then hessians


@pytest.mark.parametrize("n_bytes, capacity", [(0, 16), (20 * 14 * 8, 20), (1 << 40, 4096)])
def test_memory_is_bounded(monkeypatch, n_bytes, capacity):
    monkeypatch.setattr(buffers, "MAX_BYTES", n_bytes)
    store = make_store()
    assert store.capacity == capacity
    store.reset()
    assert sorted(store.free.tolist()) == list(range(capacity))
    assert store.counts[nodes.FREE] == capacity


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=30))
def test_numbers_in_use_are_allocated(steps):
    """Any order of taking (after reserving) and giving back; what is in use keeps its contents."""
    store = make_store()
    store.reset()
    counts, taken = store.counts, []
    for is_take, n in steps:
        if is_take:
            store.reserve(n)
            for _ in range(min(2 * n, int(counts[nodes.FREE]))):
                counts[nodes.FREE] -= 1
                number = int(store.free[counts[nodes.FREE]])
                assert number < len(store.buffers)
                assert number not in taken
                store.buffers[number] = number
                taken.append(number)
        else:
            for _ in range(min(n, len(taken))):
                store.free[counts[nodes.FREE]] = taken.pop(n % len(taken))
                counts[nodes.FREE] += 1
        assert all((store.buffers[number] == number).all() for number in taken)
        assert len(store.builds) >= 0 and len(store.buffers) <= store.capacity


def test_room_for_the_plan():
    store = make_store()
    store.reset()
    for n in (1, 5, 100):
        store.reserve(n)
        assert min(len(store.builds), len(store.subtracts)) >= 2 * n


@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_every_thread_has_its_own_scratch(n_threads):
    acc, partial, bounds, buffers = make_store(n_threads=n_threads).arrays
    assert len(acc) == n_threads
    assert not acc.any()
    assert len(bounds) == (1 if n_threads == 1 else jobs.SPARE_JOBS * n_threads) + 1
    assert len(partial) >= len(bounds) - 1
    assert partial.shape[2] == buffers.shape[1]
