"""Labels, weights, groups and names: what is accepted, what is refused and with which words."""

import numpy as np
import pandas as pd
import pytest

from arboost.matrix.meta import MetaInfo
from arboost.runtime.errors import XGBoostError


@pytest.fixture
def info():
    return MetaInfo(4, 2)


VECTORS = [
    [1, 2, 3, 4],
    (1.0, 2, 3, 4),
    np.array([1, 2, 3, 4], np.int8),
    np.array([[1], [2], [3], [4]]),
    np.array([1, 2, 3, 4], object),
    pd.Series([1, 2, 3, 4], index=[9, 8, 7, 6]),
    pd.Series([1, 2, 3, 4], dtype="Int64"),
    pd.DataFrame({"y": [1.0, 2, 3, 4]}),
]


@pytest.mark.parametrize("data", VECTORS, ids=lambda data: type(data).__name__)
@pytest.mark.parametrize("field", ["label", "weight", "base_margin", "label_lower_bound", "label_upper_bound"])
def test_one_value_per_row(info, field, data):
    info.set(field, data)
    assert getattr(info, field).dtype == np.float32
    assert info.get(field).tolist() == [1, 2, 3, 4]


def test_values_are_copied(info):
    label = np.ones(4, np.float32)
    info.set_label(label)
    label[0] = 5
    info.get("label")[1] = 5
    assert info.label.tolist() == [1] * 4


@pytest.mark.parametrize("field", ["label", "base_margin"])
def test_several_targets(info, field):
    values = np.arange(12).reshape(4, 3)
    info.set(field, values)
    np.testing.assert_array_equal(info.get(field), values)
    info.set(field, values.ravel())
    np.testing.assert_array_equal(info.get(field), values)
    info.set(field, pd.DataFrame(values))
    np.testing.assert_array_equal(info.get(field), values)
    assert getattr(info, field).flags.c_contiguous


def test_empty_is_none(info):
    for field in ("label", "weight", "base_margin", "label_lower_bound", "feature_weights"):
        info.set(field, [])
        assert getattr(info, field) is None
        assert info.get(field).dtype == np.float32
        assert info.get(field).shape == (0,)
    assert info.get("group_ptr").dtype == np.uint32


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_labels_are_finite(info, value):
    info.set_label([1, 2, 3, 4])
    with pytest.raises(XGBoostError, match="Label contains NaN, infinity or a value too large"):
        info.set_label([1, 2, 3, value])
    assert info.label.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_weights_are_positive(info, value):
    with pytest.raises(XGBoostError, match="Weights must be positive values"):
        info.set_weight([1, 2, 3, value])
    with pytest.raises(XGBoostError, match="Feature weight must be greater than 0"):
        info.set_feature_weights([1, value])
    assert info.weight is None
    info.set_weight([0, 0, 1, 0])


@pytest.mark.parametrize("field", ["label", "base_margin", "label_lower_bound", "label_upper_bound"])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_wrong_length(info, field, n):
    with pytest.raises(XGBoostError, match=f"Invalid size for `{field}`"):
        info.set(field, np.ones(n))


def test_wrong_number_of_weights(info):
    with pytest.raises(XGBoostError, match="Size of weights must equal to number of rows"):
        info.set_weight(np.ones(5))
    info.set_weight([1, 2])  # may be weights of groups that are still to come
    with pytest.raises(XGBoostError, match="Size of weights must equal to number of rows"):
        info.row_weight()
    with pytest.raises(XGBoostError, match="feature_weights has 3 values, but there are 2 features"):
        info.set_feature_weights([1, 2, 3])


@pytest.mark.parametrize("field", ["label", "base_margin", "weight"])
def test_wrong_dimensions(info, field):
    with pytest.raises(XGBoostError, match=f"Invalid shape.*for {field}"):
        info.set(field, np.ones((2, 2, 1)))
    with pytest.raises(XGBoostError, match=r"Invalid shape.*for weight"):
        info.set("weight", np.ones((1, 4)))


@pytest.mark.parametrize("data", [["a", "b", "c", "d"], np.ones(4, complex), pd.Series(["a"] * 4), [[1, 2], [3]]])
def test_not_numbers(info, data):
    with pytest.raises(ValueError):
        info.set_label(data)


@pytest.mark.parametrize("data", [3.0, "abc", {"a": 1}, memoryview(b"abcd")])
def test_not_an_array(info, data):
    with pytest.raises(TypeError, match="Unsupported type for label"):
        info.set_label(data)


def test_groups(info):
    info.set_group([1, 3])
    assert info.get("group_ptr").tolist() == [0, 1, 4]
    info.set("qid", [5, 5, 7, 9])
    assert info.group_ptr.tolist() == [0, 2, 3, 4]
    info.set_weight([1, 2, 3])
    assert info.row_weight().tolist() == [1, 1, 2, 3]
    info.set_weight([1, 2, 3, 4])
    assert info.row_weight().tolist() == [1, 2, 3, 4]
    info.set_group([])
    assert info.group_ptr is None


@pytest.mark.parametrize(
    ("field", "data", "message"),
    [
        ("group", [-1, 5], "Invalid group structure"),
        ("qid", [2, 1, 1, 3], "sorted in non-decreasing order"),
        ("group", ["a"], "not supported"),
    ],
)
def test_bad_groups(info, field, data, message):
    with pytest.raises(XGBoostError, match=message):
        info.set(field, data)
    assert info.group_ptr is None


@pytest.mark.parametrize(("field", "data"), [("group", [1, 2]), ("group", [3, 3]), ("qid", [1, 1])])
def test_groups_of_other_rows(info, field, data):
    """They are taken, since rows may be set later, and refused when they are used."""
    info.set(field, data)
    with pytest.raises(XGBoostError, match="number of rows obtained from group"):
        info.check_groups()
    info.set("group", [1, 3])
    info.check_groups()


def test_unknown_fields(info):
    for use in (info.get, lambda field: info.set(field, [1])):
        with pytest.raises(XGBoostError, match="Unknown key: weights"):
            use("weights")
    with pytest.raises(XGBoostError, match="Unknown key"):
        info.set("group_ptr", [0, 4])
    with pytest.raises(XGBoostError, match="use `group_ptr` instead"):
        info.get("qid")


def test_feature_names(info):
    info.feature_names = ["a", "b c"]
    assert info.feature_names == ["a", "b c"]
    info.feature_names.append("d")
    assert info.feature_names == ["a", "b c"]
    for names in (np.array(["x", "y"]), pd.Index(["x", "y"]), ("x", "y")):
        info.feature_names = names
        assert info.feature_names == ["x", "y"]
        assert all(type(name) is str for name in info.feature_names)
    info.feature_names = None
    assert info.feature_names is None
    one = MetaInfo(1, 1)
    one.feature_names = "abc"
    assert one.feature_names == ["abc"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "same length as the number of data columns.*expected 2, got 1"),
        ([], "same length as the number of data columns"),
        (["a", "a"], r"must be unique. Duplicates found: \['a'\]"),
        (["a", "b["], r"may not contain \[, \] or <"),
        (["a", "]"], "may not contain"),
        (["<", "b"], "may not contain"),
        ([1, 2], "must be string"),
    ],
)
def test_bad_feature_names(info, names, message):
    with pytest.raises(XGBoostError, match=message):
        info.feature_names = names
    assert info.feature_names is None
    with pytest.raises(TypeError, match="Expecting a sequence of strings"):
        info.feature_names = 3


def test_feature_types(info):
    info.feature_types = ["int", "q"]
    assert info.feature_types == ["int", "q"]
    with pytest.raises(XGBoostError, match="must be one of"):
        info.feature_types = ["int", "x"]
    with pytest.raises(XGBoostError, match="same length"):
        info.feature_types = ["int"]
    info.feature_types = ["int", "c"]
    assert info.feature_types == ["int", "c"]


def test_take(info):
    info.set_label([1, 2, 3, 4])
    info.set_weight([1, 2])
    info.set_group([2, 2])
    info.set_base_margin(np.arange(8))
    info.set_feature_weights([1, 2])
    info.feature_names = ["a", "b"]
    part = info.take(np.array([3, 0, 3]))
    assert (part.n_rows, part.n_features) == (3, 2)
    assert part.label.tolist() == [4, 1, 4]
    assert part.base_margin.tolist() == [[6, 7], [0, 1], [6, 7]]
    assert part.weight is None  # they were the groups'
    assert part.group_ptr is None
    assert part.feature_weights.tolist() == [1, 2]
    assert part.feature_names == ["a", "b"]


def test_without_rows():
    info = MetaInfo(0, 2)
    info.set_label([])
    info.set_weight([])
    assert info.row_weight() is None
    with pytest.raises(XGBoostError, match="Invalid size"):
        info.set_label([1])
