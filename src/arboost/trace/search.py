"""Every candidate that a grower looked at in a node, scored by the engine's own formulas.

`exact` looks between neighbouring values of the node's rows, `hist` between bins; both try missing values on either
side as the engines have it. Sums are the engine's integers.
"""

from dataclasses import dataclass

import numpy as np

from arboost.kernels.ops import candidates as ops
from arboost.kernels.scalar import MIN_GAIN
from arboost.levels.quantize import QuantizedGradients
from arboost.params.resolve import TreeParams
from arboost.trace.parts import Candidate

_GAP = np.float32(1e-6)  # how far a threshold lies beyond a value that has no neighbour


@dataclass(frozen=True)
class Sums:
    """Integer gradients of all rows, and the vector `reg` that kernels read."""

    g: np.ndarray
    h: np.ndarray
    reg: np.ndarray

    @classmethod
    def of(cls, gradients: QuantizedGradients, params: TreeParams) -> "Sums":
        """From what a grower is given."""
        shift = int(gradients.packings[0, 0])
        if shift:
            packed = gradients.planes[0]
            g, h = packed >> shift, packed & ((1 << shift) - 1)
        else:
            g, h = gradients.planes
        p = params
        reg = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, p.gamma]
        return cls(g.copy(), h.copy(), np.array([*reg, gradients.g_unit, gradients.h_unit]))

    @property
    def units(self) -> tuple[float, float]:
        return float(self.reg[-2]), float(self.reg[-1])

    def scores(self, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(similarity, weight) of nodes with these integer sums."""
        scores, weights = np.empty(len(g)), np.empty(len(g))
        ops.score_nodes(g, h, self.reg, scores, weights, 0, len(g))
        return scores, weights


class Columns:
    """The columns of a matrix as a grower sees them: sorted values, or bins.

    Parameters
    ----------
    values
        (n_rows, n_features) float32, NaN for missing.
    cuts
        For `hist`, each feature's upper bounds of bins; None for `exact`.
    """

    def __init__(self, values: np.ndarray, cuts: list[np.ndarray] | None):
        self.values, self._cuts = values, cuts
        self._is_missing = np.isnan(values)
        self._codes = values if cuts is None else self._bin(values, cuts)

    def _bin(self, values: np.ndarray, cuts: list[np.ndarray]) -> np.ndarray:
        bins = [np.minimum(np.searchsorted(c, x, side="right"), len(c) - 1) for x, c in zip(values.T, cuts)]
        return np.column_stack(bins)

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    def candidates(self, rows: np.ndarray, sums: Sums, score: float, feature: int) -> list[Candidate]:
        """The splits of a node on one feature, by threshold; `score` is the node's own similarity."""
        is_missing = self._is_missing[rows, feature]
        groups, group_of = np.unique(self._codes[rows[~is_missing], feature], return_inverse=True)
        present = np.zeros((3, len(groups)), np.int64)  # rows, g, h up to and with each group
        for total, x in zip(present, (np.ones_like(sums.g), sums.g, sums.h), strict=True):
            np.add.at(total, group_of, x[rows[~is_missing]])
        present = np.hstack([np.zeros((3, 1), np.int64), np.cumsum(present, axis=1)])
        lost = rows[is_missing]
        missing = np.array([len(lost), sums.g[lost].sum(), sums.h[lost].sum()])
        found = []
        for default_left, last in self._places(feature, len(groups), bool(missing[1:].any())):
            thresholds = [self._threshold(feature, groups, k, default_left) for k in last]
            left = present[:, [k + 1 for k in last]] + default_left * missing[:, None]
            found += _scored(feature, thresholds, default_left, left, present[:, -1] + missing, missing[0], sums, score)
        return sorted(found, key=lambda c: (c.threshold, c.default_left))

    def _places(self, feature: int, n: int, has_missing: bool) -> list[tuple[bool, list[int]]]:
        """(whether missing values go left, the last group on the left of every split tried); -1: no group is."""
        if self._cuts is not None:
            right = (False, list(range(n if has_missing else n - 1)))
            return [right, (True, list(range(n - 1)))] if has_missing else [right]
        x = self.values[~self._is_missing[:, feature], feature]
        is_full = len(x) == len(self.values)
        places = []
        if not is_full and len(x) and x.min() != x.max():
            places.append((False, list(range(n if has_missing else n - 1))))
        if is_full or (has_missing and n):
            places.append((True, list(range(-1 if has_missing else 0, n - 1))))
        return places

    def _threshold(self, feature: int, groups: np.ndarray, last: int, default_left: bool) -> np.float32:
        """What the grower writes for a split after group `last`."""
        if self._cuts is not None:
            return np.float32(self._cuts[feature][groups[last + 1] - 1 if default_left else groups[last]])
        if last < 0:
            return np.float32(groups[0] - (abs(groups[0]) + _GAP))
        low = groups[last]
        if last + 1 == len(groups):
            return np.float32(low + (abs(low) + _GAP))
        high = groups[last + 1]
        middle = np.float32((float(low) + float(high)) * 0.5)
        return np.float32(high if middle == low else middle)


def _scored(
    feature: int,
    thresholds: list[np.float32],
    default_left: bool,
    left: np.ndarray,
    total: np.ndarray,
    n_missing: int,
    sums: Sums,
    score: float,
) -> list[Candidate]:
    """Candidates from the (rows, g, h) on their left side and of the whole node."""
    n = len(thresholds)
    both, score_left, score_right = np.empty(n), np.empty(n), np.empty(n)
    g, h = np.ascontiguousarray(left[1]), np.ascontiguousarray(left[2])
    ops.score_candidates(g, h, int(total[1]), int(total[2]), sums.reg, both, score_left, score_right, 0, n)
    g_unit, h_unit = sums.units
    right = total[:, None] - left
    found = []
    for k in range(n):
        is_light = both[k] < 0
        gain = float((score_left[k] + score_right[k] if is_light else both[k]) - score)
        found.append(
            Candidate(
                feature, float(thresholds[k]), default_left, int(left[0, k]), int(right[0, k]), int(n_missing),
                float(left[1, k] * g_unit), float(left[2, k] * h_unit),
                float(right[1, k] * g_unit), float(right[2, k] * h_unit),
                float(score_left[k]), float(score_right[k]), gain,
                "light" if is_light else "less" if gain > MIN_GAIN else "none",
            )
        )  # fmt: skip
    return found
