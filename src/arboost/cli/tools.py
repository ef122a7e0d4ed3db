"""What `compile`, `demo`, `parameters` and `version` do, with nothing but the package itself."""

import importlib
import importlib.metadata
import platform
import sys
import time
from collections.abc import Sequence

COMPILE_HELP = "Compile the kernels for this machine now instead of at the first fit."

_PARAMETERS_HEADING = """# Parameters

Names, aliases, defaults and bounds are XGBoost's. A value out of bounds is an error that names the bound; an unknown
name is a warning that suggests the nearest one, or an error under `config_context(strict_parameters=True)`. What is
not available yet is refused by name. This page is printed by `python -m arboost parameters`.

"""


def compile_now(kinds: Sequence[str]) -> int:
    """Fill the kernel cache and say where it is."""
    began = time.perf_counter()
    try:
        done = importlib.import_module("arboost.warmup").compile_kinds(kinds or ("all",))
    except ValueError as error:
        print(f"arboost: {error}", file=sys.stderr)
        return 2
    print(
        f"{len(done.kernels)} kernels ready in {time.perf_counter() - began:.1f} s, kept in {done.folder or 'memory'}"
    )
    if done.n_lost:
        advice = "set ARBOOST_CACHE_DIR to a folder that can be written"
        print(f"arboost: {done.n_lost} of them could not be kept: {done.trouble}; {advice}", file=sys.stderr)
    return 1 if done.n_lost else 0


def demo() -> int:
    """The tour on the data set of the package."""
    return int(importlib.import_module("arboost.demo.tour").main())


def print_parameters() -> int:
    """The table of parameters as Markdown: docs/parameters.md."""
    print(_PARAMETERS_HEADING + importlib.import_module("arboost.params.markdown").as_markdown().rstrip())
    return 0


def version_line() -> str:
    """Versions of arboost and of what it runs on."""
    parts = [f"{name} {importlib.metadata.version(name)}" for name in ("arboost", "numpy", "scipy", "numba")]
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def print_version() -> int:
    """Print them."""
    print(version_line())
    return 0
