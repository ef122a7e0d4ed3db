"""The data side of categories against xgboost: types, categories, files, other codes, names."""

import json

import numpy as np
import pytest

import arboost

xgb = pytest.importorskip("xgboost")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N_ROWS = 400


def make_frame(turned=False):
    rng = np.random.default_rng(11)
    codes = rng.integers(-1, 6, N_ROWS)
    names, numbers = [f"v{i}" for i in (3, 1, 2, 0, 5, 4)], np.array([7, -2, 5], np.int32)
    frame = pd.DataFrame(
        {
            "text": pd.Categorical.from_codes(codes, categories=names),
            "int": pd.Categorical.from_codes(rng.integers(0, 3, N_ROWS), categories=numbers),
            "x": rng.normal(size=N_ROWS),
            "nullable": pd.array(rng.integers(0, 9, N_ROWS), "Int64"),
            "bool": rng.random(N_ROWS) < 0.5,
        }
    )
    if turned:
        frame["text"] = frame["text"].cat.reorder_categories(sorted(names))
        frame["int"] = frame["int"].cat.reorder_categories(np.sort(numbers))
    return frame


FRAME, TURNED = make_frame(), make_frame(turned=True)
LABEL = (FRAME["text"].cat.codes * FRAME["x"] + FRAME["int"].cat.codes).to_numpy()
PARAMS = {"max_depth": 4, "max_cat_to_onehot": 1, "nthread": 1}


def both(frame, **options):
    return [library.DMatrix(frame, LABEL, enable_categorical=True, **options) for library in (arboost, xgb)]


@pytest.fixture(scope="module")
def theirs():
    return xgb.train(PARAMS, both(FRAME)[1], 6)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        TURNED,
        pa.Table.from_pandas(FRAME.drop(columns="int")),
        pl.from_pandas(FRAME.drop(columns="int")),
        FRAME.drop(columns=["text", "int"]).convert_dtypes(dtype_backend="pyarrow"),
    ],
    ids=["pandas", "turned", "table", "polars", "pandas arrow"],
)
def test_matrices_agree(frame):
    ours, peer = both(frame)
    assert ours.feature_names == peer.feature_names
    assert ours.feature_types == peer.feature_types
    assert ours.num_nonmissing() == peer.num_nonmissing()
    assert (ours.get_data() != peer.get_data()).nnz == 0
    assert ours.get_categories(export_to_arrow=True).to_arrow() == peer.get_categories(export_to_arrow=True).to_arrow()


def test_exports_without_categories():
    for data in both(np.eye(N_ROWS)[:, :3]):
        assert data.get_categories(export_to_arrow=True).to_arrow() == [("0", None), ("1", None), ("2", None)]
        assert data.get_categories().empty()
        with pytest.raises(ValueError, match="export_to_arrow"):
            data.get_categories().to_arrow()


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_their_model_here(theirs, form):
    booster = arboost.Booster(model_file=theirs.save_raw(form))
    assert booster.save_raw("json") == theirs.save_raw("json")
    assert booster.get_categories(True).to_arrow() == theirs.get_categories(True).to_arrow()
    expected = theirs.predict(both(FRAME)[1])
    for frame in (FRAME, TURNED):
        ours, _ = both(frame)
        np.testing.assert_array_equal(booster.predict(ours), expected)
        np.testing.assert_array_equal(booster.inplace_predict(frame), theirs.inplace_predict(frame))
        assert booster.eval(ours)[:25] == theirs.eval(both(frame)[1])[:25]


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_our_model_there(form):
    ours, peer = both(FRAME)
    booster = arboost.train(PARAMS, ours, 6)
    loaded = xgb.Booster(model_file=booster.save_raw(form))
    np.testing.assert_array_equal(loaded.predict(peer), booster.predict(ours))
    np.testing.assert_array_equal(loaded.predict(both(TURNED)[1]), booster.predict(ours))
    assert loaded.get_categories(True).to_arrow() == booster.get_categories(True).to_arrow()
    assert loaded.save_raw("json") == booster.save_raw("json")


def test_containers_are_equal(theirs):
    ours = arboost.train(PARAMS, both(FRAME)[0], 1)
    cats = [json.loads(b.save_raw("json"))["learner"]["gradient_booster"]["model"]["cats"] for b in (ours, theirs)]
    assert cats[0] == cats[1]


def test_text_beyond_ascii_there():
    """XGBoost reads such text rightly from Arrow; its search needs our order of signed bytes."""
    names = ["é", "z", "a", "𝄞", "~", "Ω", ""]
    codes = np.random.default_rng(0).integers(0, len(names), N_ROWS)
    table = pa.table({"c": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))})
    turned = pa.DictionaryArray.from_arrays(pa.array(len(names) - 1 - codes, pa.int32()), pa.array(names[::-1]))
    label = np.sin(codes * 7.0)
    booster = arboost.train(PARAMS, arboost.DMatrix(table, label, enable_categorical=True), 5)
    loaded = xgb.Booster(model_file=booster.save_raw())
    expected = booster.inplace_predict(table)
    for other in (table, pa.table({"c": turned})):
        np.testing.assert_array_equal(booster.inplace_predict(other), expected)
        np.testing.assert_array_equal(loaded.predict(xgb.DMatrix(other, enable_categorical=True)), expected)


def errors_of(action):
    found = []
    for library in (arboost, xgb):
        with pytest.raises(ValueError) as caught:
            action(library)
        found.append(str(caught.value))
    return found


@pytest.mark.parametrize(
    ("action", "gist"),
    [
        (lambda lib: lib.DMatrix(FRAME), "DataFrame.dtypes for data must be int, float, bool or category"),
        (lambda lib: lib.DMatrix(FRAME), "`enable_categorical` must be set to `True`"),
        (lambda lib: lib.DMatrix(pd.DataFrame({"a": ["x"]})), "Invalid columns"),
        (lambda lib: lib.DMatrix(pd.DataFrame({"a[": [1]})), "may not contain [, ] or <"),
        (lambda lib: lib.DMatrix(np.eye(2), feature_names=["a", "a"]), "feature_names must be unique"),
        (lambda lib: lib.DMatrix(np.eye(2), feature_types=["z", "q"]), "All feature_types must be one of"),
        (lambda lib: lib.DMatrix(np.eye(2), feature_types=["c"]), "feature types must have the same length"),
    ],
)
def test_messages(action, gist):
    assert all(gist in message for message in errors_of(action))


def test_messages_at_prediction(theirs):
    raw = theirs.save_raw("json")
    number = FRAME.assign(int=FRAME["int"].astype(int))

    def predict(frame):
        return lambda lib: lib.Booster(model_file=raw).inplace_predict(frame)

    for frame, gist in (
        (number, "The data type doesn't match the one used in the training dataset"),
        (FRAME.drop(columns="x"), "expected x in input data"),
        (FRAME.assign(z=1), "training data did not have the following fields: z"),
    ):
        assert all(gist in message for message in errors_of(predict(frame)))


def test_unseen_categories_are_their_error_and_our_choice(theirs):
    strange = FRAME.assign(text=FRAME["text"].cat.rename_categories({"v5": "w"}))
    booster = arboost.Booster({"unseen_category": "error"}, model_file=theirs.save_raw())
    for model in (theirs, booster):
        with pytest.raises(ValueError, match="Found a category not in the training set"):
            model.inplace_predict(strange)
    booster.set_param("unseen_category", "missing")
    absent = FRAME.assign(text=FRAME["text"].cat.remove_categories(["v5"]))
    np.testing.assert_array_equal(booster.inplace_predict(strange), theirs.inplace_predict(absent))
