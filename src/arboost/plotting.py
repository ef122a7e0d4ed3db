"""Pictures: trees, feature importance, learning curves. matplotlib and graphviz are imported when they are needed.

`to_graphviz`, `plot_tree` and `plot_importance` have XGBoost's signatures. `plot_tree` draws with matplotlib alone (no
`dot` program) and in data units of points, letters included, so that a tree keeps its proportions in axes of any size.
"""

import importlib
import json
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.matrix.categories import Categories
from arboost.modelio.dump import TreeView
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.errors import type_name
from arboost.runtime.settings import warn

_INK = "#222222"
_SPLIT = ("#e8eef5", "#39597a")  # fill and border of a split
_POSITIVE, _NEGATIVE, _NEUTRAL = "#bcd8ee", "#f6d3b3", "#f2f2f2"  # leaves, from strong to weak
_LEAF_EDGE = "#555555"
_MISSING_EDGE, _OTHER_EDGE = "#1f4e79", "#8c8c8c"  # apart in greyscale too; the first is also the thicker one
_CURVES = (
    ("#1f4e79", "-"),
    ("#d9822b", "--"),
    ("#3a923a", "-."),
    ("#8b3a62", ":"),
    ("#777777", (0, (5, 1, 1, 1, 1, 1))),
)
_FONT_SIZE = 10.0
_LINE = 1.35 * _FONT_SIZE  # height of a line of text
_MAX_INCHES = 60.0  # a wider tree is drawn smaller: pictures of more than 2**16 pixels cannot be drawn


def _require(name: str, what: str) -> Any:
    """An optional module, or an ImportError that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"You must install {package} to {what}: pip install {package}") from error


def _booster_of(model: Any) -> Booster:
    """The Booster of a Booster or an estimator."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not isinstance(booster, Booster):
        raise ValueError(f"a Booster or an estimator with get_booster() is expected, got {type_name(model)}")
    return booster


# ---- importance ----


@positional_with_warning
def plot_importance(
    booster: Any,
    *,
    ax: Any = None,
    height: float = 0.2,
    xlim: tuple | None = None,
    ylim: tuple | None = None,
    title: str = "Feature importance",
    xlabel: str = "Importance score",
    ylabel: str = "Features",
    fmap: str | os.PathLike[str] = "",
    importance_type: str = "weight",
    max_num_features: int | None = None,
    grid: bool = True,
    show_values: bool = True,
    values_format: str = "{v}",
    **kwargs: Any,
) -> Any:
    """Draw the importance of the features as bars, the largest on top.

    Parameters
    ----------
    booster :
        A Booster, an estimator, or a dict of importances.
    ax :
        Axes to draw in; new ones if absent.
    height :
        Height of a bar.
    xlim, ylim :
        Limits of the axes.
    title, xlabel, ylabel :
        Texts; None for no text.
    fmap :
        A feature map file with names.
    importance_type :
        "weight", "gain", "cover", "total_gain" or "total_cover".
    max_num_features :
        Draw only the most important ones.
    grid :
        Draw a grid.
    show_values, values_format :
        Write values beside the bars; in the format, v stands for the value.
    kwargs :
        Passed to `ax.barh`.

    Returns
    -------
    matplotlib Axes
    """
    pyplot = _require("matplotlib.pyplot", "plot importance")
    if isinstance(booster, dict):
        scores = booster
    elif isinstance(booster, Booster) or hasattr(booster, "get_booster"):
        scores = _booster_of(booster).get_score(fmap=fmap, importance_type=importance_type)
    else:
        raise ValueError("tree must be Booster, XGBModel or dict instance")
    if not scores:
        raise ValueError("Booster.get_score() results in empty: no tree of the model has a split.")
    order = sorted(scores, key=lambda name: scores[name])
    if max_num_features is not None:
        order = order[-max_num_features:]
    values = [scores[name] for name in order]
    own = ax is None
    if own:
        width, least = pyplot.rcParams["figure.figsize"]
        ax = pyplot.subplots(1, 1, figsize=(width, max(least, 0.22 * len(order) + 1.0)))[1]
    places = np.arange(len(order))
    ax.barh(places, values, align="center", height=height, **kwargs)
    texts = [values_format.format(v=value) for value in values] if show_values else []
    for place, value, text in zip(places, values, texts, strict=False):
        note = ax.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", parse_math=False)
        note.set_in_layout(False)  # the x axis makes room for it
        note.set_bbox({"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.8})  # hides the grid behind it
    ax.set_yticks(places)
    ax.set_yticklabels(order, parse_math=False)
    ax.set_ylim(_limits(ylim, (-1, len(order)), "ylim"))
    _write_texts(ax, title, xlabel, ylabel)
    ax.set_axisbelow(True)
    ax.grid(grid, axis="x")
    if own:
        ax.figure.tight_layout()
    ax.set_xlim(_limits(xlim, (0, _room(ax, values, texts)), "xlim"))
    return ax


def _room(ax: Any, values: Sequence[float], texts: Sequence[str]) -> float:
    """Where the x axis must end for the bars, and the texts behind them, to stay inside."""
    letters = _Letters()
    inches = ax.get_position().width * ax.figure.get_size_inches()[0]
    ends = [v / max(1.0 - (letters.width(t) + 8.0) / (72.0 * inches), 0.3) for v, t in zip(values, texts, strict=False)]
    return max([max(values) * 1.1, *ends])


def _limits(given: Any, default: tuple[float, float], name: str) -> tuple[float, float]:
    """The user's limits of an axis, checked, or the default."""
    if given is None:
        return default
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError(f"{name} must be a tuple of 2 elements")
    return given


def _write_texts(ax: Any, title: str | None, xlabel: str | None, ylabel: str | None) -> None:
    for write, text in ((ax.set_title, title), (ax.set_xlabel, xlabel), (ax.set_ylabel, ylabel)):
        if text is not None:
            write(text)


# ---- trees ----


def _chosen_tree(num_trees: int | None, tree_idx: int, n_trees: int) -> int:
    """The number of the tree to show; `num_trees` is its old name."""
    if num_trees is not None:
        warn("The `num_trees` parameter is deprecated, use `tree_idx` instead.", FutureWarning)
        tree_idx = num_trees
    if not -n_trees <= tree_idx < n_trees:
        raise IndexError(f"tree_idx is {tree_idx}, list index out of range: the model has {n_trees} trees")
    return tree_idx


@positional_with_warning
def to_graphviz(
    booster: Any,
    *,
    fmap: str | os.PathLike[str] = "",
    num_trees: int | None = None,
    rankdir: str | None = None,
    yes_color: str | None = None,
    no_color: str | None = None,
    condition_node_params: dict | None = None,
    leaf_node_params: dict | None = None,
    with_stats: bool = False,
    tree_idx: int = 0,
    **kwargs: Any,
) -> Any:
    """Turn one tree into a graph of the Python package graphviz, which notebooks show and `.render()` draws.

    Parameters
    ----------
    booster :
        A Booster or an estimator.
    fmap :
        A feature map file with names.
    num_trees :
        Deprecated name of `tree_idx`.
    rankdir :
        Where the tree grows: "TB", "LR", "BT" or "RL".
    yes_color, no_color :
        Colours of the edge that missing values take and of the other one.
    condition_node_params, leaf_node_params :
        Graphviz attributes of splits and leaves, such as {"shape": "box"}.
    with_stats :
        Add gain and cover.
    tree_idx :
        Which tree.
    kwargs :
        Attributes of the graph.

    Returns
    -------
    graphviz.Source
    """
    graphviz = _require("graphviz", "plot tree")
    model = _booster_of(booster)
    tree_idx = _chosen_tree(num_trees, tree_idx, len(model._learner.model.trees))
    attributes = {**kwargs, **({} if rankdir is None else {"rankdir": rankdir})}
    colors = {"yes_color": yes_color, "no_color": no_color}
    options: dict[str, dict[str, Any]] = {
        "graph_attrs": attributes,
        "edge": {name: color for name, color in colors.items() if color is not None},
        "condition_node_params": condition_node_params or {},
        "leaf_node_params": leaf_node_params or {},
    }
    words = {group: {key: str(value) for key, value in entries.items()} for group, entries in options.items()}
    text = model.get_dump(
        fmap, with_stats, "dot:" + json.dumps({group: entries for group, entries in words.items() if entries})
    )
    return graphviz.Source(text[tree_idx])


@dataclass
class _Box:
    """A node to draw: its words and, once laid out, its place (centre) and size in points."""

    lines: list[str]
    is_leaf: bool
    weight: float = 0.0
    children: tuple[tuple[int, str, bool], ...] = ()  # node, what its edge says, whether missing values take it
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0


@positional_with_warning
def plot_tree(
    booster: Any,
    *,
    fmap: str | os.PathLike[str] = "",
    num_trees: int | None = None,
    rankdir: str | None = None,
    ax: Any = None,
    with_stats: bool = False,
    tree_idx: int = 0,
    **kwargs: Any,
) -> Any:
    """Draw one tree with matplotlib; no other program is needed.

    Rounded boxes are splits, square ones leaves, blue for a positive and orange for a negative weight. The thick edge
    is the one that missing values take.

    Parameters
    ----------
    booster :
        A Booster or an estimator.
    fmap :
        A feature map file with names.
    num_trees :
        Deprecated name of `tree_idx`.
    rankdir :
        Where the tree grows: "TB" (default), "LR", "BT" or "RL".
    ax :
        Axes to draw in; by default a new figure of the size that the tree needs.
    with_stats :
        Add gain and cover.
    tree_idx :
        Which tree.
    kwargs :
        `yes_color`, `no_color`, `condition_node_params` and `leaf_node_params` as in `to_graphviz`; of the last two
        the keys fillcolor, color and fontcolor have an effect.

    Returns
    -------
    matplotlib Axes
    """
    pyplot = _require("matplotlib.pyplot", "plot tree")
    model = _booster_of(booster)
    trees = model._learner.model.trees
    tree = trees[_chosen_tree(num_trees, tree_idx, len(trees))]
    direction = (rankdir or "TB").upper()
    if direction not in ("TB", "BT", "LR", "RL"):
        raise ValueError(f"rankdir must be one of TB, LR, BT, RL, got {rankdir!r}")
    boxes = _boxes(TreeView(tree, *model._named(fmap)), model._learner.categories, with_stats)
    letters = _Letters()
    _measure(boxes, letters)
    width, height = _lay_out(boxes, direction)
    if ax is None:
        scale = min(1.0, _MAX_INCHES * 72.0 / max(width, height))
        size = (max(width * scale / 72.0, 1.0), max(height * scale / 72.0, 1.0))
        figure = pyplot.figure(figsize=size)
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    points = 72.0 * ax.figure.get_size_inches() * (ax.get_position().width, ax.get_position().height)
    _Picture(ax, letters, direction, kwargs, min(1.0, *(points / (width, height)))).draw(boxes)
    ax.set_xlim(0.0, width)
    ax.set_ylim(0.0, height)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _boxes(view: TreeView, categories: Categories | None, with_stats: bool) -> dict[int, _Box]:
    """Words and edges of every node, parents before children."""
    boxes = {}
    for node, _, closing in view.walk():
        if closing:
            continue
        cover = [f"cover {_short(view.cover[node])}"] if with_stats else []
        if view.is_leaf(node):
            weights = view.vectors[node] if view.vectors else [view.threshold[node]]
            strongest = max(weights, key=abs)
            terms = [f"{_short(term.weight)} {view.name_of(term.feature)}" for term in view.terms.get(node, ())]
            boxes[node] = _Box([*map(_short, weights), *terms, *cover], True, strongest)
            continue
        yes, missing = view.yes_no(node)[0], view.missing(node)
        edges = tuple(
            (child, ("yes" if child == yes else "no") + (", missing" if child == missing else ""), child == missing)
            for child in (view.left[node], view.right[node])
        )
        stats = [f"gain {_short(view.gain[node])}", *cover] if with_stats else []
        boxes[node] = _Box([*_test_lines(view, node, categories), *stats], False, children=edges)
    return boxes


def _test_lines(view: TreeView, node: int, categories: Categories | None) -> list[str]:
    """The question of a split, broken into lines; categories are named where the model knows their names."""
    name = view.feature_name(node)
    match view.type(node):
        case "i":
            text = name
        case "c":
            known = None if categories is None else categories.values[view.feature[node]]
            codes = view.categories[node]
            members = codes if known is None else [known[c] if c < len(known) else c for c in codes]
            text = f"{name} in {{{', '.join(map(str, members))}}}"
        case "int" if math.isfinite(view.threshold[node]):
            text = f"{name} <\N{NO-BREAK SPACE}{view.condition(node)}"
        case _:
            text = f"{name} <\N{NO-BREAK SPACE}{_short(view.threshold[node])}"
    return textwrap.wrap(text, 28, max_lines=4, placeholder=" ...}" if view.type(node) == "c" else " ...") or [""]


def _short(value: float) -> str:
    """A number of four digits with a proper minus sign."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


class _Letters:
    """Lines of text as shapes in data units: they grow with the picture. Widths are kept, trees repeat their words."""

    def __init__(self) -> None:
        self._textpath = _require("matplotlib.textpath", "plot")
        self._patches = _require("matplotlib.patches", "plot")
        self._font = _require("matplotlib.font_manager", "plot").FontProperties(size=_FONT_SIZE)
        self._widths: dict[str, float] = {}

    def width(self, text: str, size: float = _FONT_SIZE) -> float:
        """Width of a line in points."""
        if text not in self._widths:
            measure = self._textpath.text_to_path.get_text_width_height_descent
            self._widths[text] = measure(text, self._font, False)[0]
        return self._widths[text] * size / _FONT_SIZE

    def draw(self, ax: Any, x: float, y: float, text: str, size: float, color: str) -> None:
        """A line centred at x, y."""
        origin = (x - self.width(text, size) / 2, y - 0.36 * size)
        shape = self._textpath.TextPath(origin, text.replace("$", r"\$"), size=size, prop=self._font)
        ax.add_artist(self._patches.PathPatch(shape, facecolor=color, linewidth=0, zorder=4))


def _measure(boxes: dict[int, _Box], letters: _Letters) -> None:
    """Give every box the size of its words."""
    for box in boxes.values():
        box.width = max(max(map(letters.width, box.lines)) + 16.0, 54.0)
        box.height = len(box.lines) * _LINE + 8.0


def _lay_out(boxes: dict[int, _Box], direction: str) -> tuple[float, float]:
    """Place every box, children beside each other and as close as their subtrees allow; the size of the picture.

    Across the direction of growth a parent sits between its children (Reingold and Tilford's drawing of trees), along
    it all nodes of one depth are in line.
    """
    upright = direction in ("TB", "BT")
    depth = {0: 0}
    for node, box in boxes.items():
        depth |= {child: depth[node] + 1 for child, _, _ in box.children}
    across = {node: box.width if upright else box.height for node, box in boxes.items()}
    along = np.zeros(max(depth.values()) + 1)  # thickness of every level
    for node, box in boxes.items():
        along[depth[node]] = max(along[depth[node]], box.height if upright else box.width)
    offset = _offsets(boxes, across, gap=14.0 if upright else 8.0)
    centre = {0: 0.0}
    for node, box in boxes.items():
        centre |= {child: centre[node] + offset[child] for child, _, _ in box.children}
    margin, level_gap = 10.0, 44.0 if upright else 84.0  # the gap holds the words of the edges
    first = min(centre[node] - across[node] / 2 for node in boxes) - margin
    breadth = max(centre[node] + across[node] / 2 for node in boxes) + margin - first
    ends = np.cumsum(along + level_gap)
    length = ends[-1] - level_gap + 2 * margin
    for node, box in boxes.items():
        u, v = centre[node] - first, ends[depth[node]] - level_gap - along[depth[node]] / 2 + margin
        if direction in ("TB", "RL"):  # y points up, x to the right
            v = length - v
        box.x, box.y = (u, v) if upright else (v, breadth - u)
    return (breadth, length) if upright else (length, breadth)


def _offsets(boxes: dict[int, _Box], across: dict[int, float], gap: float) -> dict[int, float]:
    """How far every node lies from its parent, so that no two subtrees touch."""
    offset: dict[int, float] = {}
    outline: dict[int, list[tuple[float, float]]] = {}  # of a subtree: where each of its levels begins and ends
    for node in reversed(boxes):  # children before parents
        half = across[node] / 2
        below: list[tuple[float, float]] = []
        if boxes[node].children:
            (left, _, _), (right, _, _) = boxes[node].children
            a, b = outline.pop(left), outline.pop(right)
            shift = max(x[1] - y[0] for x, y in zip(a, b, strict=False)) / 2 + gap / 2
            offset[left], offset[right] = -shift, shift
            a = [(lo - shift, hi - shift) for lo, hi in a]
            b = [(lo + shift, hi + shift) for lo, hi in b]
            below = [(x[0], y[1]) for x, y in zip(a, b, strict=False)]
            below += (a if len(a) > len(b) else b)[len(below) :]
        outline[node] = [(-half, half), *below]
    return offset


@dataclass
class _Picture:
    """Draws boxes and edges; `scale` makes lines thinner in axes that are smaller than the tree.

    Shapes are added as artists: `add_patch` would look for the extrema of every curve of every letter.
    """

    ax: Any
    letters: _Letters
    direction: str
    looks: dict[str, Any]
    scale: float

    def draw(self, boxes: dict[int, _Box]) -> None:
        """All edges, boxes and words."""
        largest = max(abs(box.weight) for box in boxes.values()) or 1.0
        for box in boxes.values():
            for child, words, takes_missing in box.children:
                self._draw_edge(box, boxes[child], words, takes_missing)
            self._draw_box(box, _leaf_color(box.weight / largest))

    def _draw_box(self, box: _Box, leaf_color: tuple[float, ...]) -> None:
        patches = _require("matplotlib.patches", "plot tree")
        given = self.looks.get("leaf_node_params" if box.is_leaf else "condition_node_params") or {}
        fill, edge = (leaf_color, _LEAF_EDGE) if box.is_leaf else _SPLIT
        patch = patches.FancyBboxPatch(
            (box.x - box.width / 2, box.y - box.height / 2),
            box.width,
            box.height,
            boxstyle="square,pad=0" if box.is_leaf else "round,pad=0,rounding_size=5",
            facecolor=given.get("fillcolor", fill),
            edgecolor=given.get("color", edge),
            linewidth=0.9 * self.scale,
            zorder=3,
        )
        self.ax.add_artist(patch)
        first = box.y + (len(box.lines) - 1) / 2 * _LINE
        for i, line in enumerate(box.lines):
            self.letters.draw(self.ax, box.x, first - i * _LINE, line, _FONT_SIZE, given.get("fontcolor", _INK))

    def _draw_edge(self, parent: _Box, child: _Box, words: str, takes_missing: bool) -> None:
        """A smooth line from box to box and its words, nearer to the child, where edges are apart."""
        patches, paths = _require("matplotlib.patches", "plot tree"), _require("matplotlib.path", "plot tree")
        side = np.array({"TB": (0, -1), "BT": (0, 1), "LR": (1, 0), "RL": (-1, 0)}[self.direction])
        start = np.array([parent.x, parent.y]) + side * (parent.width, parent.height) / 2
        end = np.array([child.x, child.y]) - side * (child.width, child.height) / 2
        reach = side * abs(np.dot(end - start, side)) * 0.45
        points = np.array([start, start + reach, end - reach, end])
        given = self.looks.get("yes_color" if takes_missing else "no_color")
        line = patches.PathPatch(
            paths.Path(points, [paths.Path.MOVETO, *[paths.Path.CURVE4] * 3]),
            facecolor="none",
            edgecolor=given or (_MISSING_EDGE if takes_missing else _OTHER_EDGE),
            linewidth=self.scale * (2.0 if takes_missing else 1.1),
            capstyle="round",
            zorder=1,
        )
        self.ax.add_artist(line)
        t = 0.58
        x, y = np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3]) @ points
        size = _FONT_SIZE * 0.8
        width, paper = self.letters.width(words, size) + 4.0, self.ax.figure.get_facecolor()
        self.ax.add_artist(patches.Rectangle((x - width / 2, y - 5.5), width, 11.0, color=paper, linewidth=0, zorder=2))
        self.letters.draw(self.ax, x, y, words, size, _INK)


def _leaf_color(strength: float) -> tuple[float, ...]:
    """From neutral to orange (-1) or blue (1)."""
    colors = _require("matplotlib.colors", "plot tree")
    strong, weak = (np.array(colors.to_rgb(c)) for c in (_POSITIVE if strength > 0 else _NEGATIVE, _NEUTRAL))
    return tuple(weak + (strong - weak) * abs(strength))


# ---- learning curves ----


@dataclass
class Curve:
    """The scores of one data set under one metric, with their spread over the folds of a cross validation."""

    data: str
    scores: np.ndarray
    spread: np.ndarray | None = None


def plot_metric(
    booster: Any,
    metric: str | Sequence[str] | None = None,
    dataset_names: Sequence[str] | None = None,
    ax: Any = None,
    xlim: tuple | None = None,
    ylim: tuple | None = None,
    title: str | None = "Metric during training",
    xlabel: str | None = "Iterations",
    ylabel: str | None = "@metric@",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    best_iteration: int | None = None,
) -> Any:
    """Draw scores over rounds: a panel for every metric, a curve for every data set.

    Parameters
    ----------
    booster :
        The dict that `train` filled in (`evals_result`), an estimator that was fitted with an `eval_set`, or what `cv`
        returned, whose curves get a band of one standard deviation.
    metric :
        Which metrics; all if absent.
    dataset_names :
        Which data sets; all if absent.
    ax :
        Axes to draw in, as many as there are metrics; new ones if absent.
    xlim, ylim :
        Limits of the axes.
    title, xlabel, ylabel :
        Texts; None for no text, @metric@ stands for the name of the metric.
    figsize, dpi :
        Size of a new figure in inches, and its resolution.
    grid :
        Draw a grid.
    best_iteration :
        The round to mark; an estimator that stopped early knows it by itself.

    Returns
    -------
    matplotlib Axes, or an array of them if there are several metrics
    """
    pyplot = _require("matplotlib.pyplot", "plot metric")
    panels = _chosen_curves(read_curves(booster), metric, dataset_names)
    if best_iteration is None:
        best_iteration = getattr(booster, "best_iteration", None)
    if ax is None:
        default = (6.4 * min(len(panels), 3), 4.8)
        axes = pyplot.subplots(1, len(panels), figsize=figsize or default, dpi=dpi, squeeze=False, layout="tight")[1][0]
    else:
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != len(panels):
        raise ValueError(
            f"{len(panels)} metrics ({', '.join(panels)}) need as many axes, got {len(axes)}; choose by metric="
        )
    for panel, (name, curves) in zip(axes, panels.items(), strict=True):
        _draw_curves(panel, curves, best_iteration)
        for limits, wanted in ((panel.set_xlim, xlim), (panel.set_ylim, ylim)):
            if wanted is not None:
                limits(_limits(wanted, wanted, limits.__name__.removeprefix("set_")))
        _write_texts(panel, *(text and text.replace("@metric@", name) for text in (title, xlabel, ylabel)))
        panel.grid(grid, **({"alpha": 0.4} if grid else {}))
    return axes[0] if len(axes) == 1 else axes


def read_curves(source: Any) -> dict[str, list[Curve]]:
    """The curves of every metric."""
    if isinstance(source, Booster):
        raise TypeError("A Booster does not keep its scores: pass the dict that train(..., evals_result=) filled in.")
    if callable(getattr(source, "evals_result", None)):
        source = source.evals_result()
    if not isinstance(source, Mapping) and not hasattr(source, "to_dict"):
        raise TypeError(f"a dict of scores, an estimator or the result of cv is expected, got {type_name(source)}")
    table = dict(source) if isinstance(source, Mapping) else source.to_dict("list")
    curves: dict[str, list[Curve]] = {}
    for key, scores in table.items():
        if isinstance(scores, Mapping):
            for metric, values in scores.items():
                curves.setdefault(metric, []).append(Curve(key, _mean(values)))
        elif key.endswith("-mean"):  # train-rmse-mean, train-rmse-std
            data, _, metric = key.removesuffix("-mean").partition("-")
            spread = table.get(key.removesuffix("mean") + "std")
            spread = None if spread is None else np.asarray(spread, float)
            curves.setdefault(metric, []).append(Curve(data, _mean(scores), spread))
    if not curves:
        raise ValueError("eval results cannot be empty: there are no scores to plot.")
    return curves


def _mean(values: Any) -> np.ndarray:
    """Scores as numbers; what cross validation stores as (mean, std) is its mean."""
    scores = np.asarray(values, float)
    return scores[:, 0] if scores.ndim == 2 else scores


def _chosen_curves(
    curves: dict[str, list[Curve]], metric: str | Sequence[str] | None, dataset_names: Sequence[str] | None
) -> dict[str, list[Curve]]:
    """The wanted metrics and data sets, in the wanted order."""
    metrics = [*curves] if metric is None else [metric] if isinstance(metric, str) else [*metric]
    unknown = [name for name in metrics if name not in curves]
    if unknown:
        raise KeyError(f"No given metric in eval results: {', '.join(unknown)}; there are {', '.join(curves)}")
    if dataset_names is None:
        return {name: curves[name] for name in metrics}
    known = {curve.data for name in metrics for curve in curves[name]}
    absent = [name for name in dataset_names if name not in known]
    if absent or not dataset_names:
        raise ValueError(f"no scores of the data sets {absent}; there are {sorted(known)}")
    return {
        name: [curve for wanted in dataset_names for curve in curves[name] if curve.data == wanted] for name in metrics
    }


def _draw_curves(ax: Any, curves: list[Curve], best_iteration: int | None) -> None:
    """The curves of one metric; a dot on each, and a line through them, at the best round."""
    for curve, (color, style) in zip(curves, cycle(_CURVES), strict=False):
        rounds = np.arange(len(curve.scores))
        ax.plot(rounds, curve.scores, color=color, linestyle=style, linewidth=1.8, label=curve.data)
        if curve.spread is not None:
            low, high = curve.scores - curve.spread, curve.scores + curve.spread
            ax.fill_between(rounds, low, high, color=color, alpha=0.18, linewidth=0)
        if best_iteration is not None and best_iteration < len(rounds):
            ax.plot(best_iteration, curve.scores[best_iteration], "o", color=color, markersize=6)
    if best_iteration is not None:
        ax.axvline(best_iteration, color=_INK, linewidth=0.9, linestyle=(0, (2, 2)), label=f"best: {best_iteration}")
    ax.legend(loc="best", frameon=False)
