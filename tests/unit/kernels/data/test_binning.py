"""The scan, the search for bins and the densified rows, against obvious loops."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive_matrix
from arboost.kernels.cpu.data import binning, counting
from arboost.matrix.adapt import adapt
from arboost.matrix.cuts import Cuts, keys_of_values, values_of_keys
from arboost.matrix.page import _search_table
from arboost.runtime.context import Context

values_2d = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 300), st.integers(1, 5)),
    elements=st.sampled_from(np.array([0, -0.0, 1, -3.5, 1e30, np.nan, np.inf, -np.inf], np.float32)),
)


def cuts_of(columns):
    ptr = np.append(0, np.cumsum([len(c) for c in columns])).astype(np.int32)
    values = np.concatenate(columns).astype(np.float32)
    n = len(columns)
    return Cuts(ptr, values, np.zeros(n, np.float32), np.ones(n, np.bool_), np.zeros(n, np.bool_))


@given(values_2d)
def test_scan_counts_present_and_infinite(values):
    n_present, n_infinite = np.zeros((2, values.shape[1]), np.int64)
    bits = values.reshape(-1).view(np.uint32)
    half = len(values) // 2
    binning.scan_values(bits, values.shape[1], n_present, n_infinite, 0, half)
    binning.scan_values(bits, values.shape[1], n_present, n_infinite, half, len(values))
    assert (n_present == (~np.isnan(values)).sum(axis=0)).all()
    assert (n_infinite == np.isinf(values).sum(axis=0)).all()


def test_densify_rows():
    matrix = scipy.sparse.random(50, 7, 0.3, format="csr", dtype=np.float32, random_state=0)
    dense = np.zeros((20, 7), np.float32)
    indptr = matrix.indptr.astype(np.int64)
    binning.densify_rows(indptr, matrix.indices, matrix.data, 10, dense, 0, 20)
    expected = np.where(matrix.toarray() == 0, np.float32(np.nan), matrix.toarray())[10:30]
    np.testing.assert_array_equal(dense, expected)


def scales():
    """Cuts spread evenly, over many magnitudes, and crowded at one end: one to sixteen halvings."""
    rng = np.random.default_rng(2)
    yield from (np.sort(rng.normal(size=n)) for n in (1, 2, 3, 4, 9, 255, 256))
    yield np.sort(rng.normal(size=255) * np.exp(rng.normal(size=255) * 20))
    yield np.append(1 + np.arange(254) * 1e-6, 1e30)
    yield np.append(-1e30, 1 + np.arange(3000) * 1e-6)
    yield np.arange(65534) / 3


@pytest.mark.parametrize("inner", list(scales()), ids=lambda inner: str(len(inner)))
@pytest.mark.parametrize("max_cells", [256, 1 << 14])
def test_bins_are_numbers_of_cuts_below(inner, max_cells, monkeypatch):
    monkeypatch.setattr("arboost.matrix.page._MAX_CELLS", max_cells)
    inner = np.unique(inner.astype(np.float32))
    cuts = cuts_of([np.append(inner, np.float32(np.inf)), np.array([3e-5], np.float32)])
    chosen = np.random.default_rng(0).choice(inner, min(len(inner), 400))
    x = np.concatenate([chosen, np.nextafter(chosen, -np.inf), np.nextafter(chosen, np.inf), [0, -0.0, np.nan, -1e38]])
    values = np.column_stack([x, x]).astype(np.float32)
    dtype, missing = (np.uint8, 255) if len(inner) < 255 else (np.uint16, 65535)
    rows, columns = np.zeros((len(x) + 5, 8), dtype), np.zeros((2, len(x) + 5), dtype)
    search = _search_table(Context(), cuts, 1 << 20)
    binning.bin_values(values.view(np.uint32), *search, missing, rows, columns, 5, 0, len(x))
    expected = np.where(np.isnan(values[:, 0]), missing, np.searchsorted(inner, values[:, 0], side="right"))
    assert (columns[0, 5:] == expected).all()
    assert (rows[5:, 0] == expected).all()
    assert (columns[1, 5:] == np.where(np.isnan(values[:, 0]), missing, 0)).all()
    assert not columns[:, :5].any()
    assert not rows[:, 2:].any()


@given(values_2d, st.integers(0, 5))
def test_bins_match_the_naive_twin(values, seed):
    values = np.where(np.isinf(values), np.float32(7), values)
    rng = np.random.default_rng(seed)
    features = range(values.shape[1])
    columns = [np.append(np.unique(rng.integers(-4, 5, rng.integers(0, 6))), 1e31).astype(np.float32) for _ in features]
    search = _search_table(Context(), cuts_of(columns), len(values))
    out = np.zeros((len(values), 8), np.uint8), np.zeros((values.shape[1], len(values)), np.uint8)
    binning.bin_values(values.view(np.uint32), *search, 255, *out, 0, 0, len(values))
    for f in features:
        assert out[1][f].tolist() == naive_matrix.feature_bins(values[:, f], columns[f], 255)

    dense = np.where(values == 0, np.float32(9), values)
    matrix = scipy.sparse.csr_matrix(np.nan_to_num(dense))
    matrix.data[::7] = np.nan  # stored, and yet missing
    dense[np.nonzero(np.nan_to_num(dense))] = matrix.data
    ptr, column_rows, column_values = sorted_entries(matrix)
    bins = np.zeros(len(column_rows), np.uint8)
    binning.bin_columns(ptr, column_values.view(np.uint32), *search, bins, 0, values.shape[1])
    for f in features:
        expected = naive_matrix.feature_bins(dense[:, f], columns[f], 255)
        entries = slice(ptr[f], ptr[f + 1])
        assert column_rows[entries].tolist() == np.flatnonzero(~np.isnan(dense[:, f])).tolist()
        assert bins[entries].tolist() == [code for code in expected if code != 255]


def sorted_entries(matrix):
    """(column_ptr, rows, values) of a CSR matrix by the kernels."""
    entries = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    counts, every = np.zeros(matrix.shape[1], np.int64), np.arange(matrix.shape[1], dtype=np.int32)
    binning.count_entries(*entries, every, counts, 0, matrix.shape[0])
    ptr = np.append(0, np.cumsum(counts))
    rows, values = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
    binning.sort_entries(*entries, every, ptr[:-1].copy(), rows, values, 0, matrix.shape[0])
    return ptr, rows, values


def test_scan_of_entries():
    matrix = scipy.sparse.csr_matrix(np.array([[3, -1, 0], [2, 7, 0], [-np.inf, 0, 0]], np.float32))
    matrix.data[1] = np.nan
    counts = np.zeros(3, np.int64)
    low, high = np.full(3, counting.KEY_MISSING, np.uint32), np.zeros(3, np.uint32)
    binning.scan_entries(matrix.indices, matrix.data.view(np.uint32), counts, low, high, 0, matrix.nnz)
    assert counts.tolist() == [3, 1, 0]
    assert values_of_keys(low[:2]).tolist() == [-np.inf, 7]
    assert values_of_keys(high[:2]).tolist() == [3, 7]
    assert low[2] > high[2]


def test_some_features_are_gathered():
    matrix = scipy.sparse.csr_matrix(np.array([[3, 1, 5], [2, 7, 0], [0, 4, 6]], np.float32))
    rows, values = np.full(6, -1, np.int32), np.zeros(6, np.float32)
    adapt(matrix).gather(np.array([2, 0]), np.array([4, 0]), rows, values)
    assert values.tolist() == [3, 2, 0, 0, 5, 6]
    assert rows.tolist() == [0, 1, -1, -1, 0, 2]
    again = np.zeros(6, np.float32)
    adapt(matrix).gather(np.array([2, 0]), np.array([4, 0]), np.zeros(1, np.int32), again)
    assert again.tolist() == values.tolist()


@given(hnp.arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False)))
def test_keys_and_values_are_inverse(values):
    keys = keys_of_values(values)
    assert (values_of_keys(keys) == values).all()
    assert (np.argsort(keys, kind="stable") == np.argsort(values, kind="stable")).all()
    assert keys.max() < counting.KEY_MISSING
