"""Workers that are threads of one process: what a cluster would do, without one."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from arboost.runtime.comm import Comm, using
from arboost.runtime.errors import WorkerError, XGBoostError


class ThreadComm:
    """One of the workers that are threads of this process.

    Workers that call different methods, or with different shapes, are told so instead of waiting for each other.
    """

    def __init__(self, group: "_Group", rank: int):
        self._group, self.rank, self.world_size = group, rank, len(group.given)

    @classmethod
    def make(cls, world_size: int, timeout: float = 600.0) -> "list[ThreadComm]":
        """The communicators of a group, one for each thread."""
        group = _Group(world_size, timeout)
        return [cls(group, rank) for rank in range(world_size)]

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind not in "iu":
            raise TypeError(f"workers add up integers, not {values.dtype}: sums of floats depend on their order")
        return self._reduce("allreduce_sum", values, np.add)

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        return self._reduce("allreduce_max", values, np.maximum)

    def _reduce(self, name: str, values: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
        kind = (name, values.shape, values.dtype.str)
        parts = self._group.exchange(self.rank, kind, values.copy())
        values[...] = ufunc.reduce(parts, axis=0)
        return values

    def allgather(self, data: bytes) -> list[bytes]:
        return self._group.exchange(self.rank, ("allgather",), data)

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        sent = self._group.exchange(self.rank, ("broadcast", root), data)[root]
        if sent is None:
            raise XGBoostError("nothing to broadcast: `data` is None on the worker that sends.")
        return sent

    def abort(self, reason: str) -> None:
        self._group.abort(f"worker {self.rank} gave up: {reason}")


class _Group:
    """Where the threads of a group meet."""

    def __init__(self, world_size: int, timeout: float):
        self.given: list[Any] = [None] * world_size
        self._kinds: list[tuple] = [()] * world_size
        self._barrier = threading.Barrier(world_size, timeout=timeout)
        self._reason = "a worker does not answer"
        self._lock = threading.Lock()

    def exchange(self, rank: int, kind: tuple, data: Any) -> list[Any]:
        """What all workers give, by rank; `kind` must be the same for all."""
        self.given[rank], self._kinds[rank] = data, kind
        self._wait()
        found, kinds = list(self.given), list(self._kinds)
        self._wait()  # nobody gives anything new before all have taken this
        if len(set(kinds)) > 1:
            raise WorkerError(f"workers are out of step: {', '.join(map(str, kinds))}")
        return found

    def _wait(self) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise WorkerError(self._reason) from None

    def abort(self, reason: str) -> None:
        """Break the barrier; the first reason stands, later ones only follow from it."""
        with self._lock:
            if not self._barrier.broken:
                self._reason = reason
                self._barrier.abort()


def run_workers(world_size: int, work: Callable[[Comm], Any], timeout: float = 600.0) -> list[Any]:
    """[work(comm) for every worker], each in a thread of its own.

    An error is raised when all have ended: the one that made the others give up.
    """
    comms = ThreadComm.make(world_size, timeout)
    results: list[Any] = [None] * world_size
    errors: list[BaseException] = []

    def run(comm: ThreadComm) -> None:
        try:
            with using(comm):
                results[comm.rank] = work(comm)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(comm,)) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, WorkerError))
    return results
