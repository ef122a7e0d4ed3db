"""Margins of rows that no tree is grown on: what trees add to them, and the predictions that follow from them."""

from numba import float32, float64, int32

from arboost.kernels import loss_formulas
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel

_exp32 = formula(loss_formulas.exp32)
_sigmoid32 = formula(loss_formulas.sigmoid32)


def _add_weights(
    values, wide, cut_ptr, cut_values, min_values, table, weights, n_failed, target, margin
):  # fmt: skip
    """margin[r, target] += the weight of the leaf of row r, by its float32 values; the table is that of partition.py.

    A bin's threshold is what levels/finish.py writes down. Nothing where a tree has failed.
    """
    if n_failed[0] > 0:
        return
    for r in range(cuda.grid(1), values.shape[0], cuda.gridsize(1)):
        i = int32(0)
        while table[i, 0] >= 0:
            feature, split_bin = table[i, 1] >> (int32(4) if wide else int32(3)), table[i, 2]
            threshold = cut_values[cut_ptr[feature] + split_bin] if split_bin >= 0 else min_values[feature]
            x = values[r, feature]
            is_left = x < threshold or (x != x and table[i, 3] != 0)
            i = table[i, 0] if is_left else table[i, 0] + int32(1)
        margin[r, target] += weights[i]


def _transform_sigmoid(margin, out):
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        for k in range(out.shape[1]):
            out[i, k] = _sigmoid32(margin[i, k])


def _transform_exp(margin, out):
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        for k in range(out.shape[1]):
            out[i, k] = _exp32(margin[i, k])


def _transform_step(margin, out):
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        for k in range(out.shape[1]):
            out[i, k] = float32(1.0) if margin[i, k] > 0.0 else float32(0.0)


def _transform_softmax(margin, out):
    """kernels/cpu/round/gradient.py::transform_softmax, a row a thread."""
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        shift = margin[i, 0]
        for k in range(1, out.shape[1]):
            shift = margin[i, k] if margin[i, k] > shift else shift
        total = float64(0.0)
        for k in range(out.shape[1]):
            out[i, k] = _exp32(margin[i, k] - shift)
            total += float64(out[i, k])
        for k in range(out.shape[1]):
            out[i, k] = out[i, k] / float32(total)


add_weights = gpu_kernel(_add_weights)
LINKS = {
    "transform_sigmoid": gpu_kernel(_transform_sigmoid),
    "transform_exp": gpu_kernel(_transform_exp),
    "transform_step": gpu_kernel(_transform_step),
    "transform_softmax": gpu_kernel(_transform_softmax),
}
