"""Categories as values: what a model keeps of them, and how data gets the codes of a model."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.matrix.categories import MAX_CATEGORIES, Categories, as_category_values, code_tables, recode
from arboost.runtime.errors import XGBoostError


def texts(*values):
    return np.array(values, object)


def table(have, wanted):
    return code_tables(Categories([have]), Categories([wanted]), ["col"])[0]


def test_codes_follow_the_wanted_values():
    np.testing.assert_array_equal(table(texts("a", "b", "c"), texts("c", "a", "b")), [1, 2, 0])
    np.testing.assert_array_equal(table(texts("a", "x"), texts("c", "a")), [1, np.nan])
    np.testing.assert_array_equal(table(np.array([5, 7], np.int8), np.array([7, 5])), [1, 0])
    assert table(texts("a", "b"), texts("a", "b", "c")) is None, "the codes are the same already"
    assert code_tables(Categories([None]), Categories([None])) == [None]


def test_floats_find_what_a_model_kept_of_them():
    whole, split = np.array([2.0, 1.0]), np.array([2.5, 1.0])
    kept = Categories([whole, split]).stored()
    assert kept.values[0].dtype == np.int64 and kept.values[1].tolist() == ["2.5", "1.0"]
    assert code_tables(Categories([whole, split]), kept) == [None, None]
    np.testing.assert_array_equal(table(np.array([1.0, 1.5, 2.0]), kept.values[0]), [1, np.nan, 0])
    np.testing.assert_array_equal(table(np.array([1.0]), kept.values[1]), [1])


@pytest.mark.parametrize(
    ("have", "wanted"),
    [
        (None, texts("a")),
        (texts("a"), None),
        (np.array([1]), texts("1")),
        (texts("1"), np.array([1])),
        (np.array([1.5]), texts("a")),
    ],
    ids=["numbers for text", "text for numbers", "int for text", "text for int", "float for text"],
)
def test_other_types_are_refused(have, wanted):
    with pytest.raises(XGBoostError, match=r"feature col: The data type doesn't match .*numeric or categorical"):
        table(have, wanted)


def test_a_feature_without_any_category_has_no_type():
    nothing = np.zeros(0, object)
    np.testing.assert_array_equal(table(np.array([1, 2]), nothing), [np.nan, np.nan])
    assert table(nothing, texts("a")) is None
    assert table(None, nothing) is None


def test_what_a_model_keeps():
    values = [
        np.array([1, 2], np.uint8), np.array([1, 2], np.uint16), np.array([3], np.int16), texts("a"), None,
        np.zeros(0, object),
    ]  # fmt: skip
    kept = Categories(values).stored().values
    assert [None if v is None else v.dtype for v in kept] == [np.uint8, np.int64, np.int16, object, None, object]
    with pytest.raises(XGBoostError, match="64 bits"):
        Categories([np.array([2**63], np.uint64)]).stored()


def test_values_of_any_type():
    assert as_category_values([True, False], "c").tolist() == ["True", "False"]
    assert as_category_values([(0, 1), (1, 2)], "c").tolist() == ["(0, 1)", "(1, 2)"]
    assert as_category_values(["a", 1], "c").tolist() == ["a", "1"]
    assert as_category_values(np.array([3, 4], object), "c").dtype == np.int64
    days = np.array(["2020-01-01", "2021-05-06"], "M8[D]")
    assert as_category_values(days, "c").tolist() == as_category_values(days.astype("M8[ns]"), "c").tolist()
    with pytest.raises(XGBoostError, match="categories of the column c read the same"):
        as_category_values(["1", 1], "c")
    with pytest.raises(XGBoostError, match="at most"):
        as_category_values(np.arange(MAX_CATEGORIES + 1), "c")


def test_same_as():
    ab = Categories([texts("a", "b"), None])
    assert ab.same_as(Categories([texts("a", "b"), None]))
    for other in ([texts("a", "c"), None], [texts("a"), None], [texts("a", "b")], [texts("a", "b"), np.array([1])]):
        assert not ab.same_as(Categories(other))
    assert not Categories([np.array([1])]).same_as(Categories([texts("1")]))


def test_select_and_pickle():
    both = Categories([texts("a"), None], ["p", "q"])
    turned = both.select([1, 0])
    assert turned.names == ["q", "p"] and turned.values[0] is None
    twin = pickle.loads(pickle.dumps(both))
    assert twin.same_as(both) and twin.names == ["p", "q"]
    assert not both.empty() and Categories([None]).empty()
    with pytest.raises(ValueError, match="export_to_arrow"):
        both.to_arrow()


class Coded:
    """One column of codes."""

    feature_names = ["col"]

    def __init__(self, codes, categories):
        self.codes, self.categories = np.asarray(codes), categories

    def with_codes(self, tables, categories):
        return Coded(tables[0][self.codes], categories)

    def used_codes(self, feature, n_codes):
        return np.isin(np.arange(n_codes), self.codes)


def test_unseen_categories_are_missing_or_an_error():
    wanted = Categories([texts("b", "a")])
    raw = Coded([0, 1, 2], Categories([texts("a", "b", "x", "never")]))
    result = recode(raw, wanted)
    np.testing.assert_array_equal(result.codes, [1, 0, np.nan])
    assert result.categories is wanted
    with pytest.raises(XGBoostError, match=r"not in the training set for the column col: \['x'\]"):
        recode(raw, wanted, "error")
    unused = Coded([0, 1], raw.categories)
    np.testing.assert_array_equal(recode(unused, wanted, "error").codes, [1, 0])
    assert recode(raw, None) is raw


@given(
    st.lists(st.text(max_size=4), unique=True, max_size=12),
    st.lists(st.text(max_size=4), unique=True, max_size=12),
)
def test_a_table_keeps_the_meaning(have, wanted):
    found = table(texts(*have), texts(*wanted))
    if not have:
        assert found is None
        return
    for code, value in enumerate(have):
        new = code if found is None else found[code]
        if value in wanted:
            assert wanted[int(new)] == value
        else:
            assert np.isnan(new)
