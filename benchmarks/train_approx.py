"""Training with `tree_method="approx"` on 500,000 x 28 float32, 30 rounds of depth 6, on one thread and on --threads.

Candidates are proposed anew for every tree by both libraries, from hessian-weighted quantiles and 256 bins; "arboost
local" proposes for every node, which XGBoost cannot do any more. XGBoost takes minutes a run here.
"""

import time
from typing import Any

import harness
from harness import Claim, Sample

FITS = {
    "arboost": ("arboost", {}),
    "arboost local": ("arboost", {"sketch_proposal": "local"}),
    "xgboost": ("xgboost", {}),
}


def fit(name: str, X: Any, y: Any, options: Any, rounds: int) -> Any:
    """Train one of FITS and return its predictions of arrays."""
    module, more = FITS[name]
    library: Any = __import__(module)
    params = {"tree_method": "approx", "objective": "binary:logistic", "max_depth": options.depth, "eta": 0.1}
    params |= {"nthread": options.threads, "verbosity": 0, **more}
    model = library.train(params, library.DMatrix(X, y), rounds)
    return lambda Z: model.predict(library.DMatrix(Z))


def compare(X: Any, y: Any, options: Any) -> None:
    """Time all fits in turns, on as many threads as the options say."""
    train, test = slice(options.rows), slice(options.rows, None)
    chosen = [name for name in FITS if name != "arboost local" or not options.skip_local]
    samples = {name: Sample(name, __import__(FITS[name][0]).__version__) for name in chosen}
    for name in chosen:
        fit(name, X[:5000], y[:5000], options, 2)  # compiles, and wakes the threads
    for turn in range(options.repeats):
        for name in chosen if turn % 2 == 0 else chosen[::-1]:
            began = time.perf_counter()
            predict = fit(name, X[train], y[train], options, options.rounds)
            samples[name].values.append(time.perf_counter() - began)
            samples[name].quality = harness.logloss(predict(X[test]), y[test])
    title = f"approx {options.rows:,} x {options.features}, {options.rounds} rounds"
    harness.report(title, list(samples.values()), options, Claim(0.6, 0.3, ("xgboost",)))


def main() -> None:
    options = harness.parse_options(
        __doc__,
        repeats=2,
        rows=500_000,
        features=28,
        rounds=30,
        depth=6,
        skip_local=(False, "leave out local proposals"),
    )
    harness.print_start()
    X, y = harness.make_dense(options.rows + options.rows // 10, options.features)
    for threads in sorted({1, options.threads}):
        options.threads = threads
        compare(X, y, options)


if __name__ == "__main__":
    main()
