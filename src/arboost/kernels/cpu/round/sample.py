"""Random rows and columns, by hashes: the same ones whichever thread, page or worker asks.

Row r is in if hash(key, r) is below a threshold. Of the features of a node those with the least hashes are in.
"""

from math import sqrt

from numba import float32, float64, int32, int64, uint64

from arboost.kernels.jit import kernel, part
from arboost.kernels.scalar import mix

LOW_BITS = 15  # of a float32's 31 bits below the sign: rows are counted by the others
N_BUCKETS = 1 << (31 - LOW_BITS)


@kernel
def sample_rows(key, threshold, first_row, rows, start, stop):
    """Write the chosen ids among start..stop to rows[start:...] (OUT) and return how many there are.

    `first_row` is the global id of row 0 of this page.
    """
    k, n = uint64(key), uint64(start)
    for r in range(uint64(start), uint64(stop)):
        rows[n] = r
        n += uint64(mix(k ^ mix(uint64(first_row) + r)) >> uint64(32) < uint64(threshold))
    return n - uint64(start)


@kernel
def gradient_sizes(g, h, reg_lambda, size, start, stop):
    """size[r] (float32, OUT) = sqrt(g^2 + lambda h^2), summed over the targets of g and h (K, n)."""
    for r in range(uint64(start), uint64(stop)):
        square = 0.0
        for k in range(uint64(g.shape[0])):
            a, b = float64(g[k, r]), float64(h[k, r])
            square += a * a + reg_lambda * (b * b)
        size[r] = float32(sqrt(square))


@kernel
def count_sizes(size_bits, counts, lows, start, stop):
    """Rows by the high bits of their size (float32 as uint32), and the sum of the low bits (both int64, OUT).

    Sizes in a bucket share sign, exponent and high digits, so the two integers give the bucket's sum exactly.
    """
    mask = uint64((1 << LOW_BITS) - 1)
    for r in range(uint64(start), uint64(stop)):
        bits = uint64(size_bits[r])
        bucket = bits >> uint64(LOW_BITS)
        counts[bucket] += int64(1)
        lows[bucket] += int64(bits & mask)


@kernel
def goss_sizes(g, h, size, start, stop):
    """size[r] (float32, OUT) = |g h|, summed over the targets of g and h (K, n): LightGBM's measure."""
    for r in range(uint64(start), uint64(stop)):
        total = 0.0
        for k in range(uint64(g.shape[0])):
            total += abs(float64(g[k, r]) * float64(h[k, r]))
        size[r] = float32(total)


@kernel
def count_low_bits(size_bits, bucket, counts, start, stop):
    """Rows of one of `count_sizes`' buckets by the low bits of their size (int64, OUT)."""
    mask = uint64((1 << LOW_BITS) - 1)
    for r in range(uint64(start), uint64(stop)):
        bits = uint64(size_bits[r])
        if bits >> uint64(LOW_BITS) == uint64(bucket):
            counts[bits & mask] += int64(1)


@kernel
def sample_others(key, size_bits, largest, chance, first_row, rows, factor, start, stop):
    """Rows whose size is above `largest`, and of the others as many as `chance` leaves: ids (rows, OUT), how many.

    factor (float32, OUT) is what their gradients are multiplied by: 1, 1 / chance, and 0 for rows that are not chosen.
    """
    k, n, others = uint64(key), uint64(start), float32(1.0 / chance)
    for r in range(uint64(start), uint64(stop)):
        is_large = int64(size_bits[r]) > largest
        draw = (float64(int64(mix(k ^ mix(uint64(first_row) + r)) >> uint64(11))) + 0.5) * 2.0**-53
        chosen = is_large or draw < chance
        rows[n] = int32(r)
        n += uint64(chosen)
        factor[r] = float32(0.0) if not chosen else float32(1.0) if is_large else others
    return n - uint64(start)


@kernel
def sample_by_size(key, size, level, g, h, first_row, rows, g_out, h_out, start, stop):
    """Like `sample_rows`, with probability size / level: rows, and their gradients (K, n) divided by it (all OUT).

    Gradients of rows that are not chosen become zero.
    """
    k, n = uint64(key), uint64(start)
    for r in range(uint64(start), uint64(stop)):
        p = float64(size[r]) / level
        p = p if p < 1.0 else 1.0
        draw = (float64(int64(mix(k ^ mix(uint64(first_row) + r)) >> uint64(11))) + 0.5) * 2.0**-53
        chosen = draw < p
        rows[n] = int32(r)
        n += uint64(chosen)
        scale = 1.0 / p if chosen else 0.0
        for t in range(uint64(g.shape[0])):
            g_out[t, r] = float32(float64(g[t, r]) * scale)
            h_out[t, r] = float32(float64(h[t, r]) * scale)
    return n - uint64(start)


@part
def _nth_least(values, n):
    """The n-th least of some values, n from 1; they are parted on the way (quickselect)."""
    low, high, k = int64(0), int64(values.shape[0] - 1), int64(n - 1)
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@part
def sample_columns_of_node(key, node, features, n_chosen, draws, mask):
    """mask (uint8, OUT) = n_chosen of `features`, as `rng.choose` draws them for a node's key.

    Ties go to the features that come first. draws: (2, n features) float64 of scratch memory.
    """
    n_features, node_key = features.shape[0], mix(uint64(key) ^ mix(uint64(node)))
    for j in range(n_features):
        bits = mix(node_key ^ mix(uint64(features[j]))) >> uint64(11)
        draws[0, j] = draws[1, j] = (float64(int64(bits)) + 0.5) * 2.0**-53
    limit, n_left = _nth_least(draws[1], n_chosen), int64(n_chosen)
    mask[:] = 0
    for j in range(n_features):
        n_left -= int64(draws[0, j] < limit)
    for j in range(n_features):
        if draws[0, j] < limit:
            mask[features[j]] = 1
        elif draws[0, j] == limit and n_left > 0:
            mask[features[j]] = 1
            n_left -= 1


@kernel
def sample_columns(key, nodes, features, n_chosen, draws, masks, start, stop):
    """The same for nodes[i] and masks[i], i in start..stop."""
    for i in range(start, stop):
        sample_columns_of_node(key, nodes[i], features, n_chosen, draws, masks[i])
