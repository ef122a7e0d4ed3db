"""Training on a Dask cluster of 1, 2 and 4 worker processes of this machine, against xgboost.dask and lightgbm.dask.

The data, 1,000,000 x 28 float32 in four partitions per worker, is made by the workers and lies there before the clock
starts; timed is everything from the matrix to the model. Libraries take turns. More processes than cores share them:
what counts then is the ranking. Of arboost also the share of time in collective calls, and the bytes sent for a tree.
From these, and from arboost's time on an eighth of the rows, follows a model of the time of a tree on 10, 100 and 1,000
machines with a network of 10 Gbit/s: see docs/scaling.md.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import harness
from arboost.demo.tour import print_table
from harness import Claim, Sample

BANDWIDTH = 10e9 / 8  # bytes a second, each way
NETWORK_LATENCY = 50e-6  # seconds for a message between two machines of a data centre, beside what it takes here
MESH_LIMIT = 32  # workers that are all connected to each other (runtime/sockets.py)
PARTS = 4  # partitions of a worker
LIBRARIES = ("arboost", "xgboost", "lightgbm")


@dataclass
class Measured:
    """arboost on some workers."""

    seconds: float  # of a tree on the slowest worker
    talking: float  # of it, in collective calls
    n_bytes: float  # sent for a tree by one worker
    n_calls: float  # collective calls for a tree
    setup: float  # seconds for the bins, once
    setup_bytes: float  # sent for the bins by one worker, once


def make_part(rows: int, features: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Partition `number`: the same function of the features in all of them."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((rows, features)).astype(np.float32)
    z = X @ np.random.default_rng(99).standard_normal(features) * 0.3 + X[:, 0] * X[:, 1] + np.abs(X[:, 6]) * X[:, 7]
    return X, (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(np.float32)


def make_data(client: Any, rows: int, features: int, n_workers: int) -> tuple[Any, Any]:
    """Dask arrays, each worker's partitions made on it."""
    import dask.array as da

    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    size = rows // (n_workers * PARTS)
    X, y = [], []
    for number in range(n_workers * PARTS):
        at = {"workers": [workers[number // PARTS]], "pure": False}
        part = client.submit(make_part, size, features, number, **at)
        X.append(da.from_delayed(client.submit(lambda p: p[0], part, **at), (size, features), np.float32))
        y.append(da.from_delayed(client.submit(lambda p: p[1], part, **at), (size,), np.float32))
    return client.persist([da.concatenate(X), da.concatenate(y)])


def fit_arboost(client: Any, X: Any, y: Any, params: dict[str, Any], rounds: int) -> Any:
    """The training's outcome: model and traffic."""
    from arboost import dask as dxgb
    from arboost.config import get_config
    from arboost.dask.cluster import run_training

    dtrain = dxgb.DaskQuantileDMatrix(client, X, y)
    options = dict.fromkeys(("obj", "early_stopping_rounds", "xgb_model", "verbose_eval", "callbacks", "custom_metric"))
    return client.sync(run_training, client, params, dtrain, rounds, None, None, get_config(), **options)


def fit_xgboost(client: Any, X: Any, y: Any, params: dict[str, Any], rounds: int) -> Any:
    from xgboost import dask as dxgb

    return dxgb.train(client, params, dxgb.DaskQuantileDMatrix(client, X, y), rounds, verbose_eval=False)


def fit_lightgbm(client: Any, X: Any, y: Any, params: dict[str, Any], rounds: int) -> Any:
    from lightgbm import DaskLGBMClassifier

    # with min_child_samples=0, as elsewhere, LightGBM 4.7 on two workers stops in a check of its own (left_count > 0)
    model = DaskLGBMClassifier(
        client=client, n_estimators=rounds, max_depth=params["max_depth"], num_leaves=2 ** params["max_depth"],
        learning_rate=params["eta"], max_bin=255, reg_lambda=1.0, min_child_weight=1.0, min_child_samples=1,
        tree_learner="data", verbosity=-1, n_jobs=params["nthread"],
    )  # fmt: skip
    return model.fit(X, y)


FITS: dict[str, Callable] = {"arboost": fit_arboost, "xgboost": fit_xgboost, "lightgbm": fit_lightgbm}


def compare(n_workers: int, libraries: list[str], options: Any) -> tuple[list[Sample], Measured]:
    """All libraries on a cluster of so many workers, in turns."""
    import distributed

    params = {"objective": "binary:logistic", "max_depth": options.depth, "eta": 0.1, "nthread": 1, "verbosity": 0}
    samples = {name: Sample(name, __import__(name).__version__) for name in libraries}
    found: list[Measured] = []
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        X, y = make_data(client, options.rows, options.features, n_workers)
        few = make_data(client, 2000 * n_workers, options.features, n_workers)
        distributed.wait([X, y, *few])
        for name in libraries:
            FITS[name](client, *few, params, 2)  # kernels are loaded, threads are started
        for turn in range(options.repeats):
            for name in libraries if turn % 2 == 0 else libraries[::-1]:
                began = time.perf_counter()
                model = FITS[name](client, X, y, params, options.rounds)
                samples[name].values.append(time.perf_counter() - began)
                if name == "arboost":
                    found.append(measured(model.costs, options.rounds))
    return list(samples.values()), min(found, key=lambda one: one.seconds)


def measured(costs: list[dict[str, dict[str, float]]], rounds: int) -> Measured:
    """What a run says of one tree; of the time in calls that of the worker which waited least for others."""
    boosting, binning = ([one[what] for one in costs] for what in ("rounds", "matrices"))
    return Measured(
        seconds=max(one["elapsed"] for one in boosting) / rounds,
        talking=min(one["seconds"] for one in boosting) / rounds,
        n_bytes=float(np.mean([one["bytes_sent"] for one in boosting])) / rounds,
        n_calls=max(one["calls"] for one in boosting) / rounds,
        setup=max(one["elapsed"] for one in binning),
        setup_bytes=float(np.mean([one["bytes_sent"] for one in binning])),
    )


def tree_seconds(n_machines: int, rows: float, fixed: float, per_row: float, n_bytes: float, n_calls: float) -> tuple:
    """(computing, talking) of a tree on machines that have so many rows each.

    `n_bytes` are those of the histograms of a tree, which do not depend on rows or machines.
    """
    steps = 2 if n_machines <= MESH_LIMIT else 2 * math.ceil(math.log2(n_machines))
    sent = 2 * n_bytes * (n_machines - 1) / n_machines
    return fixed + per_row * rows, sent / BANDWIDTH + n_calls * steps * NETWORK_LATENCY


def print_model(rows: int, whole: Measured, part: Measured, pair: Measured) -> None:
    """Forecasts: 1 million rows a machine, and 100 million rows in all."""
    per_row = max(0.0, (whole.seconds - part.seconds) / (rows - rows // 8))
    fixed = max(0.0, whole.seconds - per_row * rows)
    n_bytes = pair.n_bytes  # two workers send 2 (p - 1) / p = 1 times the bytes of the histograms
    costs = (fixed, per_row, n_bytes, pair.n_calls)
    print(
        f"\na tree: {fixed * 1e3:.1f} ms + {per_row * 1e9:.1f} ns a row on one core; histograms of "
        f"{n_bytes / 1e6:.2f} MB in {pair.n_calls:.0f} calls; network 10 Gbit/s, {NETWORK_LATENCY * 1e6:.0f} us"
    )
    table = [["machines of one core", "rows each", "computing ms", "talking ms", "share talking", "rows/s in all"]]
    for total in (None, 100_000_000):
        for n in (1, 10, 100, 1000):
            each = 1_000_000 if total is None else total // n
            work, talk = tree_seconds(n, each, *costs)
            talk = talk if n > 1 else 0.0
            share, speed = talk / (work + talk), n * each / (work + talk)
            table.append(
                [f"{n:,}", f"{each:,}", f"{work * 1e3:.1f}", f"{talk * 1e3:.2f}", f"{share:.0%}", f"{speed:.3g}"]
            )
    print_table(table)
    for n in (10, 100, 1000):
        talk = tree_seconds(n, 0, *costs)[1]
        print(f"  {n:,} machines talk as long as they compute at {max(0.0, (talk - fixed) / per_row):,.0f} rows each")


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=3, rows=1_000_000, features=28, rounds=50, depth=6, workers=("1,2,4", "numbers of workers")
    )
    options.threads = 1
    harness.print_start()
    wanted = {"all": {"xgboost", "lightgbm"}, "none": set()}.get(options.peers, set(options.peers.split(",")))
    libraries = [name for name in LIBRARIES if name == "arboost" or name in wanted]
    found = {}
    for n_workers in (int(n) for n in options.workers.split(",")):
        samples, found[n_workers] = compare(n_workers, libraries, options)
        title = f"dask, {n_workers} workers, {options.rows:,} x {options.features}, {options.rounds} rounds"
        harness.report(title, samples, options, Claim(1.0, 0.7, tuple(libraries[1:])), quality=None)
        one = found[n_workers]
        print(
            f"  arboost: {one.talking / one.seconds:.1%} of a tree's {one.seconds * 1e3:.1f} ms in {one.n_calls:.0f} "
            f"collective calls, by which each worker sends {one.n_bytes / 1e6:.2f} MB; bins once: {one.setup:.2f} s, "
            f"{one.setup_bytes / 1e6:.1f} MB"
        )
    if {1, 2} <= found.keys():
        whole_rows, options.rows = options.rows, options.rows // 8
        _, part = compare(1, ["arboost"], options)
        print_model(whole_rows, found[1], part, found[2])


if __name__ == "__main__":
    main()
