"""Survival formulas against SciPy, finite differences and counting by hand."""

import numpy as np
import pytest
from scipy import special, stats

from arboost.kernels import survival_formulas as formulas
from arboost.kernels.cpu.round import survival
from pages import compiled

DISTRIBUTIONS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}
Z = np.concatenate([np.linspace(-38, 38, 381), [-1e-9, 0.0, 1e-9]])
derivatives = compiled(formulas.aft_derivatives)
mass = compiled(formulas.aft_mass)
density = compiled(formulas.aft_density)
each_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def test_mills_ratio_keeps_its_digits():
    mills = compiled(formulas.mills)
    z = np.concatenate([np.linspace(0, 60, 6001), 10.0 ** np.arange(2, 300, 7)])
    want = np.sqrt(np.pi / 2) * special.erfcx(z / np.sqrt(2))
    np.testing.assert_allclose([mills(x) for x in z], want, rtol=2e-15)


def test_expm1_keeps_its_digits():
    expm1 = compiled(formulas.expm1)
    x = np.concatenate([-(10.0 ** np.linspace(-300, 3, 400)), [0.0], 10.0 ** np.linspace(-300, 2.8, 400)])
    np.testing.assert_allclose([expm1(v) for v in x], np.expm1(x), rtol=1e-15)
    assert expm1(-np.inf) == -1.0
    assert expm1(np.inf) == np.inf


def log_mass(distribution, a, b):
    """ln P(a < z < b) from the tail in which it is accurate."""
    low, high = (
        (distribution.logsf(b), distribution.logsf(a)) if a > 0 else (distribution.logcdf(a), distribution.logcdf(b))
    )
    return high + np.log1p(-np.exp(low - high))


def log_likelihood(distribution, a, b):
    return distribution.logpdf(a) if a == b else log_mass(distribution, a, b)


@each_distribution
@pytest.mark.parametrize("width", [0.0, 1e-3, 0.7, 5.0, "right", "left"])
def test_derivatives_are_those_of_the_likelihood(name, width):
    distribution, kind = DISTRIBUTIONS[name], survival.DISTRIBUTIONS[name]
    for z in np.linspace(-12, 5.5, 36):
        a = -np.inf if width == "left" else z
        b = np.inf if width == "right" else z + (width if isinstance(width, float) else 0.0)
        g, h = derivatives(kind, a, b)
        step = 1e-3

        def loss(m, a=a, b=b):
            return -log_likelihood(distribution, a - m, b - m)

        want_g = (8 * (loss(step) - loss(-step)) - (loss(2 * step) - loss(-2 * step))) / (12 * step)
        want_h = (loss(step) - 2 * loss(0.0) + loss(-step)) / step**2
        scale = max(1.0, abs(want_g))
        assert g == pytest.approx(want_g, abs=2e-7 * scale)
        assert h == pytest.approx(want_h, abs=2e-3 * scale if width == 1e-3 else 2e-5 * scale)


@each_distribution
def test_derivatives_are_finite_and_convex_far_out(name):
    kind = survival.DISTRIBUTIONS[name]
    for z in (-1e9, -1e4, -800.0, -40.0, 40.0, 600.0):
        for a, b in ((z, z), (z, np.inf), (-np.inf, z), (z, z + 1e-7), (z, z + 2.0), (-np.inf, np.inf)):
            g, h = derivatives(kind, a, b)
            assert np.isfinite(g)
            assert h >= 0


def test_normal_tails_follow_the_hazard():
    """The gradient of a censored row goes to -z, not to a limit: XGBoost's mass is 0 from z = 8.3 on."""
    for z in (5.0, 9.0, 20.0, 200.0):
        hazard = np.exp(stats.norm.logpdf(z) - stats.norm.logsf(z))
        g, h = derivatives(survival.NORMAL, z, np.inf)
        assert g == pytest.approx(-hazard, rel=1e-12)
        assert h == pytest.approx(hazard * (hazard - z), rel=1e-9)
        assert derivatives(survival.NORMAL, -np.inf, -z) == (-g, h)


@each_distribution
def test_mass_and_density(name):
    distribution, kind = DISTRIBUTIONS[name], survival.DISTRIBUTIONS[name]
    for z in Z[np.abs(Z) < 30]:
        assert density(kind, z) == pytest.approx(distribution.pdf(z), rel=1e-12, abs=1e-300)
        for a, b in ((z, z + 0.5), (z, np.inf), (-np.inf, z)):
            assert mass(kind, a, b) == pytest.approx(np.exp(log_mass(distribution, a, b)), rel=1e-9, abs=1e-290)


@each_distribution
def test_survival_curve(name):
    margin = np.array([-1.0, 0.0, 2.5], np.float32)
    log_time = np.concatenate([[-np.inf], np.linspace(-8, 8, 50), [np.inf]])
    out = np.empty((3, 52), np.float32)
    survival.aft_survival(margin, log_time, survival.DISTRIBUTIONS[name], 0.7, out, 0, 3)
    want = DISTRIBUTIONS[name].sf((log_time - margin[:, None]) / 0.7)
    np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-30)


def random_labels(rng, n):
    time = rng.integers(1, max(2, n // 2), n)
    return np.where(rng.random(n) < 0.4, -time, time).astype(np.float32)


def test_order_of_times():
    label = np.array([3, -1, 2, -3, 1, 3], np.float32)
    order = survival.time_order(label)
    assert order.rows.tolist() == [1, 4, 2, 0, 3, 5]
    assert order.label.tolist() == [-1, 1, 2, 3, -3, 3]
    assert order.first.tolist() == [0, 0, 2, 3, 3, 3]
    assert survival.time_order(label) is order
    del label, order


def test_orders_live_as_long_as_their_labels():
    known = len(survival._ORDERS)
    label = np.ones(3, np.float32)
    survival.time_order(label)
    assert len(survival._ORDERS) == known + 1
    del label
    assert len(survival._ORDERS) == known


def test_sums_at_risk_and_rates():
    rng = np.random.default_rng(0)
    label = random_labels(rng, 60)
    _, by_time, first = survival.time_order(label)
    hazard = np.exp(rng.normal(size=60))
    at_risk = survival.sums_at_risk(first, hazard)
    time = np.abs(by_time)
    np.testing.assert_allclose(at_risk, [hazard[time >= t].sum() for t in time], rtol=1e-13)
    rate, squares = survival.cumulative_rates(by_time, at_risk)
    events = [(by_time[: k + 1] > 0) / at_risk[: k + 1] for k in range(60)]
    np.testing.assert_allclose(rate, [e.sum() for e in events], rtol=1e-13)
    np.testing.assert_allclose(squares, [(e**2).sum() for e in events], rtol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_counted_as_by_hand(seed):
    rng = np.random.default_rng(seed)
    label = random_labels(rng, 50)
    risk = rng.integers(1, 12, 50)
    rows, by_time, first = survival.time_order(label)
    counts = np.zeros(3, np.int64)
    survival.count_pairs(by_time, first, risk[rows].astype(np.int64), np.zeros(13, np.int64), counts, 0, 50)
    want = np.zeros(3, np.int64)
    for i in range(50):
        for j in range(50):
            outlives = abs(label[j]) > label[i] or (abs(label[j]) == label[i] and label[j] < 0)
            if label[i] > 0 and outlives:
                want += [risk[i] > risk[j], risk[i] == risk[j], 1]
    assert counts.tolist() == want.tolist()
