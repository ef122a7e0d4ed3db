"""Prediction time, 100 trees of depth 6: a batch of 1,000,000 x 28, and one row from Python.

Every library predicts with the model it trained itself, from a NumPy array, by its fastest documented call:
`inplace_predict` for arboost and XGBoost, `predict` or `predict_proba` for the others.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from harness import Claim, Peer, Sample, Work


def time_single_row(peer: Peer, model: Any, row: np.ndarray, calls: int) -> Callable[[], float]:
    """Seconds of one call, as the mean over `calls` calls."""

    def run() -> float:
        began = time.perf_counter()
        for _ in range(calls):
            peer.predict(model, row)
        return (time.perf_counter() - began) / calls

    return run


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=5, rows=1_000_000, features=28, train_rows=200_000, rounds=100, calls=500
    )
    harness.print_start()
    X, y = harness.make_dense(options.rows, options.features)
    libraries = harness.choose_libraries(options.peers)
    work = Work(rounds=options.rounds, threads=options.threads)
    models = {peer.name: peer.fit(X[: options.train_rows], y[: options.train_rows], work) for peer in libraries}
    for peer in libraries:
        if peer.module in ("arboost", "xgboost"):
            models[peer.name].set_param({"nthread": options.threads})

    last: dict[str, np.ndarray] = {}

    def batch(peer: Peer) -> Callable[[], None]:
        def run() -> None:
            last[peer.name] = np.asarray(peer.predict(models[peer.name], X))

        run()  # warm
        return run

    seconds = harness.interleave({peer.name: batch(peer) for peer in libraries}, options.repeats)
    samples = [
        Sample(peer.name, peer.version, seconds[peer.name], harness.logloss(last[peer.name], y)) for peer in libraries
    ]
    title = f"predict {options.rows:,} x {options.features}, {options.rounds} trees of depth 6"
    harness.report(title, samples, options, Claim(0.7, 0.3, ("xgboost",)), quality="logloss")

    row = np.ascontiguousarray(X[:1])
    runs = {peer.name: time_single_row(peer, models[peer.name], row, options.calls) for peer in libraries}
    for run in runs.values():
        run()  # warm
    turns = [{name: run() for name, run in runs.items()} for _ in range(options.repeats)]
    samples = [Sample(peer.name, peer.version, [turn[peer.name] for turn in turns]) for peer in libraries]
    title = f"predict one row from Python, {options.rounds} trees of depth 6"
    claim = Claim(1.0, 0.5, ("lightgbm",))
    harness.report(title, samples, options, claim, unit="us", scale=1e6, quality=None)


if __name__ == "__main__":
    main()
