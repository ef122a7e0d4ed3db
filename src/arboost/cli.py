"""The command line: `python -m arboost compile | demo | parameters | version`.

Every command imports what it needs when it runs, so that `version` stays instant. `compile` runs small fits
through every path of the engine; Numba keeps the machine code on disk for every later process.
"""

import argparse
import importlib
import importlib.metadata
import pkgutil
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit status, 0 for success.
    """
    parser = argparse.ArgumentParser(prog="arboost", description="Gradient-boosted trees with XGBoost's interface.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (_, text) in _COMMANDS.items():
        commands.add_parser(name, help=text, description=text)
    run, _ = _COMMANDS[parser.parse_args(argv).command]
    return run()


def compile_kernels() -> list[str]:
    """Compile the kernels for this machine, or load them where that was done before.

    Returns
    -------
    list of str
        The names of the kernels that are ready now.
    """
    xgb = importlib.import_module("arboost")
    for X, y, params in _small_fits():
        for weight in (None, np.linspace(0.5, 1.5, len(y), dtype=np.float32)):
            data = xgb.DMatrix(X, y, weight=weight)
            model = xgb.train(params | {"verbosity": 0}, data, 2, evals=[(data, "train")], verbose_eval=False)
        model.predict(data, pred_leaf=True)
        if isinstance(X, np.ndarray):
            model.inplace_predict(X)
            model.inplace_predict(X[:1])
    _compile_particular(xgb)
    return sorted(name for name, function in _kernels() if function.signatures)


def _small_fits() -> Iterator[tuple[Any, np.ndarray, dict[str, Any]]]:
    """(X, label, params) that between them reach every kernel of training and evaluation."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5), dtype=np.float32)
    holed = np.where(rng.random(X.shape) < 0.1, np.float32(np.nan), X)
    large = rng.standard_normal((70_000, 9), dtype=np.float32)  # enough for the kernels of large data
    score = X[:, 0] + X[:, 1] * X[:, 2]
    positive, binary = np.exp(score), (score > 0).astype(np.float32)
    classes = np.digitize(score, [-0.5, 0.5]).astype(np.float32)

    for table in (X, holed, importlib.import_module("scipy.sparse").csr_matrix(X)):
        yield table, score, {"objective": "reg:squarederror"}
    yield large, large[:, 0], {"objective": "reg:squarederror"}
    yield large, large[:, 0], {"max_bin": 1024, "grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0}
    yield holed, score, {"max_bin": 1024}
    sampled = {"subsample": 0.5, "colsample_bytree": 0.8, "colsample_bylevel": 0.8, "colsample_bynode": 0.8}
    yield large, (large[:, 0] > 0).astype(np.float32), {"objective": "binary:logistic", **sampled}
    outlier = np.where(np.arange(len(large)) == 7, np.float32(1e7), large[:, 0])
    yield large, outlier, {"objective": "reg:squarederror", "eval_metric": ["rmse", "mae", "mape", "mphe"]}

    of_binary = ["logloss", "error", "error@0.3", "auc", "aucpr"]
    for name in ("binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic"):
        yield X, binary, {"objective": name, "eval_metric": of_binary}
    of_positive = ["rmsle", "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik@1.5"]
    for name in ("count:poisson", "reg:gamma", "reg:tweedie", "reg:squaredlogerror"):
        yield X, positive, {"objective": name, "eval_metric": of_positive}
    for name in ("reg:pseudohubererror", "reg:absoluteerror"):
        yield X, score, {"objective": name}
    yield X, score, {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8], "eval_metric": "quantile"}
    for name in ("multi:softprob", "multi:softmax"):
        yield X, classes, {"objective": name, "num_class": 3}
    yield X, classes, {"objective": "multi:softprob", "num_class": 3, "eval_metric": ["mlogloss", "merror", "auc"]}


def _compile_particular(xgb: Any) -> None:
    """Small fits that need more than labels: categories, constraints, groups, times; and explanations."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 3), dtype=np.float32)
    X[:, 2] = rng.integers(0, 6, len(X))
    quiet = {"verbosity": 0, "max_depth": 3}
    options = {"feature_types": ["q", "q", "c"], "enable_categorical": True}
    data = xgb.DMatrix(X, X[:, 0] + 3 * (X[:, 2] % 2), **options)
    for params in ({"subsample": 0.5}, {"monotone_constraints": (1, 0, 0)}):
        model = xgb.train(quiet | params, data, 2)
        for what in ({}, {"pred_leaf": True}, {"pred_interactions": True}, {"pred_contribs": True}):
            model.predict(data, **what)
        model.predict(data, pred_contribs=True, approx_contribs=True)
    groups = xgb.DMatrix(X, np.arange(120) % 3, group=[60, 60])
    for objective in ("rank:ndcg", "rank:map", "rank:pairwise"):
        for extra in ({}, {"lambdarank_pair_method": "mean"}, {"lambdarank_unbiased": True}):
            relevance = np.arange(120) % (2 if objective == "rank:map" else 3)
            groups.set_label(relevance)
            metrics = {"objective": objective, "eval_metric": ["ndcg", "map", "pre", "auc", "aucpr"]}
            evals = [(groups, "train")] if objective == "rank:map" else []
            xgb.train(quiet | metrics | extra, groups, 2, evals=evals, verbose_eval=False)
    for method in ({"tree_method": "exact"}, {"tree_method": "exact", "subsample": 0.5}):
        xgb.train(quiet | method, xgb.DMatrix(X, X[:, 0]), 2)
    xgb.trace.example("dosage")
    _compile_survival(xgb, X, quiet)
    _compile_bundles(xgb)
    _compile_approx(xgb, X, quiet)
    vectors = xgb.DMatrix(X, X[:, :2])
    xgb.train(quiet | {"multi_strategy": "multi_output_tree", "subsample": 0.5}, vectors, 2).predict(vectors)
    numbers = xgb.DMatrix(X, X[:, 0])
    expectiles = {"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8], "eval_metric": "expectile"}
    xgb.train(quiet | expectiles, numbers, 2, evals=[(numbers, "train")], verbose_eval=False).predict(numbers)
    sampled = {"sampling_method": "gradient_based", "subsample": 0.5}
    old = xgb.train(quiet | sampled, numbers, 2)
    xgb.train(quiet | {"process_type": "update", "updater": "refresh"}, numbers, 2, xgb_model=old)
    linear = {"booster": "gblinear", "updater": "coord_descent", "feature_selector": "thrifty", "verbosity": 0}
    xgb.train(linear, numbers, 2).predict(numbers)


def _compile_approx(xgb: Any, X: np.ndarray, quiet: dict[str, Any]) -> None:
    """Candidates proposed for a tree and for a node, and quantiles of a stream."""
    data = xgb.DMatrix(X, X[:, 0])
    for proposal in ("global", "local"):
        params = {"tree_method": "approx", "sketch_proposal": proposal, "sketch_eps": 0.1}
        xgb.train(quiet | params, data, 2)
        xgb.train(quiet | params | {"subsample": 0.5, "monotone_constraints": (1, 0, 0)}, data, 2)
    sketch = importlib.import_module("arboost.matrix.summary").WeightedQuantileSketch(0.5)
    for first in range(16):  # enough to be pruned
        sketch.push(first + 16 * np.arange(1 << 13))
    sketch.quantiles([0.5])


def _compile_bundles(xgb: Any) -> None:
    """Tables in which features share columns, or have none."""
    context = importlib.import_module("arboost.runtime.context").Context()
    sparse = importlib.import_module("scipy.sparse")
    rows = np.arange(1 << 14)
    one_hot = np.eye(8, dtype=np.float32)[rows % 7]
    one_hot[rows % 16 == 0, 7] = 1  # beside the others, and rarely
    for table in (one_hot, sparse.csr_matrix(one_hot)):
        page = xgb.DMatrix(table).binned(context, 256, True, True)
        page.write_column(context, 0, np.empty(page.n_rows, page.bin_dtype))


def _compile_survival(xgb: Any, X: np.ndarray, quiet: dict[str, Any]) -> None:
    survival = importlib.import_module("arboost.survival")
    times = np.exp(X[:, 0]).astype(np.float32)
    data = xgb.DMatrix(X, np.where(np.arange(len(X)) % 4 == 0, -times, times))
    cox = xgb.train(quiet | {"objective": "survival:cox"}, data, 2, evals=[(data, "train")], verbose_eval=False)
    survival.predict_survival_function(cox, data, [0.5, 1.0], baseline=survival.baseline_hazard(cox, data))
    survival.concordance_index(times, cox.predict(data))
    data = xgb.DMatrix(X, label_lower_bound=times, label_upper_bound=times * 2)
    metrics = {"objective": "survival:aft", "eval_metric": ["aft-nloglik", "interval-regression-accuracy"]}
    for distribution in ("normal", "logistic", "extreme"):
        params = quiet | metrics | {"aft_loss_distribution": distribution}
        aft = xgb.train(params, data, 2, evals=[(data, "train")], verbose_eval=False)
        survival.predict_survival_function(aft, data, [0.5, 1.0])


def _kernels() -> Iterator[tuple[str, Any]]:
    """Every kernel that Python may call, by full name."""
    package = importlib.import_module("arboost.kernels")
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if hasattr(value, "py_func") and value.py_func.__module__ == found.name:
                yield f"{found.name}.{name}", value


def _compile() -> int:
    """Fill the kernel cache and say where it is."""
    folder = importlib.import_module("arboost.kernels.jit").cache_folder()
    if folder is None:
        print(
            "arboost: the kernel cache cannot be written; set ARBOOST_CACHE_DIR to a folder that can", file=sys.stderr
        )
        return 1
    began = time.perf_counter()
    names = compile_kernels()
    print(f"{len(names)} kernels ready in {time.perf_counter() - began:.1f} s, kept in {folder}")
    return 0


def _demo() -> int:
    return int(importlib.import_module("arboost.demo.tour").main())


def _parameters() -> int:
    print(_PARAMETERS_HEADING + importlib.import_module("arboost.params.markdown").as_markdown().rstrip())
    return 0


def _version() -> int:
    parts = [f"{name} {importlib.metadata.version(name)}" for name in ("arboost", "numpy", "scipy", "numba")]
    print(", ".join([*parts, f"Python {platform.python_version()}"]))
    return 0


_PARAMETERS_HEADING = """# Parameters

Names, aliases, defaults and bounds are XGBoost's. A value out of bounds is an error that names the bound; an unknown
name is a warning that suggests the nearest one, or an error under `config_context(strict_parameters=True)`. What is
not available yet is refused by name. This page is printed by `python -m arboost parameters`.

"""

_COMMANDS = {
    "compile": (_compile, "compile the kernels for this machine now instead of at the first fit"),
    "demo": (_demo, "train on the data set shipped with the package and compare with the libraries installed here"),
    "parameters": (_parameters, "print the table of parameters as Markdown"),
    "version": (_version, "print the versions of arboost and of what it runs on"),
}
