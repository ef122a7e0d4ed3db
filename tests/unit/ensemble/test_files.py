"""Model files of the ensembles: ours read them back, and XGBoost reads those that it can express."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import is_classifier

import arboost
from arboost.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from arboost.runtime.errors import ModelFileError, XGBoostError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(200, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
SCORE = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2
TWO, THREE = np.array(["no", "yes"])[(SCORE > 1).astype(int)], np.digitize(SCORE, [0, 1.5])

MODELS = {
    "tree": (DecisionTreeRegressor(max_depth=4), SCORE),
    "tree of two targets": (DecisionTreeRegressor(max_depth=4), np.column_stack([SCORE, -SCORE])),
    "tree of two": (DecisionTreeClassifier(max_depth=4), TWO),
    "tree of three": (DecisionTreeClassifier(max_depth=4), THREE),
    "forest": (RandomForestRegressor(n_estimators=6), SCORE),
    "forest of two": (RandomForestClassifier(n_estimators=6), TWO),
    "forest of three": (RandomForestClassifier(n_estimators=6, voting="hard"), THREE),
    "adaboost of two": (AdaBoostClassifier(n_estimators=6), TWO),
    "adaboost of three": (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6), THREE),
    "boosting": (GradientBoostingRegressor(n_estimators=6, loss="huber"), SCORE),
    "quantile": (GradientBoostingRegressor(n_estimators=6, loss="quantile"), SCORE),
    "boosting of two": (GradientBoostingClassifier(n_estimators=6), TWO),
    "exponential": (GradientBoostingClassifier(n_estimators=6, loss="exponential"), TWO),
    "boosting of three": (GradientBoostingClassifier(n_estimators=6), THREE),
}
MEDIAN = {"r2": (AdaBoostRegressor(n_estimators=6), SCORE)}


def say(model):
    return model.predict_proba(X) if is_classifier(model) else model.predict(X)


@pytest.mark.parametrize("name", [*MODELS, *MEDIAN])
@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_files_bring_the_model_back(name, ending, tmp_path):
    model, y = (MODELS | MEDIAN)[name]
    model.fit(X, y)
    path = tmp_path / f"model.{ending}"
    model.save_model(path)
    loaded = type(model)()
    loaded.load_model(path)
    np.testing.assert_array_equal(say(loaded), say(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
    again = tmp_path / f"again.{ending}"
    loaded.save_model(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_xgboost_reads_sums_of_trees(name, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    model, y = MODELS[name]
    model.fit(X, y).save_model(tmp_path / "model.json")
    theirs = xgboost.Booster(model_file=tmp_path / "model.json")
    found = theirs.predict(xgboost.DMatrix(X))
    wanted = say(model)
    if is_classifier(model) and found.ndim == 1:
        wanted = wanted[:, 1]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)  # sums of float32, in another order or type


def test_xgboost_refuses_a_median(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    model, y = MEDIAN["r2"]
    model.fit(X, y).save_model(tmp_path / "model.json")
    objective = json.loads((tmp_path / "model.json").read_text())["learner"]["objective"]
    assert objective["name"] == "arboost:weighted_median"
    with pytest.raises(xgboost.core.XGBoostError, match="arboost:weighted_median"):
        xgboost.Booster(model_file=tmp_path / "model.json")
    with pytest.raises(XGBoostError, match="arboost:weighted_median"):
        arboost.Booster(model_file=tmp_path / "model.json")


@pytest.mark.parametrize(
    ("name", "fact", "wrong"),
    [
        ("AdaBoostClassifier", "weights", "x"),
        ("AdaBoostClassifier", "errors", [{}]),
        ("AdaBoostClassifier", "classes", ["a", "a"]),
        ("RandomForestClassifier", "classes", [0, 1, 2, 3]),
        ("RandomForestClassifier", "dtype", "<M8[s]"),
        ("DecisionTreeClassifier", "dtype", None),
        ("GradientBoostingClassifier", "loss", 7),
        ("GradientBoostingClassifier", "init", None),
        ("GradientBoostingClassifier", "train_score", {}),
        ("GradientBoostingClassifier", None, "[]"),
        ("GradientBoostingClassifier", None, "{"),
    ],
)
def test_wrong_facts_are_named(name, fact, wrong, tmp_path):
    model = getattr(arboost.ensemble, name)()
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=2)
    path = tmp_path / "model.json"
    model.fit(X, np.where(SCORE > 0, 1, 0)).save_model(path)
    document = json.loads(path.read_text())
    attributes = document["learner"]["attributes"]
    facts = json.loads(attributes["arboost_estimator"])
    attributes["arboost_estimator"] = wrong if fact is None else json.dumps({**facts, fact: wrong})
    path.write_text(json.dumps(document))
    message = r"attributes\.arboost_estimator" + (f".{fact}" if fact else ": an object")
    with pytest.raises(ModelFileError, match=message):
        type(model)().load_model(path)


def test_files_of_others_are_refused(tmp_path):
    RandomForestRegressor(n_estimators=2).fit(X, SCORE).save_model(tmp_path / "forest.json")
    with pytest.raises(TypeError, match="RandomForestRegressor, not of DecisionTreeRegressor"):
        DecisionTreeRegressor().load_model(tmp_path / "forest.json")
    plain = arboost.train({}, arboost.DMatrix(X, SCORE), 2)
    with pytest.raises(TypeError, match="does not say"):
        RandomForestRegressor().load_model(plain.save_raw())


@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_margin(name):
    model, y = MODELS[name]
    model.fit(X, y)
    margin = model.get_booster().predict(arboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(model.contributions(X).sum(axis=-1), margin, atol=2e-4)
