"""The whole family in one table: every library and every kind of ours on every real set, at defaults.

Every library keeps its own defaults; where it has no early stopping of its own it may train up to 1,000 rounds and
stops 50 rounds after the best score on a tenth of the training rows, with the rounds of the best. Each seed draws its
own split (75 % to train) of at most --rows rows. A fit runs in a process of its own and is ended after --cap seconds
of the processor's time (then the library has no result there, and ranks last); --jobs of them run at a time. Seconds in
the table are the processor's too, of all threads: others may use the machine. A library's modules are imported before
they are counted; what it loads or compiles when it first trains is counted. Results are kept in a file, line by line:
a run goes on where one stopped. Ranks are of mean scores, by set; ties share.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
TASKS = {"regression": "rmse", "binary": "logloss", "multiclass": "mlogloss"}
ROUNDS, PATIENCE, VALIDATION = 1000, 50, 0.1


@dataclass
class Part:
    """Rows of a set: a pandas frame and labels."""

    X: Any
    y: Any


@dataclass
class Job:
    """What a fit is given."""

    task: str
    n_classes: int
    train: Part
    test: Part
    threads: int
    seed: int

    @property
    def is_regression(self) -> bool:
        return self.task == "regression"

    @property
    def categories(self) -> list[str]:
        """Columns of categories."""
        return [name for name in self.train.X.columns if str(self.train.X[name].dtype) == "category"]

    def inner(self) -> tuple[Part, Part]:
        """Training rows without a tenth, and that tenth; rows of a class that only the tenth has stay."""
        import numpy as np

        order = np.random.default_rng(1000 + self.seed).permutation(len(self.train.y))
        cut = max(1, int(VALIDATION * len(order)))
        kept, tenth = order[cut:], order[:cut]
        if not self.is_regression:
            is_known = np.isin(self.train.y[tenth], self.train.y[kept])
            kept, tenth = np.append(kept, tenth[~is_known]), tenth[is_known]
        parts = [Part(self.train.X.iloc[rows], self.train.y[rows]) for rows in (kept, tenth)]
        return parts[0], parts[1]


Predict = Callable[[Any], Any]


def _xgboost_like(module: str, extra: dict[str, Any]) -> Callable[[Job], Predict]:
    def fit(job: Job) -> Predict:
        xgb = importlib.import_module(module)
        objective = {"regression": "reg:squarederror", "binary": "binary:logistic", "multiclass": "multi:softprob"}
        params = {"objective": objective[job.task], "nthread": job.threads, "seed": job.seed, "verbosity": 0} | extra
        if job.task == "multiclass":
            params["num_class"] = job.n_classes
        parts = [xgb.DMatrix(p.X, p.y, enable_categorical=True, nthread=job.threads) for p in job.inner()]
        stopped = {"early_stopping_rounds": PATIENCE, "verbose_eval": False}
        model = xgb.train(params, parts[0], ROUNDS, evals=[(parts[1], "valid")], **stopped)
        last = model.best_iteration + 1
        return lambda X: model.predict(xgb.DMatrix(X, enable_categorical=True), iteration_range=(0, last))

    return fit


def _lightgbm(job: Job) -> Predict:
    lgb = importlib.import_module("lightgbm")
    make = lgb.LGBMRegressor if job.is_regression else lgb.LGBMClassifier
    model = make(n_estimators=ROUNDS, n_jobs=job.threads, random_state=job.seed, verbosity=-1)
    train, valid = job.inner()
    model.fit(train.X, train.y, eval_set=[(valid.X, valid.y)], callbacks=[lgb.early_stopping(PATIENCE, verbose=False)])
    return _sklearn_predict(model, job)


def _catboost(job: Job) -> Predict:
    catboost = importlib.import_module("catboost")
    make = catboost.CatBoostRegressor if job.is_regression else catboost.CatBoostClassifier
    model = make(thread_count=job.threads, random_seed=job.seed, allow_writing_files=False, logging_level="Silent")
    train, valid = job.inner()
    fit_args = {"cat_features": job.categories, "early_stopping_rounds": PATIENCE}
    model.fit(_texts(train.X, job), train.y, eval_set=(_texts(valid.X, job), valid.y), **fit_args)
    predict = _sklearn_predict(model, job)
    return lambda X: predict(_texts(X, job))


def _texts(X: Any, job: Job) -> Any:
    """Categories as strings, a missing one too: CatBoost takes no NaN there."""
    return X.assign(
        **{name: X[name].astype(object).where(X[name].notna(), "nan").astype(str) for name in job.categories}
    )


def _hist_gradient_boosting(job: Job) -> Predict:
    ensemble = importlib.import_module("sklearn.ensemble")
    name = "HistGradientBoostingRegressor" if job.is_regression else "HistGradientBoostingClassifier"
    few = [c for c in job.categories if len(job.train.X[c].cat.categories) <= 255]  # its limit
    model = getattr(ensemble, name)(
        max_iter=ROUNDS, early_stopping=True, n_iter_no_change=PATIENCE, random_state=job.seed, categorical_features=few
    )
    model.fit(_codes(job.train.X, job), job.train.y)
    predict = _sklearn_predict(model, job)
    return lambda X: predict(_codes(X, job))


def _random_forest(job: Job) -> Predict:
    ensemble = importlib.import_module("sklearn.ensemble")
    make = ensemble.RandomForestRegressor if job.is_regression else ensemble.RandomForestClassifier
    model = make(n_jobs=job.threads, random_state=job.seed).fit(_codes(job.train.X, job), job.train.y)
    predict = _sklearn_predict(model, job)
    return lambda X: predict(_codes(X, job))


def _codes(X: Any, job: Job) -> Any:
    """Categories as numbers."""
    return X.assign(**{name: X[name].cat.codes.where(X[name].notna()).astype("float32") for name in job.categories})


def _chimeraboost(quality: int | None) -> Callable[[Job], Predict]:
    def fit(job: Job) -> Predict:
        chimeraboost = importlib.import_module("chimeraboost")
        make = chimeraboost.ChimeraBoostRegressor if job.is_regression else chimeraboost.ChimeraBoostClassifier
        more = {} if quality is None else {"quality": quality}
        model = make(thread_count=job.threads, random_state=job.seed, **more)
        model.fit(job.train.X, job.train.y, cat_features=job.categories or None)
        return _sklearn_predict(model, job)

    return fit


def _perpetual(job: Job) -> Predict:
    perpetual = importlib.import_module("perpetual")
    make = perpetual.PerpetualRegressor if job.is_regression else perpetual.PerpetualClassifier
    model = make(num_threads=job.threads).fit(job.train.X, job.train.y)
    return _sklearn_predict(model, job)


def _boosted(quality: int) -> Callable[[Job], Predict]:
    def fit(job: Job) -> Predict:
        ensemble = importlib.import_module("arboost.ensemble")
        make = ensemble.BoostedRegressor if job.is_regression else ensemble.BoostedClassifier
        model = make(quality=quality, n_jobs=job.threads, random_state=job.seed).fit(job.train.X, job.train.y)
        return _sklearn_predict(model, job)

    return fit


def _sklearn_predict(model: Any, job: Job) -> Predict:
    return model.predict if job.is_regression else model.predict_proba


_LEAF_WISE = {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0, "eta": 0.1, "sampling_method": "goss"}
MODELS: dict[str, tuple[str, Callable[[Job], Predict]]] = {  # name -> (module that has what `fit` uses, fit)
    "xgboost": ("xgboost", _xgboost_like("xgboost", {})),
    "lightgbm": ("lightgbm", _lightgbm),
    "catboost": ("catboost", _catboost),
    "hist gradient boosting": ("sklearn.ensemble", _hist_gradient_boosting),
    "random forest": ("sklearn.ensemble", _random_forest),
    "chimeraboost": ("chimeraboost", _chimeraboost(None)),
    "chimeraboost quality 5": ("chimeraboost", _chimeraboost(5)),
    "perpetual": ("perpetual", _perpetual),
    "ours: plain": ("arboost.training", _xgboost_like("arboost", {})),
    "ours: symmetric": ("arboost.training", _xgboost_like("arboost", {"grow_policy": "symmetric", "eta": 0.1})),
    "ours: ordered": (
        "arboost.training",
        _xgboost_like("arboost", {"boosting_type": "ordered", "cat_strategy": "ordered_ts", "eta": 0.1}),
    ),
    "ours: leaf-wise + GOSS": ("arboost.training", _xgboost_like("arboost", _LEAF_WISE)),
    "ours: Boosted quality 3": ("arboost.ensemble.boosted", _boosted(3)),
    "ours: Boosted quality 5": ("arboost.ensemble.boosted", _boosted(5)),
}
SINGLE = frozenset(MODELS) - {"random forest", "chimeraboost quality 5", "ours: Boosted quality 5"}


def load_job(name: str, rows: int, seed: int, threads: int) -> Job:
    """A split of a set, as a frame with its categories."""
    import numpy as np
    import pandas as pd

    import datasets

    entry = datasets.manifest()[name]
    frame = pd.read_parquet(datasets.data_folder() / entry["file"])
    target = entry["target"]
    y = frame[target].to_numpy(np.float32 if entry["task"] == "regression" else np.int64)
    X = frame.drop(columns=[target, *entry.get("non_feature_columns", [])])
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    train, test = np.split(order, [int(0.75 * len(order))])
    if entry["task"] == "multiclass":  # a class that the training part lacks would stop some libraries
        known = np.unique(y[train])
        test = test[np.isin(y[test], known)]
        y = np.searchsorted(known, y)
    n_classes = int(y[train].max()) + 1 if entry["task"] != "regression" else 0
    parts = [Part(X.iloc[part].reset_index(drop=True), y[part]) for part in (train, test)]
    return Job(entry["task"], n_classes, parts[0], parts[1], threads, seed)


def score(job: Job, prediction: Any) -> float:
    """The task's loss; lower is better."""
    import numpy as np

    p, y = np.asarray(prediction, np.float64), job.test.y
    if job.is_regression:
        return float(np.sqrt(np.mean((p - y) ** 2)))
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    chosen = p[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.clip(chosen, 1e-15, 1.0))))


def run_one(options: argparse.Namespace) -> None:
    """One fit in this process; prints its line."""
    job = load_job(options.sets, options.rows, int(options.seeds), options.threads)
    module, fit = MODELS[options.models]
    importlib.import_module(module)
    cap = math.ceil(time.process_time() + options.cap)
    resource.setrlimit(resource.RLIMIT_CPU, (cap, cap + 5))
    began = clocks()
    predict = fit(job)
    fitted = clocks()
    prediction = predict(job.test.X)
    done = clocks()
    seconds = {}
    for what, first, last in (("fit", began, fitted), ("predict", fitted, done)):
        seconds |= {f"{what}_s": last[0] - first[0], f"{what}_cpu_s": last[1] - first[1]}
    print(json.dumps({"score": score(job, prediction)} | seconds))


def clocks() -> tuple[float, float]:
    """Seconds of the clock, and of the processor for this process and those it has ended."""
    times = os.times()
    return time.perf_counter(), times.user + times.system + times.children_user + times.children_system


def run_child(name: str, model: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The result of one fit in a process of its own."""
    own = ["--one", "--sets", name, "--models", model, "--seeds", str(seed), "--rows", str(options.rows)]
    command = [sys.executable, __file__, *own, "--threads", str(options.threads)]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(options.threads))
    environment = {**os.environ, **limits, "CHIMERABOOST_NO_NOTICE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode == -signal.SIGXCPU:
        return {"error": f"no result within {options.cap} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_all(options: argparse.Namespace, sets: list[str], models: list[str]) -> list[dict[str, Any]]:
    """All results, those of earlier runs included; every new one is written at once."""
    path = Path(options.results)
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(r["set"], r["model"], r["seed"], r["rows"]): r for r in known}
    keys = [(name, model, seed, options.rows) for seed in range(options.seeds) for name in sets for model in models]

    def result(key: tuple[str, str, int, int]) -> dict[str, Any]:
        if key not in done:
            where = dict(zip(("set", "model", "seed", "rows"), key, strict=True))
            done[key] = where | run_child(*key[:3], options)
            line = json.dumps(done[key]) + "\n"
            with path.open("a") as file:
                file.write(line)
            print(line, end="", file=sys.stderr, flush=True)
        return done[key]

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(result, keys))


def summarise(results: list[dict[str, Any]], sets: list[str], models: list[str]) -> None:
    """The table: a block for every set, mean ranks at the bottom."""
    ranks: dict[str, list[float]] = {model: [] for model in models}
    times: dict[str, list[float]] = {model: [] for model in models}
    for name in sets:
        rows = {model: [r for r in results if r["set"] == name and r["model"] == model] for model in models}
        means, seconds = {}, {}
        print(f"\n{name}")
        for model, found in rows.items():
            good = [r for r in found if "score" in r]
            whole = bool(good) and len(good) == len(found)
            means[model] = statistics.fmean(r["score"] for r in good) if whole else float("inf")
            seconds[model] = statistics.fmean(r["fit_cpu_s"] for r in good) if whole else float("inf")
            spread = statistics.stdev(r["score"] for r in good) if len(good) > 1 else 0.0
            if whole:
                predict = statistics.fmean(r["predict_cpu_s"] for r in good)
                text = f"{means[model]:10.5f} ± {spread:.5f}   fit {seconds[model]:7.2f} s   predict {predict:6.3f} s"
            else:
                text = next((r["error"] for r in found if "error" in r), "no result")
            print(f"  {model:26s}{text}")
        for model in models:
            ranks[model].append(_rank(means[model], list(means.values())))
            times[model].append(_rank(seconds[model], list(seconds.values())))
    print(f"\nmean rank over {len(sets)} sets (1 is best)          accuracy   fit time")
    for model in sorted(models, key=lambda m: statistics.fmean(ranks[m])):
        single = "" if model in SINGLE else "   (several models)"
        print(f"  {model:42s}{statistics.fmean(ranks[model]):8.2f}{statistics.fmean(times[model]):11.2f}{single}")


def report(results: list[dict[str, Any]], sets: list[str], models: list[str]) -> None:
    """Markdown: ranks among single models and among all, then losses, seconds of fits and of predictions by set."""
    for among in ([m for m in models if m in SINGLE], models):
        _report_ranks(results, sets, among)
    peers, ours = ([m for m in models if m.startswith("ours") == own] for own in (False, True))
    for what in ("score", "fit_cpu_s", "predict_cpu_s"):
        for group in ([*[m for m in ours if "Boosted" in m], *peers], [m for m in ours if "Boosted" not in m]):
            print(f"\n| {what} | {' | '.join(group)} |\n|---|{'---:|' * len(group)}")
            for name in sets:
                best = min(_mean(results, name, m, what) for m in models)
                cells = (_cell(results, name, m, what, best) for m in group)
                print(f"| {name} | {' | '.join(cells)} |")


def _report_ranks(results: list[dict[str, Any]], sets: list[str], models: list[str]) -> None:
    found, ranks = {}, {}
    for what in ("score", "fit_cpu_s", "predict_cpu_s"):
        found[what] = {m: [_mean(results, s, m, what) for s in sets] for m in models}
        by_set = [[found[what][m][i] for m in models] for i in range(len(sets))]
        ranks[what] = {m: statistics.fmean(map(_rank, found[what][m], by_set)) for m in models}
    print("\n| model | rank of the loss | rank of the fit's time | fits, s | predictions, s |")
    print("|---|---:|---:|---:|---:|")
    for m in sorted(models, key=lambda m: ranks["score"][m]):
        fits, predictions = (sum(filter(math.isfinite, found[what][m])) for what in ("fit_cpu_s", "predict_cpu_s"))
        print(f"| {m} | {ranks['score'][m]:.2f} | {ranks['fit_cpu_s'][m]:.2f} | {fits:.1f} | {predictions:.2f} |")


def _mean(results: list[dict[str, Any]], name: str, model: str, what: str) -> float:
    """Over the splits; infinite where one has no result."""
    rows = [r for r in results if (r["set"], r["model"]) == (name, model)]
    return statistics.fmean(r[what] for r in rows) if rows and all(what in r for r in rows) else math.inf


def _cell(results: list[dict[str, Any]], name: str, model: str, what: str, best: float) -> str:
    mean = _mean(results, name, model, what)
    if not math.isfinite(mean):
        return "-"
    values = [r[what] for r in results if (r["set"], r["model"]) == (name, model)]
    if what != "score":
        return f"{mean:.2f}"
    digits = 1 if mean >= 100 else 2 if mean >= 10 else 4
    text = f"{mean:.{digits}f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.{digits}f}"
    return f"**{text}**" if mean == best else text


def _rank(value: float, values: list[float]) -> float:
    below, equal = sum(v < value for v in values), sum(v == value for v in values)
    return below + (equal + 1) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="all", help="names separated by commas")
    parser.add_argument("--models", default="all", help="names separated by commas")
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    parser.add_argument("--rows", type=int, default=20_000, help="most rows of a set, training and test together")
    parser.add_argument("--threads", type=int, default=2, help="of a fit")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--cap", type=float, default=600.0, help="most seconds of the processor for a fit and its use")
    parser.add_argument("--results", default="family.jsonl", help="where results are kept and looked for")
    parser.add_argument("--report", action="store_true", help="of the results that there are; nothing is run")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options)
        return
    import datasets

    try:
        known = [n for n in datasets.names(*TASKS) if datasets.manifest()[n].get("format") != "csr-lists"]
    except datasets.DataUnavailable as reason:
        raise SystemExit(f"cannot run: {reason}") from None
    sets = known if options.sets == "all" else options.sets.split(",")
    models = list(MODELS) if options.models == "all" else options.models.split(",")
    for model in [
        m for m in models if not options.report and importlib.util.find_spec(MODELS[m][0].split(".")[0]) is None
    ]:
        print(f"left out: {model} (not installed)")
        models.remove(model)
    if options.report:
        known = [json.loads(line) for line in Path(options.results).read_text().splitlines()]
        report([r for r in known if r["rows"] == options.rows and r["seed"] < options.seeds], sets, models)
        return
    summarise(run_all(options, sets, models), sets, models)


if __name__ == "__main__":
    main()
