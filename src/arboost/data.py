"""Names that XGBoost users import from `xgboost.data`."""

from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix

__all__ = ["DMatrix", "QuantileDMatrix"]
