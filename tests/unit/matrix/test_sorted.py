"""Sorted columns: every present value once, ascending, ties by row, from any kind of data."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost
from arboost.matrix import sorted as module
from arboost.matrix.adapt import adapt
from arboost.matrix.sorted import make_sorted
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


def assert_sorted(page, X):
    """`page` holds the columns of X (NaN = missing) in order."""
    assert page.n_rows == len(X)
    assert page.n_features == X.shape[1]
    assert (page.rows.dtype, page.values.dtype, page.ptr.dtype) == (np.int32, np.float32, np.int64)
    for f, column in enumerate(X.T):
        rows = np.flatnonzero(~np.isnan(column))
        expected = rows[np.argsort(column[rows], kind="stable")]
        part = slice(page.ptr[f], page.ptr[f + 1])
        assert page.rows[part].tolist() == expected.tolist()
        assert page.values[part].tolist() == column[expected].tolist()


def make_table(rng, n_rows, n_features, missing=0.2):
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[:, ::3] = np.round(X[:, ::3])
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("tile", [1, 700, 1 << 22])
def test_dense(n_threads, tile, monkeypatch):
    monkeypatch.setattr(module, "_TILE_VALUES", tile)
    X = make_table(np.random.default_rng(0), 257, 7)
    X[:, 3], X[:, 4] = np.nan, 1.5
    assert_sorted(make_sorted(Context(n_threads=n_threads), adapt(X)), X)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("tile", [50, 1 << 22])
def test_sparse_keeps_zeros_and_leaves_absent_entries_out(n_threads, tile, monkeypatch):
    monkeypatch.setattr(module, "_TILE_VALUES", tile)
    dense = make_table(np.random.default_rng(1), 100, 9, missing=0.8)
    dense[3, 2], dense[5, 2] = 0.0, -0.0
    rows, columns = np.nonzero(~np.isnan(dense))
    csr = sp.csr_matrix((dense[rows, columns], (rows, columns)), dense.shape)
    for matrix in (csr, csr.tocsc(), csr.tocoo()):
        page = make_sorted(Context(n_threads=n_threads), adapt(matrix))
        assert len(page.rows) == csr.nnz
        assert_sorted(page, dense)


def test_stored_nan_and_the_missing_value_are_left_out():
    csr = sp.csr_matrix(np.array([[1, 2, 0], [9, 3, 4], [5, 9, 0]], np.float32))
    csr.data[0] = np.nan
    page = make_sorted(Context(), adapt(csr, 9.0))
    assert page.ptr.tolist() == [0, 1, 3, 4]
    assert page.values.tolist() == [5, 2, 3, 4]
    assert page.rows.tolist() == [2, 0, 1, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.floats(width=32, allow_infinity=False), st.just(float("nan"))), min_size=1, max_size=40))
def test_any_floats(values):
    X = np.array(values, np.float32)[:, None]
    assert_sorted(make_sorted(Context(), adapt(X)), X)


def test_negative_zero_is_zero():
    page = make_sorted(Context(), adapt(np.array([[0.0], [-0.0], [-1.0], [0.0]], np.float32)))
    assert page.rows.tolist() == [2, 0, 1, 3]
    assert not np.signbit(page.values[1:]).any()


def test_batches_and_other_dtypes():
    X = make_table(np.random.default_rng(2), 60, 4)

    class Batches(arboost.DataIter):
        def __init__(self):
            self.at = 0
            super().__init__()

        def next(self, input_data):
            if self.at == 3:
                return 0
            input_data(data=X[20 * self.at : 20 * self.at + 20])
            self.at += 1
            return 1

        def reset(self):
            self.at = 0

    ctx = Context(n_threads=2)
    assert_sorted(arboost.DMatrix(Batches()).sorted(ctx), X)
    assert_sorted(make_sorted(ctx, adapt(np.asfortranarray(X.astype(np.float64)))), X)


def test_a_matrix_keeps_its_sorted_page_and_bins_have_none():
    X = make_table(np.random.default_rng(3), 30, 3)
    data = arboost.DMatrix(X)
    assert data.sorted(Context()) is data.sorted(Context(n_threads=2))
    with pytest.raises(XGBoostError, match="QuantileDMatrix"):
        arboost.QuantileDMatrix(X).sorted(Context())
