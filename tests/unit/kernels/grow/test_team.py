"""Several threads in one kernel: orders reach all, barriers hold, and whoever fails keeps nobody waiting."""

import threading

import numba
import numpy as np
import pytest

from arboost.kernels.cpu.grow.team import STOP, await_order, barrier, post
from arboost.runtime import pool
from arboost.runtime.pool import Team

THREADS = (1, 2, 3, 8)


@numba.njit(nogil=True)
def ring(order, values, team, thread, n_threads):
    """Order n: n times, every thread copies its neighbour's number plus one. Right only if all wait for all."""
    if thread == 0:
        post(team, order, n_threads)
    n_seen = order
    while True:
        if thread > 0:
            order = await_order(team, n_seen)
            n_seen += 1
        for k in range(order):
            values[(k + 1) % 2, thread] = values[k % 2, (thread + 1) % n_threads] + 1
            if barrier(team, n_threads):
                return
        if order == STOP or barrier(team, n_threads) or thread == 0:
            return


def make_values(n_threads=8):
    return np.zeros((2, n_threads), np.int64)


@pytest.mark.parametrize("n_threads", THREADS)
def test_orders_one_after_the_other(n_threads):
    values = make_values(n_threads)
    team = Team(n_threads, ring)
    for _ in range(5):
        team.start((values,))
        for n in (1, 2, 50, 51):
            values[:] = 0
            team.order(n, (values,))
            assert values[n % 2].tolist() == [n] * n_threads
        assert team.stop() == (n_threads > 1)
        assert pool.run_tasks(n_threads, pow, [(3, 2)] * 9) == [9] * 9


def test_an_order_for_the_leader_alone():
    """Followers sleep through it, and take the next one."""
    values = make_values(3)
    team = Team(3, ring)
    team.start((values,))
    for n in (4, 6):
        values[:] = 0
        team.order(n, (values,), alone=True)
        assert values[0].tolist() == [n, 0, 0]
        values[:] = 0
        team.order(n, (values,))
        assert values[0].tolist() == [n] * 3
    team.stop()


def test_before_the_start_and_after_the_end_the_leader_is_alone():
    values = make_values(2)
    team = Team(2, ring)
    team.order(2, (values,))
    assert values[0].tolist() == [2, 0]
    team.start((values,))
    assert team.stop()
    assert not team.stop()
    values[:] = 0
    team.order(2, (values,))
    assert values[0].tolist() == [2, 0]


def test_stopping_without_an_order():
    for _ in range(50):
        team = Team(3, ring)
        team.start((make_values(3),))
        assert team.stop()
    assert pool.run_tasks(3, abs, [(-1,)] * 3) == [1] * 3


@pytest.mark.parametrize("failing", [1, 2])
def test_a_follower_that_fails_frees_the_others(failing):
    def flaky(*args):
        if args[-2] == failing:
            raise ValueError("in one thread")
        ring(*args)

    for _ in range(3):
        team = Team(3, flaky)
        values = make_values(3)  # threads of a failed call may still write to its arrays for a moment
        team.start((values,))
        with pytest.raises((ValueError, RuntimeError)):
            team.order(4, (values,))
        team.stop()
    team, values = Team(3, ring), make_values(3)
    team.start((values,))
    team.order(4, (values,))
    team.stop()
    assert values[0].tolist() == [4] * 3


def test_a_leader_that_fails_can_send_the_others_home():
    def flaky(*args):
        if args[-2] == 0:
            raise KeyboardInterrupt
        ring(*args)

    team = Team(3, flaky)
    team.start((make_values(3),))
    with pytest.raises(KeyboardInterrupt):
        team.order(4, (make_values(3),))
    assert team.stop()
    assert pool.run_tasks(3, abs, [(-1,)] * 3) == [1] * 3


def test_while_the_pool_is_busy_a_team_is_one_thread():
    values = make_values(4)

    def work(_):
        team = Team(4, ring)
        team.start((values,))
        team.order(2, (values,))
        return team.stop()

    assert pool.run_tasks(2, work, [(0,), (1,)]) == [False, False]
    outer = Team(2, ring)
    outer.start((make_values(2),))
    assert work(0) is False
    assert outer.stop()


def test_two_python_threads_at_once():
    """One of them has the pool, the other works alone; both are right."""
    failures = []

    def user(n_threads):
        team, values = Team(n_threads, ring), make_values(n_threads)
        for n in range(1, 60):
            values[:] = 0
            team.start((values,))
            team.order(n, (values,))
            width = n_threads if team.stop() else 1
            if values[n % 2, :width].tolist() != [n] * width:
                failures.append((n_threads, n))

    users = [threading.Thread(target=user, args=(n,)) for n in (2, 3)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert not failures
