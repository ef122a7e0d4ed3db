"""Rows to the two sides of a split: left ones from the front, right ones from the back, in any order."""

from numba import int32, int64, uint32

from arboost.kernels.gpu import categories
from arboost.kernels.gpu.arrays import (
    ALL_LANES,
    BATCH,
    BATCH_IDS,
    SPLIT_PTR,
    code_of,
    find_unit,
    goes_left,
    place_of,
    scan,
)
from arboost.kernels.gpu.histogram import row_of
from arboost.kernels.gpu.jit import cuda, gpu_part

ROWS_OF_THREAD = 4
BY_SET = -2  # in place of a bin in a table: a node that is split by a set
LEFT_HERE, RIGHT_HERE, LEFT_BEFORE, RIGHT_BEFORE = range(4)  # of a block's `info`


@gpu_part
def _is_left(code, split_bin, default_left, missing, i, sets):
    """Whether a row with this code goes left at node i."""
    if len(sets) > 0 and split_bin == BY_SET:
        return categories.goes_left(sets[categories.BITS], i, code, default_left, missing)
    return goes_left(code, split_bin, default_left, missing)


@gpu_part
def split_rows(bins, wide, missing, rows, in_order, nodes, lists, moved, state, sets, info):
    """Move the rows of the batch; the rows of a node of depth d are those of rows[d % 2]."""
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    lane = t & 31
    size = n_threads * ROWS_OF_THREAD
    n_batch = int32(state[BATCH])
    for unit in range(cuda.blockIdx.x, lists[SPLIT_PTR, n_batch], cuda.gridDim.x):
        b = find_unit(lists, SPLIT_PTR, n_batch, unit)
        i = lists[BATCH_IDS, b]
        node = nodes[i]
        start = node.start + int64(unit - lists[SPLIT_PTR, b]) * size
        stop = start + size if start + size < node.stop else node.stop
        place, split_bin, default_left = place_of(int32(node.feature), wide), node.bin, node.default_left
        if len(sets) > 0 and sets[categories.IS_CATEGORY][node.feature] != 0:
            split_bin = int32(BY_SET)
        to = 1 - (node.depth & 1)
        if t < 2:
            info[t] = 0
        cuda.syncthreads()
        bits, n, n_left = uint32(0), int32(0), int32(0)
        for j in range(start + t, stop, n_threads):
            r = row_of(rows, node, i, j, in_order)
            if _is_left(code_of(bins, r, place, wide), split_bin, default_left, missing, i, sets):
                bits |= uint32(1) << uint32(n)
                n_left += 1
            n += 1
        left_upto, right_upto = scan(n_left, lane), scan(n - n_left, lane)
        left_at, right_at = int32(0), int32(0)
        if lane == 31:
            left_at = cuda.atomic.add(info, LEFT_HERE, left_upto)
            right_at = cuda.atomic.add(info, RIGHT_HERE, right_upto)
        left_at, right_at = cuda.shfl_sync(ALL_LANES, left_at, 31), cuda.shfl_sync(ALL_LANES, right_at, 31)
        cuda.syncthreads()
        if t < 2:
            info[LEFT_BEFORE + t] = cuda.atomic.add(moved, (b, t), info[LEFT_HERE + t])
        cuda.syncthreads()
        left = node.start + info[LEFT_BEFORE] + left_at + left_upto - n_left
        right = node.stop - 1 - info[RIGHT_BEFORE] - right_at - (right_upto - (n - n_left))
        n = int32(0)
        for j in range(start + t, stop, n_threads):
            r = row_of(rows, node, i, j, in_order)
            if (bits >> uint32(n)) & uint32(1):
                rows[to, left] = r
                left += 1
            else:
                rows[to, right] = r
                right -= 1
            n += 1
        cuda.syncthreads()


def add_weights(bins, wide, missing, table, weights, n_failed, target, margin, sets):
    """margin[r, target] += the weight of row r's leaf, for all rows; table (n_nodes, 4): left child, place, bin and
    default direction of every node. Nothing where a tree has failed: those beside it have to wait for it."""
    if n_failed[0] > 0:
        return
    for r in range(cuda.grid(1), bins.shape[0], cuda.gridsize(1)):
        margin[r, target] += weights[leaf_of(bins, r, wide, missing, table, sets)]


def find_leaves(bins, wide, missing, table, leaves, sets):
    """leaves[r] = the leaf of row r."""
    for r in range(cuda.grid(1), bins.shape[0], cuda.gridsize(1)):
        leaves[r] = leaf_of(bins, r, wide, missing, table, sets)


@gpu_part
def leaf_of(bins, r, wide, missing, table, sets):
    """The leaf of row r by its codes; the right child follows the left one."""
    i = int32(0)
    while table[i, 0] >= 0:
        is_left = _is_left(code_of(bins, r, table[i, 1], wide), table[i, 2], table[i, 3], missing, i, sets)
        i = table[i, 0] if is_left else table[i, 0] + 1
    return i
