"""The scikit-learn estimators: parameters, `fit`, attributes, files, class labels, early stopping, errors."""

import copy
import inspect
import json
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, mean_absolute_error

import arboost
from arboost import _sklearn_fit as fitting
from arboost.sklearn import XGBClassifier, XGBModel, XGBRanker, XGBRegressor, XGBRFClassifier, XGBRFRegressor

NAMES = ["XGBModel", "XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor"]
OURS = {"class_weight", "early_stopping", "validation_fraction"}  # parameters that XGBoost does not have


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = X[:, 0] * 2 + np.sin(X[:, 1] * 3) + rng.normal(size=300) * 0.3
    return X, y, (y > 0).astype(int), np.digitize(y, [-1, 1])


def small(cls, **params):
    return cls(**{"n_estimators": 6, "max_depth": 3, "n_jobs": 1, **params})


# ---- parameters ----


@pytest.mark.parametrize("name", NAMES)
def test_constructor_and_methods_are_xgboosts(name):
    xgboost = pytest.importorskip("xgboost")
    mine, theirs = getattr(arboost, name), getattr(xgboost, name)
    got = [(p.name, p.kind, repr(p.default)) for p in inspect.signature(mine).parameters.values() if p.name not in OURS]
    assert got == [(p.name, p.kind, repr(p.default)) for p in inspect.signature(theirs).parameters.values()]
    for method in [m for m in dir(theirs) if not m.startswith("_") and callable(getattr(theirs, m))]:
        if method.startswith("set_") and method.endswith("_request"):
            continue
        got, wanted = (inspect.signature(getattr(cls, method)).parameters.values() for cls in (mine, theirs))
        assert [(p.name, p.kind, p.default) for p in got] == [(p.name, p.kind, p.default) for p in wanted], method
    properties = [m for m in dir(theirs) if isinstance(getattr(theirs, m), property) and not m.startswith("_")]
    fitted_plainly = {"classes_"}  # an attribute here
    assert all(isinstance(getattr(mine, m), property) for m in properties if m not in fitted_plainly)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_xgboosts(name):
    xgboost = pytest.importorskip("xgboost")
    mine, theirs = getattr(arboost, name)(), getattr(xgboost, name)()
    params = {key: value for key, value in mine.get_params().items() if key not in OURS}
    assert repr(sorted(params.items())) == repr(sorted(theirs.get_params().items()))
    assert repr(sorted(mine.get_xgb_params().items())) == repr(sorted(theirs.get_xgb_params().items()))
    assert mine.get_num_boosting_rounds() == theirs.get_num_boosting_rounds()


def test_our_parameters_come_last_and_change_nothing():
    names = list(inspect.signature(XGBModel).parameters)
    assert names[-3:] == ["early_stopping", "validation_fraction", "kwargs"]
    assert list(inspect.signature(XGBClassifier).parameters) == ["objective", "class_weight", "kwargs"]
    assert not OURS & set(XGBClassifier().get_xgb_params())


def test_docstrings_name_every_parameter():
    for name in NAMES:
        cls = getattr(arboost, name)
        assert all(f"    {parameter} : " in cls.__doc__ for parameter in cls().get_params())
    assert "subsample : float, default 0.8" in XGBRFRegressor.__doc__


def test_unknown_parameters_travel_as_kwargs(data):
    X, y, *_ = data
    model = small(XGBRegressor, tweedie_variance_power=1.3, objective="reg:tweedie")
    assert model.kwargs == {"tweedie_variance_power": 1.3}
    assert model.get_params()["tweedie_variance_power"] == 1.3
    assert clone(model).get_xgb_params()["tweedie_variance_power"] == 1.3
    model.set_params(tweedie_variance_power=1.7, max_depth=2, eta=0.1)
    assert (model.max_depth, model.kwargs) == (2, {"tweedie_variance_power": 1.7, "eta": 0.1})
    model.fit(X, np.exp(y))
    config = json.loads(model.get_booster().save_config())["learner"]
    assert float(config["objective"]["tweedie_regression_param"]["tweedie_variance_power"]) == pytest.approx(1.7)
    assert float(config["gradient_booster"]["tree_train_param"]["eta"]) == pytest.approx(0.1)


class Shifted(XGBRegressor):
    """A user's own estimator, with a parameter more."""

    def __init__(self, *, shift=0.0, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift

    def predict(self, X, **kwargs):
        return super().predict(X, **kwargs) + self.shift


def test_subclasses_have_all_parameters(data):
    X, y, *_ = data
    model = clone(small(Shifted, shift=2.0, eta=0.1))
    assert (model.shift, model.max_depth, model.kwargs) == (2.0, 3, {"eta": 0.1})
    plain = small(XGBRegressor, eta=0.1).fit(X, y).predict(X)
    with pytest.warns(UserWarning, match="shift"):  # as in XGBoost it also goes to the booster, which does not know it
        np.testing.assert_array_equal(model.fit(X, y).predict(X), plain + 2)


def test_a_fitted_model_takes_new_parameters(data):
    X, y, *_ = data
    model = small(XGBRegressor).fit(X, y)
    assert model.set_params(n_jobs=2) is model
    assert json.loads(model.get_booster().save_config())["learner"]["generic_param"]["nthread"] == "2"
    assert model.set_params() is model


def test_fit_changes_no_parameter(data):
    X, _, _, classes = data
    model = small(XGBClassifier, random_state=np.random.RandomState(1))
    before = model.get_params()
    model.fit(X, classes)
    assert model.get_params() == before
    assert model.get_xgb_params()["objective"] == "multi:softprob"


@pytest.mark.parametrize("seed", [np.random.RandomState(3), np.random.default_rng(3), 3])
def test_random_states(data, seed):
    X, y, *_ = data
    first, second = (small(XGBRegressor, subsample=0.5, random_state=copy.deepcopy(seed)).fit(X, y) for _ in range(2))
    other = small(XGBRegressor, subsample=0.5, random_state=99).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert not np.array_equal(first.predict(X), other.predict(X))
    assert isinstance(first.get_xgb_params()["random_state"], int)


def test_positional_arguments_warn_as_xgboosts(data):
    X, y, *_ = data
    with pytest.warns(FutureWarning, match="Pass `objective` as keyword args"):
        assert XGBRegressor("reg:absoluteerror").objective == "reg:absoluteerror"
    with pytest.warns(FutureWarning, match="Pass `sample_weight` as keyword args"):
        small(XGBRegressor).fit(X, y, np.ones(300))


# ---- fit ----


def test_evaluation_sets(data, capsys):
    X, y, *_ = data
    w, m = np.linspace(0.5, 2, 300), np.full(300, 0.7)
    model = small(XGBRegressor, eval_metric=["mae", "rmse"])
    model.fit(
        X, y, eval_set=[(X, y), (X[:90], y[:90])], sample_weight=w, sample_weight_eval_set=[w, w[:90]],
        base_margin=m, base_margin_eval_set=[m, m[:90]], verbose=3,
    )  # fmt: skip
    result = model.evals_result()
    assert [(name, list(scores)) for name, scores in result.items()] == [
        ("validation_0", ["mae", "rmse"]),
        ("validation_1", ["mae", "rmse"]),
    ]
    error = model.predict(X[:90], base_margin=m[:90]) - y[:90]
    assert result["validation_1"]["rmse"][-1] == pytest.approx(np.sqrt(np.average(error**2, weights=w[:90])), rel=1e-5)
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["[0]", "[3]", "[5]"]
    assert not hasattr(model.fit(X, y), "evals_result_")
    with pytest.raises(arboost.core.XGBoostError, match="No evaluation result"):
        model.evals_result()


def test_training_matrix_is_reused_for_the_same_evaluation_set(data, monkeypatch):
    X, _, labels, _ = data
    made = []
    monkeypatch.setattr(arboost.sklearn, "QuantileDMatrix", _counting(arboost.QuantileDMatrix, made))
    weight = np.ones(300)
    fit = small(XGBClassifier).fit
    fit(X, labels, eval_set=[(X, labels)], verbose=False)
    assert len(made) == 1
    fit(X, labels, sample_weight=weight, eval_set=[(X, labels), (X, labels)], sample_weight_eval_set=[weight, None],
        verbose=False)  # fmt: skip
    assert len(made) == 3
    assert made[2]["ref"] is not None and made[1]["ref"] is None
    small(XGBClassifier, class_weight="balanced").fit(X, labels, eval_set=[(X, labels)], verbose=False)
    assert len(made) == 5, "class weights are not those of the evaluation set"


def _counting(cls, made):
    def make(**fields):
        made.append(fields)
        return cls(**fields)

    return make


def test_custom_objective_and_metric(data):
    X, y, labels, _ = data

    def squared(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    def weighted(y_true, y_pred, sample_weight=None):
        w = 1.0 if sample_weight is None else sample_weight
        return (y_pred - y_true) * w, np.ones_like(y_true) * w

    plain = small(XGBRegressor, base_score=0.5).fit(X, y).predict(X)
    np.testing.assert_allclose(small(XGBRegressor, objective=squared).fit(X, y).predict(X), plain, rtol=1e-5)
    w = np.linspace(0.5, 2, 300)
    with pytest.raises(ValueError, match="doesn't have the `sample_weight` parameter"):
        small(XGBRegressor, objective=squared).fit(X, y, sample_weight=w)
    given = small(XGBRegressor, objective=weighted).fit(X, y, sample_weight=w).predict(X)
    expected = small(XGBRegressor, base_score=0.5).fit(X, y, sample_weight=w).predict(X)
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)

    model = small(XGBClassifier, eval_metric=["error", log_loss])
    model.fit(X, labels, eval_set=[(X, labels)], sample_weight_eval_set=[w], verbose=False)
    scores = model.evals_result()["validation_0"]
    assert list(scores) == ["error", "log_loss"]
    assert scores["log_loss"][-1] == pytest.approx(log_loss(labels, model.predict_proba(X), sample_weight=w), rel=1e-5)
    assert list(small(XGBRegressor, eval_metric=mean_absolute_error).fit(X, y, eval_set=[(X, y)], verbose=False)
                .evals_result()["validation_0"]) == ["rmse", "mean_absolute_error"]  # fmt: skip


def test_custom_objective_of_a_classifier_predicts_probabilities(data):
    X, _, labels, classes = data

    def logistic(y_true, y_pred):
        p = 1 / (1 + np.exp(-y_pred))
        return p - y_true, p * (1 - p)

    proba = small(XGBClassifier, objective=logistic).fit(X, labels).predict_proba(X)
    assert proba.shape == (300, 2) and proba.min() > 0 and ((proba[:, 1] > 0.5) == labels).mean() > 0.9

    def softmax(y_true, y_pred):
        assert y_pred.shape == (300, 3)
        p = np.exp(y_pred) / np.exp(y_pred).sum(axis=1, keepdims=True)
        return p - np.eye(3)[y_true.astype(int)], np.maximum(2 * p * (1 - p), 1e-6)

    model = small(XGBClassifier, objective=softmax).fit(X, classes)
    assert model.predict_proba(X).shape == (300, 3) and model.score(X, classes) > 0.8


def test_our_own_objects_as_objective(data):
    X, y, *_ = data

    class Squared(arboost.objective.Objective):
        def __call__(self, iteration, y_pred, dtrain):
            return y_pred - dtrain.get_label(), np.ones_like(y_pred)

    expected = small(XGBRegressor, base_score=0.5).fit(X, y).predict(X)
    np.testing.assert_allclose(small(XGBRegressor, objective=Squared()).fit(X, y).predict(X), expected, rtol=1e-5)
    loss = arboost.ScalarLoss(lambda margin, label: (margin - label, 1.0))
    np.testing.assert_allclose(small(XGBRegressor, objective=loss).fit(X, y).predict(X), expected, rtol=1e-5)


def test_continued_training(data, tmp_path):
    X, y, *_ = data
    whole = small(XGBRegressor, n_estimators=8).fit(X, y)
    half = small(XGBRegressor, n_estimators=4).fit(X, y)
    half.save_model(tmp_path / "half.ubj")
    for model in (half, half.get_booster(), str(tmp_path / "half.ubj")):
        continued = small(XGBRegressor, n_estimators=4).fit(X, y, xgb_model=model)
        np.testing.assert_array_equal(continued.predict(X), whole.predict(X))
    assert half.get_booster().num_boosted_rounds() == 4


def test_continued_training_keeps_the_classes(data):
    X, _, _, classes = data
    names = np.array(["hot", "mild", "cold"])[classes]
    first = small(XGBClassifier).fit(X, names)
    part = names != "mild"
    second = small(XGBClassifier).fit(X[part], names[part], xgb_model=first)
    assert second.classes_.tolist() == ["cold", "hot", "mild"]
    assert second.get_booster().num_boosted_rounds() == 12
    with pytest.raises(ValueError, match="not among the classes"):
        small(XGBClassifier).fit(X, np.where(part, names, "rain"), xgb_model=first)
    numbered = small(XGBClassifier).fit(X, classes)
    assert small(XGBClassifier).fit(X[part], classes[part], xgb_model=numbered).n_classes_ == 3


def test_categories(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, _, labels, _ = data
    colours = np.array(["red", "green", "blue", "grey"])[np.digitize(X[:, 4], [-0.7, 0, 0.7])]
    frame = pandas.DataFrame({"x": X[:, 0], "colour": pandas.Categorical(colours)})
    y = X[:, 0] + 3 * np.isin(colours, ["red", "blue"])
    recoded = frame.assign(colour=pandas.Categorical(colours, categories=["grey", "red", "green", "blue"]))
    with pytest.raises(ValueError, match="enable_categorical"):
        small(XGBRegressor).fit(frame, y)
    model = small(XGBRegressor, enable_categorical=True, max_cat_to_onehot=1)
    model.fit(frame, y, eval_set=[(frame, y), (recoded, y)], verbose=False)
    first, second = model.evals_result().values()
    assert first == second and first["rmse"][-1] < 0.6
    np.testing.assert_array_equal(model.predict(recoded[["colour", "x"]]), model.predict(frame))
    np.testing.assert_array_equal(model.apply(recoded), model.apply(frame))
    model.save_model(tmp_path / "model.ubj")
    loaded = XGBRegressor()
    loaded.load_model(tmp_path / "model.ubj")
    assert loaded.enable_categorical and loaded.feature_types == ["float", "c"]
    np.testing.assert_array_equal(loaded.predict(recoded), model.predict(frame))
    onwards = [clone(model).fit(part, y, xgb_model=model).predict(part) for part in (frame, recoded[["colour", "x"]])]
    np.testing.assert_array_equal(*onwards)
    stopped = small(XGBClassifier, enable_categorical=True, early_stopping=True).fit(frame, labels, verbose=False)
    assert stopped.score(recoded, labels) > 0.7
    coded = np.column_stack([X[:, 0], frame.colour.cat.codes]).astype(np.float32)
    by_type = small(XGBRegressor, feature_types=["q", "c"], enable_categorical=True, max_cat_to_onehot=1).fit(coded, y)
    np.testing.assert_array_equal(by_type.predict(coded), model.predict(frame))


def test_feature_weights(data):
    X, y, *_ = data
    weights = np.array([0, 0, 0, 0, 1.0])
    model = small(XGBRegressor, colsample_bytree=0.2, feature_weights=weights).fit(X, y)
    assert model.feature_importances_.argmax() == 4
    with pytest.warns(UserWarning, match="`feature_weights` in `fit` method is deprecated"):
        old = small(XGBRegressor, colsample_bytree=0.2).fit(X, y, feature_weights=weights)
    np.testing.assert_array_equal(old.predict(X), model.predict(X))
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="2 different `feature_weights`"):
        model.fit(X, y, feature_weights=weights)


@pytest.mark.parametrize("kind", ["list", "csr", "float64", "fortran"])
def test_kinds_of_input(data, kind):
    X, y, *_ = data
    make = {
        "list": lambda a: a.tolist(),
        "csr": scipy.sparse.csr_matrix,
        "float64": np.float64,
        "fortran": np.asfortranarray,
    }
    expected = small(XGBRegressor).fit(X, y).predict(X)
    given = make[kind](X)
    np.testing.assert_allclose(small(XGBRegressor).fit(given, list(y)).predict(given), expected, rtol=1e-6)


def test_missing_values(data):
    X, y, *_ = data
    holes, marked = X.copy(), X.copy()
    holes[::3, 0], marked[::3, 0] = np.nan, -999
    with_nan = small(XGBRegressor).fit(holes, y).predict(holes)
    np.testing.assert_array_equal(small(XGBRegressor, missing=-999).fit(marked, y).predict(marked), with_nan)


def test_frames_give_names(data):
    pandas = pytest.importorskip("pandas")
    X, y, *_ = data
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = small(XGBRegressor).fit(
        frame, pandas.Series(y), eval_set=[(frame[:50], pandas.Series(y[:50]))], verbose=False
    )
    assert model.feature_names_in_.tolist() == list("abcde") and model.n_features_in_ == 5
    np.testing.assert_array_equal(model.predict(frame), model.predict(X))
    with pytest.raises(ValueError, match="feature_names mismatch"):
        model.predict(frame.rename(columns={"a": "z"}))
    assert not hasattr(small(XGBRegressor).fit(X, y), "feature_names_in_")


# ---- attributes and prediction ----


def test_attributes_before_and_after(data):
    X, y, labels, _ = data
    model = small(XGBRegressor)
    assert not model.__sklearn_is_fitted__() and not hasattr(model, "n_features_in_")
    for use in (model.get_booster, lambda: model.predict(X), lambda: model.apply(X), lambda: model.intercept_):
        with pytest.raises(NotFittedError, match="need to call fit or load_model beforehand"):
            use()
    assert model.fit(X, y) is model and model.__sklearn_is_fitted__()
    assert model.n_features_in_ == 5 and isinstance(model.get_booster(), arboost.Booster)
    assert model.intercept_.dtype == np.float32 and model.intercept_ == pytest.approx([y.mean()], rel=1e-5)
    with pytest.raises(AttributeError, match="Coefficients are not defined for Booster type None"):
        _ = model.coef_
    for name in ("best_iteration", "best_score"):
        with pytest.raises(AttributeError, match=f"`{name}` is only defined when early stopping is used"):
            getattr(model, name)
    classifier = small(XGBClassifier)
    assert not hasattr(classifier, "classes_")
    assert classifier.fit(X, labels).classes_.tolist() == [0, 1] and classifier.n_classes_ == 2
    assert is_classifier(classifier) and is_regressor(model) and not is_classifier(model)


@pytest.mark.parametrize("kind", [None, "gain", "weight", "cover", "total_gain", "total_cover"])
def test_importances(data, kind):
    X, y, *_ = data
    model = small(XGBRegressor, importance_type=kind).fit(X, y)
    scores = model.get_booster().get_score(importance_type=kind or "gain")
    expected = np.array([scores.get(f"f{i}", 0) for i in range(5)])
    assert model.feature_importances_.dtype == np.float32
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-6)


def test_importances_of_a_model_without_splits(data):
    X, y, *_ = data
    assert small(XGBRegressor, gamma=1e9).fit(X, y).feature_importances_.tolist() == [0.0] * 5


def test_prediction_arguments(data):
    X, _, labels, _ = data
    model = small(XGBClassifier).fit(X, labels)
    booster, matrix = model.get_booster(), arboost.DMatrix(X)
    margin = booster.predict(matrix, output_margin=True)
    np.testing.assert_array_equal(model.predict(X, output_margin=True), margin)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], booster.predict(matrix))
    first = booster.predict(matrix, iteration_range=(0, 2))
    np.testing.assert_array_equal(model.predict_proba(X, iteration_range=(0, 2))[:, 1], first)
    np.testing.assert_array_equal(model.predict(X, iteration_range=(0, 2)), first > 0.5)
    shifted = model.predict(X, output_margin=True, base_margin=np.full(300, 2.0, np.float32))
    assert np.allclose(shifted - margin, (shifted - margin)[0], atol=1e-5)
    np.testing.assert_array_equal(model.apply(X), booster.predict(matrix, pred_leaf=True))
    assert model.apply(X, (0, 2)).shape == (300, 2)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob", "binary:logistic"])
def test_several_classes(data, objective):
    X, _, _, classes = data
    model = small(XGBClassifier, objective=objective).fit(X, classes)
    proba = model.predict_proba(X)
    assert proba.dtype == np.float32 and proba.shape == (300, 3) and model.predict(X).dtype == np.int64
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))
    assert model.predict(X, output_margin=True).shape == (300, 3)


@pytest.mark.parametrize("objective", ["binary:logitraw", "binary:hinge", "reg:squarederror", "multi:softprob"])
def test_other_objectives_for_two_classes(data, objective):
    X, _, labels, _ = data
    model = small(XGBClassifier, objective=objective).fit(X, labels)
    proba = model.predict_proba(X)
    assert proba.shape == (300, 2) and model.score(X, labels) > 0.7
    np.testing.assert_array_equal(model.predict(X), proba[:, 1] > 0.5)
    if objective == "binary:logitraw":
        assert proba.min() > 0 and proba.max() < 1


def test_several_labels_and_targets(data):
    X, y, labels, _ = data
    Y = np.column_stack([labels, X[:, 2] > 0, X[:, 3] > 0.5]).astype(int)
    model = small(XGBClassifier).fit(X, Y, eval_set=[(X, Y)], verbose=False)
    assert model.predict_proba(X).shape == (300, 3)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    for k in range(3):
        alone = small(XGBClassifier).fit(X, Y[:, k])
        np.testing.assert_allclose(model.predict_proba(X)[:, k], alone.predict_proba(X)[:, 1], rtol=1e-5)
    with pytest.raises(ValueError, match="not among the classes"):
        small(XGBClassifier).fit(X, Y * 3)
    targets = np.column_stack([y, -y])
    assert small(XGBRegressor).fit(X, targets).predict(X).shape == (300, 2)


def test_forests(data):
    X, y, labels, _ = data
    forest = XGBRFClassifier(n_estimators=7, n_jobs=1).fit(X, labels)
    assert forest.get_booster().num_boosted_rounds() == 1 and len(forest.get_booster().get_dump()) == 7
    assert forest.get_xgb_params()["num_parallel_tree"] == 7 and forest.get_num_boosting_rounds() == 1
    params = {"num_parallel_tree": 5, "eta": 1, "subsample": 0.8, "colsample_bynode": 0.8, "reg_lambda": 1e-5}
    booster = arboost.train({**params, "nthread": 1}, arboost.DMatrix(X, y), 1)
    regressor = XGBRFRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(regressor.predict(X), booster.predict(arboost.DMatrix(X)))
    for params in ({"early_stopping_rounds": 2}, {"callbacks": []}, {"early_stopping": True}):
        with pytest.raises(NotImplementedError, match="random forest"):
            XGBRFRegressor(**params)
    with pytest.raises(NotImplementedError, match="random forest"):
        XGBRFRegressor().set_params(early_stopping_rounds=3).fit(X, y)


# ---- class labels ----

LABELS = {
    "strings": ["no", "yes"],
    "objects": np.array(["no", "yes"], dtype=object),
    "signs": [-1, 1],
    "gaps": [3, 700],
    "bool": [False, True],
    "float": [0.0, 1.0],
    "far floats": [2.0, 5.0],
}


@pytest.mark.parametrize("kind", sorted(LABELS))
@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_labels_of_any_kind_survive_the_file(data, tmp_path, kind, ending):
    X, _, codes, _ = data
    names = np.asarray(LABELS[kind])
    model = small(XGBClassifier).fit(X, names[codes], eval_set=[(X, names[codes])], verbose=False)
    np.testing.assert_array_equal(model.classes_, names)
    expected = small(XGBClassifier).fit(X, codes)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), names[expected.predict(X)])
    model.save_model(tmp_path / f"model.{ending}")
    loaded = XGBClassifier()
    loaded.load_model(tmp_path / f"model.{ending}")
    assert loaded.classes_.dtype == model.classes_.dtype and loaded.n_classes_ == 2
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_labels_stay_with_the_booster(data):
    X, _, _, classes = data
    names = np.array(["rot", "grün", "blau"])[classes]
    model = small(XGBClassifier).fit(X, names)
    other = XGBClassifier()
    other.load_model(model.get_booster().save_raw("json"))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert model.get_booster().attr("class_labels") is not None
    assert small(XGBClassifier).fit(X, classes).get_booster().attributes() == {}


def test_xgboost_reads_models_with_labels(data, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, _, _, classes = data
    model = small(XGBClassifier).fit(X, np.array(["a", "b", "c"])[classes])
    model.save_model(tmp_path / "model.json")
    theirs = xgboost.XGBClassifier()
    theirs.load_model(tmp_path / "model.json")
    np.testing.assert_allclose(theirs.predict_proba(X), model.predict_proba(X), rtol=1e-5)
    theirs.save_model(tmp_path / "again.ubj")
    back = XGBClassifier()
    back.load_model(tmp_path / "again.ubj")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_pandas_labels(data):
    pandas = pytest.importorskip("pandas")
    X, _, codes, _ = data
    names = np.array(["no", "yes"])[codes]
    for y in (pandas.Series(names), pandas.Series(names, dtype="category"), pandas.DataFrame({"y": names})):
        np.testing.assert_array_equal(small(XGBClassifier).fit(X, y).classes_, ["no", "yes"])
    with pytest.raises(ValueError, match="y contains NaN"):
        small(XGBClassifier).fit(X, pandas.Series(np.where(codes, 1, None), dtype="Int64"))


def test_one_class_is_certain(data):
    X = data[0]
    model = small(XGBClassifier).fit(X, np.full(300, "only"))
    assert set(model.predict(X)) == {"only"}
    assert model.predict_proba(X).tolist() == [[1.0]] * 300


def test_damaged_labels_in_a_file(data):
    X, _, codes, _ = data
    booster = small(XGBClassifier).fit(X, codes).get_booster()
    for text in ("{", "3", '{"dtype": "nonsense", "values": []}', '{"dtype": "<i8", "values": [1, 2, 3]}'):
        booster.set_attr(class_labels=text)
        with pytest.raises(arboost.core.XGBoostError, match="class_labels"):
            XGBClassifier().load_model(booster.save_raw())


@pytest.mark.parametrize("class_weight", ["balanced", {"no": 2.0, "yes": 0.5}, {"yes": 3}])
def test_class_weight(data, class_weight):
    from sklearn.utils.class_weight import compute_sample_weight

    X, y, *_ = data
    labels = np.where(y > 1.5, "yes", "no")
    w = np.linspace(0.5, 2, 300)
    by_class = compute_sample_weight(class_weight, labels)
    model = small(XGBClassifier, class_weight=class_weight).fit(X, labels)
    expected = small(XGBClassifier).fit(X, labels, sample_weight=by_class)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-5)
    if class_weight != "balanced":  # which balances the sums of weights, not the numbers of rows
        model.fit(X, labels, sample_weight=w)
        expected.fit(X, labels, sample_weight=by_class * w)
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-5)


def test_balanced_classes_have_equal_weight():
    codes, w = np.array([0, 0, 0, 1, 3]), np.array([1.0, 2, 3, 4, 5])
    found = fitting.class_weights("balanced", np.arange(4), codes, w)
    np.testing.assert_allclose(np.bincount(codes, found), [5, 5, 0, 5])
    labels = np.array([[0, 1], [0, 0], [1, 1], [0, 0], [1, 1]])
    from sklearn.utils.class_weight import compute_sample_weight

    found = fitting.class_weights("balanced", np.arange(2), labels, None)
    np.testing.assert_allclose(found, compute_sample_weight("balanced", labels))


@pytest.mark.parametrize("class_weight", ["equal", 3, {"maybe": 2}, [1, 2]])
def test_bad_class_weight(data, class_weight):
    X, _, codes, _ = data
    with pytest.raises(ValueError, match="class_weight"):
        small(XGBClassifier, class_weight=class_weight).fit(X, np.array(["no", "yes"])[codes])


# ---- early stopping ----


def test_early_stopping_on_an_evaluation_set(data):
    X, _, labels, _ = data
    model = XGBClassifier(n_estimators=200, early_stopping_rounds=3, eval_metric=["auc", "logloss"], n_jobs=1)
    model.fit(X[:200], labels[:200], eval_set=[(X[200:], labels[200:])], verbose=False)
    scores = model.evals_result()["validation_0"]["logloss"]
    assert model.best_iteration == int(np.argmin(scores)) == len(scores) - 4
    assert model.best_score == pytest.approx(min(scores))
    rounds = (0, model.best_iteration + 1)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X, iteration_range=rounds))
    assert model.apply(X).shape == (300, rounds[1])
    every = model.predict_proba(X, iteration_range=(0, len(scores)))
    assert not np.array_equal(every, model.predict_proba(X))
    with pytest.raises(ValueError, match="at least 1 validation"):
        small(XGBClassifier, early_stopping_rounds=3).fit(X, labels)


def test_early_stopping_on_rows_set_aside(data):
    X, _, labels, _ = data
    model = XGBClassifier(n_estimators=300, early_stopping=True, validation_fraction=0.25, random_state=7, n_jobs=1)
    model.fit(X, labels, verbose=False)
    scores = model.evals_result()["validation_0"]["logloss"]
    assert len(scores) < 300 and model.best_iteration == len(scores) - 11
    train, valid = fitting.split_rows(300, 0.25, 7, labels)
    explicit = XGBClassifier(n_estimators=300, early_stopping_rounds=10, random_state=7, n_jobs=1)
    explicit.fit(X[train], labels[train], eval_set=[(X[valid], labels[valid])], verbose=False)
    np.testing.assert_array_equal(explicit.predict_proba(X), model.predict_proba(X))
    again = clone(model).fit(X, labels, verbose=False)
    assert again.best_iteration == model.best_iteration
    shorter = clone(model).set_params(early_stopping_rounds=2).fit(X, labels, verbose=False)
    assert len(shorter.evals_result()["validation_0"]["logloss"]) <= len(scores)
    given = clone(model).fit(X, labels, eval_set=[(X, labels), (X[:99], labels[:99])], verbose=False)
    assert list(given.evals_result()) == ["validation_0", "validation_1"], "a given evaluation set is used instead"


def test_rows_set_aside_keep_their_weights_and_margins(data):
    X, y, *_ = data
    w, margin = np.linspace(0.5, 2, 300), np.linspace(-1, 1, 300)
    model = small(XGBRegressor, early_stopping=True).fit(X, y, sample_weight=w, base_margin=margin, verbose=False)
    _, valid = fitting.split_rows(300, 0.1, 0, None)
    error = model.predict(X[valid], base_margin=margin[valid]) - y[valid]
    assert model.best_score == pytest.approx(np.sqrt(np.average(error**2, weights=w[valid])), rel=1e-5)


def test_split_of_rows():
    strata = np.repeat([0, 1, 2, 3], [500, 40, 2, 1])
    train, valid = fitting.split_rows(len(strata), 0.1, 0, strata)
    assert sorted([*train, *valid]) == list(range(len(strata)))
    assert np.bincount(strata[valid], minlength=4).tolist() == [50, 4, 1, 0], "every class, but a single row stays"
    assert not np.array_equal(valid, fitting.split_rows(len(strata), 0.1, 1, strata)[1])
    for fraction in (0.0, 1.0, -1, 2):
        with pytest.raises(ValueError, match="validation_fraction"):
            fitting.split_rows(10, fraction, 0, None)


def test_nothing_is_lost_on_interrupt(data):
    X, _, labels, _ = data

    class Stop(arboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 3:
                raise KeyboardInterrupt
            return False

    model = XGBClassifier(n_estimators=50, callbacks=[Stop()], n_jobs=1)
    names = np.array(["no", "yes"])[labels]
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, names, eval_set=[(X, names)], verbose=False)
    assert model.get_booster().num_boosted_rounds() == 4
    assert set(model.predict(X)) == {"no", "yes"} and len(model.evals_result()["validation_0"]["logloss"]) >= 3


# ---- files and copies ----


def test_files(data, tmp_path):
    X, y, *_ = data
    model = small(XGBRegressor).fit(X, y)
    model.save_model(tmp_path / "model.json")
    saved = json.loads((tmp_path / "model.json").read_text())
    assert saved["learner"]["attributes"] == {"scikit_learn": '{"_estimator_type": "regressor"}'}
    assert model.get_booster().attributes() == {}
    loaded = XGBRegressor(n_jobs=1)
    loaded.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert (loaded.objective, loaded.booster, loaded.base_score) == ("reg:squarederror", "gbtree", None)
    assert loaded.get_booster().attributes() == {}
    with pytest.raises(TypeError, match=r"different type\. Expecting: classifier, got: regressor"):
        XGBClassifier().load_model(tmp_path / "model.json")
    classifier = XGBClassifier()
    classifier.load_model(small(XGBClassifier).fit(X, data[3]).get_booster().save_raw())
    assert classifier.n_classes_ == 3 and classifier.classes_.tolist() == [0, 1, 2]
    assert classifier.objective == "multi:softprob"


@pytest.mark.parametrize("note", ["[]", "{", "7"])
def test_a_file_with_a_damaged_note_of_its_estimator(note, data):
    booster = small(XGBRegressor).fit(data[0], data[1]).get_booster()
    booster.set_attr(scikit_learn=note)
    with pytest.raises(arboost.core.XGBoostError, match=r"attributes\.scikit_learn: an object in JSON was expected"):
        XGBRegressor().load_model(booster.save_raw())


def test_a_failed_load_leaves_the_model(data, tmp_path):
    X, y, labels, _ = data
    small(XGBClassifier).fit(X, labels).save_model(tmp_path / "other.ubj")
    model = small(XGBRegressor).fit(X, y)
    before = model.predict(X)
    with pytest.raises(TypeError):
        model.load_model(tmp_path / "other.ubj")
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("how", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(data, how):
    X, _, labels, _ = data
    model = XGBClassifier(n_estimators=50, early_stopping_rounds=3, n_jobs=1)
    model.fit(X[:200], labels[:200], eval_set=[(X[200:], labels[200:])], verbose=False)
    twin = how(model)
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert (twin.best_iteration, twin.evals_result()) == (model.best_iteration, model.evals_result())
    assert repr(twin.get_params()) == repr(model.get_params())
    fresh = clone(model)
    assert not fresh.__sklearn_is_fitted__() and repr(fresh.get_params()) == repr(model.get_params())


# ---- ranking ----


def test_ranker_with_an_objective_of_today(data):
    X, y, *_ = data
    qid = np.repeat(np.arange(30), 10)
    model = small(XGBRanker, objective="reg:squarederror")
    by_qid = model.fit(X, y, qid=qid, eval_set=[(X, y)], eval_qid=[qid]).predict(X)
    by_group = small(XGBRanker, objective="reg:squarederror").fit(X, y, group=np.full(30, 10)).predict(X)
    np.testing.assert_array_equal(by_qid, by_group)
    assert list(model.evals_result()["validation_0"]) == ["rmse"]
    weighted = small(XGBRanker, objective="reg:squarederror").fit(X, y, qid=qid, sample_weight=np.linspace(1, 9, 30))
    rows = small(XGBRegressor).fit(X, y, sample_weight=np.repeat(np.linspace(1, 9, 30), 10))
    np.testing.assert_array_equal(weighted.predict(X), rows.predict(X))


def test_ranker_takes_qid_from_a_frame(data):
    pandas = pytest.importorskip("pandas")
    X, y, *_ = data
    qid = np.repeat(np.arange(30), 10)
    frame = pandas.DataFrame(X, columns=list("abcde")).assign(qid=qid)
    model = small(XGBRanker, objective="reg:squarederror").fit(frame, y, eval_set=[(frame, y)])
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.drop(columns="qid")))
    assert model.apply(frame).shape == (300, 6)
    assert model.score(frame, y) == pytest.approx(np.sqrt(np.mean((model.predict(frame) - y) ** 2)), rel=1e-5)
    with pytest.raises(ValueError, match="both the special column `qid`"):
        model.fit(frame, y, qid=qid)


def test_ranker_metric_of_ones_own(data):
    from sklearn.metrics import ndcg_score

    X, y, *_ = data
    sizes = np.array([1, 99, 150, 50])
    relevance = np.clip(np.digitize(y, [-1, 0, 1, 2]), 0, 4)

    def ndcg(y_true, y_score):
        return ndcg_score([y_true], [y_score])

    model = small(XGBRanker, objective="reg:squarederror", eval_metric=ndcg, early_stopping_rounds=50)
    model.fit(X, relevance, group=sizes, eval_set=[(X, relevance)], eval_group=[sizes])
    assert list(model.evals_result()["validation_0"]) == ["rmse", "ndcg"]
    scores = model.predict(X, iteration_range=(0, 6))
    ends = np.cumsum(sizes)
    each = [1.0] + [ndcg(relevance[b - n : b], scores[b - n : b]) for n, b in zip(sizes[1:], ends[1:])]
    assert model.evals_result()["validation_0"]["ndcg"][-1] == pytest.approx(np.average(each, weights=sizes), rel=1e-6)


def test_ranker_sets_whole_groups_aside(data):
    X, y, *_ = data
    sizes = np.tile([5, 10, 15], 10)
    model = small(XGBRanker, objective="reg:squarederror", early_stopping=True, validation_fraction=0.2)
    model.fit(X, y, group=sizes, sample_weight=np.linspace(1, 2, 30))
    _, groups = fitting.split_rows(30, 0.2, 0, None)
    rows = np.isin(np.repeat(np.arange(30), sizes), groups)
    weights = np.repeat(np.linspace(1, 2, 30), sizes)[rows]
    expected = np.sqrt(np.average((model.predict(X[rows]) - y[rows]) ** 2, weights=weights))
    assert model.best_score == pytest.approx(expected, rel=1e-5)


def test_ranker_refuses(data):
    X, y, *_ = data
    with pytest.raises(ValueError, match="Either `group` or `qid` is required for ranking task"):
        XGBRanker().fit(X, y)
    with pytest.raises(ValueError, match="must be sorted in non-decreasing order"):
        XGBRanker().fit(X, y, qid=np.arange(300)[::-1])
    with pytest.raises(ValueError, match="Invalid query group structure"):
        XGBRanker().fit(X, y, group=[10, 20])


# ---- bad input ----

BAD_FITS = {
    "lengths": (lambda X, y: (X, y[:-1]), "(?s)label"),
    "no columns": (lambda X, y: (X[:, :0], y), "0 feature"),
    "no y": (lambda X, y: (X, None), "requires y to be passed, but the target y is None"),
    "NaN in y": (lambda X, y: (X, np.where(y > 0, np.nan, y)), "NaN"),
    "infinite y": (lambda X, y: (X, np.where(y > 0, np.inf, y)), "infinity"),
    "complex X": (lambda X, y: (X + 1j, y), "Complex data not supported"),
    "complex y": (lambda X, y: (X, y + 1j), "complex|Complex"),
    "3-d X": (lambda X, y: (X.reshape(30, 10, 5), y[:30]), "2-dimensional"),
    "1-d X": (lambda X, y: (X[:, 0], y), "2-dimensional"),
    "3-d y": (lambda X, y: (X, np.ones((300, 2, 2))), "shape"),
    "dates": (lambda X, y: (np.full((300, 2), np.datetime64("2020-01-01")), y), "datetime64"),
    "strings": (lambda X, y: (np.full((300, 2), "a"), y), "dtype|convert|string"),
}


@pytest.mark.parametrize("case", sorted(BAD_FITS))
@pytest.mark.parametrize("cls", [XGBClassifier, XGBRegressor])
def test_bad_data(data, case, cls):
    X, y, labels, _ = data
    spoil, message = BAD_FITS[case]
    arguments = spoil(X, (labels if cls is XGBClassifier else y).astype(float))
    model = small(cls)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*arguments)
    assert not model.__sklearn_is_fitted__()


def test_bad_labels(data):
    X, y, labels, _ = data
    fit = small(XGBClassifier).fit
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fit(X, y)
    with pytest.raises(ValueError, match="no order"):
        fit(X, np.array([1, "a"] * 150, dtype=object))
    with pytest.raises(ValueError, match="NaN"):
        fit(X, np.array(["a", None] * 150, dtype=object))
    with pytest.raises(ValueError, match=r"y of eval_set\[1\] contains labels that are not among .*: \[2\]"):
        fit(X, labels, eval_set=[(X, labels), (X, labels + 1)])
    with pytest.raises(ValueError, match="not among the classes"):
        fit(X, np.array(["no", "yes"])[labels], eval_set=[(X, labels)])


def test_bad_arguments(data):
    X, y, *_ = data
    fit = small(XGBRegressor).fit
    with pytest.raises(ValueError, match="`eval_set` is not set but"):
        fit(X, y, sample_weight_eval_set=[None])
    with pytest.raises(ValueError, match="base_margin_eval_set's length does not equal `eval_set`'s length"):
        fit(X, y, eval_set=[(X, y)], base_margin_eval_set=[None, None])
    with pytest.raises(ValueError, match=r"list of \(X, y\) pairs"):
        fit(X, y, eval_set=[X, y])
    with pytest.raises(TypeError, match="unexpected keyword argument 'eval_metric'"):
        fit(X, y, eval_metric="rmse")
    with pytest.raises(TypeError, match="Invalid type for the `eval_metric`"):
        small(XGBRegressor, eval_metric=3).fit(X, y)
    with pytest.raises(NotImplementedError, match="multiple custom metrics"):
        small(XGBRegressor, eval_metric=[mean_absolute_error, mean_absolute_error]).fit(X, y)
    with pytest.raises(ValueError, match="sample_weight has 3 values"):
        small(XGBClassifier, class_weight="balanced").fit(X, data[2], sample_weight=np.ones(3))
    with warnings.catch_warnings(), pytest.raises(ValueError, match="max_depth"):
        small(XGBRegressor, max_depth=-3).fit(X, y)


def test_bad_data_at_prediction(data):
    X, y, *_ = data
    model = small(XGBRegressor).fit(X, y)
    for predict in (model.predict, model.apply):
        with pytest.raises(
            ValueError, match=r"X has 3 features, but XGBRegressor is expecting 5 .* expected: 5, got 3"
        ):
            predict(X[:, :3])
        with pytest.raises(ValueError, match="Reshape your data"):
            predict(X[0])
    with pytest.raises(ValueError, match="out of range"):
        model.predict(X, iteration_range=(0, 99))
    with pytest.raises(ValueError, match="base_margin"):
        small(XGBClassifier).fit(X, data[3]).predict(X, base_margin=np.ones((300, 2)))


def test_import_is_lazy():
    import subprocess
    import sys

    code = "import arboost, sys; assert 'sklearn' not in sys.modules; assert arboost.XGBClassifier().n_jobs is None"
    subprocess.run([sys.executable, "-c", code], check=True)
