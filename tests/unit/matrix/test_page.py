"""Binned pages: both layouts hold the same bins, in bytes where they fit, for any threads and chunks."""

import numpy as np
import pytest
import scipy.sparse

import naive_matrix
from arboost.matrix import adapt as adapt_module
from arboost.matrix.adapt import adapt
from arboost.matrix.cuts import make_cuts
from arboost.matrix.page import make_binned
from arboost.runtime.context import Context


def table(n_rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 11)).astype(np.float32)
    values[rng.random(n_rows) < 0.3, 2] = np.nan
    values[:, 3] = rng.integers(0, 3, n_rows)
    values[:, 4] = np.nan
    values[:, 5] = 7
    return values


def page_of(data, max_bin, n_threads=1, cuts=None):
    ctx = Context(n_threads=n_threads)
    raw = adapt(data)
    return make_binned(ctx, raw, make_cuts(ctx, raw, None, max_bin) if cuts is None else cuts)


def check(page, values):
    rows = page.words.view(page.bin_dtype)
    assert page.words.dtype == np.uint64
    assert page.words.flags.c_contiguous
    assert page.columns.flags.c_contiguous
    assert (page.n_rows, page.n_features) == values.shape
    assert rows.shape[1] * page.bin_dtype.itemsize == page.n_words * 8
    assert (page.columns == rows[:, : page.n_features].T).all()
    assert not rows[:, page.n_features :].any()
    for f in range(page.n_features):
        cuts = page.cuts.values[page.cuts.ptr[f] : page.cuts.ptr[f + 1]]
        assert page.columns[f].tolist() == naive_matrix.feature_bins(values[:, f], cuts, page.missing_code)
        assert page.n_bins[f] == len(cuts)


@pytest.mark.parametrize("max_bin", [2, 16, 255, 256])
@pytest.mark.parametrize("n_features", [1, 7, 8, 11])
def test_bytes(max_bin, n_features):
    values = table()[:, :n_features]
    page = page_of(values, max_bin)
    assert page.bin_dtype == np.uint8
    assert page.missing_code == 255
    assert page.n_words == -(-n_features // 8)
    assert page.n_bins[0] == max_bin
    if n_features > 2:
        assert page.n_bins[2] == min(255, max_bin)
    check(page, values)


@pytest.mark.parametrize("max_bin", [257, 1000, 65535])
def test_two_bytes(max_bin):
    values = table()
    page = page_of(values, max_bin)
    assert page.bin_dtype == np.uint16
    assert page.missing_code == 65535
    assert page.n_words == 3
    check(page, values)


def test_many_bins_of_few_values_stay_in_bytes():
    assert page_of(table()[:, 3:6], 1000).bin_dtype == np.uint8


@pytest.mark.parametrize("chunk_values", [1 << 22, 5000])
@pytest.mark.parametrize("make", [np.asarray, np.float64, np.asfortranarray, scipy.sparse.csr_matrix])
def test_threads_chunks_and_containers_do_not_matter(make, chunk_values, monkeypatch):
    values = table(9000)
    values[values == 0] = 1
    one = page_of(values, 64)
    monkeypatch.setattr(adapt_module, "CHUNK_VALUES", chunk_values)
    data = make(values)
    if scipy.sparse.issparse(data):  # NaN is stored there; leave it out
        rows, columns = np.nonzero(~np.isnan(values))
        data = make((values[rows, columns], (rows, columns)), values.shape)
    for n_threads in (1, 2, 3):
        other = page_of(data, 64, n_threads)
        assert (other.words == one.words).all()
        assert (other.columns == one.columns).all()


def test_stored_nan_of_sparse_data_is_missing():
    values = np.array([[1, np.nan], [np.nan, 2]], np.float32)
    page = page_of(scipy.sparse.csr_matrix(values), 16)
    assert page.columns.tolist() == [[0, 255], [255, 0]]


def test_other_data_on_given_cuts():
    train = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    cuts = page_of(train, 256).cuts
    assert cuts.n_bins.tolist() == [256, 256]
    assert not cuts.has_missing.any()
    test = train * 3
    check(page_of(test, 256, cuts=cuts), test)  # beyond both ends: first and last bin
    test[5, 1] = np.nan  # 256 bins and a missing code do not fit a byte
    page = page_of(test, 256, cuts=cuts)
    assert page.bin_dtype == np.uint16
    assert page.cuts.has_missing.tolist() == [False, True]
    check(page, test)


@pytest.mark.parametrize("rows", [None, 1, 7])
@pytest.mark.parametrize("max_bin", [16, 300])
def test_chunks_give_lower_bounds(rows, max_bin):
    values = table(50)
    page = page_of(values, max_bin)
    parts = list(page.chunks(rows))
    again = np.concatenate([part for _, part in parts])
    assert [first for first, _ in parts] == list(range(0, 50, rows or 50))
    assert again.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(again), np.isnan(values))
    assert (again[~np.isnan(values)] <= values[~np.isnan(values)]).all()
    assert (page_of(again, max_bin, cuts=page.cuts).columns == page.columns).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing(shape):
    page = page_of(np.zeros(shape), 256)
    assert (page.n_rows, page.n_features) == shape
    assert page.columns.shape == shape[::-1]
