"""Areas under curves against the installed XGBoost."""

import math
import warnings

import numpy as np
import pytest

import peer_metrics as peer
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context(n_threads=1)
N = 2000
RNG = np.random.default_rng(0)
PRED = RNG.uniform(size=N).astype(np.float32)
PRED[::3] = np.round(PRED[::3], 1)  # ties
BINARY = (RNG.uniform(size=N) < PRED).astype(np.float32)
CLASSES = RNG.dirichlet(np.ones(3), N).astype(np.float32)
LABEL = RNG.integers(0, 3, N).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 3, N).astype(np.float32)


def metric_of(name):
    return make_metric(name, resolve({}).learner)


both = pytest.mark.parametrize("name", ["auc", "aucpr"])
weights = pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])


@both
@weights
def test_binary_is_xgboosts(name, weight):
    got = metric_of(name).evaluate(ONE, PRED, BINARY, weight)
    assert got == pytest.approx(peer.evaluate(name, PRED, BINARY, weight), rel=1e-9)


@both
@weights
def test_labels_may_be_probabilities(name, weight):
    label = BINARY * np.float32(0.5) + np.float32(0.2)
    got = metric_of(name).evaluate(ONE, PRED, label, weight)
    assert got == pytest.approx(peer.evaluate(name, PRED, label, weight), rel=1e-6)


@both
@weights
def test_classes_are_xgboosts(name, weight):
    got = metric_of(name).evaluate(ONE, CLASSES, LABEL, weight)
    assert got == pytest.approx(peer.evaluate(name, CLASSES, LABEL, weight), rel=1e-6)


@both
@weights
def test_threads_and_order_give_the_same_bits(name, weight):
    shuffled = np.random.default_rng(1).permutation(N)
    moved = None if weight is None else weight[shuffled]
    for pred, label in ((PRED, BINARY), (CLASSES, LABEL)):
        want = metric_of(name).evaluate(ONE, pred, label, weight)
        assert metric_of(name).evaluate(ONE, pred[shuffled], label[shuffled], moved) == want
        for n_threads in (2, 3, 8):
            assert metric_of(name).evaluate(Context(n_threads=n_threads), pred, label, weight) == want


def test_whole_weights_are_repeated_rows():
    counts = np.random.default_rng(2).integers(0, 4, N)
    repeated = metric_of("auc").evaluate(ONE, np.repeat(PRED, counts), np.repeat(BINARY, counts))
    assert metric_of("auc").evaluate(ONE, PRED, BINARY, counts.astype(np.float32)) == pytest.approx(repeated, rel=1e-14)


@both
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_class_only_is_nan_with_a_warning(name, value):
    with pytest.warns(UserWarning, match="contains only positive or negative samples"):
        assert math.isnan(metric_of(name).evaluate(ONE, PRED, np.full(N, value, np.float32)))
    with pytest.warns(UserWarning, match="contains only positive or negative samples"):
        assert math.isnan(metric_of(name).evaluate(ONE, CLASSES, np.minimum(LABEL, 1)))
    with pytest.warns(UserWarning, match="dataset is empty"):
        assert math.isnan(metric_of(name).evaluate(ONE, PRED[:0], BINARY[:0]))


def test_equal_and_perfect_predictions():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric_of("auc").evaluate(ONE, np.zeros(N, np.float32), BINARY) == 0.5
        assert metric_of("auc").evaluate(ONE, BINARY, BINARY) == 1.0
        assert metric_of("auc").evaluate(ONE, -BINARY, BINARY) == 0.0
        assert metric_of("aucpr").evaluate(ONE, BINARY, BINARY) == 1.0
        share = metric_of("aucpr").evaluate(ONE, np.zeros(N, np.float32), BINARY)
        assert share == pytest.approx(BINARY.mean(), rel=1e-6)


@both
def test_bad_labels_and_shapes(name):
    with pytest.raises(XGBoostError, match=r"label must be in \[0, 1\]"):
        metric_of(name).evaluate(ONE, PRED, BINARY * 2)
    with pytest.raises(XGBoostError, match="do not match"):
        metric_of(name).evaluate(ONE, PRED[:10], BINARY)
