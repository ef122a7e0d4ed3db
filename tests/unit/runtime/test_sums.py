"""Exact sums: math.fsum is the referee."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.runtime import sums
from arboost.runtime.context import Context

ONE = Context(n_threads=1)


def add(values):
    return sums.exact_sum(ONE, np.array(values, np.float64))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=50))
def test_sum_is_correctly_rounded(values):
    try:
        want = math.fsum(values)
    except OverflowError:  # fsum gives up on intermediate overflow, an exact sum need not
        return
    assert add(values) == want


@given(st.lists(st.floats(width=64), max_size=20))
def test_any_floats_in_any_order(values):
    total = add(values)
    assert total == add(values[::-1]) or (math.isnan(total) and math.isnan(add(values[::-1])))


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([], 0.0),
        ([0.0, -0.0], 0.0),
        ([5e-324] * 3, 1.5e-323),
        ([1e308] * 3, math.inf),
        ([-1e308] * 3, -math.inf),
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1.0, -1e308], 1.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0, 1e308], -math.inf),
        ([1.0, 2.0**-53, 2.0**-53], 1.0 + 2.0**-52),
    ],
)
def test_edges(values, want):
    assert add(values) == want


@pytest.mark.parametrize("values", [[math.nan, 1.0], [math.inf, -math.inf], [math.inf, math.nan]])
def test_no_sum(values):
    assert math.isnan(add(values))


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_threads_and_order_do_not_matter(n_threads):
    rng = np.random.default_rng(n_threads)
    values = rng.normal(size=100_000) * np.exp(rng.normal(0, 20, 100_000))
    weight = rng.uniform(0, 3, 100_000).astype(np.float32)
    ctx = Context(n_threads=n_threads)
    shuffled = rng.permutation(len(values))
    assert sums.exact_sum(ctx, values) == math.fsum(values) == sums.exact_sum(ONE, values[shuffled])
    want = math.fsum(values * weight)
    assert sums.exact_sum(ctx, values, weight) == want == sums.exact_sum(ONE, values[shuffled], weight[shuffled])


def test_float32_values_are_summed_as_they_are():
    values = np.random.default_rng(0).normal(size=10_001).astype(np.float32)
    assert sums.exact_sum(ONE, values) == math.fsum(values.tolist())


class TwoWorkers:
    """A communicator whose other worker holds the same data."""

    rank, world_size = 0, 2

    def allreduce_sum(self, values):
        values *= 2
        return values

    def allreduce_max(self, values):
        return values


def test_accumulators_merge_over_workers():
    values = np.random.default_rng(0).normal(size=1000)
    ctx = Context(comm=TwoWorkers())
    assert sums.exact_sum(ctx, values) == math.fsum([*values, *values])
    assert sums.count_rows(ctx, 1000) == 2000
    assert sums.sum_weights(ctx, 1000, None) == 2000.0


def test_sum_of_a_row_function():
    def squares(source, values, start, stop):
        values[: stop - start] = source[start:stop] ** 2

    source = np.random.default_rng(0).normal(size=50_000)
    assert sums.sum_rows(Context(n_threads=3), len(source), None, squares, source) == math.fsum(source**2)


@given(st.lists(st.floats(0, 2.0**127, width=32), min_size=1, max_size=20))
def test_fixed_point_weights(weights):
    weight = np.array(weights, np.float32)
    fixed, unit = sums.fixed_point_weights(ONE, len(weight), weight)
    assert fixed.dtype == np.int64
    assert 0 <= sum(fixed.tolist()) < 2**63
    np.testing.assert_allclose(fixed * unit, weight, rtol=0, atol=float(weight.max()) * 2.0**-40)


def test_whole_weights_are_exact():
    weight = np.arange(1000, dtype=np.float32)
    fixed, unit = sums.fixed_point_weights(ONE, len(weight), weight)
    np.testing.assert_array_equal(fixed * unit, weight)
