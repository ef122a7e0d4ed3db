"""Larger than memory: time and peak memory of training from disk, for data four times as large as the budget.

10,000,000 x 200 float32 (8 GB) in files of 125 MB, 10 rounds of depth 6, 256 bins, each run in a process of its own.
pages: ExtMemQuantileDMatrix within the budget, a quarter of the data. memory: the same iterator into a QuantileDMatrix,
whose bins fit this machine. xgboost: its ExtMemQuantileDMatrix. Then on a quarter of the rows what a second folder and
compression do, and how time grows with the number of pages. All of ours must give one model, byte for byte.
"""

import hashlib
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import harness
from arboost.demo.peers import xgboost_params
from harness import ARBOOST, PEERS, Claim, Sample, Work
from memory import CLEAR, STATUS, resident

PAGES = (1, 2, 4, 8, 16)
MAX_SECONDS = 7200  # of one run
LEAST_BUDGET = 1 << 28  # of small sizes, which tell nothing but that everything runs
Result = dict[str, Any]


# ---- one run, in a process of its own ----


def run_order(order: dict[str, Any]) -> Result:
    """Build the matrix and train, as the order says; seconds of both, peak of memory, and what came out."""
    xgb = importlib.import_module("xgboost" if order["kind"] == "xgboost" else "arboost")
    work = Work(rounds=order["rounds"], threads=order["threads"])
    test = load_part(order["test"])
    few = [{name: values[:2000] for name, values in test.items()}] * 2
    xgb.train(xgboost_params(work), make_matrix(xgb, order, few), 2)  # compile kernels, start threads
    CLEAR.write_text("5")
    before, start, cpu = resident("VmRSS"), time.perf_counter(), time.process_time()
    data = make_matrix(xgb, order, order["parts"])
    built = time.perf_counter()
    booster = xgb.train(xgboost_params(work), data, work.rounds)
    trained, peak = time.perf_counter(), resident("VmHWM") - before
    return {
        "build": built - start,
        "train": trained - built,
        "cpu": time.process_time() - cpu,
        "peak": peak,
        "disk": getattr(getattr(data, "_bins", None), "disk_bytes", 0),
        "quality": harness.logloss(booster.inplace_predict(test["data"]), test["label"]),
        "model": hashlib.sha256(booster.save_raw()).hexdigest(),
    }


def load_part(stem: str) -> dict[str, np.ndarray]:
    """A batch, from its two files."""
    return {name: np.load(f"{stem}.{name}.npy") for name in ("data", "label")}


def make_matrix(xgb: Any, order: dict[str, Any], parts: list[Any]) -> Any:
    """The matrix that is measured; parts are batches, or what their files are called."""
    options = {} if order["kind"] == "memory" else {"cache_prefix": order["cache"]}
    if order.get("page_bytes"):
        options["min_cache_page_bytes"] = order["page_bytes"]

    class Parts(xgb.DataIter):
        def __init__(self) -> None:
            self.at = 0
            super().__init__(**options)

        def reset(self) -> None:
            self.at = 0

        def next(self, input_data: Any) -> bool:
            if self.at == len(parts):
                return False
            part = parts[self.at]
            input_data(**load_part(part) if isinstance(part, str) else part)
            self.at += 1
            return True

    if not order.get("compress", True):
        importlib.import_module("arboost.matrix.store").find_codec = lambda: None
    shared = {"max_bin": 256, "nthread": order["threads"]}
    if order["kind"] == "memory":
        return xgb.QuantileDMatrix(Parts(), **shared)
    more = {"memory_budget": order["budget"]} if order.get("budget") else {}
    return xgb.ExtMemQuantileDMatrix(Parts(), **shared, **more)


# ---- the comparison ----


def make_files(
    folder: Path, n_rows: int, n_features: int, n_parts: int, has_repetitions: bool = False
) -> tuple[list[str], str]:
    """Rows in files, each drawn with a seed of its own; the last one is for testing."""
    sizes = np.diff(np.linspace(0, n_rows, n_parts + 1).astype(np.int64)).tolist()
    stems = []
    for k, size in enumerate([*sizes, max(2000, min(100_000, n_rows // 10))]):
        X, y = make_rows(size, n_features, k, has_repetitions)
        stems.append(str(folder / f"part{k}"))
        np.save(f"{stems[-1]}.data.npy", X)
        np.save(f"{stems[-1]}.label.npy", y)
    return stems[:-1], stems[-1]


def make_rows(n_rows: int, n_features: int, seed: int, has_repetitions: bool) -> tuple[np.ndarray, np.ndarray]:
    """Like `harness.make_dense`, the law being the same for every seed.

    With repetitions, without which nothing can be compressed: a quarter of the columns has about eight values, and half
    is 0 in nine rows of ten.
    """
    effects = np.random.default_rng(0).standard_normal(n_features).astype(np.float32)
    rng = np.random.default_rng(seed + 1)
    X = rng.standard_normal((n_rows, n_features), np.float32)
    if has_repetitions:
        quarter, half = n_features // 4, n_features // 2
        np.rint(X[:, quarter:half], out=X[:, quarter:half])
        X[:, half:][np.abs(X[:, half:]) < 1.645] = 0.0
    z = X @ effects * (1.5 / n_features**0.5) + X[:, 0] * X[:, 1] + np.abs(X[:, 2]) * X[:, 3]
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.float32)


def measure(order: dict[str, Any]) -> Result:
    """The result of an order, from a process of its own."""
    ran = subprocess.run(
        [sys.executable, __file__, "--order", json.dumps(order)],
        capture_output=True, text=True, timeout=MAX_SECONDS, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise SystemExit(f"{order['kind']} failed:\n{ran.stdout}\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def race(orders: dict[str, dict[str, Any]], repeats: int) -> dict[str, Result]:
    """The fastest run of each order, in turns; ours must be one model."""
    runs: dict[str, list[Result]] = {name: [] for name in orders}
    for _ in range(repeats):
        for name, order in orders.items():
            runs[name].append(measure(order))
            print(f"  {name}: {seconds_of(runs[name][-1]):.1f} s", flush=True)
    models = {run["model"] for name in runs if name != "xgboost" for run in runs[name]}
    if len(models) != 1:
        raise SystemExit("arboost's models differ between memory and pages")
    return {name: min(results, key=seconds_of) for name, results in runs.items()}


def seconds_of(run: Result) -> float:
    """Of building the matrix and training together."""
    return run["build"] + run["train"]


def print_runs(title: str, runs: dict[str, Result]) -> None:
    rows = [["run", "build s", "train s", "total s", "CPU s", "peak MiB", "on disk MiB", "test logloss"]]
    for name, run in runs.items():
        times = [f"{seconds:.2f}" for seconds in (run["build"], run["train"], seconds_of(run), run["cpu"])]
        sizes = [f"{run[key] / 2**20:,.0f}" for key in ("peak", "disk")]
        rows.append([name, *times, *sizes, f"{run['quality']:.5f}"])
    print(f"\n{title}\n")
    harness.print_table(rows)


def judge(title: str, runs: dict[str, Result], budget: int, options: Any) -> None:
    """Peak against the budget, time against memory and XGBoost; and the result lines."""
    doubts, pages = harness.find_doubts(options), runs["pages"]
    sizes = [doubt for doubt in doubts if doubt.startswith("not the claim's")]
    verdicts = [
        harness.conclude("peak memory / budget", pages["peak"] / budget, Claim(1.0, 1.0), sizes),
        harness.conclude("pages / memory", seconds_of(pages) / seconds_of(runs["memory"]), Claim(1.5, 1.5), doubts),
    ]
    if "xgboost" in runs:
        ratio = seconds_of(pages) / seconds_of(runs["xgboost"])
        verdicts.append(harness.conclude("pages / xgboost", ratio, Claim(0.5, 0.5), doubts, rival="xgboost"))
    peers = {peer.name: peer for peer in PEERS}
    samples = [
        Sample(name, peers.get(name, ARBOOST).version, [seconds_of(run)], run["quality"]) for name, run in runs.items()
    ]
    for verdict in verdicts:
        print(f"  {verdict['text']}")
    harness.print_result(title, samples, options, verdicts[-1])


def compare(folder: Path, options: Any) -> None:
    """Data of four budgets: on disk, in memory, and in XGBoost."""
    n_bytes = options.rows * options.features * 4
    budget = max(n_bytes // 4, LEAST_BUDGET)
    parts, test = make_files(folder, options.rows, options.features, options.parts)
    order = {"rounds": options.rounds, "threads": options.threads, "parts": parts, "test": test, "cache": f"{folder}/x"}
    orders = {
        "pages": order | {"kind": "pages", "budget": budget},
        "memory": order | {"kind": "memory"},
    }
    if any(peer.name == "xgboost" for peer in harness.choose_libraries(options.peers)):
        orders["xgboost"] = order | {"kind": "xgboost"}
    runs = race(orders, options.repeats)
    title = f"extmem {options.rows:,} x {options.features} ({n_bytes / 1e9:.1f} GB), {options.rounds} rounds"
    print_runs(f"{title}, budget {budget / 1e9:.2f} GB, {options.threads} threads", runs)
    judge(title, runs, budget, options)
    vary(folder, options, order | {"kind": "pages", "parts": parts[: max(1, options.parts // 4)]})


def vary(folder: Path, options: Any, order: dict[str, Any]) -> None:
    """A quarter of the rows: two folders, more and more pages; and on data with repetitions compression."""
    n_rows = options.rows // 4
    row_bytes = options.features + 8 * -(-options.features // 8)  # by columns, and by rows of whole words
    folders = [str(folder / name) for name in ("one/", "two/")]
    for name in folders:
        Path(name).mkdir()
    orders = {"memory": order | {"kind": "memory"}, "one folder": order, "two folders": order | {"cache": folders}}
    for n in PAGES:
        orders[f"{n} pages"] = order | {"page_bytes": -(-n_rows // n) * row_bytes}
    runs = race(orders, options.repeats)
    print_runs(f"a quarter of the rows ({n_rows:,}), pages of 16 MiB unless said, no budget for pages in memory", runs)
    place = folder / "repetitions"
    place.mkdir()
    parts, test = make_files(place, n_rows, options.features, len(order["parts"]), has_repetitions=True)
    order = order | {"parts": parts, "test": test}
    orders = {"memory": order | {"kind": "memory"}, "compressed": order, "not compressed": order | {"compress": False}}
    print_runs("the same with repetitions in three columns of four", race(orders, options.repeats))


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=1, rows=10_000_000, features=200, rounds=10, parts=64,
        order=("", "one run, in this process, as JSON"), folder=("", "where to put the data (default: temporary)"),
    )  # fmt: skip
    if not STATUS.exists() or not CLEAR.exists():
        raise SystemExit("cannot run: this system has no /proc with a resettable high-water mark")
    if options.order:
        print(json.dumps(run_order(json.loads(options.order))))
        return
    harness.print_start()
    with tempfile.TemporaryDirectory(prefix="arboost-extmem-", dir=options.folder or None) as folder:
        compare(Path(folder), options)


if __name__ == "__main__":
    main()
