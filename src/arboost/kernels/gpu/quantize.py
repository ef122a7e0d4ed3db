"""Gradients to integers by all blocks of a device together, without the host: levels/quantize.py's steps and decisions.

Everything is a power of two, a maximum or an integer sum, so no order of rows, blocks or threads can change a bit.
"""

from numba import float64, int64, uint32

from arboost.kernels import elementary
from arboost.kernels.gpu.arrays import ALL_LANES
from arboost.kernels.gpu.jit import cuda, formula, gpu_part
from arboost.kernels.scalar import MIN_CHILD_WEIGHT

G_UNIT, H_UNIT = 5, 6
PACKED_ROWS, FEWER_ROWS = 8192, 1024
FINE_BITS, RANGE_BITS, SMALL_RANGE_BITS, PLANE_BITS = 16, 7, 4, 40
# `found` (N_FOUND,) int64: what is known of the gradients; zeros at first
MAX_G, MAX_H, COMPLEMENT, NEGATIVE, SUMS, SHIFT, BLOCK_ROWS, IS_BAD, LEAST_H, G_BITS = 0, 1, 2, 3, 4, 12, 13, 14, 15, 16
N_FOUND = 17
GOOD, NOT_FINITE, NEEDS_PLANES = 0, 1, 2
_MAGNITUDE, _INFINITE = 0x7FFFFFFF, 0x7F800000
_TWO_51, _ROUNDER = 2.0**51, 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, ties to even
bits_of, float_of = formula(elementary.bits_of), formula(elementary.float_of)


@gpu_part
def rint(x):
    """The nearest integer, ties to even. From 2**51 on x, a float32 times a power of two, is one already."""
    return int64((x + _ROUNDER) - _ROUNDER) if -_TWO_51 < x and x < _TWO_51 else int64(x)


@gpu_part
def largest(value):
    """Of a warp, in its first lane."""
    for k in range(5):
        other = cuda.shfl_down_sync(ALL_LANES, value, 1 << k)
        value = other if other > value else value
    return value


@gpu_part
def total(value):
    """Of a warp, in its first lane."""
    for k in range(5):
        value += cuda.shfl_down_sync(ALL_LANES, value, 1 << k)
    return value


@gpu_part
def power_of_two(k):
    """2.0**k, for -1022 <= k <= 1023."""
    return float_of(int64(1023 + k) << int64(52))


@gpu_part
def scale_of(size, limit_bits):
    """The largest power of two that keeps size * scale below 2**limit_bits; 1 for a size of 0."""
    if size == 0.0:
        return 1.0
    exponent = int64((bits_of(size) >> int64(52)) & int64(2047)) - int64(1022)
    return power_of_two(limit_bits - exponent)


@gpu_part
def bit_length(n):
    """Of a positive integer."""
    bits = int64(0)
    while n > 0:
        n >>= 1
        bits += 1
    return bits


@gpu_part
def note_bits(g, h, found):
    """found[:4] = (max |g|, max |h|, max of |h|'s complement, any h < 0), on the floats' bits."""
    max_g, max_h, complement, negative = int64(0), int64(0), int64(0), int64(0)
    for i in range(cuda.grid(1), g.shape[0], cuda.gridsize(1)):
        g_bits, h_bits = int64(bits_of(g[i])) & _MAGNITUDE, int64(bits_of(h[i]))
        h_size = h_bits & _MAGNITUDE
        max_g = g_bits if g_bits > max_g else max_g
        max_h = h_size if h_size > max_h else max_h
        complement = _MAGNITUDE - h_size if _MAGNITUDE - h_size > complement else complement
        negative = int64(1) if h_bits > _MAGNITUDE else negative
    max_g, max_h, complement, negative = largest(max_g), largest(max_h), largest(complement), largest(negative)
    if cuda.threadIdx.x & 31 == 0:
        cuda.atomic.max(found, MAX_G, max_g)
        cuda.atomic.max(found, MAX_H, max_h)
        cuda.atomic.max(found, COMPLEMENT, complement)
        cuda.atomic.max(found, NEGATIVE, negative)


@gpu_part
def pack_rows(g, h, g_scale, h_scale, g_enough, h_enough, shift, values, sums, first):
    """values[0, i] = both, packed; sums[first:][:4] += (digits of g, of h, sum of g, of h) in quanta."""
    g_digits, h_digits, g_sum, h_sum = int64(0), int64(0), int64(0), int64(0)
    for i in range(cuda.grid(1), g.shape[0], cuda.gridsize(1)):
        gq, hq = rint(float64(g[i]) * g_scale), rint(float64(h[i]) * h_scale)
        size = -gq if gq < 0 else gq
        g_digits += g_enough if g[i] == 0 or size > g_enough else size
        h_digits += h_enough if h[i] == 0 or hq > h_enough else hq
        g_sum += gq
        h_sum += hq
        values[0, i] = (gq << shift) + hq
    g_digits, h_digits, g_sum, h_sum = total(g_digits), total(h_digits), total(g_sum), total(h_sum)
    if cuda.threadIdx.x & 31 == 0:
        cuda.atomic.add(sums, first, g_digits)
        cuda.atomic.add(sums, first + 1, h_digits)
        cuda.atomic.add(sums, first + 2, g_sum)
        cuda.atomic.add(sums, first + 3, h_sum)


@gpu_part
def scale_rows(g, h, g_scale, h_scale, values, sums, first):
    """values[0, i] = round(g * scale), values[1, i] = round(h * scale); sums[first + 2:][:2] += their sums."""
    g_sum, h_sum = int64(0), int64(0)
    for i in range(cuda.grid(1), g.shape[0], cuda.gridsize(1)):
        gq, hq = rint(float64(g[i]) * g_scale), rint(float64(h[i]) * h_scale)
        values[0, i], values[1, i] = gq, hq
        g_sum += gq
        h_sum += hq
    g_sum, h_sum = total(g_sum), total(h_sum)
    if cuda.threadIdx.x & 31 == 0:
        cuda.atomic.add(sums, first + 2, g_sum)
        cuda.atomic.add(sums, first + 3, h_sum)


@gpu_part
def sum_rows(values, rows, n, shift, sums, first):
    """sums[first:][:2] += (g, h) in quanta over n of the rows."""
    g, h = int64(0), int64(0)
    for j in range(cuda.grid(1), n, cuda.gridsize(1)):
        v = values[0, rows[0, j]]
        if shift > 0:
            g += v >> shift
            h += v & ((int64(1) << shift) - 1)
        else:
            g += v
            h += values[1, rows[0, j]]
    g, h = total(g), total(h)
    if cuda.threadIdx.x & 31 == 0:
        cuda.atomic.add(sums, first, g)
        cuda.atomic.add(sums, first + 1, h)


@gpu_part
def quantize(grid, g, h, values, found, reg):
    """Integers (values, OUT) and their units (reg, OUT), and what is known of them (found, IN/OUT)."""
    n = int64(g.shape[0])
    note_bits(g, h, found)
    grid.sync()
    if found[MAX_G] >= _INFINITE or found[MAX_H] >= _INFINITE:
        if cuda.grid(1) == 0:
            found[IS_BAD] = NOT_FINITE
        return
    max_g = float64(float_of(uint32(found[MAX_G])))
    max_h = float64(float_of(uint32(found[MAX_H])))
    equal = found[MAX_H] == _MAGNITUDE - found[COMPLEMENT]  # all hessians: they need one quantum each
    n_tries = 0 if found[NEGATIVE] != 0 else 2 if n > PACKED_ROWS else 1
    for tried in range(n_tries):
        n_block = n if n <= PACKED_ROWS else int64(PACKED_ROWS) if tried == 0 else int64(FEWER_ROWS)
        block_bits = bit_length(n_block)
        shift = block_bits + 1 if equal else int64(32)
        g_bits, h_bits = 63 - shift - block_bits, shift - block_bits
        h_unit = (max_h if max_h > 0.0 else 1.0) if equal else 1.0 / scale_of(max_h, h_bits)
        h_scale, g_scale = 1.0 / h_unit, scale_of(max_g, g_bits)
        spare = int64(RANGE_BITS) if n >= PACKED_ROWS else int64(SMALL_RANGE_BITS)
        if n_block < PACKED_ROWS and PACKED_ROWS <= n:
            spare += bit_length(int64(PACKED_ROWS)) - block_bits
        fine_g, fine_h = g_bits - spare, h_bits - spare
        need_g = int64(1) << (0 if fine_g < 0 else FINE_BITS if fine_g > FINE_BITS else fine_g)
        need_h = int64(1) << (0 if fine_h < 0 else FINE_BITS if fine_h > FINE_BITS else fine_h)
        at = SUMS + 4 * tried
        pack_rows(g, h, g_scale, h_scale, 4 * need_g, 4 * need_h, shift, values, found, at)
        grid.sync()
        if (equal or found[at + 1] >= need_h * n) and found[at] >= need_g * n:
            if cuda.grid(1) == 0:
                finish(found, reg, at, shift, n_block, g_bits, 1.0 / g_scale, h_unit)
            return
    if values.shape[0] < 2:
        if cuda.grid(1) == 0:
            found[IS_BAD] = NEEDS_PLANES
        return
    bits = 62 - bit_length(n)
    bits = bits if bits < PLANE_BITS else int64(PLANE_BITS)
    g_scale, h_scale = scale_of(max_g, bits), scale_of(max_h, bits)
    if cuda.grid(1) == 0:
        found[SUMS + 2], found[SUMS + 3] = 0, 0
    grid.sync()
    scale_rows(g, h, g_scale, h_scale, values, found, SUMS)
    grid.sync()
    if cuda.grid(1) == 0:
        finish(found, reg, SUMS, int64(0), n, bits, 1.0 / g_scale, 1.0 / h_scale)


@gpu_part
def hessians_count(found):
    """Whether every row's hessian is one quantum."""
    return found[SHIFT] > 0 and found[MAX_H] > 0 and found[MAX_H] == _MAGNITUDE - found[COMPLEMENT]


@gpu_part
def finish(found, reg, at, shift, n_block, g_bits, g_unit, h_unit):
    """Note how values are packed, and what follows from their units."""
    found[SUMS + 2], found[SUMS + 3] = found[at + 2], found[at + 3]
    found[SHIFT], found[BLOCK_ROWS], found[G_BITS], found[IS_BAD] = shift, n_block, g_bits, GOOD
    reg[G_UNIT], reg[H_UNIT] = g_unit, h_unit
    least = 2.0 * reg[MIN_CHILD_WEIGHT] / h_unit
    least = least if least < 2.0**62 else 2.0**62
    whole = int64(least)
    found[LEAST_H] = whole + 1 if float64(whole) < least else whole
