"""Training and prediction on a Dask cluster, with the interface of `xgboost.dask` and the model of one machine.

Workers keep the partitions they hold. They talk over connections to the ports that Dask's workers listen on anyway, and
when one is lost the others go on from the last finished round.
"""

try:
    import dask as _dask  # noqa: F401
    import distributed as _distributed  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"arboost.dask needs dask and distributed ({_error}): install them with `pip install arboost[dask]`."
    ) from _error

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
from arboost.dask.predict import inplace_predict, predict
from arboost.dask.session import CommunicatorContext

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
