"""Charts of models that predict numbers: predicted and actual, residuals, calibration, coverage of quantiles."""

import math
from typing import Any

import numpy as np
import scipy.integrate
import scipy.special

from arboost.report.classification import calibration
from arboost.report.numbers import rounded, rounded_list, thinned
from arboost.report.subject import Subject

_POINTS = 1500  # of a scatter plot
_MAX_VIEWS = 12  # targets


def regression_views(subject: Subject) -> list[dict[str, Any]]:
    """A view for each target."""
    label = subject.label()
    assert label is not None
    prediction = subject.prediction
    if label.shape[1] != prediction.shape[1]:  # such as several expectiles of one label
        label = np.repeat(label[:, :1], prediction.shape[1], axis=1)
    return [
        {"name": name, "charts": _charts(subject, label[:, k], prediction[:, k])}
        for k, name in enumerate(subject.output_names()[:_MAX_VIEWS])
    ]


def _charts(subject: Subject, label: np.ndarray, prediction: np.ndarray) -> list[dict[str, Any]]:
    is_known = ~np.isnan(label)
    actual, found = label[is_known].astype(np.float64), prediction[is_known].astype(np.float64)
    rows, weight = np.flatnonzero(is_known), subject.weight[is_known]
    if not len(rows):
        return []
    charts = [_scatter(subject, rows, actual, found), _residuals(subject, rows, actual, found)]
    return [*charts, _residual_histogram(actual - found, weight), calibration(actual, found, weight, "value")]


def _shown(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """Positions in `rows` of those that are drawn."""
    kept = np.flatnonzero(np.isin(rows, subject.sample))
    return kept[thinned(len(kept), _POINTS)]


def _scatter(subject: Subject, rows: np.ndarray, actual: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    kept = _shown(subject, rows)
    low, high = float(min(actual[kept].min(), found[kept].min())), float(max(actual[kept].max(), found[kept].max()))
    return {
        "type": "points",
        "title": "Predicted and actual",
        "x": {"label": "predicted"},
        "y": {"label": "actual"},
        "ids": rows[kept].tolist(),
        "series": [{"name": "rows", "x": rounded_list(found[kept]), "y": rounded_list(actual[kept])}],
        "refs": [{"name": "ideal", "x": rounded_list([low, high]), "y": rounded_list([low, high])}],
        "note": _sample_note(len(kept), len(rows)),
    }


def _residuals(subject: Subject, rows: np.ndarray, actual: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    kept = _shown(subject, rows)
    x, y = found[kept], (actual - found)[kept]
    return {
        "type": "points",
        "title": "Residuals",
        "x": {"label": "predicted"},
        "y": {"label": "actual - predicted"},
        "ids": rows[kept].tolist(),
        "series": [{"name": "rows", "x": rounded_list(x), "y": rounded_list(y)}],
        "refs": [{"name": "no error", "x": rounded_list([x.min(), x.max()]), "y": [0, 0]}],
        "note": _sample_note(len(kept), len(rows)),
    }


def _sample_note(shown: int, total: int) -> str:
    return "" if shown == total else f"A sample of {shown:,} of {total:,} rows."


def _residual_histogram(residual: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    low, high = np.percentile(residual, (0.5, 99.5))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(residual, low, high), 41, (low, high), weights=weight)
    mean = float(np.average(residual, weights=weight)) if weight.sum() else math.nan
    return {
        "type": "histogram",
        "title": "Distribution of residuals",
        "x": {"label": "actual - predicted"},
        "y": {"label": "share of rows", "percent": True},
        "edges": rounded_list(edges),
        "series": [{"name": "rows", "y": rounded_list(counts / max(counts.sum(), 1e-300), 4)}],
        "note": f"Mean {mean:.4g}. The outermost half percent on each side is in the last columns.",
    }


# ---- counts and amounts ----


def count_views(subject: Subject) -> list[dict[str, Any]]:
    """Calibration, how well rows are ordered, the distribution of counts, and residuals."""
    label = subject.label()
    assert label is not None
    if label.shape[1] > 1:
        return regression_views(subject)
    actual, found, weight = label[:, 0].astype(np.float64), subject.prediction[:, 0].astype(np.float64), subject.weight
    charts = [calibration(actual, found, weight, "value")]
    if actual.sum() > 0:
        charts.append(_lorenz(actual, found, weight))
    if subject.objective == "count:poisson":
        charts.append(_rootogram(actual, found, weight))
    rows = np.arange(len(actual))
    return [{"name": "", "charts": [*charts, _residuals(subject, rows, actual, found)]}]


def _lorenz(actual: np.ndarray, found: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Share of the total that falls to the rows with the smallest predictions."""

    def curve(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.concatenate([[0.0], np.cumsum(weight[order])])
        y = np.concatenate([[0.0], np.cumsum((weight * actual)[order])])
        return x / x[-1], y / y[-1]

    series = []
    for name, key in (("model", found), ("perfect order", actual)):
        x, y = curve(np.argsort(key, kind="stable"))
        kept = thinned(len(x), 160)
        series.append({"name": name, "x": rounded_list(x[kept], 4), "y": rounded_list(y[kept], 4)})
        if name == "model":
            gini = 1.0 - 2.0 * float(scipy.integrate.trapezoid(y, x))
    return {
        "type": "line",
        "title": "Lorenz curve",
        "x": {"label": "share of rows, smallest prediction first", "domain": [0, 1]},
        "y": {"label": "share of the total", "domain": [0, 1]},
        "series": series,
        "refs": [{"name": "no order", "x": [0, 1], "y": [0, 1]}],
        "note": f"Gini index of the model: {gini:.4f}.",
    }


def _rootogram(actual: np.ndarray, found: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Rows with 0, 1, 2, ... events, and how many the predicted rates let one expect."""
    top = int(min(actual.max(), 12))
    rates = np.maximum(found, 1e-300)
    counts = np.arange(top + 1)
    logs = [n * np.log(rates) - rates - scipy.special.gammaln(n + 1) for n in counts]
    expected = [float((weight * np.exp(log)).sum()) for log in logs]
    observed = [float(weight[actual == n].sum()) for n in counts]
    return {
        "type": "columns",
        "title": "Observed and expected counts",
        "x": {"label": "count"},
        "y": {"label": "rows (root scale)", "root": True},
        "names": [str(n) for n in counts],
        "series": [
            {"name": "observed", "y": rounded_list(observed, 7)},
            {"name": "expected (Poisson)", "y": rounded_list(expected, 7)},
        ],
    }


# ---- quantiles ----


def quantile_views(subject: Subject) -> list[dict[str, Any]]:
    """Coverage of every quantile, a fan of quantiles over the rows, and residuals of each."""
    label = subject.label()
    assert label is not None
    alphas = np.array(subject.booster._learner.resolved.learner.quantile_alpha, np.float64)
    actual, found, weight = label[:, 0].astype(np.float64), subject.prediction.astype(np.float64), subject.weight
    if label.shape[1] > 1 or found.shape[1] != len(alphas):
        return regression_views(subject)
    covered = [float(np.average(actual <= found[:, k], weights=weight)) for k in range(len(alphas))]
    coverage = {
        "type": "line",
        "title": "Coverage",
        "x": {"label": "quantile asked for", "domain": [0, 1]},
        "y": {"label": "share of labels below", "domain": [0, 1]},
        "series": [{"name": "model", "x": rounded_list(alphas), "y": rounded_list(covered, 6), "dots": True}],
        "refs": [{"name": "ideal", "x": [0, 1], "y": [0, 1]}],
    }
    charts = [coverage, *([_fan(subject, alphas, actual, found)] if len(alphas) > 1 else [])]
    views = [{"name": "all quantiles", "charts": charts}]
    return (
        views + regression_views(subject)
        if len(alphas) > 1
        else [{"name": "", "charts": [coverage, *regression_views(subject)[0]["charts"][:3]]}]
    )


def _fan(subject: Subject, alphas: np.ndarray, actual: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    """Quantiles of some rows in the order of the middle one, with their labels."""
    rows = subject.sample[thinned(len(subject.sample), 200)]
    middle = int(np.argmin(abs(alphas - 0.5)))
    rows = rows[np.argsort(found[rows, middle], kind="stable")]
    x = list(range(len(rows)))
    low, high = int(alphas.argmin()), int(alphas.argmax())
    band = {"low": rounded_list(found[rows, low]), "high": rounded_list(found[rows, high])}
    name = f"quantile {alphas[middle]:g}, band {alphas[low]:g} to {alphas[high]:g}"
    return {
        "type": "line",
        "title": "Quantiles and labels",
        "x": {"label": "rows by prediction"},
        "y": {"label": "label"},
        "series": [
            {"name": name, "x": x, "y": rounded_list(found[rows, middle]), **band},
            {"name": "label", "x": x, "y": rounded_list(actual[rows]), "only_dots": True},
        ],
        "note": f"{len(rows):,} rows.",
    }


def prediction_views(subject: Subject) -> list[dict[str, Any]]:
    """Without labels: how predictions are distributed."""
    views = []
    for k, name in enumerate(subject.output_names()[:_MAX_VIEWS]):
        found = subject.prediction[:, k].astype(np.float64)
        counts, edges = np.histogram(found[np.isfinite(found)], 40)
        chart = {
            "type": "histogram",
            "title": "Distribution of predictions",
            "x": {"label": "prediction"},
            "y": {"label": "rows"},
            "edges": rounded_list(edges),
            "series": [{"name": "rows", "y": [int(n) for n in counts]}],
            "note": "The data has no labels, so there is nothing to compare with.",
        }
        views.append({"name": name, "charts": [chart | {"mean": rounded(float(found.mean()))}]})
    return views
