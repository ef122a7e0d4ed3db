"""What the ready estimators choose from: kinds of trees, strategies for categories, learning rates, by quality.

Nothing here looks at labels: which recipe wins is decided by an audition on rows set aside (`audition.py`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

QUALITIES = (1, 2, 3, 4, 5)
_MANY_ROWS = 20_000  # of which one split tells enough
_ROWS_OF_OUTPUTS = 1_000  # the same where outputs are several, which take longer
MANY_CATEGORIES = 100  # where a column has more, statistics come first; sets of few categories are better
SOME_CATEGORIES = 33  # a column of so many has statistics in its place, others are split one against the rest
_LEAF_WISE = {"grow_policy": "lossguide", "max_leaves": 32, "max_depth": 0}
_FOREST = {"num_parallel_tree": 2, "max_depth": 6, "reg_lambda": 3.0, "subsample": 0.6, "colsample_bynode": 0.4}
_RANDOM_SPLITS = {"extra_trees": True, "max_depth": 8, "reg_lambda": 3.0, "colsample_bynode": 0.7}
_SPLIT_OUTPUTS = 3  # sums of the classes' gradients that splits of vectors are found on: cheaper and better than all
_VECTORS = {
    "multi_strategy": "multi_output_tree",
    "min_child_weight": 0.1,
    "reg_lambda": 1.0,
    "split_outputs": _SPLIT_OUTPUTS,
}
_WIDE = {"colsample_bytree": 0.5, "colsample_bynode": 0.5, "grow_policy": "lossguide", "max_leaves": 64, "max_depth": 0}
_NO_CATEGORIES = {"max_cat_to_onehot": 1, "permutation_count": 1}  # which trees with vectors cannot part
_MOST_SUMS = 2000  # columns times sums: of more, those of a whole level take too much memory and time
_LEAST_OF_FLAGS = 0.3  # hessian of a child: a flag that few rows have may be all that tells a rare class
_SHALLOW, _SHALLOW_STEP = {"max_depth": 3}, 2.0  # with the others' steps they would be behind in a race by rounds
_LINEAR = {"linear_leaves": True, "max_depth": 5}
# Bins of a column: more cost time and tell classes apart no better, where rows are few; numbers need them. With fewer,
# a column of mostly one value would have too few for all others.
_CLASS_BINS, _CLASSES_BINS = 128, 64  # of two classes, of more
_RARE_CLASSES = {"reg_lambda": 1.0, "min_child_weight": 0.1, "max_bin": 256}  # of many classes some have few rows
_MORE_ROWS = 0.7  # rounds grow with this power of the rows
# Rounds of a winner that is trained again, times how much finer its steps are: they gain least, and cost most, where
# rounds are many.
_MOST_FINE_ROUNDS = 1200


@dataclass(frozen=True)
class Facts:
    """What is known of the training data."""

    n_rows: int
    n_columns: int
    n_outputs: int
    most_categories: int  # of a column; 0: there are no categorical columns
    is_classes: bool  # what the label is
    has_trend: bool  # whether a linear trend may be started from
    has_flags: bool = False  # whether most columns have two values


class Effort(NamedTuple):
    """How much work a quality puts in."""

    eta: float  # of auditions, at 20,000 rows
    max_rounds: int
    patience: int
    heat: int
    refits: bool
    members: int
    folds: int  # of auditions
    finer: int  # steps are so much smaller after auditions; rounds, and trees of a round if several, so many more


EFFORTS = {
    1: Effort(0.15, 300, 15, 30, False, 1, 1, 1),
    2: Effort(0.1, 600, 30, 100, True, 1, 1, 1),
    3: Effort(0.16, 800, 20, 20, True, 1, 3, 3),
    4: Effort(0.12, 800, 25, 25, False, 4, 3, 2),
    5: Effort(0.12, 1000, 30, 50, False, 8, 3, 2),
}


class Recipe(NamedTuple):
    """A kind of model."""

    name: str
    params: dict[str, Any]
    trend: bool = False
    step: float = 1.0  # times the learning rate of all


def learning_rate(effort: Effort, n_rows: int) -> float:
    """More rows bear larger steps: they overfit later."""
    return effort.eta * min(1.6, max(0.6, (n_rows / 20_000) ** 0.15))


def effort_for(quality: int, facts: Facts) -> Effort:
    """The quality's effort for such data: one split tells enough of many rows, and many outputs take long."""
    effort = EFFORTS[quality]
    if facts.n_outputs > 1:
        return effort._replace(folds=effort.folds if facts.n_rows < _ROWS_OF_OUTPUTS else 1, finer=1)
    if not facts.is_classes:  # what goes on for long shows late what it can do
        effort = effort._replace(heat=2 * effort.heat)
    return effort._replace(folds=1) if facts.n_rows >= _MANY_ROWS else effort


def refit_effort(effort: Effort, n_rounds: int) -> Effort:
    """The effort for training again what took so many rounds."""
    return effort._replace(finer=max(1, min(effort.finer, _MOST_FINE_ROUNDS // n_rounds)))


def finer(params: dict[str, Any], effort: Effort) -> dict[str, Any]:
    """A contender's parameters for what is trained after auditions."""
    n_trees = params.get("num_parallel_tree", 1)
    more = {"num_parallel_tree": effort.finer * n_trees} if n_trees > 1 else {}
    return {**params, "eta": params["eta"] / effort.finer, **more}


def rounds_of_more_rows(n_rounds: int, part: float) -> int:
    """Rounds for all rows, where so many were best for this part of them."""
    return max(1, round(n_rounds * part**-_MORE_ROWS))


def recipes(quality: int, facts: Facts) -> list[Recipe]:
    """The contenders, the most promising first."""
    shared: dict[str, Any] = {"subsample": 0.8}
    statistics = {"cat_strategy": "ordered_ts", "max_cat_to_onehot": SOME_CATEGORIES}
    if facts.most_categories > MANY_CATEGORIES:
        shared |= statistics
    if facts.is_classes and facts.n_rows < _MANY_ROWS:
        shared["max_bin"] = _CLASS_BINS if facts.n_outputs == 1 else _CLASSES_BINS
    if facts.has_flags and facts.is_classes and facts.n_outputs == 1:
        shared["min_child_weight"] = _LEAST_OF_FLAGS
    symmetric = {**shared, "grow_policy": "symmetric", "max_depth": 6, "reg_lambda": 3.0}
    leaf_wise = {**shared, **_LEAF_WISE, "reg_lambda": 5.0, "colsample_bynode": 0.8}
    deep = Recipe("deep symmetric trees", {**symmetric, "max_depth": 8})
    found = [Recipe("symmetric trees", symmetric)]
    if quality == 1:
        return found
    if facts.n_outputs > 1:  # each is a tree a round, but for vectors: auditions of many kinds take too long
        if facts.is_classes:
            found = [Recipe("symmetric trees", symmetric | _RARE_CLASSES)]
        if quality > 3:
            found = [deep, *found, Recipe("leaf-wise trees", leaf_wise)]
        elif not facts.is_classes:
            found = [deep]
        if facts.is_classes:
            is_wide = facts.n_columns * min(facts.n_outputs, _SPLIT_OUTPUTS) > _MOST_SUMS
            coded = {**statistics, **_NO_CATEGORIES} if facts.most_categories else {}
            vectors = {**symmetric, **coded, "max_depth": 7, **_VECTORS, **(_WIDE if is_wide else {})}
            found.insert(0, Recipe("trees with vectors of classes", vectors))
            is_long = facts.n_columns * facts.n_outputs > _MOST_SUMS  # where each class has a tree
            found = found[:1] if is_long and quality == 3 else found
    elif quality == 2:
        found.append(Recipe("leaf-wise trees", leaf_wise))
        if facts.has_trend:
            found.append(Recipe("symmetric trees on a linear trend", symmetric, True))
        return found
    else:
        forest = {**shared, **_FOREST}
        if facts.is_classes:
            found.append(Recipe("shallow symmetric trees", {**symmetric, **_SHALLOW}, step=_SHALLOW_STEP))
            found.append(Recipe("small forests", forest))
            if not facts.most_categories:
                found.append(Recipe("trees of random splits", {**shared, **_RANDOM_SPLITS}))
        else:
            found.append(deep)
        if facts.has_trend:
            found.append(Recipe("small forests on a linear trend", forest, True))
            if quality > 3 or not facts.is_classes:
                found.append(Recipe("symmetric trees of linear leaves", {**symmetric, **_LINEAR}))
    if SOME_CATEGORIES <= facts.most_categories <= MANY_CATEGORIES:
        found.append(Recipe("symmetric trees, ordered statistics", {**symmetric, **statistics}))
    return found
