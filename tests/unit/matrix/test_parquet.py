"""Parquet files, folders and datasets: types as in the file, categories whatever the chunks, errors by name."""

import os

import numpy as np
import pandas as pd
import pytest

from arboost.matrix import parquet
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.runtime.errors import XGBoostError

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
COLORS = ["red", "none", "blue", "green"]


def values(data):
    return np.concatenate([chunk.copy() for _, chunk in data.chunks()])


def frame(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "small": rng.integers(-9, 9, n).astype(np.int8),
            "whole": pd.array(rng.integers(0, 9, n), "Int64"),
            "flag": rng.random(n) > 0.5,
            "half": rng.normal(size=n).astype(np.float16),
            "color": pd.Categorical(rng.choice(["red", "green", "blue"], n), COLORS),
            "y": rng.normal(size=n),
        }
    )  # fmt: skip


def same_matrix(data, other):
    assert data.feature_names == other.feature_names
    assert data.feature_types == other.feature_types
    np.testing.assert_array_equal(values(data), values(other))
    mine, theirs = data.categories, other.categories
    assert (mine is None) == (theirs is None)
    assert mine is None or mine.same_as(theirs)
    np.testing.assert_array_equal(data.get_label(), other.get_label())


def of_pandas(path, **options):
    """What DMatrix makes of the frame that pandas reads."""
    table = pd.read_parquet(path)
    return DMatrix(table.drop(columns="y"), table["y"], enable_categorical=True, **options)


# ---- types ----


@pytest.mark.parametrize("values_at_a_time", [7, 60, 1 << 19])
@pytest.mark.parametrize("row_group_size", [9, 1000])
def test_types_are_those_of_pandas(tmp_path, values_at_a_time, row_group_size, monkeypatch):
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", values_at_a_time)
    table = frame()
    table.loc[3, ["x", "color"]] = None
    table.loc[[4, 40], "whole"] = pd.NA
    table.to_parquet(tmp_path / "t.parquet", row_group_size=row_group_size)
    data = DMatrix(tmp_path / "t.parquet", label="y")
    same_matrix(data, of_pandas(tmp_path / "t.parquet"))
    assert data.feature_types == ["float", "int", "int", "i", "float", "c"]
    assert data.categories.values[-1].tolist() == ["red", "none", "blue", "green"]


@pytest.mark.parametrize("values_at_a_time", [2, 1 << 19])
def test_whole_numbers_with_nulls_are_floats_as_in_pandas(tmp_path, values_at_a_time, monkeypatch):
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", values_at_a_time)
    table = pa.table({"k": pa.array([1, 2, None, 4]), "n": pa.array([1, 2, 3, 4]), "y": [1.0, 2, 3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    data = DMatrix(tmp_path / "t.parquet", label="y")
    same_matrix(data, of_pandas(tmp_path / "t.parquet"))
    assert data.feature_types == ["float", "int"]


def test_decimals_nulls_and_booleans_with_nulls_are_numbers(tmp_path):
    columns = {"d": pa.array([1.5, None, 2.5]).cast(pa.decimal128(5, 1)), "n": pa.nulls(3), "b": [True, None, False]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    data = DMatrix(tmp_path / "t.parquet")
    np.testing.assert_array_equal(values(data), [[1.5, np.nan, 1], [np.nan] * 3, [2.5, np.nan, 0]])
    assert data.feature_types == ["float", "float", "i"]


@pytest.mark.parametrize(
    "column", [["a", "b"], pd.to_datetime(["2026-01-01", "2026-01-02"]), [[1], [2, 3]], [b"x", b"y"]]
)
def test_columns_that_no_tree_can_split_are_refused_by_name(tmp_path, column):
    pq.write_table(pa.table({"t": pa.array(column), "n": [1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(XGBoostError, match="Invalid columns: t: "):
        DMatrix(tmp_path / "t.parquet")


@pytest.mark.parametrize("values_at_a_time", [2, 1 << 19])
def test_categories_of_numbers_stay_categories(tmp_path, values_at_a_time, monkeypatch):
    """Parquet stores the numbers only; pandas' own notes say what they were."""
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", values_at_a_time)
    table = pd.DataFrame({"k": pd.Categorical([7, 3, None, 3, 11, 7]), "x": np.arange(6.0)})
    table.to_parquet(tmp_path / "t.parquet", row_group_size=4)
    data = DMatrix(tmp_path / "t.parquet")
    assert data.feature_types == ["c", "float"]
    assert data.categories.values[0].tolist() == [7, 3, 11]
    np.testing.assert_array_equal(values(data)[:, 0], [0, 1, np.nan, 1, 2, 0])


@pytest.mark.parametrize("values_at_a_time", [1, 3, 1 << 19])
def test_dictionaries_of_row_groups_are_joined_in_order(tmp_path, values_at_a_time, monkeypatch):
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", values_at_a_time)
    parts = [["b", "a", None], ["z", "a"], ["b", "c", "z"]]
    tables = [pa.table({"k": pa.array(part).dictionary_encode(), "y": [1.0] * len(part)}) for part in parts]
    with pq.ParquetWriter(tmp_path / "t.parquet", tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    for kind in (DMatrix, QuantileDMatrix):
        data = kind(tmp_path / "t.parquet", label="y")
        assert data.categories.values[0].tolist() == ["b", "a", "z", "c"]
    same_matrix(DMatrix(tmp_path / "t.parquet", label="y"), of_pandas(tmp_path / "t.parquet"))


def test_the_index_of_pandas_is_no_feature(tmp_path):
    table = frame()[["x", "small"]].set_index(pd.Index(np.arange(50) ** 2, name="row"))
    table.to_parquet(tmp_path / "t.parquet")
    assert DMatrix(tmp_path / "t.parquet").feature_names == ["x", "small"]
    data = DMatrix(tmp_path / "t.parquet", weight="row")
    np.testing.assert_array_equal(data.get_weight(), np.arange(50) ** 2)
    assert data.feature_names == ["x", "small"]


def test_names_choose_columns(tmp_path):
    frame().to_parquet(tmp_path / "t.parquet")
    data = DMatrix(tmp_path / "t.parquet", label="y", feature_names=["half", "x"])
    assert data.feature_names == ["half", "x"]
    np.testing.assert_array_equal(values(data), np.float32(frame()[["half", "x"]]))
    data = DMatrix(tmp_path / "t.parquet", label="y", feature_names=list("abcdef"))
    assert data.feature_names == list("abcdef"), "names that are no columns are new ones"
    with pytest.raises(XGBoostError, match="feature names must have the same length"):
        DMatrix(tmp_path / "t.parquet", label="y", feature_names=["x", "z"])


# ---- folders and datasets ----


@pytest.fixture
def folder(tmp_path):
    """Four files, one of them in a folder below; categories turn up in different orders."""
    place = tmp_path / "table"
    (place / "more").mkdir(parents=True)
    for k, name in enumerate(["a.parquet", "b.pq", "c.PARQUET", "more/a.parquet"]):
        frame(20, seed=k).to_parquet(place / name, row_group_size=6)
    (place / "_SUCCESS").write_text("")
    (place / "notes.txt").write_text("not a table")
    (place / ".hidden.parquet").write_text("not a table either")
    return place


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_a_folder_is_its_files_one_after_the_other(folder, kind):
    whole = pd.concat([frame(20, seed=k) for k in range(4)], ignore_index=True)
    data = kind(folder, label="y")
    same_matrix(data, kind(whole.drop(columns="y"), whole["y"], enable_categorical=True))
    assert kind(f"{folder}?format=parquet", label="y").num_row() == 80


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_datasets(folder, kind):
    files = [folder / name for name in ("a.parquet", "b.pq", "c.PARQUET", "more/a.parquet")]
    dataset = ds.dataset([str(file) for file in files])
    same_matrix(kind(dataset, label="y"), kind(folder, label="y"))
    few = kind(dataset.filter(ds.field("x") > 0), label="y", weight="whole")
    whole = pd.concat([frame(20, seed=k) for k in range(4)])
    np.testing.assert_array_equal(few.get_label(), np.float32(whole["y"][whole["x"] > 0]))
    with pytest.raises(XGBoostError, match="has no rows"):
        kind(dataset.filter(ds.field("x") > 100), label="y")
    with pytest.raises(XGBoostError, match="has no column 'z'"):
        kind(dataset, label="z")


def test_folders_named_by_values_are_columns(tmp_path):
    """As in pandas: `year` comes last and is a category."""
    for k, year in enumerate((2026, 2025, 999)):
        (tmp_path / "t" / f"year={year}").mkdir(parents=True)
        frame(5, seed=k)[["x", "y"]].to_parquet(tmp_path / "t" / f"year={year}" / "part.parquet")
    data = DMatrix(tmp_path / "t", label="y")
    assert data.feature_names == ["x", "year"]
    same_matrix(data, of_pandas(tmp_path / "t"))


def test_columns_in_another_order_and_columns_of_nulls_fit(tmp_path):
    place = tmp_path / "t"
    place.mkdir()
    table = frame(6)[["x", "color", "y"]]
    table.assign(color=None).to_parquet(place / "a.parquet")
    table[["y", "color", "x"]].to_parquet(place / "b.parquet")
    table.assign(x=1).to_parquet(place / "c.parquet")
    data = DMatrix(place, label="y")
    assert data.feature_names == ["x", "color"]
    assert data.feature_types == ["float", "c"]
    np.testing.assert_array_equal(values(data)[:, 0], np.float32([*table["x"], *table["x"], *[1] * 6]))
    assert np.isnan(values(data)[:6, 1]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="x"), r"different columns: .*b.parquet lacks x, compared with .*a.parquet"),
        (lambda t: t.assign(more=1), r"b.parquet has more besides, compared with .*a.parquet"),
        (lambda t: t.rename(columns={"x": "z"}), r"b.parquet lacks x and has z besides"),
        (lambda t: t.assign(x="text"), r"different types of the column 'x': .*string in .*b.parquet, double in"),
        (lambda t: t.assign(color=1.0), r"different types of the column 'color': double in .*b.parquet, dictionary"),
    ],
)
def test_files_with_other_columns_are_refused(tmp_path, change, message):
    place = tmp_path / "t"
    place.mkdir()
    frame(5).to_parquet(place / "a.parquet")
    change(frame(5)).to_parquet(place / "b.parquet")
    with pytest.raises(XGBoostError, match=message):
        DMatrix(place, label="y")


def test_folders_without_tables(tmp_path):
    with pytest.raises(XGBoostError, match="is a directory without Parquet files"):
        DMatrix(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(XGBoostError, match=r"x.parquet is not a readable Parquet file"):
        DMatrix(tmp_path)


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "b").mkdir(parents=True)
    for k, place in enumerate(["data/a.parquet", "data/b/b.parquet", "elsewhere/c.parquet"]):
        frame(10, k).to_parquet(tmp_path / place)
    (tmp_path / "data" / "c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "b" / "circle").symlink_to(tmp_path / "data")
    whole = pd.concat([frame(10, k) for k in range(3)])
    found = DMatrix(tmp_path / "data", label="y")
    np.testing.assert_array_equal(found.get_label(), whole["y"].astype(np.float32))


def test_a_file_that_changes_later(tmp_path):
    frame(400).to_parquet(tmp_path / "a.parquet")
    table = parquet.open_table(tmp_path / "a.parquet")
    frame(400, seed=1).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(XGBoostError, match="has changed since it was looked at first"):
        list(table.batches(["x"], 100))


def test_pages_with_checksums_are_checked(tmp_path):
    path = tmp_path / "a.parquet"
    frame(400).to_parquet(path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    at = content.find(frame(400)["x"].to_numpy()[50:60].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(XGBoostError, match="is damaged"):
        DMatrix(path, label="y")


def test_a_file_damaged_in_the_middle_of_a_folder(folder):
    path = folder / "b.pq"
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * (size // 4))
    with pytest.raises(XGBoostError, match=r"b.pq is damaged"):
        DMatrix(folder, label="y")


def test_two_columns_of_one_name(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(XGBoostError, match="two columns named 'a'"):
        DMatrix(tmp_path / "t.parquet")


def test_groups_with_nulls(tmp_path):
    pq.write_table(pa.table({"q": [1, None, 2], "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    with pytest.raises(XGBoostError, match="column 'q', given as qid, has nulls"):
        DMatrix(tmp_path / "t.parquet", qid="q")


def test_without_pyarrow(tmp_path, monkeypatch):
    frame(3).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(XGBoostError, match="pip install pyarrow"):
        DMatrix(tmp_path / "t.parquet")


# ---- writing ----


def test_rows_are_written_as_they_come(tmp_path):
    with parquet.writing(tmp_path / "out.parquet") as write:
        for k in range(5):
            write({"a": np.full(3, k), "b": pa.array(["x", None, "y"])})
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column("a").to_pylist() == np.repeat(np.arange(5), 3).tolist()
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 1
    assert os.listdir(tmp_path) == ["out.parquet"]


def test_an_error_leaves_the_older_file(tmp_path):
    (tmp_path / "out.parquet").write_text("older")
    with pytest.raises(KeyError), parquet.writing(tmp_path / "out.parquet") as write:
        write({"a": np.arange(3)})
        raise KeyError
    assert (tmp_path / "out.parquet").read_text() == "older"
    assert os.listdir(tmp_path) == ["out.parquet"]
    with pytest.raises(XGBoostError, match=r"Writing .*nowhere"), parquet.writing(tmp_path / "nowhere" / "o") as write:
        write({"a": np.arange(3)})
