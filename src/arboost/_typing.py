"""The types that XGBoost users import from `xgboost._typing` for their annotations."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from arboost.callback import EvalsLog

__all__ = [
    "ArrayLike",
    "BoosterParam",
    "DataType",
    "EvalsLog",
    "FPreProcCallable",
    "FeatureInfo",
    "FeatureNames",
    "FeatureTypes",
    "FloatCompatible",
    "Integer",
    "IterationRange",
    "ModelIn",
    "NumpyDType",
    "NumpyOrCupy",
    "PathLike",
]

ArrayLike: TypeAlias = Any
DataType: TypeAlias = Any
NumpyOrCupy: TypeAlias = Any
NumpyDType: TypeAlias = str | type[np.number]
FeatureInfo: TypeAlias = Sequence[str]
FeatureNames: TypeAlias = FeatureInfo
FeatureTypes: TypeAlias = FeatureInfo
BoosterParam: TypeAlias = list | dict[str, Any]
PathLike: TypeAlias = str | os.PathLike
FloatCompatible: TypeAlias = float | np.float32 | np.float64
Integer: TypeAlias = int | np.integer
IterationRange: TypeAlias = tuple[Integer, Integer]
FPreProcCallable: TypeAlias = Callable
ModelIn: TypeAlias = os.PathLike | bytearray | str
