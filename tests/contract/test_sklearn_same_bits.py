"""The two ways to train give the same bytes: `DMatrix` + `train` and the estimators (worked example 12)."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import arboost
from arboost.sklearn import XGBClassifier, XGBRanker, XGBRegressor, XGBRFClassifier

PARAMS = {"max_depth": 4, "learning_rate": 0.2, "subsample": 0.8, "colsample_bytree": 0.7, "random_state": 5}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1500, 8)).astype(np.float32)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    score = np.nan_to_num(X[:, 0]) * 2 + np.nan_to_num(X[:, 1]) + rng.normal(size=1500) * 0.5
    return X, score, rng.uniform(0.5, 2, size=1500)


def trained(objective, X, y, n_rounds=7, **params):
    weight = params.pop("weight", None)
    return arboost.train({"objective": objective, **PARAMS, **params}, arboost.DMatrix(X, y, weight=weight), n_rounds)


def same(estimator, booster):
    assert estimator.get_booster().save_raw("json") == booster.save_raw("json")
    assert estimator.get_booster().save_raw() == booster.save_raw()


def test_five_stages_of_retinopathy_in_small():
    """Worked example 12 with a PCA of made images: five classes, `multi:softprob`, 80/20 split."""
    from sklearn.decomposition import PCA
    from sklearn.model_selection import train_test_split

    rng = np.random.RandomState(1)
    stage = rng.randint(0, 5, 700)
    images = rng.normal(size=(700, 256)) + rng.normal(size=(5, 256))[stage] * 0.35
    X = PCA(40, random_state=0).fit_transform(images)
    X_train, X_test, y_train, y_test = train_test_split(X, stage, test_size=0.2, random_state=0)
    estimator = XGBClassifier(n_estimators=10, objective="multi:softprob", **PARAMS).fit(X_train, y_train)
    booster = trained("multi:softprob", X_train, y_train, 10, num_class=5)
    same(estimator, booster)
    proba = booster.predict(arboost.DMatrix(X_test))
    np.testing.assert_array_equal(estimator.predict_proba(X_test), proba)
    np.testing.assert_array_equal(estimator.predict(X_test), proba.argmax(axis=1))
    assert estimator.score(X_test, y_test) > 0.7


def test_two_classes(data):
    X, score, weight = data
    y = (score > 0).astype(int)
    estimator = XGBClassifier(n_estimators=7, **PARAMS).fit(X, y, sample_weight=weight)
    same(estimator, trained("binary:logistic", X, y, weight=weight))


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror", "count:poisson"])
def test_regression(data, objective):
    X, score, _ = data
    y = np.abs(np.rint(score))
    same(XGBRegressor(n_estimators=7, objective=objective, **PARAMS).fit(X, y), trained(objective, X, y))


def test_forest(data):
    X, score, _ = data
    y = (score > 0).astype(int)
    estimator = XGBRFClassifier(n_estimators=9, random_state=5).fit(X, y)
    params = {
        "num_parallel_tree": 9,
        "eta": 1.0,
        "subsample": 0.8,
        "colsample_bynode": 0.8,
        "reg_lambda": 1e-5,
        "seed": 5,
    }
    booster = arboost.train({"objective": "binary:logistic", **params}, arboost.DMatrix(X, y), 1)
    same(estimator, booster)


def test_ranker(data):
    X, score, _ = data
    qid = np.repeat(np.arange(50), 30)
    estimator = XGBRanker(n_estimators=7, objective="reg:squarederror", **PARAMS).fit(X, score, qid=qid)
    same(estimator, trained("reg:squarederror", X, score))


def test_early_stopping_and_its_attributes(data):
    X, score, _ = data
    train, test = slice(0, 1000), slice(1000, None)
    estimator = XGBRegressor(n_estimators=200, early_stopping_rounds=3, **PARAMS)
    estimator.fit(X[train], score[train], eval_set=[(X[test], score[test])], verbose=False)
    booster = arboost.train(
        {"objective": "reg:squarederror", **PARAMS},
        arboost.DMatrix(X[train], score[train]),
        200,
        evals=[(arboost.DMatrix(X[test], score[test]), "validation_0")],
        early_stopping_rounds=3,
        verbose_eval=False,
    )
    same(estimator, booster)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads(data, n_jobs):
    X, score, _ = data
    same(XGBRegressor(n_estimators=7, n_jobs=n_jobs, **PARAMS).fit(X, score), trained("reg:squarederror", X, score))


def test_frame_and_array(data):
    pandas = pytest.importorskip("pandas")
    X, score, _ = data
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(8)])
    estimator = XGBRegressor(n_estimators=7, **PARAMS).fit(frame, pandas.Series(score))
    assert estimator.get_booster().get_dump() == trained("reg:squarederror", X, score).get_dump()
