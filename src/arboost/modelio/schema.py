"""What a model file holds, as plain data, and the rules it must obey.

`SavedModel` is the meeting point of the engine and the files: the engine fills one to save and reads one after
loading. `check_model` states every invariant once; it runs on what is read and on what is written, so a file that we
write is a file that we read. Messages name the field as it is called in the file. No JSON or bytes here.
"""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from arboost.runtime.errors import ModelFileError
from arboost.tree.model import DELETED, NO_PARENT, Tree

FORMAT_VERSION = (3, 2, 0)  # the XGBoost release whose layout we write
MAX_INT32 = 2147483647
MAX_CATEGORY = 1 << 24  # categories travel as float32, exact only below 2^24
MAX_GROUPS = 1 << 20  # outputs of a model without trees; with trees, every output has a tree in the file
CATEGORY_DTYPES = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}  # "type" of integer categories

BOOSTERS = ("gbtree", "dart", "gblinear")
MODEL_PATH = "learner.gradient_booster.model"
PARAM_PATH = "learner.learner_model_param"


def fail(path: str, problem: str) -> NoReturn:
    """Refuse a model file, naming the field."""
    raise ModelFileError(f"{path[:200]}: {problem}" if path else problem)


def read_object(text: str | None, path: str) -> dict[str, Any]:
    """An object that stands as text in an attribute of a file; empty if there is no such attribute."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        fail(path, "an object in JSON was expected")
    return found


@dataclass
class SavedModel:
    """One trained model, as XGBoost's files describe it.

    Attributes
    ----------
    n_features : int
        Number of input features.
    objective : dict
        XGBoost's "objective" object: a "name" and the parameters of the loss, as strings.
    base_score : tuple of float
        One value, or one per output; in the space XGBoost stores it (a probability for a logistic loss).
    trees : list of Tree
        All trees, in the order they were grown.
    tree_info : list of int
        The output that each tree adds to.
    iteration_ptr : list of int
        Trees of round r are `trees[iteration_ptr[r]:iteration_ptr[r + 1]]`.
    num_parallel_tree : int
        Trees per round and output.
    n_classes, n_targets : int
        XGBoost's num_class (0 unless multi-class) and num_target.
    boost_from_average : bool
        True if base_score was estimated from the labels.
    attributes : dict of str to str
        User attributes, best_iteration and best_score among them.
    feature_names, feature_types : list of str or None
        One per feature.
    cats : dict or None
        XGBoost's category container: "enc", "feature_segments", "sorted_idx", as plain lists.
    booster : str
        "gbtree", "dart" or "gblinear".
    tree_weights : list of float
        What the leaves of each tree are multiplied by, in a "dart" model.
    linear_weights : ndarray or None
        Of a "gblinear" model, which has no trees: (n_features + 1) * n_groups float32, the biases last, or none yet.
    linear_rounds : int
        Rounds that made them.
    statistics : dict or None
        Target statistics that make the trees' features from the data's columns: `modelio/statistics.py`.
    version : tuple of int
        The version in the file that was read. Files are always written as `FORMAT_VERSION`.
    """

    n_features: int
    objective: dict[str, Any]
    base_score: tuple[float, ...]
    trees: list[Tree] = field(default_factory=list)
    tree_info: list[int] = field(default_factory=list)
    iteration_ptr: list[int] = field(default_factory=lambda: [0])
    num_parallel_tree: int = 1
    n_classes: int = 0
    n_targets: int = 1
    boost_from_average: bool = True
    attributes: dict[str, str] = field(default_factory=dict)
    feature_names: list[str] | None = None
    feature_types: list[str] | None = None
    cats: dict[str, Any] | None = None
    booster: str = "gbtree"
    tree_weights: list[float] = field(default_factory=list)
    linear_weights: np.ndarray | None = None
    linear_rounds: int = 0
    statistics: dict[str, Any] | None = None
    version: tuple[int, int, int] = FORMAT_VERSION

    @property
    def n_groups(self) -> int:
        """Number of outputs (margin columns)."""
        return max(1, self.n_classes, self.n_targets)

    @property
    def n_rounds(self) -> int:
        """Number of boosted rounds."""
        return len(self.iteration_ptr) - 1 + self.linear_rounds


def check_model(model: SavedModel) -> None:
    """Raise ModelFileError, naming the field, unless every invariant of a model file holds."""
    if model.booster not in BOOSTERS:
        fail("learner.gradient_booster.name", f"the booster '{model.booster}' is none of {', '.join(BOOSTERS)}")
    _check_shape(model)
    _check_tree_weights(model)
    _check_linear(model)
    _check_rounds(model)
    for i, tree in enumerate(model.trees):
        check_tree(tree, model.n_features, f"{MODEL_PATH}.trees[{i}]", model.n_groups)
    if model.cats is not None:
        check_cats(model.cats, model.n_features, f"{MODEL_PATH}.cats")


def _check_tree_weights(model: SavedModel) -> None:
    """Every tree of a dart model has a finite weight; others have none."""
    path, weights = "learner.gradient_booster.weight_drop", model.tree_weights
    wanted = len(model.trees) if model.booster == "dart" else 0
    if len(weights) != wanted:
        fail(path, f"{len(weights)} weights for {wanted} trees of a {model.booster} model")
    if not np.all(np.isfinite(np.asarray(weights, np.float64))):
        fail(path, "a weight that is not a finite number")
    if wanted and any(tree.has_vectors for tree in model.trees):
        fail(f"{MODEL_PATH}.trees", "a dart model has no trees with vectors in their leaves")
    if wanted and any(tree.is_linear for tree in model.trees):
        fail(f"{MODEL_PATH}.trees", "a dart model has no trees with linear leaves")


def _check_linear(model: SavedModel) -> None:
    """A linear model has weights for every feature and output, or none yet; others have no such weights."""
    path, weights = f"{MODEL_PATH}.weights", model.linear_weights
    if (weights is not None) != (model.booster == "gblinear"):
        fail(path, f"linear weights are for gblinear alone, and it must have them; the booster is {model.booster}")
    if weights is None:
        return
    if model.trees:
        fail(f"{MODEL_PATH}.trees", "a gblinear model has no trees")
    n_weights = (model.n_features + 1) * model.n_groups
    if len(weights) not in (0, n_weights):
        fail(path, f"{len(weights)} weights; {model.n_features} features and {model.n_groups} outputs have {n_weights}")
    if not np.all(np.isfinite(weights)):
        fail(path, "a weight that is not a finite number")
    if model.linear_rounds < 0 or (model.linear_rounds and not len(weights)):
        fail(f"{MODEL_PATH}.boosted_rounds", f"{model.linear_rounds} rounds with {len(weights)} weights")


def _check_shape(model: SavedModel) -> None:
    """Counts, base_score and feature names agree with each other."""
    if not 1 <= model.n_features <= MAX_INT32:
        fail(f"{PARAM_PATH}.num_feature", f"{model.n_features} features; a model has 1 to {MAX_INT32}")
    for name, count, lower in (("num_class", model.n_classes, 0), ("num_target", model.n_targets, 1)):
        if not lower <= count <= MAX_INT32:
            fail(f"{PARAM_PATH}.{name}", f"{count} is not between {lower} and {MAX_INT32}")
    if model.n_classes > 1 and model.n_targets > 1:
        fail(f"{PARAM_PATH}.num_target", f"{model.n_targets} targets with {model.n_classes} classes; one must be 1")
    multiclass = model.objective.get("softmax_multiclass_param")
    if isinstance(multiclass, dict) and multiclass.get("num_class") != str(model.n_classes):
        fail(
            "learner.objective.softmax_multiclass_param.num_class",
            f"{multiclass.get('num_class')!r} differs from num_class {model.n_classes} of the model",
        )
    n_groups = model.n_groups
    if len(model.base_score) not in (1, n_groups):
        fail(f"{PARAM_PATH}.base_score", f"{len(model.base_score)} values for a model with {n_groups} outputs")
    if not all(np.isfinite(score) for score in model.base_score):
        fail(f"{PARAM_PATH}.base_score", f"not a finite number: {list(model.base_score)[:8]}")
    for name, values in (("feature_names", model.feature_names), ("feature_types", model.feature_types)):
        if values is not None and len(values) != model.n_features:
            fail(f"learner.{name}", f"{len(values)} entries for {model.n_features} features")


def _check_rounds(model: SavedModel) -> None:
    """Every tree belongs to one round and one output; every round serves all outputs equally."""
    n_trees, n_groups = len(model.trees), model.n_groups
    if model.num_parallel_tree < 1:
        fail(f"{MODEL_PATH}.gbtree_model_param.num_parallel_tree", f"{model.num_parallel_tree} is below 1")
    if len(model.tree_info) != n_trees:
        fail(f"{MODEL_PATH}.tree_info", f"{len(model.tree_info)} entries for {n_trees} trees")
    group_of_tree = np.asarray(model.tree_info, np.int64)
    if n_trees and not (group_of_tree.min() >= 0 and group_of_tree.max() < n_groups):
        fail(f"{MODEL_PATH}.tree_info", f"an output outside 0..{n_groups - 1}")
    path = f"{MODEL_PATH}.iteration_indptr"
    ptr = np.asarray(model.iteration_ptr, np.int64)
    if not len(ptr) or ptr[0] != 0 or ptr[-1] != n_trees or np.any(ptr[1:] <= ptr[:-1]):
        fail(path, f"must rise from 0 to the number of trees, {n_trees}")
    if not n_trees:
        if n_groups > MAX_GROUPS:
            fail(f"{PARAM_PATH}.num_class", f"{n_groups} outputs in a model without trees")
        return
    if model.num_parallel_tree > np.diff(ptr).max():
        path = f"{MODEL_PATH}.gbtree_model_param.num_parallel_tree"
        fail(path, f"{model.num_parallel_tree} exceeds the trees of every round")
    trees_of_round, is_plain = np.diff(ptr), _plain_trees(model, ptr)
    trees_of_round, group_of_tree = trees_of_round[is_plain[ptr[:-1]]], group_of_tree[is_plain]
    if not len(group_of_tree):
        return
    if n_groups > len(group_of_tree) or np.any(trees_of_round % n_groups):
        fail(path, f"a round whose number of trees is not a multiple of the {n_groups} outputs")
    round_of_tree = np.repeat(np.arange(len(trees_of_round)), trees_of_round)
    # at most as many cells as trees, because every round has at least n_groups trees
    counts = np.bincount(round_of_tree * n_groups + group_of_tree, minlength=len(trees_of_round) * n_groups)
    if np.any(counts.reshape(-1, n_groups) != (trees_of_round // n_groups)[:, None]):
        fail(f"{MODEL_PATH}.tree_info", "a round in which not every output has the same number of trees")


def _plain_trees(model: SavedModel, ptr: np.ndarray) -> np.ndarray:
    """Which trees belong to one output; all others of their round do too, or serve all outputs."""
    has_vectors = np.array([tree.has_vectors for tree in model.trees])
    if np.any(np.logical_or.reduceat(has_vectors, ptr[:-1]) != np.logical_and.reduceat(has_vectors, ptr[:-1])):
        fail(f"{MODEL_PATH}.iteration_indptr", "a round of trees with vectors in their leaves and trees without")
    if np.any(np.asarray(model.tree_info)[has_vectors]):
        fail(f"{MODEL_PATH}.tree_info", "a tree with vectors in its leaves must have output 0: it serves all")
    return ~has_vectors


def check_tree(tree: Tree, n_features: int, path: str = "tree", n_targets: int | None = None) -> None:
    """Raise ModelFileError unless the arrays describe one tree that a walk from the root always leaves by a leaf.

    `n_targets` are those of the model, which the vectors in a tree's leaves must have; None: any number.
    """
    n_nodes = tree.n_nodes
    if tree.n_features > n_features:
        fail(f"{path}.tree_param.num_feature", f"{tree.n_features} features in a model of {n_features}")
    if not n_nodes:
        fail(f"{path}.left_children", "a tree without nodes")
    per_node = {
        "right_children": tree.right,
        "parents": tree.parent,
        "split_indices": tree.feature,
        "split_conditions": tree.threshold,
        "default_left": tree.default_left,
        "loss_changes": tree.gain,
        "sum_hessian": tree.cover,
    }
    if len(tree.split_type):
        per_node["split_type"] = tree.split_type
    for name, values in per_node.items():
        if values.shape != (n_nodes,):
            fail(f"{path}.{name}", f"{values.size} entries for {n_nodes} nodes")
    _check_weights(tree, n_targets, path)
    is_leaf = tree.left == -1
    _check_links(tree, is_leaf, path)
    _check_nodes(tree, is_leaf, n_features, path)
    _check_categories(tree, path)
    if tree.is_linear:
        _check_terms(tree, is_leaf, n_features, f"{path}.linear_leaves")


def _check_weights(tree: Tree, n_targets: int | None, path: str) -> None:
    """One weight a node, or one for every target of the model."""
    shape: tuple[int, ...] = (tree.n_nodes,)
    if tree.has_vectors:
        if n_targets not in (None, tree.n_targets):
            fail(f"{path}.tree_param.size_leaf_vector", f"{tree.n_targets} in a model of {n_targets} outputs")
        shape = (tree.n_nodes, tree.n_targets)
        if tree.vectors.shape != shape:
            fail(f"{path}.leaf_weights", f"{tree.vectors.size} entries for {tree.n_nodes} nodes")
        if not np.all(np.isfinite(tree.vectors)):
            fail(f"{path}.leaf_weights", "a weight that is not a finite number")
        if len(tree.categories_nodes) or np.any(tree.split_type):
            fail(f"{path}.categories_nodes", "a tree with vectors in its leaves cannot split by categories")
    if tree.base_weight.shape != shape:
        fail(f"{path}.base_weights", f"{tree.base_weight.size} entries for {tree.n_nodes} nodes")


def _check_links(tree: Tree, is_leaf: np.ndarray, path: str) -> None:
    """Every node but the root and the deleted ones is the child of exactly one node, and there is no cycle."""
    n_nodes = tree.n_nodes
    if np.any((tree.right == -1) != is_leaf):
        fail(f"{path}.right_children", f"node {_first((tree.right == -1) != is_leaf)} has only one child")
    inner = np.flatnonzero(~is_leaf)
    for name, links in (("left_children", tree.left), ("right_children", tree.right)):
        outside = ~is_leaf & ((links < 1) | (links >= n_nodes))
        if np.any(outside):
            fail(f"{path}.{name}", f"node {_first(outside)} has a child outside 1..{n_nodes - 1}")
    children = np.concatenate([tree.left[inner], tree.right[inner]])
    deleted = is_leaf & (tree.feature == DELETED)
    expected = np.where(deleted, 0, 1)
    expected[0] = 0
    seen = np.bincount(children, minlength=n_nodes)
    if np.any(seen != expected):
        node = _first(seen != expected)
        fail(f"{path}.left_children", f"node {node} is the child of {seen[node]} nodes instead of {expected[node]}")
    if deleted[0]:
        fail(f"{path}.split_indices", "the root is marked as deleted")
    if tree.parent[0] != NO_PARENT:
        fail(f"{path}.parents", f"the root's parent must be {NO_PARENT}")
    wrong = tree.parent[children] != np.concatenate([inner, inner])
    if np.any(wrong):
        fail(f"{path}.parents", f"node {children[_first(wrong)]} does not name the node that leads to it")
    outside = deleted & ((tree.parent < 0) | (tree.parent >= n_nodes)) & (tree.parent != NO_PARENT)
    if np.any(outside):
        fail(f"{path}.parents", f"node {_first(outside)} has a parent outside 0..{n_nodes - 1}")
    if np.all(children > np.concatenate([inner, inner])):
        return  # children after parents: no cycle
    ancestor = np.where(deleted, 0, tree.parent)
    ancestor[0] = 0
    for _ in range(n_nodes.bit_length()):  # doubles the number of steps towards the root
        ancestor = ancestor[ancestor]
    if np.any(ancestor):
        fail(f"{path}.left_children", f"node {_first(ancestor != 0)} cannot be reached from the root")


def _check_nodes(tree: Tree, is_leaf: np.ndarray, n_features: int, path: str) -> None:
    """Feature indices, thresholds, leaf weights and default directions are usable."""
    bad = (tree.feature < 0) | (tree.feature >= n_features)
    bad &= ~(is_leaf & (tree.feature == DELETED))
    if np.any(bad):
        node = _first(bad)
        fail(f"{path}.split_indices", f"node {node} has feature {tree.feature[node]}, outside 0..{n_features - 1}")
    # An infinite threshold is legal: XGBoost writes one to part missing from huge values. A leaf weight must be finite.
    bad = np.isnan(tree.threshold) | (is_leaf & np.isinf(tree.threshold))
    if np.any(bad):
        node = _first(bad)
        fail(f"{path}.split_conditions", f"node {node} holds {tree.threshold[node]}, not a usable number")
    if np.any(tree.default_left > 1):
        fail(f"{path}.default_left", f"node {_first(tree.default_left > 1)} is neither 0 nor 1")


def _check_terms(tree: Tree, is_leaf: np.ndarray, n_features: int, path: str) -> None:
    """Terms belong to leaves, in their order; each of a leaf's has a feature of its own, and finite numbers."""
    terms, node = tree.terms, tree.terms["node"].astype(np.int64)
    if tree.has_vectors:
        fail(path, "a leaf with weights for several targets cannot be linear")
    outside = (node < 0) | (node >= tree.n_nodes)
    outside |= ~is_leaf[np.where(outside, 0, node)]
    if np.any(outside):
        fail(f"{path}.node", f"term {_first(outside)} belongs to {node[_first(outside)]}, which is no leaf")
    if np.any(node[1:] < node[:-1]):
        fail(f"{path}.node", "the terms must be in the order of their leaves")
    outside = (terms["feature"] < 0) | (terms["feature"] >= n_features)
    if np.any(outside):
        found = terms["feature"][_first(outside)]
        fail(f"{path}.feature", f"term {_first(outside)} has feature {found}, outside 0..{n_features - 1}")
    if len(np.unique(terms[["node", "feature"]])) != len(terms):
        fail(f"{path}.feature", "a leaf has two terms of one feature")
    for name in ("weight", "mean", "low", "high"):
        if not np.all(np.isfinite(terms[name])):
            fail(f"{path}.{name}", "a value that is not a finite number")
    if np.any(terms["low"] > terms["high"]):
        fail(f"{path}.high", f"term {_first(terms['low'] > terms['high'])} has a low above its high")


def _check_categories(tree: Tree, path: str) -> None:
    """Categorical nodes, and only they, own one sorted run of `categories` each; the runs fill the array in order."""
    categories, nodes, sizes = tree.categories, tree.categories_nodes, tree.categories_sizes
    if np.any(tree.split_type > 1):
        fail(f"{path}.split_type", f"node {_first(tree.split_type > 1)} is neither 0 (numerical) nor 1 (categorical)")
    if not np.array_equal(nodes, np.flatnonzero(tree.split_type)):
        fail(f"{path}.categories_nodes", "must list the categorical nodes of split_type in order")
    if sizes.shape != nodes.shape or np.any((sizes < 1) | (sizes > len(categories))):
        fail(f"{path}.categories_sizes", f"must give each of the {len(nodes)} categorical nodes 1 or more categories")
    ends = np.cumsum(sizes)
    if not np.array_equal(tree.categories_segments, ends - sizes):
        fail(f"{path}.categories_segments", "must be the running sum of categories_sizes")
    if len(categories) != (ends[-1] if len(ends) else 0):
        fail(f"{path}.categories", f"{len(categories)} entries where categories_sizes has other ones")
    if np.any((categories < 0) | (categories >= MAX_CATEGORY)):
        fail(f"{path}.categories", f"a category outside 0..{MAX_CATEGORY - 1}")
    rising = categories[1:] > categories[:-1]
    rising[ends[:-1] - 1] = True
    if not np.all(rising):
        fail(f"{path}.categories", "the categories of one node must rise")


def check_cats(cats: dict[str, Any], n_features: int, path: str) -> list[int]:
    """The category container has an encoding for every feature, and an order of each feature's categories.

    Returns how many categories the features have.
    """
    encodings, order = cats["enc"], np.asarray(cats["sorted_idx"], np.int64)
    if len(encodings) != n_features:
        fail(f"{path}.enc", f"{len(encodings)} entries for {n_features} features")
    counts = [_count_categories(enc, f"{path}.enc[{i}]") for i, enc in enumerate(encodings)]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(cats["feature_segments"], ptr):
        fail(f"{path}.feature_segments", "must be the running sum of the number of categories")
    if len(order) != ptr[-1]:
        fail(f"{path}.sorted_idx", f"{len(order)} entries for {ptr[-1]} categories")
    # sorted by feature and then by place, each feature's part must read 0, 1, 2, ...
    feature_of_entry = np.repeat(np.arange(n_features), counts)
    place = np.arange(len(order)) - ptr[feature_of_entry]
    if not np.array_equal(order[np.lexsort((order, feature_of_entry))], place):
        fail(f"{path}.sorted_idx", "must be a permutation of the categories of each feature")
    return counts


def _count_categories(enc: dict[str, Any], path: str) -> int:
    """Number of categories of one feature: strings are cut from `values` by `offsets`, integers are `values`."""
    if "type" in enc:
        return len(enc["values"])
    offsets, n_bytes = enc["offsets"], len(enc["values"])
    if not offsets:
        if n_bytes:
            fail(f"{path}.offsets", f"empty for {n_bytes} bytes of names")
        return 0
    if offsets[0] != 0 or offsets[-1] != n_bytes or any(a > b for a, b in pairwise(offsets)):
        fail(f"{path}.offsets", f"must rise from 0 to the number of bytes, {n_bytes}")
    return len(offsets) - 1


def _first(mask: np.ndarray) -> int:
    """Index of the first true entry."""
    return int(np.argmax(mask))
