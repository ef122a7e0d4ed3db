"""The linear booster: selectors, convergence, what it can say about itself, and what it refuses."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse

import arboost
from arboost.boosters.gblinear import LinearModel
from arboost.runtime.errors import XGBoostError
from boosting_cases import make_features, make_label

X = make_features(300, missing=0.1)
Y = make_label("reg:squarederror", X)
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
MULTI = {"objective": "multi:softprob", "num_class": 3}
ALL = ("cyclic", "shuffle", "random", "greedy", "thrifty")


def train(n_rounds=10, data=None, label=None, **params):
    if data is None:
        label = CLASSES if "num_class" in params else Y
        data = X
    return arboost.train({"booster": "gblinear", **params}, arboost.DMatrix(data, label), n_rounds)


def weights(booster):
    return booster._learner.model.weights


@pytest.mark.parametrize("selector", ALL)
def test_every_selector_reaches_least_squares(selector):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 5)).astype(np.float32)
    label = values @ [1.0, -2.0, 0.5, 0.0, 3.0] + 4.0 + 0.1 * rng.normal(size=400)
    booster = train(150, values, label, updater="coord_descent", feature_selector=selector, base_score=0.0)
    wanted = np.linalg.lstsq(np.column_stack([values, np.ones(400)]), label, rcond=None)[0]
    np.testing.assert_allclose(weights(booster)[:, 0], wanted, atol=2e-3)


def test_penalties():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 5)).astype(np.float32)
    label = values @ [1.0, -2.0, 0.05, 0.0, 3.0]
    lasso = train(100, values, label, reg_alpha=0.2, base_score=0.0)
    assert np.all(weights(lasso)[2:4] == 0) and np.all(weights(lasso)[[0, 1, 4]] != 0)
    ridge = train(100, values, label, reg_lambda=1.0, base_score=0.0)
    centred = np.column_stack([values, np.ones(400)]).astype(np.float64)
    penalty = np.diag([400.0] * 5 + [0.0])
    wanted = np.linalg.solve(centred.T @ centred + penalty, centred.T @ label)
    np.testing.assert_allclose(weights(ridge)[:, 0], wanted, atol=1e-4)


@pytest.mark.parametrize("selector", ALL)
@pytest.mark.parametrize("extra", [{}, MULTI], ids=["one", "multi"])
def test_same_bits_for_any_number_of_threads(selector, extra):
    large = make_features(9000, seed=4)
    label = make_label("reg:squarederror", large)
    if extra:
        label = np.digitize(label, np.quantile(label, [0.3, 0.6]))
    options = {"updater": "coord_descent", "feature_selector": selector, **extra}
    one, three = (train(4, large, label, nthread=n, **options) for n in (1, 3))
    assert one.save_raw() == three.save_raw()
    data = arboost.DMatrix(large)
    assert np.array_equal(one.predict(data), three.predict(data))


def test_shotgun_is_the_sequential_sweep():
    for selector in ("cyclic", "shuffle"):
        shotgun = train(feature_selector=selector)
        assert shotgun.save_raw() == train(feature_selector=selector, updater="coord_descent").save_raw()


def test_seeds_choose_the_order():
    assert train(2, feature_selector="shuffle", seed=1).save_raw() != train(2, feature_selector="shuffle").save_raw()
    one, two = (train(2, feature_selector="random", updater="coord_descent", seed=s).save_raw() for s in (1, 2))
    assert one != two


@pytest.mark.parametrize("selector", ["greedy", "thrifty"])
def test_top_k(selector):
    booster = train(1, updater="coord_descent", feature_selector=selector, top_k=2, eta=1.0)
    assert np.count_nonzero(weights(booster)[:-1]) == 2


def test_tolerance_stops_for_good():
    counts = [train(n, tolerance=0.05) for n in (40, 80)]
    assert np.array_equal(weights(counts[0]), weights(counts[1]))
    assert [b.num_boosted_rounds() for b in counts] == [40, 80]
    assert not np.array_equal(weights(train(40)), weights(counts[0]))


def test_missing_values_add_nothing():
    absent = scipy.sparse.csr_matrix(np.nan_to_num(X))
    dense, filled = train(), train(10, np.nan_to_num(X), Y)
    np.testing.assert_allclose(weights(dense), weights(filled), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(weights(train(10, absent, Y)), weights(filled))


@pytest.mark.parametrize("extra", [{}, MULTI], ids=["one", "multi"])
def test_margins_and_contributions(extra):
    booster, data = train(**extra), arboost.DMatrix(X)
    margin = booster.predict(data, output_margin=True).reshape(len(X), -1)
    base = booster._learner.base_margin()
    wanted = np.nan_to_num(X).astype(np.float64) @ weights(booster)[:-1] + weights(booster)[-1] + base
    np.testing.assert_allclose(margin, wanted, rtol=1e-5, atol=1e-5)
    parts = booster.predict(data, pred_contribs=True, strict_shape=True)
    np.testing.assert_allclose(parts.sum(axis=2), margin, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(parts[:, 0, 0], np.nan_to_num(X[:, 0]) * weights(booster)[0, 0], rtol=1e-6)
    assert np.array_equal(parts, booster.predict(data, pred_contribs=True, approx_contribs=True, strict_shape=True))
    pairs = booster.predict(data, pred_interactions=True, strict_shape=True)
    np.testing.assert_array_equal(np.diagonal(pairs, axis1=2, axis2=3), parts)
    np.testing.assert_allclose(pairs.sum(axis=3), parts, atol=1e-6)
    assert np.array_equal(booster.inplace_predict(X), booster.predict(data))


def test_kept_margins_follow_the_weights():
    dtrain, dvalid = arboost.DMatrix(X, Y), arboost.DMatrix(X[:100], Y[:100])
    log: dict = {}
    params = {"booster": "gblinear"}
    booster = arboost.train(params, dtrain, 5, evals=[(dvalid, "v")], evals_result=log, verbose_eval=False)
    error = np.sqrt(np.mean((booster.predict(dvalid) - Y[:100]) ** 2))
    assert log["v"]["rmse"][-1] == pytest.approx(error, rel=1e-5)
    learner = booster._learner
    np.testing.assert_array_equal(learner.margins(dtrain), learner.predict_margins(dtrain, slice(None)))


def test_continued_training_and_copies():
    part = arboost.Booster(model_file=train(4).save_raw())
    whole = arboost.train({"booster": "gblinear"}, arboost.DMatrix(X, Y), 6, xgb_model=part)
    assert whole.save_raw() == train(10).save_raw()
    assert part.num_boosted_rounds() == 4
    assert pickle.loads(pickle.dumps(whole)).save_raw() == whole.copy().save_raw() == whole.save_raw()


def test_own_objective():
    def squared_error(margin, data):
        return margin - data.get_label(), np.ones(len(margin))

    params = {"booster": "gblinear", "base_score": 0.5}
    own = arboost.train(params, arboost.DMatrix(X, Y), 5, obj=squared_error)
    np.testing.assert_allclose(weights(own), weights(train(5, base_score=0.5)), rtol=1e-6)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda b, d: b.predict(d, iteration_range=(1, 2)), "does not support prediction range"),
        (lambda b, d: b.predict(d, pred_leaf=True), "does not support prediction of leaf index"),
        (lambda b, d: b[0:1], "Slice is not supported"),
        (lambda b, d: b.get_score(importance_type="gain"), "only has `weight` defined"),
        (lambda b, d: b.get_dump(dump_format="dot"), "`dot` is not supported by the gblinear"),
        (lambda b, d: b.to_python(), "has no trees"),
        (lambda b, d: b.to_shap(), "has no trees"),
    ],
)
def test_what_a_linear_model_cannot_do(ask, message):
    with pytest.raises(XGBoostError, match=message):
        ask(train(2), arboost.DMatrix(X))


def test_no_trees_in_a_frame():
    with pytest.raises(ValueError, match="not defined for Booster type gblinear"):
        train(1).trees_to_dataframe()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"feature_selector": "greedy"}, "Unsupported feature selector for shotgun"),
        ({"updater": "grow_quantile_histmaker"}, "Unknown linear updater"),
        ({"booster": "gbtree", "updater": "shotgun"}, "Unknown tree updater"),
    ],
)
def test_wrong_updaters(params, message):
    with pytest.raises(XGBoostError, match=message):
        train(1, **params)


def test_data_it_cannot_take():
    with pytest.raises(XGBoostError, match="QuantileDMatrix"):
        arboost.train({"booster": "gblinear"}, arboost.QuantileDMatrix(X, Y), 1)
    codes = arboost.DMatrix(
        np.abs(np.nan_to_num(X)).round(), Y, feature_types=["c"] * X.shape[1], enable_categorical=True
    )
    with pytest.raises(XGBoostError, match="doesn't support categorical"):
        arboost.train({"booster": "gblinear"}, codes, 1)


def test_parameters_of_trees_are_not_used():
    with pytest.warns(UserWarning, match='"max_depth" is read only by boosters of trees'):
        train(1, max_depth=3)


def test_another_kind_of_model_is_refused():
    with pytest.raises(XGBoostError, match="was trained with 'gblinear'"):
        arboost.train({"booster": "gbtree"}, arboost.DMatrix(X, Y), 1, xgb_model=train(1))


def test_untrained():
    model = LinearModel()
    assert model.n_rounds == 0 and model.dump("text", 2, 1) == "bias:\n0\nweight:\n0\n0\n"
    booster = arboost.Booster({"booster": "gblinear"}, [arboost.DMatrix(X, Y)])
    assert json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["weights"] == []


def test_estimators():
    model = arboost.XGBRegressor(booster="gblinear", n_estimators=10).fit(X, Y)
    own = weights(model.get_booster())
    np.testing.assert_array_equal(model.coef_, own[:-1, 0])
    np.testing.assert_array_equal(model.intercept_, own[-1])
    np.testing.assert_allclose(model.feature_importances_, own[:-1, 0] / own[:-1].sum(), rtol=1e-5)
    model = arboost.XGBClassifier(booster="gblinear", n_estimators=10).fit(X, CLASSES)
    own = weights(model.get_booster())
    np.testing.assert_array_equal(model.coef_, own[:-1].T)
    np.testing.assert_array_equal(model.intercept_, own[-1])
    loaded = arboost.XGBClassifier()
    loaded.load_model(model.get_booster().save_raw())
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    with pytest.raises(AttributeError, match="Coefficients are not defined"):
        _ = arboost.XGBRegressor(n_estimators=1).fit(X, Y).coef_
