"""AdaBoost against scikit-learn's, with trees of ours and with other members."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn.ensemble
import sklearn.tree
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

import arboost
from arboost.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
)
from arboost.ensemble.adaboost import draw_rows

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 4)).astype(np.float32)
SCORE = X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * RNG.normal(size=400)
CANCER, IRIS, DIABETES = (load(return_X_y=True) for load in (load_breast_cancer, load_iris, load_diabetes))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("depth", [1, 2])
def test_classifier_is_scikit_learns(n_classes, depth):
    y = np.digitize(SCORE, np.quantile(SCORE, np.arange(1, n_classes) / n_classes))
    ours = AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=15).fit(X, y)
    stump = sklearn.tree.DecisionTreeClassifier(max_depth=depth)
    theirs = sklearn.ensemble.AdaBoostClassifier(stump, n_estimators=15, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.estimator_errors_, theirs.estimator_errors_, atol=1e-9)
    twice = 2 if n_classes == 2 else 1  # two classes: Freund and Schapire's half
    np.testing.assert_allclose(twice * ours.estimator_weights_, theirs.estimator_weights_, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    for stage, wanted in zip(ours.staged_decision_function(X), theirs.staged_decision_function(X), strict=True):
        np.testing.assert_allclose(stage, wanted, atol=2e-6)


def test_resampling_learns_as_well():
    X, y = CANCER
    scores = {}
    for resample in (False, True):
        model = AdaBoostClassifier(n_estimators=30, resample=resample, random_state=1).fit(X[:400], y[:400])
        scores[resample] = model.score(X[400:], y[400:])
    assert min(scores.values()) > 0.93
    drawn = draw_rows(1, np.array([0.0, 0.7, 0.3]))
    assert set(drawn.tolist()) <= {1, 2}
    many = np.bincount(draw_rows(2, np.repeat([0.1, 0.3], 2000) / 800), minlength=4000)
    assert many[2000:].sum() / 4000 == pytest.approx(0.75, abs=0.03)


def test_any_estimator_may_be_a_member():
    y = SCORE > 0
    boosted = AdaBoostClassifier(arboost.XGBClassifier(n_estimators=2, max_depth=1), n_estimators=5).fit(X, y)
    assert boosted.score(X, y) > 0.8
    linear = AdaBoostClassifier(LogisticRegression(), n_estimators=3, resample=True).fit(X, y)
    assert linear.score(X, y) > 0.7
    np.testing.assert_allclose(linear.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(arboost.core.XGBoostError, match="no sum of trees"):
        linear.get_booster()
    assert "AdaBoostClassifier" in linear._repr_html_()
    assert AdaBoostRegressor(Ridge(), n_estimators=3).fit(X, SCORE).score(X, SCORE) > 0.3


def test_a_perfect_member_is_the_last():
    y = (X[:, 0] > 0).astype(int)
    model = AdaBoostClassifier(n_estimators=20).fit(X, y)
    assert len(model.estimators_) == 1 and model.estimator_errors_[0] == 0
    np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
def test_r2_learns_like_scikit_learns(loss):
    X, y = DIABETES
    ours = AdaBoostRegressor(n_estimators=30, loss=loss).fit(X[:350], y[:350])
    theirs = sklearn.ensemble.AdaBoostRegressor(n_estimators=30, loss=loss, random_state=0).fit(X[:350], y[:350])
    assert ours.score(X[350:], y[350:]) == pytest.approx(theirs.score(X[350:], y[350:]), abs=0.08)


def test_r2_is_druckers():
    """The weights of the members and rows, followed round by round; the median of the members."""
    model = AdaBoostRegressor(DecisionTreeRegressor(max_depth=2), n_estimators=6, learning_rate=0.7).fit(X, SCORE)
    share = np.full(len(X), 1 / len(X))
    for member, weight, error in zip(model.estimators_, model.estimator_weights_, model.estimator_errors_, strict=True):
        loss = np.abs(member.predict(X) - SCORE)
        loss /= loss.max()
        mean = (share * loss).sum()
        beta = mean / (1 - mean)
        assert error == pytest.approx(mean, rel=1e-5)
        assert weight == pytest.approx(0.7 * np.log(1 / beta), rel=1e-5)
        share = share * beta ** ((1 - loss) * 0.7)
        share /= share.sum()
    predictions = np.array([member.predict(X) for member in model.estimators_])
    for row in range(0, 400, 37):
        order = np.argsort(predictions[:, row])
        below = np.cumsum(model.estimator_weights_[order])
        median = predictions[order[np.argmax(below >= below[-1] / 2)], row]
        assert model.predict(X)[row] == pytest.approx(median, rel=1e-6)
    stages = list(model.staged_predict(X))
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    np.testing.assert_allclose(stages[0], predictions[0], rtol=1e-6)


def test_r2_explains_its_median_member():
    model = AdaBoostRegressor(n_estimators=7).fit(X, SCORE)
    found = model.contributions(X)
    assert found.shape == (400, 5)
    np.testing.assert_allclose(found.sum(axis=1), model.predict(X), atol=1e-5)


@pytest.mark.parametrize(
    "params, message", [({"n_estimators": 0}, "n_estimators"), ({"learning_rate": 0.0}, "learning_rate")]
)
def test_parameters_are_checked_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        AdaBoostClassifier(**params).fit(*IRIS)
    with pytest.raises(ValueError, match=message):
        AdaBoostRegressor(**params).fit(*DIABETES)
    with pytest.raises(ValueError, match="loss"):
        AdaBoostRegressor(loss="cubic").fit(*DIABETES)
