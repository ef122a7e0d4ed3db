"""The training matrix as column blocks: every feature's present values in ascending order (the paper, section 4.1).

Made once, used by every tree: exact search scans it, approximate search draws its candidates from it. Missing values
take no room, so memory is proportional to what is present, for dense and sparse data alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from arboost.kernels.ops import sorting
from arboost.matrix.adapt import FeatureSource, RawData, SparseData
from arboost.runtime.context import Context

_TILE_VALUES = 1 << 22  # values copied by columns at a time (16 MiB), if a feature for each thread is not more


@dataclass(frozen=True, eq=False)
class SortedPage:
    """Present values of all features, one after the other, each feature's ascending, ties by row."""

    ptr: np.ndarray  # (n_features + 1,) int64
    rows: np.ndarray  # (n_present,) int32
    values: np.ndarray  # (n_present,) float32, no -0.0
    n_rows: int

    @property
    def n_features(self) -> int:
        return len(self.ptr) - 1

    @property
    def has_missing(self) -> np.ndarray:
        """(n_features,) bool."""
        return np.diff(self.ptr) < self.n_rows


def make_sorted(ctx: Context, raw: RawData) -> SortedPage:
    """Sort every feature of `raw`, columns in parallel."""
    ptr = np.append(0, np.cumsum(raw.scan(ctx))).astype(np.int64)
    rows, values = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
    source = raw.by_feature()
    for first, stop in _tiles(ctx, raw, ptr):
        _sort_tile(ctx, source, ptr[first : stop + 1], rows, values, first, stop)
    return SortedPage(ptr, rows, values, raw.n_rows)


def _tiles(ctx: Context, raw: RawData, ptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of features copied and sorted together, so that the copies stay bounded."""
    n_page = raw.n_rows * raw.n_features if raw.is_streamed else 0  # each tile reads a streamed source anew
    most = max(_TILE_VALUES, ctx.n_threads * raw.n_rows, n_page // 4)
    ends = ptr[1:] if isinstance(raw, SparseData) else np.arange(1, raw.n_features + 1) * raw.n_rows
    first = 0
    while first < raw.n_features:
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, stop
        first = stop


def _sort_tile(
    ctx: Context, source: FeatureSource, ptr: np.ndarray, rows: np.ndarray, values: np.ndarray, first: int, stop: int
) -> None:  # fmt: skip
    """Sort features first..stop into rows and values; every thread has scratch memory for the longest of them."""
    column_ptr, entries, entry_rows = source.feature_values(ctx, first, stop)
    n_threads = min(ctx.n_threads, stop - first)
    longest = int(np.diff(ptr).max(initial=1))
    spans = _even_spans(np.diff(ptr), n_threads)
    out = (rows, values.view(np.uint32))
    tasks = []
    for span in spans:
        scratch = (np.empty(longest, np.uint64), np.empty(longest, np.uint64))
        ends = np.empty((sorting.N_DIGITS, sorting.N_CELLS), np.uint64)
        tasks.append((column_ptr, entries.view(np.uint32), entry_rows, ptr, *scratch, ends, *out, *span))
    ctx.run_tasks(sorting.sort_columns, tasks)


def _even_spans(lengths: np.ndarray, n_spans: int) -> list[tuple[int, int]]:
    """Cuts the columns into runs of about the same work."""
    work = np.append(0, np.cumsum(lengths + sorting.N_CELLS))
    edges = np.searchsorted(work, np.arange(1, n_spans) * (work[-1] / n_spans))
    edges = [0, *edges.tolist(), len(lengths)]
    return [(a, b) for a, b in pairwise(edges) if a < b]
