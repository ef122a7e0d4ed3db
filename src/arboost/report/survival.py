"""Charts of survival models: Kaplan-Meier curves by predicted risk, predicted and observed times."""

from typing import Any

import numpy as np

from arboost.matrix.meta import MetaInfo
from arboost.report.explain import sample_matrix
from arboost.report.numbers import rounded_list, thinned
from arboost.report.subject import Subject
from arboost.survival import baseline_hazard, predict_survival_function

_RISKS = ("lowest risk", "low risk", "high risk", "highest risk")
_POINTS = 1200
_CURVES = 500  # rows whose survival curves are averaged


def signed_times(info: MetaInfo, is_cox: bool) -> np.ndarray | None:
    """Times, negative where the event was not seen: a Cox model's labels, or lower bounds; None without labels."""
    if is_cox:
        return info.label
    low, high = info.label_lower_bound, info.label_upper_bound
    if low is None or high is None:
        return None
    # an interval with an end: its event is placed there
    return np.where(np.isfinite(high), high, -np.maximum(low, np.finfo(np.float32).tiny))


def survival_views(subject: Subject) -> list[dict[str, Any]]:
    """One view."""
    times = signed_times(subject.info, subject.kind == "cox")
    if times is None:
        return []
    margin = subject.margin[:, 0].astype(np.float64)
    risk = margin if subject.kind == "cox" else -margin
    charts = [_kaplan_meier(times, risk, subject.weight), _risk_histogram(subject, times, margin)]
    charts.append(_mean_survival(subject, times))
    if subject.kind == "aft":
        charts.insert(1, _times_chart(subject, times, np.exp(margin)))
    return [{"name": "", "charts": charts}]


def _kaplan_meier(times: np.ndarray, risk: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """The share that survives, in four groups of rows by predicted risk."""
    edges = np.quantile(risk, (0.25, 0.5, 0.75))
    group = np.searchsorted(edges, risk, side="left")
    series = []
    for g, name in enumerate(_RISKS):
        chosen = group == g
        if chosen.any():
            x, y = _survival_curve(times[chosen], weight[chosen])
            kept = thinned(len(x), 200)
            series.append({"name": name, "x": rounded_list(x[kept]), "y": rounded_list(y[kept], 4), "step": True})
    return {
        "type": "line",
        "title": "Survival by predicted risk",
        "x": {"label": "time"},
        "y": {"label": "share surviving", "domain": [0, 1]},
        "series": series,
        "note": "Kaplan-Meier curves of the observed times, in quarters of the rows by predicted risk.",
    }


def _survival_curve(times: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kaplan and Meier's estimate at every time, from (0, 1) on."""
    order = np.argsort(abs(times), kind="stable")
    moments, first = np.unique(abs(times[order]), return_index=True)
    at_risk = np.cumsum(weight[order][::-1])[::-1][first]
    events = np.add.reduceat(np.where(times[order] > 0, weight[order], 0.0), first)
    share = np.cumprod(1.0 - events / np.maximum(at_risk, np.finfo(float).tiny))
    return np.concatenate([[0.0], moments]), np.concatenate([[1.0], share])


def _mean_survival(subject: Subject, times: np.ndarray) -> dict[str, Any]:
    """The mean of the predicted survival curves of some rows, beside what was observed on all."""
    assert subject.data is not None
    x, y = _survival_curve(times, subject.weight)
    grid = np.linspace(0.0, float(x[-1]), 60)[1:]
    baseline = baseline_hazard(subject.nameless, subject.data) if subject.kind == "cox" else None
    rows = sample_matrix(subject, thinned(len(subject.sample), _CURVES))
    predicted = predict_survival_function(subject.nameless, rows, grid, baseline=baseline)
    kept = thinned(len(x), 200)
    observed = {
        "name": "observed (Kaplan-Meier)",
        "x": rounded_list(x[kept]),
        "y": rounded_list(y[kept], 4),
        "step": True,
    }
    mean = [1.0, *predicted.mean(axis=0).tolist()]
    return {
        "type": "line",
        "title": "Calibration: survival of all rows",
        "x": {"label": "time"},
        "y": {"label": "share surviving", "domain": [0, 1]},
        "series": [{"name": "predicted", "x": rounded_list([0.0, *grid]), "y": rounded_list(mean, 4)}, observed],
        "note": "The baseline hazard is that of this data." if baseline is not None else "",
    }


def _risk_histogram(subject: Subject, times: np.ndarray, margin: np.ndarray) -> dict[str, Any]:
    edges = np.histogram_bin_edges(margin, 36)
    series = []
    for name, chosen in (("censored", times <= 0), ("event", times > 0)):
        counts = np.histogram(margin[chosen], edges, weights=subject.weight[chosen])[0]
        series.append({"name": name, "y": rounded_list(counts)})
    return {
        "type": "histogram",
        "title": "Log hazard ratio" if subject.kind == "cox" else "Logarithm of the predicted time",
        "x": {"label": "margin"},
        "y": {"label": "rows"},
        "edges": rounded_list(edges),
        "series": series,
    }


def _times_chart(subject: Subject, times: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    rows = subject.sample[thinned(len(subject.sample), _POINTS)]
    series = []
    for name, chosen in (("censored (time so far)", times[rows] <= 0), ("event", times[rows] > 0)):
        x, y = predicted[rows][chosen], abs(times[rows][chosen])
        series.append({"name": name, "x": rounded_list(x), "y": rounded_list(y)})
    values = np.concatenate([predicted[rows], abs(times[rows])])
    values = values[(values > 0) & np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    return {
        "type": "points",
        "title": "Predicted and observed times",
        "x": {"label": "predicted time", "log": True},
        "y": {"label": "observed time", "log": True},
        "series": series,
        "refs": [{"name": "ideal", "x": rounded_list([low, high]), "y": rounded_list([low, high])}],
        "note": f"{len(rows):,} rows. Censored times are lower bounds: they may lie below the line.",
    }
