"""Training and prediction on a Dask cluster, with the interface of `xgboost.dask` and the model of one machine.

Workers keep the partitions they hold. They talk over connections to the ports that Dask's workers listen on anyway, and
when one is lost the others go on from the last finished round. Names come with their modules on first use: a worker
needs neither estimators nor data frames.
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import dask as _dask  # noqa: F401
    import distributed as _distributed  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"arboost.dask needs dask and distributed ({_error}): install them with `pip install arboost[dask]`."
    ) from _error

if TYPE_CHECKING:
    from arboost.dask.cluster import WorkerLostError, train
    from arboost.dask.data import DaskDMatrix, DaskQuantileDMatrix
    from arboost.dask.estimators import (
        DaskScikitLearnBase,
        DaskXGBClassifier,
        DaskXGBRanker,
        DaskXGBRegressor,
        DaskXGBRFClassifier,
        DaskXGBRFRegressor,
    )
    from arboost.dask.prediction import inplace_predict, predict
    from arboost.dask.session import CommunicatorContext

_MODULE_OF = {
    "CommunicatorContext": "session",
    "DaskDMatrix": "data",
    "DaskQuantileDMatrix": "data",
    "DaskScikitLearnBase": "estimators",
    "DaskXGBClassifier": "estimators",
    "DaskXGBRFClassifier": "estimators",
    "DaskXGBRFRegressor": "estimators",
    "DaskXGBRanker": "estimators",
    "DaskXGBRegressor": "estimators",
    "WorkerLostError": "cluster",
    "inplace_predict": "prediction",
    "predict": "prediction",
    "train": "cluster",
}

__all__ = [
    "CommunicatorContext",
    "DaskDMatrix",
    "DaskQuantileDMatrix",
    "DaskScikitLearnBase",
    "DaskXGBClassifier",
    "DaskXGBRFClassifier",
    "DaskXGBRFRegressor",
    "DaskXGBRanker",
    "DaskXGBRegressor",
    "WorkerLostError",
    "inplace_predict",
    "predict",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'arboost.dask' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"arboost.dask.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
