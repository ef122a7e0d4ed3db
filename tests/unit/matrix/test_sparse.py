"""Sparse matrices are checked before SciPy or a kernel follows an index; what is sound is read without a copy."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import arboost
from arboost.matrix.adapt import adapt
from arboost.matrix.sparse import MAX_FEATURES, read_sparse
from arboost.runtime import memory
from arboost.runtime.errors import XGBoostError

TABLE = np.array([[1, 0, 2], [0, 3, 0], [4, 5, 0], [0, 0, 6]], np.float32)


def sparse(kind: str, **arrays):
    matrix = scipy.sparse.csr_matrix(TABLE).asformat(kind)
    for name, values in arrays.items():
        setattr(matrix, name, np.asarray(values))
    return matrix


@pytest.mark.parametrize(
    ("kind", "arrays", "message"),
    [
        ("csr", {"indptr": [0, 2, 1, 5, 6]}, r"row offsets \(indptr\).*do not rise from 0"),
        ("csr", {"indptr": [0, 2, 3, 5, 60]}, r"number of its entries, 6"),
        ("csr", {"indptr": [0, -2, 3, 5, 6]}, "row offsets"),
        ("csr", {"indptr": [1, 2, 3, 5, 6]}, "row offsets"),
        ("csr", {"indptr": [0, 2, 3, 5]}, "4 row offsets .indptr.; 4 rows need 5"),
        ("csr", {"indptr": [0.0, 2, 3, 5, 6]}, "row of integers, got dtype float64"),
        ("csr", {"indptr": np.zeros((5, 1), int)}, r"shape \(5, 1\)"),
        ("csr", {"indices": [0, 2, 1, 0, 1, 3]}, r"column indices outside of 0\.\.2: 3"),
        ("csr", {"indices": [0, 2, 1, 0, 1, -1]}, r"column indices outside of 0\.\.2: -1"),
        ("csr", {"indices": [0, 2, 1, 0, 1, 2**40]}, "outside"),
        ("csr", {"indices": [0, 2, 1, 0, 1]}, "row offsets"),
        ("csr", {"data": np.ones(4)}, r"6 indices for data of shape \(4,\)"),
        ("csc", {"indptr": [0, 5, 4, 6]}, "column offsets"),
        ("csc", {"indices": [0, 2, 1, 2, 0, 4]}, r"row indices outside of 0\.\.3: 4"),
        ("csc", {"indices": [0, 2, 1, 2, 0, -1]}, r"row indices outside of 0\.\.3: -1"),
        ("csc", {"indices": [-4, 2, 1, 2, 0, 3]}, "row indices outside"),
        ("coo", {"col": [0, 2, 1, 0, 1, 7]}, "column indices outside"),
        ("coo", {"row": [0, 0, 1, 2, 2, -1]}, "row indices outside"),
        ("bsr", {"indices": np.full(12, 9)}, "sparse"),
        ("dia", {"offsets": [0]}, "format dia"),
    ],
)
def test_faults_are_named(kind, arrays, message):
    matrix = sparse(kind, **arrays)
    with pytest.raises(XGBoostError, match=message):
        adapt(matrix)


def test_a_sound_csr_matrix_is_not_copied():
    matrix = sparse("csr")
    found = read_sparse(matrix)
    assert np.shares_memory(found.indices, matrix.indices)
    assert np.shares_memory(found.data, matrix.data)
    matrix.indices.flags.writeable = matrix.indptr.flags.writeable = False
    assert np.array_equal(read_sparse(matrix).indices, matrix.indices)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("array", [False, True])
def test_every_format_is_read(kind, array):
    matrix = getattr(scipy.sparse, f"{kind}_array" if array else f"{kind}_matrix")(TABLE)
    found = read_sparse(matrix)
    rebuilt = scipy.sparse.csr_matrix((found.data, found.indices, found.indptr), found.shape)
    rebuilt.eliminate_zeros()  # blocks store them
    assert np.array_equal(rebuilt.toarray(), TABLE)


@pytest.mark.parametrize("dtype", ["i1", "i2", "u2", "u4", "u8", ">i4", ">i8"])
def test_indices_of_every_kind(dtype):
    matrix = sparse("csr", indices=np.array([0, 2, 1, 0, 1, 2], dtype), indptr=np.array([0, 2, 3, 5, 6], dtype))
    found = read_sparse(matrix)
    assert found.indices.tolist() == [0, 2, 1, 0, 1, 2]
    assert found.indptr.tolist() == [0, 2, 3, 5, 6]


def test_room_at_the_end_is_no_data():
    matrix = sparse("csr")
    matrix.indices, matrix.data = np.append(matrix.indices, [77, -3]), np.append(matrix.data, [1, 1]).astype(np.float32)
    assert arboost.DMatrix(matrix).num_nonmissing() == 6


def test_flags_that_are_no_longer_true():
    matrix = sparse("csr")
    assert matrix.has_canonical_format
    matrix.indices[:2] = 1
    assert arboost.DMatrix(matrix).get_data().toarray()[0].tolist() == [0, 3, 0]
    assert matrix.nnz == 6


def test_shapes_that_cannot_be(monkeypatch):
    with pytest.raises(XGBoostError, match=f"at most {MAX_FEATURES}"):
        adapt(scipy.sparse.csr_matrix((2, 2**33)))
    monkeypatch.setattr(memory, "limit", 1 << 30)
    with pytest.raises(XGBoostError, match=f"A sparse table of {2**31 - 1} features needs about 32.0 GiB"):
        adapt(scipy.sparse.csr_matrix((2, 2**31 - 1)))
    with pytest.raises(XGBoostError, match=f"A sparse matrix of {2**40} rows needs about"):
        adapt(scipy.sparse.coo_matrix(([1.0], ([2**39], [1])), (2**40, 3)))


def test_sparse_columns_of_pandas():
    index = pd._libs.sparse.IntIndex(4, np.array([0, 9], np.int32), check_integrity=False)
    column = pd.arrays.SparseArray._simple_new(np.array([1.0, 2.0]), index, pd.SparseDtype(float))
    with pytest.raises(XGBoostError, match=r"row indices outside of 0\.\.3: 9"):
        arboost.DMatrix(pd.DataFrame({"a": pd.Series(column)}))
