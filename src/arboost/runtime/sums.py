"""Sums over the rows of all workers that do not depend on any order: exact, rounded once at the end.

The integers that are added up are the accumulators of `ops.sums`; threads and workers merge them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from arboost.kernels.ops import sums
from arboost.runtime.context import Context

_GRAIN = 16384  # rows below which a second thread does not pay
_BLOCK = 8192  # rows whose values are made and added while they stay in the cache


def sum_rows(ctx: Context, n_rows: int, weight: np.ndarray | None, fill: Callable, *args: Any) -> float:
    """The exact sum over rows of weight[i] * v[i], where fill(*args, v, start, stop) makes v[start:stop].

    Parameters
    ----------
    ctx
        Context: its threads share the rows, its communicator adds the accumulators of all workers.
    n_rows
        Rows of this worker.
    weight
        One per row, or None for 1. The products are rounded to float64, then summed exactly.
    fill
        A kernel or NumPy function that writes the values of rows start to stop into v[0 : stop - start] (float64).
    """
    acc = sum(ctx.run_ranges(n_rows, _GRAIN, _sum_span, weight, fill, args))
    return sums.round_sum(ctx.comm.allreduce_sum(acc))


def _sum_span(weight: np.ndarray | None, fill: Callable, args: tuple, start: int, stop: int) -> np.ndarray:
    """The accumulator of one span of rows, block by block."""
    acc = np.zeros(sums.N_SLOTS, np.int64)
    values = np.empty(min(_BLOCK, stop - start), np.float64)
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        fill(*args, values, first, last)
        block = values[: last - first]
        if weight is not None:
            np.multiply(block, weight[first:last], out=block)
        sums.add_values(block, acc, 0, last - first)
    return acc


def sum_of(add: Callable, *args: Any) -> float:
    """The exact sum of what a kernel add(*args, acc, start, stop) adds up for all rows of its first argument."""
    acc = np.zeros(sums.N_SLOTS, np.int64)
    add(*args, acc, 0, len(args[0]))
    return sums.round_sum(acc)


def _copy_values(source: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    values[: stop - start] = source[start:stop]


def exact_sum(ctx: Context, values: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The sum of a vector (times weights), the same for any number of threads and workers."""
    return sum_rows(ctx, len(values), weight, _copy_values, values)


def count_rows(ctx: Context, n_rows: int) -> int:
    """Rows of all workers."""
    return int(ctx.comm.allreduce_sum(np.array([n_rows], np.int64))[0])


def sum_weights(ctx: Context, n_rows: int, weight: np.ndarray | None) -> float:
    """Total weight of all workers' rows; without weights, their number."""
    return float(count_rows(ctx, n_rows)) if weight is None else exact_sum(ctx, weight)


def fixed_point_weights(ctx: Context, n_rows: int, weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights rounded to int64 multiples of a power of two, and that power: 2**-42 of the largest at a million rows.

    The unit depends on the largest weight and the number of rows only, and is chosen so that the sum of all
    weights fits: sums of these integers are free of order.
    """
    largest = float(ctx.comm.allreduce_max(np.array([weight.max(initial=0.0)], np.float64))[0])
    total_bits = math.frexp(largest)[1] + max(count_rows(ctx, n_rows), 1).bit_length()
    exponent = total_bits - 62
    return np.rint(np.ldexp(weight.astype(np.float64), -exponent)).astype(np.int64), math.ldexp(1.0, exponent)
