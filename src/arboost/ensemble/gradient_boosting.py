"""Classic gradient boosting (Friedman 2001): trees on pseudo-residuals, then the best step, per leaf or per tree.

Splits are found by least squares on the negative gradient, without its curvature; that is what differs from XGBoost's
boosting. The model is a sum of trees like any other.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from arboost import _sklearn_fit as fitting
from arboost.ensemble import schema
from arboost.ensemble.base import (
    TreeClassifier,
    TreeEnsemble,
    TreeRegressor,
    check_count,
    class_probabilities,
    regression_targets,
    row_weights,
)
from arboost.ensemble.friedman import ClassicLoss, classification_loss, line_search, regression_loss
from arboost.ensemble.growing import GrownOnRows, TreeBuilder, read_limits
from arboost.matrix.dmatrix import DMatrix
from arboost.predict.forest import Forest
from arboost.runtime import rng
from arboost.tree.model import Tree

_ROWS, _TREE, _SPLIT = range(3)  # what a key is for


class _Fitted(NamedTuple):
    """What training has found."""

    rounds: list[list[tuple[Tree, int]]]
    start: np.ndarray
    train_score: list[float]
    oob_improvement: list[float]


class _Watched:
    """Rows set aside, and whether the model still gets better on them."""

    def __init__(self, data: DMatrix, y: np.ndarray, weight: np.ndarray, start: np.ndarray, patience: int, tol: float):
        self._data, self._y, self._weight = data, y, weight
        self._score = np.tile(start, (len(y), 1)).astype(np.float32)
        self._patience, self._tol, self._losses = patience, tol, list[float]()

    def is_done(self, ctx: Any, trees: list[tuple[Tree, int]], loss: ClassicLoss) -> bool:
        """Add a round; True if the loss was not better than each of the last `patience` rounds'."""
        forest = Forest([tree for tree, _ in trees], [k for _, k in trees])
        for first, values in self._data.chunks():
            forest.add_margins(ctx, values, slice(None), self._score[first : first + len(values)])
        found = loss.mean(self._y, self._score.astype(np.float64), self._weight)
        before, self._losses = self._losses, [*self._losses, found][-self._patience :]
        return len(before) == self._patience and not any(found + self._tol < value for value in before)


class _GradientBoosting(TreeEnsemble):
    """What both share."""

    loss: str
    learning_rate: float
    n_estimators: int
    subsample: float
    step: str
    validation_fraction: float
    n_iter_no_change: int | None
    tol: float
    random_state: Any

    def _boost(
        self, data: DMatrix, y: np.ndarray, weight: np.ndarray, loss: ClassicLoss, is_weighted: bool, strata: Any
    ) -> _Fitted:
        self._check_numbers()
        key, watched = self._seed(), None
        if self.n_iter_no_change is not None:
            parts = fitting.split_rows(len(y), self.validation_fraction, rng.make_key(key, _SPLIT) & 0x7FFFFFFF, strata)
            data, valid = (data.slice(rows) for rows in parts)
            held = (y[parts[1]], weight[parts[1]])
            y, weight = y[parts[0]], weight[parts[0]]
        start = loss.start(y, weight, is_weighted)
        if self.n_iter_no_change is not None:
            watched = _Watched(valid, *held, start, self.n_iter_no_change, self.tol)
        builder = TreeBuilder(self._context(), data, read_limits(self, data))
        found = _Fitted([], start, [], [])
        score = np.tile(start, (len(y), 1))
        for number in range(self.n_estimators):
            trees = self._round(builder, y, score, weight, loss, rng.make_key(key, number), found)
            found.rounds.append(trees)
            if watched is not None and watched.is_done(self._context(), trees, loss):
                break
        return found

    def _check_numbers(self) -> None:
        check_count("n_estimators", self.n_estimators)
        if not 0.0 <= self.learning_rate < np.inf:
            raise ValueError(f"learning_rate must be a number of at least 0, got {self.learning_rate!r}.")
        if not 0.0 < self.subsample <= 1.0:
            raise ValueError(f"subsample must be above 0 and at most 1, got {self.subsample!r}.")
        if self.step not in ("leaf", "tree"):
            raise ValueError(f"step must be 'leaf' or 'tree', got {self.step!r}.")
        if self.n_iter_no_change is not None and self.n_iter_no_change < 1:
            raise ValueError(f"n_iter_no_change must be at least 1 or None, got {self.n_iter_no_change!r}.")

    def _round(
        self,
        builder: TreeBuilder,
        y: np.ndarray,
        score: np.ndarray,
        weight: np.ndarray,
        loss: ClassicLoss,
        key: int,
        found: _Fitted,
    ) -> list[tuple[Tree, int]]:
        """A tree for every output, all of them fitted at the scores before the round, to which they are added."""
        seen = weight if self.subsample == 1.0 else _draw(key, weight, self.subsample)
        in_bag = seen > 0
        if self.subsample < 1.0:
            before = loss.mean(y[~in_bag], score[~in_bag], weight[~in_bag]) if not in_bag.all() else np.nan
        loss.begin_round(y[in_bag], score[in_bag], seen[in_bag])
        trees, start = [], score.copy()
        for k in range(loss.n_outputs):
            made = builder.grow(loss.negative_gradient(y, start, k)[None], seen, rng.make_key(key, _TREE, k))
            self._set_step(made, y, start, seen, loss, k)
            trees.append((made.tree, k))
            score[:, k] += made.predict(len(y))[:, 0]
        found.train_score.append(loss.mean(y[in_bag], score[in_bag], seen[in_bag]))
        if self.subsample < 1.0:
            after = loss.mean(y[~in_bag], score[~in_bag], weight[~in_bag]) if not in_bag.all() else np.nan
            found.oob_improvement.append(before - after)
        return trees

    def _set_step(
        self, made: GrownOnRows, y: np.ndarray, score: np.ndarray, weight: np.ndarray, loss: ClassicLoss, k: int
    ) -> None:
        """Give the leaves what they add to the score: the best value of each, or the tree's own times one factor."""
        leaves, tree = made.grown.leaves, made.tree
        if self.step == "leaf":
            values = loss.leaf_values(made, y, score, weight, k)
        else:
            direction = made.predict(len(y))[:, 0].astype(np.float64)
            values = tree.threshold[leaves] * line_search(loss, y, score, weight, direction, k)
        made.set_leaves(self.learning_rate * values[:, None])

    def _take(self, data: DMatrix, found: _Fitted, params: dict[str, Any], base_score: Any, factor: float) -> None:
        """The model of what was found; its margins are `factor` times the scores."""
        rounds = [[(tree.scaled(factor), k) for tree, k in pairs] for pairs in found.rounds]
        self._Booster = self._assemble(data, params, rounds, base_score)
        self.n_estimators_, self.init_ = len(rounds), found.start
        self.train_score_ = np.array(found.train_score)
        self.__dict__.pop("oob_improvement_", None)
        if found.oob_improvement:
            self.oob_improvement_ = np.array(found.oob_improvement)

    def _staged_margins(self, X: Any) -> Iterator[np.ndarray]:
        """Margins after each round."""
        base = self.get_booster()._learner.base_margin()
        base = base[0] if len(base) == 1 else base
        margin: Any = base.astype(np.float64)
        for number in range(self.get_booster().num_boosted_rounds()):
            margin = margin + (self._margin(X, (number, number + 1)).astype(np.float64) - base)
            yield margin

    def _facts(self) -> dict[str, Any]:
        return {"loss": self.loss, "init": self.init_.tolist(), "train_score": self.train_score_.tolist()}

    def _take_facts(self, facts: dict[str, Any]) -> None:
        if not isinstance(facts.get("loss"), str):
            schema.fail_fact("loss", "the name of a loss was expected")
        self.loss, self.init_ = facts["loss"], schema.read_numbers(facts, "init")
        self.train_score_ = schema.read_numbers(facts, "train_score")
        self.n_estimators_ = self.get_booster().num_boosted_rounds()


def _draw(key: int, weight: np.ndarray, share: float) -> np.ndarray:
    """The weights, 0 for the rows that are not among the share drawn, without replacement, from those that have one."""
    rows = np.flatnonzero(weight > 0)
    order = np.random.Generator(np.random.Philox(key=rng.make_key(key, _ROWS))).permutation(len(rows))
    seen = np.zeros_like(weight)
    chosen = rows[order[: max(1, int(share * len(rows)))]]
    seen[chosen] = weight[chosen]
    return seen


_SHARED = """learning_rate : float, default 0.1
        What every tree adds is multiplied by it.
    n_estimators : int, default 100
        Rounds.
    subsample : float, default 1.0
        Share of the rows drawn for a round, without replacement; below 1 there is `oob_improvement_`.
    step : "leaf" or "tree", default "leaf"
        Whether each leaf gets its best value, or the tree one factor by line search.
    max_depth : int, default 3
        Levels of splits; None: no limit.
    min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes, \\
min_impurity_decrease, max_bin :
        As of `DecisionTreeClassifier`.
    n_iter_no_change : int, default None
        Stop when the loss on rows that are set aside was not better than in each of so many rounds before.
    validation_fraction : float, default 0.1
        Share of the rows set aside by `n_iter_no_change`.
    tol : float, default 1e-4
        By how much the loss must be better.
    random_state : int, RandomState or Generator, default None
        Seed of all draws; None: 0.
    n_jobs : int, default None
        Threads; None: all cores.
    enable_categorical : bool, default False
        Take categorical columns of data frames as such.

    Attributes
    ----------
    init_ : array
        The constant that the scores start from.
    train_score_ : array
        The mean loss of the rows of every round, after it.
    oob_improvement_ : array
        By how much each round lowered the mean loss of the rows that were not drawn.
    n_estimators_ : int
        Rounds trained.
    """


class GradientBoostingRegressor(TreeRegressor, _GradientBoosting):
    """Classic gradient boosting for regression.

    Parameters
    ----------
    loss : "squared_error", "absolute_error", "huber" or "quantile", default "squared_error"
        The loss.
    alpha : float, default 0.9
        The quantile of loss "quantile"; of "huber" the quantile of the residuals' sizes that is its delta.
    """

    def __init__(
        self,
        *,
        loss: str = "squared_error",
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample: float = 1.0,
        step: str = "leaf",
        max_depth: int | None = 3,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        alpha: float = 0.9,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.1,
        tol: float = 1e-4,
        max_bin: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GradientBoostingRegressor":
        """Train all rounds."""
        fitting.check_y(self, y)
        loss = regression_loss(self.loss, self.alpha)
        targets = regression_targets(y, most_dims=1)
        data, weight = self._matrix(X, y), row_weights(sample_weight, len(targets))
        found = self._boost(data, targets, weight, loss, sample_weight is not None, None)
        self._take(data, found, self._objective(), found.start, 1.0)
        return self

    def _objective(self) -> dict[str, Any]:
        """XGBoost's name for the loss, or of one with the same prediction."""
        if self.loss == "quantile":
            return {"objective": "reg:quantileerror", "quantile_alpha": self.alpha}
        names = {"absolute_error": "reg:absoluteerror", "huber": "reg:pseudohubererror"}
        return {"objective": names.get(self.loss, "reg:squarederror")}

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The prediction after each round."""
        return self._staged_margins(X)


class GradientBoostingClassifier(TreeClassifier, _GradientBoosting):
    """Classic gradient boosting for classification.

    Parameters
    ----------
    loss : "log_loss" or "exponential", default "log_loss"
        The loss: the deviance, or for two classes AdaBoost's.
    """

    def __init__(
        self,
        *,
        loss: str = "log_loss",
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample: float = 1.0,
        step: str = "leaf",
        max_depth: int | None = 3,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.1,
        tol: float = 1e-4,
        max_bin: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GradientBoostingClassifier":
        """Train all rounds; `y` holds the class of every row."""
        fitting.check_y(self, y)
        codes = self._encode(y)
        if self.n_classes_ < 2:
            raise ValueError(f"y contains 1 class ({self.classes_[0]!r}), a classifier needs two or more classes.")
        loss = classification_loss(self.loss, self.n_classes_)
        data, weight = self._matrix(X, y), row_weights(sample_weight, len(codes))
        if len(np.unique(codes[weight > 0])) < 2:
            raise ValueError("sample_weight leaves rows of 1 class only: a classifier needs two or more classes.")
        found = self._boost(data, codes.astype(np.float64), weight, loss, sample_weight is not None, codes)
        if self.n_classes_ > 2:
            params: dict[str, Any] = {"objective": "multi:softprob", "num_class": self.n_classes_}
            self._take(data, found, params, found.start, 1.0)
        else:
            share = scipy.special.expit(self._factor() * found.start)
            self._take(data, found, {"objective": "binary:logistic"}, share, self._factor())
        return self

    def _factor(self) -> float:
        """Log odds in a score."""
        return 2.0 if self.loss == "exponential" else 1.0

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) or (n, n_classes) scores."""
        return self._margin(X).astype(np.float64) / self._factor()

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """The scores after each round."""
        for margin in self._staged_margins(X):
            yield margin / self._factor()

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) probabilities."""
        return class_probabilities(self._margin(X).astype(np.float64))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """The probabilities after each round."""
        return map(class_probabilities, self._staged_margins(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The most probable class after each round."""
        for proba in self.staged_predict_proba(X):
            yield self.classes_[proba.argmax(axis=1)]


for _class in (GradientBoostingRegressor, GradientBoostingClassifier):
    _class.__doc__ = f"{(_class.__doc__ or '').rstrip()}\n    {_SHARED}"
