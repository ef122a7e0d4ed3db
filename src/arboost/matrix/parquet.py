"""Parquet: a file, a folder of files or a pyarrow dataset as a table that is read, and written, some rows at a time.

Columns have the types of the file, as pandas would read them: dictionaries are categories, whole numbers with nulls are
floats. Columns that pandas wrote as categories of numbers are categories too, though Parquet itself forgets it. Files
of a folder are read in the order of their names, so what is found (the order of categories, too) never depends on how
many rows are decoded at a time.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from arboost.matrix.adapt import adapt
from arboost.matrix.iterator import Batch, Read
from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import XGBoostError

VALUES_AT_A_TIME = 1 << 19  # decoded together
SUFFIXES = (".parquet", ".pq")
_WINDOW_BYTES = 1 << 16  # a row group may be the whole file: a column of it is read through a small window
_GROUP_ROWS = 1 << 17  # of a row group that is written
_NAMES_SHOWN = 12


def is_dataset(data: Any) -> bool:
    """Whether the data is a `pyarrow.dataset.Dataset`."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def open_table(data: Any) -> "ParquetTable":
    """A Parquet file, a folder of them (by its path), or a pyarrow dataset."""
    pyarrow = _import_pyarrow()
    if is_dataset(data):
        return _DatasetTable(pyarrow, data)
    path = os.path.expanduser(os.fsdecode(data))
    return _FileTable(pyarrow, path, _files_in(path) if os.path.isdir(path) else [path])


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise XGBoostError(
            "Parquet is read and written with pyarrow: pip install pyarrow, or 'arboost[extmem]'."
        ) from error
    return pyarrow


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first of many."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


class ParquetTable(ABC):
    """A table with named columns: what is known of it before its rows are read, and passes over them."""

    def __init__(self, pyarrow: Any, name: str, schema: Any):
        self._pyarrow = pyarrow
        self.name = name
        self.schema = schema
        self.columns = [str(column) for column in schema.names]
        twice = sorted({column for column in self.columns if self.columns.count(column) > 1})
        if twice:
            raise XGBoostError(f"{name} has two columns named {twice[0]!r}.")
        if not self.columns:
            raise XGBoostError(f"{name} has no columns.")
        told = schema.pandas_metadata or {}
        self.index_columns = {column for column in told.get("index_columns", ()) if isinstance(column, str)}
        kinds = {column.get("field_name"): column for column in told.get("columns", ())}
        self._coded = {column for column, kind in kinds.items() if kind.get("pandas_type") == "categorical"}
        # "Int64" and the like hold nulls; "int64" does not, so a column that has some is read as floats.
        dtypes = {column: str(kind.get("numpy_type")) for column, kind in kinds.items()}
        self._nullable = {column for column, dtype in dtypes.items() if dtype.startswith(("Int", "UInt"))}

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @abstractmethod
    def batches(self, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Record batches of these columns, at most n_rows in each, as they are in the file."""

    def rows_at_a_time(self, columns: Sequence[str]) -> int:
        """How many rows are decoded together."""
        return max(1, VALUES_AT_A_TIME // max(1, len(columns)))

    def find(self, wanted: Sequence[str], what: str) -> list[str]:
        """The wanted columns; refuses those that are not there."""
        missing = [name for name in wanted if name not in self.columns]
        if missing:
            some = "a column" if len(missing) == 1 else f"{len(missing)} columns"
            raise XGBoostError(
                f"{self.name} lacks {some} {what}: {listed(missing)}. Its columns are: {listed(self.columns)}."
            )
        return list(wanted)

    def typed(self, batch: Any) -> Any:
        """The batch with the types that pandas would give its columns, and categories where pandas had them."""
        pyarrow, arrays = self._pyarrow, list(batch.columns)
        types = pyarrow.types
        for i, (name, array) in enumerate(zip(batch.schema.names, arrays, strict=True)):
            if name in self._coded and not types.is_dictionary(array.type):
                arrays[i] = array.dictionary_encode()
            elif types.is_integer(array.type) and array.null_count and name not in self._nullable:
                arrays[i] = array.cast(pyarrow.float64(), safe=False)
        return pyarrow.record_batch(arrays, names=batch.schema.names)

    def empty_batch(self, columns: Sequence[str]) -> Any:
        """No rows of these columns."""
        fields = [self.schema.field(name) for name in columns]
        return self._pyarrow.record_batch(
            [self._pyarrow.array([], field.type) for field in fields], names=list(columns)
        )

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Errors of pyarrow in our words."""
        try:
            yield
        except (OSError, self._pyarrow.ArrowException) as error:
            raise XGBoostError(f"{path} is damaged: {error}") from error


class _File(NamedTuple):
    """One of the files of a table, and the values that the names of its folders give to further columns."""

    path: str
    n_rows: int
    schema: Any
    partition: dict[str, Any]
    stamp: tuple[int, int]  # what was changed since has another one


class _FileTable(ParquetTable):
    """Files with the same columns, read one after the other."""

    def __init__(self, pyarrow: Any, path: str, paths: list[str]):
        self._pyarrow = pyarrow
        self._partitions = _partitions_of(path, paths)
        self._files = [self._look_at(each, k) for k, each in enumerate(paths)]
        self._n_rows = sum(file.n_rows for file in self._files)
        schema = self._files[0].schema
        for file in self._files[1:]:
            schema = _joint_schema(pyarrow, path, schema, file, self._files[0])
        for name, values in self._partitions.columns.items():
            schema = schema.append(pyarrow.field(name, pyarrow.dictionary(pyarrow.int32(), values.type)))
        super().__init__(pyarrow, path, schema)

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def batches(self, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        stored = [name for name in columns if name not in self._partitions.columns]
        for each in self._files:
            with self._opened(each.path) as file, self._reading(each.path):
                if _stamp_of(each.path) != each.stamp:
                    raise XGBoostError(f"{each.path} has changed since it was looked at first: make the matrix anew.")
                for batch in file.iter_batches(batch_size=n_rows, columns=stored):
                    yield self._completed(batch, each, columns)

    def _completed(self, batch: Any, file: _File, columns: Sequence[str]) -> Any:
        """The batch with what its file lacks: columns from the names of folders, and types of columns of nulls."""
        pyarrow, arrays = self._pyarrow, []
        for name in columns:
            kind = self.schema.field(name).type
            if name in file.partition:
                values = self._partitions.columns[name]
                code = None if file.partition[name] is None else values.index(file.partition[name]).as_py()
                codes = pyarrow.array([code] * batch.num_rows, pyarrow.int32())
                arrays.append(pyarrow.DictionaryArray.from_arrays(codes, values))
            elif pyarrow.types.is_null(batch.column(name).type):
                arrays.append(pyarrow.nulls(batch.num_rows, kind))
            else:
                arrays.append(batch.column(name))
        return pyarrow.record_batch(arrays, names=list(columns))

    def _look_at(self, path: str, k: int) -> _File:
        with self._opened(path) as file:
            found = file.metadata.num_rows, file.schema_arrow
            return _File(path, *found, self._partitions.values[k], _stamp_of(path))

    @contextmanager
    def _opened(self, path: str) -> Iterator[Any]:
        pyarrow = self._pyarrow
        try:
            file = pyarrow.parquet.ParquetFile(
                path, pre_buffer=False, buffer_size=_WINDOW_BYTES, page_checksum_verification=True
            )
        except (OSError, pyarrow.ArrowException) as error:
            raise XGBoostError(f"{path} is not a readable Parquet file: {error}") from error
        with file:
            yield file


def _stamp_of(path: str) -> tuple[int, int]:
    seen = os.stat(path)
    return seen.st_size, seen.st_mtime_ns


class _DatasetTable(ParquetTable):
    """A dataset of pyarrow's, of any format and with any filter: it decodes a row group at a time."""

    def __init__(self, pyarrow: Any, dataset: Any):
        super().__init__(pyarrow, "The dataset", dataset.schema)
        self._dataset = dataset
        self._counted: int | None = None

    @property
    def n_rows(self) -> int:
        if self._counted is None:
            with self._reading(self.name):
                self._counted = int(self._dataset.count_rows())
        return self._counted

    def batches(self, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        with self._reading(self.name):
            parts = self._dataset.to_batches(
                columns=list(columns), batch_size=n_rows, batch_readahead=1, fragment_readahead=1
            )
            for batch in parts:
                if batch.num_rows:
                    yield batch


def _files_in(folder: str) -> list[str]:
    """The Parquet files in a folder and below, by name."""
    try:
        found = sorted(_paths_in(folder, frozenset()))
    except OSError as error:
        raise XGBoostError(f"{error.filename} cannot be read: {error.strerror}.") from error
    if not found:
        raise XGBoostError(f"{folder} is a directory without Parquet files: none ends in {' or '.join(SUFFIXES)}.")
    return found


def _paths_in(folder: str, above: frozenset[str]) -> Iterator[str]:
    """The same, in any order; links to folders are followed, but for those to one of the folders `above`."""
    here = os.path.realpath(folder)
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name[:1] not in "._":
                yield from _paths_in(entry.path, above | {here})
            elif not entry.is_dir() and _is_parquet(entry.name):
                yield entry.path


def _is_parquet(name: str) -> bool:
    return name[:1] not in "._" and name.lower().endswith(SUFFIXES)


class _Partitions(NamedTuple):
    """Columns that are written in the names of folders, as in "year=2026/part.parquet"."""

    columns: dict[str, Any]  # name -> all values, a pyarrow array
    values: list[dict[str, Any]]  # of every file


def _partitions_of(folder: str, paths: list[str]) -> _Partitions:
    if not any("=" in os.path.dirname(os.path.relpath(path, folder)) for path in paths):
        return _Partitions({}, [{} for _ in paths])
    import pyarrow
    import pyarrow.dataset

    hive = pyarrow.dataset.HivePartitioning.discover(infer_dictionary=True)
    try:
        whole = pyarrow.dataset.dataset(paths, format="parquet", partitioning=hive, partition_base_dir=folder)
    except (OSError, pyarrow.ArrowException) as error:
        raise XGBoostError(f"{folder} is not a readable folder of Parquet files: {error}") from error
    found = dict(zip(whole.partitioning.schema.names, whole.partitioning.dictionaries, strict=True))
    keys = [pyarrow.dataset.get_partition_keys(file.partition_expression) for file in whole.get_fragments()]
    return _Partitions(found, [{name: key.get(name) for name in found} for key in keys])


def _joint_schema(pyarrow: Any, folder: str, schema: Any, file: _File, first: _File) -> Any:
    """The schema of the files so far and one more; refuses other columns, and columns of another kind."""
    lacking = [name for name in schema.names if name not in file.schema.names]
    further = [name for name in file.schema.names if name not in schema.names]
    if lacking or further:
        lacks = f"lacks {listed(lacking)}" if lacking else ""
        has = f"has {listed(further)} besides" if further else ""
        raise XGBoostError(
            f"The files in {folder} have different columns: {file.path} {' and '.join(filter(None, (lacks, has)))}, "
            f"compared with {first.path}."
        )
    for i, name in enumerate(schema.names):
        so_far, now = schema.field(i).type, file.schema.field(name).type
        if pyarrow.types.is_null(so_far):
            schema = schema.set(i, schema.field(i).with_type(now))
        elif not pyarrow.types.is_null(now) and _kind(pyarrow, so_far) != _kind(pyarrow, now):
            raise XGBoostError(
                f"The files in {folder} have different types of the column {name!r}: {now} in {file.path}, "
                f"{so_far} in {first.path}."
            )
    return schema


def _kind(pyarrow: Any, kind: Any) -> str:
    """Types of one kind may stand below each other: numbers of any width, dictionaries of any."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return f"dictionary of {_kind(pyarrow, kind.value_type)}"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind):
        return "number"
    return "string" if types.is_string(kind) or types.is_large_string(kind) else str(kind)


# ---- as data ----


def read_columns(
    table: ParquetTable, features: Sequence[str], fields: dict[str, list[str]], missing: float | None
) -> Read:
    """Passes over some columns of a table: features, and what belongs to the rows.

    Parameters
    ----------
    table
        Where they are read.
    features
        Names of the features, in the order they shall have.
    fields
        Columns of the label, weight, ...: field -> names.
    missing
        Value that means "missing" besides nulls and NaN.
    """
    columns = [*features, *(name for names in fields.values() for name in names if name not in features)]
    columns = list(dict.fromkeys(columns))

    def read() -> Iterator[Batch]:
        for part in table.batches(columns, table.rows_at_a_time(columns)):
            if part.num_rows:
                batch = _as_batch(table, part, features, fields, missing)
                del part
                yield batch
                batch.release()

    return read


def _as_batch(
    table: ParquetTable, part: Any, features: Sequence[str], fields: dict[str, list[str]], missing: float | None
) -> Batch:
    if "qid" in fields and part.column(fields["qid"][0]).null_count:
        raise XGBoostError(f"{table.name}: the column {fields['qid'][0]!r}, given as qid, has nulls.")
    given = {field: part.column(names[0]) if len(names) == 1 else part.select(names) for field, names in fields.items()}
    return Batch(adapt(table.typed(part.select(list(features))), missing), given)


def rows_for_model(table: ParquetTable, names: Sequence[str] | None, missing: float | None) -> Iterator[Batch]:
    """Batches with the columns that a model knows, in its order; all columns if it knows no names.

    A table without rows has one batch without rows.
    """
    if names is None:
        features = [name for name in table.columns if name not in table.index_columns]
    else:
        features = table.find(names, "that the model needs")
    yield from read_columns(table, features, {}, missing)()
    if not table.n_rows:
        yield Batch(adapt(table.empty_batch(features), missing), {})


# ---- writing ----


@contextmanager
def writing(path: str | os.PathLike) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A Parquet file that is written some rows at a time: write({name: values, ...}).

    It appears under its name when all has been written; after an error nothing is left of it.
    """
    try:
        with draft_of(path) as draft, closing(_Writer(_import_pyarrow(), draft)) as writer:
            yield writer.write
            writer.flush()
    except OSError as error:
        raise XGBoostError(f"Writing {os.fsdecode(path)} failed: {error}") from error


class _Writer:
    """A file in the making. Rows are put together to row groups, however few come at a time."""

    def __init__(self, pyarrow: Any, path: str):
        self._pyarrow, self._path = pyarrow, path
        self._file: Any = None
        self._waiting: list[Any] = []

    def write(self, columns: dict[str, Any]) -> None:
        self._waiting.append(self._pyarrow.table(columns))
        if sum(table.num_rows for table in self._waiting) >= _GROUP_ROWS:
            self.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            table, self._waiting = self._pyarrow.concat_tables(self._waiting), []
            if self._file is None:
                self._file = self._pyarrow.parquet.ParquetWriter(self._path, table.schema)
            self._file.write_table(table)
