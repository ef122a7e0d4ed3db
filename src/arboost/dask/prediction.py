"""`predict` and `inplace_predict`: one task per partition, nothing is computed before the result is asked for.

The model is a task of the graph, so that Dask can make it again where a worker is lost; shapes and types of the result
are known from the model.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
from dask.delayed import Delayed

from arboost.booster import Booster
from arboost.config import config_context, get_config
from arboost.dask.data import DaskDMatrix, align_chunks, find_client, run
from arboost.dask.parts import Part
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.errors import type_name

Model: TypeAlias = Any  # a Booster, what `train` returned, or a future of a Booster


@positional_with_warning
def predict(
    client: distributed.Client | None,
    model: Model,
    data: Any,
    *,
    output_margin: bool = False,
    missing: float = np.nan,
    pred_leaf: bool = False,
    pred_contribs: bool = False,
    approx_contribs: bool = False,
    pred_interactions: bool = False,
    validate_features: bool = True,
    iteration_range: tuple[int, int] = (0, 0),
    strict_shape: bool = False,
) -> Any:
    """Predict for every row of a collection or a DaskDMatrix, lazily.

    Parameters
    ----------
    client :
        The client; None for Dask's current one.
    model :
        What `train` returned, its booster, or a future of a booster.
    data :
        A dask array, a dask data frame or a DaskDMatrix.
    missing :
        Value that means "missing" besides NaN; a DaskDMatrix has its own.
    output_margin, pred_leaf, pred_contribs, approx_contribs, pred_interactions, validate_features, iteration_range,
    strict_shape :
        See `Booster.predict`.

    Returns
    -------
    dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame
        Of a frame a Series with its index, or a frame where there are several columns; else an array. Of a frame,
        results of more than two dimensions are not possible: pass an array or a DaskDMatrix.
    """
    client = find_client(client)
    options = {
        "output_margin": output_margin, "pred_leaf": pred_leaf, "pred_contribs": pred_contribs,
        "approx_contribs": approx_contribs, "pred_interactions": pred_interactions,
        "validate_features": validate_features, "iteration_range": iteration_range, "strict_shape": strict_shape,
    }  # fmt: skip
    return run(client, _predict, client, model, data, missing, options, get_config())


async def _predict(
    client: distributed.Client, model: Model, data: Any, missing: float, options: dict[str, Any], config: dict[str, Any]
) -> Any:
    booster, shape = await _task_of(client, model, _shape_of, options)
    if isinstance(data, DaskDMatrix):
        await data
        return _of_matrix(booster, data, shape, options, config)
    return map_rows(_rows, data, shape, booster=booster, options=options, missing=missing, config=config)


@positional_with_warning
def inplace_predict(
    client: distributed.Client | None,
    model: Model,
    data: Any,
    *,
    iteration_range: tuple[int, int] = (0, 0),
    predict_type: str = "value",
    missing: float = np.nan,
    validate_features: bool = True,
    base_margin: Any = None,
    strict_shape: bool = False,
) -> Any:
    """Predict for every row of a collection, lazily, without making a matrix.

    Parameters
    ----------
    client, model, data :
        See `predict`; a DaskDMatrix is not taken.
    base_margin :
        A collection with the partitions of `data`: the margin of every row to start from.
    iteration_range, predict_type, missing, validate_features, strict_shape :
        See `Booster.inplace_predict`.

    Returns
    -------
    dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame
        As of `predict`.
    """
    client = find_client(client)
    options = {
        "iteration_range": iteration_range, "predict_type": predict_type, "missing": missing,
        "validate_features": validate_features, "strict_shape": strict_shape,
    }  # fmt: skip
    return run(client, _inplace_predict, client, model, data, base_margin, options, get_config())


async def _inplace_predict(
    client: distributed.Client, model: Model, data: Any, base_margin: Any, options: dict[str, Any], config: dict
) -> Any:
    booster, shape = await _task_of(client, model, _shape_in_place, options)
    return map_rows(_rows_in_place, data, shape, base_margin, booster=booster, options=options, config=config)


# ---- the model ----


async def _task_of(
    client: distributed.Client, model: Any, shape_of: Callable, options: dict[str, Any]
) -> tuple[Delayed, tuple[int, ...]]:
    """The model as a task of graphs, and the shape of what it predicts, without the rows."""
    if isinstance(model, dict):
        model = model["booster"]
    if isinstance(model, distributed.Future):
        shape = await client.submit(shape_of, model, options, pure=False)
        return dask.delayed(model), shape
    if not isinstance(model, Booster):
        raise TypeError(f"Expecting a Booster, the result of `train` or a future of a Booster, got: {type_name(model)}")
    return as_task(model), shape_of(model, options)


def as_task(model: Any) -> Delayed:
    """An object as one task, of which all partitions take their copy."""
    return dask.delayed(model, pure=False, traverse=False)


def _shape_of(booster: Booster, options: dict[str, Any]) -> tuple[int, ...]:
    """The shape of one row's prediction, asked of a matrix without rows."""
    blank = DMatrix(np.empty((0, booster.num_features()), np.float32))
    return booster.predict(blank, **{**options, "validate_features": False}).shape[1:]


def _shape_in_place(booster: Booster, options: dict[str, Any]) -> tuple[int, ...]:
    blank = np.empty((0, booster.num_features()), np.float32)
    return booster.inplace_predict(blank, **{**options, "validate_features": False, "missing": np.nan}).shape[1:]


# ---- rows to predictions ----


def map_rows(
    function: Callable, data: Any, shape: tuple[int, ...], base_margin: Any = None, dtype: Any = np.float32, **more: Any
) -> Any:
    """function(partition, base margin or None, **more) of every partition, as a collection.

    Parameters
    ----------
    function
        Gives an array (n, *shape).
    data
        A dask array or data frame. Of a frame the result is a Series, or a frame for a shape of one dimension.
    shape
        Of one row's result.
    base_margin
        A collection with the same partitions, or None. Chunks of an array are made those of an array.
    dtype
        Of the result.
    more
        What is the same for all partitions; may have tasks in it.
    """
    _check_collection(data, (da.Array, dd.DataFrame))
    if base_margin is not None:
        base_margin = _of_same_partitions(base_margin, data)
    if isinstance(data, dd.DataFrame):
        if len(shape) > 1:
            raise ValueError("Use `da.Array` or `DaskDMatrix` when output has more than 2 dimensions.")
        return _map_frame(function, data, shape, base_margin, dtype, more)
    if isinstance(base_margin, dd.DataFrame | dd.Series):
        base_margin = base_margin.to_dask_array()
    chunks = (data.chunks[0], *((size,) for size in shape))
    wide = "i" if base_margin is None else "ik"[: base_margin.ndim]
    arguments = [data, "ij"] + ([None, None] if base_margin is None else [base_margin, wide])
    out = "i" + "abc"[: len(shape)]
    return da.blockwise(
        function, out, *arguments, new_axes=dict(zip(out[1:], shape, strict=True)), adjust_chunks={"i": chunks[0]},
        concatenate=True, align_arrays=False, dtype=dtype, meta=np.empty((0,) * (1 + len(shape)), dtype), **more,
    )  # fmt: skip


def _check_collection(data: Any, kinds: tuple[type, ...]) -> None:
    if not isinstance(data, kinds):
        names = ", ".join(f"dask {kind.__name__}" for kind in kinds)
        raise TypeError(f"Expecting one of {names}, got: {type_name(data)}")


def _of_same_partitions(base_margin: Any, data: Any) -> Any:
    """The margins, an array's with the chunks of the data; refuses other partitions, which Dask would not notice."""
    _check_collection(base_margin, (da.Array, dd.DataFrame, dd.Series))
    base_margin = align_chunks(base_margin, data)
    n_margins, n_data = (
        values.numblocks[0] if isinstance(values, da.Array) else values.npartitions for values in (base_margin, data)
    )
    if n_margins != n_data:
        raise ValueError(
            f"Partitions between data and base_margin are not consistent: {n_data} != {n_margins}. Please try to "
            "repartition/rechunk your data."
        )
    return base_margin


def _map_frame(
    function: Callable, data: Any, shape: tuple[int, ...], base_margin: Any, dtype: Any, more: dict[str, Any]
) -> Any:
    if isinstance(base_margin, da.Array):
        base_margin = base_margin.to_dask_dataframe()
    meta = dd.utils.make_meta(dict.fromkeys(range(shape[0]), dtype) if shape else (0, dtype))
    return dd.map_partitions(
        _as_frame, data, base_margin, function=function, like=meta, meta=meta, enforce_metadata=False,
        align_dataframes=False, **more,
    )  # fmt: skip


def _as_frame(partition: Any, base_margin: Any, function: Callable, like: Any, **more: Any) -> Any:
    """The result for one partition of a frame, with its index."""
    found = function(partition, base_margin, **more)
    if found.ndim == 1:
        return type(like)(found, index=partition.index, name=like.name)
    return type(like)(found, index=partition.index, columns=like.columns)


def _rows(
    partition: Any, _: Any, booster: Booster, options: dict[str, Any], missing: float, config: dict[str, Any]
) -> np.ndarray:
    with config_context(**config):
        return booster.predict(DMatrix(partition, missing=missing, enable_categorical=True), **options)


def _rows_in_place(
    partition: Any, base_margin: Any, booster: Booster, options: dict[str, Any], config: dict[str, Any]
) -> np.ndarray:
    with config_context(**config):
        return booster.inplace_predict(partition, base_margin=base_margin, **options)


def _of_matrix(
    booster: Delayed, data: DaskDMatrix, shape: tuple[int, ...], options: dict[str, Any], config: dict[str, Any]
) -> da.Array:
    """Predictions of a DaskDMatrix, partition by partition."""
    task = dask.delayed(_part_rows, pure=False)
    fields = {
        "missing": data.missing, "feature_names": data.feature_names, "feature_types": data.feature_types,
        "enable_categorical": True,
    }  # fmt: skip
    arrays = [
        da.from_delayed(task(part, booster, fields, options, config), (fact.n_rows, *shape), np.float32)
        for part, fact in zip(data.given_parts, data.given_facts, strict=True)
    ]
    return da.concatenate(arrays, axis=0)


def _part_rows(
    part: Part, booster: Booster, fields: dict[str, Any], options: dict[str, Any], config: dict[str, Any]
) -> np.ndarray:
    with config_context(**config):
        data = DMatrix(part["data"], base_margin=part.get("base_margin"), **fields)
        return booster.predict(data, **options)
