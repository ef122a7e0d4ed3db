"""Several outputs: training time against XGBoost's, from array to model; depth 6, 256 bins.

Eight targets of a synthetic regression, with a tree for each target and with trees whose leaves hold all of them; and
the seven classes of covtype by softmax, where LightGBM is measured too.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import harness
from harness import Claim, Sample

Predict = Callable[[np.ndarray], np.ndarray]


def make_targets(n_rows: int, n_features: int, n_targets: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, and targets that share some of what they depend on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    shared = np.maximum(X[:, 0], X[:, 1]) + np.abs(X[:, 2])
    Y = X @ rng.standard_normal((n_features, n_targets)) * 0.3 + shared[:, None] * rng.random(n_targets)
    return X, (Y + 0.5 * rng.standard_normal(Y.shape)).astype(np.float32)


def fit(name: str, X: np.ndarray, y: np.ndarray, params: dict[str, Any], options: Any, rounds: int) -> Predict:
    """Train arboost or XGBoost and return its predictions of arrays."""
    library: Any = __import__(name)
    params = {"max_depth": options.depth, "eta": 0.3, "tree_method": "hist", "nthread": options.threads} | params
    model = library.train(params | {"verbosity": 0}, library.DMatrix(X, y), rounds)
    return lambda Z: model.predict(library.DMatrix(Z))


def fit_lightgbm(X: np.ndarray, y: np.ndarray, options: Any, rounds: int) -> Predict:
    import lightgbm

    limits = {"num_leaves": 2**options.depth, "max_depth": options.depth, "max_bin": 255, "min_data_in_leaf": 0}
    limits |= {"min_sum_hessian_in_leaf": 1.0, "lambda_l2": 1.0, "feature_pre_filter": False, "verbosity": -1}
    params = {"objective": "multiclass", "num_class": 7, "learning_rate": 0.3, "num_threads": options.threads} | limits
    model = lightgbm.train(params, lightgbm.Dataset(X, y, params={"max_bin": 255, "verbosity": -1}), rounds)
    return lambda Z: np.asarray(model.predict(Z))


def compare(
    title: str,
    fits: dict[str, Callable[[int], Predict]],
    score: Callable[[Predict], float],
    rounds: int,
    options: Any,
    quality: str,
) -> None:
    """Time the libraries in turns and report."""
    samples = {name: Sample(name, __import__(name).__version__) for name in fits}
    for run in fits.values():
        run(2)  # compiles, and wakes the threads
    order: Sequence[str] = list(fits)
    for _ in range(options.repeats):
        for name in order:
            began = time.perf_counter()
            predict = fits[name](rounds)
            samples[name].values.append(time.perf_counter() - began)
            samples[name].quality = score(predict)
        order = [*order[1:], order[0]]
    harness.report(title, list(samples.values()), options, Claim(0.8, 0.6, ("xgboost",)), quality=quality)


def compare_strategies(options: Any) -> None:
    X, Y = make_targets(options.rows * 5 // 4, options.features, options.targets)
    train, test = slice(options.rows), slice(options.rows, None)
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        params = {"multi_strategy": strategy}
        fits = {
            name: lambda rounds, name=name, params=params: fit(name, X[train], Y[train], params, options, rounds)
            for name in ("arboost", "xgboost")
        }
        title = f"{options.rows:,} x {options.features}, {options.targets} targets, {strategy}, {options.rounds} rounds"

        def error(predict: Predict) -> float:
            return float(np.sqrt(np.mean((predict(X[test]) - Y[test]) ** 2)))

        compare(title, fits, error, options.rounds, options, "test rmse")


def compare_classes(options: Any) -> None:
    data = harness.datasets.load("covtype").sample(options.class_rows)
    rows = np.random.default_rng(0).permutation(len(data.y))
    X, y = np.ascontiguousarray(data.X[rows]), data.y[rows]
    n_train = len(y) * 4 // 5
    params = {"objective": "multi:softprob", "num_class": 7}
    fits: dict[str, Callable[[int], Predict]] = {
        name: lambda rounds, name=name: fit(name, X[:n_train], y[:n_train], params, options, rounds)
        for name in ("arboost", "xgboost")
    }
    fits["lightgbm"] = lambda rounds: fit_lightgbm(X[:n_train], y[:n_train], options, rounds)

    def loss(predict: Predict) -> float:
        chosen = predict(X[n_train:])[np.arange(len(y) - n_train), y[n_train:].astype(int)]
        return float(-np.mean(np.log(np.maximum(chosen, 1e-15))))

    title = f"covtype {n_train:,} x {X.shape[1]}, 7 classes, {options.class_rounds} rounds"
    compare(title, fits, loss, options.class_rounds, options, "test mlogloss")


def main() -> None:
    sizes = {"rows": 100_000, "features": 20, "targets": 8, "rounds": 50, "depth": 6}
    options = harness.parse_options(
        __doc__, **sizes, class_rows=1_000_000, class_rounds=20, skip=("", "leave out: targets, classes")
    )
    harness.print_start()
    if "targets" not in options.skip:
        compare_strategies(options)
    if "classes" not in options.skip:
        compare_classes(options)


if __name__ == "__main__":
    main()
