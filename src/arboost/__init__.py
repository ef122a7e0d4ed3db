"""Gradient-boosted trees in Python with XGBoost's API: `import arboost as xgb`.

Importing compiles nothing and imports no optional dependency.
"""

from arboost import callback, config, core, data, training
from arboost.booster import Booster
from arboost.config import config_context, get_config, set_config
from arboost.losses import ScalarLoss
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.training import cv, train
from arboost.version import __version__, build_info

__all__ = [
    "Booster",
    "DMatrix",
    "QuantileDMatrix",
    "ScalarLoss",
    "__version__",
    "build_info",
    "callback",
    "config",
    "config_context",
    "core",
    "cv",
    "data",
    "get_config",
    "set_config",
    "train",
    "training",
]
