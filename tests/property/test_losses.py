"""What must hold of any smooth loss: g is its slope, h its curvature; and of its intercept and its leaves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.losses.classification import BinaryLogistic, BinaryLogitRaw, LogisticRegression, Softprob
from arboost.losses.counts import Gamma, Poisson, Tweedie
from arboost.losses.quantile import AbsoluteError, QuantileError
from arboost.losses.regression import PseudoHuberError, SquaredError, SquaredLogError
from arboost.runtime.context import Context

ONE = Context()
STEP = 1e-4


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# The loss of one row in float64, as its definition says.
SMOOTH = {
    SquaredError(): lambda m, y: (m - y) ** 2 / 2,
    SquaredLogError(): lambda m, y: (math.log1p(m) - math.log1p(y)) ** 2 / 2,
    PseudoHuberError(1.5): lambda m, y: 1.5**2 * (math.sqrt(1 + ((m - y) / 1.5) ** 2) - 1),
    LogisticRegression(): lambda m, y: softplus(m) - y * m,
    BinaryLogistic(): lambda m, y: softplus(m) - y * m,
    BinaryLogitRaw(): lambda m, y: softplus(m) - y * m,
    Poisson(0.0): lambda m, y: math.exp(m) - y * m,
    Gamma(): lambda m, y: m + y * math.exp(-m),
    Tweedie(1.25): lambda m, y: y * math.exp(-0.25 * m) / 0.25 + math.exp(0.75 * m) / 0.75,
}
each_smooth = pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.name)
margins = st.floats(0.125, 4, width=32)  # where every loss above is defined and its float32 terms are moderate
unit = st.floats(0.0625, 1, width=32)  # labels that every loss allows


def gradient_of(loss, margin, label, weight=None):
    margin = np.atleast_2d(np.asarray(margin, np.float32))
    g, h = np.empty((2, margin.shape[1], len(margin)), np.float32)
    loss.gradient(ONE, margin, np.atleast_1d(np.asarray(label, np.float32)), weight, g, h)
    return g, h


@each_smooth
@given(margin=margins, label=unit)
def test_g_is_the_slope_and_h_the_curvature(loss, margin, label):
    f = SMOOTH[loss]
    g, h = gradient_of(loss, margin, label)
    up, here, down = f(margin + STEP, label), f(margin, label), f(margin - STEP, label)
    # finite differences in float64: O(STEP**2) and rounding / STEP (/ STEP**2)
    assert g[0, 0] == pytest.approx((up - down) / (2 * STEP), rel=1e-4, abs=1e-5)
    floor = 1e-6 if loss.name == "reg:squaredlogerror" else 0.0
    assert h[0, 0] == pytest.approx(max((up - 2 * here + down) / STEP**2, floor), rel=1e-3, abs=1e-5)


@given(st.lists(st.floats(-4, 4, width=32), min_size=2, max_size=5), st.data())
def test_softmax_gradient_is_the_slope(margin, data):
    label = data.draw(st.integers(0, len(margin) - 1))

    def loss(m):
        return math.log(math.fsum(math.exp(x) for x in m)) - m[label]

    g, h = gradient_of(Softprob(len(margin)), margin, label)
    assert float(g.sum()) == pytest.approx(0.0, abs=1e-6)
    for k in range(len(margin)):
        up, down = ([m + s * STEP * (j == k) for j, m in enumerate(margin)] for s in (1, -1))
        slope = (loss(up) - loss(down)) / (2 * STEP)
        curvature = (loss(up) - 2 * loss(margin) + loss(down)) / STEP**2
        assert g[k, 0] == pytest.approx(slope, rel=1e-4, abs=1e-5)
        assert h[k, 0] == pytest.approx(2 * curvature, rel=1e-3, abs=1e-5)  # XGBoost doubles it


@each_smooth
@given(rows=st.lists(st.tuples(margins, unit, st.integers(1, 4)), min_size=1, max_size=10))
def test_weighted_is_repeated(loss, rows):
    margin, label, weight = (np.array(column, np.float32) for column in zip(*rows))
    counts = weight.astype(int)
    g, h = gradient_of(loss, margin[:, None], label, weight)
    repeated = gradient_of(loss, np.repeat(margin, counts)[:, None], np.repeat(label, counts))
    assert g.sum(dtype=np.float64) == pytest.approx(repeated[0].sum(dtype=np.float64), rel=1e-5, abs=1e-5)
    assert h.sum(dtype=np.float64) == pytest.approx(repeated[1].sum(dtype=np.float64), rel=1e-5, abs=1e-5)
    weighted_score = loss.base_score(ONE, label, weight)
    assert weighted_score == pytest.approx(loss.base_score(ONE, np.repeat(label, counts), None), rel=1e-6)


@each_smooth
@given(rows=st.lists(st.tuples(unit, st.floats(0.125, 4, width=32)), min_size=2, max_size=30), random=st.randoms())
def test_base_score_does_not_depend_on_the_order_of_rows(loss, rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    scores = [loss.base_score(ONE, *(np.array(c, np.float32) for c in zip(*order))) for order in (rows, shuffled)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("loss", [AbsoluteError(), QuantileError((0.25,)), QuantileError((0.875,))])
@given(labels=st.lists(st.integers(-50, 50), min_size=1, max_size=25), weighted=st.booleans())
def test_leaf_values_are_no_worse_than_any_label(loss, labels, weighted):
    """A weighted quantile minimises the pinball loss; the interpolated one is within one step of its minimum."""
    alpha = loss.leaf_alphas[0]
    label = np.array(labels, np.float32)
    weight = np.ones(len(label), np.float32) if weighted else None
    zero = np.zeros((len(label), 1), np.float32)
    value = loss.leaf_values(ONE, 0, np.empty(0, np.int32), np.array([0, len(label)]), label, zero, weight)[0]

    def pinball(at):
        d = label.astype(np.float64) - at
        return np.where(d >= 0, alpha * d, (alpha - 1) * d).sum()

    best = min(pinball(at) for at in label)
    if weighted:
        assert pinball(value) == pytest.approx(best)
    else:
        assert label.min() <= value <= label.max()
        assert pinball(value) <= best + np.ptp(label)
