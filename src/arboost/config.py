"""Global configuration: `set_config`, `get_config`, `config_context`, with XGBoost's names and two of ours.

Each Python thread has its own configuration and starts from the defaults. Beyond XGBoost: `strict_parameters`
turns the warning about unknown or unused parameters into an error, `memory_budget` bounds the memory of a training.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from arboost.params.spec import closest
from arboost.params.table import CONFIG_PARAMS
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError
from arboost.runtime.settings import say

__all__ = ["config_context", "get_config", "say", "set_config"]


def set_config(**new_config: Any) -> None:
    """Change this thread's configuration.

    Parameters
    ----------
    **new_config :
        verbosity : int, 0 to 3
            How much is said: 0 nothing at all, 1 warnings, 2 information, 3 debugging.
        nthread : int
            Threads used where a call does not say; 0 means all cores that this process may use.
        strict_parameters : bool
            Unknown or unused training parameters are errors instead of warnings.
        memory_budget : int or str
            Bytes that a training may take, also as "4GB" or "512MiB"; data from files and iterators that needs more is
            kept on disk. 0 means three quarters of what the machine and the cgroup leave.
        use_rmm, use_cuda_async_pool : bool
            Known for XGBoost's sake; there is no GPU memory to manage yet.

        A value of None leaves that entry alone. If any entry is wrong, nothing is changed.

    Examples
    --------
    >>> import arboost
    >>> arboost.config.set_config(verbosity=2)
    >>> arboost.config.get_config()["verbosity"]
    2
    >>> arboost.config.set_config(verbosity=1)
    """
    settings.change(**_checked(new_config))


def get_config() -> dict[str, Any]:
    """This thread's configuration, by name.

    Returns
    -------
    dict
        Every entry that `set_config` knows with its present value.
    """
    return settings.as_dict()


@contextmanager
def config_context(**new_config: Any) -> Iterator[None]:
    """Configuration for the length of a `with` block; afterwards everything is as it was before.

    Parameters
    ----------
    **new_config :
        As for `set_config`.

    Examples
    --------
    >>> import arboost
    >>> with arboost.config.config_context(verbosity=0):
    ...     arboost.config.get_config()["verbosity"]
    0
    """
    with settings.changed(**_checked(new_config)):
        yield


def _checked(new_config: dict[str, Any]) -> dict[str, Any]:
    """Typed values of the entries that are not None."""
    unknown = sorted(name for name in new_config if name not in CONFIG_PARAMS)
    if unknown:
        raise XGBoostError(
            f"Unknown global parameters: {{ {', '.join(unknown)} }}.{closest(unknown[0], CONFIG_PARAMS)} "
            f"Known are: {', '.join(CONFIG_PARAMS)}."
        )
    return {name: CONFIG_PARAMS[name].parse(value) for name, value in new_config.items() if value is not None}
