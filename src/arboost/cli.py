"""The command line: `python -m arboost compile | demo | parameters | version`.

Every command imports what it needs when it runs, so that `version` stays instant.
"""

import argparse
import importlib
import importlib.metadata
import platform
import sys
import time
from collections.abc import Sequence

from arboost.kernels.kinds import KINDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit status, 0 for success.
    """
    parser = argparse.ArgumentParser(prog="arboost", description="Gradient-boosted trees with XGBoost's interface.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (_, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == "compile":
            command.add_argument("kinds", nargs="*", metavar="kind", help=f"{', '.join(KINDS)}, or all (the default)")
    arguments = vars(parser.parse_args(argv))
    run, _ = _COMMANDS[arguments.pop("command")]
    return run(**arguments)


def _compile(kinds: Sequence[str] = ()) -> int:
    """Fill the kernel cache and say where it is."""
    warmup = importlib.import_module("arboost.warmup")
    folder = importlib.import_module("arboost.kernels.cache").kernel_folder()
    if folder.path is None:
        print(f"arboost: kernels cannot be kept: {folder.trouble}; set ARBOOST_CACHE_DIR to a folder", file=sys.stderr)
        return 1
    began = time.perf_counter()
    try:
        done = warmup.compile_kinds(kinds or ("all",))
    except ValueError as error:
        print(f"arboost: {error}", file=sys.stderr)
        return 2
    print(f"{len(done.kernels)} kernels ready in {time.perf_counter() - began:.1f} s, kept in {done.folder}")
    if done.n_lost:
        print(f"arboost: {done.n_lost} of them could not be kept: {done.trouble}", file=sys.stderr)
    return 1 if done.n_lost else 0


def _demo() -> int:
    return int(importlib.import_module("arboost.demo.tour").main())


def _parameters() -> int:
    print(_PARAMETERS_HEADING + importlib.import_module("arboost.params.markdown").as_markdown().rstrip())
    return 0


def _version() -> int:
    parts = [f"{name} {importlib.metadata.version(name)}" for name in ("arboost", "numpy", "scipy", "numba")]
    print(", ".join([*parts, f"Python {platform.python_version()}"]))
    return 0


_PARAMETERS_HEADING = """# Parameters

Names, aliases, defaults and bounds are XGBoost's. A value out of bounds is an error that names the bound; an unknown
name is a warning that suggests the nearest one, or an error under `config_context(strict_parameters=True)`. What is
not available yet is refused by name. This page is printed by `python -m arboost parameters`.

"""

_COMMANDS = {
    "compile": (_compile, "compile the kernels for this machine now instead of at the first fit"),
    "demo": (_demo, "train on the data set shipped with the package and compare with the libraries installed here"),
    "parameters": (_parameters, "print the table of parameters as Markdown"),
    "version": (_version, "print the versions of arboost and of what it runs on"),
}
