"""Rows of a tree: Bernoulli draws by the hash of the row's number, uniform or by the size of gradients."""

import numpy as np
import pytest

import arboost
import naive
import pages
from arboost.boosters.sampling import sample_by_gradient, sample_rows
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


@pytest.mark.parametrize("n_threads", pages.THREADS)
@pytest.mark.parametrize("subsample", [0.1, 0.5, 0.999])
def test_the_same_rows_for_any_threads_and_chunks(n_threads, subsample):
    key = rng.make_key(7, rng.ROWS)
    expected = naive.sample_rows(key, round(subsample * 2**32), 0, 3000)
    with pages.cut_anywhere(n_threads):
        rows = sample_rows(Context(n_threads=n_threads), 3000, subsample, 7)
    assert rows.dtype == np.int32
    assert rows.tolist() == expected


def test_all_rows_are_not_written_down():
    assert sample_rows(Context(), 10, 1.0, 0) is None


def test_keys_draw_independently():
    a, b = (set(sample_rows(Context(), 10_000, 0.5, key).tolist()) for key in (1, 2))
    assert abs(len(a & b) - 2500) < 250


def test_a_smaller_share_is_part_of_a_larger():
    small, large = (set(sample_rows(Context(), 5000, s, 3).tolist()) for s in (0.3, 0.6))
    assert small < large


# ---- by gradient ----


def _gradients(n=3000, n_targets=1, seed=0):
    gen = np.random.default_rng(seed)
    g = (gen.normal(size=(n_targets, n)) * gen.pareto(1.5, (1, n))).astype(np.float32)
    return g, gen.uniform(0.1, 1, (n_targets, n)).astype(np.float32)


def _sizes(g, h, reg_lambda):
    square = g.astype(np.float64) ** 2 + reg_lambda * h.astype(np.float64) ** 2
    return np.sqrt(square.sum(axis=0)).astype(np.float32)


def naive_level(size, subsample):
    """The level by bisection: sum(min(1, size / level)) falls with it."""
    low, high = 1e-12, float(size.sum()) / (subsample * len(size)) + 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if np.minimum(1, size / middle).sum() < subsample * len(size) else (middle, high)
    return high


def naive_sample(g, h, subsample, reg_lambda, key):
    """(rows, g, h) with the naive level, draws by the same hash."""
    size = _sizes(g, h, reg_lambda)
    p = np.minimum(1, size.astype(np.float64) / naive_level(size.astype(np.float64), subsample))
    chosen = rng.uniform(rng.make_key(key, rng.ROWS), np.arange(g.shape[1])) < p
    return np.flatnonzero(chosen), np.where(chosen, g / p, 0), np.where(chosen, h / p, 0)


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("subsample", [0.02, 0.1, 0.3, 0.9])
def test_by_gradient_is_the_naive_one(subsample, n_targets):
    g, h = _gradients(n_targets=n_targets)
    rows, new_g, new_h = sample_by_gradient(Context(), g, h, subsample, 1.0, 5)
    expected = naive_sample(g, h, subsample, 1.0, 5)
    # the level is found to one part in a million, so a row whose draw is that near may differ
    assert len(set(rows.tolist()) ^ set(expected[0].tolist())) <= 1
    both = np.intersect1d(rows, expected[0])
    np.testing.assert_allclose(new_g[:, both], expected[1][:, both], rtol=1e-3)
    np.testing.assert_allclose(new_h[:, both], expected[2][:, both], rtol=1e-3)
    out = np.setdiff1d(np.arange(g.shape[1]), rows)
    assert not new_g[:, out].any()
    assert not new_h[:, out].any()


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_by_gradient_the_same_for_any_threads(n_threads):
    g, h = _gradients()
    expected = sample_by_gradient(Context(), g, h, 0.2, 1.0, 5)
    with pages.cut_anywhere(n_threads):
        found = sample_by_gradient(Context(n_threads=n_threads), g, h, 0.2, 1.0, 5)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("subsample", [0.1, 0.3])
def test_by_gradient_is_right_on_average(subsample):
    """Sums over the sample are unbiased, and vary less than those of a uniform sample of as many rows."""
    g, h = _gradients(2000, seed=3)
    draws = [sample_by_gradient(Context(), g, h, subsample, 1.0, key) for key in range(400)]
    sums = np.array([[d[1].astype(np.float64).sum(), d[2].astype(np.float64).sum()] for d in draws])
    truth = np.array([g.astype(np.float64).sum(), h.astype(np.float64).sum()])
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(axis=0) - truth) < 4 * error + 1e-9).all()
    assert abs(np.mean([len(d[0]) for d in draws]) - subsample * 2000) < 10
    uniform = [g[0, sample_rows(Context(), 2000, subsample, key)].sum() / subsample for key in range(400)]
    assert sums[:, 0].std() < 0.5 * np.std(uniform)


def test_by_gradient_without_gradients():
    zero, ones = np.zeros((1, 100), np.float32), np.ones((1, 100), np.float32)
    assert len(sample_by_gradient(Context(), zero, zero, 0.5, 1.0, 0)[0]) == 0
    assert len(sample_by_gradient(Context(), zero, ones, 0.5, 0.0, 0)[0]) == 0
    few = np.where(np.arange(100) < 7, 1, 0).astype(np.float32)[None]
    rows, g, _ = sample_by_gradient(Context(), few, zero, 0.5, 1.0, 0)
    assert rows.tolist() == list(range(7))  # fewer than wanted: all that matter, as they are
    np.testing.assert_array_equal(g, few)
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        sample_by_gradient(Context(), np.full_like(zero, np.nan), zero, 0.5, 1.0, 0)


def test_by_gradient_beats_uniform():
    """Few rows, most of them fitted well soon: the rest matter, and gradient-based samples have more of them."""
    gen = np.random.default_rng(1)
    X = gen.normal(size=(8000, 6)).astype(np.float32)
    y = ((X[:, 0] > 1.2) & (X[:, 1] * X[:, 2] > 0) ^ (gen.random(8000) < 0.01)).astype(np.float32)
    train, test = arboost.DMatrix(X[:4000], y[:4000]), arboost.DMatrix(X[4000:], y[4000:])
    losses = {}
    for method in ("uniform", "gradient_based"):
        params = {"objective": "binary:logistic", "subsample": 0.1, "sampling_method": method, "eta": 0.1}
        models = [arboost.train(params | {"seed": seed}, train, 60) for seed in range(3)]
        losses[method] = np.mean([float(model.eval(test).split(":")[1]) for model in models])
    assert losses["gradient_based"] < losses["uniform"]


def test_by_gradient_in_forests_and_with_all_rows():
    g = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    data = arboost.DMatrix(g, g[:, 0])
    forest = {"num_parallel_tree": 3, "subsample": 0.3, "sampling_method": "gradient_based"}
    first, second, third = arboost.train(forest, data, 1).get_dump()
    assert len({first, second, third}) == 3
    whole = {"sampling_method": "gradient_based", "subsample": 1.0}
    assert arboost.train(whole, data, 2).get_dump() == arboost.train({}, data, 2).get_dump()
