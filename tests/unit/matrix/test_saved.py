"""What `save_binary` writes is read back to the bit; anything else is refused."""

import json
import os
import tempfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from arboost.matrix import saved
from arboost.matrix.adapt import SparseData
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.runtime.errors import XGBoostError

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
X[3, 1] = np.nan
FIELDS = {
    "label": np.arange(80.0).reshape(40, 2),
    "weight": np.arange(40) + 0.5,
    "base_margin": np.arange(40),
    "label_lower_bound": np.arange(40),
    "label_upper_bound": np.arange(40) + 1,
    "feature_weights": [1, 2, 3],
    "feature_names": ["a", "é b", "c"],
    "feature_types": ["int", "q", "float"],
}


def values(data):
    return np.concatenate([part.copy() for _, part in data.chunks()])


def assert_same(one, other):
    np.testing.assert_array_equal(values(one), values(other))
    for name in ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound", "feature_weights"):
        np.testing.assert_array_equal(one.get_float_info(name), other.get_float_info(name))
        assert one.get_float_info(name).shape == other.get_float_info(name).shape
    np.testing.assert_array_equal(one.get_group(), other.get_group())
    assert one.num_nonmissing() == other.num_nonmissing()
    assert (one.feature_names, one.feature_types) == (other.feature_names, other.feature_types)


@pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, np.float64, pd.DataFrame, scipy.sparse.csr_matrix, np.ndarray.tolist]
)
@pytest.mark.parametrize("fields", [FIELDS, {}, {"group": [10, 30], "weight": [1, 2]}], ids=["all", "none", "groups"])
def test_round_trip(make, fields, tmp_path):
    data = DMatrix(make(X), **fields)
    data.save_binary(tmp_path / "x.buffer")
    again = DMatrix(str(tmp_path / "x.buffer"))
    assert isinstance(again.raw, SparseData) == isinstance(data.raw, SparseData)
    assert_same(again, data)
    again.save_binary(tmp_path / "y.buffer", silent=False)
    assert (tmp_path / "x.buffer").read_bytes() == (tmp_path / "y.buffer").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["x.buffer", "y.buffer"]


def test_categories(tmp_path):
    frame = pd.DataFrame(
        {"k": pd.Categorical(["b", "a", None, "b"]), "n": pd.Categorical([3, 5, 3, 5]), "x": [1, 2, 3, 4]}
    )
    data = DMatrix(frame, enable_categorical=True)
    data.save_binary(tmp_path / "c.buffer")
    again = DMatrix(tmp_path / "c.buffer")
    assert_same(again, data)
    assert again.categories.same_as(data.categories)
    assert again.feature_types == ["c", "c", "int"]


def test_other_labels_on_loading(tmp_path):
    DMatrix(X, **FIELDS).save_binary(tmp_path / "x.buffer")
    again = DMatrix(tmp_path / "x.buffer", label=np.ones(40), feature_names=["p", "q", "r"])
    assert (again.get_label() == 1).all()
    assert again.feature_names == ["p", "q", "r"]
    assert QuantileDMatrix(tmp_path / "x.buffer").num_row() == 40
    with pytest.raises(XGBoostError, match="no named columns"):
        DMatrix(tmp_path / "x.buffer", label="y")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing(shape, tmp_path):
    DMatrix(np.zeros(shape)).save_binary(tmp_path / "x.buffer")
    again = DMatrix(tmp_path / "x.buffer")
    assert (again.num_row(), again.num_col()) == shape


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(XGBoostError, match="for writing failed: No such file or directory"):
        DMatrix(X).save_binary(tmp_path / "nowhere" / "x.buffer")
    with pytest.raises(XGBoostError, match="only supported by DMatrix"):
        QuantileDMatrix(X).save_binary(tmp_path / "x.buffer")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.buffer"
    DMatrix(X).save_binary(path)
    before = path.read_bytes()
    monkeypatch.setattr(saved, "_write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(XGBoostError, match="No space left"):
        DMatrix(X + 1).save_binary(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.buffer"]


# ---- hostile files ----


def file_of(data):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        data.save_binary(path)
        with open(path, "rb") as file:
            return file.read()


DENSE, SPARSE = file_of(DMatrix(X, **FIELDS)), file_of(DMatrix(scipy.sparse.csr_matrix(np.nan_to_num(X))))


def load(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("hostile") / "x.buffer"
    path.write_bytes(content)
    return DMatrix(f"{path}?format=binary" if not content.startswith(saved.MAGIC) else path)


@given(st.sampled_from([DENSE, SPARSE]), st.data())
def test_any_changed_byte_is_noticed(tmp_path_factory, content, data):
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(XGBoostError, match="not a complete file of `save_binary`"):
        load(tmp_path_factory, bytes(changed))


@given(st.sampled_from([DENSE, SPARSE]), st.data())
def test_any_cut_is_noticed(tmp_path_factory, content, data):
    cut = data.draw(st.integers(1, len(content) - 1))
    with pytest.raises(XGBoostError, match="not a complete file of `save_binary`"):
        load(tmp_path_factory, content[:cut])
    with pytest.raises(XGBoostError, match="not a complete file of `save_binary`"):
        load(tmp_path_factory, content + content[:cut])


def forged(content, change):
    """The file with another header, and a check sum that fits."""
    start = len(saved.MAGIC)
    length = int.from_bytes(content[start : start + 8], "little")
    header, rest = json.loads(content[start + 8 : start + 8 + length]), content[start + 8 + length : -4]
    header, rest = change(header, rest)
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = saved.MAGIC + len(text).to_bytes(8, "little") + text + rest
    return body + saved.zlib.crc32(body).to_bytes(4, "little")


def changed(**entries):
    return lambda header, rest: (header | entries, rest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(n_rows=1 << 40), "do not fit"),
        (changed(n_rows=-1), "no shape"),
        (changed(n_rows=True), "no shape"),
        (changed(n_features="3"), "no shape"),
        (changed(arrays=[]), "do not fit"),
        (changed(arrays=None), "does not list arrays"),
        (changed(arrays=[["values", [40, 3]], ["values", [40, 3]]]), "do not fit"),
        (changed(arrays=[["values", [40, -3]]]), "does not list arrays"),
        (changed(arrays=[["other", [40, 3]]]), "does not list arrays"),
        (changed(arrays=[["values", [40, 3]], ["label", [1 << 47, 1 << 47]]]), "bytes"),
        (changed(arrays=[["values", [40, 3]], ["label", [7]]]), "bytes"),
        (changed(feature_names=["a"]), "feature_names are wrong"),
        (changed(feature_names=[1, 2, 3]), "feature_names are wrong"),
        (changed(feature_names="abc"), "feature_names are wrong"),
        (changed(categories=[None]), "categories are wrong"),
        (changed(categories=[None, None, {"dtype": "|O", "values": [1]}]), "categories are wrong"),
        (changed(categories=[None, None, {"dtype": "V8", "values": []}]), "categories are wrong"),
        (changed(categories=[None, None, {"dtype": "<i2", "values": [1 << 40]}]), "categories are wrong"),
        (changed(categories=[None, None, 5]), "categories are wrong"),
        (lambda header, rest: (b"[" * 100000, rest), "not JSON"),
        (lambda header, rest: (b"\xff\xfe", rest), "not JSON"),
        (lambda header, rest: ([1, 2], rest), "no shape"),
    ],
)
def test_forged_headers(change, message, tmp_path_factory):
    with pytest.raises(XGBoostError, match=message):
        load(tmp_path_factory, forged(DENSE, change))


def test_forged_values(tmp_path_factory):
    def with_index(index):
        def change(header, rest):
            at = 8 * (header["n_rows"] + 1)
            return header, rest[:at] + int(index).to_bytes(4, "little", signed=True) + rest[at + 4 :]

        return change

    def with_offset(row, offset):
        return lambda header, rest: (header, rest[: 8 * row] + int(offset).to_bytes(8, "little") + rest[8 * row + 8 :])

    for index in (-1, 3, 1 << 30):
        with pytest.raises(XGBoostError, match="column indices outside"):
            load(tmp_path_factory, forged(SPARSE, with_index(index)))
    for row, offset in ((0, 1), (5, 1 << 40), (40, 5)):
        with pytest.raises(XGBoostError, match="row offsets"):
            load(tmp_path_factory, forged(SPARSE, with_offset(row, offset)))
    with pytest.raises(XGBoostError, match="must be one of"):
        load(tmp_path_factory, forged(DENSE, changed(feature_types=["x", "x", "x"])))
    infinite = np.float32([np.inf]).tobytes()
    with pytest.raises(XGBoostError, match="`inf`"):
        load(tmp_path_factory, forged(DENSE, lambda header, rest: (header, infinite + rest[4:])))


def test_the_same_file_as_before_is_made_again(tmp_path_factory):
    again = load(tmp_path_factory, forged(DENSE, changed()))
    assert_same(again, DMatrix(X, **FIELDS))
