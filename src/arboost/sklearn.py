"""XGBoost's scikit-learn estimators: XGBModel, XGBClassifier, XGBRegressor, XGBRanker and the two forests.

They hold parameters, turn `fit`'s arguments into matrices (`_sklearn_fit`) and call `train`; nothing is learned
here. Constructor parameters are never changed by `fit`. Beyond XGBoost: any class labels, `class_weight`, and
`early_stopping` on rows that `fit` sets aside itself.
"""

import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost import cards
from arboost._sklearn_docs import document
from arboost._sklearn_fit import Rows
from arboost.booster import Booster
from arboost.callback import EvalsLog, TrainingCallback
from arboost.config import config_context
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.modelio.schema import read_object
from arboost.runtime import settings
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.training import train

__all__ = ["XGBClassifier", "XGBModel", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker", "XGBRegressor"]

DEFAULT_N_ESTIMATORS = 100
DEFAULT_EARLY_STOPPING_ROUNDS = 10  # of `early_stopping=True`
_META_ATTRIBUTE = "scikit_learn"  # in model files: the type of the estimator that saved them, as in XGBoost
# Constructor parameters that `train` does not know.
_WRAPPER_PARAMS = frozenset(
    {
        "callbacks",
        "class_weight",
        "early_stopping",
        "early_stopping_rounds",
        "enable_categorical",
        "feature_types",
        "feature_weights",
        "importance_type",
        "kwargs",
        "missing",
        "n_estimators",
        "validation_fraction",
    }
)
_MULTI = ("multi:softmax", "multi:softprob")


class XGBModel(fitting.BoosterFeatures, BaseEstimator):
    """Gradient boosting with scikit-learn's interface, for any objective."""

    @positional_with_warning
    def __init__(
        self,
        *,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        max_bin: int | None = None,
        grow_policy: str | None = None,
        learning_rate: float | None = None,
        n_estimators: int | None = None,
        verbosity: int | None = None,
        objective: str | Callable | None = None,
        booster: str | None = None,
        tree_method: str | None = None,
        n_jobs: int | None = None,
        gamma: float | None = None,
        min_child_weight: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        sampling_method: str | None = None,
        colsample_bytree: float | None = None,
        colsample_bylevel: float | None = None,
        colsample_bynode: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        scale_pos_weight: float | None = None,
        base_score: float | list[float] | None = None,
        random_state: np.random.RandomState | np.random.Generator | int | None = None,
        missing: float = np.nan,
        num_parallel_tree: int | None = None,
        monotone_constraints: dict[str, int] | str | None = None,
        interaction_constraints: str | Sequence[Sequence[str]] | None = None,
        importance_type: str | None = None,
        device: str | None = None,
        validate_parameters: bool | None = None,
        enable_categorical: bool = False,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        max_cat_to_onehot: int | None = None,
        max_cat_threshold: int | None = None,
        multi_strategy: str | None = None,
        eval_metric: str | Sequence[str | Callable] | Callable | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[TrainingCallback] | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        **kwargs: Any,
    ) -> None:
        given = dict(locals())
        for name in XGBModel._get_param_names():
            setattr(self, name, given[name])
        if kwargs:
            self.kwargs = kwargs

    # ---- parameters ----

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names in the constructors of the class and of those it inherits from: they pass `**kwargs` upwards."""
        names = set()
        for owner in cls.__mro__:
            if issubclass(owner, XGBModel) and "__init__" in vars(owner):
                parameters = inspect.signature(owner.__init__).parameters.values()
                names |= {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
        return sorted(names - {"self"})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters, those given as `**kwargs` included."""
        return {**super().get_params(deep), **getattr(self, "kwargs", {})}

    def set_params(self, **params: Any) -> "XGBModel":
        """Set parameters; names that the constructor does not have go to the booster as they are.

        A fitted model takes over what matters to it at once (such as `n_jobs`).
        """
        known = set(self._get_param_names())
        extra = {name: value for name, value in params.items() if name not in known}
        for name in params.keys() & known:
            setattr(self, name, params[name])
        if extra:
            self.kwargs = {**getattr(self, "kwargs", {}), **extra}
        if params and self.__sklearn_is_fitted__():
            self.get_booster().set_param(self.get_xgb_params())
        return self

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters that `train` understands; those that are functions are left out."""
        params = {name: v for name, v in self.get_params().items() if name not in _WRAPPER_PARAMS}
        params = {name: value for name, value in params.items() if not fitting.is_function(value)}
        if isinstance(params.get("eval_metric"), list | tuple):
            params["eval_metric"] = [name for name in params["eval_metric"] if not callable(name)]
        params["random_state"] = fitting.seed(params["random_state"])
        return params

    def get_num_boosting_rounds(self) -> int:
        """Rounds that `fit` trains."""
        return DEFAULT_N_ESTIMATORS if self.n_estimators is None else whole_number("n_estimators", self.n_estimators)

    # ---- scikit-learn's questions ----

    def __sklearn_tags__(self) -> Any:
        return fitting.tell_input(super().__sklearn_tags__(), bool(self.enable_categorical))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_Booster")

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + cards.estimator_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return cards.with_card(self, super()._repr_mimebundle_(**kwargs))

    def _get_type(self) -> str | None:
        """XGBoost's name for the kind of estimator, kept in model files."""
        return getattr(self, "_estimator_type", None) or self.__sklearn_tags__().estimator_type

    # ---- training ----

    @positional_with_warning
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: "Booster | str | XGBModel | None" = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> "XGBModel":
        """Train from scratch, or on from `xgb_model`.

        Parameters
        ----------
        X :
            Features: anything that `DMatrix` takes.
        y :
            Labels; several columns train several outputs.
        sample_weight :
            Weight of every row.
        base_margin :
            Margin of every row to start from.
        eval_set :
            (X, y) pairs that are evaluated after every round, under the names validation_0, validation_1, ...
        verbose :
            Print the scores of `eval_set` every round (True) or every so many rounds.
        xgb_model :
            A model to continue: an estimator, a Booster or a file.
        sample_weight_eval_set, base_margin_eval_set :
            Weights and margins of each of `eval_set`.
        feature_weights :
            Deprecated: a parameter of the constructor.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C: the estimator is then fitted to the rounds so far.
        """
        train_rows = Rows(X, y, sample_weight, base_margin)
        evals = fitting.eval_rows(train_rows, eval_set, sample_weight_eval_set, base_margin_eval_set)
        self._fit(train_rows, evals, verbose, booster_of(xgb_model), feature_weights)
        return self

    def _fit(
        self,
        rows: Rows,
        evals: list[Rows],
        verbose: bool | int | None,
        model: Booster | None,
        feature_weights: Any,
        classes: np.ndarray | None = None,
        **params: Any,
    ) -> None:
        """Make the matrices and train; `params` go before the estimator's own, of `classes` the labels are codes."""
        fitting.check_data(self, rows)
        names, metric = fitting.split_metrics(self.eval_metric)
        params = {**self.get_xgb_params(), "eval_metric": names or None, **params}
        history: EvalsLog = {}
        with config_context(verbosity=self.verbosity):
            weights = self._feature_weights(feature_weights)
            strata = rows.y if classes is not None and rows.y.ndim == 1 else None
            dtrain, watched = self._matrices(rows, evals, weights, strata, params["random_state"], model is not None)
            try:
                booster = train(
                    params,
                    dtrain,
                    self.get_num_boosting_rounds(),
                    evals=watched,
                    obj=fitting.objective_for_train(self.objective) if fitting.is_function(self.objective) else None,
                    early_stopping_rounds=self._patience(),
                    evals_result=history,
                    verbose_eval=verbose,
                    xgb_model=model,
                    callbacks=self.callbacks,
                    custom_metric=None if metric is None else self._wrap_metric(metric),
                )
            except KeyboardInterrupt as stopped:
                if hasattr(stopped, "booster"):
                    self._take_model(stopped.booster, history, classes)
                raise
        self._take_model(booster, history, classes)

    def _take_model(self, booster: Booster, history: EvalsLog, classes: np.ndarray | None = None) -> None:
        self._Booster = booster
        self.__dict__.pop("evals_result_", None)
        if history:
            self.evals_result_ = history

    def _patience(self) -> int | None:
        """`early_stopping_rounds`, which `early_stopping` gives a default."""
        if self.early_stopping_rounds is None and self.early_stopping:
            return DEFAULT_EARLY_STOPPING_ROUNDS
        return self.early_stopping_rounds

    def _wrap_metric(self, function: Callable) -> Callable:
        return fitting.metric_for_train(function)

    def _feature_weights(self, given: Any) -> Any:
        """The constructor's, or those of the deprecated argument of `fit`."""
        if given is None:
            return self.feature_weights
        settings.warn(
            "`feature_weights` in `fit` method is deprecated for better compatibility with scikit-learn, use "
            "`feature_weights` in constructor or`set_params` instead."
        )
        if self.feature_weights is not None:
            raise ValueError(
                "2 different `feature_weights` are provided.  Use the one in constructor or `set_params` instead."
            )
        return given

    def _matrices(
        self,
        rows: Rows,
        evals: list[Rows],
        feature_weights: Any,
        strata: np.ndarray | None,
        seed: int | None,
        is_continued: bool,
    ) -> tuple[DMatrix, list[tuple[DMatrix, str]]]:
        """The matrix to train on and the ones to watch; without evaluation sets early stopping sets rows aside.

        An earlier model may know its columns in another order and its categories by other codes, which bins cannot
        follow: values are kept then.
        """
        if self.early_stopping and not evals:
            full = self._create_dmatrix(None, rows, feature_weights, keep_values=True)
            dtrain, dvalid = fitting.split_matrix(full, self.validation_fraction, seed or 0, strata)
            return dtrain, [(dvalid, "validation_0")]
        dtrain = self._create_dmatrix(None, rows, feature_weights, is_continued)
        made = [dtrain if part is rows else self._create_dmatrix(dtrain, part, None, is_continued) for part in evals]
        return dtrain, [(data, f"validation_{i}") for i, data in enumerate(made)]

    def _create_dmatrix(
        self, ref: DMatrix | None, rows: Rows, feature_weights: Any, keep_values: bool = False
    ) -> DMatrix:
        """A matrix of bins where `hist` will train on it, else one that keeps the values."""
        fields = {
            "data": rows.X, "label": rows.y, "weight": rows.weight, "base_margin": rows.base_margin,
            "group": rows.group, "qid": rows.qid, "feature_weights": feature_weights, "missing": self.missing,
            "enable_categorical": self.enable_categorical, "feature_types": self.feature_types,
            "nthread": self.n_jobs,
        }  # fmt: skip
        if self._trains_on_bins() and not keep_values:
            return QuantileDMatrix(**fields, ref=ref, max_bin=self.max_bin)
        return DMatrix(**fields)

    def _trains_on_bins(self) -> bool:
        """Whether bins are all that training looks at."""
        given = getattr(self, "kwargs", None) or {}
        needs_values = given.get("cat_strategy") == "ordered_ts" or given.keys() & {"linear_leaves", "linear_tree"}
        return self.tree_method in ("hist", "auto", None) and self.booster != "gblinear" and not needs_values

    # ---- the model ----

    def get_booster(self) -> Booster:
        """The trained model."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("need to call fit or load_model beforehand")
        return self._Booster

    def save_model(self, fname: "str | os.PathLike[str]") -> None:
        """Save in XGBoost's format, UBJSON or JSON by the file's ending; class labels are saved, parameters are not."""
        booster = self.get_booster().copy()
        booster.set_attr(**{_META_ATTRIBUTE: json.dumps({"_estimator_type": self._get_type()})})
        booster.save_model(fname)

    def load_model(self, fname: "str | os.PathLike[str] | bytearray | bytes") -> None:
        """Load a model of ours or XGBoost's from a path or a buffer."""
        booster = Booster({"n_jobs": self.n_jobs})
        booster.load_model(fname)
        path = f"learner.attributes.{_META_ATTRIBUTE}"
        saved = read_object(booster.attr(_META_ATTRIBUTE), path).get("_estimator_type")
        if saved is not None and saved != self._get_type():
            raise TypeError(f"Loading an estimator with different type. Expecting: {self._get_type()}, got: {saved}")
        booster.set_attr(**{_META_ATTRIBUTE: None})
        self._load_attributes(booster)
        self._take_model(booster, {})

    def _load_attributes(self, booster: Booster) -> None:
        """Parameters that a loaded model brings along."""
        learner = json.loads(booster.save_config())["learner"]
        self.objective = learner["objective"]["name"]
        self.booster = learner["gradient_booster"]["name"]
        self.feature_types = booster.feature_types
        self.enable_categorical = "c" in (booster.feature_types or ())

    # ---- prediction ----

    @positional_with_warning
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> np.ndarray:
        """Predict for every row of `X`.

        Parameters
        ----------
        X :
            Features.
        output_margin :
            The raw sum of leaf weights instead of the transformed value.
        validate_features :
            Compare feature names with those of the training data.
        base_margin :
            Margin of every row to start from.
        iteration_range :
            Rounds [begin, end) to use. Not given: up to `best_iteration` where early stopping was used, else all.
        """
        return self._predict(X, output_margin, validate_features, base_margin, iteration_range)

    def _predict(
        self, X: Any, output_margin: bool, validate_features: bool, base_margin: Any, iteration_range: Any
    ) -> np.ndarray:
        booster = self.get_booster()
        fitting.check_width(self, X)
        return booster.inplace_predict(
            X,
            iteration_range=self._rounds(iteration_range),
            predict_type="margin" if output_margin else "value",
            missing=self.missing,
            validate_features=validate_features,
            base_margin=base_margin,
        )

    def _rounds(self, iteration_range: tuple[int, int] | None) -> tuple[int, int]:
        """The given rounds; if none, those up to the best one."""
        if iteration_range is not None and iteration_range[1] != 0:
            return iteration_range
        booster = self.get_booster()
        if booster.attr("best_iteration") is None:
            return (0, 0)
        best, n_rounds = booster.best_iteration, booster.num_boosted_rounds()
        if not 0 <= best < n_rounds:
            raise XGBoostError(
                f"The model's best_iteration is {best}, but it has {n_rounds} rounds: set it right, or say "
                "iteration_range."
            )
        return (0, best + 1)

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> np.ndarray:
        """Number of the leaf that each row reaches in each tree, (n, n_trees) float32."""
        booster = self.get_booster()
        fitting.check_width(self, X)
        data = DMatrix(
            X,
            missing=self.missing,
            feature_types=self.feature_types,
            nthread=self.n_jobs,
            enable_categorical=self.enable_categorical,
        )
        return booster.predict(data, pred_leaf=True, iteration_range=self._rounds(iteration_range))

    # ---- what training found ----

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """The scores of every round: ``{"validation_0": {"rmse": [...]}}``."""
        found = getattr(self, "evals_result_", None)
        if not found:
            raise XGBoostError("No evaluation result, `eval_set` is not used during training.")
        return found

    @property
    def best_iteration(self) -> int:
        """The round with the best score, when early stopping was used."""
        return self.get_booster().best_iteration

    @property
    def best_score(self) -> float:
        """The best score, when early stopping was used."""
        return self.get_booster().best_score

    @property
    def feature_importances_(self) -> np.ndarray:
        """(n_features,) float32 that add up to 1 (or are all 0), of the kind `importance_type`; gain by default.

        Of a linear model, the weights, (n_features, n_outputs) where there are several outputs.
        """
        booster = self.get_booster()
        scores = booster.get_score(importance_type=self.importance_type or ("weight" if self._is_linear() else "gain"))
        n_features, names = self.n_features_in_, booster.feature_names
        check_room(4 * n_features, f"feature_importances_ of {n_features} features", "get_score() has those in use.")
        places = None if names is None else {name: place for place, name in enumerate(names)}
        found = np.zeros((n_features, *np.shape(next(iter(scores.values()), 0.0))), np.float32)
        used = [int(name[1:]) if places is None else places[name] for name in scores]
        found[used] = list(scores.values())
        total = found.sum()
        if total:
            found[used] /= total  # the others stay memory that nobody has written to
        return found

    @property
    def coef_(self) -> np.ndarray:
        """(n_features,) or (n_outputs, n_features) float64: weights of a linear model, which trees do not have."""
        if not self._is_linear():
            raise AttributeError(f"Coefficients are not defined for Booster type {self.booster}")
        weights = self._linear_weights()[:-1].astype(np.float64)
        return weights[:, 0] if weights.shape[1] == 1 else weights.T

    def _is_linear(self) -> bool:
        return self.get_booster()._learner.model.kind == "gblinear"

    def _linear_weights(self) -> np.ndarray:
        """(n_features + 1, n_outputs) float32; the last row is the bias."""
        return self.get_booster().linear_weights()

    @property
    def intercept_(self) -> np.ndarray:
        """`base_score` as given or estimated, (n_outputs,) float32; of a linear model, the bias beside it."""
        if self._is_linear():
            return self._linear_weights()[-1]
        learner = json.loads(self.get_booster().save_config())["learner"]
        return np.array(json.loads(learner["learner_model_param"]["base_score"]), np.float32).reshape(-1)


class XGBClassifier(ClassifierMixin, XGBModel):
    """Gradient boosting for classification, with labels of any kind: numbers, strings, several columns of 0 and 1."""

    @positional_with_warning
    def __init__(
        self,
        *,
        objective: str | Callable | None = "binary:logistic",
        class_weight: dict[Any, float] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(objective=objective, **kwargs)
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters that `train` understands; a fitted model of several classes has a `multi:` objective."""
        params = super().get_xgb_params()
        if self.__sklearn_is_fitted__() and self.n_classes_ > 2 and "objective" in params:
            params["objective"] = _multi_objective(params["objective"])
        return params

    @positional_with_warning
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: Booster | str | XGBModel | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> "XGBClassifier":
        """Train from scratch, or on from `xgb_model`; see `XGBModel.fit`.

        `y` holds the class of every row, or one column of 0 and 1 for each label of a multi-label problem.
        `class_weight` counts for the training data, not for `eval_set`.
        """
        fitting.check_y(self, y)
        given = Rows(X, y, sample_weight, base_margin)
        evals = fitting.eval_rows(given, eval_set, sample_weight_eval_set, base_margin_eval_set)
        model = booster_of(xgb_model)
        labels = fitting.label_array(y, "y")
        classes = self._find_classes(labels, model)
        as_eval = rows = replace(given, y=fitting.encode(labels, classes, "y"))
        if self.class_weight is not None:
            rows = replace(rows, weight=fitting.class_weights(self.class_weight, classes, rows.y, sample_weight))
        encoded = [as_eval if part is given else fitting.encode_eval(part, classes, i) for i, part in enumerate(evals)]
        task = self._task(len(classes), is_multilabel=rows.y.ndim == 2)
        self._fit(rows, encoded, verbose, model, feature_weights, classes, **task)
        return self

    @staticmethod
    def _find_classes(labels: np.ndarray, model: Booster | None) -> np.ndarray:
        """The classes of a model that is continued, else those that the labels show."""
        if labels.ndim == 2:
            return np.arange(2)
        if model is not None:
            classes, are_stored = fitting.model_classes(model)
            if are_stored or np.isin(labels, classes).all():
                fitting.compare_classes(labels, classes)
                return classes
        return fitting.find_classes(labels)

    def _task(self, n_classes: int, is_multilabel: bool) -> dict[str, Any]:
        """The objective, by the number of classes, and that number where the objective needs it."""
        objective = self.objective if isinstance(self.objective, str) else "binary:logistic"
        if n_classes > 2:
            objective = _multi_objective(objective)
        if objective in _MULTI and not is_multilabel:
            return {"objective": objective, "num_class": max(2, n_classes)}
        return {"objective": objective}

    def _take_model(self, booster: Booster, history: EvalsLog, classes: np.ndarray | None = None) -> None:
        super()._take_model(booster, history)
        if classes is None:  # a loaded model
            classes, _ = fitting.model_classes(booster)
        self.classes_ = classes
        self.n_classes_ = len(classes)
        fitting.store_classes(booster, classes)

    @positional_with_warning
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> np.ndarray:
        """The most probable class of every row (or the labels that are likely); see `XGBModel.predict`."""
        found = self._predict(X, output_margin, validate_features, base_margin, iteration_range)
        if output_margin:
            return found
        objective = self._loss_name()
        if objective == "multi:softmax":
            codes = found.astype(np.int64)
        elif objective == "multi:softprob":
            codes = found.argmax(axis=1)
        else:  # a raw margin is above 0 where its probability is above a half
            codes = (found > (0.0 if objective == "binary:logitraw" else 0.5)).astype(np.int64)
        return codes if codes.ndim == 2 else self.classes_[np.minimum(codes, self.n_classes_ - 1)]

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> np.ndarray:
        """Probability of every class, (n, n_classes) float32; of several labels, that each of them is 1.

        See `predict` for the parameters.
        """
        self.get_booster()
        objective = self._loss_name()
        as_margin = objective in ("multi:softmax", "binary:logitraw")
        found = self._predict(X, as_margin, validate_features, base_margin, iteration_range)
        if objective == "multi:softmax":
            found = scipy.special.softmax(found, axis=1)
        elif objective == "binary:logitraw":
            found = scipy.special.expit(found)
        if self.n_classes_ == 1:
            return np.ones((len(found), 1), np.float32)
        return np.column_stack((1.0 - found, found)) if found.ndim == 1 else found

    def _loss_name(self) -> str:
        return self.get_booster()._learner.loss.name


class XGBRegressor(RegressorMixin, XGBModel):
    """Gradient boosting for regression, also of several targets at once."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @positional_with_warning
    def __init__(self, *, objective: str | Callable | None = "reg:squarederror", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)


class _Forest:
    """What makes an estimator a random forest: one round of `n_estimators` parallel trees."""

    @positional_with_warning
    def __init__(
        self,
        *,
        learning_rate: float = 1.0,
        subsample: float = 0.8,
        colsample_bynode: float = 0.8,
        reg_lambda: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            learning_rate=learning_rate,
            subsample=subsample,
            colsample_bynode=colsample_bynode,
            reg_lambda=reg_lambda,
            **kwargs,
        )
        fitting.refuse_stopping(self)

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters that `train` understands."""
        params = super().get_xgb_params()  # type: ignore[misc]
        params["num_parallel_tree"] = super().get_num_boosting_rounds()  # type: ignore[misc]
        return params

    def get_num_boosting_rounds(self) -> int:
        """Rounds that `fit` trains: one."""
        return 1

    def _patience(self) -> int | None:
        fitting.refuse_stopping(self)
        return None


class XGBRFClassifier(_Forest, XGBClassifier):
    """Random forest for classification."""


class XGBRFRegressor(_Forest, XGBRegressor):
    """Random forest for regression."""


class XGBRanker(XGBModel):
    """Gradient boosting for ranking: rows come in groups (queries), and their order within a group is learned.

    `objective` may be a function (y_true, y_pred, group_ptr) -> (gradient, hessian), which XGBoost does not take; rows
    of group q are group_ptr[q] : group_ptr[q + 1]. A weight of every group comes as `sample_weight`.
    """

    _estimator_type = "ranker"

    @positional_with_warning
    def __init__(self, *, objective: str | Callable = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    @positional_with_warning
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_qid: Sequence[Any] | None = None,
        verbose: bool | int | None = False,
        xgb_model: Booster | str | XGBModel | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> "XGBRanker":
        """Train from scratch, or on from `xgb_model`; see `XGBModel.fit` for what is not named here.

        Parameters
        ----------
        X :
            Features. A column `qid` of a data frame is taken for `qid`, here and in `eval_set`, so that the estimator
            works in scikit-learn's tools.
        y :
            Relevance of every row.
        group :
            Sizes of the groups, in row order.
        qid :
            Group id of every row, not decreasing; instead of `group`.
        sample_weight :
            Weight of every group.
        eval_group, eval_qid :
            Groups of each of `eval_set`.
        """
        given = Rows(X, y, sample_weight, base_margin, group, qid)
        evals = fitting.eval_rows(given, eval_set, sample_weight_eval_set, base_margin_eval_set, eval_group, eval_qid)
        rows = fitting.with_groups(given)
        # a custom objective borrows the metric and, in files, the name
        named = dict[str, Any](objective="rank:ndcg") if fitting.is_function(self.objective) else {}
        self._fit(
            rows,
            [rows if part is given else fitting.with_groups(part) for part in evals],
            verbose,
            booster_of(xgb_model),
            feature_weights,
            **named,
        )
        return self

    def _wrap_metric(self, function: Callable) -> Callable:
        return fitting.ranking_metric_for_train(function)

    def _predict(self, X: Any, *more: Any) -> np.ndarray:
        return super()._predict(fitting.split_qid(X)[0], *more)

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> np.ndarray:
        """Number of the leaf that each row reaches in each tree, (n, n_trees) float32."""
        return super().apply(fitting.split_qid(X)[0], iteration_range)

    def score(self, X: Any, y: Any) -> float:
        """The last metric on a data frame `X` with a column `qid`; without one all rows are of one query."""
        booster = self.get_booster()
        X, qid = fitting.split_qid(X)
        fitting.check_width(self, X)
        rows = Rows(X, y, qid=np.zeros(len(y), np.int64) if qid is None else qid)
        data = self._create_dmatrix(None, rows, None, keep_values=True)
        own = fitting.split_metrics(self.eval_metric)[1]
        last = 0 if self._is_linear() else self._rounds(None)[1]
        model = booster[:last] if last else booster
        return model._eval([(data, "eval")], 0, None if own is None else self._wrap_metric(own))[-1][2]


def _multi_objective(objective: Any) -> str:
    return objective if objective in _MULTI else "multi:softprob"


def booster_of(model: Any) -> Booster | None:
    """The model to continue, from an estimator, a Booster, a path or a buffer."""
    if isinstance(model, XGBModel):
        return model.get_booster()
    return model if model is None or isinstance(model, Booster) else Booster(model_file=model)


document(XGBModel, XGBClassifier, XGBRegressor, XGBRFClassifier, XGBRFRegressor, XGBRanker)
