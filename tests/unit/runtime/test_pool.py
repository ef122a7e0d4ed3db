"""Our own threads: results in order, errors out, and no state that an error, a fork or a second user could spoil."""

import itertools
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.runtime import pool


def double(x):
    return 2 * x


def numbers(n):
    return [(i,) for i in range(n)]


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_tasks", [0, 1, 2, 7, 30])
def test_results_in_task_order(n_threads, n_tasks):
    assert pool.run_tasks(n_threads, double, numbers(n_tasks)) == [2 * i for i in range(n_tasks)]


def test_tasks_really_run_on_several_threads():
    """Both tasks wait for each other: alone, either would wait for ever."""
    meet = threading.Barrier(3, timeout=20)

    def work(_):
        meet.wait()
        return threading.get_ident()

    idents = pool.run_tasks(3, work, numbers(3))
    assert len(set(idents)) == 3
    assert idents[0] == threading.get_ident()  # the caller takes a share
    assert set(pool.run_tasks(3, work, numbers(3))) == set(idents)  # and the workers stay


@pytest.mark.parametrize("bad", [0, 1, 4, 5])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_errors_reach_the_caller_and_the_pool_lives_on(bad, error):
    def work(i):
        if i == bad:
            raise error("here")
        return i

    with pytest.raises(error, match="here"):
        pool.run_tasks(3, work, numbers(6))
    assert pool.run_tasks(3, double, numbers(6)) == [0, 2, 4, 6, 8, 10]


def test_after_an_error_nothing_of_it_comes_back():
    """A worker that is still busy when the caller fails must not hand its late results to the next run."""
    late = threading.Event()

    def work(i):
        if i == 0:
            raise ValueError
        late.wait(20)
        return "late"

    with pytest.raises(ValueError):
        pool.run_tasks(2, work, numbers(2))
    assert pool.run_tasks(2, double, numbers(4)) == [0, 2, 4, 6]
    late.set()
    assert pool.run_tasks(2, double, numbers(4)) == [0, 2, 4, 6]


def test_a_pool_that_was_abandoned_can_still_be_used(monkeypatch):
    """Another thread may have looked it up just before the error, and takes it just after."""
    old = pool._current_pool()

    def fail(_):
        raise ValueError

    with pytest.raises(ValueError):
        pool.run_tasks(3, fail, numbers(3))
    assert pool._current_pool() is not old
    monkeypatch.setattr(pool, "_pool", old)
    assert pool.run_tasks(3, double, numbers(5)) == [0, 2, 4, 6, 8]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux shows them")
def test_errors_leave_no_threads_behind():
    def fail(_):
        raise ValueError

    def n_threads():
        return len(os.listdir("/proc/self/task"))

    before = n_threads()
    for _ in range(20):
        with pytest.raises(ValueError):
            pool.run_tasks(3, fail, numbers(3))
    deadline = time.monotonic() + 5
    while n_threads() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert n_threads() <= before + 2


def test_a_task_may_use_the_pool():
    def outer(i):
        return pool.run_tasks(4, double, numbers(i))

    assert pool.run_tasks(3, outer, numbers(5)) == [[2 * j for j in range(i)] for i in range(5)]


def test_two_python_threads_at_once():
    failures = []

    def user(seed):
        for n in range(200):
            if pool.run_tasks(3, double, numbers(n % 9 + seed)) != [2 * i for i in range(n % 9 + seed)]:
                failures.append((seed, n))

    users = [threading.Thread(target=user, args=(seed,)) for seed in range(4)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_own_threads():
    """In a process of its own: forking the test runner would drag its threads and plugins along."""
    script = """
import os, threading
from arboost.runtime import pool
def work(i):
    meet.wait()
    return i
meet = threading.Barrier(2, timeout=20)
assert pool.run_tasks(2, work, [(0,), (1,)]) == [0, 1]
busy = threading.Event()
def keep_busy(i):
    busy.set()
    done.wait(20)
done = threading.Event()
user = threading.Thread(target=pool.run_tasks, args=(2, keep_busy, [(0,), (1,)]))
user.start()
busy.wait(20)
child = os.fork()  # while another thread holds the pool
if child == 0:
    meet = threading.Barrier(2, timeout=20)
    os._exit(0 if pool.run_tasks(2, work, [(0,), (1,)]) == [0, 1] else 1)
status = os.waitpid(child, 0)[1]
done.set()
user.join()
meet = threading.Barrier(2, timeout=20)
assert pool.run_tasks(2, work, [(0,), (1,)]) == [0, 1]
raise SystemExit(os.waitstatus_to_exitcode(status))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr


def test_arrays_are_not_kept_alive():
    import weakref

    class Data:
        pass

    def look(_):
        return None

    data = Data()
    pool.run_tasks(2, look, [(data,), (data,)])
    known = weakref.ref(data)
    del data
    assert known() is None


@given(st.integers(0, 1000), st.integers(1, 16), st.integers(1, 200))
def test_spans_cover_the_range_evenly(n, n_parts, grain):
    spans = pool.split_range(n, n_parts, grain)
    assert 1 <= len(spans) <= n_parts
    assert spans[0][0] == 0
    assert spans[-1][1] == n
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) - min(sizes) <= 1
    assert len(spans) == 1 or min(sizes) >= grain


def span(base, start, stop):
    return (base, start, stop)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_ranges(n_threads):
    found = pool.run_ranges(n_threads, 100, 10, span, "x")
    assert [(a, b) for _, a, b in found] == pool.split_range(100, n_threads, 10)
    assert pool.run_ranges(n_threads, 19, 10, span, "x") == [("x", 0, 19)]  # below two grains: serial
    assert pool.run_ranges(n_threads, 0, 10, span, "x") == [("x", 0, 0)]
