"""Whether the index arrays of a sparse matrix lie inside of it: the first look at data that nobody has checked.

A line is a row of a CSR matrix or a column of a CSC matrix: line i has the entries ptr[i] .. ptr[i + 1].
"""

from numba import int64, uint64

from arboost.kernels.jit import kernel

UNORDERED = 1  # indices of a line do not ascend: unsorted, or the same twice
BAD_POINTER = 2  # offsets do not ascend from 0 to the number of entries at most
BAD_INDEX = 4  # an index is outside of 0 .. n_places - 1


@kernel
def check_lines(ptr, indices, n_places, start, stop):
    """Faults of the lines start..stop, added up; `indices` are seen as unsigned, so that negative ones are huge.

    No entry is read before its line's offsets are known to be right.
    """
    n_entries, begin, end = int64(indices.size), ptr[start], ptr[stop]
    if begin < 0:
        return BAD_POINTER
    descents = int64(0)
    for i in range(start, stop):
        first, last = ptr[i], ptr[i + 1]
        if last < first or last > n_entries:
            return BAD_POINTER
        if begin < first < last:  # from one line to the next indices may descend
            descents -= int64(indices[uint64(first)] <= indices[uint64(first) - uint64(1)])
    if begin == end:
        return 0
    largest = indices[uint64(begin)]
    for j in range(uint64(begin) + uint64(1), uint64(end)):
        largest = max(largest, indices[j])
        descents += int64(indices[j] <= indices[j - uint64(1)])
    return UNORDERED * int64(descents > 0) + BAD_INDEX * int64(uint64(largest) >= uint64(n_places))
