"""Trees as the page draws them: arrays by node, numbers by the shortest decimals that mean them."""

import math
from typing import Any

import numpy as np

from arboost.boosters.dart import Dart
from arboost.report.numbers import exact, rounded
from arboost.report.subject import Subject
from arboost.tree.model import Tree

_MAX_NODES = 24_000  # of all trees shown: about a megabyte
_MAX_CATEGORIES = 60  # listed for one split


def tree_views(subject: Subject) -> dict[str, Any]:
    """{trees, total, features, note}: the first trees of the model, as many as there is room for."""
    model = subject.booster._learner.model.as_trees()
    shown: list[dict[str, Any]] = []
    n_nodes = 0
    used: set[int] = set()
    round_of = np.repeat(np.arange(len(model.iteration_ptr) - 1), np.diff(model.iteration_ptr)).tolist()
    outputs = subject.output_names()
    for t, tree in enumerate(model.trees):
        n_nodes += tree.n_nodes
        if shown and n_nodes > _MAX_NODES:
            break
        view = _tree_view(subject, tree)
        view["round"] = subject.rounds[0] + (round_of[t] if t < len(round_of) else t)
        view["output"] = "" if tree.has_vectors or subject.n_outputs == 1 else outputs[model.tree_info[t]]
        if isinstance(model, Dart):
            view["scale"] = exact(model.weights[t])
        used |= set(tree.feature[tree.left >= 0].tolist())
        shown.append(view)
    total = len(model.trees)
    note = "" if len(shown) == total else f"The first {len(shown):,} of {total:,} trees; the others would not fit here."
    names = {str(f): subject.names[f] for f in sorted(used)}
    return {"trees": shown, "total": total, "names": names, "outputs": outputs, "note": note}


def _tree_view(subject: Subject, tree: Tree) -> dict[str, Any]:
    """One tree; `value` is the threshold of a split or the weight of a leaf."""
    is_leaf = tree.left < 0
    value = [exact(v) for v in tree.threshold.tolist()]
    for node in np.flatnonzero(~is_leaf).tolist():
        if subject.types[tree.feature[node]] == "int" and math.isfinite(tree.threshold[node]):
            value[node] = math.ceil(tree.threshold[node])
    view: dict[str, Any] = {
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
        "feature": np.where(is_leaf, -1, tree.feature).tolist(),
        "value": value,
        "missing": tree.default_left.tolist(),
        "gain": [rounded(v, 6) for v in tree.gain.tolist()],
        "cover": [rounded(v, 6) for v in tree.cover.tolist()],
    }
    if len(tree.categories_nodes):
        view["sets"] = {str(node): _category_set(subject, tree, i) for i, node in enumerate(tree.categories_nodes)}
    if tree.has_vectors:
        view["vectors"] = {str(n): [exact(v) for v in tree.vectors[n].tolist()] for n in np.flatnonzero(is_leaf)}
    return view


def _category_set(subject: Subject, tree: Tree, i: int) -> list[str]:
    """The categories that go right, the last entry telling of those that are not listed."""
    start, size = int(tree.categories_segments[i]), int(tree.categories_sizes[i])
    feature = int(tree.feature[tree.categories_nodes[i]])
    codes = tree.categories[start : start + min(size, _MAX_CATEGORIES)].tolist()
    found = [subject.value_words(feature, float(code)) for code in codes]
    return found if size <= _MAX_CATEGORIES else [*found, f"… {size - _MAX_CATEGORIES} more"]
