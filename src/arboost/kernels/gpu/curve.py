"""Areas under curves on a device, a launch each: rows are sorted by falling prediction, steps are summed exactly.

    words    (2 n,) uint64   | key, smaller for a larger prediction : 32 | row : 32 |, two halves that take turns
    running  (2 n,) int64    positive, then negative weight of the rows up to each, in that order
    counts   (n_blocks, 256) int32, totals (2, n_blocks) int64: of each block

The sort takes the keys' four bytes, the lowest first, and keeps the order of rows whose bytes are equal. Every warp
has a run of rows of its own.
"""

from functools import cache
from typing import Any

from numba import float32, int32, int64, uint32, uint64

from arboost.kernels import elementary, metric_formulas
from arboost.kernels.gpu import quantize, sums
from arboost.kernels.gpu.arrays import ALL_LANES, last_of, scan
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part
from arboost.kernels.gpu.sums import DIGITS

N_DIGITS, KEY_BYTES, MAX_WARPS = 256, 4, 16
_SHARES = 4  # of a digit's counts, that threads add up side by side
_ROW_MASK = 0xFFFFFFFF
bits_of = formula(elementary.bits_of)


@gpu_part
def key_of(pred):
    """kernels/cpu/round/metric.py::rank_rows."""
    bits = uint32(0) if pred == float32(0.0) else bits_of(pred)
    return bits if bits >> uint32(31) else uint32(bits ^ uint32(0x7FFFFFFF))


@gpu_part
def _digit_of(word, byte):
    return int32((word >> uint64(32 + 8 * byte)) & uint64(0xFF))


@gpu_part
def _count_digits(words, byte, first, stop, counters, counts):
    """counters[warp] = how many of the warp's rows have each digit, counts[block] = how many of the block's."""
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    lane, warp = t & 31, t >> 5
    for d in range(lane, N_DIGITS, 32):
        counters[warp, d] = 0
    cuda.syncwarp()
    for i in range(first + lane, stop, 32):
        cuda.atomic.add(counters, (warp, _digit_of(words[i], byte)), int32(1))
    cuda.syncthreads()
    for d in range(t, N_DIGITS, n_threads):
        n = int32(0)
        for w in range(n_threads >> 5):
            n += counters[w, d]
        counts[cuda.blockIdx.x, d] = n


@gpu_part
def _place_digits(counts, counters, places):
    """counters[warp, d] = where the first row of each warp with digit d goes; places (2, 256) is room for that."""
    t, n_threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    lane, block = t & 31, int32(cuda.blockIdx.x)
    for d in range(t, N_DIGITS, n_threads):
        places[0, d], places[1, d] = 0, 0
    cuda.syncthreads()
    for unit in range(t, N_DIGITS * _SHARES, n_threads):
        d = unit & (N_DIGITS - 1)
        before, n = int32(0), int32(0)
        for b in range(unit // N_DIGITS, int32(cuda.gridDim.x), _SHARES):
            own = counts[b, d]
            n += own
            before += own if b < block else int32(0)
        cuda.atomic.add(places, (0, d), n)
        cuda.atomic.add(places, (1, d), before)
    cuda.syncthreads()
    if t < 32:
        n = int32(0)
        for d in range(8 * lane, 8 * lane + 8):
            n += places[0, d]
        before = scan(n, lane) - n
        for d in range(8 * lane, 8 * lane + 8):
            own = places[0, d]
            places[0, d] = before
            before += own
    cuda.syncthreads()
    for d in range(t, N_DIGITS, n_threads):
        at = places[0, d] + places[1, d]
        for w in range(n_threads >> 5):
            own = counters[w, d]
            counters[w, d] = at
            at += own
    cuda.syncthreads()


@gpu_part
def _move_rows(words, to, byte, first, stop, counters):
    """Every row of the warp to the place of its digit, 32 at a time."""
    t = int32(cuda.threadIdx.x)
    lane, warp = t & 31, t >> 5
    for start in range(first, stop, 32):
        is_row = start + lane < stop
        word = words[start + lane] if is_row else uint64(0)
        digit = _digit_of(word, byte) if is_row else int32(-1)
        alike = uint32(cuda.match_any_sync(ALL_LANES, digit))
        before = int32(cuda.popc(alike & uint32((uint32(1) << uint32(lane)) - uint32(1))))
        at = counters[warp, digit] + before if is_row else int32(0)
        if is_row:
            to[at] = word
        cuda.syncwarp()
        if is_row and before == 0:
            counters[warp, digit] = at + int32(cuda.popc(alike))
        cuda.syncwarp()


@gpu_part
def _add_up(grid, words, n, first, stop, positive, negative, running, totals, of_warps):
    """running = weights of the rows up to each; of_warps (2, MAX_WARPS) is room for that."""
    t, n_warps, block = int32(cuda.threadIdx.x), int32(cuda.blockDim.x) >> 5, int32(cuda.blockIdx.x)
    lane, warp = t & 31, t >> 5
    p, q = int64(0), int64(0)
    for i in range(first + lane, stop, 32):
        row = int64(words[i] & uint64(_ROW_MASK))
        running[i], running[n + i] = positive[row], negative[row]
        p += positive[row]
        q += negative[row]
    p, q = quantize.total(p), quantize.total(q)
    if lane == 0:
        of_warps[0, warp], of_warps[1, warp] = p, q
    cuda.syncthreads()
    if t < 2:
        p = int64(0)
        for w in range(n_warps):
            p += of_warps[t, w]
        totals[t, block] = p
    grid.sync()
    if warp == 0:
        p, q = int64(0), int64(0)
        for b in range(lane, block, 32):
            p += totals[0, b]
            q += totals[1, b]
        p, q = quantize.total(p), quantize.total(q)
        if lane == 0:
            for w in range(n_warps):
                own_p, own_q = of_warps[0, w], of_warps[1, w]
                of_warps[0, w], of_warps[1, w] = p, q
                p += own_p
                q += own_q
    cuda.syncthreads()
    p, q = of_warps[0, warp], of_warps[1, warp]
    for start in range(first, stop, 32):
        i = start + lane
        own_p = running[i] if i < stop else int64(0)
        own_q = running[n + i] if i < stop else int64(0)
        upto_p, upto_q = p + scan(own_p, lane), q + scan(own_q, lane)
        if i < stop:
            running[i], running[n + i] = upto_p, upto_q
        p, q = last_of(upto_p), last_of(upto_q)


@gpu_part
def _first_alike(words, i):
    """The first row with the key of row i; keys ascend."""
    key = words[i] >> uint64(32)
    if i == 0 or words[i - 1] >> uint64(32) != key:
        return int64(i)
    low, high = int64(0), int64(i - 1)
    while low < high:
        middle = (low + high) >> int64(1)
        if words[middle] >> uint64(32) < key:
            low = middle + int64(1)
        else:
            high = middle
    return low


@cache
def area_kernel(name: str) -> Any:
    """The kernel (pred, positive, negative, words, running, counts, totals, scale, lowest, acc) of a formula."""
    of_step = formula(getattr(metric_formulas, name))

    def area(pred, positive, negative, words, running, counts, totals, scale, lowest, acc):
        grid = cuda.cg.this_grid()
        counters = cuda.shared.array((MAX_WARPS, N_DIGITS), int32)
        places = cuda.shared.array((2, N_DIGITS), int32)
        of_warps = cuda.shared.array((2, MAX_WARPS), int64)
        n, n_warps = int64(pred.shape[0]), int64(cuda.blockDim.x >> 5)
        size = (n + int64(cuda.gridDim.x) * n_warps - 1) // (int64(cuda.gridDim.x) * n_warps)
        first = (int64(cuda.blockIdx.x) * n_warps + int64(cuda.threadIdx.x >> 5)) * size
        first = first if first < n else n
        stop = first + size if first + size < n else n
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            words[i] = (uint64(key_of(pred[i])) << uint64(32)) | uint64(i)
        grid.sync()
        for byte in range(KEY_BYTES):
            here, there = (words[:n], words[n:]) if byte & 1 == 0 else (words[n:], words[:n])
            _count_digits(here, byte, first, stop, counters, counts)
            grid.sync()
            _place_digits(counts, counters, places)
            _move_rows(here, there, byte, first, stop, counters)
            grid.sync()
        _add_up(grid, words, n, first, stop, positive, negative, running, totals, of_warps)
        grid.sync()
        digits = cuda.local.array(DIGITS, int64)
        sums.clear(digits)
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            if i + 1 < n and words[i] >> uint64(32) == words[i + 1] >> uint64(32):
                continue
            before = _first_alike(words, i) - 1
            tp_before = running[before] if before >= 0 else int64(0)
            fp_before = running[n + before] if before >= 0 else int64(0)
            value = of_step(tp_before, fp_before, running[i], running[n + i], scale)
            sums.add(value, lowest, digits, acc)
        sums.merge(digits, lowest, acc)

    return gpu_kernel(area, max_registers=128)
