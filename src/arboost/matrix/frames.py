"""Data frames: pandas, polars, pyarrow, and whatever speaks Arrow's PyCapsule or the interchange protocol.

A frame is kept by reference. Each column becomes an object that converts a few rows at a time to float32: nulls and
masks become NaN there, codes of categories are translated there, so that no column is ever converted as a whole. The
optional libraries are imported only here, and only where the user's data comes from them.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from arboost.kernels.ops import binning
from arboost.matrix.adapt import CHUNK_VALUES, DenseData, RawData
from arboost.matrix.categories import Categories, as_category_values
from arboost.matrix.sparse import check_indices
from arboost.runtime import settings
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.runtime.pool import run_ranges

_SCAN_VALUES = 1 << 16
_LISTED_BYTES = 80  # an entry of a list, and a name
_LIBRARIES = ("pandas", "polars", "pyarrow", "narwhals")
_PROTOCOLS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
_NEEDS_ARROW = "{} is read through pyarrow, which is not installed: pip install pyarrow, or pass a pandas DataFrame."


# ---- columns ----


class Column(Protocol):
    """One feature of a frame."""

    def fill(self, out: np.ndarray, first_row: int) -> None:
        """Writes float32 values of len(out) rows from first_row on; NaN = missing."""

    def take(self, rows: np.ndarray) -> "Column":
        """The given rows as a column of their own."""


class _Plain:
    """A NumPy array of numbers."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def fill(self, out: np.ndarray, first_row: int) -> None:
        out[:] = self.values[first_row : first_row + len(out)]

    def take(self, rows: np.ndarray) -> "Column":
        return _Plain(self.values[rows])


class _Masked:
    """Numbers, and bytes that are true where the value is missing."""

    def __init__(self, values: np.ndarray, mask: np.ndarray):
        self.values, self.mask = values, mask

    def fill(self, out: np.ndarray, first_row: int) -> None:
        stop = first_row + len(out)
        out[:] = self.values[first_row:stop]
        out[self.mask[first_row:stop]] = np.nan

    def take(self, rows: np.ndarray) -> "Column":
        return _Masked(self.values[rows], self.mask[rows])


class _Bits:
    """An Arrow array: values (or bits of booleans), and a bit per value that is 0 where it is missing."""

    def __init__(self, values: np.ndarray, is_bits: bool, valid: np.ndarray | None, offset: int):
        self.values, self.is_bits, self.valid, self.offset = values, is_bits, valid, offset

    def fill(self, out: np.ndarray, first_row: int) -> None:
        first, stop = self.offset + first_row, self.offset + first_row + len(out)
        out[:] = _unpack(self.values, first, stop) if self.is_bits else self.values[first:stop]
        if self.valid is not None:
            out[_unpack(self.valid, first, stop) == 0] = np.nan

    def take(self, rows: np.ndarray) -> "Column":
        places = rows + self.offset
        values = _bits_at(self.values, places) if self.is_bits else self.values[places]
        if self.valid is None:
            return _Plain(values)
        return _Masked(values, _bits_at(self.valid, places) == 0)


class _Chunked:
    """Several columns one below the other."""

    def __init__(self, parts: list[Column], sizes: list[int]):
        self.parts = parts
        self.row_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def fill(self, out: np.ndarray, first_row: int) -> None:
        stop_row, part = first_row + len(out), int(np.searchsorted(self.row_ptr, first_row, side="right")) - 1
        row = first_row
        while row < stop_row:
            stop = min(stop_row, int(self.row_ptr[part + 1]))
            if row < stop:
                self.parts[part].fill(out[row - first_row : stop - first_row], row - int(self.row_ptr[part]))
            row, part = max(row, stop), part + 1

    def take(self, rows: np.ndarray) -> "Column":
        values = np.empty(len(rows), np.float32)
        part_of_row = np.searchsorted(self.row_ptr, rows, side="right") - 1
        for p, part in enumerate(self.parts):
            places = np.flatnonzero(part_of_row == p)
            found = np.empty(len(places), np.float32)
            part.take(rows[places] - self.row_ptr[p]).fill(found, 0)
            values[places] = found
        return _Plain(values)


class _Sparse:
    """A pandas sparse column: a value for most rows, others at some."""

    def __init__(self, fill_value: float, indices: np.ndarray, values: np.ndarray):
        self.fill_value, self.indices, self.values = fill_value, indices, values

    def fill(self, out: np.ndarray, first_row: int) -> None:
        out[:] = self.fill_value
        a, b = np.searchsorted(self.indices, (first_row, first_row + len(out)))
        out[self.indices[a:b] - first_row] = self.values[a:b]

    def take(self, rows: np.ndarray) -> "Column":
        values = np.full(len(rows), self.fill_value, np.result_type(self.values, np.float32))
        places = np.minimum(np.searchsorted(self.indices, rows), max(0, len(self.indices) - 1))
        if len(self.indices):
            found = self.indices[places] == rows
            values[found] = self.values[places[found]]
        return _Plain(values)


class _Codes:
    """Codes of categories, below 0 or NaN where missing; `table` translates them to others."""

    def __init__(self, codes: Column, table: np.ndarray | None = None):
        self.codes, self.table = codes, table

    def fill(self, out: np.ndarray, first_row: int) -> None:
        self.codes.fill(out, first_row)
        out[out < 0] = np.nan
        if self.table is not None:
            present = out == out
            out[present] = self.table[out[present].astype(np.int64)]

    def take(self, rows: np.ndarray) -> "Column":
        return _Codes(self.codes.take(rows), self.table)


def _unpack(bits: np.ndarray, first: int, stop: int) -> np.ndarray:
    """Bits first..stop of a little-endian bitmap as bytes 0 or 1."""
    begin = first >> 3
    return np.unpackbits(bits[begin : (stop + 7) >> 3], bitorder="little")[first - 8 * begin : stop - 8 * begin]


def _bits_at(bits: np.ndarray, places: np.ndarray) -> np.ndarray:
    return (bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1


# ---- the table ----


class FrameData(RawData):
    """The columns of a frame, each of its own type."""

    def __init__(self, columns: list[Column], n_rows: int, missing: float = np.nan):
        super().__init__(n_rows, len(columns), missing)
        self.columns = columns
        self.is_frame = True

    def take(self, rows: np.ndarray) -> "FrameData":
        part = FrameData([column.take(rows) for column in self.columns], len(rows), float(self.missing))
        return self._describe(part, range(self.n_features))

    def select(self, order: Sequence[int]) -> "FrameData":
        """The same columns in another order."""
        chosen = FrameData([self.columns[f] for f in order], self.n_rows, float(self.missing))
        if self._n_present is not None:
            chosen._n_present = self._n_present[np.asarray(order)]
        return self._describe(chosen, order)

    def with_codes(self, tables: list[np.ndarray | None], categories: Categories) -> "FrameData":
        """The same data with every code c of feature f replaced by tables[f][c]; None leaves a feature as it is."""
        columns = [
            column if table is None else _translated(column, table)
            for column, table in zip(self.columns, tables, strict=True)
        ]
        twin = self._describe(FrameData(columns, self.n_rows, float(self.missing)), range(self.n_features))
        twin.categories = categories
        if not any(table is not None and np.isnan(table).any() for table in tables):
            twin._n_present = self._n_present
        return twin

    def _describe(self, other: "FrameData", order: Sequence[int]) -> "FrameData":
        """Gives `other` the names, types and categories of the columns in `order`."""
        if self.feature_names is not None:
            other.feature_names = [self.feature_names[f] for f in order]
        if self.feature_types is not None:
            other.feature_types = [self.feature_types[f] for f in order]
        other.categories = None if self.categories is None else self.categories.select(list(order))
        other.n_threads = self.n_threads
        return other

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for f in range(out.shape[1]):
                self.columns[first_feature + f].fill(out[:, f], first_row)

    def _mark_missing(self, part: np.ndarray, first_feature: int) -> None:
        for f in range(part.shape[1]):
            if not isinstance(self.columns[first_feature + f], _Codes):  # a code is no value of the user's
                super()._mark_missing(part[:, f : f + 1], first_feature + f)

    def _count_values(self, ctx: Context) -> tuple[np.ndarray, np.ndarray]:
        """Present and infinite values of every feature, a column at a time; whole numbers are not even read."""
        counts = np.zeros((2, self.n_features), np.int64)

        def count(start: int, stop: int) -> None:
            buffer = np.empty((min(_SCAN_VALUES, max(1, self.n_rows)), 1), np.float32)
            for f in range(start, stop):
                if _is_whole(self.columns[f]) and np.isnan(self.missing):
                    counts[0, f] = self.n_rows
                    continue
                found = np.zeros((2, 1), np.int64)
                for first in range(0, self.n_rows, _SCAN_VALUES):
                    part = buffer[: min(_SCAN_VALUES, self.n_rows - first)]
                    self._fill(part, first, f)
                    if not np.isnan(self.missing):
                        self._mark_missing(part, f)
                    binning.scan_values(part.reshape(-1).view(np.uint32), 1, *found, 0, len(part))
                counts[:, f] = found[:, 0]

        run_ranges(ctx.n_threads, self.n_features, 1, count)
        return counts[0], counts[1]


def _is_whole(column: Column) -> bool:
    return isinstance(column, _Plain) and column.values.dtype.kind in "biu"


def _translated(column: Column, table: np.ndarray) -> Column:
    if not isinstance(column, _Codes):
        return column
    if column.table is not None:
        past = column.table  # NaN stays NaN
        table = np.where(np.isnan(past), np.float32(np.nan), table[np.nan_to_num(past).astype(np.int64)])
    return _Codes(column.codes, table)


# ---- what users pass ----


def is_frame(data: Any) -> bool:
    """Whether `read_frame` knows the data."""
    if isinstance(data, np.ndarray | list | tuple):
        return False
    return type(data).__module__.partition(".")[0] in _LIBRARIES or any(hasattr(data, name) for name in _PROTOCOLS)


def read_frame(data: Any, missing: float = np.nan) -> RawData:
    """A frame, series or Arrow table as `RawData`, with its names, types and categories."""
    names, columns, n_rows = _open(data)
    invalid = [f"{name}: {column.why}" for name, column in zip(names, columns, strict=True) if column.why]
    if invalid:
        raise XGBoostError(
            "DataFrame.dtypes for data must be int, float, bool or category. When categorical type is supplied, the "
            "DMatrix parameter `enable_categorical` must be set to `True`. Invalid columns: " + "; ".join(invalid)
        )
    if any(column.is_sparse for column in columns):
        settings.warn(
            "Sparse arrays from pandas are converted into dense. To train on the stored entries alone, pass a SciPy "
            "matrix."
        )
    raw: RawData
    dtypes = {column.dtype for column in columns}
    if n_rows * len(columns) <= CHUNK_VALUES and len(dtypes) == 1 and None not in dtypes and hasattr(data, "to_numpy"):
        raw = DenseData(data.to_numpy().reshape(n_rows, len(columns)), missing)  # one step, for few rows
        raw.is_frame = True
    else:
        raw = FrameData([column.values() for column in columns], n_rows, missing)
    if names:
        raw.feature_names, raw.feature_types = names, [column.type for column in columns]
    if any(column.categories is not None for column in columns):
        raw.categories = Categories([column.categories for column in columns], names)
    return raw


def frame_to_array(data: Any, name: str) -> np.ndarray:
    """A frame or series of labels, weights and the like as a NumPy array of numbers; null is NaN.

    Categories stand for their own values, as a label of them would.
    """
    table = _of_pandas(data)
    if table is not None and object in (table.dtypes.tolist() if table.ndim == 2 else [table.dtype]):
        return table.to_numpy()  # they may be numbers: the caller tries
    _, columns, n_rows = _open(data)
    result = []
    for column in columns:
        values = column.labels(n_rows)
        if values is None:
            raise XGBoostError(
                f"dtype of {name} is not supported: pass numbers ({column.why or 'categories of text'})."
            )
        result.append(values)
    if len(result) == 1 and len(getattr(data, "shape", (0,))) != 2:
        return result[0]
    return np.column_stack(result) if result else np.zeros((n_rows, 0), np.float32)


def get_categories(
    categories: Categories | None, names: Sequence[str] | None, n_features: int, export_to_arrow: bool
) -> Categories:
    """The categories of a matrix or model as users see them."""
    check_room(_LISTED_BYTES * n_features, f"A list of {n_features} features", "Is the model's num_feature right?")
    values = [None] * n_features if categories is None else categories.values
    names = [str(f) for f in range(n_features)] if names is None else names
    shown = Categories(values, names)
    if export_to_arrow:
        pa = _import_arrow("export_to_arrow=True")
        arrays = [None if v is None else pa.array(v, pa.string() if v.dtype.kind == "O" else None) for v in values]
        shown.set_arrow(list(zip(names, arrays, strict=True)))
    return shown


class _Opened:
    """A column that was found usable or not; nothing is converted before `values` is called."""

    def __init__(
        self,
        make: Callable[[], Column] | None,
        kind: str,
        why: str = "",
        categories: np.ndarray | None = None,
        dtype: Any = None,
        is_sparse: bool = False,
    ):
        self._make = make
        self.type = kind
        self.why = why
        self.categories = categories
        self.dtype = dtype  # of a column that NumPy holds
        self.is_sparse = is_sparse

    def values(self) -> Column:
        assert self._make is not None
        return self._make()

    def labels(self, n_rows: int) -> np.ndarray | None:
        """All values as float32 (float64 for whole numbers, exact where they are group ids), None if not numbers."""
        if self._make is None:
            return None
        column = self._make()
        if isinstance(column, _Plain) and self.categories is None:
            return column.values
        out = np.empty(n_rows, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            column.fill(out, 0)
        if self.categories is None:
            return out
        try:
            table = np.append(np.asarray(self.categories, np.float64), np.nan)
        except ValueError:
            return None
        return table[np.where(np.isnan(out), len(table) - 1, out).astype(np.int64)]


_Table = tuple[list[str], list[_Opened], int]


def _open(data: Any) -> _Table:
    """Names, columns and number of rows of any frame."""
    library = type(data).__module__.partition(".")[0]
    if library == "narwhals":
        return _open((data.collect() if hasattr(data, "collect") else data).to_native())
    table = _of_pandas(data)
    if table is not None:
        return _open_pandas(table)
    if library == "polars" and type(data).__name__ == "LazyFrame":
        return _open(data.collect())
    return _open_arrow(_to_arrow(data, library))


def _of_pandas(data: Any) -> Any:
    """A frame or series of pandas, also of its indices and of the arrays in its columns; None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    is_index = isinstance(data, pandas.Index) and data.nlevels == 1
    if is_index or isinstance(data, pandas.api.extensions.ExtensionArray):
        return pandas.Series(data)
    return data if isinstance(data, (pandas.DataFrame, pandas.Series)) else None


# ---- pandas ----


def _open_pandas(data: Any) -> _Table:
    if data.ndim == 1:
        data = data.to_frame(name="0" if data.name is None else data.name)
    names = _column_names(data.columns)
    series = [column for _, column in data.items()]
    return names, [_open_series(name, column) for name, column in zip(names, series, strict=True)], len(data)


def _column_names(columns: Any) -> list[str]:
    if getattr(columns, "nlevels", 1) > 1:
        return [" ".join(str(part) for part in name) for name in columns]
    return [str(name) for name in columns]


def _open_series(name: str, series: Any) -> _Opened:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        kind = _feature_type(dtype.kind)
        if kind is None:
            return _Opened(None, "", f"{dtype}{_advice(dtype.kind)}")
        return _Opened(lambda: _Plain(series.to_numpy()), kind, dtype=dtype)
    array = series.array
    if hasattr(dtype, "categories") and hasattr(array, "codes"):
        values = as_category_values(_category_items(dtype.categories), name)
        _check_codes(name, array.codes.max(initial=-1), len(values))
        return _Opened(lambda: _Codes(_Plain(array.codes)), "c", categories=values)
    if hasattr(dtype, "pyarrow_dtype"):
        return _open_arrow_column(name, _import_arrow("An Arrow-backed column").chunked_array(array.__arrow_array__()))
    if hasattr(dtype, "subtype") and hasattr(array, "sp_values"):
        kind = _feature_type(dtype.subtype.kind)
        if kind is not None:
            return _Opened(lambda: _open_sparse(array), kind, is_sparse=True)
    kind = _feature_type(getattr(dtype, "kind", "O"))
    if kind is None:
        return _Opened(None, "", f"{dtype}{_advice(getattr(dtype, 'kind', 'O'))}")
    numbers, mask = getattr(array, "_data", None), getattr(array, "_mask", None)
    if isinstance(numbers, np.ndarray) and isinstance(mask, np.ndarray):
        return _Opened(lambda: _Masked(numbers, mask), kind)
    return _Opened(lambda: _Plain(series.to_numpy(dtype=np.float32, na_value=np.nan)), kind)


def _check_codes(name: str, largest: int, n_categories: int) -> None:
    """Refuses codes that name no category: libraries make such columns when told not to look."""
    if largest >= max(1, n_categories):
        raise XGBoostError(f"Invalid categorical value in column {name}: code {largest} of {n_categories} categories.")


def _category_items(index: Any) -> Any:
    """Categories as something NumPy reads; dates one by one, because their text must not depend on their unit."""
    return index.to_numpy() if isinstance(index.dtype, np.dtype) and index.dtype.kind in "biuf" else list(index)


def _open_sparse(array: Any) -> Column:
    places = array.sp_index.to_int_index().indices
    check_indices(places, len(array), "row indices", ascending=True)
    if len(places) != len(array.sp_values):
        raise XGBoostError(f"A sparse column has {len(places)} row indices for {len(array.sp_values)} values.")
    return _Sparse(float(array.fill_value), places, array.sp_values)


def _feature_type(kind: str) -> str | None:
    """XGBoost's type of numbers: int, float or i (bool); None if they are something else."""
    return {"i": "int", "u": "int", "f": "float", "b": "i"}.get(kind)


def _advice(kind: str) -> str:
    """What to do with a column of another kind."""
    if kind in "Mm":
        return " (turn dates and times into numbers, such as a day count or the month)"
    if kind == "c":
        return " (pass the real and the imaginary part as two columns)"
    return " (convert it to numbers, or to categories: astype('category') and enable_categorical=True)"


# ---- Arrow ----


def _import_arrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(_NEEDS_ARROW.format(what)) from error
    return pyarrow


def _to_arrow(data: Any, library: str) -> Any:
    """A pyarrow Table or RecordBatch that shares the memory of the data."""
    pa = _import_arrow(f"{type(data).__module__}.{type(data).__qualname__}")
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return pa.table({"0": data})
    if library == "polars" and type(data).__name__ == "Series":
        return pa.table(data.to_frame(data.name or "0"))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return pa.table(data)
        except (TypeError, ValueError, pa.ArrowInvalid):
            return pa.table({"0": pa.chunked_array(data)})
    if hasattr(data, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(data)
    raise TypeError(f"Not supported type for data: {type(data)}. Pass a data frame, an Arrow table or a NumPy array.")


def _open_arrow(table: Any) -> _Table:
    names = [str(name) for name in table.column_names]
    columns = [_open_arrow_column(name, table.column(i)) for i, name in enumerate(names)]
    return names, columns, table.num_rows


def _open_arrow_column(name: str, column: Any) -> _Opened:
    pa = _import_arrow("An Arrow column")
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return _open_dictionary(name, column)
    if types.is_null(kind) or types.is_decimal(kind):
        return _Opened(lambda: _chunked(column.cast(pa.float64())), "float")
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        feature_type = "i" if types.is_boolean(kind) else "int" if types.is_integer(kind) else "float"
        return _Opened(lambda: _chunked(column), feature_type)
    return _Opened(None, "", f"{kind}{_advice('M' if types.is_temporal(kind) else 'O')}")


def _open_dictionary(name: str, column: Any) -> _Opened:
    if hasattr(column, "unify_dictionaries"):
        column = column.unify_dictionaries()
    chunks = _pieces(column)
    items = chunks[0].dictionary.to_pylist() if chunks else []
    largest = [np.max(chunk.indices.fill_null(0).to_numpy(), initial=0) for chunk in chunks]
    _check_codes(name, max(largest, default=-1), len(items))
    kept = [i for i, item in enumerate(items) if item is not None]
    values = as_category_values([items[i] for i in kept], name)
    table = None
    if len(kept) < len(items):  # a null among the categories is a missing value
        table = np.full(len(items), np.nan, np.float32)
        table[kept] = np.arange(len(kept))
    make = lambda: _Codes(_joined([chunk.indices for chunk in chunks]), table)  # noqa: E731
    return _Opened(make, "c", categories=values)


def _pieces(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _chunked(column: Any) -> Column:
    return _joined(_pieces(column))


def _joined(arrays: list[Any]) -> Column:
    arrays = [array for array in arrays if len(array)]
    parts = [_arrow_values(array) for array in arrays]
    return parts[0] if len(parts) == 1 else _Chunked(parts, [len(array) for array in arrays])


def _arrow_values(array: Any) -> Column:
    """The buffers of an Arrow array of numbers, by reference."""
    is_bits = str(array.type) == "bool"
    valid, data = array.buffers()
    dtype = np.dtype(np.uint8) if is_bits else np.dtype(array.type.to_pandas_dtype())
    values = np.frombuffer(data, dtype)
    if array.null_count == 0:
        valid = None
    if valid is None and not is_bits:
        return _Plain(values[array.offset : array.offset + len(array)])
    return _Bits(values, is_bits, None if valid is None else np.frombuffer(valid, np.uint8), array.offset)
