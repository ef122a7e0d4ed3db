"""Bundled and sparse pages say the same as pages with a column for every feature, in less memory, for any threads."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import datasets
import pages
from arboost import DMatrix, QuantileDMatrix
from arboost.kernels.cpu.data import bundle
from arboost.matrix import bundles as bundling
from arboost.matrix import dmatrix
from arboost.matrix.adapt import SparseData, adapt, even_spans
from arboost.matrix.cuts import make_cuts
from arboost.matrix.page import make_binned
from arboost.runtime.context import Context

KINDS = ("one-hot", "counts", "numbers", "constant", "absent", "gaps", "categories", "most one")


@pytest.fixture(autouse=True)
def tables_of_any_size(monkeypatch):
    monkeypatch.setattr(bundling, "MIN_CELLS", 0)
    monkeypatch.setattr(bundling, "_MIN_SAVED", 0)


def group(rng, n_rows, kind):
    """Columns of one kind, side by side."""
    if kind == "one-hot":
        return np.eye(5)[rng.integers(0, 5, n_rows)]
    if kind == "counts":  # exclusive, with many bins
        owner = rng.integers(0, 4, n_rows)
        return np.where(owner[:, None] == np.arange(3), rng.integers(1, 40, (n_rows, 1)), 0)
    if kind == "numbers":
        return rng.normal(size=(n_rows, 2))
    if kind == "constant":
        return np.full((n_rows, 1), 3.0)
    if kind == "absent":
        return np.full((n_rows, 1), np.nan)
    if kind == "gaps":  # exclusive where they are present, zeros among them
        owner = rng.integers(0, 3, n_rows)
        return np.where(owner[:, None] == np.arange(2), rng.integers(0, 3, (n_rows, 1)), np.nan)
    if kind == "categories":
        return rng.integers(0, 4, (n_rows, 1))
    return (rng.random((n_rows, 1)) < 0.9).astype(float)


def table(seed, n_rows, kinds):
    rng = np.random.default_rng(seed)
    parts = [group(rng, n_rows, kind) for kind in kinds]
    types = ["c" if kind == "categories" else "q" for kind, part in zip(kinds, parts) for _ in range(part.shape[1])]
    return np.concatenate(parts, axis=1).astype(np.float32), types


def as_csr(values, drop_zeros=False):
    """A CSR matrix that stores everything but NaN, zeros too unless they are dropped."""
    stored = ~np.isnan(values) & ~(drop_zeros & (values == 0))
    rows, columns = np.nonzero(stored)
    return scipy.sparse.csr_matrix((values[rows, columns], (rows, columns)), values.shape)


def page_of(data, max_bin=16, types=None, n_threads=1, bundle=True, sparse=True):
    ctx = Context(n_threads=n_threads)
    raw = adapt(data)
    raw.n_threads = n_threads
    return make_binned(ctx, raw, make_cuts(ctx, raw, None, max_bin, types), bundle, sparse)


def bins_of(page):
    """Bins of all features, one by one."""
    out = np.full((page.n_features, page.n_rows), 77, page.bin_dtype)
    for f in range(page.n_features):
        page.write_column(Context(), f, out[f])
    return out


def check(page, plain):
    """`page` holds the bins of `plain`, in columns and words that agree, and keeps the rules of bundles."""
    assert plain.bundles is None and plain.sparse is None
    assert page.bin_dtype == plain.bin_dtype
    assert (page.n_rows, page.n_features) == (plain.n_rows, plain.n_features)
    assert (bins_of(page) == plain.columns).all()
    rows = page.words.view(page.bin_dtype)
    assert (rows[:, : page.n_columns] == page.columns.T).all()
    assert not rows[:, page.n_columns :].any()
    for ours, theirs in zip(page.chunks(7), plain.chunks(7), strict=True):
        np.testing.assert_array_equal(ours[1], theirs[1])
    again = page.unbundled(Context())
    assert (again.columns == plain.columns).all()
    assert (again.words == plain.words).all()
    if page.bundles is None:
        assert page.n_columns == page.n_features
        assert page.sparse is None
    else:
        check_layout(page)
        check_members(page, plain)
    if page.sparse is not None:
        check_sparse(page, plain)


def check_layout(page):
    """Codes of a column are those of its members, one after the other, and fit its dtype."""
    bundles, n_bins = page.bundles, page.n_bins
    assert (page.columns.max(axis=1, initial=0) <= page.missing_code).all()
    assert bundles.n_codes.max(initial=0) <= page.missing_code + 1
    for c in range(page.n_columns):
        members = np.flatnonzero(bundles.column == c)
        if (bundles.unstored[members] == bundle.PLAIN).any():
            assert len(members) == 1
            assert bundles.n_codes[c] == n_bins[members[0]]
            continue
        assert len(members) > 1
        at = 1
        for f in members:
            assert bundles.first[f] == at
            at += n_bins[f] - (bundles.unstored[f] >= 0)
        assert bundles.n_codes[c] == at
        assert page.columns[c].max(initial=0) < at
    is_sparse = bundles.column < 0
    assert is_sparse.any() == (page.sparse is not None)
    assert (bundles.unstored[page.cuts.is_categorical] == bundle.PLAIN).all()
    assert not page.cuts.has_missing[bundles.unstored >= 0].any()


def check_members(page, plain):
    """No row has two members of a bundle off their unstored state."""
    bundles = page.bundles
    gap = np.where(bundles.unstored >= 0, bundles.unstored, page.missing_code)
    is_stored = (plain.columns != gap[:, None]) & (bundles.unstored != bundle.PLAIN)[:, None]
    for c in range(page.n_columns):
        assert is_stored[bundles.column == c].sum(axis=0).max(initial=0) <= 1


def check_sparse(page, plain):
    sparse = page.sparse
    assert sparse.features.tolist() == np.flatnonzero(page.bundles.column < 0).tolist()
    assert np.diff(sparse.slot_ptr).tolist() == page.n_bins[sparse.features].tolist()
    bins = plain.columns[sparse.features]
    present = bins != page.missing_code
    assert np.diff(sparse.col_ptr).tolist() == present.sum(axis=1).tolist()
    assert np.diff(sparse.row_ptr).tolist() == present.sum(axis=0).tolist()
    assert sparse.col_rows.tolist() == np.nonzero(present)[1].tolist()
    assert sparse.col_bins.tolist() == bins[present].tolist()
    slots = sparse.slot_ptr[:-1, None] + bins.astype(np.int64)
    assert sparse.slots.tolist() == slots.T[present.T].tolist()


tables = st.builds(
    table,
    st.integers(0, 50),
    st.integers(1, 150),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
)


@settings(deadline=None, max_examples=60)
@given(tables, st.sampled_from([16, 256, 300]), st.sampled_from([8, 64, 1 << 15]))
def test_any_dense_table(made, max_bin, sampled):
    """However few rows a sample has, and so misjudges, what is kept is true."""
    values, types = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "_SECOND_SAMPLE", sampled)
        page = page_of(values, max_bin, types)
    check(page, page_of(values, max_bin, types, bundle=False))


@settings(deadline=None, max_examples=60)
@given(tables, st.sampled_from([16, 300]), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([8, 1 << 15]))
def test_any_sparse_table(made, max_bin, drop_zeros, bundle, sparse, sampled):
    """However few rows a sample has, and so misjudges, what is kept is true."""
    values, types = made
    matrix = as_csr(values, drop_zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "_SECOND_SAMPLE", sampled)
        page = page_of(matrix, max_bin, types, 1, bundle, sparse)
    plain = page_of(matrix, max_bin, types, 1, False, False)
    check(page, plain)
    dense = np.where(drop_zeros & (values == 0), np.float32(np.nan), values)
    assert (plain.columns == page_of(dense, max_bin, types, bundle=False).columns).all()
    if not sparse:
        assert page.sparse is None


@pytest.mark.parametrize("make", [np.asarray, as_csr], ids=["dense", "sparse"])
def test_threads_do_not_matter(make):
    values, _ = table(1, 20_000, ["one-hot", "numbers", "gaps", "one-hot", "counts"])
    values[np.random.default_rng(0).random(len(values)) < 0.95, 5] = np.nan
    data = make(values)
    one = page_of(data)
    assert one.bundles is not None
    assert (one.sparse is not None) == (make is as_csr)
    for n_threads in pages.THREADS[1:]:
        with pages.cut_anywhere(n_threads):
            other = page_of(data, n_threads=n_threads)
        assert (other.words == one.words).all()
        assert (other.columns == one.columns).all()
        for ours, theirs in ((other.bundles, one.bundles), (other.sparse, one.sparse)):
            for name in vars(theirs) if theirs is not None else ():
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_groups_become_columns():
    values, _ = table(0, 3000, ["one-hot", "numbers", "one-hot", "counts"])
    for data, n_codes in ((values, 6), (as_csr(values, drop_zeros=True), 6)):
        page = page_of(data, 256)
        assert page.n_columns == 5
        assert page.bundles.column.tolist() == [0] * 5 + [1, 2] + [3] * 5 + [4] * 3
        assert page.bundles.n_codes[[0, 3]].tolist() == [n_codes] * 2


def test_columns_of_one_group_need_not_lie_side_by_side():
    values, _ = table(0, 3000, ["one-hot"] * 20)
    order = np.random.default_rng(1).permutation(100)
    for data in (values[:, order], as_csr(values[:, order], drop_zeros=True)):
        assert page_of(data).n_columns == 20


def test_a_bundle_fits_a_byte():
    """300 exclusive columns of one code each, and 4 of 100, need two and two."""
    owner = np.random.default_rng(0).integers(0, 300, 6000)
    rows = np.arange(6000)
    many = scipy.sparse.csr_matrix((np.ones(6000, np.float32), (rows, owner)), (6000, 300))
    page = page_of(many, sparse=False)
    assert sorted(page.bundles.n_codes.tolist()) == [46, 256]
    values = (owner // 4 + 1).astype(np.float32)
    page = page_of(scipy.sparse.csr_matrix((values, (rows, owner % 4)), (6000, 4)), 256)
    assert page.n_columns == 2
    assert page.bundles.n_codes.max() <= 256


def as_csr_of_ones(values):
    return as_csr(values, drop_zeros=True)


BOTH = pytest.mark.parametrize("make", [np.asarray, as_csr_of_ones], ids=["dense", "sparse"])


@BOTH
def test_conflicts_that_no_sample_shows_are_found(make):
    values, _ = table(0, 200_000, ["one-hot"] * 3)
    values[123_457, :] = 0
    values[123_457, 6:8] = 1  # one row of a group has two
    page = page_of(make(values))
    check(page, page_of(make(values), bundle=False, sparse=False))
    assert page.n_columns == 4
    assert np.bincount(page.bundles.column)[page.bundles.column[[6, 7]]].min() == 1  # one of them leaves


@BOTH
def test_the_rarer_leaves_where_two_meet(make):
    """A few ones that meet many levels of a group, and that no sample shows, do not break it up."""
    values, _ = table(0, 200_000, ["constant", "one-hot", "constant"])
    values[:, [0, 6]] = 0
    seen = np.isin(np.arange(len(values)), bundling.spread_rows(200_000, 1 << 15))
    lone = np.flatnonzero(~seen)[::5000]
    values[lone[:15], 0] = 1
    values[lone[15:], 6] = 1
    page, plain = page_of(make(values)), page_of(make(values), bundle=False, sparse=False)
    check(page, plain)
    assert len(set(page.bundles.column[1:6])) == 1
    assert (np.bincount(page.bundles.column[page.bundles.column >= 0]) == 5).sum() == 1
    for n_threads in pages.THREADS[1:]:
        with pages.cut_anywhere(n_threads):
            other = page_of(make(values), n_threads=n_threads)
        assert (other.columns == page.columns).all()
        assert (other.bundles.column == page.bundles.column).all()


def test_few_bundles_are_none(monkeypatch):
    monkeypatch.undo()
    values, _ = table(0, 30_000, ["numbers"] * 10 + ["gaps"])
    assert page_of(values).bundles is None  # 21 columns instead of 22
    assert page_of(values[:100, -2:]).bundles is None  # too small to matter
    values, _ = table(0, 30_000, ["numbers"] * 5)
    assert page_of(values).bundles is None
    assert page_of(as_csr(values)).bundles is None


def test_stored_zeros_are_values_and_absent_entries_are_missing():
    zeros = scipy.sparse.csr_matrix((np.zeros(3, np.float32), ([0, 1, 2], [0, 1, 0])), (40, 2))
    page = page_of(zeros)
    assert page.sparse.features.tolist() == [0, 1]
    assert bins_of(page)[:, :4].tolist() == [[0, 255, 0, 255], [255, 0, 255, 255]]
    absent = zeros.copy()
    absent.eliminate_zeros()
    page = page_of(absent)
    assert len(page.sparse.slots) == 0
    assert (bins_of(page) == 255).all()
    full = scipy.sparse.csr_matrix(np.ones((40, 2), np.float32))
    full.data[:60] = 0
    page = page_of(full)
    assert page.sparse is None
    assert not page.cuts.has_missing.any()


def random_sparse(n_rows, n_features, density=0.01, seed=0):
    matrix = scipy.sparse.random(n_rows, n_features, density, "csr", np.float32, random_state=seed)
    matrix.indices = matrix.indices.astype(np.int32)
    return matrix


def test_memory_is_in_proportion_to_entries():
    """Neither the page nor anything on the way to it has room for all cells."""
    matrix = random_sparse(60_000, 2000)  # 120 million cells, 1.2 million entries
    page_of(random_sparse(1000, 50))  # compiled before memory is counted
    data = DMatrix(matrix)
    tracemalloc.start()
    try:
        page = data.binned(Context(), 256, True, True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.n_columns == 0
    assert page.nbytes <= 9 * matrix.nnz + 8 * (matrix.shape[0] + 1) + 16 * matrix.shape[1] + 100
    assert peak < 30 * matrix.nnz + (40 << 20)


def test_bundled_entries_are_not_copied():
    """On the way to a bundled page no entry has a second home: all that is added is a sample."""
    n_rows, n_groups = 100_000, 20
    levels = np.random.default_rng(0).integers(0, 10, (n_rows, n_groups), np.int32) + 10 * np.arange(n_groups)
    entries = (np.ones(levels.size, np.float32), levels.reshape(-1).astype(np.int32), n_groups * np.arange(n_rows + 1))
    data = DMatrix(scipy.sparse.csr_matrix(entries, (n_rows, 10 * n_groups)))
    data.binned(Context(), 256, True, True)
    data._forget_bins()
    tracemalloc.start()
    try:
        page = data.binned(Context(), 256, True, True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.n_columns == n_groups
    assert page.sparse is None
    sample = 24 * 32_768 * n_groups  # three copies of eight bytes an entry
    assert peak < page.nbytes + sample + (5 << 20)


def test_dense_columns_of_sparse_data():
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.hstack(
        [random_sparse(4000, 5), np.round(rng.normal(size=(4000, 2)), 2), random_sparse(4000, 3, 0.3)], "csr"
    ).astype(np.float32)
    page = page_of(matrix, 256)
    check(page, page_of(matrix, 256, bundle=False, sparse=False))
    assert page.sparse.features.tolist() == [0, 1, 2, 3, 4]
    assert page.bundles.column.tolist() == [-1] * 5 + list(range(5))


def test_covtype():
    try:
        data = datasets.load("covtype")
    except datasets.DataUnavailable as reason:
        pytest.skip(str(reason))
    part = data.sample(60_000)
    page = page_of(part.X, 256)
    assert page.n_columns == 12
    check_members(page, page_of(part.X, 256, bundle=False))


@pytest.mark.parametrize("sparse", [False, True])
def test_pages_are_kept_by_kind(sparse):
    values, _ = table(0, 500, ["one-hot", "numbers"])
    data = DMatrix(as_csr(values, drop_zeros=True) if sparse else values)
    ctx = Context()
    page = data.binned(ctx, 16, True, True)
    assert page.bundles is not None
    assert data.binned(ctx, 16, True, True) is page
    plain = data.binned(ctx, 16)
    assert plain.bundles is None
    assert plain.cuts.values is page.cuts.values
    check(page, plain)
    data.set_weight(np.ones(500))
    assert data.binned(ctx, 16, True, True).cuts.values is not page.cuts.values


def test_quantile_matrix_with_bundles(monkeypatch):
    monkeypatch.setattr(dmatrix, "BUNDLE_AND_SPARSE", (True, True))
    values, _ = table(0, 500, ["one-hot", "numbers", "gaps"])
    values[:470, 5] = np.nan
    for data in (values, as_csr(values, drop_zeros=True)):
        made, other = QuantileDMatrix(data, max_bin=16), QuantileDMatrix(data[:50], max_bin=16, ref=DMatrix(data))
        page = made.binned(Context(), 16, True, True)
        assert page.bundles is not None
        plain = made.binned(Context(), 16)
        check(page, plain)
        assert made.binned(Context(), 16) is plain
        np.testing.assert_array_equal(other.get_quantile_cut()[1], made.get_quantile_cut()[1])
        assert made.get_data().shape == values.shape
        taken = page.take(np.array([3, 0, 3])).array
        np.testing.assert_array_equal(taken, next(plain.chunks())[1][[3, 0, 3]])


def test_most_frequent():
    columns = np.array([[1, 2, 2, 0], [3, 1, 3, 1], [255, 255, 0, 1]], np.uint8)
    assert bundling.most_frequent(Context(), columns).tolist() == [2, 1, 255]
    assert bundling.most_frequent(Context(), np.zeros((2, 0), np.uint8)).tolist() == [0, 0]


def test_even_spans():
    ptr = np.array([0, 10, 10, 11, 40, 41])
    assert even_spans(ptr, 1) == [(0, 5)]
    spans = even_spans(ptr, 3)
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == 5
    assert even_spans(np.zeros(1, np.int64), 4) == [(0, 0)]
    assert even_spans(np.zeros(4, np.int64), 4)[-1][1] == 3


def test_columns_of_sparse_data_are_shared_while_held():
    raw = adapt(random_sparse(100, 5, 0.2))
    assert isinstance(raw, SparseData)
    held = raw.by_feature()
    assert raw.by_feature() is held
    del held
    assert raw.by_feature() is not None


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing(shape):
    for data in (np.zeros(shape), scipy.sparse.csr_matrix(shape)):
        page = page_of(data)
        assert (page.n_rows, page.n_features) == shape
        assert bins_of(page).shape == shape[::-1]
