"""Tables in local files: Parquet, CSV and libsvm, read in pieces of bounded size. URLs are never followed.

`DMatrix(path)` asks here. The format is what `?format=` says, else what the file's suffix or its first bytes say.
Text is parsed a block of lines at a time by NumPy; a block with anything unusual in it is read again line by line,
which also finds the line that an error is about.
"""

import csv
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
import scipy.sparse

from arboost.matrix import saved
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
_BLOCK_BYTES = 1 << 22
_PARQUET_VALUES = 1 << 19  # decoded at a time
_MISSING_WORDS = {"", "na", "n/a", "nan", "null", "none", "<na>"}


class Location(NamedTuple):
    """A file, the format to read it in, and the other options given with its name."""

    path: str
    format: str
    options: dict[str, str]


def is_path(data: Any) -> bool:
    """Whether the data is the name of a file."""
    return isinstance(data, (str, os.PathLike))


def read_file(
    data: Any, missing: float | None, given: dict[str, Any], ctx: Context, streamed: bool
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
    streamed
        Whether the table may be one that is read from the file at every use.
    """
    place = locate(data)
    if place.format in ("libsvm", "binary"):
        named = [name for name in _COLUMN_FIELDS if _names_columns(given.get(name))]
        if named:
            raise XGBoostError(f"A {place.format} file has no named columns: pass `{named[0]}` as an array.")
        is_saved = place.format == "binary"
        raw, fields = saved.load(place.path) if is_saved else _read_libsvm(place.path, place.options, missing)
        return raw, _with_given(fields, given)
    open_table = _open_csv if place.format == "csv" else _open_parquet
    table = open_table(place, _wanted_columns(place, given), missing)
    keep = None if streamed and place.format == "parquet" else table.most_rows
    raw, fields = read_batches(table.read, ctx, missing, keep)
    if not raw.n_rows:
        raise XGBoostError(f"{place.path} has no rows.")
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
    start = _first_bytes(path)
    format = options.pop("format", None) or _format_of(path, start)
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
        raise XGBoostError(f"{path} is a directory: pass the path of a file.") from None
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


class _Table(NamedTuple):
    """Passes over the batches of a file, and a bound of its number of rows."""

    read: Read
    most_rows: int


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


def _open_parquet(place: Location, wanted: dict[str, list[Any]], missing: float | None) -> _Table:
    """A Parquet file, decoded some rows of a row group at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise XGBoostError("Reading Parquet files needs pyarrow: pip install pyarrow.") from error

    def opened() -> Any:
        try:
            # A row group may be the whole file: it is read through a small window.
            return pyarrow.parquet.ParquetFile(place.path, pre_buffer=False, buffer_size=1 << 16)
        except (OSError, pyarrow.ArrowException) as error:
            raise XGBoostError(f"{place.path} is not a readable Parquet file: {error}") from error

    with opened() as file:
        names, n_rows = list(file.schema_arrow.names), file.metadata.num_rows
    if not names:
        raise XGBoostError(f"{place.path} has no columns.")
    fields, features = _split_columns(place.path, names, len(names), wanted)

    def read() -> Iterator[Batch]:
        with opened() as file:
            parts = file.iter_batches(batch_size=max(1, _PARQUET_VALUES // len(names)))
            while (part := _next_part(parts, place.path, pyarrow.ArrowException)) is not None:
                given = {field: part.column(c[0]) if len(c) == 1 else part.select(c) for field, c in fields.items()}
                batch = Batch(adapt(part.select(features), missing), given)
                del part, given
                yield batch
                batch.release()

    return _Table(read, n_rows)


def _next_part(parts: Iterator[Any], path: str, damage: type[Exception]) -> Any:
    """The next record batch, None after the last."""
    try:
        return next(parts, None)
    except (OSError, damage) as error:
        raise XGBoostError(f"{path} is damaged: {error}") from error


def _stack(columns: Sequence[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


# ---- text ----


def _blocks(path: str) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines): lines end with a line feed, the file's last one too."""
    line = 1
    with open(path, "rb") as file:
        rest = file.read(3)
        rest = b"" if rest == b"\xef\xbb\xbf" else rest  # a byte order mark
        while piece := file.read(_BLOCK_BYTES):
            lines, feed, rest = (rest + piece).rpartition(b"\n")
            if feed:
                yield line, (lines + feed).replace(b"\r\n", b"\n")
                line += lines.count(b"\n") + 1
    if rest:
        yield line, rest.replace(b"\r\n", b"\n").rstrip(b"\r") + b"\n"


def _flat_numbers(text: bytes, separator: str) -> np.ndarray:
    """All numbers of a text; fewer than there are if one of them cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it stops at the first word that is not a number
        try:
            return np.fromstring(text, np.float64, sep=separator)
        except ValueError:
            return np.zeros(0)


def _text_of(block: bytes, path: str, line: int) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + block[: error.start].count(b"\n")
        raise XGBoostError(f"{path}, line {at}: not text in UTF-8.") from None


def _open_csv(place: Location, wanted: dict[str, list[Any]], missing: float | None) -> _Table:
    """A CSV file of numbers, with or without a header."""
    delimiter = place.options.get("delimiter", ",")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise XGBoostError(f"`delimiter` must be one character, got {delimiter!r}.")
    first_line, header, n_columns = _first_row(place.path, delimiter)
    fields, features = _split_columns(place.path, header, n_columns, wanted)
    names = None if header is None else [header[column] for column in features]

    def read() -> Iterator[Batch]:
        for line, block in _blocks(place.path):
            if line <= first_line and header is not None:
                block = block.split(b"\n", first_line - line + 1)[-1]
                line = first_line + 1
            numbers = _csv_numbers(block, line, n_columns, delimiter, place.path)
            given = {field: _stack([numbers[:, c] for c in columns]) for field, columns in fields.items()}
            batch = Batch(DenseData(numbers[:, features], np.nan if missing is None else missing), given, names)
            del numbers, given
            yield batch
            batch.release()

    return _Table(read, sum(block.count(b"\n") for _, block in _blocks(place.path)))


def _first_row(path: str, delimiter: str) -> tuple[int, list[str] | None, int]:
    """(line, names if that line is a header, number of columns) of the first line that is not blank."""
    for line, block in _blocks(path):
        rows = csv.reader(io.StringIO(_text_of(block, path, line)), delimiter=delimiter)
        for row in rows:
            words = [word.strip() for word in row]
            if any(words):
                is_header = any(_number_or_none(word) is None for word in words)
                return line + rows.line_num - 1, words if is_header else None, len(words)
    raise XGBoostError(f"{path} is empty.")


def _number_or_none(word: str) -> float | None:
    """The number a word stands for, NaN for the words that mean missing, None for any other word."""
    if word.lower() in _MISSING_WORDS:
        return np.nan
    try:
        return float(word)
    except ValueError:
        return None


def _csv_numbers(block: bytes, line: int, n_columns: int, delimiter: str, path: str) -> np.ndarray:
    """(rows, n_columns) float64 values of whole lines, NaN where a field is empty."""
    mark = delimiter.encode()
    text = block
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    text = text.lstrip(b"\n")
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == ord("\n"))
    marks = np.searchsorted(np.flatnonzero(codes == mark[0]), ends)
    if (np.diff(marks, prepend=0) == n_columns - 1).all() and b'"' not in text:
        flat = mark + text[:-1].replace(b"\n", mark) + mark
        for _ in range(2):  # neighbouring empty fields share a delimiter
            flat = flat.replace(mark + mark, mark + b"nan" + mark)
        numbers = _flat_numbers(flat[1:-1], delimiter)
        if len(numbers) == len(ends) * n_columns:
            return numbers.reshape(len(ends), n_columns)
    return _csv_numbers_by_line(_text_of(block, path, line), line, n_columns, delimiter, path)


def _csv_numbers_by_line(text: str, line: int, n_columns: int, delimiter: str, path: str) -> np.ndarray:
    """The same, slowly; says which line is wrong."""
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    values: list[float] = []
    try:
        for row in rows:
            if not any(word.strip() for word in row) and len(row) < 2:
                continue
            at = f"{path}, line {line + rows.line_num - 1}"
            if len(row) != n_columns:
                raise XGBoostError(f"{at}: {len(row)} fields, {n_columns} are expected as in the first line.")
            for column, word in enumerate(row):
                number = _number_or_none(word.strip())
                if number is None:
                    raise XGBoostError(
                        f"{at}, column {column}: {word[:50]!r} is not a number. Read a file with text columns as a "
                        "data frame and pass that."
                    )
                values.append(number)
    except csv.Error as error:
        raise XGBoostError(f"{path}, line {line + rows.line_num - 1}: {error}.") from None
    return np.array(values, np.float64).reshape(-1, n_columns)


# ---- libsvm ----


class _Rows(NamedTuple):
    """Lines of a libsvm file: label, weight and qid (-1 and NaN for none), entries per row, indices, values."""

    label: np.ndarray
    weight: np.ndarray
    qid: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray


def _read_libsvm(path: str, options: dict[str, str], missing: float | None) -> tuple[RawData, dict[str, Any]]:
    """A sparse table from lines "label[:weight] [qid:id] index:value ...", "#" begins a comment."""
    mode = options.get("indexing_mode", "0")
    if mode not in ("0", "1", "-1"):
        raise XGBoostError(f"`indexing_mode` must be 0 (indices begin at 0), 1 (at 1) or -1 (found out), got {mode}.")
    parts = [_svm_rows(block, line, path) for line, block in _blocks(path)]
    label, weight, qid, counts, indices, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    del parts
    if not len(label):
        raise XGBoostError(f"{path} has no rows.")
    first = int(indices.min(initial=np.iinfo(np.int64).max)) if len(indices) else 0
    if mode == "1" and len(indices) and first == 0:
        raise XGBoostError(f"{path} has an index 0, which `indexing_mode=1` does not allow.")
    base = 1 if mode == "1" or (mode == "-1" and first > 0) else 0
    n_columns = int(indices.max(initial=base - 1)) - base + 1
    if n_columns > np.iinfo(np.int32).max:
        raise XGBoostError(f"{path} has an index of {n_columns - 1 + base}, which is too large.")
    row_ptr = np.concatenate([[0], np.cumsum(counts)])
    columns = (indices - base).astype(np.int32)
    with np.errstate(over="ignore"):
        matrix = scipy.sparse.csr_matrix((values.astype(np.float32), columns, row_ptr), (len(label), n_columns))
    fields: dict[str, Any] = {"label": label}
    for name, column, is_given in (("weight", weight, ~np.isnan(weight)), ("qid", qid, qid >= 0)):
        if is_given.any() and not is_given.all():
            raise XGBoostError(f"{path}: some lines have a {name} and others do not (row {is_given.argmin()}).")
        if is_given.any():
            fields[name] = column
    raw = adapt(matrix, missing)
    assert isinstance(raw, SparseData)
    return raw, fields


def _svm_rows(block: bytes, line: int, path: str) -> _Rows:
    """Rows of whole lines."""
    text = re.sub(rb"#[^\n]*", b"", block) if b"#" in block else block
    n_words, n_colons, is_weighted = _count_words(text)
    n_rows, n_qids, n_weights = len(n_words), text.count(b"qid:"), int(is_weighted.sum())
    is_plain = n_qids in (0, n_rows) and n_weights in (0, n_rows) and not re.search(rb":[^\s:]*:", text)
    if n_rows and is_plain and (n_colons - is_weighted == n_words - 1).all():
        # Numbers before the entries: the label, and where all lines have them its weight and the qid.
        n_head = 1 + (n_qids > 0) + (n_weights > 0)
        counts = n_words - 1 - (n_qids > 0)
        numbers = _flat_numbers(text.replace(b"qid:", b" ").replace(b":", b" "), " ")
        if len(numbers) == int((n_head + 2 * counts).sum()):
            found = _svm_columns(numbers, counts, n_head, n_qids > 0, n_weights > 0)
            if found is not None:
                return found
    return _svm_rows_by_line(_text_of(block, path, line), line, path)


def _count_words(text: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every line that is not blank: words, colons, and whether its first word has a colon."""
    codes = np.frombuffer(text, np.uint8)
    is_word = codes > ord(" ")
    starts = np.flatnonzero(is_word & ~np.concatenate([[False], is_word[:-1]]))
    colons, ends = np.flatnonzero(codes == ord(":")), np.flatnonzero(codes == ord("\n"))
    first_word = np.concatenate([[0], np.searchsorted(starts, ends)])
    n_words, n_colons = np.diff(first_word), np.diff(np.searchsorted(colons, ends), prepend=0)
    second = np.minimum(np.concatenate([starts, [len(text)]])[np.minimum(first_word[:-1] + 1, len(starts))], ends)
    until_second = np.searchsorted(colons, second) - np.cumsum(n_colons) + n_colons
    filled = n_words > 0
    return n_words[filled], n_colons[filled], until_second[filled] > 0


def _svm_columns(numbers: np.ndarray, counts: np.ndarray, n_head: int, has_qid: bool, has_weight: bool) -> _Rows | None:
    """The numbers of all lines taken apart; None if an index or qid among them is not a whole number >= 0."""
    starts = np.concatenate([[0], np.cumsum(n_head + 2 * counts)])[:-1]
    is_entry = np.ones(len(numbers), np.bool_)
    for k in range(n_head):
        is_entry[starts + k] = False
    entries = numbers[is_entry].reshape(-1, 2)
    indices = entries[:, 0]
    nothing = np.full(len(counts), np.nan)
    qid = numbers[starts + n_head - 1] if has_qid else -np.ones(len(counts))
    weight = numbers[starts + 1] if has_weight else nothing
    ids = np.concatenate([indices, qid if has_qid else qid[:0]])
    if not ((ids >= 0) & (ids < 2.0**53) & (ids == np.floor(ids))).all() or np.isnan(weight).any() == has_weight:
        return None
    label = numbers[starts]
    return _Rows(label, weight, qid.astype(np.int64), counts, indices.astype(np.int64), entries[:, 1])


def _svm_rows_by_line(text: str, line: int, path: str) -> _Rows:
    """The same, slowly; says which line is wrong."""
    label: Any = []
    weight: Any = []
    qid: Any = []
    counts: Any = []
    indices: Any = []
    values: Any = []
    for number, row in enumerate(text.split("\n"), start=line):
        words = row.partition("#")[0].split()
        if not words:
            continue
        fail = _failure(path, number)
        head, _, tail = words[0].partition(":")
        label.append(_svm_number(head, float, fail))
        weight.append(_svm_number(tail, float, fail) if tail else np.nan)
        has_qid = len(words) > 1 and words[1].startswith("qid:")
        qid.append(_svm_number(words[1][4:], int, fail) if has_qid else -1)
        pairs = [word.partition(":") for word in words[1 + has_qid :]]
        for index, colon, value in pairs:
            if not colon:
                raise fail(f"{index[:50]!r} is not an entry: index:value is expected")
            indices.append(_svm_number(index, int, fail))
            values.append(_svm_number(value, float, fail))
        counts.append(len(pairs))
    label, weight, values = (np.array(numbers, np.float64) for numbers in (label, weight, values))
    qid, counts, indices = (np.array(numbers, np.int64) for numbers in (qid, counts, indices))
    return _Rows(label, weight, qid, counts, indices, values)


def _failure(path: str, number: int) -> Callable[[str], XGBoostError]:
    return lambda problem: XGBoostError(f"{path}, line {number}: {problem}.")


def _svm_number(word: str, kind: Callable[[str], Any], fail: Callable[[str], XGBoostError]) -> Any:
    try:
        number = kind(word)
    except ValueError:
        raise fail(f"{word[:50]!r} is not {'a whole number' if kind is int else 'a number'}") from None
    if kind is int and not 0 <= number < 2**53:
        raise fail(f"{word[:50]} is not an index: it must not be negative or too large")
    return number
