"""Process settings: how much is said, how many threads by default, how strict parameters are.

Each Python thread has its own settings and starts from the defaults, as in XGBoost. Values arrive here already
checked (`arboost.config` is the face). `say` and `warn` are the only ways the package speaks: both are silent
at verbosity 0. Importing this module tells the kernels where to announce their first compilation.
"""

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from arboost.kernels import jit


@dataclass(frozen=True)
class Settings:
    """One thread's settings; a change makes a new object."""

    verbosity: int = 1  # 0 silent, 1 warnings, 2 information, 3 debug
    nthread: int = 0  # 0: all cores this process may use
    use_rmm: bool = False  # without effect on a CPU, kept because XGBoost's configuration has it
    use_cuda_async_pool: bool = False
    strict_parameters: bool = False  # unknown or unused parameters are errors, not warnings
    memory_budget: int = 0  # bytes a training may take; 0: a share of what is available


class _Local(threading.local):
    """This thread's settings. `chosen` stays False in a thread that never changed them (a pool worker)."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.chosen = False


_local = _Local()
_latest = _local.settings  # the settings last chosen in any thread: they also speak for the pool's threads


def current() -> Settings:
    """This thread's settings."""
    return _local.settings


def as_dict() -> dict[str, Any]:
    """This thread's settings by name."""
    return asdict(_local.settings)


def change(**values: Any) -> None:
    """Replace some of this thread's settings; the values are already checked."""
    _choose(replace(_local.settings, **values))


@contextmanager
def changed(**values: Any) -> Iterator[None]:
    """Settings for the length of a block; afterwards all of them are as before."""
    before = _local.settings, _local.chosen
    _choose(replace(_local.settings, **values))
    try:
        yield
    finally:
        _choose(before[0])
        _local.chosen = before[1]


def _choose(settings: Settings) -> None:
    global _latest
    _local.settings = _latest = settings
    _local.chosen = True


def say(level: int, message: str) -> None:
    """One line to stderr when this thread's verbosity is at least `level` (1 warning, 2 information, 3 debug)."""
    if _local.settings.verbosity >= level:
        print(message, file=sys.stderr, flush=True)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A Python warning pointing at the caller's own code; nothing at verbosity 0."""
    if _local.settings.verbosity < 1:
        return
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "arboost" or module.startswith("arboost.")


_n_announcers = 0  # calls under way that are long enough to say that they compile


@contextmanager
def announcing() -> Iterator[None]:
    """A call during which the first compilation is announced; building a matrix stays silent."""
    global _n_announcers
    _n_announcers += 1
    try:
        yield
    finally:
        _n_announcers -= 1


def _announce_compilation(message: str) -> bool:
    """Kernels may be compiled first by a pool thread, which has chosen nothing: the latest choice speaks for it."""
    settings = _local.settings if _local.chosen else _latest
    if settings.verbosity < 1 or not _n_announcers:
        return False
    print(message, file=sys.stderr, flush=True)
    return True


jit.announce = _announce_compilation
