"""What the ready estimators choose from: kinds of trees, strategies for categories, learning rates, by quality.

Nothing here looks at labels: which recipe wins is decided by an audition on rows set aside (`audition.py`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

QUALITIES = (1, 2, 3, 4, 5)
MANY_CATEGORIES = 4  # a categorical column of more has statistics in its place


@dataclass(frozen=True)
class Facts:
    """What is known of the training data."""

    n_rows: int
    n_columns: int
    n_outputs: int
    most_categories: int  # of a column; 0: there are no categorical columns
    has_trend: bool  # whether a linear trend may be started from


class Effort(NamedTuple):
    """How much work a quality puts in."""

    eta: float  # at 20,000 rows
    max_rounds: int
    patience: int
    heat: int
    refits: bool
    members: int


EFFORTS = {
    1: Effort(0.15, 300, 15, 30, False, 1),
    2: Effort(0.1, 600, 30, 60, True, 1),
    3: Effort(0.06, 1500, 50, 80, True, 1),
    4: Effort(0.06, 2000, 60, 80, False, 4),
    5: Effort(0.05, 3000, 80, 100, False, 8),
}


class Recipe(NamedTuple):
    """A kind of model."""

    name: str
    params: dict[str, Any]
    trend: bool = False


def learning_rate(effort: Effort, n_rows: int) -> float:
    """More rows bear larger steps: they overfit later."""
    return effort.eta * min(1.6, max(0.6, (n_rows / 20_000) ** 0.15))


def recipes(quality: int, facts: Facts) -> list[Recipe]:
    """The contenders, the most promising first."""
    free: dict[str, Any] = {"max_depth": 6, "subsample": 0.8, "colsample_bynode": 0.8, "min_child_weight": 1.0}
    found = [Recipe("trees of depth 6", free)]
    if facts.most_categories > MANY_CATEGORIES:
        found.insert(0, Recipe("trees of depth 6, ordered statistics", {**free, "cat_strategy": "ordered_ts"}))
    if quality == 1:
        return found[:1]
    best_first = {**found[0].params, "grow_policy": "lossguide", "max_leaves": 48, "max_depth": 0}
    if quality >= 3:
        found.append(Recipe(found[0].name.replace("of depth 6", "of 48 leaves"), best_first))
    if facts.has_trend:
        found.append(Recipe(found[0].name + ", linear trend", found[0].params, True))
    return found
