"""Survival metrics against the installed XGBoost's values and the definitions."""

import numpy as np
import pytest
import xgboost

from arboost.matrix.meta import MetaInfo
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

ONE = Context()
N = 400
CENSORING = ("exact", "right", "left", "interval", "mixed")


def metric_of(name, **params):
    return make_metric(name, resolve({"eval_metric": name, **params}).learner)


def xgboost_value(name, objective, margin, weight=None, params=None, **meta):
    data = xgboost.DMatrix(np.zeros((len(margin), 1)), weight=weight, base_margin=margin, **meta)
    settings = {"objective": objective, "base_score": 0.5, "nthread": 1, "eval_metric": name, **(params or {})}
    return float(xgboost.Booster(settings, [data]).eval(data).rsplit(":", 1)[1])


def bounds(kind):
    rng = np.random.default_rng(1)
    lower = rng.uniform(0.2, 20, N).astype(np.float32)
    choice = {"exact": 0, "right": 1, "left": 2, "interval": 3}.get(kind, rng.integers(0, 4, N))
    upper = np.select([choice == 0, choice == 1], [lower, np.full(N, np.inf)], lower * 2).astype(np.float32)
    return np.where(choice == 2, np.float32(0), lower) * np.ones(N, np.float32), upper * np.ones(N, np.float32)


def interval_info(kind, weight=None):
    info = MetaInfo(N, 1)
    lower, upper = bounds(kind)
    info.set_label_lower_bound(lower)
    info.set_label_upper_bound(upper)
    if weight is not None:
        info.set_weight(weight)
    return info


def margins(spread=1.5):
    return np.random.default_rng(0).normal(1, spread, N).astype(np.float32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", CENSORING)
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_aft_log_loss_is_xgboosts(distribution, kind, weighted):
    weight = np.random.default_rng(2).uniform(0.1, 2, N).astype(np.float32) if weighted else None
    params = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": 0.8}
    info = interval_info(kind, weight)
    got = metric_of("aft-nloglik", **params).evaluate_info(ONE, margins()[:, None], info)
    lower, upper = bounds(kind)
    want = xgboost_value(
        "aft-nloglik",
        "survival:aft",
        margins(),
        weight,
        params,
        label_lower_bound=lower,
        label_upper_bound=upper,
    )
    assert got == pytest.approx(want, rel=1e-5)


def test_unlikely_rows_cost_no_more_than_xgboosts_limit():
    info = interval_info("exact")
    assert metric_of("aft-nloglik").evaluate_info(ONE, np.full(N, 1e4, np.float32), info) == pytest.approx(
        27.63102, rel=1e-6
    )


@pytest.mark.parametrize("kind", ["right", "left", "interval", "mixed"])
def test_interval_accuracy_is_xgboosts(kind):
    weight = np.random.default_rng(2).uniform(0.1, 2, N).astype(np.float32)
    lower, upper = bounds(kind)
    got = metric_of("interval-regression-accuracy").evaluate_info(ONE, margins(), interval_info(kind, weight))
    want = xgboost_value(
        "interval-regression-accuracy",
        "survival:aft",
        margins(),
        weight,
        label_lower_bound=lower,
        label_upper_bound=upper,
    )
    assert got == pytest.approx(want, rel=1e-6)
    inside = (np.exp(margins()) >= lower) & (np.exp(margins()) <= upper)
    assert got == pytest.approx(np.average(inside, weights=weight), rel=1e-6)


def cox_labels(n=N):
    rng = np.random.default_rng(3)
    time = rng.integers(1, n // 3, n)
    return np.where(rng.random(n) < 0.4, -time, time).astype(np.float32)


@pytest.mark.parametrize("weighted", [False, True])
def test_cox_log_loss_is_xgboosts(weighted):
    weight = np.random.default_rng(2).uniform(0.1, 2, N).astype(np.float32) if weighted else None
    label, margin = cox_labels(), margins()
    got = metric_of("cox-nloglik").evaluate(ONE, np.exp(margin), label, weight)
    assert got == pytest.approx(xgboost_value("cox-nloglik", "survival:cox", margin, weight, label=label), rel=1e-6)


def test_cox_log_loss_is_the_partial_likelihood():
    label, margin = cox_labels(60), margins()[:60].astype(np.float64)
    time = np.abs(label)
    events = np.flatnonzero(label > 0)
    want = np.mean([np.log(np.exp(margin[time >= time[i]]).sum()) - margin[i] for i in events])
    assert metric_of("cox-nloglik").evaluate(ONE, np.exp(margin), label) == pytest.approx(want, rel=1e-6)


def test_cox_log_loss_without_events():
    assert np.isnan(metric_of("cox-nloglik").evaluate(ONE, np.ones(3), -np.ones(3, np.float32)))


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    n = 50_000
    label, margin = cox_labels(n), rng.normal(size=n).astype(np.float32)
    info = MetaInfo(n, 1)
    info.set_label_lower_bound(np.abs(label))
    info.set_label_upper_bound(np.where(label < 0, np.inf, label))
    for name, pred in (
        ("cox-nloglik", np.exp(margin)),
        ("aft-nloglik", margin),
        ("interval-regression-accuracy", margin),
    ):
        metric = metric_of(name)

        def value(ctx, metric=metric, pred=pred):
            return metric.evaluate(ctx, pred, label) if "cox" in metric.name else metric.evaluate_info(ctx, pred, info)

        assert {value(Context(n_threads=t)) for t in (2, 3, 8)} == {value(ONE)}


def test_what_is_missing_is_said():
    info = MetaInfo(3, 1)
    for name in ("aft-nloglik", "interval-regression-accuracy"):
        with pytest.raises(XGBoostError, match=f"{name} needs label_lower_bound and label_upper_bound"):
            metric_of(name).evaluate_info(ONE, np.zeros(3), info)
    with pytest.raises(XGBoostError, match="Evaluation needs labels"):
        metric_of("cox-nloglik").evaluate_info(ONE, np.ones(3), info)
    with pytest.raises(XGBoostError, match="label and prediction size not match"):
        metric_of("cox-nloglik").evaluate(ONE, np.ones(4), np.ones(3, np.float32))
    with pytest.raises(XGBoostError, match="aft_loss_distribution_scale must be positive"):
        metric_of("aft-nloglik", aft_loss_distribution_scale=-1)
    with pytest.raises(XGBoostError, match="takes no parameter"):
        metric_of("cox-nloglik@2")
