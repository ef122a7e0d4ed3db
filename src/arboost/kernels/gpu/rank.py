"""Gradients of pairs in query groups, a block a group: kernels/cpu/round/rank.py's, addition by addition.

Scores are sorted by keys that are all different, so any way to sort gives the CPU's ranks. What a document is given by
the pairs of each rank above it is added by one thread, and what a rank is given by its own pairs by one lane, both in
the CPU's order; pairs that the CPU passes over add 0 here, which changes no sum. So pairs are derived twice.
"""

from numba import float32, float64, int64, uint64

from arboost.kernels import rank_formulas
from arboost.kernels.gpu.arrays import WARP
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel, gpu_part
from arboost.kernels.rank_formulas import (
    BY_DISTANCE,
    EXP_GAIN,
    FIRST_ROW,
    KIND,
    MAP,
    N_PAIRS,
    NDCG,
    NORMALISE,
    ROW_MASK,
)

# rows of `work` (N_WORK, n_rows) float64; a group has a stretch of each, by rank, as of a row of `keys` (uint64)
SCORE, LABEL, GAIN, HITS, G, H, TOTAL, N_WORK = range(8)
MOST_THREADS = 512  # of a block
_MOST_WARPS = MOST_THREADS // 32
_falling_key, _gain = formula(rank_formulas.falling_key), formula(rank_formulas.gain)
_pair_derivatives, _precision_change = formula(rank_formulas.pair_derivatives), formula(rank_formulas.precision_change)
_group_factor, _draw_partner = formula(rank_formulas.group_factor), formula(rank_formulas.draw_partner)


@gpu_part
def _order(keys, a, b, stop):
    """Swap keys a < b if they are out of order; places from `stop` on count as infinite."""
    if b < stop:
        low, high = keys[a], keys[b]
        if high < low:
            keys[a], keys[b] = high, low


@gpu_part
def sort_keys(keys, first, n):
    """Sort n keys from `first` on, by all threads of a block: Batcher's bitonic merges, all of them ascending."""
    stop = first + n
    bits = int64(1)  # runs of 2**bits keys are made from two halves
    while (int64(1) << (bits - 1)) < n:
        half = int64(1) << (bits - 1)
        for pair in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
            run, at = (pair >> (bits - 1)) << bits, pair & (half - 1)
            _order(keys, first + run + at, first + run + 2 * half - 1 - at, stop)
        cuda.syncthreads()
        step = bits - 2
        while step >= 0:
            for pair in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
                place = ((pair >> step) << (step + 1)) + (pair & ((int64(1) << step) - 1))
                _order(keys, first + place, first + place + (int64(1) << step), stop)
            cuda.syncthreads()
            step -= 1
        bits += 1


@gpu_part
def _sort_rows(values, keys, which, first, n):
    """keys[which, first:][:n] (OUT): a group's rows by falling value."""
    row = keys[which]
    for i in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
        row[first + i] = (_falling_key(values[first + i]) << uint64(32)) | uint64(i)
    cuda.syncthreads()
    sort_keys(row, first, n)


@gpu_part
def _place_of(key):
    """Where a key's row is in its group."""
    return int64(key & uint64(ROW_MASK))


@gpu_part
def _take_by_rank(margin, label, keys, first, n, settings, work):
    """Scores, labels and what the metric needs, by rank (OUT); g and h start at 0."""
    kind = settings[KIND]
    for i in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
        at, row = first + i, first + _place_of(keys[0, first + i])
        y = label[row]
        work[SCORE, at], work[LABEL, at] = float64(margin[row]), float64(y)
        work[G, at], work[H, at] = 0.0, 0.0
        if kind == NDCG:
            work[GAIN, at] = _gain(y, settings[EXP_GAIN] != 0)
        elif kind == MAP:
            work[GAIN, at] = float64(y) / float64(i + 1)
    cuda.syncthreads()
    if kind == MAP and cuda.threadIdx.x == 0:
        hits, precisions = 0.0, 0.0
        for at in range(first, first + n):
            hits += work[LABEL, at]
            precisions += work[GAIN, at]
            work[HITS, at], work[GAIN, at] = hits, precisions
    cuda.syncthreads()


@gpu_part
def _derive_pair(i, j, first, n, kind, inverse_ideal, by_distance, discount, work):
    """(what pulls rank i, its curvature, the lambda) of its pair with rank j; zeros where labels are equal."""
    y, other = work[LABEL, first + i], work[LABEL, first + j]
    if y == other:
        return 0.0, 0.0, 0.0
    d = work[SCORE, first + i] - work[SCORE, first + j]
    delta = 1.0
    if kind == NDCG:
        delta = abs((work[GAIN, first + i] - work[GAIN, first + j]) * (discount[i] - discount[j])) * inverse_ideal
    elif kind == MAP:
        a, b = (i, j) if i < j else (j, i)
        falls = work[LABEL, first + a] > work[LABEL, first + b]
        hits, later, of_all = work[HITS, first + a], work[HITS, first + b], work[HITS, first + n - 1]
        between = work[GAIN, first + b - 1] - work[GAIN, first + a]
        delta = _precision_change(falls, hits, later, of_all, between, uint64(a), uint64(b))
    pull, bend, _ = _pair_derivatives(d if y > other else -d, delta, by_distance)
    return pull if y > other else -pull, bend, pull


@gpu_part
def _pair_top(first, n, top, kind, inverse_ideal, by_distance, discount, work, tile):
    """Pairs of the top ranks with everything below: g, h and the lambdas' sums of each of these ranks (OUT)."""
    for j in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
        g, h = 0.0, 0.0
        for i in range(j if j < top else top):
            pull, bend, _ = _derive_pair(i, j, first, n, kind, inverse_ideal, by_distance, discount, work)
            g -= pull
            h += bend
        work[G, first + j], work[H, first + j] = g, h
    cuda.syncthreads()
    lane, warp = int64(cuda.threadIdx.x) & 31, int64(cuda.threadIdx.x) >> 5
    for i in range(warp, n if n < top else top, int64(cuda.blockDim.x) >> 5):
        total = 0.0  # lane 0: of g, lane 1: of h, lane 2: of the lambdas
        for start in range(i + 1, n, WARP):
            pull, bend, lambda_ = 0.0, 0.0, 0.0
            if start + lane < n:
                pull, bend, lambda_ = _derive_pair(
                    i, start + lane, first, n, kind, inverse_ideal, by_distance, discount, work
                )
            tile[warp, 0, lane], tile[warp, 1, lane], tile[warp, 2, lane] = pull, bend, -2.0 * lambda_
            cuda.syncwarp()
            if lane < 3:
                for k in range(n - start if n - start < WARP else WARP):
                    total += tile[warp, lane, k]
            cuda.syncwarp()
        if lane < 2:
            work[G + lane, first + i] += total
        elif lane == 2:
            work[TOTAL, first + i] = total
    cuda.syncthreads()


@gpu_part
def _first_from(keys, first, n, key):
    """The first of n sorted keys that is not below `key`."""
    low, high = int64(0), n
    while low < high:
        middle = (low + high) >> 1
        if keys[first + middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@gpu_part
def _draw_pair(p, first, n, n_draws, key, first_row, keys, rank_of):
    """Ranks of the p-th document by falling label and draw, and of its partner; (-1, -1) if all labels are equal."""
    own = keys[1, first + p // n_draws]
    same = (own >> uint64(32)) << uint64(32)
    begin = _first_from(keys[1], first, n, same)
    end = _first_from(keys[1], first, n, same + uint64(1 << 32))
    if end - begin == n:
        return int64(-1), int64(-1)
    draw = uint64((first_row + first + _place_of(own)) * n_draws + p % n_draws)
    place = int64(_draw_partner(key, draw, uint64(begin), uint64(end), uint64(n)))
    return int64(rank_of[first + _place_of(own)]), int64(rank_of[first + _place_of(keys[1, first + place])])


@gpu_part
def _pair_at_random(first, n, key, settings, inverse_ideal, by_distance, discount, keys, rank_of, work, ranks, values):
    """A few random partners of another label for every document: drawn side by side, added one by one (g, h: OUT)."""
    n_draws, t = settings[N_PAIRS], int64(cuda.threadIdx.x)
    for begin in range(int64(0), n * n_draws, int64(cuda.blockDim.x)):
        count = n * n_draws - begin
        count = count if count < int64(cuda.blockDim.x) else int64(cuda.blockDim.x)
        if t < count:
            i, j = _draw_pair(begin + t, first, n, n_draws, key, settings[FIRST_ROW], keys, rank_of)
            ranks[0, t], ranks[1, t] = i, j
            if i >= 0:
                values[0, t], values[1, t], _ = _derive_pair(
                    i, j, first, n, settings[KIND], inverse_ideal, by_distance, discount, work
                )
        cuda.syncthreads()
        if t < 2:  # thread 0: g, thread 1: h
            for p in range(count):
                i, j = ranks[0, p], ranks[1, p]
                if i >= 0:
                    work[G + t, first + j] += -values[t, p] if t == 0 else values[t, p]
                    work[G + t, first + i] += values[t, p]
        cuda.syncthreads()


@gpu_part
def _begin_group(margin, label, group_ptr, q, settings, keys, work):
    """Sort a group's rows; returns (first row, rows, whether its pairs count by the distance of their scores)."""
    first = int64(group_ptr[q])
    n = int64(group_ptr[q + 1]) - first
    _sort_rows(margin, keys, 0, first, n)
    _take_by_rank(margin, label, keys, first, n, settings, work)
    return first, n, n > 0 and settings[BY_DISTANCE] != 0 and work[SCORE, first] != work[SCORE, first + n - 1]


@gpu_part
def _write(keys, first, n, work, scale, g, h):
    """g and h (OUT) of a group's rows."""
    for i in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
        row = first + _place_of(keys[0, first + i])
        g[0, row], h[0, row] = float32(work[G, first + i] * scale), float32(work[H, first + i] * scale)
    cuda.syncthreads()


def _top_gradients(margin, label, group_ptr, per_group, discount, settings, keys, work, g, h):
    """g and h (1, n) float32 (OUT) of the rows of all groups, from pairs of the top ranks with everything below.

    per_group[0] is the weight of each group, per_group[1] one over its ideal DCG. Scratch: keys (1, n_rows), work.
    """
    tile = cuda.shared.array((_MOST_WARPS, 3, WARP), float64)
    factor = cuda.shared.array(1, float64)
    kind, top = settings[KIND], settings[N_PAIRS]
    for q in range(int64(cuda.blockIdx.x), group_ptr.shape[0] - 1, int64(cuda.gridDim.x)):
        first, n, by_distance = _begin_group(margin, label, group_ptr, q, settings, keys, work)
        _pair_top(first, n, top, kind, per_group[1, q], by_distance, discount, work, tile)
        if cuda.threadIdx.x == 0:
            factor[0] = 1.0
            if settings[NORMALISE] != 0:
                total = 0.0
                for i in range(n if n < top else top):
                    total += work[TOTAL, first + i]
                factor[0] = _group_factor(total)
        cuda.syncthreads()
        _write(keys, first, n, work, per_group[0, q] * factor[0], g, h)


def _drawn_gradients(margin, label, group_ptr, per_group, discount, settings, key, keys, rank_of, work, g, h):
    """The same from pairs that are drawn with `key`. Scratch: keys (2, n_rows), rank_of (n_rows,) int32, work."""
    ranks = cuda.shared.array((2, MOST_THREADS), int64)
    values = cuda.shared.array((2, MOST_THREADS), float64)
    factor = 1.0 / float64(settings[N_PAIRS]) if settings[NORMALISE] != 0 else 1.0
    for q in range(int64(cuda.blockIdx.x), group_ptr.shape[0] - 1, int64(cuda.gridDim.x)):
        first, n, by_distance = _begin_group(margin, label, group_ptr, q, settings, keys, work)
        for i in range(int64(cuda.threadIdx.x), n, int64(cuda.blockDim.x)):
            rank_of[first + _place_of(keys[0, first + i])] = i
        _sort_rows(label, keys, 1, first, n)
        _pair_at_random(
            first, n, uint64(key), settings, per_group[1, q], by_distance, discount, keys, rank_of, work, ranks, values
        )
        _write(keys, first, n, work, per_group[0, q] * factor, g, h)


top_gradients = gpu_kernel(_top_gradients, max_registers=64)  # two blocks of a processor
drawn_gradients = gpu_kernel(_drawn_gradients, max_registers=64)
