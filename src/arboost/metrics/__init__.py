"""Metrics. Importing this package registers every metric by its name."""

from arboost.metrics import auc, elementwise, multiclass, rank, significance, survival
from arboost.metrics.base import METRICS, Metric, make_metric

__all__ = ["METRICS", "Metric", "auc", "elementwise", "make_metric", "multiclass", "rank", "significance", "survival"]
