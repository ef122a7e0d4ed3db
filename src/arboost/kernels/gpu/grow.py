"""Levels of a tree in one launch: all blocks of the device work together, with barriers between the steps.

A launch costs as much as ten barriers, and a copy of what it found to the host as much again: where nothing comes
between the levels, a whole tree is one launch. Arguments that are an empty tuple leave out what depends on them: a
kernel is compiled for each kind of tree. They are `bounds`, `sets` and `chosen`: bounds.py, categories.py, choice.py.
"""

from numba import float32, int32, int64

from arboost.kernels.gpu import categories, choice, histogram, partition, plan, quantize, split
from arboost.kernels.gpu.arrays import (
    BATCH,
    BATCH_IDS,
    BUILDS,
    EVALS,
    FREE,
    FREE_IDS,
    NODES,
    TAKES,
    WARP,
    bits_of_size,
    place_of,
    zero_buffers,
)
from arboost.kernels.gpu.bounds import weight_of
from arboost.kernels.gpu.jit import cuda, gpu_kernel, gpu_part


@gpu_part
def _close(nodes, lists, state, bounds, reg, t, n_threads):
    """Children of the batch, all of them leaves, whose rows stay where they are."""
    n_batch, n_nodes = int32(state[BATCH]), int32(state[NODES])
    for b in range(t, n_batch, n_threads):
        plan.make_children(nodes, lists[BATCH_IDS, b], n_nodes + 2 * b, 0, bounds, reg)
    cuda.syncthreads()
    if t == 0:
        state[NODES], state[BATCH] = n_nodes + 2 * n_batch, 0


@gpu_part
def _grow_levels(
    grid, bins, n_words, wide, missing, slot_ptr, n_bins, planes, shift, parts, most_rows, rows, in_order,
    nodes, lists, moved, state, hist, best, allowed, reg, max_depth, least_h, begins, n_levels, close_at,
    bounds, sets, chosen,
):  # fmt: skip
    """Open the batch, then the nodes found by that, and so on for n_levels; `begins`: the root comes first.

    Nodes of depth `close_at` get leaves for children, and that is the end. Buffers that are taken next are zero.
    """
    sums = cuda.shared.array(8192, int32)
    info = cuda.shared.array(4, int32)
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    lane, warp, n_warps = t & 31, t // WARP, n_threads // WARP
    in_first_warp = cuda.blockIdx.x == 0 and warp == 0
    part_bits = bits_of_size(n_threads * partition.ROWS_OF_THREAD)
    group = histogram.words_of_group(parts)
    n_groups = 1 if parts == histogram.DIRECT else (n_words + group - 1) // group
    for step in range(n_levels + begins):
        first_child = int32(0)
        if begins and step == 0:
            if in_first_warp:
                plan.plan_root(nodes, lists, state, max_depth, least_h, n_groups, most_rows, bounds, reg, lane)
        else:
            first_child = int32(state[NODES])
            n_batch = int32(state[BATCH])
            if n_batch == 0:
                break
            if nodes[lists[BATCH_IDS, 0]].depth == close_at:
                if cuda.blockIdx.x == 0:  # whether others still find a batch or none now, they end here
                    _close(nodes, lists, state, bounds, reg, t, n_threads)
                break
            zero_buffers(hist, lists, int32(state[FREE]), state[TAKES])
            partition.split_rows(bins, wide, missing, rows, in_order, nodes, lists, moved, state, sets, info)
            grid.sync()
            if in_first_warp:
                plan.plan_children(
                    nodes, lists, moved, state, max_depth, least_h, n_groups, most_rows, bounds, reg, lane
                )
        grid.sync()
        if state[BUILDS] > 0:
            if parts == histogram.DIRECT:
                histogram.build_directly(
                    bins, wide, slot_ptr, n_bins, planes, shift, rows, in_order, nodes, lists, state, hist
                )
            else:
                histogram.build(
                    bins, n_words, slot_ptr, n_bins, planes, shift, parts, rows, in_order, nodes, lists, state, hist,
                    sums,
                )  # fmt: skip
            if len(chosen) > 0 and chosen[1][choice.PLANE] == choice.COUNTS:
                if parts == histogram.DIRECT:
                    histogram.count_directly(
                        bins, wide, slot_ptr, n_bins, planes, rows, in_order, nodes, lists, state, hist
                    )
                else:
                    histogram.count_rows(
                        bins, n_words, slot_ptr, n_bins, planes, rows, in_order, nodes, lists, state, hist, sums
                    )  # fmt: skip
        grid.sync()
        if len(chosen) > 0:
            choice.find_splits(
                slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, chosen, reg, best
            )  # fmt: skip
        else:
            split.find_splits(
                slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, bounds, sets, reg, best
            )  # fmt: skip
        if len(sets) > 0:
            categories.find_sets(
                slot_ptr, n_bins, nodes, lists, state, hist, allowed, first_child, bounds, sets, reg, best
            )  # fmt: skip
        grid.sync()
        if cuda.blockIdx.x == 0:
            if len(chosen) > 0:
                choice.subtract_totals(nodes, lists, state, hist, slot_ptr[n_bins.shape[0]], t, n_threads)
            split.select_splits(nodes, lists, state, best, bounds, reg, warp, n_warps, lane)
            cuda.syncthreads()
            if warp == 0:
                plan.open_nodes(nodes, lists, state, lane)
                plan.plan_batch(nodes, lists, moved, state, part_bits, lane)
        if len(sets) > 0:
            grid.sync()
            categories.keep_sets(slot_ptr, n_bins, nodes, lists, state, hist, sets, reg)
        grid.sync()


def _grow(
    bins, n_words, wide, missing, slot_ptr, n_bins, planes, shift, parts, most_rows, rows, in_order,
    nodes, lists, moved, state, hist, best, allowed, reg, max_depth, least_h, begins, n_levels, close_at,
    bounds, sets, chosen,
):  # fmt: skip
    """Some levels: see `_grow_levels`."""
    grid = cuda.cg.this_grid()
    if begins:
        zero_buffers(hist, lists, int32(state[FREE]), 1)
    elif cuda.blockIdx.x == 0 and cuda.threadIdx.x < WARP:
        part_bits = bits_of_size(cuda.blockDim.x * partition.ROWS_OF_THREAD)
        plan.plan_batch(nodes, lists, moved, state, part_bits, int32(cuda.threadIdx.x))
    grid.sync()
    _grow_levels(
        grid, bins, n_words, wide, missing, slot_ptr, n_bins, planes, shift, parts, most_rows, rows, in_order,
        nodes, lists, moved, state, hist, best, allowed, reg, max_depth, least_h, begins, n_levels, close_at,
        bounds, sets, chosen,
    )  # fmt: skip


@gpu_part
def _begin(nodes, lists, state, hist, found, n_buffers, n_rows):
    """A tree that has a root and nothing else."""
    j = cuda.grid(1)
    if j < found.shape[0]:
        found[j] = 0
    for b in range(j, n_buffers, cuda.gridsize(1)):
        lists[FREE_IDS, b] = b
    if j == 0:
        root = nodes[0]
        root.start, root.stop, root.gain, root.depth = 0, n_rows, 0.0, 0
        root.left, root.right, root.feature, root.parent, root.hist = -1, -1, -1, -1, -1
        state[NODES], state[BATCH], state[EVALS], state[BUILDS], state[FREE] = 1, 0, 0, 0, n_buffers
    for k in range(j, hist.shape[1], cuda.gridsize(1)):
        hist[n_buffers - 1, k] = 0


@gpu_part
def _write_table(nodes, wide, state, bounds, sets, reg, eta, table, weights):
    """How rows walk the finished tree, and what its leaves add: levels/finish.py's weights."""
    for i in range(cuda.grid(1), int32(state[NODES]), cuda.gridsize(1)):
        node = nodes[i]
        table[i, 0], table[i, 1] = node.left, place_of(int32(node.feature), wide)
        table[i, 2], table[i, 3] = node.bin, node.default_left
        if len(sets) > 0 and node.left >= 0 and sets[categories.IS_CATEGORY][node.feature] != 0:
            table[i, 2] = partition.BY_SET
        weights[i] = float32(weight_of(bounds, nodes, i, reg)) * eta


def _grow_tree(
    bins, n_words, wide, missing, slot_ptr, n_bins, g, h, planes, rows, n_sampled, nodes, lists, moved, state, hist,
    best, allowed, reg, found, max_depth, table, weights, eta, n_failed, bounds, sets, chosen,
):  # fmt: skip
    """A whole tree: integers for the gradients g and h, all levels, and how rows walk it.

    n_sampled: how many rows of rows[0] it is grown on, -1 for all there are. found[IS_BAD] tells why there is none,
    and n_failed counts it.
    """
    grid = cuda.cg.this_grid()
    in_order = n_sampled < 0
    n_buffers = int32(hist.shape[0])
    _begin(nodes, lists, state, hist, found, n_buffers, int64(g.shape[0]) if in_order else n_sampled)
    grid.sync()
    quantize.quantize(grid, g, h, planes, found, reg)
    grid.sync()
    if found[quantize.IS_BAD] != quantize.GOOD:
        if cuda.grid(1) == 0:
            n_failed[0] += 1
        return
    shift = found[quantize.SHIFT]
    at = quantize.SUMS + 2
    if not in_order:
        at = quantize.SUMS
        if cuda.grid(1) < 2:
            found[at + cuda.grid(1)] = 0
        grid.sync()
        quantize.sum_rows(planes, rows, n_sampled, shift, found, at)
        grid.sync()
    if cuda.grid(1) == 0:
        nodes[0].g, nodes[0].h = found[at], found[at + 1]
        if len(chosen) > 0:
            choice.begin(chosen, found)
    cuda.syncthreads()
    parts, most_rows = histogram.QUARTERS, int64(1024)
    if wide or (shift != 32 and found[quantize.G_BITS] > histogram.QUARTER_BITS):
        parts, most_rows = histogram.DIRECT, int64(4096)
    elif shift == 32:
        parts = histogram.HALVES
        most_rows = found[quantize.BLOCK_ROWS]
    _grow_levels(
        grid, bins, n_words, wide, missing, slot_ptr, n_bins, planes, shift, parts, most_rows, rows, in_order,
        nodes, lists, moved, state, hist, best, allowed, reg, max_depth, found[quantize.LEAST_H], 1, max_depth,
        max_depth - 1, bounds, sets, chosen,
    )  # fmt: skip
    grid.sync()
    _write_table(nodes, wide, state, bounds, sets, reg, eta, table, weights)


# One block of a whole tree works on a processor, with all its registers: two of half as many hide waits for memory no
# better than rows that are asked for ahead, and keep in memory what one has in registers.
grow = gpu_kernel(_grow, max_registers=64, shared_memory_carveout=100)
grow_tree = gpu_kernel(_grow_tree, shared_memory_carveout=100)
add_weights = gpu_kernel(partition.add_weights)
find_leaves = gpu_kernel(partition.find_leaves)
