"""Coordinate descent against loops over dense rows in plain Python."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import pages
from arboost.kernels.cpu.round import linear

STEP = np.array([0.5, 0.3, 0.2])


def make_case(seed=0, n_rows=57, n_features=5, n_targets=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0  # absent: adds nothing
    columns = scipy.sparse.csc_matrix(X)
    data = (columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data)
    g = rng.normal(size=(n_targets, n_rows)).astype(np.float32)
    h = rng.uniform(0.1, 1, (n_targets, n_rows)).astype(np.float32)
    h[:, ::7] = -1  # left out
    weight = rng.normal(size=(n_features + 1, n_targets)).astype(np.float32)
    return X, data, g, h, weight


def naive_change(sum_g, sum_h, w, penalty, alpha):
    """The minimiser of sum_g d + sum_h d^2 / 2 + penalty (w + d)^2 / 2 + alpha |w + d|, found among its candidates."""
    if sum_h < 1e-5:
        return 0.0

    def objective(d):
        return sum_g * d + sum_h * d * d / 2 + penalty * (w + d) ** 2 / 2 + alpha * abs(w + d)

    candidates = [-w]
    for side in (1, -1):
        d = -(sum_g + penalty * w + side * alpha) / (sum_h + penalty)
        if (w + d) * side >= 0:
            candidates.append(d)
    return min(candidates, key=objective)


def naive_pass(X, g, h, weight, order):
    """One sweep over the features in the order of each target, in float64."""
    X, g, h, weight = (a.astype(np.float64) for a in (X, g, h, weight))
    for k, features in enumerate(order):
        used = h[k] >= 0
        for f in features:
            x = X[:, f]
            sums = (g[k] * x)[used].sum(), (h[k] * x * x)[used].sum()
            change = STEP[0] * naive_change(*sums, weight[f, k], STEP[1], STEP[2])
            weight[f, k] += change
            g[k] += np.where(used, h[k] * x * change, 0)
    return g, weight


finite = st.floats(-1e3, 1e3)


@given(finite, st.floats(0, 1e3), finite, st.floats(0, 10), st.floats(0, 10))
def test_weight_change_minimises_its_coordinate(sum_g, sum_h, w, penalty, alpha):
    found = pages.compiled(linear.weight_change)(sum_g, sum_h, w, penalty, alpha)
    assert found == pytest.approx(naive_change(sum_g, sum_h, w, penalty, alpha), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_update_weights(seed):
    X, data, g, h, weight = make_case(seed)
    order = np.array([[0, 1, 2, 3, 4], [4, 2, 2, 0, 1]])
    wanted_g, wanted = naive_pass(X, g, h, weight, order)
    for cuts in ([0, 2], [0, 1, 2]):
        own_g, own = g.copy(), weight.copy()
        for start, stop in itertools.pairwise(cuts):
            linear.update_weights(*data, order, STEP, own_g, h, own, start, stop)
        np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(own_g, wanted_g, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(own[-1], weight[-1])


def test_update_bias():
    _, _, g, h, weight = make_case()
    used = h >= 0
    change = -0.5 * np.array([g[k][used[k]].sum() / h[k][used[k]].sum() for k in range(2)])
    own_g, own = g.copy(), weight.copy()
    linear.update_bias(STEP, own_g, h, own, 0, 2)
    np.testing.assert_allclose(own[-1], weight[-1] + change, rtol=1e-5)
    np.testing.assert_array_equal(own[:-1], weight[:-1])
    np.testing.assert_allclose(own_g, np.where(used, g + h * change[:, None], g), rtol=1e-4, atol=1e-5)


def test_a_bias_without_hessians_stays():
    _, _, g, h, weight = make_case()
    own = weight.copy()
    linear.update_bias(STEP, g, np.zeros_like(h), own, 0, 2)
    np.testing.assert_array_equal(own, weight)


def test_find_changes_is_what_an_update_would_do():
    X, data, g, h, weight = make_case()
    changes = np.full(5, np.nan)
    linear.find_changes(*data, 1, STEP, g, h, weight, changes, 0, 2)
    linear.find_changes(*data, 1, STEP, g, h, weight, changes, 2, 5)
    for f in range(5):
        _, after = naive_pass(X, g, h, weight, [[], [f]])
        assert STEP[0] * changes[f] == pytest.approx(after[f, 1] - weight[f, 1], rel=1e-5, abs=1e-6)


def test_add_products():
    X, _, _, _, weight = make_case()
    margin = np.random.default_rng(3).normal(size=(len(X), 2)).astype(np.float32)
    wanted = margin + X.astype(np.float64) @ weight[:-1] + weight[-1]
    X[X == 0] = np.nan
    own = margin.copy()
    linear.add_products(X, weight, own, 0, 20)
    linear.add_products(X, weight, own, 20, len(X))
    np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-6)
