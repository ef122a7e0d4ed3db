"""Combinations of categories that say more about the label than their parts: found greedily.

What the single columns leave of the label is kept as a residual. Every candidate (a pair of columns, or a chosen
combination and one more) is scored by how much of the residual its ordered statistics explain: a row's statistic never
holds its own label, so rare values gain nothing by chance. The best one is taken, what it explains is taken off the
residual, and so on, until nothing explains enough.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from arboost.kernels.ops import statistics as ops
from arboost.runtime import rng
from arboost.runtime.context import Context

MAX_ROWS = 40_000  # that candidates are scored on
MAX_COLUMNS = 14  # that are combined
MAX_FOUND = 24
MIN_CHI_SQUARE = 4.0  # of what is explained: a combination that knows nothing has 1 on average
STRENGTH = 10.0
_NOTHING = 2.0**-900  # of a residual: less could not be scaled, and equal labels leave none
_MAX_TARGETS = 4

Features = tuple[int, ...]


class Codes(Protocol):
    """Codes of categorical columns: `statistics.Codes`."""

    @property
    def n_codes(self) -> dict[int, int]: ...
    def take(self, rows: np.ndarray) -> "Codes": ...
    def combined(self, features: Sequence[int]) -> np.ndarray: ...


def find_combinations(
    ctx: Context, codes: Codes, label: np.ndarray, singles: list[Features], max_combination: int, max_keys: int
) -> list[Features]:
    """Combinations in the order in which they were found.

    Parameters
    ----------
    ctx
        Threads and seed.
    codes
        Codes of all categorical columns.
    label
        (K, n) int64, in fixed point.
    singles
        The columns that have statistics of their own already.
    max_combination
        Most columns in a combination.
    max_keys
        Most values that a combination may have in theory.
    """
    if max_combination < 2 or len(codes.n_codes) < 2:
        return []
    return _Search(ctx, codes, label, max_combination, max_keys).run(singles)


class _Search:
    """The rows that candidates are scored on, and what is left of their labels."""

    def __init__(self, ctx: Context, codes: Codes, label: np.ndarray, max_combination: int, max_keys: int):
        self._max_combination, self._max_keys = max_combination, max_keys
        n_rows = label.shape[1]
        order = rng.permutation(rng.make_key(ctx.seed, rng.PERMUTATIONS, -1), n_rows)
        rows = np.sort(order[:MAX_ROWS])
        self._codes = codes.take(rows)
        self._order = rng.permutation(rng.make_key(ctx.seed, rng.PERMUTATIONS, -2), len(rows))
        chosen = label[np.argsort(-np.abs(label).sum(axis=1, dtype=np.float64), kind="stable")[:_MAX_TARGETS]]
        self._residual = chosen[:, rows].astype(np.float64)
        self._residual -= self._residual.mean(axis=1, keepdims=True)
        self._known: dict[Features, np.ndarray] = {}

    def run(self, singles: list[Features]) -> list[Features]:
        """The greedy search."""
        columns = self._most_telling([(f,) for f in self._codes.n_codes])
        for _ in range(2):  # what single columns explain together
            for features in singles:
                gain, explained = self._score(features)
                if gain > 0.0:
                    self._residual -= explained
        found: list[Features] = []
        candidates = {_joined((a,), (b,)) for a in columns for b in columns if a < b}
        while candidates and len(found) < MAX_FOUND:
            best, gain, explained = self._best(sorted(c for c in candidates if self._fits(c)))
            if best is None or gain < MIN_CHI_SQUARE * float((self._residual**2).mean()):
                break
            self._residual -= explained
            found.append(best)
            candidates.discard(best)
            if len(best) < self._max_combination:
                candidates |= {_joined(best, (f,)) for f in columns if f not in best} - set(found)
        return found

    def _fits(self, features: Features) -> bool:
        size = 1
        for f in features:
            size *= self._codes.n_codes[f]
        return size < self._max_keys

    def _most_telling(self, singles: list[Features]) -> list[int]:
        scores = [self._score(features)[0] for features in singles]
        kept = sorted(range(len(singles)), key=lambda i: -scores[i])[:MAX_COLUMNS]
        return sorted(singles[i][0] for i in kept)

    def _best(self, candidates: list[Features]) -> tuple[Features | None, float, np.ndarray]:
        """The candidate that explains most, how much, and what it says of every row."""
        best: tuple[Features | None, float, np.ndarray] = (None, 0.0, self._residual)
        for features in candidates:
            gain, explained = self._score(features)
            if gain > best[1]:
                best = (features, gain, explained)
        return best

    def _score(self, features: Features) -> tuple[float, np.ndarray]:
        codes, n_codes = self._codes_of(features)
        residual = self._residual
        largest = np.abs(residual).max(initial=0.0)
        if largest < _NOTHING:
            return 0.0, residual
        scale = 2.0 ** (40 - int(np.frexp(largest)[1]))
        whole = np.rint(residual * scale).astype(np.int64)
        sums = np.zeros((len(whole), 2, n_codes), np.int64)
        predicted = np.empty(whole.shape)
        ops.predict_in_order(codes, self._order, whole, 1.0 / scale, STRENGTH, sums, predicted, 0, len(whole))
        along, length = float((residual * predicted).sum()), float((predicted**2).sum())
        if along <= 0.0 or length <= 0.0:
            return 0.0, predicted
        return along**2 / length, predicted * (along / length)

    def _codes_of(self, features: Features) -> tuple[np.ndarray, int]:
        if features not in self._known:
            codes = np.unique(self._codes.combined(features), return_inverse=True)[1].astype(np.int32)
            self._known[features] = codes
        codes = self._known[features]
        return codes, int(codes.max(initial=-1)) + 1


def _joined(a: Features, b: Features) -> Features:
    return tuple(sorted({*a, *b}))
