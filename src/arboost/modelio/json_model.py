"""XGBoost's model document: SavedModel <-> nested dict.

`to_dict` and `from_dict` know the field names; both file formats share them. In the dict a typed array is a NumPy
array (UBJSON needs its type); JSON text gives lists, which `from_dict` accepts too. Numbers inside *_param objects are
strings. Files of older XGBoost lack fields that later versions added; the default of each stands where it is read.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from arboost.modelio.json_text import DoubleRoundingError, is_midpoint, nearest_float32, print_floats
from arboost.modelio.linear_leaves import LINEAR_BOOSTER, check_announced, read_terms, write_terms
from arboost.modelio.schema import (
    BOOSTERS,
    CATEGORY_DTYPES,
    FORMAT_VERSION,
    MAX_INT32,
    MODEL_PATH,
    PARAM_PATH,
    SavedModel,
    check_model,
    fail,
)
from arboost.modelio.statistics_schema import check_statistics
from arboost.tree.model import DELETED, NO_PARENT, NO_THRESHOLD, Tree

STATISTICS_BOOSTER = "arboost_target_statistics"  # "name" of a booster whose features come from statistics
_REQUIRED = object()
_MAX_OBJECTIVE_DEPTH = 8
_FLOAT32 = np.finfo(np.float32)
_INTEGER = re.compile(r"-?[0-9]{1,10}")


class _Fields:
    """A JSON object and its path in the file; every getter checks the type and names the field if it is wrong."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            fail(path or "model file", f"expected an object, found {_kind(value)}")
        self._value = value
        self._path = path

    def path(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def get(self, key: str) -> Any:
        if key not in self._value:
            fail(self.path(key), "the field is missing")
        return self._value[key]

    def items(self) -> list[tuple[str, Any]]:
        return list(self._value.items())

    def child(self, key: str) -> "_Fields":
        return _Fields(self.get(key), self.path(key))

    def array(self, key: str) -> list[Any]:
        value = self.get(key)
        if not isinstance(value, list):
            fail(self.path(key), f"expected an array, found {_kind(value)}")
        return value

    def text(self, key: str) -> str:
        return _text(self.get(key), self.path(key))

    def texts(self, key: str) -> list[str] | None:
        """An array of strings; None if absent or empty."""
        if key not in self._value:
            return None
        return [_text(v, f"{self.path(key)}[{i}]") for i, v in enumerate(self.array(key))] or None

    def param(self, key: str, lower: int, default: Any = _REQUIRED) -> int:
        """An integer written as a string, from lower to 2^31 - 1."""
        if default is not _REQUIRED and key not in self._value:
            return default
        text = self.text(key)
        if not _INTEGER.fullmatch(text) or not lower <= int(text) <= MAX_INT32:
            fail(self.path(key), f"expected an integer from {lower} to {MAX_INT32} in a string, found {text[:40]!r}")
        return int(text)

    def ints(self, key: str, dtype: Any, default: np.ndarray | None = None) -> np.ndarray:
        if default is not None and key not in self._value:
            return default
        return _int_array(self.get(key), dtype, self.path(key))

    def floats(self, key: str, finite: bool = True, default: np.ndarray | None = None) -> np.ndarray:
        if default is not None and key not in self._value:
            return default
        return _float_array(self.get(key), self.path(key), finite)


def _kind(value: Any) -> str:
    """The name of a value's type for an error message."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    names |= {float: "a number", type(None): "null", np.ndarray: "an array of numbers"}
    return names.get(type(value), type(value).__name__)


def _text(value: Any, path: str) -> str:
    """A string that can be written as UTF-8."""
    if not isinstance(value, str):
        fail(path, f"expected a string, found {_kind(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            fail(path, f"a string that is not valid Unicode: {error.reason}")
    return value


def _int_array(value: Any, dtype: Any, path: str) -> np.ndarray:
    """A list or array of integers as dtype; booleans are accepted, as XGBoost before 1.6 wrote default_left."""
    if isinstance(value, list):
        kinds = set(map(type, value))
        if not kinds <= {int, bool}:
            fail(path, f"expected integers, found {_kind(next(v for v in value if type(v) not in (int, bool)))}")
        try:
            values = np.array(value, np.int64)
        except OverflowError:
            fail(path, "an integer that does not fit 64 bits")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        values = value
    else:
        fail(path, f"expected an array of integers, found {_kind(value)}")
    limits = np.iinfo(dtype)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        fail(path, f"an integer outside {limits.min}..{limits.max}")
    return values.astype(dtype)


def _float_array(value: Any, path: str, finite: bool) -> np.ndarray:
    """A list or array of numbers as float32."""
    if isinstance(value, list):
        kinds = set(map(type, value))
        if not kinds <= {float, int}:
            fail(path, f"expected numbers, found {_kind(next(v for v in value if type(v) not in (int, float)))}")
        try:
            values = np.array(value, np.float64)
        except OverflowError:
            fail(path, "an integer too large for a number")
        if any(type(value[i]) is float for i in np.flatnonzero(is_midpoint(values))):
            raise DoubleRoundingError
    elif isinstance(value, np.ndarray):
        values = value
    else:
        fail(path, f"expected an array of numbers, found {_kind(value)}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = values.astype(np.float32)
    if finite and not np.all(np.isfinite(result)):
        fail(path, f"entry {int(np.argmin(np.isfinite(result)))} is not a finite number")
    return result


def from_dict(doc: Any) -> SavedModel:
    """Read a model document.

    Parameters
    ----------
    doc : dict
        The parsed JSON or UBJSON of a model saved by XGBoost 1.x to 3.x or by this package.

    Returns
    -------
    SavedModel
        A model that satisfies `check_model`.

    Raises
    ------
    ModelFileError
        Naming the first field that is missing or wrong.
    """
    root = _Fields(doc, "")
    learner = root.child("learner")
    booster = learner.child("gradient_booster")
    name = booster.text("name")
    statistics = None
    if name == STATISTICS_BOOSTER:
        statistics = _read_statistics(booster.child("target_statistics"))
        booster = booster.child("gradient_booster")
        name = booster.text("name")
    is_linear = name == LINEAR_BOOSTER
    if is_linear:
        booster = booster.child("gradient_booster")
        name = booster.text("name")
    if name not in BOOSTERS:
        fail(booster.path("name"), f"the booster {name[:40]!r} is none of {', '.join(BOOSTERS)}")
    tree_weights = booster.floats("weight_drop").tolist() if name == "dart" else []
    if name == "dart":
        booster = booster.child("gbtree")
    param = learner.child("learner_model_param")
    n_features = param.param("num_feature", lower=1)
    n_classes = param.param("num_class", lower=0, default=0)
    n_targets = param.param("num_target", lower=1, default=1)  # absent in old files
    forest = booster.child("model")
    trees: list[Tree] = []
    tree_info: list[int] = []
    num_parallel_tree = 1
    if name != "gblinear":
        trees, num_parallel_tree = _read_trees(forest)
        check_announced(trees, is_linear, forest.path("trees"))
        tree_info = forest.ints("tree_info", np.int32).tolist()
        tree_weights = tree_weights[: len(trees)]  # a model that XGBoost has updated holds those of the old trees too
    model = SavedModel(
        n_features=n_features,
        objective=_read_objective(learner.child("objective")),
        base_score=_read_base_score(param.text("base_score")),
        trees=trees,
        tree_info=tree_info,
        num_parallel_tree=num_parallel_tree,
        n_classes=n_classes,
        n_targets=n_targets,
        boost_from_average=param.param("boost_from_average", lower=0, default=1) != 0,  # absent in 1.x
        attributes=_checked_attributes(learner.child("attributes").items() if "attributes" in learner else []),
        feature_names=learner.texts("feature_names"),  # absent in old files
        feature_types=learner.texts("feature_types"),
        cats=_read_cats(forest.child("cats")) if "cats" in forest else None,  # absent in 1.x and 2.x
        booster=name,
        tree_weights=tree_weights,
        statistics=statistics,
        version=_read_version(root),
    )
    if name == "gblinear":
        model.linear_weights = forest.floats("weights")
        rounds = forest.get("boosted_rounds") if "boosted_rounds" in forest else int(len(model.linear_weights) > 0)
        if type(rounds) is not int or not 0 <= rounds <= MAX_INT32:
            fail(forest.path("boosted_rounds"), f"expected an integer from 0 to {MAX_INT32}, found {rounds!r:.40}")
        model.linear_rounds = rounds
    else:
        model.iteration_ptr = _read_iteration_ptr(forest, model)
    check_model(model)
    if statistics is not None:
        check_statistics(statistics, n_features)
    return model


def _read_statistics(fields: _Fields) -> dict[str, Any]:
    """Our extension: what `modelio/statistics.py` has packed."""
    n_columns = fields.get("num_columns")
    if type(n_columns) is not int or not 1 <= n_columns <= MAX_INT32:
        fail(fields.path("num_columns"), f"expected an integer from 1 to {MAX_INT32}, found {n_columns!r:.40}")
    codes = fields.child("codes")
    groups = [_Fields(group, f"{fields.path('groups')}[{i}]") for i, group in enumerate(fields.array("groups"))]
    return {
        "cats": _read_cats(fields.child("cats")) or {},
        "codes": {"count": codes.ints("count", np.int32), "feature": codes.ints("feature", np.int32)},
        "feature_names": fields.texts("feature_names") or [],
        "feature_types": fields.texts("feature_types") or [],
        "groups": [
            {"features": g.ints("features", np.int32), "keys": g.ints("keys", np.int64), "table": g.floats("table")}
            for g in groups
        ],
        "num_columns": n_columns,
        "priors": fields.floats("priors"),
    }


def _read_version(root: _Fields) -> tuple[int, int, int]:
    """[major, minor, patch]; files without one are old."""
    if "version" not in root:
        return (0, 0, 0)
    version = root.ints("version", np.int32)
    if len(version) != 3 or version.min() < 0:
        fail("version", "expected three non-negative integers")
    major, minor, patch = version.tolist()
    return (major, minor, patch)


def _checked_attributes(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """User attributes, all of them strings."""
    return {_text(k, "learner.attributes"): _text(v, f"learner.attributes.{k}") for k, v in pairs}


def _read_base_score(text: str) -> tuple[float, ...]:
    """A number, or since 3.1 a list of numbers, in a string."""
    path = f"{PARAM_PATH}.base_score"
    try:
        scores = json.loads(text, parse_float=nearest_float32)
    except (ValueError, RecursionError):
        fail(path, f"expected a number or a list of numbers in a string, found {text[:40]!r}")
    values = _float_array(scores if isinstance(scores, list) else [scores], path, finite=True)
    return tuple(values.tolist())


def _read_objective(fields: _Fields) -> dict[str, Any]:
    """The loss and its parameters, unknown ones included."""
    fields.text("name")
    return {k: _plain(v, fields.path(k), _MAX_OBJECTIVE_DEPTH) for k, v in fields.items()}


def _plain(value: Any, path: str, depth: int) -> Any:
    """A value of the objective: strings, integers and objects stay, an array of numbers becomes a list of float32."""
    if depth == 0:
        fail(path, "too many levels")
    if isinstance(value, dict):
        return {_text(k, path): _plain(v, f"{path}.{k}", depth - 1) for k, v in value.items()}
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_INT32):
        return value
    if isinstance(value, (list, np.ndarray)):
        return _float_array(value, path, finite=True).tolist()
    fail(path, f"unexpected {_kind(value)}")


def _read_iteration_ptr(forest: _Fields, model: SavedModel) -> list[int]:
    """First tree of every round; before 2.0 it followed from the number of outputs and num_parallel_tree."""
    if "iteration_indptr" in forest:
        return forest.ints("iteration_indptr", np.int32).tolist()
    n_trees, step = len(model.trees), model.n_groups * model.num_parallel_tree
    if n_trees % step:
        fail(f"{MODEL_PATH}.trees", f"{n_trees} trees do not make whole rounds of {step}")
    return list(range(0, n_trees + 1, step)) if n_trees else [0]


def _read_trees(forest: _Fields) -> tuple[list[Tree], int]:
    """All trees in the order of their ids, and num_parallel_tree."""
    param = forest.child("gbtree_model_param")
    n_trees = param.param("num_trees", lower=0)
    documents = forest.array("trees")
    if len(documents) != n_trees:
        fail(forest.path("trees"), f"{len(documents)} trees where num_trees is {n_trees}")
    trees: list[Tree | None] = [None] * n_trees
    for i, document in enumerate(documents):
        fields = _Fields(document, f"{forest.path('trees')}[{i}]")
        place = fields.get("id") if "id" in fields else i
        if type(place) is not int or not 0 <= place < n_trees or trees[place] is not None:
            fail(fields.path("id"), f"the ids of the trees must be 0 to {n_trees - 1}, each once")
        trees[place] = _read_tree(fields)
    return [tree for tree in trees if tree is not None], param.param("num_parallel_tree", lower=1, default=1)


def _read_tree(fields: _Fields) -> Tree:
    """One tree; lengths and links are checked later by check_tree."""
    param = fields.child("tree_param")
    n_nodes = param.param("num_nodes", lower=1)
    n_targets = param.param("size_leaf_vector", lower=0, default=0)
    left = fields.ints("left_children", np.int32)
    if len(left) != n_nodes:
        fail(fields.path("left_children"), f"{len(left)} entries where num_nodes is {n_nodes}")
    parent = fields.ints("parents", np.int32)
    if len(parent) and parent[0] == -1:
        parent[0] = NO_PARENT
    split_type = fields.ints("split_type", np.uint8, np.zeros(0, np.uint8))  # and categories*: absent in old files
    threshold = fields.floats("split_conditions", finite=False)
    if np.any(split_type):
        if split_type.shape == threshold.shape:
            threshold[(split_type == 1) & np.isnan(threshold)] = NO_THRESHOLD  # 1.x wrote NaN
    else:
        if len(split_type) not in (0, n_nodes):
            fail(fields.path("split_type"), f"{len(split_type)} entries where num_nodes is {n_nodes}")
        split_type = np.zeros(0, np.uint8)
    right = fields.ints("right_children", np.int32)
    base_weight, vectors = fields.floats("base_weights"), np.zeros((0, 0), np.float32)
    zeros = None
    if n_targets > 1:
        base_weight, vectors, right = _read_vectors(fields, n_targets, left, right, base_weight)
        zeros = np.zeros(n_nodes, np.float32)
    tree = Tree(
        left=left,
        right=right,
        parent=parent,
        feature=fields.ints("split_indices", np.int32),
        threshold=threshold,
        default_left=fields.ints("default_left", np.uint8),
        gain=fields.floats("loss_changes", default=zeros),
        cover=fields.floats("sum_hessian", default=zeros),
        base_weight=base_weight,
        n_features=param.param("num_feature", lower=0),
        split_type=split_type,
        categories=fields.ints("categories", np.int32, np.zeros(0, np.int32)),
        categories_nodes=fields.ints("categories_nodes", np.int32, np.zeros(0, np.int32)),
        categories_segments=fields.ints("categories_segments", np.int64, np.zeros(0, np.int64)),
        categories_sizes=fields.ints("categories_sizes", np.int64, np.zeros(0, np.int64)),
        vectors=vectors,
        terms=read_terms(fields),
    )
    n_deleted = _count_deleted(tree)
    if param.param("num_deleted", lower=0, default=n_deleted) != n_deleted:
        fail(param.path("num_deleted"), f"differs from the {n_deleted} nodes that are marked as deleted")
    return tree


def _read_vectors(
    fields: _Fields, n_targets: int, left: np.ndarray, right: np.ndarray, base_weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """base_weight and vectors, (n_nodes, n_targets), and right children.

    In files a leaf's right child is its place among the leaf_weights. XGBoost before 3.2 had none of this, nor gains
    and hessians: a leaf's weights were its base_weights. Where it found splits on fewer targets than there are, the
    base_weights are of those alone: they are no good here, and are read as 0.
    """
    n_nodes = len(left)
    n_leaves = int(np.count_nonzero(left == -1))
    # what the file holds bounds n_targets, and so the memory that is asked for
    is_whole = "leaf_weights" in fields and fields.floats("leaf_weights").size == max(n_leaves, 1) * n_targets
    if is_whole and 0 < base_weight.size < n_nodes * n_targets and base_weight.size % n_nodes == 0:
        base_weight = np.zeros(n_nodes * n_targets, np.float32)
    if base_weight.size != n_nodes * n_targets:
        fail(fields.path("base_weights"), f"{base_weight.size} entries for {n_nodes} nodes of {n_targets} targets")
    base_weight = base_weight.reshape(n_nodes, n_targets)
    if right.shape != left.shape:
        fail(fields.path("right_children"), f"{right.size} entries for {n_nodes} nodes")
    is_leaf = left == -1
    vectors = np.where(is_leaf[:, None], base_weight, np.float32(0))
    if "leaf_weights" in fields:
        weights, place = fields.floats("leaf_weights"), right[is_leaf]
        if weights.size != n_leaves * n_targets:
            fail(fields.path("leaf_weights"), f"{weights.size} entries for {n_leaves} leaves of {n_targets} targets")
        if not np.array_equal(np.sort(place), np.arange(n_leaves)):
            fail(fields.path("right_children"), f"the places of the leaves must be 0 to {n_leaves - 1}, each once")
        vectors[is_leaf] = weights.reshape(n_leaves, n_targets)[place]
    return base_weight, vectors, np.where(is_leaf, np.int32(-1), right)


def _count_deleted(tree: Tree) -> int:
    """Number of nodes that pruning has cut off."""
    return int(np.count_nonzero(tree.feature == DELETED))


def _read_cats(fields: _Fields) -> dict[str, Any] | None:
    """The category container as plain lists; None if empty."""
    encodings = []
    for i, document in enumerate(fields.array("enc")):
        enc = _Fields(document, f"{fields.path('enc')}[{i}]")
        if "type" in enc:
            code = enc.get("type")
            if type(code) is not int or code not in CATEGORY_DTYPES:
                fail(enc.path("type"), f"unknown type of categories {code!r:.40}")
            encodings.append({"type": code, "values": enc.ints("values", CATEGORY_DTYPES[code]).tolist()})
        else:
            offsets, values = enc.ints("offsets", np.int32), enc.ints("values", np.int8)
            encodings.append({"offsets": offsets.tolist(), "values": values.tolist()})
    cats = {
        "enc": encodings,
        "feature_segments": fields.ints("feature_segments", np.int32).tolist(),
        "sorted_idx": fields.ints("sorted_idx", np.int32).tolist(),
    }
    if not any(cats.values()):
        return None
    return cats


def to_dict(model: SavedModel) -> dict[str, Any]:
    """The document of a model, in the layout of XGBoost `FORMAT_VERSION`.

    Parameters
    ----------
    model : SavedModel
        Must satisfy `check_model`; otherwise ModelFileError names the field.

    Returns
    -------
    dict
        Nested dicts and lists of strings and integers; typed arrays are NumPy arrays.
    """
    check_model(model)
    return {
        "learner": {
            "attributes": _checked_attributes(model.attributes.items()),
            "feature_names": _write_texts(model.feature_names, "learner.feature_names"),
            "feature_types": _write_texts(model.feature_types, "learner.feature_types"),
            "gradient_booster": _write_booster(model),
            "learner_model_param": {
                "base_score": print_floats(np.asarray(model.base_score, np.float32)),
                "boost_from_average": str(int(model.boost_from_average)),
                "num_class": str(model.n_classes),
                "num_feature": str(model.n_features),
                "num_target": str(model.n_targets),
            },
            "objective": _write_objective(model.objective),
        },
        "version": list(FORMAT_VERSION),
    }


def _write_booster(model: SavedModel) -> dict[str, Any]:
    """The booster, inside one of a name of our own if it has what XGBoost has not, and so refuses: linear leaves, or
    features that come from statistics."""
    booster = _write_own_booster(model)
    if any(tree.is_linear for tree in model.trees):
        booster = {"gradient_booster": booster, "name": LINEAR_BOOSTER}
    if model.statistics is None:
        return booster
    statistics = {**model.statistics, "cats": _write_cats(model.statistics["cats"] or None)}
    return {"gradient_booster": booster, "name": STATISTICS_BOOSTER, "target_statistics": statistics}


def _write_own_booster(model: SavedModel) -> dict[str, Any]:
    """The trees, and around them the weights of dart; or the weights of a linear model."""
    if model.linear_weights is not None:
        weights = np.asarray(model.linear_weights, np.float32)
        return {"model": {"boosted_rounds": int(model.linear_rounds), "weights": weights}, "name": model.booster}
    trees = {
        "model": {
            "cats": _write_cats(model.cats),
            "gbtree_model_param": {
                "num_parallel_tree": str(model.num_parallel_tree),
                "num_trees": str(len(model.trees)),
            },
            "iteration_indptr": [int(i) for i in model.iteration_ptr],
            "tree_info": [int(group) for group in model.tree_info],
            "trees": [_write_tree(tree, i) for i, tree in enumerate(model.trees)],
        },
        "name": "gbtree",
    }
    if model.booster == "gbtree":
        return trees
    return {"gbtree": trees, "name": model.booster, "weight_drop": [float(w) for w in model.tree_weights]}


def _write_texts(values: list[str] | None, path: str) -> list[str]:
    """A list of strings, each of which UTF-8 can hold."""
    return [_text(value, f"{path}[{i}]") for i, value in enumerate(values or [])]


def _write_objective(objective: dict[str, Any]) -> dict[str, Any]:
    """The objective, its lists of numbers as float32 arrays."""
    return _typed(_read_objective(_Fields(objective, "learner.objective")))


def _typed(value: Any) -> Any:
    """The same value with every list as a float32 array."""
    if isinstance(value, dict):
        return {k: _typed(v) for k, v in value.items()}
    return np.asarray(value, np.float32) if isinstance(value, list) else value


def _write_cats(cats: dict[str, Any] | None) -> dict[str, Any]:
    """The category container with the array types that XGBoost expects."""
    cats = cats or {"enc": [], "feature_segments": [], "sorted_idx": []}
    encodings: list[dict[str, Any]] = []
    for enc in cats["enc"]:
        if "type" in enc:
            values = np.asarray(enc["values"], CATEGORY_DTYPES[enc["type"]])
            encodings.append({"type": int(enc["type"]), "values": values})
        else:
            offsets, values = np.asarray(enc["offsets"], np.int32), np.asarray(enc["values"], np.int8)
            encodings.append({"offsets": offsets, "values": values})
    return {
        "enc": encodings,
        "feature_segments": np.asarray(cats["feature_segments"], np.int32),
        "sorted_idx": np.asarray(cats["sorted_idx"], np.int32),
    }


def _write_tree(tree: Tree, tree_id: int) -> dict[str, Any]:
    """One tree's arrays under XGBoost's names."""
    n_nodes = tree.n_nodes
    split_type = tree.split_type if len(tree.split_type) else np.zeros(n_nodes, np.uint8)
    parent, right, extra = tree.parent, tree.right, {}
    if tree.has_vectors:
        is_leaf = tree.left == -1
        right = np.where(is_leaf, np.cumsum(is_leaf) - 1, tree.right)
        parent = np.where(parent == NO_PARENT, -1, parent)
        extra = {"leaf_weights": tree.vectors[is_leaf].astype(np.float32).ravel()}
    return {
        "base_weights": _finite(tree.base_weight).ravel(),
        "categories": tree.categories.astype(np.int32),
        "categories_nodes": tree.categories_nodes.astype(np.int32),
        "categories_segments": tree.categories_segments.astype(np.int64),
        "categories_sizes": tree.categories_sizes.astype(np.int64),
        "default_left": tree.default_left.astype(np.uint8),
        "id": tree_id,
        **extra,
        "left_children": tree.left.astype(np.int32),
        **write_terms(tree),
        "loss_changes": _finite(tree.gain),
        "parents": parent.astype(np.int32),
        "right_children": right.astype(np.int32),
        "split_conditions": tree.threshold.astype(np.float32),
        "split_indices": tree.feature.astype(np.int32),
        "split_type": split_type.astype(np.uint8),
        "sum_hessian": _finite(tree.cover),
        "tree_param": {
            "num_deleted": str(_count_deleted(tree)),
            "num_feature": str(tree.n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": str(tree.n_targets),
        },
    }


def _finite(values: np.ndarray) -> np.ndarray:
    """Statistics as finite float32, so that an overflowed gain cannot make a file unreadable."""
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if np.all(np.isfinite(values)):
        return values
    return np.nan_to_num(values, nan=0.0, posinf=float(_FLOAT32.max), neginf=float(_FLOAT32.min))
