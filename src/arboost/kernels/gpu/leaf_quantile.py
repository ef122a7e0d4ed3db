"""Leaf values that are quantiles of residuals: kernels/cpu/round/leaf_quantile.py's selection, all leaves at a time.

Keys that sort as the residuals do are counted leaf by leaf, eight bits after the other. Counts and weights are
integers, so no order of rows, blocks or threads can change a bit.
"""

from numba import float32, float64, int32, int64, uint32, uint64

from arboost.kernels.cpu.round import leaf_quantile
from arboost.kernels.gpu.arrays import ALL_LANES, NODES, WARP, last_of, scan
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part
from arboost.kernels.gpu.partition import leaf_of
from arboost.kernels.gpu.quantize import largest

DIGITS = 256  # values of the bits that are fixed in a step
_OF_LANE = DIGITS // WARP
_ALL = 0xFFFFFFFF
# columns of `found` (n_nodes, N_FOUND) int64: the bits that are fixed; rows of the leaf; rank among the keys that agree
# with them; whether the next rank has the same key; weight of all keys below, and of the leaf; the complement of the
# next key above
PREFIX, ROWS, RANK, MORE, BELOW, TOTAL, ABOVE, N_FOUND = range(8)
_NONE, _LAST = 1000, 511  # beside digits: no key at all; 511 - d: the goal is not reached up to digit d
_key_of, _value_of = formula(leaf_quantile.key_of), formula(leaf_quantile.value_of)
_place_of, _goal_of = formula(leaf_quantile.place_of), formula(leaf_quantile.goal_of)
_reaches = formula(leaf_quantile.reaches)


@gpu_part
def _choose_by_rank(counts, found, node, step, alpha, lane):
    """Fix the next bits of a leaf's key by its rank; all lanes of a warp."""
    rank, own = found[node, RANK], int64(0)
    cuda.syncwarp()  # one of the lanes will write it down anew
    for d in range(_OF_LANE * lane, _OF_LANE * (lane + 1)):
        own += counts[node, d, 0]
    upto = scan(own, lane)
    n = last_of(upto)
    if step == 0:
        rank, _ = _place_of(alpha, float64(n))
        if lane == 0:
            found[node, ROWS] = n
    rank -= upto - own
    if 0 <= rank and rank < own:
        d = _OF_LANE * lane
        while rank >= counts[node, d, 0]:
            rank -= counts[node, d, 0]
            d += 1
        found[node, PREFIX] |= int64(d) << (24 - 8 * step)
        found[node, RANK], found[node, MORE] = rank, int64(rank + 1 < counts[node, d, 0])


@gpu_part
def _choose_by_weight(counts, found, node, step, alpha, unit, lane):
    """Fix the next bits of the first key whose weight and that of all below reach the goal; all lanes of a warp."""
    below, total, own = found[node, BELOW], found[node, TOTAL], int64(0)
    cuda.syncwarp()  # one of the lanes will write them down anew
    for d in range(_OF_LANE * lane, _OF_LANE * (lane + 1)):
        own += counts[node, d, 1]
    upto = scan(own, lane)
    if step == 0:
        total = last_of(upto)
    goal, passed = _goal_of(total, unit, alpha), below + upto - own
    reached, code = passed, int64(_NONE)
    for d in range(_OF_LANE * lane, _OF_LANE * (lane + 1)):
        if counts[node, d, 0] > 0 and code >= DIGITS:
            reached += counts[node, d, 1]
            code = int64(d) if _reaches(reached, unit, goal) else int64(_LAST - d)
    first = -cuda.shfl_sync(ALL_LANES, largest(-code), 0)
    digit = first if first < DIGITS else _LAST - first
    if first < _NONE and digit // _OF_LANE == lane:
        for d in range(_OF_LANE * lane, digit):
            passed += counts[node, d, 1]
        found[node, PREFIX] |= digit << (24 - 8 * step)
        found[node, BELOW], found[node, TOTAL], found[node, ROWS] = passed, total, 1


@gpu_part
def _count(keys, leaf_of_row, weight, step, counts, found):
    """counts[leaf, digit] += (1, weight) of the keys that agree with what is fixed, by their next eight bits."""
    shift, mask = uint32(24 - 8 * step), uint32(uint64(_ALL) << uint64(32 - 8 * step))
    for r in range(cuda.grid(1), keys.shape[0], cuda.gridsize(1)):
        node, key = leaf_of_row[r], keys[r]
        if key & mask == uint32(found[node, PREFIX]):
            digit = int64((key >> shift) & uint32(DIGITS - 1))
            cuda.atomic.add(counts, (node, digit, 0), 1)
            if weight.shape[0] > 0:
                cuda.atomic.add(counts, (node, digit, 1), weight[r])


@gpu_part
def _find_next(keys, leaf_of_row, found):
    """found[:, ABOVE]: the smallest key above the one that was chosen."""
    for r in range(cuda.grid(1), keys.shape[0], cuda.gridsize(1)):
        node, key = leaf_of_row[r], int64(keys[r])
        if found[node, MORE] == 0 and key > found[node, PREFIX] and _ALL - key > found[node, ABOVE]:
            cuda.atomic.max(found, (node, ABOVE), _ALL - key)


@gpu_part
def _value(found, node, alpha, is_weighted):
    """The quantile of a leaf with rows."""
    low = _value_of(uint32(found[node, PREFIX]))
    if is_weighted:
        return low
    _, share = _place_of(alpha, float64(found[node, ROWS]))
    if share == 0.0 or found[node, MORE] != 0:
        return float32(float64(low) + share * float64(low - low))
    high = _value_of(uint32(_ALL - found[node, ABOVE]))
    return float32(float64(low) + share * float64(high - low))


def _solve_leaves(
    bins, wide, missing, table, state, n_failed, target, eta, label, margin, weight, unit, alpha, leaf_of_row, keys,
    counts, found, weights, sets,
):  # fmt: skip
    """weights[leaf] (OUT) = eta times the alpha-quantile of label - margin[:, target] in it; kept where no row is.

    `weight` (n,) int64 are multiples of `unit`, empty: none. Nothing where a tree has failed. Scratch: leaf_of_row (n,)
    int32, keys (n,) uint32, counts (n_nodes, DIGITS, 2) int64, found.
    """
    grid = cuda.cg.this_grid()
    if n_failed[0] > 0:
        return
    t, n_nodes = cuda.grid(1), int32(state[NODES])
    lane, warp, n_warps = int32(cuda.threadIdx.x) & 31, int32(t // WARP), int32(cuda.gridsize(1) // WARP)
    for node in range(warp, n_nodes, n_warps):
        for d in range(lane, DIGITS, WARP):
            counts[node, d, 0], counts[node, d, 1] = 0, 0
        if lane < N_FOUND:
            found[node, lane] = 0
    for r in range(t, keys.shape[0], cuda.gridsize(1)):
        leaf_of_row[r] = leaf_of(bins, r, wide, missing, table, sets)
        keys[r] = _key_of(label[r] - margin[r, target])
    grid.sync()
    for step in range(4):
        _count(keys, leaf_of_row, weight, step, counts, found)
        grid.sync()
        for node in range(warp, n_nodes, n_warps):
            if weight.shape[0] > 0:
                _choose_by_weight(counts, found, node, step, alpha, unit, lane)
            else:
                _choose_by_rank(counts, found, node, step, alpha, lane)
            for d in range(_OF_LANE * lane, _OF_LANE * (lane + 1)):
                counts[node, d, 0], counts[node, d, 1] = 0, 0
        grid.sync()
    if weight.shape[0] == 0:
        _find_next(keys, leaf_of_row, found)
        grid.sync()
    for node in range(t, n_nodes, cuda.gridsize(1)):
        if table[node, 0] < 0 and found[node, ROWS] > 0:
            value = _value(found, node, alpha, weight.shape[0] > 0)
            if value == value:
                weights[node] = value * eta


solve_leaves = gpu_kernel(_solve_leaves, max_registers=64)
