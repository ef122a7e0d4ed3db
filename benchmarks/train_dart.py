"""DART: training time against XGBoost's, from array to model; 100 rounds of depth 6 with a tenth of the trees dropped.

A round of DART walks the trees that are left through all training rows, so its cost grows with the model.
"""

import time
from typing import Any

import harness
from harness import Claim, Sample

LIBRARIES = ("arboost", "xgboost")


def fit(name: str, X: Any, y: Any, options: Any, rounds: int) -> Any:
    """Train one library and return its predictions of arrays."""
    library: Any = __import__(name)
    params = {"booster": "dart", "rate_drop": options.rate, "objective": "binary:logistic", "max_depth": options.depth}
    params |= {"eta": 0.3, "tree_method": "hist", "nthread": options.threads, "verbosity": 0}
    model = library.train(params, library.DMatrix(X, y), rounds)
    return lambda Z: model.predict(library.DMatrix(Z))


def main() -> None:
    options = harness.parse_options(__doc__, rows=100_000, features=20, rounds=100, depth=6, rate=0.1)
    harness.print_start()
    X, y = harness.make_dense(options.rows + options.rows // 4, options.features)
    train, test = slice(options.rows), slice(options.rows, None)
    samples = {name: Sample(name, __import__(name).__version__) for name in LIBRARIES}
    for name in LIBRARIES:
        fit(name, X[train], y[train], options, 3)  # compiles, and wakes the threads
    for turn in range(options.repeats):
        for name in LIBRARIES if turn % 2 == 0 else LIBRARIES[::-1]:
            began = time.perf_counter()
            predict = fit(name, X[train], y[train], options, options.rounds)
            samples[name].values.append(time.perf_counter() - began)
            samples[name].quality = harness.logloss(predict(X[test]), y[test])
    title = f"dart {options.rows:,} x {options.features}, {options.rounds} rounds, rate_drop {options.rate}"
    harness.report(title, list(samples.values()), options, Claim(0.8, 0.6, ("xgboost",)), quality="test logloss")


if __name__ == "__main__":
    main()
