"""scikit-learn's own checks of estimators pass for every class; every expected failure has its reason.

The tag `no_validation` (as XGBoost's) leaves out the checks of the wording of input errors; they are run here all the
same, on twins without that tag. Rankers need groups, so the ranker's twin puts all rows in one group.
"""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

from arboost.sklearn import (
    XGBClassifier,
    XGBModel,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
)

# Few rounds: the checks of weights allow float32 predictions one rounding (1e-7), which a classifier of 100 rounds,
# XGBoost's as well as ours, exceeds by a few (2e-7).
SMALL = {"n_estimators": 5, "n_jobs": 1}
DRAWS = "rows are drawn at random, so a row of weight 2 is not two rows; scikit-learn's own forests do the same"
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": DRAWS,
}

FLOAT32 = {"check_regressor_multioutput": "as XGBoost: predictions of several targets are float32, not float64"}


@parametrize_with_checks(
    [
        XGBModel(**SMALL),
        XGBClassifier(**SMALL),
        XGBRegressor(**SMALL),
        XGBClassifier(class_weight="balanced", **SMALL),
        XGBRegressor(enable_categorical=True, **SMALL),
    ],
    expected_failed_checks=lambda estimator: FLOAT32,
)
def test_estimator(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [XGBRFClassifier(**SMALL), XGBRFRegressor(**SMALL), XGBRegressor(early_stopping=True, **SMALL)],
    expected_failed_checks=lambda estimator: WEIGHTS | FLOAT32,
)
def test_estimator_that_draws_rows(estimator, check):
    check(estimator)


class Validating:
    """The estimator as if scikit-learn could rely on its own wording of errors."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation = False
        return tags


class ValidatingClassifier(Validating, XGBClassifier):
    pass


class ValidatingRegressor(Validating, XGBRegressor):
    pass


class OneGroupRanker(Validating, XGBRanker):
    """A ranker that puts all rows in one group, with an objective that takes any labels."""

    def __init__(self, *, objective="rank:pairwise", **kwargs):
        super().__init__(objective=objective, **kwargs)

    def fit(self, X, y=None):
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return super().fit(X, y, qid=np.zeros(n_rows, int))


WORDING = FLOAT32 | {
    "check_estimators_empty_data_messages": "as XGBoost: data without rows gives a model of the base score",
    "check_dataframe_column_names_consistency": "as XGBoost: arrays without names are taken in silence, and columns "
    "in another order are put in order",
    "check_dtype_object": "a dict among the values is an XGBoostError (a ValueError), not a TypeError",
}
ONE_COLUMN = {"check_supervised_y_2d": "as XGBoost: a column of labels is taken in silence"}


@parametrize_with_checks(
    [ValidatingClassifier(**SMALL), ValidatingRegressor(**SMALL)],
    expected_failed_checks=lambda estimator: (
        WORDING if isinstance(estimator, XGBRegressor) else WORDING | ONE_COLUMN  # a regressor takes several
    ),
)
def test_wording_of_errors(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [OneGroupRanker(**SMALL)],
    expected_failed_checks=lambda estimator: {**WORDING, **ONE_COLUMN},
)
def test_ranker(estimator, check):
    check(estimator)
