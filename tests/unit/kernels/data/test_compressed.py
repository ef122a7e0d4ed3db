"""The check of index arrays against a reading entry by entry."""

import itertools

import numpy as np
import pytest

from arboost.kernels.cpu.data.compressed import BAD_INDEX, BAD_POINTER, UNORDERED, check_lines


def faults(ptr, indices, n_places):
    """What is wrong, in plain Python; indices are unsigned."""
    if ptr[0] < 0 or any(b < a or b > len(indices) for a, b in itertools.pairwise(ptr)):
        return BAD_POINTER
    lines = [indices[a:b] for a, b in itertools.pairwise(ptr)]
    unordered = any(b <= a for line in lines for a, b in itertools.pairwise(line))
    outside = any(i >= n_places for line in lines for i in line)
    return UNORDERED * unordered + BAD_INDEX * outside


@pytest.mark.parametrize(("dtype", "unsigned"), [(np.int32, np.uint32), (np.int64, np.uint64)])
def test_against_plain_python(dtype, unsigned):
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(3000):
        n_lines, n_places = int(rng.integers(0, 6)), int(rng.integers(1, 9))
        lengths = rng.integers(0, n_places + 1, n_lines)
        lines = [np.sort(rng.choice(n_places, length, replace=False)) for length in lengths]
        indices = np.concatenate([*lines, np.zeros(rng.integers(2), np.int64)]).astype(dtype)
        ptr = np.append(0, np.cumsum(lengths)).astype(np.int64)
        for array, values in ((indices, (-1, n_places, 0, np.iinfo(dtype).min)), (ptr, (-1, 99, 1, 2**62))):
            if len(array) and rng.random() < 0.4:
                array[rng.integers(len(array))] = rng.choice(values)
        seen_as = indices.view(unsigned)
        expected = faults(ptr.tolist(), seen_as.tolist(), n_places)
        assert check_lines(ptr, seen_as, n_places, 0, n_lines) == expected
        seen.add(expected)
    assert seen == {0, UNORDERED, BAD_POINTER, BAD_INDEX, UNORDERED + BAD_INDEX}
