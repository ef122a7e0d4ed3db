"""Worked examples 6 (AdaBoost), 7 (gradient boosting) and 8 (bagging), to the printed digit."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.datasets import load_diabetes

from arboost.ensemble import AdaBoostClassifier, RandomForestRegressor
from arboost.ensemble.forest import bag_counts
from arboost.ensemble.friedman import AbsoluteLoss, HuberLoss, SquaredLoss

# The ten points of example 6: five of each class, which no stump parts with fewer than three errors.
POINTS = np.array([[9, 6], [2, 3], [10, 5], [1, 9], [6, 4], [5, 2], [8, 8], [4, 7], [3, 10], [7, 1]], np.float32)
LABELS = np.repeat([1, -1], 5)


def test_adaboost_of_three_stumps():
    model = AdaBoostClassifier(n_estimators=3).fit(POINTS, LABELS)
    np.testing.assert_array_equal(np.round(model.estimator_errors_, 2), [0.30, 0.21, 0.14])
    np.testing.assert_array_equal(np.round(model.estimator_weights_, 2), [0.42, 0.65, 0.92])
    np.testing.assert_allclose(
        model.estimator_weights_, 0.5 * np.log((1 - model.estimator_errors_) / model.estimator_errors_)
    )
    np.testing.assert_array_equal(model.predict(POINTS), LABELS)
    votes = sum(
        alpha * np.asarray(member.predict(POINTS))
        for alpha, member in zip(model.estimator_weights_, model.estimators_, strict=True)
    )
    np.testing.assert_array_equal(np.sign(votes), LABELS)
    np.testing.assert_allclose(model.decision_function(POINTS), 2 * votes / model.estimator_weights_.sum(), atol=1e-6)


def test_weights_of_the_second_and_third_round():
    """D_next ~ D exp(-alpha y h): what was wrong has half of the weight, what was right the other half."""
    model = AdaBoostClassifier(n_estimators=3).fit(POINTS, LABELS)
    share = np.full(10, 0.1)
    for alpha, error, member in zip(model.estimator_weights_, model.estimator_errors_, model.estimators_, strict=True):
        is_wrong = member.predict(POINTS) != LABELS
        assert share[is_wrong].sum() == pytest.approx(error)
        share = share * np.exp(-alpha * np.where(is_wrong, -1, 1))
        share /= share.sum()
        assert share[is_wrong].sum() == pytest.approx(0.5)


def test_boosting_stops_at_chance():
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="no better than chance"):
        AdaBoostClassifier().fit(X, y)


def test_pseudo_residuals_of_the_table():
    y = np.array([1.0, -1.0, -1.0, 1.0])
    first, second = np.array([[0.5], [0], [-1.3], [1.2]]), np.array([[0.8], [-0.5], [-1.2], [1.1]])
    np.testing.assert_allclose(SquaredLoss().negative_gradient(y, first, 0), [0.5, -1, 0.3, -0.2])
    np.testing.assert_allclose(SquaredLoss().negative_gradient(y, second, 0), [0.2, -0.5, 0.2, -0.1])
    np.testing.assert_array_equal(AbsoluteLoss().negative_gradient(y, first, 0), [1, -1, 1, -1])
    huber = HuberLoss(0.9)
    huber.delta = 0.4
    np.testing.assert_allclose(huber.negative_gradient(y, first, 0), [0.4, -0.4, 0.3, -0.2])


def test_a_row_stays_out_of_a_bag_with_probability_0_368():
    for n, n_bags in ((10, 3000), (100, 1000), (5000, 100)):
        out = np.mean([(bag_counts(key, n, n) == 0).mean() for key in range(n_bags)])
        assert out == pytest.approx((1 - 1 / n) ** n, abs=0.01)
    assert round((1 - 1 / 5000) ** 5000, 3) == 0.368


def test_the_ensembles_error_is_never_above_the_members_mean():
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(n_estimators=15).fit(X[:300], y[:300])
    booster, new = forest.get_booster()._learner.model, X[300:].astype(np.float32)
    base = forest.get_booster()._learner.base_score[0]
    leaves = forest.apply(new)
    members = np.array([base + 15 * t.threshold[leaves[:, i]] for i, t in enumerate(booster.trees)])
    np.testing.assert_allclose(members.mean(axis=0), forest.predict(new), rtol=1e-5)
    errors = ((members - y[300:]) ** 2).mean(axis=1)
    assert ((forest.predict(new) - y[300:]) ** 2).mean() <= errors.mean()
