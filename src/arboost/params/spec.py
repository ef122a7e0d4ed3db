"""A parameter as data: name, type, default, bounds, choices, and how a user's value becomes a typed one.

Values may be strings, as XGBoost's are ("6", "true", "[0.1, 0.9]"). Types: int, float (rounded to float32, which
is what XGBoost computes with and stores), bool, str, `tuple` (numbers), `list` (names), `ByteSize` and `object` (as
given).
A value that cannot be used is an `XGBoostError` that says the name, the value and what would be accepted.
"""

import difflib
import math
import operator
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.runtime.bytesize import ByteSize, parse_bytes
from arboost.runtime.errors import XGBoostError

INT32_MAX = 2**31 - 1
_FLOAT32 = struct.Struct("f")
_ORDINAL = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class Param:
    """One row of the parameter table."""

    name: str
    type: type
    default: Any
    doc: str
    lower: float | None = None
    upper: float | None = None
    lower_open: bool = False
    upper_open: bool = False
    choices: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    group: str = "tree"
    complaint: str = "Invalid Input"  # how the error about a wrong choice begins
    supported: bool = True  # False: known, and refused when set to anything but `default`
    used_by: tuple[str, ...] = ()  # boosters, objectives or metrics that read it; empty: always read
    has_effect: bool = True  # False: accepted because XGBoost accepts it; changes nothing here

    def parse(self, value: Any, spelled: str | None = None) -> Any:
        """The typed value, or an XGBoostError; `spelled` is the name (perhaps an alias) the user wrote."""
        shown = self.name if spelled is None or spelled == self.name else f"{spelled} ({self.name})"
        parsed = _PARSERS[self.type](self, value, shown)
        if not self.supported and parsed != self.default:
            raise XGBoostError(
                f"Parameter {shown}: the value {value!r} is known to XGBoost but not available in this version of "
                "arboost; leave it unset."
            )
        return parsed

    @property
    def bounds(self) -> str:
        """The accepted values in words: '[0, 1]', "'depthwise', 'lossguide'", or '' when there is no bound."""
        if self.choices is not None:
            return ", ".join(repr(choice) for choice in self.choices)
        if self.lower is None and self.upper is None:
            return ""
        left = "(-inf" if self.lower is None else f"{'(' if self.lower_open else '['}{_number(self.lower)}"
        right = "inf)" if self.upper is None else f"{_number(self.upper)}{')' if self.upper_open else ']'}"
        return f"{left}, {right}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _bad_format(shown: str, expected: str, value: Any) -> XGBoostError:
    return XGBoostError(f"Invalid Parameter format for {shown}: expect {expected} but value={value!r}.")


def _check_bounds(param: Param, number: float, value: Any, shown: str) -> None:
    lower, upper = param.lower, param.upper
    too_low = lower is not None and (number <= lower if param.lower_open else number < lower)
    too_high = upper is not None and (number >= upper if param.upper_open else number > upper)
    if not (too_low or too_high):
        return
    if upper is None or (upper == math.inf and too_low):
        wanted = f"should be greater {'than' if param.lower_open else 'equal to'} {_number(lower or 0)}"
    else:
        wanted = f"exceed bound {param.bounds}"
    raise XGBoostError(f"value {value!r} for Parameter {shown} {wanted}.")


def _parse_int(param: Param, value: Any, shown: str) -> int:
    if isinstance(value, bool | np.bool_):
        raise _bad_format(shown, "int", value)
    try:
        number = _whole(value)
    except (TypeError, ValueError, OverflowError):
        raise _bad_format(shown, "int", value) from None
    _check_bounds(param, number, value, shown)
    if param.upper is None and abs(number) > INT32_MAX:
        raise XGBoostError(f"value {value!r} for Parameter {shown} exceed bound {INT32_MAX}: it does not fit 32 bits.")
    return number


def _whole(value: Any) -> int:
    """An int from an int, a whole float (tuners hand out 6.0) or the text of either."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = float(value)
    if isinstance(value, float | np.floating):
        if value != math.floor(value):
            raise ValueError("not a whole number")
        return int(value)
    return operator.index(value)


def _parse_float(param: Param, value: Any, shown: str) -> float:
    number = _to_float(value, shown)
    _check_bounds(param, number, value, shown)
    return number


def _to_float(value: Any, shown: str) -> float:
    """A float rounded to float32; NaN never is a parameter."""
    if isinstance(value, bool | np.bool_):
        raise _bad_format(shown, "float", value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _bad_format(shown, "float", value) from None
    if number != number:
        raise XGBoostError(f"value {value!r} for Parameter {shown} is not a number.")
    return round_to_float32(number)


def round_to_float32(number: float) -> float:
    """The nearest float32, as a Python float."""
    try:
        return _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _parse_bool(param: Param, value: Any, shown: str) -> bool:
    found = _BOOLS.get(str(value).strip().lower())
    if found is None:
        raise _bad_format(shown, "boolean", value)
    return found


def _parse_str(param: Param, value: Any, shown: str) -> str:
    if param.choices is not None:
        return _parse_choice(param, value, shown)
    if not isinstance(value, str):
        raise _bad_format(shown, "str", value)
    return value


def _parse_choice(param: Param, value: Any, shown: str) -> str:
    choices = param.choices or ()
    choice = _ORDINAL.sub(":<ordinal>", value) if isinstance(value, str) else None  # "cuda:0" is "cuda:<ordinal>"
    if choice not in choices:
        suggestion = closest(str(value), choices)
        raise XGBoostError(
            f"{param.complaint}: {value!r} for {shown}, valid values are: {{{param.bounds}}}.{suggestion}"
        )
    return value


def closest(name: str, names: Iterable[str]) -> str:
    """' Did you mean "x"?' for the nearest known name, or ''."""
    found = difflib.get_close_matches(name.lower(), names, n=1)
    return f' Did you mean "{found[0]}"?' if found else ""


def _parse_numbers(param: Param, value: Any, shown: str) -> tuple[float, ...]:
    """A tuple of floats from a number, a sequence, an array or the text of one."""
    if isinstance(value, str):
        value = value.strip()
        if value[:1] in "([" and value[-1:] in ")]":
            value = [part for part in value[1:-1].split(",") if part.strip()]
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif isinstance(value, str) or not isinstance(value, Iterable):
        value = [value]
    numbers = tuple(_to_float(item, shown) for item in value)
    for number in numbers:
        _check_bounds(param, number, number, shown)
    return numbers


def _parse_names(param: Param, value: Any, shown: str) -> tuple[str, ...]:
    """Names from one name or a sequence of them, each once, in order."""
    items = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
    names = [item for item in items if item is not None]
    for name in names:
        if callable(name):
            raise XGBoostError(f"{shown} takes names of metrics; pass the function {name!r} as `custom_metric`.")
        if not isinstance(name, str):
            raise _bad_format(shown, "a name or a list of names", value)
    return tuple(dict.fromkeys(names))


_PARSERS: dict[type, Callable[[Param, Any, str], Any]] = {
    int: _parse_int,
    float: _parse_float,
    bool: _parse_bool,
    str: _parse_str,
    tuple: _parse_numbers,
    list: _parse_names,
    object: lambda param, value, shown: value,
    ByteSize: lambda param, value, shown: parse_bytes(value, shown),
}
