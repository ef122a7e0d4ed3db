"""The estimators of `xgboost.dask`: those of `arboost.sklearn`, fitted on and predicting for Dask collections.

Parameters, checks and class labels are the plain estimators'; a plain one, made from the fitted model, predicts for
each partition. With an asynchronous client, `fit` and `predict` are to be awaited.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import dask
import dask.dataframe as dd
import distributed
import numpy as np

from arboost import _sklearn_fit as fitting
from arboost._sklearn_fit import Rows
from arboost.booster import Booster
from arboost.collective import Config
from arboost.config import get_config
from arboost.dask.cluster import run_training
from arboost.dask.data import DaskDMatrix, DaskQuantileDMatrix, align_chunks, find_client, in_task, run, split_fields
from arboost.dask.prediction import as_task, map_rows
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.errors import XGBoostError
from arboost.sklearn import (
    XGBClassifier,
    XGBModel,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
    booster_of,
)

_OWN = ("_client", "_asynchronous", "coll_cfg", "allow_group_split", "callbacks")  # of no use to a plain estimator


class DaskScikitLearnBase(XGBModel):
    """What the Dask estimators share.

    Parameters
    ----------
    coll_cfg :
        As for `arboost.dask.train`.
    **kwargs :
        Parameters of the plain estimator.
    """

    plain: ClassVar[type[XGBModel]] = XGBModel
    _client: distributed.Client | None = None

    @positional_with_warning
    def __init__(self, *, coll_cfg: Config | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.coll_cfg = coll_cfg

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters that `train` understands."""
        return {name: value for name, value in super().get_xgb_params().items() if name not in _OWN}

    # ---- the client ----

    @property
    def client(self) -> distributed.Client:
        """The client: the one that was set, else Dask's current one. It does not travel with a pickled estimator."""
        return find_client(self._client)

    @client.setter
    def client(self, client: distributed.Client | None) -> None:
        self._client = client

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_client"}

    def __await__(self) -> Any:
        async def itself() -> "DaskScikitLearnBase":
            return self

        return itself().__await__()

    def _run(self, function: Callable, *args: Any) -> Any:
        """function(*args), a coroutine, in the client's event loop; within a Dask task, by a client of that worker."""
        if self._client is None and in_task():
            with distributed.worker_client() as client, self._lent(client):
                return client.sync(function, *args)
        return run(self.client, function, *args)

    @contextmanager
    def _lent(self, client: distributed.Client) -> Iterator[None]:
        self._client = client
        try:
            yield
        finally:
            self._client = None

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
    ) -> Any:
        """Train; collections have the partitions of `X`. See `XGBModel.fit` for the parameters."""
        fitting.check_y(self, y)
        rows = Rows(X, y, sample_weight, base_margin)
        evals = fitting.eval_rows(rows, eval_set, sample_weight_eval_set, base_margin_eval_set)
        return self._run(self._fit_task, rows, evals, verbose, booster_of(xgb_model), feature_weights)

    async def _fit_task(
        self, rows: Rows, evals: list[Rows], verbose: Any, model: Booster | None, feature_weights: Any
    ) -> "DaskScikitLearnBase":
        await self._fit_rows(rows, evals, verbose, model, feature_weights)
        return self

    async def _fit_rows(
        self,
        rows: Rows,
        evals: list[Rows],
        verbose: Any,
        model: Booster | None,
        feature_weights: Any,
        classes: np.ndarray | None = None,
        **params: Any,
    ) -> None:
        """Make the matrices and train; `params` go before the estimator's own, of `classes` the labels are codes."""
        if self.early_stopping:
            raise XGBoostError(
                "early_stopping=True sets rows aside, which a Dask estimator does not: pass an eval_set."
            )
        names, metric = fitting.split_metrics(self.eval_metric)
        params = {**self.get_xgb_params(), "eval_metric": names or None, **params}
        weights = self._feature_weights(feature_weights)
        dtrain = await self._make_matrix(None, rows, weights)
        watched = []
        for i, part in enumerate(evals):
            matrix = dtrain if part is rows else await self._make_matrix(dtrain, part, None)
            watched.append((matrix, f"validation_{i}"))
        outcome = await run_training(
            self.client,
            params,
            dtrain,
            self.get_num_boosting_rounds(),
            watched,
            self.coll_cfg,
            get_config() | ({} if self.verbosity is None else {"verbosity": self.verbosity}),
            obj=fitting.objective_for_train(self.objective) if fitting.is_function(self.objective) else None,
            early_stopping_rounds=self._patience(),
            verbose_eval=verbose,
            xgb_model=model,
            callbacks=self.callbacks,
            custom_metric=None if metric is None else self._wrap_metric(metric),
        )
        self._take_model(outcome.booster, outcome.history, classes)

    async def _make_matrix(self, ref: DaskDMatrix | None, rows: Rows, feature_weights: Any) -> DaskDMatrix:
        """A matrix of bins where `hist` will train on it, else one that keeps the values."""
        fields = {
            "data": rows.X, "label": rows.y, "weight": rows.weight, "base_margin": rows.base_margin, "qid": rows.qid,
            "feature_weights": feature_weights, "missing": self.missing,
            "enable_categorical": self.enable_categorical, "feature_types": self.feature_types,
        }  # fmt: skip
        if self._trains_on_bins():
            return await DaskQuantileDMatrix(self.client, ref=ref, max_bin=self.max_bin, **fields)
        return await DaskDMatrix(self.client, **fields)

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
    ) -> Any:
        """Predict for every row of a dask array or data frame, lazily. See `XGBModel.predict` for the parameters."""
        options = {
            "output_margin": output_margin, "validate_features": validate_features, "iteration_range": iteration_range,
        }  # fmt: skip
        return self._run(self._map, "predict", X, base_margin, options)

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> Any:
        """Number of the leaf that each row reaches in each tree, as a dask array."""
        return self._run(self._map, "apply", X, None, {"iteration_range": iteration_range})

    async def _map(self, method: str, X: Any, base_margin: Any, options: dict[str, Any]) -> Any:
        """What a plain estimator's method gives for each partition; a table of numbers is a dask array."""
        plain = self._as_plain()
        blank = np.empty((0, self.n_features_in_), np.float32)
        unchecked = {} if method == "apply" else {"validate_features": False}
        like = getattr(plain, method)(blank, **{**options, **unchecked})
        found = map_rows(
            _rows, X, like.shape[1:], base_margin, like.dtype, estimator=as_task(plain), method=method, options=options
        )
        return found.to_dask_array() if isinstance(found, dd.DataFrame) else found

    def _as_plain(self) -> XGBModel:
        """A plain estimator with this one's model and parameters."""
        plain = self.plain.__new__(self.plain)
        plain.__dict__.update({name: value for name, value in self.__dict__.items() if name not in _OWN})
        plain.callbacks = None
        self.get_booster()
        return plain


def _rows(partition: Any, base_margin: Any, estimator: XGBModel, method: str, options: dict[str, Any]) -> np.ndarray:
    more = {} if base_margin is None else {"base_margin": base_margin}
    found: np.ndarray = getattr(estimator, method)(partition, **options, **more)
    return found


class DaskXGBRegressor(DaskScikitLearnBase, XGBRegressor):
    """`XGBRegressor` for Dask collections."""

    plain = XGBRegressor


class DaskXGBClassifier(DaskScikitLearnBase, XGBClassifier):
    """`XGBClassifier` for Dask collections, with labels of any kind."""

    plain = XGBClassifier

    async def _fit_task(
        self, rows: Rows, evals: list[Rows], verbose: Any, model: Booster | None, feature_weights: Any
    ) -> "DaskXGBClassifier":
        labels, n_columns = await self._distinct(rows)
        classes = np.arange(2) if n_columns > 1 else self._find_classes(labels, model)
        encoded = _encode(rows, classes, "y", self.class_weight)
        watched = [
            encoded if part is rows else _encode(part, classes, f"y of eval_set[{i}]", None)
            for i, part in enumerate(evals)
        ]
        if self.class_weight is not None:  # counts for training only
            watched = [
                _encode(part, classes, f"y of eval_set[{i}]", None) if own is encoded else own
                for i, (part, own) in enumerate(zip(evals, watched, strict=True))
            ]
        task = self._task(len(classes), is_multilabel=n_columns > 1)
        await self._fit_rows(encoded, watched, verbose, model, feature_weights, classes, **task)
        return self

    async def _distinct(self, rows: Rows) -> tuple[np.ndarray, int]:
        """The labels that occur, and how many a row has."""
        tasks = [dask.delayed(_labels_of)(part) for part in split_fields({"data": rows.y})["data"]]
        found = await self.client.gather(self.client.compute(tasks), asynchronous=True)
        filled = [labels for labels, _ in found if len(labels)] or [found[0][0]]
        return np.concatenate(filled), max(n for _, n in found)

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> Any:
        """Probability of every class, as a dask array (n, n_classes); see `predict` for the parameters."""
        options = {"validate_features": validate_features, "iteration_range": iteration_range}
        return self._run(self._map, "predict_proba", X, base_margin, options)


def _labels_of(part: Any) -> tuple[np.ndarray, int]:
    """The distinct labels of a partition, and how many a row has."""
    labels = fitting.label_array(part, "y")
    if labels.ndim == 2:
        return np.zeros(0, np.int64), labels.shape[1]
    return np.unique(labels), 1


def _encode(rows: Rows, classes: np.ndarray, what: str, class_weight: Any) -> Rows:
    """The rows with codes for labels, partition by partition, and weights by class."""
    y = align_chunks(rows.y, rows.X)
    codes = [dask.delayed(_codes_of)(part, classes, what) for part in split_fields({"data": y})["data"]]
    weights = rows.weight
    if class_weight is not None:
        if class_weight == "balanced":
            raise XGBoostError("class_weight='balanced' counts the rows of all workers: pass sample_weight.")
        own = [None] * len(codes)
        if weights is not None:
            own = split_fields({"data": align_chunks(weights, rows.X)})["data"]
        task = dask.delayed(fitting.class_weights)
        weights = [task(class_weight, classes, code, weight) for code, weight in zip(codes, own, strict=True)]
    return replace(rows, y=codes, weight=weights)


def _codes_of(part: Any, classes: np.ndarray, what: str) -> np.ndarray:
    return fitting.encode(fitting.label_array(part, what), classes, what)


class DaskXGBRanker(DaskScikitLearnBase, XGBRanker):
    """`XGBRanker` for Dask collections: `qid` is a collection with the partitions of `X`.

    Parameters
    ----------
    allow_group_split :
        Accepted for compatibility: a group is always trained on as a whole, wherever its rows lie.
    """

    plain = XGBRanker

    @positional_with_warning
    def __init__(
        self,
        *,
        objective: str | Callable = "rank:ndcg",
        allow_group_split: bool = False,
        coll_cfg: Config | None = None,
        **kwargs: Any,
    ) -> None:
        if callable(objective):
            raise ValueError("Custom objective function not supported by XGBRanker.")
        super().__init__(objective=objective, coll_cfg=coll_cfg, **kwargs)
        self.allow_group_split = allow_group_split

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
    ) -> Any:
        """Train; see `XGBRanker.fit` for the parameters. `group` is not available, as in XGBoost."""
        if group is not None or eval_group is not None:
            raise ValueError("Use the `qid` instead of the `group` with the dask interface.")
        if qid is None:
            raise ValueError("`qid` is required for ranking.")
        rows = Rows(X, y, sample_weight, base_margin, None, qid)
        evals = fitting.eval_rows(rows, eval_set, sample_weight_eval_set, base_margin_eval_set, None, eval_qid)
        return self._run(self._fit_task, rows, evals, verbose, booster_of(xgb_model), feature_weights)


class DaskXGBRFRegressor(DaskXGBRegressor, XGBRFRegressor):
    """`XGBRFRegressor` for Dask collections."""

    plain = XGBRFRegressor


class DaskXGBRFClassifier(DaskXGBClassifier, XGBRFClassifier):
    """`XGBRFClassifier` for Dask collections."""

    plain = XGBRFClassifier
