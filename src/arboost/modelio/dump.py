"""Trees as text, JSON or Graphviz dot, in the words of XGBoost's `get_dump`.

Numbers have nine significant digits. Nodes are visited in preorder by a stack, so depth is no limit. Where XGBoost's
output cannot be read by a machine, ours can: an infinite threshold is `Infinity` in JSON, a leaf's list of weights is
whole there, a backslash in a name is always escaped, and an integer threshold beyond 32 bits keeps its value.
"""

import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

FEATURE_TYPES = ("i", "q", "int", "float", "c")
_DOT_KEYS = ("condition_node_params", "edge", "graph_attrs", "leaf_node_params")
_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\b"): "\\b", ord("\f"): "\\f"}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def dump_tree(
    tree: Tree,
    feature_names: Sequence[str] | None = None,
    feature_types: Sequence[str] | None = None,
    format: str = "text",
    with_stats: bool = False,
) -> str:
    """Print one tree as XGBoost's `get_dump` does.

    Parameters
    ----------
    tree : Tree
        The tree.
    feature_names : sequence of str, optional
        One per feature; f0, f1, ... if absent. `read_feature_map` reads them from a file.
    feature_types : sequence of str, optional
        One per feature: "i" indicator, "int" integer, "q" or "float" a number, "c" categorical. Absent: numbers.
    format : str
        "text", "json" or "dot". "dot:{...}" passes a JSON object with the keys condition_node_params,
        leaf_node_params, graph_attrs and edge (yes_color, no_color), whose values are objects of strings.
    with_stats : bool
        Add gain and cover.

    Returns
    -------
    str
    """
    kind, _, options = format.partition(":")
    if kind not in ("text", "json", "dot"):
        raise XGBoostError(f"Unknown dump format: '{format}'. Expecting 'text', 'json' or 'dot'.")
    view = TreeView(tree, feature_names, feature_types)
    if kind == "text":
        return _dump_text(view, with_stats)
    if kind == "json":
        return _dump_json(view, with_stats)
    return _dump_dot(view, with_stats, _read_dot_options(options))


def dump_trees(
    trees: Sequence[Tree],
    feature_names: Sequence[str] | None,
    feature_types: Sequence[str] | None,
    format: str,
    with_stats: bool,
) -> list[str]:
    """Every tree as `dump_tree` prints it."""
    return [dump_tree(tree, feature_names, feature_types, format, with_stats) for tree in trees]


def write_dump(path: str | os.PathLike[str], trees: Sequence[str], format: str) -> None:
    """Write printed trees to a file: a JSON array, or one tree after the other under a line `booster[i]:`."""
    with draft_of(path) as draft, open(draft, "w", encoding="utf-8") as out:
        if format == "json":
            out.write("[\n" + ",\n".join(trees) + "\n]")
        else:
            out.writelines(f"booster[{i}]:\n{tree}" for i, tree in enumerate(trees))


def read_feature_map(path: str | os.PathLike[str], n_features: int) -> tuple[list[str], list[str]] | None:
    """Read a feature map file: an index, a name and a type for every feature, parted by white space.

    Parameters
    ----------
    path : str or path-like
        `~` stands for the home directory.
    n_features : int
        Number of features of the model, which the file must match.

    Returns
    -------
    tuple of two lists, or None
        Names and types; None if the file holds no feature.
    """
    try:
        with open(os.path.expanduser(os.fspath(path)), encoding="utf-8") as file:
            words = file.read().split()
    except OSError as error:
        raise XGBoostError(f"Opening the feature map {os.fspath(path)} failed: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise XGBoostError(f"The feature map {os.fspath(path)} is not UTF-8 text.") from error
    names: list[str] = []
    types: list[str] = []
    for start in range(0, len(words), 3):
        entry = words[start : start + 3]
        if len(entry) != 3 or entry[0].lstrip("+0") != (str(len(names)) if names else ""):
            raise XGBoostError(
                f"The feature map {os.fspath(path)} must list `index name type` for features 0, 1, 2, ... in order;"
                f" found {' '.join(entry)!r} for feature {len(names)}."
            )
        names.append(entry[1])
        types.append(_checked_type(entry[2]))
    if names and len(names) != n_features:
        raise XGBoostError(f"The feature map {os.fspath(path)} has {len(names)} features, the model {n_features}.")
    return (names, types) if names else None


def _checked_type(feature_type: str) -> str:
    """A feature type that XGBoost knows."""
    if feature_type not in FEATURE_TYPES:
        raise XGBoostError(
            f"unknown feature type {feature_type!r}, use i for indicator and q for quantity, or int, float, c"
        )
    return feature_type


class Term(NamedTuple):
    """One feature's part of a linear leaf: weight * (x - mean), x kept within low and high."""

    feature: int
    weight: float
    mean: float
    low: float
    high: float


class TreeView:
    """A tree with Python scalars, the names of its features, and the children of its tests in XGBoost's words."""

    def __init__(self, tree: Tree, names: Sequence[str] | None, types: Sequence[str] | None) -> None:
        self.left = tree.left.tolist()
        self.right = tree.right.tolist()
        self.default_left = tree.default_left.tolist()
        self.feature = tree.feature.tolist()
        self.threshold = tree.threshold.tolist()
        self.vectors = tree.vectors.tolist()
        self.gain = tree.gain.tolist()
        self.cover = tree.cover.tolist()
        self.terms: dict[int, list[Term]] = {}
        for node, *term in tree.terms.tolist():
            self.terms.setdefault(node, []).append(Term(*term))
        self.categories = {node: members.tolist() for node, members in tree.sets.items()}
        self._names = names
        self._types = types
        used = [f for f, child in zip(self.feature, self.left, strict=True) if child != -1]
        needed = 1 + max([*used, *tree.terms["feature"].tolist()], default=-1)
        for what, values in (("names", names), ("types", types)):
            if values is not None and len(values) < needed:
                raise XGBoostError(f"{len(values)} feature {what} for a tree that uses feature {needed - 1}")

    def is_leaf(self, node: int) -> bool:
        return self.left[node] == -1

    def leaf(self, node: int) -> str:
        """A leaf's weight, or its weights as XGBoost prints them: of more than three, the middle is left out."""
        if not self.vectors:
            return format_number(self.threshold[node])
        words = [format_number(weight) for weight in self.vectors[node]]
        return f"[{', '.join(words if len(words) <= 3 else [*words[:2], '...', words[-1]])}]"

    def linear(self, node: int) -> str:
        """What a linear leaf adds to its weight: `0.5*(f0[1,3]-2)`, where f0 is kept within 1 and 3."""
        parts = []
        for term in self.terms.get(node, ()):
            low, high, weight = map(format_number, (term.low, term.high, term.weight))
            mean = f"{'+' if term.mean < 0 else '-'}{format_number(abs(term.mean))}"
            parts.append(f"{'' if term.weight < 0 else '+'}{weight}*({self.name_of(term.feature)}[{low},{high}]{mean})")
        return "".join(parts)

    def feature_name(self, node: int) -> str:
        """The name of the feature that the node tests, as the user gave it."""
        return self._name_of(self.feature[node])

    def _name_of(self, feature: int) -> str:
        return f"f{feature}" if self._names is None else self._names[feature]

    def name_of(self, feature: int) -> str:
        """The name of a feature as it is printed: escaped."""
        return self._name_of(feature).translate(_ESCAPES)

    def name(self, node: int) -> str:
        """The same as it is printed: escaped."""
        return self.name_of(self.feature[node])

    def type(self, node: int) -> str:
        """The kind of the node's test, which must fit the type of its feature."""
        categorical = node in self.categories
        if self._types is None:
            return "c" if categorical else "q"
        result = _checked_type(self._types[self.feature[node]])
        if (result == "c") != categorical:
            words = ("categorical", "numerical") if categorical else ("numerical", "categorical")
            raise XGBoostError(f"{self.name(node)}: the split is {words[0]} but the type of the feature is {words[1]}")
        return result

    def missing(self, node: int) -> int:
        """The child that missing values go to."""
        return self.left[node] if self.default_left[node] else self.right[node]

    def yes_no(self, node: int) -> tuple[int, int]:
        """The children for a test that holds and one that fails; a listed category goes right."""
        left, right = self.left[node], self.right[node]
        kind = self.type(node)
        if kind == "c":
            return right, left
        if kind == "i":  # the indicator is absent where the value is missing
            missing = self.missing(node)
            return (right if missing == left else left), missing
        return left, right

    def condition(self, node: int, whole: bool = True) -> str:
        """The number (whole for an integer feature) to stay below, or the categories to be one of."""
        kind = self.type(node)
        if kind == "c":
            return ",".join(map(str, self.categories[node]))
        value = self.threshold[node]
        if kind == "int" and whole and math.isfinite(value):
            return str(math.ceil(value))
        return format_number(value)

    def test(self, node: int, whole: bool) -> str:
        """Name and condition as the text format (whole numbers for integer features) and dot print them."""
        kind = self.type(node)
        if kind == "i":
            return self.name(node)
        if kind == "c":
            return f"{self.name(node)}:{{{self.condition(node)}}}"
        return f"{self.name(node)}<{self.condition(node, whole)}"

    def walk(self) -> Iterator[tuple[int, int, bool]]:
        """Every node in preorder with its depth, and inner nodes once more (closing = True) after their children."""
        stack = [(0, 0, False)]
        while stack:
            node, depth, closing = stack.pop()
            yield node, depth, closing
            if not closing and not self.is_leaf(node):
                stack.append((node, depth, True))
                stack += [(child, depth + 1, False) for child in (self.right[node], self.left[node])]


def format_number(value: float) -> str:
    """A float32 with nine significant digits, as a C++ stream prints it."""
    return f"{value:.9g}"


def _dump_text(view: TreeView, with_stats: bool) -> str:
    """One line a node, children indented by tabs; like XGBoost's, the line of an indicator starts without tabs."""
    lines = []
    for node, depth, closing in view.walk():
        if closing:
            continue
        if view.is_leaf(node):
            stats = f",cover={format_number(view.cover[node])}" if with_stats else ""
            linear = f",linear={view.linear(node)}" if node in view.terms else ""
            lines.append(f"{depth * chr(9)}{node}:leaf={view.leaf(node)}{linear}{stats}\n")
            continue
        yes, no = view.yes_no(node)
        indicator = view.type(node) == "i"
        line = f"{'' if indicator else depth * chr(9)}{node}:[{view.test(node, whole=True)}] yes={yes},no={no}"
        if not indicator:
            line += f",missing={view.missing(node)}"
        if with_stats:
            line += f",gain={format_number(view.gain[node])},cover={format_number(view.cover[node])}"
        lines.append(line + "\n")
    return "".join(lines)


def _dump_json(view: TreeView, with_stats: bool) -> str:
    """Nested objects, two spaces a level."""
    parts: list[str] = []
    first_child = True
    for node, depth, closing in view.walk():
        indent = "  " * (depth + 1)
        if closing:
            parts.append(f"\n{indent}]}}")
            first_child = False
            continue
        parts.append(indent if depth == 0 else f"\n{indent}" if first_child else f", \n{indent}")
        if view.is_leaf(node):
            stats = f', "cover": {_json_number(view.cover[node])} ' if with_stats else ""
            weights = view.vectors[node] if view.vectors else [view.threshold[node]]
            weight = ", ".join(map(_json_number, weights))
            weight = f"[{weight}]" if view.vectors else weight
            weight += _json_terms(view, node)
            parts.append(f'{{ "nodeid": {node}, "leaf": {weight} {stats}}}')
            first_child = False
            continue
        parts.append(_json_split(view, node, depth))
        if with_stats:
            parts.append(f', "gain": {_json_number(view.gain[node])}, "cover": {_json_number(view.cover[node])}')
        parts.append(', "children": [')
        first_child = True
    return "".join(parts)


def _json_terms(view: TreeView, node: int) -> str:
    """The terms of a linear leaf, an object each."""
    if node not in view.terms:
        return ""
    terms = [
        f'{{"feature": "{view.name_of(term.feature)}", "weight": {format_number(term.weight)}, '
        f'"mean": {format_number(term.mean)}, "low": {format_number(term.low)}, "high": {format_number(term.high)}}}'
        for term in view.terms[node]
    ]
    return f', "linear": [{", ".join(terms)}]'


def _json_split(view: TreeView, node: int, depth: int) -> str:
    """The opening of an inner node's object."""
    yes, no = view.yes_no(node)
    kind = view.type(node)
    text = f'{{ "nodeid": {node}, "depth": {depth}, "split": "{view.name(node)}", '
    if kind == "i":
        return f'{text}"yes": {yes}, "no": {no} '
    condition = view.condition(node)
    if kind == "c":
        condition = f"[{condition.replace(',', ', ')}]"
    elif math.isinf(view.threshold[node]):
        condition = _json_number(view.threshold[node])
    return f'{text}"split_condition": {condition}, "yes": {yes}, "no": {no}, "missing": {view.missing(node)} '


def _json_number(value: float) -> str:
    """A number that JSON parsers accept."""
    return format_number(value) if math.isfinite(value) else json.dumps(value)


@dataclass
class _DotOptions:
    """Looks of a dot graph."""

    missing_color: str = "#0000FF"
    other_color: str = "#FF0000"
    node_params: str = ""
    leaf_params: str = ""
    graph_attrs: list[tuple[str, str]] = field(default_factory=list)


def _read_dot_options(text: str) -> _DotOptions:
    """Options from the JSON behind `dot:`; single quotes may stand for double ones."""
    options = _DotOptions()
    if not text:
        return options
    try:
        given = json.loads(text.replace("'", '"'))
        groups = {key: dict(sorted(group.items())) for key, group in given.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise XGBoostError(f"Failed to parse graphviz parameters: {text[:200]}") from error
    if not all(isinstance(value, str) for group in groups.values() for value in group.values()):
        raise XGBoostError(f"Failed to parse graphviz parameters, every value must be a string: {text[:200]}")
    unknown = [key for key in groups if key not in _DOT_KEYS]
    if unknown:
        warnings.warn(f"graphviz parameters that are not recognized: {', '.join(unknown)}", UserWarning, stacklevel=4)
    edge = groups.get("edge", {})
    options.missing_color = edge.get("yes_color", options.missing_color)
    options.other_color = edge.get("no_color", options.other_color)
    options.node_params = _attributes(groups.get("condition_node_params", {}))
    options.leaf_params = _attributes(groups.get("leaf_node_params", {}))
    options.graph_attrs = list(groups.get("graph_attrs", {}).items())
    return options


def _attributes(params: dict[str, str]) -> str:
    """Dot attributes of a node."""
    return "".join(f'{key}="{value}" ' for key, value in params.items())


def _dump_dot(view: TreeView, with_stats: bool, options: _DotOptions) -> str:
    """A digraph; the edge that missing values take has its own colour."""
    blocks = ["digraph {\n    graph [ rankdir=TB ]\n"]
    blocks += [f'    graph [ {key}="{value}" ]\n' for key, value in options.graph_attrs]
    for node, _, closing in view.walk():
        if closing:
            continue
        if view.is_leaf(node):
            stats = f"\ncover={format_number(view.cover[node])}" if with_stats else ""
            linear = f"\n{view.linear(node)}" if node in view.terms else ""
            label = f"leaf={view.leaf(node)}{linear}{stats}"
            blocks.append(f'\n    {node} [ label="{label}" {options.leaf_params}]\n')
            continue
        stats = ""
        if with_stats or view.type(node) == "c":  # XGBoost always prints them for a categorical split
            stats = f"\ngain={format_number(view.gain[node])}\ncover={format_number(view.cover[node])}"
        blocks.append(f'\n    {node} [ label="{view.test(node, whole=False)}{stats}" {options.node_params}]\n')
        blocks += [_dot_edge(view, node, child, options) for child in (view.left[node], view.right[node])]
    return "".join(blocks) + "}"


def _dot_edge(view: TreeView, node: int, child: int, options: _DotOptions) -> str:
    """The line from a node to one child; here XGBoost does not swap the words for an indicator."""
    label = "yes" if (child == view.left[node]) != (view.type(node) == "c") else "no"
    if child != view.missing(node):
        return f'    {node} -> {child} [label="{label}" color="{options.other_color}"]\n'
    return f'    {node} -> {child} [label="{label}, missing" color="{options.missing_color}"]\n'
