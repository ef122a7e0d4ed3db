"""`trace`, `demo`, `bench`, `parameters`, `compile`, `completion` and `version`."""

import importlib
from typing import Any

import rich_click as click

from arboost.cli import show, tools
from arboost.cli.options import (
    DATA,
    SETTINGS,
    TRAINING,
    PanelledCommand,
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

_TRACE_HELP = """Show me the mathematics: train a small model and show every number of it, round by round.

Residuals, gradients and hessians, every candidate split with its gain, leaf outputs, new predictions: as text, or as
one interactive web page with --html.

\b
    arboost trace --example salary
    arboost trace --example salary --html salary.html
    arboost trace small.csv --target label --html trace.html --rounds 2 --max-depth 2"""


def _example_names(ctx: Any, param: Any, incomplete: str) -> list[str]:
    return [name for name in importlib.import_module("arboost.trace").EXAMPLES if name.startswith(incomplete)]


@click.command("trace", cls=TrainingCommand, help=_TRACE_HELP, short_help="Every number of a small training.",
               context_settings=SETTINGS)  # fmt: skip
@data_argument(required=False)
@target_option()
@click.option(
    "--example",
    metavar="NAME",
    panel=DATA,
    shell_complete=_example_names,
    help="A worked example instead of data; --list-examples names them.",
)
@click.option("--list-examples", is_flag=True, panel=DATA, help="Name the examples.")
@file_option("--html", help="Write the interactive page.")
@file_option("--text", "text_file", help="Write the text to a file.")
@click.option(
    "--rounds",
    "-n",
    type=Whole(1),
    default=3,
    metavar="N",
    help="Rounds of boosting. (default: 3)",
    panel=TRAINING,
)
@role_options()
@format_options()
@config_options()
def trace(
    data: str | None, example: str | None, list_examples: bool, html: str | None, text_file: str | None, rounds: int,
    **values: Any,
) -> int:  # fmt: skip
    if not list_examples and (data is None) == (example is None):
        raise click.UsageError("Give a file and its --target, or --example NAME.")
    module = importlib.import_module("arboost.trace")
    if list_examples:
        for name in module.EXAMPLES:
            show.out().print(f"[cyan]{name:<12}[/cyan] {module.example(name).title}")
        return 0
    if example is not None:
        if example not in module.EXAMPLES:
            raise click.UsageError(f"Unknown example {example!r}; there are: {', '.join(module.EXAMPLES)}.")
        found = module.example(example)
    else:
        found = _trace_data(module, {"data": data, **values}, rounds)
    if html:
        found.to_html(html)
        show.err().print(f"[green]✓[/green] {html}: open it in a browser")
    if text_file:
        with open(text_file, "w", encoding="utf-8") as file:
            file.write(f"{found}\n")
    if not html and not text_file:
        found.show()
    return 0


def _trace_data(module: Any, values: dict[str, Any], rounds: int) -> Any:
    """A trace of the user's own rows; classes are shown by their names."""
    from arboost.cli import tables, tasks

    params = given_parameters(values)
    source, roles = source_from(values), roles_from(values)
    data = tables.load(source, roles)
    task, label = tasks.find_task(data, None, params.get("objective"))
    target, notes = ", ".join(task.target) if task.target else None, ""
    classes = [str(name) for name in task.classes or ()]
    if target and task.kind == "binary" and classes != ["0", "1"]:
        target = f"{target} is {classes[1]}"
    elif target and task.kind == "multiclass":
        notes = f"{target}: {', '.join(f'{code} is {name}' for code, name in enumerate(classes))}."
    return module(
        data.matrix(label), None, task.params() | params, rounds, title=data.name, target_name=target, notes=notes,
        class_names=classes if task.kind == "multiclass" else None,
    )  # fmt: skip


_DEMO_HELP = "Train on real data, look at the errors, prove the promises, compare with the libraries installed here."


@click.command("demo", help=_DEMO_HELP, short_help="A tour on real data.", context_settings=SETTINGS)
def demo() -> int:
    return tools.demo()


def _number_option(flag: str, kind: Any, default: int, help: str, panel: str = TRAINING) -> Any:
    words = f"{help} (default: {default:,})"
    return click.option(flag, type=kind, default=default, metavar="N", panel=panel, help=words)


_BENCH_HELP = """Time the same training with every library that is installed, taking turns, under equal limits.

\b
    arboost bench
    arboost bench people.csv --target income --rounds 200
    arboost bench --rows 1000000 --peers xgboost,lightgbm"""


@click.command(
    "bench",
    cls=PanelledCommand,
    help=_BENCH_HELP,
    short_help="Against the libraries installed.",
    context_settings=SETTINGS,
)
@data_argument(required=False, help="Rows to train on; made-up ones if none are given.")
@target_option()
@_number_option("--rows", Whole(10), 100_000, "Rows to make up.", DATA)
@_number_option("--features", Whole(8), 28, "Features to make up.", DATA)
@_number_option("--rounds", Whole(1), 100, "Rounds of boosting.")
@_number_option("--depth", Whole(1, 15), 6, "Depth of the trees.")
@_number_option("--threads", Whole(0), 0, "Threads of every library; 0: all.")
@_number_option("--repeats", Whole(1), 3, "Runs, of which the best counts.")
@click.option("--peers", metavar="NAMES", panel=TRAINING, help="Only these, separated by commas.")
@role_options()
@format_options()
@json_option()
def bench(
    rows: int, features: int, rounds: int, depth: int, threads: int, repeats: int, peers: str | None, as_json: bool,
    **values: Any,
) -> int:  # fmt: skip
    from arboost.cli import racing

    if values["data"] is None:
        race = racing.made_up(rows, features)
    else:
        race = racing.from_table(source_from(values), roles_from(values))
    results = racing.run(race, rounds, depth, threads, repeats, peers, shown=not as_json)
    if as_json:
        show.print_json({"data": race.words, "objective": race.objective, "results": results})
        return 0
    console = show.out()
    table = [
        (r["library"], r["version"], f"{r['seconds']:.3f}", f"{r['ratio']:.2f}", show.number(r["score"]))
        for r in results
    ]
    title = f"{race.words}, {rounds} rounds, depth {depth}: best of {repeats}, array to model"
    console.print(show.plain_table(["library", "version", "seconds", "time / arboost", race.metric], table, title))
    return 0


_PARAMETERS_HELP = """Print what parameters mean: all as Markdown, or some by name.

\b
    arboost parameters
    arboost parameters eta max_depth"""


def _parameter_names(ctx: Any, param: Any, incomplete: str) -> list[str]:
    from arboost.params.table import ALIASES, PARAMS

    return sorted(name for name in {*PARAMS, *ALIASES} if name.startswith(incomplete.replace("-", "_")))


@click.command("parameters", help=_PARAMETERS_HELP, short_help="What they mean.", context_settings=SETTINGS)
@click.argument("names", nargs=-1, shell_complete=_parameter_names, help="Names or aliases; all by default.")
@json_option()
def parameters(names: tuple[str, ...], as_json: bool) -> int:
    from arboost.params.spec import closest
    from arboost.params.table import ALIASES, PARAMS

    if not names and not as_json:
        return tools.print_parameters()
    chosen = []
    for name in names or PARAMS:
        known = ALIASES.get(name.replace("-", "_"), name.replace("-", "_"))
        if known not in PARAMS:
            raise click.UsageError(f"There is no parameter {name!r}.{closest(known, PARAMS)}")
        chosen.append(PARAMS[known])
    if as_json:
        facts = [
            {"name": p.name, "aliases": p.aliases, "type": p.type.__name__, "default": p.default, "values": p.bounds,
             "meaning": p.doc} for p in chosen
        ]  # fmt: skip
        show.print_json({"parameters": facts})
        return 0
    for param in chosen:
        rows = [
            ("meaning", param.doc),
            ("default", str(param.default)),
            ("values", param.bounds or param.type.__name__),
        ]
        rows += [("aliases", ", ".join(param.aliases))] if param.aliases else []
        show.out().print(show.facts(param.name, rows))
    return 0


@click.command("compile", help=tools.COMPILE_HELP, short_help="Compile kernels ahead.", context_settings=SETTINGS)
@click.argument("kinds", nargs=-1, help="Kinds of kernels, such as hist, rank or shap; all by default.")
def compile_command(kinds: tuple[str, ...]) -> int:
    return tools.compile_now(kinds)


_COMPLETION_HELP = """Print the script that makes the Tab key complete commands and options.

\b
    arboost completion bash >> ~/.bashrc
    arboost completion zsh >> ~/.zshrc
    arboost completion fish > ~/.config/fish/completions/arboost.fish"""


@click.command("completion", help=_COMPLETION_HELP, short_help="Tab completion.", context_settings=SETTINGS)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="The shell.")
def completion(shell: str) -> int:
    from click.shell_completion import get_completion_class

    from arboost.cli.app import program

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(program, {}, "arboost", "_ARBOOST_COMPLETE").source())
    return 0


@click.command("version", help="Print the versions of arboost and of what it runs on.", context_settings=SETTINGS)
def version() -> int:
    return tools.print_version()


COMMANDS = {
    "trace": trace,
    "demo": demo,
    "bench": bench,
    "parameters": parameters,
    "compile": compile_command,
    "completion": completion,
    "version": version,
}
