"""`predict`, `evaluate` and `explain`: a model and a table."""

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import rich_click as click

from arboost.cli import show
from arboost.cli.options import (
    DATA,
    OUTPUT,
    PICTURES,
    SETTINGS,
    TABLES,
    PanelledCommand,
    Whole,
    column_option,
    data_argument,
    file_option,
    format_options,
    json_option,
    role_options,
    roles_from,
    source_from,
    target_option,
)

if TYPE_CHECKING:
    import numpy as np

    from arboost.cli.tables import Data
    from arboost.cli.tasks import Task

_KINDS = ("auto", "value", "probability", "margin", "leaf")
_FEW_CLASSES = 12  # whose confusion fits a terminal


def model_option() -> Any:
    """The model to use."""
    return click.option(
        "--model", "-m", required=True, metavar="FILE", type=click.Path(exists=True, dir_okay=False), panel=DATA,
        help="Model file, of arboost or of XGBoost.",
    )  # fmt: skip


def threads_option() -> Any:
    """How many threads."""
    return click.option("--threads", "--nthread", type=int, default=0, metavar="N", help="Threads; 0: all.")


def load_model(path: str, threads: int = 0) -> Any:
    """The booster in a file."""
    from arboost import Booster
    from arboost.runtime.errors import XGBoostError

    try:
        return Booster({"nthread": threads} if threads else {}, model_file=path)
    except XGBoostError as error:
        raise XGBoostError(f"{path} is no model that can be read: {error}") from error


_PREDICT_HELP = """Predict the rows of a table with a model.

Columns are found by name, in any order; those that the model does not know are passed over. Classes come back under
the names they were trained with, with a probability each.

\b
    arboost predict new.csv --model m.json --out predictions.csv
    arboost predict new.parquet -m m.json --keep id --out predictions.parquet
    cat new.csv | arboost predict - -m m.json > predictions.csv"""


@click.command(
    "predict",
    cls=PanelledCommand,
    help=_PREDICT_HELP,
    short_help="Predict the rows of a table.",
    context_settings=SETTINGS,
)
@data_argument()
@model_option()
@file_option("--out", "-o", help="CSV or Parquet file; - is stdout.", default="-", suffixes=TABLES)
@click.option(
    "--kind", type=click.Choice(_KINDS), default="auto", metavar="KIND", panel=OUTPUT,
    help="auto (classes by name, with probabilities), value, probability, margin or leaf.",
)  # fmt: skip
@click.option("--keep", multiple=True, metavar="COLUMN", panel=OUTPUT, help="Column to copy there, such as an id.")
@click.option("--rounds", type=Whole(1), metavar="N", help="Use the first so many rounds. (default: all, or the best)")
@column_option("--base-margin", help="Where the margin of each row starts.")
@threads_option()
@format_options()
@json_option()
def predict(
    model: str, out: str, kind: str, keep: tuple[str, ...], rounds: int | None, threads: int, as_json: bool,
    **values: Any,
) -> int:  # fmt: skip
    from arboost.cli import tables, tasks, writing

    booster = load_model(model, threads)
    task = tasks.task_of(booster)
    source = source_from(values)
    roles = roles_from(values)
    roles.drop = [name for name in task.target or () if booster.feature_names is None]
    n_rows, seconds, columns = 0, 0.0, {}
    inline: list[dict[str, Any]] = []
    with nullcontext(inline.append) if as_json and out == "-" else writing.writing(out) as write:
        for data in tables.stream_for_model(source, roles, booster, keep):
            began = time.perf_counter()
            columns = _prediction_columns(booster, task, data, kind, rounds)
            seconds += time.perf_counter() - began
            n_rows += data.n_rows
            write({**data.kept, **columns})
    if as_json:
        where = {"predictions": writing.as_lists(inline)} if inline else {"out": out, "columns": list(columns)}
        show.print_json({"rows": n_rows, "seconds": round(seconds, 3), **where})
    elif out != "-":
        show.err().print(f"[green]✓[/green] {n_rows:,} rows predicted in {seconds:.2f} s, written to {out}")
    return 0


def _prediction_columns(booster: Any, task: "Task", data: "Data", kind: str, rounds: int | None) -> dict[str, Any]:
    """What is written for every row, by name."""
    import numpy as np

    matrix = data.matrix()
    span = {"iteration_range": (0, rounds)} if rounds else {}
    if kind in ("margin", "leaf"):
        found = booster.predict(matrix, output_margin=kind == "margin", pred_leaf=kind == "leaf", **span)
        return _numbered(kind, found.reshape(len(found), -1))
    found = booster.predict(matrix, **span)
    if task.objective in ("multi:softmax", "binary:hinge"):
        return {"prediction": _class_names(task, found.astype(np.int64))}
    if task.objective == "binary:logistic":
        table = np.column_stack([1 - found, found])
    elif task.objective == "multi:softprob":
        table = found
    else:
        return _numbered("prediction", found.reshape(len(found), -1))
    codes = table.argmax(axis=1)
    chances = {f"p({name})": table[:, c] for c, name in enumerate(_names(task, table.shape[1]))}
    if kind == "probability":
        return chances
    return {"prediction": _class_names(task, codes)} | ({} if kind == "value" else chances)


def _numbered(name: str, table: "np.ndarray") -> dict[str, Any]:
    if table.shape[1] == 1:
        return {name: table[:, 0]}
    return {f"{name}_{k}": table[:, k] for k in range(table.shape[1])}


def _names(task: "Task", n_classes: int) -> list[Any]:
    return task.classes if task.classes and len(task.classes) == n_classes else list(range(n_classes))


def _class_names(task: "Task", codes: "np.ndarray") -> list[Any]:
    names = _names(task, len(task.classes) if task.classes else int(codes.max(initial=0)) + 1)
    return [names[code] for code in codes.tolist()]


_EVALUATE_HELP = """Judge a model by rows whose target is known.

\b
    arboost evaluate test.csv --target income --model m.json
    arboost evaluate test.csv -t income -m m.json --json"""


@click.command(
    "evaluate",
    cls=PanelledCommand,
    help=_EVALUATE_HELP,
    short_help="Judge a model by a table.",
    context_settings=SETTINGS,
)
@data_argument()
@target_option()
@model_option()
@role_options(training=False)
@threads_option()
@format_options()
@json_option()
def evaluate(model: str, threads: int, as_json: bool, **values: Any) -> int:
    booster = load_model(model, threads)
    task, data, matrix = labelled(booster, values)
    from arboost.cli import tasks

    scores = tasks.judge(booster, task, matrix)
    confusion = _confusion(booster, task, matrix)
    if as_json:
        result = {"model": model, "task": task.kind, "rows": data.n_rows, "metrics": scores}
        show.print_json(result | ({} if confusion is None else {"classes": task.classes, "confusion": confusion}))
        return 0
    console = show.out()
    console.print(show.facts("", [("data", f"{data.name}: {data.n_rows:,} rows"), ("task", task.words)]))
    console.print()
    console.print(show.scores({"score": scores}))
    if confusion is not None and len(confusion) <= _FEW_CLASSES:
        console.print()
        console.print(_confusion_table(_names(task, len(confusion)), confusion))
    return 0


def labelled(booster: Any, values: dict[str, Any]) -> tuple["Task", "Data", Any]:
    """The task of a model, rows with their target, and both as a matrix; what is not named the model remembers."""
    from arboost.cli import tables, tasks

    task = tasks.task_of(booster)
    source, roles = source_from(values), roles_from(values)
    if source.kind != "libsvm":
        for role, name in task.columns.items():
            setattr(roles, role, getattr(roles, role) or name)
        roles.target = roles.target or task.target or ()
        if not (roles.target or roles.lower):
            raise click.UsageError("Say which column has the true values: --target NAME.")
        if task.kind == "ranking" and not roles.group:
            raise click.UsageError("Rows are ranked within groups: --group NAME.")
    data = tables.load_for_model(source, roles, booster, needs_target=True)
    return task, data, data.matrix(tasks.label_codes(task, data))


def _confusion(booster: Any, task: "Task", matrix: Any) -> list[list[int]] | None:
    """Rows of each class by what they were taken for."""
    import numpy as np

    if task.kind not in ("binary", "multiclass"):
        return None
    label, found = matrix.get_label().astype(np.int64), booster.predict(matrix)
    if found.ndim > 1:
        codes = found.argmax(axis=1)
    elif task.kind == "binary":
        codes = (found > (0.0 if task.objective == "binary:logitraw" else 0.5)).astype(np.int64)
    else:
        codes = found.astype(np.int64)
    n_classes = len(task.classes) if task.classes else int(max(label.max(), codes.max())) + 1
    counts = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(counts, (label, codes), 1)
    return counts.tolist()


def _confusion_table(names: list[Any], counts: list[list[int]]) -> Any:
    rows = []
    for name, row, k in zip(names, counts, range(len(names))):
        share = row[k] / max(1, sum(row))
        cells = [f"[bold green]{n:,}[/]" if c == k else f"{n:,}" if n else "[dim]0[/]" for c, n in enumerate(row)]
        rows.append([str(name), *cells, f"{share:.1%}"])
    return show.plain_table(["true \\ predicted", *map(str, names), "found"], rows)


_EXPLAIN_HELP = """Say how much each feature moved each prediction (SHAP values).

The values of a row and its bias add up to its margin, exactly.

\b
    arboost explain new.csv --model m.json --out shap.csv
    arboost explain new.csv -m m.json --plot shap.png --rows 2000"""


@click.command(
    "explain", cls=PanelledCommand, help=_EXPLAIN_HELP, short_help="SHAP values of a table.", context_settings=SETTINGS
)
@data_argument()
@model_option()
@file_option("--out", "-o", help="Write the values of every row: .csv or .parquet.", suffixes=TABLES)
@file_option("--plot", help="Draw them: .png, .svg or .pdf.", suffixes=PICTURES)
@click.option("--rows", type=Whole(1), metavar="N", help="Explain the first so many rows only.")
@click.option("--approximate", is_flag=True, help="Faster, and not exact.")
@threads_option()
@format_options()
@json_option()
def explain(
    model: str, out: str | None, plot: str | None, rows: int | None, approximate: bool, threads: int, as_json: bool,
    **values: Any,
) -> int:  # fmt: skip
    import numpy as np

    from arboost.cli import tables, tasks, writing

    booster = load_model(model, threads)
    task = tasks.task_of(booster)
    roles = tables.Roles(drop=[name for name in task.target or () if booster.feature_names is None])
    data = tables.load_for_model(source_from(values), roles, booster, needs_target=False)
    matrix = data.matrix()
    if rows is not None and rows < data.n_rows:
        matrix = matrix.slice(np.arange(rows), allow_groups=True)
    found = booster.predict(matrix, pred_contribs=True, approx_contribs=approximate)
    names = list(matrix.feature_names or [f"f{k}" for k in range(matrix.num_col())])
    shap = found if found.ndim == 3 else found[:, None, :]
    weight = np.abs(shap[:, :, :-1]).mean(axis=(0, 1))
    ranked = sorted(zip(names, weight.tolist()), key=lambda pair: -pair[1])
    if out:
        writing.write_columns(out, _shap_columns(shap, names, _outputs(task, shap.shape[1])))
    if plot:
        from arboost.cli.drawing import draw_shap

        draw_shap(plot, shap, matrix, names, _outputs(task, shap.shape[1]))
    if as_json:
        files = {name: path for name, path in (("out", out), ("plot", plot)) if path}
        show.print_json({"rows": matrix.num_row(), "mean_abs_shap": dict(ranked)} | files)
        return 0
    console = show.err() if out == "-" else show.out()  # the values have stdout for themselves
    console.print(show.bars(ranked, f"Mean |SHAP| over {matrix.num_row():,} rows", most=20))
    for path in (out, plot):
        if path and path != "-":
            console.print("[green]✓[/green] ", end="")
            console.print(path, style="bold", markup=False)
    return 0


def _outputs(task: "Task", n_outputs: int) -> list[str]:
    return [""] if n_outputs == 1 else [str(name) for name in _names(task, n_outputs)]


def _shap_columns(shap: "np.ndarray", names: list[str], outputs: list[str]) -> dict[str, Any]:
    columns = {}
    for k, output in enumerate(outputs):
        for f, name in enumerate([*names, "(bias)"]):
            columns[f"{name}|{output}" if output else name] = shap[:, k, f]
    return columns


def importance(booster: Any, kind: str = "total_gain") -> list[tuple[str, float]]:
    """Features that are used, with shares that add up to 1; of a linear model shares of the weights."""
    import json

    import numpy as np

    is_linear = json.loads(booster.save_config())["learner"]["gradient_booster"]["name"] == "gblinear"
    found = booster.get_score(importance_type="weight" if is_linear else kind)
    numbers = {name: float(np.sum(np.abs(value))) for name, value in found.items()}
    total = sum(numbers.values()) or 1.0
    return [(name, value / total) for name, value in numbers.items()]


COMMANDS = {"predict": predict, "evaluate": evaluate, "explain": explain}
