"""Losses with a log link: labels, base scores, and means of zero."""

import numpy as np
import pytest

from arboost.losses.counts import Gamma, Poisson, Tweedie
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context()


@pytest.mark.parametrize("loss", [Poisson(), Tweedie()])
def test_counts_are_not_negative(loss):
    loss.check_label(np.array([0, 3], np.float32))
    with pytest.raises(XGBoostError, match="label must be non-negative"):
        loss.check_label(np.array([0, -0.1], np.float32))


def test_gamma_labels_are_positive():
    with pytest.raises(XGBoostError, match="label must be positive for gamma regression"):
        Gamma().check_label(np.array([0, 3], np.float32))


@pytest.mark.parametrize("loss", [Poisson(), Tweedie(), Gamma()])
def test_negative_base_score(loss):
    with pytest.raises(XGBoostError, match="base_score"):
        loss.to_margin(np.array([-1.0]))


def test_gamma_has_no_mean_of_zero():
    with pytest.raises(XGBoostError, match="must be greater than 0 for gamma regression"):
        Gamma().to_margin(np.array([0.0]))


@pytest.mark.parametrize("loss", [Poisson(), Tweedie()])
def test_all_labels_zero(loss):
    """The mean is 0, its margin -inf: there the gradient is 0 and the prediction stays 0."""
    label = np.zeros(5, np.float32)
    margin = loss.to_margin(loss.base_score(ONE, label, None))
    assert margin[0] == -np.inf
    margin = np.full((5, 1), margin[0], np.float32)
    g, h = np.full((2, 1, 5), np.nan, np.float32)
    loss.gradient(ONE, margin, label, None, g, h)
    assert (g == 0).all()
    assert (h == 0).all()
    assert (loss.transform(margin) == 0).all()


@pytest.mark.parametrize("power", [0.9, 2.0, float("nan")])
def test_variance_power(power):
    with pytest.raises(XGBoostError, match=r"tweedie variance power must be in interval \[1, 2\)"):
        Tweedie(power)


def test_metric_of_tweedie_has_its_power():
    assert Tweedie(1.0).default_metric == "tweedie-nloglik@1"
    assert Tweedie(float(np.float32(1.2))).default_metric == "tweedie-nloglik@1.2"


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie()])
def test_wide_range_of_gradients_is_accurate(loss):
    """Gradients over thirty orders of magnitude keep float32 accuracy, as a float64 reference shows."""
    rng = np.random.default_rng(0)
    margin = rng.uniform(-30, 30, (5000, 1)).astype(np.float32)
    label = np.exp(rng.uniform(-20, 20, 5000)).astype(np.float32)
    g, h = np.empty((2, 1, 5000), np.float32)
    loss.gradient(ONE, margin, label, None, g, h)
    m, y = margin[:, 0].astype(np.float64), label.astype(np.float64)
    terms = {
        "count:poisson": (np.exp(m), y),
        "reg:gamma": (np.ones(5000), y / np.exp(m)),
        "reg:tweedie": (np.exp(0.5 * m), y * np.exp(-0.5 * m)),
    }
    first, second = terms[loss.name]
    scale = first + second
    np.testing.assert_array_less(np.abs(g[0] - (first - second)) / scale, 1e-6)
