"""Our own threads: one small pool per process, re-made in a forked child, the caller taking a share.

`run_tasks` runs a nogil kernel once per argument tuple. `Team` keeps workers inside one compiled kernel for a while, as
followers of the calling thread (`ops.team`). Workers sleep on raw locks: waking one and handing it the
GIL costs tens of microseconds, so work is split per set of nodes, never per node. While one thread uses the pool,
others work alone: always correct, and results never depend on how many threads there were.
"""

import _thread
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arboost.kernels.ops import team as words


class _Worker:
    """A sleeping thread with one mailbox: `give` wakes it, `wait` returns what it made."""

    def __init__(self) -> None:
        self._go = _thread.allocate_lock()
        self._done = _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._kernel: Callable = tuple
        self._tasks: Sequence[tuple] = ()
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self._dismissed = False
        _thread.start_new_thread(self._serve, ())

    def give(self, kernel: Callable, tasks: Sequence[tuple]) -> None:
        self._kernel, self._tasks = kernel, tasks
        self._go.release()

    def wait(self) -> list[Any]:
        self._done.acquire()
        self._kernel, self._tasks = tuple, ()  # keep no array alive
        results, self._results = self._results, []
        if self._error is not None:
            raise self._error
        return results

    def dismiss(self) -> None:
        """Let the thread end, after the work it may still have; nobody waits for that any more."""
        self._dismissed = True
        if self._go.locked():
            self._go.release()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            if self._dismissed:
                return
            try:
                self._results = [self._kernel(*args) for args in self._tasks]
            except BaseException as error:  # handed to the caller in wait()
                self._error = error
            self._done.release()


class _Pool:
    """The process's workers. `busy` is held during a run: whoever cannot take it works alone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.busy = _thread.allocate_lock()
        self.workers: list[_Worker] = []

    def take(self, n: int) -> list[_Worker]:
        while len(self.workers) < n:
            self.workers.append(_Worker())
        return self.workers[:n]


_pool = _Pool()


def _current_pool() -> _Pool:
    """This process's pool: threads do not survive a fork, so a child starts with none."""
    global _pool
    if _pool.pid != os.getpid():
        _pool = _Pool()
    return _pool


def _abandon(pool: _Pool) -> None:
    """Start afresh after an error or Ctrl-C: a worker of the old pool may still be at work, and ends after it."""
    global _pool
    for worker in pool.workers:
        worker.dismiss()
    pool.workers.clear()  # a thread that has just looked this pool up makes new ones
    if _pool is pool:
        _pool = _Pool()


def run_tasks(n_threads: int, kernel: Callable, tasks: Sequence[tuple]) -> list[Any]:
    """[kernel(*args) for args in tasks], spread over up to `n_threads` threads, results in task order."""
    n_threads = min(n_threads, len(tasks))
    if n_threads > 1:
        pool = _current_pool()
        if pool.busy.acquire(blocking=False):
            try:
                return _run_shared(pool.take(n_threads - 1), kernel, tasks)
            except BaseException:
                _abandon(pool)
                raise
            finally:
                pool.busy.release()
    return [kernel(*args) for args in tasks]


def _run_shared(workers: list[_Worker], kernel: Callable, tasks: Sequence[tuple]) -> list[Any]:
    share = [len(tasks) * i // (len(workers) + 1) for i in range(len(workers) + 2)]
    for i, worker in enumerate(workers, start=1):
        worker.give(kernel, tasks[share[i] : share[i + 1]])
    results = [kernel(*args) for args in tasks[: share[1]]]
    for worker in workers:
        results += worker.wait()
    return results


class Team:
    """The calling thread and followers inside one compiled kernel, from `start` to `stop`.

    The kernel is kernel(order, *args, team, thread, n_threads). Until it is started, and when the pool is taken, the
    caller is alone.
    """

    def __init__(self, n_threads: int, kernel: Callable):
        self._n_threads = n_threads
        self._kernel = kernel
        self._words = np.zeros(words.N_WORDS, np.int64)
        self._pool: _Pool | None = None
        self._workers: list[_Worker] = []

    def start(self, args: tuple) -> None:
        """Call followers in; they use these very arrays until `stop`."""
        pool = _current_pool()
        if self._n_threads > 1 and pool.busy.acquire(blocking=False):
            self._pool = pool
            for thread, worker in enumerate(pool.take(self._n_threads - 1), start=1):
                self._workers.append(worker)
                worker.give(self._follow, [(0, *args, self._words, thread, self._n_threads)])

    def _follow(self, *args: Any) -> None:
        """A follower's call; should it fail, nobody must wait for it."""
        try:
            self._kernel(*args)
        except BaseException:
            args[-3][words.ABORT] = 1  # the array it was given: ours may already be the next team's
            raise

    def order(self, order: int, args: tuple, alone: bool = False) -> None:
        """Carry out one order together with the followers, or alone."""
        n_threads = 1 if alone or self._pool is None else self._n_threads
        self._kernel(order, *args, self._words, 0, n_threads)
        if self._words[words.ABORT]:
            self.stop()  # raises what went wrong in a follower
            raise RuntimeError("a thread left a kernel before its end")

    def stop(self) -> bool:
        """Send the followers home, after an error too, when some may be waiting for the caller; False if alone."""
        pool, self._pool = self._pool, None
        workers, self._workers = self._workers, []
        if pool is None:
            return False
        team, self._words = self._words, np.zeros(words.N_WORDS, np.int64)
        try:
            team[words.ABORT] = 1
            for worker in workers:
                worker.wait()
        except BaseException:
            _abandon(pool)
            raise
        finally:
            pool.busy.release()
        return True


def split_range(n: int, n_parts: int, grain: int) -> list[tuple[int, int]]:
    """Cut range(n) into at most `n_parts` even (start, stop) spans of about `grain` items or more."""
    n_parts = max(1, min(n_parts, n // grain))
    return [(n * i // n_parts, n * (i + 1) // n_parts) for i in range(n_parts)]


def run_ranges(n_threads: int, n: int, grain: int, kernel: Callable, *args: Any) -> list[Any]:
    """Call kernel(*args, start, stop) over spans of range(n); serial when n is below two grains.

    Every thread more costs a wake-up, one after the other, and saves less than the one before: the sum is least at
    a number of threads that grows with the square root of the work.
    """
    if n_threads == 1 or n < 2 * grain:
        return [kernel(*args, 0, n)]
    spans = split_range(n, min(n_threads, 1 + int(1.6 * (n / grain) ** 0.5)), grain)
    return run_tasks(n_threads, kernel, [(*args, start, stop) for start, stop in spans])
