"""Gradient-boosted trees in Python with XGBoost's API: `import arboost as xgb`.

Importing compiles nothing and imports no optional dependency; names in `_LAZY` are imported on first use.
"""

import importlib
from typing import Any

from arboost import callback, collective, compat, config, core, data, interpret, libpath, objective, training
from arboost.booster import Booster
from arboost.config import config_context, get_config, set_config
from arboost.losses import ScalarLoss
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.iterator import DataIter
from arboost.training import cv, train
from arboost.version import __version__, build_info

# Name -> module; a module's own name stands for the module.
_LAZY = {
    "XGBClassifier": "arboost.sklearn",
    "XGBModel": "arboost.sklearn",
    "XGBRFClassifier": "arboost.sklearn",
    "XGBRFRegressor": "arboost.sklearn",
    "XGBRanker": "arboost.sklearn",
    "XGBRegressor": "arboost.sklearn",
    "install_as_xgboost": "arboost.as_xgboost",
    "plot_importance": "arboost.plotting",
    "plot_metric": "arboost.plotting",
    "plot_tree": "arboost.plotting",
    "plotting": "arboost.plotting",
    "sklearn": "arboost.sklearn",
    "survival": "arboost.survival",
    "to_graphviz": "arboost.plotting",
}

__all__ = [
    "Booster",
    "DMatrix",
    "DataIter",
    "QuantileDMatrix",
    "ScalarLoss",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "__version__",
    "build_info",
    "callback",
    "collective",
    "compat",
    "config",
    "config_context",
    "core",
    "cv",
    "data",
    "get_config",
    "install_as_xgboost",
    "interpret",
    "libpath",
    "objective",
    "plot_importance",
    "plot_metric",
    "plot_tree",
    "plotting",
    "set_config",
    "sklearn",
    "survival",
    "to_graphviz",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'arboost' has no attribute {name!r}")
    path = _LAZY[name]
    module = importlib.import_module(path)
    return module if path == f"arboost.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
