"""The estimators beside XGBoost's: the same shapes, dtypes and messages, near predictions, files that cross over.

Tolerances: XGBoost sums gradients in float64 in thread order and arboost in integers, and the two may cut bins at
different values, so single predictions differ where a tie falls the other way; quality must not.
"""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import mean_absolute_error, roc_auc_score

import arboost

PARAMS = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3, "n_jobs": 2}
CLASSIFIERS, REGRESSORS = ["XGBClassifier", "XGBRFClassifier"], ["XGBRegressor", "XGBRFRegressor", "XGBModel"]


def both(name, **params):
    return [getattr(package, name)(**{**PARAMS, **params}) for package in (arboost, xgboost)]


def same_kind(mine, theirs):
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_classifiers(name, load):
    X, y = load(return_X_y=True)
    models = [model.fit(X[::2], y[::2]) for model in both(name)]
    for method in ("predict", "predict_proba", "apply"):
        same_kind(*(getattr(model, method)(X) for model in models))
    same_kind(*(model.predict(X, output_margin=True) for model in models))
    mine, theirs = (model.predict_proba(X[1::2]) for model in models)
    assert np.abs(mine - theirs).mean() < 0.03
    mine, theirs = (model.score(X[1::2], y[1::2]) for model in models)
    assert mine > theirs - 0.03
    for attribute in ("classes_", "n_classes_", "n_features_in_"):
        np.testing.assert_array_equal(*(getattr(model, attribute) for model in models))
    same_kind(*(model.feature_importances_ for model in models))
    np.testing.assert_allclose(*(model.intercept_ for model in models), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    X, y = load_diabetes(return_X_y=True)
    models = [model.fit(X[::2], y[::2]) for model in both(name)]
    same_kind(*(model.predict(X) for model in models))
    same_kind(*(model.apply(X) for model in models))
    mine, theirs = (np.abs(model.predict(X[1::2]) - y[1::2]).mean() for model in models)
    assert mine < theirs * 1.05
    np.testing.assert_allclose(*(model.intercept_ for model in models), rtol=1e-5)
    targets = np.column_stack([y, -y])
    same_kind(*(model.fit(X, targets).predict(X) for model in both(name)))


def test_evaluation_and_early_stopping():
    X, y = load_breast_cancer(return_X_y=True)
    results = []
    for model in both("XGBClassifier", n_estimators=60, early_stopping_rounds=5, eval_metric=["auc", "logloss"]):
        model.fit(X[::2], y[::2], eval_set=[(X[::2], y[::2]), (X[1::2], y[1::2])], verbose=False)
        results.append(model)
        rounds = model.evals_result()["validation_1"]["logloss"]
        assert model.best_iteration == int(np.argmin(rounds)) and len(rounds) == min(model.best_iteration + 6, 60)
    mine, theirs = results
    assert {k: list(v) for k, v in mine.evals_result().items()} == {
        k: list(v) for k, v in theirs.evals_result().items()
    }
    assert mine.best_score == pytest.approx(theirs.best_score, abs=0.02)
    assert roc_auc_score(y, mine.predict_proba(X)[:, 1]) > roc_auc_score(y, theirs.predict_proba(X)[:, 1]) - 0.01


def test_custom_metric_has_the_same_place():
    X, y = load_diabetes(return_X_y=True)
    found = []
    for model in both("XGBRegressor", eval_metric=["mape", mean_absolute_error]):
        model.fit(X, y, eval_set=[(X, y)], verbose=False)
        found.append(model.evals_result()["validation_0"])
    assert list(found[0]) == list(found[1]) == ["mape", "mean_absolute_error"]
    np.testing.assert_allclose(found[0]["mean_absolute_error"], found[1]["mean_absolute_error"], rtol=0.05)


def test_several_labels():
    X = load_diabetes().data
    Y = (X[:, :3] > 0).astype(int)
    mine, theirs = (model.fit(X, Y) for model in both("XGBClassifier"))
    same_kind(mine.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)


@pytest.mark.parametrize("has_qid", [True, False])
def test_score_of_a_ranker(has_qid):
    """Without a column of query ids all rows are of one query."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :5].round(1)
    qid = np.arange(len(y)) // 40
    shown = X.assign(qid=qid) if has_qid else X
    scores = [model.fit(X, y, qid=qid).score(shown, y) for model in both("XGBRanker")]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    assert has_qid or scores[0] != pytest.approx(both("XGBRanker")[0].fit(X, y, qid=qid).score(X.assign(qid=qid), y))


@pytest.mark.parametrize("direction", ["ours to XGBoost", "XGBoost's to us"])
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_files_cross_over(tmp_path, direction, load, ending):
    X, y = load(return_X_y=True)
    writer, reader = (arboost, xgboost) if direction == "ours to XGBoost" else (xgboost, arboost)
    model = writer.XGBClassifier(**PARAMS).fit(X, y)
    model.save_model(tmp_path / f"model.{ending}")
    loaded = reader.XGBClassifier()
    loaded.load_model(tmp_path / f"model.{ending}")
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.n_classes_ == model.n_classes_ and loaded.booster == "gbtree"
    assert loaded.objective == ("multi:softprob" if model.n_classes_ > 2 else "binary:logistic")


@pytest.mark.parametrize("name", ["XGBClassifier", "XGBRegressor", "XGBRanker", "XGBModel"])
def test_estimator_type_in_files(tmp_path, name):
    X, y = load_breast_cancer(return_X_y=True)
    written = []
    for package in (arboost, xgboost):
        model = getattr(package, name)(n_estimators=2)
        if name == "XGBRanker":  # its objectives come later: a model of another kind stands in
            model._Booster = package.train({}, package.DMatrix(X, y), 1)
            if package is xgboost:
                model._estimator_type = "ranker"
        else:
            model.fit(X, y)
        model.save_model(tmp_path / "model.json")
        saved = json.loads((tmp_path / "model.json").read_text())["learner"]["attributes"]["scikit_learn"]
        written.append(json.loads(saved)["_estimator_type"])
    assert written[0] == written[1]


MISTAKES = {
    "not fitted": lambda p, X, y: p.XGBRegressor().predict(X),
    "no validation set": lambda p, X, y: p.XGBRegressor(n_estimators=2, early_stopping_rounds=2).fit(X, y),
    "weights without sets": lambda p, X, y: p.XGBRegressor().fit(X, y, sample_weight_eval_set=[y]),
    "two weights": lambda p, X, y: p.XGBRegressor().fit(X, y, eval_set=[(X, y)], sample_weight_eval_set=[y, y]),
    "metric in fit": lambda p, X, y: p.XGBRegressor().fit(X, y, eval_metric="rmse"),
    "metric 3": lambda p, X, y: p.XGBRegressor(eval_metric=3).fit(X, y),
    "two metrics": lambda p, X, y: p.XGBRegressor(eval_metric=[max, min]).fit(X, y),
    "narrow": lambda p, X, y: p.XGBRegressor(n_estimators=1).fit(X, y).predict(X[:, :2]),
    "forest": lambda p, X, y: p.XGBRFRegressor(callbacks=[]),
    "ranker": lambda p, X, y: p.XGBRanker().fit(X, y),
    "three dimensions": lambda p, X, y: p.XGBRegressor().fit(X.reshape(2, -1, 10), y),
    "no names": lambda p, X, y: p.XGBRegressor(n_estimators=1).fit(X, y).feature_names_in_,
    "coefficients": lambda p, X, y: p.XGBRegressor(n_estimators=1).fit(X, y).coef_,
    "no evaluation": lambda p, X, y: p.XGBRegressor(n_estimators=1).fit(X, y).evals_result(),
    "best iteration": lambda p, X, y: p.XGBRegressor(n_estimators=1).fit(X, y).best_iteration,
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_mistakes_are_reported_alike(mistake):
    """The class of the error, and the words by which users know it."""
    X, y = load_diabetes(return_X_y=True)
    said = []
    for package in (arboost, xgboost):
        with warnings.catch_warnings(), pytest.raises(Exception) as caught:
            warnings.simplefilter("ignore")
            MISTAKES[mistake](package, X, y)
        said.append(caught.value)
    base = ValueError if isinstance(said[1], ValueError) else type(said[1])
    assert isinstance(said[0], base)
    words = [set(str(error).lower().replace("`", " ").replace("_", " ").replace(",", " ").split()) for error in said]
    assert len(words[0] & words[1]) >= 0.5 * len(words[1]), said
