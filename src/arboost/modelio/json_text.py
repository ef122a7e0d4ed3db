"""JSON text of a model document: bytes <-> nested dict.

Written byte for byte as XGBoost prints it: no spaces, keys sorted, every float the shortest decimal that reads back as
the same float32. Read with Python's parser; repeated keys and absurd nesting are refused.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from arboost.modelio.schema import fail
from arboost.runtime.errors import ModelFileError

# XGBoost writes a backslash before `u` unescaped, which is not JSON unless four hex digits follow.
_STRAY_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u(?![0-9a-fA-F]{4})")
# Only the escapes that XGBoost's reader knows; it has no \b and \f.
_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


class DoubleRoundingError(Exception):
    """Some decimal fell on the midpoint of two float32 when read as float64: read the text again, exactly."""


def decode(buffer: bytes | bytearray | memoryview, exact: bool = False) -> Any:
    """Parse JSON bytes.

    Parameters
    ----------
    buffer : bytes-like
        The whole file.
    exact : bool
        Round every decimal to float32 directly, which is slower. Needed only after a DoubleRoundingError.

    Returns
    -------
    dict
        Arrays are lists.

    Raises
    ------
    ModelFileError
        On anything that is not JSON, on a repeated key and on absurd nesting.
    """
    parse_float = nearest_float32 if exact else None
    try:
        text = bytes(buffer).decode()
    except UnicodeDecodeError as error:
        fail("", f"the JSON model is not valid UTF-8 at byte {error.start}; the file is damaged")
    try:
        return _parse_json(text, parse_float)
    except json.JSONDecodeError as error:
        repaired = _STRAY_ESCAPE.sub(r"\1\\\\u", text) if "escape" in error.msg else text
        if repaired == text:
            fail("", f"the model is not valid JSON, it may be truncated or damaged: {error}")
    try:
        return _parse_json(repaired, parse_float)
    except json.JSONDecodeError as error:
        fail("", f"the model is not valid JSON, it may be truncated or damaged: {error}")


def _parse_json(text: str, parse_float: Callable[[str], float] | None) -> Any:
    """json.loads that refuses repeated keys and turns its other complaints into ModelFileError."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=parse_float)
    except (json.JSONDecodeError, ModelFileError):
        raise
    except RecursionError:
        fail("", "the JSON model is nested too deeply; it is not a model file")
    except ValueError:  # an integer beyond Python's limit of digits
        fail("", "the JSON model holds an integer of absurd length; the file is damaged")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of the pairs; a repeated key would hide data."""
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                fail(name, "the key occurs twice in one object")
            seen.add(name)
    return result


def encode(doc: dict[str, Any]) -> bytearray:
    """The JSON text of a model document, byte for byte as XGBoost prints it."""
    parts: list[str] = []
    _print_json(doc, parts, _float_texts(_float_arrays(doc)))
    return bytearray("".join(parts).encode())


def _print_json(value: Any, parts: list[str], float_texts: dict[int, str]) -> None:
    """Append the text of one value."""
    if isinstance(value, dict):
        separator = "{"
        for key in sorted(value):
            parts.append(f"{separator}{_quote(key)}:")
            _print_json(value[key], parts, float_texts)
            separator = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            parts.append(separator)
            _print_json(item, parts, float_texts)
            separator = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            parts.append(_print_floats(value, float_texts))
        else:
            parts.append(str(value.tolist()).replace(" ", ""))
    elif isinstance(value, str):
        parts.append(_quote(value))
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, float):
        parts.append(print_floats(np.array([value], np.float32))[1:-1])
    else:
        parts.append(str(value))


def print_floats(values: np.ndarray) -> str:
    """The text of one float32 array."""
    return _print_floats(values, _float_texts([values]))


def _print_floats(values: np.ndarray, float_texts: dict[int, str]) -> str:
    """The text of a float32 array, looked up by bit pattern (which keeps -0 apart from 0)."""
    return f"[{','.join(map(float_texts.__getitem__, values.view(np.int32).tolist()))}]"


def _float_arrays(value: Any) -> list[np.ndarray]:
    """All float32 arrays in a document."""
    if isinstance(value, np.ndarray):
        return [value] if value.dtype == np.float32 else []
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [array for child in children for array in _float_arrays(child)]


def _float_texts(arrays: list[np.ndarray]) -> dict[int, str]:
    """Bit pattern -> text for every distinct number in the arrays; formatting each once is half the cost of saving."""
    if not arrays:
        return {}
    values = np.unique(np.concatenate(arrays).view(np.int32)).view(np.float32)
    print_float = np.format_float_scientific
    joined = " ".join([print_float(value, trim="-", exp_digits=1) for value in values])
    joined = joined.replace("e+", "E").replace("e", "E").replace("inf", "Infinity").replace("nan", "NaN")
    return dict(zip(values.view(np.int32).tolist(), joined.split(), strict=True))


def _quote(text: str) -> str:
    """A JSON string; everything beyond ASCII stays as it is, because XGBoost does not decode \\u escapes."""
    return f'"{text.translate(_ESCAPES)}"'


def is_midpoint(values: np.ndarray) -> np.ndarray:
    """True where a float64 lies exactly halfway between two float32."""
    result = np.zeros(len(values), bool)
    # a midpoint has at most 25 significant bits, so the lowest 28 of its 53 are zero
    some = np.flatnonzero((values.view(np.uint64) & np.uint64(0x0FFFFFFF)) == 0)
    if len(some):
        near, far = _neighbours(values[some])
        result[some] = (near != far) & (near + far == 2 * values[some])
    return result


def _neighbours(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The float32 nearest to a float64, and the next one on the other side of it; both as float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        toward = np.sign(values - near).astype(np.float32) * np.float32(np.inf)
        far = np.where(near == values, near, np.nextafter(near, toward))
    return near.astype(np.float64), far.astype(np.float64)


def nearest_float32(text: str) -> float:
    """The float32 nearest to a decimal, ties to even, as a Python float."""
    value = float(text)
    near, far = (float(side[0]) for side in _neighbours(np.array([value])))
    if near != far and near + far == 2 * value:
        exact, rounded = Decimal(text), Decimal(value)
        if exact != rounded:  # not a tie: float64 could not hold the digits that decide
            return max(near, far) if exact > rounded else min(near, far)
    return near
