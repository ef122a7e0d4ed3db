"""The training matrix as bins, in two layouts: rows for histograms, columns for partitioning.

    words   (n_rows, n_words) uint64    one row = its bins, padded with 0 to whole 8-byte words
    columns (n_features, n_rows)        one feature = one contiguous run

Bins are uint8 (missing 255) while every feature fits, else uint16 (missing 65535).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from arboost.kernels.cpu import binning, sketch
from arboost.matrix.adapt import CHUNK_VALUES, RawData, SparseData
from arboost.matrix.cuts import Cuts, keys_of_values
from arboost.runtime.context import Context

_ROW_GRAIN = 4096
_TABLE_CELLS = 1 << 22  # cells of all features' search tables together (8 to 16 MiB), within
_MIN_CELLS, _MAX_CELLS = 256, 1 << 14  # these bounds for one feature


@dataclass(frozen=True, eq=False)
class BinnedPage:
    """Bins of a range of rows. `cuts.has_missing` tells where the missing code can occur."""

    cuts: Cuts
    words: np.ndarray
    columns: np.ndarray
    all_columns: np.ndarray  # the same, and where features are categorical one more: room for a grower's own

    @property
    def n_rows(self) -> int:
        return self.columns.shape[1]

    @property
    def n_features(self) -> int:
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

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first_row, float32 values) with each value replaced by its bin's lower bound, NaN for missing."""
        step = rows or max(1, CHUNK_VALUES // max(1, self.n_features))
        for first in range(0, self.n_rows, step):
            bins = self.columns[:, first : first + step]
            values = np.empty((bins.shape[1], self.n_features), np.float32)
            for f, codes in enumerate(bins):
                bounds = self._lower_bounds(f)
                values[:, f] = bounds[np.minimum(codes, len(bounds) - 1)]
            yield first, values

    def _lower_bounds(self, f: int) -> np.ndarray:
        """Lower bound of every bin of feature f, and NaN, which the missing code is cut down to."""
        inner = self.cuts.values[self.cuts.ptr[f] : self.cuts.ptr[f + 1] - 1]
        missing = [np.nan] if self.cuts.has_missing[f] else []
        return np.concatenate([self.cuts.min_values[f : f + 1], inner, missing]).astype(np.float32)


def make_binned(ctx: Context, raw: RawData, cuts: Cuts) -> BinnedPage:
    """Bins of all rows of `raw`."""
    cuts = replace(cuts, has_missing=cuts.has_missing | (raw.scan(ctx) < raw.n_rows))
    # The missing code must not be a bin of a feature that has missing values.
    is_small = int((cuts.n_bins + cuts.has_missing).max(initial=0)) <= 256
    dtype = np.dtype(np.uint8 if is_small else np.uint16)
    n_words = -(-raw.n_features * dtype.itemsize // 8)
    words = np.zeros((raw.n_rows, n_words), np.uint64)
    columns = np.empty((raw.n_features + bool(cuts.is_categorical.any()), raw.n_rows), dtype)
    page = BinnedPage(cuts, words, columns[: raw.n_features], columns)
    rows = words.view(dtype)
    search = _search_table(ctx, cuts, raw.n_rows)
    if isinstance(raw, SparseData):
        rows[:, : raw.n_features] = page.missing_code
        page.columns.fill(page.missing_code)
        entries = (raw.row_ptr, raw.indices, raw.values.view(np.uint32))
        ctx.run_ranges(raw.n_rows, _ROW_GRAIN, binning.bin_entries, *entries, *search, rows, page.columns)
        return page
    for first, values in raw.chunks():
        ctx.run_ranges(
            len(values), _ROW_GRAIN, binning.bin_values,
            values.view(np.uint32), *search, page.missing_code, rows, page.columns, first,
        )  # fmt: skip
    return page


def _search_table(ctx: Context, cuts: Cuts, n_rows: int) -> tuple[np.ndarray, ...]:
    """cut_keys, table, first_key, shift and n_steps for the binning kernels."""
    n_features = cuts.n_features
    n_inner = cuts.n_bins.astype(np.int64) - 1
    longest = int(n_inner.max(initial=0))
    padding = max(256, 1 << longest.bit_length())  # how far ahead a search may look from where it begins
    cut_keys = np.full((n_features, longest + padding), sketch.KEY_MISSING, np.uint32)
    is_inner = np.ones(len(cuts.values), np.bool_)
    is_inner[cuts.ptr[1:] - 1] = False
    cut_keys[:, :longest][np.arange(longest) < n_inner[:, None]] = keys_of_values(cuts.values[is_inner])
    n_cells = min(4 * n_rows, _TABLE_CELLS // max(1, n_features))  # filling the table must not outlast using it
    n_cells = min(_MAX_CELLS, max(_MIN_CELLS, 1 << n_cells.bit_length()))
    table = np.empty((n_features, n_cells), np.uint16)
    first_key, shift, n_steps = np.empty(n_features, np.uint32), *np.empty((2, n_features), np.int64)
    ctx.run_ranges(n_features, 64, binning.fill_search_table, cut_keys, n_inner, first_key, shift, table, n_steps)
    return cut_keys, table, first_key, shift, n_steps
