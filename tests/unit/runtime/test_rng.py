"""Counter-based draws: even, repeatable, and independent of who asks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from arboost.runtime import rng

keys = st.integers(0, 2**64 - 1)


@given(st.lists(keys, min_size=1))
def test_the_hash_of_arrays(values):
    assert rng.mix(np.array(values, np.uint64)).tolist() == [naive.mix(v) for v in values]


@given(st.integers(-(2**63), 2**64), st.lists(st.integers(-5, 2**40), max_size=4))
def test_keys(seed, where):
    key = seed % 2**64
    for part in where:
        key = naive.mix(key ^ naive.mix(part % 2**64))
    assert rng.make_key(seed, *where) == key


def test_every_part_of_the_way_matters():
    ways = [(s, *w) for s in range(3) for w in [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]]
    assert len({rng.make_key(*way) for way in ways}) == len(ways)


def test_uniform():
    draws = rng.uniform(5, np.arange(20_000))
    assert 0 < draws.min() < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.01
    counts, _ = np.histogram(draws, 20, (0, 1))
    assert abs(counts - 1000).max() < 160
    np.testing.assert_array_equal(rng.uniform(5, np.array([7, 3])), draws[[7, 3]])
    assert abs(np.corrcoef(draws, rng.uniform(6, np.arange(20_000)))[0, 1]) < 0.05


@given(keys, st.integers(1, 40), st.data())
def test_choose(key, n_ids, data):
    ids = np.array(sorted(data.draw(st.sets(st.integers(0, 10**6), min_size=n_ids, max_size=n_ids))))
    n = data.draw(st.integers(1, n_ids))
    chosen = rng.choose(key, ids, n)
    assert len(chosen) == n
    assert (np.diff(chosen) > 0).all()
    assert np.isin(chosen, ids).all()
    more = rng.choose(key, ids, min(n + 1, n_ids))
    assert np.isin(chosen, more).all()  # the first draws stay drawn


def test_choose_by_weight():
    """Of two ids, one three times as heavy: it comes first three times out of four."""
    ids, weights = np.arange(2), np.array([1, 3], np.float32)
    heavy = sum(int(rng.choose(key, ids, 1, weights)[0]) for key in range(4000))
    assert abs(heavy / 4000 - 0.75) < 0.03


def test_ids_without_weight_come_last():
    ids, weights = np.arange(6), np.array([0, 1, 0, 2, 0, 1], np.float32)
    for key in range(50):
        assert rng.choose(key, ids, 3, weights).tolist() == [1, 3, 5]
        assert set(rng.choose(key, ids, 4, weights)) > {1, 3, 5}


@pytest.mark.parametrize("weights", [None, np.ones(10, np.float32)])
def test_every_id_has_its_turn(weights):
    counts = np.zeros(10)
    for key in range(2000):
        counts[rng.choose(key, np.arange(10), 3, weights)] += 1
    assert abs(counts - 600).max() < 110
