"""Gradients to integers, on the floats' bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive
from arboost.kernels.cpu.round import quantize as ops

floats = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32))


@given(floats, st.data())
def test_largest_and_smallest_magnitudes(g, data):
    h = data.draw(hnp.arrays(np.float32, len(g), elements=st.floats(width=32, allow_nan=False)))
    bits = ops.gradient_bits(g.view(np.uint32), h.view(np.uint32), 0, len(g))
    max_g, max_h, min_h = np.array([bits[0], bits[1], ~bits[2] & 0x7FFFFFFF], np.uint32).view(np.float32)
    if np.isnan(g).any():
        assert np.isnan(max_g)
    else:
        assert max_g == abs(g).max()
    assert max_h == abs(h).max()
    assert min_h == abs(h).min()
    assert bool(bits[3]) == bool(np.signbit(h).any())


def test_infinity_and_nan_come_out_on_top():
    h = np.ones(3, np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        g = np.array([1e38, bad, -3], np.float32)
        found = np.array(ops.gradient_bits(g.view(np.uint32), h.view(np.uint32), 0, 3)[0], np.uint32)
        assert not np.isfinite(found.view(np.float32))


@given(st.lists(st.tuples(st.floats(-8, 8, width=32), st.floats(0, 8, width=32)), min_size=1), st.integers(0, 12))
def test_packing(pairs, bits):
    g, h = np.array(pairs, np.float32).T.copy()
    enough = (100, 30)
    scales = np.array([2.0**bits, 2.0 ** (bits + 1), *enough])
    values = np.zeros(len(g), np.int64)
    *digits, g_sum, h_sum = ops.pack_gradients(g, h, scales, 32, values, 0, len(g))
    g_quanta, h_quanta = naive.quanta(g, 1 / scales[0]), naive.quanta(h, 1 / scales[1])
    assert [(int(v) >> 32, int(v) & (2**32 - 1)) for v in values] == list(zip(g_quanta, h_quanta))
    pairs = zip((g, h), (g_quanta, h_quanta), enough)
    expected = [sum(min(abs(q), most) if v else most for v, q in zip(x, quanta)) for x, quanta, most in pairs]
    assert digits == expected
    assert (g_sum, h_sum) == (sum(g_quanta), sum(h_quanta))


@given(hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32)))
def test_planes(x):
    values = np.zeros(len(x), np.int64)
    ops.scale_plane(x, 2.0**20, values, 0, len(x))
    assert values.tolist() == naive.quanta(x, 2.0**-20)


@pytest.mark.parametrize("identity", [True, False])
def test_sums_of_ranges(identity):
    rng = np.random.default_rng(0)
    g, h = rng.integers(-(2**30), 2**30, 500), rng.integers(0, 2**31, 500)
    values = (g << 32) + h
    order = np.arange(500) if identity else rng.permutation(500)[:300]
    rows = np.zeros(0, np.int32) if identity else order.astype(np.int32)
    part = order[17:250]
    assert ops.sum_packed(values, rows, identity, 32, 17, 250) == (g[part].sum(), h[part].sum())
    assert ops.sum_values(g, rows, identity, 17, 250) == g[part].sum()
