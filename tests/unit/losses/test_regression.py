"""Labels and parameters that regression losses refuse, and what they cost."""

import numpy as np
import pytest

from arboost.losses.regression import PseudoHuberError, SquaredError, SquaredLogError
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


def test_log_of_labels_must_exist():
    SquaredLogError().check_label(np.array([-0.99, 5], np.float32))
    with pytest.raises(XGBoostError, match="label must be greater than -1"):
        SquaredLogError().check_label(np.array([-1.0, 5], np.float32))


def test_slope_must_not_be_zero():
    with pytest.raises(XGBoostError, match="slope for pseudo huber cannot be 0"):
        PseudoHuberError(0.0)


def test_only_labels_of_exactly_one_are_positives():
    loss = SquaredError(scale_pos_weight=4.0)
    label = np.array([1, 0.999, 2, 1], np.float32)
    np.testing.assert_array_equal(loss.row_weight(label, None), [4, 1, 1, 4])
    np.testing.assert_array_equal(loss.row_weight(label, np.full(4, 0.5, np.float32)), [2, 0.5, 0.5, 2])


def test_outliers_keep_their_gradient():
    label = np.array([1e30, -1e30, 1e-30], np.float32)
    g, h = np.empty((2, 1, 3), np.float32)
    SquaredError().gradient(Context(), np.zeros((3, 1), np.float32), label, None, g, h)
    np.testing.assert_array_equal(g[0], -label)


def test_mean_of_huge_labels_does_not_overflow():
    label = np.full(1000, 3e38, np.float32)
    assert SquaredError().base_score(Context(), label, None)[0] == np.float32(3e38)
