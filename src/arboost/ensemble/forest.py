"""Random forests: trees on bootstrap samples of the rows and draws of the features, averaged (Breiman 2001).

Every tree has its own draws, made from the seed and its number, so trees may grow side by side in threads and come
out the same. Rows that a tree has not seen are its out-of-bag rows, and validate the forest.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.metrics import accuracy_score, r2_score  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost.ensemble.base import (
    TreeClassifier,
    TreeEnsemble,
    TreeRegressor,
    check_count,
    regression_targets,
    row_weights,
)
from arboost.ensemble.decision_tree import (
    Task,
    check_criterion,
    class_row_weights,
    classification_task,
    proba_of_shares,
    regression_task,
)
from arboost.ensemble.growing import DEFAULT_BINS, TreeBuilder, make_pages, read_limits
from arboost.ensemble.whole import WholeTreeBuilder, can_grow_whole, value_ends
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime import rng, settings
from arboost.runtime.context import Context
from arboost.tree.model import Tree

EXTRA_BINS = 4096
_BAG, _TREE = 0, 1  # what a key is for


class _Grown(Protocol):
    """A tree that remembers its data."""

    @property
    def tree(self) -> Tree: ...

    def predict(self, n_rows: int) -> np.ndarray:
        """(n, K) float32: the tree's prediction for every row."""


_Grow = Callable[[np.ndarray, int], _Grown]  # weights of rows, key of the draws


class _Member(NamedTuple):
    """A tree, and what it says of the rows that it has not seen."""

    tree: Tree
    rows: np.ndarray  # not seen; none where nobody asks
    values: np.ndarray  # (n, K) float32, of these rows


def bag_counts(key: int, n_rows: int, n_drawn: int) -> np.ndarray:
    """How often each of n_rows is among n_drawn draws with replacement: (n,) float64."""
    draws = np.random.Generator(np.random.Philox(key=key)).integers(0, n_rows, n_drawn)
    return np.bincount(draws, minlength=n_rows).astype(np.float64)


class _Forest(TreeEnsemble):
    """What forests share."""

    n_estimators: int
    criterion: str
    bootstrap: bool
    oob_score: bool | Callable
    max_samples: int | float | None
    random_state: Any
    _extra = False  # whether thresholds are drawn

    def _fit_trees(self, data: DMatrix, task: Task, weight: np.ndarray) -> np.ndarray | None:
        """Grow all trees; returns the mean out-of-bag prediction, (n, K) float64 with NaN, where it is asked for."""
        n_trees, n_rows = check_count("n_estimators", self.n_estimators), data.num_row()
        if self.oob_score and not self.bootstrap:
            raise ValueError("Out of bag estimation only available if bootstrap=True: oob_score needs rows left out.")
        n_drawn = self._n_drawn(n_rows)
        trees, sums, counts = [], np.zeros((n_rows, len(task.base))), np.zeros(n_rows)
        for member in self._grow_all(data, task, weight, n_trees, n_drawn):
            trees.append(member.tree.scaled(1.0 / n_trees))
            sums[member.rows] += member.values
            counts[member.rows] += 1
        self._Booster = self._assemble(
            data,
            {"objective": "reg:squarederror", "num_parallel_tree": n_trees},
            [[(tree, 0) for tree in trees]],
            task.base,
            n_targets=len(task.base),
            num_parallel_tree=n_trees,
        )
        if not self.oob_score:
            return None
        if not counts.all():
            settings.warn("Some inputs do not have OOB scores: with so few trees some rows are in every bag.")
        with np.errstate(invalid="ignore", divide="ignore"):
            return task.base + sums / counts[:, None]

    def _n_drawn(self, n_rows: int) -> int:
        """Rows that are drawn for a tree."""
        given = self.max_samples
        if given is None:
            return n_rows
        if not self.bootstrap:
            raise ValueError("max_samples is for bootstrap=True: without it every tree has all rows.")
        if isinstance(given, float):
            if not 0.0 < given <= 1.0:
                raise ValueError(f"max_samples must be a whole number or a share from 0 to 1, got {given!r}.")
            return max(1, round(given * n_rows))
        return check_count("max_samples", given)

    def _grow_all(self, data: DMatrix, task: Task, weight: np.ndarray, n_trees: int, n_drawn: int) -> Iterator[_Member]:
        """All trees, in order: side by side in threads, each with one of its own."""
        ctx = self._context()
        n_workers = min(ctx.n_threads, n_trees)
        make = self._grower_maker(ctx, data, task, n_workers)
        idle: SimpleQueue[_Grow] = SimpleQueue()
        for _ in range(n_workers):
            idle.put(make())

        def grow(number: int) -> _Member:
            grow_tree = idle.get()
            try:
                return self._grow_one(grow_tree, task, weight, rng.make_key(ctx.seed, number), n_drawn)
            finally:
                idle.put(grow_tree)

        if n_workers == 1:
            yield from map(grow, range(n_trees))
            return
        with ThreadPoolExecutor(n_workers, thread_name_prefix="arboost-forest") as pool:
            try:
                yield from pool.map(grow, range(n_trees))
            finally:
                pool.shutdown(cancel_futures=True)

    def _grower_maker(self, ctx: Context, data: DMatrix, task: Task, n_workers: int) -> Callable[[], _Grow]:
        """What makes a grower of trees for each worker; one that is alone has all threads, where they help a tree."""
        limits = read_limits(self, data, EXTRA_BINS if self._extra else DEFAULT_BINS)
        limits = replace(limits, extra=self._extra)
        if can_grow_whole(data, task, limits):
            page, ends = data.binned(ctx, limits.max_bin), value_ends(data) if self._extra else None
            return lambda: WholeTreeBuilder(data, limits, task, page, ends).grow
        n_targets = len(task.targets)
        pages = make_pages(ctx, data, limits, n_targets)
        own = ctx if n_workers == 1 else Context(n_threads=1, seed=ctx.seed)

        def make() -> _Grow:
            builder = TreeBuilder(own, data, limits, n_targets, pages, isinstance(self, TreeClassifier))
            return lambda weight, key: builder.grow(task.targets, weight, key, task.impurity)

        return make

    def _grow_one(self, grow: _Grow, task: Task, weight: np.ndarray, key: int, n_drawn: int) -> _Member:
        n_rows, nobody = len(weight), np.zeros(0, np.int64)
        if self.bootstrap:
            bag = bag_counts(rng.make_key(key, _BAG), n_rows, n_drawn)
            seen = weight * bag
            if not seen.any():  # all rows drawn weigh nothing
                seen = weight
        else:
            bag, seen = np.ones(n_rows), weight
        made = grow(seen, rng.make_key(key, _TREE))
        self._revise(made.tree)
        if not self.oob_score:
            return _Member(made.tree, nobody, np.zeros((0, len(task.base)), np.float32))
        left_out = np.flatnonzero(bag == 0)
        return _Member(made.tree, left_out, made.predict(n_rows)[left_out])

    def _revise(self, tree: Tree) -> None:
        """What is to be changed in a tree before it joins the forest."""


class RandomForestClassifier(TreeClassifier, _Forest):
    """A random forest for classification.

    Features are cut into `max_bin` bins, missing values go where they fit better, and the forest is the same for any
    number of threads. The model is a sum of trees, so XGBoost reads its file: the margin is the probability.

    Parameters
    ----------
    n_estimators : int, default 100
        Trees.
    criterion : str, default "gini"
        The impurity: "gini" is the one that there is.
    max_depth : int, default None
        Levels of splits; None: no limit.
    min_samples_split, min_samples_leaf : int or float, default 2 and 1
        Rows that a node to split, and a leaf, must have, or their share of all. A row drawn twice counts twice.
    min_weight_fraction_leaf : float, default 0.0
        Share of all weight that a leaf must have.
    max_features : int, float, "sqrt", "log2" or None, default "sqrt"
        Features drawn for every node; None: all.
    max_leaf_nodes : int, default None
        Most leaves of a tree.
    min_impurity_decrease : float, default 0.0
        A split must lower the impurity of the whole tree by as much at least.
    bootstrap : bool, default True
        Whether every tree sees its own draw of rows, with replacement; else all see all rows.
    oob_score : bool or function, default False
        Whether to validate the forest by the trees that have not seen a row: `oob_score_`, the accuracy or what
        `function(y, prediction)` returns, and `oob_decision_function_`, the probabilities (NaN: in every bag).
    max_samples : int or float, default None
        Rows drawn for a tree, or their share; None: as many as there are.
    voting : "soft" or "hard", default "soft"
        Whether trees give the shares of the classes in a leaf, or one vote for the most frequent.
    class_weight : dict or "balanced", default None
        Weight of each class, times `sample_weight`.
    max_bin : int, default 256
        Most bins a feature is cut into.
    random_state : int, RandomState or Generator, default None
        Seed of all draws; None: 0.
    n_jobs : int, default None
        Threads; None: all cores.
    enable_categorical : bool, default False
        Take categorical columns of data frames as such. With three classes or more they are refused.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        oob_score: bool | Callable = False,
        max_samples: int | float | None = None,
        voting: str = "soft",
        class_weight: dict[Any, float] | str | None = None,
        max_bin: int = DEFAULT_BINS,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RandomForestClassifier":
        """Grow the forest; `y` holds the class of every row."""
        fitting.check_y(self, y)
        check_criterion(self.criterion, "gini")
        if self.voting not in ("soft", "hard"):
            raise ValueError(f"voting must be 'soft' or 'hard', got {self.voting!r}.")
        codes = self._encode(y)
        weight = class_row_weights(self, codes, sample_weight)
        found = self._fit_trees(self._matrix(X, y), classification_task(codes, self.n_classes_), weight)
        if found is not None:
            self.oob_decision_function_ = proba_of_shares(found if found.shape[1] > 1 else found[:, 0], self.n_classes_)
            known = np.isfinite(self.oob_decision_function_).all(axis=1)
            score = self.oob_score if callable(self.oob_score) else accuracy_score
            chosen = self.classes_[self.oob_decision_function_[known].argmax(axis=1)]
            self.oob_score_ = float(score(self.classes_[codes[known]], chosen)) if known.any() else np.nan
        return self

    def _revise(self, tree: Tree) -> None:
        if self.voting == "soft":
            return
        leaf = tree.left < 0
        if tree.has_vectors:
            best = tree.vectors[leaf].argmax(axis=1)
            tree.vectors[leaf] = np.eye(tree.n_targets, dtype=np.float32)[best]
        else:
            tree.threshold[leaf] = tree.threshold[leaf] > 0.5

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) the mean of the trees' shares of the classes, or their votes."""
        return proba_of_shares(self._margin(X), self.n_classes_)


class RandomForestRegressor(TreeRegressor, _Forest):
    """A random forest for regression, also of several targets at once.

    Parameters
    ----------
    criterion : str, default "squared_error"
        The impurity: "squared_error" is the one that there is.
    max_features : int, float, "sqrt", "log2" or None, default 1.0
        Features drawn for every node; 1.0 and None: all.
    oob_score : bool or function, default False
        Whether to validate the forest by the trees that have not seen a row: `oob_score_`, R2 or what
        `function(y, prediction)` returns, and `oob_prediction_` (NaN: in every bag).
    n_estimators, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_leaf_nodes, \
min_impurity_decrease, bootstrap, max_samples, max_bin, random_state, n_jobs, enable_categorical :
        As of `RandomForestClassifier`.
    """

    _several_targets = True

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        oob_score: bool | Callable = False,
        max_samples: int | float | None = None,
        max_bin: int = DEFAULT_BINS,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RandomForestRegressor":
        """Grow the forest."""
        fitting.check_y(self, y)
        check_criterion(self.criterion, "squared_error")
        targets = regression_targets(y)
        weight = row_weights(sample_weight, len(targets))
        found = self._fit_trees(self._matrix(X, y), regression_task(targets, weight), weight)
        if found is not None:
            self.oob_prediction_ = found[:, 0] if targets.ndim == 1 else found
            known = np.isfinite(found).all(axis=1)
            score = self.oob_score if callable(self.oob_score) else r2_score
            self.oob_score_ = float(score(targets[known], self.oob_prediction_[known])) if known.any() else np.nan
        return self


class ExtraTreesClassifier(RandomForestClassifier):
    """Extremely randomised trees for classification (Geurts, Ernst and Wehenkel 2006): thresholds are drawn too.

    At every node each feature drawn gets one threshold, drawn between the least and the largest value that the node
    has, as far as bins tell them, and the best of these splits is taken.

    Parameters
    ----------
    bootstrap : bool, default False
        Whether every tree sees its own draw of rows; else all see all rows.
    max_bin : int, default 4096
        Most bins a feature is cut into: thresholds lie between them, and their number costs next to nothing here.
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, \
max_leaf_nodes, min_impurity_decrease, oob_score, max_samples, voting, class_weight, random_state, n_jobs, \
enable_categorical :
        As of `RandomForestClassifier`; categories are refused.
    """

    _extra = True

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = False,
        oob_score: bool | Callable = False,
        max_samples: int | float | None = None,
        voting: str = "soft",
        class_weight: dict[Any, float] | str | None = None,
        max_bin: int = EXTRA_BINS,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())


class ExtraTreesRegressor(RandomForestRegressor):
    """Extremely randomised trees for regression of one target (Geurts, Ernst and Wehenkel 2006): thresholds are drawn.

    Parameters
    ----------
    bootstrap : bool, default False
        Whether every tree sees its own draw of rows; else all see all rows.
    max_bin : int, default 4096
        Most bins a feature is cut into: thresholds lie between them, and their number costs next to nothing here.
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, \
max_leaf_nodes, min_impurity_decrease, oob_score, max_samples, random_state, n_jobs, enable_categorical :
        As of `RandomForestRegressor`; categories are refused.
    """

    _extra = True
    _several_targets = False

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = False,
        oob_score: bool | Callable = False,
        max_samples: int | float | None = None,
        max_bin: int = EXTRA_BINS,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ExtraTreesRegressor":
        """Grow the forest."""
        fitting.check_y(self, y)
        if regression_targets(y).ndim != 1:
            raise ValueError("ExtraTreesRegressor takes one target; several are for RandomForestRegressor.")
        super().fit(X, y, sample_weight)
        return self
