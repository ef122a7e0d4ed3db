"""Linear leaves: a ridge fit of few features in each leaf of a grown tree (de Vito 2017; LightGBM's `linear_tree`).

With the features centred on their means, weighted by h, the constant of the fit is the leaf's weight as it stands, and
the linear part is a fit of its own: w minimises sum g w.d + h (w.d)^2 / 2 and a penalty, d = x - mean. Its loss is
never above that of the constant. Sums are integers (kernels of round/leaf_fit.py), so that neither threads, pages nor
workers can change them; what comes after is float64, element by element, in one order.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from arboost.kernels.dtypes import LINEAR_TERM
from arboost.kernels.ops import leaf_fit as ops
from arboost.levels.quantize import QuantizedGradients
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.tree.model import Tree

MAX_FEATURES = 8
LEAST_ROWS = 2  # for every number that is fitted
_PIECE_GRAIN = 8192
_SUM_BITS = 62
_MAX_BITS = 29  # of an integer: with the sign it fits an int32
_LEAST_PIVOT = 1e-7  # part of a feature's variance that those before it must leave to it
_LEAST_VARIANCE = 1e-12  # of a feature, as part of its square: less is the rounding of its integers
_FLOAT32_MAX = float(np.finfo(np.float32).max)

Chunks = Callable[[], Iterable[tuple[int, np.ndarray]]]


class LeafRows(NamedTuple):
    """Rows of leaves, as a level engine tells them."""

    leaves: np.ndarray  # their nodes
    rows: np.ndarray  # one leaf after the other, ascending in each
    ptr: np.ndarray  # where each leaf's begin


class _Gathered(NamedTuple):
    """What leaves need of a chunk of rows, in the order of leaves: kernels of round/leaf_fit.py."""

    pieces: np.ndarray
    values: np.ndarray  # float32


class _Ranges(NamedTuple):
    """What is known of every leaf before sums are made, over all workers."""

    low: np.ndarray  # (n_leaves, K) float64
    high: np.ndarray
    top_g: np.ndarray  # (n_leaves,) largest |g| and |h| in quanta
    top_h: np.ndarray
    n_rows: np.ndarray  # rows that have all of the leaf's features


@dataclass(frozen=True)
class FittedLeaves:
    """The terms of a tree's leaves, and the values that they were fitted to."""

    terms: np.ndarray  # LINEAR_TERM, weights times eta
    _columns: np.ndarray  # where each term's feature stands among its leaf's
    _found: LeafRows
    _chunks: list[_Gathered]

    def add_values(self, ctx: Context, leaf_values: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += what the leaves give their rows: the bits that prediction adds."""
        found = self._found
        term_ptr = np.searchsorted(self.terms["node"], np.append(found.leaves, np.iinfo(np.int32).max))
        of_leaves = (leaf_values, self.terms, self._columns, term_ptr)
        for pieces, values in self._chunks:
            ctx.run_ranges(len(pieces), 1, ops.add_values, pieces, found.rows, values, *of_leaves, margin, target)


def fit_leaves(
    ctx: Context,
    tree: Tree,
    found: LeafRows,
    chunks: Chunks,
    gradients: QuantizedGradients,
    params: TreeParams,
    eta: np.float32,
) -> FittedLeaves:
    """The terms of the tree's leaves; a leaf that nothing is gained in has none."""
    features = path_features(tree, found.leaves, MAX_FEATURES)
    n_used = (features >= 0).sum(axis=1)
    features = np.ascontiguousarray(features[:, : max(1, int(n_used.max()))])  # others would be zeros in every sum
    gathered, ranges = _gather(ctx, features, n_used, found, chunks, gradients)
    bits = np.array([min(_MAX_BITS, (_SUM_BITS - int(n).bit_length()) // 2) for n in ranges.n_rows], np.int64)
    middles, scales = _scales(ranges, bits)
    sums = _sum_products(ctx, (n_used, middles, scales), found, gathered, gradients)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        means, weights = _solve(sums, middles, scales, bits, gradients, params.linear_lambda)
        constant = tree.threshold[found.leaves].astype(np.float64) / float(eta)
        weights = _bound(weights, means, ranges, constant, params.max_delta_step) * float(eta)
        weights[ranges.n_rows < LEAST_ROWS * (n_used + 1)] = 0.0
        return FittedLeaves(*_terms(found.leaves, features, weights, means, ranges), found, gathered)


def path_features(tree: Tree, leaves: np.ndarray, most: int) -> np.ndarray:
    """(n_leaves, most) int32: the numerical features above each leaf, nearest first, then -1."""
    found = np.full((len(leaves), most), -1, np.int32)
    n_found = np.zeros(len(leaves), np.int64)
    is_category = np.zeros(tree.n_nodes, np.bool_)
    is_category[tree.categories_nodes] = True
    nodes, at = tree.parent[leaves].astype(np.int64), np.arange(len(leaves))
    while True:
        inside = nodes < tree.n_nodes  # above the root there is no node
        inside &= n_found[at] < most
        nodes, at = nodes[inside], at[inside]
        if not len(nodes):
            return found
        feature = tree.feature[nodes]
        new = ~is_category[nodes] & (found[at] != feature[:, None]).all(axis=1)
        found[at[new], n_found[at[new]]] = feature[new]
        n_found[at[new]] += 1
        nodes = tree.parent[nodes].astype(np.int64)


def _pieces(found: LeafRows, n_used: np.ndarray, first_row: int, n_rows: int) -> tuple[np.ndarray, int]:
    """(n, 4) int64 [leaf, start, stop, place]: the leaves' rows among n_rows from first_row on, in spans of
    `found.rows`, and where their values begin; then how many values there are."""
    # by the last row's number: of a sample there may be fewer rows than a chunk has, and yet some beyond it
    is_part = first_row > 0 or found.rows.max(initial=-1) >= n_rows
    if not is_part and np.diff(found.ptr).max(initial=0) <= _PIECE_GRAIN:  # a piece a leaf that has rows
        ends = np.cumsum(np.diff(found.ptr) * n_used)
        places = np.append(0, ends)[:-1]
        whole = np.column_stack([np.arange(len(found.leaves)), found.ptr[:-1], found.ptr[1:], places])
        return whole[whole[:, 1] < whole[:, 2]], int(ends[-1])
    pieces, place = [], 0
    spans = zip(found.ptr[:-1].tolist(), found.ptr[1:].tolist(), n_used.tolist(), strict=True)
    for leaf, (start, stop, width) in enumerate(spans):
        if is_part:
            start, stop = start + np.searchsorted(found.rows[start:stop], [first_row, first_row + n_rows])
        cuts = [*range(int(start), int(stop), _PIECE_GRAIN), int(stop)]
        pieces += [(leaf, a, b, place + (a - start) * width) for a, b in itertools.pairwise(cuts)]
        place += int(stop - start) * width
    return np.array(pieces, np.int64).reshape(-1, 4), place


def _gather(
    ctx: Context,
    features: np.ndarray,
    n_used: np.ndarray,
    found: LeafRows,
    chunks: Chunks,
    gradients: QuantizedGradients,
) -> tuple[list[_Gathered], _Ranges]:
    """The values of all leaves' rows, and their ranges."""
    n_leaves, k = features.shape
    planes, shift = gradients.planes, int(gradients.packings[0, 0])
    ends = np.full((n_leaves, 2, k), -np.inf)  # the least values are kept with their signs changed
    tops, count, gathered = np.zeros((n_leaves, 2), np.int64), np.zeros(n_leaves, np.int64), []
    for first, values in chunks():
        pieces, n_values = _pieces(found, n_used, first, len(values))
        ranges = np.empty((len(pieces), 2, k), np.float32)
        ranges[:, 0], ranges[:, 1] = np.inf, -np.inf
        top, packed = np.zeros((len(pieces), 3), np.int64), np.empty(n_values, np.float32)
        args = (pieces, found.rows, values, first, (features, n_used), planes, shift)
        ctx.run_ranges(len(pieces), 1, ops.gather, *args, (packed, packed.view(np.int32)), ranges, top)
        gathered.append(_Gathered(pieces, packed))
        leaf = pieces[:, 0]
        ranges[:, 0] *= -1
        np.maximum.at(ends, leaf, ranges)
        np.maximum.at(tops, leaf, top[:, :2])
        np.add.at(count, leaf, top[:, 2])
    ends, tops = ctx.comm.allreduce_max(ends), ctx.comm.allreduce_max(tops)
    return gathered, _Ranges(-ends[:, 0], ends[:, 1], tops[:, 0], tops[:, 1], ctx.comm.allreduce_sum(count))


def _scales(ranges: _Ranges, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middles (n_leaves, K) and scales (n_leaves, K + 3) of what becomes integers of so many bits."""
    largest = np.ldexp(1.0, bits)[:, None]
    known = np.isfinite(ranges.low) & (ranges.high > ranges.low)
    half = np.where(known, ranges.high - ranges.low, 2.0) / 2
    middles = np.where(known, ranges.low + half, 0.0)
    of_features = np.where(known, largest / half, 0.0)
    of_h, of_g = (largest[:, 0] / np.maximum(top, 1) for top in (ranges.top_h, ranges.top_g))
    return middles, np.column_stack([of_features, of_h, of_g, 1 / largest])


def _sum_products(
    ctx: Context,
    leaves: tuple[np.ndarray, ...],
    found: LeafRows,
    gathered: list[_Gathered],
    gradients: QuantizedGradients,
) -> np.ndarray:
    """(n_leaves, n_sums) int64, of all workers."""
    n_leaves, k = leaves[1].shape
    planes, shift = gradients.planes, int(gradients.packings[0, 0])
    sums = np.zeros((n_leaves, 2 + 2 * k + k * (k + 1) // 2), np.int64)
    for pieces, values in gathered:
        parts = np.zeros((len(pieces), sums.shape[1]), np.int64)
        args = (pieces, found.rows, values, leaves, planes, shift, parts)
        ctx.run_ranges(len(pieces), 1, ops.sum_products, *args)
        np.add.at(sums, pieces[:, 0], parts)
    return ctx.comm.allreduce_sum(sums)


def _solve(
    sums: np.ndarray,
    middles: np.ndarray,
    scales: np.ndarray,
    bits: np.ndarray,
    gradients: QuantizedGradients,
    linear_lambda: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(means, weights), (n_leaves, K) float64: the ridge fit of every leaf.

    Features are scaled to variance 1 for it, so `linear_lambda` is to their weights what `reg_lambda` is to a leaf's.
    """
    k = middles.shape[1]
    rows, columns = np.tril_indices(k)
    h_unit, g_unit = gradients.h_unit / scales[:, k], gradients.g_unit / scales[:, k + 1]
    hz_unit = np.ldexp(h_unit, bits)[:, None]
    h, g = (sums[:, 0] * h_unit)[:, None], (sums[:, 1] * g_unit)[:, None]
    mean = sums[:, 2 : 2 + k] * hz_unit / h
    b = mean * g - sums[:, 2 + k : 2 + 2 * k] * g_unit[:, None]
    whole = sums[:, 2 + 2 * k :] * hz_unit
    a = np.zeros((len(sums), k, k))
    a[:, rows, columns] = whole - mean[:, rows] * mean[:, columns] * h
    diagonal = a[:, range(k), range(k)]
    useful = (h > 0) & (diagonal > _LEAST_VARIANCE * whole[:, rows == columns])
    norm = np.where(useful, 1 / np.sqrt(diagonal), 0.0)
    a = np.where(useful[:, :, None] & useful[:, None, :], a * norm[:, :, None] * norm[:, None, :], 0.0)
    a[:, range(k), range(k)] = np.where(useful, 1 + linear_lambda / h, 1.0)
    weights = _solve_systems(a, np.where(useful, b * norm, 0.0))
    means = np.where(useful, middles + mean / scales[:, :k], 0.0)
    return means, weights * norm * scales[:, :k]


def _solve_systems(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of a x = b for many symmetric a (n, K, K), of which the lower half is read; a and b are used up.

    A variable that those before it determine nearly is 0.
    """
    k = b.shape[1]
    pivots = np.ones_like(b)
    for j in range(k):  # a = L D L', column by column
        sound = a[:, j, j] > _LEAST_PIVOT
        pivots[:, j] = np.where(sound, a[:, j, j], 1.0)
        b[:, j] = np.where(sound, b[:, j], 0.0)
        below = np.where(sound[:, None], a[:, j + 1 :, j], 0.0)
        share = below / pivots[:, j, None]
        a[:, j + 1 :, j + 1 :] -= share[:, :, None] * below[:, None, :]
        b[:, j + 1 :] -= share * b[:, j, None]
        a[:, j + 1 :, j] = share
    x = b / pivots
    for j in range(k - 1, 0, -1):
        x[:, :j] -= a[:, j, :j] * x[:, j, None]
    return x


def _bound(
    weights: np.ndarray, means: np.ndarray, ranges: _Ranges, constant: np.ndarray, max_delta_step: float
) -> np.ndarray:
    """Weights such that no value of a leaf exceeds `max_delta_step`, if there is one: less of the same step."""
    if not max_delta_step:
        return weights
    reach = np.maximum(ranges.high - means, means - ranges.low)
    most = np.where(weights != 0, np.abs(weights) * reach, 0.0).sum(axis=1)
    room = np.maximum(max_delta_step - np.abs(constant), 0.0)
    return weights * np.where(most > room, room / most, 1.0)[:, None]


def _terms(
    leaves: np.ndarray, features: np.ndarray, weights: np.ndarray, means: np.ndarray, ranges: _Ranges
) -> tuple[np.ndarray, np.ndarray]:
    """LINEAR_TERM records, in the order of nodes, and the places of their features among those of their leaves.

    A leaf whose numbers are too large for float32 gets none.
    """
    sound = (np.abs(weights) < _FLOAT32_MAX) & (np.abs(means) < _FLOAT32_MAX)
    kept = (weights != 0) & (features >= 0) & sound.all(axis=1)[:, None]
    at, column = np.nonzero(kept)
    order = np.argsort(leaves[at], kind="stable")
    at, column = at[order], column[order]
    terms = np.zeros(len(at), LINEAR_TERM)
    terms["node"], terms["feature"] = leaves[at], features[at, column]
    for name, values in (("weight", weights), ("mean", means), ("low", ranges.low), ("high", ranges.high)):
        terms[name] = values[at, column]
    return terms, column
