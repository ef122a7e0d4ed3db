"""Class metrics against the installed XGBoost."""

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
PRED = RNG.dirichlet(np.ones(4), N).astype(np.float32)
LABEL = RNG.integers(0, 4, N).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 3, N).astype(np.float32)


def metric_of(name):
    return make_metric(name, resolve({}).learner)


@pytest.mark.parametrize("name", ["merror", "mlogloss"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_value_is_xgboosts(name, weight):
    assert metric_of(name).evaluate(ONE, PRED, LABEL, weight) == pytest.approx(
        peer.evaluate(name, PRED, LABEL, weight), rel=1e-6
    )


@pytest.mark.parametrize("name", ["merror", "mlogloss"])
def test_threads_give_the_same_bits(name):
    pred, label, weight = np.tile(PRED, (30, 1)), np.tile(LABEL, 30), np.tile(WEIGHT, 30)
    want = metric_of(name).evaluate(ONE, pred, label, weight)
    for n_threads in (2, 3, 8):
        assert metric_of(name).evaluate(Context(n_threads=n_threads), pred, label, weight) == want


def test_first_of_equal_classes_wins():
    pred = np.full((3, 3), 1 / 3, np.float32)
    assert metric_of("merror").evaluate(ONE, pred, np.array([0, 1, 2], np.float32)) == 2 / 3


@pytest.mark.parametrize("bad", [-1, 4])
@pytest.mark.parametrize("name", ["merror", "mlogloss", "auc"])
def test_labels_out_of_range(name, bad):
    label = LABEL.copy()
    label[5] = bad
    with pytest.raises(XGBoostError, match=rf"label must be in \[0, num_class\), num_class=4 but found {bad}"):
        metric_of(name).evaluate(ONE, PRED, label)


def test_no_rows():
    assert metric_of("mlogloss").evaluate(ONE, np.empty((0, 4), np.float32), np.empty(0, np.float32)) == 0.0
