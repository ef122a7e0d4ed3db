"""Frames as users pass them: names, order of columns, categories in training, evaluation, prediction and files."""

import pickle

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N_ROWS = 300
PARAMS = {"max_depth": 3, "max_cat_to_onehot": 1, "nthread": 1}


def make_frame(colors=("red", "green", "blue"), sizes=(30, 10, 20)):
    """The same rows whatever the order of the categories."""
    rng = np.random.default_rng(5)
    color = rng.choice(["blue", "green", "red"], N_ROWS).astype(object)
    color[::13] = None
    return pd.DataFrame(
        {
            "color": pd.Categorical(color, categories=list(colors)),
            "size": pd.Categorical(rng.choice([10, 20, 30], N_ROWS), categories=list(sizes)),
            "weight Ω": rng.normal(size=N_ROWS),
            "flag": rng.random(N_ROWS) < 0.5,
        }
    )


FRAME = make_frame()
OTHER = make_frame(("blue", "red", "green"), (10, 20, 30))  # the same data in other codes
LABEL = (FRAME["color"].cat.codes * FRAME["weight Ω"] + FRAME["size"].cat.codes).to_numpy()


def matrix(frame, **options):
    return arboost.DMatrix(frame, LABEL[: len(frame)], enable_categorical=True, **options)


def quantile(frame, **options):
    return arboost.QuantileDMatrix(frame, LABEL[: len(frame)], enable_categorical=True, **options)


@pytest.fixture(scope="module")
def booster():
    return arboost.train(PARAMS, matrix(FRAME), 5)


@pytest.fixture(scope="module")
def expected(booster):
    return booster.predict(matrix(FRAME))


def test_the_model_knows_the_categories(booster):
    colors, sizes, *rest = booster.get_categories().values
    assert (colors.tolist(), sizes.tolist(), rest) == (["red", "green", "blue"], [30, 10, 20], [None, None])
    assert booster.feature_types == ["c", "c", "float", "i"]
    assert booster.feature_names == list(FRAME.columns)


@pytest.mark.parametrize("make", [matrix, quantile])
def test_other_codes_give_the_same_answer(booster, expected, make):
    assert np.array_equal(booster.predict(make(OTHER)), booster.predict(make(FRAME)))
    assert np.array_equal(booster.predict(make(OTHER), pred_leaf=True), booster.predict(make(FRAME), pred_leaf=True))
    assert np.array_equal(booster.inplace_predict(OTHER), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame,
        pa.Table.from_pandas,
        lambda frame: pa.Table.from_pandas(frame).to_batches()[0],
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    ],
    ids=["pandas", "table", "batch", "pandas arrow"],
)
def test_every_kind_of_frame(booster, expected, change):
    for frame in (FRAME, OTHER, OTHER[OTHER.columns[::-1]]):
        assert np.array_equal(booster.inplace_predict(change(frame)), expected)
        assert np.array_equal(booster.predict(matrix(change(frame))), expected)


def test_polars_predicts_what_pandas_trained():
    columns = ["color", "weight Ω", "flag"]
    booster = arboost.train(PARAMS, matrix(FRAME[columns]), 3)
    expected = booster.predict(matrix(FRAME[columns]))
    frame = pl.from_pandas(OTHER[["flag", "color", "weight Ω"]])
    for other in (frame, frame.lazy(), frame.with_columns(pl.col("color").cast(pl.Enum(["blue", "red", "green"])))):
        assert np.array_equal(booster.inplace_predict(other), expected)
        assert np.array_equal(booster.predict(arboost.DMatrix(other, enable_categorical=True)), expected)


def test_evaluation_data_in_other_codes():
    data, scores = matrix(FRAME), {}
    evals = [(data, "own"), (matrix(OTHER), "codes"), (matrix(OTHER[OTHER.columns[::-1]]), "order")]
    evals.append((quantile(OTHER), "quantile"))
    custom = lambda prediction, data: ("mean", float(prediction.mean()))  # noqa: E731
    arboost.train(PARAMS, data, 3, evals=evals, evals_result=scores, custom_metric=custom, verbose_eval=False)
    assert scores["own"] == scores["codes"] == scores["order"] == scores["quantile"]


def test_a_reference_gives_codes_and_order():
    reference = quantile(FRAME)
    other = quantile(OTHER[OTHER.columns[::-1]], ref=reference)
    assert other.feature_names == list(FRAME.columns) and other.feature_types == reference.feature_types
    assert other.get_categories().same_as(reference.get_categories())
    assert np.array_equal(other.get_data().toarray(), reference.get_data().toarray())


def test_training_goes_on_in_other_codes(booster):
    models = [arboost.train(PARAMS, matrix(frame), 2, xgb_model=booster) for frame in (FRAME, OTHER)]
    assert models[0].save_raw() == models[1].save_raw()
    with pytest.raises(XGBoostError, match=r"feature_types=booster\.get_categories\(\)"):
        arboost.train(PARAMS, quantile(OTHER), 2, xgb_model=booster)
    again = arboost.train(PARAMS, quantile(OTHER, feature_types=booster.get_categories()), 2, xgb_model=booster)
    same = arboost.train(PARAMS, quantile(FRAME), 2, xgb_model=booster)
    assert again.save_raw() == same.save_raw()


def test_own_objective_in_other_codes(booster):
    def squared(prediction, data):
        return prediction - data.get_label(), np.ones_like(prediction)

    models = [arboost.train(PARAMS, matrix(f), 2, obj=squared, xgb_model=booster) for f in (FRAME, OTHER)]
    assert models[0].save_raw() == models[1].save_raw()


@pytest.mark.parametrize(
    "again",
    [
        lambda b: arboost.Booster(model_file=b.save_raw("json")),
        lambda b: arboost.Booster(model_file=b.save_raw("ubj")),
        lambda b: pickle.loads(pickle.dumps(b)),
        lambda b: b.copy(),
        lambda b: b[:],
    ],
    ids=["json", "ubj", "pickle", "copy", "slice"],
)
def test_categories_and_policy_travel_with_the_model(booster, expected, again):
    strict = booster.copy()
    strict.set_param("unseen_category", "error")
    for model in (again(booster), again(strict)):
        assert np.array_equal(model.inplace_predict(OTHER), expected)
        assert model.get_categories().same_as(booster.get_categories())
    strange = OTHER.assign(color=OTHER["color"].cat.rename_categories({"blue": "violet"}))
    absent = OTHER.assign(color=OTHER["color"].cat.remove_categories(["blue"]))
    assert np.array_equal(again(booster).inplace_predict(strange), booster.inplace_predict(absent))
    for predict in (again(strict).inplace_predict, lambda f: again(strict).predict(quantile(f))):
        with pytest.raises(XGBoostError, match=r"not in the training set for the column color: \['violet'\]"):
            predict(strange)
    assert again(strict).attributes() == {}


def test_unseen_categories_that_no_row_has_are_no_error(booster, expected):
    strict = booster.copy()
    strict.set_param("unseen_category", "error")
    wider = FRAME.assign(color=FRAME["color"].cat.add_categories(["violet"]))
    assert np.array_equal(strict.inplace_predict(wider), expected)


def test_names_are_checked_and_put_in_order(booster, expected):
    turned = FRAME[["flag", "weight Ω", "size", "color"]]
    assert np.array_equal(booster.inplace_predict(turned), expected)
    assert np.array_equal(booster.predict(matrix(turned)), expected)
    assert np.array_equal(booster.predict(quantile(turned)), booster.predict(quantile(FRAME)))
    wrong = FRAME.rename(columns={"flag": "flags"})
    for predict in (booster.inplace_predict, lambda f: booster.predict(matrix(f))):
        with pytest.raises(ValueError, match=r"feature_names mismatch(.|\n)*expected flag in(.|\n)*not have .*: flags"):
            predict(wrong)
        with pytest.raises(ValueError, match=r"(.|\n)*expected weight Ω in input data"):
            predict(FRAME.drop(columns="weight Ω"))
        with pytest.raises(ValueError, match=r"(.|\n)*did not have the following fields: more"):
            predict(FRAME.assign(more=1))
    named = arboost.DMatrix(np.zeros((1, 4)), feature_names=["flag", "weight Ω", "size", "color"])
    with pytest.raises(ValueError, match="feature_names mismatch"):
        booster.predict(named)


def test_without_validation_columns_count(booster, expected):
    renamed = FRAME.set_axis(list("abcd"), axis=1)
    assert np.array_equal(booster.inplace_predict(renamed, validate_features=False), expected)
    assert np.array_equal(booster.predict(matrix(renamed), validate_features=False), expected)


def test_feature_weights_and_labels_follow_their_columns():
    weights = np.array([4.0, 3.0, 2.0, 1.0])
    data = matrix(FRAME[FRAME.columns[::-1]], feature_weights=weights)
    twin = data.aligned(list(FRAME.columns), None)
    assert twin.info.feature_weights.tolist() == weights[::-1].tolist()
    data.set_label(np.ones(N_ROWS))
    assert data.aligned(list(FRAME.columns), None) is twin and twin.get_label().max() == 1


def test_numbers_are_no_categories(booster):
    numbers = FRAME.assign(size=FRAME["size"].astype(int))
    with pytest.raises(XGBoostError, match=r"feature size: .*numeric now, categories of integers in training"):
        booster.inplace_predict(numbers)
    text = FRAME.assign(size=FRAME["size"].cat.rename_categories(str))
    with pytest.raises(XGBoostError, match=r"feature size: .*categories of strings now"):
        booster.inplace_predict(text)


def test_codes_of_the_users_own(booster, expected):
    codes = np.column_stack([FRAME["color"].cat.codes.replace(-1, np.nan), FRAME["size"].cat.codes, FRAME.iloc[:, 2:]])
    codes = codes.astype(np.float32)
    assert np.array_equal(booster.inplace_predict(codes), expected)
    own = arboost.DMatrix(codes, LABEL, feature_types=["c", "c", "q", "i"])
    assert own.get_categories().empty()
    model = arboost.train(PARAMS, own, 5)
    assert np.array_equal(model.predict(own), expected)


@pytest.mark.parametrize(
    "values",
    [
        [1.5, 2.5, 3.5],
        [1.0, 2.0, 3.0],
        pd.interval_range(0, 3),
        pd.to_datetime(["2020", "2021", "2022"]),
        ["é", "", "𝄞"],
    ],
    ids=["floats", "whole floats", "intervals", "dates", "unicode"],
)
def test_categories_of_any_type(values):
    codes = np.random.default_rng(0).integers(-1, 3, 100)
    frame = pd.DataFrame({"c": pd.Categorical.from_codes(codes, categories=values), "x": np.arange(100.0)})
    turned = frame.assign(c=frame["c"].cat.reorder_categories(list(values)[::-1]))
    booster = arboost.train(PARAMS, arboost.DMatrix(frame, codes, enable_categorical=True), 3)
    loaded = arboost.Booster(model_file=booster.save_raw())
    for model in (booster, loaded):
        assert np.array_equal(model.inplace_predict(turned), booster.inplace_predict(frame))
        assert np.array_equal(model.inplace_predict(turned.iloc[:3]), booster.inplace_predict(frame.iloc[:3]))


def test_a_column_of_missing_categories():
    frame = pd.DataFrame({"c": pd.Categorical([None] * 20, categories=[]), "x": np.arange(20.0)})
    booster = arboost.train(PARAMS, arboost.DMatrix(frame, np.arange(20), enable_categorical=True), 2)
    for model in (booster, arboost.Booster(model_file=booster.save_raw())):
        other = frame.assign(c=pd.Categorical(["a"] * 20))
        assert np.array_equal(model.inplace_predict(other), booster.inplace_predict(frame))


def test_slices_keep_categories():
    part = matrix(FRAME).slice(np.arange(0, N_ROWS, 2))
    assert part.get_categories().same_as(matrix(FRAME).get_categories())
    assert np.array_equal(part.get_data().toarray(), matrix(FRAME.iloc[::2]).get_data().toarray())


def test_threads_give_the_same_matrix():
    frame = pd.concat([FRAME] * 30, ignore_index=True)
    one, two = (arboost.QuantileDMatrix(frame, enable_categorical=True, nthread=n) for n in (1, 2))
    assert np.array_equal(one.get_data().toarray(), two.get_data().toarray())
