"""A page of bins made anew for every tree: the weight of each row, and bins from sorted columns and their cuts."""

from numba import int64, uint64

from arboost.kernels.cpu.sorted.summary import weight_of
from arboost.kernels.jit import kernel


@kernel
def weigh_rows(hessians, mask, chosen, weights, start, stop):
    """weights (OUT) of rows start..stop: their integer hessians, 0 where chosen[i] is; whether any has changed.

    An empty `chosen` means all rows.
    """
    changed = False
    for i in range(uint64(start), uint64(stop)):
        weight = weight_of(hessians, mask, i)
        if chosen.shape[0] > 0 and chosen[i] == 0:
            weight = int64(0)
        changed |= weight != weights[i]
        weights[i] = weight
    return changed


@kernel
def bin_runs(ptr, rows, values, features, firsts, n_cuts, cut_ptr, cut_values, columns, start, stop):
    """Bins of the present values of features[start:stop]: columns (OUT), and their cuts: cut_values (IN/OUT).

    Cut k of feature f is the value at firsts[f, k], k = 1 .. n_cuts[f]. A feature's last cut stands already, above all
    values; it also fills the places that it has for more bins than there are.
    """
    for a in range(start, stop):
        f = features[a]
        column = columns[f]
        first, n = ptr[f], n_cuts[f]
        for k in range(n + 1):
            last = firsts[f, k + 1] if k < n else ptr[f + 1]
            for i in range(uint64(first), uint64(last)):
                column[uint64(rows[i])] = k
            first = last
        at, end = int64(cut_ptr[f]), int64(cut_ptr[f + 1]) - 1
        for k in range(end - at):
            cut_values[at + k] = values[firsts[f, k + 1]] if k < n else cut_values[end]
