"""Booster: XGBoost's model object. It checks arguments, forwards to the learner, and shapes results."""

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from arboost import cards, concat, introspect, streams
from arboost.boosters.gblinear import LinearModel
from arboost.boosters.learner import Learner
from arboost.boosters.loading import learner_of
from arboost.losses import ScalarLoss
from arboost.matrix.adapt import DenseData, RawData, adapt
from arboost.matrix.align import align, find_order
from arboost.matrix.categories import Categories
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.frames import get_categories
from arboost.matrix.on_device import host_copy, is_on_device, like_input
from arboost.model_config import config_from_json, config_to_json
from arboost.modelio import dump, files, onnx, source
from arboost.modelio.cats import pack_categories
from arboost.modelio.ensemble import Ensemble
from arboost.modelio.schema import SavedModel
from arboost.modelio.statistics import pack_statistics
from arboost.objective import custom_scores, gradients, mean_scores
from arboost.predict import shap
from arboost.runtime import settings
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.errors import XGBoostError, type_name

Gradients = tuple[np.ndarray, np.ndarray]
CustomObjective = Callable[[np.ndarray, DMatrix], Gradients]
CustomMetric = Callable[[np.ndarray, DMatrix], Any]
_UNTRAINED = "The model has not been trained or loaded yet."


class Booster:
    """A gradient boosting model: train it round by round, evaluate, predict, save and load.

    Parameters
    ----------
    params :
        Booster parameters, as in `train`.
    cache :
        Matrices that will be trained on or evaluated; accepted for XGBoost's sake, margins are kept by themselves.
    model_file :
        A path, a buffer from `save_raw`, or a Booster to start from.
    """

    def __init__(
        self,
        params: Any = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: "str | os.PathLike[str] | bytearray | bytes | Booster | None" = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise TypeError(f"invalid cache item: expected a DMatrix of arboost, got {type_name(data)}")
        self._attributes: dict[str, str] = {}
        self._feature_names: list[str] | None = None
        self._feature_types: list[str] | None = None
        self._learner = Learner()
        if isinstance(model_file, Booster):
            self.__dict__.update(copy.copy(model_file).__dict__)
            self._learner.end_process()
        elif model_file is not None:
            self.load_model(model_file)
        self._learner.set_params(params)
        if cache and not self._learner.model.n_rounds:
            self._learner.accept(self._take_features(cache[0]))

    # ---- training ----

    def update(self, dtrain: DMatrix, iteration: int, fobj: CustomObjective | None = None) -> None:
        """Boost one round on `dtrain`, with the objective of the parameters or with `fobj(margin, dtrain)`.

        `iteration` is accepted for XGBoost's sake: draws depend on the number of rounds the model already has, so
        that continued training equals training in one go.
        """
        if fobj is not None and not isinstance(fobj, ScalarLoss):
            self.boost(dtrain, iteration=iteration, fobj=fobj)
            return
        self._check_matrix(dtrain, "training data")
        self._learner.update(self._take_features(dtrain, training=True), fobj)

    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: CustomObjective | None = None,
    ) -> None:
        """Boost one round on gradients and hessians of your own, of shape (n,) or (n, n_outputs).

        They are `grad` and `hess`, or what `fobj(margin, dtrain)` returns.
        """
        if fobj is not None and (grad is not None or hess is not None):
            raise ValueError("Provide either the objective, or the gradient and hessian, not both.")
        if fobj is None and (grad is None or hess is None):
            raise ValueError("Either both `grad` and `hess` or the objective should have a valid value.")
        self._check_matrix(dtrain, "training data")
        data = self._take_features(dtrain, training=True)
        self._learner.accept(data)
        with self._learner.whole_round():
            split = None
            if fobj is not None:
                margin = self._shape(self._learner.training_margins(data).copy(), False)
                grad, hess, split = gradients(fobj, iteration, margin, dtrain)
            shape = (dtrain.num_row(), self._learner.n_outputs)
            grad, hess = (self._gradient_array(name, x, shape) for name, x in (("grad", grad), ("hess", hess)))
            self._learner.boost(data, grad, hess, split)

    @staticmethod
    def _gradient_array(name: str, values: Any, shape: tuple[int, int]) -> np.ndarray:
        try:
            array = np.asarray(values)
            if array.dtype.kind not in "biufO":
                raise TypeError(f"it has dtype {array.dtype}")
            with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is refused later
                array = array.astype(np.float32, copy=False)
        except (TypeError, ValueError) as error:
            raise XGBoostError(f"`{name}` must be an array of numbers ({error}).") from error
        if array.ndim > 2 or array.size != shape[0] * shape[1] or array.shape[0] not in (shape[0], shape[0] * shape[1]):
            raise XGBoostError(f"`{name}` has shape {array.shape}; {shape[0]} rows x {shape[1]} outputs are expected.")
        return array.reshape(shape)

    def eval(self, data: DMatrix, name: str = "eval", iteration: int = 0) -> str:
        """Evaluate the model on `data`; the result is a line of text, as in XGBoost."""
        return self.eval_set([(data, name)], iteration)

    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: CustomMetric | None = None,
        output_margin: bool = True,
    ) -> str:
        """Evaluate on several matrices; `feval(prediction, data)` adds a metric of your own."""
        scores = self._eval(evals, iteration, feval, output_margin)
        return f"[{iteration}]" + "".join(f"\t{data}-{metric}:{value:.17f}" for data, metric, value in scores)

    def _eval(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int,
        feval: CustomMetric | None = None,
        output_margin: bool = True,
    ) -> list[tuple[str, str, float]]:
        """(data name, metric name, value) of every metric on every matrix, then of `feval` on every matrix.

        Metrics are those of all workers' rows. A worker's `feval` sees its own rows only, so its values are averaged.
        """
        for data, name in evals:
            self._check_matrix(data, "evaluation data")
            if not isinstance(name, str):
                raise TypeError(f"expected string for the name of evaluation data, got {type_name(name)}")
        values = self._learner.evaluate_all([self._aligned(data) for data, _ in evals])
        scores = [(name, *score) for (_, name), found in zip(evals, values, strict=True) for score in found]
        if feval is not None:
            for data, name in evals:
                found = []
                if data.num_row() or self._learner.ctx.is_alone:
                    found = custom_scores(feval(self._seen_prediction(self._aligned(data), output_margin), data))
                scores += [(name, *score) for score in mean_scores(found, data.num_row())]
        return scores

    def _seen_prediction(self, data: DMatrix, output_margin: bool) -> np.ndarray:
        """`predict` from the margins that are kept for matrices seen in training."""
        learner = self._learner
        margin = learner.margins(data).copy()
        return self._shape(margin if output_margin else learner.loss.transform(margin, learner.ctx), False)

    def set_param(self, params: Any, value: Any = None) -> None:
        """Set parameters: a dict, a list of pairs, or one name and its value."""
        self._learner.set_params({params: value} if isinstance(params, str) else params)

    def reset(self) -> "Booster":
        """Drop the data kept from training and evaluation, `process_type` and `updater`; the model stays."""
        self._learner.forget_data()
        self._learner.end_process()
        return self

    # ---- prediction ----

    @positional_with_warning
    def predict(
        self,
        data: Any,
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
        output: "str | os.PathLike[str] | None" = None,
    ) -> Any:
        """Predict for every row of `data`: an array, or a file.

        Parameters
        ----------
        data :
            A DMatrix; or data that is read batch by batch and never held whole: the path of a Parquet file or of a
            folder of them, a `pyarrow.dataset`, a `DataIter`. Of Parquet the columns with the model's feature names
            are read, others are passed over.
        output_margin :
            The raw sum of leaf weights instead of the transformed value.
        pred_leaf :
            The number of the leaf that each row reaches in each tree.
        pred_contribs :
            What each feature adds to the margin (SHAP values), (n, n_features + 1) or (n, n_outputs, n_features + 1);
            the last column is the bias. They sum to the margin.
        approx_contribs :
            With `pred_contribs` or `pred_interactions`: a cheap approximation (Saabas) instead of exact SHAP values.
        pred_interactions :
            What each pair of features adds to the margin (SHAP interaction values): (n, n_features + 1,
            n_features + 1), or that for every output. Rows sum to the contributions.
        validate_features :
            Compare feature names with those of the training data.
        training :
            Predict as the next round of training would: a "dart" model leaves out the trees that it drops then.
        iteration_range :
            Rounds [begin, end) to use; (0, 0) means all.
        strict_shape :
            Always (n, n_outputs), or (n, rounds, n_outputs, num_parallel_tree) for leaves, or (n, n_outputs, ...) for
            contributions and interactions.
        output :
            Path of a Parquet file to write the predictions to, batch by batch; it is returned instead of an array. Its
            column is "prediction", "margin" or "leaf", numbered from 0 where there are several; contributions are
            named by the features.
        """
        if output is not None or streams.is_stream(data):
            options = {
                "output_margin": output_margin, "pred_leaf": pred_leaf, "pred_contribs": pred_contribs,
                "approx_contribs": approx_contribs, "pred_interactions": pred_interactions,
                "validate_features": validate_features, "training": training, "iteration_range": iteration_range,
                "strict_shape": strict_shape,
            }  # fmt: skip
            return self._predict_stream(data, output, options)
        if not isinstance(data, DMatrix):
            raise TypeError(f"Expecting data to be a DMatrix object of arboost, got: {type_name(data)}")
        if sum(map(bool, (output_margin, pred_leaf, pred_contribs, pred_interactions))) > 1:
            raise ValueError(
                "One type of prediction at a time: output_margin, pred_leaf, pred_contribs or pred_interactions."
            )
        data = self._aligned(data, validate_features)
        self._check_width(data.num_col())
        data.info.check_groups()
        trees, n_rounds = self._trees_of(iteration_range)
        if pred_leaf:
            return self._predict_leaves(data, trees, n_rounds, strict_shape)
        if pred_contribs or pred_interactions:
            return self._explain(data, trees, pred_interactions, approx_contribs, strict_shape)
        margin = self._learner.predict_margins(data, trees, training)
        return self._shape(
            self._learner.loss.transform(margin, self._learner.ctx) if not output_margin else margin, strict_shape
        )

    @positional_with_warning
    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: str = "value",
        missing: float = np.nan,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> np.ndarray:
        """Predict straight from an array, frame, sparse matrix or Parquet path; safe in several threads."""
        if predict_type not in ("value", "margin"):
            raise ValueError(f"predict_type must be 'value' or 'margin', got {predict_type!r}")
        learner = self._learner
        is_plain = type(data) is np.ndarray and data.dtype == np.float32 and data.flags.c_contiguous and data.ndim == 2
        if is_plain and learner.statistics is None:
            chunks: Iterable = ((0, data),) if missing != missing else adapt(data, missing).chunks()
            n_rows, n_columns = data.shape
        else:
            if streams.is_stream(data):
                predict = partial(
                    self.inplace_predict, iteration_range=iteration_range, predict_type=predict_type,
                    validate_features=validate_features, strict_shape=strict_shape,
                )  # fmt: skip
                names = self._feature_names if validate_features else None
                return streams.gather_with_margins(data, names, missing, base_margin, predict)
            if type(data) is np.ndarray and data.ndim == 1 and learner.n_columns == 1:
                data = data.reshape(-1, 1)
            raw = self._aligned_raw(adapt(data, missing), validate_features)
            chunks, n_rows, n_columns = raw.chunks_for(learner.ctx), raw.n_rows, raw.n_features
        self._check_width(n_columns)
        trees, _ = self._trees_of(iteration_range)
        if base_margin is not None:
            base_margin = host_copy(base_margin) if is_on_device(base_margin) else base_margin
            base_margin = np.asarray(base_margin, np.float32)
        margin = learner.start_margin(n_rows, base_margin)
        forest, ctx = learner.forest(), learner.ctx
        for first, values in chunks:
            forest.add_margins(ctx, values, trees, margin[first : first + len(values)])
        result = self._shape(learner.loss.transform(margin, ctx) if predict_type == "value" else margin, strict_shape)
        return result if is_plain else like_input(result, data, ctx)

    def _predict_stream(self, data: Any, output: Any, options: dict[str, Any]) -> Any:
        """`predict` batch by batch, or to a file."""
        learner = self._learner
        model = streams.Model(self.predict, options, self._feature_names, learner.n_features, learner.ctx.n_threads)
        return streams.predict(model, data, output)

    def _predict_leaves(self, data: DMatrix, trees: slice, n_rounds: int, strict_shape: bool) -> np.ndarray:
        learner = self._learner
        n_trees = len(learner.model.trees[trees])
        leaves = np.zeros((data.num_row(), n_trees), np.int32)
        for first, values in data.chunks_for(learner.ctx):
            learner.forest().find_leaves(learner.ctx, values, trees, leaves[first : first + len(values)])
        result = leaves.astype(np.float32)
        if strict_shape:
            shape = (n_rounds, self._n_tree_targets(trees), learner.tree_params.num_parallel_tree)
            if n_trees != np.prod(shape):
                raise XGBoostError("strict_shape: rounds with vectors in their leaves and others differ in shape.")
            return result.reshape(data.num_row(), *shape)
        return result[:, 0] if n_trees == 1 else result

    def _n_tree_targets(self, trees: slice) -> int:
        """Into how many outputs the trees of a round are parted: trees with vectors in their leaves serve all."""
        chosen = self._learner.model.trees[trees]
        return 1 if chosen and chosen[0].has_vectors else self._learner.n_outputs

    def _explain(self, data: DMatrix, trees: slice, pairs: bool, approximate: bool, strict_shape: bool) -> np.ndarray:
        learner = self._learner
        start = learner.start_margin(data.num_row(), data.info.base_margin)
        explain = shap.interactions if pairs else shap.contributions
        learner.forest().check_values(data)
        explainer = learner.forest().explainer(learner.n_features)
        result = explain(learner.ctx, explainer, trees, data.chunks(), start, approximate)
        if learner.statistics is not None:
            result = shap.share(result, learner.statistics.shares(), pairs)
        return result[:, 0] if result.shape[1] == 1 and not strict_shape else result

    def to_shap(self) -> dict[str, Any]:
        """The model in the form that the shap library takes: `shap.TreeExplainer(booster.to_shap())`.

        For models without categorical splits. `predict(pred_contribs=True)` has the same values, faster.
        """
        learner = self._learner
        if not learner.n_features:
            raise XGBoostError(_UNTRAINED)
        self._refuse_statistics("to_shap")
        model = learner.model.as_trees()
        return shap.to_shap(model.weighed_trees(), model.tree_info, learner.base_margin(), learner.loss.name)

    @staticmethod
    def _shape(result: np.ndarray, strict: bool) -> np.ndarray:
        """XGBoost's rule: one output is a vector unless strict."""
        if strict:
            return result[:, None] if result.ndim == 1 else result
        return result[:, 0] if result.ndim == 2 and result.shape[1] == 1 else result

    def _trees_of(self, iteration_range: tuple[int, int]) -> tuple[slice, int]:
        """The trees of a range of rounds, and how many rounds that is; (0, 0) means all."""
        model = self._learner.model
        begin, end = (int(v) for v in iteration_range)
        end = end or model.n_rounds
        return model.trees_of(begin, end), end - begin

    # ---- features ----

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, None if they have none."""
        return self._feature_names

    @feature_names.setter
    def feature_names(self, names: Sequence[str] | None) -> None:
        self._feature_names = self._per_feature("feature names", names)

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the features, None if not given."""
        return self._feature_types

    @feature_types.setter
    def feature_types(self, types: Sequence[str] | None) -> None:
        self._feature_types = self._per_feature("feature types", types)

    def _per_feature(self, what: str, values: Sequence[str] | None) -> list[str] | None:
        """One string for every feature of the model, if it knows how many there are."""
        n_features = self._learner.n_columns
        if values is not None and n_features and len(values) != n_features:
            raise XGBoostError(
                f"{what} must have the same length as the number of features, expected {n_features}, got {len(values)}"
            )
        if values is not None and not all(isinstance(value, str) for value in values):
            raise TypeError(f"{what} must be strings, got {values!r}")
        return None if values is None else [str(value) for value in values]

    def num_features(self) -> int:
        """Number of features the model was trained on."""
        return self._learner.n_columns

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """The categories of the training data, which prediction gives to other data by itself.

        Parameters
        ----------
        export_to_arrow :
            Whether `to_arrow` of the result answers: (name, pyarrow array of categories or None) of every feature.
        """
        learner = self._learner
        return get_categories(learner.categories, self._feature_names, learner.n_columns, export_to_arrow)

    def _take_features(self, data: DMatrix, training: bool = False) -> DMatrix:
        """Remember the first names, types and categories that training data has; later data is brought to them.

        With `training`, the columns are those that trees are grown on.
        """
        learner = self._learner
        if self._feature_names is None:
            self._feature_names, self._feature_types = data.feature_names, data.feature_types
        if learner.categories is None and not learner.model.n_rounds and data.categories is not None:
            learner.categories = data.categories.stored()
        fitting = self._aligned_columns(data, n_features=0 if training else learner.n_columns)
        if fitting is not data and data.raw is None:
            raise XGBoostError(
                f"The {type(data).__name__} has other codes of categories, or another order of columns, than the model "
                "that is to be trained further: build it with feature_types=booster.get_categories(), or use DMatrix."
            )
        return learner.encoded_for_training(fitting) if training else fitting

    def _aligned(self, data: DMatrix, validate: bool = True) -> DMatrix:
        """The data in the columns that the trees see; refuses other names unless `validate` is false."""
        return self._learner.encoded(self._aligned_columns(data, validate, self._learner.n_columns))

    def _aligned_columns(self, data: DMatrix, validate: bool = True, n_features: int = 0) -> DMatrix:
        """The data in the model's columns and codes; refuses other names unless `validate` is false."""
        if validate and data.num_row() > 0:
            self._check_names(data.feature_names, data.is_frame)
        names = self._feature_names if validate else None
        return data.aligned(names, self._learner.categories, self._unseen(), n_features)

    def _aligned_raw(self, raw: RawData, validate: bool) -> RawData:
        """The same for data without a matrix, which needs no names unless it is a frame."""
        wanted, order = self._learner.categories, None
        if validate and raw.feature_names is not None:
            self._check_names(raw.feature_names, raw.is_frame)
            order = find_order(raw.feature_names, self._feature_names)
        have = raw.categories
        if have is None and raw.is_frame and wanted is not None:
            have = Categories([None] * raw.n_features)  # numbers are no categories
        names = raw.feature_names if order is None else self._feature_names
        aligned = align(raw, order, have, wanted, self._unseen(), names)
        statistics = self._learner.statistics
        return aligned if statistics is None else DenseData(statistics.encode(aligned))

    def _unseen(self) -> str:
        return self._learner.resolved.learner.unseen_category

    def _check_names(self, names: list[str] | None, any_order: bool = False) -> None:
        mine = self._feature_names
        if mine is None or names == mine or (any_order and names is not None and sorted(names) == sorted(mine)):
            return
        if names is None:
            raise ValueError(
                "data did not contain feature names, but the following fields are expected: " + ", ".join(mine)
            )
        absent, extra = [n for n in mine if n not in set(names)], [n for n in names if n not in set(mine)]
        problem = f"feature_names mismatch: the model has {mine}, the data has {names}"
        if absent:
            problem += "\nexpected " + ", ".join(absent) + " in input data"
        if extra:
            problem += "\ntraining data did not have the following fields: " + ", ".join(extra)
        raise ValueError(problem + ("" if absent or extra else "\nthe columns are the same, their order differs"))

    def _check_width(self, n_columns: int) -> None:
        learner = self._learner
        if not learner.n_features:
            raise XGBoostError(_UNTRAINED)
        if n_columns != learner.n_features:
            raise ValueError(f"Feature shape mismatch, expected: {learner.n_features}, got {n_columns}")

    @staticmethod
    def _check_matrix(data: Any, what: str) -> None:
        if not isinstance(data, DMatrix):
            raise TypeError(f"invalid {what}: expected a DMatrix of arboost, got {type_name(data)}")

    # ---- rounds and attributes ----

    def num_boosted_rounds(self) -> int:
        """Rounds in the model; with several targets or parallel trees a round has several trees."""
        return self._learner.model.n_rounds

    def __getitem__(self, val: Any) -> "Booster":
        """A model of some rounds: an index, a slice, or ... for all; `best_iteration` and `best_score` stay behind."""
        n = self.num_boosted_rounds()
        if isinstance(val, int | np.integer):
            if not -n <= val < n:
                raise IndexError("Layer index out of range")
            chosen = range(int(val) % n, int(val) % n + 1)
        elif isinstance(val, slice) or val is Ellipsis:
            ends = (val.start, val.stop) if isinstance(val, slice) else (None, None)
            start, stop = (None if end is Ellipsis else end for end in ends)
            step = val.step if isinstance(val, slice) else None
            if (stop is not None and stop > n) or (start is not None and start > n):
                raise IndexError("Layer index out of range")
            if step is not None and step < 1:
                raise XGBoostError(f"Invalid slice: its step must be >= 1, got {step}.")
            chosen = range(*slice(start, stop, step).indices(n))
        elif isinstance(val, tuple):
            raise ValueError("Only supports slicing through 1 dimension: a model is a row of rounds.")
        else:
            raise TypeError(f"rounds are chosen by an integer or a slice, got {type_name(val)}")
        if not chosen:
            raise XGBoostError(
                f"Invalid slice {val} of {n} rounds. Empty slice is not allowed: it must begin at a round "
                ">= 0 and end after it."
            )
        part = copy.copy(self)
        part._learner.model = self._learner.model.slice_rounds(chosen)
        part._learner.forget_data()
        for name in ("best_iteration", "best_score"):
            part._attributes.pop(name, None)
        return part

    @classmethod
    def concat(cls, models: Iterable["Booster"]) -> "Booster":
        """One model of the rounds of several, in order: the way back from slices. XGBoost has no such method.

        Parameters
        ----------
        models :
            Models of trees with the same features, objective and outputs. They stay as they are.

        Returns
        -------
        Booster
            Its margin is the first model's plus what the trees of the others add: the intercept (`base_score`) of the
            first one counts once, those of the others do not. Parameters and attributes are the first one's, without
            `best_iteration` and `best_score`.

        Examples
        --------
        >>> whole = Booster.concat([model[:10], model[10:]])  # doctest: +SKIP
        """
        return concat.concat(models, Booster)

    def __iter__(self) -> Iterator["Booster"]:
        for r in range(self.num_boosted_rounds()):
            yield self[r]

    def attr(self, key: str) -> str | None:
        """The attribute `key`, None if there is none."""
        return self._attributes.get(key)

    def attributes(self) -> dict[str, str]:
        """All attributes."""
        return dict(self._attributes)

    def set_attr(self, **kwargs: Any) -> None:
        """Set attributes, which are strings; None deletes one."""
        for key, value in kwargs.items():
            if value is None:
                self._attributes.pop(key, None)
            else:
                self._attributes[key] = str(value)

    @property
    def best_iteration(self) -> int:
        """The round with the best score, when early stopping was used."""
        return self._early_stopping_attribute("best_iteration", int)

    @best_iteration.setter
    def best_iteration(self, iteration: int) -> None:
        self._attributes["best_iteration"] = str(whole_number("best_iteration", iteration))

    @property
    def best_score(self) -> float:
        """The best score, when early stopping was used."""
        return self._early_stopping_attribute("best_score", float)

    @best_score.setter
    def best_score(self, score: float) -> None:
        self._attributes["best_score"] = str(float(score))

    def _early_stopping_attribute(self, name: str, kind: Callable[[str], Any]) -> Any:
        if name not in self._attributes:
            raise AttributeError(f"`{name}` is only defined when early stopping is used.")
        try:
            return kind(self._attributes[name])
        except ValueError:
            wanted = "whole number" if kind is int else "number"
            raise XGBoostError(f"The model's attribute {name} is {self._attributes[name]!r}, not a {wanted}.") from None

    def _warn_of_attributes(self) -> None:
        """Say which of a model file's attributes cannot be what early stopping wrote; the model itself is sound."""
        n_rounds = self.num_boosted_rounds()
        try:
            best = self.best_iteration if "best_iteration" in self._attributes else None
            if "best_score" in self._attributes:
                _ = self.best_score
        except XGBoostError as error:
            settings.warn(str(error))
        else:
            if best is not None and not 0 <= best < n_rounds:
                settings.warn(f"The model's attribute best_iteration is {best}, but the model has {n_rounds} rounds.")

    # ---- files ----

    def save_model(self, fname: "str | os.PathLike[str]") -> None:
        """Save in XGBoost's format, UBJSON or JSON by the file's ending (.ubj, .json)."""
        files.save_path(self._to_saved(), fname)

    def save_raw(self, raw_format: Literal["json", "ubj"] = "ubj") -> bytearray:
        """The model file as bytes; `raw_format` is "ubj" or "json"."""
        return files.save_bytes(self._to_saved(), raw_format)

    def load_model(self, fname: "str | os.PathLike[str] | bytearray | bytes") -> None:
        """Load a model of ours or XGBoost's from a path or a buffer; everything in it is checked."""
        if not isinstance(fname, str | os.PathLike | bytes | bytearray):
            hint = "; give its save_raw()" if hasattr(fname, "save_raw") else ""
            raise TypeError(f"a model is a path, bytes or a Booster of arboost, got {type_name(fname)}{hint}")
        saved = files.load_bytes(fname) if isinstance(fname, bytes | bytearray) else files.load_path(fname)
        self._from_saved(saved)
        self._warn_of_attributes()

    def _to_saved(self) -> SavedModel:
        learner = self._learner
        if not learner.n_features:
            raise XGBoostError(_UNTRAINED)
        model, n_outputs = learner.model, learner.n_outputs
        n_classes = learner.n_classes
        return SavedModel(
            n_features=learner.n_features,
            objective=learner.loss.config(),
            base_score=tuple(float(v) for v in learner.intercept),
            booster=model.kind,
            **model.saved(),
            n_classes=n_classes,
            n_targets=1 if n_classes else n_outputs,
            boost_from_average=learner.boost_from_average,
            attributes=self._attributes | ({"unseen_category": "error"} if self._unseen() == "error" else {}),
            feature_names=self._named("")[0],
            feature_types=self._named("")[1],
            cats=pack_categories(learner.categories) if learner.statistics is None else None,
            statistics=pack_statistics(learner.statistics, learner.categories),
        )

    def _from_saved(self, saved: SavedModel) -> None:
        self._learner = learner = learner_of(saved, self._learner.params)
        self._attributes = dict(saved.attributes)
        if self._attributes.get("unseen_category") == "error":
            learner.set_params({"unseen_category": self._attributes.pop("unseen_category")})
        own = saved if learner.statistics is None else learner.statistics
        self._feature_names, self._feature_types = own.feature_names, own.feature_types

    def save_config(self) -> str:
        """All parameters in force, as JSON in XGBoost's layout."""
        return config_to_json(self._learner)

    def load_config(self, config: str) -> None:
        """Take parameters from `save_config`'s JSON."""
        self._learner.set_params(config_from_json(config))

    # ---- text ----

    def get_dump(
        self, fmap: "str | os.PathLike[str]" = "", with_stats: bool = False, dump_format: str = "text"
    ) -> list[str]:
        """Every tree as text, JSON or dot."""
        model = self._learner.model
        if isinstance(model, LinearModel):
            return [model.dump(dump_format, self._learner.n_features, self._learner.n_outputs)]
        return dump.dump_trees(model.trees, *self._named(fmap), dump_format, with_stats)

    def _named(self, fmap: "str | os.PathLike[str]") -> tuple[list[str] | None, list[str] | None]:
        """Feature names and types: of a feature map file, if one is given, else the model's own."""
        found = dump.read_feature_map(fmap, self._learner.n_features) if fmap else None
        statistics = self._learner.statistics
        own = (self._feature_names, self._feature_types)
        return found or (own if statistics is None else (statistics.encoded_names, statistics.encoded_types))

    def dump_model(
        self,
        fout: "str | os.PathLike[str]",
        fmap: "str | os.PathLike[str]" = "",
        with_stats: bool = False,
        dump_format: str = "text",
    ) -> None:
        """Write `get_dump` to a file."""
        dump.write_dump(fout, self.get_dump(fmap, with_stats, dump_format), dump_format)

    def get_score(
        self, fmap: "str | os.PathLike[str]" = "", importance_type: str = "weight"
    ) -> dict[str, float | list[float]]:
        """Importance of the features that are split on: weight, gain, cover, total_gain or total_cover.

        Of a linear model, "weight": the weights of all features, a list for each where there are several outputs.
        """
        model, names = self._learner.model, self._named(fmap)[0]
        if isinstance(model, LinearModel):
            return model.scores(names, importance_type)
        if self._learner.statistics is not None:
            return dict(introspect.shared_importance(model.trees, self._learner.statistics, importance_type))
        return dict(introspect.importance(model.trees, names, importance_type))

    def linear_weights(self) -> np.ndarray:
        """The weights of a linear model, (n_features + 1, n_outputs) float32; the last row is the bias."""
        model = self._learner.model
        if not isinstance(model, LinearModel):
            raise XGBoostError(f"A {model.kind} model has no linear weights; booster='gblinear' has.")
        return model.weights.copy()

    def get_fscore(self, fmap: "str | os.PathLike[str]" = "") -> dict[str, float | list[float]]:
        """How often each feature is split on."""
        return self.get_score(fmap, "weight")

    def trees_to_dataframe(self, fmap: "str | os.PathLike[str]" = "") -> Any:
        """Every node of every tree as a row of a pandas DataFrame."""
        if isinstance(self._learner.model, LinearModel):
            raise ValueError("This method is not defined for Booster type gblinear")
        return introspect.trees_to_dataframe(self._learner.model.trees, *self._named(fmap))

    def get_split_value_histogram(
        self, feature: str, fmap: "str | os.PathLike[str]" = "", bins: int | None = None, as_pandas: bool = True
    ) -> Any:
        """How often each range of a feature's values was split at: a DataFrame, or an array of (upper end, count)."""
        table = introspect.split_value_histogram(self._learner.model.trees, *self._named(fmap), feature, bins)
        return introspect.as_frame(table) if as_pandas else table

    def to_onnx(
        self,
        path: "str | os.PathLike[str] | None" = None,
        *,
        output_margin: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
    ) -> Any:
        """The model as an onnx.ModelProto that predicts what `predict` does, also written to `path`.

        Its input `X` is float32 (n, features), NaN for missing values and codes for categories; names, types and
        categories of the features are in its metadata.
        """
        return onnx.to_onnx(self._ensemble(output_margin, iteration_range), path)

    def to_python(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """The model as Python source without dependencies, with a function `predict(row)`; also written to `path`."""
        return source.to_python(self._ensemble(False, (0, 0)), path)

    def _ensemble(self, output_margin: bool, iteration_range: tuple[int, int]) -> Ensemble:
        """The model, or some of its rounds, as exporters take it."""
        learner, (trees, _) = self._learner, self._trees_of(iteration_range)
        if not learner.n_features:
            raise XGBoostError(_UNTRAINED)
        self._refuse_statistics("This export")
        model = learner.model.as_trees()
        return Ensemble(
            model.weighed_trees(trees),
            model.tree_info[trees],
            learner.base_margin(),
            learner.n_features,
            None if output_margin else learner.loss,
            self._feature_names,
            self._feature_types,
            learner.categories,
        )

    def _refuse_statistics(self, what: str) -> None:
        if self._learner.statistics is not None:
            raise XGBoostError(
                f"{what} knows trees only: a model with target statistics (cat_strategy='ordered_ts') cannot be had "
                "that way. Train with another cat_strategy."
            )

    def _repr_html_(self) -> str:
        return cards.booster_card(self)

    # ---- copies ----

    def copy(self) -> "Booster":
        """An independent copy of the model and its parameters."""
        return copy.copy(self)

    def __copy__(self) -> "Booster":
        # trees never change once grown, so copies share them
        twin = Booster.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._attributes = dict(self._attributes)
        twin._learner = self._learner.copy()
        return twin

    def __deepcopy__(self, _: Any) -> "Booster":
        return copy.copy(self)

    def __getstate__(self) -> dict[str, Any]:
        # the model travels as a checked model file, not as our classes, so pickles outlive changes of the code
        state = {k: v for k, v in self.__dict__.items() if k != "_learner"}
        learner = self._learner
        trained = learner.base_score is not None or learner.model.n_rounds
        model = bytes(self.save_raw()) if trained else None
        return {"face": state, "params": learner.params, "model": model, "n_features": learner.n_features}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "handle" in state:
            raise XGBoostError("This pickle holds a Booster of XGBoost itself: use its save_model and our load_model.")
        self._learner = Learner()
        if state["model"] is not None:
            self.load_model(state["model"])
        self._learner.n_features = state["n_features"]
        self.__dict__.update(state["face"])
        self._learner.set_params(state["params"])
