"""Symmetric trees, 1,000,000 x 28, 100 trees of depth 6: training and prediction against the libraries that grow them.

CatBoost and chimeraboost grow symmetric trees by default. Every library predicts with the model it trained itself, from
a NumPy array; CatBoost's time for margins is taken (`RawFormulaVal`), arboost's for probabilities.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import arboost
import harness
from arboost.demo.peers import ARBOOST, xgboost_params
from harness import Claim, Peer, Sample, Work


def fit_symmetric(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
    data = arboost.QuantileDMatrix(X, y, max_bin=work.bins, nthread=work.threads)
    return arboost.train(xgboost_params(work) | {"grow_policy": "symmetric"}, data, num_boost_round=work.rounds)


def main() -> None:
    options = harness.parse_options(__doc__, rows=1_000_000, features=28, rounds=100)
    harness.print_start()
    X, y = harness.make_dense(options.rows + options.rows // 10, options.features)
    data, test = (X[: options.rows], y[: options.rows]), (X[options.rows :], y[options.rows :])
    wanted = "catboost,chimeraboost" if options.peers == "all" else options.peers
    libraries = [
        replace(peer, fit=fit_symmetric) if peer.name == ARBOOST.name else peer
        for peer in harness.choose_libraries(wanted)
    ]
    work = Work(rounds=options.rounds, threads=options.threads)
    samples = harness.time_fits(libraries, data, test, work, options.repeats)
    shape = f"{options.rows:,} x {options.features}, {options.rounds}"
    claim = Claim(0.8, 0.5, ("catboost",))
    harness.report(f"train {shape} rounds of symmetric trees, depth 6", samples, options, claim)

    few = (data[0][:100_000], data[1][:100_000])
    models = {peer.name: peer.fit(*few, work) for peer in libraries}
    predict: dict[str, Callable[[Any], Any]] = {
        peer.name: _predicts(peer, data[0], options.threads) for peer in libraries
    }
    last = {name: predict[name](models[name]) for name in predict}  # warm
    runs = {name: (lambda name=name: predict[name](models[name])) for name in predict}
    seconds = harness.interleave(runs, 2 * options.repeats + 1)
    samples = [
        Sample(peer.name, peer.version, seconds[peer.name], harness.logloss(_probability(last[peer.name]), data[1]))
        for peer in libraries
    ]
    title = f"predict {shape} symmetric trees of depth 6"
    harness.report(title, samples, options, Claim(1.0, 0.7, ("catboost",)), quality="logloss")


def _predicts(peer: Peer, X: np.ndarray, threads: int) -> Callable[[Any], np.ndarray]:
    """The fastest documented call of a library."""
    if peer.name == "catboost":
        return lambda model: model.predict(X, prediction_type="RawFormulaVal", thread_count=threads)
    if peer.name == ARBOOST.name:

        def predict(model: Any) -> np.ndarray:
            model.set_param({"nthread": threads})
            return model.inplace_predict(X)

        return predict
    return lambda model: peer.predict(model, X)


def _probability(values: np.ndarray) -> np.ndarray:
    """Probabilities from what a library returned: margins where some are outside of [0, 1]."""
    values = np.asarray(values, np.float64)
    return values if values.min() >= 0 and values.max() <= 1 else 1 / (1 + np.exp(-values))


if __name__ == "__main__":
    main()
