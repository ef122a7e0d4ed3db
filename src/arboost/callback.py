"""Callbacks: what happens before and after each round of `train` and `cv`.

The signatures are XGBoost's; `ProgressBar` is ours. A callback sees the model (a `Booster`, or the folds' boosters in
`cv`), the round counted from 0, and the history `{data name: {metric name: [score of every round]}}`, where `cv`'s
scores are (mean, standard deviation). Returning True ends the training.
"""

import os
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np

from arboost.progress import Progress, Surface, make_surface
from arboost.runtime import comm, settings
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import XGBoostError

__all__ = [
    "CallbackContainer",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "ProgressBar",
    "TrainingCallback",
    "TrainingCheckPoint",
]

Score: TypeAlias = float | tuple[float, float]
EvalsLog: TypeAlias = dict[str, dict[str, list[Any]]]


class TrainingCallback:
    """Base of all callbacks; override what is needed.

    A callback object belongs to one training run at a time.
    """

    EvalsLog: TypeAlias = EvalsLog

    def before_training(self, model: Any) -> Any:
        """Called once before the first round; returns the model."""
        return model

    def after_training(self, model: Any) -> Any:
        """Called once after the last round; returns the model."""
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        """Called before each round; True ends the training without it."""
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        """Called after each round and its evaluation; True ends the training.

        Parameters
        ----------
        model :
            The `Booster`, or in `cv` the pack of the folds' boosters.
        epoch :
            The round, counted from 0 in each call of `train`.
        evals_log :
            ``{data name: {metric name: [score of every round]}}``.
        """
        return False


_METHODS = ("before_training", "after_training", "before_iteration", "after_iteration")


class CallbackContainer:
    """Runs a list of callbacks, evaluates after each round, and keeps the history.

    Parameters
    ----------
    callbacks :
        The callbacks, called in this order; the first that returns True ends the round's calls.
    metric :
        A custom metric: (predictions, DMatrix) -> (name, value) or a list of these.
    output_margin :
        Whether the custom metric sees margins instead of predictions.
    is_cv :
        Whether the model is the pack of `cv`.
    """

    def __init__(
        self,
        callbacks: Sequence[TrainingCallback],
        metric: Callable | None = None,
        output_margin: bool = True,
        is_cv: bool = False,
    ) -> None:
        for callback in callbacks:
            _check_callback(callback)
        if metric is not None and not callable(metric):
            raise TypeError(
                f"metric must be callable, got {metric!r}; names of metrics go into the parameter `eval_metric`."
            )
        self.callbacks = list(dict.fromkeys(callbacks))
        self.metric = metric
        self.history: EvalsLog = {}
        self.order: list[tuple[str, str]] = []  # (data, metric) as first evaluated
        self.is_cv = is_cv
        self.aggregated_cv: list[tuple[str, float, float]] | None = None
        self._output_margin = output_margin

    def before_training(self, model: Any) -> Any:
        """Call every callback's `before_training`; returns the model."""
        for callback in self.callbacks:
            model = _same_kind(model, callback.before_training(model=model), "before_training")
        return model

    def after_training(self, model: Any) -> Any:
        """Call every callback's `after_training`; returns the model."""
        for callback in self.callbacks:
            model = _same_kind(model, callback.after_training(model=model), "after_training")
        return model

    def before_iteration(self, model: Any, epoch: int, dtrain: Any, evals: list[tuple[Any, str]] | None) -> bool:
        """Call the callbacks before a round; True when training should stop."""
        return _anywhere(any(callback.before_iteration(model, epoch, self.history) for callback in self.callbacks))

    def after_iteration(self, model: Any, epoch: int, dtrain: Any, evals: list[tuple[Any, str]] | None) -> bool:
        """Evaluate, then call the callbacks after a round; True when training should stop."""
        if self.is_cv:
            scores = _mean_and_std(model.eval(epoch, self.metric, self._output_margin))
            self.aggregated_cv = [(f"{data}-{metric}", *score) for data, metric, score in scores]
            self._update_history(scores)
        elif evals:
            self._update_history(model._eval(evals, epoch, self.metric, self._output_margin))
        return _anywhere(any(callback.after_iteration(model, epoch, self.history) for callback in self.callbacks))

    def _update_history(self, scores: Sequence[tuple[str, str, Any]]) -> None:
        if not self.order:
            _warn_of_repeated([f"{data}-{metric}" for data, metric, _ in scores])
        for data, metric, score in scores:
            metrics = self.history.setdefault(data, {})
            if metric not in metrics:
                metrics[metric] = []
                self.order.append((data, metric))
            metrics[metric].append(score)


def _anywhere(stop: bool) -> bool:
    """Whether a callback of any worker wants to stop: they stop together, or would wait for each other."""
    group = comm.current()
    return stop if group.world_size == 1 else bool(group.allreduce_max(np.array([stop], np.int64))[0])


def _warn_of_repeated(names: list[str]) -> None:
    """Two evaluations under one name are legal, as in XGBoost, and hardly ever meant."""
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        settings.warn(
            f"Evaluated more than once under one name: {', '.join(repeated)}. Their scores share one list of "
            "`evals_result`, and early stopping looks at the last of them. Give every entry of `evals`, and a custom "
            "metric, a name of its own."
        )


def _check_callback(callback: Any) -> None:
    """Whatever has the methods will do: tools bring callbacks that are made for XGBoost's class."""
    missing = [name for name in _METHODS if not callable(getattr(callback, name, None))]
    if missing or isinstance(callback, type):
        what = "a class, not an object of it" if isinstance(callback, type) else f"it has no `{missing[0]}`"
        raise TypeError(
            f"callback must be an instance of `TrainingCallback`, or have its methods: {callback!r} ({what})."
        )


def _same_kind(model: Any, returned: Any, method: str) -> Any:
    if not isinstance(returned, type(model)):
        raise TypeError(f"{method} should return the model, got {returned!r}.")
    return returned


def _mean_and_std(folds: Sequence[Sequence[tuple[str, str, float]]]) -> list[tuple[str, str, tuple[float, float]]]:
    """(data, metric, (mean, standard deviation)) over folds that all report the same metrics in the same order."""
    results = []
    for scores in zip(*folds, strict=True):
        values = [value for _, _, value in scores]
        results.append((scores[0][0], scores[0][1], (float(np.mean(values)), float(np.std(values)))))
    return results


class LearningRateScheduler(TrainingCallback):
    """Changes the learning rate as training goes on.

    Parameters
    ----------
    learning_rates :
        A function of the round, or a sequence with one entry per round. As in XGBoost the entry of a round is set
        after it and therefore first used in the next one; set the first round's with the parameter `eta`.
    """

    def __init__(self, learning_rates: Callable[[int], float] | Sequence[float]) -> None:
        super().__init__()
        if callable(learning_rates):
            self.learning_rates = learning_rates
        elif isinstance(learning_rates, Sequence):
            self.learning_rates = learning_rates.__getitem__
        else:
            raise TypeError(f"Invalid learning rates, expecting callable or sequence, got: {type(learning_rates)}")

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        model.set_param("learning_rate", self.learning_rates(epoch))
        return False


# A larger score is better for metrics whose names begin so ("map" but not "mape").
_MAXIMIZED = ("auc", "pre", "map", "ndcg")


class EarlyStopping(TrainingCallback):
    """Ends training when a score has not improved for some rounds.

    The best round and its score become the booster's attributes `best_iteration` and `best_score`. State begins anew
    with every training run.

    Parameters
    ----------
    rounds :
        Rounds without improvement after which training ends.
    metric_name :
        Metric to watch; the last one by default.
    data_name :
        Evaluation set to watch; the last one by default.
    maximize :
        Whether a larger score is better; None decides by the metric's name.
    save_best :
        Return the model cut after its best round instead of the whole one. Not for `cv`, which returns no model.
    min_delta :
        A score must be better than the best by more than this to count as an improvement.

    Examples
    --------
    >>> from arboost.callback import EarlyStopping
    >>> stop = EarlyStopping(rounds=10, metric_name="rmse", data_name="valid", save_best=True)
    """

    @positional_with_warning
    def __init__(
        self,
        *,
        rounds: int,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool | None = False,
        min_delta: float = 0.0,
    ) -> None:
        super().__init__()
        if min_delta < 0:
            raise ValueError(f"min_delta must be greater or equal to 0, got {min_delta}.")
        self.rounds = whole_number("rounds of EarlyStopping", rounds, lower=0)
        self.metric_name = metric_name
        self.data = data_name
        self.maximize = maximize
        self.save_best = save_best
        self._min_delta = min_delta
        self._begin(0)

    def _begin(self, starting_round: int) -> None:
        """State of a run that has seen no score; rounds are counted from those the model already has."""
        self.starting_round = starting_round
        self.current_rounds = 0
        self.stopping_history: EvalsLog = {}
        self.best_scores: EvalsLog = {}

    def before_training(self, model: Any) -> Any:
        if self.save_best and hasattr(model, "cvfolds"):
            raise ValueError("`save_best` is not applicable to the `cv` function as it doesn't return a model.")
        self._begin(model.num_boosted_rounds())
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log:
            raise ValueError("Must have at least 1 validation dataset for early stopping.")
        data = self.data or next(reversed(evals_log))
        if data not in evals_log:
            raise ValueError(f"No dataset named: {data}, there are: {', '.join(evals_log)}.")
        metric = self.metric_name or next(reversed(evals_log[data]))
        if metric not in evals_log[data]:
            raise ValueError(f"No metric named: {metric}, there are: {', '.join(evals_log[data])}.")
        score = evals_log[data][metric][-1]
        history = self.stopping_history.setdefault(data, {}).setdefault(metric, [])
        best = self.best_scores.setdefault(data, {}).setdefault(metric, [])
        history.append(score)
        if not best or self._improves(_value(score), _value(best[-1]), metric):
            best.append(score)
            self.current_rounds = 0
            model.set_attr(best_score=str(_value(score)), best_iteration=str(self.starting_round + epoch))
        else:
            self.current_rounds += 1
        return self.current_rounds >= self.rounds

    def _improves(self, new: float, best: float, metric: str) -> bool:
        maximize = self.maximize
        if maximize is None:
            maximize = metric != "mape" and metric.startswith(_MAXIMIZED)
        return new - self._min_delta > best if maximize else best - self._min_delta > new

    def after_training(self, model: Any) -> Any:
        if not self.save_best or not self.best_scores:
            return model
        iteration, score = model.best_iteration, model.best_score
        try:
            model = model[: iteration + 1]
        except XGBoostError as error:
            raise XGBoostError("`save_best` is not applicable to the current booster.") from error
        model.set_attr(best_score=str(score), best_iteration=str(iteration))
        return model


def _value(score: Score) -> float:
    """The score itself, or the mean in `cv`."""
    return float(score[0] if isinstance(score, tuple) else score)


def _log(message: str) -> None:
    """Print unless verbosity is 0."""
    if settings.current().verbosity > 0:
        print(message, end="", flush=True)


class EvaluationMonitor(TrainingCallback):
    """Prints the scores of the evaluation sets, which are those of all workers together.

    Parameters
    ----------
    rank :
        The worker that prints, in distributed training.
    period :
        Rounds between two lines; the last round is always printed.
    show_stdv :
        Whether `cv`'s standard deviations are shown.
    logger :
        Called with every line, its newline included; prints to stdout by default, and nothing at verbosity 0.
    """

    def __init__(
        self,
        rank: int = 0,
        period: int = 1,
        show_stdv: bool = False,
        logger: Callable[[str], None] = _log,
    ) -> None:
        super().__init__()
        period = whole_number("verbose_eval, the period of EvaluationMonitor,", period)
        if period <= 0:
            raise ValueError(f"period must be greater than 0, got {period}.")
        self.printer_rank = rank
        self.period = period
        self.show_stdv = show_stdv
        self._logger = logger
        self._latest: str | None = None

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log or self.printer_rank != comm.current().rank:
            return False
        line = f"[{epoch}]\t{_describe(evals_log, self.show_stdv)}\n"
        if epoch % self.period == 0:
            self._logger(line)
            self._latest = None
        else:
            self._latest = line
        return False

    def after_training(self, model: Any) -> Any:
        if self._latest is not None:
            self._logger(self._latest)
            self._latest = None
        return model


def _describe(evals_log: EvalsLog, show_std: bool) -> str:
    """The latest scores, 'train-rmse:0.12345\\ttest-rmse:0.23456'."""
    parts = []
    for data, metrics in evals_log.items():
        for metric, scores in metrics.items():
            std = f"+{scores[-1][1]:.5f}" if show_std and isinstance(scores[-1], tuple) else ""
            parts.append(f"{data}-{metric}:{_value(scores[-1]):.5f}{std}")
    return "\t".join(parts)


class TrainingCheckPoint(TrainingCallback):
    """Saves the model every few rounds, so that a long training can be taken up again with `xgb_model=`.

    Files are named ``{name}_{round}.ubj`` (``.pkl``). Each is complete or absent, also after a crash. Of several
    workers, which all have the same model, the first saves it.

    Parameters
    ----------
    directory :
        An existing folder for the files.
    name :
        How their names begin.
    as_pickle :
        Pickle the booster, parameters included, instead of saving the model.
    interval :
        Rounds between two files.
    """

    default_format = "ubj"

    def __init__(
        self, directory: str | os.PathLike, name: str = "model", as_pickle: bool = False, interval: int = 100
    ) -> None:
        super().__init__()
        if interval < 1:
            raise ValueError(f"interval must be greater than 0, got {interval}.")
        self._folder = Path(directory)
        self._name = name
        self._as_pickle = as_pickle
        self._interval = interval
        self._start = 0

    def before_training(self, model: Any) -> Any:
        if hasattr(model, "cvfolds"):
            raise ValueError(
                "`TrainingCheckPoint` is not applicable to the `cv` function as it doesn't return a model."
            )
        self._start = model.num_boosted_rounds()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if epoch > 0 and epoch % self._interval == 0 and comm.current().rank == 0:
            suffix = "pkl" if self._as_pickle else self.default_format
            self._save(model, self._folder / f"{self._name}_{self._start + epoch}.{suffix}")
        return False

    def _save(self, model: Any, path: Path) -> None:
        """Write beside the final name, then rename: a reader never meets half a file."""
        if not self._as_pickle:
            model.save_model(path)
            return
        with draft_of(path) as draft:
            Path(draft).write_bytes(pickle.dumps(model))


class ProgressBar(TrainingCallback):
    """Shows how far training is: a bar in a notebook or on a terminal, a plain line now and then elsewhere.

    At verbosity 0 it shows nothing. On a terminal rich adds colour, where it is installed.

    Parameters
    ----------
    total :
        Rounds to expect; `train` and `cv` fill it in when it is None.
    stream :
        Where to write plain text; by default the bar goes below a notebook's cell or to stderr, never to stdout.
    interval :
        Least number of seconds between two frames.

    Examples
    --------
    >>> import arboost
    >>> from arboost.callback import ProgressBar
    >>> callbacks = [ProgressBar()]  # for arboost.train(..., callbacks=callbacks, verbose_eval=False)
    """

    def __init__(self, total: int | None = None, *, stream: TextIO | None = None, interval: float = 0.1) -> None:
        super().__init__()
        self.total = total
        self._stream = stream
        self._interval = interval
        self._begin(total)

    def _begin(self, total: int | None) -> None:
        self._expected = total
        self._n_rounds = 0
        self._scores = ""
        self._started = self._drawn = time.perf_counter()
        self._surface: Surface | None = None

    def expect(self, total: int) -> None:
        """Told by `train` and `cv` how many rounds there will be at most; the user's own `total` comes first."""
        self._expected = total if self.total is None else self.total

    def before_training(self, model: Any) -> Any:
        self._begin(self._expected)
        if settings.current().verbosity > 0 and comm.current().rank == 0:
            self._surface = make_surface(self._stream)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        self._n_rounds = epoch + 1
        self._scores = _describe(evals_log, show_std=True).replace("\t", "  ")
        surface, now = self._surface, time.perf_counter()
        if surface is not None and self._is_due(surface, now):
            self._drawn = now
            surface.show(self._progress(now))
        return False

    def after_training(self, model: Any) -> Any:
        if self._surface is not None and self._n_rounds:
            self._surface.finish(self._progress(time.perf_counter()))
        self._surface = None
        return model

    def _is_due(self, surface: Surface, now: float) -> bool:
        """A frame that replaces another: by the clock. A line of its own: every tenth of all rounds but the last."""
        if surface.renews:
            return now - self._drawn >= self._interval
        step = max(1, -(-self._expected // 10)) if self._expected else 10
        return self._n_rounds % step == 0 and self._n_rounds != self._expected

    def _progress(self, now: float) -> Progress:
        return Progress(self._n_rounds, self._expected, self._scores, now - self._started)
