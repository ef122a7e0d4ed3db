"""One piece of work, told to every library in its own words: the demo and the benchmarks both use this.

Equal limits for all: the same rounds, learning rate, depth or leaves, 256 bins (255 where 255 is the library's most),
L2 = 1, hessian of a child >= 1, no minimum of rows in a leaf, no row or column sampling, no early stopping.
CatBoost and chimeraboost grow symmetric trees. Libraries are imported when first used.
"""

import gc
import importlib
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

PAUSE = 0.05  # seconds before a timed run: OpenMP threads of the library before it spin for a while after their work


@dataclass(frozen=True)
class Work:
    """What to train; `leaves` > 0 asks for best-first growth with that many leaves and no limit of depth."""

    objective: str = "binary:logistic"
    rounds: int = 100
    depth: int = 6
    leaves: int = 0
    eta: float = 0.1
    bins: int = 256
    threads: int = 2

    @property
    def is_regression(self) -> bool:
        return self.objective == "reg:squarederror"


@dataclass(frozen=True)
class Peer:
    """A library under its usual name: how to fit it and how to ask it for predictions."""

    name: str
    module: str
    distributions: tuple[str, ...]
    fit: Callable[[np.ndarray, np.ndarray, Work], Any]
    predict: Callable[[Any, np.ndarray], np.ndarray]
    has_best_first: bool = True

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """The installed version, or '?' where the library is not installed as a distribution."""
        for distribution in self.distributions:
            try:
                return importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                continue
        return "?"


def xgboost_params(work: Work) -> dict[str, Any]:
    """The work as parameters of XGBoost, and so of arboost."""
    params: dict[str, Any] = {
        "objective": work.objective,
        "tree_method": "hist",
        "max_depth": work.depth,
        "eta": work.eta,
        "max_bin": work.bins,
        "nthread": work.threads,
        "verbosity": 0,
    }
    if work.leaves:
        params |= {"grow_policy": "lossguide", "max_leaves": work.leaves, "max_depth": 0}
    return params


def _fit_xgboost_api(module: str) -> Callable[[np.ndarray, np.ndarray, Work], Any]:
    """A fit by `module.train`, for XGBoost and for every library with its API."""

    def fit(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
        xgb = importlib.import_module(module)
        data = xgb.QuantileDMatrix(X, y, max_bin=work.bins, nthread=work.threads)
        return xgb.train(xgboost_params(work), data, num_boost_round=work.rounds)

    return fit


def lightgbm_params(work: Work, quantized: bool = False) -> dict[str, Any]:
    """The work as parameters of LightGBM; `quantized` asks for its integer gradients."""
    return {
        "objective": "regression" if work.is_regression else "binary",
        "num_leaves": work.leaves or 2**work.depth,
        "max_depth": -1 if work.leaves else work.depth,
        "learning_rate": work.eta,
        "max_bin": min(work.bins, 255),
        "lambda_l2": 1.0,
        "min_data_in_leaf": 0,
        "min_sum_hessian_in_leaf": 1.0,
        "feature_pre_filter": False,
        "use_quantized_grad": quantized,
        "num_threads": work.threads,
        "verbosity": -1,
    }


def _fit_lightgbm(quantized: bool) -> Callable[[np.ndarray, np.ndarray, Work], Any]:
    def fit(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
        lgb = importlib.import_module("lightgbm")
        params = lightgbm_params(work, quantized)
        return lgb.train(params, lgb.Dataset(X, y, params=params), num_boost_round=work.rounds)

    return fit


def _fit_sklearn(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
    """Scikit-learn takes its threads from OpenMP, so the limit is set around the fit."""
    ensemble = importlib.import_module("sklearn.ensemble")
    threadpoolctl = importlib.import_module("threadpoolctl")
    name = "HistGradientBoostingRegressor" if work.is_regression else "HistGradientBoostingClassifier"
    model = getattr(ensemble, name)(
        max_iter=work.rounds,
        learning_rate=work.eta,
        max_depth=None if work.leaves else work.depth,
        max_leaf_nodes=work.leaves or None,
        max_bins=min(work.bins, 255),
        min_samples_leaf=1,
        l2_regularization=1.0,
        early_stopping=False,
    )
    with threadpoolctl.threadpool_limits(work.threads):
        return model.fit(X, y)


def _fit_catboost(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
    catboost = importlib.import_module("catboost")
    shape = (
        {"grow_policy": "Lossguide", "max_leaves": work.leaves, "depth": 16} if work.leaves else {"depth": work.depth}
    )
    make = catboost.CatBoostRegressor if work.is_regression else catboost.CatBoostClassifier
    model = make(
        iterations=work.rounds,
        learning_rate=work.eta,
        boosting_type="Plain",
        bootstrap_type="No",
        border_count=min(work.bins, 255) - 1,
        l2_leaf_reg=1.0,
        random_strength=0.0,
        leaf_estimation_iterations=1,
        thread_count=work.threads,
        allow_writing_files=False,
        logging_level="Silent",
        **shape,
    )
    return model.fit(X, y)


def _fit_chimeraboost(X: np.ndarray, y: np.ndarray, work: Work) -> Any:
    """Its extras (linear leaves, crossed features, validation split, refit) are off: plain boosting like the others."""
    chimeraboost = importlib.import_module("chimeraboost")
    make = chimeraboost.ChimeraBoostRegressor if work.is_regression else chimeraboost.ChimeraBoostClassifier
    model = make(
        n_estimators=work.rounds,
        learning_rate=work.eta,
        depth=work.depth,
        l2_leaf_reg=1.0,
        max_bins=min(work.bins, 255),
        min_child_weight=1.0,
        thread_count=work.threads,
        random_state=0,
        early_stopping=False,
        linear_leaves=False,
        cross_features=False,
        leaf_estimation_iterations=1,
        n_ensembles=1,
        refit_full=False,
        adaptive_learning_rate=False,
    )
    return model.fit(X, y)


def _predict_inplace(model: Any, X: np.ndarray) -> np.ndarray:
    return model.inplace_predict(X)


def _predict_direct(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X)


def _predict_sklearn_api(model: Any, X: np.ndarray) -> np.ndarray:
    """The probability of class 1 of a classifier, the value of a regressor."""
    return model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)


ARBOOST = Peer("arboost", "arboost", ("arboost",), _fit_xgboost_api("arboost"), _predict_inplace)

PEERS: tuple[Peer, ...] = (
    Peer("xgboost", "xgboost", ("xgboost", "xgboost-cpu"), _fit_xgboost_api("xgboost"), _predict_inplace),
    Peer("lightgbm", "lightgbm", ("lightgbm",), _fit_lightgbm(False), _predict_direct),
    Peer("lightgbm quantized", "lightgbm", ("lightgbm",), _fit_lightgbm(True), _predict_direct),
    Peer("sklearn HGB", "sklearn", ("scikit-learn",), _fit_sklearn, _predict_sklearn_api),
    Peer("catboost", "catboost", ("catboost",), _fit_catboost, _predict_sklearn_api),
    Peer(
        "chimeraboost", "chimeraboost", ("chimeraboost",), _fit_chimeraboost, _predict_sklearn_api, has_best_first=False
    ),
)


def installed_peers() -> list[Peer]:
    """The peers that can be imported here, in a fixed order."""
    return [peer for peer in PEERS if peer.is_installed]


def interleave(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, `repeats` times, taking turns and starting with another one each time.

    So a slow moment of the machine falls on all of them.
    """
    names = list(runs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            time.sleep(PAUSE)
            began = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - began)
    return seconds
