"""Metrics of ranked lists: ndcg, map, pre, and the areas under curves of grouped rows; means over query groups.

A name is "ndcg" (the first 32 ranks, as in XGBoost), "ndcg@5" (the first five), "ndcg-" or "ndcg@5-" (a list without
relevant documents scores 0 instead of 1). Rows without groups are one list. Equal predictions are ranked in row order.
"""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from arboost.kernels.ops import rank as kernels
from arboost.matrix import groups
from arboost.matrix.groups import check_binary, check_group_weight, check_relevance
from arboost.matrix.meta import MetaInfo
from arboost.metrics.auc import AreaUnderPrecisionRecall, AreaUnderRoc
from arboost.metrics.base import Metric, as_float32, register, require_label
from arboost.params.resolve import LearnerParams
from arboost.runtime import settings, sums
from arboost.runtime.comm import gather_rows
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

DEFAULT_TOP = 32  # XGBoost's, where the name does not say
_MAX_TOP = 2**32 - 1
_NO_VALUES = np.empty(0)


@dataclass(frozen=True)
class ListMetric(Metric):
    """A metric of the ranked lists of query groups, the mean weighted by the groups' weights."""

    maximize = True
    kind: ClassVar[int]
    stem: ClassVar[str]  # the name without "@" and "-"
    minus: ClassVar[bool] = False  # whether the name itself ends with "-"

    at: int = 0  # what the name says of the ranks that count; 0: nothing
    empty_is_zero: bool = False  # whether a list without relevant documents scores 0
    ndcg_exp_gain: bool = True

    @property
    def name(self) -> str:
        return f"{self.stem}{f'@{self.at}' if self.at else ''}{'-' if self.empty_is_zero else ''}"

    @property
    def blank_value(self) -> float:
        return float(not self.empty_is_zero)

    @property
    def top(self) -> int:
        """Ranks that count."""
        return self.at or DEFAULT_TOP

    @classmethod
    def parse(cls, argument: str | None, params: LearnerParams) -> "ListMetric":
        if argument is None:
            return cls(0, cls.minus, params.ndcg_exp_gain)
        digits = argument.removesuffix("-")
        if cls.minus or not (digits.isascii() and digits.isdigit() and 0 < int(digits) < _MAX_TOP):
            raise XGBoostError(
                f"Metric {cls.base_name}@{argument}: the ranks that count should be greater equal to 1, as in "
                f"`{cls.stem}@5` or `{cls.stem}@5-`."
            )
        return cls(int(digits), argument.endswith("-"), params.ndcg_exp_gain)

    def evaluate(self, ctx: Context, pred: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> float:
        """The metric of one list; `weight` is its only weight."""
        info = MetaInfo(len(label), 0)
        info.label, info.weight = label, weight
        return self.evaluate_info(ctx, pred, info)

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        label, pred, group_ptr = _lists(self.name, pred, info)
        if info.group_ptr is None:  # one list, of all workers' rows
            label, pred = (gather_rows(ctx.comm, rows, info.runs) for rows in (label, pred))
            group_ptr, ctx = np.array([0, label.size], np.int64), ctx.alone()
        self._check_label(label)
        check_group_weight(info)
        n_groups = len(group_ptr) - 1
        total = sums.sum_weights(ctx, n_groups, info.weight)
        if not total > 0.0:
            return 0.0
        ideal, discount = self._ideal(ctx, label, group_ptr)
        chosen = np.array([self.kind, self.top, not self.empty_is_zero, self.ndcg_exp_gain], np.int64)
        args = (pred, label, group_ptr, ideal, discount, chosen)
        value = sums.sum_rows(ctx, n_groups, info.weight, kernels.list_scores, *args) / total
        return min(value, 1.0)

    def _check_label(self, label: np.ndarray) -> None:
        check_binary(label, self.stem)

    def _ideal(self, ctx: Context, label: np.ndarray, group_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One over the best score of each list, and what each rank counts; empty where lists are not compared so."""
        return _NO_VALUES, _NO_VALUES


def _lists(name: str, pred: np.ndarray, info: MetaInfo) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions and bounds of the lists; raises XGBoostError where they do not match."""
    label = require_label(info.label, name)
    pred = as_float32(pred)
    if pred.size != label.size:
        raise XGBoostError(f"{name}: {pred.size} predictions do not match {label.size} labels.")
    group_ptr = info.group_ptr if info.group_ptr is not None else np.array([0, label.size], np.int64)
    return label.reshape(-1), pred.reshape(-1), group_ptr


@register
@dataclass(frozen=True)
class Ndcg(ListMetric):
    """Discounted cumulative gain over the best that any order could have."""

    base_name = stem = "ndcg"
    kind = kernels.NDCG

    def _check_label(self, label: np.ndarray) -> None:
        check_relevance(label, self.ndcg_exp_gain)

    def _ideal(self, ctx: Context, label: np.ndarray, group_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        discount = groups.discounts(ctx, group_ptr, self.top)
        return groups.inverse_ideal_dcg(ctx, label, group_ptr, discount, self.top, self.ndcg_exp_gain), discount


@register
@dataclass(frozen=True)
class MeanAveragePrecision(ListMetric):
    """Mean precision at the ranks of the relevant documents; labels are 0 or 1."""

    base_name = stem = "map"
    kind = kernels.MAP


@register
@dataclass(frozen=True)
class Precision(ListMetric):
    """Share of relevant documents among the first; labels are 0 or 1."""

    base_name = stem = "pre"
    kind = kernels.PRECISION

    @property
    def blank_value(self) -> float:
        return 0.0


@register
@dataclass(frozen=True)
class NdcgMinus(Ndcg):
    """`ndcg` where a list without relevant documents scores 0."""

    base_name = "ndcg-"
    minus = True


@register
@dataclass(frozen=True)
class MeanAveragePrecisionMinus(MeanAveragePrecision):
    """`map` where a list without relevant documents scores 0."""

    base_name = "map-"
    minus = True


@register
@dataclass(frozen=True)
class PrecisionMinus(Precision):
    """`pre` under the name with a minus: a list without relevant documents scores 0 in any case."""

    base_name = "pre-"
    minus = True


@register
@dataclass(frozen=True)
class GroupedAreaUnderRoc(AreaUnderRoc):
    """`auc`; of grouped rows the mean over groups of the share of pairs in order, as XGBoost counts it.

    Groups of fewer than three rows do not count, a group of weight 0 counts as 0, other weights are not used.
    """

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        if info.group_ptr is None:
            return super().evaluate_info(ctx, pred, info)
        label, pred, group_ptr = _lists(self.name, pred, info)
        check_group_weight(info)
        areas = np.empty(len(group_ptr) - 1)
        grain = groups.group_grain(len(areas), len(label))
        ctx.run_ranges(len(areas), grain, _fill_ordered_pairs, pred, label, group_ptr, areas)
        if info.weight is not None:
            areas[(info.weight == 0.0) & ~np.isnan(areas)] = 0.0
        return _mean_area(self.name, gather_rows(ctx.comm, areas))


@register
@dataclass(frozen=True)
class GroupedAreaUnderPrecisionRecall(AreaUnderPrecisionRecall):
    """`aucpr`; of grouped rows the mean over groups that have both relevant and other rows and a weight above 0."""

    def evaluate_info(self, ctx: Context, pred: np.ndarray, info: MetaInfo) -> float:
        if info.group_ptr is None:
            return super().evaluate_info(ctx, pred, info)
        label, pred, group_ptr = _lists(self.name, pred, info)
        check_group_weight(info)
        if label.size and (label.min() < 0.0 or label.max() > 1.0):
            raise XGBoostError("PR-AUC supports only binary relevance for learning to rank: labels must be in [0, 1].")
        spans = list(itertools.pairwise(group_ptr.tolist()))
        weight = np.ones(len(spans)) if info.weight is None else info.weight
        areas = [
            self._evaluate_binary(ctx.alone(), pred[a:b], label[a:b], None) if w > 0.0 and b > a else math.nan
            for (a, b), w in zip(spans, weight, strict=True)
        ]
        return _mean_area(self.name, gather_rows(ctx.comm, np.array(areas, np.float64)))


def _fill_ordered_pairs(
    pred: np.ndarray, label: np.ndarray, group_ptr: np.ndarray, areas: np.ndarray, start: int, stop: int
) -> None:
    """areas[start:stop] (OUT) of these groups."""
    kernels.ordered_pairs(pred, label, group_ptr, areas[start:stop], start, stop)


def _mean_area(name: str, areas: np.ndarray) -> float:
    """The mean over the groups that have an area; NaN, with a warning, if none has."""
    valid = areas[~np.isnan(areas)]
    if not len(valid):
        settings.warn(f"{name}: dataset is empty, or contains only positive or negative samples.")
        return math.nan
    return math.fsum(valid) / len(valid)
