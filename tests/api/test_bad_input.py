"""Bad input is a clear error of the right type, and nothing is lost: data and booster work on.

Messages are matched by the short pieces that XGBoost's users know them by.
"""

import warnings

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError
from boosting_cases import loss_params, make_features, make_label

X = make_features(100, missing=0.1)
Y = make_label("reg:squarederror", X)
PARAMS = {"max_depth": 2, "nthread": 1}


def train(params=None, X=X, y=Y, n_rounds=2, **options):
    info = {name: options.pop(name) for name in ("weight", "base_margin") if name in options}
    return arboost.train({**PARAMS, **(params or {})}, arboost.DMatrix(X, y, **info), n_rounds, **options)


@pytest.fixture
def booster():
    return train()


@pytest.fixture
def dtrain():
    return arboost.DMatrix(X, Y)


def changed(array, index, value):
    array = array.astype(np.float32)
    array[index] = value
    return array


# ---- labels, weights, margins ----


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("label", changed(Y, 3, np.nan), "Label contains NaN, infinity or a value too large"),
        ("label", changed(Y, 3, np.inf), "Label contains NaN, infinity or a value too large"),
        ("label", changed(Y, 3, -np.inf), "Label contains NaN"),
        ("label", Y[:50], "Invalid size for `label`.*n_samples: 100"),
        ("label", np.append(Y, 1), "Invalid size for `label`"),
        ("label", np.ones((100, 2, 2)), "Invalid shape"),
        ("label", ["a"] * 100, "label"),
        ("weight", -np.ones(100), "Weights must be positive values"),
        ("weight", changed(Y * 0 + 1, 7, np.nan), "Weights must be positive values"),
        ("weight", np.ones(101), "Size of weights must equal to number of rows"),
        ("weight", np.ones((100, 2)), "Invalid shape.*weight"),
        ("base_margin", np.ones(99), "Invalid size for `base_margin`"),
        ("feature_weights", np.ones(3), "feature_weights has 3 values, but there are 6 features"),
        ("feature_weights", -np.ones(6), "Feature weight must be greater than 0"),
        ("feature_names", list("abc"), "must have the same length as the number of data columns"),
        ("feature_names", list("aabcde"), "must be unique"),
        ("feature_names", ["a[b", *"abcde"], "may not contain"),
        ("feature_types", ["x"] * 6, "feature_types must be"),
    ],
)
def test_bad_meta_information(field, value, message, dtrain):
    with pytest.raises(ValueError, match=message):
        arboost.DMatrix(X, **{"label": Y, field: value})
    before = arboost.train(PARAMS, dtrain, 2).save_raw()
    with pytest.raises(ValueError, match=message):
        dtrain.set_info(**{field: value})
    assert arboost.train(PARAMS, dtrain, 2).save_raw() == before, "the matrix is as it was"


@pytest.mark.parametrize("kind", [arboost.DMatrix, arboost.QuantileDMatrix])
def test_bad_data(kind):
    with pytest.raises(XGBoostError, match="Input data contains `inf`"):
        kind(changed(X, (2, 3), np.inf), Y)
    with pytest.raises(ValueError):
        kind(np.zeros((3, 3, 3)))
    with pytest.raises(TypeError):
        kind(None)
    with pytest.raises(TypeError):
        kind(object())
    with pytest.raises(ValueError):
        kind([["a", "b"]])


def test_no_label(dtrain):
    with pytest.raises(XGBoostError, match="Invalid shape of labels"):
        arboost.train(PARAMS, arboost.DMatrix(X), 1)
    with pytest.raises(XGBoostError, match="labels"):
        arboost.train(PARAMS, dtrain, 1, evals=[(arboost.DMatrix(X), "e")])


def test_weights_that_are_too_few_or_nothing():
    with pytest.raises(XGBoostError, match="Size of weights must equal to number of rows"):
        train(weight=np.ones(20))
    with pytest.raises(XGBoostError, match="weights sum to zero"):
        train(weight=np.zeros(100))
    flat = train({"base_score": 0.5}, weight=np.zeros(100))
    assert np.array_equal(flat.predict(arboost.DMatrix(X)), np.full(100, 0.5, np.float32))


def test_margins_that_are_not_numbers():
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        train(base_margin=np.full(100, np.nan))
    with pytest.raises(XGBoostError, match="base_margin has 200 values; 100 rows x 1 outputs"):
        train(base_margin=np.ones((100, 2)))


# ---- shapes ----


def test_no_rows(dtrain, booster):
    for empty in (arboost.DMatrix(X[:0], Y[:0]), arboost.DMatrix(X[:0]), arboost.QuantileDMatrix(X[:0], Y[:0])):
        before = booster.predict(dtrain)
        with pytest.warns(UserWarning, match="no rows"):
            assert arboost.train(PARAMS, empty, 1).num_boosted_rounds() == 1
        with pytest.warns(UserWarning, match="no rows"):
            booster.update(empty, 2)
        assert booster.predict(empty).shape == (0,)
        np.testing.assert_array_equal(booster.predict(dtrain), before)
    assert booster.num_boosted_rounds() == 5
    booster.update(dtrain, 5)
    assert booster.num_boosted_rounds() == 6
    assert (booster.predict(dtrain) != before).any()


def test_no_columns(booster):
    for params in ({}, {"base_score": 0.5}):
        with pytest.raises(XGBoostError, match="0 feature is supplied"):
            train(params, X[:, :0])
    with pytest.raises(XGBoostError, match="at least 1 column"):
        arboost.QuantileDMatrix(X[:, :0], Y)
    with pytest.raises(ValueError, match="Feature shape mismatch, expected: 6, got 0"):
        booster.predict(arboost.DMatrix(X[:, :0]))


@pytest.mark.parametrize(
    "objective",
    ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:absoluteerror", "reg:gamma", "count:poisson"],
)
def test_small_and_constant_data_is_no_error(objective):
    """One row, one feature, constant features, constant label: dull, but legal."""
    params = loss_params(objective)
    y = make_label(objective, X)
    for features, label in ((X[:1], y[:1]), (X[:, :1], y), (np.ones((100, 3)), y), (X, np.full(100, y[0]))):
        booster = train(params, features, label)
        prediction = booster.predict(arboost.DMatrix(features))
        assert np.isfinite(prediction).all()
        assert arboost.Booster(model_file=booster.save_raw()).num_boosted_rounds() == 2
        if features.ndim == 2 and len(features) > 1 and features.shape[1] == 3:
            assert len(np.unique(prediction.reshape(100, -1), axis=0)) == 1


def test_a_constant_label_is_predicted():
    booster = train(y=np.full(100, 2.5))
    np.testing.assert_allclose(booster.predict(arboost.DMatrix(X)), 2.5)
    assert booster.get_score() == {}


@pytest.mark.parametrize("n_columns", [1, 5, 7, 12])
def test_another_number_of_features(n_columns, booster, dtrain):
    other = np.resize(X, (100, n_columns))
    message = f"Feature shape mismatch, expected: 6, got {n_columns}"
    for predict in (
        lambda: booster.predict(arboost.DMatrix(other)),
        lambda: booster.predict(arboost.DMatrix(other), validate_features=False),
        lambda: booster.predict(arboost.DMatrix(other), pred_leaf=True),
        lambda: booster.inplace_predict(other),
        lambda: booster.inplace_predict(other, validate_features=False),
        lambda: booster.update(arboost.DMatrix(other, Y), 2),
        lambda: booster.eval(arboost.DMatrix(other, Y)),
        lambda: arboost.train(PARAMS, arboost.DMatrix(other, Y), 1, xgb_model=booster),
        lambda: arboost.train(PARAMS, dtrain, 1, evals=[(arboost.DMatrix(other, Y), "e")]),
    ):
        with pytest.raises(ValueError, match=message):
            predict()
    assert booster.predict(dtrain).shape == (100,)
    assert booster.num_boosted_rounds() == 2


def test_one_dimension_in_place(booster):
    with pytest.raises(XGBoostError, match="2-dimensional"):
        booster.inplace_predict(X[0])
    assert booster.inplace_predict(X[:1]).shape == (1,)


# ---- names of objectives and metrics ----


@pytest.mark.parametrize(
    ("objective", "hint"),
    [("reg:sqarederror", "reg:squarederror"), ("binary:logistc", "binary:logistic"), ("softprob", "multi:softprob")],
)
def test_unknown_objective(objective, hint):
    with pytest.raises(XGBoostError, match=f'Unknown objective function.*{objective}.*Did you mean "{hint}"'):
        train({"objective": objective})


def test_an_objective_that_is_a_function():
    with pytest.raises(XGBoostError, match="obj"):
        train({"objective": lambda margin, data: (margin, margin)})


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("rmsee", "Unknown metric function rmsee.*Did you mean `rmse`"),
        ("aucc", "Unknown metric function aucc.*Did you mean `auc`"),
        ("error@x", "unable to parse the threshold"),
        ("tweedie-nloglik", "tweedie-nloglik@rho"),
        ("quantile", "quantile_alpha"),
    ],
)
def test_bad_metric(metric, message, dtrain):
    with pytest.raises(XGBoostError, match=message):
        arboost.train({**PARAMS, "eval_metric": metric}, dtrain, 1, evals=[(dtrain, "t")])
    assert arboost.train(PARAMS, dtrain, 1).num_boosted_rounds() == 1


def test_unknown_parameter():
    with pytest.warns(UserWarning, match=r'Parameters: \{ "max_dept" \} are not used(.|\n)*max_depth'):
        train({"max_dept": 3})
    with arboost.config_context(strict_parameters=True), pytest.raises(XGBoostError, match="max_dept"):
        train({"max_dept": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train({"max_dept": 3, "verbosity": 0})


# ---- labels that an objective does not allow ----


@pytest.mark.parametrize(
    ("objective", "label", "message"),
    [
        ("binary:logistic", Y * 3, r"label must be in \[0,1\] for logistic regression"),
        ("binary:logitraw", Y * 3, r"label must be in \[0,1\] for logistic regression"),
        ("reg:logistic", -np.ones(100), r"label must be in \[0,1\] for logistic regression"),
        ("count:poisson", -np.ones(100), "label must be non-negative for Poisson"),
        ("reg:tweedie", -np.ones(100), "label must be non-negative for Poisson/Tweedie"),
        ("reg:gamma", np.zeros(100), "label must be positive for gamma regression"),
        ("reg:squaredlogerror", np.full(100, -1.5), "label must be greater than -1 for rmsle"),
        ("multi:softmax", np.arange(100) % 5, r"label must be discrete values in the range of \[0, num_class\)"),
        ("multi:softprob", np.full(100, 0.5), r"label must be discrete values in the range of \[0, num_class\)"),
        ("multi:softprob", np.full(100, -1.0), r"label must be discrete values in the range of \[0, num_class\)"),
    ],
)
def test_labels_out_of_range(objective, label, message, dtrain):
    data = arboost.DMatrix(X, label)
    booster = arboost.Booster({**PARAMS, **loss_params(objective)}, [data])
    with pytest.raises(XGBoostError, match=message):
        booster.update(data, 0)
    data.set_label(make_label(objective, X))
    booster.update(data, 0)
    expected = arboost.train({**PARAMS, **loss_params(objective)}, data, 1)
    assert booster.save_raw() == expected.save_raw(), "the failed round left a trace"
    data.set_label(label)
    with pytest.raises(XGBoostError, match=message):
        booster.update(data, 1)
    assert booster.save_raw() == expected.save_raw()


def test_class_counts():
    with pytest.raises(XGBoostError, match="num_class should be greater equal to 1"):
        train({"objective": "multi:softmax"}, y=np.arange(100) % 3)
    with pytest.raises(XGBoostError, match="quantile_alpha"):
        train({"objective": "reg:quantileerror"})
    for alpha in (1.5, -0.1, [0.2, 1.2]):
        with pytest.raises(XGBoostError, match="quantile_alpha"):
            train({"objective": "reg:quantileerror", "quantile_alpha": alpha})


@pytest.mark.parametrize(
    ("objective", "base_score", "message"),
    [
        ("binary:logistic", 2, r"base_score must be in \(0,1\) for the logistic loss"),
        ("reg:logistic", -0.5, r"base_score must be in \(0,1\)"),
        ("reg:gamma", 0, "base_score.* must be greater than 0 for gamma regression"),
        ("count:poisson", -1, "base_score"),
        ("reg:squarederror", np.nan, "base_score"),
        ("reg:squarederror", "x", "base_score"),
        ("reg:squarederror", [0.1, 0.2], "Invalid `base_score`, it should match the number of outputs"),
        ("multi:softprob", [0.1, 0.2, 0.3], "Invalid `base_score`, it should match the number of outputs"),
    ],
)
def test_bad_base_score(objective, base_score, message):
    with pytest.raises(XGBoostError, match=message):
        train({**loss_params(objective), "base_score": base_score}, y=make_label(objective, X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_depth": -1}, "max_depth should be greater equal to 0"),
        ({"eta": -0.1}, "eta should be greater equal to 0"),
        ({"eta": "fast"}, "eta"),
        ({"subsample": 1.5}, r"subsample exceed bound \[0, 1\]"),
        ({"colsample_bytree": 1.1}, "colsample_bytree"),
        ({"gamma": -1}, "gamma should be greater equal to 0"),
        ({"max_bin": 1}, "max_bin"),
        ({"num_parallel_tree": 0}, "num_parallel_tree"),
        ({"tree_method": "quick"}, "tree_method"),
        ({"grow_policy": "wide"}, "grow_policy"),
        ({"booster": "gbtre"}, "booster"),
        ({"device": "quantum"}, "device"),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 2.5}, "tweedie_variance_power"),
    ],
    ids=str,
)
def test_bad_parameters(params, message):
    with pytest.raises(XGBoostError, match=message):
        train(params)


# ---- objectives and metrics of one's own ----


def constant(g, h):
    return lambda margin, data: (np.full(len(margin), g), np.full(len(margin), h))


@pytest.mark.parametrize(
    ("objective", "error", "message"),
    [
        (constant(np.nan, 1), XGBoostError, "NaN or infinite"),
        (constant(1, np.nan), XGBoostError, "NaN or infinite"),
        (constant(np.inf, 1), XGBoostError, "NaN or infinite"),
        (constant(1, np.inf), XGBoostError, "NaN or infinite"),
        (lambda margin, data: (np.ones(3), np.ones(100)), XGBoostError, "`grad` has shape .3,.; 100 rows x 1 outputs"),
        (lambda margin, data: (np.ones(100), np.ones((100, 2))), XGBoostError, "`hess` has shape"),
        (lambda margin, data: (["x"] * 100, np.ones(100)), XGBoostError, "`grad` must be an array of numbers"),
        (lambda margin, data: None, TypeError, "two arrays, .gradient, hessian."),
        (lambda margin, data: 1 / 0, ZeroDivisionError, "division"),
        (lambda margin: None, TypeError, "positional argument"),
    ],
    ids=["nan g", "nan h", "inf g", "inf h", "short", "wide", "text", "nothing", "raises", "arguments"],
)
def test_bad_custom_objective(objective, error, message, dtrain):
    booster = arboost.Booster(PARAMS, [dtrain])
    with pytest.raises(error, match=message):
        booster.update(dtrain, 0, fobj=objective)
    assert booster.num_boosted_rounds() == 0
    for i in range(2):
        booster.update(dtrain, i)
    assert booster.save_raw() == arboost.train(PARAMS, dtrain, 2).save_raw(), "the failed round left a trace"
    with pytest.raises(error, match=message):
        booster.update(dtrain, 2, fobj=objective)
    booster.update(dtrain, 2)
    assert booster.save_raw() == arboost.train(PARAMS, dtrain, 3).save_raw()


def test_bad_arguments_of_boost(booster, dtrain):
    ones = np.ones(100)
    with pytest.raises(ValueError, match="not both"):
        booster.boost(dtrain, 2, grad=ones, hess=ones, fobj=constant(1, 1))
    for arguments in ({}, {"grad": ones}, {"hess": ones}):
        with pytest.raises(ValueError, match="should have a valid value"):
            booster.boost(dtrain, 2, **arguments)
    with pytest.raises(TypeError, match="DMatrix"):
        booster.boost(X, 2, grad=ones, hess=ones)
    with pytest.raises(TypeError, match="DMatrix"):
        booster.update(X, 2)
    assert booster.num_boosted_rounds() == 2


@pytest.mark.parametrize("gradient", [(0.0, 1.0), (1.0, 0.0), (1.0, -1.0), (0.0, 0.0)])
def test_gradients_without_information_grow_leaves(gradient):
    booster = train(obj=constant(*gradient))
    assert booster.get_score() == {}
    assert np.isfinite(booster.predict(arboost.DMatrix(X))).all()


def test_bad_scalar_loss():
    for function in (lambda margin: margin, lambda margin, label: margin, lambda m, y: (str(m), m), 3):
        with pytest.raises(XGBoostError, match=r"scalar loss|cannot be compiled"):
            arboost.ScalarLoss(function)


def test_bad_custom_metric(dtrain):
    for metric in (lambda p, d: 3, lambda p, d: ("name", "text")):
        with pytest.raises((TypeError, ValueError)):
            arboost.train(PARAMS, dtrain, 1, evals=[(dtrain, "t")], custom_metric=metric, verbose_eval=False)
    assert arboost.train(PARAMS, dtrain, 1).num_boosted_rounds() == 1


# ---- ranges ----


@pytest.mark.parametrize("iteration_range", [(0, 3), (3, 0), (2, 1), (-1, 2), (0, -1), (5, 9)])
def test_bad_iteration_range(iteration_range, booster, dtrain):
    for predict in (
        lambda: booster.predict(dtrain, iteration_range=iteration_range),
        lambda: booster.predict(dtrain, iteration_range=iteration_range, pred_leaf=True),
        lambda: booster.inplace_predict(X, iteration_range=iteration_range),
    ):
        with pytest.raises(XGBoostError, match="out of range"):
            predict()
    with pytest.raises(ValueError):
        booster.predict(dtrain, iteration_range=(1,))
    assert booster.predict(dtrain).shape == (100,)


def test_inconsistent_bins():
    binned = arboost.QuantileDMatrix(X, Y, max_bin=16)
    with pytest.raises(XGBoostError, match="Inconsistent `max_bin`"):
        arboost.train({**PARAMS, "max_bin": 32}, binned, 1)
    assert arboost.train({**PARAMS, "max_bin": 16}, binned, 1).num_boosted_rounds() == 1
