"""Frames of every kind become the same numbers, by reference; what is no number is refused with advice."""

import datetime
import decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arboost.matrix.adapt import adapt
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.frames import FrameData, frame_to_array, is_frame
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
nw = pytest.importorskip("narwhals")

NAN = np.nan
VALUES = np.array(
    [[1, 0.5, 1, 0, 7], [NAN, NAN, NAN, NAN, 8], [3, -2, 0, 1, 9], [-4, 1e-3, 1, 0, 10], [5, 2, 0, 1, 11]], np.float32
)
TYPES = ["int", "float", "i", "c", "int"]
NAMES = ["i", "f", "b", "c", "n"]
INTS = [1, None, 3, -4, 5]
FLOATS = [0.5, None, -2.0, 1e-3, 2.0]
BITS = [1, None, 0, 1, 0]
TEXTS = ["x", None, "y", "x", "y"]
COUNT = range(7, 12)
BOOLS = [None if b is None else bool(b) for b in BITS]


class Stream:
    """Nothing but Arrow's stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    """Nothing but Arrow's array of structs."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


class Interchange:
    """Nothing but the interchange protocol."""

    def __init__(self, table):
        self._table = table

    def __dataframe__(self, *args, **kwargs):
        return self._table.__dataframe__(*args, **kwargs)


def nullable():
    return pd.DataFrame(
        {
            "i": pd.array(INTS, "Int64"), "f": pd.array(FLOATS, "Float32"), "b": pd.array(BOOLS, "boolean"),
            "c": pd.Categorical(TEXTS), "n": np.array(COUNT, np.uint8),
        }
    )  # fmt: skip


def table():
    columns = {
        "i": pa.array(INTS),
        "f": pa.array(FLOATS),
        "b": pa.array(BOOLS),
        "c": pa.array(TEXTS).dictionary_encode(),
    }
    return pa.table(columns | {"n": pa.array(COUNT, pa.int16())})


def chunked():
    """Two chunks, the second with a dictionary of its own and an offset that is no whole byte."""
    longer = pa.concat_tables([table().slice(3), table()])
    return pa.concat_tables([table().slice(0, 2), longer.combine_chunks().slice(4)])


def polars_frame():
    return pl.DataFrame(
        {
            "i": INTS,
            "f": FLOATS,
            "b": BOOLS,
            "c": pl.Series(TEXTS, dtype=pl.Categorical),
            "n": pl.Series(COUNT, dtype=pl.Int8),
        }
    )


def plain():
    return pd.DataFrame(
        {
            "i": pd.arrays.SparseArray([1, NAN, 3, -4, 5]), "f": np.array(FLOATS, np.float64),
            "b": np.array(BITS, np.float16),
            "c": pd.Series(TEXTS, dtype="category"), "n": np.array(COUNT),
        }
    )  # fmt: skip


FRAMES = {
    "pandas": plain,
    "pandas nullable": nullable,
    "pandas arrow": lambda: nullable().convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars_frame,
    "polars lazy": lambda: polars_frame().lazy(),
    "polars enum": lambda: polars_frame().with_columns(pl.col("c").cast(pl.Enum(["x", "y"]))),
    "polars chunked": lambda: pl.concat([polars_frame()[:2], polars_frame()[2:]], rechunk=False),
    "table": table,
    "chunked table": chunked,
    "batch": lambda: table().to_batches()[0],
    "narwhals": lambda: nw.from_native(polars_frame()),
    "narwhals lazy": lambda: nw.from_native(polars_frame().lazy()),
    "stream": lambda: Stream(table()),
    "stream of polars": lambda: Stream(polars_frame()),
    "array": lambda: Array(table().to_batches()[0]),
    "interchange": lambda: Interchange(table()),
}


def dense(raw, rows=None):
    return np.concatenate([values.copy() for _, values in raw.chunks(rows)])


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_is_the_same_numbers(make):
    raw = adapt(make())
    assert is_frame(make()) and isinstance(raw, FrameData)
    np.testing.assert_array_equal(dense(raw), VALUES)
    for rows in (1, 2, 3):
        np.testing.assert_array_equal(dense(adapt(make()), rows), VALUES)
    assert raw.feature_names == NAMES
    assert raw.feature_types == (["float", "float", "float", "c", "int"] if make is plain else TYPES)
    assert raw.categories.values[3].tolist() == ["x", "y"]
    assert [v is None for v in raw.categories.values] == [True, True, True, False, True]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_rows_and_columns_can_be_chosen(make):
    raw, rows, order = adapt(make()), np.array([4, 0, 0, 1]), [3, 4, 0, 2, 1]
    part = raw.take(rows)
    np.testing.assert_array_equal(dense(part), VALUES[rows])
    assert part.feature_names == NAMES and part.categories.same_as(raw.categories)
    turned = raw.select(order)
    np.testing.assert_array_equal(dense(turned), VALUES[:, order])
    assert turned.feature_types[0] == "c" and turned.categories.values[0].tolist() == ["x", "y"]
    np.testing.assert_array_equal(dense(part.select(order)), VALUES[rows][:, order])


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_counts(make):
    np.testing.assert_array_equal(adapt(make()).scan(Context(n_threads=2)), [4, 4, 4, 4, 5])
    np.testing.assert_array_equal(adapt(make(), 5).scan(Context()), [3, 4, 4, 4, 5])


def test_a_missing_value_is_no_code():
    raw = adapt(nullable(), 0)
    np.testing.assert_array_equal(dense(raw)[:, 3], VALUES[:, 3])
    np.testing.assert_array_equal(dense(raw)[:, 2], [1, NAN, NAN, 1, NAN])


@pytest.mark.parametrize("make", [plain, nullable, chunked, polars_frame])
def test_codes_are_translated(make):
    raw = adapt(make())
    tables = [None, None, None, np.array([5, NAN], np.float32), None]
    twin = raw.with_codes(tables, raw.categories)
    expected = np.where(VALUES[:, 3] == 0, 5, NAN)
    np.testing.assert_array_equal(dense(twin)[:, 3], expected)
    np.testing.assert_array_equal(dense(twin)[:, :3], VALUES[:, :3])
    again = twin.with_codes([None, None, None, np.arange(6, dtype=np.float32) + 1, None], raw.categories)
    np.testing.assert_array_equal(dense(again)[:, 3], expected + 1)
    assert raw.used_codes(3, 2).all()
    assert raw.take(np.array([0, 1])).used_codes(3, 2).tolist() == [True, False]


def test_memory_is_shared():
    frame = pd.DataFrame({"a": np.arange(5.0), "b": np.arange(5), "c": pd.Categorical(list("aabba"))})
    raw = adapt(frame)
    assert np.shares_memory(raw.columns[0].values, frame["a"].to_numpy())
    assert np.shares_memory(raw.columns[2].codes.values, frame["c"].array.codes)
    masked = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [1, 2]})
    assert np.shares_memory(adapt(masked).columns[0].values, masked["a"].array._data)
    column = pa.array([1, None, 3])
    values = adapt(pa.table({"a": column})).columns[0].values
    assert values.ctypes.data == column.buffers()[1].address


def test_sparse_columns():
    raw = adapt(
        pd.DataFrame({"s": pd.arrays.SparseArray([0, 0, 3, 0]), "e": pd.arrays.SparseArray([7.0] * 4, fill_value=7)})
    )
    expected = np.array([[0, 7], [0, 7], [3, 7], [0, 7]], np.float32)
    np.testing.assert_array_equal(dense(raw), expected)
    np.testing.assert_array_equal(dense(raw, 3), expected)
    np.testing.assert_array_equal(dense(raw.take(np.array([2, 0]))), expected[[2, 0]])
    assert raw.feature_types == ["int", "float"]


def test_a_null_among_the_categories_is_missing():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", None, "b"]))
    raw = adapt(pa.table({"c": column}))
    np.testing.assert_array_equal(dense(raw)[:, 0], [0, NAN, 1, NAN])
    assert raw.categories.values[0].tolist() == ["a", "b"]


def test_numbers_of_other_kinds():
    columns = {"d": pa.array([decimal.Decimal("1.50"), None]), "n": pa.nulls(2), "h": pa.array(np.float16([1, 2]))}
    np.testing.assert_array_equal(dense(adapt(pa.table(columns))), np.float32([[1.5, NAN, 1], [NAN, NAN, 2]]))


def test_empty_frames():
    for frame in (nullable()[:0], table().slice(0, 0), polars_frame()[:0]):
        raw = adapt(frame)
        assert (raw.n_rows, raw.n_features) == (0, 5) and raw.feature_names == NAMES
        assert DMatrix(frame, enable_categorical=True).num_row() == 0
    assert adapt(pd.DataFrame(index=[0, 1])).feature_names is None


def test_series_are_one_column():
    for series, name in (
        (pd.Series([1, 2], name="q"), "q"), (pd.Series([1, 2]), "0"), (pl.Series("q", [1, 2]), "q"),
        (pa.array([1, 2]), "0"), (pa.chunked_array([[1], [2]]), "0"), (pl.Series([1, 2]), "0"),
    ):  # fmt: skip
        raw = adapt(series)
        np.testing.assert_array_equal(dense(raw), [[1], [2]])
        assert (raw.feature_names, raw.feature_types) == ([name], ["int"])


DAY = datetime.date(2020, 1, 2)
BAD = {
    "text": (["a", "b"], r"astype\('category'\)"),
    "date": ([DAY, DAY], r"astype\('category'\)|turn dates"),
    "time": (np.array(["2020-01-01", "2021-01-01"], "M8[ns]"), "turn dates"),
    "duration": (np.array([1, 2], "m8[ms]"), "turn dates"),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("kind", BAD)
def test_other_columns_are_refused(library, kind):
    column, advice = BAD[kind]
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library](
        {"ok": [1, 2], "bad": column}
    )
    with pytest.raises(XGBoostError, match=rf"DataFrame\.dtypes for data must be.*Invalid columns: bad: .*{advice}"):
        adapt(frame)


def test_complex_columns_are_refused():
    with pytest.raises(XGBoostError, match="real and the imaginary part"):
        adapt(pd.DataFrame({"z": [1j, 2]}))


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
@pytest.mark.parametrize("make", [nullable, table, polars_frame])
def test_categories_must_be_asked_for(kind, make):
    with pytest.raises(XGBoostError, match=r"`enable_categorical` must be set to `True`.*Invalid columns: c: category"):
        kind(make())
    assert kind(make(), enable_categorical=True).feature_types == TYPES


def test_names_that_occur_twice():
    with pytest.raises(XGBoostError, match="must be unique"):
        DMatrix(pd.DataFrame(np.eye(2), columns=["a", "a"]))


def test_infinite_values_are_found():
    with pytest.raises(XGBoostError, match=r"contains `inf`.*feature b"):
        DMatrix(pd.DataFrame({"a": [1, 2], "b": [1e300, 1.0]}))


LABELS = {
    "series": pd.Series([1, 2, 3]),
    "nullable": pd.Series([1, 2, 3], dtype="Int8"),
    "arrow": pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
    "object": pd.Series([1, 2, 3], dtype=object),
    "sparse": pd.Series(pd.arrays.SparseArray([1.0, 2, 3])),
    "category": pd.Series([1, 2, 3], dtype="category"),
    "index": pd.Index([1, 2, 3]),
    "array of integers": pd.array([1, 2, 3], dtype="Int64"),
    "array of a column": pd.Series([1.0, 2, 3]).array,
    "array of categories": pd.Categorical([1, 2, 3]),
    "array of arrow": pd.array([1, 2, 3], dtype="int64[pyarrow]"),
    "polars": pl.Series([1, 2, 3]),
    "polars frame": pl.DataFrame({"a": [1, 2, 3]}),
    "array": pa.array([1, 2, 3]),
    "chunked": pa.chunked_array([[1], [2, 3]]),
    "table": pa.table({"a": [1, 2, 3]}),
    "stream": Stream(pa.table({"a": [1, 2, 3]})),
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_labels_and_weights(label):
    data = DMatrix(np.eye(3), label, weight=label, base_margin=label)
    for found in (data.get_label(), data.get_weight(), data.get_base_margin()):
        np.testing.assert_array_equal(found, np.float32([1, 2, 3]))


@pytest.mark.parametrize("name", ["index", "array of integers", "array of a column", "array of arrow"])
def test_one_feature(name):
    """What stands in a column of pandas is data, too; an index of several levels is not."""
    data = DMatrix(LABELS[name])
    np.testing.assert_array_equal(data.get_data().toarray(), [[1], [2], [3]])
    with pytest.raises(TypeError, match="Not supported type for data"):
        DMatrix(pd.MultiIndex.from_product([[1], [1, 2, 3]]))


def test_labels_of_several_columns():
    both = np.array([[1, 4], [2, 5], [3, 6]])
    for frame in (
        pd.DataFrame(both),
        pl.DataFrame(both, schema=["a", "b"]),
        pa.table({"a": [1, 2, 3], "b": [4, 5, 6]}),
    ):
        np.testing.assert_array_equal(DMatrix(np.eye(3), frame).get_label(), both)


def test_group_ids_are_exact():
    ids = [2**40, 2**40, 2**40 + 1]
    for series in (pd.Series(ids), pl.Series(ids), pd.Series(ids, dtype="Int64"), pa.chunked_array([ids[:1], ids[1:]])):
        np.testing.assert_array_equal(DMatrix(np.eye(3), qid=series).get_group(), [2, 1])


@pytest.mark.parametrize(
    "label", [pd.Series(list("abc")), pl.Series(list("abc")), pd.Series(list("abc"), dtype="category")]
)
def test_labels_that_are_no_numbers(label):
    with pytest.raises(XGBoostError, match="label"):
        DMatrix(np.eye(3), label)


def test_null_in_a_label():
    with pytest.raises(XGBoostError, match="Label contains NaN"):
        DMatrix(np.eye(3), pl.Series([1, None, 3]))
    np.testing.assert_array_equal(frame_to_array(pd.Series([1, None], dtype="Int64"), "x"), [1, NAN])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**20), 2**20)), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=3),
    st.integers(0, 9),
    st.integers(1, 50),
)
def test_arrow_chunks_and_offsets(values, cuts, offset, rows):
    """However the values are cut, sliced and read, they stay the same; so do booleans made of them."""
    expected = np.array([NAN if v is None else v for v in values], np.float32)[:, None]
    bools = [None if v is None else v > 0 for v in values]
    expected = np.concatenate([expected, np.where(np.isnan(expected), NAN, expected > 0)], axis=1)
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    chunks = []
    for column in (values, bools):
        parts = [[None] * offset + column[a:b] for a, b in pairwise(edges)]
        chunks.append(
            pa.chunked_array(
                [pa.array(part, pa.int32() if column is values else pa.bool_())[offset:] for part in parts]
            )
        )
    raw = adapt(pa.table({"v": chunks[0], "b": chunks[1]}))
    np.testing.assert_array_equal(dense(raw, rows), expected)
    picked = np.arange(len(values))[::-2]
    np.testing.assert_array_equal(dense(raw.take(picked)), expected[picked])
