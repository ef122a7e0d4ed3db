"""The code blocks of XGBoost's guide to its scikit-learn estimators, with either import, on real data.

The breast cancer data has more distinct values than bins, and the libraries round gradients differently, so trees
grown late may differ: scores are compared within what that changes.
"""

import numpy as np
import pytest

import arboost
from guides import assert_same, run_in

xgboost = pytest.importorskip("xgboost")
pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate, train_test_split  # noqa: E402

SAME_SCORES = {"rtol": 0.02, "atol": 0.02}
LIBRARIES = [arboost, xgboost]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def xgb(request):
    return request.param


@pytest.fixture
def split():
    X, y = load_breast_cancer(return_X_y=True)
    return train_test_split(X, y, stratify=y, random_state=94)


@pytest.fixture
def same(tmp_path, monkeypatch):
    """Runs a block with both libraries and compares."""

    def compare(block, **tolerance):
        ours, theirs = (run_in(tmp_path, monkeypatch, library, block) for library in LIBRARIES)
        assert_same(ours, theirs, **tolerance)

    return compare


# ---- overview ----


def test_overview(split, same):
    X_train, X_test, y_train, y_test = split

    def block(xgb):
        # Use "hist" for constructing the trees, with early stopping enabled.
        clf = xgb.XGBClassifier(tree_method="hist", early_stopping_rounds=2)
        # Fit the model, test sets are used for early stopping.
        clf.fit(X_train, y_train, eval_set=[(X_test, y_test)])
        # Save model into JSON format.
        clf.save_model("clf.json")
        again = xgb.XGBClassifier()
        again.load_model("clf.json")
        np.testing.assert_array_equal(again.predict_proba(X_test), clf.predict_proba(X_test))
        assert clf.evals_result().keys() == {"validation_0"}
        return {
            "score": clf.score(X_test, y_test),
            "loss": float(clf.best_score),
            "first losses": clf.evals_result()["validation_0"]["logloss"][:5],
            "proba": clf.predict_proba(X_test).shape,
            "classes": clf.classes_.tolist(),
        }

    same(block, **SAME_SCORES)


# ---- early stopping ----


def test_early_stopping_callback_keeps_the_best_model(xgb, split):
    X_train, X_test, y_train, y_test = split
    early_stop = xgb.callback.EarlyStopping(rounds=2, metric_name="logloss", data_name="validation_0", save_best=True)
    clf = xgb.XGBClassifier(tree_method="hist", callbacks=[early_stop])
    clf.fit(X_train, y_train, eval_set=[(X_test, y_test)])
    losses = clf.evals_result()["validation_0"]["logloss"]
    assert clf.best_iteration == int(np.argmin(losses))
    assert clf.get_booster().num_boosted_rounds() == clf.best_iteration + 1
    assert len(losses) == clf.best_iteration + 3


def test_early_stopping_callback_gives_the_same_scores(split, same):
    X_train, X_test, y_train, y_test = split

    def block(xgb):
        early_stop = xgb.callback.EarlyStopping(
            rounds=2, metric_name="logloss", data_name="validation_0", save_best=True
        )
        clf = xgb.XGBClassifier(tree_method="hist", callbacks=[early_stop])
        clf.fit(X_train, y_train, eval_set=[(X_test, y_test)])
        return clf.score(X_test, y_test), float(clf.best_score)

    same(block, **SAME_SCORES)


def test_cross_validation_with_early_stopping(same):
    X, y = load_breast_cancer(return_X_y=True)

    def fit_and_score(estimator, X_train, X_test, y_train, y_test):
        """Fit the estimator on the train set and score it on both sets"""
        estimator.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)
        train_score = estimator.score(X_train, y_train)
        test_score = estimator.score(X_test, y_test)
        return estimator, train_score, test_score

    def block(xgb):
        cv = StratifiedKFold(n_splits=5, shuffle=True, random_state=94)
        clf = xgb.XGBClassifier(tree_method="hist", early_stopping_rounds=3)
        results = {}
        for train, test in cv.split(X, y):
            est, train_score, test_score = fit_and_score(clone(clf), X[train], X[test], y[train], y[test])
            results[est] = (train_score, test_score)
        assert len(results) == 5  # estimators can be keys
        return np.array(list(results.values()))

    same(block, atol=0.04)  # two or three rows of a fold


def test_cross_validate(same):
    X, y = load_breast_cancer(return_X_y=True)

    def block(xgb):
        clf = xgb.XGBClassifier(tree_method="hist", n_estimators=20)
        return cross_validate(clf, X, y, cv=3, return_train_score=True)["test_score"]

    same(block, atol=0.03)


# ---- the native booster ----


def test_native_booster(split, same):
    X_train, _, y_train, _ = split

    def block(xgb):
        clf = xgb.XGBClassifier(n_estimators=7)
        clf.fit(X_train, y_train)
        booster = clf.get_booster()
        assert isinstance(booster, xgb.Booster)
        return booster.num_boosted_rounds(), booster.num_features()

    same(block)


# ---- prediction ----


def test_prediction_uses_the_best_iteration(xgb, split):
    X_train, X_test, y_train, y_test = split
    clf = xgb.XGBClassifier(tree_method="hist", early_stopping_rounds=3, learning_rate=1.0)
    clf.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)
    booster, n_best = clf.get_booster(), clf.best_iteration + 1
    assert booster.num_boosted_rounds() > n_best
    dtest = xgb.DMatrix(X_test)
    of_the_best = booster.predict(dtest, iteration_range=(0, n_best))
    assert not np.array_equal(of_the_best, booster.predict(dtest))
    np.testing.assert_array_equal(clf.predict_proba(X_test)[:, 1], of_the_best)
    np.testing.assert_array_equal(clf.predict(X_test), (of_the_best > 0.5).astype(int))
    assert clf.score(X_test, y_test) == np.mean((of_the_best > 0.5) == y_test)
    assert clf.apply(X_test).shape == (len(X_test), n_best)


# ---- number of parallel threads ----


def test_threads_beside_those_of_a_search(same):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::2], y[::2]

    def block(xgb):
        search = GridSearchCV(
            xgb.XGBClassifier(n_jobs=1, n_estimators=10),
            {"max_depth": [2, 4]},
            n_jobs=2,
            cv=3,
        )
        search.fit(X, y)
        return search.cv_results_["mean_test_score"], search.best_estimator_.get_params()["n_jobs"]

    same(block, atol=0.03)
