"""AdaBoost: members in turn, each on rows weighted by how the earlier ones failed them.

Two classes: discrete AdaBoost (Freund and Schapire 1997), alpha = 1/2 ln((1 - err) / err), by reweighting or by
resampling. More classes: SAMME (Zhu, Zou, Rosset and Hastie 2009). Regression: AdaBoost.R2 (Drucker 1997), whose
prediction is a weighted median: no sum, so its file has an objective of our own, `arboost:weighted_median`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone  # type: ignore[import-untyped]
from sklearn.utils import _safe_indexing  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost.booster import Booster
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
from arboost.ensemble.decision_tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    Task,
    class_row_weights,
    classification_task,
    regression_task,
)
from arboost.matrix.dmatrix import DMatrix
from arboost.modelio.schema import SavedModel
from arboost.runtime import rng
from arboost.runtime.errors import ModelFileError, XGBoostError
from arboost.tree.model import Tree

MEDIAN = "arboost:weighted_median"
_LEAST_ERROR = 1e-10  # a member without an error gets the weight of one with this, and is the last
_ROWS = 0  # what a key is for


class NoBoosterError(XGBoostError, AttributeError):
    """The members are no trees of ours; properties that need trees are then absent."""


class _Learned(NamedTuple):
    """A member and its predictions for all training rows: class codes, or numbers."""

    member: Any
    prediction: np.ndarray


class _TreeLearner:
    """Grows our own trees, on one matrix of bins for all members."""

    def __init__(self, estimator: Any, data: DMatrix, task: Task, codes: np.ndarray | None, classes: np.ndarray | None):
        self._estimator, self._data, self._task = estimator, data, task
        self._codes, self._classes = codes, classes
        self._builder = estimator.make_builder(data, len(task.targets))

    def learn(self, weight: np.ndarray, key: int) -> _Learned:
        """A member from weighted rows."""
        member, task = clone(self._estimator), self._task
        if self._codes is not None and self._classes is not None:
            member._take_classes(self._classes)
            weight = class_row_weights(member, self._codes, weight)
        made = self._builder.grow(task.targets, weight, key, task.impurity)
        tree = member.finish_tree(made, task, weight)
        member.take_tree(tree, task, self._data)
        if tree is made.tree:
            found = task.base + made.predict(self._data.num_row()).astype(np.float64)
        else:  # pruned
            found = member.get_booster().predict(self._data, strict_shape=True).astype(np.float64)
        if self._codes is None:
            return _Learned(member, found[:, 0])
        return _Learned(member, found.argmax(axis=1) if found.shape[1] > 1 else (found[:, 0] > 0.5).astype(np.int64))

    def learn_drawn(self, rows: np.ndarray, key: int) -> _Learned:
        """A member from drawn rows."""
        return self.learn(np.bincount(rows, minlength=self._data.num_row()).astype(np.float64), key)


class _AnyLearner:
    """Fits any estimator of scikit-learn's kind."""

    def __init__(self, estimator: Any, X: Any, y: np.ndarray, classes: np.ndarray | None):
        self._estimator, self._X, self._y, self._classes = estimator, X, y, classes

    def _member(self, key: int) -> Any:
        member = clone(self._estimator)
        if "random_state" in member.get_params(deep=False):
            member.set_params(random_state=key & 0x7FFFFFFF)
        return member

    def learn(self, weight: np.ndarray, key: int) -> _Learned:
        """A member from weighted rows; weights are 1 on average, as learners with limits on them expect."""
        weight = weight * (len(weight) / weight.sum())
        return self._with_prediction(self._member(key).fit(self._X, self._y, sample_weight=weight))

    def learn_drawn(self, rows: np.ndarray, key: int) -> _Learned:
        """A member from drawn rows."""
        return self._with_prediction(self._member(key).fit(_safe_indexing(self._X, rows), self._y[rows]))

    def _with_prediction(self, member: Any) -> _Learned:
        found = np.asarray(member.predict(self._X))
        return _Learned(member, found if self._classes is None else np.searchsorted(self._classes, found))


def draw_rows(key: int, share: np.ndarray) -> np.ndarray:
    """As many rows as there are, drawn with replacement by their shares."""
    draws = np.random.Generator(np.random.Philox(key=rng.make_key(key, _ROWS))).random(len(share))
    ends = np.cumsum(share)
    return np.minimum(np.searchsorted(ends, draws * ends[-1], side="right"), len(share) - 1)


class _AdaBoost(TreeEnsemble):
    """What both share."""

    estimator: Any
    n_estimators: int
    learning_rate: float
    random_state: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_weights_")

    def get_booster(self) -> Booster:
        """The model as a Booster, if its members are trees of ours."""
        if self.__sklearn_is_fitted__() and not hasattr(self, "_Booster"):
            kind = type(self.estimators_[0]).__name__
            raise NoBoosterError(f"A model of {kind} is no sum of trees, so there is no Booster of it: use pickle.")
        return super().get_booster()

    @property
    def n_features_in_(self) -> int:
        """Number of features that the model was trained on."""
        return super().n_features_in_ if hasattr(self, "_Booster") else int(self.estimators_[0].n_features_in_)

    def _check_numbers(self) -> None:
        check_count("n_estimators", self.n_estimators)
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate!r}.")

    def _take_members(self, found: list[tuple[Any, float, float]]) -> None:
        """Members, with the weight and the error of each."""
        self.__dict__.pop("_Booster", None)
        members, weights, errors = zip(*found, strict=True)
        self.estimators_ = list(members)
        self.estimator_weights_, self.estimator_errors_ = np.array(weights), np.array(errors)

    def _facts(self) -> dict[str, Any]:
        return {"weights": self.estimator_weights_.tolist(), "errors": self.estimator_errors_.tolist()}

    def _take_facts(self, facts: dict[str, Any]) -> None:
        self.estimator_weights_ = schema.read_numbers(facts, "weights")
        self.estimator_errors_ = schema.read_numbers(facts, "errors")


class AdaBoostClassifier(TreeClassifier, _AdaBoost):
    """AdaBoost for classification: a weighted vote of members, each trained on what the earlier ones got wrong.

    Parameters
    ----------
    estimator : estimator, default None
        The weak learner: a classifier of ours or any other. None: `DecisionTreeClassifier(max_depth=1)`, a stump.
    n_estimators : int, default 50
        Most members. It ends sooner where a member makes no error, or errs as often as chance.
    learning_rate : float, default 1.0
        Every member's weight is multiplied by it.
    resample : bool, default False
        Whether a member sees rows drawn by their weights, with replacement, instead of weighted rows: for learners
        that know no weights.
    random_state : int, RandomState or Generator, default None
        Seed of all draws; None: 0.
    n_jobs : int, default None
        Threads; None: all cores.
    enable_categorical : bool, default False
        Take categorical columns of data frames as such.

    Attributes
    ----------
    estimators_ : list
        The members.
    estimator_weights_, estimator_errors_ : arrays
        alpha and the weighted error of each: alpha = 1/2 ln((1 - err) / err) for two classes,
        ln((1 - err) / err) + ln(K - 1) for K of them.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        resample: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "AdaBoostClassifier":
        """Train the members, one after the other."""
        fitting.check_y(self, y)
        self._check_numbers()
        codes = self._encode(y)
        data, weight = self._matrix(X, y), row_weights(sample_weight, len(codes))
        stump = DecisionTreeClassifier(
            max_depth=1, n_jobs=self.n_jobs, random_state=self._seed(), enable_categorical=self.enable_categorical
        )
        estimator = stump if self.estimator is None else self.estimator
        learner: _TreeLearner | _AnyLearner
        if isinstance(estimator, DecisionTreeClassifier):
            learner = _TreeLearner(estimator, data, classification_task(codes, self.n_classes_), codes, self.classes_)
        else:
            learner = _AnyLearner(estimator, X, self.classes_[codes], self.classes_)
        self._boost(learner, codes, weight / weight.sum())
        if isinstance(estimator, DecisionTreeClassifier):
            self._Booster = self._fold(data)
        return self

    def _boost(self, learner: _TreeLearner | _AnyLearner, codes: np.ndarray, share: np.ndarray) -> None:
        found: list[tuple[Any, float, float]] = []
        seed = self._seed()
        for number in range(self.n_estimators):
            key = rng.make_key(seed, number)
            if self.resample:
                member, prediction = learner.learn_drawn(draw_rows(key, share), key)
            else:
                member, prediction = learner.learn(share, key)
            is_wrong = prediction != codes
            error = float(share[is_wrong].sum())
            if self.n_classes_ > 1 and error >= 1.0 - 1.0 / self.n_classes_:
                if not found:
                    raise ValueError(
                        f"The first {type(member).__name__} is no better than chance (it errs on {error:.3f} of the "
                        "weight), so there is nothing to boost: use a stronger estimator."
                    )
                break
            alpha = self._alpha(error)
            found.append((member, alpha, error))
            if error <= 0.0:
                break
            share = self._reweight(share, is_wrong, alpha)
        self._take_members(found)

    def _alpha(self, error: float) -> float:
        """The weight of a member that errs on so much."""
        error = max(error, _LEAST_ERROR)
        odds = float(np.log((1.0 - error) / error))
        return self.learning_rate * (0.5 * odds if self.n_classes_ <= 2 else odds + float(np.log(self.n_classes_ - 1)))

    def _reweight(self, share: np.ndarray, is_wrong: np.ndarray, alpha: float) -> np.ndarray:
        """The shares of the rows for the next member."""
        if self.n_classes_ == 2:  # exp(-alpha y h), y and h being -1 or 1
            share = share * np.exp(np.where(is_wrong, alpha, -alpha))
        else:
            share = share * np.exp(np.where(is_wrong, alpha, 0.0))
        return share / share.sum()

    def _fold(self, data: DMatrix) -> Booster:
        """One model whose leaves hold the members' weighted votes; its margin is the decision (of K: over K - 1)."""
        total = self.estimator_weights_.sum()
        pairs = zip(self.estimators_, self.estimator_weights_ / total, strict=True)
        rounds = [[(_vote(member.tree_, weight, self.n_classes_), 0)] for member, weight in pairs]
        if self.n_classes_ <= 2:
            return self._assemble(data, {"objective": "binary:logistic"}, rounds, 0.5)
        params = {"objective": "multi:softprob", "num_class": self.n_classes_}
        return self._assemble(data, params, rounds, np.zeros(self.n_classes_))

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) from -2 to 2, or (n, n_classes): the members' weighted votes, divided by the sum of weights.

        Of two classes it is the vote for the second less that for the first, as in scikit-learn.
        """
        if hasattr(self, "_Booster") or not self.__sklearn_is_fitted__():
            return self._scaled(self._margin(X))
        return self._members_votes(X, len(self.estimators_))

    def _scaled(self, margin: np.ndarray) -> np.ndarray:
        return margin.astype(np.float64) * max(1, self.n_classes_ - 1)

    def _members_votes(self, X: Any, n_members: int) -> np.ndarray:
        """The decision of members that are no trees of ours."""
        weights = self.estimator_weights_[:n_members]
        votes = [self.classes_.searchsorted(member.predict(X)) for member in self.estimators_[:n_members]]
        n_other = max(1, self.n_classes_ - 1)
        found = sum(
            np.where(vote[:, None] == np.arange(self.n_classes_), weight, -weight / n_other)
            for vote, weight in zip(votes, weights, strict=True)
        )
        found = np.asarray(found) / weights.sum()
        return found[:, 1] - found[:, 0] if self.n_classes_ == 2 else found

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """The decision after each member."""
        self.get_booster()
        total, done = self.estimator_weights_.sum(), np.cumsum(self.estimator_weights_)
        found: Any = 0.0
        for number, weight in enumerate(done):
            found = found + self._scaled(self._margin(X, (number, number + 1)))
            yield found * (total / weight)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The classes after each member."""
        for decision in self.staged_decision_function(X):
            yield self._choose(decision)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most weighted votes."""
        return self._choose(self.decision_function(X))

    def _choose(self, decision: np.ndarray) -> np.ndarray:
        if self.n_classes_ == 1:
            return self.classes_[np.zeros(len(decision), np.int64)]
        codes = (decision > 0).astype(np.int64) if decision.ndim == 1 else decision.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, n_classes) softmax of the votes, divided by K - 1 as the paper has it (eq. 15)."""
        decision = self.decision_function(X)
        if self.n_classes_ == 1:
            return np.ones((len(decision), 1))
        return class_probabilities(decision / (self.n_classes_ - 1))


def _vote(tree: Tree, weight: float, n_classes: int) -> Tree:
    """A tree of shares as one of votes: `weight` for the most frequent class of a leaf, the others share its loss."""
    leaf = tree.left < 0
    if not tree.has_vectors:
        sign = np.where(tree.threshold > 0.5, 1.0, -1.0).astype(np.float32)
        means = np.where(tree.base_weight > 0.5, 1.0, -1.0).astype(np.float32)
        return replace(
            tree,
            threshold=np.where(leaf, sign * np.float32(2 * weight), tree.threshold),
            base_weight=means * np.float32(2 * weight),
        )
    votes = np.where(
        np.arange(n_classes) == tree.vectors.argmax(axis=1)[:, None],
        weight / (n_classes - 1),
        -weight / (n_classes - 1) ** 2,
    ).astype(np.float32)
    vectors = np.where(leaf[:, None], votes, np.float32(0))
    return replace(tree, vectors=vectors, base_weight=vectors.copy())


class AdaBoostRegressor(TreeRegressor, _AdaBoost):
    """AdaBoost.R2: members on rows drawn by how badly the earlier ones predict them; their weighted median.

    Parameters
    ----------
    estimator : estimator, default None
        The weak learner: a regressor of ours or any other. None: `DecisionTreeRegressor(max_depth=3)`.
    n_estimators : int, default 50
        Most members. It ends sooner where a member makes no error, or its mean loss is a half or more.
    learning_rate : float, default 1.0
        Every member's weight is multiplied by it.
    loss : "linear", "square" or "exponential", default "linear"
        What the error of a row, divided by the largest, counts.
    random_state, n_jobs, enable_categorical :
        As of `AdaBoostClassifier`.

    Attributes
    ----------
    estimators_ : list
        The members.
    estimator_weights_, estimator_errors_ : arrays
        ln((1 - err) / err) and the mean loss of each.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        loss: str = "linear",
        random_state: Any = None,
        n_jobs: int | None = None,
        enable_categorical: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "AdaBoostRegressor":
        """Train the members, one after the other."""
        fitting.check_y(self, y)
        self._check_numbers()
        if self.loss not in ("linear", "square", "exponential"):
            raise ValueError(f"loss must be 'linear', 'square' or 'exponential', got {self.loss!r}.")
        targets = regression_targets(y, most_dims=1)
        data, weight = self._matrix(X, y), row_weights(sample_weight, len(targets))
        estimator = self.estimator
        if estimator is None:
            estimator = DecisionTreeRegressor(
                max_depth=3, n_jobs=self.n_jobs, random_state=self._seed(), enable_categorical=self.enable_categorical
            )
        learner: _TreeLearner | _AnyLearner
        if isinstance(estimator, DecisionTreeRegressor):
            learner = _TreeLearner(estimator, data, regression_task(targets, weight), None, None)
        else:
            learner = _AnyLearner(estimator, X, targets, None)
        self._boost(learner, targets, weight / weight.sum())
        if isinstance(estimator, DecisionTreeRegressor):
            self._Booster = self._side_by_side(data)
        return self

    def _boost(self, learner: _TreeLearner | _AnyLearner, targets: np.ndarray, share: np.ndarray) -> None:
        found: list[tuple[Any, float, float]] = []
        seed = self._seed()
        for number in range(self.n_estimators):
            key = rng.make_key(seed, number)
            member, prediction = learner.learn_drawn(draw_rows(key, share), key)
            losses = self._losses(np.abs(prediction - targets), share)
            error = float((share * losses).sum())
            if error >= 0.5 and found:
                break
            beta = max(error, _LEAST_ERROR) / (1.0 - error) if error < 0.5 else 1.0
            found.append((member, self.learning_rate * -float(np.log(beta)) if beta < 1.0 else 1.0, error))
            if error <= 0.0 or error >= 0.5:
                break
            share = share * beta ** ((1.0 - losses) * self.learning_rate)
            share = share / share.sum()
        self._take_members(found)

    def _losses(self, errors: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Losses from 0 to 1."""
        largest = errors[share > 0].max()
        relative = np.minimum(errors / largest, 1.0) if largest > 0 else np.zeros_like(errors)
        if self.loss == "square":
            return relative**2
        return 1.0 - np.exp(-relative) if self.loss == "exponential" else relative

    def _side_by_side(self, data: DMatrix) -> Booster:
        """One model that has an output for every member."""
        trees = [(member.tree_, number) for number, member in enumerate(self.estimators_)]
        base = self.estimators_[0].get_booster()._learner.base_score
        n = len(trees)
        return self._assemble(data, {"objective": "reg:squarederror"}, [trees], np.repeat(base, n), n_targets=n)

    def _predictions(self, X: Any) -> np.ndarray:
        """(n, n_members) what the members predict."""
        if hasattr(self, "_Booster") or not self.__sklearn_is_fitted__():
            found = self._margin(X)
            return found.reshape(len(found), -1).astype(np.float64)
        return np.column_stack([member.predict(X) for member in self.estimators_]).astype(np.float64)

    def _median_members(self, predictions: np.ndarray) -> np.ndarray:
        """For each row the member whose prediction is the weighted median."""
        order = np.argsort(predictions, axis=1, kind="stable")
        below = np.cumsum(self.estimator_weights_[: predictions.shape[1]][order], axis=1)
        place = (below >= 0.5 * below[:, -1:]).argmax(axis=1)
        return order[np.arange(len(order)), place]

    def predict(self, X: Any) -> np.ndarray:
        """The weighted median of the members' predictions."""
        return self._median(self._predictions(X))

    def _median(self, predictions: np.ndarray) -> np.ndarray:
        return predictions[np.arange(len(predictions)), self._median_members(predictions)]

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The prediction after each member."""
        predictions = self._predictions(X)
        for n_members in range(1, predictions.shape[1] + 1):
            yield self._median(predictions[:, :n_members])

    def contributions(self, X: Any) -> np.ndarray:
        """What each feature adds to a row's prediction, (n, n_features + 1): SHAP values of its median member."""
        data = self._prediction_matrix(X)
        found = self.get_booster().predict(data, pred_contribs=True, strict_shape=True)
        predictions = self.get_booster().predict(data, strict_shape=True).astype(np.float64)
        return found[np.arange(len(found)), self._median_members(predictions)]

    def _to_file(self, saved: SavedModel) -> SavedModel:
        return replace(saved, objective={"name": MEDIAN})

    def _from_file(self, saved: SavedModel) -> SavedModel:
        if saved.objective["name"] != MEDIAN:
            raise ModelFileError(f"learner.objective.name: '{saved.objective['name']}' where '{MEDIAN}' is expected")
        return replace(saved, objective={"name": "reg:squarederror"})
