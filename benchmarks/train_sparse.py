"""Sparse data: time and peak memory of hist on 500,000 x 1,000 CSR, 1 % dense, 50 rounds; what sparsity saves.

one-hot: 10 categories of 100 levels, a 1 for each row's level and nothing else. random: as many entries, anywhere, of
any value, so that no features exclude each other. paper: what the sparsity-aware search saves over one that visits
every cell (Chen and Guestrin, KDD 2016, section 3.4 and figure 5: about 50 times on one-hot data): our own code on the
same one-hot data, once with absent entries, once with all zeros stored. Peak memory as in memory.py.
"""

import contextlib
import ctypes
import gc
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

import harness
from arboost.demo.peers import interleave
from harness import ARBOOST, PEERS, Claim, Peer, Sample, Work
from memory import CLEAR, STATUS, resident

RIVALS = ("xgboost", "lightgbm", "lightgbm quantized")
LEVELS = 100


def make_sparse(kind: str, n_rows: int, n_features: int, seed: int = 0) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """CSR float32 with n_features / 100 entries a row, and a label drawn from a logistic of what they say."""
    rng = np.random.default_rng(seed)
    n_groups = n_features // LEVELS
    columns = rng.integers(0, LEVELS, (n_rows, n_groups), np.int32) + LEVELS * np.arange(n_groups, dtype=np.int32)
    values = np.ones(columns.size, np.float32)
    if kind == "random":  # the same entries turned round by a number of each row's own: as sparse, but not exclusive
        columns = (columns * 7 + rng.integers(0, n_features, (n_rows, 1), np.int32)) % n_features
        values = rng.standard_normal(columns.size).astype(np.float32)
    effects = rng.standard_normal(n_features).astype(np.float32)
    score = (effects[columns] * values.reshape(columns.shape)).sum(axis=1) * 0.7
    label = (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(np.float32)
    row_ptr = np.arange(n_rows + 1) * n_groups
    matrix = scipy.sparse.csr_matrix((values, columns.reshape(-1), row_ptr), (n_rows, n_features))
    matrix.sum_duplicates()
    return matrix, label


def time_hist(kind: str, options: Any) -> None:
    """The race on one kind of data."""
    X, y = make_sparse(kind, options.rows + options.rows // 10, options.features)
    data, test = (X[: options.rows], y[: options.rows]), (X[options.rows :], y[options.rows :])
    libraries = [peer for peer in harness.choose_libraries(options.peers) if peer.name in ("arboost", *RIVALS)]
    work = Work(rounds=options.rounds, threads=options.threads)
    samples = harness.time_fits(libraries, data, test, work, options.repeats)
    shape = f"{options.rows:,} x {options.features} CSR, 1 % dense, {options.rounds} rounds"
    claim = Claim(0.8, 0.6, RIVALS) if kind == "one-hot" else None
    harness.report(f"train {kind} {shape}", samples, options, claim)


def measure(peer: Peer, kind: str, options: Any) -> int:
    """Bytes at the peak of one fit above those before it."""
    X, y = make_sparse(kind, options.rows, options.features)
    work = Work(rounds=options.rounds, threads=options.threads)
    peer.fit(X, y, replace(work, rounds=2))
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")
    before = resident("VmRSS")
    model = peer.fit(X, y, work)
    peak = resident("VmHWM")
    del model
    return peak - before


def compare_memory(kind: str, options: Any) -> None:
    """Peak memory of every library, each in a process of its own."""
    samples = []
    for peer in harness.choose_libraries(options.peers):
        if peer.name not in ("arboost", *RIVALS):
            continue
        command = [sys.executable, __file__, "--only", peer.name, "--kinds", kind, "--threads", str(options.threads)]
        command += ["--rows", str(options.rows), "--features", str(options.features), "--rounds", str(options.rounds)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        value = float(json.loads(run.stdout.splitlines()[-1])["bytes"])
        samples.append(Sample(peer.name, peer.version, [value]))
    title = f"peak memory above the input, {kind} {options.rows:,} x {options.features} CSR"
    claim = Claim(1.0, 0.7, RIVALS) if kind == "one-hot" else None
    harness.report(title, samples, options, claim, unit="MiB", scale=2**-20, quality=None, timed=False)


def time_basic(options: Any) -> None:
    """Sparsity-aware search against visiting every cell, both ours."""
    import arboost

    X, y = make_sparse("one-hot", options.paper_rows, options.paper_features)
    basic = X.toarray()  # every zero is a value, and is visited
    common = {"objective": "binary:logistic", "max_depth": 6, "nthread": options.threads, "verbosity": 0}
    for method in ("exact", "hist"):
        params = common | {"tree_method": method}
        cases = {"sparsity-aware": (X, params), "basic": (basic, params | {"enable_bundle": False})}
        data = {name: arboost.DMatrix(table, y) for name, (table, _) in cases.items()}
        for name, (_, given) in cases.items():
            arboost.train(given, data[name], 1)  # sorts or bins the columns: both are done once for all trees

        def run(name: str, given: dict[str, Any], data: dict[str, Any] = data) -> Any:
            return lambda: arboost.train(given, data[name], options.paper_rounds)

        seconds = interleave({name: run(name, given) for name, (_, given) in cases.items()}, options.repeats)
        samples = [Sample(name, "", values) for name, values in seconds.items()]
        saved = samples[1].least / samples[0].least
        title = f"{method}, one-hot {options.paper_rows:,} x {options.paper_features}: absent entries or stored zeros"
        harness.report(title, samples, options, quality=None)
        print(f"  the sparsity-aware search is {saved:.1f} times as fast\n")


def main() -> None:
    options = harness.parse_options(
        __doc__, rows=500_000, features=1000, rounds=50, paper_rows=10_000, paper_features=4000, paper_rounds=3,
        kinds=("one-hot,random", "kinds of data"), skip=("", "time, memory, paper: separated by commas"),
        only=("", "measure the memory of this library in this process"),
    )  # fmt: skip
    if options.only:
        peer = next(peer for peer in (ARBOOST, *PEERS) if peer.name == options.only)
        print(json.dumps({"bytes": measure(peer, options.kinds, options)}))
        return
    harness.print_start()
    skipped = options.skip.split(",")
    for kind in options.kinds.split(","):
        if "time" not in skipped:
            time_hist(kind, options)
        if "memory" not in skipped and STATUS.exists() and CLEAR.exists():
            compare_memory(kind, options)
    if "paper" not in skipped:
        time_basic(options)


if __name__ == "__main__":
    main()
