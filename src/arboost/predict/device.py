"""A packed forest on a CUDA device: rows go there in pieces, margins or leaves come back, copies overlap the walks."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from arboost.kernels.gpu import predict as ops
from arboost.kernels.gpu.device import Device
from arboost.kernels.gpu.staging import N_LANES, PIECE_BYTES, Lane
from arboost.runtime.device import clear_errors
from arboost.runtime.pool import run_ranges

_COPY_BYTES = 1 << 20  # of rows that a thread copies at least


class Work(Protocol):
    """What is done to rows, piece by piece: of two lanes one is at work while the other's results are written down."""

    @property
    def dtype(self) -> np.dtype:
        """Of what comes back."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what comes back for a row."""

    def begin(self, rows: slice, results: np.ndarray) -> bool:
        """Write down (OUT) what the results of some rows are before; False: the device writes all of them."""

    def launch(self, which: int, values: Any, results: Any, stream: Any) -> None:
        """Have the device find the results of rows that lie there, in one of its lanes."""

    def keep(self, rows: slice, results: np.ndarray) -> None:
        """Take the results of some rows."""


def run_pieces(device: Device, work: Work, data: Any, n_threads: int, size: int = 1) -> None:
    """Do the work for rows of the host, or of the device; `size`: how much larger than usual pieces may be."""
    with clear_errors(device.ordinal):
        device.use()
        _run_pieces(device, work, data, n_threads, size)


def _run_pieces(device: Device, work: Work, data: Any, n_threads: int, size: int) -> None:
    n_rows, width = data.shape
    row_bytes = _aligned(4 * width) + _aligned(work.dtype.itemsize * int(np.prod(work.shape)))
    step = max(1, min(n_rows, size * PIECE_BYTES // row_bytes))
    is_there = not isinstance(data, np.ndarray)
    with device.staging.lock:
        lanes = device.staging.lanes(_aligned(4 * width * step) + _aligned(row_bytes * step))
        rooms = [
            (
                None if is_there else device.empty((step, width), np.float32),
                device.empty((step, *work.shape), work.dtype),
            )
            for _ in lanes
        ]
        pending: list[tuple[slice, np.ndarray] | None] = [None] * N_LANES
        for i, first in enumerate(range(0, n_rows, step)):
            at, rows = i % N_LANES, slice(first, min(first + step, n_rows))
            _collect(lanes[at], pending[at], work)
            pending[at] = rows, _begin_piece(work, at, lanes[at], rooms[at], data, rows, n_threads)
        for lane, last in zip(lanes, pending, strict=True):
            _collect(lane, last, work)


def _begin_piece(
    work: Work, which: int, lane: Lane, room: tuple[Any, Any], data: Any, rows: slice, n_threads: int
) -> np.ndarray:
    """Send some rows and begin the work on them; returns where the results will be."""
    n, width = rows.stop - rows.start, data.shape[1]
    values, found = data[rows] if room[0] is None else room[0][:n], room[1][:n]
    back = lane.array((n, *work.shape), work.dtype, _aligned(4 * width * n))
    if work.begin(rows, back):
        found.copy_to_device(back, stream=lane.stream)
    if room[0] is not None:
        part = lane.array((n, width), np.float32)
        grain = max(1, _COPY_BYTES // (4 * width))
        run_ranges(n_threads, n, grain, _copy_rows, data, rows.start, part)
        values.copy_to_device(part, stream=lane.stream)
    work.launch(which, values, found, lane.stream)
    found.copy_to_host(back, stream=lane.stream)
    return back


def _copy_rows(data: np.ndarray, first: int, out: np.ndarray, start: int, stop: int) -> None:
    np.copyto(out[start:stop], data[first + start : first + stop])


def _collect(lane: Lane, pending: tuple[slice, np.ndarray] | None, work: Work) -> None:
    """Wait for what a lane has begun, and write it down."""
    lane.wait()
    if pending is not None:
        work.keep(*pending)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // 16) * 16


class DeviceForest:
    """Copies of a forest's arrays: PACKED_TREE records; what nodes ask, and children; sets of categories, if there are
    some, as the kernels of model/predict.py have them; weights and nodes of leaves."""

    def __init__(
        self,
        device: Device,
        trees: np.ndarray,
        nodes: tuple[np.ndarray, ...],
        sets: tuple[np.ndarray, ...],
        leaves: tuple[np.ndarray, ...],
    ):
        self.device = device
        with clear_errors(device.ordinal):
            device.use()
            self._trees = device.upload(trees)
            self._nodes = tuple(device.upload(some(array)) for array in nodes)
            self._sets = tuple(device.upload(some(array)) for array in sets)
            self._leaf_weight, self._leaf_node = (device.upload(some(array)) for array in leaves)

    def add_margins(self, data: Any, begin: int, end: int, margin: np.ndarray, n_threads: int = 1) -> None:
        """margin (n, K) += the weights of trees begin..end for rows of the host, or of the device."""
        self._run(ops.predict_margins, begin, end, self._leaf_weight, margin, data, n_threads)

    def find_leaves(self, data: Any, begin: int, end: int, leaves: np.ndarray, n_threads: int = 1) -> None:
        """leaves (n, n_trees) = the node where each row ends in trees begin..end."""
        self._run(ops.predict_leaves, begin, end, self._leaf_node, leaves, data, n_threads)

    def _run(
        self, kernel: Any, begin: int, end: int, of_leaves: Any, out: np.ndarray, data: Any, n_threads: int
    ) -> None:
        args = self._trees, begin, end, *self._nodes, self._sets, of_leaves
        run_pieces(self.device, _Walk(self.device, kernel, args, out, out.dtype, out.shape[1:]), data, n_threads)


class _Walk(NamedTuple):
    """Of rows through some trees, to be added to `out` or written there."""

    device: Device
    kernel: Any
    args: tuple
    out: np.ndarray
    dtype: np.dtype
    shape: tuple[int, ...]

    def begin(self, rows: slice, results: np.ndarray) -> bool:
        np.copyto(results, self.out[rows])
        return True

    def launch(self, which: int, values: Any, results: Any, stream: Any) -> None:
        self.device.run(self.kernel, values, *self.args, results, stream=stream)

    def keep(self, rows: slice, results: np.ndarray) -> None:
        self.out[rows] = results


def some(array: np.ndarray) -> np.ndarray:
    """The array, or one entry that nobody reads: kernels take no empty arrays."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
