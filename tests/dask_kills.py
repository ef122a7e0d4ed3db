"""Trains on a Dask cluster again and again while a worker is killed at a random moment; the bytes must be the same.

`python tests/dask_kills.py --kills 20 --seed 0`: prints a line for each, and fails if a model differs.
"""

import argparse
import hashlib
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np

import arboost
from dask_cluster import cluster, place_fields, table

PARAMS = {"max_depth": 6, "subsample": 0.7, "colsample_bynode": 0.8, "seed": 3, "nthread": 1}
ROUNDS, ROWS = 60, 4000


def train(client, X, y):
    """(digest, number of restarts, seconds)."""
    from arboost import dask as dxgb

    ends = [300, 301, 1500, 1500, 2600, ROWS]
    fields = place_fields(client, {"data": X, "label": y}, ends, [0, 1, 2, 0, 1, 2], movable=True)
    matrix = dxgb.DaskQuantileDMatrix(client, **fields)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        options = {"evals": [(matrix, "train")], "verbose_eval": False, "early_stopping_rounds": 10}
        found = dxgb.train(client, PARAMS, matrix, ROUNDS, **options)
    lost = [str(w.message).split(";")[0] for w in warned if "lost" in str(w.message)]
    return digest(found["booster"], found["history"]), lost, time.perf_counter() - began


def digest(booster, history):
    return hashlib.sha256(bytes(booster.save_raw()) + repr(history).encode()).hexdigest()[:16]


def alone(X, y):
    matrix, history = arboost.DMatrix(X, y, nthread=1), {}
    options = {"evals": [(matrix, "train")], "evals_result": history, "verbose_eval": False}
    return digest(arboost.train(PARAMS, matrix, ROUNDS, early_stopping_rounds=10, **options), history)


def kill_later(client, seconds, rng):
    """Kill a random worker process after some time."""
    pids = [info["nanny"] and client.run(os.getpid, workers=[address])[address] for address, info in workers(client)]
    victim = pids[rng.integers(len(pids))]

    def kill():
        time.sleep(seconds)
        os.kill(victim, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def workers(client):
    return sorted(client.scheduler_info(n_workers=-1)["workers"].items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    X, y = table(ROWS)
    expected, wrong, hit = alone(X, y), 0, 0
    with cluster(3) as client:
        train(client, X, y)  # kernels are loaded
        found, _, usual = train(client, X, y)
        print(f"alone {expected}, three workers {found}, {usual:.1f} s", flush=True)
        wrong += found != expected
        for number in range(options.kills):
            client.wait_for_workers(3, timeout=120)
            moment = rng.uniform(0, usual)
            thread = kill_later(client, moment, rng)
            found, lost, seconds = train(client, X, y)
            thread.join()
            wrong += found != expected
            hit += bool(lost)
            verdict = "same" if found == expected else "DIFFERENT"
            print(f"{number + 1}: killed after {moment:.2f} s, {seconds:.1f} s, {verdict}, {lost}", flush=True)
    print(f"{options.kills} kills, {hit} of them in mid-training, {wrong} models differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
