"""What `fit` of the scikit-learn estimators makes of its arguments: rows, class codes, splits, callables.

Nothing here imports scikit-learn. `Rows` is one data set as the user gave it; `encode` and `decode_classes` turn
class labels into codes 0..K-1 and back; `split_matrix` sets rows aside for early stopping.
"""

import inspect
import itertools
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.losses import ScalarLoss
from arboost.matrix.dmatrix import DMatrix
from arboost.objective import Objective
from arboost.runtime import comm, settings
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

_MAX_SEED = np.iinfo(np.int32).max
CLASSES_ATTRIBUTE = "class_labels"  # of a booster; XGBoost keeps attributes and ignores this one
_STORED_KINDS = (str, int, float, bool)


@dataclass(frozen=True, eq=False)
class Rows:
    """One data set as it was given to `fit`."""

    X: Any
    y: Any
    weight: Any = None
    base_margin: Any = None
    group: Any = None
    qid: Any = None

    def is_same(self, other: "Rows") -> bool:
        """Whether both are made of the very same objects."""
        names = self.__dataclass_fields__
        return all(getattr(self, name) is getattr(other, name) for name in names)


def eval_rows(
    train: Rows,
    eval_set: Sequence[tuple[Any, Any]] | None,
    weights: Sequence[Any] | None,
    base_margins: Sequence[Any] | None,
    groups: Sequence[Any] | None = None,
    qids: Sequence[Any] | None = None,
) -> list[Rows]:
    """The evaluation sets; one that is the training data is `train` itself, so that its matrix is made once."""
    given = {
        "sample_weight_eval_set": weights, "base_margin_eval_set": base_margins,
        "eval_group": groups, "eval_qid": qids,
    }  # fmt: skip
    if eval_set is None:
        if any(parts is not None for parts in given.values()):
            raise ValueError("`eval_set` is not set but one of the other evaluation meta info is not None.")
        return []
    pairs = list(eval_set)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError("`eval_set` is a list of (X, y) pairs.")
    for name, parts in given.items():
        if parts is not None and len(parts) != len(pairs):
            raise ValueError(
                f"{name}'s length does not equal `eval_set`'s length, expecting {len(pairs)}, got {len(parts)}"
            )
    columns = [[None] * len(pairs) if parts is None else parts for parts in given.values()]
    found = [Rows(X, y, *more) for (X, y), *more in zip(pairs, *columns, strict=True)]
    return [train if rows.is_same(train) else rows for rows in found]


# ---- what estimators say of their data ----


class BoosterFeatures:
    """The features of an estimator whose model is a Booster."""

    get_booster: Callable[[], Booster]

    @property
    def n_features_in_(self) -> int:
        """Number of features that the model was trained on."""
        return self.get_booster().num_features()

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, where the training data had names."""
        names = self.get_booster().feature_names
        if names is None:
            raise AttributeError("`feature_names_in_` is defined only when `X` has feature names that are all strings.")
        return np.array(names, dtype=object)


def tell_input(tags: Any, categorical: bool = False) -> Any:
    """scikit-learn's tags with what the matrices take: they check it, and take more than its own check would."""
    tags.no_validation = True
    tags.input_tags.allow_nan = tags.input_tags.sparse = True
    tags.input_tags.categorical = categorical
    return tags


# ---- checks and conversions ----


def keep(estimator: Any, given: dict[str, Any]) -> None:
    """All that scikit-learn lets a constructor do: keep what it was `given`, its `locals()`, under the same names."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def seed(random_state: Any) -> int | None:
    """A seed from what scikit-learn calls a random state; a generator gives a new one every time."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_MAX_SEED))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_MAX_SEED))
    return random_state


def encode_eval(part: Rows, classes: np.ndarray, number: int) -> Rows:
    """An evaluation set with codes for labels."""
    what = f"y of eval_set[{number}]"
    return replace(part, y=encode(label_array(part.y, what), classes, what))


def refuse_stopping(estimator: Any) -> None:
    """A forest has nothing to stop or to watch."""
    if estimator.early_stopping_rounds is not None or estimator.callbacks is not None or estimator.early_stopping:
        raise NotImplementedError(
            "`early_stopping_rounds` and `callbacks` are not implemented for the sklearn random forest estimator "
            "interface: a forest has one round."
        )


def check_y(estimator: Any, y: Any) -> None:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")


def check_data(estimator: Any, rows: Rows) -> None:
    """What the matrices would accept and scikit-learn's users expect to be refused."""
    check_y(estimator, rows.y)
    shape: tuple = getattr(rows.X, "shape", ())
    if getattr(getattr(rows.X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X has dtype {rows.X.dtype}. Pass its real and imaginary parts.")
    if len(shape) == 2 and shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required.")


def check_width(estimator: Any, X: Any) -> None:
    """The wrong number of dimensions or columns, in scikit-learn's words and XGBoost's."""
    shape: tuple = getattr(X, "shape", ())
    n_features = estimator.n_features_in_
    if len(shape) == 1 and n_features != 1:
        raise ValueError(
            f"Expected 2D array, got 1D array of {shape[0]} values instead. Reshape your data: X.reshape(-1, 1) "
            "if it has one feature, X.reshape(1, -1) if it is one row."
        )
    if len(shape) == 2 and shape[1] != n_features:
        raise ValueError(
            f"X has {shape[1]} features, but {type(estimator).__name__} is expecting {n_features} features as "
            f"input. Feature shape mismatch, expected: {n_features}, got {shape[1]}"
        )


def split_qid(X: Any) -> tuple[Any, Any]:
    """(X without its column `qid`, that column), or (X, None)."""
    if not hasattr(X, "columns") or "qid" not in list(X.columns):
        return X, None
    return X.drop("qid", **({"axis": 1} if hasattr(X, "iloc") else {})), X["qid"]


def with_groups(rows: Rows) -> Rows:
    """The rows with their groups, which may be a column of X."""
    X, column = split_qid(rows.X)
    if column is not None and rows.qid is not None:
        raise ValueError("Found both the special column `qid` in `X` and the `qid` argument: remove one of them.")
    qid = rows.qid if column is None else column
    if rows.group is None and qid is None:
        raise ValueError("Either `group` or `qid` is required for ranking task")
    return replace(rows, X=X, qid=qid)


# ---- class labels ----


def label_array(y: Any, what: str) -> np.ndarray:
    """Class labels as an array of one dimension, or of two where a row has several labels, some of which may be NaN."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2):
        raise ValueError(f"{what} should be a 1d array, got an array of shape {labels.shape} instead.")
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has dtype {labels.dtype}.")
    present = labels
    if labels.ndim == 2 and labels.dtype.kind == "f":
        present = labels[~np.isnan(labels)]
    if _has_missing(present):
        raise ValueError(f"Input {what} contains NaN: the class of every row must be known.")
    if labels.dtype.kind == "f" and not np.isfinite(present).all():
        raise ValueError(f"Input {what} contains infinity or a value too large.")
    if labels.dtype.kind == "f" and (present != np.rint(present)).any():
        raise ValueError(
            f"Invalid classes inferred from unique values of `{what}`. Unknown label type: continuous: a label is no "
            "whole number, and a classifier needs classes."
        )
    return labels


def number_array(y: Any) -> np.ndarray:
    """Labels of a regression as float32, of one dimension or of two."""
    labels = np.asarray(y)
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {labels.dtype}.")
    labels = labels.astype(np.float32)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN, infinity or a value too large for float32.")
    return labels


def _has_missing(labels: np.ndarray) -> bool:
    if labels.dtype.kind in "fmM":
        return bool((labels != labels).any())
    if labels.dtype.kind != "O":
        return False
    try:
        return any(label is None or bool(label != label) for label in labels.flat)
    except TypeError:  # pandas' NA is neither equal nor different
        return True


def find_classes(labels: np.ndarray) -> np.ndarray:
    """The distinct labels of all workers in order; where there are none, those of a binary problem."""
    try:
        found = [pickle.loads(data) for data in comm.current().allgather(pickle.dumps(np.unique(labels)))]
        found = [classes for classes in found if classes.size]
        if not found:
            return np.arange(2)
        classes = np.unique(np.concatenate(found))
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.flat})
        raise ValueError(f"y mixes labels that have no order ({', '.join(kinds)}): use one type.") from error
    return np.arange(len(classes)) if _are_codes(classes) else classes  # XGBoost's dtype, also for bool and float


def compare_classes(labels: np.ndarray, classes: np.ndarray) -> None:
    """Say so where a model is continued on labels of fewer classes than it has."""
    n_seen = len(np.unique(labels))
    if 0 < n_seen < len(classes):
        settings.warn(
            f"Training goes on with a model of {len(classes)} classes on labels of {n_seen}: the model keeps its own."
        )


def encode(labels: np.ndarray, classes: np.ndarray, what: str) -> np.ndarray:
    """Codes 0..K-1 of labels, all of which must be among the (sorted) classes; of several labels some may be NaN."""
    if labels.ndim == 2 and labels.dtype.kind == "f" and np.isnan(labels).any():
        codes = np.full(labels.shape, np.nan, np.float32)
        is_known = ~np.isnan(labels)
        codes[is_known] = encode(labels[is_known], classes, what)
        return codes
    if _are_codes(classes) and labels.dtype.kind in "biuf":
        codes = labels.astype(np.int64)
        known = (codes == labels) & (codes >= 0) & (codes < len(classes))
    else:
        try:
            codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
            known = np.asarray(classes[codes] == labels)
        except TypeError:
            codes, known = np.zeros(labels.shape, np.int64), np.zeros(labels.shape, bool)
    if not known.all():
        unseen = list(dict.fromkeys(labels[~known].tolist()))[:5]
        raise ValueError(
            f"Invalid classes: {what} contains labels that are not among the classes {classes.tolist()}: {unseen}."
        )
    return codes


def _are_codes(classes: np.ndarray) -> bool:
    return classes.dtype.kind in "biuf" and np.array_equal(classes, np.arange(len(classes)))


def class_weights(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None
) -> np.ndarray:
    """Weight of every row: that of its class (of several labels, their product), times its own."""
    own = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64).reshape(-1)
    if len(own) != len(codes):
        raise ValueError(f"sample_weight has {len(own)} values, but y has {len(codes)} rows.")
    if codes.dtype.kind == "f":
        raise ValueError("class_weight needs all labels of a row: y contains NaN.")
    weight = own
    for column in codes.reshape(len(codes), -1).T:
        weight = weight * _weight_of_classes(class_weight, classes, column, own)[column]
    return weight


def _weight_of_classes(class_weight: Any, classes: np.ndarray, codes: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Weight of each class; "balanced" gives all that occur the same sum, and leaves the sum of all as it is."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        Context().refuse_workers("class_weight='balanced'", "it counts the rows of all. Pass sample_weight.")
        sums = np.bincount(codes, own, len(classes))
        occurs = sums > 0
        return np.divide(own.sum(), occurs.sum() * sums, where=occurs, out=np.zeros(len(classes)))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}.")
    absent = [label for label in classes.tolist() if label not in class_weight]
    if absent and len(classes) - len(absent) != len(class_weight):
        raise ValueError(f"The classes, {absent}, are not in class_weight, whose keys are {list(class_weight)}.")
    return np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])


def store_classes(booster: Booster, classes: np.ndarray) -> None:
    """Keep class labels other than 0..K-1 in the model; those that JSON has no type for travel by pickle only."""
    values = classes.tolist()
    text = None
    if not _are_codes(classes) and all(isinstance(value, _STORED_KINDS) for value in values):
        text = json.dumps({"dtype": classes.dtype.str if classes.dtype.kind != "O" else "O", "values": values})
    booster.set_attr(**{CLASSES_ATTRIBUTE: text})


def model_classes(booster: Booster) -> tuple[np.ndarray, bool]:
    """(classes of a model, whether it says so itself); one that does not say has codes."""
    learner = booster._learner
    n_classes = max(2, learner.resolved.learner.num_class)
    text = booster.attr(CLASSES_ATTRIBUTE)
    if text is None:
        return np.arange(n_classes), False
    try:
        stored = json.loads(text)
        classes = np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
    except (ValueError, TypeError, KeyError) as error:
        raise XGBoostError(f"The model's attribute {CLASSES_ATTRIBUTE!r} cannot be read: {error}.") from error
    if not 1 <= len(classes) <= n_classes:
        raise XGBoostError(f"The model has {n_classes} classes, its attribute {CLASSES_ATTRIBUTE!r} {len(classes)}.")
    return classes, True


# ---- rows set aside for early stopping ----


def split_rows(n: int, fraction: float, seed: int, strata: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, validation rows), each in order; of every stratum with two or more rows both get some."""
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"validation_fraction must be between 0 and 1 (both excluded), got {fraction!r}.")
    order = np.random.RandomState(seed).permutation(n)
    chosen = np.zeros(n, bool)
    if strata is None:
        chosen[order[: _share(n, fraction)]] = True
    else:
        for stratum in range(int(strata.max()) + 1):
            rows = order[strata[order] == stratum]
            chosen[rows[: _share(len(rows), fraction)]] = True
    if not chosen.any():
        raise ValueError(f"early_stopping cannot set rows aside for validation where n_samples={n}: give it more.")
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _share(n: int, fraction: float) -> int:
    """Of n rows, how many are set aside: at least one, and one must stay."""
    return min(max(1, round(fraction * n)), n - 1) if n else 0


def split_matrix(full: DMatrix, fraction: float, seed: int, strata: np.ndarray | None) -> tuple[DMatrix, DMatrix]:
    """(training part, validation part) of a matrix; groups of rows stay together."""
    Context().refuse_workers("early_stopping=True", "it draws from the rows of all. Pass an eval_set.")
    full.info.check_groups()
    sizes = full.get_group()
    if not len(sizes):
        train, valid = (full.slice(rows) for rows in split_rows(full.num_row(), fraction, seed, strata))
        return train, valid
    group_of_row = np.repeat(np.arange(len(sizes)), sizes)
    weight = full.get_weight()
    parts = []
    for groups in split_rows(len(sizes), fraction, seed, None):
        part = full.slice(np.flatnonzero(np.isin(group_of_row, groups)), allow_groups=True)
        part.set_group(sizes[groups])
        if len(weight):
            part.set_weight(weight[groups])
        parts.append(part)
    return parts[0], parts[1]


# ---- the user's functions ----


def is_function(value: Any) -> bool:
    """Whether a parameter is a function of the user's, or an object that stands for one."""
    return callable(value) or isinstance(value, ScalarLoss)


def objective_for_train(function: Any) -> Any:
    """(y_true, y_pred[, sample_weight, group_ptr]) -> (gradient, hessian) as `train` calls it; our objects as they are.

    `group_ptr`, where the function has such a parameter: rows of group q are group_ptr[q] : group_ptr[q + 1].
    """
    if isinstance(function, ScalarLoss | Objective):
        return function
    parameters = inspect.signature(function).parameters

    def objective(margin: np.ndarray, data: DMatrix) -> Any:
        weight = data.get_weight()
        more = {"group_ptr": data.get_uint_info("group_ptr")} if "group_ptr" in parameters else {}
        if len(weight) and "sample_weight" not in parameters:
            raise ValueError("Custom objective doesn't have the `sample_weight` parameter while sample_weight is used.")
        return function(data.get_label(), margin, **more, **({"sample_weight": weight} if len(weight) else {}))

    return objective


def metric_for_train(function: Callable) -> Callable:
    """metric(y_true, y_score[, sample_weight]) as `train` calls it."""

    def metric(score: np.ndarray, data: DMatrix) -> tuple[str, float]:
        weight = data.get_weight()
        more = {"sample_weight": weight} if len(weight) else {}
        return _name(function), function(data.get_label(), score, **more)

    return metric


def ranking_metric_for_train(function: Callable) -> Callable:
    """metric(y_true, y_score) of one group, averaged over the groups by their sizes, as XGBoost averages it."""

    def metric(score: np.ndarray, data: DMatrix) -> tuple[str, float]:
        label, ptr = data.get_label(), data.get_uint_info("group_ptr")
        if len(ptr) < 2:
            raise ValueError("Invalid `group_ptr`. Likely caused by invalid qid or group.")
        # a group of one row has nothing to order: it is perfect
        scores = [1.0 if b - a == 1 else function(label[a:b], score[a:b]) for a, b in itertools.pairwise(ptr)]
        return _name(function), float(np.average(scores, weights=np.diff(ptr)))

    return metric


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def split_metrics(eval_metric: Any) -> tuple[list[str], Callable | None]:
    """(names of built-in metrics, the user's own metric) of the parameter `eval_metric`."""
    if eval_metric is None:
        return [], None
    items = [eval_metric] if isinstance(eval_metric, str) or callable(eval_metric) else eval_metric
    if not isinstance(items, Sequence) or not all(isinstance(item, str) or callable(item) for item in items):
        raise TypeError(f"Invalid type for the `eval_metric`: {type(eval_metric)}")
    own = [item for item in items if not isinstance(item, str)]
    if len(own) > 1:
        raise NotImplementedError("Using multiple custom metrics is not yet supported: give one, as in XGBoost.")
    return [item for item in items if isinstance(item, str)], own[0] if own else None
