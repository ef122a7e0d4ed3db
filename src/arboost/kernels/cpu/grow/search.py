"""How bins are summed and searched, by the page's layout: chosen when a kernel is compiled.

A page with a column for every feature neither compiles nor runs anything of bundled.py.
"""

from numba import int64

from arboost.kernels.cpu.grow import bundled, split
from arboost.kernels.jit import forms_of


def find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    """best[e, f] for pairs (e, f) number start..stop whose node evals[e] has a histogram."""
    raise NotImplementedError  # only its two compiled forms are ever called


def _find_splits_plain(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    split.find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop)


@forms_of(find_splits, optimised=True)
def _choose_find_splits(page, extra, nodes, evals, hist, allowed, reg, best, scratch, start, stop):
    return bundled.find_splits if _is_bundled(page) else _find_splits_plain


def find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    """best[e, f] for nodes evals[start:stop] that are marked BY_ROWS, straight from their rows."""
    raise NotImplementedError  # only its two compiled forms are ever called


def _find_splits_by_rows_plain(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    split.find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop)


@forms_of(find_splits_by_rows, optimised=True)
def _choose_find_splits_by_rows(page, extra, nodes, evals, data, allowed, reg, best, scratch, start, stop):
    return bundled.find_splits_by_rows if _is_bundled(page) else _find_splits_by_rows_plain


def add_entries(page, ids, in_order, values, packing, builds, partial, hist, start, stop):
    """Sums of features that have no column, if there are any."""
    raise NotImplementedError  # only its two compiled forms are ever called


def _add_no_entries(page, ids, in_order, values, packing, builds, partial, hist, start, stop):
    pass


@forms_of(add_entries, optimised=True)
def _choose_add_entries(page, ids, in_order, values, packing, builds, partial, hist, start, stop):
    return bundled.add_entries if _is_bundled(page) else _add_no_entries


def sum_bins(page, node, out, f, g_left, h_left):
    """Running sums (OUT) over all bins of feature f, from the node's histogram `out`; returns how many there are."""
    raise NotImplementedError  # only its two compiled forms are ever called


def _sum_bins_plain(page, node, out, f, g_left, h_left):
    n = int64(page.n_bins[f])
    split.all_sums(out, page.slot_ptr[f], page.slot_ptr[page.slot_ptr.shape[0] - 1], n, g_left, h_left)
    return n


@forms_of(sum_bins, optimised=True)
def _choose_sum_bins(page, node, out, f, g_left, h_left):
    return bundled.sum_bins if _is_bundled(page) else _sum_bins_plain


def row_sizes(page):
    """(features, slots, entries of a typical row, 1 if some of them are sparse)."""
    raise NotImplementedError  # only its two compiled forms are ever called


def _row_sizes_plain(page):
    n = int64(page.n_bins.shape[0])
    return n, page.slot_ptr[n], n, int64(0)


@forms_of(row_sizes)
def _choose_row_sizes(page):
    return bundled.row_sizes if _is_bundled(page) else _row_sizes_plain


def _is_bundled(page):
    """Whether Numba's type of a page has a layout."""
    return len(page[page.fields.index("layout")]) > 0
