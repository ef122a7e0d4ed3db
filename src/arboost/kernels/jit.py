"""How kernels are compiled, and what happens at their first call.

`kernel` marks a function that Python calls: compiled on first use, without the GIL, kept on disk (`cache.py`).
`scalar` marks a formula that only kernels call: compiled into its caller. Nothing is compiled, read or written on
import.
"""

import functools
import gc
import hashlib
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import numba
from numba.core import codegen, compiler, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing import templates
from numba.extending import overload

from arboost.kernels import linking
from arboost.kernels.cache import KernelFolder, cache_folder, kernel_folder, kernels_digest
from arboost.kernels.kinds import KINDS, kind_of

__all__ = [
    "cache_folder", "describe", "forms_of", "is_kernel", "kernel", "kernels_digest", "load_or_make", "part", "scalar",
    "section",
]  # fmt: skip

announce: Callable[[str], bool] | None = None
"""Told before kernels of a kind are compiled, until it has said so (returned True); `runtime/settings.py` sets it."""
_announced: set[str] = set()


def _announce(kind: str, trouble: str) -> None:
    if kind in _announced or announce is None:
        return
    how_long = f"for this process only ({trouble})" if trouble else "for this machine, once"
    if announce(f"arboost: compiling kernels {how_long}: {KINDS[kind]} ..."):
        _announced.add(kind)


def _load_or_compile(dispatcher: Any, compile: Callable, signature: Any) -> Any:
    """What Numba calls when a kernel meets new types. Its lock lets one thread of the process in here at a time."""
    arguments = tuple(sigutils.normalize_signature(signature)[0])

    def link(packed: bytes) -> bool:
        result = linking.link(packed, dispatcher, arguments)
        if result is not None:
            dispatcher.add_overload(result)
        return result is not None

    def make() -> bytes | None:
        _compile_uncollected(dispatcher, compile, signature)
        packed = linking.pack(dispatcher.overloads[arguments])
        return packed if dispatcher.py_func.__closure__ is None else None

    with global_compiler_lock:
        if arguments not in dispatcher.overloads:
            load_or_make(_file_name(dispatcher, arguments), kind_of(dispatcher.py_func.__module__), link, make)
        return dispatcher.overloads[arguments].entry_point


def load_or_make(name: str, kind: str, link: Callable[[bytes], bool], make: Callable[[], bytes | None]) -> None:
    """Link what is kept under a name; where nothing is, or what cannot be linked, make it and keep it."""
    folder = kernel_folder()
    if _is_linked(folder, name, link):
        return
    _announce(kind, folder.trouble)
    with folder.compiling(name):
        if not _is_linked(folder, name, link):
            packed = make()
            if packed is not None:
                folder.write(name, packed)


def _is_linked(folder: KernelFolder, name: str, link: Callable[[bytes], bool]) -> bool:
    """Take a kernel from disk, if it is there."""
    packed = folder.read(name)
    if packed is None:
        return False
    try:
        return link(packed)
    except Exception:  # whatever makes a whole file useless: compiling helps
        return False


def _compile_uncollected(dispatcher: Any, compile: Callable, signature: Any) -> None:
    """Compile with the garbage collector at rest: it would walk the compiler's live objects again and again."""
    type(dispatcher)._compilation_chain_init_hook(dispatcher)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        compile(signature)
    finally:
        if was_enabled:
            gc.enable()


def _file_name(dispatcher: Any, arguments: tuple) -> str:
    """A name that another function, another signature, another Python or another processor does not have."""
    function = dispatcher.py_func
    what = _machine(), function.__module__, function.__qualname__, describe((function.__code__, *arguments))
    short = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    return f"{short}-{hashlib.sha256(repr(what).encode()).hexdigest()[:32]}.kernel"


def describe(item: Any) -> str:
    """Types of Numba's and code as text: the same text where, and only where, they are equal."""
    if isinstance(item, numba.types.Type):
        return f"{type(item).__name__}<{describe(item.key)}>"
    if isinstance(item, tuple):
        return f"({', '.join(describe(each) for each in item)})"
    if isinstance(item, CodeType):
        return describe((item.co_code, item.co_names, item.co_consts))
    if isinstance(item, type):
        return f"{item.__module__}.{item.__qualname__}{getattr(item, '_fields', '')}"
    return repr(item)


@functools.cache
def _machine() -> tuple:
    """What machine code depends on besides its source: Python's binary interface, the processor, Numba's settings."""
    target = numba.core.registry.cpu_target.target_context
    settings: Any = numba.config
    how = settings.BOUNDSCHECK, settings.OPT, settings.DEBUGINFO_DEFAULT
    return sys.implementation.cache_tag, getattr(sys, "abiflags", ""), target.codegen().magic_tuple(), how


_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}  # of what is compiled into a kernel
_MAKES_ARRAYS = frozenset({"empty", "zeros", "ones", "full", "arange", "copy", "astype", "sort", "argsort", "diff"})


def _njit(function: Callable, **options: Any) -> Any:
    """Numba's compiler, which counts references to arrays only in functions that make some.

    Every array that is passed on or cut costs two atomic additions to a counter that all threads share, and ten of
    them are as long as scoring thirty bins.
    """
    makes_arrays = not _MAKES_ARRAYS.isdisjoint(function.__code__.co_names)
    options |= _OPTIONS | {"_nrt": makes_arrays}
    return numba.njit(**options)(function)


def kernel(function: Callable) -> Any:
    """A function Python calls over a range of work: compiled lazily, nogil, cached on disk."""
    dispatcher = _njit(function, no_cfunc_wrapper=True)
    dispatcher.compile = functools.partial(_load_or_compile, dispatcher, dispatcher.compile)
    dispatcher._compilation_chain_init_hook = _begin_later
    # Compiled code that calls a kernel gets it as a part: what is linked from disk is machine code alone.
    dispatcher.get_call_template = lambda arguments, names: _part_of(function).get_call_template(arguments, names)
    dispatcher.get_overload = lambda signature: _part_of(function).get_overload(signature)
    return dispatcher


def is_kernel(value: Any) -> bool:
    """Whether something was made by `kernel`."""
    compile = getattr(value, "compile", None)
    return isinstance(compile, functools.partial) and compile.func is _load_or_compile


def _begin_later() -> None:
    """Numba looks for its extensions before each first call: 20 ms that only a compilation needs."""


@functools.cache
def _part_of(function: Callable) -> Any:
    return part(function)


def scalar(function: Callable) -> Any:
    """A formula for use inside kernels."""
    return part(function)


class _PartLibrary(codegen.JITCodeLibrary):
    """LLVM's intermediate code and no more: kernels take their parts from there, and optimise the whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(compiler.Compiler):
    """Compiles a function for use inside kernels alone."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.flags.no_compile = True
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


def part(function: Callable, **options: Any) -> Any:
    """A piece of a kernel, with a name of its own but no entry for Python: half as much to compile."""
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}
    dispatcher = _njit(function, **options)
    dispatcher.add_overload = functools.partial(_add_part, dispatcher)
    return dispatcher


def _add_part(dispatcher: Any, result: Any) -> None:
    """Make a compiled part known to its callers under a name, where functions with machine code have an address."""
    name = object()
    dispatcher.targetctx.insert_user_function(name, result.fndesc, [result.library])
    dispatcher.overloads[tuple(result.signature.args)] = result._replace(entry_point=name)


def forms_of(function: Callable, optimised: bool = False) -> Callable[[Callable], Callable]:
    """Marks what chooses the form of `function` by its arguments' types (None: not this one's); each form is a part.

    Numba's own `overload` optimises every form, with all that it calls, on its own, and again in its caller. That is
    long for what calls much, and worth it for an inner loop (`optimised`): LLVM does more for a small function.
    """
    if optimised:
        return overload(function, jit_options=_OPTIONS)

    def register(choose: Callable) -> Callable:
        template: Any = templates.make_overload_template(function, choose, {}, strict=True, inline="never")
        template._get_jit_decorator = lambda _: lambda: part
        templates.infer(template)
        templates.infer_global(function, numba.types.Function(template))
        return choose

    return register


def section(function: Callable) -> Any:
    """A stretch of one kernel under a name of its own: put into it before anything is compiled."""
    return _njit(function, inline="always")
