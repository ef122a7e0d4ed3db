"""What the ready estimators choose from: kinds of trees, strategies for categories, learning rates, by quality.

Nothing here looks at labels: which recipe wins is decided by an audition on rows set aside (`audition.py`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

QUALITIES = (1, 2, 3, 4, 5)
MANY_CATEGORIES = 100  # where a column has more, statistics come first; sets of few categories are better
SOME_CATEGORIES = 33  # a column of so many has statistics in its place, others are split one against the rest
_LEAF_WISE = {"grow_policy": "lossguide", "max_leaves": 32, "max_depth": 0}


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
    2: Effort(0.1, 600, 30, 100, True, 1),
    3: Effort(0.06, 1500, 60, 200, True, 1),
    4: Effort(0.06, 2000, 60, 200, False, 4),
    5: Effort(0.05, 3000, 80, 240, False, 8),
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
    shared: dict[str, Any] = {"subsample": 0.8}
    statistics = {"cat_strategy": "ordered_ts", "max_cat_to_onehot": SOME_CATEGORIES}
    if facts.most_categories > MANY_CATEGORIES:
        shared |= statistics
    leaf_wise = {**shared, **_LEAF_WISE, "reg_lambda": 5.0, "colsample_bynode": 0.8}
    symmetric = {**shared, "grow_policy": "symmetric", "max_depth": 8 if quality >= 3 else 6, "reg_lambda": 3.0}
    found = [Recipe("symmetric trees", symmetric)]
    if quality == 1:
        return found
    found.append(Recipe("leaf-wise trees", leaf_wise))
    if facts.has_trend:
        found.append(Recipe("symmetric trees on a linear trend", symmetric, True))
    if quality >= 3 and SOME_CATEGORIES <= facts.most_categories <= MANY_CATEGORIES:
        found.append(Recipe("symmetric trees, ordered statistics", {**symmetric, **statistics}))
    return found
