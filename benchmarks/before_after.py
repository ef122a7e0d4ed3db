"""Two states of this project side by side: the same rows, in turns, in one process each.

    python benchmarks/before_after.py --before ../older/src --after src --threads 2

Seconds are the least of the repeats, ratios after / before. Noise is judged by the ratio of the medians beside it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import datasets


def make_rows(xgb, np, scale, threads):
    """Name -> (a function that does the work once, repeats)."""
    rng = np.random.default_rng(0)
    base = {"objective": "binary:logistic", "max_depth": 6, "nthread": threads, "verbosity": 0}

    def table(n, f, missing=0.0):
        X = rng.standard_normal((n, f), dtype=np.float32)
        y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n, dtype=np.float32) > 0).astype(np.float32)
        if missing:
            X[rng.random(X.shape) < missing] = np.nan
        return X, y

    def train(params, data, rounds):
        return lambda: xgb.train({**base, **params}, data, rounds)

    n = max(1000, int(1_000_000 * scale))
    big = xgb.DMatrix(*table(n, 28))
    small, tiny = xgb.DMatrix(*table(10_000, 50)), xgb.DMatrix(*table(1_000, 20))
    wide = xgb.DMatrix(*table(20_000, max(50, int(2000 * scale))))
    middle = xgb.DMatrix(*table(max(1000, n // 5), 28))
    codes = table(n // 5, 12)[0]
    codes[:, :4] = rng.integers(0, 60, (len(codes), 4))
    types = ["c"] * 4 + ["q"] * 8
    sets = xgb.DMatrix(codes, codes[:, 5] + np.sin(codes[:, 0]), feature_types=types, enable_categorical=True)
    several = table(max(1000, n // 10), 20)[0]
    targets = xgb.DMatrix(several, several[:, :8] + several[:, 1:9] ** 2)
    squared = {"objective": "reg:squarederror"}
    hot = np.zeros((n // 4, 100), np.float32)
    hot[np.arange(len(hot)), rng.integers(0, 100, len(hot))] = 1
    one_hot = xgb.DMatrix(hot, hot[:, :50].sum(axis=1) + 0.1 * rng.standard_normal(len(hot)))
    model, many = xgb.train(base, middle, 100), table(n, 28)[0]
    groups = xgb.DMatrix(table(max(1000, n // 20), 30)[0], rng.integers(0, 5, max(1000, n // 20)))
    groups.set_group([50] * (groups.num_row() // 50) + [groups.num_row() % 50] * (groups.num_row() % 50 > 0))
    row = many[:1]

    def serve_rows(calls=2000):
        for _ in range(calls):
            model.inplace_predict(row)

    return real_rows(xgb, train, scale) | {
        "predict one row, 2,000 times": (serve_rows, 9),
        f"train {n:,} x 28, 50 rounds": (train({}, big, 50), 5),
        "the same, lossguide, 31 leaves": (
            train({"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0}, big, 50),
            5,
        ),
        "the same, half of the rows": (train({"subsample": 0.5}, big, 50), 5),
        "train 10,000 x 50, 100 rounds": (train({}, small, 100), 9),
        "train 1,000 x 20, 100 rounds": (train({}, tiny, 100), 25),
        f"train 20,000 x {wide.num_col():,}, 10 rounds": (train({}, wide, 10), 3),
        "categories and numbers, 30 rounds": (train(squared, sets, 30), 5),
        "monotone, 30 rounds": (train({"monotone_constraints": (1, -1)}, middle, 30), 5),
        "columns by node, 30 rounds": (train({"colsample_bynode": 0.5}, middle, 30), 5),
        "one-hot columns, 30 rounds": (train(squared, one_hot, 30), 5),
        "8 targets, a tree for each, 10 rounds": (train(squared, targets, 10), 5),
        "8 targets, vector leaves, 10 rounds": (
            train({**squared, "multi_strategy": "multi_output_tree"}, targets, 10),
            5,
        ),
        "exact, 20 rounds": (train({"tree_method": "exact"}, middle, 20), 5),
        "approx, 20 rounds": (train({"tree_method": "approx"}, middle, 20), 5),
        "ranking, 30 rounds": (train({"objective": "rank:ndcg"}, groups, 30), 5),
        "DART, 40 rounds": (train({"booster": "dart", "rate_drop": 0.1}, small, 40), 5),
        f"predict {n:,} x 28, 100 trees": (lambda: model.inplace_predict(many), 5),
    }


def real_rows(xgb, train, scale):
    """The rows that need the real data sets, where these are at hand."""
    try:
        flights, covtype = datasets.load("flights_3m"), datasets.load("covtype")
    except datasets.DataUnavailable:
        return {}
    stop = int(3_000_000 * scale)
    delays = xgb.DMatrix(flights.X[:stop], flights.y[:stop])
    stop = int(581_012 * scale)
    cover = xgb.DMatrix(covtype.X[:stop], covtype.y[:stop])
    classes = {"objective": "multi:softprob", "num_class": 7}
    return {
        f"flights_3m, {delays.num_row():,} rows, 30 rounds": (train({}, delays, 30), 5),
        f"covtype, {cover.num_row():,} rows, 7 classes, 10 rounds": (train(classes, cover, 10), 5),
    }


def serve(scale, threads):
    """Do one repeat of the row that each line names, and print the seconds it took."""
    import numpy as np

    import arboost as xgb

    rows = make_rows(xgb, np, scale, threads)
    print(json.dumps({name: repeats for name, (_, repeats) in rows.items()}), flush=True)
    for line in sys.stdin:
        work = rows[json.loads(line)][0]
        began = time.perf_counter()
        work()
        print(time.perf_counter() - began, flush=True)


FIRST_FIT = """
import numpy as np, arboost as xgb
X = np.random.default_rng(0).standard_normal((10_000, 28), np.float32)
data = xgb.DMatrix(X, X[:, 0] > 0)
xgb.train({"objective": "binary:logistic", "verbosity": 0}, data, 10).predict(data)
"""


def cpu_of_first_fit(source, cache):
    """CPU seconds of a process that imports, trains and predicts, its kernels kept in `cache`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve()), "ARBOOST_CACHE_DIR": cache}
    process = subprocess.Popen([sys.executable, "-c", FIRST_FIT], env=environment, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the first fit of {source} failed")
    return usage.ru_utime + usage.ru_stime


def peak_memory(source, threads, scale):
    """MiB at the peak of a fit above its input: benchmarks/memory.py."""
    script = str(Path(__file__).with_name("memory.py"))
    command = [sys.executable, script, "--only", "arboost", "--threads", str(threads)]
    command += ["--rows", str(int(1_000_000 * scale)), "--rounds", "20"]
    environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])["bytes"] / 2**20


def compare_processes(options):
    """Rows for which every repeat is a process of its own."""
    sources, times = [options.before, options.after], {}
    for _ in range(options.starts):
        for i, source in enumerate(sources):
            with tempfile.TemporaryDirectory() as cache:
                for name in ("CPU s of the first fit ever", "CPU s of a process's first fit"):
                    times.setdefault(name, [[], []])[i].append(cpu_of_first_fit(source, cache))
            mib = peak_memory(source, options.threads, options.scale)
            times.setdefault("MiB at the peak of a fit", [[], []])[i].append(mib)
    print_rows(times)


class State:
    """One state of the project in a process of its own."""

    def __init__(self, source, options):
        environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
        command = [
            sys.executable,
            __file__,
            "--serve",
            "--scale",
            str(options.scale),
            "--threads",
            str(options.threads),
        ]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rows = json.loads(self._process.stdout.readline())

    def run(self, name):
        self._process.stdin.write(json.dumps(name) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="folder of the older source")
    parser.add_argument("--after", help="folder of the newer source")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="1: a million rows")
    parser.add_argument("--only", nargs="*", default=[""], help="words of which a row must have one")
    parser.add_argument("--processes", type=int, default=2, help="how often each state starts afresh: places differ")
    parser.add_argument("--starts", type=int, default=3, help="repeats of cold start and of peak memory")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.scale, options.threads)
        return
    print(f"{options.threads} threads\n\n| work | before | after | ratio | of medians |\n|---|---|---|---|---|")
    times: dict[str, list[list[float]]] = {}
    for turn in range(options.processes):
        sources = [options.before, options.after]
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        states = dict(zip(order, [State(sources[i], options) for i in order], strict=True))
        for name, repeats in states[0].rows.items():
            if any(word in name for word in options.only):
                run_in_turns(states, name, repeats, times.setdefault(name, [[], []]))
        for state in states.values():
            state.close()
    print_rows(times)
    compare_processes(options)


def print_rows(times):
    """A line of the table for every name -> (values before, values after)."""
    for name, found in times.items():
        least, median = [min(t) for t in found], [statistics.median(t) for t in found]
        ratios = f"{least[1] / least[0]:.3f} | {median[1] / median[0]:.3f}"
        print(f"| {name} | {least[0]:.4g} | {least[1]:.4g} | {ratios} |", flush=True)


def run_in_turns(states, name, repeats, times):
    """Add the seconds of both states, which take turns in going first."""
    for state in states.values():
        state.run(name)  # compiles, or loads
    for turn in range(repeats):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            times[i].append(states[i].run(name))


if __name__ == "__main__":
    main()
