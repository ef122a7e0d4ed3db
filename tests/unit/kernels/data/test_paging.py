"""Checksums see every change; rows and values picked from pages are those of the page."""

import itertools

import numpy as np
import pytest

from arboost.kernels.cpu.data import paging

RNG = np.random.default_rng(4)


def checksum(data):
    sums = np.zeros(1, np.uint64)
    paging.checksums(data, np.array([0, len(data)]), sums, 0, 1)
    return int(sums[0])


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 65, 200, 1000])
def test_every_flipped_bit_shows(size):
    data = RNG.integers(0, 256, size).astype(np.uint8)
    whole = checksum(data)
    assert checksum(data.copy()) == whole
    for i in range(size):
        for bit in (0, 7):
            changed = data.copy()
            changed[i] ^= 1 << bit
            assert checksum(changed) != whole, (i, bit)


def test_other_faults_show():
    data = RNG.integers(0, 256, 640).astype(np.uint8)
    faults = {
        "zeros": np.zeros_like(data),
        "shorter": data[:-1],
        "moved": np.roll(data, 64),
        "words swapped in a lane": np.concatenate([data[64:128], data[:64], data[128:]]),
        "lanes swapped": np.concatenate([data[8:16], data[:8], data[16:]]),
    }
    twice = data.copy()
    twice[[7, 71]] ^= 128  # the highest bits of two words of one lane
    faults["two highest bits"] = twice
    found = {name: checksum(changed) for name, changed in faults.items()}
    assert len({checksum(data), *found.values()}) == 1 + len(faults)
    assert checksum(np.zeros(64, np.uint8)) != checksum(np.zeros(128, np.uint8))


def test_pieces_have_their_own():
    data = RNG.integers(0, 256, 300).astype(np.uint8)
    ends = np.array([0, 10, 10, 170, 300])
    sums = np.zeros(4, np.uint64)
    paging.checksums(data, ends, sums, 0, 4)
    assert sums.tolist() == [checksum(data[a:b]) for a, b in itertools.pairwise(ends)]


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
