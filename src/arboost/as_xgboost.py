"""This package under the name `xgboost`, for tools that look for XGBoost: `install_as_xgboost()`, or

    python -m arboost.as_xgboost script.py [arguments]      (also -m module, -c code)

`xgboost` and its modules become mirrors: they have the names of our modules, and a tool that patches `xgboost.train`
patches `arboost.train` too. What XGBoost alone has, its version and private names, is theirs. Our
classes say `xgboost.core` and the like as their module, but pickles name their true home and load anywhere.
"""

import builtins
import copyreg
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import io
import os
import runpy
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from arboost.modelio.schema import FORMAT_VERSION
from arboost.runtime.errors import XGBoostError

__all__ = ["XGBOOST_VERSION", "install_as_xgboost", "is_installed", "uninstall"]

XGBOOST_VERSION = ".".join(map(str, FORMAT_VERSION))
"""The version of XGBoost whose interface and model format these are; tools compare with it."""

# XGBoost's modules, where we have a twin of them. A class belongs to the first one that shows it.
_MODULES = (
    "objective",
    "core",
    "sklearn",
    "callback",
    "training",
    "collective",
    "compat",
    "config",
    "data",
    "interpret",
    "libpath",
    "plotting",
    "_typing",
    "dask",
    "spark",
    "tracker",
)
_LARGE = ("dask", "spark")  # import packages that only some need
_CHILD_PATH = str(Path(__file__).parent / "_xgboost_path")

_lock = threading.RLock()
_homes: dict[type, str] = {}  # renamed class -> the module it was defined in; empty while not installed


def install_as_xgboost(*, children: bool = False) -> None:
    """Make `import xgboost`, and every import of its modules, give this package.

    Call it before anything imports XGBoost, best in the first lines of a program. A second call does nothing.

    Parameters
    ----------
    children :
        Also in Python processes that this one starts from now on (by `PYTHONPATH` and `sys.path`). Workers of
        joblib and multiprocessing need it only where their own code imports xgboost.

    Raises
    ------
    ImportError
        If XGBoost itself has been imported already: two libraries cannot have one name.

    Examples
    --------
    >>> import arboost as xgb
    >>> xgb.install_as_xgboost()  # doctest: +SKIP
    >>> import shap
    >>> shap.TreeExplainer(xgb.train(params, dtrain))  # doctest: +SKIP
    """
    with _lock:
        if not is_installed():
            _install()
        if children:
            _pass_on()


def is_installed() -> bool:
    """Whether `xgboost` is this package now."""
    return isinstance(sys.modules.get("xgboost"), _Mirror)


def uninstall() -> None:
    """Undo `install_as_xgboost`; what has imported `xgboost` in the meantime keeps what it has."""
    with _lock:
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Mirror):
                del sys.modules[name]
        if _FINDER in sys.meta_path:
            sys.meta_path.remove(_FINDER)
        for cls, home in _homes.items():
            cls.__module__ = home
            del cls.__reduce_ex__
        _homes.clear()
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if _CHILD_PATH in paths:
            paths.remove(_CHILD_PATH)
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
            if not os.environ["PYTHONPATH"]:  # it was not there before
                del os.environ["PYTHONPATH"]
        if _CHILD_PATH in sys.path:
            sys.path.remove(_CHILD_PATH)


def _install() -> None:
    taken = [name for name in list(sys.modules) if name.partition(".")[0] == "xgboost"]
    if taken:
        _refuse(sys.modules[taken[0]])
    package = _mirror("xgboost")
    sys.meta_path.insert(0, _FINDER)
    there = sys.modules.setdefault("xgboost", package)  # atomic: another thread may be importing XGBoost right now
    if there is not package:
        sys.meta_path.remove(_FINDER)
        _refuse(there)
    for module in _MODULES:
        if _is_here(module) and module not in _LARGE:
            _rename_classes(importlib.import_module(f"xgboost.{module}"))


def _refuse(module: ModuleType) -> NoReturn:
    where = getattr(module, "__file__", None) or "an unknown place"
    raise ImportError(
        f"XGBoost itself is imported already (from {where}), so arboost cannot take its name. Call "
        "arboost.install_as_xgboost() before anything imports xgboost, or run the program as "
        "`python -m arboost.as_xgboost program.py`.",
        name="xgboost",
    )


def _pass_on() -> None:
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _CHILD_PATH not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([_CHILD_PATH, *filter(None, paths)])
    if _CHILD_PATH not in sys.path:
        sys.path.insert(1, _CHILD_PATH)  # multiprocessing hands its children this list; the script's folder stays first


# ---- mirrors ----


class _Mirror(ModuleType):
    """A module of XGBoost's name with the names of one of ours; what is written to it is written to ours too.

    It holds the names itself, because tools that patch look into a module's `__dict__`; names that ours makes on first
    use are asked for. Its own alone are dunder names, its submodules and the `extras`.
    """

    def __init__(self, name: str, twin: ModuleType, extras: dict[str, Any]) -> None:
        super().__init__(name, twin.__doc__)
        shared = {key: value for key, value in vars(twin).items() if not key.startswith("__") and key not in _MODULES}
        self.__dict__.update(shared, **extras, _twin=twin, _own={*extras, "_twin", "_own"}, __file__=twin.__file__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__annotations__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if self.__name__ == "xgboost" and name in _MODULES and _is_here(name):
            return importlib.import_module(f"xgboost.{name}")
        try:
            return getattr(self._twin, name)
        except AttributeError:
            raise AttributeError(f"module {self.__name__!r} (arboost) has no attribute {name!r}") from None

    def _is_shared(self, name: str, value: Any) -> bool:
        return not (name.startswith("__") or name in self._own or isinstance(value, _Mirror))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self._is_shared(name, value):
            setattr(self._twin, name, value)

    def __delattr__(self, name: str) -> None:
        value = self.__dict__.pop(name, None)
        if self._is_shared(name, value):
            delattr(self._twin, name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(self._twin)} - {"_twin", "_own"})

    def __reduce__(self) -> tuple[Callable, tuple[str]]:  # functions sent to other processes refer to modules
        return importlib.import_module, (self.__name__,)


class _Finder(importlib.metadata.DistributionFinder, importlib.abc.Loader):
    """Finds `xgboost.core` and the like, and the version that `importlib.metadata` is asked for."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        package, _, module = fullname.partition(".")
        if (
            package != "xgboost"
            or module.partition(".")[0] not in _MODULES
            or not is_installed()
            or not _is_here(module)
        ):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin="arboost", is_package=_has_parts(module))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """A mirror is complete when it is made."""

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        if context is None or context.name in (None, "xgboost"):
            yield _Distribution()


_FINDER = _Finder()


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` knows of XGBoost while this package stands for it."""

    def read_text(self, filename: str) -> str | None:
        if filename in ("METADATA", "PKG-INFO"):
            return f"Metadata-Version: 2.1\nName: xgboost\nVersion: {XGBOOST_VERSION}\nSummary: arboost, as xgboost\n"
        return "xgboost\n" if filename == "top_level.txt" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


def _is_here(module: str) -> bool:
    return importlib.util.find_spec(f"arboost.{module}") is not None and (
        module != "sklearn" or importlib.util.find_spec("sklearn") is not None
    )


def _has_parts(module: str) -> bool:
    spec = importlib.util.find_spec(f"arboost.{module}")
    return spec is not None and spec.submodule_search_locations is not None


def _mirror(name: str) -> _Mirror:
    twin = importlib.import_module("arboost" + name.removeprefix("xgboost"))
    has_sklearn = importlib.util.find_spec("sklearn") is not None
    for lazy, home in vars(twin).get("_LAZY", {}).items():  # tools that patch look for names in `__dict__`
        if home != f"arboost.{lazy}" and (has_sklearn or home != "arboost.sklearn"):
            getattr(twin, lazy)
    mirror = _Mirror(name, twin, _extras(name))
    if name == "xgboost":
        mirror.__spec__ = importlib.machinery.ModuleSpec(name, _FINDER, origin="arboost", is_package=True)
        mirror.__package__, mirror.__path__, mirror.__loader__ = name, [], _FINDER
    return mirror


def _extras(name: str) -> dict[str, Any]:
    """Names that XGBoost's module has and ours has not, because they are about XGBoost itself."""
    if name == "xgboost":
        return {"__version__": XGBOOST_VERSION}
    if name in ("xgboost.core", "xgboost.data", "xgboost.config", "xgboost.collective"):
        return {"_LIB": _NoLibrary(), "_check_call": _check_call, "_py_version": lambda: XGBOOST_VERSION}
    return {}


class _NoLibrary:
    """Stands for XGBoost's compiled library, `core._LIB`.

    Its functions seem to exist, since tools look for some to tell old versions, and are refused by name when called.
    """

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if not name.startswith("XG"):
            raise AttributeError(f"xgboost.core._LIB has no attribute {name!r}")

        def refuse(*_: Any) -> NoReturn:
            raise XGBoostError(
                f"xgboost.core._LIB.{name}: there is no compiled XGBoost library, arboost is installed as xgboost."
            )

        return refuse

    def __repr__(self) -> str:
        return "<no compiled XGBoost library: arboost is installed as xgboost>"


def _check_call(ret: int) -> None:
    """What the results of library calls are passed through."""
    if ret != 0:
        raise XGBoostError(f"A call of XGBoost's compiled library returned {ret}, but there is none: this is arboost.")


# ---- classes and pickles ----


def _rename_classes(mirror: ModuleType) -> None:
    """Public classes say that they live in XGBoost's module; enumerations pickle by value and stay as they are."""
    for name in getattr(mirror, "__all__", ()):
        cls = getattr(mirror, name)
        if inspect.isclass(cls) and cls.__module__.startswith("arboost.") and not issubclass(cls, Enum):
            _homes[cls] = cls.__module__
            cls.__reduce_ex__ = _portable_reduce(cls)  # type: ignore[method-assign]
            cls.__module__ = mirror.__name__


def _portable_reduce(owner: type) -> Callable[[Any, Any], Any]:
    """`__reduce_ex__` that names the true home of a renamed class, so that the pickle loads without this module."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        reduced = super(owner, self).__reduce_ex__(max(protocol, 2))  # type: ignore[arg-type]
        home = _homes.get(type(self))
        if home is None or not isinstance(reduced, tuple):
            return reduced
        function, arguments, *rest = reduced
        name = type(self).__qualname__
        if function is type(self):  # exceptions: called with their arguments
            return (_make, (home, name, True, *arguments), *rest)
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            return (_make, (home, name, False, *arguments[1:]), *rest)
        return reduced

    return __reduce_ex__


def _make(home: str, name: str, call: bool, *arguments: Any) -> Any:
    """An object of the class, called with the arguments or only made; its state follows."""
    cls = getattr(importlib.import_module(home), name)
    return cls(*arguments) if call else cls.__new__(cls, *arguments)


# ---- the command ----

_USAGE = """usage: python -m arboost.as_xgboost [-m module | -c code | script] [arguments]

Runs a program in which `import xgboost` gives arboost, in its child processes too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a program as `python` would, with this package installed as xgboost."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    kind = arguments[0] if arguments else "-h"
    if kind in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    problem = _problem(kind, arguments)
    if problem is not None:
        print(f"{_USAGE}\n\n{problem}", file=sys.stderr)
        return 2
    install_as_xgboost(children=True)
    if kind == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *arguments[2:]]
        _run_as_main(arguments[1], "<string>", None)
    else:
        sys.argv = arguments
        _run_script(kind)
    return 0


def _problem(kind: str, arguments: list[str]) -> str | None:
    if kind in ("-m", "-c"):
        return f"{kind} needs an argument." if len(arguments) < 2 else None
    if kind.startswith("-"):
        return f"There is no option {kind}; options of python itself stand before -m."
    return None if os.path.exists(kind) else f"There is no file {kind!r}."


def _run_script(path: str) -> None:
    if os.path.isdir(path) or path.endswith(".pyc") or zipfile.is_zipfile(path):  # a folder with __main__.py
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(os.path.abspath(path)) as file:
        code = file.read()
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    _run_as_main(code, path, path)


def _run_as_main(code: str | bytes, name: str, path: str | None) -> None:
    """Run code as the module `__main__`, which stays: what it defines can be pickled, and threads may outlive it."""
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, **({} if path is None else {"__file__": path}))
    sys.modules["__main__"] = module
    exec(compile(code, name, "exec"), module.__dict__)


if __name__ == "__main__":
    sys.exit(importlib.import_module("arboost.as_xgboost").main())
