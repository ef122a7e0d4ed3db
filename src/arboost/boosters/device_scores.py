"""Metrics on a CUDA device, of matrices whose margins it keeps: exact sums, of which the host reads the accumulators.

What was asked after one round is launched after the next before anybody asks again: behind the weights of the round's
trees, and before the trees of the round to come, which the device grows while the host reads the numbers.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.gpu import binning, curve, margin, metric, sums
from arboost.kernels.gpu.device import Device, Launch
from arboost.kernels.ops import sums as on_host
from arboost.levels.device import DeviceMargin
from arboost.losses.base import Loss
from arboost.matrix.meta import MetaInfo
from arboost.metrics import Metric
from arboost.metrics.base import CurveSum, RowSum
from arboost.runtime.context import Context

_NO_WEIGHTS = np.zeros(0, np.float32)
_ROW_BYTES, _CURVE_BYTES = 8, 48  # of a row: label and weight; weights of both sides, and what the sort needs
_SOFTMAX = ("multi:softprob", "multi:softmax")
_NO_LINK = "no link"


class Scored:
    """A matrix whose margins are on a device, and what its metrics need of it there."""

    def __init__(self, margin: DeviceMargin):
        self.margin = margin
        self.has_last_round = True  # whether the margins hold what the last round added
        self.is_asked = True  # whether it was evaluated since
        self._sums: dict[Metric, _Sum] = {}
        self._targets: tuple[tuple, Any, Any] | None = None

    def sum_of(self, ctx: Context, device: Device, metric: Metric, info: MetaInfo) -> "_Sum":
        """What a metric adds up: made once for these labels and weights."""
        source = (info.label, info.weight, info.group_ptr)
        known = self._sums.get(metric)
        if known is None or not _is_of(known.source, source):
            found = metric.as_sum(ctx, info, self.margin.values.shape[1])
            known = self._sums[metric] = _Sum(source, found, self._sent(device, source, found))
        return known

    def _sent(self, device: Device, source: tuple, found: RowSum | CurveSum | None) -> tuple[Any, ...] | None:
        """Labels and weights on the device; None: it has no kernel for the metric, or no room."""
        n_rows = self.margin.values.shape[0]
        if isinstance(found, CurveSum):
            has_room = _CURVE_BYTES * n_rows < device.free_bytes()
            return (device.upload(found.positive), device.upload(found.negative)) if has_room else None
        if found is None or not metric.has_kernel(found.values):
            return None
        if self._targets is None or not _is_of(self._targets[0], source):
            if _ROW_BYTES * n_rows > device.free_bytes():
                return None
            sent = [device.upload(_NO_WEIGHTS if x is None else x) for x in (found.label, found.weight)]
            self._targets = (source, *sent)
        return self._targets[1:]


class _Sum(NamedTuple):
    """A metric of a matrix."""

    source: tuple  # labels, weights and groups that it was made from
    found: RowSum | CurveSum | None
    sent: tuple[Any, ...] | None  # arrays of `found` on the device; None: it cannot be summed there


def _is_of(source: Sequence, other: Sequence) -> bool:
    return len(source) == len(other) and all(a is b for a, b in zip(source, other, strict=True))


class DeviceScores:
    """Finds metrics of matrices on one device."""

    def __init__(self, ctx: Context, device: Device):
        self._ctx, self._device = ctx, device
        self._batch: _Batch | None = None
        self._room: tuple[Any, ...] = ()  # for curves, which are found one after the other

    def launch_again(self) -> None:
        """Begin with what was asked after the last round, where all of it has the one that was just launched."""
        batch = self._batch
        if batch is not None:
            batch.is_launched = False
            if batch.is_read and all(scored.has_last_round for scored, _ in batch.asked):
                batch.launch()

    def ask(
        self, loss: Loss, metrics: Sequence[Metric], matrices: list[tuple[Scored, MetaInfo]]
    ) -> list[list[float | None]]:
        """The metrics of every matrix; None for what is not summed here."""
        asked = []
        for scored, info in matrices:
            scored.is_asked = True
            asked.append((scored, [scored.sum_of(self._ctx, self._device, m, info) for m in metrics]))
        batch = self._batch
        if batch is None or not batch.is_for(loss, asked):
            batch = self._batch = _Batch(self._device, loss, asked, self._curve_room)
        if not batch.is_launched:
            batch.launch()
        return batch.values()

    def forget(self) -> None:
        """What was launched is of no use: margins have changed since."""
        if self._batch is not None:
            self._batch.is_launched = False

    def _curve_room(self, n_rows: int) -> tuple[Any, ...]:
        """What sorting so many rows needs: kernels/gpu/curve.py."""
        if not self._room or self._room[0].shape[0] < 2 * n_rows:
            device, n_blocks = self._device, self._device.n_blocks
            self._room = (
                device.empty(2 * n_rows, np.uint64), device.empty(2 * n_rows, np.int64),
                device.empty((n_blocks, curve.N_DIGITS), np.int32), device.empty((2, n_blocks), np.int64),
            )  # fmt: skip
        return self._room


class _Batch:
    """All that is asked after a round: launches, and where their sums go."""

    def __init__(self, device: Device, loss: Loss, asked: list[tuple[Scored, list[_Sum]]], curve_room: Any):
        self._device, self.asked = device, asked
        self.is_launched = self.is_read = False
        link = self._link = _link_of(loss)
        self._wanted = [
            [one.found if one.sent is not None and link != _NO_LINK else None for one in found] for _, found in asked
        ]
        n_sums = sum(found is not None for row in self._wanted for found in row)
        self._launches: list[Launch] = []
        if not n_sums:
            return
        shape = (n_sums, on_host.N_SLOTS)
        self._there, self._here = device.empty(shape, np.int64), device.pinned(shape, np.int64)
        self._arrived = device.make_event()
        flat = self._there.reshape(n_sums * on_host.N_SLOTS)
        self._launches.append(device.prepare(binning.clear, device.n_processors, flat))
        at = 0
        for (scored, found), wanted in zip(asked, self._wanted, strict=True):
            predictions = self._predictions(scored.margin.values, link) if any(wanted) else None
            for one, is_wanted in zip(found, wanted, strict=True):
                if is_wanted is not None:
                    assert one.sent is not None
                    self._launches.append(self._adding(predictions, is_wanted, one.sent, self._there[at], curve_room))
                    at += 1

    def is_for(self, loss: Loss, asked: list[tuple[Scored, list[_Sum]]]) -> bool:
        """Whether this is what is asked."""
        return (
            _link_of(loss) == self._link
            and len(asked) == len(self.asked)
            and all(a is b and _is_of(x, y) for (a, x), (b, y) in zip(asked, self.asked, strict=True))
        )

    def launch(self) -> None:
        """Begin to find all sums, and to bring them to the host."""
        self.is_launched, self.is_read = True, False
        if self._launches:
            for launch in self._launches:
                launch({})
            self._device.copy_later(self._there, self._here)
            self._device.mark(self._arrived)

    def values(self) -> list[list[float | None]]:
        """The metrics, as soon as their sums are there."""
        self.is_read = True
        if self._launches:
            self._arrived.synchronize()
        sums = iter(self._here if self._launches else ())
        return [
            [None if found is None else found.finish(on_host.round_sum(next(sums))) for found in row]
            for row in self._wanted
        ]

    def _predictions(self, margins: Any, link: str) -> Any:
        """What metrics are given, (n, K): found anew before them."""
        if not link:
            return margins
        out = self._device.empty(margins.shape, np.float32)
        n_blocks = self._device.blocks_of(margins.shape[0])
        self._launches.append(self._device.prepare(margin.LINKS[link], n_blocks, margins, out))
        return out

    def _adding(self, predictions: Any, found: RowSum | CurveSum, sent: tuple[Any, ...], acc: Any, room: Any) -> Launch:
        """The launch that adds a metric's sum to an accumulator."""
        device, (n_rows, n_outputs) = self._device, predictions.shape
        n = n_rows * n_outputs
        flat = predictions.reshape(n)
        if isinstance(found, CurveSum):
            kernel = curve.area_kernel(found.steps.__name__)
            lowest = 1023 + math.frexp(found.largest)[1] - sums.LAST_PLACE
            args = (flat, *sent, *room(n_rows), found.scale, lowest, acc)
            return device.prepare(kernel, device.n_processors, *args)
        n_blocks, name = min(device.blocks_of(n_rows), device.n_blocks), found.values.__name__
        if name in metric.CLASS_KERNELS:
            args = (predictions, *sent, sums.LOWEST, acc)
            return device.prepare(metric.CLASS_KERNELS[name], n_blocks, *args)
        arguments = [device.upload(np.array(found.arguments, np.float64))] if found.arguments else []
        label, weight = sent
        counts = (label, n // label.shape[0], weight, n // max(1, weight.shape[0]))
        kernel = metric.row_kernel(name, len(arguments))
        return device.prepare(kernel, n_blocks, flat, *counts, *arguments, sums.LOWEST, acc)


def _link_of(loss: Loss) -> str:
    """The name of the kernel that makes predictions of margins; empty where they are margins."""
    own = type(loss)
    if loss.name in _SOFTMAX:
        return "transform_softmax"
    if own.transform is not Loss.transform or own.eval_transform is not Loss.eval_transform:
        return _NO_LINK
    name = "" if loss.link is None else loss.link.__name__
    return name if not name or name in margin.LINKS else _NO_LINK
