"""What survival models say beyond one number a row: the baseline hazard and survival curves.

bst = arboost.train({"objective": "survival:cox"}, dtrain)
baseline = survival.baseline_hazard(bst, dtrain)
curves = survival.predict_survival_function(bst, dtest, times=[30, 365], baseline=baseline)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.kernels.ops import survival
from arboost.losses.survival import AcceleratedFailureTime, Cox
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.errors import XGBoostError

_GRAIN = 1024  # rows below which a second thread does not pay

__all__ = ["BaselineHazard", "baseline_hazard", "concordance_index", "predict_survival_function"]


@dataclass(frozen=True)
class BaselineHazard:
    """The cumulative hazard of a row whose hazard ratio is 1: a step function.

    Attributes
    ----------
    times
        (n,) float64: the distinct times of events, rising.
    cumulative
        (n,) float64: the cumulative hazard from each of these times on; 0 before the first.
    """

    times: np.ndarray
    cumulative: np.ndarray

    def at(self, times: Any) -> np.ndarray:
        """The cumulative hazard at any times."""
        steps = np.concatenate([[0.0], self.cumulative])
        return steps[np.searchsorted(self.times, np.asarray(times, np.float64), side="right")]


def baseline_hazard(booster: Booster, dtrain: DMatrix, *, iteration_range: tuple[int, int] = (0, 0)) -> BaselineHazard:
    """Breslow's estimate of the cumulative baseline hazard of a "survival:cox" model.

    Parameters
    ----------
    booster :
        The trained model.
    dtrain :
        Rows with labels as for training, usually the training data; weights count as numbers of rows.
    iteration_range :
        Rounds to use, as in `Booster.predict`.
    """
    loss = booster._learner.loss
    if not isinstance(loss, Cox):
        raise XGBoostError(f"The baseline hazard belongs to survival:cox; this model's objective is {loss.name}.")
    loss.check_info(dtrain.info)
    label, weight = dtrain.info.label, dtrain.info.row_weight()
    assert label is not None
    hazard = booster.predict(dtrain, iteration_range=iteration_range).astype(np.float64)
    rows, by_time, first = survival.time_order(label)
    w = np.ones(len(rows)) if weight is None else weight[rows].astype(np.float64)
    at_risk = survival.sums_at_risk(first, w * hazard[rows])
    cumulative = np.cumsum(np.where(by_time > 0, w, 0.0) / at_risk)
    has_event = (by_time > 0) & (w > 0)
    last = np.flatnonzero(has_event)
    times = by_time[last].astype(np.float64)
    is_end = np.append(times[1:] != times[:-1], True)[: len(times)]  # of the events at one time
    return BaselineHazard(times[is_end], cumulative[last[is_end]])


def predict_survival_function(
    booster: Booster,
    data: Any,
    times: Any,
    *,
    baseline: BaselineHazard | None = None,
    iteration_range: tuple[int, int] = (0, 0),
) -> np.ndarray:
    """The probability that the event comes later than each time, for every row.

    Parameters
    ----------
    booster :
        A model with the objective "survival:cox" or "survival:aft".
    data :
        A DMatrix, or what `Booster.inplace_predict` takes.
    times :
        One or more times, none negative, in any order.
    baseline :
        Of `baseline_hazard`; needed for "survival:cox", not read for "survival:aft".
    iteration_range :
        Rounds to use, as in `Booster.predict`.

    Returns
    -------
    numpy.ndarray
        (n_rows, n_times) float32, between 0 and 1, falling with time.
    """
    points = np.atleast_1d(np.asarray(times, np.float64))
    if points.ndim != 1 or not (points >= 0).all():
        raise XGBoostError("times must be a vector of numbers that are not negative (and not NaN).")
    learner = booster._learner
    loss, ctx = learner.loss, learner.ctx
    if not isinstance(loss, Cox | AcceleratedFailureTime):
        raise XGBoostError(
            f"A survival function needs the objective survival:cox or survival:aft; this model's is {loss.name}."
        )
    if isinstance(loss, Cox) and baseline is None:
        raise XGBoostError("survival:cox leaves the baseline open: pass baseline=baseline_hazard(booster, dtrain).")
    margin = _margins(booster, data, iteration_range)
    out = np.empty((len(margin), len(points)), np.float32)
    if isinstance(loss, AcceleratedFailureTime):
        with np.errstate(divide="ignore"):
            log_times = np.log(points)
        kind = survival.DISTRIBUTIONS[loss.aft_loss_distribution]
        args = (margin, log_times, kind, loss.aft_loss_distribution_scale, out)
        ctx.run_ranges(len(margin), _GRAIN, survival.aft_survival, *args)
    else:
        assert baseline is not None
        ctx.run_ranges(len(margin), _GRAIN, survival.cox_survival, margin, baseline.at(points), out)
    return out


def _margins(booster: Booster, data: Any, iteration_range: tuple[int, int]) -> np.ndarray:
    """(n,) float32 margins of a matrix or of raw data."""
    if isinstance(data, DMatrix):
        margin = booster.predict(data, output_margin=True, iteration_range=iteration_range)
    else:
        margin = booster.inplace_predict(data, predict_type="margin", iteration_range=iteration_range)
    return np.ascontiguousarray(margin, np.float32).reshape(-1)


def concordance_index(label: Any, prediction: Any) -> float:
    """Harrell's C: how often the row with the larger predicted risk has the earlier event.

    Parameters
    ----------
    label :
        Times, negative where censored, as for "survival:cox".
    prediction :
        Risks, such as predictions of "survival:cox"; for "survival:aft" pass the predicted times times -1.

    Returns
    -------
    float
        Over all pairs of an event and a row known to outlive it: the share whose risks are in the right order, equal
        risks counting half. 0.5 is chance, NaN means that there is no such pair.
    """
    label = np.array(label, np.float32).reshape(-1)
    risk = np.asarray(prediction, np.float64).reshape(-1)
    if len(label) != len(risk):
        raise XGBoostError(f"label and prediction size not match: {len(label)} and {len(risk)}.")
    if not (np.isfinite(label).all() and not np.isnan(risk).any()):
        raise XGBoostError("concordance_index needs finite labels and predictions that are not NaN.")
    rows, by_time, first = survival.time_order(label)
    levels, rank = np.unique(risk, return_inverse=True)
    tree = np.zeros(len(levels) + 1, np.int64)
    counts = np.zeros(3, np.int64)
    survival.count_pairs(by_time, first, (rank.reshape(-1)[rows] + 1).astype(np.int64), tree, counts, 0, len(label))
    concordant, tied, n_pairs = counts.tolist()
    return (concordant + 0.5 * tied) / n_pairs if n_pairs else float("nan")
