"""Accuracy against XGBoost: same parameters, same splits, every regression, binary and multiclass set, five seeds.

Each seed draws its own split (75 % to train) and its own row and column samples. The yardstick is XGBoost's own noise:
it is fitted twice per split, with two seeds of sampling, and `noise` is the standard deviation of that difference.
A set is "within noise" if the mean paired difference to XGBoost is at most t(0.975, seeds) * noise / sqrt(seeds), or
0.1 % of the metric; one set in forty looks worse by chance alone. Metrics are computed here, not by the libraries.
Without arboost the script only shows the yardstick: XGBoost against itself, and claims nothing.
"""

import importlib
import math
import statistics
import time
from typing import Any

import numpy as np
from scipy.stats import t as student_t

import harness
from harness import ARBOOST, datasets

OBJECTIVES = {
    "regression": ("reg:squarederror", "rmse"),
    "binary": ("binary:logistic", "logloss"),
    "multiclass": ("multi:softprob", "mlogloss"),
    "count": ("count:poisson", "poisson-nloglik"),
}
NEGLIGIBLE = 1e-3  # of the metric


def score(task: str, prediction: np.ndarray, y: np.ndarray) -> float:
    """The task's metric on predictions as `predict` returns them; lower is better."""
    p = np.asarray(prediction, np.float64)
    if task == "regression":
        return float(np.sqrt(np.mean((p - y) ** 2)))
    if task == "binary":
        return harness.logloss(p, y)
    if task == "count":
        return float(np.mean(p - y * np.log(np.maximum(p, 1e-12))))
    chosen = p[np.arange(len(y)), y.astype(np.int64)]
    return float(-np.mean(np.log(np.maximum(chosen, 1e-15))))


def fit_and_score(module: str, data: datasets.Dataset, rows: Any, params: dict[str, Any], rounds: int) -> float:
    """Train one library on rows[0] and score it on rows[1]."""
    xgb = importlib.import_module(module)
    train, test = rows
    model = xgb.train(params, xgb.DMatrix(data.X[train], data.y[train]), num_boost_round=rounds)
    return score(data.task, model.predict(xgb.DMatrix(data.X[test])), data.y[test])


def compare(data: datasets.Dataset, modules: list[str], seeds: int, params: dict[str, Any], rounds: int) -> Any:
    """Scores of each library, and of XGBoost with a second seed, one per split."""
    objective, _ = OBJECTIVES[data.task]
    params = params | {"objective": objective} | ({"num_class": data.n_classes} if data.task == "multiclass" else {})
    scores: dict[str, list[float]] = {name: [] for name in (*modules, "xgboost again")}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(data.X.shape[0])
        rows = np.split(order, [int(0.75 * len(order))])
        for module in modules:
            scores[module].append(fit_and_score(module, data, rows, params | {"seed": seed}, rounds))
        again = fit_and_score("xgboost", data, rows, params | {"seed": seed + 1000}, rounds)
        scores["xgboost again"].append(again)
    return scores


def judge(own: list[float], theirs: list[float], again: list[float]) -> tuple[float, float, str]:
    """(mean difference, the largest that is still noise, verdict)."""
    n = len(own)
    difference = statistics.fmean(a - b for a, b in zip(own, theirs, strict=True))
    noise = math.sqrt(statistics.fmean((a - b) ** 2 for a, b in zip(again, theirs, strict=True)))
    limit = max(float(student_t.ppf(0.975, n)) * noise / math.sqrt(n), NEGLIGIBLE * abs(statistics.fmean(theirs)))
    verdict = "within noise" if abs(difference) <= limit else "BETTER" if difference < 0 else "WORSE"
    return difference, limit, verdict


def main() -> None:
    options = harness.parse_options(
        __doc__,
        seeds=5,
        rounds=100,
        rows=(40_000, "use at most this many rows of a set, drawn once"),
        full=(False, "use every row of every set (hours)"),
        sets=("all", "names separated by commas"),
        subsample=0.8,
    )
    try:
        known = datasets.names(*OBJECTIVES)
    except datasets.DataUnavailable as reason:
        raise SystemExit(f"cannot run: {reason}") from None
    chosen = known if options.sets == "all" else options.sets.split(",")
    challenger = "arboost" if harness.is_usable(ARBOOST) else "xgboost again"
    modules = ["arboost", "xgboost"] if challenger == "arboost" else ["xgboost"]
    params = {
        "tree_method": "hist",
        "eta": 0.1,
        "max_depth": 6,
        "subsample": options.subsample,
        "colsample_bytree": options.subsample,
        "nthread": options.threads,
        "verbosity": 0,
    }
    print(f"{options.rounds} rounds, {params}, {options.seeds} seeds; lower is better")
    rows = [("set", "rows x features", "metric", "xgboost", challenger, "difference", "noise limit", "verdict", "s")]
    verdicts: dict[str, str] = {}
    for name in chosen:
        began = time.perf_counter()
        data = datasets.load(name) if options.full else datasets.load(name).sample(options.rows)
        scores = compare(data, modules, options.seeds, params, options.rounds)
        own = scores[challenger]
        difference, limit, verdict = judge(own, scores["xgboost"], scores["xgboost again"])
        verdicts[name] = verdict
        size = f"{data.X.shape[0]:,} x {data.X.shape[1]:,}"
        numbers = (_mean(scores["xgboost"]), _mean(own), f"{difference:+.5f}", f"{limit:.5f}")
        rows.append((name, size, OBJECTIVES[data.task][1], *numbers, verdict, f"{time.perf_counter() - began:.0f}"))
        print(f"  {name}: {verdict}", flush=True)
    print()
    harness.print_table(rows)
    counts = {word: list(verdicts.values()).count(word) for word in ("within noise", "BETTER", "WORSE")}
    limit = "of all their rows" if options.full else f"of at most {options.rows:,} rows"
    text = f"{len(verdicts)} sets {limit}: " + ", ".join(f"{n} {word}" for word, n in counts.items())
    reduced = options.changed + (["sets"] if options.sets != "all" else [])
    if reduced:
        text += f" (NO VERDICT: not the claim's settings: {', '.join(reduced)})"
    print(f"  {challenger} against xgboost, {text}\n")
    result = {"rival": "xgboost", "ratio": None, "valid": not reduced, "text": text, "sets": verdicts}
    result = result if challenger == "arboost" else None
    harness.print_result("accuracy against xgboost", [], options, result)


def _mean(values: list[float]) -> str:
    return f"{statistics.fmean(values):.5f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.5f}"


if __name__ == "__main__":
    main()
