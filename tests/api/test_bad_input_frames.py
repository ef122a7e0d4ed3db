"""Bad frames and labels: an error that names the column or argument and says what to do, before anything is trained.

Each case asserts two pieces of the message: what is wrong, in words XGBoost's users know, and the way out.
"""

import datetime
import re

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError

pandas = pytest.importorskip("pandas")

N = 30
RNG = np.random.default_rng(0)
X = RNG.random((N, 3)).round(2)
Y = (X[:, 0] > 0.5).astype(int)
NUMBERS = {"a": X[:, 0], "b": X[:, 1]}
COLORS = ["red", "green", "blue"] * (N // 3)
DAYS = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=i) for i in range(N)]
TRAIN = {"max_depth": 2, "nthread": 1}


def polars():
    return pytest.importorskip("polars")


def pyarrow():
    return pytest.importorskip("pyarrow")


def frame(library, **columns):
    """A frame of numbers `a`, `b` and the given columns."""
    columns = NUMBERS | columns
    if library == "pandas":
        return pandas.DataFrame(columns)
    return polars().DataFrame(columns) if library == "polars" else pyarrow().table(columns)


LIBRARIES = ["pandas", "polars", "pyarrow"]
KINDS = [arboost.DMatrix, arboost.QuantileDMatrix]


def refused(call, *pieces):
    """The call fails with a ValueError or TypeError whose message has all the pieces (regular expressions)."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    for piece in pieces:
        assert re.search(piece, str(caught.value), re.IGNORECASE | re.DOTALL), piece
    return caught.value


# ---- columns that are not numbers ----


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_column_of_text(library, kind):
    """Text is not made into categories behind the user's back; the message names the column and the way out."""
    data = frame(library, color=COLORS)
    refused(lambda: kind(data, Y), "color", "categor")


def test_column_of_objects():
    mixed = pandas.DataFrame({**NUMBERS, "what": pandas.Series([1, "x", None] * (N // 3), dtype=object)})
    error = refused(lambda: arboost.DMatrix(mixed, Y), "DataFrame.dtypes|dtype", "what", "object", "categor")
    assert isinstance(error, ValueError)
    refused(lambda: arboost.DMatrix(mixed, Y, enable_categorical=True), "what", "categor|convert")


def test_array_of_text():
    refused(lambda: arboost.DMatrix(np.array([["a", "b"], ["c", "d"]])), "number|numeric|float|dtype")
    refused(lambda: arboost.DMatrix(np.array([[1, "x"], [2, "y"]], dtype=object)), "number|numeric|float|convert")


@pytest.mark.parametrize("library", LIBRARIES)
def test_categories_that_are_not_enabled(library):
    if library == "pandas":
        column = pandas.Categorical(COLORS)
    elif library == "polars":
        column = polars().Series(COLORS, dtype=polars().Categorical)
    else:
        column = pyarrow().array(COLORS).dictionary_encode()
    data = frame(library, color=column)
    refused(lambda: arboost.DMatrix(data, Y, enable_categorical=False), "color", "enable_categorical")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_column_of_dates(library, kind):
    data = frame(library, day=DAYS)
    refused(lambda: kind(data, Y), "day", "date", "convert|number|int")


def test_column_of_durations():
    data = frame("pandas", took=pandas.to_timedelta(range(N), unit="s"))
    refused(lambda: arboost.DMatrix(data, Y), "took", "convert|number|int")


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[s]"])
def test_array_of_dates(dtype):
    refused(lambda: arboost.DMatrix(np.arange(4).reshape(2, 2).astype(dtype)), "date|time", "convert|number|int")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers(dtype):
    refused(lambda: arboost.DMatrix(X.astype(dtype), Y), "complex", "real")
    refused(lambda: arboost.DMatrix(X, Y.astype(dtype)), "label", "complex", "number|real")
    refused(lambda: arboost.DMatrix(frame("pandas", z=X[:, 2].astype(dtype)), Y), "z", "complex")


# ---- shapes ----


@pytest.mark.parametrize("kind", KINDS)
def test_three_dimensions(kind):
    refused(lambda: kind(np.zeros((5, 4, 3))), r"\(5, 4, 3\)|3-d|3 dim|dimension", "reshape|2-d|2 dim")
    refused(lambda: kind([[[1.0, 2.0]], [[3.0, 4.0]]]), "dimension|-d", "reshape|2-d|2 dim")


def test_a_number_is_no_matrix():
    refused(lambda: arboost.DMatrix(np.float64(3.0)), "dimension|-d|type|shape")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [N - 1, N + 1])
def test_lengths_that_differ(kind, n):
    data = frame("pandas")
    refused(lambda: kind(data, np.ones(n)), "label", f"{N}", f"{n}")
    # fewer weights than rows could be those of groups: known only in training
    refused(lambda: arboost.train(TRAIN, kind(data, Y, weight=np.ones(n)), 1), "weight", f"{N}", f"{n}")
    refused(lambda: kind(data, Y, base_margin=np.ones(n)), "base_margin", f"{N}", f"{n}")
    # groups may be set before the data is complete: they are looked at when they are used
    refused(lambda: arboost.train(TRAIN, kind(data, Y, qid=np.zeros(n)), 1), "group", f"{N}", f"{n}")


def test_rows_of_different_length():
    refused(lambda: arboost.DMatrix([[1.0, 2.0], [3.0]]), "row|length|shape|inhomogeneous")


def test_columns_of_the_same_name():
    data = pandas.DataFrame(X, columns=["a", "b", "a"])
    refused(lambda: arboost.DMatrix(data, Y), "must be unique", r"\['a'\]")


# ---- frames at prediction time ----


@pytest.fixture(scope="module")
def booster():
    return arboost.train(TRAIN, arboost.DMatrix(frame("pandas", c=X[:, 2]), Y), 2)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("place", ["predict", "inplace_predict"])
def test_columns_that_are_missing_or_new(booster, library, place):
    def predict(data):
        return booster.inplace_predict(data) if place != "predict" else booster.predict(arboost.DMatrix(data))

    refused(lambda: predict(frame(library, d=X[:, 2])), "feature_names mismatch", "expected c", "did not have.* d")
    refused(lambda: predict(frame(library)), "feature_names mismatch", "expected c in input data")


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_in_another_order_are_put_right(booster, library):
    ordered = frame(library, c=X[:, 2])
    mixed = ordered[["c", "a", "b"]] if library != "pyarrow" else ordered.select(["c", "a", "b"])
    wanted = booster.predict(arboost.DMatrix(ordered))
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(mixed)), wanted)
    np.testing.assert_array_equal(booster.inplace_predict(mixed), wanted)


def test_array_of_another_width(booster):
    refused(lambda: booster.inplace_predict(X[:, :2]), "Feature shape mismatch, expected: 3, got 2")


def test_text_at_prediction(booster):
    refused(lambda: booster.inplace_predict(frame("pandas", c=COLORS)), "c", "categor|convert")


def test_category_that_training_never_saw():
    train = frame("pandas", color=pandas.Categorical(COLORS))
    new = frame("pandas", color=pandas.Categorical(["red", "green", "violet"] * (N // 3)))
    params = {**TRAIN, "unseen_category": "error"}
    strict = arboost.train(params, arboost.DMatrix(train, Y, enable_categorical=True), 2)
    refused(lambda: strict.predict(arboost.DMatrix(new, enable_categorical=True)), "color", "violet")
    lenient = arboost.train(TRAIN, arboost.DMatrix(train, Y, enable_categorical=True), 2)
    assert np.isfinite(lenient.predict(arboost.DMatrix(new, enable_categorical=True))).all()


# ---- classes ----


@pytest.mark.parametrize("label", [[0, 1, 3], [0, 1, -1], [0, 1, 1.5]])
def test_label_that_is_no_class(label):
    data = arboost.DMatrix(X, label * (N // 3))
    refused(
        lambda: arboost.train({**TRAIN, "objective": "multi:softprob", "num_class": 3}, data, 1),
        r"label must be discrete values in the range of \[0, num_class\)",
        "num_class is 3|whole number",
    )


def test_other_number_of_classes_at_prediction():
    params = {**TRAIN, "objective": "multi:softprob", "num_class": 3}
    booster = arboost.train(params, arboost.DMatrix(X, [0, 1, 2] * (N // 3)), 2)
    wanted = booster.predict(arboost.DMatrix(X))
    refused(lambda: booster.predict(arboost.DMatrix(X, base_margin=np.zeros((N, 4)))), "base_margin", "3 outputs|3")
    refused(lambda: booster.inplace_predict(X, base_margin=np.zeros((N, 2))), "base_margin", "3 outputs|3")
    other = booster.copy()
    refused(lambda: (other.set_param("num_class", 5), other.predict(arboost.DMatrix(X))), "outputs", "3", "5")
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(X)), wanted)


@pytest.fixture
def classifier():
    pytest.importorskip("sklearn")
    return arboost.XGBClassifier(n_estimators=2, max_depth=2)


def test_labels_unseen_in_training(classifier):
    labels = np.array(["cat", "dog"])[Y]
    strange = np.where(np.arange(N) < 3, "cow", labels)
    refused(lambda: classifier.fit(X, labels, eval_set=[(X, strange)]), "eval_set|unseen|previously", "cow")


def test_labels_that_are_missing_or_continuous(classifier):
    refused(lambda: classifier.fit(X, np.where(np.arange(N) < 2, np.nan, Y)), "label|y", "nan|missing|infinity")
    refused(lambda: classifier.fit(X, X[:, 0]), "continuous|class", "regress|class|discrete")


def test_estimators_check_lengths_and_shapes(classifier):
    refused(lambda: classifier.fit(X, Y[:-1]), "inconsistent|size|length|samples", f"{N}", f"{N - 1}")
    refused(lambda: classifier.fit(X, Y, sample_weight=np.ones(3)), "weight", "3", f"{N}")
    refused(lambda: classifier.fit(np.zeros((N, 2, 2)), Y), "dim|-d", "2|reshape")
    classifier.fit(X, Y)
    refused(lambda: classifier.predict(X[:, :2]), "3", "2", "feature")
    refused(lambda: classifier.predict(X.astype(complex)), "complex")


def test_classes_of_a_model_that_is_continued(classifier):
    """A part of a model's classes is fine (it keeps all of them); others are refused."""
    three = arboost.XGBClassifier(n_estimators=2, max_depth=2).fit(X, [0, 1, 2] * (N // 3))
    classifier.fit(X, Y, xgb_model=three)
    assert classifier.predict_proba(X).shape == (N, 3)
    refused(lambda: classifier.fit(X, Y + 5, xgb_model=three), "3 outputs|num_class is 3", "has 1")
    binary, data = {"objective": "binary:logistic"}, arboost.DMatrix(X, Y)
    refused(lambda: arboost.train(binary, data, 1, xgb_model=three.get_booster()), "num_class is 3", "has 1")


# ---- afterwards everything works on ----


def test_nothing_is_lost():
    data = arboost.DMatrix(frame("pandas"), Y)
    before = arboost.train(TRAIN, data, 2).save_raw()
    for bad in (lambda: data.set_label(Y[:-1]), lambda: data.set_label(Y.astype(complex))):
        with pytest.raises((XGBoostError, TypeError)):
            bad()
    assert arboost.train(TRAIN, data, 2).save_raw() == before
