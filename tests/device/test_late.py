"""A simulated device does what it is asked as late as it may: who does not wait is found out."""

import numpy as np
import pytest

import device_cases as cases
from arboost.kernels.gpu import binning
from arboost.kernels.gpu.jit import cuda
from arboost.runtime.device import device

pytestmark = pytest.mark.skipif(cases.IS_REAL, reason="a real device is mostly in time")
N = 40


@pytest.fixture
def here():
    here = device("cuda")
    here.use()
    here.wait()
    return here


def pinned(here, value):
    array = here.pinned(N, np.int64)
    array[:] = value
    return array


def test_copies_to_the_host_arrive_when_it_waits(here):
    there, event, later = here.upload(np.arange(N)), here.make_event(), here.make_event()
    found, other = pinned(here, -1), pinned(here, -1)
    here.copy_later(there, found)
    here.mark(event)
    here.run(binning.clear, there)
    here.copy_later(there, other)
    here.mark(later)
    assert (found == -1).all()
    event.synchronize()
    np.testing.assert_array_equal(found, np.arange(N))
    assert (other == -1).all()
    later.synchronize()
    assert not other.any()


def test_copies_to_the_device_take_what_is_there_when_they_are_made(here):
    stream, source = cuda.stream(), pinned(here, 1)
    there = here.empty(N, np.int64)
    there.copy_to_device(source, stream=stream)
    source[:] = 2  # too early
    stream.synchronize()
    assert (there.copy_to_host() == 2).all()


def test_streams_wait_for_the_default_one_alone(here):
    first, second = cuda.stream(), cuda.stream()
    there, others = here.upload(np.arange(N)), here.upload(np.arange(N))
    found, other = pinned(here, -1), pinned(here, -1)
    others.copy_to_host(other, stream=second)
    there.copy_to_host(found, stream=first)
    first.synchronize()
    np.testing.assert_array_equal(found, np.arange(N))
    assert (other == -1).all()
    here.run(
        binning.clear, there
    )  # by the default stream: after what the second was asked for, before what the first is
    there.copy_to_host(found, stream=first)
    first.synchronize()
    assert not found.any()
    np.testing.assert_array_equal(other, np.arange(N))


def test_copies_that_wait_come_after_all_work(here):
    there = here.upload(np.arange(N))
    here.run(binning.clear, there)
    assert not there.copy_to_host().any()
    here.run(binning.clear, there)
    there.copy_to_device(np.arange(N))
    np.testing.assert_array_equal(there.copy_to_host(), np.arange(N))
