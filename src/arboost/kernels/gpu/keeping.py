"""Device kernels on disk: a process that finds one there compiles nothing, and needs no compiler.

What is kept is machine code and how it is launched, beside the CPU's kernels and as safely (`kernels/cache.py`), under
a name that another source, compiler, kernel, kind of arguments or device does not have.
"""

import functools
import hashlib
import importlib
import pickle
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from arboost.kernels.jit import describe, load_or_make

_NUMBA_CUDA = ("types", "typing", "codegen", "dispatcher")
_MAKERS = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")  # of machine code


def load_or_compile(dispatcher: Any, compile: Callable, signature: Any) -> Any:
    """What numba-cuda calls when a kernel meets new types."""
    from numba.cuda.core import sigutils
    from numba.cuda.core.compiler_lock import global_compiler_lock

    arguments = tuple(sigutils.normalize_signature(signature)[0])
    with global_compiler_lock:
        if arguments in dispatcher.overloads:
            return dispatcher.overloads[arguments]
        capabilities = _capabilities()
        if len(capabilities) != 1:  # kept machine code is of one kind of device, a kernel of this process of all
            return compile(signature)
        cc = next(iter(capabilities))
        load_or_make(
            _file_name(dispatcher, arguments, cc),
            "device",
            lambda packed: _link(packed, dispatcher, arguments),
            lambda: _pack(compile(signature)),
        )
        return dispatcher.overloads[arguments]


def _pack(kernel: Any) -> bytes | None:
    """A compiled kernel as bytes; None where its code depends on how it is launched."""
    if kernel.launch_config_sensitive:
        return None
    code = kernel._codelibrary.get_cubin().code  # of the device that is used, which is there by now
    return pickle.dumps((code, kernel.entry_name, kernel.cooperative, kernel.shared_memory_carveout))


def _link(packed: bytes, dispatcher: Any, arguments: tuple) -> bool:
    """Make what `_pack` made of a kernel known as what numba-cuda makes of compiling it for these types."""
    from cuda.core import ObjectCode

    # numba-cuda takes the place of Numba's own package of that name, which has other types
    types, typing, codegen, own = (importlib.import_module(f"numba.cuda.{name}") for name in _NUMBA_CUDA)
    code, name, is_cooperative, carveout = pickle.loads(packed)
    library = codegen.CUDACodeLibrary(None, name, entry_name=name)
    # numba-cuda's own name for the kind of device: its capability, and a letter that newer ones have
    library._cubin_cache[library._ensure_cc(None)] = ObjectCode.from_cubin(code)
    library._finalized, library.use_cooperative = True, is_cooperative
    kernel = own._Kernel._rebuild(
        cooperative=is_cooperative, name=name, signature=typing.signature(types.none, *arguments), codelibrary=library,
        debug=False, lineinfo=False, call_helper=None, extensions=[], shared_memory_carveout=carveout,
        launch_config_sensitive=False,
    )  # fmt: skip
    kernel.bind()
    dispatcher.add_overload(kernel, arguments)
    return True


def _capabilities() -> set[tuple]:
    """What kinds of devices there are."""
    from numba import cuda

    return {tuple(device.compute_capability) for device in cuda.gpus}


def _file_name(dispatcher: Any, arguments: tuple, cc: tuple) -> str:
    function = dispatcher.py_func
    options = sorted((name, repr(value)) for name, value in dispatcher.targetoptions.items())
    what = (_sources(), cc, function.__module__, function.__qualname__, options,
            describe((_told(function), *arguments)))  # fmt: skip
    short = f"gpu.{function.__module__.rpartition('.')[2]}.{function.__name__}"
    return f"{short}-{hashlib.sha256(repr(what).encode()).hexdigest()[:32]}.kernel"


def _told(value: Any) -> Any:
    """What describes a value that a kernel was made with: of a part its code, and what that was made with."""
    function = getattr(value, "py_func", value)
    if not hasattr(function, "__code__"):
        return value
    return function.__code__, *(_told(cell.cell_contents) for cell in function.__closure__ or ())


@functools.cache
def _sources() -> str:
    """Digest of every source file of device kernels and of the compilers; the folder's name has the rest."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for package in _MAKERS:
        try:
            digest.update(metadata.version(package).encode())
        except metadata.PackageNotFoundError:  # a CUDA toolkit has its own
            digest.update(b"-")
    return digest.hexdigest()
