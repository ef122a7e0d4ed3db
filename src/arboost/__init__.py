"""Gradient-boosted trees in Python with XGBoost's API: `import arboost as xgb`.

Importing compiles nothing and imports nothing else: every name comes with its module on first use, so that the
command line answers without Numba.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arboost import (
        callback,
        collective,
        compat,
        config,
        core,
        data,
        interpret,
        libpath,
        objective,
        tracker,
        training,
    )
    from arboost.booster import Booster
    from arboost.config import config_context, get_config, set_config
    from arboost.losses import ScalarLoss
    from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
    from arboost.matrix.extmem import ExtMemQuantileDMatrix
    from arboost.matrix.iterator import DataIter
    from arboost.tracker import RabitTracker
    from arboost.training import cv, train
    from arboost.version import __version__, build_info

# Name -> module; a module's own name stands for the module.
_LAZY = {
    "Booster": "arboost.booster",
    "DMatrix": "arboost.matrix.dmatrix",
    "DataIter": "arboost.matrix.iterator",
    "ExtMemQuantileDMatrix": "arboost.matrix.extmem",
    "QuantileDMatrix": "arboost.matrix.dmatrix",
    "RabitTracker": "arboost.tracker",
    "ScalarLoss": "arboost.losses",
    "XGBClassifier": "arboost.sklearn",
    "XGBModel": "arboost.sklearn",
    "XGBRFClassifier": "arboost.sklearn",
    "XGBRFRegressor": "arboost.sklearn",
    "XGBRanker": "arboost.sklearn",
    "XGBRegressor": "arboost.sklearn",
    "__version__": "arboost.version",
    "build_info": "arboost.version",
    "callback": "arboost.callback",
    "collective": "arboost.collective",
    "compat": "arboost.compat",
    "config": "arboost.config",
    "config_context": "arboost.config",
    "convert": "arboost.convert",
    "core": "arboost.core",
    "cv": "arboost.training",
    "data": "arboost.data",
    "ensemble": "arboost.ensemble",
    "get_config": "arboost.config",
    "install_as_xgboost": "arboost.as_xgboost",
    "interpret": "arboost.interpret",
    "libpath": "arboost.libpath",
    "objective": "arboost.objective",
    "plot_importance": "arboost.plotting",
    "plot_metric": "arboost.plotting",
    "plot_tree": "arboost.plotting",
    "plotting": "arboost.plotting",
    "report": "arboost.report",
    "set_config": "arboost.config",
    "sklearn": "arboost.sklearn",
    "survival": "arboost.survival",
    "to_graphviz": "arboost.plotting",
    "trace": "arboost.trace",
    "tracker": "arboost.tracker",
    "train": "arboost.training",
    "training": "arboost.training",
}

__all__ = [
    "Booster",
    "DMatrix",
    "DataIter",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "RabitTracker",
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
    "convert",
    "core",
    "cv",
    "data",
    "ensemble",
    "get_config",
    "install_as_xgboost",
    "interpret",
    "libpath",
    "objective",
    "plot_importance",
    "plot_metric",
    "plot_tree",
    "plotting",
    "report",
    "set_config",
    "sklearn",
    "survival",
    "to_graphviz",
    "trace",
    "tracker",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'arboost' has no attribute {name!r}")
    path = _LAZY[name]
    module = importlib.import_module(path)
    found = module if path == f"arboost.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
