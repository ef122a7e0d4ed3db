"""Rows to the two sides of a split: left ones from the front, right ones from the back, in any order."""

from numba import int32, int64, uint32

from arboost.kernels.gpu import categories
from arboost.kernels.gpu.arrays import (
    ALL_LANES,
    BATCH,
    BATCH_IDS,
    SPLIT_PTR,
    WARP,
    code_of,
    find_unit,
    goes_left,
    place_of,
)
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
    """Move the rows of the batch; the rows of a node of depth d are those of rows[d % 2].

    A thread asks for all its rows before it looks at one, and for all their codes: they lie anywhere.
    """
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    lane = t & 31
    before = (uint32(1) << uint32(lane)) - uint32(1)  # lanes before this one
    size = n_threads * ROWS_OF_THREAD
    ids, codes = cuda.local.array(ROWS_OF_THREAD, uint32), cuda.local.array(ROWS_OF_THREAD, int32)
    n_batch = int32(state[BATCH])
    for unit in range(cuda.blockIdx.x, lists[SPLIT_PTR, n_batch], cuda.gridDim.x):
        b = find_unit(lists, SPLIT_PTR, n_batch, unit)
        i = lists[BATCH_IDS, b]
        node = nodes[i]
        start = int32(node.start + int64(unit - lists[SPLIT_PTR, b]) * size)
        n_rows = int32(node.stop - start if node.stop - start < size else size)  # one at least
        place, split_bin, default_left = place_of(int32(node.feature), wide), node.bin, node.default_left
        if len(sets) > 0 and sets[categories.IS_CATEGORY][node.feature] != 0:
            split_bin = int32(BY_SET)
        side, ordered = node.depth & 1, i == 0 and in_order
        if t < 2:
            info[t] = 0
        for k in range(ROWS_OF_THREAD):
            j = t + k * n_threads
            at = uint32(start + (j if j < n_rows else n_rows - 1))
            ids[k] = at if ordered else uint32(rows[side, at])
        for k in range(ROWS_OF_THREAD):
            codes[k] = code_of(bins, ids[k], place, wide)
        cuda.syncthreads()
        n_left, n_right, bits = int32(0), int32(0), uint32(0)  # of the warp; of this thread
        for k in range(ROWS_OF_THREAD):
            is_here = t + k * n_threads < n_rows
            is_left = _is_left(codes[k], split_bin, default_left, missing, i, sets) & is_here  # `and` would wait
            bits |= uint32(is_left) << uint32(k)
            n = int32(cuda.popc(cuda.ballot_sync(ALL_LANES, is_left)))
            n_left += n
            n_right += _n_here(t - lane + k * n_threads, n_rows) - n
        left_at, right_at = int32(0), int32(0)
        if lane == 0:
            left_at = cuda.atomic.add(info, LEFT_HERE, n_left)
            right_at = cuda.atomic.add(info, RIGHT_HERE, n_right)
        left_at, right_at = cuda.shfl_sync(ALL_LANES, left_at, 0), cuda.shfl_sync(ALL_LANES, right_at, 0)
        cuda.syncthreads()
        if t < 2:
            info[LEFT_BEFORE + t] = cuda.atomic.add(moved, (b, t), info[LEFT_HERE + t])
        cuda.syncthreads()
        left = int32(node.start) + info[LEFT_BEFORE] + left_at
        right = int32(node.stop) - 1 - info[RIGHT_BEFORE] - right_at
        for k in range(ROWS_OF_THREAD):
            is_left = ((bits >> uint32(k)) & uint32(1)) != 0
            lefts = uint32(cuda.ballot_sync(ALL_LANES, is_left))
            if is_left:
                rows[1 - side, uint32(left + int32(cuda.popc(uint32(lefts & before))))] = ids[k]
            elif t + k * n_threads < n_rows:
                rows[1 - side, uint32(right - int32(cuda.popc(uint32(~lefts & before))))] = ids[k]
            n = int32(cuda.popc(lefts))
            left += n
            right -= _n_here(t - lane + k * n_threads, n_rows) - n
        cuda.syncthreads()


@gpu_part
def _n_here(first, n_rows):
    """How many lanes of a warp have a row, if the first has position `first` of n_rows."""
    n = n_rows - first
    return int32(0) if n < 0 else int32(WARP) if n > WARP else int32(n)


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
