"""Names that XGBoost users import from `xgboost.compat`: what is installed, and optional packages on demand.

Nothing optional is imported until it is asked for; the names of scikit-learn's classes are made on first use.
"""

import functools
import importlib
import importlib.util
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as scipy_sparse
from scipy.sparse import csr_matrix as scipy_csr

__all__ = [
    "SKLEARN_INSTALLED",
    "concat",
    "import_cupy",
    "import_pandas",
    "import_polars",
    "import_pyarrow",
    "is_cudf_available",
    "is_cupy_available",
    "is_dataframe",
    "is_pandas_available",
    "is_pyarrow_available",
    "lazy_isinstance",
    "py_str",
    "scipy_csr",
    "scipy_sparse",
]

SKLEARN_INSTALLED = importlib.util.find_spec("sklearn") is not None

# scikit-learn's classes under the names that XGBoost gives them.
_SKLEARN = {
    "XGBModelBase": ("sklearn.base", "BaseEstimator"),
    "XGBClassifierBase": ("sklearn.base", "ClassifierMixin"),
    "XGBRegressorBase": ("sklearn.base", "RegressorMixin"),
    "XGBStratifiedKFold": ("sklearn.model_selection", "StratifiedKFold"),
}

# (first part of the module, class) of what counts as a frame.
_FRAMES = {
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "LazyFrame"),
    ("polars", "Series"),
    ("pyarrow", "Table"),
    ("cudf", "DataFrame"),
    ("cudf", "Series"),
    ("modin", "DataFrame"),
    ("modin", "Series"),
}


def __getattr__(name: str) -> Any:
    if name not in _SKLEARN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _SKLEARN[name]
    if SKLEARN_INSTALLED:
        return getattr(importlib.import_module(module), original)
    return None if name == "XGBStratifiedKFold" else object


def _is_available(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@functools.cache
def is_pandas_available() -> bool:
    """Whether pandas is installed."""
    return _is_available("pandas")


@functools.cache
def is_pyarrow_available() -> bool:
    """Whether pyarrow is installed."""
    return _is_available("pyarrow")


@functools.cache
def is_cudf_available() -> bool:
    """Whether cuDF is installed."""
    return _is_available("cudf")


@functools.cache
def is_cupy_available() -> bool:
    """Whether CuPy is installed."""
    return _is_available("cupy")


@functools.cache
def import_pandas() -> ModuleType:
    """pandas, imported now."""
    return importlib.import_module("pandas")


@functools.cache
def import_polars() -> ModuleType:
    """polars, imported now."""
    return importlib.import_module("polars")


@functools.cache
def import_pyarrow() -> ModuleType:
    """pyarrow, imported now."""
    return importlib.import_module("pyarrow")


@functools.cache
def import_cupy() -> ModuleType:
    """CuPy, imported now."""
    if not is_cupy_available():
        raise ImportError("`cupy` is required for handling CUDA buffer.")
    return importlib.import_module("cupy")


def py_str(x: bytes | None) -> str:
    """The text of UTF-8 bytes."""
    if x is None:
        raise ValueError("py_str needs bytes, got None.")
    return x.decode("utf-8")


def lazy_isinstance(instance: Any, module: str, name: str) -> bool:
    """Whether the object's class is `module.name`, without importing the module."""
    cls = instance.__class__  # not type(): a proxy gives the class of what it stands for
    return cls.__module__ == module and cls.__name__ == name


def is_dataframe(data: Any) -> bool:
    """Whether the data is a frame or series of pandas, polars, pyarrow, cuDF or modin."""
    cls = data.__class__
    return (cls.__module__.partition(".")[0], cls.__name__) in _FRAMES


def concat(value: Sequence[Any]) -> Any:
    """Pieces of one kind (arrays, sparse matrices, frames) stacked by rows."""
    first = value[0]
    package = first.__class__.__module__.partition(".")[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(value, axis=0)
    if scipy_sparse.issparse(first):
        return scipy_sparse.vstack(_sound(value), format="csc" if first.format == "csc" else "csr")
    if package in ("pandas", "cudf") and is_dataframe(first):
        return importlib.import_module(package).concat(value, axis=0)
    if hasattr(first, "__cuda_array_interface__"):
        return import_cupy().concatenate(value, axis=0)
    raise TypeError(f"Unknown type: {type(first)}")


def _sound(matrices: Sequence[Any]) -> list[Any]:
    """The same matrices by rows, checked: SciPy follows whatever indices there are."""
    from arboost.matrix.sparse import read_sparse  # this module is imported where no data is at hand

    found = []
    for matrix in matrices:
        kind = scipy_sparse.csr_array if isinstance(matrix, scipy_sparse.sparray) else scipy_csr
        part = read_sparse(matrix)
        found.append(kind((part.data, part.indices, part.indptr), part.shape))
    return found
