"""Linear leaves, 200,000 x 20, 100 trees of 31 leaves: training and prediction against LightGBM's `linear_tree`.

The label is smooth in three features: what linear leaves are for. Constant leaves of both libraries stand beside.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import arboost
import harness
from harness import Claim, Sample

OURS, THEIRS = "arboost", "lightgbm"


def make_data(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    noise = 0.2 * rng.standard_normal(n_rows)
    return X, (np.sin(X[:, 0]) * X[:, 1] + 0.3 * X[:, 2] ** 2 + noise).astype(np.float32)


def fit_ours(X: np.ndarray, y: np.ndarray, options: Any, linear: bool) -> Any:
    params = {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0, "eta": 0.1, "linear_leaves": linear}
    return arboost.train(params | {"nthread": options.threads}, arboost.DMatrix(X, y), options.rounds)


def fit_theirs(X: np.ndarray, y: np.ndarray, options: Any, linear: bool) -> Any:
    import lightgbm

    params = {"num_leaves": 31, "learning_rate": 0.1, "verbosity": -1, "linear_tree": linear}
    params |= {"num_threads": options.threads, "linear_lambda": 1.0}
    return lightgbm.train(params, lightgbm.Dataset(X, y, params=params), options.rounds)


def main() -> None:
    options = harness.parse_options(__doc__, rows=200_000, features=20, rounds=100)
    harness.print_start()
    import lightgbm

    versions = {OURS: arboost.__version__, THEIRS: lightgbm.__version__}
    X, y = make_data(options.rows + options.rows // 10, options.features)
    test = X[options.rows :], y[options.rows :]
    X, y = X[: options.rows], y[: options.rows]
    for linear in (True, False):
        measure(linear, (X, y), test, options, versions)


def measure(linear: bool, data: tuple, test: tuple, options: Any, versions: dict[str, str]) -> None:
    """Training on `data` and predicting it, in turns."""
    models: dict[str, Any] = {}

    def fits(name: str, fit: Callable) -> Callable:
        def train() -> None:
            models[name] = fit(*data, options, linear)

        train()  # warm
        return train

    seconds = harness.interleave({OURS: fits(OURS, fit_ours), THEIRS: fits(THEIRS, fit_theirs)}, options.repeats)
    leaves = "linear" if linear else "constant"
    shape = f"{options.rows:,} x {options.features}, {options.rounds} trees of {leaves} leaves"
    _report(f"train {shape}", models, versions, seconds, test, options)
    calls: dict[str, Callable] = {
        OURS: lambda: models[OURS].inplace_predict(data[0]),
        THEIRS: lambda: models[THEIRS].predict(data[0], num_threads=options.threads),
    }
    for call in calls.values():
        call()
    seconds = harness.interleave(calls, 2 * options.repeats + 1)
    _report(f"predict {shape}", models, versions, seconds, test, options)


def _report(
    title: str, models: dict[str, Any], versions: dict[str, str], seconds: dict, test: tuple, options: Any
) -> None:
    found = {OURS: models[OURS].inplace_predict(test[0]), THEIRS: models[THEIRS].predict(test[0])}
    samples = [
        Sample(name, versions[name], seconds[name], float(np.sqrt(np.mean((found[name] - test[1]) ** 2))))
        for name in models
    ]
    harness.report(title, samples, options, Claim(1.0, 0.7, (THEIRS,)), quality="rmse")


if __name__ == "__main__":
    main()
