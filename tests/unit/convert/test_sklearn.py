"""scikit-learn's models, converted."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn.ensemble
import sklearn.tree
from sklearn.linear_model import LinearRegression, LogisticRegression

import arboost
from arboost.convert import from_sklearn
from arboost.runtime.errors import XGBoostError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 5)).astype(np.float32)
X[:, 4] = RNG.integers(0, 12, 400)
SCORE = X[:, 0] + np.where(X[:, 1] > 0, X[:, 2], 0) + (X[:, 4] % 3 == 0)
HOLES = X.copy()
HOLES[RNG.random(X.shape) < 0.15] = np.nan
LABELS = {2: (SCORE > 0.5).astype(int), 3: np.digitize(SCORE, [0, 1])}
CLOSE = {"rtol": 1e-5, "atol": 2e-6}  # leaves and sums are float32


def assert_equal(model, rows=X):
    ours = from_sklearn(model)
    found = ours.inplace_predict(rows)
    if not hasattr(model, "classes_"):
        np.testing.assert_allclose(found, model.predict(rows), **CLOSE)
    else:
        wanted = model.predict_proba(rows)
        np.testing.assert_allclose(found, wanted if wanted.shape[1] > 2 else wanted[:, 1], **CLOSE)
    return ours


@pytest.mark.parametrize(
    "family", ["tree.DecisionTree", "tree.ExtraTree", "ensemble.RandomForest", "ensemble.ExtraTrees"]
)
def test_trees_and_forests(family):
    package, name = family.split(".")
    kinds = {kind: getattr(getattr(sklearn, package), f"{name}{kind}") for kind in ("Regressor", "Classifier")}
    few = {"n_estimators": 8} if package == "ensemble" else {}
    assert_equal(kinds["Regressor"](random_state=0, **few).fit(HOLES, SCORE), HOLES)
    assert_equal(kinds["Regressor"](random_state=0, **few).fit(X, np.column_stack([SCORE, -SCORE])))
    for y in LABELS.values():
        assert_equal(kinds["Classifier"](random_state=0, max_depth=6, **few).fit(HOLES, y), HOLES)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_gradient_boosting_of_numbers(loss):
    assert_equal(sklearn.ensemble.GradientBoostingRegressor(loss=loss, n_estimators=10).fit(X, SCORE))


@pytest.mark.parametrize("loss, n_classes", [("log_loss", 2), ("exponential", 2), ("log_loss", 3)])
def test_gradient_boosting_of_classes(loss, n_classes):
    y = LABELS[n_classes]
    assert_equal(sklearn.ensemble.GradientBoostingClassifier(loss=loss, n_estimators=10).fit(X, y))
    assert_equal(sklearn.ensemble.GradientBoostingClassifier(loss=loss, n_estimators=10, init="zero").fit(X, y))


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma", "quantile"])
def test_histogram_boosting_of_numbers(loss):
    more = {"quantile": 0.7} if loss == "quantile" else {}
    model = sklearn.ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=10, **more)
    assert_equal(model.fit(HOLES, np.abs(SCORE) + 0.1), HOLES)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_histogram_boosting_of_classes(n_classes):
    assert_equal(sklearn.ensemble.HistGradientBoostingClassifier(max_iter=10).fit(HOLES, LABELS[n_classes]), HOLES)


def test_histogram_boosting_on_categories():
    model = sklearn.ensemble.HistGradientBoostingRegressor(max_iter=10, categorical_features=[4], min_samples_leaf=5)
    for data in (X, HOLES):
        model.fit(data, SCORE)
        assert_equal(model, X)
        assert_equal(model, HOLES)
        unseen = X.copy()
        unseen[:, 4] += 6
        assert_equal(model, unseen)


def test_histogram_boosting_on_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X[:, 0], "k": pd.Categorical(np.array(list("abcdefghijkl"))[X[:, 4].astype(int)])})
    model = sklearn.ensemble.HistGradientBoostingRegressor(
        max_iter=10, categorical_features="from_dtype", min_samples_leaf=5
    ).fit(frame, SCORE)
    np.testing.assert_allclose(from_sklearn(model).inplace_predict(frame), model.predict(frame), **CLOSE)
    reordered = frame.assign(k=frame.k.cat.reorder_categories(list("lkjihgfedcba")))
    np.testing.assert_allclose(from_sklearn(model).inplace_predict(reordered), model.predict(frame), **CLOSE)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_adaboost(n_classes):
    tree = sklearn.tree.DecisionTreeClassifier(max_depth=2)
    assert_equal(sklearn.ensemble.AdaBoostClassifier(tree, n_estimators=8).fit(X, LABELS[n_classes]))


def test_classes_and_names_come_along():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = sklearn.ensemble.RandomForestClassifier(5).fit(frame, np.array(["n", "y"])[LABELS[2]])
    ours = from_sklearn(model)
    assert ours.feature_names == list("abcde")
    estimator = arboost.XGBClassifier()
    estimator.load_model(ours.save_raw())
    np.testing.assert_array_equal(estimator.classes_, ["n", "y"])


def test_what_is_no_sum_of_trees_is_refused_by_name():
    with pytest.raises(XGBoostError, match="median"):
        from_sklearn(sklearn.ensemble.AdaBoostRegressor(n_estimators=2).fit(X, SCORE))
    with pytest.raises(XGBoostError, match="LinearRegression"):
        from_sklearn(LinearRegression().fit(X, SCORE))
    with pytest.raises(XGBoostError, match="no trees"):
        from_sklearn(sklearn.ensemble.AdaBoostClassifier(LogisticRegression(), n_estimators=2).fit(X, LABELS[2]))
    with pytest.raises(XGBoostError, match="no constant"):
        init = LinearRegression()
        from_sklearn(sklearn.ensemble.GradientBoostingRegressor(init=init, n_estimators=2).fit(X, SCORE))
    with pytest.raises(XGBoostError, match="outputs of classes"):
        both = np.column_stack([LABELS[2], LABELS[2]])
        from_sklearn(sklearn.ensemble.RandomForestClassifier(2).fit(X, both))
    with pytest.raises(TypeError, match="fitted"):
        from_sklearn(sklearn.tree.DecisionTreeRegressor())
