"""Names that XGBoost users import from `xgboost.core`."""

from arboost.booster import Booster
from arboost.matrix.dmatrix import DataSplitMode, DMatrix, QuantileDMatrix
from arboost.matrix.extmem import ExtMemQuantileDMatrix
from arboost.matrix.iterator import DataIter
from arboost.objective import Objective, TreeObjective
from arboost.runtime.errors import XGBoostError
from arboost.version import build_info

__all__ = [
    "Booster",
    "DMatrix",
    "DataIter",
    "DataSplitMode",
    "ExtMemQuantileDMatrix",
    "Objective",
    "QuantileDMatrix",
    "TreeObjective",
    "XGBoostError",
    "build_info",
]
