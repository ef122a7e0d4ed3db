"""Sort keys, ranks, and the two ways of picking quantiles, against plain sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arboost.kernels.cpu.data import counting
from arboost.kernels.jit import kernel

floats = st.floats(width=32, allow_nan=False)


@kernel
def make_keys(bits, keys, start, stop):
    """keys[i] (OUT) = key_of_bits(bits[i])."""
    for i in range(start, stop):
        keys[i] = counting.key_of_bits(bits[i])


@kernel
def make_ranks(total, n_bins, ranks, start, stop):
    """ranks[k] (OUT) = wanted_rank(k)."""
    for k in range(start, stop):
        ranks[k] = counting.wanted_rank(k, total, n_bins)


@kernel
def sort(keys, weights, spare_keys, spare_weights, start, stop):
    """Sorts keys[:stop] into spare_keys."""
    counting.sort_pairs(keys, weights, stop, spare_keys, spare_weights)


def keys_of(values):
    values = np.asarray(values, np.float32)
    keys = np.zeros(len(values), np.uint32)
    make_keys(values.view(np.uint32), keys, 0, len(values))
    return keys


@given(floats, floats)
def test_keys_keep_the_order(a, b):
    key_a, key_b = keys_of([a, b])
    assert (key_a < key_b) == (a < b)
    assert (key_a == key_b) == (a == b)  # -0.0 == 0.0


def test_nan_of_either_sign_has_the_largest_key():
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert (keys_of(nans) == counting.KEY_MISSING).all()
    infinite = keys_of([-np.inf, np.inf])
    assert infinite[0] < keys_of([np.finfo(np.float32).min])[0]
    assert keys_of([np.finfo(np.float32).max])[0] < infinite[1] < counting.KEY_MISSING
    assert infinite[1] >> 16 < counting.MISSING_CELL


@given(st.integers(1, 2**62), st.integers(2, 65535))
def test_ranks_are_exact_for_any_total(total, n_bins):
    n = min(n_bins, 50)
    first, last = np.zeros(n, np.int64), np.zeros(n_bins + 1, np.int64)
    make_ranks(total, n_bins, first, 0, n)
    make_ranks(total, n_bins, last, n_bins - 1, n_bins + 1)
    assert first.tolist() == [k * total // n_bins for k in range(n)]
    assert last[-2:].tolist() == [(n_bins - 1) * total // n_bins, total - 1]


@given(hnp.arrays(np.uint32, st.integers(0, 300), elements=st.integers(0, 2**32 - 1)), st.booleans())
def test_sort_pairs(keys, weighted):
    weights = np.arange(len(keys)) if weighted else np.ones(1, np.int64)
    order = np.argsort(keys, kind="stable")
    expected, own = keys[order], keys.copy()
    spare_keys, spare_weights = np.zeros_like(keys), np.zeros_like(weights)
    sort(own, weights, spare_keys, spare_weights, 0, len(keys))
    assert (spare_keys == expected).all()
    if weighted and len(keys) > 1:
        assert (spare_weights == order).all()


@pytest.mark.parametrize("first_column", [0, 2])
def test_count_top_bits_adds_weights_and_collects_bits(first_column):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(500, 5)).astype(np.float32)
    values[::7, 3] = np.nan
    values[:, 4] = rng.integers(0, 9, 500)
    weights = rng.integers(0, 5, 500)
    n_features = 5 - first_column
    counts, low_bits = np.zeros((n_features, 65536), np.int64), np.zeros(n_features, np.uint32)
    counting.count_top_bits(values.view(np.uint32), first_column, weights, counts, low_bits, 0, n_features)
    for f in range(n_features):
        keys = keys_of(values[:, first_column + f])
        assert (counts[f] == np.bincount(keys >> 16, weights, minlength=65536)).all()
        assert low_bits[f] == np.bitwise_or.reduce(keys[keys != counting.KEY_MISSING])
    assert low_bits[-1] & 0xFFFF == 0
