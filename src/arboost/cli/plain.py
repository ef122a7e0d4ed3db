"""The commands that need nothing but the package, for installations without the extra `cli`."""

import argparse
import sys
from collections.abc import Callable, Sequence

from arboost.cli import tools

NEEDED = "arboost: this command needs the extra `cli`: pip install 'arboost[cli]'"


def run(argv: Sequence[str] | None) -> int:
    """One of compile, demo, parameters and version; for anything else one line that says what to install."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: arboost [{' | '.join(_COMMANDS)}]\n{NEEDED}")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        arguments = ["version"]
    if arguments[0] not in _COMMANDS:
        print(NEEDED, file=sys.stderr)
        return 2
    return _COMMANDS[arguments[0]](arguments[1:])


def _compile(rest: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="arboost compile", description=tools.COMPILE_HELP)
    parser.add_argument("kinds", nargs="*", help="kinds of kernels; all by default")
    return tools.compile_now(parser.parse_args(rest).kinds)


def _without_arguments(name: str, command: Callable[[], int]) -> Callable[[Sequence[str]], int]:
    def parse_and_run(rest: Sequence[str]) -> int:
        argparse.ArgumentParser(prog=f"arboost {name}").parse_args(rest)
        return command()

    return parse_and_run


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "compile": _compile,
    "demo": _without_arguments("demo", tools.demo),
    "parameters": _without_arguments("parameters", tools.print_parameters),
    "version": _without_arguments("version", tools.print_version),
}
