"""How kernels are compiled and where their machine code is kept.

`kernel` marks a function that Python calls: compiled on first use, without the GIL, kept on disk.
`scalar` marks a formula that only kernels call: compiled into its caller.

Numba stamps a cached function with its own file only; a kernel inlines formulas of other files, so the stamp
here is a digest of the whole `kernels/` folder. Nothing is compiled, read or written on import.
"""

import functools
import gc
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, codegen, compiler

_FOLDER = Path(__file__).parent


@functools.cache
def kernels_digest() -> str:
    """Digest of every kernel source file: the version of the machine code."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(_FOLDER.rglob("*.py")):
        digest.update(path.relative_to(_FOLDER).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> Path | None:
    """Where machine code is kept: ARBOOST_CACHE_DIR, or the user's cache; None where neither can be written."""
    chosen = os.environ.get("ARBOOST_CACHE_DIR")
    if chosen == "":
        return None
    if chosen:
        base = Path(chosen)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "arboost"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "arboost"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arboost"
    folder = base / kernels_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


class _Locator(caching._CacheLocator):
    """Tells Numba to keep a kernel in `cache_folder()`, stamped with the digest of all kernels."""

    def __init__(self, py_func: Callable, py_file: str):
        self._name = f"{py_func.__module__}.{py_func.__qualname__}"
        self._folder = cache_folder()

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return kernels_digest()

    def get_disambiguator(self) -> str:
        return hashlib.sha256(self._name.encode()).hexdigest()[:10]

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "_Locator | None":
        locator = cls(py_func, py_file)
        return locator if locator._folder is not None else None


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _KernelCache(caching.FunctionCache):
    """Numba's on-disk cache with our location and stamp, opened on first use, and a word when it misses."""

    _impl_class = _Impl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            _announce()
        return found


class _LazyCache:
    """Stands in for the cache until the first call, so that importing touches no file."""

    def __init__(self, dispatcher: Any):
        self._dispatcher = dispatcher

    def _open(self) -> Any:
        dispatcher = self._dispatcher
        cache = _KernelCache(dispatcher.py_func) if cache_folder() is not None else caching.NullCache()
        dispatcher._cache = cache
        return cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open(), name)


announce: Callable[[str], bool] | None = None
"""Told before a compilation until it has said so (returned True); `runtime/settings.py` sets it."""
_announced = False


def _announce() -> None:
    global _announced
    if not _announced and announce is not None:
        _announced = announce("arboost: compiling kernels for this machine, once ...")


def _compile_uncollected(compile: Callable, signature: Any) -> Any:
    """Compile with the garbage collector at rest: it would walk the compiler's live objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return compile(signature)
    finally:
        if was_enabled:
            gc.enable()


OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}  # of what is compiled into a kernel
_MAKES_ARRAYS = frozenset({"empty", "zeros", "ones", "full", "arange", "copy", "astype", "sort", "argsort", "diff"})


def _njit(function: Callable, **options: Any) -> Any:
    """Numba's compiler, which counts references to arrays only in functions that make some.

    Every array that is passed on or cut costs two atomic additions to a counter that all threads share, and ten of
    them are as long as scoring thirty bins.
    """
    makes_arrays = not _MAKES_ARRAYS.isdisjoint(function.__code__.co_names)
    options |= OPTIONS | {"_nrt": makes_arrays}
    return numba.njit(**options)(function)


def kernel(function: Callable) -> Any:
    """A function Python calls over a range of work: compiled lazily, nogil, cached on disk."""
    dispatcher = _njit(function, no_cfunc_wrapper=True)
    dispatcher._cache = _LazyCache(dispatcher)
    dispatcher.compile = functools.partial(_compile_uncollected, dispatcher.compile)
    return dispatcher


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


def section(function: Callable) -> Any:
    """A stretch of one kernel under a name of its own: put into it before anything is compiled."""
    return _njit(function, inline="always")
