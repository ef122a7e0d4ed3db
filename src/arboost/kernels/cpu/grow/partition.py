"""Rows to children, and leaf weights to margins. Row ids are int32; while they are `in_order` row i is i itself.

A node owns ids[start:stop]; splitting it is a stable partition in place, through a buffer of the same shape:

    ids   a b c d e f g        goes left: b d e g
    temp  b d e g f c a        lefts from the front, rights from the back, one pass, no branch
    ids   b d e g|a c f        copied back, the right part reversed

Work is counted over the concatenated rows of all nodes in `batch`; a range that covers a node wholly finishes
it, a range that cuts it leaves a PIECE that `place_rows` puts in its place once all pieces are known.
"""

from numba import int64, types, uint64

from arboost.kernels.cpu.grow import routes
from arboost.kernels.cpu.grow.arrays import as_extra, as_page, origin_of
from arboost.kernels.intrinsics import prefetch_item
from arboost.kernels.jit import forms_of, kernel, part, section
from arboost.kernels.scalar import clip

AHEAD = uint64(16)  # rows whose bins are prefetched


@part
def partition_run(page, extra, nodes, i, ids, in_order, start, stop, temp):
    """temp[start:stop] = the rows of node i's ids[start:stop] that go left, then the others backwards.

    Returns how many go left. All of them are rows of the page.
    """
    column = page.columns[routes.column_of(page.layout, nodes[i].feature)]
    missing_code, origin = page.missing_code, origin_of(page.first_row)
    first, width, flip = routes.route(page.layout, extra, nodes, i, missing_code)
    left, right, last = uint64(start), uint64(stop - 1), uint64(stop - 1)
    for j in range(uint64(start), uint64(stop)):
        if not in_order:
            prefetch_item(column, uint64(ids[j + AHEAD if j + AHEAD < last else last]) - origin)
        r = j if in_order else uint64(ids[j])
        goes_left = routes.goes_left(extra, i, column[r - origin], first, width, flip, missing_code)
        temp[left] = r
        temp[right] = r
        left += uint64(goes_left)
        right -= uint64(not goes_left)
    return int64(left) - start


@part
def place(temp, start, stop, n_left, ids, left_at, right_at):
    """Copy a partitioned piece of temp to its two places in ids."""
    for i in range(uint64(n_left)):
        ids[uint64(left_at) + i] = temp[uint64(start) + i]
    for i in range(uint64(stop - start - n_left)):
        ids[uint64(right_at) + i] = temp[uint64(stop - 1) - i]


@section
def split_rows(page, extra, nodes, batch, rows, in_order, pieces, start, stop):
    """Partition the batch's rows number start..stop.

    rows.n_left OUT for finished nodes; pieces (2,) OUT: the cut ones, node -1 where there is none.
    """
    pieces[0].node, pieces[1].node = -1, -1
    n_pieces = 0
    first = int64(0)
    for b in range(batch.shape[0]):
        i = batch[b]
        node = nodes[i]
        n = node.stop - node.start
        if n == 0:  # its rows are all on other workers
            rows.n_left[b] = 0
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        if lo >= hi:
            continue
        a, z = node.start + lo, node.start + hi
        count = partition_run(page, extra, nodes, i, rows.ids, in_order, a, z, rows.temp)
        if lo == 0 and hi == n:
            place(rows.temp, a, z, count, rows.ids, a, a + count)
            rows.n_left[b] = count
        else:
            piece = pieces[n_pieces]
            piece.node, piece.start, piece.stop, piece.n_left = b, a, z, count
            n_pieces += 1


@section
def place_rows(nodes, batch, pieces, rows, start, stop):
    """Put pieces start..stop of cut nodes in place: after the lefts, then after the rights, of earlier pieces."""
    for p in range(start, stop):
        piece = pieces[p]
        if piece.node < 0:
            continue
        before_left, before_right, total = int64(0), int64(0), int64(0)
        for q in range(pieces.shape[0]):
            other = pieces[q]
            if other.node == piece.node:
                total += other.n_left
                if other.start < piece.start:
                    before_left += other.n_left
                    before_right += other.stop - other.start - other.n_left
        begin = nodes[batch[piece.node]].start
        rows.n_left[piece.node] = total
        at = begin + before_left, begin + total + before_right
        place(rows.temp, piece.start, piece.stop, piece.n_left, rows.ids, at[0], at[1])


# ---- weights to margins ----


def add_weight(margin, r, target, weights, i):
    """margin[r] += the weight of leaf i: one for `target`, or one for each target."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _add_one_weight(margin, r, target, weights, i):
    margin[r, uint64(target)] += weights[i]


def _add_vector(margin, r, target, weights, i):
    for t in range(uint64(weights.shape[1])):
        margin[r, t] += weights[i, t]


@forms_of(add_weight)
def _choose_add_weight(margin, r, target, weights, i):
    return _add_vector if isinstance(weights, types.Array) and weights.ndim == 2 else _add_one_weight


@kernel
def add_leaf_weights(nodes, leaves, weights, ids, in_order, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for the leaves' rows number start..stop; weights (n_nodes,), or
    (n_nodes, n_targets) for all targets."""
    first = int64(0)
    for b in range(leaves.shape[0]):
        i = uint64(leaves[b])
        node = nodes[i]
        n = node.stop - node.start
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        if in_order:
            for j in range(uint64(node.start + lo), uint64(node.start + hi)):
                add_weight(margin, j, target, weights, i)
        else:
            for j in range(uint64(node.start + lo), uint64(node.start + hi)):
                add_weight(margin, uint64(ids[j]), target, weights, i)


@kernel
def add_split_weights(page_arrays, extra_arrays, nodes, batch, weights, ids, in_order, target, margin, start, stop):
    """`add_leaf_weights` for nodes whose children are leaves, without partitioning their rows first."""
    page, extra = as_page(page_arrays), as_extra(extra_arrays)
    first = int64(0)
    missing_code, origin = page.missing_code, origin_of(page.first_row)
    for b in range(batch.shape[0]):
        i = batch[b]
        node = nodes[i]
        n = node.stop - node.start
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        if lo >= hi:
            continue
        column = page.columns[routes.column_of(page.layout, node.feature)]
        begin, width, flip = routes.route(page.layout, extra, nodes, i, missing_code)
        left, right = uint64(node.left), uint64(node.right)
        for j in range(uint64(node.start + lo), uint64(node.start + hi)):
            r = j if in_order else uint64(ids[j])
            goes_left = routes.goes_left(extra, i, column[r - origin], begin, width, flip, missing_code)
            add_weight(margin, r, target, weights, left if goes_left else right)


@kernel
def add_weights_by_bins(bins, first_row, table, extra_arrays, weights, skip, missing_code, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for rows r = first_row + (start..stop) where skip[r] == 0.

    bins (n_rows, at least n_columns) row-major; table: see `routes.write_routes`.
    """
    extra = as_extra(extra_arrays)
    for i in range(uint64(start), uint64(stop)):
        r = origin_of(first_row) + i
        if not skip[r]:
            leaf = routes.leaf_of(bins, i, table, extra, missing_code)
            add_weight(margin, r, target, weights, uint64(leaf))
