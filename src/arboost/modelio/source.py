"""Export to Python source: one readable file without dependencies, whose `predict(row)` answers as the model does.

The file holds the trees as lists of nodes and a loop that walks them. A row is a sequence of numbers, one per feature;
None or NaN is missing, a category is its code. The model rounds values to float32 before it compares them; the file
need not, because its bounds lie where that rounding would tip over.
"""

import math
import os

import numpy as np

from arboost.kernels.ops import expectile
from arboost.modelio.ensemble import Ensemble, write_file
from arboost.tree.model import Tree

_BEYOND_FLOAT32 = 2.0**128  # what the next float32 after the largest would be

_HEAD = '''"""A model of {n_trees} trees, exported by arboost: predict(row) -> {answer}.

A row is a sequence of {n_features} numbers, in the order of FEATURES; None or NaN is a missing value, and a category is
its place in CATEGORIES[feature].
"""

import math

FEATURES = {names}
CATEGORIES = {categories}
START = {start}

# A tree is its output and its nodes. A node is a leaf's weight, or
# (feature, bound, left, right, missing): below the bound go left; a bound that is a set of categories sends them right.
TREES = [
'''

_WALK = '''

def find_weight(nodes, row):
    """The weight of the leaf that a row falls into."""
    node = nodes[0]
    while type(node) is tuple:
        feature, bound, left, right, missing = node
        value = row[feature]
        if value is None or value != value:
            node = nodes[missing]
        elif type(bound) is set:
            node = nodes[right if 0 <= value < 16777216 and int(value) in bound else left]
        else:
            node = nodes[left if value < bound else right]
    return node


def predict_margin(row):
    """The sum of the leaf weights for every output."""
    margin = list(START)
    for output, nodes in TREES:
        margin[output] += find_weight(nodes, row)
    return margin


def predict(row):
    """The prediction for one row."""
    margin = predict_margin(row)
    {result}
'''

_EXP = "math.exp(m) if m < 709 else math.inf"
_OF_EACH = {  # output function -> its formula for a margin m
    "identity": "m",
    "sigmoid": "1 / (1 + math.exp(-max(m, -709)))",
    "exp": _EXP,
    "positive": "float(m > 0)",
}
_OF_ALL = {  # output function -> statements
    "softmax": "powers = [math.exp(m - max(margin)) for m in margin]\n    return [p / sum(powers) for p in powers]",
    "argmax": "return float(margin.index(max(margin)))",
    "sorted": "rising = sorted(margin)\n    return [rising[rank] for rank in {ranks}]",
    "expectiles": f"steps = [{expectile.LEAST_GAP} + max(m, 0) + math.log1p(math.exp(-abs(m))) for m in margin[1:]]\n"
    "    return [margin[0] + sum(steps[:i]) for i in range(len(margin))]",
}


def to_python(model: Ensemble, path: str | os.PathLike[str] | None = None) -> str:
    """The source of a module with a function `predict(row)`, also written to `path`."""
    link = model.link
    many = model.n_outputs > 1 and link != "argmax"
    head = _HEAD.format(
        n_trees=len(model.trees),
        answer="a list of numbers, one per output" if many else "a number",
        n_features=model.n_features,
        names=ascii(None if model.feature_names is None else list(model.feature_names)),
        categories=ascii(model.category_lists()),
        start=f"[{', '.join(_literal(value) for value in model.base_margin.tolist())}]",
    )
    pairs = zip(model.trees, model.tree_info, strict=True)
    body = "".join(f"    ({target}, [{_nodes(tree)}]),\n" for tree, target in pairs)
    if link in _OF_ALL:
        result = _OF_ALL[link].replace("{ranks}", str(model.ranks) if link == "sorted" else "")
    elif many:
        result = f"return [{_OF_EACH[link]} for m in margin]"
    else:
        result = f"m = margin[0]\n    return {_OF_EACH[link]}"
    text = head + body + "]\n" + _WALK.replace("{result}", result)
    write_file(path, text.encode())
    return text


def _nodes(tree: Tree) -> str:
    """The nodes of a tree, in its own order."""
    sets = tree.sets
    words = []
    for node in range(tree.n_nodes):
        left, right = int(tree.left[node]), int(tree.right[node])
        if left < 0:
            words.append(_literal(float(tree.threshold[node])))
            continue
        bound = str(set(sets[node].tolist())) if node in sets else _literal(lower_bound(tree.threshold[node]))
        missing = left if tree.default_left[node] else right
        words.append(f"({tree.feature[node]}, {bound}, {left}, {right}, {missing})")
    return ", ".join(words)


def _literal(value: float) -> str:
    """A float as Python reads it back."""
    return repr(value) if math.isfinite(value) else "math.inf" if value > 0 else "-math.inf"


def lower_bound(threshold: np.float32) -> float:
    """The float64 b for which x < b exactly where float32(x) < threshold.

    It is the middle between the threshold and the float32 before it, or just above: a tie rounds to the even one.
    """
    if threshold == -math.inf:
        return -math.inf
    with np.errstate(over="ignore"):
        before = float(np.nextafter(threshold, np.float32(-math.inf)))
    middle = (min(float(threshold), _BEYOND_FLOAT32) + max(before, -_BEYOND_FLOAT32)) / 2
    is_even = int(np.float32(threshold).view(np.uint32)) % 2 == 0
    return middle if is_even else math.nextafter(middle, math.inf)
