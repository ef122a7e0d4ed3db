"""Charts of classifiers: ROC, precision and recall, calibration, scores by class, confusion.

Rows count by their weights, so areas under the curves drawn are the engine's `auc` and `aucpr`.
"""

from typing import Any

import numpy as np
import scipy.special

from arboost.report.numbers import rounded, rounded_list
from arboost.report.subject import Subject

_CURVE_POINTS = 240
_THRESHOLDS = 101
_MAX_VIEWS = 12  # labels of a multi-label model
_MAX_CURVES = 8  # classes with a ROC curve
_MAX_CLASSES = 30  # in a confusion matrix
_CALIBRATION_BINS = 10


def binary_views(subject: Subject) -> list[dict[str, Any]]:
    """One view, or one for each label of a multi-label model."""
    label = subject.label()
    assert label is not None
    names = subject.output_names()
    return [
        {"name": name, "charts": _binary_charts(subject, label[:, k], _scores(subject, k))}
        for k, name in enumerate(names[:_MAX_VIEWS])
    ]


def _scores(subject: Subject, k: int) -> np.ndarray:
    """Probability of the positive class; of a hinge model its decision, 0 or 1."""
    if subject.objective == "binary:logitraw":
        return scipy.special.expit(subject.margin[:, k].astype(np.float64))
    return subject.prediction[:, k].astype(np.float64)


def _binary_charts(subject: Subject, label: np.ndarray, score: np.ndarray) -> list[dict[str, Any]]:
    is_known = ~np.isnan(label)
    label, score, weight = label[is_known], score[is_known], subject.weight[is_known]
    positive = label > 0.5
    if not positive.any() or positive.all():
        return [_histogram_by_class(subject, positive, score, weight)]
    charts = [_roc([("model", *_roc_points(positive, score, weight))]), _precision_recall(positive, score, weight)]
    if subject.objective != "binary:hinge":
        charts += [calibration(positive.astype(np.float64), score, weight, "probability")]
        charts += [_histogram_by_class(subject, positive, score, weight)]
    threshold = _threshold(subject, positive, score, weight)
    return [*charts, threshold, *([] if subject.objective == "binary:hinge" else [_by_threshold(threshold)])]


def _cumulated(positive: np.ndarray, score: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight of positives and negatives at or above every distinct score, from the largest down."""
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits = np.cumsum(np.where(positive, weight, 0.0)[order])[ends]
    false_alarms = np.cumsum(np.where(positive, 0.0, weight)[order])[ends]
    return hits, false_alarms


def _roc_points(positive: np.ndarray, score: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hits, false_alarms = _cumulated(positive, score, weight)
    x = np.concatenate([[0.0], false_alarms / false_alarms[-1]])
    y = np.concatenate([[0.0], hits / hits[-1]])
    return x, y


def _along(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Points of a curve that are evenly spaced along it."""
    if len(x) <= _CURVE_POINTS:
        return np.arange(len(x))
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    wanted = np.linspace(0.0, length[-1], _CURVE_POINTS)
    return np.unique(np.minimum(np.searchsorted(length, wanted), len(x) - 1))


def _roc(curves: list[tuple[str, np.ndarray, np.ndarray]]) -> dict[str, Any]:
    series = []
    for name, x, y in curves:
        kept = _along(x, y)
        series.append({"name": name, "x": rounded_list(x[kept], 4), "y": rounded_list(y[kept], 4)})
    return {
        "type": "line",
        "title": "ROC curve",
        "x": {"label": "false positive rate", "domain": [0, 1]},
        "y": {"label": "true positive rate", "domain": [0, 1]},
        "series": series,
        "refs": [{"name": "chance", "x": [0, 1], "y": [0, 1]}],
    }


def _precision_recall(positive: np.ndarray, score: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    hits, false_alarms = _cumulated(positive, score, weight)
    recall = hits / hits[-1]
    precision = hits / np.maximum(hits + false_alarms, np.finfo(float).tiny)
    kept = _along(recall, precision)
    share = float(hits[-1] / (hits[-1] + false_alarms[-1]))
    return {
        "type": "line",
        "title": "Precision and recall",
        "x": {"label": "recall", "domain": [0, 1]},
        "y": {"label": "precision", "domain": [0, 1]},
        "series": [{"name": "model", "x": rounded_list(recall[kept], 4), "y": rounded_list(precision[kept], 4)}],
        "refs": [{"name": "chance", "x": [0, 1], "y": [rounded(share), rounded(share)]}],
    }


def calibration(actual: np.ndarray, score: np.ndarray, weight: np.ndarray, what: str) -> dict[str, Any]:
    """Mean prediction against mean outcome in ten groups of rows with like predictions."""
    order = np.argsort(score, kind="stable")
    mass = np.cumsum(weight[order])
    group = np.minimum((mass / mass[-1] * _CALIBRATION_BINS).astype(np.int64), _CALIBRATION_BINS - 1)
    sums = [np.bincount(group, weight[order] * values, _CALIBRATION_BINS) for values in (score[order], actual[order])]
    total = np.bincount(group, weight[order], _CALIBRATION_BINS)
    kept = total > 0
    predicted, observed = (s[kept] / total[kept] for s in sums)
    low, high = float(min(predicted.min(), observed.min())), float(max(predicted.max(), observed.max()))
    if what == "probability":
        low, high = 0.0, 1.0
    return {
        "type": "line",
        "title": "Calibration",
        "x": {"label": f"mean predicted {what}", "domain": [rounded(low), rounded(high)]},
        "y": {"label": "observed share", "domain": [0, 1]}
        if what == "probability"
        else {"label": f"mean observed {what}"},
        "series": [{"name": "model", "x": rounded_list(predicted), "y": rounded_list(observed), "dots": True}],
        "refs": [{"name": "ideal", "x": rounded_list([low, high]), "y": rounded_list([low, high])}],
        "note": "Ten groups of rows with like predictions.",
    }


def _histogram_by_class(subject: Subject, positive: np.ndarray, score: np.ndarray, weight: np.ndarray) -> dict:
    edges = np.linspace(0.0, 1.0, 41)
    names = subject.class_names if len(subject.class_names) == 2 else ["0", "1"]
    series = []
    for name, chosen in zip(names, (~positive, positive)):
        counts = np.histogram(score[chosen], edges, weights=weight[chosen])[0]
        series.append({"name": name, "y": rounded_list(counts / max(counts.sum(), 1e-300), 4)})
    return {
        "type": "histogram",
        "title": "Predicted probability by class",
        "x": {"label": "predicted probability"},
        "y": {"label": "share of the class", "percent": True},
        "edges": rounded_list(edges),
        "series": series,
    }


def _threshold(subject: Subject, positive: np.ndarray, score: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Counts of a confusion matrix at every threshold of a grid: a row is positive above it."""
    thresholds = np.linspace(0.0, 1.0, _THRESHOLDS)
    found = {}
    for name, chosen in (("tp", positive), ("fp", ~positive)):
        ranked = np.argsort(score[chosen], kind="stable")
        mass = np.concatenate([[0.0], np.cumsum(weight[chosen][ranked])])
        found[name] = mass[-1] - mass[np.searchsorted(score[chosen][ranked], thresholds, side="right")]
    return {
        "type": "threshold",
        "title": "Confusion matrix",
        "names": subject.class_names if len(subject.class_names) == 2 else ["0", "1"],
        "positives": rounded(float(weight[positive].sum()), 9),
        "negatives": rounded(float(weight[~positive].sum()), 9),
        **{name: rounded_list(values, 9) for name, values in found.items()},
        "note": "A row counts as positive where its predicted probability is above the threshold.",
    }


def _by_threshold(counts: dict[str, Any]) -> dict[str, Any]:
    """Precision, recall and F1 at every threshold of the grid; no row above it: no precision."""
    hits, false_alarms = np.array(counts["tp"], np.float64), np.array(counts["fp"], np.float64)
    found = hits + false_alarms
    recall = hits / counts["positives"]
    precision = np.divide(hits, found, out=np.full(len(hits), np.nan), where=found > 0)
    f1 = 2 * hits / (found + counts["positives"])
    x = rounded_list(np.linspace(0.0, 1.0, len(hits)))
    scores = (("precision", precision), ("recall", recall), ("F1", f1))
    return {
        "type": "line",
        "title": "Scores by threshold",
        "x": {"label": "threshold", "domain": [0, 1]},
        "y": {"label": "score", "domain": [0, 1]},
        "series": [{"name": name, "x": x, "y": rounded_list(y, 4)} for name, y in scores],
    }


# ---- several classes ----


def multiclass_views(subject: Subject) -> list[dict[str, Any]]:
    """One view: confusion, ROC of every class against the rest, confidence, a table of classes."""
    label = subject.label()
    assert label is not None
    code = label[:, 0].astype(np.int64)
    probability, weight = subject.prediction.astype(np.float64), subject.weight
    found = probability.argmax(axis=1)
    n_classes = probability.shape[1]
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (code, found), weight)
    confidence = calibration((code == found).astype(np.float64), probability.max(axis=1), weight, "probability")
    confidence |= {
        "title": "Calibration of the chosen class",
        "y": {"label": "share of rows that are right", "domain": [0, 1]},
    }
    charts = [_confusion(subject, counts), _class_table(subject, counts)]
    return [{"name": "", "charts": [*charts, *_class_rocs(subject, code, probability, weight), confidence]}]


def _confusion(subject: Subject, counts: np.ndarray) -> dict[str, Any]:
    largest = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_MAX_CLASSES])
    note = "Cells show rows; colour is the share of the actual class."
    if len(largest) < len(counts):
        note += f" The {_MAX_CLASSES} largest of {len(counts)} classes."
    return {
        "type": "heat",
        "title": "Confusion matrix",
        "names": [subject.class_names[k] for k in largest],
        "counts": [rounded_list(row, 9) for row in counts[np.ix_(largest, largest)]],
        "note": note,
    }


def _class_table(subject: Subject, counts: np.ndarray) -> dict[str, Any]:
    rows = []
    for k in np.argsort(-counts.sum(axis=1), kind="stable")[:_MAX_CLASSES].tolist():
        support, chosen, right = counts[k].sum(), counts[:, k].sum(), counts[k, k]
        precision, recall = right / chosen if chosen else 0.0, right / support if support else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        cells = [f"{value:.3f}" for value in (precision, recall, f1)]
        rows.append([subject.class_names[k], f"{support:,.10g}", *cells])
    return {
        "type": "table",
        "title": "Classes",
        "columns": ["class", "rows", "precision", "recall", "F1"],
        "rows": rows,
    }


def _class_rocs(subject: Subject, code: np.ndarray, probability: np.ndarray, weight: np.ndarray) -> list[dict]:
    sizes = np.bincount(code, weight, probability.shape[1])
    curves = []
    for k in np.sort(np.argsort(-sizes, kind="stable")[:_MAX_CURVES]).tolist():
        is_class = code == k
        if is_class.any() and not is_class.all():
            curves.append((subject.class_names[k], *_roc_points(is_class, probability[:, k], weight)))
    if not curves:
        return []
    note = "Each class against the rest" + (f", the {_MAX_CURVES} largest." if len(sizes) > _MAX_CURVES else ".")
    return [{**_roc(curves), "note": note}]
