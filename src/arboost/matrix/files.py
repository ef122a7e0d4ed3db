"""Tables in local files: Parquet, CSV and libsvm, read in pieces of bounded size. URLs are never followed.

`DMatrix(path)` asks here. The format is what `?format=` says, else what the file's suffix or its first bytes say; a
folder holds Parquet files. How text becomes numbers is written in `text.py`, how Parquet does in `parquet.py`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
import scipy.sparse

from arboost.matrix import parquet, saved, text
from arboost.matrix.adapt import DenseData, RawData, SparseData, adapt
from arboost.matrix.iterator import Batch, Read, read_batches
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".libsvm": "libsvm", ".svm": "libsvm",
    ".svmlight": "libsvm",
}  # fmt: skip
_OPTIONS = {
    "csv": {"label_column", "weight_column", "delimiter"},
    "parquet": {"label_column", "weight_column"},
    "libsvm": {"indexing_mode"},
    "binary": set(),
}
_COLUMN_FIELDS = ("label", "weight", "base_margin", "qid", "label_lower_bound", "label_upper_bound")


Keeps = Callable[[int, int], bool]


class Location(NamedTuple):
    """A file, the format to read it in, and the other options given with its name."""

    path: str
    format: str
    options: dict[str, str]


def is_path(data: Any) -> bool:
    """Whether the data is the name of a file."""
    return isinstance(data, (str, os.PathLike))


def is_source(data: Any) -> bool:
    """Whether `read_file` reads the data: a path, or a dataset of pyarrow's."""
    return is_path(data) or parquet.is_dataset(data)


def read_file(
    data: Any, missing: float | None, given: dict[str, Any], ctx: Context, keeps: Keeps, names: Any = None
) -> tuple[RawData, dict[str, Any]]:
    """The table in a file and its fields: those given, with names of columns replaced by the columns.

    Parameters
    ----------
    data
        Path, perhaps with "?format=...&...".
    missing
        Value that means "missing" besides NaN.
    given
        label, weight, ... as the user gave them; a string names a column of a CSV or Parquet file.
    ctx
        Threads.
    keeps
        Whether the values of a Parquet table, of so many rows and features, are to be kept in memory; else it is read
        from the file at every use.
    names
        Names of the features. Of Parquet the columns with these names are read; other names are new ones for all.
    """
    place = _DATASET if parquet.is_dataset(data) else locate(data)
    if place.format in ("libsvm", "binary"):
        named = [name for name in _COLUMN_FIELDS if _names_columns(given.get(name))]
        if named:
            raise XGBoostError(f"A {place.format} file has no named columns: pass `{named[0]}` as an array.")
        is_saved = place.format == "binary"
        raw, fields = saved.load(place.path) if is_saved else _read_libsvm(place, missing, ctx)
        return raw, _with_given(fields, given)
    wanted = _wanted_columns(place, given)
    if place.format == "csv":
        table = _open_csv(place, wanted, missing, ctx)
    else:
        table = _open_parquet(data if place is _DATASET else place.path, wanted, missing, names)
    is_kept = place.format == "csv" or keeps(table.most_rows, table.n_features)
    raw, fields = read_batches(table.read, ctx, missing, table.most_rows if is_kept else None)
    if not raw.n_rows:
        raise XGBoostError(f"{place.path} has no rows.")
    raw.has_own_types = place.format == "parquet"
    raw.is_frame = raw.feature_names is not None and not raw.is_streamed
    return raw, _with_given(fields, given)


def _with_given(fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Fields of the file, but the user's where there are any; groups may be given in either form."""
    arrays = {name: value for name, value in given.items() if value is not None and not _names_columns(value)}
    if "group" in arrays or "qid" in arrays:
        fields = {name: values for name, values in fields.items() if name not in ("group", "qid")}
    return fields | arrays


def locate(data: Any) -> Location:
    """What a path given as data means; refuses what is not there or cannot be told."""
    name = os.path.expanduser(os.fsdecode(data))
    path, options = name, {}
    if not os.path.exists(name) and "?" in name:
        path, _, query = name.partition("?")
        options = dict(parse_qsl(query.partition("#")[0], keep_blank_values=True))
    if path.startswith("file://"):
        path = path[len("file://") :]
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise XGBoostError(f"{path} is a URL. Only local files are read: download it first.")
    if "#" in name and (path != name or not os.path.exists(name)):
        raise XGBoostError(f"{name}: External memory training with text input has been removed. Drop the `#` part.")
    asked = options.pop("format", None)
    is_folder = asked in (None, "parquet") and os.path.isdir(path)
    start = b"PAR1" if is_folder else _first_bytes(path)
    format = asked or _format_of(path, start)
    if format not in _OPTIONS:
        raise XGBoostError(f"Unknown data type {format}. The formats are csv, libsvm and parquet.")
    if not start:
        raise XGBoostError(f"{path} is empty.")
    if start[:2] == b"\x1f\x8b":
        raise XGBoostError(f"{path} is compressed with gzip: decompress it first.")
    unknown = set(options) - _OPTIONS[format]
    if unknown:
        known = ", ".join(sorted(_OPTIONS[format])) or "none"
        raise XGBoostError(f"Unknown option {min(unknown)} for a {format} file; the options are: {known}.")
    return Location(path, format, options)


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(saved.MAGIC))
    except IsADirectoryError:
        raise XGBoostError(f"{path} is a directory: only Parquet files are read by the folder.") from None
    except OSError as error:
        raise XGBoostError(f"Opening {path} failed: {error.strerror}.") from error
    except ValueError as error:
        raise XGBoostError(f"{path!r} is not the name of a file: {error}.") from error


def _format_of(path: str, start: bytes) -> str:
    if start == saved.MAGIC:
        return "binary"
    if start[:4] == b"PAR1":
        return "parquet"
    found = _SUFFIXES.get(os.path.splitext(path)[1].lower())
    if found is None:
        raise XGBoostError(
            "URI parameter `format` is required for loading text data: filename?format=csv (or libsvm, parquet), since "
            f"the suffix of {path} does not tell. A binary file must come from `save_binary` of this library."
        )
    return found


# ---- tables with columns ----


_DATASET = Location("the dataset", "parquet", {})


class _Table(NamedTuple):
    """Passes over the batches of a file, a bound of its number of rows, and the number of features."""

    read: Read
    most_rows: int
    n_features: int


def _names_columns(value: Any) -> bool:
    """Whether a field is given as the name of a column, or names of several."""
    return isinstance(value, str) or (
        isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, str) for v in value)
    )


def _wanted_columns(place: Location, given: dict[str, Any]) -> dict[str, list[Any]]:
    """Field -> its columns, by name or (from `label_column=0`) by number."""
    wanted: dict[str, list[Any]] = {}
    for field in _COLUMN_FIELDS:
        value = given.get(field)
        option = place.options.get(f"{field}_column")
        if value is not None and _names_columns(value):
            wanted[field] = [value] if isinstance(value, str) else list(value)
        elif option is not None:  # no feature even where an array is given for the field
            wanted[field] = [int(option) if re.fullmatch(r"-?\d+", option) else option]
    return wanted


def _column_numbers(path: str, names: list[str] | None, n_columns: int, wanted: list[Any]) -> list[int]:
    """Numbers of the wanted columns."""
    numbers = []
    for column in wanted:
        if isinstance(column, str):
            if names is None:
                raise XGBoostError(f"{path} has no header: it has no column named {column!r}.")
            if column not in names:
                raise XGBoostError(f"{path} has no column {column!r}. Its columns are: {', '.join(names)}.")
            column = names.index(column)
        if not 0 <= column < n_columns:
            raise XGBoostError(f"{path} has no column {column}: it has {n_columns} columns, counted from 0.")
        numbers.append(column)
    return numbers


def _split_columns(
    path: str, names: list[str] | None, n_columns: int, wanted: dict[str, list[Any]]
) -> tuple[dict[str, list[int]], list[int]]:
    """Column numbers of every field, and those of the features: all the others."""
    fields = {field: _column_numbers(path, names, n_columns, columns) for field, columns in wanted.items()}
    taken = set(chain.from_iterable(fields.values()))
    return fields, [column for column in range(n_columns) if column not in taken]


def _open_parquet(data: Any, wanted: dict[str, list[Any]], missing: float | None, names: Any) -> _Table:
    """A Parquet file, a folder of them or a dataset; what pandas wrote as the index of its rows is no feature."""
    table = parquet.open_table(data)
    numbers, others = _split_columns(table.name, table.columns, len(table.columns), wanted)
    fields = {field: [table.columns[column] for column in columns] for field, columns in numbers.items()}
    features = [table.columns[column] for column in others if table.columns[column] not in table.index_columns]
    if _names_columns(names) and not isinstance(names, str) and set(names) <= {*features, *table.index_columns}:
        features = list(names)
    if not table.n_rows:
        raise XGBoostError(f"{table.name} has no rows.")
    return _Table(parquet.read_columns(table, features, fields, missing), table.n_rows, len(features))


def _stack(columns: Sequence[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _open_csv(place: Location, wanted: dict[str, list[Any]], missing: float | None, ctx: Context) -> _Table:
    """A CSV file of numbers, with or without a header."""
    delimiter = place.options.get("delimiter", ",")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise XGBoostError(f"`delimiter` must be one character, got {delimiter!r}.")
    first_line, header, n_columns = text.first_row(place.path, delimiter)
    fields, features = _split_columns(place.path, header, n_columns, wanted)
    names = None if header is None else [header[column] for column in features]
    others = sorted(set(range(n_columns)) - set(features))
    reader = text.CsvReader(place.path, delimiter, n_columns, features, others, ctx)

    def read() -> Iterator[Batch]:
        for values, rest in reader.parts(first_line if header is not None else 0):
            given = {field: _stack([rest[:, others.index(c)] for c in columns]) for field, columns in fields.items()}
            batch = Batch(DenseData(values, np.nan if missing is None else missing), given, names)
            del values, rest, given
            yield batch
            batch.release()

    return _Table(read, reader.count_lines(), len(features))


def _read_libsvm(place: Location, missing: float | None, ctx: Context) -> tuple[RawData, dict[str, Any]]:
    """A sparse table from lines "label[:weight] [qid:id] index:value ...", "#" begins a comment."""
    path, mode = place.path, place.options.get("indexing_mode", "0")
    if mode not in ("0", "1", "-1"):
        raise XGBoostError(f"`indexing_mode` must be 0 (indices begin at 0), 1 (at 1) or -1 (found out), got {mode}.")
    rows = text.read_libsvm(path, ctx)
    if not len(rows.label):
        raise XGBoostError(f"{path} has no rows.")
    first = int(rows.indices.min(initial=np.iinfo(rows.indices.dtype).max)) if len(rows.indices) else 0
    if mode == "1" and len(rows.indices) and first == 0:
        raise XGBoostError(f"{path} has an index 0, which `indexing_mode=1` does not allow.")
    base = 1 if mode == "1" or (mode == "-1" and first > 0) else 0
    n_columns = int(rows.indices.max(initial=base - 1)) - base + 1
    if n_columns > np.iinfo(np.int32).max:
        raise XGBoostError(f"{path} has an index of {n_columns - 1 + base}, which is too large.")
    columns = (rows.indices - base if base else rows.indices).astype(np.int32, copy=False)
    row_ptr = np.concatenate([[0], np.cumsum(rows.counts)])
    matrix = scipy.sparse.csr_matrix((rows.values, columns, row_ptr), (len(rows.label), n_columns))
    fields: dict[str, Any] = {"label": rows.label}
    for name, column, is_given in (("weight", rows.weight, ~np.isnan(rows.weight)), ("qid", rows.qid, rows.qid >= 0)):
        if is_given.any() and not is_given.all():
            raise XGBoostError(f"{path}: some lines have a {name} and others do not (row {is_given.argmin()}).")
        if is_given.any():
            fields[name] = column
    raw = adapt(matrix, missing)
    assert isinstance(raw, SparseData)
    return raw, fields
