"""Gradients to integers, once per tree (kernels.md, 2). Integers from here to the leaf weight."""

import numpy as np
from numba import int64, uint32, uint64

from arboost.kernels.jit import kernel

_MAGNITUDE = uint32(0x7FFFFFFF)


@kernel
def gradient_bits(g_bits, h_bits, start, stop):
    """(max |g|, max |h|, max of |h|'s complement, any h < 0) of a range, on the floats' bits.

    The magnitude bits of IEEE floats order like the floats themselves, with inf and NaN on top, and an integer
    maximum is vectorised where a float one is not.
    """
    max_g, max_h, max_complement, negative = uint32(0), uint32(0), uint32(0), uint32(0)
    for i in range(uint64(start), uint64(stop)):
        h = h_bits[i]
        max_g = max(max_g, g_bits[i] & _MAGNITUDE)
        max_h = max(max_h, h & _MAGNITUDE)
        max_complement = max(max_complement, ~h & _MAGNITUDE)
        negative |= h >> uint32(31)
    return max_g, max_h, max_complement, negative


@kernel
def pack_gradients(g, h, scales, shift, values, start, stop):
    """values[i] = (round(g * scale) << shift) + round(h * scale).

    Returns (digits of g, of h, sum of g, of h) in quanta.
    scales = [of g, of h, enough quanta of g, of h]: digits are the sum of magnitudes where a value counts as at most
    `enough`, so that a few huge ones cannot hide that typical ones have none; zero counts as enough: it needs none.
    """
    g_scale, h_scale = scales[0], scales[1]
    g_enough, h_enough = int64(scales[2]), int64(scales[3])
    g_digits, h_digits, g_sum, h_sum = int64(0), int64(0), int64(0), int64(0)
    for i in range(uint64(start), uint64(stop)):
        gq = int64(np.rint(np.float64(g[i]) * g_scale))
        hq = int64(np.rint(np.float64(h[i]) * h_scale))
        g_digits += g_enough if g[i] == 0 else min(abs(gq), g_enough)
        h_digits += h_enough if h[i] == 0 else min(hq, h_enough)
        g_sum += gq
        h_sum += hq
        values[i] = (gq << shift) + hq
    return g_digits, h_digits, g_sum, h_sum


@kernel
def scale_plane(x, scale, values, start, stop):
    """values[i] = round(x[i] * scale)."""
    for i in range(uint64(start), uint64(stop)):
        values[i] = int64(np.rint(np.float64(x[i]) * scale))


@kernel
def sum_values(values, rows, every, start, stop):
    """Sum of values over rows[start:stop], or over start..stop itself if every row is meant."""
    total = int64(0)
    if every:
        for i in range(uint64(start), uint64(stop)):
            total += values[i]
    else:
        for i in range(uint64(start), uint64(stop)):
            total += values[rows[i]]
    return total


@kernel
def sum_packed(values, rows, every, shift, start, stop):
    """(sum of g, sum of h) in quanta over a range of rows, unpacked before they are added."""
    mask = (int64(1) << shift) - 1
    g, h = int64(0), int64(0)
    for i in range(uint64(start), uint64(stop)):
        v = values[i] if every else values[rows[i]]
        g += v >> shift
        h += v & mask
    return g, h
