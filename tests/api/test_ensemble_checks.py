"""scikit-learn's own checks of estimators pass for every ensemble; every expected failure has its reason."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

from arboost import XGBClassifier
from arboost.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    LeafEncoder,
    LeafLogisticRegression,
    RandomForestClassifier,
    RandomForestRegressor,
)

FEW = {"n_estimators": 5, "n_jobs": 1}
DRAWS = "rows or thresholds are drawn at random, so a row of weight 2 is not two rows; scikit-learn's own do the same"
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": DRAWS,
}


@parametrize_with_checks(
    [
        DecisionTreeClassifier(n_jobs=1),
        DecisionTreeRegressor(n_jobs=1),
        AdaBoostClassifier(**FEW),
        GradientBoostingClassifier(**FEW),
        GradientBoostingRegressor(**FEW),
        AdaBoostRegressor(**FEW),
    ]
)
def test_estimator(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        RandomForestClassifier(**FEW),
        RandomForestRegressor(**FEW),
        ExtraTreesClassifier(**FEW),
        ExtraTreesRegressor(**FEW),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_estimator_that_draws(estimator, check):
    check(estimator)


@parametrize_with_checks([LeafEncoder(XGBClassifier(**FEW)), LeafLogisticRegression(XGBClassifier(**FEW))])
def test_estimator_on_leaves(estimator, check):
    check(estimator)
