"""Target statistics in place of categories (`cat_strategy="ordered_ts"`).

A category becomes the mean label of its rows, drawn towards the mean of all. In training a row's statistic comes from
the rows before it in a permutation (a hash of row number and seed), so that it never holds the row's own label;
prediction uses the sums of all rows. There are several permutations, one statistic for each class, the number of rows
of each category, and combinations (`matrix/combinations.py`). Sums are integers: the same bits for any threads.
(Prokhorenkova et al. 2018, "CatBoost: unbiased boosting with categorical features", section 3.)
"""

import copy
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from arboost.kernels.ops import statistics as ops
from arboost.matrix.adapt import DenseData, RawData
from arboost.matrix.categories import Categories
from arboost.matrix.combinations import find_combinations
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.meta import MetaInfo
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room

STRENGTHS: tuple[float, ...] = (1.0, 10.0)  # rows that the prior counts for
_MARKS = ("", *(f"~{strength:g}" for strength in STRENGTHS[1:]))  # in names, of all but the first
MAX_KEYS = 1 << 62  # a combination's codes are one integer below this
_GRAIN = 16_384


@dataclass(frozen=True)
class Group:
    """A category, or a combination of several, and what is known of each of its values.

    Attributes
    ----------
    features
        The columns that are combined.
    keys
        int64, ascending: the combined codes that training had; empty for a single column, whose code is its place.
    table
        (n_statistics + 1, n_keys) float32: the statistics, and last the number of rows.
    """

    features: tuple[int, ...]
    keys: np.ndarray
    table: np.ndarray


@dataclass(frozen=True)
class Targets:
    """What statistics are made of: labels and weights in fixed point."""

    label: np.ndarray  # (K, n) int64, times the weight
    weight: np.ndarray  # (n,) int64, or (1,) where all weigh alike
    units: np.ndarray  # of the two
    priors: np.ndarray  # (K,) float64, the mean label


@dataclass(frozen=True)
class Codes:
    """Codes of the categorical columns; a missing value has the last one."""

    of_feature: dict[int, np.ndarray]  # (n,) int64; -1: beyond the codes of training
    n_codes: dict[int, int]

    def take(self, rows: np.ndarray) -> "Codes":
        """The same of some rows."""
        return Codes({f: codes[rows] for f, codes in self.of_feature.items()}, self.n_codes)

    def combined(self, features: Sequence[int]) -> np.ndarray:
        """(n,) int64 one code for several columns; -1 where one of them has none."""
        whole = self.of_feature[features[0]]
        for f in features[1:]:
            part = self.of_feature[f]
            whole = np.where((whole < 0) | (part < 0), -1, whole * self.n_codes[f] + part)
        return whole


@dataclass(eq=False)
class TargetStatistics:
    """Statistics of the categorical columns of a data set, as a model keeps them.

    Attributes
    ----------
    n_columns
        Of the data, before.
    n_codes
        Of each column that is replaced or combined: the number of its codes, the missing one included.
    groups
        What the new columns are made of; single columns first.
    priors
        (K,) float64: the statistic of what training had no rows of.
    feature_names, feature_types
        Of the data's columns, or None.
    """

    n_columns: int
    n_codes: dict[int, int]
    groups: list[Group]
    priors: np.ndarray
    feature_names: list[str] | None
    feature_types: list[str] | None
    _twins: "weakref.WeakKeyDictionary[DMatrix, DMatrix]" = field(default_factory=weakref.WeakKeyDictionary, repr=False)
    _trained: "weakref.WeakKeyDictionary[DMatrix, PermutedMatrix]" = field(
        default_factory=weakref.WeakKeyDictionary, repr=False
    )

    # ---- columns: those of the data in their places, a replaced one by its first statistic, then all others ----

    @property
    def replaced(self) -> list[int]:
        """Columns in whose place their first statistic stands."""
        return [group.features[0] for group in self.groups if len(group.features) == 1]

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """For every new column, the columns it is made of."""
        more = [group.features for group in self.groups for _ in range(self._n_more(group))]
        return [(f,) for f in range(self.n_columns)] + more

    @property
    def n_encoded(self) -> int:
        """How many columns the trees see."""
        return len(self.sources)

    def _n_more(self, group: Group) -> int:
        return len(group.table) - (len(group.features) == 1)

    @property
    def encoded_names(self) -> list[str]:
        """Names of the new columns: `ts(a)`, `ts(a&b)`, of class 2 `ts2(a)`, and the number of rows `count(a)`."""
        names = list(self.feature_names or [f"f{f}" for f in range(self.n_columns)])
        encoded, more = list(names), []
        for group in self.groups:
            of = "&".join(names[f] for f in group.features)
            classes = [""] if len(self.priors) == 1 else [str(k) for k in range(len(self.priors))]
            own = [f"ts{k}{mark}({of})" for k in classes for mark in _MARKS] + [f"count({of})"]
            if len(group.features) == 1:
                encoded[group.features[0]] = own.pop(0)
            more += own
        return encoded + more

    @property
    def encoded_types(self) -> list[str]:
        """Types of the new columns: categories of few values stay categories."""
        replaced = set(self.replaced)
        types = [
            "float" if f in replaced else t for f, t in enumerate(self.feature_types or ["float"] * self.n_columns)
        ]
        return types + ["float"] * (self.n_encoded - self.n_columns)

    def shares(self) -> np.ndarray:
        """(n_encoded + 1, n_columns + 1): the shares that columns have in new ones made of them; last the bias."""
        shares = np.zeros((self.n_encoded + 1, self.n_columns + 1))
        for row, features in zip(shares, self.sources, strict=False):
            row[list(features)] = 1.0 / len(features)
        shares[-1, -1] = 1.0
        return shares

    # ---- matrices ----

    def encoded(self, data: DMatrix) -> DMatrix:
        """The data as prediction sees it: every category has the statistic of all training rows. Kept."""
        twin = self._twins.get(data)
        if twin is None:
            twin = self._make_matrix(DMatrix, self.encode(data), data)
            self._twins[data] = twin
        twin.info = self._encoded_info(data.info)
        return twin

    def for_training(self, ctx: Context, data: DMatrix, n_classes: int, n_permutations: int) -> "PermutedMatrix":
        """The data as training sees it: every row has the statistics of the rows before it. Kept."""
        made_for = (n_permutations, ctx.seed, data.info.label, data.info.weight)
        twin = self._trained.get(data)
        if twin is None or any(
            a is not b and not _same_number(a, b) for a, b in zip(twin.made_for, made_for, strict=True)
        ):
            plan = Plan(self, self.encode(data), self.codes(data), make_targets(data.info, n_classes), ctx)
            twin = self._make_matrix(PermutedMatrix, plan.values(0), data)
            twin.begin(plan, n_permutations, made_for)
            self._trained[data] = twin
        twin.info = self._encoded_info(data.info)
        return twin

    def bare(self) -> "TargetStatistics":
        """The same statistics, shared, without matrices: those of one model in training are its own."""
        return replace(self, _twins=weakref.WeakKeyDictionary(), _trained=weakref.WeakKeyDictionary())

    def forget(self) -> None:
        """Drop all matrices."""
        self._twins.clear()
        self._trained.clear()

    def _make_matrix(self, kind: Any, values: np.ndarray, data: DMatrix) -> Any:
        twin = kind.__new__(kind)
        twin._begin(DenseData(values), data._ctx)
        twin.info = self._encoded_info(data.info)
        return twin

    def _encoded_info(self, info: MetaInfo) -> MetaInfo:
        encoded = copy.copy(info)
        encoded.n_features = self.n_encoded
        encoded._feature_names, encoded._feature_types = self.encoded_names, self.encoded_types
        if info.feature_weights is not None:
            weights = info.feature_weights
            encoded.feature_weights = np.array([weights[list(s)].mean() for s in self.sources], np.float32)
        return encoded

    # ---- values ----

    def encode(self, data: "DMatrix | RawData") -> np.ndarray:
        """(n, n_encoded) float32: the data's columns with the statistics of all training rows."""
        n_rows, n_columns = _shape(data)
        if n_columns != self.n_columns:
            raise ValueError(f"Feature shape mismatch, expected: {self.n_columns}, got {n_columns}")
        check_room(
            8 * n_rows * self.n_encoded,  # in training a second time, with other statistics
            f"cat_strategy='ordered_ts' of {n_rows} rows in {self.n_encoded} columns",
            "Its columns lie in memory, wherever the data is: use 'partition', or fewer max_cat_combination.",
        )
        values = np.empty((n_rows, self.n_encoded), np.float32)
        for first, chunk in data.chunks():
            values[first : first + len(chunk), : self.n_columns] = chunk
        codes = self._codes_of(values[:, : self.n_columns])
        ctx = data._ctx if isinstance(data, DMatrix) else Context(n_threads=data.n_threads)
        for group, places in zip(self.groups, self.places(), strict=True):
            found = self._place_of(group, codes.combined(group.features))
            columns = np.empty((len(group.table), n_rows), np.float32)
            absent = np.append(np.repeat(self.priors, len(STRENGTHS)), 0.0).astype(np.float32)
            ctx.run_ranges(n_rows, _GRAIN, ops.look_up, found, group.table, absent, columns)
            values[:, places] = columns.T
        return values

    def places(self) -> list[list[int]]:
        """For every group, which of the new columns hold its statistics and its number of rows."""
        places, last = [], self.n_columns
        for group in self.groups:
            n_more = self._n_more(group)
            own = [group.features[0]] if len(group.features) == 1 else []
            places.append([*own, *range(last, last + n_more)])
            last += n_more
        return places

    def codes(self, data: DMatrix) -> Codes:
        """Codes of the columns that statistics are made of."""
        values = np.empty((data.num_row(), len(self.n_codes)), np.float32)
        features = list(self.n_codes)
        for first, chunk in data.chunks():
            values[first : first + len(chunk)] = chunk[:, features]
        return Codes({f: as_codes(values[:, i], self.n_codes[f]) for i, f in enumerate(features)}, self.n_codes)

    def _codes_of(self, values: np.ndarray) -> Codes:
        return Codes({f: as_codes(values[:, f], n) for f, n in self.n_codes.items()}, self.n_codes)

    @staticmethod
    def _place_of(group: Group, keys: np.ndarray) -> np.ndarray:
        """(n,) int64: the column of the group's table, -1 where training had no such rows."""
        if not len(group.keys):
            return keys
        places = np.minimum(np.searchsorted(group.keys, keys), len(group.keys) - 1)
        return np.where(group.keys[places] == keys, places, -1)


class Plan:
    """What the permutations of one training matrix are made from."""

    def __init__(self, made: TargetStatistics, values: np.ndarray, codes: Codes, targets: Targets, ctx: Context):
        self._made, self._values, self._targets, self._ctx = made, values, targets, ctx
        self._codes = [np.unique(codes.combined(g.features), return_inverse=True)[1] for g in made.groups]

    def order(self, permutation: int) -> np.ndarray:
        """Rows in the order of a permutation, int32."""
        return permuted_rows(self._ctx.seed, permutation, len(self._values))

    def values(self, permutation: int) -> np.ndarray:
        """(n, n_encoded) float32: every row's statistics are those of the rows before it."""
        values, order = self._values.copy(), self.order(permutation)
        groups = list(zip(self._made.groups, self._codes, self._made.places(), strict=True))

        def fill(start: int, stop: int) -> None:
            for _, codes, places in groups[start:stop]:
                _, columns = sum_in_order(codes, order, self._targets)
                values[:, places[:-1]] = columns.T  # the number of rows is known beforehand

        self._ctx.run_ranges(len(groups), 1, fill)
        return values


class PermutedMatrix(DMatrix):
    """A training matrix with as many versions of its statistics as there are permutations; it is the first of them."""

    def begin(self, plan: Plan, n_permutations: int, made_for: tuple) -> None:
        """Remember what other permutations are made from."""
        self._plan, self.n_permutations, self.made_for = plan, n_permutations, made_for

    def permuted(self, permutation: int) -> DMatrix:
        """The same rows with the statistics of another permutation, in the same bins. Not kept."""
        if permutation == 0:
            return self
        twin = DMatrix.__new__(DMatrix)
        twin._begin(DenseData(self._plan.values(permutation)), self._ctx)
        twin.info = self.info
        twin._cuts = self._cuts
        return twin


def permuted_rows(seed: int, permutation: int, n_rows: int) -> np.ndarray:
    """Rows in the order of a permutation, int32: by a hash of their numbers."""
    return rng.permutation(rng.make_key(seed, rng.PERMUTATIONS, permutation), n_rows)


def make_statistics(
    ctx: Context, data: DMatrix, n_classes: int, min_categories: int, max_combination: int
) -> TargetStatistics | None:
    """Statistics of the categorical columns of training data; None where no column is to be replaced.

    Parameters
    ----------
    ctx
        Threads and the seed of the permutations.
    data
        Training data with labels.
    n_classes
        Above 2: one statistic for each class.
    min_categories
        Columns of fewer categories stay as they are.
    max_combination
        Most columns that are combined; 1: none are.
    """
    ctx.refuse_workers("cat_strategy='ordered_ts'", "its sums go through all rows in turn. Use 'partition'.")
    if isinstance(data, QuantileDMatrix):
        raise XGBoostError(
            "cat_strategy='ordered_ts' needs the data's values, of which a QuantileDMatrix keeps bins: use DMatrix."
        )
    types = data.feature_types or []
    columns = [f for f, kind in enumerate(types) if kind == "c"]
    if not columns:
        return None
    values = np.empty((data.num_row(), len(columns)), np.float32)
    for first, chunk in data.chunks():
        values[first : first + len(chunk)] = chunk[:, columns]
    n_codes = {f: _count_codes(data, f, values[:, i]) + 1 for i, f in enumerate(columns)}
    targets = make_targets(data.info, n_classes)
    codes = Codes({f: as_codes(values[:, i], n_codes[f]) for i, f in enumerate(columns)}, n_codes)
    singles: list[tuple[int, ...]] = [(f,) for f in columns if n_codes[f] > min_categories]  # one code is for missing
    if not singles:
        return None
    combined = find_combinations(ctx, codes, targets.label, singles, max_combination, MAX_KEYS)
    made = TargetStatistics(data.num_col(), n_codes, [], targets.priors, data.feature_names, data.feature_types)
    order = np.arange(data.num_row(), dtype=np.int32)
    made.groups = [_make_group(codes, features, order, targets) for features in [*singles, *combined]]
    return made


def _make_group(codes: Codes, features: tuple[int, ...], order: np.ndarray, targets: Targets) -> Group:
    """The statistics of a column or combination from all rows."""
    own = codes.combined(features)
    keys, n_keys = np.zeros(0, np.int64), codes.n_codes[features[0]]
    if len(features) > 1:
        keys, own = np.unique(own, return_inverse=True)
        n_keys = len(keys)
    sums, _ = sum_in_order(own, order, targets, n_keys, write=False)
    total, seen = sums[:, 0] * targets.units[0], sums[:, 1] * targets.units[1]
    strengths = np.asarray(STRENGTHS)[None, :, None]
    values = (total[:, None] + strengths * targets.priors[:, None, None]) / (seen[:, None] + strengths)
    counts = np.bincount(own, minlength=n_keys)[None]
    table = np.concatenate([values.reshape(-1, n_keys), counts]).astype(np.float32)
    return Group(features, keys, np.ascontiguousarray(table))


def sum_in_order(
    codes: np.ndarray, order: np.ndarray, targets: Targets, n_codes: int = 0, write: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """(sums of all rows, statistics of every row from those before it in `order`)."""
    n_targets, n_rows = targets.label.shape
    sums = np.zeros((n_targets, 2, n_codes or int(codes.max(initial=-1)) + 1), np.int64)
    out = np.empty((n_targets * len(STRENGTHS) if write else 0, n_rows), np.float32)
    weights = (targets.units, targets.priors, np.array(STRENGTHS))
    ops.add_in_order(codes.astype(np.int32), order, targets.label, targets.weight, *weights, sums, out, 0, n_targets)
    return sums, out


def make_targets(info: MetaInfo, n_classes: int) -> Targets:
    """Labels and weights in fixed point."""
    label, weight = info.label, info.row_weight()
    if label is None or len(label) != info.n_rows or not info.n_rows:
        raise XGBoostError("cat_strategy='ordered_ts' needs a label for every row: pass label= to DMatrix.")
    if n_classes > 2:
        values = (label.reshape(-1)[None] == np.arange(n_classes)[:, None]).astype(np.float64)
    else:
        values = np.atleast_2d(label.T).astype(np.float64)
    if np.isnan(values).any():
        raise XGBoostError("cat_strategy='ordered_ts' needs a label of every target for every row.")
    weights, w_unit = np.ones(1, np.int64), 1.0
    if weight is not None and (weight != weight[0]).any():
        weights, w_unit = fixed_point(weight.astype(np.float64))
        values = values * (weights * w_unit)
    labels, unit = fixed_point(values)
    total = float(weights.sum()) * w_unit if len(weights) > 1 else float(info.n_rows)
    priors = labels.sum(axis=1) * unit / total if total > 0.0 else np.zeros(len(labels))
    return Targets(labels, weights, np.array([unit, w_unit]), priors)


def fixed_point(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Numbers as int64 multiples of a power of two, and that power: no sum of a row of them overflows."""
    largest = float(np.abs(values).max(initial=0.0))
    bits = int(np.frexp(largest)[1]) + int(values.shape[-1]).bit_length()
    return np.rint(np.ldexp(values, 62 - bits)).astype(np.int64), float(np.ldexp(1.0, bits - 62))


def as_codes(values: np.ndarray, n_codes: int) -> np.ndarray:
    """int64 codes of a column of category codes: missing is the last one, what lies beyond is -1."""
    is_missing = np.isnan(values)
    codes = np.where(is_missing, n_codes - 1, values).astype(np.int64)
    return np.where(~is_missing & ((codes < 0) | (codes >= n_codes - 1)), -1, codes)


def _count_codes(data: DMatrix, f: int, values: np.ndarray) -> int:
    """Codes that a column may have: its categories, or those up to the largest that occurs."""
    categories: Categories | None = data.categories
    known = 0 if categories is None or categories.values[f] is None else len(categories.values[f])  # type: ignore[arg-type]
    present = values[~np.isnan(values)]
    return max(known, int(present.max(initial=-1.0)) + 1)


def _same_number(a: Any, b: Any) -> bool:
    return isinstance(a, int) and a == b


def _shape(data: "DMatrix | RawData") -> tuple[int, int]:
    return (data.num_row(), data.num_col()) if isinstance(data, DMatrix) else (data.n_rows, data.n_features)
