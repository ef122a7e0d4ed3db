"""Training data of a Parquet file that memory has no room for: features are read anew at every pass, the rest is kept.

What comes of it is what `tables.load` makes of a file that fits, to the byte of the model.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from arboost.cli import show, tables
from arboost.cli.tables import Data, Roles, Source
from arboost.matrix import parquet
from arboost.matrix.iterator import DataIter
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import budget

_VALUE_BYTES = 20  # of a table in memory: its columns, those of the rows to learn from, and bins


def is_wanted(source: Source) -> bool:
    """Whether the source is a Parquet file or folder that takes more memory than the budget."""
    if source.kind != "parquet" or source.path == "-":
        return False
    with source.on_disk() as path:
        table = parquet.open_table(path)
        limit = budget().n_bytes
        return limit is not None and table.n_rows * len(table.columns) * _VALUE_BYTES > limit


def load(source: Source, roles: Roles, needs_target: bool) -> Data:
    """`tables.load` of a Parquet file or folder, whose features stay there."""
    with source.on_disk() as path:
        table = parquet.open_table(path)
    columns = tables.stored_columns(table)
    stored = dict(zip(tables.clean_names(columns), columns))
    roles = tables.resolve(source, list(stored), roles, needs_target)
    needed = list(dict.fromkeys(name for name in roles.named() if name not in roles.drop))
    rest = tables.read_whole(table, [stored[name] for name in needed]).rename_columns(needed)
    has_target = np.ones(table.n_rows, np.bool_)
    for name in roles.target if needs_target else ():
        has_target &= rest.column(name).is_valid().to_numpy()
    if not has_target.all():
        show.note(f"{source.name}: {(~has_target).sum():,} rows without a target are left out.")
        rest = rest.filter(has_target)
    if not rest.num_rows:
        raise XGBoostError(f"{source.name} has no row with a target.")
    names = {name: stored[name] for name in stored if name not in roles.named()}
    if not names:
        raise XGBoostError(f"{source.name} has no columns left to learn from.")
    features = StreamedFeatures(table, names, has_target, roles.categories)
    data = tables.as_data(source, rest, features, roles, ())
    if "qid" in data.fields and (np.diff(data.fields["qid"]) < 0).any():
        raise XGBoostError(
            f"{source.name} is read in pieces, so rows of a group must lie together: sort it by {roles.group}."
        )
    return data


class StreamedFeatures:
    """Columns of a table that are read in pieces; to those who ask for names it looks like a pyarrow table."""

    def __init__(
        self, table: parquet.ParquetTable, names: dict[str, str], is_kept: np.ndarray, categories: Sequence[str]
    ):
        self._table = table
        self._names = names  # clean name -> name in the file
        self._is_kept = is_kept
        self._categories = categories
        self.column_names = list(names)
        self.num_columns = len(names)
        self.num_rows = int(is_kept.sum())

    def select(self, names: Sequence[str]) -> "StreamedFeatures":
        """Some of the columns."""
        return StreamedFeatures(
            self._table, {name: self._names[name] for name in names}, self._is_kept, self._categories
        )

    def batches(self) -> Iterator[Any]:
        """Tables of the kept rows, every column a number or a category."""
        import pyarrow

        stored, first = list(self._names.values()), 0
        for batch in self._table.batches(stored, self._table.rows_at_a_time(stored)):
            is_kept = pyarrow.array(self._is_kept[first : first + batch.num_rows])
            first += batch.num_rows
            part = pyarrow.Table.from_batches([batch]).rename_columns(self.column_names).filter(is_kept)
            yield tables.prepared(part, self._categories, says=False)

    def matrix(self, rows: np.ndarray | None, fields: dict[str, Any], threads: int | None) -> Any:
        """The DMatrix of some rows, None for all; `fields` are of all of them."""
        from arboost import DMatrix

        is_chosen = np.ones(self.num_rows, np.bool_)
        if rows is not None:
            is_chosen = np.zeros(self.num_rows, np.bool_)
            is_chosen[rows] = True
        return DMatrix(_ChosenRows(self, is_chosen, fields), enable_categorical=True, nthread=threads)


class _ChosenRows(DataIter):
    """Batches of some rows. What lies in a batch has its categories even if none of its rows is chosen."""

    def __init__(self, features: StreamedFeatures, is_chosen: np.ndarray, fields: dict[str, Any]):
        super().__init__()
        self._features, self._is_chosen, self._fields = features, is_chosen, fields
        self._batches: Iterator[Any] | None = None
        self._first = 0

    def reset(self) -> None:
        self._batches, self._first = None, 0

    def next(self, input_data: Callable) -> bool:
        self._batches = self._features.batches() if self._batches is None else self._batches
        part = next(self._batches, None)
        if part is None:
            return False
        rows = slice(self._first, self._first + part.num_rows)
        is_chosen = self._is_chosen[rows]
        self._first = rows.stop
        given = {name: values[rows][is_chosen] for name, values in self._fields.items()}
        input_data(data=part.filter(is_chosen), **given)
        return True
