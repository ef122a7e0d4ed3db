"""Cuts are exact weighted quantiles, whichever way they are found and however the rows are split."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import xgboost
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arboost
import naive_matrix
from arboost.matrix import adapt, cuts
from arboost.matrix.adapt import DenseData, SparseData
from arboost.matrix.cuts import make_cuts, quantize_weight
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from thread_workers import run_workers

WAYS = pytest.mark.parametrize("sort_rows", [0, 1 << 30], ids=["counting", "sorting"])


def table(kind, n_rows, seed):
    rng = np.random.default_rng(seed)
    if kind == "normal":
        return rng.normal(size=(n_rows, 3)).astype(np.float32)
    if kind == "tiny steps":
        return (1 + rng.integers(0, 4000, (n_rows, 3)) * 1e-7).astype(np.float32)
    if kind == "integers":
        return rng.integers(-20, 400, (n_rows, 3)).astype(np.float32)
    if kind == "large integers":
        return rng.integers(-70000, 70000, (n_rows, 3)).astype(np.float32)
    if kind == "zeros":
        return rng.choice(np.array([0.0, -0.0, 1e-45, -1e-45, np.nan], np.float32), (n_rows, 3))
    if kind == "any":
        return rng.integers(0, 2**32, (n_rows, 3), np.uint32).view(np.float32)
    mixed = rng.normal(size=(n_rows, 3)).astype(np.float32)
    mixed[rng.random(mixed.shape) < 0.3] = np.nan
    mixed[:, 1] = np.nan
    mixed[:, 2] = 4.5
    return mixed


def expected_cuts(values, weights, max_bin):
    has_missing = np.isnan(values).any(axis=0)
    pairs = [
        naive_matrix.feature_cuts(values[:, f], weights, 255 if max_bin == 256 and has_missing[f] else max_bin)
        for f in range(values.shape[1])
    ]
    return np.array([low for low, _ in pairs], np.float32), [c for _, c in pairs], has_missing


def assert_cuts(made, values, weights, max_bin):
    minima, columns, has_missing = expected_cuts(values, weights, max_bin)
    np.testing.assert_array_equal(np.diff(made.ptr), [len(c) for c in columns])
    np.testing.assert_array_equal(made.values, np.concatenate(columns))
    np.testing.assert_array_equal(made.min_values, minima)
    np.testing.assert_array_equal(made.has_missing, has_missing)


KINDS = ("normal", "tiny steps", "integers", "large integers", "zeros", "any", "mixed")


@WAYS
@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    n_rows=st.integers(1, 3000),
    seed=st.integers(0, 99),
    max_bin=st.sampled_from([2, 3, 16, 255, 256, 300]),
    weighting=st.sampled_from([None, "random", "some zero", "all zero", "wide"]),
    n_threads=st.sampled_from([1, 3]),
)
@example(kind="normal", n_rows=3000, seed=0, max_bin=256, weighting="wide", n_threads=2)
def test_cuts_equal_the_naive_ones(sort_rows, kind, n_rows, seed, max_bin, weighting, n_threads):
    values = table(kind, n_rows, seed)
    values[np.isinf(values)] = 1.0
    weight = weights_of(weighting, n_rows, seed)
    ctx = Context(n_threads=n_threads)
    integers = np.ones(n_rows, np.int64) if weight is None else quantize_weight(ctx, n_rows, weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "_SORT_ROWS", sort_rows)
        assert_cuts(make_cuts(ctx, DenseData(values), weight, max_bin), values, integers, max_bin)


def weights_of(weighting, n_rows, seed):
    rng = np.random.default_rng(seed)
    random = rng.random(n_rows).astype(np.float32)
    return {
        None: None,
        "random": random,
        "some zero": np.where(random < 0.5, np.float32(0), random),
        "all zero": np.zeros(n_rows, np.float32),
        "wide": np.exp(rng.normal(size=n_rows) * 20).astype(np.float32),
    }[weighting]


@WAYS
@pytest.mark.parametrize("chunk", [1 << 22, 700])
def test_chunks_tiles_and_order_do_not_matter(sort_rows, chunk, monkeypatch):
    values = table("normal", 2000, 5)
    values = np.hstack([values, table("mixed", 2000, 6), table("integers", 2000, 7)])
    weight = weights_of("random", 2000, 1)
    whole = make_cuts(Context(n_threads=2), DenseData(values), weight, 64)
    monkeypatch.setattr(cuts, "_SORT_ROWS", sort_rows)
    monkeypatch.setattr(cuts, "_TILE_CELLS", 2 * 65536)
    monkeypatch.setattr(cuts, "_TILE_VALUES", 4001)
    monkeypatch.setattr(adapt, "CHUNK_VALUES", chunk)
    order = np.random.default_rng(0).permutation(2000)
    for data, w in (
        (DenseData(values.astype(np.float64)), weight),
        (DenseData(np.asfortranarray(values[order])), weight[order]),
        (DenseData(values[order]), weight[order]),
    ):
        other = make_cuts(Context(n_threads=3), data, w, 64)
        for name in ("ptr", "values", "min_values", "has_missing"):
            np.testing.assert_array_equal(getattr(other, name), getattr(whole, name))


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("has_all", [False, True], ids=["shared", "one has all"])
def test_workers_find_the_cuts_of_all_rows(world_size, sparse, has_all, monkeypatch):
    monkeypatch.setattr(cuts, "_TILE_VALUES", 1000)
    values, weight = table("mixed", 999, 3), weights_of("random", 999, 3)
    alone = make_cuts(Context(), DenseData(values), weight, 16)
    found = [None] * world_size

    def work(comm):
        part = slice(999 * comm.rank // world_size, 999 * (comm.rank + 1) // world_size)
        part = slice(999 if comm.rank else 0, 999) if has_all else part
        data = SparseData(sparse_of(values[part])) if sparse else DenseData(values[part])
        found[comm.rank] = make_cuts(Context(comm=comm), data, weight[part], 16)

    run_workers(world_size, work)
    for other in found:
        for name in ("ptr", "values", "min_values", "has_missing"):
            np.testing.assert_array_equal(getattr(other, name), getattr(alone, name))


def sparse_of(values):
    rows, columns = np.nonzero(~np.isnan(values))
    return scipy.sparse.csr_matrix((values[rows, columns], (rows, columns)), values.shape)


@pytest.mark.parametrize("kind", ["mixed", "zeros"])
def test_sparse_equals_dense(kind):
    values, weight = table(kind, 500, 8), weights_of("some zero", 500, 2)
    dense = make_cuts(Context(), DenseData(values), weight, 32)
    sparse = make_cuts(Context(), SparseData(sparse_of(values)), weight, 32)
    np.testing.assert_array_equal(sparse.values, dense.values)
    np.testing.assert_array_equal(sparse.has_missing, dense.has_missing)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 99),
    st.sampled_from(["none", "positive", "some zero", "all zero"]),
    st.sampled_from([2, 16, 256]),
    st.sampled_from([1, 3]),
)
def test_cuts_of_sparse_data_equal_the_naive_ones(seed, weighting, max_bin, n_threads):
    """Features with one value, with none, with a few and with many, in tiles of any size."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((90, 7)) < 0.2, rng.integers(-3, 4, (90, 7)), np.nan).astype(np.float32)
    values[:, 3] = np.nan
    values[:, 2] = np.where(np.isnan(values[:, 2]), np.nan, 1)
    values[:, 5] = -2.5
    values[:, 6] = rng.normal(size=90)
    weight = None if weighting == "none" else rng.integers(weighting == "some zero" and -1, 3, 90).clip(0)
    weight = weight if weight is None else (weight + (weighting == "positive")) * (weighting != "all zero")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "_TILE_VALUES", int(rng.choice([2, 40, 1 << 21])))
        raw = SparseData(sparse_of(values))
        raw.n_threads = n_threads
        weight = None if weight is None else weight.astype(np.float32)
        made = make_cuts(Context(n_threads=n_threads), raw, weight, max_bin)
    assert_cuts(made, values, quantize_weight(Context(), 90, weight) * np.ones(90, np.int64), max_bin)


def test_values_of_one_hot_data_are_not_copied():
    one_hot = scipy.sparse.csr_matrix((np.ones(400_000, np.float32), np.arange(400_000) % 20, np.arange(0, 400_001, 2)))
    raw = SparseData(one_hot)
    raw.scan(Context())
    make_cuts(Context(), raw, None, 256)
    tracemalloc.start()
    try:
        made = make_cuts(Context(), raw, None, 256)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.n_bins.tolist() == [1] * 20
    assert peak < 100_000


def test_rows_that_weigh_nothing_lie_within_the_cuts():
    """By bins and by values they go the same way, also where they are beyond all others."""
    X = np.array([[1.0], [2.0], [50.0], [-50.0]], np.float32)
    for data in (X, scipy.sparse.csr_matrix(X)):
        matrix = arboost.QuantileDMatrix(data, [0.0, 1.0, 1.0, 0.0], weight=[1, 1, 0, 0])
        cuts = matrix.binned(Context(), 256, True, True).cuts
        assert cuts.values[-1] > 50 and cuts.min_values[0] < -50
        assert cuts.n_bins.tolist() == [2]


def test_weighted_equals_repeated():
    values, times = table("normal", 300, 4), np.random.default_rng(4).integers(0, 6, 300)
    times[[*values.argmin(axis=0), *values.argmax(axis=0)]] = 1  # the ends are around all values, whatever they weigh
    weighted = make_cuts(Context(), DenseData(values), times.astype(np.float32), 20)
    repeated = make_cuts(Context(), DenseData(np.repeat(values, times, axis=0)), None, 20)
    np.testing.assert_array_equal(weighted.values, repeated.values)
    np.testing.assert_array_equal(weighted.min_values, repeated.min_values)


@pytest.mark.parametrize("weight", [None, "random", "some zero"])
def test_few_distinct_values_give_xgboosts_cuts(weight):
    rng = np.random.default_rng(9)
    values = rng.integers(-50, 50, (400, 4)).astype(np.float32) / 8
    values[rng.random(values.shape) < 0.2] = np.nan
    values[:, 2] = np.nan
    values[:, 3] = -2
    weight = weights_of(weight, 400, 1)
    made = make_cuts(Context(), DenseData(values), weight, 256)
    peer = xgboost.QuantileDMatrix(values, label=np.zeros(400), weight=weight, max_bin=256)
    peer_ptr, peer_values = peer.get_quantile_cut()
    np.testing.assert_array_equal(np.diff(made.ptr) + 1, np.diff(peer_ptr.astype(np.int64)))
    np.testing.assert_array_equal(np.insert(made.values, made.ptr[:-1], made.min_values), peer_values)


def test_values_near_the_limits():
    largest = np.finfo(np.float32).max
    made = make_cuts(Context(), DenseData(np.array([[-largest], [0], [largest]], np.float32)), None, 256)
    assert made.values.tolist() == [0, largest, np.inf]
    assert made.min_values.tolist() == [-np.inf]
    only_minus = make_cuts(Context(), DenseData(np.array([[-np.inf], [np.inf]], np.float32), np.inf), None, 256)
    assert only_minus.values.tolist() == [np.inf]


def test_many_bins():
    values = np.random.default_rng(0).normal(size=(70000, 1)).astype(np.float32)
    made = make_cuts(Context(n_threads=2), DenseData(values), None, 65535)
    assert_cuts(made, values, np.ones(70000, np.int64), 65535)


@pytest.mark.parametrize("max_bin", [1, 0, -3, 65536])
def test_max_bin_bounds(max_bin):
    with pytest.raises(XGBoostError, match="max_bin"):
        make_cuts(Context(), DenseData(np.zeros((3, 1), np.float32)), None, max_bin)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing(shape):
    made = make_cuts(Context(), DenseData(np.zeros(shape, np.float32)), None, 256)
    assert made.n_features == shape[1]
    assert made.n_bins.tolist() == [1] * shape[1]


def test_weights_never_overflow_nor_vanish():
    weight = np.array([1e-38, 3e38, 0, 1], np.float32)
    integers = quantize_weight(Context(), 4, weight)
    assert integers.tolist()[2] == 0
    assert (integers[[0, 1, 3]] > 0).all()
    n_rows = 1 << 20
    integers = quantize_weight(Context(), n_rows, np.full(n_rows, 3e38, np.float32))
    assert sum(integers.tolist()) < 2**62
