"""Building a matrix from a pandas frame: 1,000,000 rows, 50 columns of mixed types, categories among them.

Times are measured in turns in one process. Peak memory is measured in a process of its own for each library: make the
frame, build a matrix of a few rows to warm up, hand free memory back to the system, reset the kernel's high-water mark,
build. Reported is the peak of resident memory less what was resident before, also as a share of the frame's size.
Memory is Linux only: it needs /proc.
"""

import contextlib
import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from harness import ARBOOST, PEERS, Claim, Sample, interleave
from memory import CLEAR, STATUS, resident

MATRICES = ("DMatrix", "QuantileDMatrix")
LIBRARIES = ("arboost", "xgboost")
WARM_ROWS = 20_000
MUST_SHARE = 1.2  # of the frame's size, in extra memory


def make_frame(n_rows: int) -> Any:
    """15 float64, 10 float32, 6 int64, 4 int8, 5 bool, 4 nullable int32 and 6 categorical columns."""
    import pandas as pd

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"float64_{k}": rng.standard_normal(n_rows) for k in range(15)}
    columns |= {f"float32_{k}": rng.standard_normal(n_rows, np.float32) for k in range(10)}
    columns |= {f"int64_{k}": rng.integers(0, 1000, n_rows) for k in range(6)}
    columns |= {f"int8_{k}": rng.integers(-100, 100, n_rows).astype(np.int8) for k in range(4)}
    columns |= {f"bool_{k}": rng.random(n_rows) < 0.3 for k in range(5)}
    for k in range(4):
        values = rng.integers(0, 50, n_rows).astype(np.int32)
        columns[f"nullable_{k}"] = pd.arrays.IntegerArray(values, rng.random(n_rows) < 0.1)
    for k in range(6):
        names = [f"v{i}" for i in range(20 * (k + 1))]
        columns[f"category_{k}"] = pd.Categorical.from_codes(rng.integers(-1, len(names), n_rows), categories=names)
    return pd.DataFrame(columns)


def build(library: str, matrix: str, frame: Any, threads: int) -> Any:
    """The matrix, by the same call of either library."""
    module = __import__(library)
    return getattr(module, matrix)(frame, enable_categorical=True, nthread=threads)


def measure(library: str, matrix: str, n_rows: int, threads: int) -> dict[str, int]:
    """Bytes at the peak of building one matrix above those before it, and of the frame."""
    frame = make_frame(n_rows)
    size = int(frame.memory_usage(index=False).sum())
    build(library, matrix, frame[:WARM_ROWS], threads)
    build(library, matrix, frame[: n_rows // 4], threads)  # large frames may take another path
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # without glibc freed pages may count as resident for a while
        ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")
    before = resident("VmRSS")
    built = build(library, matrix, frame, threads)
    peak = resident("VmHWM")
    del built
    return {"bytes": peak - before, "size": size}


def time_builds(options: Any, matrix: str, frame: Any, libraries: list[str]) -> list[Sample]:
    """Seconds of building the matrix, the libraries in turns."""

    def run(library: str) -> Callable[[], None]:
        return lambda: build(library, matrix, frame, options.threads) and None

    for library in libraries:
        build(library, matrix, frame[:WARM_ROWS], options.threads)
        build(library, matrix, frame[: len(frame) // 4], options.threads)
    seconds = interleave({library: run(library) for library in libraries}, options.repeats)
    return [Sample(library, version_of(library), seconds[library]) for library in libraries]


def weigh_builds(options: Any, matrix: str, libraries: list[str]) -> tuple[list[Sample], int]:
    """Peak memory of each library in processes of its own, and the size of the frame."""
    samples, size = [], 0
    for library in libraries:
        command = [sys.executable, __file__, "--only", f"{library}:{matrix}", "--threads", str(options.threads)]
        command += ["--rows", str(options.rows)]
        values = []
        for _ in range(min(2, options.repeats)):
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            result = json.loads(run.stdout.splitlines()[-1])
            values.append(float(result["bytes"]))
            size = result["size"]
        samples.append(Sample(library, version_of(library), values))
    return samples, size


def version_of(library: str) -> str:
    return next(peer.version for peer in (ARBOOST, *PEERS) if peer.name == library)


def main() -> None:
    options = harness.parse_options(
        __doc__, rows=1_000_000, only=("", "library:matrix whose memory is measured in this process")
    )
    if options.only:
        library, matrix = options.only.split(":")
        print(json.dumps(measure(library, matrix, options.rows, options.threads)))
        return
    harness.print_start()
    installed = [peer.name for peer in harness.choose_libraries(options.peers) if peer.name in LIBRARIES]
    frame = make_frame(options.rows)
    sample_of = {matrix: time_builds(options, matrix, frame, installed) for matrix in MATRICES}
    del frame
    for matrix, samples in sample_of.items():
        title = f"{matrix} of a pandas frame, {options.rows:,} x 50 mixed columns"
        harness.report(title, samples, options, Claim(1.0, 0.5, ("xgboost",)), quality=None)
    if not STATUS.exists() or not CLEAR.exists():
        print("peak memory left out: this system has no /proc with a resettable high-water mark")
        return
    for matrix in MATRICES:
        samples, size = weigh_builds(options, matrix, installed)
        title = f"peak memory of a {matrix} above the frame ({size / 2**20:.0f} MiB)"
        harness.report(title, samples, options, unit="MiB", scale=2**-20, quality=None, timed=False)
        share = samples[0].least / size
        verdict = harness.conclude(
            "extra memory / size of the frame", share, Claim(MUST_SHARE, 0.6), harness.find_doubts(options, timed=False)
        )
        print(f"  {verdict['text']}\n")


if __name__ == "__main__":
    main()
