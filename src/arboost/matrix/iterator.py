"""Data that comes batch by batch: `DataIter`, and tables that are read from their source again and again.

Nothing is put together: every pass asks the source for its batches anew and keeps one at a time, converted in a buffer
of bounded size. Cuts are found by counting and bins are written in place, so the result is that of the whole table.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from arboost.matrix.adapt import CHUNK_VALUES, DenseData, RawData, adapt, take_rows
from arboost.matrix.categories import Categories, recode
from arboost.matrix.meta import MetaInfo
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_R = TypeVar("_R", bound=RawData)
_MARKED_ROWS = 4
_BY_ROW = ("label", "base_margin", "label_lower_bound", "label_upper_bound", "weight")


class DataIter(ABC):
    """Base class of iterators over batches, for `ExtMemQuantileDMatrix`, `QuantileDMatrix` and `DMatrix`.

    `next` hands over one batch per call; the source is read several times, about five for bins, and must give the same
    batches each time. At most one batch is held at a time.

    Parameters
    ----------
    cache_prefix
        Where bins are kept on disk: what the names of their files begin with, path and all; a folder; or a list of
        these, such as folders on several disks, which share the pages. For `ExtMemQuantileDMatrix`, where None is the
        folder for temporary files, and `DMatrix`, where None keeps bins in memory. A `QuantileDMatrix` does not use it.
    min_cache_page_bytes
        Bytes of a page of bins, at least; None or 0 for 16 MiB. Only the last page has less.
    release_data, on_host
        Accepted for compatibility: a batch is never kept when the next one is asked for.
    """

    def __init__(
        self,
        cache_prefix: str | os.PathLike | Sequence[str | os.PathLike] | None = None,
        release_data: bool = True,
        *,
        on_host: bool = True,
        min_cache_page_bytes: int | None = None,
    ) -> None:
        self.cache_prefix = cache_prefix
        self.release_data = release_data
        self.on_host = on_host
        self.min_cache_page_bytes = min_cache_page_bytes

    @abstractmethod
    def reset(self) -> None:
        """Go back to the first batch."""

    @abstractmethod
    def next(self, input_data: Callable) -> bool:
        """Call input_data(data=..., label=..., ...) with the next batch and return True; False after the last one.

        Parameters
        ----------
        input_data
            Takes, by keyword, `data` (anything that DMatrix accepts but a path) and what `DMatrix.set_info` takes:
            label, weight, base_margin, group, qid, label_lower_bound, label_upper_bound, feature_names, feature_types
            and feature_weights.
        """


class Batch:
    """Some rows of a table with what belongs to them. Empty once the next batch has been asked for."""

    is_checked = False  # whether a later pass is compared with the first: the source is a user's

    def __init__(self, raw: RawData, fields: dict[str, Any], feature_names: Any = None, feature_types: Any = None):
        self.raw: RawData | None = raw
        self.fields = fields
        self.feature_names = raw.feature_names if feature_names is None else list(feature_names)
        self.feature_types = raw.feature_types if feature_types is None else list(feature_types)
        if isinstance(raw, DenseData):
            raw.is_lent = False  # a view in somebody's hands would keep the batch alive beside the next one

    @property
    def mark(self) -> "Mark":
        """What tells the batch from others: its size, and a few of its rows if it is checked."""
        raw = self.raw
        assert raw is not None
        if not self.is_checked or not raw.n_rows:
            return raw.n_rows, raw.n_features, b""
        some = raw.take(np.linspace(0, raw.n_rows - 1, _MARKED_ROWS).astype(np.int64))
        return raw.n_rows, raw.n_features, b"".join(values.tobytes() for _, values in some.chunks())

    def release(self) -> None:
        self.raw, self.fields = None, {}


Mark = tuple[int, int, bytes]  # rows, features, some values
Read = Callable[[], Iterator[Batch]]  # starts a pass over the batches


class _Inbox:
    """What the user's `next` calls with a batch."""

    def __init__(self) -> None:
        self.given: dict[str, Any] | None = None

    def __call__(
        self,
        *args: Any,
        data: Any = None,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_names: Any = None,
        feature_types: Any = None,
        feature_weights: Any = None,
    ) -> None:
        if args:
            raise TypeError("Keyword argument is required: input_data(data=..., label=...).")
        self.given = {
            "data": data, "feature_names": feature_names, "feature_types": feature_types,
            "label": label, "weight": weight, "base_margin": base_margin, "group": group, "qid": qid,
            "label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
        }  # fmt: skip


def batches_of(source: DataIter, missing: float | None) -> Read:
    """The passes over a user's iterator."""
    if not hasattr(source, "cache_prefix"):
        raise XGBoostError(f"{type(source).__name__}.__init__ must call super().__init__(): __init__ is not called.")

    newest: list[object] = [None]

    def read() -> Iterator[Batch]:
        own = newest[0] = object()
        source.reset()
        inbox = _Inbox()
        while _has_next(source, inbox):
            if inbox.given is None:
                raise XGBoostError("`next` of the data iterator returned True without calling `input_data`.")
            given, inbox.given = inbox.given, None
            data, names, types = given.pop("data"), given.pop("feature_names"), given.pop("feature_types")
            batch = Batch(adapt(data, missing), given, names, types)
            batch.is_checked = True
            del data, given
            yield batch
            batch.release()
            if newest[0] is not own:
                raise XGBoostError("The data iterator was started again before its last batch: use it in one thread.")

    return read


def _has_next(source: DataIter, inbox: _Inbox) -> bool:
    try:
        return bool(source.next(inbox))
    except StopIteration:
        raise XGBoostError(
            "`next` of the data iterator raised StopIteration: it shall return False after the last batch."
        ) from None


def _described(raw: _R, names: list[str] | None, types: list[str] | None, categories: Categories | None) -> _R:
    raw.feature_names, raw.feature_types, raw.categories = names, types, categories
    return raw


class GatheredData(DenseData):
    """A float32 table put together from batches; categorical features hold codes."""

    def with_codes(self, tables: list[np.ndarray | None], categories: Categories) -> "GatheredData":
        """The same data with every code c of feature f replaced by tables[f][c]; None leaves a feature as it is."""
        array = self.array.copy()
        for f, table in enumerate(tables):
            if table is not None:
                codes = self.array[:, f]
                present = ~np.isnan(codes)
                array[present, f] = table[codes[present].astype(np.int64)]
        return _described(GatheredData(array), self.feature_names, self.feature_types, categories)


class BatchedData(RawData):
    """A table whose every pass reads the batches of a source anew.

    Built by `read_batches`, which has seen all of them once.
    """

    is_streamed = True

    def __init__(self, read: Read, marks: list[Mark], n_features: int, missing: float):
        super().__init__(sum(n_rows for n_rows, *_ in marks), n_features, missing)
        self._read = read
        self._marks = marks

    def tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        if self._small is not None or self.n_rows * self.n_features <= CHUNK_VALUES:
            if self._small is None:
                self._small = self.take(np.arange(self.n_rows)).array
            yield from DenseData(self._small).tiles(first, stop, rows)
            return
        yield from self._read_tiles(first, stop, rows)

    def _read_tiles(self, first: int, stop: int, rows: int | None = None) -> Iterator[tuple[int, np.ndarray, int]]:
        """`tiles`, from the source."""
        for first_row, raw in self._pass():
            for row, values, column in raw.tiles(first, stop, rows):
                yield first_row + row, values, column
            del raw

    def with_codes(self, tables: list[np.ndarray | None], categories: Categories) -> "BatchedData":
        """The same data with the codes of other categories: each batch is given them as it comes."""
        twin = BatchedData(self._read, self._marks, self.n_features, float(self.missing))
        twin.n_threads = self.n_threads
        return _described(twin, self.feature_names, self.feature_types, categories)

    def take(self, rows: np.ndarray) -> GatheredData:
        chunks = ((row, values) for row, values, _ in self._read_tiles(0, self.n_features))
        taken = take_rows(chunks, rows, self.n_features)
        return _described(GatheredData(taken), self.feature_names, self.feature_types, self.categories)

    def _pass(self) -> Iterator[tuple[int, RawData]]:
        """(first row, batch), each batch with the codes of all; refuses a source that has changed."""
        first_row, n_batches = 0, 0
        for batch in self._read():
            raw = batch.raw
            assert raw is not None
            if n_batches == len(self._marks) or batch.mark != self._marks[n_batches]:
                raise XGBoostError(_changed_message(n_batches))
            raw = recode(raw, self.categories)
            raw.n_threads = self.n_threads
            n_rows = raw.n_rows
            batch.release()
            yield first_row, raw
            del raw
            first_row, n_batches = first_row + n_rows, n_batches + 1
        if n_batches != len(self._marks):
            raise XGBoostError(_changed_message(n_batches))

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        raise AssertionError("tiles are made by the batches themselves")


def read_batches(
    read: Read, ctx: Context, missing: float | None, most_rows: int | None = None
) -> tuple[RawData, dict[str, Any]]:
    """The first pass: the table, with names, types and categories, and the arguments of `DMatrix.set_info`.

    Parameters
    ----------
    read
        Starts a pass over the batches.
    ctx
        Threads.
    missing
        Value that means "missing" besides NaN.
    most_rows
        Bound of the number of rows, to keep the values as float32; None to read the source anew at every pass.
    """
    seen = _Seen()
    values: np.ndarray | None = None
    for batch in read():
        assert batch.raw is not None
        batch.raw.n_threads = ctx.n_threads
        seen.add(batch, ctx)
        if most_rows is not None:
            if values is None:
                values = np.empty((most_rows, seen.n_features), np.float32)
            first_row = sum(seen.batch_rows[:-1])
            for row, part in recode(batch.raw, seen.categories).chunks():  # later batches do not change these codes
                values[first_row + row : first_row + row + len(part)] = part
        batch.release()
    if not seen.batch_rows:
        raise XGBoostError("The data iterator must have at least 1 batch.")
    raw: RawData
    if values is None:
        raw = BatchedData(read, seen.marks, seen.n_features, np.nan if missing is None else missing)
    else:
        raw = GatheredData(values[: sum(seen.batch_rows)])
    raw._n_present = seen.n_present
    return _described(raw, seen.feature_names, seen.feature_types, seen.categories), seen.fields()


class _Seen:
    """What the batches so far have in common, and their fields one after the other."""

    def __init__(self) -> None:
        self.batch_rows: list[int] = []
        self.marks: list[Mark] = []
        self.n_features = 0
        self.n_present = np.zeros(0, np.int64)
        self.feature_names: list[str] | None = None
        self.feature_types: list[str] | None = None
        self.categories: Categories | None = None
        self._feature_weights: Any = None
        self._parts: dict[str, list[np.ndarray]] = {}
        self._n_filled = 0  # batches with rows: each must have the same fields

    def add(self, batch: Batch, ctx: Context) -> None:
        raw = batch.raw
        assert raw is not None
        if self.batch_rows and raw.n_features != self.n_features:
            raise XGBoostError(
                f"Inconsistent number of columns: batch {len(self.batch_rows)} of the data iterator has "
                f"{raw.n_features}, the batches before it have {self.n_features}."
            )
        n_present = raw.scan(ctx)
        self.n_present = self.n_present + n_present if self.batch_rows else n_present
        self.n_features = raw.n_features
        self._add_names(batch.feature_names)
        self.feature_types = common_types(self.feature_types, batch.feature_types, self.feature_names)
        self.categories = all_categories(self.categories, raw.categories)
        self.batch_rows.append(raw.n_rows)
        self.marks.append(batch.mark)
        if batch.fields.get("feature_weights") is not None:
            self._feature_weights = batch.fields["feature_weights"]
        if raw.n_rows:
            self._add_fields(raw, batch.fields)

    def _add_names(self, names: list[str] | None) -> None:
        if self.feature_names is not None and names is not None and names != self.feature_names:
            raise XGBoostError(
                f"The batches of the data iterator have different feature names: {self.feature_names} and then {names}."
            )
        self.feature_names = self.feature_names or names

    def _add_fields(self, raw: RawData, given: dict[str, Any]) -> None:
        info = MetaInfo(raw.n_rows, raw.n_features)
        for name, data in given.items():
            if data is not None:
                info.set(name, data)
        parts = {name: getattr(info, name) for name in _BY_ROW}
        if info.group_ptr is not None:
            info.check_groups()
            is_qid = given.get("qid") is not None
            parts["qid" if is_qid else "group"] = np.asarray(given["qid"]) if is_qid else np.diff(info.group_ptr)
        parts = {name: values for name, values in parts.items() if values is not None}
        if self._n_filled and set(parts) != set(self._parts):
            some = ", ".join(sorted(set(parts) ^ set(self._parts)))
            raise XGBoostError(f"Either every batch of the data iterator has this field or none: {some}.")
        self._n_filled += 1
        for name, values in parts.items():
            before = self._parts.setdefault(name, [])
            if before and values.shape[1:] != before[0].shape[1:]:
                raise XGBoostError(f"The batches of the data iterator have different numbers of columns in `{name}`.")
            before.append(values)

    def fields(self) -> dict[str, Any]:
        joined: dict[str, Any] = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        return joined | ({} if self._feature_weights is None else {"feature_weights": self._feature_weights})


def common_types(before: list[str] | None, now: list[str] | None, names: list[str] | None) -> list[str] | None:
    """Types that hold for both: a column that has a fraction, or a missing value, in one batch only is float in all."""
    if before is None or now is None or before == now:
        return now if before is None else before
    if len(before) != len(now):
        raise XGBoostError("The batches of the data iterator have different numbers of feature types.")
    for f, pair in enumerate(zip(before, now, strict=True)):
        if pair.count("c") == 1:
            raise XGBoostError(
                f"Feature {names[f] if names else f} is categorical in some batches of the data iterator and numerical "
                "in others: give it the same type in all."
            )
    rank = {"i": 0, "int": 1, "q": 2, "float": 3}
    return [a if a == b else max(a, b, key=lambda kind: rank.get(kind, 0)) for a, b in zip(before, now, strict=True)]


def all_categories(before: Categories | None, now: Categories | None) -> Categories | None:
    """Categories of all batches, those of the first in front: codes that were given before stay."""
    if before is None or now is None or before.same_as(now):
        return now if before is None else before
    values = [_union(a, b) for a, b in zip(before.values, now.values, strict=True)]
    return Categories(values, before.names)


def _union(before: np.ndarray | None, now: np.ndarray | None) -> np.ndarray | None:
    if before is None or now is None or not len(now):
        return before
    known = set(before.tolist())
    new = [value for value in now.tolist() if value not in known]
    if not new:
        return before
    added = np.empty(len(new), object)
    added[:] = new
    return np.concatenate([before, added if now.dtype == object else added.astype(now.dtype)])


def _changed_message(n_batches: int) -> str:
    return (
        f"The data iterator gave other batches than on its first pass (at batch {n_batches}). It is read several times "
        "and must give the same batches each time; `reset` must go back to the first."
    )
