"""Allreduce of int64 between processes of this machine: arboost's sockets and MPI against XGBoost's rabit.

Sockets and rabit are timed in the same processes, in turns; MPI has processes of its own, by `mpirun`, for its waiting
processes take a core each. Printed are microseconds a call: the least median of the rounds. More processes than cores
(p = 4 on two cores) rank the ways; they are no forecast of a network.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

SIZES = {"8 B": 8, "100 KB": 100_000, "1 MB": 1_000_000, "4 MB": 4_000_000}
HOST = "127.0.0.1"


def time_calls(reduce: Callable[[np.ndarray], Any], n_bytes: int, n_calls: int) -> float:
    """The median microseconds of a call."""
    values, seconds = np.zeros(n_bytes // 8, np.int64), []
    for _ in range(n_calls):
        start = time.perf_counter()
        reduce(values)
        seconds.append(time.perf_counter() - start)
    return 1e6 * statistics.median(seconds)


def measure(ways: dict[str, Callable[[np.ndarray], Any]], rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """{way: {size: the least median}}, the ways in turns."""
    least: dict[str, dict[str, float]] = {way: dict.fromkeys(SIZES, float("inf")) for way in ways}
    for _ in range(rounds):
        for size, n_bytes in SIZES.items():
            for way, reduce in ways.items():
                found = time_calls(reduce, n_bytes, max(5, calls * 8 // (8 + n_bytes // 50_000)))
                least[way][size] = min(least[way][size], found)
    return least


def work(rank: int, pipe: Any, theirs: dict[str, Any] | None, rounds: int, calls: int) -> None:
    """A process of the group: it is a worker of both libraries."""
    from arboost import collective
    from arboost.runtime.comm import current

    listener = collective.Listener(HOST)
    pipe.send(listener.address)
    with collective.connect(rank, pipe.recv(), listener=listener):
        ways: dict[str, Callable[[np.ndarray], Any]] = {"arboost, sockets": current().allreduce_sum}
        if theirs is None:
            pipe.send(measure(ways, rounds, calls))
            return
        from xgboost import collective as rabit

        with rabit.CommunicatorContext(**theirs):
            ways["XGBoost, rabit"] = lambda values: rabit.allreduce(values, rabit.Op.SUM)
            pipe.send(measure(ways, rounds, calls))


def run_processes(n: int, rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """Sockets, and rabit where XGBoost is installed."""
    tracker = theirs = None
    with suppress(ImportError):
        from xgboost.tracker import RabitTracker

        tracker = RabitTracker(n, HOST)
        tracker.start()
        theirs = tracker.worker_args()
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(n)]
    for rank, (_, pipe) in enumerate(pipes):
        context.Process(target=work, args=(rank, pipe, theirs, rounds, calls)).start()
        pipe.close()
    addresses = [pipe.recv() for pipe, _ in pipes]
    for pipe, _ in pipes:
        pipe.send(addresses)
    found = [pipe.recv() for pipe, _ in pipes]
    if tracker is not None:
        tracker.wait_for()
    return found[0]


def run_mpi(n: int, options: list[str]) -> dict[str, dict[str, float]]:
    """MPI, where it is installed."""
    from child_process import MPI_LEAVE, find_mpirun

    mpirun = find_mpirun()
    if mpirun is None:
        print("left out: MPI (no mpirun)")
        return {}
    command = [mpirun, "-n", str(n), sys.executable, __file__, "--mpi", *options]
    ran = subprocess.run(command, env=os.environ | MPI_LEAVE, capture_output=True, text=True, check=False)
    if ran.returncode:
        print(f"left out: MPI\n{ran.stderr}")
        return {}
    found: dict[str, dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def be_mpi_worker(rounds: int, calls: int) -> None:
    from mpi4py import MPI

    from arboost import collective
    from arboost.runtime.comm import current

    with collective.CommunicatorContext(dmlc_communicator="mpi"):
        world = MPI.COMM_WORLD
        ways: dict[str, Callable[[np.ndarray], Any]] = {
            "arboost, MPI": current().allreduce_sum,
            "MPI itself": lambda values: world.Allreduce(MPI.IN_PLACE, values, MPI.SUM),
        }
        found = measure(ways, rounds, calls)
        if collective.get_rank() == 0:
            print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", default="2,4", help="numbers of processes (default 2,4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the best counts (default 5)")
    parser.add_argument(
        "--calls", type=int, default=400, help="calls of 8 bytes in a round, of more fewer (default 400)"
    )
    parser.add_argument("--mpi", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mpi:
        be_mpi_worker(options.rounds, options.calls)
        return
    print("allreduce of int64, microseconds a call\n")
    print(f"{'':24}" + "".join(f"{size:>10}" for size in SIZES))
    for n in map(int, options.workers.split(",")):
        found = run_processes(n, options.rounds, options.calls)
        found |= run_mpi(n, ["--rounds", str(options.rounds), "--calls", str(options.calls)])
        for way, times in found.items():
            print(f"p={n}  {way:<19}" + "".join(f"{times[size]:10.0f}" for size in SIZES), flush=True)


if __name__ == "__main__":
    main()
