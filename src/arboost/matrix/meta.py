"""What belongs to the rows and features besides the values: label, weight, margin, groups, names.

`MetaInfo` owns float32 copies; every setter checks what it is given, so that the engine need not. Only the groups are
checked later, by `check_groups`, when they are used.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from arboost.matrix import frames, on_device
from arboost.runtime.comm import Runs
from arboost.runtime.errors import XGBoostError

_FEATURE_TYPES = ("int", "float", "i", "q", "c")
_FLOAT_FIELDS = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound", "feature_weights")


class MetaInfo:
    """Label, weight and the rest of a data set of n_rows x n_features; None where the user gave nothing.

    Attributes
    ----------
    label, base_margin
        (n_rows,) or (n_rows, K) float32.
    weight
        (n_rows,) float32, or (n_groups,) where the rows are grouped.
    label_lower_bound, label_upper_bound
        (n_rows,) float32.
    feature_weights
        (n_features,) float32.
    group_ptr
        (n_groups + 1,) int64: rows group_ptr[g] .. group_ptr[g + 1] belong together.
    runs
        Where the rows lie among those of all workers, if not behind those of all lower ranks; they hold whole groups.
    """

    def __init__(self, n_rows: int, n_features: int):
        self.n_rows = n_rows
        self.n_features = n_features
        self.label: np.ndarray | None = None
        self.weight: np.ndarray | None = None
        self.base_margin: np.ndarray | None = None
        self.label_lower_bound: np.ndarray | None = None
        self.label_upper_bound: np.ndarray | None = None
        self.feature_weights: np.ndarray | None = None
        self.group_ptr: np.ndarray | None = None
        self.runs: Runs | None = None
        self._feature_names: list[str] | None = None
        self._feature_types: list[str] | None = None

    @property
    def n_label_columns(self) -> int:
        """How many labels a row has; 0 without labels."""
        return 0 if self.label is None else label_columns(self.label)

    def set_label(self, data: Any) -> None:
        """Labels; of several targets a row may lack some: NaN."""
        label = self._per_row(data, "label", many=True)
        if label is not None:
            may_lack = label.ndim == 2 and label.shape[1] > 1
            if np.isinf(label).any() or (not may_lack and np.isnan(label).any()):
                raise XGBoostError("Label contains NaN, infinity or a value too large.")
        self.label = label

    def set_weight(self, data: Any) -> None:
        weight = _vector(data, "weight")
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise XGBoostError("Weights must be positive values (no NaN, infinity or negative weight).")
        if len(weight) > self.n_rows:
            raise XGBoostError(_weight_message(len(weight), self.n_rows))
        self.weight = weight if len(weight) else None

    def set_base_margin(self, data: Any) -> None:
        self.base_margin = self._per_row(data, "base_margin", many=True)

    def set_label_lower_bound(self, data: Any) -> None:
        self.label_lower_bound = self._per_row(data, "label_lower_bound", many=False)

    def set_label_upper_bound(self, data: Any) -> None:
        self.label_upper_bound = self._per_row(data, "label_upper_bound", many=False)

    def set_feature_weights(self, data: Any) -> None:
        weights = _vector(data, "feature_weights")
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise XGBoostError("Feature weight must be greater than 0 (no NaN, infinity or negative weight).")
        if len(weights) not in (0, self.n_features):
            raise XGBoostError(f"feature_weights has {len(weights)} values, but there are {self.n_features} features.")
        self.feature_weights = weights if len(weights) else None

    def set_group(self, data: Any) -> None:
        """Sizes of the groups, in row order."""
        sizes = _integers(data, "group")
        if (sizes < 0).any():
            raise XGBoostError("Invalid group structure: a group size is negative.")
        self.group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64) if len(sizes) else None

    def set_qid(self, data: Any) -> None:
        """Group id of every row, not decreasing."""
        qid = _integers(data, "qid")
        if (qid[1:] < qid[:-1]).any():
            raise XGBoostError("`qid` must be sorted in non-decreasing order along with data.")
        starts = np.flatnonzero(qid[1:] != qid[:-1]) + 1
        self.group_ptr = np.concatenate([[0], starts, [len(qid)]]).astype(np.int64) if len(qid) else None

    def check_groups(self) -> None:
        """Raise XGBoostError unless the groups are of these rows: they may be set in any order, XGBoost's users do."""
        ptr = self.group_ptr
        if ptr is not None and (ptr[-1] != self.n_rows or (ptr[1:] < ptr[:-1]).any()):
            raise XGBoostError(
                "Invalid query group structure. The number of rows obtained from group doesn't equal to the actual "
                f"number of rows given by data: {ptr[-1]} and {self.n_rows}."
            )

    def set(self, field: str, data: Any) -> None:
        """Sets a field by its XGBoost name."""
        setter = getattr(self, f"set_{field}", None) if field in (*_FLOAT_FIELDS, "group", "qid") else None
        if setter is None:
            raise XGBoostError(f"Unknown key: {field}. The fields are {', '.join(_FLOAT_FIELDS)}, group and qid.")
        setter(data)

    def get(self, field: str) -> np.ndarray:
        """A copy of a field by its XGBoost name; empty if it is not set."""
        if field == "group_ptr":
            return np.zeros(0, np.uint32) if self.group_ptr is None else self.group_ptr.astype(np.uint32)
        if field == "qid":
            raise XGBoostError("Retrieving `qid` is not supported; use `group_ptr` instead.")
        if field not in _FLOAT_FIELDS:
            raise XGBoostError(f"Unknown key: {field}. The fields are {', '.join(_FLOAT_FIELDS)} and group_ptr.")
        values = getattr(self, field)
        return np.zeros(0, np.float32) if values is None else values.copy()

    def row_weight(self) -> np.ndarray | None:
        """Weight of every row (a group's weight counts for each of its rows), or None; refuses a wrong length."""
        weight = self.weight
        if weight is None or len(weight) == self.n_rows:
            return weight
        self.check_groups()
        sizes = np.zeros(0, np.int64) if self.group_ptr is None else np.diff(self.group_ptr)
        if len(weight) != len(sizes):
            raise XGBoostError(_weight_message(len(weight), self.n_rows, len(sizes)))
        return np.repeat(weight, sizes)

    def take(self, rows: np.ndarray) -> "MetaInfo":
        """The same for a selection of rows; groups are dropped."""
        info = MetaInfo(len(rows), self.n_features)
        for field in ("label", "base_margin", "label_lower_bound", "label_upper_bound", "weight"):
            values = getattr(self, field)
            if values is not None and len(values) == self.n_rows:
                setattr(info, field, values[rows])
        info.feature_weights = self.feature_weights
        info._feature_names, info._feature_types = self._feature_names, self._feature_types
        return info

    def select(self, order: Sequence[int]) -> "MetaInfo":
        """The same with the features in another order; the arrays of the rows are shared."""
        info = copy.copy(self)
        for field in ("_feature_names", "_feature_types"):
            values = getattr(self, field)
            setattr(info, field, None if values is None else [values[f] for f in order])
        if self.feature_weights is not None:
            info.feature_weights = self.feature_weights[np.asarray(order)]
        return info

    def widened(self, n_features: int) -> "MetaInfo":
        """The same with more features, of which nothing is told; the arrays of the rows are shared."""
        info = copy.copy(self)
        info.n_features, info._feature_names, info._feature_types, info.feature_weights = n_features, None, None, None
        return info

    @property
    def feature_names(self) -> list[str] | None:
        return None if self._feature_names is None else list(self._feature_names)

    @feature_names.setter
    def feature_names(self, names: Any) -> None:
        names = _strings(names, "feature names")
        if names is not None:
            _check_length("feature names", len(names), self.n_features)
            _check_names(names)
        self._feature_names = names

    @property
    def feature_types(self) -> list[str] | None:
        return None if self._feature_types is None else list(self._feature_types)

    @feature_types.setter
    def feature_types(self, types: Any) -> None:
        types = _strings(types, "feature types")
        if types is not None:
            _check_length("feature types", len(types), self.n_features)
            if not set(types) <= set(_FEATURE_TYPES):
                raise XGBoostError("All feature_types must be one of {int, float, i, q, c}.")
        self._feature_types = types

    def _per_row(self, data: Any, name: str, many: bool) -> np.ndarray | None:
        """float32 (n_rows,), or (n_rows, K) where `many` and K > 1; None if empty."""
        values = _floats(data, name)
        if values.ndim > 2:
            raise XGBoostError(f"Invalid shape: {values.shape} for {name}")
        if not values.size and (self.n_rows or not many or values.ndim < 2):
            return None
        if not values.size:
            return values.reshape(0, values.shape[1])  # no rows, of several targets
        n_columns = values.size // max(1, self.n_rows)
        if self.n_rows == 0 or values.size % self.n_rows or (n_columns > 1 and not many):
            raise XGBoostError(f"Invalid size for `{name}`: {values.shape}. n_samples: {self.n_rows}.")
        return values.reshape(self.n_rows, n_columns) if n_columns > 1 else values.reshape(-1)


def label_columns(label: np.ndarray) -> int:
    """How many labels a row has."""
    return 1 if label.ndim == 1 else label.shape[1]


def _weight_message(n_weights: int, n_rows: int, n_groups: int = 0) -> str:
    groups = f" (or of groups, {n_groups})" if n_groups else ""
    return (
        f"Invalid size of sample weight. Size of weights must equal to number of rows{groups}: {n_weights} weights for "
        f"{n_rows} rows."
    )


def _check_length(what: str, got: int, expected: int) -> None:
    if got != expected:
        raise XGBoostError(
            f"{what} must have the same length as the number of data columns, expected {expected}, got {got}"
        )


def _check_names(names: list[str]) -> None:
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise XGBoostError(f"feature_names must be unique. Duplicates found: {twice}")
    if any(mark in name for name in names for mark in "[]<"):
        raise XGBoostError("feature_names must be string, and may not contain [, ] or <")


def _strings(values: Any, what: str) -> list[str] | None:
    if values is None:
        return None
    if isinstance(values, str):
        return [values]
    try:
        values = list(values)
    except TypeError:
        raise TypeError(f"Expecting a sequence of strings for {what}, got: {type(values)}") from None
    if not all(isinstance(value, str) for value in values):
        raise XGBoostError(f"{what.replace(' ', '_')} must be string, and may not contain [, ] or <")
    return [str(value) for value in values]


def _array(data: Any, name: str) -> np.ndarray:
    """A NumPy array of numbers from an array, list, tuple, data frame, series or anything with `__array__`."""
    if on_device.is_on_device(data):
        array = on_device.host_copy(data)
    elif frames.is_frame(data):
        array = frames.frame_to_array(data, name)
    elif isinstance(data, (list, tuple)) or hasattr(data, "__array__"):
        array = np.asarray(data)
    else:
        raise TypeError(f"Unsupported type for {name}: {type(data)}")
    if array.dtype.kind not in "biufO":
        raise XGBoostError(f"dtype {array.dtype} of {name} is not supported: pass numbers.")
    return array


def _floats(data: Any, name: str) -> np.ndarray:
    array = _array(data, name)
    try:
        with np.errstate(over="ignore"):
            return np.array(array, dtype=np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise XGBoostError(f"{name} cannot be converted to numbers: {error}.") from error


def _vector(data: Any, name: str) -> np.ndarray:
    values = _floats(data, name)
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        raise XGBoostError(f"Invalid shape: {values.shape} for {name}")
    return values.reshape(-1)


def _integers(data: Any, name: str) -> np.ndarray:
    array = _array(data, name).reshape(-1)
    try:
        return array.astype(np.int64)
    except (TypeError, ValueError) as error:
        raise XGBoostError(f"{name} cannot be converted to integers: {error}.") from error
