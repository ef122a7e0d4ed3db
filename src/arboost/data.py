"""Names that XGBoost users import from `xgboost.data`."""

from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.iterator import DataIter

__all__ = ["DMatrix", "DataIter", "QuantileDMatrix"]
