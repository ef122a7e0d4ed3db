"""Options that commands share: the data, every parameter of the table, the configuration file.

A parameter is declared nowhere but in `arboost.params.table`: its flag, its help and its check come from there.
"""

import functools
import json
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

if TYPE_CHECKING:
    from arboost.cli.tables import Roles, Source

FORMATS = ("csv", "tsv", "parquet", "libsvm")
TABLES = (".csv", ".tsv", ".tab", ".txt", ".gz", ".parquet", ".pq", "")  # files that `writing` can write
PICTURES = (".png", ".svg", ".pdf")

# Shown by --help; the others by --help-all.
COMMON = (
    "objective", "eval_metric", "eta", "max_depth", "max_leaves", "min_child_weight", "reg_lambda", "reg_alpha",
    "gamma", "subsample", "colsample_bytree", "tree_method", "booster", "monotone_constraints", "scale_pos_weight",
    "seed", "nthread",
)  # fmt: skip
DATA, TRAINING, OUTPUT, COMMON_PANEL = "Data", "Training", "Output", "Common parameters"
SETTINGS = {"token_normalize_func": lambda token: token.replace("_", "-"), "help_option_names": ["-h", "--help"]}


class TableValue(click.ParamType):
    """A value of a parameter, checked by the table and passed on as it was written."""

    def __init__(self, param: Any) -> None:
        self.param = param
        self.name = {"int": "integer", "float": "number", "bool": "true|false", "list": "name"}.get(
            param.type.__name__, "value"
        )

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            if self.param.type is object and isinstance(value, str) and value.lstrip().startswith(("{", "[")):
                value = json.loads(value)
            self.param.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        choices = self.param.choices or (("true", "false") if self.param.type is bool else ())
        return [CompletionItem(choice) for choice in choices if choice.startswith(incomplete)]


class Whole(click.IntRange):
    """A whole number, called so."""

    name = "whole number"


class InFile(click.Path):
    """A file to read that is looked for later; the Tab key completes it."""

    def __init__(self) -> None:
        super().__init__(allow_dash=True)


class OutFile(click.Path):
    """A file to write. What cannot be written is refused before the work, not after it."""

    def __init__(self, suffixes: Sequence[str]) -> None:
        super().__init__(dir_okay=False, allow_dash=True)
        self._suffixes = suffixes

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx))).expanduser()
        if value == "-":
            return value
        folder = path.resolve().parent
        if not folder.is_dir():
            self.fail(f"there is no folder {folder}.", param, ctx)
        if not os.access(path if path.exists() else folder, os.W_OK):
            self.fail(f"{path if path.exists() else folder} cannot be written to.", param, ctx)
        if self._suffixes and path.suffix.lower() not in self._suffixes:
            kinds = " or ".join(suffix for suffix in self._suffixes if suffix)
            self.fail(f"{value}: saved as {kinds}, told by the suffix.", param, ctx)
        return value


@functools.cache
def parameter_options() -> tuple[click.Option, ...]:
    """One option for every parameter of the table."""
    from arboost.params.table import GROUPS, PARAMS

    made = []
    rank = {name: place for place, name in enumerate(COMMON)}
    for param in sorted(PARAMS.values(), key=lambda param: rank.get(param.name, len(rank))):
        flags = [f"--{name.replace('_', '-')}" for name in (param.name, *param.aliases)]
        flags += ["--threads"] if param.name == "nthread" else []
        default = param.default if param.default not in (None, (), "", "()") else None
        words = param.doc + (f" (default: {_shown(default)})" if default is not None else "")
        option = click.RichOption(
            [*flags, param.name], type=TableValue(param), help=words, multiple=param.type is list,
            panel=COMMON_PANEL if param.name in COMMON else GROUPS[param.group],
        )  # fmt: skip
        made.append(option)
    return tuple(made)


def _shown(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else str(
        default
    )  # fmt: skip


class PanelledCommand(click.RichCommand):
    """A command whose options are shown in panels, the data first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = (DATA, TRAINING, OUTPUT, COMMON_PANEL)
        panels: list[click.RichPanel[Any, Any]] = [click.RichOptionPanel(name) for name in names]
        super().__init__(*args, panels=panels, **kwargs)


class TrainingCommand(PanelledCommand):
    """A command with every parameter of the table as an option; --help shows the common ones."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {param.name for param in own}
        return [*own, *(option for option in parameter_options() if option.name not in taken)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for option in parameter_options():
            option.hidden = option.name not in COMMON and not ctx.meta.get("arboost.all")
        try:
            super().format_help(ctx, formatter)
        finally:
            for option in parameter_options():
                option.hidden = False


def given_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the table among a command's values that somebody set; removes them all from there."""
    names = [str(option.name) for option in parameter_options() if option.name in values]
    taken = {name: values.pop(name) for name in names}
    return {name: _as_given(value) for name, value in taken.items() if value not in (None, ())}


def _as_given(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _show_everything(ctx: click.Context, _: Any, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta["arboost.all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _read_config(ctx: click.Context, _: Any, path: str | None) -> str | None:
    """Take defaults of options from a TOML or JSON file; `params` may hold the parameters."""
    if path is None or ctx.resilient_parsing:
        return path
    text = Path(path).read_text(encoding="utf-8")
    try:
        found = json.loads(text) if path.lower().endswith(".json") else tomllib.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("params", {}), dict):
        raise click.BadParameter(f"{path} must hold names and values, and in `params` those of parameters.")
    flat = {**{k: v for k, v in found.items() if k != "params"}, **found.get("params", {})}
    defaults = {}
    for name, value in flat.items():
        option = _option_named(ctx, str(name), path)
        is_several = getattr(option, "multiple", False)
        defaults[str(option.name)] = [value] if is_several and not isinstance(value, list) else value
    ctx.default_map = defaults
    return path


def _option_named(ctx: click.Context, written: str, path: str) -> click.Parameter:
    """The option that a key of the configuration means, by its name or any of its flags."""
    from arboost.params.spec import closest

    options = {}
    for param in ctx.command.get_params(ctx):
        for flag in (param.name or "", *param.opts):
            options[flag.lstrip("-").replace("-", "_")] = param
    key = written.replace("-", "_")
    if key not in options:
        raise click.BadParameter(f"{path}: unknown name {written!r}.{closest(key, options)}")
    return options[key]


def _read_delimiter(ctx: click.Context, _: Any, written: str | None) -> str | None:
    mark = {"\\t": "\t", "tab": "\t"}.get(written or "", written)
    if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n'):
        raise click.BadParameter(f"{written!r} is not one character; a tab is written tab.")
    return mark


Decorator = Callable[[Any], Any]


def _chained(*decorators: Decorator) -> Decorator:
    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def data_argument(required: bool = True, help: str = "CSV, Parquet or libsvm file; - reads stdin.") -> Decorator:
    """The file to work on."""
    metavar = "DATA" if required else "[DATA]"
    return click.argument("data", type=InFile(), required=required, metavar=metavar, help=help, panel=DATA)


def column_option(*flags: str, help: str, multiple: bool = False) -> Decorator:
    """A column of the data with a role of its own."""
    return click.option(*flags, metavar="COLUMN", panel=DATA, help=help, multiple=multiple)


def format_options() -> Decorator:
    """How to read it."""
    return _chained(
        click.option(
            "--format", type=click.Choice(FORMATS), metavar="FORMAT", panel=DATA,
            help="csv, tsv, parquet or libsvm, if the name of the file does not tell.",
        ),
        click.option(
            "--delimiter", metavar="CHAR", panel=DATA, callback=_read_delimiter,
            help="What parts the fields, if neither , nor ; nor a tab.",
        ),
        click.option("--missing", metavar="WORD", panel=DATA, multiple=True, help="A word for missing, such as ?"),
    )  # fmt: skip


def target_option() -> Decorator:
    """The column to predict."""
    words = "Column to predict, by name or number. Several times: several outputs."
    return column_option("--target", "-t", help=words, multiple=True)


def role_options(training: bool = True) -> Decorator:
    """Columns that are not features."""
    learning = (
        column_option("--drop", multiple=True, help="Columns to pass over, such as an id."),
        column_option("--categories", multiple=True, help="Columns of numbers that are names of categories."),
    )
    always = (
        column_option("--weight", help="Weights of the rows."),
        column_option("--group", "--qid", help="Groups of rows: learns to rank within them."),
        column_option("--lower", help="Lower bounds of the label (survival:aft)."),
        column_option("--upper", help="Upper bounds of the label (survival:aft)."),
        column_option("--base-margin", help="Where the margin of each row starts."),
    )
    return _chained(*(learning if training else ()), *always)


def json_option() -> Decorator:
    """Output for machines."""
    return click.option("--json", "as_json", is_flag=True, panel=OUTPUT, help="Print one JSON object, not tables.")


def file_option(*flags: str, help: str, default: str | None = None, suffixes: Sequence[str] = ()) -> Decorator:
    """A file that is written."""
    words = f"{help} (default: {default})" if default else help
    return click.option(*flags, type=OutFile(suffixes), metavar="FILE", panel=OUTPUT, help=words, default=default)


def config_options() -> Decorator:
    """Where options may come from, and all of them."""
    return _chained(
        click.option(
            "--config", "-c", type=click.Path(exists=True, dir_okay=False), is_eager=True, expose_value=False,
            callback=_read_config, metavar="FILE", panel=TRAINING,
            help="TOML or JSON file with any of these options and parameters; flags override it.",
        ),
        click.option(
            "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show_everything,
            help="Show this and every other parameter.",
        ),
    )  # fmt: skip


def roles_from(values: dict[str, Any]) -> "Roles":
    """The columns' roles among a command's values; removes them from there."""
    from arboost.cli.tables import Roles

    return Roles(
        list(values.pop("target", ())), values.pop("weight", None), values.pop("group", None),
        values.pop("base_margin", None), values.pop("lower", None), values.pop("upper", None),
        _split_commas(values.pop("drop", ())), _split_commas(values.pop("categories", ())),
    )  # fmt: skip


def _split_commas(names: Sequence[str]) -> list[str]:
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


def source_from(values: dict[str, Any]) -> "Source":
    """The file among a command's values; removes it from there."""
    from arboost.cli.tables import Source

    return Source(
        values.pop("data"), values.pop("format", None), values.pop("delimiter", None), values.pop("missing", ())
    )  # fmt: skip
