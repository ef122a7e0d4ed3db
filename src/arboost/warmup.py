"""Compiling ahead of the first fit: small fits that between them reach every kernel, by kind.

`python -m arboost compile` is the face of it. What is on disk already is loaded, not compiled again.
"""

import importlib
import pkgutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.cache import kernel_folder
from arboost.kernels.jit import is_kernel
from arboost.kernels.kinds import KINDS
from arboost.levels.whole import Labels, WholeRules, WholeTreeEngine
from arboost.runtime.context import Context

__all__ = ["KINDS", "Compiled", "compile_kinds"]


class Compiled(NamedTuple):
    """What came of compiling."""

    kernels: list[str]  # full names of those that are ready in this process
    folder: Path | None  # where they are kept
    n_lost: int  # how many were compiled and could not be kept
    trouble: str  # why


def compile_kinds(kinds: Iterable[str] = ("all",)) -> Compiled:
    """Compile kernels for this machine, or load them where that was done before.

    Parameters
    ----------
    kinds : iterable of str
        Names from `KINDS`, or "all". Each kind brings what it needs of the others.

    Returns
    -------
    Compiled
        The kernels that are ready now, and where they are kept.
    """
    chosen = set(kinds)
    unknown = sorted(chosen - set(KINDS) - {"all"})
    if unknown:
        raise ValueError(f"unknown kinds of kernels: {', '.join(unknown)}; known are {', '.join(KINDS)} and all")
    xgb = importlib.import_module("arboost")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 3), dtype=np.float32)
    X[:, 2] = rng.integers(0, 6, len(X))
    for kind in KINDS:
        if kind in chosen or "all" in chosen:
            _WARMERS[kind](xgb, X)
    folder = kernel_folder()
    ready = sorted(name for name, function in _kernels() if function.signatures)
    return Compiled(ready, folder.path, folder.n_lost, folder.trouble)


_QUIET = {"verbosity": 0, "max_depth": 3}


def _warm_hist(xgb: Any, X: np.ndarray) -> None:
    for table, y, params in _small_fits():
        for weight in (None, np.linspace(0.5, 1.5, len(y), dtype=np.float32)):
            data = xgb.DMatrix(table, y, weight=weight)
            model = xgb.train(params | {"verbosity": 0}, data, 2, evals=[(data, "train")], verbose_eval=False)
        model.predict(data, pred_leaf=True)
        if isinstance(table, np.ndarray):
            model.inplace_predict(table)
            model.inplace_predict(table[:1])
    numbers = xgb.DMatrix(X, X[:, 0])
    expectiles = {"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8], "eval_metric": "expectile"}
    xgb.train(_QUIET | expectiles, numbers, 2, evals=[(numbers, "train")], verbose_eval=False).predict(numbers)
    xgb.train(_QUIET | {"sampling_method": "gradient_based", "subsample": 0.5}, numbers, 2)
    xgb.train(_QUIET | {"sampling_method": "goss"}, numbers, 2)
    _warm_bundles(xgb)


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


def _warm_bundles(xgb: Any) -> None:
    """Tables in which features share columns, or have none."""
    context = importlib.import_module("arboost.runtime.context").Context()
    sparse = importlib.import_module("scipy.sparse")
    rows = np.arange(1 << 14)
    one_hot = np.eye(8, dtype=np.float32)[rows % 7]
    one_hot[rows % 16 == 0, 7] = 1  # beside the others, and rarely
    for table in (one_hot, sparse.csr_matrix(one_hot)):
        page = xgb.DMatrix(table).binned(context, 256, True, True)
        page.write_column(context, 0, np.empty(page.n_rows, page.bin_dtype))


def _warm_categories(xgb: Any, X: np.ndarray) -> None:
    data = _categorical(xgb, X)
    for params in ({"subsample": 0.5}, {"monotone_constraints": (1, 0, 0)}):
        model = xgb.train(_QUIET | params, data, 2)
        model.predict(data)
        model.predict(data, pred_leaf=True)


def _warm_choice(xgb: Any, X: np.ndarray) -> None:
    xgb.train(_QUIET | {"min_data_in_leaf": 5}, xgb.DMatrix(X, X[:, 0]), 2)


def _warm_symmetric(xgb: Any, X: np.ndarray) -> None:
    for data in (xgb.DMatrix(X, X[:, 0]), _categorical(xgb, X)):
        model = xgb.train(_QUIET | {"grow_policy": "symmetric"}, data, 2)
        model.predict(data)
        model.predict(data, pred_leaf=True)
    vectors = {"grow_policy": "symmetric", "multi_strategy": "multi_output_tree"}
    xgb.train(_QUIET | vectors, xgb.DMatrix(X, X[:, :2]), 2)


def _categorical(xgb: Any, X: np.ndarray) -> Any:
    return xgb.DMatrix(X, X[:, 0] + 3 * (X[:, 2] % 2), feature_types=["q", "q", "c"], enable_categorical=True)


def _warm_shap(xgb: Any, X: np.ndarray) -> None:
    for data in (xgb.DMatrix(X, X[:, 0]), _categorical(xgb, X)):
        model = xgb.train(_QUIET, data, 2)
        for approximate in (False, True):
            model.predict(data, pred_contribs=True, approx_contribs=approximate)
        model.predict(data, pred_interactions=True)


def _warm_rank(xgb: Any, X: np.ndarray) -> None:
    groups = xgb.DMatrix(X, np.arange(120) % 3, group=[60, 60])
    for objective in ("rank:ndcg", "rank:map", "rank:pairwise"):
        for extra in ({}, {"lambdarank_pair_method": "mean"}, {"lambdarank_unbiased": True}):
            relevance = np.arange(120) % (2 if objective == "rank:map" else 3)
            groups.set_label(relevance)
            metrics = {"objective": objective, "eval_metric": ["ndcg", "map", "pre", "auc", "aucpr"]}
            evals = [(groups, "train")] if objective == "rank:map" else []
            xgb.train(_QUIET | metrics | extra, groups, 2, evals=evals, verbose_eval=False)


def _warm_exact(xgb: Any, X: np.ndarray) -> None:
    for sampled in ({}, {"subsample": 0.5}):
        xgb.train(_QUIET | {"tree_method": "exact"} | sampled, xgb.DMatrix(X, X[:, 0]), 2)
    xgb.trace.example("dosage")


def _warm_vector(xgb: Any, X: np.ndarray) -> None:
    vectors = xgb.DMatrix(X, X[:, :2])
    xgb.train(_QUIET | {"multi_strategy": "multi_output_tree", "subsample": 0.5}, vectors, 2).predict(vectors)


def _warm_forests(xgb: Any, X: np.ndarray) -> None:
    X = np.random.default_rng(0).standard_normal((400, 2), dtype=np.float32)
    data, one = xgb.DMatrix(X), np.ones(len(X))
    for max_bin, ends in ((256, None), (4096, np.stack([X.min(axis=0), X.max(axis=0)]))):
        page = data.binned(Context(), max_bin)
        for labels in (Labels.of_numbers(X[:, 0]), Labels.of_classes(np.arange(len(X)) % 3, 3)):
            engine = WholeTreeEngine(page, labels, ends)
            grown = engine.grow(one, WholeRules(max_depth=3), 1)
            grown.sums(np.zeros(len(X), np.int32), one, 1)
            engine.find_leaves(grown, grown.rows)


def _warm_update(xgb: Any, X: np.ndarray) -> None:
    numbers = xgb.DMatrix(X, X[:, 0])
    old = xgb.train(_QUIET, numbers, 2)
    xgb.train(_QUIET | {"process_type": "update", "updater": "refresh"}, numbers, 2, xgb_model=old)


def _warm_linear(xgb: Any, X: np.ndarray) -> None:
    numbers = xgb.DMatrix(X, X[:, 0])
    linear = {"booster": "gblinear", "updater": "coord_descent", "feature_selector": "thrifty", "verbosity": 0}
    xgb.train(linear, numbers, 2).predict(numbers)


def _warm_linear_leaves(xgb: Any, X: np.ndarray) -> None:
    numbers = xgb.DMatrix(X, np.abs(X[:, 0]))
    model = xgb.train(_QUIET | {"linear_leaves": True, "linear_lambda": 0}, numbers, 2)
    model.predict(numbers, pred_contribs=True)
    model.inplace_predict(X)


def _warm_approx(xgb: Any, X: np.ndarray) -> None:
    """Candidates proposed for a tree and for a node, and quantiles of a stream."""
    data = xgb.DMatrix(X, X[:, 0])
    for proposal in ("global", "local"):
        params = {"tree_method": "approx", "sketch_proposal": proposal, "sketch_eps": 0.1}
        xgb.train(_QUIET | params, data, 2)
        xgb.train(_QUIET | params | {"subsample": 0.5, "monotone_constraints": (1, 0, 0)}, data, 2)
    sketch = importlib.import_module("arboost.matrix.summary").WeightedQuantileSketch(0.5)
    for first in range(16):  # enough to be pruned
        sketch.push(first + 16 * np.arange(1 << 13))
    sketch.quantiles([0.5])


def _warm_statistics(xgb: Any, X: np.ndarray) -> None:
    for weight in (None, np.linspace(0.5, 1.5, len(X))):
        codes = np.column_stack([X[:, 0], X[:, 2], (np.arange(len(X)) // 7) % 6])
        data = xgb.DMatrix(codes, X[:, 0], weight=weight, feature_types=["q", "c", "c"], enable_categorical=True)
        xgb.train(_QUIET | {"cat_strategy": "ordered_ts"}, data, 2).predict(data)


def _warm_ordered(xgb: Any, X: np.ndarray) -> None:
    xgb.train(_QUIET | {"boosting_type": "ordered"}, xgb.DMatrix(X, X[:, 0]), 2)


def _warm_survival(xgb: Any, X: np.ndarray) -> None:
    survival = importlib.import_module("arboost.survival")
    times = np.exp(X[:, 0]).astype(np.float32)
    data = xgb.DMatrix(X, np.where(np.arange(len(X)) % 4 == 0, -times, times))
    cox = xgb.train(_QUIET | {"objective": "survival:cox"}, data, 2, evals=[(data, "train")], verbose_eval=False)
    survival.predict_survival_function(cox, data, [0.5, 1.0], baseline=survival.baseline_hazard(cox, data))
    survival.concordance_index(times, cox.predict(data))
    data = xgb.DMatrix(X, label_lower_bound=times, label_upper_bound=times * 2)
    metrics = {"objective": "survival:aft", "eval_metric": ["aft-nloglik", "interval-regression-accuracy"]}
    for distribution in ("normal", "logistic", "extreme"):
        params = _QUIET | metrics | {"aft_loss_distribution": distribution}
        aft = xgb.train(params, data, 2, evals=[(data, "train")], verbose_eval=False)
        survival.predict_survival_function(aft, data, [0.5, 1.0])


def _warm_pages(xgb: Any, X: np.ndarray) -> None:
    """Rows on two pages of a temporary file, all of them and a sample."""

    class Rows(xgb.DataIter):
        left = 1

        def reset(self) -> None:
            self.left = 1

        def next(self, input_data: Callable) -> bool:
            if self.left:
                input_data(data=X, label=X[:, 0])
            self.left -= 1
            return self.left == 0

    pages = xgb.ExtMemQuantileDMatrix(Rows(min_cache_page_bytes=1))
    for params in ({}, {"subsample": 0.5}):
        xgb.train(_QUIET | params, pages, 2).predict(pages)


def _warm_device(xgb: Any, X: np.ndarray) -> None:
    """What a device needs, where there is one; else there is nothing to compile for."""
    if importlib.import_module("arboost.runtime.device").why_not(0):
        return
    there = {"device": "cuda", "verbosity": 0}
    for table, y, params in _small_fits():
        data = xgb.DMatrix(table, y)
        model = xgb.train(params | there, data, 2, evals=[(data, "train")], verbose_eval=False)
    large = np.zeros((300_000, 5), np.float32)  # enough to be predicted there
    model = xgb.train(there, xgb.DMatrix(large[:300], np.arange(300.0)), 20)
    model.inplace_predict(large)
    model.predict(xgb.DMatrix(large), pred_leaf=True)


def _warm_text(xgb: Any, X: np.ndarray) -> None:
    """Files of text, long enough not to be read line by line."""
    with tempfile.TemporaryDirectory() as folder:
        for name, line in (("a.csv", "1,2.5\n"), ("a.libsvm", "1 0:2.5\n")):
            path = Path(folder) / name
            path.write_text(line * 20_000)
            xgb.DMatrix(path)


_WARMERS: dict[str, Callable[[Any, np.ndarray], None]] = {
    "hist": _warm_hist,
    "approx": _warm_approx,
    "categories": _warm_categories,
    "choice": _warm_choice,
    "device": _warm_device,
    "exact": _warm_exact,
    "forests": _warm_forests,
    "linear": _warm_linear,
    "linear_leaves": _warm_linear_leaves,
    "ordered": _warm_ordered,
    "pages": _warm_pages,
    "rank": _warm_rank,
    "shap": _warm_shap,
    "statistics": _warm_statistics,
    "survival": _warm_survival,
    "symmetric": _warm_symmetric,
    "text": _warm_text,
    "update": _warm_update,
    "vector": _warm_vector,
}


def _kernels() -> Iterator[tuple[str, Any]]:
    """Every kernel that Python may call, by full name."""
    package = importlib.import_module("arboost.kernels")
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if is_kernel(value) and value.py_func.__module__ == found.name:
                yield f"{found.name}.{name}", value
