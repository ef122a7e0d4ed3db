"""What weights for several targets in a leaf add to a growing tree: gradients, and sums beside the nodes.

A node's histogram has planes for every target, and the gain of a split is the sum over targets
(kernels/cpu/grow/search_vectors.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from arboost.kernels.cpu.grow import arrays
from arboost.levels.quantize import QuantizedGradients, quantize
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context

_GRAIN = 1 << 16  # values of a leaf sum that are worth a thread


@dataclass(frozen=True)
class VectorGradients(QuantizedGradients):
    """Integer gradients of all rows and targets, a stack of every target's planes; units are per target."""

    targets: tuple[QuantizedGradients, ...] = ()

    @property
    def units(self) -> np.ndarray:
        """(K, 2) float64: what one quantum of g and of h is worth."""
        return np.array([(target.g_unit, target.h_unit) for target in self.targets], np.float64)

    @property
    def sources(self) -> np.ndarray:
        """(K, 2) int64: a target's first plane, and the shift that parts g and h in it."""
        n_planes = np.array([len(target.planes) for target in self.targets])
        shifts = [int(target.packings[0, 0]) for target in self.targets]
        return np.column_stack([np.cumsum(n_planes) - n_planes, shifts]).astype(np.int64)

    def take(self, rows: np.ndarray) -> "VectorGradients":
        """Those of `rows` alone, in their order."""
        planes = np.take(self.planes, rows, axis=1)
        ends = np.cumsum([len(target.planes) for target in self.targets]).tolist()
        own = zip(self.targets, [0, *ends], ends, strict=False)
        targets = tuple(replace(target, planes=planes[a:b], sums=None) for target, a, b in own)
        return replace(self, planes=planes, targets=targets)

    def totals(self, ctx: Context, rows: np.ndarray | None) -> np.ndarray:
        """(2 * K,) int64: the sums over `rows` (None: all rows)."""
        return np.array([target.total(ctx, rows) for target in self.targets], np.int64).ravel()

    def totals_of_leaves(self, ctx: Context, rows: np.ndarray, leaf_ptr: np.ndarray) -> np.ndarray:
        """(n_leaves, 2 * K) int64: `totals` of rows[leaf_ptr[i]:leaf_ptr[i + 1]] for each i."""
        sums = np.zeros((len(leaf_ptr) - 1, 2 * len(self.targets)), np.int64)
        has_rows = leaf_ptr[1:] > leaf_ptr[:-1]
        if len(rows):
            args = self.targets, rows, leaf_ptr[:-1][has_rows], has_rows, sums
            ctx.run_ranges(len(self.targets), max(1, _GRAIN // len(rows)), _sum_leaves, *args)
        return np.asarray(ctx.comm.allreduce_sum(sums.ravel())).reshape(sums.shape)


def _sum_leaves(
    targets: Sequence[QuantizedGradients],
    rows: np.ndarray,
    firsts: np.ndarray,
    has_rows: np.ndarray,
    sums: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Sums (OUT) of a range of targets; each leaf begins at its place in `rows`, where the one before ends."""
    for k in range(start, stop):
        planes, shift = targets[k].planes, int(targets[k].packings[0, 0])
        if shift:
            packed = planes[0][rows]
            pair = packed >> shift, packed & ((1 << shift) - 1)
        else:
            pair = planes[0][rows], planes[1][rows]
        for i, values in enumerate(pair):
            sums[has_rows, 2 * k + i] = np.add.reduceat(values, firsts)


def quantize_targets(ctx: Context, g: np.ndarray, h: np.ndarray, room: np.ndarray) -> VectorGradients:
    """Integers for float32 gradients (K, n), each target with a scale of its own; `room` (K, n) int64 lends memory."""
    targets = tuple(quantize(ctx, *arrays) for arrays in zip(g, h, room, strict=True))
    packings = np.concatenate([target.packings for target in targets])
    packings[:, 1] += np.repeat(2 * np.arange(len(targets)), [len(target.planes) for target in targets])
    all_packed = len(packings) == len(targets)
    planes = room if all_packed else np.concatenate([target.planes for target in targets])
    return VectorGradients(planes, packings, 1.0, 1.0, targets=targets)


def weight_arrays(gradients: VectorGradients, sums: np.ndarray) -> tuple:
    """What the kernels call extra, for finishing a tree whose nodes have these sums."""
    nothing = np.zeros((0, 2, 0), np.float64)
    return tuple(arrays.Vectors(sums, sums, gradients.units, gradients.sources, nothing, nothing.view(np.int64)))


class VectorSums:
    """Sums of every node and target."""

    def __init__(self, ctx: Context, page: BinnedPage, n_targets: int):
        self.n_targets = n_targets
        self._sums, self._left_sums = np.zeros((2, 1, 2 * n_targets), np.int64)
        scores = np.empty((ctx.n_threads, 2, int(page.n_bins.max(initial=0)) + 1), np.float64)
        self._scratch = (scores, scores.view(np.int64))
        self._units, self._sources = np.zeros((n_targets, 2)), np.zeros((n_targets, 2), np.int64)

    def start(self, ctx: Context, gradients: QuantizedGradients, rows: np.ndarray | None) -> int:
        """The root's sums over `rows` (None: all rows); returns that of all hessians."""
        assert isinstance(gradients, VectorGradients)
        self._units, self._sources = gradients.units, gradients.sources
        self._sums[0] = gradients.totals(ctx, rows)
        return int(self._sums[0, 1::2].sum())

    def means(self, ids: np.ndarray) -> np.ndarray:
        """(n, K) minus the gradients over the hessians of nodes."""
        sums = self._sums[ids].reshape(len(ids), self.n_targets, 2) * self._units
        return -sums[:, :, 0] / sums[:, :, 1]

    def arrays(self, n_nodes: int) -> tuple:
        """What the kernels call extra, with room for so many nodes."""
        n_more = n_nodes - len(self._sums)
        if n_more > 0:
            more = np.zeros((n_more, self._sums.shape[1]), np.int64)
            self._sums, self._left_sums = (np.concatenate([sums, more]) for sums in (self._sums, self._left_sums))
        return tuple(arrays.Vectors(self._sums, self._left_sums, self._units, self._sources, *self._scratch))
