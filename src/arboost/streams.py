"""Predictions of data that comes batch by batch, from Parquet or a `DataIter`: as one array, or to a Parquet file.

Every batch is predicted as a matrix of its own. A prediction depends on its row alone, so the values are those of the
whole table in memory, to the bit, and neither the data nor (in a file) the predictions are ever held whole.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from arboost.matrix import files, parquet
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.iterator import Batch, DataIter, batches_of
from arboost.runtime.errors import XGBoostError

Predict = Callable[[Batch], np.ndarray]
_KINDS = {"output_margin": "margin", "pred_leaf": "leaf", "pred_contribs": "contribution"}


class Model(NamedTuple):
    """What predicts: predict(matrix, **options), and what is to be known of it."""

    predict: Callable[..., np.ndarray]
    options: dict[str, Any]
    feature_names: list[str] | None
    n_features: int
    n_threads: int


def predict(model: Model, data: Any, output: Any) -> Any:
    """The predictions of a stream, or of a matrix: as an array, or in the file `output`, whose path is returned."""
    options = model.options
    if output is not None:
        check_output(output, data)
        if options["pred_interactions"]:
            raise ValueError("Interactions of features are no columns of a table: leave out `output`.")

    def predict_batch(batch: Batch) -> np.ndarray:
        return model.predict(as_matrix(batch, model.n_threads), **options)

    parts: Iterable[np.ndarray]
    if is_stream(data):
        found, n_rows = batches(data, model.feature_names if options["validate_features"] else None)
        if output is None:
            return gather(found, n_rows, predict_batch)
        parts = map(predict_batch, found)
    else:
        parts = [model.predict(data, **options)]
    kind = next((_KINDS[name] for name in _KINDS if options[name]), "prediction")
    features = model.feature_names or [f"f{k}" for k in range(model.n_features)]
    return write(output, parts, partial(column_names, kind, features))


def is_stream(data: Any) -> bool:
    """Whether the data is read batch by batch: a path, a dataset of pyarrow's, or a `DataIter`."""
    return isinstance(data, DataIter) or files.is_source(data)


def batches(data: Any, names: Sequence[str] | None, missing: float | None = None) -> tuple[Iterator[Batch], int | None]:
    """The batches with the columns that a model knows by `names`, and how many rows there are, if that is known."""
    if isinstance(data, DataIter):
        return _some(batches_of(data, missing)()), None
    if files.is_path(data):
        place = files.locate(data)
        if place.format != "parquet":
            raise XGBoostError(
                f"{place.path} is a {place.format} file; predictions are streamed from Parquet. Pass a DMatrix of it."
            )
        data = place.path
    table = parquet.open_table(data)
    return parquet.rows_for_model(table, names, missing), table.n_rows


def _some(found: Iterator[Batch]) -> Iterator[Batch]:
    is_empty = True
    for batch in found:
        is_empty = False
        yield batch
    if is_empty:
        raise XGBoostError("The data iterator must have at least 1 batch.")


def as_matrix(batch: Batch, n_threads: int) -> DMatrix:
    """The rows of a batch, with its names, types and margins."""
    raw = batch.raw
    assert raw is not None
    given = {name: batch.fields[name] for name in ("base_margin",) if batch.fields.get(name) is not None}
    for name, own in (("feature_names", raw.feature_names), ("feature_types", raw.feature_types)):
        if getattr(batch, name) != own:
            given[name] = getattr(batch, name)
    return DMatrix(raw, nthread=n_threads, enable_categorical=True, **given)


def gather(found: Iterable[Batch], n_rows: int | None, predict: Predict) -> np.ndarray:
    """The predictions of all batches, one below the other."""
    if n_rows is None:
        return np.concatenate([predict(batch) for batch in found])
    result, first = None, 0
    for batch in found:
        part = predict(batch)
        if result is None:
            result = np.empty((n_rows, *part.shape[1:]), part.dtype)
        result[first : first + len(part)] = part
        first += len(part)
    assert result is not None
    return result


def gather_with_margins(data: Any, names: Sequence[str] | None, missing: float, base: Any, predict: Any) -> np.ndarray:
    """`gather` for predict(raw, base_margin=), each batch with its share of `base` or with the margins it brings."""
    found, n_rows = batches(data, names, missing)
    margins = None if base is None else np.asarray(base, np.float32)
    first = 0

    def predict_part(batch: Batch) -> np.ndarray:
        nonlocal first
        raw = batch.raw
        assert raw is not None
        raw.feature_names = batch.feature_names
        part = batch.fields.get("base_margin") if margins is None else margins[first : first + raw.n_rows]
        first += raw.n_rows
        return predict(raw, base_margin=part)

    result = gather(found, n_rows, predict_part)
    if margins is not None and len(margins) != first:
        raise XGBoostError(f"base_margin has {len(margins)} values for {first} rows.")
    return result


def write(output: str | os.PathLike, parts: Iterable[np.ndarray], names: Callable[[np.ndarray], list[str]]) -> str:
    """Write the predictions to a Parquet file and return its path; `names` tells those of an array's columns."""
    with parquet.writing(output) as write_rows:
        for part in parts:
            own = names(part)
            table = part.reshape(len(part), len(own))
            write_rows({name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(own)})
    return os.fsdecode(output)


def check_output(output: Any, data: Any) -> None:
    """Refuse before the work what could not be written after it."""
    if not isinstance(output, (str, os.PathLike)):
        raise TypeError(f"`output` is the path of a Parquet file, got {type(output).__name__}.")
    path = os.path.realpath(os.path.expanduser(os.fsdecode(output)))
    if not os.path.isdir(os.path.dirname(path)):
        raise XGBoostError(f"output: there is no folder {os.path.dirname(path)}.")
    if os.path.isdir(path):
        raise XGBoostError(f"output: {path} is a folder; name a file in it.")
    if files.is_path(data) and os.path.realpath(os.path.expanduser(os.fsdecode(data))) in (path, os.path.dirname(path)):
        raise XGBoostError(f"output: {path} would lie among the data that is being read.")


def column_names(kind: str, features: Sequence[str], part: np.ndarray) -> list[str]:
    """Names of the columns of predictions: "margin", or "margin_0", "margin_1", ...; of contributions the features."""
    if kind == "contribution":
        terms = [*features, "(bias)"]
        return terms if part.ndim == 2 else [f"{term}|{k}" for k in range(part.shape[1]) for term in terms]
    n_columns = int(np.prod(part.shape[1:]))
    return [kind] if n_columns == 1 else [f"{kind}_{k}" for k in range(n_columns)]
