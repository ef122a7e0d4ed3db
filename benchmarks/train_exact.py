"""Exact greedy training, 200,000 x 28 float32, depth 6, 20 rounds, array to model; and what a second thread brings.

With --sklearn also scikit-learn's exact trees, which sort every node anew, on one thread: that takes minutes.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import harness
from harness import Claim, Sample

Fit = Callable[[np.ndarray, np.ndarray, int], Any]


def fit_xgboost_api(name: str, options: Any, threads: int) -> Fit:
    """Training by the `train` of a library with XGBoost's API."""
    library: Any = __import__(name)
    params = {"objective": "binary:logistic", "tree_method": "exact", "max_depth": options.depth, "eta": 0.3}
    params |= {"nthread": threads, "verbosity": 0}

    def fit(X: np.ndarray, y: np.ndarray, rounds: int) -> Any:
        model = library.train(params, library.DMatrix(X, y, nthread=threads), rounds)
        return lambda Z: model.predict(library.DMatrix(Z))

    return fit


def fit_sklearn(options: Any) -> Fit:
    """Training by scikit-learn's GradientBoostingClassifier."""

    def fit(X: np.ndarray, y: np.ndarray, rounds: int) -> Any:
        from sklearn.ensemble import GradientBoostingClassifier

        model = GradientBoostingClassifier(n_estimators=rounds, learning_rate=0.3, max_depth=options.depth)
        model.fit(X, y)
        return lambda Z: model.predict_proba(Z)[:, 1]

    return fit


def main() -> None:
    options = harness.parse_options(
        __doc__, rows=200_000, features=28, rounds=20, depth=6, sklearn=(False, "also time scikit-learn's exact trees")
    )
    harness.print_start()
    X, y = harness.make_dense(options.rows + options.rows // 4, options.features)
    train, test = slice(options.rows), slice(options.rows, None)
    few = min(options.threads, 1)
    fits = {
        ("arboost", options.threads): fit_xgboost_api("arboost", options, options.threads),
        ("xgboost", options.threads): fit_xgboost_api("xgboost", options, options.threads),
        ("arboost", few): fit_xgboost_api("arboost", options, few),
        ("xgboost", few): fit_xgboost_api("xgboost", options, few),
    }
    if options.sklearn:
        fits["sklearn", 1] = fit_sklearn(options)
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in fits}
    losses: dict[tuple[str, int], float] = {}
    for fit in fits.values():
        fit(X[:5000], y[:5000], 2)  # compiles, and wakes the threads
    for turn in range(options.repeats):
        for key in list(fits) if turn % 2 == 0 else list(fits)[::-1]:
            began = time.perf_counter()
            predict = fits[key](X[train], y[train], options.rounds)
            seconds[key].append(time.perf_counter() - began)
            losses[key] = harness.logloss(predict(X[test]), y[test])

    shape = f"{options.rows:,} x {options.features}, depth {options.depth}, {options.rounds} rounds"
    samples = [
        Sample(name, __import__(name).__version__, seconds[name, threads], losses[name, threads])
        for name, threads in fits
        if threads == options.threads or name == "sklearn"
    ]
    harness.report(f"exact {shape}", samples, options, Claim(0.8, 0.4, ("xgboost",)))
    if options.threads > 1:
        print("speed-up of the threads over one:")
        for name in ("arboost", "xgboost"):
            alone, together = min(seconds[name, 1]), min(seconds[name, options.threads])
            print(f"  {name}: {alone:.2f} s / {together:.2f} s = {alone / together:.2f}")


if __name__ == "__main__":
    main()
