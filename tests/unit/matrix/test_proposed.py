"""Pages binned anew by weights: the cuts and bins that cuts.py's definition gives for the same weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.matrix.adapt import adapt
from arboost.matrix.cuts import make_cuts
from arboost.matrix.page import make_binned
from arboost.matrix.proposed import CountedCuts, ProposedCuts, ProposedPage
from arboost.matrix.sorted import make_sorted
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from naive_approx import bins_of, most_bins
from naive_matrix import feature_cuts
from pages import THREADS
from thread_workers import run_workers


def make_proposed(X, max_bin, n_threads=1, **fields):
    ctx = Context(n_threads=n_threads)
    return ProposedPage(ctx, make_sorted(ctx, adapt(X, None)), max_bin, **fields)


def cuts_of(page, f):
    """A feature's cuts without the padding."""
    cuts = page.cuts.values[page.cuts.ptr[f] : page.cuts.ptr[f + 1]]
    return [*cuts[cuts < cuts[-1]].tolist(), cuts[-1]]


def check_page(page, X, weights, max_bin):
    rows = list(range(len(X)))
    cuts = [feature_cuts(X[:, f], weights, most_bins(X[:, f], max_bin))[1] for f in range(X.shape[1])]
    expected = bins_of(X, rows, cuts)
    bins = np.array([expected[r] for r in rows])
    np.testing.assert_array_equal(page.columns, np.where(bins < 0, page.missing_code, bins).T)
    words = page.words.view(page.bin_dtype)
    np.testing.assert_array_equal(words[:, : X.shape[1]], page.columns.T)
    assert not words[:, X.shape[1] :].any()
    for f, cut in enumerate(cuts):
        assert cuts_of(page, f)[:-1] == cut[:-1].tolist()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    max_bin=st.sampled_from([2, 3, 17, 64, 256, 300]),
    missing=st.sampled_from([0.0, 0.3]),
    kind=st.sampled_from(["small", "huge", "few"]),
)
def test_cuts_and_bins_are_those_of_the_weights(seed, n, max_bin, missing, kind):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    X[rng.random(X.shape) < missing] = np.nan
    proposed = make_proposed(X, max_bin)
    for _ in range(2):  # nothing of the first proposal is left in the second
        weights = rng.integers(0, 1 << 40 if kind == "huge" else 4, n) + (kind != "few")
        if not weights.any():
            continue
        weights = np.where(rng.random(n) < 0.3, 0, weights) if kind == "small" else weights
        proposed.propose(weights)
        fixed = [len(np.unique(column[~np.isnan(column)])) <= most_bins(column, max_bin) for column in X.T]
        # where all values fit, they are bins of their own even if nothing weighs on them
        keeps = [f for f in range(3) if not fixed[f]]
        page = proposed.page
        for f in keeps:
            cut = feature_cuts(X[:, f], weights, most_bins(X[:, f], max_bin))[1]
            assert cuts_of(page, f)[:-1] == cut[:-1].tolist()
    proposed.propose(np.ones(n, np.int64))
    check_page(proposed.page, X, [1] * n, max_bin)


@pytest.mark.parametrize("n_threads", THREADS)
def test_same_bins_as_hist_for_the_same_weights(n_threads):
    rng = np.random.default_rng(n_threads)
    X = rng.normal(size=(70_000, 5)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 2)
    X[rng.random(len(X)) < 0.2, 3] = np.nan
    weights = rng.integers(1, 1000, len(X))
    proposed = make_proposed(X, 256, n_threads)
    proposed.propose(weights)
    ctx, raw = Context(), adapt(X, None)
    page = make_binned(ctx, raw, make_cuts(ctx, raw, weights.astype(np.float32), 256))
    np.testing.assert_array_equal(proposed.page.columns, page.columns)
    np.testing.assert_array_equal(proposed.page.words, page.words)


def test_arrays_stay_where_they_are():
    X = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    proposed = make_proposed(X, 16)
    page, columns, values = proposed.page, proposed.page.columns, proposed.page.cuts.values
    proposed.propose(np.arange(500))
    assert proposed.page is page and page.columns is columns and page.cuts.values is values


def test_what_does_not_depend_on_weights():
    X = np.array([[0, 1.5], [2, 1.5], [2, np.nan], [np.nan, 3.5]], np.float32)
    proposed = make_proposed(X, 16, feature_types=["c", "q"])
    assert proposed.is_fixed
    page = proposed.page
    assert page.cuts.values[:3].tolist() == [1, 2, 3]
    assert page.columns.tolist() == [[0, 2, 2, 255], [0, 0, 255, 1]]


def test_codes_that_are_none():
    with pytest.raises(XGBoostError, match="Invalid categorical value in feature colour"):
        make_proposed(np.array([[-1.0], [2.0]]), 16, feature_types=["c"], feature_names=["colour"])


def test_empty_features():
    X = np.full((5, 3), np.nan, np.float32)
    X[:, 1] = np.arange(5)
    page = make_proposed(X, 4).page
    assert page.n_bins.tolist() == [1, 4, 1]
    assert (page.columns[[0, 2]] == page.missing_code).all()


@pytest.mark.parametrize("max_bin", [5, 64, 256])
@pytest.mark.parametrize("weigh", ["some", "none", "hardly any"])
def test_workers_count_the_cuts_of_sorted_columns(weigh, max_bin):
    """Values of no weight, codes, few and no values included; the smallest and the largest weigh nothing."""
    rng = np.random.default_rng(max_bin)
    n = 700
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 1], X[:, 2], X[:, 3] = np.round(X[:, 1]), rng.integers(0, 9, n), np.nan
    X[rng.random(n) < 0.2, 4] = np.nan
    types = ["q", "q", "c", "q", "q"]
    weights = rng.integers(0, 1 << 20, n) * (rng.random(n) < {"some": 0.7, "none": 0.0, "hardly any": 0.01}[weigh])
    weights[[X[:, 0].argmin(), X[:, 0].argmax()]] = 0
    alone = ProposedCuts(Context(), make_sorted(Context(), adapt(X, None)), max_bin, types)
    alone.propose(weights)
    ends = [0, 0, 150, n]

    def work(comm):
        rows = slice(ends[comm.rank], ends[comm.rank + 1])
        counted = CountedCuts(Context(), adapt(X[rows], None), max_bin, types)
        counted.propose(weights[rows])
        return counted.is_fixed, counted.cuts()

    for is_fixed, cuts in run_workers(3, work):
        assert is_fixed == alone.is_fixed
        assert cuts.digest == alone.cuts().digest
