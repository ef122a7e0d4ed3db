"""Categories in model files: XGBoost's container, both ways, and files that nobody should trust."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.booster import Booster
from arboost.matrix.categories import Categories
from arboost.modelio.cats import pack_categories, unpack_categories
from arboost.runtime.errors import XGBoostError


def texts(*values):
    return np.array(values, object)


def test_layout():
    cats = pack_categories(Categories([texts("d", "ab", ""), np.array([30, 10], np.int64), None]))
    assert cats == {
        "enc": [
            {"offsets": [0, 1, 3, 3], "values": [100, 97, 98]},
            {"type": 15, "values": [30, 10]},
            {"offsets": [], "values": []},
        ],
        "feature_segments": [0, 3, 5, 5],
        "sorted_idx": [2, 1, 0, 1, 0],
    }


def test_bytes_are_ordered_as_signed():
    """XGBoost searches by this order: "é" begins with a byte below every ASCII one."""
    assert pack_categories(Categories([texts("a", "é", "z")]))["sorted_idx"] == [1, 0, 2]


def test_no_categories():
    assert pack_categories(None) is None
    assert pack_categories(Categories([None, np.zeros(0, object)])) is None
    assert unpack_categories(None, None) is None


def test_a_categorical_feature_without_categories_stays_categorical():
    cats = pack_categories(Categories([texts("a"), np.zeros(0, object), None]))
    values = unpack_categories(cats, ["c", "c", "q"]).values
    assert len(values[1]) == 0 and values[2] is None


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_integers_keep_their_type(dtype):
    values = np.array([np.iinfo(dtype).max, 0, 7], dtype)
    back = unpack_categories(pack_categories(Categories([values])), None).values[0]
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, values)


@given(st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=20))
def test_any_text_survives(values):
    cats = pack_categories(Categories([texts(*values)]))
    assert unpack_categories(cats, None).values[0].tolist() == values
    assert sorted(cats["sorted_idx"]) == list(range(len(values)))


def test_bytes_that_are_no_text_survive():
    """XGBoost 3.2 measures strings in characters and cuts their bytes: such pieces must come back as they were."""
    cats = {"enc": [{"offsets": [0, 1, 2], "values": [-61, -87]}], "feature_segments": [0, 2], "sorted_idx": [1, 0]}
    assert pack_categories(unpack_categories(cats, None)) == cats


@pytest.fixture(scope="module")
def document():
    """A model of XGBoost with text and integer categories."""
    xgb, pd = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"s": pd.Categorical(list("abca") * 5), "i": pd.Categorical([3, 1, 2, 3] * 5)})
    data = xgb.DMatrix(frame, np.arange(20) % 4, enable_categorical=True)
    return json.loads(xgb.train({"max_depth": 2}, data, 2).save_raw("json"))


def load(document, **changes):
    doc = json.loads(json.dumps(document))
    cats = doc["learner"]["gradient_booster"]["model"]["cats"]
    for path, value in changes.items():
        place, *keys = path.split("__")
        target = cats if not keys else cats[place][int(keys[0])]
        target[keys[1] if keys else place] = value
    return Booster(model_file=json.dumps(doc).encode())


def test_a_model_of_xgboost_comes_back_the_same(document):
    booster = load(document)
    assert [v.tolist() for v in booster.get_categories().values] == [["a", "b", "c"], [1, 2, 3]]
    assert json.loads(booster.save_raw("json")) == document


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("enc", [], "cats.enc"),
        ("enc", 3, "cats.enc"),
        ("enc__0__offsets", [0, 1, 2**31 - 1], r"cats.enc\[0\].offsets"),
        ("enc__0__offsets", [0, 2, 1, 3], r"cats.enc\[0\].offsets"),
        ("enc__0__offsets", ["a"], r"cats.enc\[0\].offsets"),
        ("enc__0__values", [97, 98, 1000], r"cats.enc\[0\].values"),
        ("enc__0__values", [97], r"cats.enc\[0\].offsets"),
        ("enc__1__type", 99, r"cats.enc\[1\].type"),
        ("enc__1__type", [], r"cats.enc\[1\].type"),
        ("enc__1__values", [1.5], r"cats.enc\[1\].values"),
        ("enc__1__values", [2**70], r"cats.enc\[1\].values"),
        ("feature_segments", [0, 3, 2**31 - 1], "cats.feature_segments"),
        ("feature_segments", [], "cats.feature_segments"),
        ("sorted_idx", [0, 1, 2, 0, 1, 1], "cats.sorted_idx"),
        ("sorted_idx", [0, 1, 2, 0, 1, 2**31 - 1], "cats.sorted_idx"),
        ("sorted_idx", [0], "cats.sorted_idx"),
    ],
)
def test_hostile_files_are_refused(document, path, value, field):
    with pytest.raises(XGBoostError, match=field):
        load(document, **{path: value})
