"""From float32 values to bins on a device, other values to float32, zeros: kernels/cpu/data/binning.py's rule.

A value's bin is the number of its feature's inner cuts that are <= the value, found among the cuts' sort keys.
"""

from numba import float32, int32, int64, uint32

from arboost.kernels.cpu.data import counting
from arboost.kernels.cpu.data.counting import KEY_MISSING
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel

NAN = float("nan")
key_of_bits = formula(counting.key_of_bits)


def _bin_values(bits, cut_keys, n_steps, missing_code, code_bits, words):
    """words[r, w] (uint32) = the codes of row r's features w * 32 / code_bits on, 0 where there are none.

    cut_keys[f]: 2**n_steps - 1 keys at least, KEY_MISSING after the last.
    """
    n_features, n_words, n_codes = int64(bits.shape[1]), int64(words.shape[1]), int32(32) // int32(code_bits)
    for j in range(cuda.grid(1), bits.shape[0] * n_words, cuda.gridsize(1)):
        r = j // n_words
        w = j - r * n_words
        word = uint32(0)
        for q in range(n_codes):
            f = w * n_codes + q
            if f < n_features:
                key = key_of_bits(bits[r, f])
                found, half = int32(0), int32(1) << int32(n_steps - 1)
                while half > 0:
                    if cut_keys[f, found + half - 1] <= key:
                        found += half
                    half >>= 1
                code = uint32(missing_code) if key == uint32(KEY_MISSING) else uint32(found)
                word |= code << uint32(q * code_bits)
        words[r, w] = word


def _read_values(source, missing, has_missing, values):
    """values (float32) = source, NaN where it is `missing`."""
    width = int64(values.shape[1])
    for j in range(cuda.grid(1), values.shape[0] * width, cuda.gridsize(1)):
        r = j // width
        f = j - r * width
        x = float32(source[r, f])
        values[r, f] = float32(NAN) if has_missing and x == missing else x


def _clear(values):
    """values = 0."""
    for j in range(cuda.grid(1), values.shape[0], cuda.gridsize(1)):
        values[j] = 0


clear = gpu_kernel(_clear)
bin_values = gpu_kernel(_bin_values)
read_values = gpu_kernel(_read_values)
