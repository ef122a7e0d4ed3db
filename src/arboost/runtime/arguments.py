"""Old ways of calling that still work, with a warning."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from arboost.runtime import settings


def positional_with_warning(function: Callable) -> Callable:
    """Let keyword-only arguments come by position, with a FutureWarning: old scripts are written so."""
    parameters = inspect.signature(function).parameters.values()
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        extra = args[len(by_position) :]
        if extra and len(extra) <= len(by_keyword):
            names = by_keyword[: len(extra)]
            again = [name for name in names if name in kwargs]
            if again:
                raise TypeError(f"{function.__qualname__}() got multiple values for argument {again[0]!r}")
            settings.warn(f"Pass {', '.join(f'`{name}`' for name in names)} as keyword args.", FutureWarning)
            args, kwargs = args[: len(by_position)], {**kwargs, **dict(zip(names, extra, strict=True))}
        return function(*args, **kwargs)

    return call
