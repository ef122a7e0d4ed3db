"""CatBoost's models, converted: symmetric trees and others, missing values, one-hot categories."""

import numpy as np
import pytest

pytest.importorskip("catboost")

import catboost

import arboost
from arboost.convert import from_catboost
from arboost.runtime.errors import XGBoostError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(400, 4)).astype(np.float32)
SCORE = X[:, 0] + np.where(X[:, 1] > 0, X[:, 2], 0)
HOLES = X.copy()
HOLES[RNG.random(X.shape) < 0.15] = np.nan
SMALL = {"iterations": 12, "depth": 4, "verbose": False, "allow_writing_files": False, "thread_count": 1}
CLOSE = {"rtol": 1e-5, "atol": 2e-6}  # leaves and sums are float32


@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Depthwise", "Lossguide"])
def test_regression(grow_policy, nan_mode):
    theirs = catboost.CatBoostRegressor(grow_policy=grow_policy, nan_mode=nan_mode, **SMALL).fit(HOLES, SCORE)
    ours = from_catboost(theirs)
    for rows in (X, HOLES):
        np.testing.assert_allclose(ours.inplace_predict(rows), theirs.predict(rows), **CLOSE)


def test_data_without_missing_values_at_training():
    theirs = catboost.CatBoostRegressor(**SMALL).fit(X, SCORE)
    np.testing.assert_allclose(from_catboost(theirs).inplace_predict(X), theirs.predict(X), **CLOSE)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Lossguide"])
def test_classification(n_classes, grow_policy):
    y = np.digitize(SCORE, [0.0] if n_classes == 2 else [-0.5, 0.7])
    theirs = catboost.CatBoostClassifier(grow_policy=grow_policy, **SMALL).fit(HOLES, y)
    found, wanted = from_catboost(theirs).inplace_predict(HOLES), theirs.predict_proba(HOLES)
    np.testing.assert_allclose(found, wanted if n_classes == 3 else wanted[:, 1], **CLOSE)


@pytest.mark.parametrize("loss", ["MAE", "Quantile:alpha=0.3", "Poisson", "Tweedie:variance_power=1.5", "MultiRMSE"])
def test_losses(loss):
    y = np.abs(SCORE) if loss[0] in "PT" else np.column_stack([SCORE, X[:, 3]]) if loss == "MultiRMSE" else SCORE
    theirs = catboost.CatBoostRegressor(loss_function=loss, **SMALL).fit(X, y)
    np.testing.assert_allclose(from_catboost(theirs).inplace_predict(X), theirs.predict(X), **CLOSE)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_one_hot_categories(n_classes, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["k"] = RNG.choice(["red", "green", "blue"], 400)
    y = SCORE + (frame.k == "red") - (frame.k == "blue")
    kind = catboost.CatBoostRegressor
    if n_classes:
        y, kind = np.digitize(y, [-0.5, 0.7]), catboost.CatBoostClassifier
    pool = catboost.Pool(frame, y, cat_features=["k"])
    theirs = kind(one_hot_max_size=10, **SMALL).fit(pool)
    wanted = theirs.predict_proba(frame) if n_classes else theirs.predict(frame)
    ours = from_catboost(theirs, pool)
    coded = frame.assign(k=frame.k.astype("category"))
    np.testing.assert_allclose(ours.inplace_predict(coded), wanted, **CLOSE)
    theirs.save_model(str(tmp_path / "model.json"), format="json", pool=pool)
    read = from_catboost(tmp_path / "model.json")
    np.testing.assert_array_equal(read.inplace_predict(coded), ours.inplace_predict(coded))
    again = arboost.Booster(model_file=ours.save_raw())
    np.testing.assert_array_equal(again.inplace_predict(coded), ours.inplace_predict(coded))
    with pytest.raises(XGBoostError, match="pool"):
        from_catboost(theirs)


def test_statistics_of_categories_are_refused_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"k": RNG.choice(list("abcdefgh"), 400), "x": X[:, 0]})
    y = SCORE + frame.k.isin(list("ace"))
    theirs = catboost.CatBoostRegressor(cat_features=["k"], one_hot_max_size=2, **SMALL).fit(frame, y)
    with pytest.raises(XGBoostError, match="ctr"):
        from_catboost(theirs, catboost.Pool(frame, y, cat_features=["k"]))
    with pytest.raises(TypeError, match="CatBoost"):
        from_catboost(3)


def test_explanations_sum_to_the_prediction():
    theirs = catboost.CatBoostRegressor(**SMALL).fit(X, SCORE)
    ours = from_catboost(theirs)
    found = ours.predict(arboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(found.sum(axis=1), theirs.predict(X), atol=1e-5)
