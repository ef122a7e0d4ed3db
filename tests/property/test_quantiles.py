"""Quantiles that must not cross never do, cost nothing, and are the same however they are asked for."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost as xgb
from arboost.losses import loss_from_config
from arboost.losses.quantile import QuantileError
from arboost.runtime.errors import ModelFileError, XGBoostError

alphas = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=6, unique=True)
FORBID = {"objective": "reg:quantileerror", "quantile_crossing": "forbid"}


def pinball(pred, label, alpha):
    d = label[:, None].astype(np.float64) - pred
    return np.where(d >= 0, np.asarray(alpha) * d, (np.asarray(alpha) - 1) * d).mean(axis=1)


@settings(max_examples=60, deadline=None)
@given(alpha=alphas, seed=st.integers(0, 10**6))
def test_any_margins_are_put_in_order(alpha, seed):
    rng = np.random.default_rng(seed)
    margin = rng.normal(size=(30, len(alpha))).astype(np.float32)
    label = rng.normal(size=30).astype(np.float32)
    before = margin.copy()
    out = QuantileError(tuple(alpha), "forbid").transform(margin)
    np.testing.assert_array_equal(margin, before)
    assert (np.diff(out[:, np.argsort(alpha)], axis=1) >= 0).all()
    np.testing.assert_array_equal(np.sort(out, axis=1), np.sort(margin, axis=1))
    assert (pinball(out, label, alpha) <= pinball(margin, label, alpha) + 1e-6).all()


@settings(max_examples=15, deadline=None)
@given(alpha=alphas, seed=st.integers(0, 10**6), rounds=st.integers(1, 6))
def test_models_never_cross_and_lose_nothing(alpha, seed, rounds):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.normal(size=120).astype(np.float32)
    data = xgb.DMatrix(X, y)
    params = {"quantile_alpha": alpha, "eta": 1.0, "max_depth": 4, "nthread": 1}
    free = xgb.train({**params, "objective": "reg:quantileerror"}, data, rounds)
    result = {}
    booster = xgb.train(
        {**params, **FORBID}, data, rounds, evals=[(data, "t")], evals_result=result, verbose_eval=False
    )
    new = rng.normal(size=(200, 3)).astype(np.float32)
    for rows in (X, new):
        pred = booster.predict(xgb.DMatrix(rows))
        assert (np.diff(pred[:, np.argsort(alpha)], axis=1) >= 0).all()
        np.testing.assert_array_equal(pred, booster.inplace_predict(rows))
    margin = booster.predict(data, output_margin=True)
    np.testing.assert_array_equal(margin, free.predict(data))
    pred = booster.predict(data)
    assert pinball(pred, y, alpha).mean() <= pinball(margin, y, alpha).mean() + 1e-6
    assert result["t"]["quantile"][-1] == pytest.approx(pinball(pred, y, np.float32(alpha)).mean(), rel=1e-5, abs=1e-7)


def crossing_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = rng.normal(size=300).astype(np.float32)
    params = {**FORBID, "quantile_alpha": [0.9, 0.45, 0.5, 0.55], "eta": 1.0}
    return xgb.train(params, xgb.DMatrix(X, y), 5), X


def test_the_choice_is_kept_in_files_that_xgboost_reads():
    peer = pytest.importorskip("xgboost")
    booster, X = crossing_model()
    pred, margin = booster.predict(xgb.DMatrix(X)), booster.predict(xgb.DMatrix(X), output_margin=True)
    assert (pred != margin).any()
    for form in ("json", "ubj"):
        raw = booster.save_raw(form)
        np.testing.assert_array_equal(xgb.Booster(model_file=raw).inplace_predict(X), pred)
        np.testing.assert_allclose(peer.Booster(model_file=raw).predict(peer.DMatrix(X)), margin, rtol=1e-6, atol=1e-6)
    again = xgb.Booster(model_file=booster.save_raw())
    again.set_param({"quantile_crossing": "allow"})
    np.testing.assert_array_equal(again.inplace_predict(X), margin)


def test_default_files_are_xgboosts_own():
    assert json.loads(json.dumps(QuantileError((0.5,)).config())) == {
        "name": "reg:quantileerror",
        "quantile_loss_param": {"quantile_alpha": "[5E-1]"},
    }
    for loss in (QuantileError((0.1, 0.5)), QuantileError((0.1, 0.5), "forbid")):
        assert loss_from_config(loss.config()) == loss


def test_choices_are_checked():
    data = xgb.DMatrix(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(XGBoostError, match="quantile_crossing"):
        xgb.train({"objective": "reg:quantileerror", "quantile_alpha": 0.5, "quantile_crossing": "sometimes"}, data, 1)
    with pytest.raises(XGBoostError, match="'allow' or 'forbid'"):
        QuantileError((0.5,), "never")
    config = {"name": "reg:quantileerror", "quantile_loss_param": {"quantile_alpha": "[0.5]", "quantile_crossing": "x"}}
    with pytest.raises(ModelFileError, match="quantile_crossing"):
        loss_from_config(config)
