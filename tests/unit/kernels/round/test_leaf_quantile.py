"""Quantiles by radix selection against sorting."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.kernels.cpu.round import leaf_quantile
from arboost.runtime import sums
from arboost.runtime.context import Context

ALL_ROWS = np.empty(0, np.int32)


def naive_quantile(residuals, alpha):
    """Interpolated at position alpha (n + 1) of the sorted residuals, counted from 1."""
    ordered = sorted(residuals)
    n = len(ordered)
    if alpha <= 1 / (n + 1):
        return ordered[0]
    if alpha >= n / (n + 1):
        return ordered[-1]
    position = alpha * (n + 1)
    k = math.floor(position) - 1
    step = np.float32(ordered[k + 1]) - np.float32(ordered[k])
    return np.float32(float(ordered[k]) + (position - 1 - k) * float(step))


def naive_weighted_quantile(residuals, weight, alpha):
    """The first sorted residual whose cumulated weight reaches alpha of the total."""
    order = np.argsort(residuals, kind="stable")
    reached = np.cumsum(weight[order].astype(np.float64)).astype(np.float32)
    goal = np.float32(float(reached[-1]) * alpha)
    return residuals[order][min(np.searchsorted(reached, goal), len(order) - 1)]


def quantiles(rows, leaf_ptr, label, margin, alpha, weight=None):
    leaf_ptr = np.array(leaf_ptr, np.int64)
    keys = np.empty(leaf_ptr[-1], np.uint32)
    values = np.empty(len(leaf_ptr) - 1, np.float32)
    common = (np.array(rows, np.int32), leaf_ptr, label, margin)
    if weight is None:
        leaf_quantile.leaf_quantiles(*common, alpha, keys, values, 0, len(values))
    else:
        fixed, unit = sums.fixed_point_weights(Context(), len(label), weight)
        leaf_quantile.weighted_leaf_quantiles(*common, fixed, unit, alpha, keys, values, 0, len(values))
    return values


finite = st.floats(-1e6, 1e6, width=32)


@given(st.lists(finite | st.sampled_from([0.0, -0.0, 1.0, -1.0]), min_size=1, max_size=30), st.floats(0, 1, width=32))
def test_quantile_of_one_leaf(labels, alpha):
    label = np.array(labels, np.float32)
    got = quantiles(ALL_ROWS, [0, len(label)], label, np.zeros_like(label), alpha)
    assert got[0] == naive_quantile(label.tolist(), alpha)


@given(
    st.lists(st.tuples(finite, st.integers(0, 20)), min_size=1, max_size=30).filter(
        lambda rows: any(w for _, w in rows)
    ),
    st.floats(0, 1, width=32),
)
def test_weighted_quantile_of_one_leaf(pairs, alpha):
    label, weight = np.array(pairs, np.float32).T.copy()
    got = quantiles(ALL_ROWS, [0, len(label)], label, np.zeros_like(label), alpha, weight)
    assert got[0] == naive_weighted_quantile(label, weight, alpha)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_leaves_in_any_row_order(weighted):
    rng = np.random.default_rng(0)
    n = 5000
    label, margin = rng.normal(size=(2, n)).astype(np.float32)
    label = np.round(label, 1)
    weight = rng.uniform(0.1, 2, n).astype(np.float32) if weighted else None
    leaf_ptr = [0, 1, 3, 3, 1000, 4000, n]
    rows = rng.permutation(n)
    got = quantiles(rows, leaf_ptr, label, margin, 0.25, weight)
    assert np.isnan(got[2])
    residuals = label - margin
    for leaf in (0, 1, 3, 4, 5):
        mine = rows[leaf_ptr[leaf] : leaf_ptr[leaf + 1]]
        if weighted:
            want = naive_weighted_quantile(residuals[mine], weight[mine], 0.25)
        else:
            want = naive_quantile(residuals[mine].tolist(), 0.25)
        assert got[leaf] == want
        rows[leaf_ptr[leaf] : leaf_ptr[leaf + 1]] = rng.permutation(mine)
    np.testing.assert_array_equal(got, quantiles(rows, leaf_ptr, label, margin, 0.25, weight))


def test_rows_without_weight_do_not_count():
    label = np.array([1, 2, 3, 4, 5], np.float32)
    weight = np.array([0, 0, 1, 0, 1], np.float32)
    assert quantiles(ALL_ROWS, [0, 5], label, np.zeros_like(label), 0.5, weight)[0] == 3
    assert quantiles(ALL_ROWS, [0, 5], label, np.zeros_like(label), 1.0, weight)[0] == 5
