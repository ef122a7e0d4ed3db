"""Every loss against the installed XGBoost: gradients, intercept, link, model file; and what all losses share."""

import json
import pickle

import numpy as np
import pytest

import peer_losses as peer
from arboost.losses import LOSSES, fixed_base_score, loss_from_config, make_loss
from arboost.losses.base import Loss
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError, XGBoostError

ONE = Context(n_threads=1)

REAL, POSITIVE, UNIT, BINARY, COUNT, CLASS = "real", "positive", "unit", "binary", "count", "class"
CASES = [
    ({"objective": "reg:squarederror"}, REAL),
    ({"objective": "reg:squarederror", "scale_pos_weight": 3.3}, BINARY),
    ({"objective": "reg:squaredlogerror"}, POSITIVE),
    ({"objective": "reg:logistic"}, UNIT),
    ({"objective": "reg:pseudohubererror"}, REAL),
    ({"objective": "reg:pseudohubererror", "huber_slope": 2.5}, REAL),
    ({"objective": "reg:absoluteerror"}, REAL),
    ({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, REAL),
    ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.95]}, REAL),
    ({"objective": "binary:logistic"}, BINARY),
    ({"objective": "binary:logistic", "scale_pos_weight": 3.3}, BINARY),
    ({"objective": "binary:logitraw"}, BINARY),
    ({"objective": "binary:hinge"}, BINARY),
    ({"objective": "count:poisson"}, COUNT),
    ({"objective": "count:poisson", "max_delta_step": 0.3}, COUNT),
    ({"objective": "reg:gamma"}, POSITIVE),
    ({"objective": "reg:gamma", "scale_pos_weight": 2}, POSITIVE),
    ({"objective": "reg:tweedie"}, COUNT),
    ({"objective": "reg:tweedie", "tweedie_variance_power": 1.2}, COUNT),
    ({"objective": "multi:softmax", "num_class": 3}, CLASS),
    ({"objective": "multi:softprob", "num_class": 4}, CLASS),
]
IDS = ["-".join(str(v) for v in params.values()) for params, _ in CASES]
each_loss = pytest.mark.parametrize(("params", "kind"), CASES, ids=IDS)


def loss_of(params: dict) -> Loss:
    return make_loss(params["objective"], resolve(params).learner)


def labels(kind: str, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    draw = {
        REAL: lambda: rng.normal(2, 3, n),
        POSITIVE: lambda: rng.gamma(2, 2, n) + 0.01,
        UNIT: lambda: rng.uniform(0, 1, n),
        BINARY: lambda: rng.uniform(0, 1, n) < 0.3,
        COUNT: lambda: rng.poisson(2, n),
        CLASS: lambda: rng.integers(0, 3, n),
    }
    return draw[kind]().astype(np.float32)


def gradients(loss, ctx, margin, label, weight=None):
    g, h = np.full((2, margin.shape[1], len(margin)), np.nan, np.float32)
    loss.gradient(ctx, margin, label, weight, g, h)
    return g, h


@each_loss
def test_gradient_is_xgboosts(params, kind):
    loss = loss_of(params)
    rng = np.random.default_rng(1)
    n = 12
    margin = (rng.normal(size=(n, loss.n_targets())) * 2).astype(np.float32)
    label = labels(kind, n)
    weight = rng.choice([1.0, 0.25, 1.7], n).astype(np.float32)
    loss.check_label(label, weight)
    g, h = gradients(loss, ONE, margin, label, weight)
    for i in range(n):
        peer_g, peer_h = peer.gradient(params, margin[i], label[i], weight[i])
        # float32 steps are the same; only XGBoost's expf and log1pf may round the other way
        np.testing.assert_allclose(h[:, i], peer_h, rtol=1e-6, atol=1e-30)
        if "poisson" not in loss.name and loss.leaf_alphas is None:  # there a leaf is limited or replaced
            np.testing.assert_allclose(g[:, i], peer_g, rtol=1e-6, atol=1e-7)


@each_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_base_score_is_xgboosts(params, kind, weighted):
    loss = loss_of(params)
    label = labels(kind, 101)
    weight = np.random.default_rng(2).uniform(0.2, 3, 101).astype(np.float32) if weighted else None
    got = loss.base_score(ONE, label, weight)
    assert got.shape == (loss.n_targets(),)
    assert got.dtype == np.float32
    # XGBoost sums in another order and rounds on the way
    np.testing.assert_allclose(got, peer.base_score(params, label, weight), rtol=2e-6, atol=1e-6)


@each_loss
def test_margin_of_base_score_predicts_it(params, kind):
    loss = loss_of(params)
    score = loss.base_score(ONE, labels(kind, 101), None)
    margin = loss.to_margin(score)
    assert margin.dtype == np.float32
    if "multi" not in loss.name:  # there the base score is a margin
        np.testing.assert_allclose(loss.transform(margin.reshape(1, -1))[0], score, rtol=1e-6)


@each_loss
def test_predictions_are_xgboosts(params, kind):
    loss = loss_of(params)
    margin = (np.random.default_rng(3).normal(size=(50, loss.n_targets())) * 5).astype(np.float32)
    np.testing.assert_allclose(loss.transform(margin), peer.predict(params, margin), rtol=1e-6)


@each_loss
def test_model_file_is_xgboosts(params, kind):
    loss = loss_of(params)
    booster = peer.train(params, labels(kind, 20))
    assert loss.config() == peer.learner(booster)["objective"]
    assert loss_from_config(loss.config()) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss


@each_loss
def test_default_metric_is_xgboosts(params, kind):
    booster = peer.train(params, labels(kind, 20))
    metrics = json.loads(booster.save_config())["learner"]["metrics"]
    assert [loss_of(params).default_metric] == [metric["name"] for metric in metrics]


@each_loss
def test_threads_give_the_same_bits(params, kind):
    loss = loss_of(params)
    n = 70_000  # two spans and more
    label = labels(kind, n)
    margin = np.random.default_rng(4).normal(size=(n, loss.n_targets())).astype(np.float32)
    weight = np.random.default_rng(5).uniform(0, 2, n).astype(np.float32)

    def everything(ctx):
        g, h = gradients(loss, ctx, margin, label, weight)
        return g, h, loss.transform(margin, ctx), loss.base_score(ctx, label, weight)

    want = everything(ONE)
    for n_threads in (2, 3, 8):
        for got, expected in zip(everything(Context(n_threads=n_threads)), want):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "name", ["reg:squarederror", "binary:logistic", "count:poisson", "reg:gamma", "reg:absoluteerror"]
)
def test_several_targets_are_independent(name):
    loss = loss_of({"objective": name})
    label = labels(POSITIVE if "logistic" not in name else UNIT, 3 * 40).reshape(40, 3)
    margin = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    assert loss.n_targets(3) == 3
    loss.check_label(label)
    g, h = gradients(loss, ONE, margin, label)
    scores = loss.base_score(ONE, label, None)
    np.testing.assert_allclose(scores, peer.base_score({"objective": name}, label), rtol=1e-6)
    for k in range(3):
        alone = gradients(loss, ONE, margin[:, [k]].copy(), label[:, k].copy())
        np.testing.assert_array_equal([g[k], h[k]], [alone[0][0], alone[1][0]])
        assert scores[k] == loss.base_score(ONE, label[:, k].copy(), None)[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@each_loss
def test_labels_must_be_finite(params, kind, bad):
    label = labels(kind, 10)
    label[3] = bad
    with pytest.raises(XGBoostError, match="NaN, infinity"):
        loss_of(params).check_label(label)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3, np.float32), "number of rows"),
        (-np.ones(10, np.float32), "Weights must be positive"),
        (np.full(10, np.nan, np.float32), "Weights must be positive"),
        (np.full(10, np.inf, np.float32), "Weights must be positive"),
    ],
)
def test_weights_are_checked(weight, message):
    with pytest.raises(XGBoostError, match=message):
        loss_of({"objective": "reg:squarederror"}).check_label(labels(REAL, 10), weight)


@each_loss
def test_nothing_to_start_from(params, kind):
    loss = loss_of(params)
    with pytest.raises(XGBoostError, match="base_score cannot be estimated"):
        loss.base_score(ONE, np.empty(0, np.float32), None)
    if loss.leaf_alphas is None:
        with pytest.raises(XGBoostError, match="base_score cannot be estimated"):
            loss.base_score(ONE, labels(kind, 5), np.zeros(5, np.float32))


@each_loss
def test_base_score_must_be_finite(params, kind):
    with pytest.raises(XGBoostError, match="base_score"):
        loss_of(params).to_margin(np.array([np.nan]))


def test_one_base_score_serves_all_targets():
    np.testing.assert_array_equal(fixed_base_score(0.5, 3), np.full(3, 0.5, np.float32))
    np.testing.assert_array_equal(fixed_base_score((1.0, 2.0), 2), np.array([1, 2], np.float32))
    with pytest.raises(XGBoostError, match="should match the number of outputs"):
        fixed_base_score((1.0, 2.0), 3)


def test_unknown_objective():
    params = resolve({}).learner
    with pytest.raises(XGBoostError, match=r"Unknown objective function: `reg:squarederor`.*mean `reg:squarederror`"):
        make_loss("reg:squarederor", params)
    with pytest.raises(XGBoostError, match=r"Unknown objective function: `zzz`\. Objective candidates"):
        make_loss("zzz", params)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "name"),
        ({"name": 3}, "name"),
        ({"name": "reg:tweedie", "tweedie_regression_param": 3}, "tweedie_regression_param"),
        (
            {"name": "reg:tweedie", "tweedie_regression_param": {"tweedie_variance_power": "x"}},
            "tweedie_variance_power",
        ),
        (
            {"name": "reg:tweedie", "tweedie_regression_param": {"tweedie_variance_power": None}},
            "tweedie_variance_power",
        ),
        ({"name": "count:poisson", "poisson_regression_param": {"max_delta_step": "NaN"}}, "max_delta_step"),
        ({"name": "reg:quantileerror", "quantile_loss_param": {"quantile_alpha": "[1,"}}, "quantile_alpha"),
        ({"name": "reg:quantileerror", "quantile_loss_param": {"quantile_alpha": "[[1]]"}}, "quantile_alpha"),
        ({"name": "multi:softmax", "softmax_multiclass_param": {"num_class": "1e3"}}, "num_class"),
        ({"name": "multi:softmax", "softmax_multiclass_param": []}, "softmax_multiclass_param"),
    ],
)
def test_a_bad_model_file_names_the_field(config, field):
    with pytest.raises(ModelFileError, match=field):
        loss_from_config(config)


def test_absent_parameters_of_a_model_file_have_their_defaults():
    assert loss_from_config({"name": "reg:gamma"}) == loss_of({"objective": "reg:gamma"})
    assert loss_from_config({"name": "multi:softprob"}, n_classes=3).n_targets() == 3


def test_every_loss_is_covered_here():
    """Others need more than labels, or draw pairs, and have files of their own."""
    elsewhere = {name for name in LOSSES if name.startswith(("rank:", "survival:"))} | {"reg:expectileerror"}
    assert {params["objective"] for params, _ in CASES} == set(LOSSES) - elsewhere
