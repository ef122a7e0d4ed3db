"""Our own threads: one small pool per process, re-made in a forked child, the caller taking a share.

`run_tasks` runs a nogil kernel once per argument tuple; `run_team` sends several threads through one kernel that has
barriers inside (kernels/cpu/team.py). A worker that has just worked waits for its next ticket in compiled code for a
moment, then sleeps on a lock: a call costs microseconds while work keeps coming, a wake-up otherwise. While one
thread uses the pool, others work alone: always correct, and results never depend on how many threads there were.
"""

import _thread
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arboost.kernels.cpu import team as words
from arboost.kernels.cpu.team import await_ticket

PATIENCE = 4_000  # looks for the next ticket before sleeping: 100 to 300 us
MAX_THREADS = 512
_ALONE = np.zeros(words.TICKETS, np.int64)


class _Worker:
    """A thread with one mailbox and a ticket word; worker numbers begin at 1, thread 0 is the caller."""

    def __init__(self, number: int, team: np.ndarray) -> None:
        self._number = number
        self._team = team
        self._ticket = words.TICKETS + words.LINE * number
        self._asleep = True
        self._go = _thread.allocate_lock()
        self._done = _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._kernel: Callable = tuple
        self._tasks: Sequence[tuple] = ()
        self._is_team = False
        self.results: list[Any] = []
        self.error: BaseException | None = None
        _thread.start_new_thread(self._serve, ())

    def give(self, kernel: Callable, tasks: Sequence[tuple], is_team: bool) -> None:
        """Hand over work; the GIL makes this and falling asleep (in `_serve`) exclude each other."""
        self._kernel, self._tasks, self._is_team = kernel, tasks, is_team
        self._team[self._ticket] += 1
        if self._asleep:
            self._asleep = False
            self._go.release()

    def wait(self) -> list[Any]:
        """What the tasks returned, once they are done."""
        self._done.acquire()
        results, self.results = self.results, []
        if self.error is not None:
            raise self.error
        return results

    def _serve(self) -> None:
        team, last = self._team, 0
        self._go.acquire()
        while True:
            last += 1
            self._work()
            if not await_ticket(team, self._number, last, PATIENCE) and team[self._ticket] == last:
                self._asleep = True
                self._go.acquire()

    def _work(self) -> None:
        kernel, tasks, is_team = self._kernel, self._tasks, self._is_team
        self._kernel, self._tasks = tuple, ()  # keep no array alive
        try:
            if is_team:
                kernel(*tasks[0])
                return
            self._team[words.TURN] += 1
            self.results = [kernel(*args) for args in tasks]
        except BaseException as error:  # handed to the caller
            self.error = error
            self._team[words.ABORT] = 1
        if not is_team:
            self._done.release()


class _Pool:
    """The process's workers. `busy` is held during a run: whoever cannot take it works alone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.busy = _thread.allocate_lock()
        self.team = np.zeros(words.TICKETS + words.LINE * MAX_THREADS, np.int64)
        self.workers: list[_Worker] = []

    def take(self, n: int) -> list[_Worker]:
        while len(self.workers) < n:
            self.workers.append(_Worker(len(self.workers) + 1, self.team))
        return self.workers[:n]


_pool = _Pool()


def _current_pool() -> _Pool:
    """This process's pool: threads do not survive a fork, so a child starts with none."""
    global _pool
    if _pool.pid != os.getpid():
        _pool = _Pool()
    return _pool


def _abandon(pool: _Pool) -> None:
    """Start afresh after an error or Ctrl-C: a worker of the old pool may still be at work, and sleeps after it."""
    global _pool
    pool.team[words.ABORT] = 1
    if _pool is pool:
        _pool = _Pool()


def run_tasks(n_threads: int, kernel: Callable, tasks: Sequence[tuple]) -> list[Any]:
    """[kernel(*args) for args in tasks], spread over up to `n_threads` threads, results in task order."""
    n_threads = min(n_threads, len(tasks), MAX_THREADS)
    if n_threads > 1:
        pool = _current_pool()
        if pool.busy.acquire(blocking=False):
            try:
                return _run_shared(pool, pool.take(n_threads - 1), kernel, tasks)
            except BaseException:
                _abandon(pool)
                raise
            finally:
                pool.busy.release()
    return [kernel(*args) for args in tasks]


def _run_shared(pool: _Pool, workers: list[_Worker], kernel: Callable, tasks: Sequence[tuple]) -> list[Any]:
    share = [len(tasks) * i // (len(workers) + 1) for i in range(len(workers) + 2)]
    pool.team[words.TURN] = 0
    for i, worker in enumerate(workers, start=1):
        worker.give(kernel, tasks[share[i] : share[i + 1]], False)
    pool.team[words.TURN] += 1
    results = [kernel(*args) for args in tasks[: share[1]]]
    for worker in workers:
        results += worker.wait()
    return results


def run_team(n_threads: int, kernel: Callable, *args: Any) -> None:
    """kernel(*args, patience, team, thread, n_threads) on `n_threads` threads at once; alone if the pool is taken."""
    n_threads = min(n_threads, MAX_THREADS)
    if n_threads > 1:
        pool = _current_pool()
        if pool.busy.acquire(blocking=False):
            try:
                _run_together(pool, pool.take(n_threads - 1), kernel, args, n_threads)
            except BaseException:
                _abandon(pool)
                raise
            finally:
                pool.busy.release()
            return
    kernel(*args, 0, _ALONE, 0, 1)


def _run_together(pool: _Pool, workers: list[_Worker], kernel: Callable, args: tuple, n_threads: int) -> None:
    pool.team[words.TURN] = 0
    for i, worker in enumerate(workers, start=1):
        worker.give(kernel, [(*args, PATIENCE, pool.team, i, n_threads)], True)
    kernel(*args, PATIENCE, pool.team, 0, n_threads)
    if pool.team[words.ABORT]:
        errors = [worker.error for worker in workers if worker.error is not None]
        raise errors[0] if errors else RuntimeError("a thread gave up in the middle of a kernel")


def split_range(n: int, n_parts: int, grain: int) -> list[tuple[int, int]]:
    """Cut range(n) into at most `n_parts` even (start, stop) spans of about `grain` items or more."""
    n_parts = max(1, min(n_parts, n // grain))
    return [(n * i // n_parts, n * (i + 1) // n_parts) for i in range(n_parts)]


def run_ranges(n_threads: int, n: int, grain: int, kernel: Callable, *args: Any) -> list[Any]:
    """Call kernel(*args, start, stop) over spans of range(n); serial when n is below two grains."""
    if n_threads == 1 or n < 2 * grain:
        return [kernel(*args, 0, n)]
    spans = split_range(n, n_threads, grain)
    return run_tasks(n_threads, kernel, [(*args, start, stop) for start, stop in spans])
