"""Which features share a column of a page, and which are kept by their entries alone.

Features are exclusive where no row has two of them off their unstored state ("missing", or the most frequent bin of a
feature without missing values): one-hot columns, counts that are mostly zero. They share a column without any loss
(exclusive feature bundling: Ke et al., LightGBM, NeurIPS 2017, section 4; here no conflict at all is allowed).
What is found depends on the data alone, not on threads: it is judged by samples of rows, and checked as all are binned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from arboost.kernels.ops import bundle
from arboost.matrix.cuts import Cuts
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range

UNSTORED_MISSING = -1
MIN_CELLS = 1 << 16  # a smaller table is trained before a search for bundles has paid
MIN_SHARE = 1 / 8  # stored rows of a sparse column from which a dense one is smaller and faster
_MAX_STORED = 0.9  # share of stored rows above which a dense feature is not looked at
_MIN_SAVED = 1 / 8  # columns that bundles of dense data must save
_FIRST_SAMPLE, _SECOND_SAMPLE = 1 << 8, 1 << 15  # rows
_SAMPLE_VALUES = 1 << 21
_MAP_BYTES = 1 << 22  # bit maps of bundles: at least this, or two bytes for every entry


@dataclass(frozen=True, eq=False)
class Bundles:
    """Where each feature lies in the columns of a page; F features, members of one column have disjoint codes."""

    column: np.ndarray  # (F,) int32: column of a feature, -1 in the sparse part
    first: np.ndarray  # (F,) int32: code of its first stored bin
    unstored: np.ndarray  # (F,) int32: -2 alone in its column, its codes are bins; -1: missing is not stored; d: bin d
    n_codes: np.ndarray  # (n_columns,) int32: codes of each column; those of a bundle begin with "nothing stored"

    @property
    def n_columns(self) -> int:
        return len(self.n_codes)

    @property
    def is_shared(self) -> np.ndarray:
        """(n_columns,) bool: columns that are bundles."""
        shared = np.zeros(self.n_columns, np.bool_)
        shared[self.column[(self.unstored != bundle.PLAIN) & (self.column >= 0)]] = True
        return shared

    def bin_of_code(self, f: int, n_bins: int, missing_code: int) -> np.ndarray:
        """Bin of a bundled feature for every code of its column, int64."""
        unstored = int(self.unstored[f])
        stored = np.delete(np.arange(n_bins), unstored) if unstored >= 0 else np.arange(n_bins)
        bins = np.full(int(self.n_codes[self.column[f]]), missing_code if unstored < 0 else unstored)
        bins[int(self.first[f]) : int(self.first[f]) + len(stored)] = stored
        return bins


@dataclass(frozen=True, eq=False)
class SparseBins:
    """Bins of features not worth a column, by row and by feature; an entry that is absent is missing.

    Every bin of a sparse feature has a slot: slot_ptr[s] + bin for the feature features[s].
    """

    features: np.ndarray  # (n_sparse,) int32, ascending
    slot_ptr: np.ndarray  # (n_sparse + 1,) int32
    row_ptr: np.ndarray  # (n_rows + 1,) int64
    slots: np.ndarray  # (nnz,) uint32, ascending in every row
    col_ptr: np.ndarray  # (n_sparse + 1,) int64
    col_rows: np.ndarray  # (nnz,) int32, ascending in every feature
    col_bins: np.ndarray  # (nnz,) of the page's dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in vars(self).values())


class Meets(NamedTuple):
    """What settles conflicts: see `ops.bundle`."""

    rank: np.ndarray  # (F,) int32
    code_ptr: np.ndarray  # (n_columns + 1,) int64
    owners: np.ndarray  # int32
    conflicts: np.ndarray  # (F,) uint8, zeros


class StoredBins(NamedTuple):
    """Bins feature after feature: rows[j] and bins[j], j = ptr[f] .. ptr[f + 1], rows ascending."""

    ptr: np.ndarray
    rows: np.ndarray
    bins: np.ndarray


def find_bundles(
    stored: StoredBins, sampled: int, room: int, n_bins: np.ndarray, unstored: np.ndarray, n_stored: np.ndarray,
    chosen: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Number of every feature's bundle, (F,) int64; -1 for features that share theirs with nobody.

    Parameters
    ----------
    stored
        The bins of a sample, those of the unstored state included or not.
    sampled
        Rows of the sample.
    room
        Stored rows that a bundle may have.
    n_stored
        Rows of every feature that are stored: the features with most are placed first.
    n_bins, unstored
        Bins of every feature, and which of them is not stored: a bin, or -1 for missing.
    chosen
        (F,) bool: features to look at.
    """
    group = np.full(len(n_bins), -1, np.int64)
    codes = n_bins.astype(np.int64) - (unstored >= 0)
    max_codes = 1 << (8 * stored.bins.itemsize)
    # A feature needs room beside the smallest of the others, and the code of nothing stored.
    chosen = np.flatnonzero(chosen & (codes + codes[chosen].min(initial=max_codes) < max_codes))
    if len(chosen) < 2:
        return group
    order = chosen[np.argsort(-n_stored[chosen], kind="stable")]
    n_words = -(-sampled // 64)
    n_open = min(len(chosen), max(1, max(_MAP_BYTES, 2 * len(stored.rows)) // max(1, 8 * n_words)))
    used, sizes = np.zeros((n_open, n_words), np.uint64), np.zeros((2, n_open), np.int64)
    gap = unstored.astype(np.int64)
    bundle.find_bundles(*stored, order, gap, codes, n_stored, max_codes, room, used, sizes, group)
    return drop(group, group < 0)


def drop(group: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """The same bundles without some members, and without those that are left alone."""
    group = np.where(dropped, -1, group)
    n_members = np.bincount(group[group >= 0], minlength=1 + group.max(initial=0))
    return np.where((group >= 0) & (n_members[group] > 1), group, -1)


def lay_out(group: np.ndarray, n_bins: np.ndarray, unstored: np.ndarray, is_sparse: np.ndarray) -> Bundles:
    """Columns in the order of their lowest feature, codes of a bundle in the order of its features."""
    n_features = len(group)
    dense = np.flatnonzero(~is_sparse)
    key = np.where(group >= 0, group, n_features + np.arange(n_features))[dense]  # fewer bundles than features
    _, lowest, of_key = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(lowest), np.int64)
    rank[np.argsort(lowest)] = np.arange(len(lowest))
    column = np.full(n_features, -1, np.int32)
    column[dense] = rank[of_key.reshape(-1)]
    is_member = group >= 0
    codes = n_bins.astype(np.int64) - (is_member & (unstored >= 0))
    in_order = dense[np.argsort(column[dense], kind="stable")]
    ends = np.cumsum(codes[in_order])
    starts = ends - codes[in_order]
    column_ptr = np.searchsorted(column[in_order], np.arange(len(lowest) + 1))
    ends_of_column = np.append(0, ends)[column_ptr]
    first = np.zeros(n_features, np.int32)
    first[in_order] = starts - ends_of_column[column[in_order]] + is_member[in_order]
    n_codes = np.diff(ends_of_column)
    n_codes[column[is_member & ~is_sparse]] += 1
    state = np.where(is_member & ~is_sparse, unstored, np.where(is_sparse, UNSTORED_MISSING, bundle.PLAIN))
    return Bundles(column, first, state.astype(np.int32), n_codes.astype(np.int32))


def meets(bundles: Bundles, n_bins: np.ndarray, n_stored: np.ndarray) -> Meets:
    """Who leaves where members of bundles meet: those that are stored less often, so that most stay together."""
    rank = np.empty(len(n_bins), np.int32)
    rank[np.argsort(-n_stored, kind="stable")] = np.arange(len(n_bins))
    code_ptr = np.append(0, np.cumsum(bundles.n_codes, dtype=np.int64))
    owners = np.zeros(code_ptr[-1], np.int32)
    dense = np.flatnonzero(bundles.column >= 0)
    codes = n_bins[dense].astype(np.int64) - (bundles.unstored[dense] >= 0)
    before = np.cumsum(codes) - codes
    starts = code_ptr[bundles.column[dense]] + bundles.first[dense]
    owners[np.arange(codes.sum()) + np.repeat(starts - before, codes)] = np.repeat(dense, codes)
    return Meets(rank, code_ptr, owners, np.zeros(len(n_bins), np.uint8))


def without(bundles: Bundles, n_bins: np.ndarray, dropped: np.ndarray) -> Bundles | None:
    """The same bundles of dense data without some members, None if that leaves too little."""
    group = np.where(bundles.unstored == bundle.PLAIN, -1, bundles.column).astype(np.int64)
    return _if_it_pays(drop(group, dropped), n_bins, bundles.unstored)


def _if_it_pays(group: np.ndarray, n_bins: np.ndarray, unstored: np.ndarray) -> Bundles | None:
    """The layout, None if it saves hardly a column."""
    bundles = lay_out(group, n_bins, unstored, np.zeros(len(group), np.bool_))
    return bundles if len(group) - bundles.n_columns >= max(1, _MIN_SAVED * len(group)) else None


def sample_bundles(
    ctx: Context, n_rows: int, cuts: Cuts, missing_code: int, bin_rows: Callable[[np.ndarray], np.ndarray]
) -> tuple[Bundles | None, np.ndarray]:
    """(bundles, stored rows) of dense data by a sample of its rows, None if there are hardly any.

    Parameters
    ----------
    ctx
        Threads.
    n_rows, cuts, missing_code
        Of the page to be made; cuts.has_missing is that of the data.
    bin_rows
        Gives the bins (F, n) of n rows.
    """
    n_features = cuts.n_features
    most = max(64, _SAMPLE_VALUES // max(1, n_features))
    sizes = [min(n_rows, most, max(64, min(_FIRST_SAMPLE, n_rows >> 6))), min(n_rows, most, _SECOND_SAMPLE)]
    chosen, n_stored = ~cuts.is_categorical, np.zeros(n_features, np.int64)
    found: Bundles | None = None
    for n_sampled in sizes[: 1 + (sizes[1] > sizes[0])] if n_rows else ():
        columns = bin_rows(spread_rows(n_rows, n_sampled))
        unstored = np.where(cuts.has_missing, UNSTORED_MISSING, most_frequent(ctx, columns))
        off = columns != np.where(cuts.has_missing, missing_code, unstored).astype(columns.dtype)[:, None]
        n_stored = np.count_nonzero(off, axis=1)
        chosen = chosen & (n_stored <= _MAX_STORED * n_sampled)
        if np.count_nonzero(chosen) < 2:
            return None, n_stored
        off[~chosen] = False
        places = np.flatnonzero(off)
        ptr = np.append(0, np.cumsum(np.where(chosen, n_stored, 0)))
        stored = StoredBins(ptr, (places % n_sampled).astype(np.int32), columns.reshape(-1)[places])
        group = find_bundles(stored, n_sampled, n_sampled, cuts.n_bins, unstored, n_stored, chosen)
        found = _if_it_pays(group, cuts.n_bins, unstored)
        if found is None:
            break
    return found, n_stored


def spread_rows(n_rows: int, n_sampled: int) -> np.ndarray:
    """One row out of each of n_sampled equal stretches, not at equal distances: data may repeat itself."""
    edges = np.arange(n_sampled + 1) * n_rows // max(1, n_sampled)
    noise = (np.arange(n_sampled, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return edges[:-1] + noise.astype(np.int64) % np.diff(edges)


def most_frequent(ctx: Context, columns: np.ndarray) -> np.ndarray:
    """The most frequent code of every row of `columns`, the lowest of several: (n,) int64."""
    most = np.zeros(len(columns), np.int64)
    n_codes = int(columns.max(initial=0)) + 1
    spans = split_range(len(columns), ctx.n_threads, 8)
    tasks = [(columns, np.zeros(n_codes, np.int64), most, *span) for span in spans]
    ctx.run_tasks(bundle.find_most_frequent, tasks)
    return most


def sparse_sample(n_rows: int, n_entries: int) -> np.ndarray:
    """Rows by which sparse data is judged."""
    most = max(64, _SAMPLE_VALUES * n_rows // max(1, n_entries))
    return spread_rows(n_rows, min(n_rows, _SECOND_SAMPLE, most))


def lay_out_sparse(
    group: np.ndarray, unstored: np.ndarray, n_present: np.ndarray, n_rows: int, cuts: Cuts, min_share: float
) -> Bundles | None:
    """Columns of sparse data: bundles and features of at least min_share stored rows; the others are sparse.

    None: every feature has a column of its own.
    """
    in_group = np.bincount(group[group >= 0], n_present[group >= 0], max(1, cuts.n_features))
    # A member without missing values, and with it its bundle, counts as dense: it needs a column in any case.
    n_filled = np.where(group >= 0, in_group[group], n_present)
    is_sparse = (n_filled < min_share * n_rows) & ~cuts.is_categorical
    if not is_sparse.any() and not (group >= 0).any():
        return None
    return lay_out(np.where(is_sparse, -1, group), cuts.n_bins, unstored, is_sparse)


def one_column_each(n_bins: np.ndarray) -> Bundles:
    """No bundles: what a page means that has none."""
    every = np.arange(len(n_bins), dtype=np.int32)
    return Bundles(every, np.zeros_like(every), np.full_like(every, bundle.PLAIN), n_bins)
