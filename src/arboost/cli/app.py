"""The commands as one program: found by name when they are used, errors as one line, exit codes."""

import difflib
import importlib
import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import rich_click as click
from click.exceptions import Exit

from arboost.cli import show
from arboost.cli.options import SETTINGS

# Command -> the module that has it; in the order of the help.
_COMMANDS = {
    "Learn": {"train": "training", "cv": "training", "predict": "using", "evaluate": "using", "explain": "using"},
    "Look at a model": {"report": "models", "plot": "models", "dump": "models", "convert": "models"},
    "Understand": {"trace": "around", "demo": "around", "bench": "around", "parameters": "around"},
    "Set up": {"compile": "around", "completion": "around", "version": "around"},
}
_MODULE_OF = {name: module for commands in _COMMANDS.values() for name, module in commands.items()}
_HEADING = """Gradient-boosted trees: a model from a table, in one line.

Every command has its own [bold]--help[/bold] with examples.

\b
    arboost train people.csv --target income --model m.json
    arboost predict new.csv --model m.json --out predictions.csv
    arboost report m.json --data test.csv --target income --out report.html"""


_JSON_FLAG = "arboost.json"


class _Program(click.RichGroup):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULE_OF:
            return None
        module = importlib.import_module(f"arboost.cli.{_MODULE_OF[cmd_name]}")
        return module.COMMANDS[cmd_name]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], _MODULE_OF, 1)
            if not near or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what goes wrong becomes a line and an exit status."""
        if "--json" in (ctx._protected_args + ctx.args):
            ctx.meta[_JSON_FLAG] = True
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: show.note(str(message))
                status = super().invoke(ctx)
        except (click.ClickException, Exit, BrokenPipeError):
            raise
        except (KeyboardInterrupt, click.Abort):
            show.err().print("interrupted", style="yellow")
            status = 130
        except Exception as error:
            status = _explain(error, _JSON_FLAG in ctx.meta)
        ctx.exit(status or 0)


@click.group(
    cls=_Program,
    help=_HEADING,
    context_settings=SETTINGS,
    epilog="Parameters are XGBoost's: see [bold]parameters[/bold]. For the Tab key: [bold]completion --help[/bold].",
)
@click.rich_config(
    {
        "text_markup": "rich",
        "max_width": 110,
        "style_option": "bold cyan",
        "style_command": "bold cyan",
        "style_errors_suggestion": "dim",
        "show_arguments": True,
        "commands_before_options": True,
        "text_paragraph_linebreaks": "\n\n",
        "range_string": "",
        "padding_helptext_first_line": (0, 0, 1, 0),
        "style_helptext": "",
        "commands_panel_title": "Commands",
    }
)
@click.version_option(package_name="arboost", message="arboost %(version)s")
def program() -> None:
    pass


for _title, _names in _COMMANDS.items():
    program.add_panel(click.RichCommandPanel(_title, commands=list(_names)))


def run(argv: Sequence[str] | None) -> int:
    """Run one command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(program.main(arguments, prog_name="arboost", standalone_mode="--json" not in arguments) or 0)
    except click.ClickException as error:
        return _fail_as_json(error.format_message(), error.exit_code)
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 0


def _explain(error: Exception, as_json: bool) -> int:
    """One line about what went wrong; everything, where ARBOOST_DEBUG is set."""
    if os.environ.get("ARBOOST_DEBUG"):
        raise error
    message = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"not enough memory: {message}"
    elif not isinstance(error, (ValueError, OSError, ImportError)):
        message = f"{type(error).__name__}: {message} (this should not happen; ARBOOST_DEBUG=1 shows where)"
    if as_json:
        return _fail_as_json(message, 1)
    show.say("error", "bold red", message)
    return 1


def _fail_as_json(message: str, status: int) -> int:
    print(json.dumps({"error": message}, ensure_ascii=False))
    return status
