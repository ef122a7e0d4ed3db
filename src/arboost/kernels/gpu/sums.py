"""Exact sums of float64 values on a device, in the accumulators of kernels/cpu/round/sums.py.

Every thread has a fixed-point number in six digits of 32 bits, each in an int64, which covers what values usually are:
    value = sum of digit[j] * 2**(32 j + lowest - 1075)
A digit is what the slot of exponent 32 j + lowest holds. What does not fit goes to its own slots, one by one.
"""

from numba import int64, uint64

from arboost.kernels import elementary
from arboost.kernels.gpu import quantize
from arboost.kernels.gpu.jit import cuda, formula, gpu_part

DIGITS = 6
LAST_PLACE = 32 * DIGITS - 53  # where the lowest bit of a significand may be
LOWEST = 960  # the exponent of 2**-115 at the lowest bit: of values from 2**-63 up to 2**76
_NAN, _PLUS_INF, _LOW_BITS, _LOW_MASK = 4094, 4095, 27, 2**27 - 1  # of an accumulator
_FRACTION, _HIDDEN_BIT, _SPECIAL = 2**52 - 1, 2**52, 2047
bits_of = formula(elementary.bits_of)


@gpu_part
def clear(digits):
    """Begin with 0."""
    for j in range(DIGITS):
        digits[j] = 0


@gpu_part
def _add_to_slots(e, fraction, sign, acc):
    """kernels/cpu/round/sums.py::add_exact."""
    if e == _SPECIAL:
        cuda.atomic.add(acc, _NAN if fraction != 0 else _PLUS_INF - sign, int64(1))
        return
    significand = fraction | (int64(_HIDDEN_BIT) if e != 0 else int64(0))
    cuda.atomic.add(acc, 2 * e, ((significand & int64(_LOW_MASK)) ^ sign) - sign)
    cuda.atomic.add(acc, 2 * e + 1, ((significand >> int64(_LOW_BITS)) ^ sign) - sign)


@gpu_part
def add(value, lowest, digits, acc):
    """Add one value to the thread's digits, or to the accumulator (both OUT)."""
    bits = bits_of(value)
    e, fraction = (bits >> int64(52)) & int64(_SPECIAL), bits & int64(_FRACTION)
    sign = bits >> int64(63)  # 0 or -1: (x ^ sign) - sign negates
    if e == 0 and fraction == 0:
        return
    place = e - lowest
    if e == 0 or e == _SPECIAL or place < 0 or place > LAST_PLACE:
        _add_to_slots(e, fraction, sign, acc)
        return
    significand = uint64(fraction | int64(_HIDDEN_BIT))
    first, offset = place >> int64(5), uint64(place & int64(31))
    shifted = significand << offset
    low, middle = int64(shifted & uint64(0xFFFFFFFF)), int64(shifted >> uint64(32))
    high = int64((significand >> uint64(1)) >> (uint64(63) - offset))
    for j in range(DIGITS):
        k = int64(j) - first
        digit = low if k == 0 else middle if k == 1 else high if k == 2 else int64(0)
        digits[j] += (digit ^ sign) - sign


@gpu_part
def merge(digits, lowest, acc):
    """Add the digits of all threads to the accumulator (OUT)."""
    for j in range(DIGITS):
        of_warp = quantize.total(digits[j])
        if cuda.threadIdx.x & 31 == 0 and of_warp != 0:
            cuda.atomic.add(acc, 2 * (lowest + 32 * j), of_warp)
