"""exp, log and their kin as fixed sequences of IEEE float64 operations: the same bits on every machine.

libm, SVML and CUDA differ in the last bit, and one bit can change a split. Here are only + - * /, comparisons,
selects and integer operations on the bits, none fused, no tables and no loops, so that LLVM turns a loop over
rows into vector code. `exp` and `log` err by less than 1 ulp of float64, `log1p` by less than 1.5
(tests/unit/kernels/test_elementary.py). Arguments and results are float64.
"""

from collections.abc import Callable
from typing import Any

from numba import int64, types
from numba.extending import intrinsic

from arboost.kernels.jit import part

_LOG2_E = 1.4426950408889634
_LN2_HIGH = float.fromhex("0x1.62E42FEE00000p-1")  # 33 bits: a multiple by any exponent is exact
_LN2_LOW = float.fromhex("0x1.A39EF35793C76p-33")
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, held in the low bits
_ROUNDER_BITS = 0x4338000000000000
_EXPONENT_BIAS = 1023
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
_MANTISSA = 0x000FFFFFFFFFFFFF
_SMALLEST_NORMAL = 2.0**-1022
_TWO_54 = 2.0**54
_HALF_LOG_TWO_PI = 0.9189385332046727
_INF = float("inf")
_NAN = float("nan")


def inlined(function: Callable) -> Any:
    """A formula that LLVM must inline: one call left in a loop over rows would keep it from becoming vector code."""
    return part(function, forceinline=True)


def _bitcast(to: dict[types.Type, types.Type], source: types.Type) -> Any:
    """Signature and code that read one register as another type of the same width."""

    def emit(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return (to[source](source), emit) if source in to else None


@intrinsic
def bits_of(typing_context, x):
    """The bits of a float64 as an int64, of a float32 as a uint32."""
    return _bitcast({types.float64: types.int64, types.float32: types.uint32}, x)


@intrinsic
def float_of(typing_context, bits):
    """The float64 that has the bits of an int64, the float32 that has those of a uint32."""
    return _bitcast({types.int64: types.float64, types.uint32: types.float32}, bits)


@inlined
def exp(x):
    """e**x: 0 below -745.2, inf above 709.8, gradual underflow between, NaN for NaN."""
    x = 710.0 if x > 710.0 else x
    x = -746.0 if x < -746.0 else x  # NaN passes both
    shifted = x * _LOG2_E + _ROUNDER
    k = bits_of(shifted) - int64(_ROUNDER_BITS)
    n = shifted - _ROUNDER
    high = x - n * _LN2_HIGH
    low = n * _LN2_LOW
    r = high - low
    # Taylor: |r| <= ln(2)/2, so the first neglected term r**14/14! is below 5e-18
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    y = 1.0 + (high + (p * (r * r) - low))
    # 2**k in two steps: k reaches 1024 and -1077, outside what one exponent field holds
    half = k >> int64(1)
    y *= float_of((half + int64(_EXPONENT_BIAS)) << int64(52))
    return y * float_of((k - half + int64(_EXPONENT_BIAS)) << int64(52))


@inlined
def log(x):
    """Natural logarithm: -inf at 0, inf at inf, NaN below 0 and for NaN."""
    tiny = x < _SMALLEST_NORMAL
    scaled = x * _TWO_54 if tiny else x
    # scaled = 2**e * m with m in [sqrt(1/2), sqrt(2)): ln(m) = 2 atanh(s), s = f / (2 + f), f = m - 1
    bits = bits_of(scaled) - int64(_SQRT_HALF_BITS)
    f = float_of((bits & int64(_MANTISSA)) + int64(_SQRT_HALF_BITS)) - 1.0
    n = (float_of((bits >> int64(52)) + int64(_ROUNDER_BITS)) - _ROUNDER) - (54.0 if tiny else 0.0)
    s = f / (2.0 + f)
    z = s * s
    # |s| <= 0.1716: the first neglected term 2 s**23/23 is below 3e-19
    p = 0.09523809523809523
    p = p * z + 0.10526315789473684
    p = p * z + 0.11764705882352941
    p = p * z + 0.13333333333333333
    p = p * z + 0.15384615384615385
    p = p * z + 0.18181818181818182
    p = p * z + 0.2222222222222222
    p = p * z + 0.2857142857142857
    p = p * z + 0.4
    p = p * z + 0.6666666666666666
    # f - f**2/2 + s (f**2/2 + series) rather than 2 s + ...: the leading term f is exact
    half_square = 0.5 * f * f
    y = n * _LN2_HIGH - ((half_square - (s * (half_square + z * p) + n * _LN2_LOW)) - f)
    y = y if x > 0.0 else (-_INF if x == 0.0 else _NAN)
    return x if x == _INF else y


@inlined
def log1p(x):
    """ln(1 + x), accurate for small x: the rounding error of 1 + x is added back."""
    u = 1.0 + x
    lost = (x - (u - 1.0)) / u
    return log(u) + (lost if 0.0 < u < _INF else 0.0)


@inlined
def log_gamma(x):
    """ln(Gamma(x)) for x > 0 to about 1e-14 (absolute where it is below 1); NaN or inf below 0."""
    # Stirling's series needs x >= 8: smaller x climb eight steps by Gamma(x + 1) = x Gamma(x)
    small = x < 8.0
    climb = x * (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
    z = x + 8.0 if small else x
    r = 1.0 / z
    q = r * r
    p = 0.00641025641025641
    p = p * q - 0.0019175269175269176
    p = p * q + 0.0008417508417508417
    p = p * q - 0.0005952380952380953
    p = p * q + 0.0007936507936507937
    p = p * q - 0.002777777777777778
    p = p * q + 0.08333333333333333
    y = (z - 0.5) * log(z) - z + _HALF_LOG_TWO_PI + p * r
    y = y - log(climb if small else 1.0)
    return _INF if x == _INF else y
