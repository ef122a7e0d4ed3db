"""The command line: `arboost` and `python -m arboost`.

`app` is the whole of it and needs the extra `cli` (rich-click, pyarrow). Without it `plain` still runs the commands
that need nothing but the package. Modules here import the engine inside functions: `arboost --help` is instant.
"""

import importlib.util
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit status: 0 done, 1 it failed, 2 the command is not understood, 130 interrupted.
    """
    if importlib.util.find_spec("rich_click") is None:
        from arboost.cli import plain

        return plain.run(argv)
    from arboost.cli import app

    return app.run(argv)
