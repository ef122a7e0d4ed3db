"""How good the predictions are: a table of the engine's metrics, and charts that fit the kind of model."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from arboost.metrics import make_metric
from arboost.report import classification, ranking, regression, survival
from arboost.report.subject import Subject
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError
from arboost.survival import concordance_index

_METRICS = {
    "binary": ("logloss", "error", "auc", "aucpr"),
    "multiclass": ("mlogloss", "merror", "auc", "aucpr"),
    "regression": ("rmse", "mae"),
    "counts": ("rmse", "mae"),
    "quantile": (),
    "ranking": ("ndcg@1", "ndcg@5", "ndcg@10", "map", "pre@5"),
    "cox": (),
    "aft": ("interval-regression-accuracy",),
}
_MEANING = {
    "logloss": "mean negative log-likelihood", "error": "share of rows on the wrong side of the threshold",
    "auc": "area under the ROC curve", "aucpr": "area under the precision-recall curve",
    "mlogloss": "mean negative log-likelihood", "merror": "share of rows in the wrong class",
    "rmse": "root of the mean squared error", "mae": "mean absolute error", "mape": "mean relative error",
    "rmsle": "root of the mean squared error of logarithms", "quantile": "pinball loss",
    "poisson-nloglik": "negative log-likelihood of counts", "gamma-nloglik": "negative log-likelihood",
    "gamma-deviance": "deviance", "ndcg": "discounted gain of the order, 1 is perfect",
    "map": "mean average precision", "pre": "share of relevant rows at the top",
    "cox-nloglik": "negative partial log-likelihood", "aft-nloglik": "negative log-likelihood of survival times",
    "interval-regression-accuracy": "share of predicted times inside their interval",
    "concordance": "share of pairs in the right order, 0.5 is chance",
}  # fmt: skip
_CHARTS: dict[str, Callable[[Subject], list[dict[str, Any]]]] = {
    "binary": classification.binary_views,
    "multiclass": classification.multiclass_views,
    "regression": regression.regression_views,
    "counts": regression.count_views,
    "quantile": regression.quantile_views,
    "ranking": ranking.ranking_views,
    "cox": survival.survival_views,
    "aft": survival.survival_views,
}


def metric_table(subject: Subject) -> list[dict[str, Any]]:
    """{name, value, baseline, meaning, maximize} of every metric: the model's own first, then those of its kind.

    The baseline is the score of the intercept alone: the model without its trees.
    """
    if subject.data is None:
        return []
    learner, info = subject.booster._learner, subject.info
    start = learner.start_margin(info.n_rows, info.base_margin)
    baseline = learner.loss.eval_transform(start, learner.ctx)
    own = [metric.name for metric in learner.metrics]
    extra = (learner.loss.default_metric, *_METRICS[subject.kind])
    table = []
    for name in dict.fromkeys((*own, *extra)):
        values = [_score(subject, name, pred) for pred in (subject.prediction, baseline)]
        if values[0] is not None:
            table.append(
                {
                    "name": name,
                    "value": values[0],
                    "baseline": values[1],
                    "meaning": _MEANING.get(name.partition("@")[0].rstrip("-"), ""),
                    "maximize": make_metric(name, learner.resolved.learner).maximize,
                }
            )
    if subject.kind in ("cox", "aft"):
        table += _concordance(subject)
    return table


def _score(subject: Subject, name: str, prediction: np.ndarray) -> float | None:
    """A metric's value; None where labels are absent or of a kind that it does not take."""
    learner = subject.booster._learner
    try:
        with settings.changed(verbosity=0):
            metric = make_metric(name, learner.resolved.learner)
            value = metric.evaluate_info(learner.ctx, prediction, subject.info)
    except XGBoostError:
        return None
    return value if math.isfinite(value) else None


def _concordance(subject: Subject) -> list[dict[str, Any]]:
    times = survival.signed_times(subject.info, subject.kind == "cox")
    if times is None:
        return []
    risk = subject.margin[:, 0] if subject.kind == "cox" else -subject.margin[:, 0]
    value = concordance_index(times, risk)
    if math.isnan(value):
        return []
    row = {"name": "concordance", "value": value, "baseline": 0.5, "meaning": _MEANING["concordance"]}
    return [{**row, "maximize": True}]


def quality_views(subject: Subject) -> list[dict[str, Any]]:
    """{name, charts} of every view; one name means that there is nothing to choose."""
    if subject.data is None:
        return []
    if subject.label() is None and subject.kind != "aft":
        return regression.prediction_views(subject)
    return [view for view in _CHARTS[subject.kind](subject) if view["charts"]]
