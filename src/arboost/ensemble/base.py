"""What the estimators share: a Booster made of their trees, files, leaves, explanations, and checks of `fit`'s input.

A forest, AdaBoost and classic boosting are sums of trees, so their models are XGBoost's: weights are folded into the
leaves. What kind of estimator a file belongs to, and what its trees do not tell, lies in the attribute
`arboost_estimator`.
"""

import json
import os
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost import cards
from arboost._sklearn_fit import Rows
from arboost.assemble import assemble
from arboost.booster import Booster
from arboost.ensemble import schema
from arboost.matrix.dmatrix import DMatrix
from arboost.modelio import files
from arboost.modelio.schema import SavedModel, read_object
from arboost.runtime.context import Context, resolve_threads
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

_ATTRIBUTE = "arboost_estimator"


class TreeEnsemble(fitting.BoosterFeatures, BaseEstimator):
    """An estimator whose model is a Booster."""

    n_jobs: int | None
    enable_categorical: bool

    # ---- scikit-learn's questions ----

    def __sklearn_tags__(self) -> Any:
        return fitting.tell_input(super().__sklearn_tags__(), bool(self.enable_categorical))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_Booster")

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + (cards.estimator_card(self) if hasattr(self, "_Booster") else "")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        return cards.with_card(self, bundle) if hasattr(self, "_Booster") else bundle

    # ---- what fit is given ----

    def _matrix(self, X: Any, y: Any) -> DMatrix:
        """The features of a training set, checked."""
        fitting.check_data(self, Rows(X, y))
        Context().refuse_workers(type(self).__name__, "its draws go over the rows of all. Use XGBRFClassifier.")
        data = DMatrix(X, nthread=self.n_jobs, enable_categorical=self.enable_categorical)
        if not data.num_row():
            raise ValueError(f"Found array with 0 sample(s) (shape={data.num_row(), data.num_col()}): give it rows.")
        n_labels = len(np.asarray(y))
        if n_labels != data.num_row():
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[data.num_row(), n_labels]}"
            )
        return data

    def _context(self) -> Context:
        return Context(n_threads=resolve_threads(self.n_jobs), seed=self._seed())

    def _seed(self) -> int:
        return fitting.seed(getattr(self, "random_state", None)) or 0

    # ---- the model ----

    def _assemble(self, data: DMatrix, params: dict[str, Any], rounds: Any, base_score: Any, **more: Any) -> Booster:
        """A Booster of trees that were grown on `data`."""
        stored = None if data.categories is None else data.categories.stored()
        names: dict[str, Any] = {
            "feature_names": data.feature_names,
            "feature_types": data.feature_types,
            "categories": stored,
        }
        params = {**params, "nthread": self.n_jobs}
        return assemble(params, rounds, base_score, data.num_col(), **names, **more)

    def get_booster(self) -> Booster:
        """The model as a Booster; its margins are the sums of the trees."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: need to call fit or load_model beforehand."
            )
        return self._Booster

    @property
    def _trees(self) -> list[Tree]:
        return self.get_booster()._learner.model.trees

    def save_model(self, fname: "str | os.PathLike[str]") -> None:
        """Save as a model file, UBJSON or JSON by the file's ending; XGBoost reads it where it says so."""
        booster = self.get_booster().copy()
        facts = {"class": type(self).__name__, **self._facts()}
        booster.set_attr(**{_ATTRIBUTE: json.dumps(facts)})
        files.save_path(self._to_file(booster._to_saved()), fname)

    def load_model(self, fname: "str | os.PathLike[str] | bytearray | bytes") -> None:
        """Load what `save_model` of the same kind of estimator has written."""
        booster = Booster({"n_jobs": self.n_jobs})
        saved = files.load_bytes(fname) if isinstance(fname, bytes | bytearray) else files.load_path(fname)
        booster._from_saved(self._from_file(saved))
        facts = read_object(booster.attr(_ATTRIBUTE), schema.FACTS)
        name = type(self).__name__
        if facts.get("class") != name:
            other = facts.get("class")
            raise TypeError(
                f"The file holds a model of {other}, not of {name}."
                if other
                else f"The file does not say that its model is one of {name}: load it with Booster."
            )
        booster.set_attr(**{_ATTRIBUTE: None})
        self.enable_categorical = "c" in (booster.feature_types or ())
        self._Booster = booster
        self._take_facts(facts)

    def _to_file(self, saved: SavedModel) -> SavedModel:
        """The model as its file holds it: with an objective of our own where the sum of the trees is not the model."""
        return saved

    def _from_file(self, saved: SavedModel) -> SavedModel:
        """The way back."""
        return saved

    def _facts(self) -> dict[str, Any]:
        """What a file must hold beside the trees, in JSON's types."""
        return {}

    def _take_facts(self, facts: dict[str, Any]) -> None:
        """Fitted attributes of a loaded model."""

    # ---- prediction ----

    def _margin(self, X: Any, iteration_range: tuple[int, int] = (0, 0)) -> np.ndarray:
        """(n,) or (n, K) float32: sums of the trees."""
        booster = self.get_booster()
        fitting.check_width(self, X)
        return booster.inplace_predict(X, predict_type="margin", iteration_range=iteration_range)

    def _prediction_matrix(self, X: Any) -> DMatrix:
        self.get_booster()
        fitting.check_width(self, X)
        return DMatrix(X, nthread=self.n_jobs, enable_categorical=self.enable_categorical)

    def apply(self, X: Any) -> np.ndarray:
        """Number of the leaf that each row reaches in each tree, (n, n_trees) int32."""
        leaves = self.get_booster().predict(self._prediction_matrix(X), pred_leaf=True)
        return leaves.reshape(len(leaves), -1).astype(np.int32)

    def contributions(self, X: Any) -> np.ndarray:
        """What each feature adds to a row's margin: SHAP values (n, n_features + 1), the last column the bias.

        (n, n_outputs, n_features + 1) where there are several outputs. They sum to the margin of `get_booster()`.
        """
        return self.get_booster().predict(self._prediction_matrix(X), pred_contribs=True)

    @property
    def feature_importances_(self) -> np.ndarray:
        """(n_features,) the impurity that splits on each feature take away, a mean over trees; they add up to 1."""
        found = np.zeros(self.n_features_in_)
        for tree in self._trees:
            inner = tree.left >= 0
            gains = np.bincount(tree.feature[inner], tree.gain[inner].astype(np.float64), len(found))
            if gains.sum() > 0:
                found += gains / gains.sum()
        total = found.sum()
        return found / total if total > 0 else found


class ClassLabels:
    """What classifiers share: labels of any kind, and the class of the largest probability."""

    classes_: np.ndarray
    n_classes_: int

    def _encode(self, y: Any) -> np.ndarray:
        """Codes of the labels; remembers the classes."""
        labels = fitting.label_array(y, "y")
        if labels.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
        self._take_classes(fitting.find_classes(labels))
        return fitting.encode(labels, self.classes_, "y")

    def _take_classes(self, classes: np.ndarray) -> None:
        self.classes_, self.n_classes_ = classes, len(classes)


class TreeClassifier(ClassLabels, ClassifierMixin, TreeEnsemble):
    """A classifier whose model is a Booster."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) probabilities."""
        raise NotImplementedError  # a forest and a single tree find theirs in different ways

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        proba = self.predict_proba(X)  # says so where nothing is fitted
        return self.classes_[proba.argmax(axis=1)]

    def _facts(self) -> dict[str, Any]:
        values = self.classes_.tolist()
        if not all(isinstance(value, str | int | float | bool) for value in values):
            raise XGBoostError(f"Class labels of type {type(values[0]).__name__} have no place in a file: use pickle.")
        dtype = "O" if self.classes_.dtype.kind == "O" else self.classes_.dtype.str
        return {**super()._facts(), "classes": values, "dtype": dtype}

    def _take_facts(self, facts: dict[str, Any]) -> None:
        super()._take_facts(facts)
        n_outputs = self.get_booster()._learner.n_outputs
        self._take_classes(schema.read_labels(facts, n_outputs, schema.FACTS, "classes"))


class TreeRegressor(RegressorMixin, TreeEnsemble):
    """A regressor whose model is a Booster."""

    _several_targets = False  # whether it takes more than one

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_targets
        return tags

    def predict(self, X: Any) -> np.ndarray:
        """The sum of the trees, (n,) or (n, n_targets)."""
        return self._margin(X).astype(np.float64)


def class_probabilities(margin: np.ndarray) -> np.ndarray:
    """(n, n_classes) from margins: (n,) log odds of the second of two classes, or (n, n_classes)."""
    if margin.ndim == 2:
        return scipy.special.softmax(margin, axis=1)
    positive = scipy.special.expit(margin)
    return np.column_stack([1.0 - positive, positive])


def check_count(name: str, value: Any) -> int:
    """A parameter that must be a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
    return int(value)


def regression_targets(y: Any, most_dims: int = 2) -> np.ndarray:
    """Labels of a regression, (n,) or (n, K) float64, all finite."""
    targets = np.asarray(y)
    if targets.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {targets.dtype}.")
    try:
        targets = targets.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}.") from error
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if not 1 <= targets.ndim <= most_dims:
        raise ValueError(f"y should be a 1d array, got an array of shape {targets.shape} instead.")
    if not np.isfinite(targets).all():
        raise ValueError("Input y contains NaN, infinity or a value too large.")
    return targets


def row_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """(n,) float64 weights of the rows; ones where none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}!")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number: there is nothing to learn from.")
    return weight
