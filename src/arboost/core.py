"""Names that XGBoost users import from `xgboost.core`."""

from arboost.booster import Booster
from arboost.matrix.dmatrix import DataSplitMode, DMatrix, QuantileDMatrix
from arboost.runtime.errors import XGBoostError

__all__ = ["Booster", "DMatrix", "DataSplitMode", "QuantileDMatrix", "XGBoostError"]
