"""LightGBM's models: from its text format, which boosters print and files hold."""

import json
import os
from typing import Any, NamedTuple

import numpy as np

from arboost.assemble import assemble
from arboost.booster import Booster
from arboost.convert.drafts import Leaf, Split, above, make_tree
from arboost.matrix.categories import Categories
from arboost.runtime.errors import XGBoostError, type_name
from arboost.tree.model import Tree

_ZERO = 1e-35  # LightGBM's kZeroThreshold: what is no larger counts as zero
_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two are what is missing:
_NOTHING, _ZEROS, _NANS = 0, 1, 2

# objective -> (ours, base_score that stands for a margin of 0)
_OBJECTIVES = {
    "regression": ("reg:squarederror", 0.0),
    "regression_l1": ("reg:absoluteerror", 0.0),
    "huber": ("reg:squarederror", 0.0),
    "fair": ("reg:squarederror", 0.0),
    "mape": ("reg:absoluteerror", 0.0),
    "quantile": ("reg:quantileerror", 0.0),
    "poisson": ("count:poisson", 1.0),
    "gamma": ("reg:gamma", 1.0),
    "tweedie": ("reg:tweedie", 1.0),
    "binary": ("binary:logistic", 0.5),
    "cross_entropy": ("reg:logistic", 0.5),
    "multiclass": ("multi:softprob", 0.0),
    "multiclassova": ("binary:logistic", 0.5),
    "lambdarank": ("rank:ndcg", 0.0),
    "rank_xendcg": ("rank:ndcg", 0.0),
}


class _Text(NamedTuple):
    """A model file, taken apart."""

    head: dict[str, str]
    trees: list[dict[str, str]]
    pandas_categories: list[list[Any]] | None


def from_lightgbm(model: Any) -> Booster:
    """A LightGBM model as a Booster that predicts the same.

    Parameters
    ----------
    model :
        A `lightgbm.Booster`, a fitted estimator of LightGBM's, or the path of a model file (text).

    Returns
    -------
    Booster
        Values of 32 bits take the same way through every tree, so predictions differ by the rounding of leaves alone.
        Zeros that count as missing, categories and their pandas names are kept. `pred_contribs` needs the covers,
        which LightGBM's files have.

    Raises
    ------
    XGBoostError
        For what has no counterpart: `reg_sqrt`, the objective `cross_entropy_lambda`.
    """
    text = _read(_text_of(model))
    head = text.head
    n_features, n_outputs = int(head["max_feature_idx"]) + 1, int(head["num_tree_per_iteration"])
    name, *options = head.get("objective", "custom").split(" ")
    params, base_score, factor = _objective(name, dict(o.partition(":")[::2] for o in options), n_outputs)
    trees = [_tree(fields, n_features) for fields in text.trees]
    if "average_output" in head:  # boosting=rf
        factor *= n_outputs / max(1, len(trees))
    for tree in trees:
        leaf = tree.left < 0
        tree.threshold[leaf] = tree.base_weight[leaf] = tree.base_weight[leaf] * np.float32(factor)
        tree.terms["weight"] *= np.float32(factor)
    rounds = [[(tree, k) for k, tree in enumerate(trees[i : i + n_outputs])] for i in range(0, len(trees), n_outputs)]
    names = head["feature_names"].split(" ")
    # what a feature's values are: [low:high], a list of categories a:b:c, or "none"
    is_categorical = np.array([info[0] not in "[n" for info in head["feature_infos"].split(" ")])
    for tree in trees:
        is_categorical[tree.feature[tree.categories_nodes]] = True
    has_classes = params["objective"].startswith("multi:")
    return assemble(
        params,
        rounds,
        np.full(n_outputs, base_score),
        n_features,
        n_targets=1 if has_classes else n_outputs,
        feature_names=None if names == [f"Column_{i}" for i in range(n_features)] else names,
        feature_types=["c" if c else "float" for c in is_categorical] if is_categorical.any() else None,
        categories=_categories(text.pandas_categories, is_categorical),
    )


def _text_of(model: Any) -> str:
    """The model in LightGBM's text format."""
    if isinstance(model, str | os.PathLike):
        with open(model, encoding="utf-8") as file:
            return file.read()
    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "model_to_string"):
        raise TypeError(f"a model of LightGBM is a Booster, a fitted estimator or a path, got {type_name(model)}")
    return booster.model_to_string()


def _read(text: str) -> _Text:
    """The sections of a model file: lines of name=value, one block for the model and one for each tree."""
    if not text.startswith("tree\n"):
        raise XGBoostError("This is no model file of LightGBM: its first line is not 'tree'.")
    body, _, rest = text.partition("end of trees")
    head, *blocks = body.split("\nTree=")
    _, has_names, pandas = rest.partition("pandas_categorical:")
    names = json.loads(pandas.splitlines()[0]) if has_names else None
    return _Text(_fields(head), [_fields(block) for block in blocks], names or None)


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.splitlines() if line)
    return {name: value for name, _, value in pairs}


def _objective(name: str, options: dict[str, str], n_outputs: int) -> tuple[dict[str, Any], float, float]:
    """(parameters, base_score, factor of the leaves) of an objective of LightGBM's."""
    if name in ("custom", "none", ""):
        return {"objective": "reg:squarederror"}, 0.0, 1.0
    if "sqrt" in options:
        raise XGBoostError("The model was trained with reg_sqrt: no objective here squares its margin.")
    if name not in _OBJECTIVES:
        raise XGBoostError(f"LightGBM's objective {name!r} has no counterpart here.")
    ours, base_score = _OBJECTIVES[name]
    params: dict[str, Any] = {"objective": ours}
    if name == "quantile":
        params["quantile_alpha"] = float(options.get("alpha", 0.9))
    if name == "tweedie":
        params["tweedie_variance_power"] = float(options.get("tweedie_variance_power", 1.5))
    if ours == "multi:softprob":
        params["num_class"] = n_outputs
    return params, base_score, float(options.get("sigmoid", 1.0))


def _numbers(fields: dict[str, str], name: str, dtype: type) -> np.ndarray:
    return np.array(fields[name].split(), dtype) if fields.get(name) else np.zeros(0, dtype)


class _Parts(NamedTuple):
    """The arrays of one tree of LightGBM's."""

    left: list[int]  # below 0: the leaf of that number's complement
    right: list[int]
    feature: list[int]
    threshold: list[float]
    decision: list[int]
    gain: list[float]
    weight: list[float]
    values: list[float]
    leaf_weight: list[float]
    cat_ptr: list[int]
    cat_words: np.ndarray


def _tree(fields: dict[str, str], n_features: int) -> Tree:
    values = _numbers(fields, "leaf_value", np.float64).tolist()
    terms = _terms(fields, values)
    if int(fields["num_leaves"]) == 1:
        return make_tree(Leaf(values[0], terms=terms[0]), n_features)
    n_inner = len(values) - 1
    weights = _numbers(fields, "leaf_weight", np.float64)
    inner_weights = _numbers(fields, "internal_weight", np.float64)
    parts = _Parts(
        _numbers(fields, "left_child", np.int64).tolist(),
        _numbers(fields, "right_child", np.int64).tolist(),
        _numbers(fields, "split_feature", np.int64).tolist(),
        _numbers(fields, "threshold", np.float64).tolist(),
        _numbers(fields, "decision_type", np.int64).tolist(),
        np.resize(_numbers(fields, "split_gain", np.float64), n_inner).tolist(),
        np.resize(inner_weights, n_inner).tolist(),
        values,
        np.resize(weights, len(values)).tolist(),
        _numbers(fields, "cat_boundaries", np.int64).tolist(),
        _numbers(fields, "cat_threshold", np.uint32),
    )
    made: dict[int, Split | Leaf] = {}
    for node in reversed(_from_the_top(parts)):
        left, right = (made[c] if c >= 0 else _leaf(parts, terms, ~c) for c in _children(parts, node))
        made[node] = _split(parts, node, left, right)
    return make_tree(made[0], n_features)


def _leaf(parts: _Parts, terms: list[list[tuple[int, float, float]]], number: int) -> Leaf:
    return Leaf(parts.values[number], parts.leaf_weight[number], terms[number])


def _terms(fields: dict[str, str], values: list[float]) -> list[list[tuple[int, float, float]]]:
    """(feature, weight, mean) of every leaf's terms: const + sum w x there is value + sum w (x - mean) here.

    Any means will do that make up for the difference of const and value.
    """
    if fields.get("is_linear", "0") == "0":
        return [[] for _ in values]
    features, weights = _numbers(fields, "leaf_features", np.int64), _numbers(fields, "leaf_coeff", np.float64)
    ends = np.cumsum(_numbers(fields, "num_features", np.int64))[:-1]
    found = []
    for const, value, f, w in zip(
        _numbers(fields, "leaf_const", np.float64),
        values,
        np.split(features, ends),
        np.split(weights, ends),
        strict=True,
    ):
        square = float(w @ w)
        means = w * ((value - const) / square) if square > 0 else w
        found.append([(int(a), float(b), float(c)) for a, b, c in zip(f, w, means, strict=True) if b != 0])
    return found


def _children(parts: _Parts, node: int) -> tuple[int, int]:
    return parts.left[node], parts.right[node]


def _from_the_top(parts: _Parts) -> list[int]:
    """Inner nodes, parents before their children."""
    order = [0]
    for node in order:
        order += [child for child in _children(parts, node) if child >= 0]
    return order


def _split(parts: _Parts, node: int, left: Split | Leaf, right: Split | Leaf) -> Split:
    decision, threshold, feature = parts.decision[node], parts.threshold[node], parts.feature[node]
    stats: dict[str, Any] = {"gain": parts.gain[node], "cover": parts.weight[node]}
    if decision & _CATEGORICAL:
        # members go left there, all else, missing and unseen, right: here it is the other way round
        first, last = parts.cat_ptr[int(threshold)], parts.cat_ptr[int(threshold) + 1]
        bits = np.unpackbits(parts.cat_words[first:last].view(np.uint8), bitorder="little")
        return Split(feature, 0.0, True, right, left, np.flatnonzero(bits), **stats)
    kind, default_left = decision >> 2 & 3, bool(decision & _DEFAULT_LEFT)
    if kind == _NANS:
        return Split(feature, above(threshold).item(), default_left, left, right, **stats)
    if kind == _NOTHING:  # NaN counts as zero
        return Split(feature, above(threshold).item(), threshold >= 0.0, left, right, **stats)
    return _split_zeros(feature, threshold, left, right, default_left, stats)


def _split_zeros(
    feature: int, threshold: float, left: Split | Leaf, right: Split | Leaf, default_left: bool, stats: dict[str, Any]
) -> Split:
    """Zeros are missing: where their place is not the side that they go to, the line is cut around them.

    Values up to -_ZERO, zeros, the rest up to the threshold and what is above lie on one line, each with its side; of
    neighbours on one side only the last cut stays.
    """
    cuts = sorted({threshold, np.nextafter(-_ZERO, -1.0), _ZERO})
    ends = [*cuts, np.inf]
    zero = left if default_left else right
    sides = [zero if -_ZERO <= end <= _ZERO else left if end <= threshold else right for end in ends]
    node = sides[-1]
    for end, side, following in zip(reversed(cuts), reversed(sides[:-1]), reversed(sides[1:]), strict=True):
        if side is not following:
            node = Split(feature, above(end).item(), side is zero, side, node, **stats)
    assert isinstance(node, Split)  # left and right both have a place on the line
    return _send_missing(node, zero)


def _send_missing(root: Split, zero: Split | Leaf) -> Split:
    """Let NaN reach the side of zeros: a step to the left where it lies there, else on along the chain."""
    node: Any = root
    while isinstance(node, Split) and node is not zero:
        node.default_left = node.left is zero
        node = zero if node.left is zero else node.right
    return root


def _categories(pandas: list[list[Any]] | None, is_categorical: np.ndarray) -> Categories | None:
    """What the codes of categorical features stand for, where a frame of pandas said so."""
    if not pandas:
        return None
    places = np.flatnonzero(is_categorical)
    if len(places) != len(pandas):
        raise XGBoostError(
            f"The model names the categories of {len(pandas)} columns but has {len(places)} categorical features: it "
            "is not clear which is which. Train it on codes."
        )
    values: list[np.ndarray | None] = [None] * len(is_categorical)
    for place, names in zip(places, pandas, strict=True):
        is_text = any(isinstance(name, str) for name in names)
        values[place] = np.array([str(n) for n in names] if is_text else names, object if is_text else None)
    return Categories(values).stored()
