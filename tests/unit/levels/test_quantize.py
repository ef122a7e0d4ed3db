"""Which integers gradients become: exact scales, no overflow, digits kept, the same for any threads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive
import pages
from arboost.levels import quantize as quantize_module
from arboost.levels.quantize import PACKED_ROWS, quantize
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

lengths = st.integers(1, 60)
gradients = st.floats(-(2.0**100), 2.0**100, width=32)
hessians = st.floats(0, 2.0**100, width=32)


def is_power_of_two(x):
    return math.frexp(x)[0] == 0.5


@given(st.data())
def test_values_are_the_nearest_integers(data):
    n = data.draw(lengths)
    g = data.draw(hnp.arrays(np.float32, n, elements=gradients))
    h = data.draw(hnp.arrays(np.float32, n, elements=data.draw(st.sampled_from([hessians, gradients]))))
    found = quantize(Context(), g, h)
    g_quanta, h_quanta = pages.unpack(found)
    assert is_power_of_two(found.g_unit)
    assert g_quanta == naive.quanta(g, found.g_unit)
    if len(set(h.tolist())) == 1 and len(found.planes) == 1:
        assert set(h_quanta) <= {0, 1}
        assert [q * found.h_unit for q in h_quanta] == h.tolist()
    else:
        assert is_power_of_two(found.h_unit)
        assert h_quanta == naive.quanta(h, found.h_unit)
    assert found.total(Context(), None) == (sum(g_quanta), sum(h_quanta))


@pytest.mark.parametrize("kind", pages.KINDS)
def test_form(kind):
    found, _, _ = pages.quantized(np.random.default_rng(0), 500, kind)
    is_packed = kind in ("equal hessians", "packed")
    assert len(found.planes) == (1 if is_packed else 2)
    assert [int(p[1]) for p in found.packings] == ([0] if is_packed else [0, 1])
    assert [p[0] > 0 for p in found.packings] == ([True] if is_packed else [False, False])


@pytest.mark.parametrize("n", [1, 2, 3, 100, PACKED_ROWS - 1, PACKED_ROWS, PACKED_ROWS + 1, 3 * PACKED_ROWS])
@pytest.mark.parametrize("equal", [True, False])
def test_a_block_of_the_largest_gradients_does_not_overflow(n, equal):
    """The packing says how many rows may be summed in packed form: both halves hold that sum."""
    largest = np.float32(np.nextafter(np.float32(2), np.float32(0)))
    for sign in (1, -1):
        g = np.full(n, sign * largest, np.float32)
        h = np.full(n, largest, np.float32)
        if not equal:
            h[0] = 1.5
        found = quantize(Context(), g, h)
        assert len(found.planes) == 1
        shift, _, rows = (int(v) for v in found.packings[0])
        assert rows == min(n, PACKED_ROWS)
        g_quanta, h_quanta = pages.unpack(found)
        assert max(h_quanta) * rows < 2**shift
        assert max(map(abs, g_quanta)) * rows < 2 ** (63 - shift)
        block = found.planes[0][:rows]
        total = int(block.sum())
        assert (total >> shift, total & (2**shift - 1)) == (sum(g_quanta[:rows]), sum(h_quanta[:rows]))


def test_planes_cannot_overflow():
    found = quantize(Context(), np.full(1000, -1e30, np.float32), np.full(1000, -2, np.float32))
    assert len(found.planes) == 2
    bits = [max(abs(int(v)) for v in plane).bit_length() for plane in found.planes]
    assert max(bits) == 40
    most_rows = 2**31
    assert (62 - most_rows.bit_length()) + most_rows.bit_length() <= 62


def test_typical_gradients_keep_their_digits():
    """However large the largest is, up to the limit of two planes."""
    rng = np.random.default_rng(0)
    for largest in (1e2, 1e4, 1e6, 1e8):
        g, h = pages.make_gradients(rng, 2000, "packed")
        g[7] = h[11] = largest
        found = quantize(Context(), g, h)
        for x, unit in ((g, found.g_unit), (h, found.h_unit)):
            assert unit < 2e-3 * np.median(abs(x))


def test_rows_without_gradient_need_no_digits():
    """Most rows may have none (a weight of 0, a margin that is wide enough): that is no wide range."""
    g, h = pages.make_gradients(np.random.default_rng(1), 3000, "packed")
    g[200:] = h[200:] = 0
    assert len(quantize(Context(), g, h).planes) == 1


@pytest.mark.parametrize("n_threads", pages.THREADS)
@pytest.mark.parametrize("kind", pages.KINDS)
def test_any_threads_and_chunks(kind, n_threads):
    g, h = pages.make_gradients(np.random.default_rng(2), 3000, kind)
    alone = quantize(Context(), g, h)
    rows = np.random.default_rng(3).permutation(3000)[:1700].astype(np.int32)
    with pages.cut_anywhere(n_threads):
        ctx = Context(n_threads=n_threads)
        found = quantize(ctx, g, h)
        totals = found.total(ctx, None), found.total(ctx, rows)
    assert (found.g_unit, found.h_unit) == (alone.g_unit, alone.h_unit)
    for a, b in zip((*found.planes, *found.packings), (*alone.planes, *alone.packings), strict=True):
        np.testing.assert_array_equal(a, b)
    g_quanta, h_quanta = (np.array(x) for x in pages.unpack(alone))
    assert totals == ((g_quanta.sum(), h_quanta.sum()), (g_quanta[rows].sum(), h_quanta[rows].sum()))


def test_nothing_to_learn():
    zero = np.zeros(5, np.float32)
    for g, h in ((zero, zero), (zero, zero + 1), (zero, np.arange(5, dtype=np.float32)), (zero + 1, zero)):
        found = quantize(Context(), g, h)
        g_quanta, h_quanta = pages.unpack(found)
        assert [q * found.g_unit for q in g_quanta] == g.tolist()
        np.testing.assert_allclose([q * found.h_unit for q in h_quanta], h, rtol=1e-4)


def test_tiny_and_huge_numbers():
    for scale in (1e-44, 1e-38, 1e38):
        g = np.array([1, -2, 3], np.float32) * np.float32(scale)
        found = quantize(Context(), g, abs(g))
        g_quanta, _ = pages.unpack(found)
        np.testing.assert_allclose([q * found.g_unit for q in g_quanta], g.astype(np.float64), rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1])
def test_not_a_number_is_refused(bad, where):
    pair = [np.ones(4, np.float32), np.ones(4, np.float32)]
    pair[where][2] = bad
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        quantize(Context(), *pair)


def test_the_limits_between_the_forms(monkeypatch):
    """Nothing is as large as the largest everywhere, so stricter limits leave planes only."""
    g, h = pages.make_gradients(np.random.default_rng(2), 300, "packed")
    assert len(quantize(Context(), g, h).planes) == 1
    monkeypatch.setattr(quantize_module, "SMALL_RANGE_BITS", 0)
    monkeypatch.setattr(quantize_module, "FINE_BITS", 60)
    assert len(quantize(Context(), g, h).planes) == 2
