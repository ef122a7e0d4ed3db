"""Combination features: which leaf of each tree a row falls into, one-hot (He et al. 2014, click prediction).

A leaf is a conjunction of conditions that trees found worth making; a linear model on leaves weighs them anew.
"""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.utils import _safe_indexing  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost.ensemble.base import ClassLabels
from arboost.sklearn import XGBClassifier


class LeafEncoder(TransformerMixin, BaseEstimator):
    """Rows as the leaves that they reach: a sparse matrix of 0 and 1, one column for each leaf of each tree.

    Parameters
    ----------
    estimator : estimator, default None
        Trees of ours, fitted or not: any estimator with `apply`. None: `XGBClassifier(n_estimators=100)`.
    prefit : bool, default False
        Whether `estimator` is fitted already, and taken as it is.

    Attributes
    ----------
    estimator_ : estimator
        The fitted trees.
    leaves_ : list of arrays
        For each tree the numbers of its leaves, in the order of their columns.
    """

    def __init__(self, estimator: Any = None, *, prefit: bool = False) -> None:
        self.estimator = estimator
        self.prefit = prefit

    def __sklearn_tags__(self) -> Any:
        tags = fitting.tell_input(super().__sklearn_tags__())
        tags.target_tags.required = not self.prefit
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> "LeafEncoder":
        """Fit the trees, unless they are fitted; `fit_params` go to their `fit`."""
        if self.prefit:
            if self.estimator is None:
                raise ValueError("prefit=True needs the fitted estimator.")
            self.estimator_ = self.estimator
        else:
            fitting.check_y(self, y)
            trees = XGBClassifier(n_estimators=100) if self.estimator is None else clone(self.estimator)
            self.estimator_ = trees.fit(X, y, **fit_params)
        trees = self.estimator_.get_booster()._learner.model.trees
        self.leaves_ = [np.flatnonzero(tree.left < 0) for tree in trees]
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "leaves_")

    @property
    def n_features_in_(self) -> int:
        """Number of features that the trees were trained on."""
        return self.estimator_.n_features_in_

    def transform(self, X: Any) -> scipy.sparse.csr_array:
        """(n, n_leaves) float32: one 1 for every tree in each row."""
        check_is_fitted(self)
        found = np.asarray(self.estimator_.apply(X))
        found = found.reshape(len(found), -1).astype(np.int64)
        first = np.cumsum([0, *map(len, self.leaves_)])
        columns = [
            first[t] + np.searchsorted(leaves, found[:, t])
            for t, leaves in enumerate(self.leaves_[: found.shape[1]])  # early stopping may leave trees unused
        ]
        n_rows, n_trees = found.shape
        indices = np.stack(columns, axis=1).ravel().astype(np.int32)
        starts = np.arange(0, n_rows * n_trees + 1, n_trees)
        return scipy.sparse.csr_array((np.ones(len(indices), np.float32), indices, starts), (n_rows, int(first[-1])))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns: tree and number of the leaf."""
        check_is_fitted(self)
        names = [f"tree{t}_leaf{leaf}" for t, leaves in enumerate(self.leaves_) for leaf in leaves]
        return np.array(names, dtype=object)


def _with_rows(X: Any) -> Any:
    """The data in a form of which rows can be taken."""
    if scipy.sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "iloc") or isinstance(X, np.ndarray) else np.asarray(X)


class LeafLogisticRegression(ClassLabels, ClassifierMixin, BaseEstimator):
    """Boosted trees into a logistic regression: the regression weighs the leaves anew.

    The trees learn from one part of the rows, the regression from the others, else it would trust leaves that were
    made for just these rows.

    Parameters
    ----------
    estimator : estimator, default None
        The trees; None: `XGBClassifier(n_estimators=100)`.
    regression : estimator, default None
        The linear model; None: `LogisticRegression(C=0.05, max_iter=1000)`.
    tree_share : float, default 0.5
        Share of the rows that the trees learn from. 1.0: both learn from all rows.
    with_margin : bool, default True
        Whether the regression also sees the margin of the trees, so that it begins where they end.
    random_state : int, RandomState or Generator, default None
        Seed of the division of the rows; None: 0.

    Attributes
    ----------
    encoder_ : LeafEncoder
        The fitted trees.
    regression_ : estimator
        The fitted linear model.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        regression: Any = None,
        tree_share: float = 0.5,
        with_margin: bool = True,
        random_state: Any = None,
    ) -> None:
        fitting.keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        return fitting.tell_input(super().__sklearn_tags__())

    def fit(self, X: Any, y: Any) -> "LeafLogisticRegression":
        """Fit the trees, then the regression on their leaves."""
        fitting.check_data(self, fitting.Rows(X, y))
        codes, X = self._encode(y), _with_rows(X)
        for_trees = for_regression = np.arange(len(codes))
        if self.tree_share != 1.0:
            seed = fitting.seed(self.random_state) or 0
            for_regression, for_trees = fitting.split_rows(len(codes), self.tree_share, seed, codes)
        self.encoder_ = LeafEncoder(self.estimator).fit(_safe_indexing(X, for_trees), self.classes_[codes[for_trees]])
        regression = LogisticRegression(C=0.05, max_iter=1000) if self.regression is None else clone(self.regression)
        features = self._features(_safe_indexing(X, for_regression))
        self.regression_ = regression.fit(features, self.classes_[codes[for_regression]])
        return self

    def _features(self, X: Any) -> scipy.sparse.csr_array:
        leaves = self.encoder_.transform(X)
        if not self.with_margin:
            return leaves
        margin = self.encoder_.estimator_.predict(X, output_margin=True)
        return scipy.sparse.hstack([leaves, scipy.sparse.csr_array(margin.reshape(len(margin), -1))], format="csr")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regression_")

    @property
    def n_features_in_(self) -> int:
        """Number of features that the trees were trained on."""
        return self.encoder_.n_features_in_

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) probabilities."""
        return self._regression().predict_proba(self._features(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) or (n, n_classes) scores of the regression."""
        return self._regression().decision_function(self._features(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        return self._regression().predict(self._features(X))

    def _regression(self) -> Any:
        check_is_fitted(self)
        return self.regression_
