"""Gradients of one tree as integers, and how they are packed.

Scales come from maxima, so they do not depend on the order of rows, threads or workers, and are powers of two, so
de-quantising is exact. Usually gradient and hessian share one int64; where the gradients' range is so wide that
typical ones would lose their digits, or a hessian is negative, each gets an int64 plane of its own.
"""

from dataclasses import dataclass, replace
from math import frexp, isfinite, ldexp
from struct import pack, unpack
from typing import Any, Protocol

import numpy as np

from arboost.kernels.cpu.round import quantize as ops
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

PACKED_ROWS = 8192  # rows added in packed form between two flushes: 18 + 17 bits stay for h and g
# Packed gradients must keep their digits. The mean |g| and h, huge ones cut off, must be at least
FINE_BITS = 16  # 2**16 quanta: rounding then costs a typical one less than 1e-5 of itself; or, less strictly,
RANGE_BITS = 7  # 1/128 of what fits (1024 quanta, 5e-4). Else fewer rows are added up between two flushes,
FEWER_ROWS = 1024  # so that gradients may be 8 times as wide; or each gets a plane of its own, which is slower;
SMALL_RANGE_BITS = 4  # fewer rows than PACKED_ROWS can afford that, so for them 1/16
PLANE_BITS = 40
NOT_FINITE = (
    "The objective gave a gradient or hessian that is NaN or infinite. Check labels, weights, base_margin and, for a "
    "custom objective, its result; a smaller learning_rate or max_delta_step may help."
)
_GRAIN = 65_536
_NO_ROWS = np.zeros(0, np.int32)


@dataclass(frozen=True)
class QuantizedGradients:
    """Integer gradients of all rows: one or two planes to add up."""

    planes: np.ndarray  # (n_planes, n_rows) int64
    packings: np.ndarray  # (n_planes, 3): shift, plane of the histogram, rows that may be added up packed
    g_unit: float
    h_unit: float
    sums: tuple[int, int] | None = None  # of all workers' rows, where packing has added them up already
    counts_rows: bool = False  # whether hessians do: all are one quantum

    def with_counts(self) -> "QuantizedGradients":
        """The same with a plane more, for the histogram's third: 1 for every row that weighs anything."""
        weighs = np.bitwise_or.reduce(self.planes, axis=0) != 0
        packings = np.concatenate([self.packings, [[0, 2, max(1, len(weighs))]]])
        return replace(self, planes=np.concatenate([self.planes, weighs[None].astype(np.int64)]), packings=packings)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """What the kernels call gradients."""
        return self.planes, self.packings

    def only(self, rows: np.ndarray) -> "QuantizedGradients":
        """The same for `rows`, zero for all others."""
        planes = np.zeros_like(self.planes)
        planes[:, rows] = self.planes[:, rows]
        return replace(self, planes=planes, sums=None)

    def take(self, rows: np.ndarray) -> "QuantizedGradients":
        """Those of `rows` alone, in their order."""
        return replace(self, planes=np.take(self.planes, rows, axis=1), sums=None)

    def total(self, ctx: Context, rows: np.ndarray | None) -> tuple[int, int]:
        """Integer sums (g, h) over `rows` (None: all rows) of all workers."""
        if self.sums is not None and rows is None:
            return self.sums
        every, n = rows is None, self.planes.shape[1] if rows is None else len(rows)
        ids, shift = _NO_ROWS if rows is None else rows, int(self.packings[0, 0])
        if shift:
            parts = ctx.run_ranges(n, _GRAIN, ops.sum_packed, self.planes[0], ids, every, shift)
            sums = [sum(p[0] for p in parts), sum(p[1] for p in parts)]
        else:
            sums = [sum(ctx.run_ranges(n, _GRAIN, ops.sum_values, plane, ids, every)) for plane in self.planes]
        g, h = ctx.comm.allreduce_sum(np.array(sums, np.int64))
        return int(g), int(h)


class GradientRows(Protocol):
    """Float32 gradients and hessians of the rows of this process, wherever they are."""

    n: int

    def bits(self) -> list[int]:
        """(max |g|, max |h|, max of |h|'s complement, any h < 0), on the floats' bits."""

    def pack(self, scales: list[float], shift: int) -> tuple[Any, list[int]]:
        """Both in one int64: a plane, and (digits of g, of h, sum of g, of h) in quanta."""

    def scale(self, g_scale: float, h_scale: float) -> Any:
        """One int64 each: two planes."""

    def make(self, planes: Any, packings: np.ndarray, *units: Any) -> QuantizedGradients:
        """Planes as the gradients of a tree."""


class HostRows:
    """Gradients in the memory of the host; `room` (n,) int64 may lend memory for a plane."""

    def __init__(self, ctx: Context, g: np.ndarray, h: np.ndarray, room: np.ndarray | None = None):
        self._ctx, self._g, self._h, self.n = ctx, g, h, len(g)
        self._room = np.empty(self.n, np.int64) if room is None else room

    def bits(self) -> list[int]:
        bits = self._g.view(np.uint32), self._h.view(np.uint32)
        parts = self._ctx.run_ranges(self.n, _GRAIN, ops.gradient_bits, *bits)
        return [max(values) for values in zip(*parts, strict=True)]

    def pack(self, scales: list[float], shift: int) -> tuple[np.ndarray, list[int]]:
        args = self._g, self._h, np.array(scales), shift, self._room
        parts = self._ctx.run_ranges(self.n, _GRAIN, ops.pack_gradients, *args)
        return self._room[None, :], [sum(terms) for terms in zip(*parts, strict=True)]

    def scale(self, g_scale: float, h_scale: float) -> np.ndarray:
        planes = np.empty((2, self.n), np.int64)
        for x, scale, plane in zip((self._g, self._h), (g_scale, h_scale), planes, strict=True):
            self._ctx.run_ranges(self.n, _GRAIN, ops.scale_plane, x, scale, plane)
        return planes

    def make(self, planes: np.ndarray, packings: np.ndarray, *units: Any) -> QuantizedGradients:
        return QuantizedGradients(planes, packings, *units)


def quantize(ctx: Context, g: np.ndarray, h: np.ndarray, room: np.ndarray | None = None) -> QuantizedGradients:
    """Integers for float32 gradients g and hessians h of all rows; `room` (n,) int64 may lend memory for them."""
    return quantize_rows(ctx, HostRows(ctx, g, h, room))


def quantize_rows(ctx: Context, rows: GradientRows) -> QuantizedGradients:
    """Integers for the gradients of all workers' rows."""
    # min |h| comes as the maximum of its complement, so that one all-reduce serves all four
    found = ctx.comm.allreduce_max(np.array(rows.bits(), np.int64)).tolist()
    max_g, max_h, min_h = (_float_of_bits(b) for b in (found[0], found[1], ~found[2] & 0x7FFFFFFF))
    if not (isfinite(max_g) and isfinite(max_h)):
        raise XGBoostError(NOT_FINITE)
    n_total = int(ctx.comm.allreduce_sum(np.array([rows.n], np.int64))[0])
    if not found[3]:
        for n_block in (PACKED_ROWS, FEWER_ROWS) if n_total > PACKED_ROWS else (n_total,):
            packed = _pack(ctx, rows, n_total, n_block, max_g, max_h, min_h)
            if packed is not None:
                return packed
    return _planes(rows, n_total, max_g, max_h)


def _float_of_bits(bits: int) -> float:
    """The float32 of these 32 bits."""
    value: float = unpack("f", pack("I", bits))[0]
    return value


def _scale(largest: float, limit_bits: int) -> float:
    """The largest power of two that keeps largest * scale below 2**limit_bits."""
    return ldexp(1.0, limit_bits - frexp(largest)[1]) if largest > 0.0 else 1.0


def _pack(
    ctx: Context, rows: GradientRows, n_total: int, n_block: int, max_g: float, max_h: float, min_h: float
) -> QuantizedGradients | None:
    """Both in one int64 that n_block rows may share, or None if that would cost digits that matter."""
    block_bits = n_block.bit_length()
    if min_h == max_h:  # equal hessians (squared error without weights) need one quantum each
        shift = block_bits + 1
        h_unit = max_h if max_h > 0.0 else 1.0
        h_scale = 1.0 / h_unit
    else:
        shift = 32
        h_scale = _scale(max_h, shift - block_bits)
        h_unit = 1.0 / h_scale
    g_bits, h_bits = 63 - shift - block_bits, shift - block_bits
    g_scale = _scale(max_g, g_bits)
    spare = RANGE_BITS if n_total >= PACKED_ROWS else SMALL_RANGE_BITS
    if n_block < PACKED_ROWS <= n_total:
        spare += PACKED_ROWS.bit_length() - block_bits  # the same number of quanta, out of more that fit
    need_g, need_h = (2 ** max(0, min(FINE_BITS, bits - spare)) for bits in (g_bits, h_bits))
    planes, own = rows.pack([g_scale, h_scale, 4 * need_g, 4 * need_h], shift)
    sums = ctx.comm.allreduce_sum(np.array(own, np.int64)).tolist()
    fine_h = min_h == max_h or sums[1] >= need_h * n_total
    if not (fine_h and sums[0] >= need_g * n_total):
        return None
    packing = np.array([[shift, 0, n_block]], np.int64)
    is_count = min_h == max_h > 0.0
    return rows.make(planes, packing, 1.0 / g_scale, h_unit, (sums[2], sums[3]), is_count)


def _planes(rows: GradientRows, n_total: int, max_g: float, max_h: float) -> QuantizedGradients:
    """One int64 each: n_total values of PLANE_BITS bits cannot overflow 63."""
    bits = min(PLANE_BITS, 62 - n_total.bit_length())
    g_scale, h_scale = _scale(max_g, bits), _scale(max_h, bits)
    packings = np.array([[0, i, max(n_total, 1)] for i in range(2)], np.int64)
    return rows.make(rows.scale(g_scale, h_scale), packings, 1.0 / g_scale, 1.0 / h_scale)
