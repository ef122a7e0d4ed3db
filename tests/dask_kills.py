"""Trains on a Dask cluster again and again while a worker is killed at a random moment; the bytes must be the same.

`python tests/dask_kills.py --kills 20 --seed 0`: prints a line for each, with the rounds that had to be done again, and
fails if a model differs. With `--in-rounds` the clock of a kill starts with the first round, else with the call.
"""

import argparse
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import arboost
from arboost import collective
from arboost import dask as dxgb
from dask_cluster import cluster, place_fields, table

PARAMS = {"max_depth": 6, "subsample": 0.7, "colsample_bynode": 0.8, "seed": 3, "nthread": 1}
ROUNDS, ROWS = 100, 2000


class Begun(arboost.callback.TrainingCallback):
    """Counts, in a file, the rounds that are begun."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def before_iteration(self, model, epoch, evals_log):
        if collective.get_rank() == 0:
            with open(self.path, "a") as file:
                file.write(f"{epoch}\n")
        return False


def make_matrix(client, X, y):
    ends = [300, 301, 900, 900, 1600, ROWS]
    fields = place_fields(client, {"data": X, "label": y}, ends, [0, 1, 2, 0, 1, 2], movable=True)
    return dxgb.DaskQuantileDMatrix(client, **fields)


def train(client, matrix, path):
    """(digest, what was lost, rounds that were done again, seconds)."""
    began = time.perf_counter()
    path.write_text("")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        options = {"evals": [(matrix, "train")], "verbose_eval": False, "early_stopping_rounds": 10}
        found = dxgb.train(client, PARAMS, matrix, ROUNDS, **options, callbacks=[Begun(str(path))])
    lost = [str(w.message).split(";")[0] for w in warned if "lost" in str(w.message)]
    n_again = len(path.read_text().split()) - len(found["history"]["train"]["rmse"])
    return digest(found["booster"], found["history"]), lost, n_again, time.perf_counter() - began


def digest(booster, history):
    return hashlib.sha256(bytes(booster.save_raw()) + repr(history).encode()).hexdigest()[:16]


def alone(X, y):
    matrix, history = arboost.DMatrix(X, y, nthread=1), {}
    options = {"evals": [(matrix, "train")], "evals_result": history, "verbose_eval": False}
    return digest(arboost.train(PARAMS, matrix, ROUNDS, early_stopping_rounds=10, **options), history)


class Killer(threading.Thread):
    """Kills a random worker process some time after `path` has text, unless `ended` is set before."""

    def __init__(self, client, seconds, rng, path):
        super().__init__()
        self.ended, self.has_killed = threading.Event(), False
        self._seconds, self._path = seconds, path
        pids = sorted(client.run(os.getpid).values())
        self._victim = pids[rng.integers(len(pids))]

    def run(self):
        while self._path is not None and not self._path.read_text() and not self.ended.wait(0.01):
            pass
        if not self.ended.wait(self._seconds):
            os.kill(self._victim, signal.SIGKILL)
            self.has_killed = True


def are_back(client, n_workers):
    """Whether all workers answer, within 30 s: one that was killed is known for a moment, a nanny may fail."""
    for _ in range(300):
        with contextlib.suppress(OSError):
            if len(client.run(os.getpid)) == n_workers:
                return True
        time.sleep(0.1)
    return False


class Tally:
    """What was seen so far."""

    def __init__(self, n_wanted, seed, in_rounds, folder):
        self.X, self.y = table(ROWS)
        self.expected = alone(self.X, self.y)
        self.n_wanted, self.rng = n_wanted, np.random.default_rng(seed)
        self.path, self.in_rounds = Path(folder, "begun"), in_rounds
        self.n_killed = self.n_hit = self.n_wrong = self.n_again = 0

    def fill(self, client):
        """Kill until there are enough, or a worker does not come back."""
        usual = None
        while self.n_killed < self.n_wanted and are_back(client, 3):
            matrix = make_matrix(client, self.X, self.y)
            if usual is None:
                train(client, matrix, self.path)  # kernels are loaded
                found, _, _, usual = train(client, matrix, self.path)
                print(f"alone {self.expected}, three workers {found}, {usual:.1f} s", flush=True)
                self.n_wrong += found != self.expected
            moment = self.rng.uniform(0, usual)
            killer = Killer(client, moment, self.rng, self.path if self.in_rounds else None)
            self.path.write_text("")
            killer.start()
            found, lost, n_again, seconds = train(client, matrix, self.path)
            killer.ended.set()
            killer.join()
            self.n_wrong += found != self.expected
            if killer.has_killed:
                self.n_killed, self.n_hit = self.n_killed + 1, self.n_hit + bool(lost)
                self.n_again += n_again
                verdict = "same" if found == self.expected else "DIFFERENT"
                what = f"{seconds:.1f} s, {verdict}, {n_again} rounds again, {lost}"
                print(f"{self.n_killed}: killed after {moment:.2f} s, {what}", flush=True)
            else:
                usual = seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--in-rounds", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = Tally(options.kills, options.seed, options.in_rounds, folder)
        while tally.n_killed < options.kills and not tally.n_wrong:
            with cluster(3) as client:
                tally.fill(client)
    what = f"{tally.n_again} rounds were done again, {tally.n_wrong} models differ"
    print(f"{tally.n_killed} kills, {tally.n_hit} of them while training, {what}")
    return int(tally.n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
