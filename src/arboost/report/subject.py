"""What a report is about: the model, the rounds it predicts with, the data in its columns, predictions, a sample.

Rows are read once, chunk by chunk. Pictures of single rows (SHAP, scatter plots) are drawn from `sample`, a fixed
choice of rows, so that the same model and data give the same page.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from arboost import _sklearn_fit as fitting
from arboost.booster import Booster
from arboost.cards import model_digest
from arboost.matrix import files
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.meta import MetaInfo
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError

_KIND_OF = {
    "binary:logistic": "binary", "binary:logitraw": "binary", "binary:hinge": "binary", "reg:logistic": "binary",
    "multi:softmax": "multiclass", "multi:softprob": "multiclass",
    "count:poisson": "counts", "reg:tweedie": "counts", "reg:gamma": "counts",
    "reg:quantileerror": "quantile", "survival:cox": "cox", "survival:aft": "aft",
    "rank:ndcg": "ranking", "rank:map": "ranking", "rank:pairwise": "ranking",
}  # fmt: skip
KIND_WORDS = {
    "binary": "Binary classification",
    "multiclass": "Multi-class classification",
    "counts": "Counts and amounts",
    "quantile": "Quantile regression",
    "cox": "Survival (proportional hazards)",
    "aft": "Survival (accelerated failure time)",
    "ranking": "Ranking",
    "regression": "Regression",
}


@dataclass
class Subject:
    """A model and, perhaps, data; arrays are None where there is no data.

    Attributes
    ----------
    booster
        The rounds that are reported: those the model predicts with.
    whole
        The model with all its rounds.
    estimator
        What the user gave, if it is an estimator.
    rounds
        [begin, end) of the reported rounds.
    data
        The rows, in the model's columns and codes.
    margin, prediction
        (n_rows, n_outputs) float32: raw, and as metrics are given them.
    sample
        Rows that are shown one by one, rising.
    values
        (n_sample, n_features) float32.
    """

    booster: Booster
    whole: Booster
    estimator: Any
    rounds: tuple[int, int]
    kind: str
    names: list[str]
    types: list[str]
    class_names: list[str]
    data: DMatrix | None = None
    margin: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.float32))
    prediction: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.float32))
    sample: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    _category_words: dict[int, list[str] | None] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole model, as `save_raw` writes it."""
        return model_digest(self.whole)

    @cached_property
    def nameless(self) -> Booster:
        """The same model without names of features: it predicts for rows in its columns, whatever they are called."""
        twin = _unwarned(self.booster.copy())
        twin.feature_names = None
        return twin

    @property
    def info(self) -> MetaInfo:
        assert self.data is not None
        return self.data.info

    @property
    def is_linear(self) -> bool:
        return self.booster._learner.model.kind == "gblinear"

    @property
    def objective(self) -> str:
        return self.booster._learner.loss.name

    @property
    def n_outputs(self) -> int:
        return self.booster._learner.n_outputs

    @property
    def weight(self) -> np.ndarray:
        """(n_rows,) float64: weight of every row, 1 where none is given."""
        weight = self.info.row_weight()
        return np.ones(self.info.n_rows) if weight is None else weight.astype(np.float64)

    def label(self) -> np.ndarray | None:
        """(n_rows, n_label_columns) float32, None if rows have no labels."""
        if self.data is None or self.info.label is None:
            return None
        return self.info.label.reshape(self.info.n_rows, -1)

    def output_names(self) -> list[str]:
        """What the columns of the margin are called; one output has no name."""
        if self.n_outputs == 1:
            return [""]
        if self.kind == "multiclass":
            return self.class_names
        if self.kind == "quantile":
            return [f"quantile {alpha:g}" for alpha in self.booster._learner.resolved.learner.quantile_alpha]
        return [f"target {k}" for k in range(self.n_outputs)]

    def category_words(self, feature: int) -> list[str] | None:
        """What the codes of a categorical feature stand for; None for a number, or codes that have no names."""
        if feature not in self._category_words:
            categories = self.booster._learner.categories
            values = None if categories is None else categories.values[feature]
            self._category_words[feature] = None if values is None else [str(value) for value in values.tolist()]
        return self._category_words[feature]

    def value_words(self, feature: int, value: float) -> str:
        """One value as a reader knows it."""
        if np.isnan(value):
            return "missing"
        known = self.category_words(feature)
        if known is not None and 0 <= value < len(known):
            return known[int(value)]
        return f"{value:.6g}"


def make_subject(
    model: Any,
    data: Any,
    label: Any,
    iteration_range: tuple[int, int] | None,
    max_sample: int,
    class_names: Sequence[str] | None,
) -> Subject:
    """Gather everything; data is read and predicted once."""
    whole = model.get_booster() if hasattr(model, "get_booster") else model
    if not isinstance(whole, Booster):
        raise TypeError(f"`model` must be a Booster or a fitted estimator, got {type(model).__name__}.")
    learner = whole._learner
    if not learner.n_features:
        raise XGBoostError("The model has not been trained or loaded yet: there is nothing to report.")
    estimator = None if isinstance(model, Booster) else model
    begin, end = rounds_of(whole, estimator, iteration_range)
    is_part = learner.model.kind != "gblinear" and (begin, end) != (0, whole.num_boosted_rounds())
    subject = Subject(
        booster=_unwarned(whole[begin:end]) if is_part else whole,
        whole=whole,
        estimator=estimator,
        rounds=(begin, end),
        kind=_KIND_OF.get(learner.loss.name, "regression"),
        names=whole.feature_names or [f"f{i}" for i in range(learner.n_features)],
        types=whole.feature_types or ["float"] * learner.n_features,
        class_names=_class_names(whole, estimator, class_names),
    )
    if data is None:
        if label is not None:
            raise ValueError("`label` needs `data`: the rows that it belongs to.")
        return subject
    matrix = _matrix(subject, data, label)
    if matrix.num_row() == 0:
        raise ValueError("`data` has no rows: leave it out for a report of the model alone.")
    subject.data = subject.booster._aligned(matrix, validate=matrix.feature_names is not None)
    subject.booster._check_width(subject.data.num_col())
    _refine_kind(subject)
    _read(subject, max_sample)
    return subject


def _unwarned(twin: Booster) -> Booster:
    """A copy of a model whose parameters were looked at in training: it does not warn of them once more."""
    with settings.changed(verbosity=0):
        _ = twin._learner.resolved
    return twin


def rounds_of(booster: Booster, estimator: Any, given: tuple[int, int] | None) -> tuple[int, int]:
    """The rounds that `predict` uses by itself: an estimator's up to the best one, a Booster's all."""
    n_rounds = booster.num_boosted_rounds()
    if given is not None and tuple(given) != (0, 0):
        return int(given[0]), int(given[1]) or n_rounds
    best = booster.attr("best_iteration")
    if estimator is not None and best is not None:
        return 0, min(int(best) + 1, n_rounds)
    return 0, n_rounds


def _class_names(booster: Booster, estimator: Any, given: Sequence[str] | None) -> list[str]:
    """Names of the classes: given, the estimator's, the model file's, or numbers; none where there are no classes."""
    kind = _KIND_OF.get(booster._learner.loss.name)
    if kind not in ("binary", "multiclass"):
        return []
    found = getattr(estimator, "classes_", None)
    known = fitting.model_classes(booster)[0] if found is None else np.asarray(found)
    if given is None:
        return [str(name) for name in known.tolist()]
    if len(given) != len(known):
        raise ValueError(f"`class_names` has {len(given)} names, the model {len(known)} classes.")
    return [str(name) for name in given]


def _matrix(subject: Subject, data: Any, label: Any) -> DMatrix:
    """The rows as a matrix; a matrix that is given stays as it is, whatever label is put beside it."""
    label = _coded(subject, label)
    if isinstance(data, DMatrix):
        if label is None:
            return data
        twin = copy.copy(data)
        twin.info = copy.copy(data.info)
        twin._aligned = None
        twin.info.set("label", label)
        return twin
    qid = None
    if subject.kind == "ranking" and "qid" not in (subject.booster.feature_names or ()):
        data, qid = fitting.split_qid(data)
    is_bare = not hasattr(data, "columns") and not hasattr(data, "column_names") and not files.is_path(data)
    return DMatrix(
        data,
        label,
        qid=qid,
        missing=getattr(subject.estimator, "missing", None),
        feature_types=subject.booster.feature_types if is_bare else None,
        nthread=subject.booster._learner.resolved.learner.nthread,
        enable_categorical=True,
    )


def _coded(subject: Subject, label: Any) -> Any:
    """Class labels as the codes that the model was trained on; other labels as they are."""
    if label is None or isinstance(label, str) or subject.kind not in ("binary", "multiclass"):
        return label
    found = getattr(subject.estimator, "classes_", None)
    classes, are_known = fitting.model_classes(subject.whole) if found is None else (np.asarray(found), True)
    labels = np.asarray(label)
    if not are_known:
        if labels.dtype.kind in "biuf":
            return label
        classes = np.array(subject.class_names)
        labels = labels.astype(str)
    return fitting.encode(fitting.label_array(labels, "label"), classes, "label")


def _refine_kind(subject: Subject) -> None:
    """A logistic model of shares, not of classes, is a regression; refuses classes that the model does not have."""
    label = subject.label()
    if subject.kind == "multiclass" and label is not None:
        known = np.isin(label[:, 0], np.arange(subject.n_outputs)) if label.shape[1] == 1 else np.zeros(1, bool)
        if not known.all():
            raise ValueError(f"the labels of a model of {subject.n_outputs} classes are 0 to {subject.n_outputs - 1}.")
    if subject.kind == "binary" and label is not None:
        known = label[~np.isnan(label)]
        if ((known != 0.0) & (known != 1.0)).any():
            subject.kind, subject.class_names = "regression", []


def _read(subject: Subject, max_sample: int) -> None:
    """Predict all rows, and keep the values of some."""
    data, learner = subject.data, subject.booster._learner
    assert data is not None
    n_rows = data.num_row()
    subject.margin = learner.predict_margins(data, subject.booster._trees_of((0, 0))[0])
    found = learner.loss.eval_transform(subject.margin.copy(), learner.ctx)
    subject.prediction = found.reshape(n_rows, -1)
    if n_rows > max_sample:
        chosen = np.random.default_rng(0).choice(n_rows, max_sample, replace=False)
        subject.sample = np.sort(chosen)
    else:
        subject.sample = np.arange(n_rows)
    subject.values = take_rows(data, subject.sample)


def take_rows(data: DMatrix, rows: np.ndarray) -> np.ndarray:
    """(len(rows), n_features) float32 values of rising row numbers."""
    values = np.empty((len(rows), data.num_col()), np.float32)
    for first, chunk in data.chunks():
        start, stop = np.searchsorted(rows, (first, first + len(chunk)))
        values[start:stop] = chunk[rows[start:stop] - first]
    return values
