"""What a trace is made of: rounds, their trees, nodes and candidate splits, as the engine had them.

Numbers are Python floats with the engine's own values: float32 where it keeps float32 (gradients, margins, thresholds,
leaf values), float64 where it computes with float64 (sums, similarities, gains, weights). Lists are in row order.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """One way to split a node: rows with feature < threshold go left, missing values to their default side."""

    feature: int
    threshold: float
    default_left: bool
    n_left: int
    n_right: int
    n_missing: int  # rows of the node without a value, counted on their side too
    g_left: float
    h_left: float
    g_right: float
    h_right: float
    score_left: float  # similarity G^2 / (H + lambda)
    score_right: float
    gain: float  # score_left + score_right - the node's score
    verdict: str  # VERDICTS


VERDICTS = {
    "best": "the best",
    "less": "gains less",
    "none": "gains nothing",
    "light": "a side is too light",
}

REASONS = {
    "split": "split at the best candidate",
    "pruned": "its split gains less than gamma: taken back, from the bottom up",
    "gone": "cut off with the split above it",
    "max_depth": "as deep as max_depth allows",
    "alone": "its rows are alike: there is nothing to split",
    "light": "every split that gains anything leaves a side lighter than min_child_weight",
    "no gain": "no split gains anything",
    "gamma": "the best split gains less than gamma",
    "max_leaves": "the tree has all the leaves that max_leaves allows",
}


@dataclass(frozen=True)
class Node:
    """A node of a tree before pruning; `reason` says what became of it (REASONS)."""

    id: int
    parent: int  # -1 for the root
    left: int  # -1 where it was never split
    right: int
    depth: int
    rows: list[int]
    g: float
    h: float
    score: float
    weight: float  # -G / (H + lambda), before eta
    candidates: list[Candidate]
    split: int  # which candidate the engine took, -1 for none
    reason: str
    protected: bool  # gains less than gamma, but a split below it does not
    value: float | None  # what a leaf of the finished tree adds to a margin: eta times its output


@dataclass(frozen=True)
class Tree:
    """One tree of a round, for one output."""

    target: int
    g: list[float]
    h: list[float]
    nodes: list[Node]
    leaf_of_row: list[int]  # in the finished tree


@dataclass(frozen=True)
class Round:
    """One round of boosting; margins and predictions are (rows, outputs) after it."""

    index: int
    trees: list[Tree]
    margin: list[list[float]]
    prediction: list[list[float]]
    metrics: dict[str, float | None]  # None where a metric is not defined on these rows


@dataclass(frozen=True)
class Run:
    """One training from start to end."""

    params: dict[str, Any]
    base_score: list[float]
    margin: list[list[float]]  # before the first round
    prediction: list[list[float]]
    metrics: dict[str, float | None]
    rounds: list[Round]
