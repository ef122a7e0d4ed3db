"""Compile kernels for a Hopper GPU on a machine without one: `python device_compile.py launches.pickle`.

Prints one line for each kernel and signature: its name, and the float instructions of its machine code that CPUs do
not have (fused, approximate, flushing), which must be none.
"""

import collections
import functools
import importlib
import inspect
import pickle
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

HOPPER = (9, 0)
# a product or sum without a rounding mode is one that the assembler may fuse
INEXACT = re.compile(
    r"\b(fma[\w.]*|mad\.[\w.]*f(?:32|64)|\w+\.(?:approx|ftz|full)[\w.]*|(?:add|sub|mul|div|sqrt)\.f(?:32|64))\b"
)

Launch = tuple[str, str, tuple, tuple]  # module, name, arguments of the function that makes the kernel, types


def describe(kernel: Any, args: tuple) -> Launch:
    """A simulated launch in words that a process without the simulator understands."""
    function = kernel.py_func
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    made_with = tuple(cells[name].cell_contents.__name__ for name in ("of_row", "of_step") if name in cells)
    return function.__module__, function.__qualname__, made_with, tuple(_type(arg) for arg in args)


def _type(arg: Any) -> tuple:
    if isinstance(arg, tuple):
        return "tuple", tuple(_type(item) for item in arg)
    array = getattr(arg, "_ary", None)
    if array is None:
        return ("bool",) if isinstance(arg, bool) else (str(np.asarray(arg).dtype),)
    kind = tuple(array.dtype.descr) if array.dtype.names else array.dtype.str
    return kind, array.ndim, array.flags.c_contiguous


def main(path: str) -> None:
    from numba.cuda import codegen, dispatcher

    from arboost.kernels.gpu import keeping

    # what asks for a device: its capability, and loading what was compiled
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=HOPPER)
    codegen.CUDACodeLibrary._ensure_cc = lambda library, cc: HOPPER
    dispatcher._Kernel.bind = lambda kernel: None
    keeping._capabilities = set  # nothing is kept
    launches = pickle.loads(Path(path).read_bytes())
    assert any(_fuses(launch) for launch in launches), "Numba's own way fuses nothing: then this looks for other names"
    for launch in sorted(launches, key=repr):
        kernel = _kernel(launch)
        signature = tuple(_numba_type(kind) for kind in launch[3])
        compiled = kernel.compile(signature)
        code = compiled._codelibrary.get_asm_str(cc=HOPPER)
        found = collections.Counter(INEXACT.findall(code))
        assert ".entry" in code, "no kernel in the code"
        print(".".join((launch[0].rpartition(".")[2], launch[1], *launch[2])), dict(found))


def _fuses(launch: Launch) -> bool:
    """Whether a kernel compiled in Numba's own way fuses products and sums."""
    from numba import cuda

    kernel = cuda.jit(_kernel(launch).py_func)
    code = kernel.compile(tuple(_numba_type(kind) for kind in launch[3]))._codelibrary.get_asm_str(cc=HOPPER)
    return bool(INEXACT.search(code))


def _kernel(launch: Launch) -> Any:
    module = importlib.import_module(launch[0])
    maker, _, local = launch[1].partition(".<locals>.")
    if local:
        made_with = (*launch[2], int(local == "with_argument"))
        make = getattr(module, maker)
        return make(*made_with[: len(inspect.signature(make).parameters)])
    return _dispatchers()[launch[:2]]


@functools.cache
def _dispatchers() -> dict:
    import arboost.kernels.gpu as gpu

    found = {}
    for path in Path(gpu.__file__).parent.glob("[!_]*.py"):
        module = importlib.import_module(f"{gpu.__name__}.{path.stem}")
        tables = [value for value in vars(module).values() if isinstance(value, dict)]
        for value in (*vars(module).values(), *(value for table in tables for value in table.values())):
            function = getattr(value, "py_func", None)
            if function is not None and not value.targetoptions.get("device"):
                found[function.__module__, function.__qualname__] = value
    return found


def _numba_type(kind: tuple) -> Any:
    from numba import types
    from numba.cuda.np import numpy_support

    if kind[0] == "tuple":
        return types.Tuple(tuple(_numba_type(item) for item in kind[1]))
    if len(kind) == 1:
        return types.boolean if kind[0] == "bool" else numpy_support.from_dtype(np.dtype(kind[0]))
    dtype = np.dtype(list(kind[0])) if isinstance(kind[0], tuple) else np.dtype(kind[0])
    if dtype.names:
        dtype = _aligned(dtype)
    return types.Array(numpy_support.from_dtype(dtype), kind[1], "C" if kind[2] else "A")


def _aligned(dtype: np.dtype) -> np.dtype:
    return np.dtype([(name, dtype[name]) for name in dtype.names or ()], align=True)


if __name__ == "__main__":
    main(sys.argv[1])
