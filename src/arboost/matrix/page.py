"""The training matrix as bins, in two layouts: rows for histograms, columns for partitioning.

    words   (n_rows, n_words) uint64    one row = its codes, padded with 0 to whole 8-byte words
    columns (n_columns, n_rows)         one column = one contiguous run

Bins are uint8 (missing 255) while every feature fits, else uint16 (missing 65535). A feature has a column of its own
whose codes are its bins, unless `bundles` says otherwise: exclusive features may share a column, and features of sparse
data with few entries may have none, but lie in `sparse`. Absent entries are missing, stored zeros are values.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from arboost.kernels.ops import binning, bundle, counting, paging
from arboost.matrix import bundles as bundling
from arboost.matrix.adapt import CHUNK_VALUES, DenseData, RawData, SparseData, even_spans, take_rows
from arboost.matrix.bundles import Bundles, Meets, SparseBins, StoredBins
from arboost.matrix.cuts import Cuts, keys_of_values
from arboost.matrix.on_device import values_on
from arboost.runtime.context import Context

_ROW_GRAIN = 4096
_TABLE_CELLS = 1 << 22  # cells of all features' search tables together (8 to 16 MiB), within
_MIN_CELLS, _MAX_CELLS = 256, 1 << 14  # these bounds for one feature
_ROW_CELLS = 1 << 18  # the same where rows are binned one by one: tables of all features stay in cache
_TILE_FEATURES = 1 << 12  # features of sparse data binned at a time, so that their search tables stay small
_Search = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class BinnedPage:
    """Bins of a range of rows. `cuts.has_missing` tells where the missing code can occur."""

    cuts: Cuts
    words: np.ndarray
    columns: np.ndarray
    bundles: Bundles | None = None  # None: column f is feature f
    sparse: SparseBins | None = None  # the features whose bundles.column is -1
    first_row: int = 0  # where the rows lie among those of all pages

    @property
    def n_rows(self) -> int:
        return self.columns.shape[1]

    @property
    def n_features(self) -> int:
        return self.cuts.n_features

    @property
    def n_columns(self) -> int:
        """Columns that are stored: fewer than features where these share some, or are sparse."""
        return self.columns.shape[0]

    @property
    def n_words(self) -> int:
        return self.words.shape[1]

    @property
    def bin_dtype(self) -> np.dtype:
        return self.columns.dtype

    @property
    def missing_code(self) -> int:
        return int(np.iinfo(self.bin_dtype).max)

    @property
    def n_bins(self) -> np.ndarray:
        return self.cuts.n_bins

    @property
    def nbytes(self) -> int:
        """Bytes of all bins."""
        return self.words.nbytes + self.columns.nbytes + (self.sparse.nbytes if self.sparse else 0)

    def write_column(self, ctx: Context, f: int, out: np.ndarray) -> None:
        """Write feature f's bins of all rows, however it is stored, to `out` (n_rows,) of `bin_dtype`."""
        bundles = self.bundles
        if bundles is None or bundles.unstored[f] == bundle.PLAIN:
            np.copyto(out, self.columns[f if bundles is None else bundles.column[f]])
        elif bundles.column[f] >= 0:
            bins = bundles.bin_of_code(f, int(self.n_bins[f]), self.missing_code).astype(self.bin_dtype)
            column = self.columns[bundles.column[f]]
            ctx.run_ranges(self.n_rows, 1 << 16, bundle.decode_column, column, bins, out)
        else:
            assert self.sparse is not None
            s = int(np.searchsorted(self.sparse.features, f))
            entries = slice(self.sparse.col_ptr[s], self.sparse.col_ptr[s + 1])
            out.fill(self.missing_code)
            out[self.sparse.col_rows[entries]] = self.sparse.col_bins[entries]

    def unbundled(self, ctx: Context) -> "BinnedPage":
        """The same bins with a column for every feature; itself where that is so."""
        if self.bundles is None:
            return self
        page = _empty_page(self.n_rows, self.cuts, self.bin_dtype, None)
        for f in range(self.n_features):
            self.write_column(ctx, f, page.columns[f])
        _fill_words(ctx, page)
        return page

    def take(self, rows: np.ndarray) -> DenseData:
        """The given rows as data of their own, with the values of `chunks`."""
        return DenseData(take_rows(self.chunks(), rows, self.n_features))

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first_row, float32 values) with each value replaced by its bin's lower bound, NaN for missing."""
        step = rows or max(1, CHUNK_VALUES // max(1, self.n_features))
        if self.bundles is None:
            yield from self._plain_chunks(step)
            return
        tables = [self._value_of_code(f) for f in range(self.n_features)] if self.n_rows else []
        for first in range(0, self.n_rows, step):
            codes = self.columns[:, first : first + step]
            values = np.empty((codes.shape[1], self.n_features), np.float32)
            for f, table in enumerate(tables):
                if table is not None:
                    column = codes[self.bundles.column[f]]
                    values[:, f] = table[np.minimum(column, len(table) - 1)]
            if self.sparse is not None:
                self._write_sparse(self.sparse, first, values)
            yield first, values

    def _plain_chunks(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """`chunks` where every feature has a column of its own: only words are looked at."""
        bounds = [self._lower_bounds(f) for f in range(self.n_features)] if self.n_rows else []
        last = np.array([len(low) - 1 for low in bounds], np.int64)
        lows = np.full((len(bounds), int(last.max(initial=0)) + 1), np.nan, np.float32)
        for table, low in zip(lows, bounds, strict=True):
            table[: len(low)] = low
        codes = self.words.view(self.bin_dtype)
        for first in range(0, self.n_rows, step):
            values = np.empty((min(step, self.n_rows - first), self.n_features), np.float32)
            paging.values_of_bins(codes[first : first + step], lows, last, values, 0, len(values))
            yield first, values

    def _value_of_code(self, f: int) -> np.ndarray | None:
        """Lower bounds for the codes of feature f's column, the last also for all above; None where it has none."""
        bounds = self._lower_bounds(f)
        assert self.bundles is not None
        if self.bundles.unstored[f] == bundle.PLAIN:
            return bounds
        if self.bundles.column[f] < 0:
            return None
        bins = self.bundles.bin_of_code(f, int(self.n_bins[f]), self.missing_code)
        return bounds[np.minimum(bins, len(bounds) - 1)]

    def _write_sparse(self, sparse: SparseBins, first: int, values: np.ndarray) -> None:
        """Lower bounds of the sparse features in the rows from `first` on."""
        stop = first + len(values)
        slots = sparse.slots[sparse.row_ptr[first] : sparse.row_ptr[stop]].astype(np.int64)
        rows = np.repeat(np.arange(len(values)), np.diff(sparse.row_ptr[first : stop + 1]))
        which = np.searchsorted(sparse.slot_ptr, slots, side="right") - 1
        cuts, f = self.cuts, sparse.features[which]
        bins = slots - sparse.slot_ptr[which]
        values[:, sparse.features] = np.nan
        values[rows, f] = np.where(bins == 0, cuts.min_values[f], cuts.values[np.maximum(cuts.ptr[f] + bins - 1, 0)])

    def _lower_bounds(self, f: int) -> np.ndarray:
        """Lower bound of every bin of feature f, and NaN, which the missing code is cut down to."""
        inner = self.cuts.values[self.cuts.ptr[f] : self.cuts.ptr[f + 1] - 1]
        missing = [np.nan] if self.cuts.has_missing[f] else []
        return np.concatenate([self.cuts.min_values[f : f + 1], inner, missing]).astype(np.float32)


def make_binned(
    ctx: Context, raw: RawData, cuts: Cuts, enable_bundle: bool = False, keep_sparse: bool = False
) -> BinnedPage:
    """Bins of all rows of `raw`.

    Parameters
    ----------
    ctx
        Threads and communicator: all workers have bins of the same type.
    raw
        The data. What a sparse matrix does not store is missing; what it stores is a value, 0 too.
    cuts
        Where bins begin and end.
    enable_bundle
        Whether exclusive features may share a column.
    keep_sparse
        Whether features of sparse data that have few entries are kept by these: memory in proportion to the entries.
    """
    cuts, dtype = _fit_bins(ctx, raw, cuts)
    if isinstance(raw, SparseData):
        return _bin_sparse(ctx, raw, cuts, dtype, enable_bundle, bundling.MIN_SHARE if keep_sparse else 0.0)
    values = values_on(ctx, raw, ["c"] if cuts.is_categorical.any() else None)
    if values is not None:
        return values.bins(cuts, dtype)
    search = _search_table(ctx, cuts, raw.n_rows)
    if enable_bundle and not raw.is_streamed and raw.n_rows * raw.n_features >= bundling.MIN_CELLS:
        page = _bin_bundled(ctx, raw, cuts, dtype, search)
        if page is not None:
            return page
    page = _empty_page(raw.n_rows, cuts, dtype, None)
    _bin_plain(ctx, raw, search, page)
    return page


def _fit_bins(ctx: Context, raw: RawData, cuts: Cuts) -> tuple[Cuts, np.dtype]:
    """The cuts, with what is missing in the data too, and the type that its bins need on all workers."""
    is_missing = ctx.comm.allreduce_max((raw.scan(ctx) < raw.n_rows).astype(np.int64)) > 0
    cuts = replace(cuts, has_missing=cuts.has_missing | is_missing)
    # The missing code must not be a bin of a feature that has missing values; nor a category: a split by a set sends
    # missing values to a side of their own, whether or not there are any.
    is_small = int((cuts.n_bins + (cuts.has_missing | cuts.is_categorical)).max(initial=0)) <= 256
    return cuts, np.dtype(np.uint8 if is_small else np.uint16)


class PageBinner:
    """Bins the rows of `raw` chunk by chunk, onto pages with a column for every feature; `head` has no rows."""

    def __init__(self, ctx: Context, raw: RawData, cuts: Cuts):
        cuts, dtype = _fit_bins(ctx, raw, cuts)
        self._ctx, self._search = ctx, _search_table(ctx, cuts, raw.n_rows)
        self.head = _empty_page(0, cuts, dtype, None)

    def fill(self, values: np.ndarray, page: BinnedPage, first: int) -> None:
        """Write the bins of some rows, float32, to the rows of the page from `first` on."""
        _bin_chunk(self._ctx, values, self._search, page, first)


def _empty_page(n_rows: int, cuts: Cuts, dtype: np.dtype, bundles: Bundles | None) -> BinnedPage:
    """A page to be filled: columns of bundles say that nothing is stored, others anything."""
    n_columns = cuts.n_features if bundles is None else bundles.n_columns
    words = np.zeros((n_rows, -(-n_columns * dtype.itemsize // 8)), np.uint64)
    columns = np.empty((n_columns, n_rows), dtype)
    for c in [] if bundles is None else np.flatnonzero(bundles.is_shared).tolist():
        columns[c] = 0
    return BinnedPage(cuts, words, columns, bundles)


def _bin_plain(ctx: Context, raw: RawData, search: _Search, page: BinnedPage) -> None:
    """Bins of dense data, one column a feature."""
    for first, values in raw.chunks():
        _bin_chunk(ctx, values, search, page, first)


def _bin_chunk(ctx: Context, values: np.ndarray, search: _Search, page: BinnedPage, first: int) -> None:
    """Bins of some rows of dense data, from row `first` of the page on."""
    arrays = (*search, page.missing_code, page.words.view(page.bin_dtype), page.columns)
    ctx.run_ranges(len(values), _ROW_GRAIN, binning.bin_values, values.view(np.uint32), *arrays, first)


def _bin_bundled(ctx: Context, raw: RawData, cuts: Cuts, dtype: np.dtype, search: _Search) -> BinnedPage | None:
    """Bins of dense data with bundles, None if there are none to speak of."""
    missing_code = int(np.iinfo(dtype).max)

    def bin_rows(rows: np.ndarray) -> np.ndarray:
        sample = _empty_page(len(rows), cuts, dtype, None)
        _bin_plain(ctx, raw.take(rows), search, sample)
        return sample.columns

    bundles, n_stored = bundling.sample_bundles(ctx, raw.n_rows, cuts, missing_code, bin_rows)
    while bundles is not None:  # twice at most: those that are left after a conflict have none
        page = _empty_page(raw.n_rows, cuts, dtype, bundles)
        layout, meets = _dense_layout(bundles, cuts, search[0]), bundling.meets(bundles, cuts.n_bins, n_stored)
        rows = page.words.view(dtype)
        for first, values in raw.chunks():
            ctx.run_ranges(
                len(values), _ROW_GRAIN, bundle.bin_bundled,
                values.view(np.uint32), search, layout, tuple(meets), missing_code, rows, page.columns, first,
            )  # fmt: skip
        if not meets.conflicts.any():
            return page
        del page, rows  # before the next one takes its memory
        bundles = bundling.without(bundles, cuts.n_bins, meets.conflicts > 0)
    return None


def _dense_layout(bundles: Bundles, cuts: Cuts, cut_keys: np.ndarray) -> tuple[np.ndarray, ...]:
    """column, first, gap, low, width, plain and runs for `bundle.bin_bundled`."""
    features, unstored = np.arange(cuts.n_features), bundles.unstored
    low = np.where(unstored > 0, cut_keys[features, np.maximum(unstored - 1, 0)], np.uint32(0))
    high = np.where(unstored >= 0, cut_keys[features, np.maximum(unstored, 0)], np.uint32(0))  # after all cuts: missing
    low[unstored == bundling.UNSTORED_MISSING], high[unstored == bundling.UNSTORED_MISSING] = counting.KEY_MISSING, 0
    gap = np.where(unstored >= 0, unstored, bundle.NO_GAP).astype(np.int32)
    is_plain = unstored == bundle.PLAIN
    edges = np.flatnonzero(np.diff(is_plain.astype(np.int8), prepend=1, append=1))
    return bundles.column, bundles.first, gap, low, high - low, np.flatnonzero(is_plain), edges.reshape(-1, 2)


def _bin_sparse(
    ctx: Context, raw: SparseData, cuts: Cuts, dtype: np.dtype, enable_bundle: bool, min_share: float
) -> BinnedPage:
    """Bins of sparse data; features and bundles with fewer than min_share of the rows stay sparse."""
    n_present = raw.scan(ctx)
    group, unstored, n_stored = (
        np.full(cuts.n_features, -1),
        np.full(cuts.n_features, bundling.UNSTORED_MISSING),
        n_present,
    )
    if enable_bundle:
        group, unstored, n_stored = _judge_sample(ctx, raw, cuts, dtype)
    while True:  # twice at most
        bundles = bundling.lay_out_sparse(group, unstored, n_present, raw.n_rows, cuts, min_share)
        page = _empty_page(raw.n_rows, cuts, dtype, bundles)
        meets = bundling.meets(bundles or bundling.one_column_each(cuts.n_bins), cuts.n_bins, n_stored)
        _fill_page(ctx, raw, page, meets)
        if not (meets.conflicts > 0)[group >= 0].any():
            break
        del page  # before the next one takes its memory
        group = bundling.drop(group, meets.conflicts > 0)
    if bundles is None or (bundles.column >= 0).all():
        return page
    return replace(
        page, sparse=_keep_entries(ctx, raw, cuts, dtype, np.flatnonzero(bundles.column < 0).astype(np.int32))
    )


def _judge_sample(
    ctx: Context, raw: SparseData, cuts: Cuts, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bundle, unstored state, stored rows) of every feature of sparse data, by a sample of its rows."""
    sampled = bundling.sparse_sample(raw.n_rows, len(raw.values))
    columns = raw.take(sampled).by_feature()
    stored = StoredBins(columns.ptr, columns.rows, np.zeros(len(columns.rows), dtype))
    n_stored, unstored = raw.scan(ctx), np.full(cuts.n_features, bundling.UNSTORED_MISSING)
    full = np.flatnonzero(~cuts.has_missing)  # of the others nobody asks which bins they are in
    if len(full):
        is_full = np.repeat(~cuts.has_missing, np.diff(columns.ptr))
        bins = np.empty((len(full), len(sampled)), dtype)
        ptr = np.arange(len(full) + 1) * len(sampled)
        _bin_entries(ctx, cuts, full, ptr, columns.values[is_full], bins.reshape(-1))
        unstored[full] = bundling.most_frequent(ctx, bins)
        off = np.count_nonzero(bins != unstored[full, None], axis=1)
        n_stored = n_stored.copy()
        n_stored[full] = off * raw.n_rows // max(1, len(sampled))
        stored.bins[is_full] = bins.reshape(-1)
    chosen = ~cuts.is_categorical
    room = raw.n_rows + raw.n_rows // 256  # a few rows with two members cost those alone, not the bundle
    group = bundling.find_bundles(stored, len(sampled), room, cuts.n_bins, unstored, n_stored, chosen)
    return group, unstored, n_stored


def _bin_entries(
    ctx: Context, cuts: Cuts, features: np.ndarray, ptr: np.ndarray, values: np.ndarray, bins: np.ndarray
) -> None:
    """Bins (OUT) of values that lie feature after feature; search tables for some features at a time."""
    for first in range(0, len(features), _TILE_FEATURES):
        part = ptr[first : first + _TILE_FEATURES + 1]
        chosen = features[first : first + _TILE_FEATURES]
        search = _search_table(ctx, _some_cuts(cuts, chosen), int(part[-1] - part[0]) // (8 * len(part)))
        arrays = (part, values.view(np.uint32), *search, bins)
        ctx.run_tasks(binning.bin_columns, [(*arrays, *span) for span in even_spans(part, ctx.n_threads)])


def _some_cuts(cuts: Cuts, features: np.ndarray) -> Cuts:
    """The cuts of some features."""
    n_cuts = cuts.n_bins[features]
    ptr = np.append(0, np.cumsum(n_cuts))
    values = cuts.values[np.arange(ptr[-1]) + np.repeat(cuts.ptr[features] - ptr[:-1], n_cuts)]
    return Cuts(ptr, values, cuts.min_values[features], cuts.has_missing[features], cuts.is_categorical[features])


def _fill_page(ctx: Context, raw: SparseData, page: BinnedPage, meets: Meets) -> None:
    """The rows and columns of sparse data, in one pass over its entries."""
    if not page.n_columns:
        return
    bundles = page.bundles or bundling.one_column_each(page.n_bins)
    searched = np.flatnonzero((page.n_bins > 1) & (bundles.column >= 0))
    search = _search_table(ctx, _some_cuts(page.cuts, searched), raw.n_rows, _ROW_CELLS)
    number = np.full(page.n_features, -1)
    number[searched] = np.arange(len(searched))
    gap = np.where(bundles.unstored >= 0, bundles.unstored, bundle.NO_GAP)
    layout = np.stack([bundles.column, bundles.first, gap, number], axis=1).astype(np.int32)
    empty = np.where(bundles.is_shared, 0, page.missing_code).astype(page.bin_dtype)
    ctx.run_ranges(
        raw.n_rows, _ROW_GRAIN, bundle.fill_rows,
        raw.row_ptr, raw.indices, raw.values.view(np.uint32), search, layout, tuple(meets), empty,
        page.words.view(page.bin_dtype), page.columns,
    )  # fmt: skip


def _fill_words(ctx: Context, page: BinnedPage) -> None:
    """The rows, from the columns."""
    rows = page.words.view(page.bin_dtype)
    ctx.run_ranges(page.n_rows, _ROW_GRAIN, bundle.copy_to_rows, page.columns, rows)


def _keep_entries(ctx: Context, raw: SparseData, cuts: Cuts, dtype: np.dtype, features: np.ndarray) -> SparseBins:
    """The entries of these features by row and by feature."""
    ptr = np.append(0, np.cumsum(raw.scan(ctx)[features]))
    rows, values, bins = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32), np.empty(ptr[-1], dtype)
    raw.gather(features, ptr[:-1], rows, values)
    _bin_entries(ctx, cuts, features, ptr, values, bins)
    del values  # the slots take its memory
    row_ptr = _count_slots(ctx, raw, features, len(rows))
    slot_ptr = np.append(0, np.cumsum(cuts.n_bins[features])).astype(np.int32)
    slots, ends = np.empty(len(rows), np.uint32), row_ptr[:-1].copy()  # the next of each row goes to its end
    stored = StoredBins(ptr, rows, bins)
    spans = even_spans(row_ptr, ctx.n_threads)
    args = [(*stored, slot_ptr, np.empty(len(features), np.int64), ends, slots, *span) for span in spans]
    ctx.run_tasks(bundle.fill_slots, args)
    return SparseBins(features, slot_ptr, row_ptr, slots, *stored)


def _count_slots(ctx: Context, raw: SparseData, features: np.ndarray, n_slots: int) -> np.ndarray:
    """Where the slots of every row begin."""
    if n_slots == len(raw.values):  # they are all entries
        return raw.row_ptr.copy()
    is_sparse = np.zeros(raw.n_features, np.uint8)
    is_sparse[features] = 1
    row_ptr = np.zeros(raw.n_rows + 1, np.int64)
    entries = (raw.row_ptr, raw.indices, raw.values)
    ctx.run_ranges(raw.n_rows, _ROW_GRAIN, bundle.count_slots, *entries, is_sparse, row_ptr[1:])
    return np.cumsum(row_ptr, out=row_ptr)


def _search_table(ctx: Context, cuts: Cuts, n_rows: int, all_cells: int = _TABLE_CELLS) -> tuple[np.ndarray, ...]:
    """cut_keys, table, first_key, shift and n_steps for the binning kernels."""
    n_features = cuts.n_features
    n_inner = cuts.n_bins.astype(np.int64) - 1
    longest = int(n_inner.max(initial=0))
    padding = max(256, 1 << longest.bit_length())  # how far ahead a search may look from where it begins
    cut_keys = np.full((n_features, longest + padding), counting.KEY_MISSING, np.uint32)
    is_inner = np.ones(len(cuts.values), np.bool_)
    is_inner[cuts.ptr[1:] - 1] = False
    cut_keys[:, :longest][np.arange(longest) < n_inner[:, None]] = keys_of_values(cuts.values[is_inner])
    n_cells = min(4 * n_rows, all_cells // max(1, n_features))  # filling the table must not outlast using it
    n_cells = min(_MAX_CELLS, max(_MIN_CELLS, 1 << n_cells.bit_length()))
    table = np.empty((n_features, n_cells), np.uint16)
    first_key, shift, n_steps = np.empty(n_features, np.uint32), *np.empty((2, n_features), np.int64)
    ctx.run_ranges(n_features, 64, binning.fill_search_table, cut_keys, n_inner, first_key, shift, table, n_steps)
    return cut_keys, table, first_key, shift, n_steps
