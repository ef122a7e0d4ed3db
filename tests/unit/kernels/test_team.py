"""Several threads in one kernel: barriers hold, errors let everyone go, and the next call works."""

import threading

import numba
import numpy as np
import pytest

from arboost.kernels.cpu import team as words
from arboost.kernels.cpu.team import barrier, enter, leave
from arboost.runtime import pool

THREADS = (1, 2, 3, 8)


@numba.njit(nogil=True)
def ring(values, rounds, patience, team, thread, n_threads):
    """Each round, every thread copies its neighbour's number plus one: right only if all wait for all."""
    enter(team, n_threads)
    for k in range(rounds):
        seen = values[k % 2, (thread + 1) % n_threads]
        values[(k + 1) % 2, thread] = seen + 1
        if barrier(team, n_threads):
            return
    leave(team, thread, n_threads, patience)


@pytest.mark.parametrize("n_threads", THREADS)
def test_nobody_passes_a_barrier_early(n_threads):
    for rounds in (1, 2, 50, 51):
        values = np.zeros((2, n_threads), np.int64)
        pool.run_team(n_threads, ring, values, rounds)
        assert values[rounds % 2].tolist() == [rounds] * n_threads


@pytest.mark.parametrize("n_threads", THREADS)
def test_teams_and_tasks_take_turns(n_threads):
    """Workers stay awake between calls of either kind, and teams of any size follow each other."""
    for i in range(30):
        size = 1 + i % n_threads
        values = np.zeros((2, size), np.int64)
        pool.run_team(size, ring, values, 3)
        assert values[1].tolist() == [3] * size
        assert pool.run_tasks(n_threads, pow, [(i, 2)] * 5) == [i * i] * 5


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_one_thread_frees_the_others(failing):
    def flaky(*args):
        if args[-2] == failing:
            raise ValueError("in one thread")
        ring(*args)

    for _ in range(3):
        with pytest.raises(ValueError, match="in one thread"):
            pool.run_team(3, flaky, np.zeros((2, 3), np.int64), 4)
    values = np.zeros((2, 3), np.int64)  # threads of a failed call may still write to its arrays for a moment
    pool.run_team(3, ring, values, 4)
    assert values[0].tolist() == [4] * 3


def test_a_call_that_was_given_up_returns():
    """Alone in a team of two whose other member never comes: ABORT ends the wait."""
    team = np.zeros(words.TICKETS + 2 * words.LINE, np.int64)
    team[words.ABORT] = 1
    ring(np.zeros((2, 2), np.int64), 5, 0, team, 0, 2)


def test_while_the_pool_is_busy_a_team_is_one_thread():
    seen = []

    def record(patience, team, thread, n_threads):
        seen.append((thread, n_threads))

    pool.run_tasks(2, lambda _: pool.run_team(4, record), [(0,), (1,)])
    assert seen == [(0, 1), (0, 1)]


def test_two_python_threads_at_once():
    failures = []

    def user(n_threads):
        for rounds in range(1, 60):
            values = np.zeros((2, n_threads), np.int64)
            width = []

            def call(*args, values=values, rounds=rounds, width=width):
                width.append(args[-1])
                ring(values, rounds, *args)

            pool.run_team(n_threads, call)
            if values[rounds % 2, : width[0]].tolist() != [rounds] * width[0]:
                failures.append((n_threads, rounds))

    users = [threading.Thread(target=user, args=(n,)) for n in (2, 3)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert not failures
