"""One partition: some rows with what belongs to them. How it is put together, described and cut, on a worker."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arboost.matrix.adapt import adapt
from arboost.matrix.categories import Categories
from arboost.matrix.iterator import DataIter, all_categories, common_types
from arboost.runtime.comm import Run
from arboost.runtime.errors import XGBoostError

Part = dict[str, Any]  # by the names of FIELDS: arrays or frames of the same rows
FIELDS = ("data", "label", "weight", "base_margin", "qid", "label_lower_bound", "label_upper_bound")


class Columns(NamedTuple):
    """What a frame says of its columns; None where the data is no frame."""

    names: list[str] | None = None
    types: list[str] | None = None
    categories: Categories | None = None

    def join(self, other: "Columns") -> "Columns":
        """What holds for both, the categories of this one first: as one machine finds it in the whole frame."""
        if self.names is not None and other.names is not None and self.names != other.names:
            raise XGBoostError(f"The partitions have different columns: {self.names} and {other.names}.")
        names = self.names or other.names
        return Columns(
            names,
            common_types(self.types, other.types, names),
            all_categories(self.categories, other.categories),
        )


class Facts(NamedTuple):
    """What the client needs to know of a partition."""

    n_rows: int
    n_columns: int
    columns: Columns
    groups: "Groups | None"


class Groups(NamedTuple):
    """Which query groups a partition with rows begins and ends with."""

    first: int
    last: int
    n_first: int  # rows of the first one
    is_sorted: bool


class Piece(NamedTuple):
    """Rows start..stop of a partition, whose ids among all rows begin at first_id."""

    part: int
    start: int
    stop: int
    first_id: int


def make_part(number: int, fields: Part) -> Part:
    """The fields of partition `number`, checked to be of the same rows."""
    n_rows = n_rows_of(fields["data"])
    for name, values in fields.items():
        if n_rows_of(values) != n_rows:
            raise XGBoostError(
                f"Partition {number}: `{name}` has {n_rows_of(values)} rows, the data has {n_rows}. Give both the same "
                "partitions, for example by taking them from one collection."
            )
    return fields


def describe(part: Part) -> Facts:
    """The facts of a partition."""
    data = part["data"]
    n_rows = n_rows_of(data)
    columns = Columns()
    if hasattr(data, "columns"):
        raw = adapt(data, None)
        columns = Columns(raw.feature_names, raw.feature_types, raw.categories)
    groups = None
    if "qid" in part and n_rows:
        qid = np.asarray(part["qid"]).reshape(-1)
        n_first = int(np.argmax(np.append(qid, qid[0] - 1) != qid[0]))
        groups = Groups(int(qid[0]), int(qid[-1]), n_first, bool((qid[1:] >= qid[:-1]).all()))
    return Facts(n_rows, int(data.shape[1]), columns, groups)


def n_rows_of(values: Any) -> int:
    """Rows of an array, frame or sparse matrix."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def cut_rows(values: Any, start: int, stop: int) -> Any:
    """Some rows of an array, frame or sparse matrix; not a copy where that is possible."""
    if (start, stop) == (0, n_rows_of(values)):
        return values
    return values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop]


def cut_part(part: Part, start: int, stop: int) -> Part:
    """Some rows of a partition."""
    return {name: cut_rows(values, start, stop) for name, values in part.items()}


def runs_of(pieces: Sequence[Piece]) -> list[Run]:
    """Where the rows of some pieces, one after the other, lie among all; neighbours are one run."""
    runs: list[Run] = []
    n_rows = 0
    for piece in pieces:
        size = piece.stop - piece.start
        offset = piece.first_id - n_rows
        if runs and runs[-1].offset == offset:
            runs[-1] = runs[-1]._replace(stop=n_rows + size)
        elif size:
            runs.append(Run(n_rows, n_rows + size, offset))
        n_rows += size
    return runs


class PieceIter(DataIter):
    """Pieces of partitions as batches: they are binned where they are, never put together.

    Parameters
    ----------
    parts
        The partitions, one for each piece.
    pieces
        Which of their rows.
    constant
        What every batch has alike: `feature_names` and so on.
    """

    def __init__(self, parts: Sequence[Part], pieces: Sequence[Piece], constant: dict[str, Any]):
        super().__init__()
        self._parts, self._pieces, self._constant = parts, pieces, constant
        self._next = 0

    def reset(self) -> None:
        self._next = 0

    def next(self, input_data: Callable) -> bool:
        if self._next == len(self._pieces):
            return False
        part, piece = self._parts[self._next], self._pieces[self._next]
        self._next += 1
        input_data(**cut_part(part, piece.start, piece.stop), **self._constant)
        return True
