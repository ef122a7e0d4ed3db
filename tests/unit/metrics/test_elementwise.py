"""Mean metrics against the installed XGBoost, on any number of threads."""

import math

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
PRED = RNG.uniform(0.01, 0.99, N).astype(np.float32)
BINARY = (RNG.uniform(size=N) < PRED).astype(np.float32)
POSITIVE = RNG.gamma(2, 0.5, N).astype(np.float32) + np.float32(0.01)
COUNT = RNG.poisson(2, N).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 3, N).astype(np.float32)

CASES = [
    ("rmse", POSITIVE, {}),
    ("rmsle", POSITIVE, {}),
    ("mae", POSITIVE, {}),
    ("mape", POSITIVE, {}),
    ("mphe", POSITIVE, {}),
    ("mphe", POSITIVE, {"huber_slope": 2.5}),
    ("logloss", BINARY, {}),
    ("logloss", PRED[::-1].copy(), {}),
    ("error", BINARY, {}),
    ("error@0.7", BINARY, {}),
    ("poisson-nloglik", COUNT, {}),
    ("gamma-nloglik", POSITIVE, {}),
    ("gamma-deviance", POSITIVE, {}),
    ("tweedie-nloglik@1.3", COUNT, {}),
    ("quantile", POSITIVE, {"quantile_alpha": 0.3}),
]


def metric_of(name, params):
    return make_metric(name, resolve({"eval_metric": name, **params}).learner)


@pytest.mark.parametrize(("name", "label", "params"), CASES)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_value_is_xgboosts(name, label, params, weight):
    got = metric_of(name, params).evaluate(ONE, PRED, label, weight)
    # XGBoost computes rows in float32
    assert got == pytest.approx(peer.evaluate(name, PRED, label, weight, **params), rel=1e-6)


@pytest.mark.parametrize(
    "name", ["rmse", "rmsle", "mae", "mape", "mphe", "poisson-nloglik", "gamma-deviance", "logloss"]
)
@pytest.mark.parametrize("weight", [None, WEIGHT[:500]], ids=["plain", "weighted"])
def test_several_targets(name, weight):
    pred, label = PRED.reshape(500, 4), np.ascontiguousarray(PRED[::-1]).reshape(500, 4)
    got = metric_of(name, {}).evaluate(ONE, pred, label, weight)
    assert got == pytest.approx(peer.evaluate(name, pred, label, weight), rel=1e-6)


@pytest.mark.parametrize("weight", [None, WEIGHT[:500]], ids=["plain", "weighted"])
def test_several_quantiles(weight):
    params = {"quantile_alpha": [0.1, 0.5, 0.8, 0.9]}
    pred, label = PRED.reshape(500, 4), POSITIVE[:500]
    got = metric_of("quantile", params).evaluate(ONE, pred, label, weight)
    assert got == pytest.approx(peer.evaluate("quantile", pred, label, weight, **params), rel=1e-6)
    with pytest.raises(XGBoostError, match="expects 4 predictions a label"):
        metric_of("quantile", params).evaluate(ONE, pred[:, :2], label, weight)


@pytest.mark.parametrize(("name", "label", "params"), CASES)
def test_threads_and_order_give_the_same_bits(name, label, params):
    metric = metric_of(name, params)
    times = 40
    pred, label, weight = (np.tile(x, times) for x in (PRED, label, WEIGHT))
    want = metric.evaluate(ONE, pred, label, weight)
    shuffled = np.random.default_rng(1).permutation(len(pred))
    assert metric.evaluate(ONE, pred[shuffled], label[shuffled], weight[shuffled]) == want
    for n_threads in (2, 3, 8):
        assert metric.evaluate(Context(n_threads=n_threads), pred, label, weight) == want


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_predictions_may_be_a_column(shape):
    pred = PRED.reshape(shape)
    assert metric_of("rmse", {}).evaluate(ONE, pred, POSITIVE) == metric_of("rmse", {}).evaluate(ONE, PRED, POSITIVE)


def test_classes_are_refused():
    with pytest.raises(XGBoostError, match="use merror or mlogloss for multi-class"):
        metric_of("rmse", {}).evaluate(ONE, np.zeros((10, 3), np.float32), np.zeros(10, np.float32))


def test_no_rows_and_no_weight():
    empty = np.empty(0, np.float32)
    assert metric_of("rmse", {}).evaluate(ONE, empty, empty) == 0.0
    assert metric_of("mae", {}).evaluate(ONE, PRED, POSITIVE, np.zeros(N, np.float32)) == 0.0


def test_what_cannot_be_computed_is_nan_or_inf():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert math.isnan(metric_of("rmsle", {}).evaluate(ONE, -2 * one, one))
    assert math.isnan(metric_of("rmse", {}).evaluate(ONE, np.nan * one, one))
    assert metric_of("mape", {}).evaluate(ONE, one, zero) == math.inf
