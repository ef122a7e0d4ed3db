"""Export to ONNX: one TreeEnsemble node (ai.onnx.ml 5) for the margins, then the loss's output function.

    X (n, F) float32 -> [Floor on categorical columns] -> TreeEnsemble -> + base margin -> link -> prediction

XGBoost's rules hold in the graph: `x < threshold` goes left, NaN to the default side, a listed category right. A
category is the integer part of its code, hence the Floor; codes outside the listed ones are members of nothing.
"""

import importlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.kernels.ops import expectile
from arboost.modelio.ensemble import Ensemble, write_file
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.tree.model import Tree

_OPSETS = {"": 17, "ai.onnx.ml": 5}
_IR_VERSION = 9
_LESS_THAN, _MEMBER = 1, 6  # modes of a node in TreeEnsemble
_SUM = 1  # how TreeEnsemble joins trees


def to_onnx(model: Ensemble, path: str | os.PathLike[str] | None = None) -> Any:
    """Build an onnx.ModelProto, and write it to `path`.

    Its input `X` is float32 (n, n_features), its output `prediction` float32, (n,) for one output and (n, K) for
    several. Names, types and categories of the features are JSON in its metadata.
    """
    try:
        onnx = importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx, which is not installed: pip install onnx") from error
    graph = _Graph(onnx)
    values = _whole_categories(graph, model)
    arrays = _Arrays()
    for tree, target in zip(model.trees, model.tree_info, strict=True):
        arrays.add_tree(tree, target)
    if not model.trees:
        arrays.add_constant_tree(0.0, 0)
    margin = graph.add("TreeEnsemble", [values], domain="ai.onnx.ml", **arrays.attributes(onnx, model.n_outputs))
    start = graph.constant("base_margin", np.asarray(model.base_margin, np.float32).reshape(1, -1))
    margin = graph.add("Add", [margin, start])
    result, n_outputs = _LINKED[model.link](graph, margin, model)
    if n_outputs == 1:
        result = graph.add("Reshape", [result, graph.constant("vector", np.array([-1], np.int64))])
    facts = {
        "feature_names": model.feature_names,
        "feature_types": model.feature_types,
        "categories": model.category_lists(),
    }
    made = graph.model(result, model.n_features, n_outputs, {k: v for k, v in facts.items() if v is not None})
    write_file(path, made.SerializeToString())
    return made


class _Graph:
    """Nodes and constants of a graph under construction; `add` returns the name of the new node's first output."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, op: str, inputs: list[str], n_outputs: int = 1, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self._nodes)}"
        outputs = [name, *(f"{name}_{i}" for i in range(1, n_outputs))]
        self._nodes.append(self._onnx.helper.make_node(op, inputs, outputs, name=name, **attributes))
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name

    def model(self, result: str, n_features: int, n_outputs: int, metadata: dict[str, Any]) -> Any:
        """The finished model, checked by ONNX itself."""
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        self._nodes.append(helper.make_node("Identity", [result], ["prediction"], name="prediction"))
        shape = ["n"] if n_outputs == 1 else ["n", n_outputs]
        inputs = [helper.make_tensor_value_info("X", float32, ["n", n_features])]
        outputs = [helper.make_tensor_value_info("prediction", float32, shape)]
        graph = helper.make_graph(self._nodes, "arboost", inputs, outputs, self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="arboost")
        helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
        self._onnx.checker.check_model(model)
        return model


def _whole_categories(graph: _Graph, model: Ensemble) -> str:
    """The input with categorical columns rounded down, or just the input."""
    categorical, numerical = set[int](), set[int]()
    for tree in model.trees:
        inner = tree.left >= 0
        by_category = np.zeros(tree.n_nodes, bool)
        by_category[tree.categories_nodes] = True
        categorical.update(tree.feature[inner & by_category].tolist())
        numerical.update(tree.feature[inner & ~by_category].tolist())
    if categorical & numerical:
        both = min(categorical & numerical)
        raise XGBoostError(f"Feature {both} has categorical and numerical splits, which cannot be exported to ONNX.")
    if not categorical:
        return "X"
    check_room(4 * model.n_features, f"Exporting {model.n_features} features", "Is the model's num_feature right?")
    is_categorical = np.zeros((1, model.n_features), bool)
    is_categorical[0, list(categorical)] = True
    mask = graph.constant("is_categorical", is_categorical)
    return graph.add("Where", [mask, graph.add("Floor", ["X"]), "X"])


@dataclass
class _Arrays:
    """The attributes of a TreeEnsemble node: its trees' inner nodes and leaves, one tree after the other."""

    roots: list[int] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    when_true: list[int] = field(default_factory=list)
    when_false: list[int] = field(default_factory=list)
    true_is_leaf: list[int] = field(default_factory=list)
    false_is_leaf: list[int] = field(default_factory=list)
    missing_is_true: list[int] = field(default_factory=list)
    members: list[float] = field(default_factory=list)  # of all MEMBER nodes, a NaN after each node's
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add_tree(self, tree: Tree, target: int) -> None:
        """Append a tree."""
        if tree.left[0] < 0:
            self.add_constant_tree(float(tree.threshold[0]), target)
            return
        self.roots.append(len(self.features))
        is_leaf = tree.left < 0
        # inner nodes and leaves are numbered apart, each in the order of the tree's own nodes
        place = np.where(
            is_leaf, len(self.weights) + np.cumsum(is_leaf) - 1, len(self.features) + np.cumsum(~is_leaf) - 1
        )
        inner = np.flatnonzero(~is_leaf)
        by_category = np.zeros(tree.n_nodes, bool)
        by_category[tree.categories_nodes] = True
        by_category = by_category[inner]
        if_true = np.where(by_category, tree.right[inner], tree.left[inner])  # a member goes right
        if_false = np.where(by_category, tree.left[inner], tree.right[inner])
        self.features += tree.feature[inner].tolist()
        self.thresholds += np.where(by_category, 0.0, tree.threshold[inner]).tolist()
        self.modes += np.where(by_category, _MEMBER, _LESS_THAN).tolist()
        self.when_true += place[if_true].tolist()
        self.when_false += place[if_false].tolist()
        self.true_is_leaf += is_leaf[if_true].astype(int).tolist()
        self.false_is_leaf += is_leaf[if_false].astype(int).tolist()
        self.missing_is_true += ((tree.default_left[inner] == 1) != by_category).astype(int).tolist()
        for members in tree.sets.values():
            self.members += [*members.tolist(), np.nan]
        self.weights += tree.threshold[is_leaf].tolist()
        self.targets += [target] * int(is_leaf.sum())

    def add_constant_tree(self, weight: float, target: int) -> None:
        """Append a tree that is one leaf: a node both of whose sides lead to it."""
        self.roots.append(len(self.features))
        leaf = len(self.weights)
        self.features.append(0)
        self.thresholds.append(0.0)
        self.modes.append(_LESS_THAN)
        self.missing_is_true.append(0)
        for side in (self.when_true, self.when_false):
            side.append(leaf)
        for flags in (self.true_is_leaf, self.false_is_leaf):
            flags.append(1)
        self.weights.append(weight)
        self.targets.append(target)

    def attributes(self, onnx: Any, n_targets: int) -> dict[str, Any]:
        """As TreeEnsemble names them."""

        def tensor(name: str, values: list, dtype: type) -> Any:
            return onnx.numpy_helper.from_array(np.array(values, dtype), name)

        found = {
            "n_targets": n_targets,
            "aggregate_function": _SUM,
            "post_transform": 0,
            "tree_roots": self.roots,
            "nodes_featureids": self.features,
            "nodes_splits": tensor("nodes_splits", self.thresholds, np.float32),
            "nodes_modes": tensor("nodes_modes", self.modes, np.uint8),
            "nodes_truenodeids": self.when_true,
            "nodes_falsenodeids": self.when_false,
            "nodes_trueleafs": self.true_is_leaf,
            "nodes_falseleafs": self.false_is_leaf,
            "nodes_missing_value_tracks_true": self.missing_is_true,
            "leaf_targetids": self.targets,
            "leaf_weights": tensor("leaf_weights", self.weights, np.float32),
        }
        if self.members:
            found["membership_values"] = tensor("membership_values", self.members, np.float32)
        return found


def _positive(graph: _Graph, margin: str, model: Ensemble) -> tuple[str, int]:
    above = graph.add("Greater", [margin, graph.constant("zero", np.zeros(1, np.float32))])
    return graph.add("Cast", [above], to=1), model.n_outputs  # 1: float32


def _argmax(graph: _Graph, margin: str, model: Ensemble) -> tuple[str, int]:
    return graph.add("Cast", [graph.add("ArgMax", [margin], axis=1, keepdims=1)], to=1), 1


def _sorted(graph: _Graph, margin: str, model: Ensemble) -> tuple[str, int]:
    """The lowest margin for the lowest quantile, and so on."""
    count = graph.constant("count", np.array([model.n_outputs], np.int64))
    ranks = graph.constant("ranks", np.array(model.ranks, np.int64))
    rising = graph.add("TopK", [margin, count], n_outputs=2, axis=1, largest=0, sorted=1)
    return graph.add("Gather", [rising, ranks], axis=1), model.n_outputs


def _expectiles(graph: _Graph, margin: str, model: Ensemble) -> tuple[str, int]:
    """The first margin, then steps of expectile.LEAST_GAP + ln(1 + e**margin)."""
    is_first = graph.constant("is_first", np.arange(model.n_outputs).reshape(1, -1) == 0)
    gap = graph.constant("least_gap", np.full(1, expectile.LEAST_GAP, np.float32))
    steps = graph.add("Where", [is_first, margin, graph.add("Add", [graph.add("Softplus", [margin]), gap])])
    return graph.add("CumSum", [steps, graph.constant("outputs", np.array(1, np.int64))]), model.n_outputs


# Output function -> (graph, margin, model) -> (its result, number of outputs)
_LINKED: dict[str, Callable[[_Graph, str, Ensemble], tuple[str, int]]] = {
    "identity": lambda graph, margin, model: (margin, model.n_outputs),
    "sigmoid": lambda graph, margin, model: (graph.add("Sigmoid", [margin]), model.n_outputs),
    "exp": lambda graph, margin, model: (graph.add("Exp", [margin]), model.n_outputs),
    "softmax": lambda graph, margin, model: (graph.add("Softmax", [margin], axis=1), model.n_outputs),
    "positive": _positive,
    "argmax": _argmax,
    "sorted": _sorted,
    "expectiles": _expectiles,
}
