"""`report`, `plot`, `dump` and `convert`: a model by itself, or with rows to show it on."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from arboost.cli import show
from arboost.cli.options import (
    DATA,
    PICTURES,
    SETTINGS,
    InFile,
    OutFile,
    PanelledCommand,
    Whole,
    file_option,
    format_options,
    json_option,
    role_options,
    target_option,
)
from arboost.cli.using import labelled, load_model

if TYPE_CHECKING:
    from arboost.cli.tasks import Task

_CONVERTED = (".json", ".ubj", ".onnx", ".py")


def _model_argument() -> Any:
    return click.argument(
        "model", type=click.Path(exists=True, dir_okay=False), metavar="MODEL", help="Model file.", panel=DATA
    )


def make_report(booster: Any, path: str, data: Any, task: "Task", evals_result: Any = None) -> None:
    """One HTML file about a model."""
    classes = [str(name) for name in task.classes] if task.classes else None
    title = f"Model of {', '.join(task.target)}" if task.target else None
    report = importlib.import_module("arboost.report")
    report.write_report(booster, path, data, evals_result=evals_result, class_names=classes, title=title)


_REPORT_HELP = """Write a report of a model as one HTML file: scores, curves, importance, SHAP, trees.

\b
    arboost report m.json --data test.csv --target income --out report.html"""


@click.command(
    "report", cls=PanelledCommand, help=_REPORT_HELP, short_help="A model as one HTML page.", context_settings=SETTINGS
)
@_model_argument()
@click.option(
    "--data", type=InFile(), metavar="FILE", panel=DATA, help="Rows to show the model on, best ones it has not seen."
)
@target_option()
@file_option("--out", "-o", default="report.html", help="The page.")
@role_options(training=False)
@format_options()
@json_option()
def report(model: str, out: str, as_json: bool, **values: Any) -> int:
    from arboost.cli import tasks

    booster = load_model(model)
    task, matrix = tasks.task_of(booster), None
    if values["data"] is not None:
        task, _, matrix = labelled(booster, values)
    make_report(booster, out, matrix, task)
    if as_json:
        show.print_json({"report": out, "bytes": Path(out).stat().st_size})
    else:
        show.out().print(f"[green]✓[/green] {out} ({Path(out).stat().st_size / 1024:,.0f} KiB): open it in a browser")
    return 0


_PLOT_HELP = """Draw the importance of the features, one tree, or the scores of training.

\b
    arboost plot m.json --out importance.png
    arboost plot m.json --kind tree --tree 3 --out tree.svg
    arboost plot metrics.json --kind metric --out curves.png   [dim](a file of train --metrics)[/dim]"""


@click.command(
    "plot",
    cls=PanelledCommand,
    help=_PLOT_HELP,
    short_help="Draw importance, a tree or curves.",
    context_settings=SETTINGS,
)
@_model_argument()
@click.option("--kind", type=click.Choice(["importance", "tree", "metric"]), default="importance", show_default=True,
              help="What to draw.")  # fmt: skip
@file_option("--out", "-o", default="plot.png", help=".png, .svg or .pdf.", suffixes=PICTURES)
@click.option("--tree", type=Whole(0), default=0, show_default=True, help="Which tree.")
@click.option("--most", type=Whole(1), default=20, show_default=True, help="Features, at most.")
@click.option("--by", type=click.Choice(["weight", "gain", "cover", "total_gain", "total_cover"]), default="gain",
              show_default=True, help="What makes a feature important.")  # fmt: skip
def plot(model: str, kind: str, out: str, tree: int, most: int, by: str) -> int:
    from arboost.cli.drawing import draw_model

    draw_model(model, kind, out, tree, most, by)
    show.out().print(f"[green]✓[/green] {out}")
    return 0


_DUMP_HELP = """Print the trees of a model.

\b
    arboost dump m.json | less
    arboost dump m.json --tree 0 --stats
    arboost dump m.json --format dot --tree 0 | dot -Tsvg > tree.svg"""


@click.command("dump", cls=PanelledCommand, help=_DUMP_HELP, short_help="Print the trees.", context_settings=SETTINGS)
@_model_argument()
@click.option("--format", "form", type=click.Choice(["text", "json", "dot"]), default="text", show_default=True,
              help="How.")  # fmt: skip
@click.option("--stats", is_flag=True, help="With gain and cover.")
@click.option("--tree", type=Whole(0), help="This tree only.")
@file_option("--out", "-o", help="Write to a file instead of stdout.")
@json_option()
def dump(model: str, form: str, stats: bool, tree: int | None, out: str | None, as_json: bool) -> int:
    booster = load_model(model)
    form = "json" if as_json else form
    trees = booster.get_dump(with_stats=stats, dump_format=form)
    numbered = list(enumerate(trees))
    if tree is not None:
        if tree >= len(trees):
            raise click.UsageError(f"--tree {tree}: the model has trees 0 to {len(trees) - 1}.")
        numbered = [numbered[tree]]
    if form == "json":
        text = "[\n" + ",\n".join(body for _, body in numbered) + "\n]\n"
    elif form == "dot":
        text = "\n".join(body for _, body in numbered) + "\n"
    else:
        text = "".join(f"booster[{k}]:\n{body}" for k, body in numbered)
    if out:
        Path(out).write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)
    return 0


_CONVERT_HELP = """Write a model in another format, told by the suffix.

\b
    arboost convert m.json m.ubj       [dim]XGBoost's binary format[/dim]
    arboost convert m.json m.onnx      [dim]ONNX, for other runtimes[/dim]
    arboost convert m.json model.py    [dim]plain Python without any import[/dim]"""


@click.command(
    "convert",
    cls=PanelledCommand,
    help=_CONVERT_HELP,
    short_help="To JSON, UBJ, ONNX or Python.",
    context_settings=SETTINGS,
)
@_model_argument()
@click.argument(
    "target", type=OutFile(_CONVERTED), metavar="TARGET", help="File to write: .json, .ubj, .onnx or .py.", panel=DATA
)
@click.option("--margin", is_flag=True, help="ONNX: give raw scores instead of predictions.")
def convert(model: str, target: str, margin: bool) -> int:
    booster = load_model(model)
    suffix = Path(target).suffix.lower()
    if suffix == ".onnx":
        booster.to_onnx(target, output_margin=margin)
    elif suffix == ".py":
        booster.to_python(target)
    else:
        booster.save_model(target)
    show.err().print(f"[green]✓[/green] {target} ({Path(target).stat().st_size / 1024:,.0f} KiB)")
    return 0


COMMANDS = {"report": report, "plot": plot, "dump": dump, "convert": convert}
