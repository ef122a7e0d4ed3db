"""Which rows of a node go left, by the codes of one column of the page.

Codes first .. first + width - 1 go left, or all others if `flip` is 1. They are counted modulo the missing code + 1,
so that "missing, and the lower bins" is such a run too. `layout` is (column_of, first_of, unstored, n_bins) as in
matrix/bundles.py where features share columns, else () where every feature has its own, or (made,) where one more
column, behind the last, is a grower's own: see level_general.py.
"""

from numba import int64, uint64
from numba.extending import overload

from arboost.kernels.jit import OPTIONS, kernel, part

COLUMN, FIRST, WIDTH, FLIP, LEFT, RIGHT = range(6)
N_ROUTE = 6


@part
def goes_left(code, first, width, flip, mask):
    """The side of a row; `mask` is the missing code."""
    return (((int64(code) - first) & mask) < width) != (flip != 0)


@part
def route_by_bins(split_bin, default_left, missing_code):
    """(first, width, flip) in a column whose codes are bins; a real bin equals the missing code only where
    default_left is never set."""
    return (missing_code, split_bin + 2, int64(0)) if default_left != 0 else (int64(0), split_bin + 1, int64(0))


@part
def route_in_bundle(split_bin, default_left, first, unstored, n_bins):
    """(first, width, flip) where one state of the feature, missing (-1) or a bin, has no code of its own."""
    n_stored, n_left = n_bins, split_bin + 1
    others_left = default_left != 0
    if unstored >= 0:
        n_stored -= 1
        others_left = unstored <= split_bin
        n_left -= int64(others_left)
    if others_left:
        return first + n_left, n_stored - n_left, int64(1)
    return first, n_left, int64(0)


def shares_columns(layout):
    """Whether a layout, or its type, is that of features that share columns."""
    return len(layout) > 1


def has_made_column(layout):
    """Whether a layout, or its type, has a column that a grower makes."""
    return len(layout) == 1


def column_of(layout, feature):
    """The number of a feature's column."""
    raise NotImplementedError  # only its two compiled forms below are ever called


@overload(column_of, jit_options=OPTIONS)
def _choose_column_of(layout, feature):
    if shares_columns(layout):
        return lambda layout, feature: int64(layout[0][feature])
    return lambda layout, feature: int64(feature)


def route(layout, node, missing_code):
    """(first, width, flip) of a node's split."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _route_plain(layout, node, missing_code):
    return route_by_bins(int64(node.bin), int64(node.default_left), missing_code)


def _route_shared(layout, node, missing_code):
    f = node.feature
    first, unstored = int64(layout[1][f]), int64(layout[2][f])
    if unstored < -1:
        return route_by_bins(int64(node.bin), int64(node.default_left), missing_code)
    return route_in_bundle(int64(node.bin), int64(node.default_left), first, unstored, int64(layout[3][f]))


@overload(route, jit_options=OPTIONS)
def _choose_route(layout, node, missing_code):
    return _route_shared if shares_columns(layout) else _route_plain


@part
def leaf_of(bins, r, table, missing_code):
    """The leaf of row r by its codes, bins[r]; table: see `write_routes`."""
    i = int64(0)
    while table[i, LEFT] >= 0:
        code = bins[r, uint64(table[i, COLUMN])]
        is_left = goes_left(code, table[i, FIRST], table[i, WIDTH], table[i, FLIP], missing_code)
        i = table[i, LEFT] if is_left else table[i, RIGHT]
    return i


@kernel
def write_routes(layout, nodes, missing_code, table, start, stop):
    """table[i] (N_ROUTE,) int64 OUT: how to walk through node i of a grown tree; LEFT is -1 at a leaf."""
    for i in range(start, stop):
        node, line = nodes[i], table[i]
        line[LEFT], line[RIGHT] = node.left, node.right
        if node.left >= 0:
            line[COLUMN] = column_of(layout, node.feature)
            line[FIRST], line[WIDTH], line[FLIP] = route(layout, node, missing_code)
