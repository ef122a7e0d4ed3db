"""Rows to children, and leaf weights to margins. Row ids are int32; an empty `rows` stands for 0, 1, 2, ...

A node owns rows[start:stop]; splitting it is a stable partition in place, through a buffer of the same shape:

    rows  a b c d e f g        goes left: b d e g
    temp  b d e g f c a        lefts from the front, rights from the back, one pass, no branch
    rows  b d e g|a c f        copied back, the right part reversed

Work is counted over the concatenated rows of all nodes in `batch`; a range that covers a node wholly finishes
it, a range that cuts it leaves a PIECE that `place_rows` puts in its place once all pieces are known.
"""

from numba import int64, uint64
from numba.extending import overload

from arboost.kernels.cpu import routes
from arboost.kernels.intrinsics import prefetch_item
from arboost.kernels.jit import OPTIONS, kernel, part, section
from arboost.kernels.scalar import clip

AHEAD = uint64(16)  # rows whose bins are prefetched


@part
def _partition(column, layout, node, rows, missing_code, start, stop, temp):
    """temp[start:stop] = the rows that go left, then the others backwards; returns how many go left."""
    first, width, flip = routes.route(layout, node, missing_code)
    left, right, last = uint64(start), uint64(stop - 1), uint64(stop - 1)
    identity = rows.shape[0] == 0
    for i in range(uint64(start), uint64(stop)):
        if not identity:
            prefetch_item(column, uint64(rows[i + AHEAD if i + AHEAD < last else last]))
        r = i if identity else uint64(rows[i])
        goes_left = routes.goes_left(column[r], first, width, flip, missing_code)
        temp[left] = r
        temp[right] = r
        left += uint64(goes_left)
        right -= uint64(not goes_left)
    return int64(left) - start


def _partition_by(columns, layout, node, rows, missing_code, start, stop, temp):
    """`_partition` by the column that the node is split on."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _partition_by_column(columns, layout, node, rows, missing_code, start, stop, temp):
    column = columns[routes.column_of(layout, node.feature)]
    return _partition(column, layout, node, rows, missing_code, start, stop, temp)


def _partition_by_any(columns, layout, node, rows, missing_code, start, stop, temp):
    if node.feature == columns.shape[0]:
        return _partition(layout[0], layout, node, rows, missing_code, start, stop, temp)
    return _partition(columns[node.feature], layout, node, rows, missing_code, start, stop, temp)


@overload(_partition_by, jit_options=OPTIONS)
def _choose_partition(columns, layout, node, rows, missing_code, start, stop, temp):
    return _partition_by_any if routes.has_made_column(layout) else _partition_by_column


@part
def _place(temp, start, stop, n_left, rows, left_at, right_at):
    """Copy a partitioned piece of temp to its two places in rows."""
    for i in range(uint64(n_left)):
        rows[uint64(left_at) + i] = temp[uint64(start) + i]
    for i in range(uint64(stop - start - n_left)):
        rows[uint64(right_at) + i] = temp[uint64(stop - 1) - i]


@section
def split_rows(columns, layout, nodes, batch, source, missing_code, temp, rows, n_left, pieces, start, stop):
    """Partition the batch's rows number start..stop.

    source: the rows as they are (`rows` itself, or empty for the untouched order); rows OUT;
    n_left (n_batch,) OUT for finished nodes; pieces (2,) OUT: the cut ones, node -1 where there is none.
    """
    pieces[0].node, pieces[1].node = -1, -1
    n_pieces = 0
    first = int64(0)
    for b in range(batch.shape[0]):
        node = nodes[batch[b]]
        n = node.stop - node.start
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        if lo >= hi:
            continue
        a, z = node.start + lo, node.start + hi
        count = _partition_by(columns, layout, node, source, missing_code, a, z, temp)
        if lo == 0 and hi == n:
            _place(temp, a, z, count, rows, a, a + count)
            n_left[b] = count
        else:
            piece = pieces[n_pieces]
            piece.node, piece.start, piece.stop, piece.n_left = b, a, z, count
            n_pieces += 1


@section
def place_rows(nodes, batch, pieces, temp, rows, n_left, start, stop):
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
        n_left[piece.node] = total
        _place(temp, piece.start, piece.stop, piece.n_left, rows, begin + before_left, begin + total + before_right)


@kernel
def add_leaf_weights(nodes, leaves, weights, rows, target, margin, start, stop):
    """margin[r, target] += the weight of r's leaf, for the leaves' rows number start..stop."""
    first = int64(0)
    t = uint64(target)
    for b in range(leaves.shape[0]):
        node = nodes[leaves[b]]
        n = node.stop - node.start
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        weight = weights[leaves[b]]
        if rows.shape[0] == 0:
            for i in range(uint64(node.start + lo), uint64(node.start + hi)):
                margin[i, t] += weight
        else:
            for i in range(uint64(node.start + lo), uint64(node.start + hi)):
                margin[uint64(rows[i]), t] += weight


@part
def _add_sides(column, layout, node, weights, rows, missing_code, target, margin, start, stop):
    """margin[r, target] += the weight of r's side of the node, for rows number start..stop."""
    first, width, flip = routes.route(layout, node, missing_code)
    w_left, w_right = weights[node.left], weights[node.right]
    identity = rows.shape[0] == 0
    for i in range(uint64(start), uint64(stop)):
        r = i if identity else uint64(rows[i])
        margin[r, target] += w_left if routes.goes_left(column[r], first, width, flip, missing_code) else w_right


def _add_sides_by(columns, layout, node, weights, rows, missing_code, target, margin, start, stop):
    """`_add_sides` by the column that the node is split on."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _add_sides_by_column(columns, layout, node, weights, rows, missing_code, target, margin, start, stop):
    column = columns[routes.column_of(layout, node.feature)]
    _add_sides(column, layout, node, weights, rows, missing_code, target, margin, start, stop)


def _add_sides_by_any(columns, layout, node, weights, rows, missing_code, target, margin, start, stop):
    if node.feature == columns.shape[0]:
        _add_sides(layout[0], layout, node, weights, rows, missing_code, target, margin, start, stop)
    else:
        _add_sides(columns[node.feature], layout, node, weights, rows, missing_code, target, margin, start, stop)


@overload(_add_sides_by, jit_options=OPTIONS)
def _choose_add_sides(columns, layout, node, weights, rows, missing_code, target, margin, start, stop):
    return _add_sides_by_any if routes.has_made_column(layout) else _add_sides_by_column


@kernel
def add_split_weights(columns, layout, nodes, batch, weights, rows, missing_code, target, margin, start, stop):
    """`add_leaf_weights` for nodes whose children are leaves, without partitioning their rows first."""
    first = int64(0)
    for b in range(batch.shape[0]):
        node = nodes[batch[b]]
        n = node.stop - node.start
        lo, hi = clip(start - first, n), clip(stop - first, n)
        first += n
        if lo >= hi:
            continue
        a, z = node.start + lo, node.start + hi
        _add_sides_by(columns, layout, node, weights, rows, missing_code, uint64(target), margin, a, z)
