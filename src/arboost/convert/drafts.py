"""Trees on their way: nodes as objects, until they are numbered."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.kernels.dtypes import LINEAR_TERM
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import NO_PARENT, NO_THRESHOLD, Tree

MAX_NODES = 1 << 22  # of a tree: more can only come from splits that have to be taken apart
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass
class Leaf:
    """A leaf; `value` is a number, or one for each output. `terms` of a linear one: (feature, weight, mean) each."""

    value: Any
    cover: float = 0.0
    terms: Sequence[tuple[int, float, float]] = ()


@dataclass
class Split:
    """An inner node: x < threshold goes left, or x in `categories` goes right."""

    feature: int
    threshold: float
    default_left: bool
    left: "Split | Leaf"
    right: "Split | Leaf"
    categories: np.ndarray | None = None
    gain: float = 0.0
    cover: float = 0.0


_NO_SPLIT = Split(0, 0.0, False, Leaf(0.0), Leaf(0.0))  # what a leaf has in place of one


@dataclass
class _Columns:
    """A tree that is being numbered."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    cover: list[float] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    sets: dict[int, np.ndarray] = field(default_factory=dict)
    terms: list[tuple[int, int, float, float, float, float]] = field(default_factory=list)

    def add(self, node: Split | Leaf, parent: int) -> int:
        """Number a node; its children are not known yet."""
        split = node if isinstance(node, Split) else _NO_SPLIT
        self.left.append(-1)
        self.right.append(-1)
        self.parent.append(parent)
        self.feature.append(split.feature)
        self.threshold.append(split.threshold)
        self.default_left.append(split.default_left)
        self.gain.append(split.gain)
        self.cover.append(node.cover)
        self.values.append(node.value if isinstance(node, Leaf) else 0.0)
        if split.categories is not None:
            self.sets[len(self.left) - 1] = split.categories
        if isinstance(node, Leaf):
            self.terms += [(len(self.left) - 1, *term, -_FLOAT32_MAX, _FLOAT32_MAX) for term in node.terms]
        return len(self.left) - 1


def make_tree(root: Split | Leaf, n_features: int, n_targets: int = 0) -> Tree:
    """The tree below `root`, level by level; `n_targets` > 0: leaves hold so many values."""
    columns = _Columns()
    waiting = deque([(root, columns.add(root, NO_PARENT))])
    while waiting:
        node, number = waiting.popleft()
        if not isinstance(node, Split):
            continue
        for side, child in ((columns.left, node.left), (columns.right, node.right)):
            side[number] = columns.add(child, number)
            waiting.append((child, side[number]))
        if len(columns.left) > MAX_NODES:
            raise XGBoostError(
                f"A tree of the model would have more than {MAX_NODES} nodes: zero_as_missing takes splits apart. "
                "Train it without, on data whose zeros are NaN."
            )
    return _finish(columns, n_features, n_targets)


def _finish(columns: _Columns, n_features: int, n_targets: int) -> Tree:
    left = np.array(columns.left, np.int32)
    leaf = left < 0
    threshold = np.array(columns.threshold, np.float32)
    vectors = np.zeros((0, 0), np.float32)
    if n_targets:
        vectors = np.zeros((len(left), n_targets), np.float32)
        vectors[leaf] = [columns.values[i] for i in np.flatnonzero(leaf)]
        threshold[leaf] = NO_THRESHOLD
        base_weight = vectors.copy()
    else:
        threshold[leaf] = [columns.values[i] for i in np.flatnonzero(leaf)]
        base_weight = np.where(leaf, threshold, np.float32(0))
    tree = Tree(
        left,
        np.array(columns.right, np.int32),
        np.array(columns.parent, np.int32),
        np.array(columns.feature, np.int32),
        threshold,
        np.array(columns.default_left, np.uint8),
        np.array(columns.gain, np.float32),
        np.array(columns.cover, np.float32),
        base_weight,
        n_features,
        vectors=vectors,
        terms=np.array(columns.terms, LINEAR_TERM),
    )
    if columns.sets:
        set_categories(tree, columns.sets)
    return tree


def set_categories(tree: Tree, sets: dict[int, np.ndarray]) -> None:
    """Make nodes, in ascending order, splits by the sets of categories that go right."""
    tree.threshold[list(sets)] = NO_THRESHOLD
    tree.take_sets({node: np.sort(members) for node, members in sets.items()})


def above(thresholds: Any) -> np.ndarray:
    """The smallest float32 above each float64: x <= t and x < above(t) are the same for every x of 32 bits."""
    exact = np.asarray(thresholds, np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
        return np.where(near > exact, near, np.nextafter(near, np.float32(np.inf))).astype(np.float32)
