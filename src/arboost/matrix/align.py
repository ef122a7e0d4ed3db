"""Data in the columns and codes that a model (or another data set) expects.

Columns of frames are found by name; codes of categories are replaced by the expected ones. A frame does both while it
converts (`FrameData`), other sources chunk by chunk here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from arboost.matrix.adapt import RawData
from arboost.matrix.categories import Categories, apply_tables, code_tables


class Source(Protocol):
    """What chunks can be read from: `RawData` or a `BinnedPage`."""

    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]: ...


class AlignedData(RawData):
    """Another source, its columns in the order `order`, and then its codes replaced by `tables`."""

    def __init__(self, source: Any, order: Sequence[int] | np.ndarray | None, tables: Sequence[np.ndarray | None] = ()):
        super().__init__(source.n_rows, source.n_features, np.nan)
        self._source: Source = source
        self._order = None if order is None else np.asarray(order, np.int64)
        self._tables = list(tables)
        self.n_threads = getattr(source, "n_threads", 1)

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        for first_row, values in self._source.chunks(rows):
            values = values[:, first:stop] if self._order is None else values[:, self._order[first:stop]]
            values = np.array(values, order="C")
            for f, table in enumerate(self._tables[first:stop]):
                if table is not None:
                    present = np.flatnonzero(~np.isnan(values[:, f]))
                    values[present, f] = table[values[present, f].astype(np.int64)]
            yield first_row, values, 0

    def take(self, rows: np.ndarray) -> "AlignedData":
        return AlignedData(self._source.take(rows), self._order, self._tables)  # type: ignore[attr-defined]

    def with_codes(self, tables: list[np.ndarray | None], categories: Categories) -> "AlignedData":
        """The same data with every code c of feature f replaced by tables[f][c]; None leaves a feature as it is."""
        twin = AlignedData(self._source, self._order, tables)
        twin.feature_names, twin.categories = self.feature_names, categories
        return twin

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        raise AssertionError("tiles are made from the source's chunks")


def find_order(have: Sequence[str] | None, wanted: Sequence[str] | None) -> list[int] | None:
    """Places of the wanted names among those at hand; None if they are the same already, or not the same set."""
    if have is None or wanted is None or list(have) == list(wanted) or sorted(have) != sorted(wanted):
        return None
    place = {name: f for f, name in enumerate(have)}
    return [place[name] for name in wanted]


def align(
    source: Any,
    order: Sequence[int] | None,
    have: Categories | None,
    wanted: Categories | None,
    unseen: str,
    names: Sequence[str] | None,
) -> Any:
    """The source (`RawData` or a page) in another order and with other codes; itself if that is what it has.

    Parameters
    ----------
    source
        What is read.
    order
        Of the columns, or None as they are.
    have, wanted
        Categories of the source, before it is put in order, and those whose codes it shall have; None for none.
    unseen
        "missing" or "error": see `categories.recode`.
    names
        Names of the columns in the new order, for messages.
    """
    have = have if have is None or order is None else have.select(order)
    tables: list[np.ndarray | None] = []
    if have is not None and wanted is not None and len(have.values) == len(wanted.values):
        tables = code_tables(have, wanted, names)
    if order is None and all(table is None for table in tables):
        return source
    if order is not None:
        source = source.select(order) if hasattr(source, "select") else AlignedData(source, order)
    if any(table is not None for table in tables):
        if not hasattr(source, "with_codes"):
            source = AlignedData(source, None)
        if isinstance(source, AlignedData):
            source.feature_names, source.categories = None if names is None else list(names), have
        assert wanted is not None
        source = apply_tables(source, tables, wanted, unseen)
    return source
