"""Checksums see every change; rows and values picked from pages are those of the page."""

import itertools

import numpy as np
import pytest

from arboost.kernels.cpu.data import paging

RNG = np.random.default_rng(4)


def checksum(words):
    sums = np.zeros(1, np.uint64)
    paging.checksums(words, np.array([0, len(words)]), sums, 0, 1)
    return int(sums[0])


@pytest.mark.parametrize("size", [1, 7, 8, 65, 130])
def test_every_flipped_bit_shows(size):
    words = RNG.integers(0, 2**64, size, np.uint64)
    whole = checksum(words)
    assert checksum(words.copy()) == whole
    for i in range(size):
        for bit in range(64):
            changed = words.copy()
            changed[i] ^= np.uint64(1 << bit)
            assert checksum(changed) != whole, (i, bit)


@pytest.mark.parametrize("kind", ["random", "zeros"])
def test_other_faults_show(kind):
    words = RNG.integers(0, 2**64, 80, np.uint64) if kind == "random" else np.zeros(80, np.uint64)
    words[:2] = 1, 3
    twice = words.copy()
    twice[[7, 15]] ^= np.uint64(1 << 63)  # their sum stays the same
    faults = {
        "ones": np.ones_like(words),
        "moved": np.roll(words, 8),
        "two words swapped": words[[1, 0, *range(2, 80)]],
        "two highest bits": twice,
    }
    found = {name: checksum(changed) for name, changed in faults.items()}
    assert len({checksum(words), *found.values()}) == 1 + len(faults), found


def test_pieces_have_their_own():
    words = RNG.integers(0, 2**64, 300, np.uint64)
    ends = np.array([0, 10, 10, 170, 300])
    sums = np.zeros(4, np.uint64)
    paging.checksums(words, ends, sums, 0, 4)
    assert sums.tolist() == [checksum(words[a:b]) for a, b in itertools.pairwise(ends)]


def test_rows_are_gathered():
    words = RNG.integers(0, 2**63, (50, 3)).astype(np.uint64)
    rows = np.array([100, 103, 149], np.int32)
    picked = np.zeros((3, 3), np.uint64)
    paging.gather_rows(words, rows, 100, picked, 0, 3)
    np.testing.assert_array_equal(picked, words[rows - 100])


@pytest.mark.parametrize("n_rows", [0, 1, 255, 600])
def test_rows_become_columns(n_rows):
    rows = RNG.integers(0, 256, (n_rows, 8)).astype(np.uint8)
    columns = np.zeros((5, n_rows), np.uint8)
    paging.copy_to_columns(rows, columns, 0, n_rows)
    np.testing.assert_array_equal(columns, rows[:, :5].T)


def test_bins_become_values():
    rows = np.array([[0, 2, 9], [255, 1, 9]], np.uint8)
    lows = np.array([[0.5, np.nan, 0], [1, 2, 3]], np.float32)
    values = np.zeros((2, 2), np.float32)
    paging.values_of_bins(rows, lows, np.array([1, 2]), values, 0, 2)
    np.testing.assert_array_equal(values, np.array([[0.5, 3], [np.nan, 2]], np.float32))
