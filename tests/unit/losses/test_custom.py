"""Losses from a user's own formula."""

import math
import pickle

import numba
import numpy as np
import pytest

from arboost.losses import ScalarLoss
from arboost.losses.regression import SquaredError
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


def squared(margin, label):
    return margin - label, 1.0


def log_cosh(margin, label):
    t = math.tanh(margin - label)
    return t, 1.0 - t * t


def gradients(loss, margin, label, weight=None, ctx=None):
    g, h = np.empty((2, margin.shape[1], len(margin)), np.float32)
    loss.gradient(ctx or Context(), margin, label, weight, g, h)
    return g, h


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    margin = rng.normal(size=(50_000, 1)).astype(np.float32)
    label, weight = rng.uniform(0, 2, (2, 50_000)).astype(np.float32)
    return margin, label, weight


@pytest.mark.parametrize("function", [squared, numba.njit(squared)])
def test_it_equals_the_built_in_loss(function, data):
    np.testing.assert_allclose(
        gradients(ScalarLoss(function), *data), gradients(SquaredError(), *data), rtol=1e-6, atol=1e-7
    )


def test_it_is_compiled_into_the_loop_and_threaded(data):
    margin, label, weight = data
    loss = ScalarLoss(log_cosh, metric="mae")
    g, h = gradients(loss, margin, label, weight)
    t = np.tanh(margin[:, 0].astype(np.float64) - label)
    np.testing.assert_allclose(g[0], t * weight, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(h[0], (1 - t * t) * weight, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(gradients(loss, margin, label, weight, Context(n_threads=3)), [g, h])
    assert loss.default_metric == "mae"


def test_it_starts_and_saves_as_a_custom_objective_of_xgboost():
    loss = ScalarLoss(squared)
    np.testing.assert_array_equal(loss.base_score(Context(), np.ones(3, np.float32), None), [0.5])
    assert loss.config() == SquaredError().config()
    margin = np.ones((2, 1), np.float32)
    assert loss.transform(margin) is margin


def test_it_can_be_pickled():
    loss = pickle.loads(pickle.dumps(ScalarLoss(squared, "mae")))
    assert loss.function is squared
    assert loss.metric == "mae"


@pytest.mark.parametrize(
    "function",
    [
        lambda margin, label: margin - label,
        lambda margin: (margin, 1.0),
        lambda margin, label: (str(margin), 1.0),
        lambda margin, label: (undefined_name, 1.0),  # noqa: F821
        "not a function",
    ],
)
def test_a_function_that_cannot_be_compiled(function):
    with pytest.raises(XGBoostError, match=r"\(margin, label\)"):
        ScalarLoss(function)
