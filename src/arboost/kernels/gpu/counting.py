"""Exact weighted quantiles on a device: kernels/cpu/data/counting.py's three levels of counters, and what they pick.

Counters only add, so the order of rows cannot change them, and cells are kept by the CPU's rule: a cell is kept if it
holds a wanted rank, or if all are. Here every feature is picked by one block, a run of cells a thread.

Shapes: bits (n_rows, n_columns) uint32 = float32 data; weights (n_rows,) int64 or one for all; of the features of a
tile, which begin at column `first`: counts (n, n_cells) int64 and slots (n, n_cells) int32.
"""

from numba import int32, int64, uint32

from arboost.kernels.cpu.data import counting
from arboost.kernels.cpu.data.counting import LARGEST_FINITE, MISSING_CELL
from arboost.kernels.gpu.arrays import scan
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part

TOP_CELLS = 65536
N_SLOTS, ALL_KEPT = 0, 1  # rows of `state` (2, n) int32
key_of_bits = formula(counting.key_of_bits)
wanted_rank = formula(counting.wanted_rank)


def _scan_values(bits, found):
    """found[0, f] += values that are not NaN, found[1, f] += those that are infinite."""
    n_features = int64(bits.shape[1])
    n_groups = max(int64(1), int64(cuda.gridsize(1)) // n_features)
    for k in range(cuda.grid(1), n_features * n_groups, cuda.gridsize(1)):
        group = k // n_features
        f = k - group * n_features
        present, infinite = int64(0), int64(0)
        for r in range(group, bits.shape[0], n_groups):
            magnitude = bits[r, f] & uint32(0x7FFFFFFF)
            present += int64(magnitude <= uint32(LARGEST_FINITE))
            infinite += int64(magnitude == uint32(LARGEST_FINITE))
        cuda.atomic.add(found, (0, f), present)
        if infinite > 0:
            cuda.atomic.add(found, (1, f), infinite)


def _count_top_bits(bits, first, weights, counts):
    """counts[f, key >> 16] += the weight of each row."""
    n, mask = int64(counts.shape[0]), int64(0) if weights.shape[0] == 1 else int64(-1)
    for j in range(cuda.grid(1), bits.shape[0] * n, cuda.gridsize(1)):
        r = j // n
        f = j - r * n
        key = key_of_bits(bits[r, first + f])
        cuda.atomic.add(counts, (f, int64(key >> uint32(16))), weights[r & mask])


def _count_low_bits(bits, first, weights, slots, deep_slots, is_deep, counts):
    """Adds each row's weight to the cell of its slot, one level below deep_slots if `is_deep`, else below slots."""
    n, mask = int64(counts.shape[0]), int64(0) if weights.shape[0] == 1 else int64(-1)
    for j in range(cuda.grid(1), bits.shape[0] * n, cuda.gridsize(1)):
        r = j // n
        f = j - r * n
        key = key_of_bits(bits[r, first + f])
        slot = int64(slots[f, int64(key >> uint32(16))])
        cell = slot * 256 + int64((key >> uint32(8)) & uint32(255))
        if slot > 0 and is_deep:
            slot = int64(deep_slots[f, cell])
            cell = slot * 256 + int64(key & uint32(255))
        if slot > 0:
            cuda.atomic.add(counts, (f, cell), weights[r & mask])


@gpu_part
def _block_scan(value, of_warps):
    """(sum of the values of this thread and those before it, of all threads of the block)."""
    t = int32(cuda.threadIdx.x)
    upto = scan(value, t & 31)
    if t & 31 == 31:
        of_warps[t >> 5] = upto
    cuda.syncthreads()
    before, total = int64(0), int64(0)
    for warp in range(int32(cuda.blockDim.x) >> 5):
        before += of_warps[warp] if warp < t >> 5 else int64(0)
        total += of_warps[warp]
    cuda.syncthreads()
    return before + upto, total


@gpu_part
def _first_rank(below, total, n_bins):
    """The first k whose wanted rank is not below `below`; n_bins + 1 for none."""
    low, high = int64(0), int64(n_bins) + 1
    while low < high:
        middle = (low + high) >> 1
        if wanted_rank(middle, total, n_bins) < below:
            low = middle + 1
        else:
            high = middle
    return low


@gpu_part
def _walk(f, begin, end, below, n_kept, kept, counts, n_bits, gaps, prefixes, total, n_bins, keep_all, slots, out):
    """(kept cells, their weight) of a run of cells; with slots, writes down those kept: numbers from n_kept + 1 on.

    `below` is the weight of all slots' cells before the run, `kept` that of the kept ones before it; gaps[f, slot] the
    weight below a slot that lies in none. out: (bases, gaps, prefixes) of the next level.
    """
    cell_of_slot = (int64(1) << n_bits) - 1
    bases, next_gaps, next_prefixes = out
    n_before, kept_before = n_kept, kept
    k = int64(-1)
    rank = int64(0)
    for cell in range(begin, end):
        count = counts[f, cell]
        if count == 0:
            continue
        slot = cell >> n_bits
        own = gaps[f, slot] + below
        above = own + count
        if k < 0:
            k = _first_rank(own, total, n_bins)
            rank = wanted_rank(k, total, n_bins) if k <= n_bins else total
        if keep_all or rank < above:
            n_kept += 1
            if slots.shape[1] > 1:
                bases[f, n_kept], next_gaps[f, n_kept] = own, own - kept
                next_prefixes[f, n_kept] = (prefixes[f, slot] << uint32(n_bits)) + uint32(cell & cell_of_slot)
                slots[f, cell] = n_kept
            kept += count
        while rank < above and k <= n_bins:
            k += 1
            rank = wanted_rank(k, total, n_bins) if k <= n_bins else total
        below += count
    return n_kept - n_before, kept - kept_before


def _pick_cells(
    counts, n_bits, n_bins, state, totals, gaps, prefixes, slots, no_slots, bases, next_gaps, next_prefixes
):
    """Keeps the cells that the next level looks into: writes slots, bases, next_gaps and next_prefixes, and state.

    On level 1 (n_bits is 16) slot 0 alone is there, and `totals` is written; on others slots 1 .. state[N_SLOTS, f].
    slots[f, cell] is the number of a kept cell; it is 0 before.
    """
    of_warps = cuda.shared.array(32, int64)
    none = int64(0)
    t, n_threads = int64(cuda.threadIdx.x), int64(cuda.blockDim.x)
    out = (bases, next_gaps, next_prefixes)
    for f in range(int64(cuda.blockIdx.x), counts.shape[0], cuda.gridDim.x):
        first, last = int64(1) << n_bits, (int64(state[N_SLOTS, f]) + 1) << n_bits
        if n_bits == 16:
            first, last = int64(0), int64(MISSING_CELL)
        share = (last - first + n_threads - 1) // n_threads
        begin = min(first + t * share, last)
        end = min(begin + share, last)
        weight, n_filled = int64(0), int64(0)
        for cell in range(begin, end):
            count = counts[f, cell]
            weight += count
            n_filled += int64(count > 0)
        upto, total = _block_scan(weight, of_warps)
        n_filled = _block_scan(n_filled, of_warps)[1]
        keep_all = state[ALL_KEPT, f] != 0 and n_filled <= n_bins[f]
        if n_bits != 16:
            total = totals[f]
        if weight == 0:
            end = begin  # there is nothing to walk over
        n, own = _walk(
            f, begin, end, upto - weight, none, none, counts, n_bits, gaps, prefixes, total, int64(n_bins[f]),
            keep_all, no_slots, out,
        )  # fmt: skip
        n_upto, n_kept = _block_scan(n, of_warps)
        own_upto = _block_scan(own, of_warps)[0]
        _walk(
            f, begin, end, upto - weight, n_upto - n, own_upto - own, counts, n_bits, gaps, prefixes, total,
            int64(n_bins[f]), keep_all, slots, out,
        )  # fmt: skip
        if t == 0:
            totals[f] = total
            state[N_SLOTS, f], state[ALL_KEPT, f] = n_kept, int32(keep_all)
        cuda.syncthreads()


scan_values = gpu_kernel(_scan_values)
count_top_bits = gpu_kernel(_count_top_bits)
count_low_bits = gpu_kernel(_count_low_bits)
pick_cells = gpu_kernel(_pick_cells)
