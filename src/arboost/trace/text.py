"""The trace as text: one list of blocks, printed plainly or by `rich`.

A block is a heading, a paragraph or a table. Numbers have five significant digits; the record has them all.
"""

import importlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arboost.trace.parts import REASONS, VERDICTS, Candidate, Node, Round, Tree

if TYPE_CHECKING:
    from arboost.trace.view import Trace

MAX_ROWS = 60  # of a table; a page shows more
MAX_FEATURES_FIRST = 3  # more features come last in a table, so that the residuals are in sight
_WIDEST = 10_000  # characters
LOG_ODDS = {"binary:logistic", "reg:logistic"}


@dataclass(frozen=True)
class Heading:
    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Table:
    """Cells as text; the row numbered `chosen` is the one that matters."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    chosen: int = -1


Block = Heading | Paragraph | Table


def number(x: float | None) -> str:
    """Five significant digits, without exponent where that is readable; missing values are a question mark."""
    if x is None:
        return "?"
    shown = float(f"{x:.5g}")
    if shown == 0.0:
        return "0"
    if not 1e-4 <= abs(shown) < 1e12:
        return f"{x:.3g}"
    return f"{shown:.10f}".rstrip("0").rstrip(".")


def plain(trace: "Trace") -> str:
    """All blocks as plain text."""
    return "\n".join(_plain_block(block) for block in blocks(trace)).rstrip() + "\n"


def show(trace: "Trace") -> None:
    """Print, by `rich` if it is installed."""
    try:
        importlib.import_module("rich")
    except ImportError:
        print(plain(trace), end="")
        return
    console = _console()
    measure = importlib.import_module("rich.measure").Measurement.get
    for block in blocks(trace):
        found = _rich_block(block)
        wide = measure(console, console.options.update(max_width=_WIDEST), found).maximum
        # no number is cut off where the terminal ends: a table that is too wide is wrapped by the terminal itself
        is_cut = isinstance(block, Table) and wide > console.width
        (_console(wide) if is_cut else console).print(found)


def _console(width: int | None = None) -> Any:
    return importlib.import_module("rich.console").Console(highlight=False, width=width)


def _plain_block(block: Block) -> str:
    if isinstance(block, Heading):
        line = "=" if block.level == 1 else "-"
        return f"\n{block.text}\n{line * len(block.text)}" if block.level < 3 else f"\n{block.text}"
    if isinstance(block, Paragraph):
        return block.text
    table = [list(block.columns), *(list(row) for row in block.rows)]
    widths = [max(len(row[c]) for row in table) for c in range(len(block.columns))]
    out = io.StringIO()
    for r, row in enumerate(table):
        mark = "> " if r - 1 == block.chosen and r else "  "
        out.write((mark + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))).rstrip() + "\n")
    return out.getvalue().rstrip("\n")


def _rich_block(block: Block) -> Any:
    if isinstance(block, Heading):
        style = {1: "bold cyan", 2: "bold magenta", 3: "bold"}[block.level]
        return importlib.import_module("rich.text").Text(f"\n{block.text}", style=style)
    if isinstance(block, Paragraph):
        return importlib.import_module("rich.text").Text(block.text)
    box = importlib.import_module("rich.box").SIMPLE_HEAD
    table = importlib.import_module("rich.table").Table(
        box=box, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0)
    )
    for name in block.columns:
        table.add_column(name, justify="right", no_wrap=True)
    for r, row in enumerate(block.rows):
        table.add_row(*row, style="bold green" if r == block.chosen else None)
    return table


# ---- what there is to say ----


def blocks(trace: "Trace") -> Iterator[Block]:
    """The whole trace, in the order in which things happened."""
    run = trace.run
    yield Heading(trace.title, 1)
    if trace.notes:
        yield Paragraph(trace.notes)
    p = run.params
    names = ("reg_lambda", "gamma", "eta", "max_depth", "min_child_weight", "tree_method")
    settings = ", ".join(f"{n} = {p[n] if isinstance(p[n], str) else number(p[n])}" for n in names)
    yield Paragraph(f"{p['objective']}; {settings}")
    yield Heading("Start", 2)
    how = "given" if p["given_base_score"] else "estimated from the labels"
    if p["starts_at_mean"] and not p["given_base_score"]:
        how = "the share of each class" if p["objective"].startswith("multi:") else "the mean of the labels"
    yield Paragraph(f"Initial prediction: {', '.join(map(number, run.prediction[0]))} ({how}).")
    margin, prediction = run.margin, run.prediction
    for step in run.rounds:
        yield Heading(f"Round {step.index + 1}", 2)
        for tree in step.trees:
            yield from _Round(trace, step, tree, margin, prediction).blocks()
        metrics = ", ".join(f"{name} {number(value)}" for name, value in step.metrics.items())
        yield Paragraph(f"After round {step.index + 1}: {metrics}")
        margin, prediction = step.margin, step.prediction


def columns_of(features: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The columns of a table of rows, by name: those that stand for the categories of one feature are one."""
    found: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        found.setdefault(feature["category"][0] if feature["category"] else feature["name"], []).append(place)
    return found


class _Round:
    """The blocks of one tree of a round."""

    def __init__(
        self, trace: "Trace", step: Round, tree: Tree, margin: list[list[float]], prediction: list[list[float]]
    ):
        self._trace, self._step, self._tree = trace, step, tree
        self._margin, self._before = margin, prediction
        self._data, self._params = trace.to_dict(), trace.run.params
        self._columns = columns_of(self._data["features"])
        self._residual = "residual" if self._params["plain_residuals"] else "-gradient"

    def blocks(self) -> Iterator[Block]:
        if self._params["n_outputs"] > 1:
            name = self._data["outputs"][self._tree.target]
            yield Heading(name[0].upper() + name[1:], 3)
        yield self._rows_table()
        for node in self._tree.nodes:
            yield from self._node_blocks(node)
        yield from self._pruning()
        yield Heading("Leaves", 3)
        for node in self._tree.nodes:
            if node.value is not None:
                yield Paragraph("  " + self._leaf_line(node))
        yield Heading("New predictions", 3)
        yield self._updates()

    def _value(self, places: list[int], row: Sequence[float | None]) -> str:
        """What a row has in a column of a table: a number, its name, or the one category of several that it is of."""
        x, feature = row[places[0]], self._data["features"][places[0]]
        if x is None:
            return "?"
        if feature["category"]:
            return next((self._data["features"][f]["category"][1] for f in places if row[f]), "?")
        return str(feature["values"].get(str(float(x)), number(x)))

    def _of_target(self, values: list[float]) -> float:
        return values[self._tree.target] if self._tree.target < len(values) else values[0]

    def _row(self, r: int, cells: list[str]) -> list[str]:
        """A row's number, group, values and label, and `cells`."""
        values = [self._value(places, self._data["X"][r]) for places in self._columns.values()]
        group = self._data["group"]
        id = [str(r + 1)] if group is None else [str(r + 1), str(group[r])]
        return self._placed(id, values, [number(self._of_target(self._data["y"][r])), *cells])

    def _head(self, names: list[str]) -> list[str]:
        id = ["row"] if self._data["group"] is None else ["row", "group"]
        return self._placed(id, list(self._columns), [self._trace.target_name, *names])

    @staticmethod
    def _placed(id: list[str], features: list[str], others: list[str]) -> list[str]:
        return [*id, *features, *others] if len(features) <= MAX_FEATURES_FIRST else [*id, *others, *features]

    def _rows_table(self) -> Block:
        tree, is_log_odds = self._tree, self._params["objective"] in LOG_ODDS
        extra = ["log odds"] if is_log_odds else []
        columns = self._head([*extra, "prediction", self._residual, "h"])
        rows = []
        for r in range(min(len(tree.g), MAX_ROWS)):
            odds = [number(self._of_target(self._margin[r]))] if is_log_odds else []
            prediction = number(self._of_target(self._before[r]))
            rows.append(self._row(r, [*odds, prediction, number(-tree.g[r]), number(tree.h[r])]))
        return Table(columns, _cut(rows, len(tree.g)))

    def _question(self, c: Candidate) -> str:
        if c.n_missing and (c.n_left if c.default_left else c.n_right) == c.n_missing:
            return f"{self._trace.feature_names[c.feature]} is {'missing' if c.default_left else 'present'}"
        if self._data["features"][c.feature]["category"]:
            return self._trace.feature_names[c.feature].replace(" = ", " != ", 1)
        return f"{self._trace.feature_names[c.feature]} < {number(c.threshold)}"

    def _node_blocks(self, node: Node) -> Iterator[Block]:
        yield Heading(f"Node {node.id}: {_rows_of(node)}", 3)
        yield Paragraph(f"  similarity = {self._similarity(node.g, node.h)} = {number(node.score)}")
        if node.candidates:
            yield self._candidates_table(node)
        if node.split < 0:
            yield Paragraph(f"  A leaf: {REASONS[node.reason]}.")
            return
        taken = node.candidates[node.split]
        side = f", missing values go {'left' if taken.default_left else 'right'}" if taken.n_missing else ""
        yield Paragraph(f"  Split: {self._question(taken)}, gain {number(taken.gain)}{side}.")

    def _similarity(self, g: float, h: float) -> str:
        p = self._params
        if p["reg_alpha"] or p["max_delta_step"]:
            return f"score(G = {number(g)}, H = {number(h)}; lambda, alpha, max_delta_step)"
        return (
            f"{number(-g) if g < 0 or g == 0 else '(' + number(-g) + ')'}^2 / ({number(h)} + {number(p['reg_lambda'])})"
        )

    def _candidates_table(self, node: Node) -> Table:
        has_missing = any(c.n_missing for c in node.candidates)
        columns = ["split", *["missing"] * has_missing, "left", "sim.", "right", "sim.", "gain", ""]
        shown = sorted(range(len(node.candidates)), key=lambda k: -node.candidates[k].gain)[:MAX_ROWS]
        rows = []
        for k in sorted(shown):
            c = node.candidates[k]
            side = [("left" if c.default_left else "right") if c.n_missing else "-"] * has_missing
            sides = [f"{c.n_left}", number(c.score_left), f"{c.n_right}", number(c.score_right)]
            rows.append([self._question(c), *side, *sides, number(c.gain), VERDICTS[c.verdict]])
        chosen = sorted(shown).index(node.split) if node.split >= 0 else -1
        return Table(columns, _cut(rows, len(node.candidates)), chosen)

    def _pruning(self) -> Iterator[Block]:
        gamma, tree = self._params["gamma"], self._tree
        made = [node for node in tree.nodes if node.split >= 0]
        if not gamma or self._params["tree_method"] != "exact" or not made:
            return
        yield Heading(f"Pruning from the bottom up, gamma = {number(gamma)}", 3)
        for node in sorted(made, key=lambda node: -node.depth):
            c = node.candidates[node.split]
            what = f"  node {node.id}, {self._question(c)}: gain {number(c.gain)} "
            if node.protected:
                yield Paragraph(f"{what}< {number(gamma)}, but a split below it stays: it stays")
            elif node.reason == "split":
                yield Paragraph(f"{what}>= {number(gamma)}: it stays")
            else:
                yield Paragraph(f"{what}< {number(gamma)}: taken back")

    def _leaf_line(self, node: Node) -> str:
        assert node.value is not None
        eta, what = self._params["eta"], f"node {node.id} ({_rows_of(node)})"
        if self._params["own_leaves"]:
            return f"{what}: {number(node.value)}, eta times the loss's own best value for its rows"
        output = (
            f"{number(-node.g)} / ({number(node.h)} + {number(self._params['reg_lambda'])}) = {number(node.weight)}"
        )
        if self._params["reg_alpha"] or self._params["max_delta_step"]:
            output = number(node.weight)
        return f"{what}: output {output}; times eta {number(eta)}: {number(node.value)}"

    def _updates(self) -> Table:
        """Old prediction, what the leaf adds, new prediction."""
        tree, step, target = self._tree, self._step, self._tree.target
        columns = self._head(["before", "leaf adds", "margin", "after"])
        value = {node.id: node.value for node in tree.nodes}
        rows = []
        for r in range(min(len(tree.g), MAX_ROWS)):
            added = number(value[tree.leaf_of_row[r]])
            after = number(self._of_target(step.prediction[r]))
            before = number(self._of_target(self._before[r]))
            rows.append(self._row(r, [before, added, number(step.margin[r][target]), after]))
        return Table(columns, _cut(rows, len(tree.g)))


def _rows_of(node: Node) -> str:
    shown = ", ".join(str(r + 1) for r in node.rows[:12]) + (", ..." if len(node.rows) > 12 else "")
    return f"{'row' if len(node.rows) == 1 else 'rows'} {shown}"


def _cut(rows: list[list[str]], n: int) -> list[list[str]]:
    """The rows, and a line that says how many of n are left out."""
    return rows if len(rows) == n else [*rows, [f"... {n - len(rows)} more", *[""] * (len(rows[0]) - 1)]]
