"""Data for commands: CSV, Parquet and libsvm files (or stdin) as columns, and columns as a DMatrix.

Text columns are categories, times are days since 1970; categories of new data are matched with the model's by name.
"""

import gzip
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from arboost.cli import show
from arboost.cli.options import FORMATS
from arboost.matrix import parquet
from arboost.runtime.errors import XGBoostError

JUDGED_BY = ("group", "lower", "upper")  # columns besides the target that a model is judged by, where it has them
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm",
}  # fmt: skip
_FORBIDDEN = str.maketrans("[]<", "()_")  # what names of features may not have in them, in XGBoost too
_NAMES_OF_IDS = re.compile(r"(.*[_ ])?(id|uuid|index)|unnamed:? ?\d*|column0", re.IGNORECASE)
_CSV_BLOCK = 1 << 30
_GZIP_MARK = b"\x1f\x8b"
_OTHER_MARKS = "\t;|"  # what may part the fields of a file called .csv
_ROWS_AT_A_TIME = 1 << 20  # of Parquet that is read whole
_MANY_CATEGORIES = 1000
_DAY_SECONDS = 86400.0
_NO_WORDS = "--missing names words of a CSV file; a Parquet file has nulls of its own."


@dataclass
class Source:
    """A file as the user names it, and how to read it."""

    path: str
    format: str | None = None
    delimiter: str | None = None
    missing: Sequence[str] = ()  # words of a CSV file

    @property
    def kind(self) -> str:
        """One of FORMATS."""
        found = self.format or _SUFFIXES.get(Path(self.path.lower().removesuffix(".gz")).suffix)
        if found is None and self.path == "-":
            found = "csv"
        if found is None and Path(self.path).expanduser().is_dir():
            found = "parquet"
        if found is None:
            raise XGBoostError(f"{self.path}: its name does not tell its format; say --format {' or '.join(FORMATS)}.")
        return found

    @property
    def name(self) -> str:
        """For messages."""
        return "standard input" if self.path == "-" else self.path

    @contextmanager
    def on_disk(self) -> Iterator[str]:
        """A path to read from; what comes from stdin is kept in a file for as long as it is needed."""
        path = Path(self.path).expanduser()
        if self.path != "-" and not path.exists():
            raise XGBoostError(f"{self.path}: no such file.")
        if path.is_dir() and self.kind != "parquet":
            raise XGBoostError(f"{self.path} is a directory: name a file.")
        if self.path != "-" and path.suffix.lower() != ".gz":
            yield str(path)
            return
        with tempfile.TemporaryDirectory(prefix="arboost-") as folder:
            copy = Path(folder) / f"copy.{self.kind}"
            try:
                with copy.open("wb") as file, self._opened() as given:
                    shutil.copyfileobj(given, file)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise XGBoostError(f"{self.name} cannot be unpacked: {error}") from error
            try:
                yield str(copy)
            except XGBoostError as error:  # the reader knows the file by its name, not by that of a copy
                raise XGBoostError(str(error).replace(str(copy), self.name)) from error

    def _opened(self) -> Any:
        """What the copy is made of, without the compression."""
        if self.path != "-":
            return gzip.open(Path(self.path).expanduser())
        given: Any = sys.stdin.buffer
        return gzip.open(given) if given.peek(2)[:2] == _GZIP_MARK else given


@dataclass
class Roles:
    """Which columns are not features, and which numbers are categories."""

    target: Sequence[str] = ()
    weight: str | None = None
    group: str | None = None
    base_margin: str | None = None
    lower: str | None = None
    upper: str | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()

    def named(self) -> list[str]:
        """All columns that are asked for by name."""
        single = (self.weight, self.group, self.base_margin, self.lower, self.upper)
        return [*self.target, *(name for name in single if name), *self.drop]


@dataclass
class Data:
    """Features and what belongs to their rows, in the order of the file but for rows of a group being together."""

    name: str
    features: Any  # a pyarrow table, features that are streamed from one, or a DMatrix of a libsvm file
    fields: dict[str, np.ndarray] = field(default_factory=dict)
    target: Any = None  # a pyarrow array, or an array of numbers
    target_names: Sequence[str] = ()
    kept: dict[str, Any] = field(default_factory=dict)  # columns to copy into an output
    has_groups: bool = False  # whether the features know them already
    columns: dict[str, str] = field(default_factory=dict)  # those of JUDGED_BY

    @property
    def n_rows(self) -> int:
        return self.features.num_rows if self.is_table else self.features.num_row()

    @property
    def n_features(self) -> int:
        return self.features.num_columns if self.is_table else self.features.num_col()

    @property
    def is_table(self) -> bool:
        """Whether columns have names."""
        return hasattr(self.features, "column_names")

    @property
    def is_streamed(self) -> bool:
        """Whether the features are read anew at every pass."""
        return hasattr(self.features, "batches")

    def matrix(self, label: np.ndarray | None = None, threads: int | None = None, rows: Any = None) -> Any:
        """The DMatrix of it; where it is streamed, of some rows if wanted."""
        from arboost import DMatrix

        if self.is_streamed:
            given = self.fields if label is None else {**self.fields, "label": label}
            return self.features.matrix(rows, given, threads)
        if not self.is_table:
            if label is not None:
                self.features.set_label(label)
            return self.features
        return DMatrix(self.features, label, enable_categorical=True, nthread=threads, **self.fields)


def read_columns(source: Source) -> Any:
    """All columns of a CSV or Parquet file as a pyarrow table."""
    pyarrow = _pyarrow()
    if source.missing and source.kind == "parquet":
        raise XGBoostError(_NO_WORDS)
    try:
        with source.on_disk() as path:
            table = _read_parquet(path) if source.kind == "parquet" else _read_csv(source, path)
    except (pyarrow.ArrowException, OSError) as error:
        raise XGBoostError(f"{source.name} cannot be read as {source.kind}: {_first_line(error)}") from error
    table = table.rename_columns(clean_names(table.column_names))
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        advice = " Is its first line a row? Names of columns are needed where one of them holds text."
        is_row = any(name.replace(".", "", 1).isdigit() for name in table.column_names)
        raise XGBoostError(f"{source.name} has two columns named {twice[0]!r}.{advice if is_row else ''}")
    if not table.num_rows:
        raise XGBoostError(f"{source.name} has no rows.")
    return table


def _read_parquet(path: str) -> Any:
    table = parquet.open_table(path)
    return read_whole(table, stored_columns(table))


def stored_columns(table: parquet.ParquetTable) -> list[str]:
    """All columns but the numbers that pandas gives rows without a name for them."""
    return [name for name in table.columns if not (name in table.index_columns and name.startswith("__index_level_"))]


def read_whole(table: parquet.ParquetTable, columns: list[str]) -> Any:
    """Some columns as a pyarrow table."""
    batches = list(table.batches(columns, _ROWS_AT_A_TIME))
    return _pyarrow().Table.from_batches(batches or [table.empty_batch(columns)])


def _read_csv(source: Source, path: str) -> Any:
    import pyarrow.csv as arrow_csv

    from arboost.matrix.text import first_row

    delimiter = source.delimiter or ("\t" if source.kind == "tsv" else _delimiter_of(source, path))
    has_header = first_row(path, delimiter)[1] is not None
    whole = max(1, min(Path(path).stat().st_size, _CSV_BLOCK))  # types are found from the first block
    missing = [*arrow_csv.ConvertOptions().null_values, *source.missing]
    return arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(autogenerate_column_names=not has_header, block_size=whole),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=True),
        convert_options=arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=missing),
    )


def _delimiter_of(source: Source, path: str) -> str:
    """A comma, unless the first line has none and one of the other marks that tables come with."""
    from arboost.matrix.text import first_row

    _, names, n_columns = first_row(path, ",")
    found = next((mark for mark in _OTHER_MARKS if n_columns == 1 and names and mark in names[0]), ",")
    if found != ",":
        show.note(f"{source.name}: its fields are parted by {'tabs' if found == chr(9) else found}, not by commas.")
    return found


def clean_names(names: Sequence[str]) -> list[str]:
    """Names of columns, none of them empty."""
    return [clean_name(name) or f"column{k}" for k, name in enumerate(names)]


def clean_name(name: str) -> str:
    """A column's name as model files may hold it."""
    return name.strip().translate(_FORBIDDEN)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise XGBoostError("Reading tables needs pyarrow: pip install 'arboost[cli]'.") from error
    return pyarrow


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def load(source: Source, roles: Roles, needs_target: bool = True, keep: Sequence[str] = ()) -> Data:
    """Data to learn from or to judge a model by."""
    if source.kind == "libsvm":
        return _load_libsvm(source, roles)
    table = read_columns(source)
    roles = resolve(source, table.column_names, roles, needs_target)
    _check_columns(source, table.column_names, keep)
    if needs_target:
        table = _with_target(source, table, roles.target)
    if roles.group:
        table = _together(table, roles.group)
    taken = set(roles.named())
    features = table.select([name for name in table.column_names if name not in taken])
    if not features.num_columns:
        raise XGBoostError(f"{source.name} has no columns left to learn from.")
    found = prepared(features, roles.categories)
    _note_ids(features)
    return as_data(source, table, found, roles, keep)


def load_any_size(source: Source, roles: Roles) -> Data:
    """The same for training, of a Parquet file that may be larger than memory."""
    from arboost.cli import streamed

    return streamed.load(source, roles, needs_target=True) if streamed.is_wanted(source) else load(source, roles)


def resolve(source: Source, names: Sequence[str], roles: Roles, needs_target: bool) -> Roles:
    """The roles with names of columns that are there."""
    roles = _resolve_numbers(names, roles)
    if needs_target and not (roles.target or roles.lower):
        raise XGBoostError(f"Say which column to predict: --target NAME. Columns: {_listed(names)}.")
    _check_columns(source, names, [*roles.named(), *roles.categories])
    return roles


def load_for_model(source: Source, roles: Roles, booster: Any, needs_target: bool, keep: Sequence[str] = ()) -> Data:
    """Data with the columns that a model knows, in any order; further columns are passed over."""
    if source.kind == "libsvm" or booster.feature_names is None:
        return widen(load(source, roles, needs_target, keep), booster.num_features())
    return _for_model(source, read_columns(source), roles, booster, needs_target, keep, set())


def stream_for_model(source: Source, roles: Roles, booster: Any, keep: Sequence[str]) -> Iterator[Data]:
    """Data to predict: a Parquet file some rows at a time, others whole."""
    wanted = booster.feature_names
    if source.kind != "parquet" or wanted is None:
        yield load_for_model(source, roles, booster, needs_target=False, keep=keep)
        return
    if source.missing:
        raise XGBoostError(_NO_WORDS)
    told: set[tuple[str, Any]] = set()
    with source.on_disk() as path:
        table = parquet.open_table(path)
        if not table.n_rows:
            raise XGBoostError(f"{source.name} has no rows.")
        needed = {*wanted, *keep, *roles.named()}
        stored = stored_columns(table)
        columns = {clean: name for clean, name in zip(clean_names(stored), stored) if clean in needed}
        names = list(columns.values())
        for batch in table.batches(names, table.rows_at_a_time(names)):
            part = _pyarrow().Table.from_batches([batch]).rename_columns(list(columns))
            yield _for_model(source, part, roles, booster, False, keep, told)


def _for_model(
    source: Source, table: Any, roles: Roles, booster: Any, needs_target: bool, keep: Sequence[str], told: set
) -> Data:
    """The columns of a table that a model knows; `told`: the unknown categories that the reader has been told of."""
    wanted = booster.feature_names
    roles = _resolve_numbers(table.column_names, roles)
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        some = "a column" if len(missing) == 1 else f"{len(missing)} columns"
        raise XGBoostError(
            f"{source.name} lacks {some} that the model needs: {_listed(missing)}. "
            f"It has: {_listed(table.column_names)}."
        )
    _check_columns(source, table.column_names, [*roles.named(), *keep])
    if needs_target:
        table = _with_target(source, table, roles.target)
    if roles.group:
        table = _together(table, roles.group)
    kinds = dict(zip(wanted, booster.feature_types or ["float"] * len(wanted)))
    categorical = [name for name in wanted if kinds[name] == "c"]
    features = prepared(table.select(wanted), categorical)
    for name in wanted:
        if kinds[name] != "c" and _pyarrow().types.is_dictionary(features.schema.field(name).type):
            example = next(value.as_py() for value in features.column(name) if value.is_valid)
            raise XGBoostError(f"{source.name}: column {name!r} has text ({example!r}); the model knows it as numbers.")
    _note_unseen(source, features, categorical, booster, told)
    return as_data(source, table, features, roles, keep)


def widen(data: Data, n_features: int) -> Data:
    """Data of a libsvm file with the features that none of its rows has, as missing values."""
    from arboost import DMatrix

    if data.is_table or data.n_features >= n_features:
        return data
    rows, sizes = data.features.get_data(), data.features.get_group()
    rows.resize((data.n_rows, n_features))
    fields = {"group": sizes} if len(sizes) else {}
    weight = data.features.get_weight()
    data.features = DMatrix(rows, data.target, weight=weight if len(weight) else None, **fields)
    return data


def _note_ids(features: Any) -> None:
    """Say which columns look like a number of the row: a model would learn the order of the file from them."""
    types = _pyarrow().types
    for name in features.column_names:
        column = features.column(name)
        is_distinct = types.is_integer(column.type) and len(column.unique()) == len(column)
        if is_distinct and len(column) > 1 and _NAMES_OF_IDS.fullmatch(name):
            show.note(f"{name!r} is different in every row. An id? Then: --drop {name}")


def _note_unseen(source: Source, features: Any, categorical: Sequence[str], booster: Any, told: set) -> None:
    """Say which categories the model has never seen, each once."""
    if not categorical:
        return
    known = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    for name in categorical:
        if known.get(name) is not None:
            have = set(features.column(name).unique().to_pylist()) - {None}
            new = sorted(value for value in have - set(known[name].to_pylist()) if (name, value) not in told)
            told |= {(name, value) for value in new}
            if new:
                show.note(
                    f"{source.name}: {name!r} has categories unknown to the model, taken as missing: {_listed(new)}"
                )


def _load_libsvm(source: Source, roles: Roles) -> Data:
    from arboost import DMatrix

    if roles.named():
        raise XGBoostError(f"{source.name}: a libsvm file has no named columns; its first number is the label.")
    with source.on_disk() as path:
        matrix = DMatrix(f"{path}?format=libsvm")
    return Data(source.name, matrix, {}, matrix.get_label(), has_groups=len(matrix.get_group()) > 0)


def _resolve_numbers(names: Sequence[str], roles: Roles) -> Roles:
    """Columns by number (0 is the first, -1 the last) become names, where no column is called so."""

    def name_of(given: str | None) -> str | None:
        if given is None or given in names:
            return given
        if clean_name(given) in names:
            return clean_name(given)
        try:
            return names[int(given)]
        except (ValueError, IndexError):
            return given

    def names_of(given: Sequence[str]) -> list[str]:
        return [str(name_of(name)) for name in given]

    return Roles(
        names_of(roles.target), name_of(roles.weight), name_of(roles.group), name_of(roles.base_margin),
        name_of(roles.lower), name_of(roles.upper), names_of(roles.drop), names_of(roles.categories),
    )  # fmt: skip


def _check_columns(source: Source, names: Sequence[str], wanted: Sequence[str]) -> None:
    from arboost.params.spec import closest

    for name in wanted:
        if name not in names:
            raise XGBoostError(
                f"{source.name} has no column {name!r}.{closest(name, names)} Columns: {_listed(names)}."
            )


def _listed(names: Sequence[Any], most: int = 12) -> str:
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _with_target(source: Source, table: Any, target: Sequence[str]) -> Any:
    """The rows that have a target."""
    import pyarrow.compute as compute

    for name in target:
        column = table.column(name)
        if column.null_count:
            show.note(f"{source.name}: {column.null_count:,} rows without a target are left out.")
            table = table.filter(compute.is_valid(column))
    if not table.num_rows:
        raise XGBoostError(f"{source.name} has no row with a target.")
    return table


def _together(table: Any, group: str) -> Any:
    """Rows of a group one after the other: groups in order of their first row, rows in theirs."""
    codes = table.column(group).combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    if (np.diff(codes) >= 0).all():
        return table
    return table.take(np.argsort(codes, kind="stable"))


def prepared(table: Any, categories: Sequence[str], says: bool = True) -> Any:
    """Every column a number or a category; `says`: whether the reader is told of doubtful ones."""
    arrays = [_prepared_column(name, table.column(name), name in categories, says) for name in table.column_names]
    return _pyarrow().table(arrays, names=table.column_names)


def _prepared_column(name: str, column: Any, is_category: bool, says: bool) -> Any:
    pyarrow = _pyarrow()
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        return column if types.is_string(kind.value_type) or types.is_large_string(kind.value_type) else (
            column.cast(pyarrow.string()).dictionary_encode()
        )  # fmt: skip
    if is_category or types.is_string(kind) or types.is_large_string(kind):
        coded = column.cast(pyarrow.string()).combine_chunks().dictionary_encode()
        n_values = len(coded.dictionary)
        if says and not is_category and n_values > _MANY_CATEGORIES and n_values > len(column) // 2:
            show.note(f"{name!r} has {n_values:,} different texts in {len(column):,} rows. An id? Then: --drop {name}")
        return coded
    if types.is_temporal(kind) and not types.is_duration(kind):
        if types.is_time(kind):
            raise XGBoostError(f"Column {name!r} has times of day, which have no meaning here: --drop {name}.")
        stamps = column.cast(pyarrow.timestamp("us")).cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
        days = np.where(column.is_null().to_numpy(), np.nan, np.asarray(stamps, np.float64) / (1e6 * _DAY_SECONDS))
        return pyarrow.array(days)
    if types.is_null(kind) or types.is_decimal(kind):
        return column.cast(pyarrow.float64())
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise XGBoostError(f"Column {name!r} holds {kind}, which no tree can split: --drop {name}.")
    return column


def _fields(table: Any, roles: Roles) -> dict[str, np.ndarray]:
    """Arguments of DMatrix besides the label."""
    found = {
        "weight": roles.weight, "base_margin": roles.base_margin,
        "label_lower_bound": roles.lower, "label_upper_bound": roles.upper,
    }  # fmt: skip
    fields = {name: _numbers(column, table.column(column)) for name, column in found.items() if column}
    if roles.group:
        codes = table.column(roles.group).combine_chunks().dictionary_encode().indices
        fields["qid"] = codes.to_numpy(zero_copy_only=False)
    return fields


def as_data(source: Source, table: Any, features: Any, roles: Roles, keep: Sequence[str]) -> Data:
    """Features with the other columns of their table."""
    kept = {name: table.column(name) for name in keep}
    columns = {role: getattr(roles, role) for role in JUDGED_BY if getattr(roles, role)}
    target = _target(table, roles.target)
    return Data(source.name, features, _fields(table, roles), target, roles.target, kept, columns=columns)


def _target(table: Any, target: Sequence[str]) -> Any:
    if len(target) > 1:
        return np.column_stack([_numbers(name, table.column(name)) for name in target])
    return table.column(target[0]) if target else None


def _numbers(name: str, column: Any) -> np.ndarray:
    pyarrow = _pyarrow()
    try:
        return column.cast(pyarrow.float64()).to_numpy()
    except pyarrow.ArrowException:
        raise XGBoostError(f"Column {name!r} holds {column.type}; numbers are expected.") from None
