"""Quantiles of a weighted stream in little memory: the mergeable, prunable summary of the XGBoost paper's appendix.

`tree_method="approx"` proposes its candidates with the same kernels (`ops.summary`), where a column
is one sorted run; here the data may come in any order and in any pieces.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.ops import summary as ops
from arboost.runtime.errors import XGBoostError

MAX_TOTAL = 1 << 61
_MIN_BUFFER = 4096  # values gathered before they are sorted and summarised


class Summary(NamedTuple):
    """Some values of a weighted set, in ascending order, and bounds of their ranks, in units of weight."""

    values: np.ndarray  # (n,) float32
    ranks: np.ndarray  # (3, n) int64: rmin <= weight below, rmax >= weight up to and with, w <= weight of the value

    @property
    def total(self) -> int:
        """Weight of the whole set."""
        return int(self.ranks[ops.RMAX, -1]) if len(self.values) else 0

    @property
    def error(self) -> int:
        """How far apart the bounds of any value's rank can be: the appendix's epsilon times the total weight."""
        rmin, rmax, w = self.ranks
        between = rmax[1:] - w[1:] - (rmin + w)[:-1]
        return int(max((rmax - rmin - w).max(initial=0), between.max(initial=0)))


class WeightedQuantileSketch:
    """Approximate quantiles of values that come in pieces, each with a weight.

    The rank of an answer is off by at most `eps` times the total weight, whatever the order of the values, however
    they are cut into pieces, and in whatever order sketches of parts are merged.

    Parameters
    ----------
    eps
        The error allowed, as a fraction of the total weight: above 0, below 1.
    weight_unit
        Weights are rounded to multiples of this. Sums are then integers, and do not depend on the order of additions.

    Examples
    --------
    >>> sketch = WeightedQuantileSketch(eps=0.01)
    >>> for chunk in ([3.0, 1.0], [2.0]):
    ...     sketch.push(chunk)
    >>> sketch.quantiles([0.0, 0.5, 1.0]).tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, eps: float, weight_unit: float = 1.0):
        if not 0.0 < eps < 1.0:
            raise XGBoostError(f"eps must lie between 0 and 1, both excluded, got {eps!r}.")
        if not (weight_unit > 0.0 and np.isfinite(weight_unit)):
            raise XGBoostError(f"weight_unit must be a positive number, got {weight_unit!r}.")
        self.eps, self.weight_unit = float(eps), float(weight_unit)
        self._total = 0
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_waiting = 0
        self._buffer = max(_MIN_BUFFER, ceil(8 / self.eps))
        # Level l is made of up to 2**l buffers. Making it may add eps / ((l + 1) (l + 2)), and these add up to eps.
        self._levels: list[Summary | None] = []

    @property
    def total_weight(self) -> float:
        """Sum of the weights, as rounded."""
        return self._total * self.weight_unit

    def push(self, values: Any, weights: Any | None = None) -> None:
        """Add values; NaN is missing and left out.

        Parameters
        ----------
        values
            Numbers, read as float32.
        weights
            One for each value, not negative; None for ones.
        """
        x = np.atleast_1d(np.asarray(values, np.float32)).ravel() + np.float32(0)  # -0.0 becomes 0.0
        w = self._whole_weights(weights, len(x))
        is_counted = ~np.isnan(x) & (w > 0)
        if is_counted.any():
            self._take(x[is_counted], w[is_counted])

    def merge(self, other: "WeightedQuantileSketch") -> None:
        """Add what another sketch of the same `eps` and `weight_unit` has seen; the other stays as it is."""
        if (other.eps, other.weight_unit) != (self.eps, self.weight_unit):
            raise XGBoostError(
                f"Sketches can be merged if their eps and weight_unit are equal: {(self.eps, self.weight_unit)} here, "
                f"{(other.eps, other.weight_unit)} there."
            )
        self._grow_total(other._total)
        for level, summary in enumerate(list(other._levels)):
            if summary is not None:
                self._add(summary, level)
        for piece in list(other._waiting):
            self._wait(*piece)

    def quantiles(self, q: Iterable[float] | float) -> np.ndarray:
        """Values whose rank is q times the total weight, each q in [0, 1]; NaN where there is no weight at all."""
        fractions = np.atleast_1d(np.asarray(q, np.float64))
        if not ((fractions >= 0.0) & (fractions <= 1.0)).all():
            raise XGBoostError("Quantiles are asked for by numbers from 0 to 1.")
        summary = self.summary()
        if not summary.total:
            return np.full(len(fractions), np.nan, np.float32)
        twice = [int(Fraction(float(fraction)) * 2 * summary.total) for fraction in fractions]
        found = np.empty(len(twice), np.int64)
        ops.find_entries(summary.ranks, np.array(twice, np.int64), found)
        return summary.values[found]

    def summary(self) -> Summary:
        """Entries for all that was pushed and merged: value, and bounds of its rank in units of weight."""
        self._flush()
        found = Summary(np.zeros(0, np.float32), np.zeros((3, 0), np.int64))
        for level in self._levels:
            found = found if level is None else level if not found.total else _merge(found, level)
        return found

    def _whole_weights(self, weights: Any | None, n: int) -> np.ndarray:
        """Weights in units, int64."""
        if weights is None:
            weights = np.ones(n)
        w = np.atleast_1d(np.asarray(weights)).ravel()
        if len(w) != n:
            raise XGBoostError(f"{n} values need {n} weights, got {len(w)}.")
        if w.dtype.kind not in "iub" or self.weight_unit != 1.0:
            w = np.rint(np.asarray(w, np.float64) / self.weight_unit)
        if not ((w >= 0) & (w < MAX_TOTAL)).all():
            raise XGBoostError(_BAD_WEIGHTS)
        return w.astype(np.int64)

    def _take(self, values: np.ndarray, weights: np.ndarray) -> None:
        if weights.sum(dtype=np.float64) >= MAX_TOTAL:  # the integer sum might be out of 64 bits
            raise XGBoostError(_BAD_WEIGHTS)
        self._grow_total(int(weights.sum()))
        self._wait(values, weights)

    def _grow_total(self, weight: int) -> None:
        if self._total + weight >= MAX_TOTAL:
            raise XGBoostError(_BAD_WEIGHTS)
        self._total += weight

    def _wait(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Keep values until they are worth a summary."""
        self._waiting.append((values, weights))
        self._n_waiting += len(values)
        if self._n_waiting >= self._buffer:
            self._flush()

    def _flush(self) -> None:
        """Summarise the values that wait."""
        if not self._waiting:
            return
        values, weights = (np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True))
        self._waiting, self._n_waiting = [], 0
        self._add(_summarise(values, weights, self._n_steps(0)), 0)

    def _n_steps(self, level: int) -> int:
        """Into how many steps of rank a level is pruned."""
        return ceil(Fraction((level + 1) * (level + 2)) / Fraction(self.eps))

    def _add(self, summary: Summary, level: int) -> None:
        """Put a summary on its level; two of a level become one of the next, like digits carried in an addition."""
        while level < len(self._levels) and self._levels[level] is not None:
            other, self._levels[level] = self._levels[level], None
            assert other is not None
            level += 1
            summary = _prune(_merge(other, summary), self._n_steps(level))
        self._levels += [None] * (level + 1 - len(self._levels))
        self._levels[level] = summary


_BAD_WEIGHTS = (
    "Weights must be finite and not negative, and their sum below 2**61 units: choose another `weight_unit`, or divide "
    "the weights by a number."
)


def _summarise(values: np.ndarray, weights: np.ndarray, n_steps: int) -> Summary:
    """The summary of values that fit in memory, each with a positive weight."""
    order = np.argsort(values, kind="stable").astype(np.int32)
    n_steps = min(n_steps, len(values))
    prefix, firsts = np.empty(ops.N_BLOCKS + 1, np.int64), np.empty(n_steps + 1, np.int64)
    out = Summary(np.empty(n_steps + 1, np.float32), np.empty((3, n_steps + 1), np.int64))
    n = ops.summarise_run(order, values[order], weights, n_steps, prefix, firsts, *out)
    return _first_entries(out, n)


def _merge(a: Summary, b: Summary) -> Summary:
    n = len(a.values) + len(b.values)
    out = Summary(np.empty(n, np.float32), np.empty((3, n), np.int64))
    return _first_entries(out, ops.merge_summaries(*a, *b, *out))


def _prune(summary: Summary, n_steps: int) -> Summary:
    if len(summary.values) <= n_steps + 1:
        return summary
    out = Summary(np.empty(n_steps + 1, np.float32), np.empty((3, n_steps + 1), np.int64))
    return _first_entries(out, ops.prune_summary(*summary, n_steps, *out))


def _first_entries(summary: Summary, n: int) -> Summary:
    return Summary(summary.values[:n].copy(), np.ascontiguousarray(summary.ranks[:, :n]))
