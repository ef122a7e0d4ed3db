"""How device code is compiled: never fused, so that a formula has the bits it has on the CPU.

A product and a sum in one instruction round once instead of twice. NVVM makes such pairs unless told not to, and the
linker makes them anew where it optimises once more (`lto`): both are off. With `NUMBA_ENABLE_CUDASIM=1` kernels run in
Python (`simulator.py`), for machines without a device.
"""

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda asks NumPy for a name that NumPy 2.5 no longer has
    setattr(np, "row_stack", np.vstack)  # noqa: B010

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # numba-cuda's import has some to say about NumPy
    _cuda: Any = importlib.import_module("numba.cuda")

from arboost.kernels.gpu import keeping, simulator

MOST_REGISTERS = 128  # of a thread: a block of 512 finds no more, and a kernel that asks for more is not launched
_config: Any = numba.config
SIMULATED = bool(_config.ENABLE_CUDASIM)
cuda: Any = simulator.Module(_cuda) if SIMULATED else _cuda


def gpu_kernel(function: Callable, **options: Any) -> Any:
    """A function that Python launches on a device: compiled at its first launch."""
    if SIMULATED:
        return simulator.Kernel(function)
    options = {"max_registers": MOST_REGISTERS} | options
    # as an argument of the same call: `cuda.jit(lto=False)(function)` forgets `lto`
    dispatcher = _cuda.jit(function, lto=False, **options)
    compile = functools.partial(_compile_unfused, dispatcher.compile)
    dispatcher.compile = functools.partial(keeping.load_or_compile, dispatcher, compile)
    return dispatcher


def _compile_unfused(compile: Callable, signature: Any) -> Any:
    from numba.cuda.core.compiler_lock import global_compiler_lock
    from numba.cuda.cudadrv import nvvm

    with global_compiler_lock:
        compile_ir, n_calls = nvvm.compile_ir, 0

        def compile_unfused(*args: Any, **options: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            return compile_ir(*args, **options | {"fma": 0})

        nvvm.compile_ir = compile_unfused
        try:
            compiled = compile(signature)
        finally:
            nvvm.compile_ir = compile_ir
        if not n_calls:  # then numba-cuda has another way now, and bits would differ in silence
            raise RuntimeError("this version of numba-cuda cannot be told not to fuse products and sums")
        # what it compiles later, for devices of another kind than the one that is used now, is as this
        compiled._codelibrary._nvvm_options["fma"] = 0
        return compiled


def shaped(kernel: Any, n_blocks: int, n_threads: int, stream: Any = 0) -> Any:
    """A kernel for so many blocks; numba-cuda would warn of few, which are all that few rows need."""
    if SIMULATED:
        return kernel[n_blocks, n_threads, stream]
    config: Any = importlib.import_module("numba.cuda.core.config")
    before = config.CUDA_LOW_OCCUPANCY_WARNINGS
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    try:
        return kernel[n_blocks, n_threads, stream]
    finally:
        config.CUDA_LOW_OCCUPANCY_WARNINGS = before


def gpu_part(function: Callable) -> Any:
    """A piece of a kernel."""
    return simulator.Part(function) if SIMULATED else _cuda.jit(function, device=True, lto=False)


def formula(part: Any) -> Any:
    """A formula of `kernels/` for use in device code: the very same source."""
    return simulator.python_form(part) if SIMULATED else part
