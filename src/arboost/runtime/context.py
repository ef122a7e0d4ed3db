"""What a training or prediction call runs with: device, threads, seed, communicator, verbosity."""

import functools
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arboost.runtime import cgroups, pool, settings
from arboost.runtime import comm as comms
from arboost.runtime.comm import Comm, LocalComm
from arboost.runtime.errors import XGBoostError

MIN_THREAD_LIMIT = 64  # threads that may be asked for on any machine, tests of few cores included


@dataclass(frozen=True)
class Context:
    """Carried by every engine call instead of globals."""

    n_threads: int = 1
    device: str = "cpu"
    seed: int = 0
    verbosity: int = 1
    comm: Comm = field(default_factory=comms.current)

    @property
    def is_alone(self) -> bool:
        """Whether all rows are here: what this process has sorted or bundled holds for the whole data."""
        return self.comm.world_size == 1

    @property
    def is_on_cpu(self) -> bool:
        """Whether no other device was asked for, or it has been left."""
        return self.device == "cpu"

    def leave_device(self, reason: str) -> "Context":
        """The same on the CPU, after a warning, where there is a reason and a device that was asked for."""
        if not reason or self.is_on_cpu:
            return self
        settings.warn(f"device={self.device!r} has no {reason} yet: this training runs on the CPU, to the same model.")
        return replace(self, device="cpu")

    def alone(self) -> "Context":
        """The same for work on rows that have been gathered: no other worker is asked."""
        return self if self.is_alone else replace(self, comm=LocalComm())

    def refuse_workers(self, what: str, advice: str) -> None:
        """Raise XGBoostError, on every worker, where `what` needs all rows on one machine and there are others."""
        if not self.is_alone:
            raise XGBoostError(f"{what} is not for several workers, there are {self.comm.world_size}: {advice}")

    def run_ranges(self, n: int, grain: int, kernel: Callable, *args: Any) -> list[Any]:
        """kernel(*args, start, stop) over spans of range(n) on this context's threads."""
        return pool.run_ranges(self.n_threads, n, grain, kernel, *args)

    def run_tasks(self, kernel: Callable, tasks: list[tuple]) -> list[Any]:
        """kernel(*args) for args in tasks on this context's threads."""
        return pool.run_tasks(self.n_threads, kernel, tasks)


def resolve_threads(requested: int | None) -> int:
    """A thread count from the user's `nthread`: None, 0 and negative mean all that this process may use.

    Threads beyond the cores only take memory and turns, so there is a limit far above what anybody has cores for.
    """
    if requested is None:
        return available_threads()
    if isinstance(requested, bool) or not isinstance(requested, numbers.Integral):
        raise XGBoostError(f"nthread is a whole number of threads, got {requested!r}.")
    if requested <= 0:
        return available_threads()
    most = max(MIN_THREAD_LIMIT, 2 * available_threads())
    if requested > most:
        settings.warn(f"nthread is {requested}; {most} threads are used: this process has {available_threads()} cores.")
    return min(int(requested), most)


@functools.cache
def available_threads() -> int:
    """Cores this process may use: CPU affinity and the cgroup's quota, not the host's core count."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        cores = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, quota)) if quota else max(1, cores)


def _cgroup_quota() -> int | None:
    """Whole cores granted by the CPU controller, rounded up; None if unlimited."""
    granted = [quota for quota in map(_quota, cgroups.folders("cpu")) if quota]
    return min(granted) if granted else None


def _quota(folder: Path) -> int | None:
    """What one control group grants (cgroup v2, or v1)."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            return None if quota in ("max", "-1") else -(-int(quota) // int(period))
        except (OSError, ValueError):
            continue
    return None
