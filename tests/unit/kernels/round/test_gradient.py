"""Gradient loops against float64 formulas written out, on any split of the rows."""

import numpy as np
import pytest

from arboost.kernels.cpu.round import gradient

RNG = np.random.default_rng(0)
N = 3001
MARGIN = (RNG.normal(size=N) * 3).astype(np.float32)
REAL = (RNG.normal(size=N) * 3).astype(np.float32)
POSITIVE = RNG.gamma(2.0, 2.0, N).astype(np.float32) + np.float32(0.01)
BINARY = RNG.integers(0, 2, N).astype(np.float32)
M, REAL64, POS64, BIN64 = (x.astype(np.float64) for x in (MARGIN, REAL, POSITIVE, BINARY))
P = 1.0 / (1.0 + np.exp(-M))
ABOVE = np.maximum(M, float(np.float32(-1 + 1e-6))) + 1.0
LOGS = np.log(ABOVE) - np.log1p(POS64)
ROOT = np.sqrt(1.0 + ((M - REAL64) / 1.7) ** 2)
SIGN = 2.0 * BIN64 - 1.0

CASES = {
    "squared_error": (REAL, (), M - REAL64, np.ones(N)),
    "squared_log_error": (POSITIVE, (), LOGS / ABOVE, np.maximum((1.0 - LOGS) / ABOVE**2, 1e-6)),
    "logistic": (BINARY, (), P - BIN64, P * (1.0 - P)),
    "hinge": (BINARY, (), np.where(M * SIGN < 1, -SIGN, 0.0), np.where(M * SIGN < 1, 1.0, 2.0**-126)),
    "pseudo_huber": (REAL, (1.7,), (M - REAL64) / ROOT, 1.0 / ROOT**3),
    "absolute_error": (REAL, (), np.sign(M - REAL64), np.ones(N)),
    "quantile_error": (REAL, (0.3,), np.where(M >= REAL64, 0.7, -0.3), np.ones(N)),
    "poisson": (POSITIVE, (0.7,), np.exp(M) - POS64, np.exp(M + 0.7)),
    "gamma": (POSITIVE, (), 1.0 - POS64 / np.exp(M), POS64 / np.exp(M)),
    "tweedie": (
        POSITIVE,
        (1.3,),
        np.exp(0.7 * M) - POS64 * np.exp(-0.3 * M),
        0.7 * np.exp(0.7 * M) + 0.3 * POS64 * np.exp(-0.3 * M),
    ),
}


def run(name, label, args, spans):
    g, h = np.full((2, N), np.nan, np.float32)
    for start, stop in spans:
        getattr(gradient, name)(MARGIN, label, *(np.float32(a) for a in args), g, h, start, stop)
    return g, h


@pytest.mark.parametrize("name", CASES)
def test_formula(name):
    label, args, want_g, want_h = CASES[name]
    g, h = run(name, label, args, [(0, N)])
    # float32 steps: a few ulps of the largest term of the difference
    np.testing.assert_allclose(g, want_g, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h, want_h, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_spans_give_the_same_bits(name):
    label, args, *_ = CASES[name]
    whole = run(name, label, args, [(0, N)])
    parts = run(name, label, args, [(0, 1), (1, 8), (8, 8), (8, 1000), (1000, N)])
    np.testing.assert_array_equal(whole, parts)


def test_extreme_margins_stay_finite():
    margin = np.array([-1e30, -100, -88.7, 88.7, 100, 1e30], np.float32)
    label = np.array([1, 1, 0, 0, 0, 1], np.float32)
    g, h = np.empty((2, 6), np.float32)
    gradient.logistic(margin, label, g, h, 0, 6)
    np.testing.assert_allclose(g, [-1, -1, 0, 1, 1, 0], atol=1e-30)
    assert (h == np.float32(1e-16)).all()


def test_tweedie_at_a_mean_of_zero():
    margin, label = np.full((2, 2), -np.inf, np.float32)
    label[:] = 0
    g, h = np.empty((2, 2), np.float32)
    gradient.tweedie(margin, label, np.float32(1.5), g, h, 0, 2)
    assert (g == 0).all()
    assert (h == 0).all()


@pytest.mark.parametrize("n_classes", [1, 2, 5, 130])
def test_softmax(n_classes):
    rng = np.random.default_rng(n_classes)
    n = 201
    margin = (rng.normal(size=(n, n_classes)) * 4).astype(np.float32)
    label = rng.integers(0, n_classes, n).astype(np.float32)
    margin[:3] -= 300  # far below where e**margin is a float32
    p = np.exp(margin.astype(np.float64) - margin.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    hot = np.arange(n_classes) == label[:, None]
    g, h = np.full((2, n_classes, n), np.nan, np.float32)
    gradient.softmax(margin, label, g, h, 0, n)
    np.testing.assert_allclose(g, (p - hot).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h, np.maximum(2 * p * (1 - p), 1e-16).T, rtol=1e-5, atol=2e-7)
    parts = np.full((2, n_classes, n), np.nan, np.float32)
    out = np.empty_like(margin)
    for start, stop in [(0, 5), (5, 70), (70, n)]:
        gradient.softmax(margin, label, *parts, start, stop)
        gradient.transform_softmax(margin, out, start, stop)
    np.testing.assert_array_equal(parts, [g, h])
    np.testing.assert_allclose(out, p, rtol=1e-5, atol=1e-30)


def test_transforms():
    out = np.empty_like(MARGIN)
    gradient.transform_sigmoid(MARGIN, out, 0, N)
    np.testing.assert_allclose(out, P, rtol=3e-7)
    gradient.transform_exp(MARGIN, out, 0, N)
    np.testing.assert_allclose(out, np.exp(M), rtol=3e-7)


def test_user_formula_is_compiled_in():
    loop = gradient.compile_gradient(lambda margin, label: (2.0 * (margin - label), 2.0))
    g, h = np.empty((2, N), np.float32)
    loop(MARGIN, REAL, g, h, 0, N)
    np.testing.assert_allclose(g, 2 * (M - REAL64), rtol=1e-6)
    assert (h == 2).all()
