"""Random forests: training and prediction against scikit-learn's, equal numbers of trees, default limits.

covtype (seven classes), higgs_7k (two) and california_housing (regression), each where the data is there, and a
synthetic set of any size. Accuracy is on rows that were not trained on: for classes the share of errors, else RMSE.
"""

import time
from typing import Any

import numpy as np

import harness
from harness import Claim, Sample

SETS = ("dense", "higgs_7k", "california_housing", "covtype")


def load(name: str, options: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """(X, y, whether y are classes)."""
    if name == "dense":
        X, y = harness.make_dense(options.rows * 5 // 4, options.features)
        return X, y, True
    found = harness.datasets.load(name).sample(options.rows * 5 // 4)
    return found.X, found.y, found.n_classes > 0


def make(library: str, is_classes: bool, options: Any) -> Any:
    """A forest with its library's defaults."""
    kind = "RandomForestClassifier" if is_classes else "RandomForestRegressor"
    module = __import__("arboost.ensemble" if library == "arboost" else "sklearn.ensemble", fromlist=[kind])
    return getattr(module, kind)(n_estimators=options.trees, n_jobs=options.threads, random_state=0)


def compare(name: str, options: Any) -> None:
    """Time both in turns, fit and prediction, and report."""
    X, y, is_classes = load(name, options)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
    libraries = ["arboost", "sklearn"]
    fits = {library: Sample(library, __import__(library).__version__) for library in libraries}
    predictions = {library: Sample(library, __import__(library).__version__) for library in libraries}
    for library in libraries:  # compiles, and wakes the threads
        make(library, is_classes, options).set_params(n_estimators=2).fit(X[train[:2000]], y[train[:2000]])
    for _ in range(options.repeats):
        for library in libraries:
            began = time.perf_counter()
            model = make(library, is_classes, options).fit(X[train], y[train])
            fits[library].values.append(time.perf_counter() - began)
            began = time.perf_counter()
            found = model.predict(X[test])
            predictions[library].values.append(time.perf_counter() - began)
            wrong = np.mean(found != y[test]) if is_classes else np.sqrt(np.mean((found - y[test]) ** 2))
            fits[library].quality = predictions[library].quality = float(wrong)
        libraries.reverse()
    size = f"{name} {len(train):,} x {X.shape[1]}, {options.trees} trees"
    quality = "test error" if is_classes else "test RMSE"
    claim = Claim(1.0, 0.5, ("sklearn",))
    harness.report(f"forest, train {size}", list(fits.values()), options, claim, quality=quality)
    harness.report(
        f"forest, predict {len(test):,} rows, {size}", list(predictions.values()), options, claim, quality=quality
    )


def main() -> None:
    options = harness.parse_options(
        __doc__, repeats=3, rows=50_000, features=28, trees=100, sets=(",".join(SETS), "names separated by commas")
    )
    harness.print_start()
    for name in options.sets.split(","):
        try:
            compare(name, options)
        except harness.datasets.DataUnavailable as reason:
            print(f"left out: {name} ({reason})")


if __name__ == "__main__":
    main()
