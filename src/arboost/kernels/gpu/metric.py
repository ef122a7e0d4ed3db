"""What rows add to metrics, on a device: kernels/metric_formulas.py's formulas, summed exactly (`sums.py`).

Entry i of the predictions has label i // per_label and weight i // per_weight; without weights they are empty.
"""

from functools import cache
from typing import Any

from numba import float64, int64

from arboost.kernels import metric_formulas
from arboost.kernels.cpu.round import expectile
from arboost.kernels.cpu.round import metric as of_cpu
from arboost.kernels.gpu import sums
from arboost.kernels.gpu.jit import cuda, formula, gpu_kernel
from arboost.kernels.gpu.sums import DIGITS

_class_log_loss = formula(metric_formulas.class_log_loss)


@cache
def row_kernel(name: str, n_args: int) -> Any:
    """The kernel (pred, label, per_label, weight, per_weight, [arguments], lowest, acc) of a formula of this name."""
    of_row = formula(getattr(metric_formulas, name))

    if n_args == 0:

        def plain(pred, label, per_label, weight, per_weight, lowest, acc):
            digits = cuda.local.array(DIGITS, int64)
            sums.clear(digits)
            for i in range(cuda.grid(1), pred.shape[0], cuda.gridsize(1)):
                value = of_row(float64(pred[i]), float64(label[i // per_label]))
                if weight.shape[0] > 0:
                    value *= float64(weight[i // per_weight])
                sums.add(value, lowest, digits, acc)
            sums.merge(digits, lowest, acc)

        return gpu_kernel(plain)

    def with_argument(pred, label, per_label, weight, per_weight, arguments, lowest, acc):
        digits = cuda.local.array(DIGITS, int64)
        sums.clear(digits)
        for i in range(cuda.grid(1), pred.shape[0], cuda.gridsize(1)):
            value = of_row(float64(pred[i]), float64(label[i // per_label]), arguments[i % arguments.shape[0]])
            if weight.shape[0] > 0:
                value *= float64(weight[i // per_weight])
            sums.add(value, lowest, digits, acc)
        sums.merge(digits, lowest, acc)

    return gpu_kernel(with_argument)


def _add_class_log_loss(pred, label, weight, lowest, acc):
    """-ln of the label's probability."""
    digits = cuda.local.array(DIGITS, int64)
    sums.clear(digits)
    for i in range(cuda.grid(1), pred.shape[0], cuda.gridsize(1)):
        value = _class_log_loss(float64(pred[i, int64(label[i])]))
        if weight.shape[0] > 0:
            value *= float64(weight[i])
        sums.add(value, lowest, digits, acc)
    sums.merge(digits, lowest, acc)


def _add_wrong_class(pred, label, weight, lowest, acc):
    """1 where the most probable class, the lowest of equals, is not the label; NaN is larger than all, as in NumPy."""
    digits = cuda.local.array(DIGITS, int64)
    sums.clear(digits)
    for i in range(cuda.grid(1), pred.shape[0], cuda.gridsize(1)):
        best = int64(0)
        for k in range(1, pred.shape[1]):
            p, most = pred[i, k], pred[i, best]
            if p > most or (p != p and most == most):
                best = int64(k)
        if float64(label[i]) != float64(best):
            sums.add(float64(weight[i]) if weight.shape[0] > 0 else float64(1.0), lowest, digits, acc)
    sums.merge(digits, lowest, acc)


CLASS_KERNELS = {
    "class_log_loss": gpu_kernel(_add_class_log_loss),
    "wrong_class": gpu_kernel(_add_wrong_class),
}


def has_kernel(values: Any) -> bool:
    """Whether there is one for what the CPU computes with this function."""
    function = getattr(values, "py_func", values)
    name = function.__name__
    is_known = hasattr(metric_formulas, name) or name in CLASS_KERNELS
    return is_known and function.__module__ in (of_cpu.__name__, expectile.__name__)
