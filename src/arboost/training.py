"""`train` and `cv`: the loop over rounds, and the folds.

An interrupt (Ctrl-C) never leaves half a round: while a round is being grown it is held back until the round is
whole, then `train` raises the KeyboardInterrupt, which carries the booster trained so far. Folds are drawn as XGBoost
and scikit-learn draw them from the same seed.
"""

import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.callback import (
    CallbackContainer,
    EarlyStopping,
    EvalsLog,
    EvaluationMonitor,
    ProgressBar,
    TrainingCallback,
)
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import ParamsLike, normalize
from arboost.params.table import PARAMS
from arboost.runtime import settings
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError, type_name

__all__ = ["CVPack", "cv", "train"]

Fold = tuple[np.ndarray, np.ndarray]  # row numbers to train on and to test on


@positional_with_warning
def train(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DMatrix, str]] | None = None,
    obj: Callable[[np.ndarray, DMatrix], tuple[np.ndarray, np.ndarray]] | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: EvalsLog | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: str | os.PathLike | Booster | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: Callable[[np.ndarray, DMatrix], tuple[str, float]] | None = None,
) -> Booster:
    """Train a model.

    Parameters
    ----------
    params :
        Parameters by XGBoost's names, or a list of (name, value) pairs.
    dtrain :
        Data to train on.
    num_boost_round :
        Rounds to train; a round adds one tree per output (times `num_parallel_tree`).
    evals :
        (data, name) pairs to evaluate after every round.
    obj :
        Custom objective: (margins, dtrain) -> (gradient, hessian).
    maximize :
        Whether early stopping looks for a larger score; None decides by the metric's name.
    early_stopping_rounds :
        Stop when the last metric of the last set in `evals` has not improved for so many rounds. The booster then has
        `best_iteration` and `best_score`; its last rounds are kept (see `callback.EarlyStopping` to cut them off).
    evals_result :
        A dict that receives ``{name: {metric: [score of every round]}}``.
    verbose_eval :
        Print the scores every round (True) or every so many rounds. Nothing is printed at verbosity 0.
    xgb_model :
        A model to continue: a Booster (left as it is), a file, or the bytes of `Booster.save_raw`.
    callbacks :
        Objects of `callback.TrainingCallback`.
    custom_metric :
        (predictions, data) -> (name, value) or a list of these, reported after the built-in metrics. With a custom
        objective it sees margins.

    Returns
    -------
    Booster
        The trained model.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; its `booster` is the model of the rounds finished so far, whole and usable. `evals_result` is
        filled, and the callbacks' `after_training` has run. A second Ctrl-C during a round does not wait for it.

    Examples
    --------
    >>> import arboost, numpy as np
    >>> X, y = np.random.rand(100, 3), np.random.rand(100)
    >>> booster = arboost.train({"max_depth": 3}, arboost.DMatrix(X, y), 20)  # doctest: +SKIP

    Stopping a long training by hand, without losing it:

    >>> try:  # doctest: +SKIP
    ...     booster = arboost.train(params, dtrain, 10_000)
    ... except KeyboardInterrupt as stopped:
    ...     booster = stopped.booster
    """
    if not isinstance(dtrain, DMatrix):
        raise TypeError(f"dtrain must be a DMatrix of arboost, got {type_name(dtrain)}.")
    num_boost_round = whole_number("num_boost_round", num_boost_round)
    watched = _checked_evals(evals)
    container = CallbackContainer(
        all_callbacks(callbacks, num_boost_round, verbose_eval, False, early_stopping_rounds, maximize),
        metric=custom_metric,
        output_margin=callable(obj),
    )
    with verbosity_of(params):
        booster = Booster(params, [dtrain, *(data for data, _ in watched)], model_file=xgb_model)
        booster = container.before_training(booster)
        try:
            run_rounds(booster, dtrain, num_boost_round, watched, obj, container)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(booster, container, evals_result) from interrupt
        booster = container.after_training(booster)
    if evals_result is not None:
        evals_result.update(container.history)
    return booster.reset()


def run_rounds(
    booster: Booster,
    dtrain: DMatrix,
    n_rounds: int,
    evals: list[tuple[DMatrix, str]],
    obj: Callable | None,
    container: CallbackContainer,
    first_epoch: int = 0,
) -> None:
    """Rounds until a callback says stop. Callbacks count from 0; the booster counts on from the rounds it has.

    A training that is taken up again goes on with the callbacks' round `first_epoch`.
    """
    first = booster.num_boosted_rounds() - first_epoch
    with _WholeRounds() as guard:
        for epoch in range(first_epoch, n_rounds):
            if container.before_iteration(booster, epoch, dtrain, evals):
                break
            guard.growing = True
            booster.update(dtrain, iteration=first + epoch, fobj=obj)
            guard.check()
            if container.after_iteration(booster, epoch, dtrain, evals):
                break


class _WholeRounds:
    """Holds back the first Ctrl-C while a round is being grown; a second one comes through at once.

    Only where Ctrl-C means a KeyboardInterrupt in this thread: not in other threads, not with a handler of the user's.
    Installed once per training; `growing` and `check` cost nothing per round.
    """

    def __init__(self) -> None:
        self.growing = False
        self._pending = False
        in_main_thread = threading.current_thread() is threading.main_thread()
        self._active = in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> "_WholeRounds":
        if self._active:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, signum: int, frame: Any) -> None:
        if not self.growing or self._pending:
            signal.default_int_handler(signum, frame)
        self._pending = True

    def check(self) -> None:
        """Raise what was held back."""
        self.growing = False
        if self._pending:
            raise KeyboardInterrupt


def _interrupted(booster: Booster, container: CallbackContainer, evals_result: EvalsLog | None) -> KeyboardInterrupt:
    """Finish what can be finished; a callback that fails now does not take the model along.

    The class is KeyboardInterrupt itself: only of that one Python knows that the process ends by the signal.
    """
    if evals_result is not None:
        evals_result.update(container.history)
    note = None
    try:
        booster = container.after_training(booster)
    except Exception as error:
        note = f"A callback failed after the interrupt: {error!r}"
    n_rounds = booster.num_boosted_rounds()
    stopped = KeyboardInterrupt(f"training was interrupted after {n_rounds} rounds; the model so far is in `.booster`")
    stopped.booster = booster.reset()  # type: ignore[attr-defined]
    if note is not None:
        stopped.add_note(note)
    return stopped


def _checked_evals(evals: Sequence[tuple[DMatrix, str]] | None) -> list[tuple[DMatrix, str]]:
    checked = []
    for pair in evals or ():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"Invalid type for the `evals`: a list of (DMatrix, name) pairs, got {type_name(pair)} in it."
            )
        if not isinstance(pair[0], DMatrix):
            raise TypeError(f"Invalid type for the `evals`: expected a DMatrix of arboost, got {type_name(pair[0])}.")
        checked.append((pair[0], str(pair[1])))
    return checked


def all_callbacks(
    callbacks: Sequence[TrainingCallback] | None,
    n_rounds: int,
    verbose_eval: bool | int | None,
    show_stdv: bool,
    early_stopping_rounds: int | None,
    maximize: bool | None,
) -> list[TrainingCallback]:
    """The user's callbacks, then the ones that the arguments of `train` and `cv` stand for."""
    every = list(callbacks or ())
    for callback in every:
        if isinstance(callback, ProgressBar):
            callback.expect(n_rounds)
    if verbose_eval:
        every.append(EvaluationMonitor(period=1 if verbose_eval is True else verbose_eval, show_stdv=show_stdv))
    if early_stopping_rounds is not None:
        early_stopping_rounds = whole_number("early_stopping_rounds", early_stopping_rounds, lower=0)
    if early_stopping_rounds:
        every.append(EarlyStopping(rounds=early_stopping_rounds, maximize=maximize))
    return every


@contextmanager
def verbosity_of(params: ParamsLike) -> Iterator[None]:
    """The parameter `verbosity` holds for the whole call, then the thread's own is back."""
    verbosity = normalize(params).get("verbosity")
    level = settings.current().verbosity if verbosity is None else PARAMS["verbosity"].parse(verbosity)
    with settings.changed(verbosity=level), settings.announcing():
        yield


# ---- cross-validation ----


class CVPack:
    """One fold: its data and its booster."""

    def __init__(self, dtrain: DMatrix, dtest: DMatrix, param: ParamsLike) -> None:
        self.dtrain = dtrain
        self.dtest = dtest
        self.watchlist = [(dtrain, "train"), (dtest, "test")]
        self.bst = Booster(param, [dtrain, dtest])

    def update(self, iteration: int, fobj: Callable | None) -> None:
        """One more round."""
        self.bst.update(self.dtrain, iteration=iteration, fobj=fobj)

    def eval(self, iteration: int, feval: Callable | None, output_margin: bool) -> list[tuple[str, str, float]]:
        """(data name, metric name, score) on the fold's two sets."""
        return self.bst._eval(self.watchlist, iteration, feval, output_margin)


class _PackedBooster:
    """The boosters of all folds as the one model that callbacks see."""

    def __init__(self, cvfolds: list[CVPack]) -> None:
        self.cvfolds = cvfolds

    def update(self, iteration: int, obj: Callable | None) -> None:
        """One more round in every fold."""
        for fold in self.cvfolds:
            fold.update(iteration, obj)

    def eval(self, iteration: int, feval: Callable | None, output_margin: bool) -> list[list[tuple[str, str, float]]]:
        """The scores of every fold."""
        return [fold.eval(iteration, feval, output_margin) for fold in self.cvfolds]

    def set_attr(self, **kwargs: str | None) -> None:
        """Set attributes of every fold's booster."""
        for fold in self.cvfolds:
            fold.bst.set_attr(**kwargs)

    def attr(self, key: str) -> str | None:
        """An attribute, the same in every fold."""
        return self.cvfolds[0].bst.attr(key)

    def set_param(self, params: Any, value: Any = None) -> None:
        """Set parameters of every fold's booster."""
        for fold in self.cvfolds:
            fold.bst.set_param(params, value)

    def num_boosted_rounds(self) -> int:
        """Rounds so far."""
        return self.cvfolds[0].bst.num_boosted_rounds()

    @property
    def best_iteration(self) -> int:
        """The round with the best mean score."""
        return self.cvfolds[0].bst.best_iteration

    @property
    def best_score(self) -> float:
        """The best mean score."""
        return self.cvfolds[0].bst.best_score


@positional_with_warning
def cv(
    params: Mapping[str, Any] | Sequence[tuple[str, Any]],
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: Sequence[str] = (),
    obj: Callable[[np.ndarray, DMatrix], tuple[np.ndarray, np.ndarray]] | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    fpreproc: Callable | None = None,
    as_pandas: bool = True,
    verbose_eval: bool | int | None = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Sequence[TrainingCallback] | None = None,
    shuffle: bool = True,
    custom_metric: Callable[[np.ndarray, DMatrix], tuple[str, float]] | None = None,
) -> Any:
    """Cross-validation: train on all folds but one, test on that one, for each fold.

    Parameters
    ----------
    params :
        Parameters by XGBoost's names, or a list of (name, value) pairs.
    dtrain :
        The data; not a QuantileDMatrix, which cannot be sliced.
    num_boost_round :
        Rounds to train.
    nfold :
        Number of folds.
    stratified :
        Draw folds so that each has the classes of the label in equal parts.
    folds :
        A scikit-learn splitter, or a list of (rows to train on, rows to test on); overrides the above.
    metrics :
        Metrics to report, instead of the parameter `eval_metric`.
    obj :
        Custom objective, as for `train`.
    maximize :
        Whether early stopping looks for a larger score; None decides by the metric's name.
    early_stopping_rounds :
        Stop when the mean test score has not improved for so many rounds; the result ends at the best round.
    fpreproc :
        A function (dtrain, dtest, params) -> the same three, called for each fold before training.
    as_pandas :
        Return a DataFrame where pandas is installed.
    verbose_eval :
        Print the mean scores every round (True) or every so many rounds.
    show_stdv :
        Whether printed lines include standard deviations.
    seed :
        Seed of the folds.
    callbacks :
        Objects of `callback.TrainingCallback`; they see a pack with all folds in `cvfolds`.
    shuffle :
        Shuffle the rows before they are dealt to folds (always done when `stratified`).
    custom_metric :
        As for `train`.

    Returns
    -------
    pandas.DataFrame or dict of lists
        Columns ``{train,test}-{metric}-{mean,std}``, one row for each round. Data with groups is split by whole groups.
    """
    if not isinstance(dtrain, DMatrix):
        raise TypeError(f"dtrain must be a DMatrix of arboost, got {type_name(dtrain)}.")
    if dtrain.raw is None:
        kind = type(dtrain).__name__
        raise XGBoostError(f"`{kind}` is not yet supported by `cv`: it cannot be sliced; use a DMatrix.")
    num_boost_round = whole_number("num_boost_round", num_boost_round)
    dtrain.info.check_groups()
    Context().refuse_workers("`cv`", "its folds would hold rows of all workers. Run it on one machine.")
    container = CallbackContainer(
        all_callbacks(callbacks, num_boost_round, verbose_eval, show_stdv, early_stopping_rounds, maximize),
        metric=custom_metric,
        output_margin=callable(obj),
        is_cv=True,
    )
    with verbosity_of(params):
        packs = _make_packs(params, dtrain, metrics, fpreproc, _split(dtrain, nfold, stratified, folds, shuffle, seed))
        model = container.before_training(_PackedBooster(packs))
        n_rounds = _run_folds(model, dtrain, num_boost_round, obj, container)
        results = _columns(container, n_rounds)
        container.after_training(model)
    return _as_frame(results) if as_pandas else results


def _make_packs(
    params: ParamsLike, dtrain: DMatrix, metrics: str | Sequence[str], fpreproc: Callable | None, folds: list[Fold]
) -> list[CVPack]:
    """A booster and its two data sets for each fold."""
    values = normalize(params)
    own = values.pop("eval_metric", [])
    wanted = metrics or own
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    packs = []
    for train_rows, test_rows in folds:
        train_part, test_part, fold_params = _take(dtrain, train_rows), _take(dtrain, test_rows), values
        if fpreproc is not None:
            train_part, test_part, fold_params = fpreproc(train_part, test_part, values.copy())
        packs.append(CVPack(train_part, test_part, [*dict(fold_params).items(), ("eval_metric", wanted or None)]))
    return packs


def _take(data: DMatrix, rows: np.ndarray) -> DMatrix:
    """Some rows; runs of rows of one group stay a group, with its weight where groups are weighted."""
    group_of_row = _group_of_row(data)
    part = data.slice(rows, allow_groups=group_of_row is not None)
    if group_of_row is not None:
        group_of_part = group_of_row[rows]
        starts = np.flatnonzero(np.diff(group_of_part, prepend=-1))
        part.set_group(np.diff(starts, append=len(group_of_part)))
        weight = data.info.weight
        if weight is not None and len(weight) != data.num_row():
            part.set_weight(weight[group_of_part[starts]])
    return part


def _run_folds(
    model: _PackedBooster, dtrain: DMatrix, n_rounds: int, obj: Callable | None, container: CallbackContainer
) -> int | None:
    """Rounds until a callback says stop; returns how many of them count: those up to the best one, or None for all."""
    for epoch in range(n_rounds):
        if container.before_iteration(model, epoch, dtrain, None):
            break
        model.update(epoch, obj)
        if container.after_iteration(model, epoch, dtrain, None):
            return model.best_iteration + 1 if model.attr("best_iteration") is not None else None
    return None


def _columns(container: CallbackContainer, n_rounds: int | None) -> dict[str, list[float]]:
    """The history as columns, in the order of evaluation: the metrics of all sets, then the custom ones of all sets."""
    results = {}
    for data, metric in container.order:
        scores = container.history[data][metric][:n_rounds]
        results[f"{data}-{metric}-mean"] = [mean for mean, _ in scores]
        results[f"{data}-{metric}-std"] = [std for _, std in scores]
    return results


def _as_frame(results: dict[str, list[float]]) -> Any:
    """A DataFrame, or the dict itself where pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return results
    return pandas.DataFrame(results)


# ---- folds ----


def _split(data: DMatrix, n_folds: int, stratified: bool, folds: Any, shuffle: bool, seed: int) -> list[Fold]:
    """Row numbers of each fold: the user's, stratified by label, by whole groups, or by rows."""
    if folds is not None:
        return _given_folds(data, folds)
    n_folds = whole_number("nfold", n_folds)
    if n_folds < 2:
        raise XGBoostError(f"nfold must be at least 2, got {n_folds}: one fold is tested while the others train.")
    rng = np.random.RandomState(seed)
    if stratified:
        return _stratified_folds(data.get_label(), n_folds, rng)
    group_ptr = data.info.group_ptr
    if group_ptr is None or len(group_ptr) < 2:
        return _deal(data.num_row(), n_folds, rng if shuffle else None)
    return [
        (_rows_of_groups(train, group_ptr), _rows_of_groups(test, group_ptr))
        for train, test in _deal(len(group_ptr) - 1, n_folds, rng if shuffle else None)
    ]


def _given_folds(data: DMatrix, folds: Any) -> list[Fold]:
    """A splitter's folds, or a list of pairs of row numbers."""
    if hasattr(folds, "split"):
        label = data.get_label()
        groups = _group_of_row(data)
        folds = folds.split(X=label, y=label, **({} if groups is None else {"groups": groups}))
    elif not isinstance(folds, Iterable):
        raise TypeError("folds must be a splitter such as scikit-learn's KFold, or a list of (train, test) rows.")
    pairs = [(np.asarray(train), np.asarray(test)) for train, test in folds]
    if not pairs:
        raise XGBoostError("folds is empty: there is nothing to train on.")
    return pairs


def _deal(n: int, n_folds: int, rng: np.random.RandomState | None) -> list[Fold]:
    """Numbers 0..n-1, shuffled if there is a generator, dealt to folds in runs of nearly equal length."""
    if n_folds > n:
        raise XGBoostError(f"nfold ({n_folds}) exceeds what there is to split ({n} rows or groups).")
    order = np.arange(n) if rng is None else rng.permutation(n)
    parts = np.array_split(order, n_folds)
    return [(np.concatenate(parts[:k] + parts[k + 1 :]), part) for k, part in enumerate(parts)]


def _rows_of_groups(groups: np.ndarray, group_ptr: np.ndarray) -> np.ndarray:
    return np.concatenate([np.arange(group_ptr[group], group_ptr[group + 1]) for group in groups])


def _group_of_row(data: DMatrix) -> np.ndarray | None:
    group_ptr = data.info.group_ptr
    if group_ptr is None or len(group_ptr) < 2:
        return None
    sizes = (group_ptr[1:] - group_ptr[:-1]).astype(np.int64)
    return np.repeat(np.arange(len(sizes)), sizes)


def _stratified_folds(label: np.ndarray, n_folds: int, rng: np.random.RandomState) -> list[Fold]:
    """Folds with every class in equal parts: for the same seed, those of scikit-learn's StratifiedKFold(shuffle=True).

    Rows sorted by class are dealt to the folds like cards, which says how many rows of each class a fold gets; within
    a class the rows' folds are then shuffled.
    """
    label = np.asarray(label)
    if label.ndim != 1 or not len(label) or np.any(label != np.floor(label)):
        raise XGBoostError("Stratified folds need a label of classes: one whole number for each row.")
    classes, first_row, class_of_row = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(classes), np.int64)
    rank[np.argsort(first_row)] = np.arange(len(classes))  # classes in order of appearance
    class_of_row = rank[class_of_row]
    counts = np.bincount(class_of_row)
    if n_folds > counts.max():
        raise XGBoostError(f"nfold ({n_folds}) cannot be greater than the number of rows in every class.")
    if n_folds > counts.min():
        settings.warn(f"The least populated class has only {counts.min()} rows, fewer than nfold={n_folds}.")
    dealt = np.sort(class_of_row)
    share = np.array([np.bincount(dealt[k::n_folds], minlength=len(classes)) for k in range(n_folds)])
    fold_of_row = np.empty(len(label), np.int64)
    for k in range(len(classes)):
        folds_of_class = np.repeat(np.arange(n_folds), share[:, k])
        rng.shuffle(folds_of_class)
        fold_of_row[class_of_row == k] = folds_of_class
    return [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(n_folds)]
