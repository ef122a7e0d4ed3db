"""Training time on real data with one-hot columns: covtype, 581,012 x 54, 7 classes, depth 6, 30 rounds.

44 of its 54 features are the zeros and ones of two categories: where exclusive features share a column, 12 are left.
A tenth of the rows, drawn at random, is the test set of the quality column.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from arboost.demo import peers
from harness import ARBOOST, PEERS, Claim, Peer, Sample, Work, datasets

N_CLASSES = 7
OBJECTIVE = "multi:softprob"


def fit_xgboost_api(peer: Peer, X: np.ndarray, y: np.ndarray, work: Work) -> Callable[[np.ndarray], np.ndarray]:
    xgb = importlib.import_module(peer.module)
    data = xgb.QuantileDMatrix(X, y, max_bin=work.bins, nthread=work.threads)
    params = peers.xgboost_params(work) | {"num_class": N_CLASSES}
    return xgb.train(params, data, num_boost_round=work.rounds).inplace_predict


def fit_lightgbm(peer: Peer, X: np.ndarray, y: np.ndarray, work: Work) -> Callable[[np.ndarray], np.ndarray]:
    lgb = importlib.import_module("lightgbm")
    params = peers.lightgbm_params(work, "quantized" in peer.name)
    params |= {"objective": "multiclass", "num_class": N_CLASSES}
    return lgb.train(params, lgb.Dataset(X, y, params=params), num_boost_round=work.rounds).predict


def fit_sklearn_api(peer: Peer, X: np.ndarray, y: np.ndarray, work: Work) -> Callable[[np.ndarray], np.ndarray]:
    """These classifiers find out about the classes themselves."""
    return peer.fit(X, y.astype(np.int64), work).predict_proba


FITS: dict[str, Callable[..., Callable[[np.ndarray], np.ndarray]]] = {
    "arboost": fit_xgboost_api,
    "xgboost": fit_xgboost_api,
    "lightgbm": fit_lightgbm,
    "lightgbm quantized": fit_lightgbm,
    "sklearn HGB": fit_sklearn_api,
    "catboost": fit_sklearn_api,
}


def logloss(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-likelihood of the true classes."""
    p = np.asarray(probabilities, np.float64)[np.arange(len(y)), y.astype(np.int64)]
    return float(-np.mean(np.log(np.clip(p, 1e-15, None))))


def main() -> None:
    options = harness.parse_options(__doc__, rows=581_012, rounds=30, depth=6)
    harness.print_start()
    try:
        covtype = datasets.load("covtype").sample(options.rows)
    except datasets.DataUnavailable as reason:
        raise SystemExit(f"cannot run: {reason}") from None
    y = (covtype.y - covtype.y.min()).astype(np.float32)
    is_test = np.random.default_rng(0).random(len(y)) < 0.1
    X, test, y, y_test = covtype.X[~is_test], covtype.X[is_test], y[~is_test], y[is_test]
    work = Work(OBJECTIVE, options.rounds, options.depth, threads=options.threads)
    libraries = [peer for peer in harness.choose_libraries(options.peers) if peer.name in FITS]
    small = Work(OBJECTIVE, 2, options.depth, threads=options.threads)
    models: dict[str, Any] = {}
    for peer in libraries:
        FITS[peer.name](peer, X[:20_000], y[:20_000], small)  # compiles, and wakes the threads

    def run(peer: Peer) -> Callable[[], None]:
        def fit() -> None:
            models[peer.name] = None
            models[peer.name] = FITS[peer.name](peer, X, y, work)

        return fit

    seconds = peers.interleave({peer.name: run(peer) for peer in libraries}, options.repeats)
    samples = [
        Sample(peer.name, peer.version, seconds[peer.name], logloss(models[peer.name](test), y_test))
        for peer in libraries
    ]
    rivals = tuple(peer.name for peer in (ARBOOST, *PEERS) if peer.name in FITS and peer is not ARBOOST)
    title = f"train covtype, {len(y):,} x {X.shape[1]}, 7 classes, {options.rounds} rounds, depth {options.depth}"
    harness.report(title, samples, options, Claim(0.7, 0.5, rivals), quality="test mlogloss")


if __name__ == "__main__":
    main()
