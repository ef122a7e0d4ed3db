"""What trees say about features: importance, split values, and every node as a row of a table.

Functions take a model's trees with the names and types of its features (None: f0, f1, ... and numbers). Numbers are
those that XGBoost reports, to the last bit: sums are float32 in its order of nodes, tables hold what its text prints.
"""

import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from arboost.matrix.statistics import TargetStatistics
from arboost.modelio.dump import TreeView, format_number
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

IMPORTANCE_TYPES = ("weight", "gain", "cover", "total_gain", "total_cover")
_COLUMNS = ("Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Category")
Names = Sequence[str] | None


def importance(trees: Sequence[Tree], names: Names, kind: str = "weight") -> dict[str, float]:
    """Importance of every feature that is split on, in the order of the features.

    Parameters
    ----------
    trees : sequence of Tree
        The model.
    names : sequence of str, optional
        Names of the features.
    kind : str
        "weight": number of splits; "gain" or "cover": their mean; "total_gain" or "total_cover": their sum.
    """
    if kind not in IMPORTANCE_TYPES:
        known = ", ".join(f'"{name}"' for name in IMPORTANCE_TYPES)
        raise XGBoostError(f"Unknown feature importance type, expected one of: {{{known}}}, got: {kind}")
    splits = [_splits_as_xgboost_sums(tree) for tree in trees]
    of_split = [tree.feature[nodes] for tree, nodes in zip(trees, splits, strict=True)]
    # As many sums as features that are split on: a model may claim any number of features.
    used, place = np.unique(np.concatenate([np.zeros(0, np.int32), *of_split]), return_inverse=True)
    count = np.bincount(place, minlength=len(used))
    values: np.ndarray = count
    if kind != "weight":
        parts = [(t.gain if kind.endswith("gain") else t.cover)[n] for t, n in zip(trees, splits, strict=True)]
        values = np.zeros(len(used), np.float32)
        np.add.at(values, place, np.concatenate([np.zeros(0, np.float32), *parts]))
    if kind in ("gain", "cover"):
        values = values / count.astype(np.float32)
    found = zip(used.tolist(), values.tolist(), strict=True)
    return {f"f{f}" if names is None else names[f]: float(v) for f, v in found}


def shared_importance(trees: Sequence[Tree], statistics: TargetStatistics, kind: str) -> dict[str, float]:
    """`importance` of the data's columns, where trees split statistics of them: a combination counts in equal parts."""
    places = [f"f{f}" for f in range(statistics.n_encoded)]
    shares = statistics.shares()[:-1, :-1]

    def total(what: str) -> np.ndarray:
        found = importance(trees, places, what)
        return np.array([found.get(place, 0.0) for place in places]) @ shares

    values = total(f"total_{kind}" if kind in ("gain", "cover") else kind)
    splits = total("weight")
    if kind in ("gain", "cover"):
        values = np.divide(values, splits, out=np.zeros_like(values), where=splits > 0)
    names = statistics.feature_names or [f"f{f}" for f in range(statistics.n_columns)]
    return {name: float(v) for name, v, n in zip(names, values, splits, strict=True) if n > 0}


def _splits_as_xgboost_sums(tree: Tree) -> np.ndarray:
    """Inner nodes in preorder, right before left: float32 sums depend on the order."""
    left, right = tree.left.tolist(), tree.right.tolist()
    splits = []
    stack = [0]
    while stack:
        node = stack.pop()
        if left[node] != -1:
            splits.append(node)
            stack += (left[node], right[node])
    return np.array(splits, np.int64)


def trees_to_dataframe(trees: Sequence[Tree], names: Names, types: Names) -> Any:
    """A pandas DataFrame with a row for every node of every tree, in XGBoost's columns.

    `Gain` of a leaf is its weight, or the list of its weights. `Category` lists the categories that answer yes.
    XGBoost cannot tabulate indicator features ("i"); here their `Split` is NaN.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError("trees_to_dataframe needs pandas, which is not installed: pip install pandas") from error
    rows = [row for t, tree in enumerate(trees) for row in _node_rows(t, TreeView(tree, names, types))]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_COLUMNS)
    frame = pandas.DataFrame({name: list(column) for name, column in zip(_COLUMNS, columns, strict=True)})
    return frame if rows else frame.astype("float64")  # what XGBoost has for a model without trees


def _node_rows(t: int, view: TreeView) -> Iterator[tuple[Any, ...]]:
    """The rows of tree `t`, by node."""
    nan = math.nan
    for node in sorted(node for node, _, closing in view.walk() if not closing):
        cover = _printed(view.cover[node])
        if view.is_leaf(node):
            weight: Any = _printed(view.threshold[node])
            if view.vectors:
                weight = [_printed(value) for value in view.vectors[node]]
            yield t, node, f"{t}-{node}", "Leaf", nan, nan, nan, nan, weight, cover, nan
            continue
        kind = view.type(node)
        split = nan if kind in ("c", "i") else float(view.condition(node))
        children = [f"{t}-{child}" for child in (*view.yes_no(node), view.missing(node))]
        categories = [str(code) for code in view.categories[node]] if kind == "c" else None
        name = view.feature_name(node)
        yield t, node, f"{t}-{node}", name, split, *children, _printed(view.gain[node]), cover, categories


def _printed(value: float) -> float:
    """The number that XGBoost's text shows, which is where its tables come from."""
    return float(format_number(value))


def split_value_histogram(
    trees: Sequence[Tree], names: Names, types: Names, feature: str, bins: int | None = None
) -> np.ndarray:
    """How often each range of values was split at: (n, 2) float64, the upper end of a range and its count.

    Parameters
    ----------
    trees, names, types
        The model.
    feature : str
        The name of the feature; one that is never split on has no rows.
    bins : int, optional
        Number of ranges, at most (and if absent) the number of distinct values; empty ranges are left out.
    """
    views = [TreeView(tree, names, types) for tree in trees]
    splits = [
        (view, node)
        for view in views
        for node, _, closing in view.walk()
        if not closing and not view.is_leaf(node) and view.feature_name(node) == feature
    ]
    if any(view.type(node) == "c" for view, node in splits):
        raise ValueError(f"The split value histogram doesn't support categorical split: {feature} is categorical.")
    values = [float(view.condition(node)) for view, node in splits if view.type(node) != "i"]
    values = [value for value in values if math.isfinite(value)]
    n_bins = len(set(values)) if bins is None else min(bins, len(set(values)))
    counts, edges = np.histogram(values, bins=max(n_bins, 1))
    table = np.column_stack([edges[1:], counts])
    return table[table[:, 1] > 0]


def as_frame(table: np.ndarray) -> Any:
    """A histogram as a pandas DataFrame, or as it is where pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return table
    return pandas.DataFrame(table, columns=["SplitValue", "Count"])
