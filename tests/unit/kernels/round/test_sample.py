"""Row sampling by hash against Python's integers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from arboost.kernels.cpu.round.sample import sample_rows


def sample(key, threshold, first_row, n_rows, bounds):
    rows = np.full(n_rows, -1, np.int32)
    found = []
    for start, stop in itertools.pairwise(bounds):
        n = int(sample_rows(np.uint64(key), threshold, first_row, rows, start, stop))
        assert 0 <= n <= stop - start
        found += rows[start : start + n].tolist()
    return found


@given(
    st.integers(0, 2**64 - 1), st.integers(0, 2**32), st.integers(0, 2**40), st.integers(1, 200), st.integers(0, 200)
)
def test_the_same_rows_for_any_cut(key, threshold, first_row, n_rows, cut):
    expected = naive.sample_rows(key, threshold, first_row, n_rows)
    assert sample(key, threshold, first_row, n_rows, [0, min(cut, n_rows), n_rows]) == expected


def test_all_or_none():
    assert sample(7, 1 << 32, 0, 99, [0, 99]) == list(range(99))
    assert sample(7, 0, 0, 99, [0, 99]) == []


def test_a_page_knows_its_rows_by_their_global_number():
    whole = sample(3, 1 << 31, 0, 100, [0, 100])
    assert [r + 60 for r in sample(3, 1 << 31, 60, 40, [0, 40])] == [r for r in whole if r >= 60]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_is_kept(rate):
    n = 40_000
    found = len(sample(11, round(rate * 2**32), 0, n, [0, n]))
    assert abs(found - rate * n) < 5 * np.sqrt(n * rate * (1 - rate))
