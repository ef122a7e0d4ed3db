"""Real Dask workers, processes on this machine, and data that lies on them as a test wants it."""

import contextlib
import os
import signal

import numpy as np

import arboost
from arboost import collective


@contextlib.contextmanager
def cluster(n_workers=3, **options):
    """A client of a cluster of worker processes with one thread each, on the loopback interface."""
    import distributed

    options = {"processes": True, "dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": 50} | options
    with (
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, **options) as running,
        distributed.Client(running) as client,
    ):
        client.wait_for_workers(n_workers, timeout=60)
        yield client


def addresses(client):
    """The workers' addresses, in a fixed order."""
    return sorted(client.nthreads())


def same(values):
    return values


def place(client, values, ends, holders, movable=False):
    """Futures of values[..., cut at the row numbers `ends`], partition i on worker holders[i].

    `movable`: Dask may compute them elsewhere when that worker is lost.
    """
    starts = [0, *ends[:-1]]
    workers = addresses(client)
    if movable and len(workers) == 1:  # Dask forgets such a wish only while there are other workers
        return [client.submit(same, values[a:b], pure=False) for a, b in zip(starts, ends, strict=True)]
    return [
        client.submit(same, values[a:b], workers=[workers[w]], allow_other_workers=movable, pure=False)
        for a, b, w in zip(starts, ends, holders, strict=True)
    ]


def place_fields(client, fields, ends, holders, movable=False):
    """`place` for each of some fields that belong to the rows; the others as they are."""
    by_row = ("data", "label", "weight", "base_margin", "qid", "label_lower_bound", "label_upper_bound")
    return {
        name: place(client, values, ends, holders, movable) if name in by_row and values is not None else values
        for name, values in fields.items()
    }


class OnceAt(arboost.callback.TrainingCallback):
    """Sends a signal to the process of one rank after a round, once: a file says that it is done."""

    def __init__(self, path, rank, epoch, number=signal.SIGKILL):
        super().__init__()
        self.path, self.rank, self.epoch, self.number = path, rank, epoch, number

    def after_iteration(self, model, epoch, evals_log):
        if epoch == self.epoch and collective.get_rank() == self.rank and mark(self.path):
            os.kill(os.getpid(), self.number)
        return False


def mark(path):
    """Whether this is the first call with this path."""
    try:
        with open(path, "x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def table(n_rows=600, seed=0):
    """Five columns with gaps, few and many values, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    X[:, 1] = rng.integers(0, 40, n_rows)
    X[:, 2] = rng.integers(0, 3, n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
    return X, (y + 0.1 * rng.normal(size=n_rows)).astype(np.float32)
