"""The tour: train on real data, look at the errors, prove the promises, compare with the libraries at hand, save."""

import functools
import importlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from arboost.demo import Dataset, load_bike_sharing
from arboost.demo.peers import ARBOOST, PEERS, Work, installed_peers, interleave, xgboost_params
from arboost.runtime.context import available_threads

FOLDER = Path(".demo")
REPEATS = 3
WORK = Work(objective="reg:squarederror", rounds=300)


def main(folder: Path = FOLDER, work: Work = WORK) -> int:
    """Run the tour in the terminal; the model goes to `folder`."""
    xgb = importlib.import_module("arboost")
    work = replace(work, threads=available_threads())
    data = load_bike_sharing()
    is_test = np.random.default_rng(0).random(len(data.y)) < 0.2
    train, test = (Dataset(data.X[rows], data.y[rows], data.feature_names) for rows in (~is_test, is_test))
    _print_heading(train, test, work)

    _, seconds = _train(xgb, train, test, replace(work, rounds=1), [])
    print(f"  Kernels ready after {seconds:.1f} s (compiled once for a machine, then kept on disk).\n", flush=True)
    model, seconds = _train(xgb, train, test, work, [xgb.callback.ProgressBar()])
    print(f"  Trained in {seconds:.2f} s, both errors computed in every round.\n")
    _print_errors(model, train, test)
    _print_comparison(train, test, work)
    _save(xgb, model, test, folder)
    _print_same_bits(xgb, train, work)
    return 0


def _print_heading(train: Dataset, test: Dataset, work: Work) -> None:
    title = f"arboost {ARBOOST.version}: bikes rented per hour, Washington, D.C., 2011-2012 (UCI, CC BY 4.0)"
    print(f"\n{title}\n{'-' * len(title)}")
    print(f"  {len(train.y):,} rows to learn from, {len(test.y):,} to test on, {train.X.shape[1]} features")
    print(f"  {work.rounds} rounds, depth {work.depth}, eta {work.eta}, {work.bins} bins, threads: {work.threads}\n")


def _train(xgb: Any, train: Dataset, test: Dataset, work: Work, callbacks: list[Any]) -> tuple[Any, float]:
    """Fit, watching both parts; returns the model and the seconds."""
    began = time.perf_counter()
    dtrain = xgb.DMatrix(train.X, train.y, feature_names=train.feature_names)
    dtest = xgb.DMatrix(test.X, test.y, feature_names=test.feature_names)
    model = xgb.train(
        xgboost_params(work) | {"eval_metric": "rmse", "verbosity": 1},
        dtrain,
        num_boost_round=work.rounds,
        evals=[(dtrain, "train"), (dtest, "test")],
        verbose_eval=False,
        callbacks=callbacks,
    )
    return model, time.perf_counter() - began


def _rmse(prediction: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction.astype(np.float64) - y) ** 2)))


def _print_errors(model: Any, train: Dataset, test: Dataset) -> None:
    rows = [("", "rows", "rmse", "mae", "R2")]
    for name, part in (("train", train), ("test", test)):
        prediction = model.inplace_predict(part.X)
        rmse, mae = _rmse(prediction, part.y), float(np.mean(np.abs(prediction - part.y)))
        r2 = 1.0 - rmse**2 / float(np.var(part.y.astype(np.float64)))
        rows.append((name, f"{len(part.y):,}", f"{rmse:.2f}", f"{mae:.2f}", f"{r2:.4f}"))
    print_table(rows)


def _print_comparison(train: Dataset, test: Dataset, work: Work) -> None:
    """The same work by every library that is installed."""
    libraries = (ARBOOST, *installed_peers())
    models = {peer.name: peer.fit(train.X, train.y, work) for peer in libraries}  # to warm up, and for the errors
    runs = {peer.name: functools.partial(peer.fit, train.X, train.y, work) for peer in libraries}
    seconds = {name: min(values) for name, values in interleave(runs, REPEATS).items()}
    rows = [("library", "version", "seconds", "time / arboost", "test rmse")]
    for peer in libraries:
        rmse = _rmse(np.asarray(peer.predict(models[peer.name], test.X)), test.y)
        ratio = seconds[peer.name] / seconds[ARBOOST.name]
        rows.append((peer.name, peer.version, f"{seconds[peer.name]:.3f}", f"{ratio:.2f}", f"{rmse:.2f}"))
    print(f"  The same work, array to model, equal limits, warm, taking turns, best of {REPEATS}:\n")
    print_table(rows)
    missing = sorted({peer.module for peer in PEERS if not peer.is_installed})
    if missing:
        print(f"  Not installed, so not compared: {', '.join(missing)} (`make demo PEERS=1` installs them).\n")


def _save(xgb: Any, model: Any, test: Dataset, folder: Path) -> None:
    """Keep the model in XGBoost's format and read it back."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bike_sharing.json"
    model.save_model(path)
    again = xgb.Booster(model_file=path)
    same = np.array_equal(model.inplace_predict(test.X), again.inplace_predict(test.X))
    print(f"  Saved {path} ({path.stat().st_size / 1024:.0f} KiB) in XGBoost's own format; XGBoost can load it.")
    print(f"  Loaded again: predictions {'equal to the bit' if same else 'DIFFER'}.")


def _print_same_bits(xgb: Any, train: Dataset, work: Work) -> None:
    """Train with several thread counts and compare the bytes of the models."""
    counts: Sequence[int] = (1, 2, 3, 8)
    few = replace(work, rounds=min(work.rounds, 50))
    raw = set()
    for n_threads in counts:
        params = xgboost_params(few) | {"nthread": n_threads, "subsample": 0.8}
        raw.add(bytes(xgb.train(params, xgb.DMatrix(train.X, train.y), num_boost_round=few.rounds).save_raw()))
    threads = ", ".join(map(str, counts))
    print(
        f"  Trained with {threads} threads: {'the same bytes every time' if len(raw) == 1 else 'DIFFERENT MODELS'}.\n"
    )


def print_table(rows: Sequence[Sequence[str]], indent: str = "  ") -> None:
    """Print rows of text as aligned columns, the first row as heading, the first column to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print(indent + "  ".join(cells).rstrip())
        if n == 0:
            print(indent + "  ".join("-" * width for width in widths))
    print()
