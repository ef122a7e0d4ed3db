"""exp, log and their kin against extended precision, at the edges of float64, and as machine code."""

import math
import platform

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.kernels import elementary

LONG = np.longdouble
HAS_LONG = np.finfo(LONG).nmant >= 63

compiled = numba.njit(nogil=True, error_model="numpy")  # as kernels are, but not kept on disk


@compiled
def _exp(x, out, start, stop):
    for i in range(start, stop):
        out[i] = elementary.exp(x[i])


@compiled
def _log(x, out, start, stop):
    for i in range(start, stop):
        out[i] = elementary.log(x[i])


@compiled
def _log1p(x, out, start, stop):
    for i in range(start, stop):
        out[i] = elementary.log1p(x[i])


@compiled
def _log_gamma(x, out, start, stop):
    for i in range(start, stop):
        out[i] = elementary.log_gamma(x[i])


@compiled
def _round_trip(x, out, start, stop):
    for i in range(start, stop):
        out[i] = elementary.float_of(elementary.bits_of(x[i]))


def call(loop, x):
    x = np.ascontiguousarray(np.atleast_1d(x))
    out = np.empty_like(x)
    loop(x, out, 0, len(x))
    return out


def ulps(got, exact):
    """Largest error in units of the last place of float64."""
    unit = np.spacing(np.abs(exact.astype(np.float64))).astype(LONG)
    return float(np.max(np.abs(got.astype(LONG) - exact) / unit))


@pytest.mark.skipif(not HAS_LONG, reason="long double is no wider than double here")
def test_errors_in_ulps():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-745, 709.7, 200_000), rng.uniform(-1, 1, 200_000), rng.normal(0, 1e-8, 1000)])
    assert ulps(call(_exp, x), np.exp(x.astype(LONG))) < 1.0
    x = np.concatenate([np.exp(rng.uniform(-740, 709, 200_000)), rng.uniform(0.5, 2, 200_000), 1 + x[-1000:]])
    assert ulps(call(_log, x), np.log(x.astype(LONG))) < 1.0
    x = np.concatenate([rng.uniform(-0.99999, 2, 200_000), np.exp(rng.uniform(-700, 700, 200_000))])
    assert ulps(call(_log1p, x), np.log1p(x.astype(LONG))) < 1.5


@given(st.floats(-745, 709.78))
def test_exp_is_libms_to_two_ulps(x):
    want = math.exp(x)
    assert abs(call(_exp, x)[0] - want) <= 2 * math.ulp(want)


@given(st.floats(5e-324, 1.7e308))
def test_log_is_libms_to_two_ulps(x):
    want = math.log(x)
    assert abs(call(_log, x)[0] - want) <= 2 * math.ulp(want)


@given(st.floats(-1, 1e300, exclude_min=True))
def test_log1p_is_libms_to_three_ulps(x):
    want = math.log1p(x)
    assert abs(call(_log1p, x)[0] - want) <= 3 * math.ulp(want)


@given(st.floats(1e-300, 1e300))
def test_log_gamma(x):
    want = math.lgamma(x)
    assert call(_log_gamma, x)[0] == pytest.approx(want, rel=2e-14, abs=2e-14)


def test_log_of_factorials():
    n = np.arange(1.0, 171.0)
    np.testing.assert_allclose(
        call(_log_gamma, n), [math.log(math.factorial(int(k) - 1)) for k in n], atol=1e-14, rtol=1e-14
    )


@pytest.mark.parametrize(
    ("loop", "x", "want"),
    [
        (
            _exp,
            [0.0, -0.0, math.inf, -math.inf, 710.0, -746.0, 1e300, -1e300],
            [1, 1, math.inf, 0, math.inf, 0, math.inf, 0],
        ),
        (_exp, [-745.1, 5e-324, -1e-300], [5e-324, 1, 1]),
        (_log, [0.0, -0.0, math.inf, 1.0], [-math.inf, -math.inf, math.inf, 0]),
        (_log1p, [0.0, -1.0, math.inf, 1e-300, 5e-324], [0, -math.inf, math.inf, 1e-300, 5e-324]),
        (_log_gamma, [1.0, 2.0, math.inf, 0.0], [0, 0, math.inf, math.inf]),
    ],
)
def test_special_values(loop, x, want):
    np.testing.assert_allclose(call(loop, np.array(x)), want, rtol=0, atol=2e-14 if loop is _log_gamma else 0)


@pytest.mark.parametrize("loop", [_exp, _log, _log1p, _log_gamma])
def test_nan_stays_nan(loop):
    assert np.isnan(call(loop, math.nan)[0])


@pytest.mark.parametrize("loop", [_log, _log_gamma])
@pytest.mark.parametrize("x", [-0.5, -math.inf])
def test_no_logarithm_of_a_negative_number(loop, x):
    assert not np.isfinite(call(loop, x)[0])


@pytest.mark.parametrize("loop", [_exp, _log, _log1p, _log_gamma])
def test_same_bits_in_vector_and_scalar_code(loop):
    x = np.random.default_rng(1).gamma(1.0, 3.0, 1003)
    together = call(loop, x)
    alone = np.concatenate([call(loop, value) for value in x[:200]])
    np.testing.assert_array_equal(together[:200], alone)
    np.testing.assert_array_equal(call(loop, x[7:])[:100], together[7:107])


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 instructions")
@pytest.mark.parametrize("loop", [_exp, _log, _log1p, _log_gamma])
def test_nothing_is_fused(loop):
    call(loop, 1.0)
    code = "".join(loop.inspect_asm().values())
    assert "mul" in code
    assert "fmadd" not in code
    assert "fmsub" not in code
    assert "fnmadd" not in code


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_and_back(dtype):
    x = np.array([0.0, -0.0, 1.5, -math.pi, math.inf, 1e-40], dtype)
    np.testing.assert_array_equal(call(_round_trip, x).view(np.uint8), x.view(np.uint8))
