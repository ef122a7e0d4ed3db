"""What the kernels of a growing tree call their arrays and counters; all lie on the device."""

from numba import int32, int64, uint32

from arboost.kernels.gpu.jit import cuda, gpu_part

ALL_LANES = 0xFFFFFFFF
WARP = 32

# `state` (N_STATE,) int64: counters that all blocks read after a barrier
NODES, BATCH, EVALS, BUILDS, FREE, CHUNK_BITS, TAKES = range(7)  # TAKES: buffers that opening the batch may need
N_STATE = 8

# rows of `lists` (N_LISTS, capacity) int32
BATCH_IDS, EVAL_IDS = 0, 1  # nodes that are opened, and children that are searched;
SMALLER = 2  # of each of these the buffer of its smaller sibling, which is subtracted from its own, or -1
BUILD_IDS = 3  # nodes whose rows are added up
FREE_IDS = 4  # a stack of free buffers
SPLIT_PTR, BUILD_PTR = 5, 6  # where the units of work of each node that is opened, or built, begin
N_LISTS = 7

NO_BUFFER = -1


@gpu_part
def scan(value, lane):
    """The sum of the values of this lane and all before it."""
    for k in range(5):
        below = cuda.shfl_up_sync(ALL_LANES, value, 1 << k)
        if lane >= (1 << k):
            value += below
    return value


@gpu_part
def last_of(value):
    """The last lane's value."""
    return cuda.shfl_sync(ALL_LANES, value, 31)


@gpu_part
def find_unit(lists, which, n, unit):
    """The node that unit number `unit` belongs to: the last of n whose units begin at it or before."""
    low, high = int32(0), int32(n)
    while high - low > 1:
        middle = (low + high) >> 1
        if lists[which, middle] <= unit:
            low = middle
        else:
            high = middle
    return low


@gpu_part
def place_of(feature, wide):
    """Where a feature's code lies in the words of a row: 32 * word + bit."""
    return feature * int32(16) if wide else feature * int32(8)


@gpu_part
def code_of(bins, row, place, wide):
    """A row's code at a place."""
    word = bins[row, place >> 5] >> uint32(place & 31)
    return int32(word & uint32(0xFFFF)) if wide else int32(word & uint32(0xFF))


@gpu_part
def goes_left(code, split_bin, default_left, missing):
    """Whether a row with this code goes left: routes.py's rule for columns whose codes are bins."""
    return code <= split_bin or (default_left != 0 and code == missing)


@gpu_part
def n_units(n_rows, bits):
    """How many units of at most 2**bits rows."""
    return int32((n_rows + (int64(1) << bits) - 1) >> bits)


@gpu_part
def bits_of_size(size):
    """The largest b with 2**b <= size; 0 for less than 2."""
    bits = int32(0)
    while (int64(2) << bits) <= size:
        bits += 1
    return bits


@gpu_part
def zero_buffers(hist, lists, n_free, n):
    """Set the n buffers on top of the stack to zero: those that are taken next."""
    for k in range(n):
        buffer = lists[FREE_IDS, n_free - 1 - k]
        for j in range(cuda.grid(1), hist.shape[1], cuda.gridsize(1)):
            hist[buffer, j] = 0
