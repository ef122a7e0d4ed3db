"""A single decision tree for classification and regression, with cost-complexity pruning (CART)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.utils import Bunch  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost.ensemble.base import TreeClassifier, TreeEnsemble, TreeRegressor, regression_targets, row_weights
from arboost.ensemble.growing import GrownOnRows, TreeBuilder, read_limits
from arboost.ensemble.pruning import prune, pruning_path
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime import rng
from arboost.tree.model import Tree


@dataclass(frozen=True)
class Task:
    """What a tree is to learn: classes or numbers."""

    base: np.ndarray  # (K,) what is added to every leaf
    impurity: float  # how many times the variance the impurity is
    numbers: np.ndarray | None = None  # (K, n) float64, of a regression
    codes: np.ndarray | None = None  # (n,) of classes
    n_classes: int = 0

    @cached_property
    def targets(self) -> np.ndarray:
        """(K, n) float64: the numbers, or a column of two classes, else one for each class."""
        if self.codes is None:
            assert self.numbers is not None
            return self.numbers
        if self.n_classes <= 2:
            return (self.codes == 1).astype(np.float64)[None]
        return (self.codes == np.arange(self.n_classes)[:, None]).astype(np.float64)


def classification_task(codes: np.ndarray, n_classes: int) -> Task:
    """Gini's impurity as a variance: that of the one column of two classes is half of it."""
    is_one_column = n_classes <= 2
    base = np.zeros(1 if is_one_column else n_classes)
    return Task(base, 2.0 if is_one_column else 1.0, codes=codes.astype(np.int32), n_classes=n_classes)


def regression_task(targets: np.ndarray, weight: np.ndarray) -> Task:
    """Deviations from the mean, which numbers of 32 bits hold better than values far from 0."""
    columns = targets.reshape(len(targets), -1).T
    base = (columns @ (weight / weight.sum())).astype(np.float32).astype(np.float64)
    return Task(base, 1.0 / len(columns), numbers=columns - base[:, None])


def check_criterion(criterion: Any, allowed: str) -> None:
    if criterion != allowed:
        raise ValueError(f"criterion must be {allowed!r}, the one that there is here, got {criterion!r}.")


class _DecisionTree(TreeEnsemble):
    """What both trees share."""

    criterion: str
    ccp_alpha: float

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree; `y` holds the label of every row."""
        made, task, weight, data = self._grow(X, y, sample_weight)
        self.take_tree(self.finish_tree(made, task, weight), task, data)
        return self

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """`ccp_alphas` at which the unpruned tree shrinks, and `impurities` of its leaves from each of them on."""
        alphas, impurities = pruning_path(*_decreases(*self._grow(X, y, sample_weight)[:3]))
        return Bunch(ccp_alphas=alphas, impurities=impurities)

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> tuple[GrownOnRows, Task, np.ndarray, DMatrix]:
        """The unpruned tree, what it was to learn, the weights of the rows, and the matrix."""
        fitting.check_y(self, y)
        task, weight = self._read(y, sample_weight)
        data = self._matrix(X, y)
        builder = self.make_builder(data, len(task.targets))
        return builder.grow(task.targets, weight, rng.make_key(self._seed(), 0), task.impurity), task, weight, data

    def _read(self, y: Any, sample_weight: Any) -> tuple[Task, np.ndarray]:
        """What is to be learnt, and weights of the rows."""
        raise NotImplementedError  # classifier and regressor say what their labels are

    def make_builder(self, data: DMatrix, n_targets: int) -> TreeBuilder:
        """What grows trees under this estimator's limits."""
        return TreeBuilder(
            self._context(), data, read_limits(self, data), n_targets, of_classes=isinstance(self, TreeClassifier)
        )

    def finish_tree(self, made: GrownOnRows, task: Task, weight: np.ndarray) -> Tree:
        """The tree, pruned where `ccp_alpha` says so."""
        if not 0.0 <= self.ccp_alpha < np.inf:
            raise ValueError(f"ccp_alpha must be a number of at least 0, got {self.ccp_alpha!r}.")
        return prune(*_decreases(made, task, weight)[:2], self.ccp_alpha) if self.ccp_alpha > 0 else made.tree

    def take_tree(self, tree: Tree, task: Task, data: DMatrix) -> None:
        """Become the estimator that has learned this tree."""
        params = {"objective": "reg:squarederror"}
        self._Booster = self._assemble(data, params, [[(tree, 0)]], task.base, n_targets=len(task.targets))

    @property
    def tree_(self) -> Tree:
        """The tree as arrays; see `arboost.tree.model.Tree`."""
        return self._trees[0]

    def get_depth(self) -> int:
        """Length of the longest path from the root to a leaf."""
        return self.tree_.depth()

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        return self.tree_.n_leaves

    def apply(self, X: Any) -> np.ndarray:
        """Number of the leaf that each row reaches, (n,) int32."""
        return super().apply(X)[:, 0]


def _decreases(made: GrownOnRows, task: Task, weight: np.ndarray) -> tuple[Tree, np.ndarray, float]:
    """(tree, decrease of the impurity by each split, impurity of the leaves); inner nodes get their means."""
    tree = made.tree
    weights, sums = made.node_sums(task.targets, weight)
    means = sums / weights[:, None]
    tree.base_weight = (means if tree.has_vectors else means[:, 0]).astype(np.float32)
    scores = (sums * means).sum(axis=1)
    inner = tree.left >= 0
    decrease = np.zeros(tree.n_nodes)
    decrease[inner] = scores[tree.left[inner]] + scores[tree.right[inner]] - scores[inner]
    squares = float((np.square(task.targets) @ weight).sum())
    unit = task.impurity / weights[0]
    return tree, np.maximum(decrease, 0.0) * unit, max(0.0, squares - scores[~inner].sum()) * unit


class DecisionTreeClassifier(TreeClassifier, _DecisionTree):
    """A decision tree for classification: splits lower Gini's impurity, leaves hold the shares of the classes.

    Up to 10,000 rows every value is a candidate and thresholds lie midway between two rows, as in scikit-learn; above,
    features are cut into `max_bin` bins. Missing values go to the side where they fit better.

    Parameters
    ----------
    criterion : str, default "gini"
        The impurity: "gini" is the one that there is.
    max_depth : int, default None
        Levels of splits; None: no limit.
    min_samples_split, min_samples_leaf : int or float, default 2 and 1
        Rows that a node to split, and a leaf, must have, or their share of all. A row counts as its weight, the mean
        weight as 1.
    min_weight_fraction_leaf : float, default 0.0
        Share of all weight that a leaf must have.
    max_features : int, float, "sqrt", "log2" or None, default None
        Features drawn for every node; None: all.
    max_leaf_nodes : int, default None
        Most leaves; the split that lowers the impurity most comes first then.
    min_impurity_decrease : float, default 0.0
        A split must lower the impurity of the whole tree by more than this.
    class_weight : dict or "balanced", default None
        Weight of each class, times `sample_weight`.
    ccp_alpha : float, default 0.0
        Prune subtrees that are worth less than this a leaf; see `cost_complexity_pruning_path`.
    max_bin : int, default None
        Most bins a feature is cut into; None: all values up to 10,000 rows, else 256.
    random_state : int, RandomState or Generator, default None
        Seed of the draws of `max_features`.
    n_jobs : int, default None
        Threads; None: all cores. The tree does not depend on them.
    enable_categorical : bool, default False
        Take categorical columns of data frames as such. With three classes or more they are refused.
    """

    def __init__(
        self,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        ccp_alpha: float = 0.0,
        max_bin: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def _read(self, y: Any, sample_weight: Any) -> tuple[Task, np.ndarray]:
        check_criterion(self.criterion, "gini")
        codes = self._encode(y)
        return classification_task(codes, self.n_classes_), class_row_weights(self, codes, sample_weight)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) the shares of the classes in the leaves of the rows."""
        return proba_of_shares(self._margin(X), self.n_classes_)


def class_row_weights(estimator: Any, codes: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Weights of the rows, times those of their classes."""
    weight = row_weights(sample_weight, len(codes))
    if estimator.class_weight is None:
        return weight
    return fitting.class_weights(estimator.class_weight, estimator.classes_, codes, weight)


def proba_of_shares(shares: np.ndarray, n_classes: int) -> np.ndarray:
    """(n, n_classes) float64 from the sum of the trees: the share of class 1 of two, or of every class."""
    if n_classes == 1:
        return np.ones((len(shares), 1))
    shares = np.clip(shares.astype(np.float64), 0.0, 1.0)
    return np.column_stack([1.0 - shares, shares]) if shares.ndim == 1 else shares


class DecisionTreeRegressor(TreeRegressor, _DecisionTree):
    """A decision tree for regression: splits lower the variance, leaves hold means; also of several targets at once.

    Parameters
    ----------
    criterion : str, default "squared_error"
        The impurity: "squared_error" is the one that there is.
    max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes, \
min_impurity_decrease, ccp_alpha, max_bin, random_state, n_jobs, enable_categorical :
        As of `DecisionTreeClassifier`.
    """

    _several_targets = True

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        max_bin: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def _read(self, y: Any, sample_weight: Any) -> tuple[Task, np.ndarray]:
        check_criterion(self.criterion, "squared_error")
        targets = regression_targets(y)
        weight = row_weights(sample_weight, len(targets))
        return regression_task(targets, weight), weight
