"""Rows between host and device through two pinned buffers: while one is copied, the other is filled.

Copies from memory that may be swapped run at a sixth of the speed, and nothing else runs beside them.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from arboost.kernels.gpu.jit import SIMULATED, cuda

PIECE_BYTES = 1 << 12 if SIMULATED else 1 << 24  # of rows in a buffer
FEW_BYTES = 1 << 10 if SIMULATED else 1 << 22  # not worth making buffers for
N_LANES = 2

Fill = Callable[[np.ndarray, int], Any]  # (out, first_row): write rows from first_row on to out


class Lane:
    """A pinned buffer of the host, and the stream in which its copies are."""

    def __init__(self, n_bytes: int):
        self.stream: Any = cuda.stream()
        self.n_bytes = n_bytes
        self._buffer = cuda.pinned_array(n_bytes, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: Any, start: int = 0) -> np.ndarray:
        """A piece of the buffer."""
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        found: np.ndarray = self._buffer[start : start + n_bytes].view(dtype).reshape(shape)
        return found

    def wait(self) -> None:
        """Until all that is in the stream is done."""
        self.stream.synchronize()


class Staging:
    """The buffers of a device; who uses them holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._lanes: list[Lane] = []

    def lanes(self, n_bytes: int = PIECE_BYTES) -> list[Lane]:
        """Both, of so many bytes at least."""
        if not self._lanes or self._lanes[0].n_bytes < n_bytes:
            self._lanes = [Lane(max(n_bytes, PIECE_BYTES)) for _ in range(N_LANES)]
        return self._lanes

    def send_rows(self, fill: Fill, to: Any) -> None:
        """Copy a table to the device, piece by piece as `fill` writes it."""
        n_rows, width, dtype = to.shape[0], to.shape[1], np.dtype(to.dtype)
        row_bytes = max(1, width * dtype.itemsize)
        if n_rows * row_bytes <= FEW_BYTES:
            values = np.empty(to.shape, dtype)
            fill(values, 0)
            to.copy_to_device(values)
            return
        with self.lock:
            lanes, step = self.lanes(row_bytes), max(1, PIECE_BYTES // row_bytes)
            try:
                for i, first in enumerate(range(0, n_rows, step)):
                    lane, stop = lanes[i % N_LANES], min(first + step, n_rows)
                    lane.wait()
                    part = lane.array((stop - first, width), dtype)
                    fill(part, first)
                    to[first:stop].copy_to_device(part, stream=lane.stream)
            finally:
                for lane in lanes:
                    lane.wait()
