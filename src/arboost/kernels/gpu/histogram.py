"""Sums of gradients in bins: blocks of a device add up stretches of rows in shared memory, then in global memory.

Sums in shared memory have 32 bits. Where gradient and hessian share 64 bits half and half, a stretch is so short that
neither half can overflow (levels/quantize.py); else each is cut in two parts of 20 and up to 20 bits. Where even that
is too little, or codes have 16 bits, rows are added to global memory one by one. Integers: any order, the same sums.
"""

from numba import int32, int64, uint32

from arboost.kernels.gpu.arrays import BUILD_IDS, BUILD_PTR, BUILDS, CHUNK_BITS, code_of, find_unit, place_of
from arboost.kernels.gpu.jit import cuda, gpu_part

SLOTS = 8192  # 32-bit sums in the shared memory of a block
STRIDE = 256  # slots of a feature's codes
HALVES, QUARTERS, DIRECT = 2, 4, 0  # `parts`: how many sums a slot has
LOW_BITS = 20
QUARTER_BITS = 2 * LOW_BITS  # of a gradient, that two parts can hold
_LOW = (1 << LOW_BITS) - 1
AHEAD = 4  # rows that a thread has asked memory for before it adds up the first: they lie anywhere, and that takes long


@gpu_part
def words_of_group(parts):
    """How many words of a row one block adds up in a go: as many as its shared memory has slots for."""
    return int32(4) if parts == HALVES else int32(2)


@gpu_part
def row_of(rows, node, i, j, in_order):
    """The row at position j of a node's rows; the root's may not be written down."""
    return j if i == 0 and in_order else int64(rows[node.depth & 1, j])


@gpu_part
def stretch_of(nodes, lists, n_builds, chunk, unit):
    """(node, start, stop): the rows that a unit of work adds up."""
    k = find_unit(lists, BUILD_PTR, n_builds, unit)
    i = lists[BUILD_IDS, k]
    node = nodes[i]
    start = node.start + (unit - lists[BUILD_PTR, k]) * chunk
    return i, start, start + chunk if start + chunk < node.stop else node.stop


@gpu_part
def split_value(planes, shift, r):
    """(g, h) of a row in quanta."""
    v = planes[0, r]
    if shift > 0:
        return v >> shift, v & ((int64(1) << shift) - 1)
    return v, planes[1, r]


@gpu_part
def _slot_of(codes, q, first):
    """Where the q-th code of a word is summed. Unsigned: an index that could be below zero is looked at once more."""
    return uint32(uint32(first + q * STRIDE) + ((codes >> uint32(8 * q)) & uint32(255)))


@gpu_part
def _add_half(codes, v, first, sums):
    """Add a row to shared memory by the four codes of a word, from slot `first` on."""
    g, h = int32(v >> 32), int32(v & 0xFFFFFFFF)
    for q in range(4):
        slot = _slot_of(codes, q, first)
        cuda.atomic.add(sums, slot, g)
        cuda.atomic.add(sums, uint32(slot + uint32(SLOTS // HALVES)), h)


@gpu_part
def _add_halves(bins, word, planes, rows, side, ordered, start, stop, step, first, sums):
    """Add the codes of one word of the rows start, start + step, ... to shared memory from slot `first` on.

    No condition stands between a row and its neighbours: loads would wait behind it.
    """
    ids, codes = cuda.local.array(AHEAD, uint32), cuda.local.array(AHEAD, uint32)
    values = cuda.local.array(AHEAD, int64)
    n_steps = (stop - start + step - 1) // step if start < stop else int32(0)
    single = start + n_steps // AHEAD * AHEAD * step
    for j in range(start, single, AHEAD * step):
        for k in range(AHEAD):
            ids[k] = _row_at(rows, side, ordered, j + k * step)
        for k in range(AHEAD):
            codes[k], values[k] = bins[ids[k], uint32(word)], planes[0, ids[k]]
        for k in range(AHEAD):
            _add_half(codes[k], values[k], first, sums)
    for j in range(single, stop, step):
        r = _row_at(rows, side, ordered, j)
        _add_half(bins[r, uint32(word)], planes[0, r], first, sums)


@gpu_part
def _row_at(rows, side, ordered, j):
    """`row_of` where side and order are known: a loop would read the node anew for every row."""
    at = uint32(j)
    return at if ordered else uint32(rows[side, at])


@gpu_part
def _add_quarters(bins, word, planes, shift, rows, side, ordered, start, stop, step, first, sums):
    """The same where gradient and hessian are cut in two parts each."""
    size = uint32(SLOTS // QUARTERS)
    for j in range(start, stop, step):
        r = _row_at(rows, side, ordered, j)
        codes = bins[r, uint32(word)]
        g, h = split_value(planes, shift, r)
        low, high, h_low, h_high = int32(g & _LOW), int32(g >> LOW_BITS), int32(h & _LOW), int32(h >> LOW_BITS)
        for q in range(4):
            slot = _slot_of(codes, q, first)
            cuda.atomic.add(sums, slot, low)
            cuda.atomic.add(sums, uint32(slot + size), h_low)
            cuda.atomic.add(sums, uint32(slot + uint32(2) * size), high)
            if h_high != 0:
                cuda.atomic.add(sums, uint32(slot + uint32(3) * size), h_high)


@gpu_part
def _flush(sums, size, parts, first_feature, n_slots, slot_ptr, n_bins, hist, buffer, t, n_threads):
    """Add what a block has summed to the buffer."""
    plane = slot_ptr[n_bins.shape[0]]
    for j in range(t, n_slots, n_threads):
        f, code = first_feature + j // STRIDE, j % STRIDE
        if f < n_bins.shape[0] and code < n_bins[f]:
            g, h = int64(sums[j]), int64(uint32(sums[size + j]))
            if parts == QUARTERS:
                g = int64(uint32(sums[j])) + (int64(sums[2 * size + j]) << LOW_BITS)
                h += int64(sums[3 * size + j]) << LOW_BITS
            if g != 0 or h != 0:
                slot = slot_ptr[f] + code
                cuda.atomic.add(hist, (buffer, slot), g)
                cuda.atomic.add(hist, (buffer, plane + slot), h)


@gpu_part
def build(bins, n_words, slot_ptr, n_bins, planes, shift, parts, rows, in_order, nodes, lists, state, hist, sums):
    """Sum the rows of the nodes that are built, in shared memory first."""
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    width, size = words_of_group(parts), int32(SLOTS // parts)
    n_groups = int32((n_words + width - 1) // width)
    n_builds, chunk = int32(state[BUILDS]), int64(1) << state[CHUNK_BITS]
    for unit in range(int32(cuda.blockIdx.x), lists[BUILD_PTR, n_builds] * n_groups, int32(cuda.gridDim.x)):
        c = int32(unit // n_groups)
        first_word = int32(unit - c * n_groups) * width
        n_here = n_words - first_word if n_words - first_word < width else width
        i, start, stop = stretch_of(nodes, lists, n_builds, chunk, c)
        node = nodes[i]
        n_slots = n_here * int32(4 * STRIDE)
        for part in range(parts):
            for j in range(t, n_slots, n_threads):
                sums[part * size + j] = 0
        cuda.syncthreads()
        w = t % width
        if w < n_here:
            first, step, side = w * int32(4 * STRIDE), n_threads // width, node.depth & 1
            begin, end, word, ordered = int32(start + t // width), int32(stop), first_word + w, i == 0 and in_order
            if parts == HALVES:
                _add_halves(bins, word, planes, rows, side, ordered, begin, end, step, first, sums)
            else:
                _add_quarters(bins, word, planes, shift, rows, side, ordered, begin, end, step, first, sums)
        cuda.syncthreads()
        _flush(sums, size, parts, first_word * 4, n_slots, slot_ptr, n_bins, hist, int32(node.hist), t, n_threads)
        cuda.syncthreads()


@gpu_part
def count_rows(bins, n_words, slot_ptr, n_bins, planes, rows, in_order, nodes, lists, state, hist, sums):
    """Count the rows of the nodes that are built, in shared memory first, in a third plane; after it all of them."""
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    width, plane = int32(SLOTS // (4 * STRIDE)), slot_ptr[n_bins.shape[0]]
    n_groups = int32((n_words + width - 1) // width)
    n_builds, chunk = int32(state[BUILDS]), int64(1) << state[CHUNK_BITS]
    for unit in range(int32(cuda.blockIdx.x), lists[BUILD_PTR, n_builds] * n_groups, int32(cuda.gridDim.x)):
        c = int32(unit // n_groups)
        first_word = int32(unit - c * n_groups) * width
        n_here = n_words - first_word if n_words - first_word < width else width
        i, start, stop = stretch_of(nodes, lists, n_builds, chunk, c)
        node = nodes[i]
        n_slots = n_here * int32(4 * STRIDE)
        for j in range(t, n_slots, n_threads):
            sums[j] = 0
        cuda.syncthreads()
        w, n_found = t % width, int64(0)
        if w < n_here:
            for j in range(start + t // width, stop, n_threads // width):
                r = row_of(rows, node, i, j, in_order)
                if weighs(planes, r):
                    codes = bins[r, first_word + w]
                    n_found += 1
                    for q in range(4):
                        slot = int32((w * 4 + q) * STRIDE) + int32((codes >> uint32(8 * q)) & uint32(255))
                        cuda.atomic.add(sums, slot, int32(1))
        if w == 0 and first_word == 0 and n_found > 0:
            cuda.atomic.add(hist, (node.hist, 3 * plane), n_found)
        cuda.syncthreads()
        for j in range(t, n_slots, n_threads):
            f, code = first_word * 4 + j // STRIDE, j % STRIDE
            if f < n_bins.shape[0] and code < n_bins[f] and sums[j] != 0:
                cuda.atomic.add(hist, (node.hist, 2 * plane + slot_ptr[f] + code), int64(sums[j]))
        cuda.syncthreads()


@gpu_part
def weighs(planes, r):
    """Whether row r has a gradient or a hessian that is not 0."""
    return planes[0, r] != 0 or (planes.shape[0] > 1 and planes[1, r] != 0)


@gpu_part
def count_directly(bins, wide, slot_ptr, n_bins, planes, rows, in_order, nodes, lists, state, hist):
    """`count_rows`, one by one."""
    n_features, plane = int32(n_bins.shape[0]), slot_ptr[n_bins.shape[0]]
    n_builds, chunk = int32(state[BUILDS]), int64(1) << state[CHUNK_BITS]
    for unit in range(cuda.blockIdx.x, lists[BUILD_PTR, n_builds], cuda.gridDim.x):
        i, start, stop = stretch_of(nodes, lists, n_builds, chunk, unit)
        node = nodes[i]
        for pair in range(cuda.threadIdx.x, (stop - start) * n_features, cuda.blockDim.x):
            f = int32(pair % n_features)
            r = row_of(rows, node, i, start + pair // n_features, in_order)
            if weighs(planes, r):
                code = code_of(bins, r, place_of(f, wide), wide)
                if code < n_bins[f]:
                    cuda.atomic.add(hist, (node.hist, 2 * plane + slot_ptr[f] + code), int64(1))
                if f == 0:
                    cuda.atomic.add(hist, (node.hist, 3 * plane), int64(1))


@gpu_part
def build_directly(bins, wide, slot_ptr, n_bins, planes, shift, rows, in_order, nodes, lists, state, hist):
    """Sum the rows of the nodes that are built, one by one."""
    n_features, plane = int32(n_bins.shape[0]), slot_ptr[n_bins.shape[0]]
    n_builds, chunk = int32(state[BUILDS]), int64(1) << state[CHUNK_BITS]
    for unit in range(cuda.blockIdx.x, lists[BUILD_PTR, n_builds], cuda.gridDim.x):
        i, start, stop = stretch_of(nodes, lists, n_builds, chunk, unit)
        node = nodes[i]
        for pair in range(cuda.threadIdx.x, (stop - start) * n_features, cuda.blockDim.x):
            f = int32(pair % n_features)
            r = row_of(rows, node, i, start + pair // n_features, in_order)
            code = code_of(bins, r, place_of(f, wide), wide)
            if code < n_bins[f]:
                g, h = split_value(planes, shift, r)
                cuda.atomic.add(hist, (node.hist, slot_ptr[f] + code), g)
                cuda.atomic.add(hist, (node.hist, plane + slot_ptr[f] + code), h)
