"""Rows of a tree: a Bernoulli draw by the hash of the row's number."""

import numpy as np
import pytest

import naive
import pages
from arboost.boosters.sampling import sample_rows
from arboost.runtime import rng
from arboost.runtime.context import Context


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
