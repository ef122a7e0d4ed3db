"""Arguments of public functions: numbers checked by name, and old ways of calling that work with a warning."""

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from arboost.runtime import settings


def whole_number(name: str, value: Any, lower: int | None = None) -> int:
    """An int from an int or a whole float (tuners hand out 6.0); anything else is an error that says the name."""
    if isinstance(value, float | np.floating) and value == np.floor(value) and np.isfinite(value):
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}.") from None
    if lower is not None and number < lower:
        raise ValueError(f"{name} must be at least {lower}, got {number}.")
    return number


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
