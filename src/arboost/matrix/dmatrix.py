"""DMatrix and QuantileDMatrix, with XGBoost's constructors and accessors.

A DMatrix keeps a reference to the user's data and makes bins when training asks for them; a QuantileDMatrix makes
them at once and lets the data go (`extmem.py` has the one that keeps them on disk). The engine reads `info`, `chunks`
and `pages`.
"""

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np
import scipy.sparse

from arboost.matrix import files, saved
from arboost.matrix.adapt import RawData, SparseData, adapt
from arboost.matrix.agreement import agree
from arboost.matrix.align import align, find_order
from arboost.matrix.categories import Categories, recode
from arboost.matrix.cuts import Cuts, check_max_bin, make_cuts
from arboost.matrix.frames import get_categories
from arboost.matrix.iterator import DataIter, batches_of, read_batches
from arboost.matrix.meta import MetaInfo
from arboost.matrix.needs import bytes_of_row
from arboost.matrix.on_device import DeviceData, values_on
from arboost.matrix.page import BinnedPage, make_binned
from arboost.matrix.room import Room
from arboost.matrix.sorted import SortedPage, make_sorted
from arboost.matrix.store import PageCache, StoredPages, store_pages
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.card import make_card
from arboost.runtime.comm import Comm
from arboost.runtime.context import Context, resolve_threads
from arboost.runtime.errors import XGBoostError, type_name
from arboost.runtime.memory import check_room

DEFAULT_MAX_BIN = 256
_NAMES_SHOWN = 6  # of the features, in a notebook
BUNDLE_AND_SPARSE = (True, True)  # enable_bundle and keep_sparse of a QuantileDMatrix's page


class DataSplitMode(IntEnum):
    """How the workers of a distributed job share the data."""

    ROW = 0
    COL = 1


class DMatrix:
    """Data for training and prediction.

    The data is kept by reference, not copied: do not change the array while the DMatrix is in use.

    Parameters
    ----------
    data
        NumPy array of any real dtype, nested list, data frame (pandas, polars, pyarrow or anything with Arrow's or the
        interchange protocol), or SciPy sparse matrix, whose absent entries are missing values. Also structured arrays
        (fields are features), masked arrays (masked is missing), tensors (also on a GPU), a `DataIter`, which is read
        anew at every use (bins go to disk if it has a `cache_prefix`), and the path of a local file: Parquet, CSV (with
        a header: feature names), libsvm or what `save_binary` wrote, told by its suffix or first bytes or given as in
        "train.txt?format=csv&label_column=0".
    label
        Label of every row; (n_rows, K) for several targets. For a Parquet or CSV file this, like weight, base_margin,
        qid and the bounds, may be the name of a column (or a list of names), which is then no feature.
    weight
        Weight of every row, or of every group where the rows are grouped.
    base_margin
        Margin from which boosting starts, for every row (and target).
    missing
        Value that means "missing" besides NaN.
    silent
        Accepted for compatibility.
    feature_names
        Names of the features; by default a DataFrame's column names. Of Parquet the columns that are features, if not
        all.
    feature_types
        Types of the features: int, float, i (indicator), q (quantitative) or c (categories, as codes 0, 1, 2, ...); or
        the `get_categories()` of a model or another matrix, whose codes this data shall have.
    nthread
        Threads for reading the data; None for all that the process may use.
    group
        Sizes of the groups of rows, for ranking.
    qid
        Group id of every row, not decreasing, for ranking.
    label_lower_bound, label_upper_bound
        Bounds of a censored label.
    feature_weights
        Weights with which features are sampled.
    enable_categorical
        Whether a frame may have columns of categories, of any type; without it they are an error.
    data_split_mode
        Only `DataSplitMode.ROW`.
    memory_budget
        Bytes that a training on data from Parquet or a `DataIter` may take, also as "4GB"; if it needs more, bins are
        kept on disk. None: that of `set_config`, else three quarters of what the machine and the cgroup leave.
    cache_prefix
        Keep bins on disk in any case, and where: what the names of their files begin with, path and all; a folder; or
        a list of these.
    """

    _room: Room | None = None  # of data that can be read again; None: nothing is to be chosen
    _cache: PageCache | None = None  # where pages go; None: there is one, in memory

    @positional_with_warning
    def __init__(
        self,
        data: Any,
        label: Any | None = None,
        *,
        weight: Any | None = None,
        base_margin: Any | None = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        nthread: int | None = None,
        group: Any | None = None,
        qid: Any | None = None,
        label_lower_bound: Any | None = None,
        label_upper_bound: Any | None = None,
        feature_weights: Any | None = None,
        enable_categorical: bool = False,
        data_split_mode: DataSplitMode = DataSplitMode.ROW,
        memory_budget: int | str | None = None,
        cache_prefix: Any | None = None,
    ) -> None:
        _check_split_mode(data_split_mode)
        if group is not None and qid is not None:
            raise XGBoostError("Either one of `group` or `qid` should be None.")
        ctx = Context(n_threads=resolve_threads(nthread))
        fields = {
            "label": label, "weight": weight, "base_margin": base_margin, "group": group, "qid": qid,
            "label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
        }  # fmt: skip
        if isinstance(data, DataIter):
            types = None if isinstance(feature_types, Categories) else feature_types
            _check_all_none(fields | {"feature_names": feature_names, "feature_types": types})
            read = batches_of(data, missing)
            cache = cache_of(data)
            self._room = Room.of(memory_budget, replace(cache, cache_prefix=cache_prefix or cache.cache_prefix))
            raw, fields = read_batches(read, ctx, missing)
        elif files.is_source(data):
            self._room = Room.of(memory_budget, PageCache(cache_prefix))
            raw, fields = files.read_file(data, missing, fields, ctx, self._keeps_values, feature_names)
        else:
            if cache_prefix or memory_budget is not None:
                self._room = Room.of(memory_budget, PageCache(cache_prefix))
            raw = adapt(data, missing)
        _check_categorical(raw, enable_categorical or raw.has_own_types)
        if isinstance(feature_types, Categories):
            wanted, feature_types = feature_types.stored(), None
            raw = recode(raw, wanted)
            if raw.categories is not None and not wanted.empty():
                raw.categories = wanted  # also where the data has the first of them only, and its codes stay
        self._begin(raw, replace(ctx, device=raw.device_name) if isinstance(raw, DeviceData) else ctx)
        if self._room is not None and self._room.wants_disk and not isinstance(self, BinsOnly):
            self._cache = self._room.cache
        self.is_frame = raw.is_frame and feature_names is None
        self.set_info(
            feature_names=raw.feature_names if feature_names is None else feature_names,
            feature_types=raw.feature_types if feature_types is None else feature_types,
            **fields,
        )

    n_permutations = 1  # versions of the data that rounds are drawn from: see `matrix/statistics.py`

    def permuted(self, permutation: int) -> "DMatrix":
        """One of the versions."""
        return self

    def _begin(self, raw: RawData, ctx: Context) -> None:
        raw.n_threads = ctx.n_threads
        self.raw: RawData | None = raw
        self.info = MetaInfo(raw.n_rows, raw.n_features)
        self._ctx = ctx
        self._n_nonmissing = int(raw.scan(ctx).sum())
        self._categories = raw.categories
        self.is_frame = raw.is_frame  # columns may be put in order by their names
        self._order: list[int] | None = None  # of the columns of the matrix that this one was made from
        self._aligned: tuple[Categories | None, tuple, DMatrix | None] | None = None
        self._bins: BinnedPage | StoredPages | None = None  # of a matrix that keeps no `raw`
        self._cache = None
        # What is made on demand is put in place whole: threads that train on one matrix may make it side by side.
        self._page_of_kind: tuple[tuple[int, bool, bool, str, Comm], BinnedPage] | None = None
        self._stored: tuple[tuple[int, Comm], StoredPages] | None = None
        self._cuts: tuple[tuple[int, Comm], Cuts] | None = None
        self._sorted: SortedPage | None = None
        self._proposed_bins = 0  # of the trees that propose their own candidates; 0: there are none

    # ---- what the engine reads ----

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first_row, values): float32 C-ordered, NaN = missing, valid until the next chunk is asked for."""
        source = self._bins if self.raw is None else self.raw
        assert source is not None
        return source.chunks(rows)

    def chunks_for(self, ctx: Context) -> Iterator[tuple[int, Any]]:
        """`chunks`, but one array of the context's device where the values lie there."""
        return self.chunks() if self.raw is None else self.raw.chunks_for(ctx)

    def binned(self, ctx: Context, max_bin: int, enable_bundle: bool = False, keep_sparse: bool = False) -> BinnedPage:
        """The data as bins, made on the first call and kept until another kind of page is asked for or a weight is set.

        Parameters
        ----------
        ctx
            Threads and communicator.
        max_bin
            Bins per feature.
        enable_bundle
            Whether exclusive features may share a column.
        keep_sparse
            Whether features of sparse data that have few entries are kept by these.
        """
        kind, kept = (max_bin, enable_bundle, keep_sparse, ctx.device, ctx.comm), self._page_of_kind
        if kept is not None and kept[0] == kind:
            return kept[1]
        assert self.raw is not None
        sent = values_on(ctx, self.raw, self.feature_types)  # once, for cuts and bins
        cuts = self._cuts_for(ctx, max_bin)
        kept = self._page_of_kind = None  # before the next one takes its memory
        page = make_binned(ctx, self.raw, cuts, enable_bundle, keep_sparse)
        del sent
        self._page_of_kind = (kind, page)
        return page

    def pages(
        self, ctx: Context, max_bin: int, enable_bundle: bool = False, keep_sparse: bool = False
    ) -> Sequence[BinnedPage]:
        """The data as bins, on one page after the other; see `binned`, which has them all on one."""
        if self._cache is None:
            return [self.binned(ctx, max_bin, enable_bundle, keep_sparse)]
        kind, kept = (max_bin, ctx.comm), self._stored
        if kept is not None and kept[0] == kind:
            return kept[1]
        assert self.raw is not None
        cuts = self._cuts_for(ctx, max_bin)
        kept = self._stored = None  # before the next ones take their room on disk
        pages = store_pages(ctx, self.raw, cuts, self._cache)
        self._stored = (kind, pages)
        return pages

    @property
    def kept_cuts(self) -> Cuts | None:
        """Where the bins begin and end that were made last."""
        kept = self._cuts
        return self._bins.cuts if self._bins is not None else None if kept is None else kept[1]

    def stand_in(self, ctx: Context, cuts: Cuts | None, max_bin: int) -> BinnedPage | StoredPages | None:
        """Bins by the cuts of other data: as good as values to trees that split at these, and read from no source.

        None where values are at hand, or are codes of categories; and where there is no room for bins.
        """
        raw = self.raw
        if cuts is None or raw is None or not raw.is_streamed or raw.is_at_hand or raw.is_small:
            return None
        if "c" in (self.feature_types or ()):
            return None
        try:
            self.make_room(max_bin=max_bin)
            if self._cache is None:
                return make_binned(ctx.alone(), raw, cuts)
            return store_pages(ctx.alone(), raw, cuts, self._cache)
        except XGBoostError:  # no room in memory, or on disk
            return None

    def make_room(self, **asked: Any) -> None:
        """Choose memory or disk for the bins of a training, unless they are made already; see `Room.place_bins`."""
        room, raw, is_made = self._room, self.raw, (self._stored or self._page_of_kind) is not None
        if room is None or raw is None or is_made or not (raw.is_streamed or room.wants_disk):
            return
        asked |= {"n_label_columns": max(1, self.info.n_label_columns), "has_weight": self.info.weight is not None}
        self._cache = room.place_bins(raw.n_rows, raw.n_features, **asked)

    def _keeps_values(self, n_rows: int, n_features: int) -> bool:
        """Whether so many values from a file are kept in memory."""
        return self._room is None or self._room.holds_values(n_rows, n_features)

    def keep_on_disk(self, cache: PageCache | None) -> None:
        """From now on `pages` lie where `cache` says, whatever the budget; None: in memory, all on one."""
        self._cache, self._room = cache, None
        self._page_of_kind = self._stored = None

    def _cuts_for(self, ctx: Context, max_bin: int) -> Cuts:
        """Where the bins begin and end: kept, whatever the page that is made of them looks like."""
        kept = self._cuts
        if kept is None or kept[0] != (max_bin, ctx.comm):
            assert self.raw is not None
            cuts = make_cuts(ctx, self.raw, self.info.row_weight(), max_bin, self.feature_types)
            kept = self._cuts = ((max_bin, ctx.comm), cuts)
        return kept[1]

    def sorted(self, ctx: Context, proposed_bins: int = 0) -> SortedPage:
        """The data as sorted columns, made on the first call and kept; `proposed_bins`: for `get_quantile_cut`."""
        self._proposed_bins = proposed_bins or self._proposed_bins
        if self._sorted is None:
            if self.raw is None:
                raise XGBoostError(
                    f"{type(self).__name__} holds bins only: tree_method `exact` and `approx` need the values. Use "
                    "DMatrix."
                )
            self._sorted = make_sorted(ctx, self.raw)
        return self._sorted

    def agree(self, ctx: Context, training: Mapping[str, Mapping[str, str]] | None = None) -> int:
        """Make sure that this share and those of all other workers are one data set; all must call this.

        `training` is what else must be alike, as texts by name. Returns the number of rows of all workers.
        """
        return agree(ctx, self.info, self._categories, None if self._bins is None else self._bins.cuts, training)

    def aligned(
        self, names: Sequence[str] | None, categories: Categories | None, unseen: str = "missing", n_features: int = 0
    ) -> "DMatrix":
        """This data with the columns and codes of a model; itself where it has them already.

        Parameters
        ----------
        names
            Names of the model's features. Data from a frame that has the same in another order is put in order.
        categories
            The model's categories. Data that has none is taken to have the model's codes.
        unseen
            What becomes of categories that the model does not know: "missing" or "error".
        n_features
            How many features the model has. A sparse table without names may lack the last ones: nobody tells it of
            features that no row has an entry of, as in a libsvm file.
        """
        kept, key = self._aligned, (names, self.feature_names, unseen, n_features)
        if kept is None or kept[0] is not categories or kept[1] != key:
            kept = self._aligned = (categories, key, self._align(names, categories, unseen, n_features))
        twin = kept[2]
        if twin is None:
            return self
        twin.info = self.info if twin._order is None else self.info.select(twin._order)
        if twin.raw is not None and twin.raw.n_features > self.num_col():
            twin.info = self.info.widened(twin.raw.n_features)
        return twin

    def _align(
        self, names: Sequence[str] | None, categories: Categories | None, unseen: str, n_features: int
    ) -> "DMatrix | None":
        """The data in other columns or codes, None if it has them already."""
        order = find_order(self.feature_names, names) if self.is_frame else None
        source = wider = self._bins if self.raw is None else self.raw
        if isinstance(source, SparseData) and self.feature_names is None and source.n_features < n_features:
            wider = source.widened(n_features)
        changed = align(wider, order, self.categories, categories, unseen, names or self.feature_names)
        if changed is source:
            return None
        twin = DMatrix.__new__(DMatrix)
        twin._begin(changed, self._ctx)
        twin._order = order
        twin._room, twin._cache = self._room, self._cache
        return twin

    # ---- meta information ----

    @positional_with_warning
    def set_info(
        self,
        *,
        label: Any | None = None,
        weight: Any | None = None,
        base_margin: Any | None = None,
        group: Any | None = None,
        qid: Any | None = None,
        label_lower_bound: Any | None = None,
        label_upper_bound: Any | None = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any | None = None,
    ) -> None:
        """Set any of the meta information; what is None stays as it is."""
        fields = {
            "label": label, "group": group, "qid": qid, "base_margin": base_margin,
            "label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound,
            "feature_weights": feature_weights,
        }  # fmt: skip
        for field, data in fields.items():
            if data is not None:
                self.info.set(field, data)
        if weight is not None:
            self.set_weight(weight)
        if feature_names is not None:
            self.feature_names = feature_names
        if feature_types is not None:
            self.feature_types = feature_types

    def set_label(self, label: Any) -> None:
        """Set the label of every row."""
        self.set_info(label=label)

    def set_weight(self, weight: Any) -> None:
        """Set the weight of every row (or group)."""
        if weight is not None:
            self.info.set("weight", weight)
            self._forget_bins()

    def set_base_margin(self, margin: Any) -> None:
        """Set the margin from which boosting starts."""
        self.set_info(base_margin=margin)

    def set_group(self, group: Any) -> None:
        """Set the sizes of the groups of rows."""
        self.set_info(group=group)

    def set_float_info(self, field: str, data: Any) -> None:
        """Set a field by name."""
        self.info.set(field, data)
        if field == "weight":
            self._forget_bins()

    def set_float_info_npy2d(self, field: str, data: Any) -> None:
        """Set a field by name from an array of one or two dimensions."""
        self.set_float_info(field, data)

    def set_uint_info(self, field: str, data: Any) -> None:
        """Set a field by name."""
        self.set_float_info(field, data)

    def get_float_info(self, field: str) -> np.ndarray:
        """A field by name; empty if it was not set."""
        return self.info.get(field)

    def get_uint_info(self, field: str) -> np.ndarray:
        """A field by name, such as `group_ptr`; empty if it was not set."""
        return self.info.get(field)

    def get_label(self) -> np.ndarray:
        """Label of every row, empty if it was not set."""
        return self.info.get("label")

    def get_weight(self) -> np.ndarray:
        """Weight of every row, empty if it was not set."""
        return self.info.get("weight")

    def get_base_margin(self) -> np.ndarray:
        """Margin from which boosting starts, empty if it was not set."""
        return self.info.get("base_margin")

    def get_group(self) -> np.ndarray:
        """Sizes of the groups, empty if there are none."""
        return np.diff(self.info.get("group_ptr"))

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, or None."""
        return self.info.feature_names

    @feature_names.setter
    def feature_names(self, feature_names: Sequence[str] | None) -> None:
        self.info.feature_names = feature_names

    @property
    def categories(self) -> Categories | None:
        """What the codes of the categorical features stand for; None for codes that the user has made."""
        types = self.info.feature_types
        if self._categories is None or types is None:
            return self._categories
        values = [v if kind == "c" else None for v, kind in zip(self._categories.values, types, strict=True)]
        return Categories(values, self.feature_names)

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """The categories of the data, which can be passed as `feature_types` of another matrix to give it their codes.

        Parameters
        ----------
        export_to_arrow
            Whether `to_arrow` of the result answers: (name, pyarrow array of categories or None) of every feature.
        """
        return get_categories(self.categories, self.feature_names, self.num_col(), export_to_arrow)

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the features, or None."""
        return self.info.feature_types

    @feature_types.setter
    def feature_types(self, feature_types: Sequence[str] | None) -> None:
        self.info.feature_types = feature_types

    # ---- the data ----

    def num_row(self) -> int:
        """Number of rows."""
        return self.info.n_rows

    def num_col(self) -> int:
        """Number of features."""
        return self.info.n_features

    def num_nonmissing(self) -> int:
        """Number of values that are not missing."""
        return self._n_nonmissing

    def data_split_mode(self) -> DataSplitMode:
        """How the data is shared among workers: always by rows."""
        return DataSplitMode.ROW

    def get_data(self) -> scipy.sparse.csr_matrix:
        """The values that are not missing, as float32 CSR."""
        values, columns, counts = [], [], [np.zeros(1, np.int64)]
        for _, chunk in self.chunks(max(1, (1 << 20) // max(1, self.num_col()))):
            present = ~np.isnan(chunk)
            values.append(chunk[present])
            columns.append(np.nonzero(present)[1].astype(np.int32))
            counts.append(present.sum(axis=1))
        arrays = (_concatenate(values, np.float32), _concatenate(columns, np.int32), np.cumsum(np.concatenate(counts)))
        return scipy.sparse.csr_matrix(arrays, shape=(self.num_row(), self.num_col()))

    def get_quantile_cut(self) -> tuple[np.ndarray, np.ndarray]:
        """(offsets, cuts) of the bins that training made.

        A feature's cuts begin with a value below its minimum; those of categories are their codes. After training with
        `approx` they are those of its first tree, where all rows weigh alike.
        """
        if self._bins is None and self._cuts is None and self._proposed_bins:
            self._cuts_for(self._ctx, self._proposed_bins)
        cuts = self.kept_cuts
        if cuts is None:
            raise XGBoostError(
                "The quantile cut hasn't been generated yet. Unless this is a `QuantileDMatrix`, quantile cut is "
                "generated during training."
            )
        parts = [
            np.arange(b - a, dtype=np.float32) if is_category else np.append(low, cuts.values[a:b])
            for a, b, low, is_category in zip(
                cuts.ptr, cuts.ptr[1:], cuts.min_values, cuts.is_categorical, strict=False
            )
        ]
        sizes = [len(part) for part in parts]
        return np.append(0, np.cumsum(sizes)).astype(np.uint64), _concatenate(parts, np.float32)

    def save_binary(self, fname: str | os.PathLike, silent: bool = True) -> None:
        """Write the data with all that was set to a file that `DMatrix(fname)` reads.

        Parameters
        ----------
        fname
            Path of the file. Its format is this library's own.
        silent
            Accepted for compatibility.
        """
        if self.raw is None:
            raise XGBoostError(f"binary saving only supported by DMatrix: {type(self).__name__} has let its data go.")
        saved.save(os.fsdecode(fname), self.raw, self.info, self._categories)

    def slice(self, rindex: Any, allow_groups: bool = False) -> "DMatrix":
        """A DMatrix of some of the rows.

        Parameters
        ----------
        rindex
            Row numbers, in any order and as often as wanted, or a boolean mask over all rows.
        allow_groups
            Whether data with groups may be sliced; the groups are dropped.
        """
        if self.raw is None:
            raise XGBoostError(f"Slicing is not supported for {type(self).__name__}: slice the data or use DMatrix.")
        if self.info.group_ptr is not None and not allow_groups:
            raise XGBoostError("slice does not support group structure; pass allow_groups=True to drop it.")
        rows = _row_numbers(rindex, self.num_row())
        part = DMatrix.__new__(DMatrix)
        part._begin(self.raw.take(rows), self._ctx)
        part.info = self.info.take(rows)
        part._categories, part.is_frame = self._categories, self.is_frame
        return part

    def _repr_html_(self) -> str:
        return make_card(type(self).__name__, f"{self.num_row():,} rows x {self.num_col():,} features", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What is in the matrix, for its card."""
        info = self.info
        n_values = max(1, self.num_row() * self.num_col())
        facts = [("missing", f"{1.0 - self._n_nonmissing / n_values:.2%}")]
        if info.feature_types is not None and "c" in info.feature_types:
            facts.append(("categorical", f"{info.feature_types.count('c'):,} of {self.num_col():,} features"))
        if info.feature_names is not None:
            shown = info.feature_names[:_NAMES_SHOWN]
            facts.append(("features", ", ".join(shown) + (", …" if self.num_col() > len(shown) else "")))
        if info.label is not None:
            label = info.label
            columns = "" if label.ndim == 1 else f"{label.shape[1]} columns, "
            facts.append(("label", f"{columns}{np.nanmin(label):.6g} to {np.nanmax(label):.6g}"))
        if info.group_ptr is not None:
            facts.append(("groups", f"{len(info.group_ptr) - 1:,}"))
        others = ("weight", "base_margin", "label_lower_bound", "label_upper_bound", "feature_weights")
        given = [name for name in others if getattr(info, name) is not None]
        return [*facts, ("also given", ", ".join(given))] if given else facts

    def _forget_bins(self) -> None:
        """Cuts depend on the weights."""
        self._page_of_kind = self._stored = None
        self._cuts = None
        self._aligned = None


class BinsOnly(DMatrix):
    """What the matrices have in common that make bins at once and let the data go."""

    max_bin: int
    _ref: "weakref.ReferenceType[DMatrix] | None" = None

    @property
    def ref(self) -> "weakref.ReferenceType[DMatrix] | None":
        """Weak reference to the data set whose bins are used, or None."""
        return self._ref

    def _check_bins(self, max_bin: int | None, ref: DMatrix | None) -> None:
        """Take the number of bins, and refuse what cannot be one, or no matrix."""
        self.max_bin = DEFAULT_MAX_BIN if max_bin is None else _whole_number("max_bin", max_bin)
        check_max_bin(self.max_bin)
        if ref is not None and not isinstance(ref, DMatrix):
            raise TypeError(f"`ref` must be a DMatrix of arboost, got {type_name(ref)}.")

    def _let_go(self, ref: DMatrix | None) -> None:
        """Make bins, with the cuts of `ref` or with own ones, and let the data go."""
        self._ref = None if ref is None else weakref.ref(ref)
        self.agree(self._ctx)
        if ref is not None:
            self._align_to(ref)
        assert self.raw is not None
        self._bins = self._bin(self.raw, self._own_cuts() if ref is None else self._cuts_of(ref))
        self.raw = None

    def _bin(self, raw: RawData, cuts: Cuts) -> BinnedPage | StoredPages:
        raise NotImplementedError

    def _keeps_values(self, n_rows: int, n_features: int) -> bool:
        return False

    def _check_same(self, max_bin: int) -> None:
        """Refuse another number of bins than there is."""
        if max_bin != self.max_bin:
            raise XGBoostError(_max_bin_message(max_bin, self.max_bin))

    def _cuts_for(self, ctx: Context, max_bin: int) -> Cuts:
        self._check_same(max_bin)
        assert self._bins is not None
        return self._bins.cuts

    def _own_cuts(self) -> Cuts:
        if self.num_col() == 0:
            raise XGBoostError("Data must have at least 1 column.")
        assert self.raw is not None
        return make_cuts(self._ctx, self.raw, self.info.row_weight(), self.max_bin, self.feature_types)

    def _align_to(self, ref: DMatrix) -> None:
        """Bins of categories are their codes, so they must be those of `ref`; columns of frames take its order too."""
        twin = self.aligned(ref.feature_names, ref.categories)
        self.raw, self.info, self._aligned = twin.raw, twin.info, None
        self._categories = ref.categories if self._categories is not None else None

    def _cuts_of(self, ref: DMatrix) -> Cuts:
        if ref.num_col() != self.num_col():
            raise XGBoostError(
                "Invalid ref DMatrix, different number of features. The data has "
                f"{self.num_col()}, `ref` has {ref.num_col()}."
            )
        return ref._cuts_for(self._ctx, self.max_bin)

    def _forget_bins(self) -> None:
        """The data is gone: bins stay."""
        self._aligned = None


class QuantileDMatrix(BinsOnly):
    """Data for training with `tree_method="hist"`, stored as bins only: the user's data is not kept.

    Workers that train together make theirs together: the bins are those of all their rows.

    Parameters
    ----------
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, nthread
        See `DMatrix`. A `DataIter` or a Parquet file is read batch by batch, never held whole.
    max_bin
        Bins per feature, 256 by default; training must use the same.
    ref
        Data set whose bins are used, usually the training data when this is for evaluation.
    group, qid, label_lower_bound, label_upper_bound, feature_weights, enable_categorical
        See `DMatrix`.
    max_quantile_batches
        Accepted for compatibility.
    data_split_mode
        Only `DataSplitMode.ROW`.
    """

    @positional_with_warning
    def __init__(
        self,
        data: Any,
        label: Any | None = None,
        *,
        weight: Any | None = None,
        base_margin: Any | None = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        group: Any | None = None,
        qid: Any | None = None,
        label_lower_bound: Any | None = None,
        label_upper_bound: Any | None = None,
        feature_weights: Any | None = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
        data_split_mode: DataSplitMode = DataSplitMode.ROW,
    ) -> None:
        self._check_bins(max_bin, ref)
        super().__init__(
            data, label, weight=weight, base_margin=base_margin, missing=missing, silent=silent,
            feature_names=feature_names, feature_types=feature_types, nthread=nthread, group=group, qid=qid,
            label_lower_bound=label_lower_bound, label_upper_bound=label_upper_bound,
            feature_weights=feature_weights, enable_categorical=enable_categorical, data_split_mode=data_split_mode,
        )  # fmt: skip
        self._plain_page: BinnedPage | None = None
        self._let_go(ref)

    def binned(self, ctx: Context, max_bin: int, enable_bundle: bool = False, keep_sparse: bool = False) -> BinnedPage:
        """The bins made at construction, taken apart if they must not be bundled; refuses any other `max_bin`."""
        self._check_same(max_bin)
        page = self._bins
        assert isinstance(page, BinnedPage)
        has_shared = page.bundles is not None and bool(page.bundles.is_shared.any())
        if (enable_bundle or not has_shared) and (keep_sparse or page.sparse is None):
            return page
        if self._plain_page is None:
            self._plain_page = page.unbundled(ctx)
        return self._plain_page

    def _bin(self, raw: RawData, cuts: Cuts) -> BinnedPage:
        if raw.is_streamed:  # which may be larger than memory
            what = f"A QuantileDMatrix of {raw.n_rows:,} rows x {raw.n_features:,} features"
            n_bytes = raw.n_rows * bytes_of_row(raw.n_features, self.max_bin)
            check_room(n_bytes, what, "DMatrix and ExtMemQuantileDMatrix keep bins on disk where they do not fit.")
        return make_binned(self._ctx, raw, cuts, *BUNDLE_AND_SPARSE)


def cache_of(source: DataIter) -> PageCache:
    """Where the pages of an iterator's rows go."""
    n_bytes = source.min_cache_page_bytes
    if n_bytes is not None and _whole_number("min_cache_page_bytes", n_bytes) < 0:
        raise XGBoostError(f"`min_cache_page_bytes` must not be negative, got {n_bytes}.")
    return PageCache(source.cache_prefix, page_bytes=n_bytes or None)


def _max_bin_message(wanted: int, made: int) -> str:
    return (
        f"Inconsistent `max_bin` ({wanted} vs. {made}). `max_bin` should be the same across different QuantileDMatrix, "
        "and consistent with the Booster being trained."
    )


def _check_split_mode(mode: Any) -> None:
    if int(mode) != DataSplitMode.ROW:
        raise XGBoostError("Only data_split_mode=DataSplitMode.ROW is supported: workers share the data by rows.")


def _check_all_none(arguments: dict[str, Any]) -> None:
    """What belongs to the rows comes with them."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise XGBoostError(
            "If data iterator is used as input, data like label should be specified as batch argument: pass "
            f"{', '.join(given)} to `input_data`."
        )


def _check_categorical(raw: RawData, enable_categorical: bool) -> None:
    """Columns of categories must be asked for."""
    if raw.categories is None or enable_categorical:
        return
    names = raw.feature_names or [str(f) for f in range(raw.n_features)]
    found = [name for name, values in zip(names, raw.categories.values, strict=True) if values is not None]
    raise XGBoostError(
        "DataFrame.dtypes for data must be int, float, bool or category. When categorical type is supplied, the "
        f"DMatrix parameter `enable_categorical` must be set to `True`. Invalid columns: {': category, '.join(found)}"
        ": category"
    )


def _whole_number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise XGBoostError(f"Invalid type for: `{name}`, expecting an integer, got: {value!r}.")
    return int(value)


def _row_numbers(rindex: Any, n_rows: int) -> np.ndarray:
    rows = np.asarray(rindex)
    if rows.ndim != 1:
        raise XGBoostError(f"rindex must have one dimension, got shape {rows.shape}.")
    if rows.dtype == np.bool_:
        if len(rows) != n_rows:
            raise XGBoostError(f"A boolean rindex needs one value per row: {len(rows)} values for {n_rows} rows.")
        return np.flatnonzero(rows)
    rows = rows.astype(np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= n_rows):
        raise XGBoostError(f"rindex has row numbers outside of 0..{n_rows - 1}.")
    return rows


def _concatenate(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
