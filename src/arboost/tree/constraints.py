"""What a user says about directions and interactions of features, as arrays; and which features may meet on a path."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

_NOT_A_SUBSET = "Constrained features are not a subset of training data feature names"


def monotone_vector(value: Any, names: Sequence[str] | None, n_features: int) -> np.ndarray:
    """(n_features,) int64: 1 may only rise, -1 may only fall, 0 is free; from a tuple, a string or a dict by name."""
    if isinstance(value, Mapping):
        by_name = dict(value)
        value = [by_name.pop(name, 0) for name in names or ()]
        if by_name:
            raise XGBoostError(f"{_NOT_A_SUBSET}: {', '.join(map(str, by_name))}.")
    elif isinstance(value, str):
        parts = [part.strip() for part in value.strip("()[] ").split(",")]
        value = [part for part in parts if part]
    try:
        directions = [int(direction) for direction in value]
        if any(float(a) != b or b not in (-1, 0, 1) for a, b in zip(value, directions, strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        raise XGBoostError(
            f"Invalid Parameter format for monotone_constraints: expect 1, 0 or -1 per feature but value={value!r}."
        ) from None
    if len(directions) > n_features:
        raise XGBoostError(
            "The size of monotone_constraints should be less or equal to the number of features. It is "
            f"{len(directions)}, there are {n_features}."
        )
    vector = np.zeros(n_features, np.int64)
    vector[: len(directions)] = directions
    return vector


def interaction_sets(value: Any, names: Sequence[str] | None, n_features: int) -> np.ndarray | None:
    """(n_sets, n_features) bool from nested lists of names or numbers, or such a list as a string.

    None where nothing is asked for; an empty list has no set, so that every feature goes alone.
    """
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = json.loads(value)
        except ValueError:
            raise XGBoostError(
                f"Invalid Parameter format for interaction_constraints: expect nested lists such as [[0, 1], [2, 3]] "
                f"but value={value!r}."
            ) from None
    is_nested = isinstance(value, Sequence) and not any(
        isinstance(group, str) or not isinstance(group, Sequence) for group in value
    )
    if not is_nested:
        raise XGBoostError(f"interaction_constraints must be a list of lists of features, got {value!r}.")
    numbers = {name: f for f, name in enumerate(names or ())}
    sets = np.zeros((len(value), n_features), np.bool_)
    for row, group in zip(sets, value, strict=True):
        for feature in group:
            f = numbers.get(feature, feature)
            if isinstance(f, bool) or not isinstance(f, int | np.integer) or not 0 <= f < n_features:
                raise XGBoostError(f"{_NOT_A_SUBSET}: {feature!r} in interaction_constraints.")
            row[f] = True
    return sets


def hold_monotone(tree: Tree, monotone: np.ndarray) -> None:
    """Clip leaf weights that a loss has set itself, so that constrained features push one way only (in place).

    Where a split's sides overlap the wrong way, both end half-way between their means, as bounded Newton weights do.
    Other trees stay as they are.
    """
    if not monotone.any() or tree.left[0] < 0:
        return
    left, right, n = tree.left, tree.right, tree.n_nodes
    mean, cover = tree.threshold.astype(np.float64), np.maximum(tree.cover.astype(np.float64), 1e-300)
    least, largest = mean.copy(), mean.copy()  # of all leaves below
    inner = np.flatnonzero(left >= 0)
    for i in inner[::-1]:  # children come after their parents
        a, b = left[i], right[i]
        mean[i] = (mean[a] * cover[a] + mean[b] * cover[b]) / (cover[a] + cover[b])
        least[i], largest[i] = min(least[a], least[b]), max(largest[a], largest[b])
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    is_set = tree.split_type if len(tree.split_type) else np.zeros(n, np.uint8)
    for i in inner:
        a, b = left[i], right[i]
        lower[a] = lower[b] = lower[i]
        upper[a] = upper[b] = upper[i]
        direction = 0 if is_set[i] else monotone[tree.feature[i]]
        below, above = (a, b) if direction > 0 else (b, a)
        if direction and largest[below] > least[above]:
            middle = min(max((mean[a] + mean[b]) / 2, lower[i]), upper[i])
            upper[below], lower[above] = middle, middle
    leaves = np.flatnonzero(left < 0)
    tree.threshold[leaves] = np.clip(tree.threshold[leaves], lower[leaves], upper[leaves])


class Interactions:
    """Features that a node may split on: those on the way to it, and every set that has all of them."""

    def __init__(self, sets: np.ndarray):
        self._sets = sets
        self._path: dict[int, np.ndarray] = {}

    def allowed(self, nodes: np.ndarray, i: int) -> np.ndarray:
        """(n_features,) bool; the root may split on anything."""
        path = self._features_above(nodes, i)
        if not path.any():
            return np.ones_like(path)
        fitting = self._sets[(self._sets | ~path).all(axis=1)]
        return path | fitting.any(axis=0)

    def forget(self) -> None:
        """A new tree: node numbers mean other nodes."""
        self._path.clear()

    def _features_above(self, nodes: np.ndarray, i: int) -> np.ndarray:
        if i not in self._path:
            path = np.zeros(self._sets.shape[1], np.bool_)
            if i > 0:
                parent = int(nodes["parent"][i])
                path |= self._features_above(nodes, parent)
                path[nodes["feature"][parent]] = True
            self._path[i] = path
        return self._path[i]
