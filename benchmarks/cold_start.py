"""Cold start: import; the first fit ever on a machine; the first fit of a new process and of a spawned worker.

Every measurement is a new process. "Ever" means an empty folder for compiled kernels (ARBOOST_CACHE_DIR, and
NUMBA_CACHE_DIR for chimeraboost); libraries that ship machine code have only the last column. The fit is 10,000 x 28,
10 rounds, depth 6; the time to import is not part of it. A worker is one of `multiprocessing`, spawned, on one thread.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import harness
from harness import ARBOOST, Claim, Sample

LIMITS = {
    "import": (1.0, 0.5),
    "first fit ever": (15.0, 8.0),
    "first fit of a process": (1.0, 0.4),
    "first fit of a worker": (0.4, 0.1),
}
COMPILES = {"arboost", "chimeraboost"}

CHILD = """
import json, sys, time
began = time.perf_counter()
import {module}
imported = time.perf_counter() - began
sys.path.insert(0, {folder!r})
import harness
peer = next(p for p in (harness.ARBOOST, *harness.PEERS) if p.name == {name!r})
X, y = harness.make_dense(10_000, 28)
began = time.perf_counter()
peer.fit(X, y, harness.Work(rounds=10, threads={threads}))
print(json.dumps([imported, time.perf_counter() - began]))
"""


def start(peer: harness.Peer, threads: int, cache: str) -> tuple[float, float]:
    """(seconds to import, seconds of the first fit) of a new process that keeps its kernels in `cache`."""
    module = "sklearn.ensemble" if peer.module == "sklearn" else peer.module
    folder = str(harness.ROOT / "benchmarks")
    code = CHILD.format(module=module, folder=folder, name=peer.name, threads=threads)
    environment = os.environ | {"ARBOOST_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache}
    run = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    imported, fitted = json.loads(run.stdout.splitlines()[-1])
    return imported, fitted


def start_worker(peer: harness.Peer, cache: str) -> float:
    """Seconds of the first fit of a spawned worker that keeps its kernels in `cache`."""
    os.environ |= {"ARBOOST_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_fit_first, (peer.name, peer.module))


def _fit_first(name: str, module: str) -> float:
    importlib.import_module("sklearn.ensemble" if module == "sklearn" else module)
    peer = next(each for each in (harness.ARBOOST, *harness.PEERS) if each.name == name)
    X, y = harness.make_dense(10_000, 28)
    began = time.perf_counter()
    peer.fit(X, y, harness.Work(rounds=10, threads=1))
    return time.perf_counter() - began


def main() -> None:
    options = harness.parse_options(__doc__, repeats=5)
    harness.print_start()
    columns: dict[str, list[Sample]] = {name: [] for name in LIMITS}
    rows = [("library", "version", *(f"{name} s" for name in LIMITS))]
    for peer in harness.choose_libraries(options.peers):
        if peer.name == "lightgbm quantized":
            continue
        with tempfile.TemporaryDirectory() as cache:
            _, ever = start(peer, options.threads, cache)
            warm = [start(peer, options.threads, cache) for _ in range(options.repeats)]
            workers = [start_worker(peer, cache) for _ in range(options.repeats)]
        values = {
            "import": [imported for imported, _ in warm],
            "first fit ever": [ever] if peer.name in COMPILES else [],
            "first fit of a process": [fitted for _, fitted in warm],
            "first fit of a worker": workers,
        }
        for name, seconds in values.items():
            if seconds:
                columns[name].append(Sample(peer.name, peer.version, seconds))
        cells = [f"{statistics.median(seconds):.2f}" if seconds else "-" for seconds in values.values()]
        rows.append((peer.name, peer.version, *cells))
    print("\ncold start, medians\n")
    harness.print_table(rows)
    for name, samples in columns.items():
        own = next((sample for sample in samples if sample.name == ARBOOST.name), None)
        harness.print_result(f"cold start: {name}", samples, options, _judge(name, own, options) if own else None)


def _judge(name: str, own: Sample, options: argparse.Namespace) -> dict[str, Any]:
    """The median in seconds against the limit in seconds."""
    verdict = harness.conclude(name, own.median, Claim(*LIMITS[name]), harness.find_doubts(options), unit=" s")
    print(f"  {verdict['text']}")
    return verdict


if __name__ == "__main__":
    main()
