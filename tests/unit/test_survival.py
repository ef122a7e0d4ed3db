"""Baseline hazard, survival curves and concordance against formulas written out by hand."""

import numpy as np
import pytest
from scipy import stats

import arboost as xgb
from arboost import survival
from arboost.runtime.errors import XGBoostError

NOISE = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def cohort(n=300, seed=0):
    """Features and signed times with ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    time = np.ceil(10 * rng.exponential(np.exp(-0.8 * X[:, 0])))
    return X, np.where(rng.random(n) < 0.35, -time, time).astype(np.float32)


def cox_model(X, label, rounds=8, weight=None, **params):
    data = xgb.DMatrix(X, label, weight=weight)
    return xgb.train({"objective": "survival:cox", "max_depth": 3, **params}, data, rounds), data


def aft_model(X, label, **params):
    upper = np.where(label < 0, np.inf, np.abs(label))
    data = xgb.DMatrix(X, label_lower_bound=np.abs(label), label_upper_bound=upper)
    return xgb.train({"objective": "survival:aft", "max_depth": 3, **params}, data, 8), data


def breslow(label, hazard, weight, times):
    """The cumulative baseline hazard by its definition."""
    time, out = np.abs(label), np.zeros(len(times))
    for i in np.flatnonzero(label > 0):
        out += np.where(times >= time[i], weight[i] / (weight * hazard)[time >= time[i]].sum(), 0.0)
    return out


@pytest.mark.parametrize("weighted", [False, True])
def test_baseline_is_breslows(weighted):
    X, label = cohort()
    weight = np.random.default_rng(1).integers(1, 4, len(X)).astype(np.float32) if weighted else None
    booster, data = cox_model(X, label, weight=weight)
    baseline = survival.baseline_hazard(booster, data)
    events = np.unique(label[label > 0])
    np.testing.assert_array_equal(baseline.times, events)
    hazard = booster.predict(data).astype(np.float64)
    w = np.ones(len(X)) if weight is None else weight.astype(np.float64)
    grid = np.concatenate([[0.0], events - 0.5, events, [1e9]])
    np.testing.assert_allclose(baseline.at(grid), breslow(label, hazard, w, grid), rtol=1e-10)
    assert baseline.at(0.0) == 0.0


def test_weights_count_rows():
    X, label = cohort(80)
    times = np.random.default_rng(0).integers(1, 4, 80)
    booster, _ = cox_model(X, label)
    weighted = survival.baseline_hazard(booster, xgb.DMatrix(X, label, weight=times))
    repeated = survival.baseline_hazard(booster, xgb.DMatrix(np.repeat(X, times, axis=0), np.repeat(label, times)))
    np.testing.assert_array_equal(weighted.times, repeated.times)
    np.testing.assert_allclose(weighted.cumulative, repeated.cumulative, rtol=1e-10)


def test_without_features_cox_is_nelson_aalen_and_near_kaplan_meier():
    _, label = cohort(2000)
    booster, data = cox_model(np.zeros((2000, 1)), label, base_score=1.0)
    baseline = survival.baseline_hazard(booster, data)
    time = np.abs(label)
    grid = np.unique(label[label > 0])[:40]
    deaths = np.array([(label == t).sum() for t in grid])
    at_risk = np.array([(time >= t).sum() for t in grid])
    curve = survival.predict_survival_function(booster, data, grid, baseline=baseline)
    np.testing.assert_allclose(curve[0], np.exp(-np.cumsum(deaths / at_risk)), rtol=1e-5)
    # Kaplan-Meier is the product of 1 - d/n <= exp(-d/n): apart by the sum of (d/n)**2 / 2
    kaplan_meier = np.cumprod(1 - deaths / at_risk)
    bound = np.cumsum((deaths / at_risk) ** 2)
    assert (curve[0] >= kaplan_meier - 1e-6).all()
    assert (curve[0] - kaplan_meier <= bound + 1e-6).all()


def test_cox_curves_are_powers_of_the_baseline():
    X, label = cohort()
    booster, data = cox_model(X, label)
    baseline = survival.baseline_hazard(booster, data)
    times = np.linspace(0, 60, 25)
    curves = survival.predict_survival_function(booster, data, times, baseline=baseline)
    hazard = booster.predict(data)[:, None].astype(np.float64)
    np.testing.assert_allclose(curves, np.exp(-baseline.at(times)) ** hazard, rtol=1e-5)
    check_curves(curves)


@pytest.mark.parametrize("name", NOISE)
def test_aft_curves_are_those_of_the_distribution(name):
    X, label = cohort()
    booster, data = aft_model(X, label, aft_loss_distribution=name, aft_loss_distribution_scale=0.8)
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 30), [np.inf]])
    curves = survival.predict_survival_function(booster, data, times)
    margin = booster.predict(data, output_margin=True)[:, None].astype(np.float64)
    with np.errstate(divide="ignore"):
        want = NOISE[name].sf((np.log(times) - margin) / np.float32(0.8))
    np.testing.assert_allclose(curves, want, rtol=2e-6, atol=1e-30)
    check_curves(curves)


def check_curves(curves):
    assert curves.dtype == np.float32
    assert (curves[:, 0] == 1).all()
    assert ((curves >= 0) & (curves <= 1)).all()
    assert (np.diff(curves, axis=1) <= 0).all()


def test_data_and_rounds_as_in_predict():
    X, label = cohort()
    booster, data = cox_model(X, label)
    part = survival.baseline_hazard(booster, data, iteration_range=(0, 3))
    again = survival.baseline_hazard(booster[:3], data)
    np.testing.assert_array_equal(part.cumulative, again.cumulative)
    args = {"times": [5, 20], "baseline": part, "iteration_range": (0, 3)}
    from_matrix = survival.predict_survival_function(booster, data, **args)
    np.testing.assert_array_equal(from_matrix, survival.predict_survival_function(booster, X, **args))
    assert from_matrix.shape == (len(X), 2)
    assert survival.predict_survival_function(booster, data, 5, baseline=part).shape == (len(X), 1)


def test_threads_give_the_same_bits():
    X, label = cohort(3000)
    results = []
    for nthread in (1, 3):
        booster, data = cox_model(X, label, nthread=nthread)
        baseline = survival.baseline_hazard(booster, data)
        curves = survival.predict_survival_function(booster, data, [1, 10, 30], baseline=baseline)
        results.append((baseline.cumulative.tobytes(), curves.tobytes()))
    assert results[0] == results[1]


def test_no_events():
    X, label = cohort(50)
    booster, _ = cox_model(X, label)
    baseline = survival.baseline_hazard(booster, xgb.DMatrix(X, -np.abs(label)))
    assert baseline.times.size == 0
    assert (survival.predict_survival_function(booster, X, [1e9], baseline=baseline) == 1).all()


def test_bad_input():
    X, label = cohort(50)
    cox, data = cox_model(X, label)
    aft, _ = aft_model(X, label)
    with pytest.raises(XGBoostError, match="baseline hazard belongs to survival:cox"):
        survival.baseline_hazard(aft, data)
    with pytest.raises(XGBoostError, match="Pass label="):
        survival.baseline_hazard(cox, xgb.DMatrix(X))
    with pytest.raises(XGBoostError, match="pass baseline=baseline_hazard"):
        survival.predict_survival_function(cox, data, [1])
    for times in ([-1.0], [np.nan], [[1.0]]):
        with pytest.raises(XGBoostError, match="times must be"):
            survival.predict_survival_function(aft, X, times)
    other = xgb.train({}, xgb.DMatrix(X, label), 1)
    with pytest.raises(XGBoostError, match="needs the objective survival:cox or survival:aft"):
        survival.predict_survival_function(other, X, [1])


def test_concordance():
    label = [1, -2, 3, 4]
    assert survival.concordance_index(label, [4, 3, 2, 1]) == 1.0
    assert survival.concordance_index(label, [1, 2, 3, 4]) == 0.0
    assert survival.concordance_index(label, [1, 1, 1, 1]) == 0.5
    assert survival.concordance_index([2, 2, -2], [1, 5, 0]) == 1.0
    assert np.isnan(survival.concordance_index([-1, -2], [1, 2]))
    with pytest.raises(XGBoostError, match="size not match"):
        survival.concordance_index([1, 2], [1])
    with pytest.raises(XGBoostError, match="not NaN"):
        survival.concordance_index([1, 2], [1, np.nan])
