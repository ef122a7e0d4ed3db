"""Reading text files into a DMatrix: CSV of 6 and of 17 digits and of small integers, dense and sparse libsvm.

The files are written once to a temporary folder and read from the system's cache, by the libraries in turns.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import harness
from harness import ARBOOST, PEERS, Claim, Sample, interleave

LIBRARIES = ("arboost", "xgboost")


def csv_lines(table: np.ndarray, label: np.ndarray) -> str:
    return "".join(f"{y}," + ",".join(map(str, row)) + "\n" for y, row in zip(label.tolist(), table.tolist()))


def svm_lines(matrix: Any, label: np.ndarray) -> str:
    lines = []
    for i, y in enumerate(label.tolist()):
        span = slice(matrix.indptr[i], matrix.indptr[i + 1])
        entries = zip(matrix.indices[span].tolist(), matrix.data[span].tolist())
        lines.append(" ".join([str(y), *(f"{index}:{value}" for index, value in entries)]) + "\n")
    return "".join(lines)


def write_files(folder: Path, n_rows: int) -> dict[str, str]:
    """Title -> what to pass to DMatrix."""
    rng = np.random.default_rng(0)
    table, label = rng.standard_normal((n_rows, 20)), rng.integers(0, 2, n_rows)
    sparse = scipy.sparse.random(n_rows, 500, 0.04, "csr", random_state=rng)
    texts = {
        "CSV, 6 digits": csv_lines(np.round(table, 6), label),
        "CSV, 17 digits": csv_lines(table, label),
        "CSV, small integers": csv_lines(rng.integers(0, 100, table.shape), label),
        "libsvm, dense": svm_lines(scipy.sparse.csr_matrix(np.round(table, 6)), label),
        "libsvm, sparse": svm_lines(sparse, label),
    }
    names = {}
    for title, text in texts.items():
        path = folder / f"{len(names)}.txt"
        path.write_text(text)
        options = "format=csv&label_column=0" if title.startswith("CSV") else "format=libsvm"
        names[f"{title} ({len(text) / 1e6:.0f} MB)"] = f"{path}?{options}"
    return names


def read(library: str, name: str, threads: int) -> Callable[[], None]:
    module = __import__(library)
    return lambda: module.DMatrix(name, nthread=threads) and None


def main() -> None:
    options = harness.parse_options(__doc__, repeats=5, rows=100_000)
    harness.print_start()
    installed = [peer.name for peer in harness.choose_libraries(options.peers) if peer.name in LIBRARIES]
    if "xgboost" in installed:
        __import__("xgboost").set_config(verbosity=0)  # it advises against text files at every one
    version_of = {peer.name: peer.version for peer in (ARBOOST, *PEERS)}
    with tempfile.TemporaryDirectory() as folder:
        for title, name in write_files(Path(folder), options.rows).items():
            runs = {library: read(library, name, options.threads) for library in installed}
            for run in runs.values():
                run()
            seconds = interleave(runs, options.repeats)
            samples = [Sample(library, version_of[library], seconds[library]) for library in installed]
            harness.report(f"reading {title}", samples, options, Claim(1.0, 0.7, ("xgboost",)), quality=None)


if __name__ == "__main__":
    main()
