"""Margins to gradients, gradients to integers: one thread a row. Formulas are those of `kernels/loss_formulas.py`."""

from functools import cache
from typing import Any

from numba import float32, float64

from arboost.kernels import loss_formulas, survival_formulas
from arboost.kernels.cpu.round import gradient
from arboost.kernels.gpu import quantize
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel

_LEAST_UNSHIFTED = -80.0  # as kernels/cpu/round/gradient.py
_exp32 = formula(loss_formulas.exp32)
_softmax = formula(loss_formulas.softmax)
_aft = formula(survival_formulas.aft_gradient)


def has_formula(kernel: Any) -> bool:
    """Whether the CPU's gradient kernel is one around a formula of `loss_formulas`, of the same name."""
    function = getattr(kernel, "py_func", kernel)
    return function.__module__ == gradient.__name__ and hasattr(loss_formulas, function.__name__)


@cache
def gradient_kernel(name: str, n_args: int) -> Any:
    """The kernel (margin, target, label, weight, *args, g, h) of an element-wise loss; label (n, 1 or targets)."""
    of_row = formula(getattr(loss_formulas, name))

    if n_args == 0:

        def plain(margin, target, label, weight, g, h):
            for i in range(cuda.grid(1), margin.shape[0], cuda.gridsize(1)):
                gi, hi = of_row(margin[i, target], label[i])
                g[target, i] = gi * weight[i] if weight.shape[0] > 0 else gi
                h[target, i] = hi * weight[i] if weight.shape[0] > 0 else hi

        return gpu_kernel(plain)

    def with_argument(margin, target, label, weight, argument, g, h):
        for i in range(cuda.grid(1), margin.shape[0], cuda.gridsize(1)):
            gi, hi = of_row(margin[i, target], label[i], argument)
            g[target, i] = gi * weight[i] if weight.shape[0] > 0 else gi
            h[target, i] = hi * weight[i] if weight.shape[0] > 0 else hi

    return gpu_kernel(with_argument)


def _softmax_gradient(margin, label, weight, g, h):
    """Cross entropy of softmax(margin) for class `label`, all targets."""
    n_classes = margin.shape[1]
    for i in range(cuda.grid(1), margin.shape[0], cuda.gridsize(1)):
        shift = margin[i, 0]
        for k in range(1, n_classes):
            shift = margin[i, k] if margin[i, k] > shift else shift
        shift = float32(0.0) if float32(_LEAST_UNSHIFTED) < shift and shift < float32(0.0) else shift
        total = float64(0.0)
        for k in range(n_classes):
            total += float64(_exp32(margin[i, k] - shift))
        for k in range(n_classes):
            p = _exp32(margin[i, k] - shift) / float32(total)
            gi, hi = _softmax(p, label[i] == float32(k))
            g[k, i] = gi * weight[i] if weight.shape[0] > 0 else gi
            h[k, i] = hi * weight[i] if weight.shape[0] > 0 else hi


def _aft_gradient(margin, lower, upper, weight, kind, sigma, g, h):
    """Accelerated failure time, one target: kernels/survival_formulas.py."""
    for i in range(cuda.grid(1), margin.shape[0], cuda.gridsize(1)):
        gi, hi = _aft(margin[i, 0], lower[i], upper[i], kind, sigma)
        g[0, i] = gi * weight[i] if weight.shape[0] > 0 else gi
        h[0, i] = hi * weight[i] if weight.shape[0] > 0 else hi


def _sum_rows(values, rows, n, shift, sums):
    """sums (2,) int64, zeros at first: of n of the rows in rows[0]."""
    quantize.sum_rows(values, rows, n, shift, sums, 0)


softmax_gradient = gpu_kernel(_softmax_gradient)
aft_gradient = gpu_kernel(_aft_gradient)
sum_rows = gpu_kernel(_sum_rows)
