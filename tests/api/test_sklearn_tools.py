"""The estimators inside scikit-learn's tools: pipelines, searches, ensembles, inspection, metadata routing."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, VotingRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from arboost.sklearn import XGBClassifier, XGBRegressor, XGBRFClassifier

NAMES = np.array(["no", "yes"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(240, 5))
    y = X[:, 0] * 2 + np.sin(X[:, 1] * 3) + rng.normal(size=240) * 0.3
    return X, y, NAMES[(y > 0).astype(int)]


def small(cls, **params):
    return cls(**{"n_estimators": 8, "max_depth": 3, "n_jobs": 1, **params})


def test_pipeline(data):
    X, _, labels = data
    pipeline = Pipeline([("scale", StandardScaler()), ("model", small(XGBClassifier))]).fit(X, labels)
    assert pipeline.score(X, labels) > 0.9 and pipeline.classes_.tolist() == ["no", "yes"]
    expected = small(XGBClassifier).fit(StandardScaler().fit_transform(X), labels)
    np.testing.assert_array_equal(pipeline.predict_proba(X), expected.predict_proba(StandardScaler().fit_transform(X)))
    pipeline.set_params(model__max_depth=1, model__eta=0.1)
    assert pipeline.get_params()["model__eta"] == 0.1


def test_pipeline_of_a_frame(data):
    pandas = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pandas.DataFrame(X, columns=list("abcde")).assign(kind=np.where(X[:, 2] > 0, "u", "v"))
    encode = ColumnTransformer([("kind", OneHotEncoder(sparse_output=False), ["kind"])], remainder="passthrough")
    pipeline = make_pipeline(encode.set_output(transform="pandas"), small(XGBRegressor)).fit(frame, y)
    assert "remainder__a" in pipeline[-1].feature_names_in_.tolist()
    assert pipeline.score(frame, y) > 0.7


def test_grid_search_in_two_processes(data):
    X, _, labels = data
    search = GridSearchCV(small(XGBClassifier), {"max_depth": [1, 3], "eta": [0.1, 0.5]}, cv=3, n_jobs=2)
    search.fit(X, labels)
    assert search.best_params_["eta"] == 0.5 and search.best_score_ > 0.8
    alone = small(XGBClassifier, **search.best_params_).fit(X, labels)
    np.testing.assert_array_equal(search.predict_proba(X), alone.predict_proba(X))


def test_early_stopping_inside_a_search(data):
    X, y, _ = data
    model = XGBRegressor(n_estimators=200, early_stopping=True, random_state=0, n_jobs=1)
    search = RandomizedSearchCV(model, {"max_depth": [2, 3, 4]}, n_iter=2, cv=3, random_state=0)
    search.fit(X, y, verbose=False)
    assert search.best_estimator_.best_iteration < 199 and search.best_score_ > 0.7


def test_cross_validation(data):
    X, y, labels = data
    assert cross_val_score(small(XGBRegressor), X, y, cv=3).min() > 0.6
    proba = cross_val_predict(small(XGBClassifier), X, labels, cv=4, method="predict_proba")
    assert proba.shape == (240, 2) and ((proba[:, 1] > 0.5) == (labels == "yes")).mean() > 0.8
    scores = cross_validate(small(XGBClassifier), X, labels, cv=3, scoring=["roc_auc", "neg_log_loss"])
    assert scores["test_roc_auc"].min() > 0.85
    sizes, train, _ = learning_curve(small(XGBRFClassifier), X, labels, cv=3, train_sizes=[0.5, 1.0])
    assert len(sizes) == len(train) == 2


def test_ensembles(data):
    X, y, labels = data
    calibrated = CalibratedClassifierCV(small(XGBClassifier), cv=3).fit(X, labels)
    assert calibrated.score(X, labels) > 0.85
    pair = [("a", small(XGBClassifier)), ("b", small(XGBRFClassifier))]
    stack = StackingClassifier(pair, final_estimator=LogisticRegression(), cv=3).fit(X, labels)
    assert stack.score(X, labels) > 0.85 and stack.classes_.tolist() == ["no", "yes"]
    assert (
        VotingRegressor([("a", small(XGBRegressor)), ("b", small(XGBRegressor, max_depth=1))]).fit(X, y).score(X, y)
        > 0.6
    )
    assert MultiOutputRegressor(small(XGBRegressor)).fit(X, np.column_stack([y, -y])).predict(X).shape == (240, 2)
    assert (
        TransformedTargetRegressor(small(XGBRegressor), func=np.arcsinh, inverse_func=np.sinh).fit(X, y).score(X, y)
        > 0.6
    )
    assert SelectFromModel(small(XGBRegressor)).fit(X, y).get_support()[0]


def test_inspection(data):
    X, y, _ = data
    model = small(XGBRegressor).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert found.argmax() == model.feature_importances_.argmax() == 0
    curve = partial_dependence(model, X, [0], grid_resolution=8)["average"][0]
    assert curve[-1] > curve[0] + 2


def test_weights_are_routed(data):
    X, _, labels = data
    weight = np.where(labels == "yes", 5.0, 0.2)
    with config_context(enable_metadata_routing=True):
        model = small(XGBClassifier).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"max_depth": [2]}, cv=3).fit(X, labels, sample_weight=weight)
        pipeline = Pipeline([("scale", StandardScaler().set_fit_request(sample_weight=False)), ("model", model)])
        pipeline.fit(X, labels, sample_weight=weight)
    expected = small(XGBClassifier, max_depth=2).fit(X, labels, sample_weight=weight)
    np.testing.assert_array_equal(search.predict_proba(X), expected.predict_proba(X))
    assert (pipeline.predict(X) == "yes").sum() > (labels == "yes").sum()
