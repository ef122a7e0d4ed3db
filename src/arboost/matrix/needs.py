"""How much memory a training needs, as a sum of what can be said beforehand; docs/guides/larger_than_memory.md has the
formula in words.

What belongs to rows (labels, margins, gradients, row numbers) is in memory wherever the bins are. Bins are all in
memory, or, on disk, as many pages as are read ahead and held. Counters are alive only while cuts are found.
"""

from typing import NamedTuple

from arboost.matrix.cuts import STREAMED_CELLS, cells_of_feature
from arboost.matrix.store import N_AHEAD, PageCache

_ROW_BYTES = 16  # a row's number, twice, and its packed gradient
_OUTPUT_BYTES = 12  # margin, gradient and hessian
_SAMPLE_BYTES = 9  # of `subsample`: the row's number, twice, and a mark
_HISTOGRAM_BYTES = 1 << 29  # levels/buffers.py lets histograms have no more
_COUNTER_BYTES = 16  # a counter, and what its cell becomes on the next level, twice
_BASE_BYTES = 64 << 20  # conversion buffers, search tables, and what Python and NumPy take on the way


class Needs(NamedTuple):
    """Bytes that a training has in memory at a time, by what they are for."""

    rows: int
    bins: int
    histograms: int
    cuts: int

    @property
    def total(self) -> int:
        """The most at one time: histograms come after the counters of cuts are gone."""
        return self.rows + self.bins + max(self.histograms, self.cuts) + _BASE_BYTES


def bytes_of_row(n_features: int, max_bin: int = 256) -> int:
    """Bytes of a row's bins: by rows in whole words, and by columns."""
    width = 1 if max_bin <= 256 else 2
    return 8 * -(-n_features * width // 8) + n_features * width


def bytes_needed(
    n_rows: int,
    n_features: int,
    *,
    max_bin: int = 256,
    n_outputs: int = 1,
    n_label_columns: int = 1,
    has_weight: bool = False,
    subsample: bool = False,
    max_depth: int = 6,
    cache: PageCache | None = None,
) -> Needs:
    """What training on so many rows and features needs.

    Parameters
    ----------
    n_rows, n_features
        Of the data.
    max_bin
        Bins of a feature.
    n_outputs
        Columns of the margin: classes, quantiles or targets.
    n_label_columns, has_weight
        What is given for every row.
    subsample
        Whether trees are grown on samples.
    max_depth
        Of the trees; 0: not limited.
    cache
        Where pages lie; None: all bins are in memory.
    """
    row_bytes = (
        _ROW_BYTES + _OUTPUT_BYTES * n_outputs + 4 * n_label_columns + 4 * has_weight + _SAMPLE_BYTES * subsample
    )
    of_bins = bytes_of_row(n_features, max_bin)
    bins = n_rows * of_bins
    if cache is not None:
        page_bytes = min(n_rows, cache.rows_of_page(of_bins)) * of_bins
        bins = min(bins, (N_AHEAD + 1) * page_bytes + cache.held_bytes(page_bytes))
        bins += cache.held_bytes(page_bytes) * subsample
    node_bytes = 16 * n_features * (max_bin + 1)
    histograms = min(_HISTOGRAM_BYTES, node_bytes * max(16, 2 ** min(max_depth or 20, 20)))
    cells = min(n_features * cells_of_feature(max_bin), max(STREAMED_CELLS, cells_of_feature(max_bin)))
    cuts = _COUNTER_BYTES * cells + 16 * n_rows * has_weight  # weights as integers, made from 64-bit floats
    return Needs(n_rows * row_bytes, bins, histograms, cuts)
