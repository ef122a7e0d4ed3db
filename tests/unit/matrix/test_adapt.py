"""Every kind of input gives the same float32 chunks, NaN where a value is missing."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from arboost.matrix import adapt as adapt_module
from arboost.matrix.adapt import DenseData, SparseData, adapt, register
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

NUMBERS = np.arange(-6, 18).reshape(8, 3)


def dense(raw, rows=None):
    parts = [(first, values.copy()) for first, values in raw.chunks(rows)]
    for _, values in parts:
        assert values.dtype == np.float32
        assert values.flags.c_contiguous
    assert [first for first, _ in parts] == np.cumsum([0] + [len(v) for _, v in parts])[:-1].tolist()
    return np.concatenate([v for _, v in parts]) if parts else np.zeros((0, raw.n_features), np.float32)


def test_plain_float32_is_not_copied():
    array = np.ones((10, 3), np.float32)
    assert all(np.shares_memory(values, array) for _, values in adapt(array).chunks(4))
    array.flags.writeable = False
    [(_, values)] = adapt(array).chunks()
    assert np.shares_memory(values, array)
    assert values.flags.writeable  # one signature for the kernels, whatever the flag


DTYPES = [
    np.float16,
    np.float32,
    np.float64,
    np.longdouble,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    ">f4",
    ">i8",
    object,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_numpy_dtypes_and_orders(dtype, order, rows):
    np.testing.assert_array_equal(dense(adapt(NUMBERS.astype(dtype, order=order)), rows), NUMBERS)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, bool])
def test_unsigned_and_bool(dtype):
    array = abs(NUMBERS).astype(dtype)
    np.testing.assert_array_equal(dense(adapt(array)), array.astype(np.float32))


@pytest.mark.parametrize(
    "view",
    [np.s_[::2], np.s_[:, 1:], np.s_[::-1], np.s_[:, ::-1], np.s_[2:5]],
    ids=["rows", "columns", "up", "left", "part"],
)
def test_views(view):
    array = NUMBERS.astype(np.float32)[view]
    np.testing.assert_array_equal(dense(adapt(array)), array)


def test_unaligned():
    buffer = np.zeros(NUMBERS.size * 4 + 1, np.uint8)
    array = buffer[1:].view(np.float32).reshape(NUMBERS.shape)
    array[:] = NUMBERS
    np.testing.assert_array_equal(dense(adapt(array)), NUMBERS)


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return NUMBERS.astype(np.float32)


@pytest.mark.parametrize(
    "data",
    [NUMBERS.tolist(), tuple(map(tuple, NUMBERS.tolist())), NUMBERS.view(np.memmap), HasArray(), list(NUMBERS)],
    ids=["list", "tuple", "memmap", "__array__", "list of rows"],
)
def test_other_tables(data):
    np.testing.assert_array_equal(dense(adapt(data)), NUMBERS)


class HasInterface:
    def __init__(self, array=NUMBERS):
        self.__array_interface__ = array.__array_interface__


class HasDlpack:
    """Only DLPack, as a tensor of some library without `__array__`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class NeedsDlpack(HasDlpack):
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not this way")


class OnDevice:
    """A tensor that cannot be read from main memory."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert device tensor to numpy.")

    def __dlpack__(self, **options):
        raise BufferError("on a device.")

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize("kind", [HasDlpack, NeedsDlpack, HasInterface])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_memory_protocols(kind, dtype):
    array = NUMBERS.astype(dtype)
    raw = adapt(kind(array))
    np.testing.assert_array_equal(dense(raw), NUMBERS)
    assert np.shares_memory(raw.array, array)


def test_memory_out_of_reach():
    with pytest.raises(XGBoostError, match=r"CUDA device.*main memory.*detach\(\)\.cpu\(\)"):
        adapt(OnDevice())


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(24, dtype=torch.float32).reshape(8, 3)
    raw = adapt(tensor)
    np.testing.assert_array_equal(dense(raw), tensor.numpy())
    assert np.shares_memory(raw.array, tensor.numpy())
    with pytest.raises(XGBoostError, match="detach"):
        adapt(tensor.clone().requires_grad_())
    with pytest.raises(XGBoostError, match="float"):
        adapt(tensor.to(torch.bfloat16))


def test_none_and_masks_are_missing():
    np.testing.assert_array_equal(dense(adapt([[1, None], [2, 3]])), [[1, np.nan], [2, 3]])
    masked = np.ma.masked_array(NUMBERS, mask=NUMBERS == 2)
    np.testing.assert_array_equal(dense(adapt(masked)), np.where(NUMBERS == 2, np.nan, NUMBERS))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool, object])
@pytest.mark.parametrize("chunk_values", [6, 1 << 22])
def test_masked_arrays(dtype, chunk_values, monkeypatch):
    monkeypatch.setattr(adapt_module, "CHUNK_VALUES", chunk_values)
    mask = np.random.default_rng(0).random(NUMBERS.shape) < 0.3
    values = NUMBERS.astype(dtype)
    expected = np.where(mask, np.nan, values.astype(np.float32))
    for masked in (np.ma.masked_array(values, mask), np.ma.masked_array(values, mask).copy(order="F")):
        raw = adapt(masked)
        np.testing.assert_array_equal(dense(raw), expected)
        assert raw.scan(Context()).sum() == (~mask).sum()
        np.testing.assert_array_equal(dense(raw.take(np.array([3, 1]))), expected[[3, 1]])
        np.testing.assert_array_equal(dense(adapt(masked, 1)), np.where(expected == 1, np.nan, expected))
    np.testing.assert_array_equal(masked.data, values)
    [(_, lent)] = adapt(np.ma.masked_array(np.float32(NUMBERS))).chunks(100)
    np.testing.assert_array_equal(lent, NUMBERS)


RECORD = np.dtype([("a", "<i4"), ("b", "f8"), ("c", "?"), ("d", ">f2"), ("é", "u1")])


def records():
    return np.array([(i, i / 2, i % 2, -i, i + 1) for i in range(9)], RECORD)


@pytest.mark.parametrize("chunk_values", [10, 1 << 22])
def test_structured_arrays(chunk_values, monkeypatch):
    monkeypatch.setattr(adapt_module, "CHUNK_VALUES", chunk_values)
    expected = np.array([(i, i / 2, i % 2, -i, i + 1) for i in range(9)], np.float32)
    for data in (records(), records().view(np.recarray), np.repeat(records(), 2)[::2]):
        raw = adapt(data)
        assert raw.feature_names == ["a", "b", "c", "d", "é"]
        assert raw.feature_types == ["int", "float", "i", "float", "int"]
        np.testing.assert_array_equal(dense(raw), expected)
        np.testing.assert_array_equal(dense(raw.take(np.array([2, 2, 0]))), expected[[2, 2, 0]])
    for first_row, values, column in adapt(records()).tiles(1, 3, 5):
        np.testing.assert_array_equal(values[:, column : column + 2], expected[first_row : first_row + 5, 1:3])


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # NumPy's fill value of float16
def test_masked_structured_arrays():
    data = np.ma.array(records())
    data["b"][3] = np.ma.masked
    data[5] = np.ma.masked
    values = dense(adapt(data))
    assert np.argwhere(np.isnan(values)).tolist() == [[3, 1], *[[5, f] for f in range(5)]]
    assert np.isnan(dense(adapt(data).take(np.array([5, 4])))).sum(axis=1).tolist() == [5, 0]


@pytest.mark.parametrize(
    ("dtype", "field"),
    [([("a", "i4"), ("t", "M8[s]")], "t: "), ([("a", "i4", 3)], "a: "), ([("s", "U3")], "s: "), ([("o", "O")], "o: ")],
    ids=["date", "several values", "text", "object"],
)
def test_structured_arrays_of_other_things(dtype, field):
    with pytest.raises(XGBoostError, match=f"structured array.*Convert or drop these fields: {field}"):
        adapt(np.zeros(3, dtype))
    with pytest.raises(XGBoostError, match="one dimension"):
        adapt(np.zeros((3, 2), RECORD))


@pytest.mark.parametrize("convert", [np.asarray, np.float32, np.asfortranarray, pd.DataFrame, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("missing", [-6, 3, 3.0, np.nan])
def test_missing_value(convert, missing):
    array = NUMBERS.astype(np.float64)
    array[4, 1] = 7.5
    expected = np.where(array == missing, np.nan, array)
    if convert is scipy.sparse.csr_matrix:
        expected = np.where(array == 0, np.nan, expected)
    raw = adapt(convert(array), missing)
    np.testing.assert_array_equal(dense(raw), expected)
    np.testing.assert_array_equal(raw.scan(Context()), (~np.isnan(expected)).sum(axis=0))


def test_missing_does_not_write_to_the_users_array():
    array = NUMBERS.astype(np.float32)
    dense(adapt(array, 3))
    np.testing.assert_array_equal(array, NUMBERS)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("family", ["matrix", "array"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, bool])
def test_sparse_absent_is_missing(kind, family, dtype):
    array = (NUMBERS % 3).astype(dtype)
    matrix = getattr(scipy.sparse, f"{kind}_{family}")(array)
    raw = adapt(matrix)
    assert isinstance(raw, SparseData)
    np.testing.assert_array_equal(dense(raw, 3), np.where(array == 0, np.nan, array))


def test_sparse_stored_zero_is_a_value():
    matrix = scipy.sparse.csr_matrix((np.array([0.0, 2.0]), [1, 0], [0, 1, 2]), (2, 2))
    np.testing.assert_array_equal(dense(adapt(matrix)), [[np.nan, 0], [2, np.nan]])


def test_sparse_values_stored_in_parts_are_added():
    matrix = scipy.sparse.csr_matrix((np.array([1.0, 2, 4]), [1, 1, 0], [0, 2, 3]), (2, 2))
    raw = adapt(matrix)
    np.testing.assert_array_equal(dense(raw), [[np.nan, 3], [4, np.nan]])
    assert raw.scan(Context()).tolist() == [1, 1]
    assert matrix.nnz == 3, "the user's matrix is as it was"
    unsorted = scipy.sparse.csr_matrix((np.array([1.0, 2, 4]), [1, 0, 0], [0, 2, 3]), (2, 2))
    np.testing.assert_array_equal(dense(adapt(unsorted)), [[2, 1], [4, np.nan]])


@pytest.mark.parametrize("index", [-1, 2, 1000])
def test_sparse_indices_outside_are_refused(index):
    matrix = scipy.sparse.csr_matrix(np.ones((2, 2)))
    matrix.indices[1] = index
    with pytest.raises(XGBoostError, match=r"column indices outside of 0\.\.1"):
        adapt(matrix)


def test_float32_csr_is_not_copied():
    matrix = scipy.sparse.random(50, 20, 0.3, "csr", np.float32, rng=0)
    raw = adapt(matrix)
    assert np.shares_memory(raw.values, matrix.data)
    assert np.shares_memory(raw.indices, matrix.indices)


@pytest.mark.parametrize("make", [np.asfortranarray, np.float16, np.ma.array, lambda a: a.astype(">f8")])
def test_conversion_needs_one_buffer(make):
    """10 MiB buffers for 46 MiB of values, whatever their kind."""
    values = make(np.ones((200_000, 60), np.float32))
    if np.ma.isMaskedArray(values):
        values[0, 0] = np.ma.masked
    adapt(np.ones((3, 60))).scan(Context())  # compile first
    tracemalloc.start()
    raw = adapt(values)
    raw.scan(Context())
    for _, _, _ in raw.tiles(3, 9):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


@pytest.mark.parametrize("chunk_values", [1, 7, 1 << 22])
def test_chunks_are_bounded(chunk_values, monkeypatch):
    monkeypatch.setattr(adapt_module, "CHUNK_VALUES", chunk_values)
    monkeypatch.setattr(adapt_module, "_BLOCK_VALUES", 4)
    for data in (NUMBERS, np.asfortranarray(NUMBERS), pd.DataFrame(NUMBERS), scipy.sparse.csr_matrix(NUMBERS + 100)):
        raw = adapt(data)
        assert all(values.size <= max(chunk_values, 3) for _, values in raw.chunks())
        np.testing.assert_array_equal(dense(raw), NUMBERS + 100 * scipy.sparse.issparse(data))


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, pd.DataFrame])
def test_tiles_hold_the_asked_features(make):
    raw = adapt(make(NUMBERS.astype(np.float32)))
    for first_row, values, column in raw.tiles(1, 3, 5):
        np.testing.assert_array_equal(values[:, column : column + 2], NUMBERS[first_row : first_row + 5, 1:3])
    column_ptr, values, rows = raw.feature_values(Context(), 1, 3)
    assert column_ptr.tolist() == [0, 8, 16]
    np.testing.assert_array_equal(values, NUMBERS[:, 1:].T.ravel())
    assert not len(rows)


def test_features_of_sparse_data():
    matrix = scipy.sparse.csr_matrix(NUMBERS)
    by_feature = adapt(matrix).by_feature()
    column_ptr, values, rows = by_feature.feature_values(Context(), 1, 3)
    columns, wanted = np.nonzero(NUMBERS[:, 1:].T)
    assert column_ptr.tolist() == [0, 8, 16]
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(values, NUMBERS[wanted, columns + 1])
    for source in (by_feature, adapt(matrix)):
        parts = [values[:, column : column + 2] for _, values, column in source.tiles(1, 3)]
        np.testing.assert_array_equal(np.concatenate(parts), np.where(NUMBERS == 0, np.nan, NUMBERS)[:, 1:])


def frame():
    return pd.DataFrame(
        {
            "i": np.arange(4),
            "f": [0.5, np.nan, 1, 2],
            "b": [True, False, True, True],
            "I": pd.array([1, None, 3, 4], dtype="Int64"),
            "F": pd.array([1.5, None, 3, 4], dtype="Float64"),
            "B": pd.array([True, None, False, True], dtype="boolean"),
            "u": np.arange(4, dtype=np.uint8),
            "h": np.arange(4, dtype=np.float16),
        }
    )


def test_pandas_numbers():
    raw = adapt(frame())
    assert raw.feature_names == ["i", "f", "b", "I", "F", "B", "u", "h"]
    assert raw.feature_types == ["int", "float", "i", "int", "float", "i", "int", "float"]
    expected = frame().astype(object).where(frame().notna(), np.nan).astype(np.float32)
    np.testing.assert_array_equal(dense(raw), expected)
    np.testing.assert_array_equal(dense(adapt(frame(), 1)), expected.where(expected != 1))


def test_pandas_arrow_and_sparse_columns():
    data = pd.DataFrame(
        {"a": pd.array([1, 2, None], dtype="int64[pyarrow]"), "s": pd.arrays.SparseArray([0.0, 2, np.nan])}
    )
    raw = adapt(data)
    assert raw.feature_types == ["int", "float"]
    np.testing.assert_array_equal(dense(raw), [[1, 0], [2, 2], [np.nan, np.nan]])


def test_pandas_names():
    assert adapt(pd.DataFrame(NUMBERS)).feature_names == ["0", "1", "2"]
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", 1)])
    assert adapt(pd.DataFrame(NUMBERS, columns=columns)).feature_names == ["a x", "a y", "b 1"]
    assert adapt(pd.Series([1.0, 2], name="q")).feature_names == ["q"]
    assert adapt(pd.Series([1.0, 2])).feature_names == ["0"]
    assert adapt(pd.DataFrame()).feature_names is None


def test_pandas_frame_with_names_that_occur_twice():
    raw = adapt(pd.DataFrame(NUMBERS, columns=["a", "a", "b"]))
    np.testing.assert_array_equal(dense(raw), NUMBERS)


@pytest.mark.parametrize(
    "column",
    [["x", "y"], pd.to_datetime(["2020-01-01", "2021-01-01"]), np.array([1j, 2])],
    ids=["str", "date", "complex"],
)
def test_pandas_other_columns_are_refused(column):
    with pytest.raises(XGBoostError, match=r"DataFrame\.dtypes.*Invalid columns: bad: "):
        adapt(pd.DataFrame({"good": [1, 2], "bad": column}))


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), ()])
def test_dimensions(shape):
    with pytest.raises(XGBoostError, match="reshape the input data into 2-dimensional"):
        adapt(np.zeros(shape))
    if shape:
        with pytest.raises(XGBoostError, match="2-dimensional"):
            adapt(np.zeros(shape).tolist())


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 2), complex),
        np.array([["a", "b"]]),
        np.array([[1, "a"]], object),
        np.array([["2020-01-01"]], "M8[D]"),
    ],
    ids=["complex", "str", "object", "date"],
)
def test_other_dtypes_are_refused(array):
    with pytest.raises(XGBoostError, match=r"not supported|cannot be converted"):
        adapt(array)


@pytest.mark.parametrize(
    ("array", "advice"),
    [
        (np.ones((2, 2), complex), "real and the imaginary part as two features"),
        (np.array([["2020-01-01"]], "M8[D]"), "turn dates into numbers"),
        (np.array([[5]], "m8[D]"), "turn durations into numbers"),
        (np.array([["a"]]), "encode text as numbers"),
        (np.ones(3), r"2-dimensional.*shape \(3,\).*reshape\(-1, 1\)"),
        (np.ones((2, 2, 2)), r"2-dimensional.*shape \(2, 2, 2\)"),
        ([[1, 2], [3]], "the same number in each.*Fill up short rows"),
    ],
    ids=["complex", "date", "duration", "text", "1-d", "3-d", "ragged"],
)
def test_errors_say_what_to_do(array, advice):
    with pytest.raises(XGBoostError, match=advice):
        adapt(array)


def test_ragged_and_complex_sparse_are_refused():
    with pytest.raises(ValueError, match="inhomogeneous"):
        adapt([[1, 2], [3]])
    with pytest.raises(XGBoostError, match="not supported"):
        adapt(scipy.sparse.csr_matrix(np.ones((2, 2), complex)))


@pytest.mark.parametrize("data", [None, 3, {"a": [1]}, (x for x in [1]), "train.txt"], ids=str)
def test_unknown_kinds_are_refused(data):
    with pytest.raises(TypeError, match="Not supported type for data"):
        adapt(data)


def test_generators_are_told_of_iterators():
    with pytest.raises(TypeError, match=r"Not supported type for data.*generator.*DataIter"):
        adapt(row for row in NUMBERS)


@pytest.mark.parametrize("make", [np.asarray, np.float32, np.asfortranarray, pd.DataFrame, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_infinite_values_are_refused_unless_missing(make, value):
    array = np.ones((50, 3))
    array[33, 1] = value
    with np.errstate(over="ignore"):
        raw = adapt(make(array))
    with pytest.raises(
        XGBoostError, match=r"contains `inf` or a value too large, while `missing` is not set to `inf`.*1"
    ):
        raw.scan(Context(n_threads=2))
    with np.errstate(over="ignore"):
        allowed = adapt(make(array), np.inf)
    assert allowed.scan(Context()).tolist() == [50, 50 if value < 0 else 49, 50]


def test_scan_in_threads():
    values = np.random.default_rng(0).normal(size=(40000, 3)).astype(np.float32)
    values[values > 1] = np.nan
    for n_threads in (1, 2, 5):
        assert (adapt(values).scan(Context(n_threads=n_threads)) == (~np.isnan(values)).sum(axis=0)).all()


def test_take():
    rows = np.array([5, 0, 0])
    for data in (NUMBERS, np.float32(NUMBERS), pd.DataFrame(NUMBERS), scipy.sparse.csr_matrix(NUMBERS)):
        raw = adapt(data, 3)
        np.testing.assert_array_equal(dense(raw.take(rows)), dense(raw)[rows])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing(shape):
    for data in (np.zeros(shape), np.zeros(shape, np.float32), scipy.sparse.csr_matrix(shape)):
        raw = adapt(data)
        assert (raw.n_rows, raw.n_features) == shape
        assert dense(raw).shape == shape
        assert raw.scan(Context()).tolist() == [0] * shape[1]


def test_registering_a_kind():
    class Table:
        pass

    before = list(adapt_module._CONVERTERS)
    register(lambda data: isinstance(data, Table), lambda data, missing: DenseData(np.ones((2, 1)), missing))
    try:
        assert adapt(Table(), 5).missing == 5
    finally:
        adapt_module._CONVERTERS[:] = before
