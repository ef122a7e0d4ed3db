"""Charts of rankers: the engine's metrics by depth, relevance by place, groups by their gain."""

from typing import Any

import numpy as np

from arboost.matrix.meta import MetaInfo
from arboost.metrics import make_metric
from arboost.report.numbers import rounded_list
from arboost.report.subject import Subject
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError

_DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_MAX_GROUPS = 2000  # whose gain is shown one by one
_PLACES = 20


def ranking_views(subject: Subject) -> list[dict[str, Any]]:
    """One view; rows without groups are one group, as in training."""
    label = subject.label()
    assert label is not None
    ptr = subject.info.group_ptr
    ptr = np.array([0, len(label)], np.int64) if ptr is None else ptr
    ptr = ptr[np.append(True, np.diff(ptr) > 0)]
    charts = [_by_depth(subject), _by_place(label[:, 0], subject.margin[:, 0], ptr)]
    if len(ptr) > 3:
        charts.append(_by_group(subject, label[:, 0], ptr))
    sizes = np.diff(ptr)
    if len(np.unique(sizes)) > 1:
        charts.append(_sizes(sizes))
    return [{"name": "", "charts": [chart for chart in charts if chart["series"]]}]


def _by_depth(subject: Subject) -> dict[str, Any]:
    learner = subject.booster._learner
    series = []
    for stem in ("ndcg", "map", "pre"):
        try:
            with settings.changed(verbosity=0):
                metrics = [make_metric(f"{stem}@{k}", learner.resolved.learner) for k in _DEPTHS]
                scores = [m.evaluate_info(learner.ctx, subject.prediction, subject.info) for m in metrics]
        except XGBoostError:  # map and pre take relevant or not, ndcg takes degrees
            continue
        series.append({"name": f"{stem}@k", "x": list(_DEPTHS), "y": rounded_list(scores, 7), "dots": True})
    return {
        "type": "line",
        "title": "Quality by depth",
        "x": {"label": "places considered (k)", "whole": True},
        "y": {"label": "score"},
        "series": series,
    }


def _by_place(label: np.ndarray, score: np.ndarray, ptr: np.ndarray) -> dict[str, Any]:
    """Mean relevance of the rows that the model puts first, second, ... in their group."""
    group = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    order = np.lexsort((-score, group))
    place = np.arange(len(label)) - np.repeat(ptr[:-1], np.diff(ptr))
    shown = place < _PLACES
    total = np.bincount(place[shown], label[order][shown].astype(np.float64))
    count = np.bincount(place[shown])
    mean = float(label.mean())
    return {
        "type": "columns",
        "title": "Relevance by predicted place",
        "x": {"label": "place in the group"},
        "y": {"label": "mean relevance"},
        "names": [str(i + 1) for i in range(len(count))],
        "series": [{"name": "mean relevance", "y": rounded_list(total / np.maximum(count, 1))}],
        "level": {"name": "mean of all rows", "y": float(f"{mean:.5g}")},
    }


def _by_group(subject: Subject, label: np.ndarray, ptr: np.ndarray) -> dict[str, Any]:
    """Distribution of the engine's ndcg over groups."""
    learner = subject.booster._learner
    metric = make_metric("ndcg@10", learner.resolved.learner)
    chosen = np.arange(len(ptr) - 1)[: min(len(ptr) - 1, _MAX_GROUPS)]
    gains = []
    for g in chosen.tolist():
        rows = slice(int(ptr[g]), int(ptr[g + 1]))
        if label[rows].max() > 0:  # a group without a relevant row has no order to find
            info = MetaInfo(rows.stop - rows.start, subject.info.n_features)
            info.set("label", label[rows])
            info.set("group", [rows.stop - rows.start])
            gains.append(metric.evaluate_info(learner.ctx, subject.prediction[rows], info))
    counts, edges = np.histogram(gains, 20, (0.0, 1.0))
    return {
        "type": "histogram",
        "title": "Groups by ndcg@10",
        "x": {"label": "ndcg@10 of a group"},
        "y": {"label": "groups"},
        "edges": rounded_list(edges),
        "series": [{"name": "groups", "y": [int(n) for n in counts]}] if gains else [],
        "note": "Groups without a relevant row are left out.",
    }


def _sizes(sizes: np.ndarray) -> dict[str, Any]:
    counts, edges = np.histogram(sizes, min(30, int(sizes.max() - sizes.min()) + 1))
    return {
        "type": "histogram",
        "title": "Size of the groups",
        "x": {"label": "rows in a group"},
        "y": {"label": "groups"},
        "edges": rounded_list(edges),
        "series": [{"name": "groups", "y": [int(n) for n in counts]}],
    }
