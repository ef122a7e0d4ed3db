"""DaskDMatrix and DaskQuantileDMatrix: references to the partitions of Dask collections, and what is known of them.

They hold futures, never addresses: which worker has which partition is asked when training begins, and again when a
worker was lost. Partitions stay where they are.
"""

import uuid
from collections.abc import Callable, Generator, Sequence
from functools import reduce
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
from dask.delayed import Delayed

from arboost.dask.grouping import is_sorted, sort_parts
from arboost.dask.parts import Columns, Facts, cut_rows, describe, make_part
from arboost.matrix.categories import Categories
from arboost.runtime import settings
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.errors import XGBoostError, type_name

_KINDS = "a dask array, a dask data frame or a list of delayed partitions"


def find_client(client: Any) -> distributed.Client:
    """The client that was given, or Dask's current one."""
    if client is None:
        return distributed.get_client()
    if not isinstance(client, distributed.Client):
        raise TypeError(f"Expecting a dask client or None, got: {type_name(client)}")
    return client


def run(client: distributed.Client, function: Callable, *args: Any, **more: Any) -> Any:
    """function(*args, **more), a coroutine, in the client's event loop; an asynchronous client's is to be awaited.

    Within a Dask task the task's place is left to others meanwhile: the coroutine waits for tasks, which may need it.
    """
    if client.asynchronous or not in_task():
        return client.sync(function, *args, **more)
    with distributed.worker_client():
        return client.sync(function, *args, **more)


def in_task() -> bool:
    """Whether this is called by a task of a Dask worker."""
    try:
        distributed.get_worker().get_current_task()
    except (ValueError, AttributeError):
        return False
    return True


class DaskDMatrix:
    """Data of a Dask cluster for training and prediction; making it computes the collections, as in XGBoost.

    With an asynchronous client, await it: ``dtrain = await DaskDMatrix(client, X, y)``.

    Parameters
    ----------
    client :
        The client; None for Dask's current one.
    data :
        A dask array with one chunk of columns, a dask data frame, or a list of delayed partitions: arrays, frames or
        sparse matrices.
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound :
        Collections, or lists, with the same partitions of rows as `data`. Rows that are not sorted by `qid` are sorted,
        which copies them. A group may go on in the next partition.
    missing :
        Value that means "missing" besides NaN.
    silent :
        Accepted for compatibility.
    feature_names, feature_types, enable_categorical :
        As for `DMatrix`. Frames bring their own; partitions may have different categories.
    group :
        Not available, as in XGBoost: use `qid`.
    feature_weights :
        Weights with which features are sampled, an array or a dask array.
    """

    is_quantile = False

    @positional_with_warning
    def __init__(
        self,
        client: distributed.Client | None,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
    ) -> None:
        client = find_client(client)
        if isinstance(feature_types, Categories):
            raise TypeError("The Dask interface can handle categories from DataFrame automatically.")
        if qid is not None and weight is not None:
            raise NotImplementedError("per-group weight is not implemented.")
        if group is not None:
            raise NotImplementedError("group structure is not implemented, use qid instead.")
        self.feature_names = feature_names
        self.feature_types = feature_types
        self.missing = np.nan if missing is None else missing
        self.enable_categorical = enable_categorical
        self.feature_weights: Any = None
        fields = {
            "data": data, "label": label, "weight": weight, "base_margin": base_margin, "qid": qid,
            "label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound,
        }  # fmt: skip
        _check_data(data)
        columns = split_fields({name: values for name, values in fields.items() if values is not None})
        self.parts: list[distributed.Future] = []  # as they are trained on: sorted by group
        self.facts: list[Facts] = []
        self.given_parts, self.given_facts = self.parts, self.facts  # as they came
        self.columns = Columns()
        self.blank: Any = None  # the data of a worker without rows
        self._init = run(client, self._load, client, columns, feature_weights)

    def __await__(self) -> Generator[Any, None, "DaskDMatrix"]:
        return self._wait().__await__()

    async def _wait(self) -> "DaskDMatrix":
        """When the data is there."""
        if not self.parts:
            await self._init
        return self

    async def _load(self, client: distributed.Client, columns: dict[str, list], feature_weights: Any) -> "DaskDMatrix":
        """Compute the partitions where Dask puts them, and look at each."""
        name = f"arboost-part-{uuid.uuid4().hex}"
        delayed = dask.delayed(make_part)
        wanted = [
            delayed(i, {field: parts[i] for field, parts in columns.items()}, dask_key_name=f"{name}-{i}")
            for i in range(len(columns["data"]))
        ]
        parts = self.given_parts = client.compute(wanted)
        self.facts = self.given_facts = await _describe_all(client, parts)
        n_columns = {fact.n_columns for fact in self.facts}
        if len(n_columns) > 1:
            raise XGBoostError(f"The partitions have different numbers of columns: {sorted(n_columns)}.")
        if not is_sorted(self.facts):
            settings.warn("The rows are not sorted by `qid`: they are sorted now, which takes a second copy of them.")
            parts = await sort_parts(client, parts)
            self.facts = await _describe_all(client, parts)
        self.columns = reduce(Columns.join, (fact.columns for fact in self.facts))
        self.blank = await client.submit(_blank_of, parts[0], pure=False)
        if dask.is_dask_collection(feature_weights):
            feature_weights = await client.compute(feature_weights)
        self.feature_weights = feature_weights
        self.parts = parts
        return self

    @property
    def partition_order(self) -> dict[str, int]:
        """Number of each partition by the key of its future."""
        return {part.key: i for i, part in enumerate(self.given_parts)}

    def num_col(self) -> int:
        """Number of columns (features)."""
        return self.facts[0].n_columns

    def num_row(self) -> int:
        """Number of rows of all partitions. XGBoost's has no such method."""
        return sum(fact.n_rows for fact in self.facts)

    def matrix_options(self) -> dict[str, Any]:
        """How a worker makes its share of this matrix: arguments of `session.make_matrix`."""
        return {
            "is_quantile": self.is_quantile,
            "blank": self.blank,
            "columns": self.columns,
            "feature_names": self.feature_names,
            "feature_types": self.feature_types,
            "feature_weights": self.feature_weights,
            "options": {"missing": self.missing, "enable_categorical": self.enable_categorical},
        }


class DaskQuantileDMatrix(DaskDMatrix):
    """A DaskDMatrix that is kept on the workers as bins during training; see `QuantileDMatrix`.

    Parameters
    ----------
    client, data, label, weight, base_margin, missing, silent, feature_names, feature_types
        See `DaskDMatrix`.
    max_bin :
        Bins per feature; training must use the same.
    ref :
        The training data, where this is for evaluation.
    group, qid, label_lower_bound, label_upper_bound, feature_weights, enable_categorical
        See `DaskDMatrix`.
    max_quantile_batches :
        Accepted for compatibility.
    """

    is_quantile = True

    @positional_with_warning
    def __init__(
        self,
        client: distributed.Client | None,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        max_bin: int | None = None,
        ref: DaskDMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
    ) -> None:
        if ref is not None and not isinstance(ref, DaskDMatrix):
            raise TypeError(f"`ref` must be a DaskDMatrix of arboost, got {type_name(ref)}.")
        self.max_bin = max_bin
        self.ref = ref
        super().__init__(
            client, data, label, weight=weight, base_margin=base_margin, missing=missing, silent=silent,
            feature_names=feature_names, feature_types=feature_types, group=group, qid=qid,
            label_lower_bound=label_lower_bound, label_upper_bound=label_upper_bound,
            feature_weights=feature_weights, enable_categorical=enable_categorical,
        )  # fmt: skip

    def matrix_options(self) -> dict[str, Any]:
        found = super().matrix_options()
        found["options"] |= {"max_bin": self.max_bin}
        return found


async def _describe_all(client: distributed.Client, parts: list[distributed.Future]) -> list[Facts]:
    """The facts of all partitions; raises the error of one that cannot be computed."""
    found: list[Facts] = await client.gather(client.map(describe, parts, pure=False), asynchronous=True)
    return found


def _blank_of(part: dict[str, Any]) -> Any:
    """No rows of a partition's columns."""
    return cut_rows(part["data"], 0, 0)


# ---- collections as lists of delayed partitions ----


def _check_data(data: Any) -> None:
    shape = getattr(data, "shape", None)
    if isinstance(data, dd.Series) or (shape is not None and len(shape) != 2):
        raise ValueError(f"Expecting 2 dimensional input, got: {shape}")


def split_fields(fields: dict[str, Any]) -> dict[str, list]:
    """Delayed partitions of every field; array chunks are cut as those of the data."""
    data = fields["data"]
    found = {}
    for name, values in fields.items():
        found[name] = _partitions(align_chunks(values, data), name)
        n, n_data = len(found[name]), len(found["data"])
        if n != n_data:
            raise ValueError(
                f"Partitions between data and {name} are not consistent: {n_data} != {n}. Please try to "
                "repartition/rechunk your data."
            )
    if not found["data"]:
        raise ValueError("There are no partitions: the list is empty.")
    return found


def align_chunks(values: Any, data: Any) -> Any:
    """An array that belongs to the rows of another, with its chunks; anything else as it is."""
    if isinstance(values, da.Array) and isinstance(data, da.Array) and _may_rechunk(values, data):
        return values.rechunk({0: data.chunks[0]})
    return values


def _may_rechunk(values: da.Array, data: da.Array) -> bool:
    """Whether both say how long their chunks are, and say different things of the same number of rows."""
    known = not any(np.isnan(size) for array in (values, data) for size in array.chunks[0])
    return known and values.chunks[0] != data.chunks[0] and values.shape[0] == data.shape[0]


def _partitions(values: Any, name: str) -> list:
    """One delayed object per partition of rows."""
    if isinstance(values, da.Array):
        if values.ndim > 1 and values.numblocks[1] > 1:
            raise ValueError(
                f"Data should be partitioned by row: `{name}` has {values.numblocks[1]} chunks of columns. Make them "
                "one: rechunk({1: -1})."
            )
        return values.to_delayed().ravel().tolist()
    if isinstance(values, dd.DataFrame | dd.Series):
        return list(values.to_delayed())
    if isinstance(values, Delayed):
        return [values]
    if isinstance(values, list | tuple) and all(isinstance(v, Delayed | distributed.Future) for v in values):
        return [dask.delayed(value) for value in values]
    raise TypeError(f"`{name}` must be {_KINDS}, got: {type_name(values)}")
