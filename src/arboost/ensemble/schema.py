"""The rules of what files of estimators hold beside models: a ready estimator's state (`ensemble/saved.py`), and the
facts of one model's estimator (`ensemble/base.py`).
"""

import math
from typing import Any, NoReturn

import numpy as np

from arboost.modelio import schema
from arboost.runtime.memory import check_room

PATH = "arboost_ensemble.state"
FACTS = "learner.attributes.arboost_estimator"
_TREND_COLUMNS = ("mean", "slope", "low", "high")


def fail(field: str, problem: str) -> NoReturn:
    """Refuse a file, naming the field of the state."""
    schema.fail(f"{PATH}.{field}" if field else PATH, problem)


def fail_fact(field: str, problem: str) -> NoReturn:
    """Refuse a file, naming the fact."""
    schema.fail(f"{FACTS}.{field}", problem)


def check_state(state: Any, n_members: int) -> None:
    """What all estimators keep."""
    if not isinstance(state, dict):
        fail("", "an object was expected")
    for field, kind in (("estimator", str), ("choices", dict), ("has_names", bool)):
        if not isinstance(state.get(field), kind):
            fail(field, f"{kind.__name__} was expected, found {state.get(field)!r:.60}")
    _whole(state, "n_features_in", 1)
    trends: Any = state.get("trends")
    if not isinstance(trends, list) or len(trends) != n_members:
        fail("trends", "one for every member was expected")
    for i, trend in enumerate(trends):
        if trend is not None:
            _check_trend(trend, state["n_features_in"], f"trends[{i}]")


def check_residuals(state: dict[str, Any], n_outputs: int) -> None:
    """What a regressor keeps, whose models have one output: errors of held-out rows, in order."""
    if n_outputs != 1:
        fail("estimator", f"a regressor of models of {n_outputs} outputs")
    residuals = _numbers(state, "residuals")
    if (residuals < 0).any() or (np.diff(residuals) < 0).any():
        fail("residuals", "sizes of errors in ascending order were expected")
    _whole(state, "n_heldout", len(residuals))
    if state["n_heldout"] and not len(residuals):
        fail("residuals", "there are none of the rows held out")


def check_temperature(state: dict[str, Any]) -> None:
    """What a classifier keeps besides its labels."""
    if not _is_number(state.get("temperature")) or state["temperature"] <= 0:
        fail("temperature", f"a positive number was expected, found {state.get('temperature')!r:.60}")


def read_numbers(facts: dict[str, Any], field: str) -> np.ndarray:
    """Numbers among the facts, (n,) float64."""
    values: Any = facts.get(field)
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        fail_fact(field, "a list of numbers was expected")
    return np.array(values, np.float64)


def read_labels(saved: Any, n_outputs: int, path: str, values_name: str = "values") -> np.ndarray:
    """Class labels and their type: each once, and nothing that another type would have cut off."""
    values: Any = saved.get(values_name) if isinstance(saved, dict) else None
    is_plain = isinstance(values, list) and all(isinstance(value, str | int | float | bool) for value in values)
    if not is_plain or not values or len(set(values)) != len(values):
        schema.fail(f"{path}.{values_name}", "a list of different labels was expected")
    if len(values) > 2 if n_outputs == 1 else len(values) != n_outputs:
        schema.fail(f"{path}.{values_name}", f"{len(values)} labels of models of {n_outputs} outputs")
    try:
        dtype = np.dtype(saved["dtype"]) if isinstance(saved.get("dtype"), str) else np.dtype("V1")
    except (SyntaxError, TypeError, ValueError):
        dtype = np.dtype("V1")
    if dtype.kind not in "biufUO":
        schema.fail(f"{path}.dtype", f"no type of labels: {saved.get('dtype')!r:.60}")
    check_room(dtype.itemsize * len(values), f"{len(values)} labels of type {dtype}", "Is the file sound?")
    try:
        labels = np.array(values, dtype=dtype)
    except (OverflowError, ValueError):
        schema.fail(f"{path}.dtype", f"type {dtype} does not hold these labels")
    if labels.tolist() != values:
        schema.fail(f"{path}.dtype", f"type {dtype} does not hold these labels")
    return labels


def _check_trend(trend: Any, n_features: int, path: str) -> None:
    if not isinstance(trend, dict):
        fail(path, "an object was expected")
    columns: Any = trend.get("columns")
    is_known = isinstance(columns, list) and all(type(c) is int and 0 <= c < n_features for c in columns)
    if not is_known or len(set(columns)) != len(columns):
        fail(f"{path}.columns", f"different columns of {n_features} were expected")
    found = {name: _numbers(trend, name, path + ".") for name in _TREND_COLUMNS}
    for name, values in found.items():
        if len(values) != len(columns):
            fail(f"{path}.{name}", f"{len(values)} entries for {len(columns)} columns")
    if (found["low"] > found["high"]).any():
        fail(f"{path}.high", "a low is above its high")
    if not _is_number(trend.get("intercept")):
        fail(f"{path}.intercept", "a number was expected")
    limit: Any = trend.get("limit")
    if not (limit == math.inf or _is_number(limit)) or limit <= 0:
        fail(f"{path}.limit", "a positive number was expected")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _numbers(holder: dict[str, Any], field: str, path: str = "") -> np.ndarray:
    values: Any = holder.get(field)
    if not isinstance(values, list) or not all(map(_is_number, values)):
        fail(path + field, "a list of finite numbers was expected")
    return np.array(values, np.float64)


def _whole(state: dict[str, Any], field: str, least: int) -> None:
    value: Any = state.get(field)
    if type(value) is not int or value < least:
        fail(field, f"a whole number from {least} on was expected, found {value!r:.60}")
