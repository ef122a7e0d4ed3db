"""Numbers in CSV and libsvm files, a block of lines at a time.

A block is cut into spans of lines, one for each thread, and parsed by `ops.text`. A small block, and one
with anything unusual in it, is read line by line with Python, which gives the same values and finds the line that an
error is about.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.ops import text as kernels
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_BLOCK_BYTES = 1 << 22
_SMALL_BYTES = 1 << 15  # read faster with Python than a kernel is loaded
_MISSING_WORDS = {"", "na", "n/a", "nan", "null", "none", "<na>"}
_PARTS_OF_NUMBERS = frozenset("0123456789+-./<>")  # delimiters that the kernel would take for something else

Part = tuple[np.ndarray, np.ndarray]  # (rows, .) features float32 and other columns float64


def _blocks(path: str) -> Iterator[bytes]:
    """Whole lines: they end with a line feed, the file's last one too."""
    with open(path, "rb") as file:
        rest = file.read(3)
        rest = b"" if rest == b"\xef\xbb\xbf" else rest  # a byte order mark
        while piece := file.read(_BLOCK_BYTES):
            block = rest + piece
            stop = block.rfind(b"\n") + 1
            rest = block[stop:]
            if stop:
                yield block[:stop]
    if rest:
        yield rest.rstrip(b"\r") + b"\n"


def _text_of(block: bytes, path: str, line: int) -> str:
    lines = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    try:
        return lines.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + lines[: error.start].count(b"\n")
        raise XGBoostError(f"{path}, line {at}: not text in UTF-8.") from None


class _Spans(NamedTuple):
    """A block cut at line ends: its bytes, where spans begin and end, and how many lines each has."""

    codes: np.ndarray
    ptr: np.ndarray
    lines: np.ndarray


def _cut(block: bytes, ctx: Context) -> _Spans:
    n_parts = max(1, min(ctx.n_threads, len(block) // _SMALL_BYTES))
    ends = {block.find(b"\n", len(block) * k // n_parts) + 1 for k in range(1, n_parts)}
    ptr = np.array(sorted(ends - {0} | {len(block)}), np.int64)
    ptr = np.concatenate([[0], ptr])
    codes = np.frombuffer(block, np.uint8)
    return _Spans(codes, ptr, _count(codes, ptr, "\n", ctx))


def _count(codes: np.ndarray, ptr: np.ndarray, mark: str, ctx: Context) -> np.ndarray:
    counts = np.empty(len(ptr) - 1, np.int64)
    ctx.run_ranges(len(counts), 1, kernels.count_bytes, codes, ptr, np.uint8(ord(mark)), counts)
    return counts


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


def _taken(array: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The first counts[s] items from starts[s] on, of all spans; the array itself where that is all of it."""
    if counts.sum() == len(array):
        return array
    return np.concatenate([array[a : a + n] for a, n in zip(starts, counts)])


# ---- CSV ----


def first_row(path: str, delimiter: str) -> tuple[int, list[str] | None, int]:
    """(line, names if that line is a header, number of columns) of the first line that is not blank."""
    line = 1
    for block in _blocks(path):
        rows = csv.reader(io.StringIO(_text_of(block, path, line)), delimiter=delimiter)
        for row in rows:
            words = [word.strip() for word in row]
            if any(words):
                is_header = any(_number_or_none(word) is None for word in words)
                return line + rows.line_num - 1, words if is_header else None, len(words)
        line += block.count(b"\n")
    raise XGBoostError(f"{path} is empty.")


class CsvReader:
    """Passes over a CSV file of numbers.

    Parameters
    ----------
    path
        The file.
    delimiter
        One ASCII character.
    n_columns
        Fields of every line.
    features, others
        Numbers of the columns that become features, and of all others.
    ctx
        Threads.
    """

    def __init__(
        self, path: str, delimiter: str, n_columns: int, features: list[int], others: list[int], ctx: Context
    ) -> None:
        self._path, self._delimiter, self._n_columns = path, delimiter, n_columns
        self._features, self._others, self._ctx = features, others, ctx
        self._slots = np.empty(n_columns, np.int64)
        self._slots[features] = np.arange(len(features))
        self._slots[others] = ~np.arange(len(others))
        self._is_plain = delimiter not in _PARTS_OF_NUMBERS and not delimiter.isalpha()

    def count_lines(self) -> int:
        """A bound of the number of rows."""
        return sum(_count_lines(block, self._ctx) for block in _blocks(self._path))

    def parts(self, n_skipped: int) -> Iterator[Part]:
        """Features and other columns of the lines after the first `n_skipped`, block by block."""
        line = 1
        for block in _blocks(self._path):
            n_lines = _count_lines(block, self._ctx)
            if line <= n_skipped:
                n_cut = min(n_skipped - line + 1, n_lines)
                block = block.split(b"\n", n_cut)[-1]
                line, n_lines = line + n_cut, n_lines - n_cut
            yield self._read(block, line)
            line += n_lines

    def _read(self, block: bytes, line: int) -> Part:
        if self._is_plain and len(block) >= _SMALL_BYTES:
            quick = self._read_quickly(block)
            if quick is not None:
                return quick
        numbers = _csv_rows(_text_of(block, self._path, line), line, self._n_columns, self._delimiter, self._path)
        with np.errstate(over="ignore"):
            return numbers[:, self._features].astype(np.float32), numbers[:, self._others]

    def _read_quickly(self, block: bytes) -> Part | None:
        """By kernel; None if something in the block is unusual."""
        spans = _cut(block, self._ctx)
        row_ptr = _starts(spans.lines)
        features = np.empty((row_ptr[-1], len(self._features)), np.float32)
        others = np.empty((row_ptr[-1], len(self._others)), np.float64)
        found = np.empty(len(spans.lines), np.int64)
        rules = (kernels.powers_of_ten(), np.uint8(ord(self._delimiter)), self._slots)
        self._ctx.run_ranges(
            len(found), 1, kernels.read_csv, spans.codes, *rules, spans.ptr, row_ptr, features, others, found
        )
        if (found == kernels.GIVEN_UP).any():
            return None
        return _taken(features, row_ptr, found), _taken(others, row_ptr, found)


def _count_lines(block: bytes, ctx: Context) -> int:
    return block.count(b"\n") if len(block) < _SMALL_BYTES else int(_cut(block, ctx).lines.sum())


def _number_or_none(word: str) -> float | None:
    """The number a word stands for, NaN for the words that mean missing, None for any other word."""
    if word.lower() in _MISSING_WORDS:
        return np.nan
    try:
        return float(word)
    except ValueError:
        return None


def _csv_rows(text: str, line: int, n_columns: int, delimiter: str, path: str) -> np.ndarray:
    """(rows, n_columns) float64 values of whole lines, NaN where a field is empty; says which line is wrong."""
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


class Rows(NamedTuple):
    """Lines of a libsvm file: label, weight and qid (NaN and -1 for none), entries per row, indices, values."""

    label: np.ndarray
    weight: np.ndarray
    qid: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray


def read_libsvm(path: str, ctx: Context) -> Rows:
    """All rows of a file of lines "label[:weight] [qid:id] index:value ...", "#" begins a comment."""
    parts, line = [], 1
    for block in _blocks(path):
        parts.append(_svm_rows(block, line, path, ctx))
        line += _count_lines(block, ctx)
    return Rows(*(_joined(arrays) for arrays in zip(*parts, strict=True)))


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _svm_rows(block: bytes, line: int, path: str, ctx: Context) -> Rows:
    if len(block) >= _SMALL_BYTES:
        quick = _svm_rows_quickly(block, ctx)
        if quick is not None:
            return quick
    return _svm_rows_by_line(_text_of(block, path, line), line, path)


def _svm_rows_quickly(block: bytes, ctx: Context) -> Rows | None:
    """By kernel; None if something in the block is unusual."""
    spans = _cut(block, ctx)
    row_ptr, entry_ptr = _starts(spans.lines), _starts(_count(spans.codes, spans.ptr, ":", ctx))
    n_rows, n_entries = row_ptr[-1], entry_ptr[-1]
    head, qid, counts = np.empty((n_rows, 2)), np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    indices, values = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
    found = np.empty((2, len(spans.lines)), np.int64)
    firsts = np.stack([row_ptr, entry_ptr])
    ctx.run_ranges(
        len(spans.lines), 1, kernels.read_svm,
        spans.codes, kernels.powers_of_ten(), spans.ptr, firsts, head, qid, counts, indices, values, found,
    )  # fmt: skip
    if (found[0] == kernels.GIVEN_UP).any():
        return None
    by_row = (head[:, 0], head[:, 1], qid, counts)
    return Rows(
        *(_taken(a, row_ptr, found[0]) for a in by_row), *(_taken(a, entry_ptr, found[1]) for a in (indices, values))
    )


def _svm_rows_by_line(text: str, line: int, path: str) -> Rows:
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
    label, weight = np.array(label, np.float64), np.array(weight, np.float64)
    qid, counts, indices = (np.array(numbers, np.int64) for numbers in (qid, counts, indices))
    with np.errstate(over="ignore"):
        return Rows(label, weight, qid, counts, indices, np.array(values, np.float64).astype(np.float32))


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
