"""Our own threads: one small pool per process, re-made in a forked child, the caller taking a share.

`run_tasks` is the only entry: it runs a nogil kernel once per argument tuple. Work is handed over through raw
locks (a wake-up costs tens of microseconds), so callers split work per set of nodes, never per node, and state the
grain below which they stay serial. While one thread uses the pool, others work alone: always correct.
"""

import _thread
import os
from collections.abc import Callable, Sequence
from typing import Any


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

    def _serve(self) -> None:
        while True:
            self._go.acquire()
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


def _abandon(pool: _Pool) -> None:
    """Start afresh after an error or Ctrl-C: a worker of the old pool may still be at work, and sleeps after it."""
    global _pool
    if _pool is pool:
        _pool = _Pool()


def _run_shared(workers: list[_Worker], kernel: Callable, tasks: Sequence[tuple]) -> list[Any]:
    share = [len(tasks) * i // (len(workers) + 1) for i in range(len(workers) + 2)]
    for i, worker in enumerate(workers, start=1):
        worker.give(kernel, tasks[share[i] : share[i + 1]])
    results = [kernel(*args) for args in tasks[: share[1]]]
    for worker in workers:
        results += worker.wait()
    return results


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
