"""The file that `DMatrix.save_binary` writes: a table with its labels, weights, names and categories.

    magic (8 bytes) | length of the header (uint64) | header, JSON | arrays, one after the other | CRC-32 (uint32)

All numbers are little-endian. The header gives name, dtype and shape of every array; dense values are float32 rows, NaN
for missing, sparse ones CSR. Loading checks the sizes before it allocates, and then everything it has read: a damaged
or hostile file is an error. Nothing in it is ever executed.
"""

import json
import math
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from arboost.matrix.adapt import RawData, SparseData
from arboost.matrix.categories import Categories
from arboost.matrix.iterator import GatheredData
from arboost.matrix.meta import MetaInfo
from arboost.matrix.sparse import CSR, read_sparse
from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import XGBoostError

MAGIC = b"\x93arboDM\x01"
_HEADER_LIMIT = 1 << 28
_FLOAT_FIELDS = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound", "feature_weights")
_DTYPES = {
    **dict.fromkeys(("values", *_FLOAT_FIELDS), "<f4"), "indices": "<i4", "row_ptr": "<i8", "group_ptr": "<i8",
}  # fmt: skip


def save(path: str, raw: RawData, info: MetaInfo, categories: Categories | None) -> None:
    """Write the file in one step: a crash leaves what was there before."""
    arrays = _arrays(raw, info)
    header = {
        "n_rows": raw.n_rows,
        "n_features": raw.n_features,
        "arrays": [[name, list(shape)] for name, shape, _ in arrays],
        "feature_names": info.feature_names,
        "feature_types": info.feature_types,
        "categories": None if categories is None else [_plain(values) for values in categories.values],
    }
    text = json.dumps(header).encode()
    try:
        with draft_of(path) as draft, open(draft, "wb") as file:
            check = _write(file, MAGIC + len(text).to_bytes(8, "little") + text, 0)
            for _, _, parts in arrays:
                for part in parts:
                    check = _write(file, np.ascontiguousarray(part).reshape(-1).view(np.uint8), check)
            file.write(check.to_bytes(4, "little"))
    except OSError as error:
        raise XGBoostError(f"Opening {path} for writing failed: {error.strerror}.") from error


def _arrays(raw: RawData, info: MetaInfo) -> list[tuple[str, tuple[int, ...], Iterator[np.ndarray]]]:
    """(name, shape, pieces) of everything to be written."""
    found: list[tuple[str, tuple[int, ...], Iterator[np.ndarray]]] = []

    def add(name: str, array: np.ndarray) -> None:
        found.append((name, array.shape, iter([array.astype(_DTYPES[name], copy=False)])))

    if isinstance(raw, SparseData):
        add("row_ptr", raw.row_ptr)
        add("indices", raw.indices)
        add("values", raw.values)
    else:
        chunks = (values.astype("<f4", copy=False) for _, values in raw.chunks())
        found.append(("values", (raw.n_rows, raw.n_features), chunks))
    for name in (*_FLOAT_FIELDS, "group_ptr"):
        array = getattr(info, name)
        if array is not None:
            add(name, array)
    return found


def _plain(values: np.ndarray | None) -> dict[str, Any] | None:
    """Category values for the header."""
    return None if values is None else {"dtype": values.dtype.str, "values": values.tolist()}


def _write(file: BinaryIO, data: Any, check: int) -> int:
    file.write(data)
    return zlib.crc32(data, check)


def load(path: str) -> tuple[RawData, dict[str, Any]]:
    """The table and the arguments of `DMatrix.set_info`."""
    try:
        with open(path, "rb") as file:
            header, arrays = _read(file, path)
    except OSError as error:
        raise XGBoostError(f"Opening {path} failed: {error.strerror}.") from error
    shape = header["n_rows"], header["n_features"]
    values = arrays.pop("values")
    raw: RawData
    if "row_ptr" in arrays:
        raw = SparseData(_csr(values, arrays.pop("indices"), arrays.pop("row_ptr"), shape, path))
    else:
        raw = GatheredData(values)
    raw.feature_names, raw.feature_types = header["feature_names"], header["feature_types"]
    raw.categories, raw.has_own_types = _categories(header, path), True
    fields: dict[str, Any] = dict(arrays)
    if "group_ptr" in fields:
        fields["group"] = np.diff(fields.pop("group_ptr"))
    return raw, fields


def _refuse(path: str, problem: str) -> XGBoostError:
    return XGBoostError(f"{path} is not a complete file of `save_binary`: {problem}. Save the data again.")


def _read(file: BinaryIO, path: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays, sizes and check sum verified."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(len(MAGIC) + 8)
    if len(start) < len(MAGIC) + 8 or not start.startswith(MAGIC):
        raise _refuse(path, "it begins with other bytes")
    length = int.from_bytes(start[len(MAGIC) :], "little")
    if length > min(size, _HEADER_LIMIT):
        raise _refuse(path, "its header is too long")
    text = file.read(length)
    header = _header(text, path)
    shapes = [(name, tuple(shape)) for name, shape in header["arrays"]]
    n_bytes = sum(math.prod(shape) * np.dtype(_DTYPES[name]).itemsize for name, shape in shapes)
    if len(start) + length + n_bytes + 4 != size:
        raise _refuse(path, f"it has {size} bytes, {len(start) + length + n_bytes + 4} are expected")
    check = zlib.crc32(text, zlib.crc32(start))
    arrays = {}
    for name, shape in shapes:
        array = np.empty(shape, _DTYPES[name])
        data = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        if file.readinto(data) != len(data):  # type: ignore[attr-defined]
            raise _refuse(path, "it ends too early")
        check = zlib.crc32(data, check)
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    if file.read() != check.to_bytes(4, "little"):
        raise _refuse(path, "its check sum is wrong")
    return header, arrays


def _header(text: bytes, path: str) -> dict[str, Any]:
    """The header, every part of it of the right kind."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _refuse(path, "its header is not JSON") from None
    if not isinstance(header, dict) or not all(_is_count(header.get(key)) for key in ("n_rows", "n_features")):
        raise _refuse(path, "its header has no shape")
    n_rows, n_features, arrays = header["n_rows"], header["n_features"], header.get("arrays")
    if not isinstance(arrays, list) or not all(_is_array(entry) for entry in arrays):
        raise _refuse(path, "its header does not list arrays")
    shapes = {name: tuple(shape) for name, shape in arrays}
    is_sparse = "row_ptr" in shapes
    values = shapes.get("values", ())
    fits = values == (n_rows, n_features)
    if is_sparse:
        fits = shapes["row_ptr"] == (n_rows + 1,) and len(values) == 1 and shapes.get("indices") == values
    if len(shapes) != len(arrays) or not fits or ("indices" in shapes and not is_sparse):
        raise _refuse(path, "its arrays do not fit its shape")
    for name in ("feature_names", "feature_types"):
        if not (header.get(name) is None or _is_strings(header[name], n_features)):
            raise _refuse(path, f"its {name} are wrong")
    header.setdefault("categories", None)
    return header


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _is_array(entry: Any) -> bool:
    return (
        isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and entry[0] in _DTYPES
        and isinstance(entry[1], list) and 1 <= len(entry[1]) <= 2 and all(map(_is_count, entry[1]))
    )  # fmt: skip


def _is_strings(values: Any, n: int) -> bool:
    return isinstance(values, list) and len(values) == n and all(isinstance(value, str) for value in values)


def _categories(header: dict[str, Any], path: str) -> Categories | None:
    listed = header["categories"]
    if listed is None:
        return None
    if not isinstance(listed, list) or len(listed) != header["n_features"]:
        raise _refuse(path, "its categories are wrong")
    return Categories([_category_values(entry, path) for entry in listed], header.get("feature_names"))


def _category_values(entry: Any, path: str) -> np.ndarray | None:
    """Category values of one feature: strings, integers or floats."""
    if entry is None:
        return None
    try:
        dtype, values = np.dtype(entry["dtype"]), entry["values"]
        kinds: Any = {"O": str, "i": int, "u": int, "f": (int, float)}[dtype.kind]
        if not all(isinstance(value, kinds) and not isinstance(value, bool) for value in values):
            raise TypeError("a value of another kind")
        return np.array(values, dtype).reshape(len(values))
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise _refuse(path, f"its categories are wrong ({error})") from None


def _csr(values: np.ndarray, indices: np.ndarray, row_ptr: np.ndarray, shape: tuple[int, int], path: str) -> CSR:
    """The sparse matrix, once its indices are known to be inside of it."""
    if row_ptr[-1] != len(values):
        raise _refuse(path, "its row offsets are wrong")
    try:
        return read_sparse(CSR(shape, row_ptr, indices, values))
    except XGBoostError as error:
        raise _refuse(path, str(error).rstrip(".")) from None
