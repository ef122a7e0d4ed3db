"""Learning curves: the scores that training recorded, or, where none are at hand, those of the given data."""

from typing import Any

import numpy as np

from arboost.plotting import read_curves
from arboost.report.numbers import rounded_list, thinned
from arboost.report.subject import Subject
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError

_MAX_POINTS = 400
_STEPS = 60  # rounds at which the data is scored
_WORK = 3e8  # rows times trees up to which this is done


def learning_charts(subject: Subject, evals_result: Any) -> list[dict[str, Any]]:
    """A chart for every metric."""
    history = evals_result
    if history is None and callable(getattr(subject.estimator, "evals_result", None)):
        history = getattr(subject.estimator, "evals_result_", None)
    if history is not None and len(history):
        return _recorded(subject, history)
    return _measured(subject)


def _recorded(subject: Subject, history: Any) -> list[dict[str, Any]]:
    best = subject.whole.attr("best_iteration")
    charts = []
    for metric, curves in read_curves(history).items():
        series = []
        for curve in curves:
            kept = thinned(len(curve.scores), _MAX_POINTS)
            one: dict[str, Any] = {"name": curve.data, "x": kept.tolist(), "y": rounded_list(curve.scores[kept], 7)}
            if curve.spread is not None:
                one["low"] = rounded_list((curve.scores - curve.spread)[kept])
                one["high"] = rounded_list((curve.scores + curve.spread)[kept])
            series.append(one)
        chart = {"type": "line", "title": metric, "x": {"label": "round", "whole": True}, "y": {"label": metric}}
        charts.append({**chart, "series": series, "mark": None if best is None else int(best)})
    return charts


def _measured(subject: Subject) -> list[dict[str, Any]]:
    """The model's own metrics on the data, with more and more of its rounds."""
    data, learner = subject.data, subject.booster._learner
    n_rounds = subject.booster.num_boosted_rounds()
    if data is None or subject.is_linear or n_rounds < 2 or data.num_row() * n_rounds > _WORK:
        return []
    ends = thinned(n_rounds, _STEPS) + 1
    margin = learner.start_margin(data.num_row(), data.info.base_margin)
    scores: dict[str, list[float]] = {metric.name: [] for metric in learner.metrics}
    begin = 0
    try:
        with settings.changed(verbosity=0):
            for end in ends.tolist():
                learner.add_trees(data, margin, learner.forest(), learner.model.trees_of(begin, end))
                begin = end
                prediction = learner.loss.eval_transform(margin.copy(), learner.ctx)
                for metric in learner.metrics:
                    scores[metric.name].append(metric.evaluate_info(learner.ctx, prediction, data.info))
    except XGBoostError:  # no labels, or labels that the metric does not take
        return []
    x = (ends - 1 + subject.rounds[0]).tolist()
    return [
        {
            "type": "line",
            "title": name,
            "x": {"label": "round", "whole": True},
            "y": {"label": name},
            "note": "Scored on the data of this report, after training.",
            "series": [{"name": "this data", "x": x, "y": rounded_list(np.array(values), 7)}],
        }
        for name, values in scores.items()
    ]
