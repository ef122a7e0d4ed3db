"""NaN among the labels of several targets: that target of that row takes no part, and nothing else changes."""

import itertools
import math
import warnings

import numpy as np
import pytest

import arboost as ab
from arboost.losses.base import lacks_labels, make_loss
from arboost.matrix.meta import MetaInfo
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

CTX = Context()
N = 400
LABELS = {  # objective -> labels it allows, from normal ones
    "reg:squarederror": lambda y: y,
    "reg:absoluteerror": lambda y: y,
    "reg:pseudohubererror": lambda y: y,
    "reg:squaredlogerror": np.abs,
    "binary:logistic": lambda y: y > 0,
    "binary:logitraw": lambda y: y > 0,
    "binary:hinge": lambda y: y > 0,
    "reg:logistic": lambda y: y > 0,
    "count:poisson": lambda y: np.abs(y).round(),
    "reg:gamma": lambda y: np.abs(y) + 0.1,
    "reg:tweedie": lambda y: np.abs(y).round(1),
}


def make_data(n_targets=3, seed=0):
    """Features of few values, so that cuts do not depend on the rows that are left."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (N, 4)).astype(np.float32)
    Y = np.stack([np.sin(X[:, k % 4]) + 0.3 * X[:, (k + 1) % 4] - 1 for k in range(n_targets)], axis=1)
    Y = (Y + 0.5 * rng.standard_normal(Y.shape)).astype(np.float32)
    lacking = rng.random(Y.shape) < 0.3
    lacking[0] = True  # a row without any label
    return X, Y, lacking


def with_gaps(Y, lacking):
    return np.where(lacking, np.float32(np.nan), Y.astype(np.float32))


def params_of(objective):
    return resolve({"objective": objective}).learner


@pytest.mark.parametrize("objective", LABELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_and_base_score(objective, weighted):
    """Each target as if the rows without its label were not there."""
    _, Y, lacking = make_data()
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2, N).astype(np.float32) if weighted else None
    margin = rng.normal(size=Y.shape).astype(np.float32)
    loss = make_loss(objective, params_of(objective))
    label = with_gaps(LABELS[objective](Y), lacking)
    loss.check_label(label, weight)
    g, h = np.full((2, 3, N), np.nan, np.float32)
    loss.gradient(CTX, margin, label, weight, g, h)
    scores = loss.base_score(CTX, label, weight)
    for k in range(3):
        rows = np.flatnonzero(~lacking[:, k])
        w = None if weight is None else weight[rows]
        expected = np.empty((2, 1, len(rows)), np.float32)
        loss.gradient(CTX, np.ascontiguousarray(margin[rows, k : k + 1]), label[rows, k], w, *expected)
        assert np.array_equal(g[k, rows], expected[0, 0])
        assert np.array_equal(h[k, rows], expected[1, 0])
        assert not g[k, lacking[:, k]].any()
        assert not h[k, lacking[:, k]].any()
        assert scores[k] == loss.base_score(CTX, label[rows, k], w)[0]


@pytest.mark.parametrize(
    "rows", [np.zeros(0, np.int32), np.arange(N, dtype=np.int32)[::-1].copy()], ids=["all", "back"]
)
def test_leaf_values(rows):
    """The median of the residuals that are known; NaN for a leaf in which none is."""
    _, Y, lacking = make_data()
    leaf_ptr = np.array([0, 100, 103, N], np.int64)
    order = rows if len(rows) else np.arange(N)
    lacking[order[100:103], 1] = True
    margin = np.random.default_rng(2).normal(size=Y.shape).astype(np.float32)
    loss = make_loss("reg:absoluteerror", params_of("reg:absoluteerror"))
    values = loss.leaf_values(CTX, 1, rows, leaf_ptr, with_gaps(Y, lacking), margin, None)
    for leaf, (start, stop) in enumerate(itertools.pairwise(leaf_ptr)):
        mine = [r for r in order[start:stop] if not lacking[r, 1]]
        if not mine:
            assert math.isnan(values[leaf])
            continue
        alone = np.array([0, len(mine)], np.int64)
        mine = np.array(mine, np.int32)
        assert values[leaf] == loss.leaf_values(CTX, 0, mine, alone, Y[:, 1], margin[:, 1:2].copy(), None)[0]


@pytest.mark.parametrize("objective", LABELS)
def test_one_tree_per_output_is_one_model_per_target(objective):
    """To the last bit: each target alone, rows without its label having the weight 0."""
    X, Y, lacking = make_data()
    label = LABELS[objective](Y).astype(np.float32)
    params = {"objective": objective, "max_depth": 3, "eta": 0.5}
    data = ab.DMatrix(X, with_gaps(label, lacking))
    together = ab.train(params, data, 4).predict(data, output_margin=True)
    for k in range(3):
        alone = ab.DMatrix(X, label[:, k], weight=(~lacking[:, k]).astype(np.float32))
        expected = ab.train(params, alone, 4).predict(alone, output_margin=True)
        if objective == "reg:absoluteerror":  # a quantile with weights is a step function, without it is interpolated
            rows = ~lacking[:, k]
            alone = ab.DMatrix(X[rows], label[rows, k])
            expected = ab.train(params, alone, 4).predict(ab.DMatrix(X), output_margin=True)
        np.testing.assert_array_equal(together[:, k], expected)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_rows_without_any_label_change_nothing(strategy):
    X, Y, lacking = make_data()
    lacking[:] = False
    lacking[::3] = True
    params = {"multi_strategy": strategy, "max_depth": 4}
    model = ab.train(params, ab.DMatrix(X, with_gaps(Y, lacking)), 5)
    rest = ab.train(params, ab.DMatrix(X[~lacking[:, 0]], Y[~lacking[:, 0]]), 5)
    np.testing.assert_allclose(model.predict(ab.DMatrix(X)), rest.predict(ab.DMatrix(X)), atol=1e-4)
    assert model.get_score() == rest.get_score()


def test_vectors_learn_each_target_from_its_labels():
    X, Y, lacking = make_data()
    data = ab.DMatrix(X, with_gaps(Y, lacking))
    for objective in ("reg:squarederror", "reg:absoluteerror"):
        params = {"multi_strategy": "multi_output_tree", "max_depth": 5, "objective": objective}
        log = {}
        model = ab.train(params, data, 20, evals=[(data, "train")], evals_result=log, verbose_eval=False)
        scores = next(iter(log["train"].values()))
        assert scores[-1] < 0.6 * scores[0]
        error = model.predict(data) - Y
        known = error[~lacking]
        assert np.sqrt(np.mean(known**2)) < 0.5
        assert np.sqrt(np.mean(error[lacking] ** 2)) < 0.9 * Y.std()  # what was not seen is predicted
        raws = [bytes(ab.train(params | {"nthread": n}, data, 3).save_raw()) for n in (1, 2, 3, 8)]
        assert len(set(raws)) == 1


@pytest.mark.parametrize("metric", ["rmse", "mae", "mape", "logloss", "error", "auc", "aucpr", "poisson-nloglik"])
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_leave_them_out(metric, weighted):
    _, Y, lacking = make_data()
    rng = np.random.default_rng(3)
    label = (Y > 0).astype(np.float32) if metric != "mape" else Y
    pred = rng.uniform(0.1, 0.9, Y.shape).astype(np.float32)
    weight = rng.uniform(0.5, 2, N).astype(np.float32) if weighted else None
    measure = make_metric(metric, params_of("reg:squarederror"))
    found = measure.evaluate(CTX, pred, with_gaps(label, lacking), weight)
    flat = None if weight is None else np.repeat(weight, 3)[~lacking.ravel()]
    assert found == measure.evaluate(CTX, pred[~lacking], label[~lacking], flat)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of curves, which warn
        assert math.isnan(measure.evaluate(CTX, pred, np.full_like(label, np.nan), weight))


def test_custom_objectives_need_not_know():
    X, Y, lacking = make_data()
    data = ab.DMatrix(X, with_gaps(Y, lacking))

    def squared(margin, matrix):
        return margin - matrix.get_label(), np.ones_like(margin)

    for strategy in ("one_output_per_tree", "multi_output_tree"):
        params = {"base_score": 0.0, "multi_strategy": strategy}
        own = ab.train(params, data, 3, obj=squared)
        assert np.array_equal(own.predict(data), ab.train(params, data, 3).predict(data))


def test_what_is_refused():
    X, Y, lacking = make_data()
    label = with_gaps(Y, lacking)
    for bad in (label[:, 0], label[:, :1], np.where(np.isnan(label), np.inf, label)):
        with pytest.raises(XGBoostError, match="Label contains NaN, infinity or a value too large"):
            ab.DMatrix(X, bad)
    empty = label.copy()
    empty[:, 2] = np.nan
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        with pytest.raises(XGBoostError, match="Label contains NaN only for target 2"):
            ab.train({"multi_strategy": strategy}, ab.DMatrix(X, empty), 1)
    with pytest.raises(XGBoostError, match=r"label must be in \[0,1\]"):
        ab.train({"objective": "binary:logistic"}, ab.DMatrix(X, label), 1)
    assert not lacks_labels(Y)
    assert lacks_labels(label)
    assert not lacks_labels(label[:, 0])


def test_matrices_keep_them(tmp_path):
    X, Y, lacking = make_data()
    label = with_gaps(Y, lacking)
    data = ab.DMatrix(X, label)
    np.testing.assert_array_equal(data.get_label().reshape(label.shape), label)
    np.testing.assert_array_equal(data.slice([0, 5, 9]).get_label().reshape(3, 3), label[[0, 5, 9]])
    data.save_binary(tmp_path / "rows.buffer")
    np.testing.assert_array_equal(ab.DMatrix(tmp_path / "rows.buffer").get_label().reshape(label.shape), label)
    info = MetaInfo(N, 4)
    info.set_label(label)
    assert np.isnan(info.label).sum() == lacking.sum()


def test_estimators():
    X, Y, lacking = make_data()
    options = {"n_estimators": 10, "max_depth": 3}
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        regressor = ab.XGBRegressor(**options, multi_strategy=strategy).fit(X, with_gaps(Y, lacking))
        assert np.isfinite(regressor.predict(X)).all()
        labels = with_gaps(Y > 0, lacking)
        classifier = ab.XGBClassifier(**options, multi_strategy=strategy).fit(
            X, labels, eval_set=[(X, labels)], verbose=False
        )
        assert np.mean((classifier.predict(X) == (Y > 0))[~lacking]) > 0.8
    with pytest.raises(ValueError, match="class_weight needs all labels"):
        ab.XGBClassifier(class_weight="balanced").fit(X, labels)
    with pytest.raises(ValueError, match="NaN"):
        ab.XGBClassifier().fit(X, labels[:, 0])
