"""Ranking: training time against XGBoost and LightGBM, and NDCG on the ranking sets over five splits.

Timed is rank:ndcg (LightGBM: lambdarank) on made-up queries, array to model, 100 rounds of depth 6, 2 threads. The
table below it splits the queries of each real set five times, 75 % to train, with the same rounds, eta and depth for
all; NDCG@5 and @10 are computed here. "within noise": the mean paired difference to the peer is at most t(0.975)
standard errors.
"""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import t as student_t

import harness
from harness import Claim, Sample, datasets

LIBRARIES = ("arboost", "xgboost", "lightgbm")


def make_queries(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features float32, relevance 0..4 (mostly 0, as judged lists have), sizes of queries of 40 to 160 documents."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(40, 161, n_rows // 40)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), n_rows)]
    n = int(sizes.sum())
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    z = X @ rng.standard_normal(n_features) * 0.2 + X[:, 0] * X[:, 1] + rng.standard_normal(n)
    z += np.repeat(rng.standard_normal(len(sizes)), sizes)
    cuts = np.quantile(z, [0.55, 0.8, 0.92, 0.98])
    return X, np.searchsorted(cuts, z).astype(np.float32), sizes


def fit_xgboost_like(module: str) -> Callable:
    """A function that trains a library with XGBoost's interface and returns its predict."""

    def fit(X: np.ndarray, y: np.ndarray, sizes: np.ndarray, options: Any, seed: int) -> Callable:
        library: Any = __import__(module)
        params = {"objective": "rank:ndcg", "eta": options.eta, "max_depth": options.depth, "nthread": options.threads}
        params |= {"tree_method": "hist", "seed": seed, "verbosity": 0}
        model = library.train(params, library.DMatrix(X, y, group=sizes), options.rounds)
        return lambda Z: model.predict(library.DMatrix(Z))

    return fit


def fit_lightgbm(X: np.ndarray, y: np.ndarray, sizes: np.ndarray, options: Any, seed: int) -> Callable:
    import lightgbm

    params = {"objective": "lambdarank", "learning_rate": options.eta, "num_leaves": 2**options.depth, "verbosity": -1}
    params |= {"max_depth": options.depth, "min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 1e-3, "lambda_l2": 1.0}
    params |= {"num_threads": options.threads, "seed": seed, "feature_pre_filter": False}
    return lightgbm.train(params, lightgbm.Dataset(X, y, group=sizes), options.rounds).predict


def choose() -> dict[str, tuple[str, Callable]]:
    """name -> (version, fit) of the libraries that are installed."""
    chosen = {}
    for name in LIBRARIES:
        try:
            library = __import__(name)
        except ImportError:
            print(f"left out: {name} (not installed)")
            continue
        chosen[name] = (library.__version__, fit_lightgbm if name == "lightgbm" else fit_xgboost_like(name))
    return chosen


def ndcg(prediction: np.ndarray, y: np.ndarray, sizes: np.ndarray, top: int) -> float:
    """Mean NDCG of the first `top` documents over the queries with a relevant one."""
    scores, first = [], 0
    for size in sizes:
        gain = 2.0 ** y[first : first + size] - 1.0
        order = np.argsort(-prediction[first : first + size], kind="stable")
        discount = 1.0 / np.log2(np.arange(size) + 2.0)
        ideal = (np.sort(gain)[::-1] * discount)[:top].sum()
        if ideal > 0:
            scores.append((gain[order] * discount)[:top].sum() / ideal)
        first += size
    return statistics.fmean(scores)


def load_queries(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, relevance and query sizes of a real set."""
    import pandas as pd

    data = datasets.load(name)
    qid = pd.read_parquet(datasets.data_folder() / data.entry["file"], columns=["qid"])["qid"].to_numpy()
    starts = np.flatnonzero(np.append(True, qid[1:] != qid[:-1]))
    return data.X, data.y, np.diff(np.append(starts, len(qid)))


def time_training(libraries: dict[str, tuple[str, Callable]], options: Any) -> None:
    """Fit all libraries in turns on made-up queries."""
    X, y, sizes = make_queries(options.rows + options.rows // 4, options.features)
    n_train = int(np.searchsorted(np.cumsum(sizes), options.rows))
    split = int(sizes[:n_train].sum())
    samples = {name: Sample(name, version) for name, (version, _) in libraries.items()}
    for _, fit in libraries.values():
        fit(X[: sizes[0]], y[: sizes[0]], sizes[:1], options, 0)
    names = list(libraries)
    for turn in range(options.repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.perf_counter()
            predict = libraries[name][1](X[:split], y[:split], sizes[:n_train], options, 0)
            samples[name].values.append(time.perf_counter() - began)
            samples[name].quality = 1.0 - ndcg(predict(X[split:]), y[split:], sizes[n_train:], 10)
    title = (
        f"ranking {split:,} x {options.features}, {n_train:,} queries, {options.rounds} rounds, depth {options.depth}"
    )
    harness.report(title, list(samples.values()), options, Claim(0.8, 0.6, ("xgboost",)), quality="1 - test NDCG@10")


def compare_accuracy(libraries: dict[str, tuple[str, Callable]], name: str, options: Any) -> list[tuple[str, ...]]:
    """A row of the table for each metric of one set."""
    X, y, sizes = load_queries(name)
    ends = np.cumsum(sizes)
    scores: dict[tuple[str, int], list[float]] = {}
    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(sizes))
        parts = []
        for queries in np.split(order, [int(0.75 * len(order))]):
            queries = np.sort(queries)
            rows = np.concatenate([np.arange(ends[q] - sizes[q], ends[q]) for q in queries])
            parts.append((X[rows], y[rows], sizes[queries]))
        for library, (_, fit) in libraries.items():
            prediction = np.asarray(fit(*parts[0], options, seed)(parts[1][0]))
            for top in (5, 10):
                scores.setdefault((library, top), []).append(ndcg(prediction, parts[1][1], parts[1][2], top))
    rows = []
    for top in (5, 10):
        own = scores["arboost", top]
        cells = [f"{statistics.fmean(own):.4f}"]
        for peer in list(libraries)[1:]:
            theirs = scores[peer, top]
            cells.append(f"{statistics.fmean(theirs):.4f} ({verdict(own, theirs)})")
        rows.append((name, f"NDCG@{top}", *cells))
    return rows


def verdict(own: list[float], theirs: list[float]) -> str:
    """The mean difference, and whether it is more than the spread over the splits explains; higher is better."""
    differences = [a - b for a, b in zip(own, theirs, strict=True)]
    mean, n = statistics.fmean(differences), len(differences)
    limit = float(student_t.ppf(0.975, n - 1)) * statistics.stdev(differences) / math.sqrt(n)
    word = "within noise" if abs(mean) <= limit else "BETTER" if mean > 0 else "WORSE"
    return f"{mean:+.4f} ± {limit:.4f}: {word}"


def main() -> None:
    options = harness.parse_options(
        __doc__, rows=200_000, features=40, rounds=100, depth=6, eta=0.1, seeds=5, skip=("", "'time' or 'accuracy'")
    )
    harness.print_start()
    libraries = choose()
    if options.skip != "time":
        time_training(libraries, options)
    if options.skip != "accuracy":
        try:
            names = datasets.names("ranking")
        except datasets.DataUnavailable as reason:
            raise SystemExit(f"no accuracy table: {reason}") from None
        table: list[tuple[str, ...]] = [("set", "metric", *libraries)]
        for name in names:
            table += compare_accuracy(libraries, name, options)
        harness.print_table(table)


if __name__ == "__main__":
    main()
