"""How workers agree. Every worker calls the same methods in the same order, whatever its share of the rows.

Reductions combine integers or maxima, so the result cannot depend on the order of workers; floats are never summed.
`current` is the communicator of this thread: a process alone unless `using` says otherwise.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from arboost.runtime.errors import XGBoostError


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
