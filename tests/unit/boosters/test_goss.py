"""GOSS: rows with large gradients, a re-weighted part of the others, the same for any threads and right on average."""

import numpy as np
import pytest

import arboost
import pages
from arboost.boosters.sampling import sample_goss
from arboost.core import XGBoostError
from arboost.runtime import rng
from arboost.runtime.comm import Run
from arboost.runtime.context import Context
from thread_workers import run_workers


def gradients(n_rows=3000, n_targets=1, seed=0):
    gen = np.random.default_rng(seed)
    g = (gen.standard_cauchy(size=(n_targets, n_rows)) * 0.1).astype(np.float32)
    return g, gen.uniform(0.1, 1, g.shape).astype(np.float32)


def naive_goss(g, h, top_rate, other_rate, key):
    """(rows, factor) by sorting."""
    n = g.shape[1]
    size = np.abs(g.astype(np.float64) * h.astype(np.float64)).sum(axis=0).astype(np.float32)
    wanted = int(top_rate * n)
    limit = np.sort(size)[::-1][wanted] if wanted < n else -np.inf  # the first that is not wanted
    is_large = size > limit
    chance = min(1.0, max(other_rate * n, 1.0) / max(1, n - is_large.sum()))
    draws = rng.uniform(rng.make_key(key, rng.ROWS), np.arange(n))
    factor = np.where(is_large, 1, np.where(draws < chance, np.float32(1 / chance), 0)).astype(np.float32)
    return np.flatnonzero(factor), factor


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("rates", [(0.2, 0.1), (0.0, 0.3), (0.5, 0.5), (0.9, 0.02), (0.0005, 0.0001)])
def test_the_naive_one(rates, n_targets):
    g, h = gradients(n_targets=n_targets)
    rows, factor = sample_goss(Context(), g, h, rates, 5)
    expected_rows, expected_factor = naive_goss(g, h, *rates, 5)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(factor, expected_factor)


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_the_same_for_any_threads(n_threads):
    g, h = gradients()
    expected = sample_goss(Context(), g, h, (0.2, 0.1), 5)
    with pages.cut_anywhere(n_threads):
        found = sample_goss(Context(n_threads=n_threads), g, h, (0.2, 0.1), 5)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_right_on_average():
    """Sums over the sample are unbiased, and vary less than those of a uniform sample of as many rows."""
    g, h = gradients(2000, seed=3)
    factors = np.array([sample_goss(Context(), g, h, (0.1, 0.1), key)[1] for key in range(400)], np.float64)
    for values in (g[0].astype(np.float64), h[0].astype(np.float64), (g[0] > 0).astype(np.float64)):
        sums = factors @ values
        assert abs(sums.mean() - values.sum()) < 4 * sums.std() / 20 + 1e-6
    uniform = [5 * g[0, np.random.default_rng(key).random(2000) < 0.2].sum(dtype=np.float64) for key in range(400)]
    assert (factors @ g[0].astype(np.float64)).std() < 0.5 * np.std(uniform)
    assert abs((factors > 0).sum(axis=1).mean() - 400) < 10


def test_equal_sizes_are_drawn_not_all_taken():
    """At the start of a logistic loss all gradients are alike: none is among the largest."""
    ones = np.ones((1, 5000), np.float32)
    rows, factor = sample_goss(Context(), ones, ones, (0.2, 0.1), 1)
    assert 400 < len(rows) < 600
    np.testing.assert_allclose(factor[rows], 10, rtol=1e-6)
    half = np.where(np.arange(5000) < 2500, 2, 1).astype(np.float32)[None]
    rows, factor = sample_goss(Context(), half, ones, (0.5, 0.1), 1)
    assert set(rows[factor[rows] == 1]) == set(range(2500))


def test_all_rows():
    g, h = gradients(100)
    rows, factor = sample_goss(Context(), g, h, (1.0, 0.0), 1)
    assert len(rows) == 100
    assert (factor == 1).all()


def test_only_sampled_rows_are_summed():
    """The root's cover counts large rows once and the others ten times: about all of them."""
    gen = np.random.default_rng(0)
    X = gen.normal(size=(4000, 3)).astype(np.float32)
    data = arboost.DMatrix(X, X[:, 0])
    tree = arboost.train(
        {"sampling_method": "goss", "top_rate": 0.2, "other_rate": 0.08}, data, 1
    )._learner.model.trees[0]
    assert tree.cover[0] == pytest.approx(4000, rel=0.2)
    assert tree.cover[0] != 4000
    assert (tree.cover[0] - 800) % 10 == pytest.approx(0, abs=1e-3)


def test_classes_share_a_sample():
    """|g h| is summed over classes, so their trees see the same rows: the covers of roots tell."""
    gen = np.random.default_rng(0)
    X = gen.normal(size=(2000, 3)).astype(np.float32)
    data = arboost.DMatrix(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    params = {"objective": "multi:softprob", "num_class": 3, "sampling_method": "goss", "base_score": 0.5}
    trees = arboost.train(params, data, 1)._learner.model.trees
    assert len({float(tree.cover[0]) for tree in trees}) == 1


def test_goss_learns_and_draws_anew():
    gen = np.random.default_rng(1)
    X = gen.normal(size=(6000, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
    train, test = arboost.DMatrix(X[:3000], y[:3000]), arboost.DMatrix(X[3000:], y[3000:])
    scores = {}
    for name, params in {"all": {}, "goss": {"sampling_method": "goss"}, "tenth": {"subsample": 0.1}}.items():
        booster = arboost.train({"eta": 0.1, "max_depth": 5, **params}, train, 80)
        scores[name] = float(booster.eval(test).split(":")[1])
    assert scores["goss"] < scores["tenth"]
    assert scores["goss"] < 1.5 * scores["all"]
    forest = arboost.train({"sampling_method": "goss", "num_parallel_tree": 2}, train, 1).get_dump()
    assert forest[0] != forest[1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"subsample": 0.5}, "subsample"),
        ({"top_rate": 0.7, "other_rate": 0.5}, "top_rate"),
        ({"other_rate": 0}, "other_rate"),
        ({"top_rate": 1.5}, "top_rate"),
    ],
)
def test_refused(params, message):
    data = arboost.DMatrix(np.arange(20.0).reshape(-1, 1), np.arange(20.0))
    with pytest.raises(XGBoostError, match=message):
        arboost.train({"sampling_method": "goss", **params}, data, 1)


def test_rates_without_goss_are_not_used(caplog, capsys):
    data = arboost.DMatrix(np.arange(20.0).reshape(-1, 1), np.arange(20.0))
    with arboost.config_context(strict_parameters=True), pytest.raises(XGBoostError, match=r'"top_rate".*goss'):
        arboost.train({"top_rate": 0.5}, data, 1)


def test_workers_draw_what_one_machine_draws():
    g, h = gradients(1000)
    expected, expected_factor = sample_goss(Context(), g, h, (0.2, 0.1), 5)

    def work(comm):
        first = 700 * comm.rank
        part = slice(first, 700 if comm.rank == 0 else 1000)
        n_rows = part.stop - part.start
        return sample_goss(Context(comm=comm), g[:, part], h[:, part], (0.2, 0.1), 5, [Run(0, n_rows, first)])

    found = run_workers(2, work)
    np.testing.assert_array_equal(np.concatenate([found[0][0], found[1][0] + 700]), expected)
    np.testing.assert_array_equal(np.concatenate([found[0][1], found[1][1]]), expected_factor)
