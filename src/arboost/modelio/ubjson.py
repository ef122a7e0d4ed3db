"""Universal Binary JSON, as far as model files use it: bytes <-> nested dict.

A NumPy array is a typed array: `[$l#L<count>` and the numbers, big-endian. Lists carry their count, objects end with
`}`; keys and strings start with their length. The decoder also reads the variants of draft 12 that other writers use.
It never allocates more than the bytes that are really there can fill, and never nests deeper than `MAX_DEPTH`.
"""

import struct
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from arboost.modelio.schema import fail

MAX_DEPTH = 64
_DTYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_MARKERS = {np.dtype(dtype).newbyteorder("="): marker for marker, dtype in _DTYPES.items()}
_INTS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q"}
_FLOATS = {b"d": ">f", b"D": ">d"}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}


def encode(doc: dict[str, Any]) -> bytearray:
    """Encode a document, byte for byte as XGBoost does.

    Parameters
    ----------
    doc : dict
        Nested dicts and lists of str, int, bool, None and one-dimensional NumPy arrays.

    Returns
    -------
    bytearray
    """
    out = bytearray()
    _encode_value(doc, out)
    return out


def _encode_value(value: Any, out: bytearray) -> None:
    """Append one value."""
    if isinstance(value, dict):
        out += b"{"
        for key in sorted(value):
            out += _sized(key.encode())
            _encode_value(value[key], out)
        out += b"}"
    elif isinstance(value, np.ndarray):
        marker = _MARKERS[value.dtype.newbyteorder("=")]
        out += b"[$" + marker + b"#L" + struct.pack(">q", len(value))
        out += value.astype(_DTYPES[marker]).tobytes()
    elif isinstance(value, list):
        out += b"[#L" + struct.pack(">q", len(value))
        for item in value:
            _encode_value(item, out)
    elif isinstance(value, str):
        out += b"S" + _sized(value.encode())
    elif isinstance(value, bool):
        out += b"T" if value else b"F"
    elif isinstance(value, int):
        out += _encode_int(value)
    elif isinstance(value, float):  # in a list of numbers that XGBoost does not type
        out += b"d" + struct.pack(">f", value)
    elif value is None:
        out += b"Z"
    else:
        raise TypeError(f"cannot encode {type(value).__name__} in a model file")


def _sized(data: bytes) -> bytes:
    """Bytes behind their length."""
    return b"L" + struct.pack(">q", len(data)) + data


def _encode_int(value: int) -> bytes:
    """An integer in the smallest signed type; as in XGBoost, a type's extreme values take the next one."""
    for marker, bits in ((b"i", 7), (b"I", 15), (b"l", 31)):
        if -(1 << bits) < value < (1 << bits) - 1:
            return marker + struct.pack(_INTS[marker], value)
    return b"L" + struct.pack(">q", value)


def decode(buffer: bytes | bytearray | memoryview) -> Any:
    """Decode one document.

    Parameters
    ----------
    buffer : bytes-like
        The whole file.

    Returns
    -------
    dict
        Typed arrays are read-only big-endian views of the buffer.

    Raises
    ------
    ModelFileError
        If the bytes are damaged; the message names the field that was being read.
    """
    return _Decoder(bytes(buffer)).decode()


class _Decoder:
    """A cursor over the bytes, with the path of the value that it is reading."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._path: list[str] = []

    def decode(self) -> Any:
        value = self._value(self._marker())
        if self._position != len(self._data):
            self._fail(f"{len(self._data) - self._position} bytes follow the end of the model")
        return value

    def _fail(self, problem: str) -> NoReturn:
        """Refuse the file."""
        path = ".".join(part for part in self._path if part).replace(".[", "[")
        fail(path, f"{problem} (byte {self._position} of the UBJSON model; the file is truncated or damaged)")

    def _take(self, n_bytes: int) -> int:
        """Step over n_bytes that must exist; the position before them."""
        start = self._position
        if n_bytes > len(self._data) - start:
            self._fail(f"{n_bytes} bytes announced, {len(self._data) - start} left")
        self._position = start + n_bytes
        return start

    def _marker(self) -> bytes:
        """The next type marker; no-ops are skipped."""
        while True:
            start = self._take(1)
            marker = self._data[start : start + 1]
            if marker != b"N":
                return marker

    def _number(self, layout: str) -> Any:
        return struct.unpack_from(layout, self._data, self._take(struct.calcsize(layout)))[0]

    def _length(self, marker: bytes) -> int:
        """A length, behind its integer marker."""
        if marker not in _INTS:
            self._fail(f"expected a length, found marker {marker!r}")
        length = self._number(_INTS[marker])
        if length < 0:
            self._fail(f"negative length {length}")
        return length

    def _string(self, length: int) -> str:
        start = self._take(length)
        try:
            return self._data[start : start + length].decode()
        except UnicodeDecodeError as error:
            self._position = start + error.start
            self._fail("a string that is not UTF-8")

    def _value(self, marker: bytes) -> Any:
        """The value behind its marker."""
        if marker == b"S":
            return self._string(self._length(self._marker()))
        if marker in _INTS:
            return self._number(_INTS[marker])
        if marker == b"{":
            return self._nested(self._object)
        if marker == b"[":
            return self._nested(self._array)
        if marker in _FLOATS:
            return self._number(_FLOATS[marker])
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == b"C":
            return self._string(1)
        self._position -= 1
        self._fail(f"unknown marker {marker!r}")

    def _nested(self, read: Callable[[], Any]) -> Any:
        """An object or array, unless that is one level too many."""
        if len(self._path) >= MAX_DEPTH:
            self._fail("nested too deeply")
        self._path.append("")
        value = read()
        self._path.pop()
        return value

    def _object(self) -> dict[str, Any]:
        """Pairs up to `}`, or as many as a count announces."""
        result: dict[str, Any] = {}
        marker = self._marker()
        if marker == b"$":
            self._fail("typed objects are not part of a model file")
        if marker == b"#":
            for _ in range(self._length(self._marker())):  # ends with the bytes: every pair takes some
                self._pair(self._marker(), result)
            return result
        while marker != b"}":
            self._pair(marker, result)
            marker = self._marker()
        return result

    def _pair(self, marker: bytes, result: dict[str, Any]) -> None:
        """One key, whose length starts with the marker, and its value."""
        self._path[-1] = ""
        key = self._string(self._length(marker))
        self._path[-1] = key
        if key in result:
            self._fail("the key occurs twice in one object")
        result[key] = self._value(self._marker())

    def _array(self) -> list[Any] | np.ndarray:
        """A typed array, a counted list, or values up to `]`."""
        marker = self._marker()
        if marker == b"$":
            return self._typed_array()
        values: list[Any] = []
        if marker == b"#":
            count = self._length(self._marker())
            if count > len(self._data) - self._position:  # every value takes a byte at least
                self._fail(f"{count} values announced, {len(self._data) - self._position} bytes left")
            for i in range(count):
                self._path[-1] = f"[{i}]"
                values.append(self._value(self._marker()))
            return values
        while marker != b"]":
            self._path[-1] = f"[{len(values)}]"
            values.append(self._value(marker))
            marker = self._marker()
        return values

    def _typed_array(self) -> np.ndarray:
        """Numbers of one type, as a view of the buffer."""
        marker = self._marker()
        if marker not in _DTYPES:
            self._fail(f"an array of unknown type {marker!r}")
        if self._marker() != b"#":
            self._fail("a typed array without a count")
        count = self._length(self._marker())
        dtype = np.dtype(_DTYPES[marker])
        start = self._take(count * dtype.itemsize)
        return np.frombuffer(self._data, dtype, count, start)
