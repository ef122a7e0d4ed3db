"""Bookkeeping of growth on a device: children, and who needs which histogram. One warp does it, a node a lane.

What is planned cannot change a bit of the tree: see kernels/cpu/grow/nodes.py.
"""

from numba import int32, int64

from arboost.kernels.gpu.arrays import (
    BATCH,
    BATCH_IDS,
    BUILD_IDS,
    BUILD_PTR,
    BUILDS,
    CHUNK_BITS,
    EVAL_IDS,
    EVALS,
    FREE,
    FREE_IDS,
    NO_BUFFER,
    NODES,
    SMALLER,
    SPLIT_PTR,
    TAKES,
    WARP,
    bits_of_size,
    last_of,
    n_units,
    scan,
)
from arboost.kernels.gpu.bounds import begin, hand_down
from arboost.kernels.gpu.jit import cuda, gpu_part

LEAST_CHUNK_BITS = 8  # 2**8 rows are worth clearing and adding up a block's accumulators


@gpu_part
def make_child(nodes, i, parent, depth, start, stop, g, h):
    node = nodes[i]
    node.start, node.stop, node.g, node.h = start, stop, g, h
    node.parent, node.depth = parent, depth
    node.left, node.right, node.feature, node.hist, node.gain = -1, -1, -1, NO_BUFFER, 0.0


@gpu_part
def make_children(nodes, i, left, n_left, bounds, reg):
    """Two children of node i by its best split; the first n_left of its rows are the left one's."""
    node = nodes[i]
    start, stop, depth, g, h = node.start, node.stop, node.depth + 1, node.g_left, node.h_left
    make_child(nodes, left, i, depth, start, start + n_left, g, h)
    make_child(nodes, left + 1, i, depth, start + n_left, stop, node.g - g, node.h - h)
    node.left, node.right = left, left + 1
    hand_down(bounds, nodes, i, reg)


@gpu_part
def may_split(depth, n_rows, h, max_depth, least_h):
    """Whether it is worth looking for a split."""
    return (max_depth == 0 or depth < max_depth) and n_rows >= 2 and h >= least_h


@gpu_part
def plan_batch(nodes, lists, moved, state, part_bits, lane):
    """Units of rows for the nodes of the batch, none of whose rows have moved yet."""
    n_batch, at, n_takes = int32(state[BATCH]), int32(0), int32(0)
    for first in range(0, n_batch, WARP):
        b = first + lane
        units, takes = int32(0), int32(0)
        if b < n_batch:
            node = nodes[lists[BATCH_IDS, b]]
            units = n_units(node.stop - node.start, part_bits)
            takes = int32(1) if node.hist >= 0 else int32(2)
            moved[b, 0] = 0
            moved[b, 1] = 0
        upto = scan(units, lane)
        if b < n_batch:
            lists[SPLIT_PTR, b] = at + upto - units
        at += last_of(upto)
        n_takes += last_of(scan(takes, lane))
    if lane == 0:
        lists[SPLIT_PTR, n_batch] = at
        state[TAKES] = n_takes


@gpu_part
def plan_root(nodes, lists, state, max_depth, least_h, n_groups, most_rows, bounds, reg, lane):
    """The root needs a histogram, or nothing if it cannot be split."""
    root = nodes[0]
    worth = 1 if may_split(0, root.stop - root.start, root.h, max_depth, least_h) else 0
    if lane == 0:
        state[NODES], state[EVALS], state[BUILDS] = 1, worth, worth
        begin(bounds, nodes, reg)
        if worth:
            nodes[0].hist = lists[FREE_IDS, int32(state[FREE]) - 1]
            state[FREE] -= 1
            lists[EVAL_IDS, 0], lists[SMALLER, 0], lists[BUILD_IDS, 0] = 0, NO_BUFFER, 0
    cuda.syncwarp()
    plan_builds(nodes, lists, state, n_groups, most_rows, lane)


@gpu_part
def give_back(lists, n_free, buffer, lane):
    """Put the lanes' buffers, where they have one, on the stack; returns how many are on it."""
    gives = int32(1) if buffer >= 0 else int32(0)
    upto = scan(gives, lane)
    if gives > 0:
        lists[FREE_IDS, n_free + upto - 1] = buffer
    return n_free + last_of(upto)


@gpu_part
def plan_children(nodes, lists, moved, state, max_depth, least_h, n_groups, most_rows, bounds, reg, lane):
    """Open the nodes of the batch, of whose rows moved[b, 0] have gone left: who is searched, who is built."""
    n_batch, n_nodes, n_free = int32(state[BATCH]), int32(state[NODES]), int32(state[FREE])
    n_evals, n_builds = int32(0), int32(0)
    for first in range(0, n_batch, WARP):
        b = first + lane
        left, small, large, buffer = int32(0), int32(0), int32(0), int32(NO_BUFFER)
        need_left, need_right, need_small, need_large = int32(0), int32(0), int32(0), int32(0)
        takes, gives = int32(0), int32(0)
        if b < n_batch:
            i = lists[BATCH_IDS, b]
            node = nodes[i]
            left, buffer = n_nodes + 2 * b, int32(node.hist)
            n_left = int64(moved[b, 0])
            make_children(nodes, i, left, n_left, bounds, reg)
            depth, n_right, h_left = node.depth + 1, node.stop - node.start - n_left, node.h_left
            need_left = int32(1) if may_split(depth, n_left, h_left, max_depth, least_h) else int32(0)
            need_right = int32(1) if may_split(depth, n_right, node.h - h_left, max_depth, least_h) else int32(0)
            small_left = n_left <= n_right
            small, large = (left, left + 1) if small_left else (left + 1, left)
            need_small, need_large = (need_left, need_right) if small_left else (need_right, need_left)
            if buffer >= 0:  # the smaller child is built, the larger is what remains of the parent
                takes = need_small | need_large
                gives = int32(1) - need_large
            else:
                takes = need_small + need_large
            if gives == 0:
                node.hist = NO_BUFFER
        evals_upto, takes_upto = scan(need_left + need_right, lane), scan(takes, lane)
        at = n_free - 1 - (takes_upto - takes)
        built = n_builds + takes_upto - takes
        smaller = int32(NO_BUFFER)
        if buffer >= 0 and takes > 0:
            smaller = lists[FREE_IDS, at]
            nodes[small].hist = smaller
            lists[BUILD_IDS, built] = small
            if need_large:
                nodes[large].hist = buffer
        elif takes > 0:
            if need_left:
                nodes[left].hist = lists[FREE_IDS, at]
                lists[BUILD_IDS, built] = left
            if need_right:
                nodes[left + 1].hist = lists[FREE_IDS, at - need_left]
                lists[BUILD_IDS, built + need_left] = left + 1
        e = n_evals + evals_upto - need_left - need_right
        if need_left:
            lists[EVAL_IDS, e] = left
            lists[SMALLER, e] = smaller if large == left else int32(NO_BUFFER)
        if need_right:
            lists[EVAL_IDS, e + need_left] = left + 1
            lists[SMALLER, e + need_left] = smaller if large == left + 1 else int32(NO_BUFFER)
        n_free -= last_of(takes_upto)
        n_evals += last_of(evals_upto)
        n_builds += last_of(takes_upto)
    cuda.syncwarp()  # all have taken theirs, and have read the counters
    for first in range(0, n_batch, WARP):  # what is given back is not zero
        b = first + lane
        buffer = int32(NO_BUFFER)
        if b < n_batch:
            node = nodes[lists[BATCH_IDS, b]]
            buffer = int32(node.hist)
            node.hist = NO_BUFFER
        n_free = give_back(lists, n_free, buffer, lane)
    if lane == 0:
        state[NODES], state[FREE], state[EVALS], state[BUILDS] = n_nodes + 2 * n_batch, n_free, n_evals, n_builds
    cuda.syncwarp()
    plan_builds(nodes, lists, state, n_groups, most_rows, lane)


@gpu_part
def plan_builds(nodes, lists, state, n_groups, most_rows, lane):
    """Units of rows for the nodes that are built: few enough to fill the device, short enough for 32-bit sums."""
    n_builds, total = int32(state[BUILDS]), int64(0)
    for first in range(0, n_builds, WARP):
        k = first + lane
        n_rows = int64(0)
        if k < n_builds:
            node = nodes[lists[BUILD_IDS, k]]
            n_rows = int64(node.stop - node.start)
        total += last_of(scan(n_rows, lane))
    most, bits = bits_of_size(int64(most_rows)), int32(LEAST_CHUNK_BITS)
    while bits < most and (int64(cuda.gridDim.x) << (bits + 1)) < total * n_groups:
        bits += 1
    bits = bits if bits < most else most
    at = int32(0)
    for first in range(0, n_builds, WARP):
        k = first + lane
        units = int32(0)
        if k < n_builds:
            node = nodes[lists[BUILD_IDS, k]]
            units = n_units(node.stop - node.start, bits)
        upto = scan(units, lane)
        if k < n_builds:
            lists[BUILD_PTR, k] = at + upto - units
        at += last_of(upto)
    if lane == 0:
        lists[BUILD_PTR, n_builds] = at
        state[CHUNK_BITS] = bits
    cuda.syncwarp()


@gpu_part
def open_nodes(nodes, lists, state, lane):
    """Those that were searched and have a split are the next batch; the others give their buffers back."""
    n_batch, n_free = int32(0), int32(state[FREE])
    for first in range(0, int32(state[EVALS]), WARP):
        e = first + lane
        i, opens, buffer = int32(0), int32(0), int32(NO_BUFFER)
        if e < state[EVALS]:
            i = lists[EVAL_IDS, e]
            if nodes[i].feature >= 0:
                opens = int32(1)
            else:
                buffer = int32(nodes[i].hist)
                nodes[i].hist = NO_BUFFER
        upto = scan(opens, lane)
        if opens > 0:
            lists[BATCH_IDS, n_batch + upto - 1] = i
        n_batch += last_of(upto)
        n_free = give_back(lists, n_free, buffer, lane)
    cuda.syncwarp()  # what one lane gave back another must not give back again
    for first in range(0, int32(state[BUILDS]), WARP):  # those that were built only to be subtracted
        k = first + lane
        buffer = int32(NO_BUFFER)
        if k < state[BUILDS]:
            node = nodes[lists[BUILD_IDS, k]]
            if node.feature < 0:
                buffer = int32(node.hist)
                node.hist = NO_BUFFER
        n_free = give_back(lists, n_free, buffer, lane)
    if lane == 0:
        state[BATCH], state[FREE] = n_batch, n_free
    cuda.syncwarp()
