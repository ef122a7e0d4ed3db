"""Peak memory of a fit above its input: 1,000,000 x 28 float32, depth 6, 256 bins.

Each library runs in a process of its own: make the data, import, fit two rounds to warm up, hand free memory back to
the system, reset the kernel's high-water mark, fit. Reported is the peak of resident memory less what was resident
before; what a library keeps from its first fit for the next does not count. Linux only: it needs /proc.
"""

import contextlib
import ctypes
import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import harness
from harness import ARBOOST, PEERS, Claim, Peer, Sample, Work

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (the highest since the reset), in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def measure(peer: Peer, n_rows: int, n_features: int, work: Work) -> int:
    """Bytes at the peak of one fit above those before it."""
    X, y = harness.make_dense(n_rows, n_features)
    peer.fit(X, y, replace(work, rounds=2))
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # without glibc freed pages may count as resident for a while
        ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")
    before = resident("VmRSS")
    model = peer.fit(X, y, work)
    peak = resident("VmHWM")
    del model
    return peak - before


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=2, rows=1_000_000, features=28, rounds=100, only=("", "measure this library in this process")
    )
    if not STATUS.exists() or not CLEAR.exists():
        raise SystemExit("cannot run: this system has no /proc with a resettable high-water mark")
    work = Work(rounds=options.rounds, threads=options.threads)
    if options.only:
        peer = next(peer for peer in (ARBOOST, *PEERS) if peer.name == options.only)
        print(json.dumps({"bytes": measure(peer, options.rows, options.features, work)}))
        return

    harness.print_start()
    samples = []
    for peer in harness.choose_libraries(options.peers):
        command = [sys.executable, __file__, "--only", peer.name, "--threads", str(options.threads)]
        command += ["--rows", str(options.rows), "--features", str(options.features), "--rounds", str(options.rounds)]
        runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(options.repeats)]
        values = [json.loads(run.stdout.splitlines()[-1])["bytes"] for run in runs]
        samples.append(Sample(peer.name, peer.version, [float(value) for value in values]))
    size = options.rows * options.features * 4 / 2**20
    title = f"peak memory above the input ({size:.0f} MiB), {options.rows:,} x {options.features}, depth 6"
    claim = Claim(1.0, 0.5, ("lightgbm", "lightgbm quantized"))
    harness.report(title, samples, options, claim, unit="MiB", scale=2**-20, quality=None, timed=False)


if __name__ == "__main__":
    main()
