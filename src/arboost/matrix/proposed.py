"""Cuts that are proposed anew for every tree, weighted quantiles of sorted columns, and a page of bins at them.

The definition of the cuts is that of cuts.py, so one set of weights gives the same bins in both. Features with few
distinct values, and categorical ones, have the same bins whatever the weights are. The page's arrays stay where they
are from tree to tree; a feature always has room for as many bins as it may get, those at the end may be empty.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from arboost.kernels.ops import bundle, rebin, summary
from arboost.matrix.adapt import RawData
from arboost.matrix.cuts import Cuts, bounds_of_values, check_codes, cut_at_weights, most_bins
from arboost.matrix.page import BinnedPage
from arboost.matrix.sorted import SortedPage
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range

_ROW_GRAIN = 4096


def outer_cuts(columns: SortedPage) -> tuple[np.ndarray, np.ndarray]:
    """(below every value, the last cut: above every value) of features, float32."""
    ptr, ends = columns.ptr, np.append(columns.values, np.float32(0))  # an empty feature at the end points at this
    return bounds_of_values(ends[ptr[:-1]], ends[ptr[1:] - 1], ptr[1:] == ptr[:-1])


class ProposedCuts:
    """Sorted columns, and where the bins begin in them as last proposed."""

    def __init__(
        self,
        ctx: Context,
        columns: SortedPage,
        max_bin: int,
        feature_types: list[str] | None = None,
        feature_names: list[str] | None = None,
    ):
        self._ctx = ctx
        self._columns = columns
        kinds = feature_types or [""] * columns.n_features
        self._is_categorical = np.array([kind == "c" for kind in kinds], np.bool_)
        self._has_missing = columns.has_missing
        self._max_bins = most_bins(self._has_missing, max_bin)
        fixed = [self._fixed_firsts(f, feature_names) for f in range(columns.n_features)]
        self._room = np.array(
            [b if cut is None else len(cut) + 1 for b, cut in zip(self._max_bins, fixed, strict=True)]
        )
        self._features = np.array([f for f, cut in enumerate(fixed) if cut is None], np.int64)
        self._firsts = np.zeros((columns.n_features, int(self._room.max(initial=0)) + 1), np.int64)
        self._n_cuts = np.zeros(columns.n_features, np.int64)
        for f, cut in enumerate(fixed):
            if cut is not None:
                self._firsts[f, 1 : len(cut) + 1], self._n_cuts[f] = cut, len(cut)
        self._prefix = np.empty((ctx.n_threads, summary.N_BLOCKS + 1), np.int64)

    @property
    def is_fixed(self) -> bool:
        """Whether no weights can change the bins."""
        return not len(self._features)

    def propose(self, weights: np.ndarray) -> None:
        """Cut at the quantiles of these weights, (n_rows,) int64 and not negative."""
        sources = (self._columns.ptr, self._columns.rows, self._columns.values, weights, self._features, self._max_bins)
        spans = split_range(len(self._features), self._ctx.n_threads, 1)
        tasks = [
            (*sources, prefix, self._firsts, self._n_cuts, *span)
            for prefix, span in zip(self._prefix, spans, strict=False)
        ]
        self._ctx.run_tasks(summary.propose_cuts, tasks)

    def cuts(self) -> Cuts:
        """The cuts as they stand."""
        cuts = self._empty_cuts(self._n_cuts + 1)
        inner = np.arange(1, self._firsts.shape[1]) <= self._n_cuts[:, None]
        is_last = np.zeros(len(cuts.values), np.bool_)
        is_last[cuts.ptr[1:] - 1] = True
        cuts.values[~is_last] = self._columns.values[self._firsts[:, 1:][inner]]
        self._cut_at_codes(cuts)
        return cuts

    def _cut_at_codes(self, cuts: Cuts) -> None:
        """Cuts of categorical features lie after every code, whether it occurs or not."""
        for f in np.flatnonzero(self._is_categorical).tolist():
            own = cuts.values[cuts.ptr[f] : cuts.ptr[f + 1]]
            own[:] = np.arange(1, len(own) + 1)

    def _fixed_firsts(self, f: int, names: list[str] | None) -> np.ndarray | None:
        """Where the bins after the first begin in the column of a feature that has always the same, else None."""
        start, stop = int(self._columns.ptr[f]), int(self._columns.ptr[f + 1])
        values = self._columns.values[start:stop]
        if self._is_categorical[f]:
            low, high = (values[0], values[-1]) if len(values) else (np.float32(0), np.float32(0))
            low = np.float32(-1) if (values > np.floor(values)).any() else low  # no code at all
            check_codes(np.array([f]), np.array([low]), np.array([high]), names)
            return start + np.searchsorted(values, np.arange(1, int(high) + 1))
        begins = start + 1 + np.flatnonzero(values[1:] != values[:-1])
        return begins if len(begins) < self._max_bins[f] else None

    def _empty_cuts(self, n_bins: np.ndarray) -> Cuts:
        """Room for the cuts of so many bins, with the last one of every feature."""
        minima, last_cuts = outer_cuts(self._columns)
        cut_ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
        values = np.empty(cut_ptr[-1], np.float32)
        values[cut_ptr[1:] - 1] = last_cuts
        minima = np.where(self._is_categorical, np.float32(0), minima)
        return Cuts(cut_ptr, values, minima, self._has_missing, self._is_categorical)


class ProposedPage(ProposedCuts):
    """Sorted columns, and their values in bins as last proposed: `page`."""

    def __init__(
        self,
        ctx: Context,
        columns: SortedPage,
        max_bin: int,
        feature_types: list[str] | None = None,
        feature_names: list[str] | None = None,
    ):
        super().__init__(ctx, columns, max_bin, feature_types, feature_names)
        self.page = self._empty_page()
        self._write_bins(np.arange(columns.n_features))
        self._cut_at_codes(self.page.cuts)

    def propose(self, weights: np.ndarray) -> None:
        """Cut at the quantiles of these weights, (n_rows,) int64 and not negative, and bin all rows."""
        super().propose(weights)
        self._write_bins(self._features)

    def _empty_page(self) -> BinnedPage:
        """A page with room for as many bins as features may get; all values are missing."""
        columns, has_missing = self._columns, self._has_missing
        dtype = np.dtype(np.uint8 if int((self._room + has_missing).max(initial=0)) <= 256 else np.uint16)
        words = np.zeros((columns.n_rows, -(-columns.n_features * dtype.itemsize // 8)), np.uint64)
        bins = np.empty((columns.n_features, columns.n_rows), dtype)
        page = BinnedPage(self._empty_cuts(self._room), words, bins)
        page.columns[has_missing] = page.missing_code
        return page

    def _write_bins(self, features: np.ndarray) -> None:
        """Write the cuts and bins of these features, and the rows of all."""
        page, columns = self.page, self._columns
        sources = (columns.ptr, columns.rows, columns.values, features, self._firsts, self._n_cuts)
        out = (page.cuts.ptr, page.cuts.values, page.columns)
        self._ctx.run_ranges(len(features), 1, rebin.bin_runs, *sources, *out)
        rows = page.words.view(page.bin_dtype)
        self._ctx.run_ranges(page.n_rows, _ROW_GRAIN, bundle.copy_to_rows, page.columns, rows)


class CountedCuts:
    """The cuts that `ProposedCuts` finds in sorted columns, found by counting: no worker has all rows to sort."""

    def __init__(self, ctx: Context, raw: RawData, max_bin: int, feature_types: list[str] | None = None):
        self._ctx, self._raw, self._max_bin = ctx, raw, max_bin
        self._bounds, self._same_bins = cut_at_weights(ctx, raw, np.ones(1, np.int64), max_bin, feature_types)
        self._cuts = self._bounds
        self.propose(np.zeros(raw.n_rows, np.int64))

    @property
    def is_fixed(self) -> bool:
        """Whether no weights can change the bins."""
        return bool(self._same_bins.all())

    def propose(self, weights: np.ndarray) -> None:
        """Cut at the quantiles of all workers' weights, (n_rows,) int64 and not negative."""
        all_values = self._bounds
        found, _ = cut_at_weights(self._ctx, self._raw, weights, self._max_bin)
        pieces = []
        for f, ((a, b), (c, d)) in enumerate(zip(pairwise(all_values.ptr), pairwise(found.ptr), strict=True)):
            # values that weigh nothing do not move the inner cuts, but lie within the outer ones
            inner = all_values.values[a : b - 1] if self._same_bins[f] else found.values[c : d - 1]
            pieces.append(np.append(inner, all_values.values[b - 1]))
        ptr = np.append(0, np.cumsum([len(piece) for piece in pieces])).astype(np.int32)
        self._cuts = replace(all_values, ptr=ptr, values=np.concatenate(pieces))

    def cuts(self) -> Cuts:
        """The cuts as they stand."""
        return self._cuts
