"""Cox and AFT against the installed XGBoost, row by row, and against finite differences of the likelihood."""

import json
import pickle

import numpy as np
import pytest
import xgboost

import peer_losses as peer
from arboost.losses import loss_from_config, make_loss
from arboost.losses.survival import AcceleratedFailureTime, Cox
from arboost.matrix.meta import MetaInfo
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError, XGBoostError

ONE = Context()
AFT_CASES = [(name, scale) for name in ("normal", "logistic", "extreme") for scale in (0.5, 1.0, 3.0)]
BOUNDS = {
    "exact": (2.0, 2.0),
    "right": (2.0, np.inf),
    "left": (0.0, 2.0),
    "negative": (-1.0, 2.0),
    "interval": (1.5, 4.0),
}


def info_of(label=None, weight=None, lower=None, upper=None):
    given = [v for v in (label, lower) if v is not None]
    info = MetaInfo(len(given[0]), 1)
    for name, values in (
        ("label", label),
        ("weight", weight),
        ("label_lower_bound", lower),
        ("label_upper_bound", upper),
    ):
        if values is not None:
            getattr(info, "set_" + name)(np.asarray(values, np.float32))
    return info


def gradients(loss, margin, info, ctx=ONE):
    margin = np.asarray(margin, np.float32).reshape(-1, 1)
    g, h = np.full((2, 1, len(margin)), np.nan, np.float32)
    loss.gradient_of(ctx, 0, margin, info, g, h)
    return g[0], h[0]


def censored_times(rng, n, distinct=False):
    time = rng.permutation(n) + 1 if distinct else rng.integers(1, n // 2, n)
    return np.where(rng.random(n) < 0.4, -time, time).astype(np.float32)


# ---- Cox ----


def partial_likelihood(label, margin):
    """-ln of Breslow's partial likelihood, in float64, straight from its definition."""
    time = np.abs(label)
    return sum(np.log(np.exp(margin[time >= time[i]]).sum()) - margin[i] for i in np.flatnonzero(label > 0))


def test_cox_gradient_is_the_slope_of_the_partial_likelihood():
    rng = np.random.default_rng(0)
    label = censored_times(rng, 30, distinct=True)
    margin = rng.normal(size=30).astype(np.float32).astype(np.float64)
    g, h = gradients(Cox(), margin, info_of(label))
    for i in range(30):
        step = np.zeros(30)
        step[i] = 1e-3
        up, here, down = (partial_likelihood(label, margin + k * step) for k in (1, 0, -1))
        assert g[i] == pytest.approx((up - down) / 2e-3, abs=1e-6)
        assert h[i] == pytest.approx((up - 2 * here + down) / 1e-6, abs=1e-6)


def xgboost_cox(label, margin, weight):
    """The gradients of every row by XGBoost: weights do not enter the risk sets, so that one row can be seen alone."""
    n = len(label)
    g, h = np.empty((2, n))
    params = {"objective": "survival:cox", "base_score": 0.5, "eta": 1, "max_depth": 1, "nthread": 1}
    params |= {"min_child_weight": 0, "lambda": str(int(peer.LAMBDA))}
    for i in range(n):
        alone = np.where(np.arange(n) == i, weight, 0)
        tree = peer.trees(peer.train(params, label, alone, margin))[0]
        h[i] = tree["sum_hessian"][0]
        g[i] = -tree["split_conditions"][0] * (peer.LAMBDA + h[i])
    return g, h


def test_cox_gradient_is_xgboosts_with_ties():
    rng = np.random.default_rng(4)
    label = censored_times(rng, 16)
    assert len(np.unique(np.abs(label[label > 0]))) < (label > 0).sum()
    margin = rng.normal(size=16).astype(np.float32)
    weight = rng.uniform(0.5, 2, 16).astype(np.float32)
    g, h = gradients(Cox(), margin, info_of(label, weight))
    peer_g, peer_h = xgboost_cox(label, margin, weight)
    np.testing.assert_allclose(h, peer_h, rtol=2e-5)
    np.testing.assert_allclose(g, peer_g, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_cox_base_score_is_xgboosts(weighted):
    rng = np.random.default_rng(2)
    label = censored_times(rng, 101)
    weight = rng.uniform(0.2, 3, 101).astype(np.float32) if weighted else None
    got = Cox().base_score(ONE, label, weight)
    np.testing.assert_allclose(got, peer.base_score({"objective": "survival:cox"}, label, weight), rtol=2e-6)


def test_cox_without_events_learns_nothing():
    label = -np.arange(1, 6, dtype=np.float32)
    g, h = gradients(Cox(), np.zeros(5), info_of(label))
    assert not g.any()
    assert not h.any()
    assert Cox().base_score(ONE, label, None).tolist() == [1.0]


def test_cox_margins_far_apart_stay_finite():
    label = np.array([1, 2, -3, 4], np.float32)
    for margin in ([3e4, 0, -3e4, 5], [1000, 1000, 1000, 1000], [-1000, 900, 0, -1000]):
        g, h = gradients(Cox(), margin, info_of(label))
        assert np.isfinite(g).all()
        assert (h >= 0).all()
    same = gradients(Cox(), np.full(4, 2000), info_of(label))
    np.testing.assert_array_equal(same, gradients(Cox(), np.zeros(4), info_of(label)))


def test_cox_threads_give_the_same_bits():
    rng = np.random.default_rng(5)
    n = 70_000
    info = info_of(censored_times(rng, n), rng.uniform(0, 2, n))
    margin = rng.normal(size=n)
    want = gradients(Cox(), margin, info)
    for n_threads in (2, 3, 8):
        np.testing.assert_array_equal(gradients(Cox(), margin, info, Context(n_threads=n_threads)), want)


def test_cox_labels_are_checked():
    with pytest.raises(XGBoostError, match="survival:cox needs times other than 0, found 2 labels"):
        Cox().check_info(info_of([0, 1, -2, 0]))
    with pytest.raises(XGBoostError, match="Multi-target"):
        Cox().check_label(np.ones((3, 2), np.float32))
    with pytest.raises(XGBoostError, match="number of rows"):
        Cox().check_label(np.ones(3, np.float32), np.ones(2, np.float32))
    with pytest.raises(XGBoostError, match="labels"):
        Cox().check_info(info_of(lower=[1, 2], upper=[1, 2]))


# ---- AFT ----


def xgboost_aft(name, scale, margin, lower, upper, weight=1.0):
    data = xgboost.DMatrix(
        np.zeros((1, 1)), weight=[weight], label_lower_bound=[lower], label_upper_bound=[upper], base_margin=[margin]
    )
    params = {"objective": "survival:aft", "aft_loss_distribution": name, "aft_loss_distribution_scale": scale}
    fixed = {"base_score": 0.5, "eta": 1, "min_child_weight": 0, "lambda": str(int(peer.LAMBDA)), "nthread": 1}
    tree = peer.trees(xgboost.train({**params, **fixed, "max_depth": 1}, data, 1))[0]
    h = tree["sum_hessian"][0]
    return -tree["split_conditions"][0] * (peer.LAMBDA + h), h


@pytest.mark.parametrize(("name", "scale"), AFT_CASES)
@pytest.mark.parametrize("censoring", BOUNDS)
def test_aft_gradient_is_xgboosts(name, scale, censoring):
    lower, upper = BOUNDS[censoring]
    loss = AcceleratedFailureTime(name, scale)
    # further out XGBoost's probabilities lose their digits by cancellation
    for z in (-5.0, -2.0, -0.3, 0.0, 0.5, 1.5, 3.0):
        margin = np.float32(np.log(2) - z * scale)
        g, h = gradients(loss, [margin], info_of(lower=[lower], upper=[upper], weight=[1.7]))
        peer_g, peer_h = xgboost_aft(name, scale, margin, lower, upper, 1.7)
        assert g[0] == pytest.approx(peer_g, rel=1e-5, abs=1e-6)
        assert h[0] == pytest.approx(peer_h, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["normal", "logistic", "extreme"])
def test_aft_is_clipped_like_xgboost(name):
    loss = AcceleratedFailureTime(name, 0.02)
    info = info_of(lower=[1, 1, 1, 0], upper=[1, 1, np.inf, 1])
    g, h = gradients(loss, [10, -10, -10, 10], info)
    assert (np.abs(g) <= 15).all()
    assert ((h >= np.float32(1e-16)) & (h <= 15)).all()
    assert np.sign(g).tolist() == [1, -1, -1, 1]


def test_a_row_that_says_nothing_has_no_gradient():
    for name in ("normal", "logistic", "extreme"):
        g, h = gradients(AcceleratedFailureTime(name), [0.3], info_of(lower=[0.0], upper=[np.inf]))
        assert g[0] == 0.0
        assert h[0] == np.float32(1e-16)


@pytest.mark.parametrize("name", ["normal", "logistic", "extreme"])
def test_aft_threads_give_the_same_bits(name):
    rng = np.random.default_rng(5)
    n = 70_000
    lower = rng.uniform(0.1, 9, n)
    upper = np.select([rng.random(n) < 0.3, rng.random(n) < 0.5], [np.inf, lower * 2], lower)
    info = info_of(lower=lower, upper=upper, weight=rng.uniform(0, 2, n))
    margin = rng.normal(size=n)
    want = gradients(AcceleratedFailureTime(name, 0.8), margin, info)
    assert np.isfinite(want).all()
    for n_threads in (2, 3, 8):
        got = gradients(AcceleratedFailureTime(name, 0.8), margin, info, Context(n_threads=n_threads))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([1, 2], None, "label_upper_bound is not set"),
        ([1, np.nan], [1, 2], "a bound is NaN in row 1"),
        ([1, 3], [1, 2], "label_lower_bound is larger than label_upper_bound in row 1"),
        ([0, 1], [0, 1], "label_upper_bound is not positive in row 0"),
        ([1, np.inf], [1, np.inf], "label_lower_bound is infinite in row 1"),
    ],
)
def test_aft_bounds_are_checked(lower, upper, message):
    with pytest.raises(XGBoostError, match=message):
        AcceleratedFailureTime().check_info(info_of(lower=lower, upper=upper))


def test_aft_needs_bounds_not_labels():
    with pytest.raises(XGBoostError, match="needs label_lower_bound and label_upper_bound"):
        AcceleratedFailureTime().check_info(info_of([1, 2]))


def test_aft_parameters_are_checked():
    with pytest.raises(XGBoostError, match="aft_loss_distribution is one of normal, logistic, extreme"):
        AcceleratedFailureTime("weibull")
    with pytest.raises(XGBoostError, match="aft_loss_distribution_scale must be positive"):
        AcceleratedFailureTime("normal", 0.0)
    for bad in (
        {"aft_loss_distribution": "x"},
        {"aft_loss_distribution_scale": "-1"},
        {"aft_loss_distribution": [1]},
        3,
    ):
        with pytest.raises(ModelFileError, match="aft_loss_param"):
            loss_from_config({"name": "survival:aft", "aft_loss_param": bad})


# ---- both ----


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "survival:cox"},
        {"objective": "survival:aft"},
        {"objective": "survival:aft", "aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 0.7},
    ],
)
def test_link_base_score_metric_and_config_are_xgboosts(params):
    loss = make_loss(params["objective"], resolve(params).learner)
    label = np.array([1, 2, 3, 4, 5], np.float32)
    data = xgboost.DMatrix(np.zeros((5, 1)), label, label_lower_bound=label, label_upper_bound=label)
    booster = xgboost.train({**params, "nthread": 1}, data, 1)
    learner = peer.learner(booster)
    assert loss.config() == learner["objective"]
    assert loss_from_config(loss.config()) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    info = info_of(label, lower=label, upper=label)
    score = np.array(json.loads(learner["learner_model_param"]["base_score"]), np.float32)
    np.testing.assert_allclose(loss.base_score_of(ONE, info), score, rtol=1e-6)
    margin = np.linspace(-3, 3, 7, dtype=np.float32).reshape(-1, 1)
    np.testing.assert_allclose(loss.transform(margin), peer.predict(params, margin), rtol=1e-6)
    metrics = json.loads(booster.save_config())["learner"]["metrics"]
    assert [loss.default_metric] == [metric["name"] for metric in metrics]
    with pytest.raises(XGBoostError, match="base_score must not be negative"):
        loss.to_margin(np.array([-1.0]))
