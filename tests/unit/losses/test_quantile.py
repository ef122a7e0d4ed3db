"""Leaf values from residuals, against the installed XGBoost to the bit."""

from itertools import pairwise

import numpy as np
import pytest

import peer_losses as peer
from arboost.losses.quantile import AbsoluteError, QuantileError
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context()
ALL_ROWS = np.empty(0, np.int32)
LOSSES = [({"objective": "reg:absoluteerror"}, AbsoluteError())] + [
    ({"objective": "reg:quantileerror", "quantile_alpha": alpha}, QuantileError((alpha,)))
    for alpha in (0.0, 0.05, 0.3, 0.9, 1.0)
]


@pytest.mark.parametrize(("params", "loss"), LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_leaf_value_is_xgboosts(params, loss, weighted):
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 7, 10, 31):
        label, margin = rng.normal(size=(2, n)).astype(np.float32)
        weight = rng.integers(1, 4, n).astype(np.float32) if weighted else None
        got = loss.leaf_values(ONE, 0, ALL_ROWS, np.array([0, n]), label, margin.reshape(-1, 1), weight)
        assert got[0] == peer.leaf_value(params, label, margin, weight)


def test_each_target_has_its_own_column_and_quantile():
    rng = np.random.default_rng(0)
    label = rng.normal(size=500).astype(np.float32)
    margin = rng.normal(size=(500, 2)).astype(np.float32)
    rows = rng.permutation(500).astype(np.int32)
    loss = QuantileError((0.1, 0.8))
    leaf_ptr = np.array([0, 200, 200, 500])
    for target, alpha in enumerate(loss.leaf_alphas):
        got = loss.leaf_values(ONE, target, rows, leaf_ptr, label, margin, None)
        alone = QuantileError((alpha,)).leaf_values(ONE, 0, rows, leaf_ptr, label, margin[:, [target]].copy(), None)
        np.testing.assert_array_equal(got, alone)
        assert np.isnan(got[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_and_order_give_the_same_bits(weighted):
    rng = np.random.default_rng(1)
    n = 40_000
    label = rng.normal(size=n).astype(np.float32)
    margin = np.zeros((n, 1), np.float32)
    weight = np.exp(rng.normal(0, 5, n)).astype(np.float32) if weighted else None
    rows = rng.permutation(n).astype(np.int32)
    leaf_ptr = np.concatenate([[0], np.sort(rng.integers(0, n, 20)), [n]])
    loss = AbsoluteError()
    want = loss.leaf_values(ONE, 0, rows, leaf_ptr, label, margin, weight)
    for a, b in pairwise(leaf_ptr):
        rows[a:b] = rng.permutation(rows[a:b])
    for n_threads in (1, 2, 3, 8):
        got = loss.leaf_values(Context(n_threads=n_threads), 0, rows, leaf_ptr, label, margin, weight)
        np.testing.assert_array_equal(got, want)


def test_quantiles_are_checked():
    with pytest.raises(XGBoostError, match="quantile_alpha is needed"):
        QuantileError(())
    with pytest.raises(XGBoostError, match=r"quantile alpha must be in the range \[0.0, 1.0\]"):
        QuantileError((0.5, 1.5))
    with pytest.raises(XGBoostError, match="Multi-target is not yet supported by the quantile loss"):
        QuantileError((0.5,)).check_label(np.zeros((3, 2), np.float32))
