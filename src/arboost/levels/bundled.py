"""Features that share columns of a page, or have none, as kernels/cpu/grow/{routes,bundled}.py see them.

A sparse feature gets a column only while nodes are split on it: one of a few spare ones, kept as long as no other
feature needs it.
"""

import numpy as np

from arboost.kernels.cpu.data.bundle import PLAIN
from arboost.kernels.cpu.grow.arrays import Entries, Layout
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context

SPARE_COLUMNS = 32  # sparse features that may be split on at a time


class BundledColumns:
    """The layout of a page's features, and the spare columns of sparse ones."""

    def __init__(self, ctx: Context, page: BinnedPage, slot_ptr: np.ndarray):
        assert page.bundles is not None
        self._ctx, self._page = ctx, page
        bundles, n_bins = page.bundles, page.n_bins.astype(np.int64)
        self._column_of = bundles.column.astype(np.int64)
        unstored = bundles.unstored.astype(np.int64)
        slot_of = np.zeros(page.n_features, np.int64)
        dense = bundles.column >= 0
        slot_of[dense] = slot_ptr[bundles.column[dense]] + bundles.first[dense]
        array = page.columns
        entries = Entries(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(1, np.int64))
        self.is_sparse = ~dense
        if page.sparse is not None:
            slot_of[page.sparse.features] = slot_ptr[page.n_columns] + page.sparse.slot_ptr[:-1]
            unstored[self.is_sparse] = PLAIN  # a spare column holds bins
            entries = Entries(page.sparse.row_ptr, page.sparse.slots, np.ones(1, np.int64))
            array = np.concatenate([page.columns, np.empty((self.n_spare, page.n_rows), page.bin_dtype)])
        self._in_use: dict[int, int] = {}  # sparse feature -> its spare column, the longest unused one first
        feature_of = np.full(int(slot_ptr[-1]), -1, np.int32)
        for f, (slot, n) in enumerate(zip(slot_of.tolist(), (n_bins - (unstored >= 0)).tolist(), strict=True)):
            feature_of[slot : slot + n] = f
        self.columns = array
        self.n_codes = bundles.n_codes.astype(np.int64)
        layout = Layout(self._column_of, bundles.first.astype(np.int64), unstored, n_bins)
        self.fields = (layout, slot_of, feature_of, entries)

    @property
    def n_spare(self) -> int:
        """How many nodes may be opened at once, if they are split on as many sparse features."""
        return min(SPARE_COLUMNS, int(np.count_nonzero(self.is_sparse)))

    def fetch(self, features: np.ndarray) -> None:
        """See to it that all these features, of which at most n_spare are sparse, have columns."""
        wanted = np.unique(features[self.is_sparse[features]]).tolist()
        for f in wanted:
            if f in self._in_use:
                self._in_use[f] = self._in_use.pop(f)  # used last
        for f in wanted:
            if f not in self._in_use:
                n_used = len(self._in_use)
                spare = n_used if n_used < self.n_spare else self._in_use.pop(next(iter(self._in_use)))
                self._in_use[f] = spare
                column = self._page.n_columns + spare
                self._page.write_column(self._ctx, f, self.columns[column])
                self._column_of[f] = column
