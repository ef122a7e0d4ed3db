"""The same training by every library that is installed, in turns: what `bench` times."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.cli import show, tables, tasks
from arboost.runtime.errors import XGBoostError


@dataclass
class Race:
    """Rows to train on and rows to score, and what to learn from them."""

    words: str
    X: np.ndarray
    y: np.ndarray
    objective: str
    is_test: np.ndarray

    @property
    def metric(self) -> str:
        """What the models are scored by."""
        return "test rmse" if self.objective == "reg:squarederror" else "test log loss"

    def score(self, prediction: np.ndarray) -> float:
        """Of the rows that nobody trained on."""
        y = self.y[self.is_test].astype(np.float64)
        found = np.asarray(prediction, np.float64).reshape(-1)
        if self.objective == "reg:squarederror":
            return float(np.sqrt(np.mean((found - y) ** 2)))
        p = np.clip(found, 1e-15, 1 - 1e-15)
        return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def made_up(n_rows: int, n_features: int) -> Race:
    """Normal features, a label of two classes that depends on some of them and their products."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    z = 0.3 * X @ rng.standard_normal(n_features) + X[:, 0] * X[:, 1] + np.abs(X[:, 6]) * X[:, 7]
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.float32)
    return Race(f"{n_rows:,} made-up rows x {n_features}", X, y, "binary:logistic", rng.random(n_rows) < 0.2)


def from_table(source: tables.Source, roles: tables.Roles) -> Race:
    """The user's rows; categories by their codes, which every library takes."""
    data = tables.load(source, roles)
    task, label = tasks.find_task(data, None, None)
    if task.kind not in ("regression", "binary") or label is None or label.ndim > 1:
        raise XGBoostError(f"{data.name}: {task.words} cannot be compared; a quantity or two classes can.")
    X = np.concatenate([part.copy() for _, part in data.matrix().chunks()])
    is_test = np.random.default_rng(0).random(len(X)) < 0.2
    words = f"{data.name}, {len(X):,} rows x {X.shape[1]}"
    return Race(words, X, label.astype(np.float32), task.objective, is_test)


def run(
    race: Race, rounds: int, depth: int, threads: int, repeats: int, names: str | None, shown: bool
) -> list[dict[str, Any]]:
    """Seconds and score of every library, arboost first."""
    from arboost.demo.peers import ARBOOST, PEERS, Work, interleave
    from arboost.runtime.context import available_threads

    wanted = None if names is None else {name.strip().lower() for name in names.split(",")}
    unknown = sorted((wanted or set()) - {peer.name for peer in PEERS} - {"none"})
    if unknown:
        raise XGBoostError(f"Unknown library {unknown[0]!r}; known: {', '.join(peer.name for peer in PEERS)}.")
    chosen = [peer for peer in PEERS if wanted is None or peer.name in wanted]
    missing = sorted({peer.module for peer in chosen if not peer.is_installed})
    if missing and shown:
        show.note(f"not installed, so left out: {', '.join(missing)}")
    libraries = [ARBOOST, *(peer for peer in chosen if peer.is_installed)]
    work = Work(race.objective, rounds, depth, threads=threads or available_threads())
    X, y = race.X[~race.is_test], race.y[~race.is_test]
    models = {peer.name: peer.fit(X, y, work) for peer in libraries}  # warms up, too
    runs = {peer.name: functools.partial(peer.fit, X, y, work) for peer in libraries}
    seconds = {name: min(values) for name, values in interleave(runs, repeats).items()}
    return [
        {
            "library": peer.name,
            "version": peer.version,
            "seconds": seconds[peer.name],
            "ratio": seconds[peer.name] / seconds[ARBOOST.name],
            "score": race.score(peer.predict(models[peer.name], race.X[race.is_test])),
        }
        for peer in libraries
    ]
