"""`train` and `cv`."""

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from arboost.cli import show
from arboost.cli.options import (
    OUTPUT,
    SETTINGS,
    TABLES,
    TRAINING,
    InFile,
    TrainingCommand,
    Whole,
    config_options,
    data_argument,
    file_option,
    format_options,
    given_parameters,
    json_option,
    role_options,
    roles_from,
    source_from,
    target_option,
)

if TYPE_CHECKING:
    from arboost.cli.tables import Data, Roles, Source
    from arboost.cli.tasks import Task

    Load = Callable[[Source, Roles], Data]

_FEW_ROWS = 50  # too few to hold some of them out unless asked
_ROUNDS, _ROUNDS_WITH_STOPPING = 100, 1000
_TASKS = ("regression", "binary", "multiclass", "ranking", "survival")

_TRAIN_HELP = """Learn a model from a table.

The task is found from the target: names or a few whole numbers are classes, other numbers are a quantity, and with
--group rows are ranked. Text columns are categories, empty fields are missing values. A fifth of the rows is held out
to tell how good the model is.

\b
    arboost train people.csv --target income --model m.json
    arboost train people.csv -t income -m m.json --eta 0.05 --early-stopping 50
    arboost train people.csv -t income -m m.json --drop id --report report.html
    arboost train people.csv --config train.toml   [dim]options in a file[/dim]"""

_CV_HELP = """Cross-validate: train on all folds but one, test on that one, for each fold.

\b
    arboost cv people.csv --target income
    arboost cv people.csv -t income --folds 10 --early-stopping 20 --max-depth 4 --out history.csv"""


def _shared(function: Any) -> Any:
    """Options of both commands, in the order of the help."""
    number = Whole(0)
    for decorate in reversed(
        (
            data_argument(),
            target_option(),
            role_options(),
            format_options(),
            click.option(
                "--task", type=click.Choice(_TASKS), metavar="TASK", panel=TRAINING,
                help="regression, binary, multiclass, ranking or survival, if the target does not tell.",
            ),
            click.option(
                "--rounds", "-n", "--num-boost-round", type=number, metavar="N", panel=TRAINING,
                help="Rounds of boosting. (default: 100; with early stopping at most 1000)",
            ),
            click.option(
                "--early-stopping", type=Whole(1), metavar="N", panel=TRAINING,
                help="Stop when the held-out score has not improved for so many rounds.",
            ),
            config_options(),
            json_option(),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command(
    "train", cls=TrainingCommand, help=_TRAIN_HELP, short_help="Learn a model from a table.", context_settings=SETTINGS
)
@file_option(
    "--model", "-m", help="Where to save the model: .json or .ubj.", default="model.json", suffixes=(".json", ".ubj")
)
@file_option("--metrics", "metrics_file", help="Write the scores of every round as JSON.")
@file_option("--report", "report_file", help="Write a report of the model as one HTML file.")
@click.option("--quiet", "-q", is_flag=True, panel=OUTPUT, help="Say nothing but errors.")
@_shared
@click.option(
    "--split", type=click.FloatRange(0, 1, max_open=True), metavar="SHARE", panel=TRAINING,
    help="Share of the rows to hold out; 0 trains on all. (default: 0.2; 0 below 50 rows)",
)  # fmt: skip
@click.option(
    "--valid", type=InFile(), metavar="FILE", panel=TRAINING, help="Held-out rows in a file of their own, not a split."
)
@click.option(
    "--refit", is_flag=True, panel=TRAINING, help="In the end train on all rows, for the best number of rounds."
)
@click.option(
    "--resume", metavar="MODEL", panel=TRAINING, type=click.Path(exists=True, dir_okay=False),
    help="Go on from this model.",
)  # fmt: skip
@click.option(
    "--memory-budget", metavar="SIZE", panel=TRAINING,
    help="Memory to use, such as 4GB; Parquet that needs more is kept on disk. (default: 3/4 of what is free)",
)  # fmt: skip
@click.pass_context
def train(
    ctx: click.RichContext, /, model: str, valid: str | None, split: float | None, refit: bool, resume: str | None,
    memory_budget: str | None, metrics_file: str | None, report_file: str | None, quiet: bool, as_json: bool,
    **values: Any,
) -> int:  # fmt: skip
    from arboost.cli import tables
    from arboost.config import config_context

    if quiet:
        ctx.meta[show.QUIET] = True
    ctx.with_resource(config_context(memory_budget=memory_budget))
    run = _Run(values, tables.load_any_size)
    run.hold_out(valid, split)
    found: dict[str, Any] = {}
    began = time.perf_counter()
    shown = not (quiet or as_json)
    if shown:
        show.out().print(run.facts())
    try:
        booster = run.fit(found, resume, shown)
    except KeyboardInterrupt as stopped:
        _save_interrupted(run, stopped, model)
        raise
    if refit and run.held is not None:
        booster = run.refit(booster, resume)
    seconds = time.perf_counter() - began
    run.keep(booster, model)
    result = run.result(booster, model, seconds)
    if metrics_file:
        _write_json(metrics_file, {**result, "history": found})
    if report_file:
        _write_report(booster, report_file, run, found)
        result["report"] = report_file
    if as_json:
        show.print_json(result)
    elif shown:
        _print_result(booster, result)
    return 0


class _Run:
    """One training: its data, its task, its parameters."""

    def __init__(self, values: dict[str, Any], load: "Load") -> None:
        from arboost.cli import tasks

        self._load = load
        self.params = given_parameters(values)
        kind, rounds = values.pop("task"), values.pop("rounds")
        self.early_stopping: int | None = values.pop("early_stopping")
        self.n_rounds = rounds if rounds is not None else _ROUNDS_WITH_STOPPING if self.early_stopping else _ROUNDS
        self.source, self.roles = source_from(values), roles_from(values)
        self.data: Data = load(self.source, self.roles)
        self.task, self.label = tasks.find_task(self.data, kind, self.params.get("objective"))
        self.params = self.task.params() | self.params
        self.seed = int(self.params.get("seed", 0))
        self.threads = int(self.params.get("nthread", 0)) or None
        self.held: Any = None
        self._dtrain: Any = None

    @functools.cached_property
    def matrix(self) -> Any:
        """All rows."""
        return self.data.matrix(self.label, self.threads)

    @property
    def dtrain(self) -> Any:
        """The rows to learn from."""
        return self.matrix if self._dtrain is None else self._dtrain

    def hold_out(self, valid: str | None, share: float | None) -> None:
        """Set rows aside, from a file or by a split."""
        from arboost.cli import tables, tasks

        if valid is not None:
            source = replace(self.source, path=valid)
            held = tables.widen(self._load(source, self.roles), self.data.n_features)
            if held.is_table and held.features.column_names != self.data.features.column_names:
                held.features = held.features.select(self.data.features.column_names)
            self.held = held.matrix(tasks.label_codes(self.task, held))
            return
        if share is None:
            share = 0.2 if self.data.n_rows >= _FEW_ROWS else 0.0
        if share > 0:
            stratify = self.task.kind in ("binary", "multiclass")
            rows = tasks.split_rows(self.label, self._groups(), self.data.n_rows, share, stratify, self.seed)
            self._dtrain, self.held = (self._take(part) for part in rows)
        elif self.early_stopping:
            raise click.UsageError("Early stopping needs held-out rows: --split or --valid.")

    def _groups(self) -> Any:
        """Group of every row, or None."""
        import numpy as np

        if "qid" in self.data.fields:
            return self.data.fields["qid"]
        sizes = self.matrix.get_group()
        return np.repeat(np.arange(len(sizes)), sizes) if len(sizes) else None

    def _take(self, rows: Any) -> Any:
        if self.data.is_streamed:
            return self.data.matrix(self.label, self.threads, rows)
        part, groups = self.matrix.slice(rows, allow_groups=True), self._groups()
        if groups is not None:
            part.set_info(qid=groups[rows])
        return part

    def fit(self, found: dict[str, Any], resume: str | None, shown: bool) -> Any:
        """The model; the scores of every round go to `found`."""
        from arboost import train as boost

        evals = [(self.dtrain, "train")] + ([(self.held, "valid")] if self.held is not None else [])
        callbacks = [show.rounds_bar(self.n_rounds, shown)]
        return boost(
            self.params, self.dtrain, self.n_rounds, evals=evals, evals_result=found, verbose_eval=False,
            early_stopping_rounds=self.early_stopping, xgb_model=resume, callbacks=callbacks,
        )  # fmt: skip

    def refit(self, booster: Any, resume: str | None) -> Any:
        """A model of all rows with as many rounds as were best on those held out."""
        from arboost import train as boost

        n_rounds = booster.best_iteration + 1 if self.early_stopping else self.n_rounds
        return boost(self.params, self.matrix, n_rounds, verbose_eval=False, xgb_model=resume)

    def keep(self, booster: Any, path: str) -> None:
        """Save the model with its task."""
        from arboost.cli import tasks

        tasks.keep(booster, self.task)
        booster.save_model(path)

    def result(self, booster: Any, path: str, seconds: float) -> dict[str, Any]:
        """What came of it, for machines."""
        from arboost.cli import tasks

        parts = {"train": self.dtrain} | ({"valid": self.held} if self.held is not None else {})
        best = booster.attr("best_iteration")
        return {
            "model": path,
            "task": self.task.kind,
            "objective": self.params["objective"],
            "classes": self.task.classes,
            "target": self.task.target,
            "rows": {name: part.num_row() for name, part in parts.items()},
            "features": self.data.n_features,
            "rounds": booster.num_boosted_rounds(),
            "best_iteration": int(best) if best is not None else None,
            "seconds": round(seconds, 3),
            "parameters": self.params,
            "metrics": {name: tasks.judge(booster, self.task, part) for name, part in parts.items()},
        }

    def facts(self) -> Any:
        """What is about to be done, for the reader."""
        types = self.dtrain.feature_types or []
        n_categorical = sum(kind == "c" for kind in types)
        held = (
            "" if self.held is None else f" ({self.dtrain.num_row():,} to learn from, {self.held.num_row():,} held out)"
        )
        kinds = f", {n_categorical} of them categorical" if n_categorical else ""
        target = ", ".join(self.task.target or ["the label"])
        own = {name: value for name, value in self.params.items() if name not in ("objective", "num_class")}
        rows = [
            ("data", f"{self.data.name}: {self.data.n_rows:,} rows{held}, {self.data.n_features} features{kinds}"),
            ("target", f"{target}: {self.task.words}"),
            ("training", f"{self.params['objective']}, {self._rounds_words()}"),
        ]
        if own:
            rows.append(("parameters", ", ".join(f"{name}={value}" for name, value in own.items())))
        return show.facts("", rows)

    def _rounds_words(self) -> str:
        if self.early_stopping:
            return f"up to {self.n_rounds} rounds, until {self.early_stopping} bring nothing"
        return f"{self.n_rounds} rounds"


def _save_interrupted(run: _Run, stopped: KeyboardInterrupt, path: str) -> None:
    """Keep the rounds that were finished."""
    booster = getattr(stopped, "booster", None)
    if booster is not None and booster.num_boosted_rounds():
        run.keep(booster, path)
        show.say("note", "yellow", f"the {booster.num_boosted_rounds()} finished rounds are saved: {path}")


def _write_json(path: str, result: dict[str, Any]) -> None:
    Path(path).write_text(f"{show.as_json(result)}\n", encoding="utf-8")


def _write_report(booster: Any, path: str, run: _Run, found: dict[str, Any]) -> None:
    from arboost.cli.models import make_report

    held = run.held if run.held is not None else run.dtrain
    make_report(booster, path, held, run.task, found)


def _print_result(booster: Any, result: dict[str, Any]) -> None:
    from arboost.cli.using import importance

    console = show.out()
    console.print()
    console.print(show.scores(result["metrics"]))
    console.print()
    weights = importance(booster)
    if weights:
        console.print(show.bars(weights, "What it looks at (share of the gain)", "{:.1%}".format))
        console.print()
    best = result["best_iteration"]
    words = f"{result['rounds']} rounds" if best is None else f"best after {best + 1} of {result['rounds']} rounds"
    size = Path(result["model"]).expanduser().stat().st_size / 1024
    console.print(f"[green]✓[/green] {words} in {result['seconds']:.2f} s, saved to ", end="")
    console.print(result["model"], style="bold", markup=False, end="")
    console.print(f" ({size:,.0f} KiB)")
    if "report" in result:
        console.print("[green]✓[/green] report: ", end="")
        console.print(result["report"], style="bold", markup=False)
    if len(result["metrics"]) == 1:
        console.print("[dim]No rows were held out: these scores are of rows the model has seen.[/dim]")


@click.command("cv", cls=TrainingCommand, help=_CV_HELP, short_help="Cross-validate.", context_settings=SETTINGS)
@click.option(
    "--folds",
    "-k",
    type=Whole(2),
    default=5,
    metavar="N",
    panel=TRAINING,
    help="Number of folds. (default: 5)",
)
@file_option("--out", "-o", help="Write the scores of every round: .csv or .parquet.", suffixes=TABLES)
@_shared
def cv(folds: int, out: str | None, as_json: bool, **values: Any) -> int:
    from arboost import cv as cross_validate
    from arboost.cli import tables, writing

    run = _Run(values, tables.load)
    if folds > run.data.n_rows:
        raise click.UsageError(f"--folds {folds}: there are only {run.data.n_rows} rows.")
    if not as_json:
        show.out().print(run.facts())
    began = time.perf_counter()
    history = cross_validate(
        run.params, run.matrix, run.n_rounds, nfold=folds, stratified=run.task.kind in ("binary", "multiclass"),
        early_stopping_rounds=run.early_stopping, as_pandas=False, verbose_eval=False, seed=run.seed,
        callbacks=[show.rounds_bar(run.n_rounds, not as_json)],
    )  # fmt: skip
    result = _cv_result(run.task, folds, history, time.perf_counter() - began)
    if out:
        n_rounds = len(next(iter(history.values())))
        writing.write_columns(out, {"round": list(range(1, n_rounds + 1)), **history})
    if as_json:
        show.print_json(result | {"history": history})
    else:
        _print_cv(result, out)
    return 0


def _cv_result(task: "Task", folds: int, history: dict[str, list[float]], seconds: float) -> dict[str, Any]:
    """Means and deviations over the folds, at the last round and at the best one."""
    from arboost.metrics import METRICS

    scores = {}
    for column, values in history.items():
        if column.endswith("-mean"):
            name = column.removesuffix("-mean")
            metric = name.partition("-")[2]
            pick = max if METRICS[metric.partition("@")[0]].maximize else min
            best = pick(range(len(values)), key=values.__getitem__)
            deviations = history[f"{name}-std"]
            scores[name] = {
                "last": values[-1], "last_std": deviations[-1],
                "best": values[best], "best_std": deviations[best], "best_round": best + 1,
            }  # fmt: skip
    n_rounds = len(next(iter(history.values()), []))
    return {"task": task.kind, "folds": folds, "rounds": n_rounds, "seconds": round(seconds, 3), "metrics": scores}


def _print_cv(result: dict[str, Any], out: str | None) -> None:
    console = show.out()
    rows = [
        (
            name,
            f"{show.number(s['last'])} ± {show.number(s['last_std'])}",
            f"{show.number(s['best'])} ± {show.number(s['best_std'])}",
            str(s["best_round"]),
        )
        for name, s in result["metrics"].items()
    ]
    console.print()
    console.print(show.plain_table(["metric", f"after {result['rounds']} rounds", "best", "in round"], rows))
    console.print()
    console.print(f"[green]✓[/green] {result['folds']} folds x {result['rounds']} rounds in {result['seconds']:.2f} s")
    if out:
        console.print("[green]✓[/green] every round: ", end="")
        console.print(out, style="bold", markup=False)


COMMANDS = {"train": train, "cv": cv}
