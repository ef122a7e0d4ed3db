"""Values of the wrong kind, in arguments, in model files and from users' functions: the error names the fault."""

import json

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse

import arboost
from arboost.callback import EarlyStopping, EvaluationMonitor
from arboost.runtime.errors import XGBoostError

X = np.random.default_rng(0).random((60, 3)).astype(np.float32)
Y = (X[:, 0] * 3).astype(int)
PARAMS = {"max_depth": 2, "nthread": 1}
NOT_WHOLE = [2.5, "3", "x", float("nan"), float("inf"), [3], 1j]


@pytest.fixture
def dtrain():
    return arboost.DMatrix(X, Y)


def train(dtrain, params=None, n_rounds=4, **options):
    return arboost.train({**PARAMS, **(params or {})}, dtrain, n_rounds, **{"verbose_eval": False, **options})


# ---- numbers of rounds ----


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
def test_numbers_that_are_not_whole(value, dtrain):
    evals = [(dtrain, "t")]
    for name, call in (
        ("num_boost_round", lambda: train(dtrain, n_rounds=value)),
        ("num_boost_round", lambda: arboost.cv(PARAMS, dtrain, value)),
        ("nfold", lambda: arboost.cv(PARAMS, dtrain, 1, nfold=value)),
        ("early_stopping_rounds", lambda: train(dtrain, evals=evals, early_stopping_rounds=value)),
        ("early_stopping_rounds", lambda: arboost.cv(PARAMS, dtrain, 1, early_stopping_rounds=value)),
        ("verbose_eval", lambda: train(dtrain, evals=evals, verbose_eval=value)),
        ("n_estimators", lambda: arboost.XGBRegressor(n_estimators=value).fit(X, Y)),
        ("n_estimators", lambda: arboost.XGBRFRegressor(n_estimators=value).fit(X, Y)),
        ("rounds of EarlyStopping", lambda: EarlyStopping(rounds=value)),
        ("period of EvaluationMonitor", lambda: EvaluationMonitor(period=value)),
    ):
        with pytest.raises(TypeError, match=f"{name}.* must be a whole number, got"):
            call()


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2)])
def test_whole_numbers_of_any_kind(value, dtrain):
    assert train(dtrain, n_rounds=value).num_boosted_rounds() == 2
    assert len(arboost.cv(PARAMS, dtrain, value, nfold=value)) == 2
    assert arboost.XGBRegressor(n_estimators=value).fit(X, Y).get_booster().num_boosted_rounds() == 2
    assert EarlyStopping(rounds=value).rounds == 2


def test_a_negative_patience(dtrain):
    with pytest.raises(ValueError, match="early_stopping_rounds must be at least 0, got -1"):
        train(dtrain, evals=[(dtrain, "t")], early_stopping_rounds=-1)


# ---- model files ----


def with_attributes(dtrain, **attributes) -> bytearray:
    doc = json.loads(bytes(train(dtrain).save_raw("json")))
    doc["learner"]["attributes"].update(attributes)
    return bytearray(json.dumps(doc).encode())


@pytest.mark.parametrize("value", ["x", "2.5", "", "NaN", "1e3"])
def test_best_iteration_that_is_no_number(value, dtrain):
    data, estimator = with_attributes(dtrain, best_iteration=value), arboost.XGBRegressor(n_jobs=1)
    with pytest.warns(UserWarning, match="attribute best_iteration is .* not a whole number"):
        booster = arboost.Booster(model_file=data)
    with pytest.warns(UserWarning, match="best_iteration"):
        estimator.load_model(data)
    assert np.array_equal(booster.predict(dtrain), train(dtrain).predict(dtrain)), "the model itself is sound"
    for use in (lambda: booster.best_iteration, lambda: estimator.best_iteration, lambda: estimator.predict(X)):
        with pytest.raises(XGBoostError, match=r"attribute best_iteration is .* not a whole number"):
            use()


@pytest.mark.parametrize("value", ["-1", "4", "99", "2147483648", "9" * 30])
def test_best_iteration_that_is_no_round(value, dtrain):
    data, estimator = with_attributes(dtrain, best_iteration=value), arboost.XGBRegressor(n_jobs=1)
    with pytest.warns(UserWarning, match=f"best_iteration is {value}, but the model has 4 rounds"):
        estimator.load_model(data)
    for use in (estimator.predict, estimator.apply):
        with pytest.raises(XGBoostError, match=f"best_iteration is {value}, but it has 4 rounds"):
            use(X)
    assert estimator.predict(X, iteration_range=(0, 2)).shape == (60,)


def test_best_score_that_is_no_number(dtrain):
    with pytest.warns(UserWarning, match="attribute best_score is 'good', not a number"):
        booster = arboost.Booster(model_file=with_attributes(dtrain, best_score="good"))
    with pytest.raises(XGBoostError, match="attribute best_score is 'good', not a number"):
        _ = booster.best_score
    for value in (2.5, "x", None):
        with pytest.raises(TypeError, match="best_iteration must be a whole number"):
            booster.best_iteration = value


# ---- functions of users ----


@pytest.mark.parametrize(
    "found",
    [None, 1.0, "abc", ("m",), ("m", 1, 2), {"m": 1.0}, [("m", 1.0), 3], iter([1])],
    ids=lambda found: type(found).__name__,
)
def test_metrics_that_return_no_pair(found, dtrain):
    with pytest.raises(TypeError, match=r"A custom metric returns \(name, value\)"):
        train(dtrain, evals=[(dtrain, "t")], custom_metric=lambda p, d: found)


@pytest.mark.parametrize("value", [None, "x", "1.5", [1, 2], np.ones(2), 1j, ("n", 1.0)], ids=repr)
def test_metrics_whose_value_is_no_number(value, dtrain):
    with pytest.raises(TypeError, match="The value of the custom metric m must be one number, got"):
        train(dtrain, evals=[(dtrain, "t")], custom_metric=lambda p, d: ("m", value))

    def m(y_true, y_score):
        return value

    with pytest.raises(TypeError, match="The value of the custom metric m must be one number, got"):
        arboost.XGBRegressor(n_estimators=1, n_jobs=1, eval_metric=m).fit(X, Y, eval_set=[(X, Y)], verbose=False)


@pytest.mark.parametrize(
    "gradient",
    [["a"] * 60, ["1"] * 60, np.ones(60) * 1j, np.zeros(60, "M8[D]"), [[1], [1, 2]] * 30, np.array([object()] * 60)],
    ids=["text", "digits", "complex", "dates", "ragged", "objects"],
)
def test_gradients_that_are_no_numbers(gradient, dtrain):
    for name, pair in (("grad", (gradient, np.ones(60))), ("hess", (np.ones(60), gradient))):
        with pytest.raises(XGBoostError, match=f"`{name}` must be an array of numbers"):
            train(dtrain, obj=lambda p, d, pair=pair: pair)
        with pytest.raises(XGBoostError, match=f"`{name}` must be an array of numbers"):
            train(dtrain).boost(dtrain, 0, grad=pair[0], hess=pair[1])


def test_an_objective_that_is_no_function(dtrain):
    with pytest.raises(TypeError, match=r"A custom objective is a function .*got 'reg:squarederror'"):
        train(dtrain, obj="reg:squarederror")
    with pytest.raises(XGBoostError, match=r"`grad` has shape .60, 1, 1."):
        train(dtrain, obj=lambda p, d: (np.ones((60, 1, 1)),) * 2)


# ---- metrics and names ----


@pytest.mark.parametrize("metric", ["nope", ["rmse", "nope"], "ndcg@x"])
def test_unknown_metrics_are_refused_without_evals(metric, dtrain):
    for use in (
        lambda: train(dtrain, {"eval_metric": metric}),
        lambda: arboost.Booster({**PARAMS, "eval_metric": metric}, [dtrain]).update(dtrain, 0),
        lambda: arboost.XGBRegressor(n_estimators=1, n_jobs=1, eval_metric=metric).fit(X, Y),
    ):
        with pytest.raises(XGBoostError, match=r"nope|ndcg@x"):
            use()


def test_two_evaluations_of_one_name(dtrain):
    part = arboost.DMatrix(X[:30], Y[:30])
    history = {}
    with pytest.warns(UserWarning, match="Evaluated more than once under one name: a-rmse"):
        train(dtrain, evals=[(dtrain, "a"), (part, "a")], evals_result=history)
    assert len(history["a"]["rmse"]) == 8, "as in XGBoost"
    with pytest.warns(UserWarning, match="under one name: t-rmse"):
        train(dtrain, evals=[(dtrain, "t")], custom_metric=lambda p, d: ("rmse", 1.0))


# ---- categories ----


@pytest.mark.parametrize("code", [0.5, -1, -0.5, 65535, 1e10])
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("tree_method", ["hist", "approx"])
def test_codes_that_are_none(code, kind, tree_method):
    codes = np.floor(X * 4)
    codes[7, 1] = code
    data = arboost.DMatrix(kind(codes), Y, feature_types=["q", "c", "q"], enable_categorical=True)
    with pytest.raises(XGBoostError, match="Invalid categorical value in feature 1: codes must be 0, 1, 2"):
        train(data, {"tree_method": tree_method})


def test_codes_beyond_the_categories_of_a_column():
    codes = np.zeros(60, np.int8)
    codes[5] = 7
    bad = pd.Categorical.from_codes(codes, ["a", "b"], validate=False)
    with pytest.raises(XGBoostError, match="Invalid categorical value in column c: code 7 of 2 categories"):
        arboost.DMatrix(pd.DataFrame({"c": bad}), Y, enable_categorical=True)
    indices = pyarrow.array(codes)
    column = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(["a", "b"]), safe=False)
    with pytest.raises(XGBoostError, match="Invalid categorical value in column c: code 7 of 2 categories"):
        arboost.DMatrix(pyarrow.table({"c": column}), Y, enable_categorical=True)
