"""Parquet, CSV and libsvm files become the same tables as the arrays in them, and bad files a clear error."""

import os
import pathlib
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from arboost.matrix import adapt as adapt_module
from arboost.matrix import files
from arboost.matrix import parquet as parquet_module
from arboost.matrix import text as text_module
from arboost.matrix.adapt import SparseData
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.runtime.errors import XGBoostError


@pytest.fixture(params=[1, 1 << 30], ids=["kernel", "python"])
def write(request, tmp_path, monkeypatch):
    """Writes a file that is read by kernel or line by line, whatever its size."""
    monkeypatch.setattr(text_module, "_SMALL_BYTES", request.param)

    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def values(data):
    return np.concatenate([part.copy() for _, part in data.chunks()])


def frame(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.normal(size=(n_rows, 3)).astype(np.float32), columns=["a", "b", "é"])
    made["i"] = rng.integers(0, 9, n_rows)
    made.loc[rng.random(n_rows) < 0.2, "b"] = np.nan
    made["y"], made["w"], made["q"] = rng.normal(size=n_rows), rng.random(n_rows), np.sort(rng.integers(0, 5, n_rows))
    return made


FEATURES = ["a", "b", "é", "i"]


# ---- where and what ----


def test_format_by_option_suffix_and_content(write, tmp_path):
    path = write("1,2\n3,4\n", "plain.txt")
    assert files.locate(f"{path}?format=csv&label_column=0") == (path, "csv", {"label_column": "0"})
    assert files.locate(f"file://{path}?format=libsvm").format == "libsvm"
    assert files.locate(write("1,2\n", "a.CSV")).format == "csv"
    assert files.locate(pathlib.Path(write("1 0:1\n", "a.svm"))).format == "libsvm"
    assert files.locate(write(b"PAR1....", "unnamed")).format == "parquet"
    asked = write("1,2\n", "what?format=csv.csv")
    assert files.locate(asked) == (asked, "csv", {})
    DMatrix(np.ones((2, 2))).save_binary(tmp_path / "x.anything")
    assert files.locate(tmp_path / "x.anything").format == "binary"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.csv", "Opening nothing.csv failed: No such file"),
        ("nothing.txt?format=csv", "Opening nothing.txt failed: No such file"),
        ("", "Opening  failed"),
        ("a\0b.csv", "not the name of a file"),
        ("http://example.org/train.csv", "is a URL. Only local files"),
        ("s3://bucket/train.parquet?format=parquet", "is a URL. Only local files"),
        ("train.txt?format=libsvm#cache", "External memory training with text input has been removed"),
    ],
)
@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_names_that_are_no_files(name, message, kind):
    with pytest.raises(XGBoostError, match=message):
        kind(name)


def test_what_cannot_be_told(write, tmp_path):
    with pytest.raises(XGBoostError, match="URI parameter `format` is required"):
        DMatrix(write("1,2\n", "data.txt"))
    with pytest.raises(XGBoostError, match="Unknown data type arff"):
        DMatrix(write("1,2\n") + "?format=arff")
    with pytest.raises(XGBoostError, match="Unknown option delimter for a csv file"):
        DMatrix(write("1,2\n") + "?format=csv&delimter=;")
    with pytest.raises(XGBoostError, match="is a directory"):
        DMatrix(f"{tmp_path}?format=csv")
    with pytest.raises(XGBoostError, match="gzip"):
        DMatrix(write(b"\x1f\x8b\x08abc", "data.csv"))
    for name in ("empty.csv", "empty.libsvm", "empty.parquet"):
        with pytest.raises(XGBoostError, match=f"{name} is empty"):
            DMatrix(write("", name))


# ---- CSV ----


@pytest.mark.parametrize("block", [7, 1 << 22])
def test_csv(write, block, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", block)
    data = DMatrix(write("1,2,3\n0,5,\n\n1,,7") + "?format=csv&label_column=0")
    np.testing.assert_array_equal(values(data), [[2, 3], [5, np.nan], [np.nan, 7]])
    assert data.get_label().tolist() == [1, 0, 1]
    assert data.feature_names is None
    assert data.num_nonmissing() == 4


@pytest.mark.parametrize("block", [16, 1 << 22])
@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_csv_with_header(write, block, kind, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", block)
    text = '\n\ny,"a ""b""",é,w\r\n1,2,NA,0.5\r\n0, 5 ,nan,1\r\n1,,7e-1,2\r\n'
    data = kind(write(b"\xef\xbb\xbf" + text.encode()), label="y", weight="w")
    assert data.feature_names == ['a "b"', "é"]
    assert data.get_label().tolist() == [1, 0, 1]
    assert data.get_weight().tolist() == [0.5, 1, 2]
    if kind is DMatrix:
        np.testing.assert_array_equal(values(data), np.float32([[2, np.nan], [5, np.nan], [np.nan, 0.7]]))


def test_csv_columns_by_option(write):
    path = write("y;a;b;w\n1;2;3;4\n5;6;7;8\n")
    data = DMatrix(path + "?format=csv&delimiter=;&label_column=y&weight_column=3")
    assert (data.get_label().tolist(), data.get_weight().tolist()) == ([1, 5], [4, 8])
    np.testing.assert_array_equal(values(data), [[2, 3], [6, 7]])
    many = DMatrix(path + "?format=csv&delimiter=;", label=["a", "b"], feature_names=["p", "q"])
    assert many.get_label().tolist() == [[2, 3], [6, 7]]
    assert many.feature_names == ["p", "q"]
    given = DMatrix(path + "?format=csv&delimiter=;&label_column=y", label=[8, 9])
    assert (given.get_label().tolist(), given.num_col()) == ([8, 9], 3)


def test_csv_missing_value_and_quotes(write):
    data = DMatrix(write('1,"2"\n-999,"4"\n'), missing=-999)
    np.testing.assert_array_equal(values(data), [[1, 2], [np.nan, 4]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4,5\n6,7\n", "line 2: 3 fields, 2 are expected"),
        ("a,b\n1,2\n\n3\n", "line 4: 1 fields, 2 are expected"),
        ("1,2\n3,4\n5,x\n", r"line 3, column 1: 'x' is not a number.*data frame"),
        ("1,2\n3,4\n5,6.7.8\n", "line 3, column 1: '6.7.8' is not a number"),
        ("a,b\n", "has no rows"),
        ("\n\n\n", "is empty"),
        (b"1,2\n3,\xff\xfe\n", "line 2: not text in UTF-8"),
        ("1,2\n3,inf\n", "contains `inf`"),
        ("a,a\n1,2\n", "must be unique"),
    ],
)
def test_bad_csv(write, text, message):
    with pytest.raises(XGBoostError, match=message):
        DMatrix(write(text))


def test_bad_line_far_down(write, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", 100)
    with pytest.raises(XGBoostError, match="line 701, column 0: 'oops'"):
        DMatrix(write("1,2\n" * 700 + "oops,3\n" + "1,2\n" * 50))


def test_unknown_columns(write):
    with pytest.raises(XGBoostError, match=r"no column 'z'. Its columns are: a, b"):
        DMatrix(write("a,b\n1,2\n"), label="z")
    with pytest.raises(XGBoostError, match="has no header"):
        DMatrix(write("1,2\n"), label="y")
    with pytest.raises(XGBoostError, match="no column 2: it has 2 columns"):
        DMatrix(write("1,2\n") + "?format=csv&label_column=2")
    with pytest.raises(XGBoostError, match="`delimiter` must be one character"):
        DMatrix(write("1,2\n") + "?format=csv&delimiter=ab")


def test_csv_needs_little_more_than_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", 1 << 17)
    monkeypatch.setattr(adapt_module, "CHUNK_VALUES", 1 << 17)
    table = np.random.default_rng(0).integers(0, 1000, (60_000, 20))
    path = tmp_path / "big.csv"
    pd.DataFrame(table, columns=[f"f{k}" for k in range(20)]).to_csv(path, index=False)
    DMatrix(np.ones((3, 3)))  # compile first
    tracemalloc.start()
    data = DMatrix(path, label="f0")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(values(data), table[:, 1:])
    assert peak < 4 * table.size + (3 << 20), "float32 values (4.6 MiB), and blocks of text in work"


# ---- Parquet ----


@pytest.fixture
def parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "train.parquet"
    frame().to_parquet(path, row_group_size=37)
    return str(path)


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
@pytest.mark.parametrize("values_at_a_time", [10, 70, 1 << 19])
def test_parquet(parquet, kind, values_at_a_time, monkeypatch):
    monkeypatch.setattr(parquet_module, "VALUES_AT_A_TIME", values_at_a_time)
    data, whole = kind(parquet, label="y", weight="w", qid="q"), kind(frame()[FEATURES])
    assert data.feature_names == FEATURES
    assert data.feature_types == ["float", "float", "float", "int"]
    np.testing.assert_array_equal(values(data), values(whole))
    np.testing.assert_array_equal(data.get_label(), np.float32(frame()["y"]))
    np.testing.assert_array_equal(data.get_weight(), np.float32(frame()["w"]))
    np.testing.assert_array_equal(data.get_group(), np.bincount(frame()["q"]))
    assert data.num_nonmissing() == whole.num_nonmissing()


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
@pytest.mark.parametrize("row_group_size", [50_000, 800_000])
def test_parquet_is_never_decoded_whole(tmp_path, kind, row_group_size):
    """30 MiB of columns, in many row groups or in one; a page of each column, 1 MiB, is decoded at a time."""
    pa = pytest.importorskip("pyarrow")
    columns = {f"f{k}": np.random.default_rng(k).normal(size=800_000) for k in range(5)}
    pd.DataFrame(columns).to_parquet(tmp_path / "big.parquet", row_group_size=row_group_size)
    before, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    try:
        data = kind(tmp_path / "big.parquet", label="f0")
    finally:
        pa.set_memory_pool(before)
    assert data.num_row() == 800_000
    assert 0 < counting.max_memory() < 20 << 20


def test_parquet_columns(parquet):
    data = DMatrix(parquet + "?format=parquet&label_column=y")
    assert data.feature_names == [*FEATURES, "w", "q"]
    data = DMatrix(parquet, label=["y", "w"], base_margin="q", label_lower_bound="a")
    assert data.feature_names == ["b", "é", "i"]
    assert data.get_label().shape == (200, 2)
    np.testing.assert_array_equal(data.get_base_margin(), frame()["q"])
    with pytest.raises(XGBoostError, match=r"no column 'Y'. Its columns are: a, b, é"):
        DMatrix(parquet, label="Y")
    part = data.slice([3, 1])
    np.testing.assert_array_equal(values(part), values(data)[[3, 1]])


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_parquet_categories(tmp_path, kind, monkeypatch):
    """Row groups have dictionaries of their own; the table has one mapping for all."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(parquet_module, "VALUES_AT_A_TIME", 8)
    labels = ["b", "a", None, "c", "a", "b", "d", "b", "d", "e"]
    pd.DataFrame({"x": np.arange(10.0), "k": pd.Categorical(labels)}).to_parquet(
        tmp_path / "c.parquet", row_group_size=4
    )
    data = kind(tmp_path / "c.parquet", enable_categorical=True)
    assert data.feature_types == ["float", "c"]
    names = data.categories.values[1]
    codes = values(data)[:, 1]
    assert [None if np.isnan(code) else names[int(code)] for code in codes] == labels
    assert kind(tmp_path / "c.parquet").feature_types == ["float", "c"], "the file says what its columns are"


def test_parquet_that_is_none(write):
    pytest.importorskip("pyarrow")
    with pytest.raises(XGBoostError, match="not a readable Parquet file"):
        DMatrix(write("1,2\n3,4\n", "x.parquet"))
    with pytest.raises(XGBoostError, match="not a readable Parquet file"):
        DMatrix(write(b"PAR1" + b"\xff" * 100 + b"PAR1", "x.parquet"))


def test_damaged_parquet(parquet):
    size = os.path.getsize(parquet)
    with open(parquet, "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * (size // 3))
    with pytest.raises(XGBoostError, match=r"train.parquet (is damaged|is not a readable)"):
        DMatrix(parquet)


def test_parquet_without_rows(tmp_path):
    pytest.importorskip("pyarrow")
    frame().iloc[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(XGBoostError, match=r"no rows|at least 1 batch"):
        DMatrix(tmp_path / "none.parquet", label="y")


def test_parquet_with_other_columns(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"t": ["x", "y"], "n": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(XGBoostError, match="Invalid columns: t"):
        DMatrix(tmp_path / "t.parquet")


# ---- libsvm ----


@pytest.mark.parametrize("block", [5, 1 << 22])
def test_libsvm(write, block, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", block)
    data = DMatrix(write("1 0:1.5 2:3\n0 1:2 # a comment 5:6\n\n# only\n-1.5  0:5\t1:0\n0\n", "a.libsvm"))
    assert isinstance(data.raw, SparseData)
    np.testing.assert_array_equal(
        values(data), [[1.5, np.nan, 3], [np.nan, 2, np.nan], [5, 0, np.nan], [np.nan, np.nan, np.nan]]
    )
    assert data.get_label().tolist() == [1, 0, -1.5, 0]


@pytest.mark.parametrize("block", [5, 1 << 22])
def test_libsvm_groups_and_weights(write, block, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK_BYTES", block)
    data = DMatrix(write("1:0.5 qid:1 1:1.5 3:3\n0:2 qid:1 2:2\n1:1 qid:7 1:5\n", "a.txt") + "?format=libsvm")
    assert data.get_weight().tolist() == [0.5, 2, 1]
    assert data.get_group().tolist() == [2, 1]
    assert data.num_col() == 4
    path = write("1 qid:1 0:1\n0 qid:1 0:2\n", "b.libsvm")
    assert DMatrix(path, group=[1, 1]).get_group().tolist() == [1, 1]
    assert DMatrix(path, qid=[3, 4]).get_group().tolist() == [1, 1]


@pytest.mark.parametrize(("mode", "first"), [("0", 0), ("1", 1), ("-1", 1)])
def test_libsvm_where_indices_begin(write, mode, first):
    data = DMatrix(write("1 1:1 3:3\n0 2:2\n", "a.txt") + f"?format=libsvm&indexing_mode={mode}")
    expected = np.array([[1, np.nan, 3], [np.nan, 2, np.nan]])
    np.testing.assert_array_equal(values(data)[:, 1 - first :], expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 2:abc\n", "line 2: 'abc' is not a number"),
        ("1 1:2\nx 1:5\n", "line 2: 'x' is not a number"),
        ("1 1:2\n\n0 foo\n", "line 3: 'foo' is not an entry: index:value is expected"),
        ("1 1 3\n", "line 1: '1' is not an entry"),
        ("1 1:2:3 4\n", "line 1: "),
        ("1 1.5:2\n", "line 1: '1.5' is not a whole number"),
        ("1 -1:2\n", "line 1: -1 is not an index"),
        ("1 99999999999999999999:2\n", "line 1: 99999999999999999999 is not an index"),
        ("1 9999999999:2\n", "too large"),
        ("1 qid:x 1:2\n", "line 1: 'x' is not a whole number"),
        ("1 qid:1 1:2\n0 1:2\n", "some lines have a qid and others do not"),
        ("1:2 1:2\n0 1:2\n", "some lines have a weight and others do not"),
        ("# nothing\n", "has no rows"),
        ("1 0:inf\n", "contains `inf`"),
        ("nan 0:1\n", "Label contains NaN"),
        (b"1 0:1\n\xff\xfe 0:1\n", "line 2: not text in UTF-8"),
    ],
)
def test_bad_libsvm(write, text, message):
    with pytest.raises(XGBoostError, match=message):
        DMatrix(write(text, "a.libsvm"))


def test_libsvm_options(write):
    path = write("1 0:1\n", "a.libsvm")
    with pytest.raises(XGBoostError, match="`indexing_mode` must be"):
        DMatrix(path + "?format=libsvm&indexing_mode=2")
    with pytest.raises(XGBoostError, match="has an index 0"):
        DMatrix(path + "?format=libsvm&indexing_mode=1")
    with pytest.raises(XGBoostError, match="no named columns: pass `label` as an array"):
        DMatrix(path, label="y")
    assert DMatrix(path, label=[7]).get_label().tolist() == [7]
    assert QuantileDMatrix(path).num_row() == 1
