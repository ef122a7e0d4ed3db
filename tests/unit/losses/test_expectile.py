"""Expectiles: finite differences, the definition, and what XGBoost 3.3 documents; 3.2 does not know them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost as xgb
from arboost.losses import loss_from_config
from arboost.losses.quantile import ExpectileError
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context()
ALPHAS = (0.1, 0.5, 0.9)


def predictions(margin):
    """The link in float64."""
    gaps = np.logaddexp(0, margin[1:]) + 1e-6
    return margin[0] + np.concatenate([[0], np.cumsum(gaps)])


def loss_value(margin, y, alphas=ALPHAS):
    d = y - predictions(margin)
    return 0.5 * sum((a if r > 0 else 1 - a) * r**2 for a, r in zip(alphas, d))


def gradients(loss, margin, label, weight=None, ctx=ONE):
    g, h = np.full((2, margin.shape[1], len(margin)), np.nan, np.float32)
    loss.gradient(ctx, margin, label, weight, g, h)
    return g, h


def test_gradient_is_the_slope():
    rng = np.random.default_rng(0)
    margin = rng.normal(size=(40, 3)).astype(np.float32)
    label = rng.normal(1, 3, 40).astype(np.float32)
    weight = rng.uniform(0.5, 2, 40).astype(np.float32)
    g, h = gradients(ExpectileError(ALPHAS), margin, label, weight)
    for i in range(40):
        m = margin[i].astype(np.float64)
        slope_of_link = np.concatenate([[1.0], 1 / (1 + np.exp(-m[1:]))])
        d = label[i] - predictions(m)
        w = np.where(d > 0, ALPHAS, 1 - np.array(ALPHAS))
        for k in range(3):
            step = np.zeros(3)
            step[k] = 1e-5
            slope = (loss_value(m + step, label[i]) - loss_value(m - step, label[i])) / 2e-5
            assert g[k, i] == pytest.approx(weight[i] * slope, rel=1e-4, abs=1e-5)
            # Gauss-Newton: the link taken as straight
            assert h[k, i] == pytest.approx(weight[i] * slope_of_link[k] ** 2 * w[k:].sum(), rel=1e-5)


def test_half_is_the_squared_error():
    label = np.random.default_rng(0).normal(size=30).astype(np.float32)
    g, h = gradients(ExpectileError((0.5,)), np.zeros((30, 1), np.float32), label)
    np.testing.assert_allclose(g[0], -label / 2, rtol=1e-6)
    np.testing.assert_array_equal(h[0], np.full(30, 0.5, np.float32))
    X = np.random.default_rng(1).normal(size=(200, 3))
    y = X[:, 0] + np.random.default_rng(2).normal(size=200)
    data = xgb.DMatrix(X, y)
    same = {"lambda": 0, "min_child_weight": 0}
    a = xgb.train({"objective": "reg:expectileerror", "expectile_alpha": 0.5, **same}, data, 5).predict(data)
    b = xgb.train({"objective": "reg:squarederror", **same}, data, 5).predict(data)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def expectile_of(y, alpha):
    """The value whose weighted residuals cancel, by bisection."""
    low, high = y.min(), y.max()
    for _ in range(100):
        e = (low + high) / 2
        balance = alpha * np.maximum(y - e, 0).sum() - (1 - alpha) * np.maximum(e - y, 0).sum()
        low, high = (e, high) if balance > 0 else (low, e)
    return low


def test_constant_model_finds_the_expectiles():
    y = np.random.default_rng(0).exponential(3, 500).astype(np.float32)
    data = xgb.DMatrix(np.zeros((500, 1)), y)
    params = {"objective": "reg:expectileerror", "expectile_alpha": ALPHAS, "eta": 0.5, "lambda": 0}
    got = xgb.train(params, data, 200).predict(data)[0]
    np.testing.assert_allclose(got, [expectile_of(y, a) for a in ALPHAS], rtol=1e-3)


def test_base_score_starts_in_order_and_link_goes_both_ways():
    y = np.random.default_rng(0).normal(size=200).astype(np.float32)
    loss = ExpectileError(ALPHAS)
    for weight in (None, np.random.default_rng(1).uniform(0.1, 2, 200).astype(np.float32)):
        score = loss.base_score(ONE, y, weight)
        assert (np.diff(score) > 0).all()
        np.testing.assert_allclose(loss.transform(loss.to_margin(score).reshape(1, -1))[0], score, rtol=1e-5)
    one = loss.transform(loss.to_margin(np.array([0.5])).reshape(1, -1))[0]
    np.testing.assert_allclose(one, 0.5, atol=1e-5)
    assert np.isfinite(loss.to_margin(np.array([0, 1e6, 2e6]))).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0, 100))
def test_expectiles_never_cross(seed, scale):
    margin = (np.random.default_rng(seed).normal(size=(20, 4)) * scale).astype(np.float32)
    out = ExpectileError((0.1, 0.2, 0.5, 0.9)).transform(margin)
    assert np.isfinite(out).all()
    assert (np.diff(out, axis=1) >= 0).all()


def test_metric_is_the_mean_loss():
    rng = np.random.default_rng(0)
    pred, label = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=50).astype(np.float32)
    weight = rng.uniform(0.5, 2, 50).astype(np.float32)
    d = label[:, None].astype(np.float64) - pred
    want = np.where(d > 0, ALPHAS, 1 - np.array(ALPHAS)) * d**2
    metric = make_metric("expectile", resolve({"eval_metric": "expectile", "expectile_alpha": ALPHAS}).learner)
    assert metric.evaluate(ONE, pred, label) == pytest.approx(want.mean(), rel=1e-6)
    weighted = np.average(want.mean(axis=1), weights=weight)
    assert metric.evaluate(ONE, pred, label, weight) == pytest.approx(weighted, rel=1e-6)
    with pytest.raises(XGBoostError, match="expects 3 predictions a label"):
        metric.evaluate(ONE, pred[:, :2], label)
    with pytest.raises(XGBoostError, match="needs the parameter expectile_alpha"):
        make_metric("expectile", resolve({}).learner)


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    margin, label = rng.normal(size=(70_000, 3)).astype(np.float32), rng.normal(size=70_000).astype(np.float32)
    loss = ExpectileError(ALPHAS)

    def everything(ctx):
        return [
            *gradients(loss, margin, label, None, ctx),
            loss.transform(margin, ctx),
            loss.base_score(ctx, label, None),
        ]

    want = everything(ONE)
    for n_threads in (2, 3, 8):
        for got, expected in zip(everything(Context(n_threads=n_threads)), want):
            np.testing.assert_array_equal(got, expected)


def test_model_file_and_predictions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    data = xgb.DMatrix(X, X[:, 0] + rng.normal(size=300) * np.abs(X[:, 1]))
    result = {}
    params = {"objective": "reg:expectileerror", "expectile_alpha": [0.1, 0.5, 0.9]}
    booster = xgb.train(params, data, 10, evals=[(data, "train")], evals_result=result, verbose_eval=False)
    curve = result["train"]["expectile"]
    assert curve[-1] < curve[0]
    pred = booster.predict(data)
    assert pred.shape == (300, 3)
    assert (np.diff(pred, axis=1) >= 0).all()
    again = xgb.Booster(model_file=booster.save_raw("json"))
    np.testing.assert_array_equal(again.predict(data), pred)
    np.testing.assert_array_equal(again.inplace_predict(X), pred)
    loss = ExpectileError(ALPHAS)
    assert loss.config() == {
        "name": "reg:expectileerror",
        "expectile_loss_param": {"expectile_alpha": "[1E-1,5E-1,9E-1]"},
    }
    assert loss_from_config(loss.config()) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss


def test_alphas_are_checked():
    with pytest.raises(XGBoostError, match="reg:expectileerror needs the expectile"):
        resolve({"objective": "reg:expectileerror"})
    with pytest.raises(XGBoostError, match="expectile_alpha is needed"):
        ExpectileError(())
    with pytest.raises(XGBoostError, match=r"expectile alpha must be in the range \[0.0, 1.0\]"):
        ExpectileError((1.5,))
    with pytest.raises(XGBoostError, match="sorted in ascending order"):
        ExpectileError((0.5, 0.1))
    with pytest.raises(XGBoostError, match="Multi-target"):
        ExpectileError((0.5,)).check_label(np.zeros((3, 2), np.float32))
