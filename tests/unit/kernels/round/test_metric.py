"""Row functions and curves against formulas written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.kernels.cpu.round import metric
from arboost.runtime.sums import sum_of

RNG = np.random.default_rng(0)
N = 1001
PRED = RNG.uniform(0.01, 0.99, N).astype(np.float32)
LABEL = RNG.uniform(0.01, 2, N).astype(np.float32)
BINARY = RNG.integers(0, 2, N).astype(np.float32)
P, Y, B = (x.astype(np.float64) for x in (PRED, LABEL, BINARY))
COUNT = RNG.poisson(3, N).astype(np.float32)

CASES = {
    "squared_error": (LABEL, (), (P - Y) ** 2),
    "absolute_error": (LABEL, (), np.abs(P - Y)),
    "relative_error": (LABEL, (), np.abs(P - Y) / Y),
    "pseudo_huber": (LABEL, (0.5,), 0.25 * (np.sqrt(1 + ((P - Y) / 0.5) ** 2) - 1)),
    "pinball": (LABEL, (np.full(N, 0.3),), np.where(Y >= P, 0.3 * (Y - P), 0.7 * (P - Y))),
    "wrong_side": (BINARY, (np.float32(0.6),), np.where(np.float32(0.6) < PRED, 1 - B, B)),
    "squared_log_error": (LABEL, (), (np.log1p(P) - np.log1p(Y)) ** 2),
    "log_loss": (BINARY, (), -np.log(np.where(B == 1, P, 1 - P))),
    "poisson_log_loss": (
        COUNT,
        (),
        [math.lgamma(c + 1) + p - c * math.log(p) for c, p in zip(COUNT.tolist(), P.tolist())],
    ),
    "gamma_log_loss": (LABEL, (), Y / P + np.log(P)),
    "gamma_deviance": (LABEL, (), np.log((P + 1e-6) / (Y + 1e-6)) + (Y + 1e-6) / (P + 1e-6) - 1),
    "tweedie_log_loss": (LABEL, (1.3,), Y * P**-0.3 / 0.3 + P**0.7 / 0.7),
}


@pytest.mark.parametrize("name", CASES)
def test_row_values(name):
    label, args, want = CASES[name]
    values = np.empty(600)
    getattr(metric, name)(PRED, label, *args, values, 400, 1000)
    np.testing.assert_allclose(values, np.asarray(want)[400:1000], rtol=1e-12, atol=1e-14)


def test_classes():
    pred = RNG.dirichlet(np.ones(4), N).astype(np.float32)
    label = RNG.integers(0, 4, N).astype(np.float32)
    values = np.empty(500)
    metric.class_log_loss(pred, label, values, 500, 1000)
    np.testing.assert_allclose(values, -np.log(pred[np.arange(N), label.astype(int)].astype(np.float64))[500:1000])
    metric.wrong_class(pred, label, values, 500, 1000)
    np.testing.assert_array_equal(values, (pred.argmax(1) != label)[500:1000])


def test_impossible_probabilities_have_a_floor():
    values = np.empty(4)
    pred = np.array([0, 1, 0, 1], np.float32)
    metric.log_loss(pred, np.array([1, 0, 0, 1], np.float32), values, 0, 4)
    np.testing.assert_allclose(values, [-math.log(1e-16)] * 2 + [0, 0])


def pairs_won(pred, positive, negative):
    """Probability that a positive row is ranked above a negative one, ties counting half."""
    diff = pred[:, None] - pred[None, :]
    wins = (diff > 0) + 0.5 * (diff == 0)
    return (positive[:, None] * negative[None, :] * wins).sum()


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25))
def test_roc_area_counts_pairs(rows):
    pred, positive, negative = (np.array(column, np.int64) for column in zip(*rows))
    ranked = metric.rank_rows(pred.astype(np.float32))
    area = sum_of(metric.roc_area, ranked, positive, negative, 1.0)
    assert area == pairs_won(pred, positive, negative)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9])
def test_steps_are_summed_exactly(size):
    """Whether float64 holds the sum, two numbers do, or an accumulator has to."""
    pred = RNG.random(N).astype(np.float32)
    positive, negative = ((1 + size * RNG.exponential(size=N) ** 3).astype(np.int64) for _ in range(2))
    ranked = metric.rank_rows(pred)
    tp, fp = (np.append(0, np.cumsum(w[np.argsort(-pred)])) for w in (positive, negative))
    scale = float(tp[-1]) * float(fp[-1])
    steps = [float(q - p) * (0.5 * (float(a) + float(b))) for p, q, a, b in zip(fp, fp[1:], tp, tp[1:], strict=False)]
    assert sum_of(metric.roc_area, ranked, positive, negative, scale) == math.fsum(steps)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=2, max_size=25), st.randoms())
def test_areas_do_not_depend_on_the_order_of_rows(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    areas = []
    for order in (rows, shuffled):
        pred, positive = (np.array(column, np.int64) for column in zip(*order))
        ranked = metric.rank_rows(pred.astype(np.float32))
        args = (ranked, positive, 1 - positive, float(max(int(positive.sum()), 1)))
        areas.append([sum_of(kernel, *args) for kernel in (metric.roc_area, metric.precision_recall_area)])
    np.testing.assert_array_equal(*areas)


def test_rows_are_ranked_by_falling_prediction():
    pred = np.array([0.5, -1.0, np.inf, -0.0, 0.0, -np.inf, 2.0, -2.0], np.float32)
    ranked = metric.rank_rows(pred) & np.uint64(0xFFFFFFFF)
    assert ranked.tolist() == [2, 6, 0, 3, 4, 1, 7, 5]
