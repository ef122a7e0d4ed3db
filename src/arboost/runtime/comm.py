"""How workers agree. Every worker calls the same methods in the same order, whatever its share of the rows.

Reductions combine integers or maxima, so the result cannot depend on the order of workers; floats are never summed.
`current` is the communicator of this thread: a process alone unless `using` says otherwise.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from arboost.runtime.errors import WorkerError, XGBoostError


class Comm(Protocol):
    """A group of workers training one model together.

    Arrays are C-contiguous and of the same shape and type on all workers. Reductions write the result into the array
    they are given and return it.
    """

    rank: int
    world_size: int

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        """Element-wise sum over workers of integers, in place."""

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        """Element-wise maximum over workers of integers or floats without NaN, in place."""

    def allgather(self, data: bytes) -> list[bytes]:
        """What every worker gave, by rank; lengths may differ."""

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """What worker `root` gave; the others' is not looked at."""

    def abort(self, reason: str) -> None:
        """This worker gives up: the others' next call raises WorkerError with the reason."""


class LocalComm:
    """One process alone: every reduction is the identity."""

    rank = 0
    world_size = 1

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        return values

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        return values

    def allgather(self, data: bytes) -> list[bytes]:
        return [data]

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        if data is None:
            raise XGBoostError("nothing to broadcast: `data` is None on the worker that sends.")
        return data

    def abort(self, reason: str) -> None:
        """Nobody else to tell."""


class ThreadComm:
    """Workers that are threads of one process: for tests, and to see what a cluster would do.

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


def rows_before(comm: Comm, n_rows: int) -> int:
    """Rows of the workers with a lower rank: where the ids of this worker's rows begin."""
    counts = [int.from_bytes(data, "little") for data in comm.allgather(n_rows.to_bytes(8, "little"))]
    return sum(counts[: comm.rank])


class Run(NamedTuple):
    """Rows start..stop of a worker; the id of row i among the rows of all workers is i + offset.

    A worker's runs cover its rows, and ids ascend with the rows: an offset is never negative.
    """

    start: int
    stop: int
    offset: int


Runs = Sequence[Run]


def locate(comm: Comm, n_rows: int, runs: Runs | None) -> Runs:
    """Where this worker's rows lie among those of all: as `runs` say, else behind the rows of all lower ranks.

    All workers have runs, or none.
    """
    return runs if runs is not None else [Run(0, n_rows, rows_before(comm, n_rows))]


def turns(comm: Comm, runs: Runs) -> list[tuple[int, int, int]]:
    """(rank, start, stop) of the runs of all workers, by the ids of their rows."""
    every = [
        np.frombuffer(data, np.int64).reshape(-1, 3).tolist()
        for data in comm.allgather(np.array(runs, np.int64).tobytes())
    ]
    found = [(start + offset, rank, start, stop) for rank, own in enumerate(every) for start, stop, offset in own]
    return [(rank, start, stop) for _, rank, start, stop in sorted(found)]


def gather_rows(comm: Comm, rows: np.ndarray, runs: Runs | None = None) -> np.ndarray:
    """The rows of all workers as one machine would hold them: as `runs` say, else those of rank 0 first.

    Alone, the very array.
    """
    if comm.world_size == 1:
        return rows
    parts: list[bytes | memoryview] = list(comm.allgather(np.ascontiguousarray(rows).tobytes()))
    if runs is not None:
        size = rows.dtype.itemsize * math.prod(rows.shape[1:])
        parts = [memoryview(parts[rank])[start * size : stop * size] for rank, start, stop in turns(comm, runs)]
    return np.frombuffer(bytearray().join(parts), rows.dtype).reshape(-1, *rows.shape[1:])


def in_turn(comm: Comm, values: np.ndarray, work: Callable[[np.ndarray, int, int], None], runs: Runs) -> np.ndarray:
    """`values` after work(values, start, stop), which changes them in place, of one run after the other of all workers.

    For what has an order: sums of floats that go on where the rows before have stopped.
    """
    for rank, start, stop in turns(comm, runs):
        if rank == comm.rank:
            work(values, start, stop)
        values[...] = np.frombuffer(comm.broadcast(values.tobytes(), rank), values.dtype).reshape(values.shape)
    return values


class _Current(threading.local):
    comm: Comm | None = None


_local = _Current()
_alone = LocalComm()


def current() -> Comm:
    """The communicator of this thread."""
    return _local.comm or _alone


def set_current(comm: Comm | None) -> None:
    """Let this thread be a worker from now on; None: alone again. For a block there is `using`."""
    _local.comm = comm


@contextmanager
def using(comm: Comm) -> Iterator[None]:
    """Let this thread be a worker for the length of a block; an error in it is told to the other workers."""
    before, _local.comm = _local.comm, comm
    try:
        yield
    except BaseException as error:
        comm.abort(f"{type(error).__name__}: {error}")
        raise
    finally:
        _local.comm = before


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
