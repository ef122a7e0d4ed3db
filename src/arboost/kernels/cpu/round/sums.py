"""Sums of float64 values that do not depend on the order of addition: exact, rounded once at the end.

An accumulator is an int64 vector: slots 2e and 2e+1 hold the low 27 and the high 26 bits of the significands of
all values with biased exponent e, signed; the last three count NaN, +inf and -inf. Accumulators merge by integer
addition over threads and workers. A slot holds 2**36 values without overflow.

    value = sign * significand * 2**(e - 1075)      significand = high << 27 | low      53 bits
"""

import numpy as np
from numba import int64, uint64

from arboost.kernels.elementary import bits_of
from arboost.kernels.jit import kernel, scalar

N_SLOTS = 4097
_NAN, _PLUS_INF, _MINUS_INF = 4094, 4095, 4096
_LOW_BITS = 27
_LOW_MASK = 2**_LOW_BITS - 1
_FRACTION = 2**52 - 1
_HIDDEN_BIT = 2**52
_SPECIAL = 2047
_UNIT_BITS = 1074  # the smallest positive float64 is 2**-1074


@scalar
def add_exact(acc, value):
    """Add one value to an accumulator (OUT)."""
    bits = bits_of(value)
    e = (bits >> int64(52)) & int64(_SPECIAL)
    fraction = bits & int64(_FRACTION)
    sign = bits >> int64(63)  # 0 or -1: (x ^ sign) - sign negates
    if e == _SPECIAL:
        acc[_NAN if fraction != 0 else _PLUS_INF - sign] += 1
        return
    significand = fraction | (int64(_HIDDEN_BIT) if e != 0 else int64(0))
    slot = uint64(e) << uint64(1)
    acc[slot] += ((significand & int64(_LOW_MASK)) ^ sign) - sign
    acc[slot + uint64(1)] += ((significand >> int64(_LOW_BITS)) ^ sign) - sign


@scalar
def two_sum(a, b):
    """a + b rounded, and exactly what that has lost (Knuth's TwoSum)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@scalar
def add_carried(acc, high, low, value):
    """The same, carried on in two numbers for as long as they hold the sum exactly; returns them.

    Values of like size cost a few additions so. In the end both are for `add_exact`.
    """
    high, lost = two_sum(high, value)
    total, rest = two_sum(low, lost)
    if rest == 0.0:
        return high, total
    add_exact(acc, low)
    return high, lost


@kernel
def add_values(values, acc, start, stop):
    """Add values[start:stop] to an accumulator (OUT)."""
    for i in range(uint64(start), uint64(stop)):
        add_exact(acc, values[i])


def round_sum(acc: np.ndarray) -> float:
    """The float64 nearest to the exact sum held in an accumulator."""
    n_nan, n_plus, n_minus = (int(n) for n in acc[_NAN:])
    if n_nan or (n_plus and n_minus):
        return float("nan")
    if n_plus or n_minus:
        return float("inf") if n_plus else float("-inf")
    slots = np.flatnonzero(acc).tolist()
    if not slots:
        return 0.0
    lowest = max(slots[0] // 2, 1)  # shifts count from here: integers stay short
    total = 0
    for slot, part in zip(slots, acc[slots].tolist(), strict=True):
        exponent = max(slot // 2, 1)  # subnormal numbers have the scale of exponent 1
        total += part << (exponent - lowest + (slot % 2) * _LOW_BITS)
    shift = lowest - 1 - _UNIT_BITS
    try:
        return float(total << shift) if shift >= 0 else total / (1 << -shift)  # both round once, correctly
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
