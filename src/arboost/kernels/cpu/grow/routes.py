"""Which rows of a node go left, by the codes of one column of the page: a route (first, width, flip).

Codes first .. first + width - 1 go left, or all others if `flip` is 1. They are counted modulo the missing code + 1,
so that "missing, and the lower bins" is such a run too. Where features share columns, `layout` says how. A node that
is split by a set of categories has the route (1 if missing values go left, 0, BY_SET): only where `extra`, the
level's, is Special. Elsewhere nothing of that is compiled.
"""

from numba import int64, uint64

from arboost.kernels.cpu.grow.arrays import Special, as_extra, as_shared, is_of
from arboost.kernels.jit import forms_of, kernel, part

COLUMN, FIRST, WIDTH, FLIP, LEFT, RIGHT = range(6)
N_ROUTE = 6
BY_SET = 2


@part
def in_run(code, first, width, flip, mask):
    """Whether a row goes left by a run of codes; `mask` is the missing code."""
    return (((int64(code) - first) & mask) < width) != (flip != 0)


@part
def route_by_bins(split_bin, default_left, missing_code):
    """The route in a column whose codes are bins; a real bin equals the missing code only where default_left is
    never set."""
    return (missing_code, split_bin + 2, int64(0)) if default_left != 0 else (int64(0), split_bin + 1, int64(0))


@part
def route_in_bundle(split_bin, default_left, first, unstored, n_bins):
    """The route where one state of the feature, missing (-1) or a bin, has no code of its own."""
    n_stored, n_left = n_bins, split_bin + 1
    others_left = default_left != 0
    if unstored >= 0:
        n_stored -= 1
        others_left = unstored <= split_bin
        n_left -= int64(others_left)
    if others_left:
        return first + n_left, n_stored - n_left, int64(1)
    return first, n_left, int64(0)


def column_of(layout, feature):
    """The number of a feature's column."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@forms_of(column_of)
def _choose_column_of(layout, feature):
    if len(layout):
        return lambda layout, feature: int64(layout.column_of[feature])
    return lambda layout, feature: int64(feature)


def route(layout, extra, nodes, i, missing_code):
    """The route of node i."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _route_plain(layout, extra, nodes, i, missing_code):
    return route_by_bins(int64(nodes[i].bin), int64(nodes[i].default_left), int64(missing_code))


def _route_bundled(layout, extra, nodes, i, missing_code):
    node = nodes[i]
    f = node.feature
    first, unstored = int64(layout.first_of[f]), int64(layout.unstored[f])
    if unstored < -1:
        return route_by_bins(int64(node.bin), int64(node.default_left), int64(missing_code))
    return route_in_bundle(int64(node.bin), int64(node.default_left), first, unstored, int64(layout.n_bins[f]))


def _route_special(layout, extra, nodes, i, missing_code):
    if extra.sets.is_set[i]:
        return int64(nodes[i].default_left), int64(0), int64(BY_SET)
    return route_by_bins(int64(nodes[i].bin), int64(nodes[i].default_left), int64(missing_code))


@forms_of(route)
def _choose_route(layout, extra, nodes, i, missing_code):
    if is_of(extra, Special):
        return _route_special
    return _route_bundled if len(layout) else _route_plain


def goes_left(extra, i, code, first, width, flip, missing_code):
    """Whether a row with this code goes left at node i, whose route is (first, width, flip)."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _goes_left_plain(extra, i, code, first, width, flip, missing_code):
    return in_run(code, first, width, flip, missing_code)


def _goes_left_special(extra, i, code, first, width, flip, missing_code):
    if flip != BY_SET:
        return in_run(code, first, width, flip, missing_code)
    if int64(code) == missing_code:
        return first != 0
    category = uint64(code)
    return (extra.sets.bits[i, category >> uint64(6)] >> (category & uint64(63))) & uint64(1) == uint64(0)


@forms_of(goes_left)
def _choose_goes_left(extra, i, code, first, width, flip, missing_code):
    return _goes_left_special if is_of(extra, Special) else _goes_left_plain


@part
def leaf_of(bins, r, table, extra, missing_code):
    """The leaf of row r by its codes, bins[r]; table: see `write_routes`."""
    i = int64(0)
    while table[i, LEFT] >= 0:
        code = bins[r, uint64(table[i, COLUMN])]
        is_left = goes_left(extra, i, code, table[i, FIRST], table[i, WIDTH], table[i, FLIP], missing_code)
        i = table[i, LEFT] if is_left else table[i, RIGHT]
    return i


@kernel
def write_routes(layout_arrays, extra_arrays, nodes, missing_code, table, start, stop):
    """table[i] (N_ROUTE,) int64 OUT: how to walk through node i of a grown tree; LEFT is -1 at a leaf."""
    layout, extra = as_shared(layout_arrays), as_extra(extra_arrays)
    for i in range(start, stop):
        node, line = nodes[i], table[i]
        line[LEFT], line[RIGHT] = node.left, node.right
        if node.left >= 0:
            line[COLUMN] = column_of(layout, node.feature)
            line[FIRST], line[WIDTH], line[FLIP] = route(layout, extra, nodes, i, missing_code)
