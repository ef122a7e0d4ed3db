"""Anything that holds a table becomes `RawData`: a source of float32 chunks in which NaN is missing.

The user's arrays are kept by reference and never copied whole: an aligned C-ordered float32 array is handed to the
kernels as it is, everything else is converted chunk by chunk in a buffer of bounded size. (Of a sparse matrix that is
not float32 CSR, the stored entries are converted once.) New kinds of input are added with `register`.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse

from arboost.kernels.ops import binning, counting
from arboost.matrix.categories import Categories
from arboost.matrix.lent import plain_view
from arboost.matrix.sparse import CSR, read_sparse
from arboost.runtime import settings
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.runtime.pool import run_ranges, run_tasks, split_range

if TYPE_CHECKING:
    from arboost.kernels.gpu.device import Device

CHUNK_VALUES = 1 << 21  # values in a conversion buffer: 8 MiB
_BLOCK_VALUES = 1 << 16  # values converted at a time, so that the strided writes stay in cache
_SCAN_GRAIN = 1 << 13
_FEATURE_BYTES = 16  # what the first scan counts of every feature of a sparse table
_MANY_FEATURES = "Is a column index wrong? Give the features that occur numbers without gaps."
_FEATURE_TYPES = {"i": "int", "u": "int", "f": "float", "b": "i"}  # XGBoost's names for the kinds of dtypes
_INFINITE_KEYS = (counting.KEY_ZERO - counting.LARGEST_FINITE, counting.KEY_ZERO + counting.LARGEST_FINITE)
_INF_MESSAGE = "Input data contains `inf` or a value too large, while `missing` is not set to `inf`"


class FeatureSource(Protocol):
    """A table read a few features at a time."""

    n_rows: int

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        """(first_row, values, column): chunks of rows in which features first..stop begin at values[:, column]."""

    def feature_values(self, ctx: Context, first: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(column_ptr, values, rows): features first..stop one after the other, every value with its row.

        No rows where every feature has a value, perhaps NaN, for each of them in order.
        """


class RawData(ABC):
    """A table of n_rows x n_features values, read in float32 chunks (valid until the next one is asked for)."""

    is_streamed = False  # whether every pass over the tiles reads the user's source anew
    is_at_hand = False  # whether that source lies in memory

    def __init__(self, n_rows: int, n_features: int, missing: float):
        self.n_rows = n_rows
        self.n_features = n_features
        with np.errstate(over="ignore"):
            self.missing = np.float32(missing)
        self.feature_names: list[str] | None = None
        self.feature_types: list[str] | None = None
        self.categories: Categories | None = None  # of data frames
        self.is_frame = False  # columns are known by name, and may come in another order
        self.has_own_types = False  # read from a file that says which columns are categories
        self.n_threads = 1  # for conversion
        self._n_present: np.ndarray | None = None
        self._small: np.ndarray | None = None  # all values, where they fit one chunk
        self.sent: weakref.ReferenceType | None = None  # a copy on a device: `matrix/device.py`

    @property
    def is_small(self) -> bool:
        """Whether all values fit one chunk, and are kept once they are converted."""
        return self.n_rows * self.n_features <= CHUNK_VALUES

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first_row, values) with values float32 C-ordered (m, n_features), NaN = missing."""
        for first_row, values, _ in self.tiles(0, self.n_features, rows):
            yield first_row, values

    def chunks_for(self, ctx: Context) -> Iterator[tuple[int, Any]]:
        """`chunks`, but one array of the context's device where the values lie there."""
        return self.chunks()

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        """(first_row, values, column): chunks of rows in which features first..stop begin at values[:, column].

        A table that fits one chunk is converted once and kept.
        """
        if self.is_small:
            if self._small is None:
                self._small = self._convert(np.empty((self.n_rows, self.n_features), np.float32), 0, 0)
            yield from _cut_rows(self._small, first, rows)
            return
        step = rows or max(1, CHUNK_VALUES // max(1, stop - first))
        buffer = np.empty((min(step, self.n_rows), stop - first), np.float32)
        for first_row in range(0, self.n_rows, step):
            values = buffer[: min(step, self.n_rows - first_row)]
            yield first_row, self._convert(values, first_row, first), 0

    def values_on(self, device: "Device") -> Any:
        """All values on a device, float32, NaN = missing."""
        values = device.empty((self.n_rows, self.n_features), np.float32)
        device.staging.send_rows(lambda out, first_row: self._convert(out, first_row, 0), values)
        return values

    @abstractmethod
    def take(self, rows: np.ndarray) -> "RawData":
        """The given rows as data of their own."""

    def used_codes(self, feature: int, n_codes: int) -> np.ndarray:
        """(n_codes,) bool: which codes of a categorical feature occur in the data."""
        used = np.zeros(n_codes, np.bool_)
        for _, values, column in self.tiles(feature, feature + 1):
            codes = values[:, column]
            used[codes[~np.isnan(codes)].astype(np.int64)] = True
        return used

    def scan(self, ctx: Context) -> np.ndarray:
        """Number of present values of every feature, (n_features,) int64; refuses infinite values. Done once."""
        if self._n_present is None:
            n_present, n_infinite = self._count_values(ctx)
            if n_infinite.any() and not np.isinf(self.missing):
                name = self.feature_names[n_infinite.argmax()] if self.feature_names else n_infinite.argmax()
                raise XGBoostError(f"{_INF_MESSAGE} (feature {name}).")
            self._n_present = n_present
        return self._n_present

    def by_feature(self) -> "FeatureSource":
        """The same data in the form that is fastest to read a few features at a time."""
        return self

    def feature_values(self, ctx: Context, first: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features first..stop one after the other: see `FeatureSource`."""
        values = np.empty((stop - first, self.n_rows), np.float32)
        for first_row, chunk, column in self.tiles(first, stop):
            ctx.run_ranges(stop - first, 1, binning.transpose_features, chunk, column, values, first_row)
        return np.arange(stop - first + 1) * self.n_rows, values.reshape(-1), np.zeros(0, np.int32)

    def _count_values(self, ctx: Context) -> tuple[np.ndarray, np.ndarray]:
        """Present and infinite values of every feature."""
        total = np.zeros((2, self.n_features), np.int64)
        for _, values in self.chunks():
            spans = split_range(len(values), ctx.n_threads, _SCAN_GRAIN)
            counts = np.zeros((len(spans), 2, self.n_features), np.int64)
            flat = values.reshape(-1).view(np.uint32)
            ctx.run_tasks(
                binning.scan_values,
                [(flat, self.n_features, *part, *span) for part, span in zip(counts, spans, strict=True)],
            )
            total += counts.sum(axis=0)
        return total[0], total[1]

    def _convert(self, values: np.ndarray, first_row: int, first_feature: int) -> np.ndarray:
        """Fills `values` in threads (NumPy's casts do not hold the GIL), a block that fits the cache at a time."""
        block = max(1, _BLOCK_VALUES // max(1, values.shape[1]))

        def convert(start: int, stop: int) -> None:
            for i in range(start * block, min(stop * block, len(values)), block):
                part = values[i : i + block]
                self._fill(part, first_row + i, first_feature)
                if not np.isnan(self.missing):
                    self._mark_missing(part, first_feature)

        run_ranges(self.n_threads, -(-len(values) // block), 1, convert)
        return values

    @abstractmethod
    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        """Writes float32 values of out.shape from (first_row, first_feature) on."""

    def _mark_missing(self, part: np.ndarray, first_feature: int) -> None:
        """Turns values that mean "missing" into NaN."""
        part[part == self.missing] = np.nan


def _cut_rows(array: np.ndarray, first: int, rows: int | None) -> Iterator[tuple[int, np.ndarray, int]]:
    """Tiles of an array that needs no conversion."""
    step = rows or max(1, len(array))
    for first_row in range(0, len(array), step):
        yield first_row, array[first_row : first_row + step], first


def take_rows(chunks: Iterable[tuple[int, np.ndarray]], rows: np.ndarray, n_features: int) -> np.ndarray:
    """(n, n_features) float32: the given rows, in any order, of a table that is read in chunks."""
    taken = np.empty((len(rows), n_features), np.float32)
    for first, values in chunks:
        wanted = np.flatnonzero((rows >= first) & (rows < first + len(values)))
        taken[wanted] = values[rows[wanted] - first]
    return taken


class DenseData(RawData):
    """A 2-d NumPy array of any real dtype and memory order."""

    def __init__(self, array: np.ndarray, missing: float = np.nan):
        super().__init__(array.shape[0], array.shape[1], missing)
        self.array = plain_view(array) if _is_plain(array) else array
        self.is_lent = _is_plain(array) and bool(np.isnan(self.missing))  # chunks are views of the array itself

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        if not self.is_lent:
            yield from super().tiles(first, stop, rows)
            return
        yield from _cut_rows(self.array, first, rows)

    def take(self, rows: np.ndarray) -> "DenseData":
        return DenseData(self.array[rows], float(self.missing))

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        part = self.array[first_row : first_row + len(out), first_feature : first_feature + out.shape[1]]
        with np.errstate(over="ignore"):  # too large for float32 becomes inf, which `scan` reports
            np.copyto(out, part, casting="unsafe")


class MaskedData(DenseData):
    """A 2-d masked array: what is masked is missing."""

    def __init__(self, array: np.ma.MaskedArray, missing: float = np.nan):
        super().__init__(np.asarray(array.data), missing)
        self.mask = np.asarray(np.ma.getmask(array))
        self.is_lent = False

    def take(self, rows: np.ndarray) -> "MaskedData":
        return MaskedData(np.ma.masked_array(self.array[rows], self.mask[rows]), float(self.missing))

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        super()._fill(out, first_row, first_feature)
        out[self.mask[first_row : first_row + len(out), first_feature : first_feature + out.shape[1]]] = np.nan


class RecordData(RawData):
    """A 1-d structured array, masked or not: each field is a feature."""

    def __init__(self, array: np.ndarray, missing: float = np.nan, mask: np.ndarray | None = None):
        names = list(array.dtype.names or ())
        super().__init__(len(array), len(names), missing)
        self.array = array
        self.mask = mask  # bool fields of the same names
        self.feature_names = names or None
        self.feature_types = [_FEATURE_TYPES[array.dtype[name].kind] for name in names] or None

    def take(self, rows: np.ndarray) -> "RecordData":
        mask = None if self.mask is None else self.mask[rows]
        return RecordData(self.array[rows], float(self.missing), mask)

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        part = slice(first_row, first_row + len(out))
        names = (self.array.dtype.names or ())[first_feature : first_feature + out.shape[1]]
        with np.errstate(over="ignore"):
            for f, name in enumerate(names):
                out[:, f] = self.array[name][part]
                if self.mask is not None:
                    out[self.mask[name][part], f] = np.nan


class SparseData(RawData):
    """A sound CSR matrix. What is not stored is missing; a zero that is stored is the value 0, as in XGBoost."""

    def __init__(self, matrix: Any, missing: float = np.nan):
        super().__init__(matrix.shape[0], matrix.shape[1], missing)
        check_room(_FEATURE_BYTES * self.n_features, f"A sparse table of {self.n_features} features", _MANY_FEATURES)
        self.row_ptr = plain_view(matrix.indptr.astype(np.int64, copy=False))
        self.indices = plain_view(matrix.indices.astype(np.int32, copy=False))
        with np.errstate(over="ignore"):
            values = matrix.data.astype(np.float32, copy=False)
        if not np.isnan(self.missing):
            values = np.where(values == self.missing, np.float32(np.nan), values)
        self.values = plain_view(values)
        self._columns: weakref.ReferenceType[SparseColumns] | None = None
        self._key_range: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "SparseData":
        return SparseData(self._matrix()[rows], float(self.missing))

    def widened(self, n_features: int) -> "SparseData":
        """The same entries in a table of more features."""
        return SparseData(CSR((self.n_rows, n_features), self.row_ptr, self.indices, self.values))

    def key_range(self, ctx: Context) -> np.ndarray:
        """Smallest and largest sort key of every feature, (2, n_features) uint32; crossed where it has none."""
        self.scan(ctx)
        assert self._key_range is not None
        return self._key_range

    def by_feature(self) -> "SparseColumns":
        """The values that are not missing, column after column: made anew unless somebody still holds them."""
        columns = None if self._columns is None else self._columns()
        if columns is None:
            ptr = np.append(0, np.cumsum(self.scan(Context(n_threads=self.n_threads))))
            rows, values = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
            self.gather(np.arange(self.n_features), ptr[:-1], rows, values)
            columns = SparseColumns(self.n_rows, ptr, rows, values)
            self._columns = weakref.ref(columns)
        return columns

    def gather(self, features: np.ndarray, starts: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
        """Write the present values of some features one after the other: every thread counts and places its rows.

        Parameters
        ----------
        features
            Which.
        starts
            Where the values of each begin.
        rows
            OUT: the row of every value, int32, ascending in each feature; empty where nobody wants them.
        values
            OUT: the values, float32.
        """
        number = np.full(self.n_features, -1, np.int32)
        number[features] = np.arange(len(features))
        entries = (self.row_ptr, self.indices, self.values, number)
        n_parts = min(self.n_threads, 1 + len(self.values) // max(_SCAN_GRAIN, self.n_features))
        spans = even_spans(self.row_ptr, n_parts)
        counts = np.zeros((len(spans), len(features)), np.int64)
        # Nobody begins behind the last part.
        tasks = [(*entries, part, *span) for part, span in zip(counts[1:], spans[:-1], strict=True)]
        run_tasks(self.n_threads, binning.count_entries, tasks)
        places = starts + np.cumsum(counts, axis=0)
        moves = [(*entries, part, rows, values, *span) for part, span in zip(places, spans, strict=True)]
        run_tasks(self.n_threads, binning.sort_entries, moves)

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        is_whole = (first, stop) == (0, self.n_features)
        return super().tiles(first, stop, rows) if is_whole else self.by_feature().tiles(first, stop, rows)

    def _matrix(self) -> Any:
        shape = (self.n_rows, self.n_features)
        return scipy.sparse.csr_matrix((self.values, self.indices, self.row_ptr), shape, copy=False)

    def _count_values(self, ctx: Context) -> tuple[np.ndarray, np.ndarray]:
        n_parts = min(ctx.n_threads, 1 + len(self.values) // max(_SCAN_GRAIN, self.n_features))
        spans = split_range(len(self.values), n_parts, _SCAN_GRAIN)
        n_present = np.zeros((len(spans), self.n_features), np.int64)
        low, high = np.empty((2, len(spans), self.n_features), np.uint32)
        low[:], high[:] = counting.KEY_MISSING, 0
        entries = (self.indices, self.values.view(np.uint32))
        parts = zip(n_present, low, high, spans, strict=True)
        ctx.run_tasks(binning.scan_entries, [(*entries, *part, *span) for *part, span in parts])
        found = low.min(axis=0, initial=counting.KEY_MISSING), high.max(axis=0, initial=0)
        self._key_range = np.stack(found)
        is_infinite = (found[0] == _INFINITE_KEYS[0]) | (found[1] == _INFINITE_KEYS[1])
        return n_present.sum(axis=0), is_infinite.astype(np.int64)

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        binning.densify_rows(self.row_ptr, self.indices, self.values, first_row, out, 0, len(out))


class SparseColumns:
    """A sparse table's values that are not missing, column after column, rows ascending in each."""

    def __init__(self, n_rows: int, ptr: np.ndarray, rows: np.ndarray, values: np.ndarray):
        self.n_rows = n_rows
        self.ptr, self.rows, self.values = ptr, rows, values

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        start, end = self.ptr[first], self.ptr[stop]
        arrays = (self.values[start:end], self.rows[start:end], self.ptr[first : stop + 1] - start)
        part = scipy.sparse.csc_matrix(arrays, (self.n_rows, stop - first), copy=False).tocsr()
        return SparseData(part).tiles(0, stop - first, rows)

    def feature_values(self, ctx: Context, first: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        start, end = self.ptr[first], self.ptr[stop]
        return self.ptr[first : stop + 1] - start, self.values[start:end], self.rows[start:end]


def even_spans(ptr: np.ndarray, n_parts: int) -> list[tuple[int, int]]:
    """Spans of the ranges ptr[i] .. ptr[i + 1], about the same number of entries in each of at most n_parts."""
    n = len(ptr) - 1
    wanted = int(ptr[0]) + (int(ptr[-1]) - int(ptr[0])) * np.arange(1, n_parts) // max(1, n_parts)
    edges = [0, *np.searchsorted(ptr, wanted).clip(0, n).tolist(), n]
    return [(start, stop) for start, stop in pairwise(edges) if start < stop] or [(0, n)]


_CONVERTERS: list[tuple[Callable[[Any], bool], Callable[[Any, float], RawData]]] = []


def register(matches: Callable[[Any], bool], convert: Callable[[Any, float], RawData]) -> None:
    """Adds a kind of input: convert(data, missing) is used where matches(data); later ones are asked first."""
    _CONVERTERS.insert(0, (matches, convert))


def adapt(data: Any, missing: float | None = None) -> RawData:
    """Whatever the user passed as data, as `RawData`.

    Parameters
    ----------
    data
        NumPy array, nested list, data frame or series, Arrow table, SciPy sparse matrix, or `RawData`.
    missing
        The value that means "missing" besides NaN; None for NaN alone.
    """
    absent = np.nan if missing is None else float(missing)
    for matches, convert in _CONVERTERS:
        if matches(data):
            return convert(data, absent)
    settings.warn(f"Unknown data type: {type(data)}, trying to convert it to an array.")
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, Mapping | str | bytes):
        return _from_sequence(list(data), absent)
    hint = " To read data batch by batch, subclass arboost.DataIter." if isinstance(data, Iterator) else ""
    raise TypeError(
        f"Not supported type for data: {type(data)}. Pass a NumPy array, a nested list, a data frame or a SciPy sparse "
        f"matrix.{hint}"
    )


def _is_plain(array: np.ndarray) -> bool:
    return array.dtype == np.float32 and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned


def _from_numpy(data: Any, missing: float) -> RawData:
    if data.dtype.names is not None:
        return _from_records(data, missing)
    array = np.asarray(data)
    if array.ndim != 2:
        raise XGBoostError(shape_message(array.shape))
    if np.ma.isMaskedArray(data) and np.ma.getmask(data) is not np.ma.nomask:
        values = _numbers(np.asarray(data.filled(0)), "data") if array.dtype.kind == "O" else _numbers(array, "data")
        return MaskedData(np.ma.masked_array(values, np.ma.getmask(data), copy=False), missing)
    return DenseData(_numbers(array, "data"), missing)


def shape_message(shape: tuple[int, ...]) -> str:
    hint = " Use .reshape(-1, 1) for one feature, .reshape(1, -1) for one row." if len(shape) == 1 else ""
    return (
        f"Please reshape the input data into 2-dimensional matrix (rows, features); it has shape {tuple(shape)}.{hint}"
    )


def _from_records(data: np.ndarray, missing: float) -> RawData:
    if data.ndim != 1:
        raise XGBoostError(f"A structured array must have one dimension, the rows; it has shape {data.shape}.")
    kinds = {name: data.dtype[name] for name in data.dtype.names or ()}
    wrong = [f"{name}: {dtype}" for name, dtype in kinds.items() if dtype.kind not in _FEATURE_TYPES or dtype.shape]
    if wrong:
        raise XGBoostError(
            "Every field of a structured array must be one int, float or bool value. Convert or drop these fields: "
            + ", ".join(wrong)
        )
    mask = np.ma.getmask(data) if np.ma.isMaskedArray(data) else np.ma.nomask
    return RecordData(np.asarray(data), missing, None if mask is np.ma.nomask else np.asarray(mask))


_ADVICE = {
    "c": "pass the real and the imaginary part as two features",
    "M": "turn dates into numbers, for example days: (dates - dates.min()) / np.timedelta64(1, 'D')",
    "m": "turn durations into numbers, for example days: durations / np.timedelta64(1, 'D')",
    "U": "encode text as numbers",
    "S": "encode text as numbers",
}


def _numbers(array: np.ndarray, what: str) -> np.ndarray:
    """`array` if its dtype is real numbers; objects are converted; anything else is refused."""
    if array.dtype.kind == "O":
        try:
            with np.errstate(over="ignore"):
                return array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise XGBoostError(
                f"{what} has dtype object and cannot be converted to numbers: {error}. Pass int, float or bool values."
            ) from error
    if array.dtype.kind not in "biuf":
        advice = _ADVICE.get(array.dtype.kind, "pass int, float or bool values")
        raise XGBoostError(f"dtype {array.dtype} of {what} is not supported: {advice}.")
    return array


def _from_sequence(data: Any, missing: float) -> RawData:
    try:
        array = np.array(data)
    except ValueError as error:
        raise XGBoostError(
            f"The rows of the list must be numbers, the same number in each ({error}). Fill up short rows with None or "
            "NaN, which mean missing."
        ) from error
    return _from_numpy(array, missing)


def _from_array_like(data: Any, missing: float) -> RawData:
    """Anything that shows its memory by `__array_interface__`, `__array__` or, where those fail, DLPack."""
    failed: Exception | None = None
    is_array = hasattr(data, "__array__") or hasattr(data, "__array_interface__")
    readers: list[Callable[[Any], np.ndarray]] = [np.asarray] if is_array else []
    for read in [*readers, np.from_dlpack] if hasattr(data, "__dlpack__") else readers:
        try:
            array = read(data)
        except Exception as error:  # whatever a foreign type raises: a tensor on a GPU, one that needs gradients, ...
            failed = failed or error
        else:
            return _from_numpy(array, missing)
    raise XGBoostError(
        f"{type(data)} could not be read as a NumPy array: {failed} Pass an array of numbers in main memory (for a "
        "tensor: tensor.detach().cpu().float())."
    ) from failed


def _from_sparse(data: Any, missing: float) -> RawData:
    if len(data.shape) != 2:
        raise XGBoostError(shape_message(data.shape))
    if data.dtype.kind not in "biuf":
        advice = _ADVICE.get(data.dtype.kind, "pass int, float or bool values")
        raise XGBoostError(f"dtype {data.dtype} of the sparse matrix is not supported: {advice}.")
    return SparseData(read_sparse(data), missing)


def _is_frame(data: Any) -> bool:
    from arboost.matrix import frames  # which builds on this module

    return frames.is_frame(data)


def _from_frame(data: Any, missing: float) -> RawData:
    from arboost.matrix import frames

    return frames.read_frame(data, missing)


def _is_on_device(data: Any) -> bool:
    from arboost.matrix import on_device  # which builds on this module

    return on_device.is_on_device(data)


def _from_device(data: Any, missing: float) -> RawData:
    from arboost.matrix import on_device

    return on_device.read_device_array(data, missing)


register(
    lambda data: any(hasattr(data, name) for name in ("__array__", "__array_interface__", "__dlpack__")),
    _from_array_like,
)
register(lambda data: isinstance(data, (list, tuple)), _from_sequence)
register(lambda data: isinstance(data, np.ndarray), _from_numpy)
register(_is_frame, _from_frame)
register(_is_on_device, _from_device)
register(scipy.sparse.issparse, _from_sparse)
register(lambda data: isinstance(data, RawData), lambda data, missing: data)
