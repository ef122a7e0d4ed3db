"""Trees packed for explanations on a CUDA device: Shapley values and interactions of many rows, with the CPU's bits."""

from typing import Any

import numpy as np

from arboost.kernels.gpu import shap as ops
from arboost.kernels.gpu.device import Device
from arboost.kernels.gpu.jit import SIMULATED
from arboost.predict.device import run_pieces, some
from arboost.runtime.device import clear_errors
from arboost.runtime.pool import run_ranges

_BLOCK = 64 if SIMULATED else 128  # threads
_MOST_BLOCKS = 7  # of a processor, by the kernels' registers and shared memory
_SCRATCH_BYTES = 1 << 30  # or a quarter of what is free
_LARGE = 4  # times the usual size of a piece: a row takes long, and there must be rows for all threads
_COPY_VALUES = 1 << 18  # of results that a thread writes down at least

Pairs = tuple[np.ndarray, np.ndarray]


class DeviceExplainer:
    """Copies of an explainer's nodes, points, features in use and bitsets."""

    def __init__(self, device: Device, nodes: np.ndarray, points: np.ndarray, used: np.ndarray, bits: np.ndarray):
        self.device, self._used = device, used
        with clear_errors(device.ordinal):
            device.use()
            self._args = [*map(device.upload, (nodes, _ways_up(nodes), points, used, bits))]
        self._of_pairs: list[Any] | None = None
        self._pair_slots = np.zeros((0, 2), np.int32)

    def has_room(self, trees: np.ndarray, n_pairs: int) -> bool:
        """Whether a block of threads finds room for what these trees ask for."""
        with clear_errors(self.device.ordinal):
            self.device.use()
            return _BLOCK * self._scratch_bytes(trees, n_pairs) <= self._budget()

    def _budget(self) -> int:
        """Bytes of scratch memory in each of two lanes."""
        return min(_SCRATCH_BYTES, self.device.free_bytes() // 4) // 2

    def _scratch_bytes(self, trees: np.ndarray, n_pairs: int) -> int:
        """Of a thread."""
        levels, rows = _sizes(trees)
        return 4 * len(self._used) + 8 * (len(self._used) + n_pairs + levels + (4 if n_pairs else 3) * rows)

    def explain(self, data: np.ndarray, trees: np.ndarray, out: np.ndarray, n_threads: int) -> None:
        """out (n, K, F + 1) float32 = contributions of SHAP_TREE records for the float32 rows of the host, no bias."""
        where = np.full(out.shape[2], len(self._used))
        where[self._used] = np.arange(len(self._used))
        self._run(trees, data, out, where, False, n_threads)

    def explain_pairs(
        self, data: np.ndarray, trees: np.ndarray, ratios: np.ndarray, pairs: Pairs, out: np.ndarray, n_threads: int
    ) -> None:
        """out (n, K, (F + 1)**2) float32 = interactions, no bias."""
        width, n_used = data.shape[1] + 1, len(self._used)
        slots = self._send_pairs(ratios, pairs)
        where = np.full((width, width), n_used + len(slots))
        where[self._used, self._used] = np.arange(n_used)
        a, b = self._used[slots].T
        where[a, b] = where[b, a] = n_used + np.arange(len(slots))
        self._run(trees, data, out, where.reshape(-1), True, n_threads)

    def _run(
        self, trees: np.ndarray, data: np.ndarray, out: np.ndarray, where: np.ndarray, pairs: bool, n_threads: int
    ) -> None:
        with clear_errors(self.device.ordinal):
            self.device.use()
            work = _Explaining(self, trees, out, where, n_threads, pairs)
        run_pieces(self.device, work, data, n_threads, _LARGE)

    def _send_pairs(self, ratios: np.ndarray, pairs: Pairs) -> np.ndarray:
        """Send once what interactions need besides; returns the slots of every pair."""
        if self._of_pairs is None:
            with clear_errors(self.device.ordinal):
                self.device.use()
                self._of_pairs = [self.device.upload(some(array)) for array in (ratios, *pairs)]
            self._pair_slots = pairs[1]
        return self._pair_slots


class _Explaining:
    """The work on rows; `where`: place in a row's results of every entry of `out`."""

    def __init__(
        self, owner: DeviceExplainer, trees: np.ndarray, out: np.ndarray, where: np.ndarray, n_threads: int, pairs: bool
    ):
        device, n_used = owner.device, len(owner._used)
        self.device, self._out, self._where, self._n_threads = device, out, where, n_threads
        n_sums, (levels, rows) = int(where.max(initial=n_used)) if pairs else n_used, _sizes(trees)
        self._is_shallow = not pairs and levels <= ops.SHALLOW_LEVELS and rows <= ops.SHALLOW_ROWS
        block = ops.SHALLOW_THREADS if self._is_shallow else _BLOCK
        self.dtype, self.shape = np.dtype(np.float32), (out.shape[1], n_sums + 1)
        of_thread = owner._scratch_bytes(trees, n_sums - n_used)
        most = max(1, owner._budget() // (block * of_thread))
        self._shape = min(most, _MOST_BLOCKS * device.n_processors, -(-len(out) // block)), block
        plain = ops.explain_shallow if self._is_shallow else ops.explain_rows
        self._kernel = ops.explain_pairs if pairs else plain
        self._args = [device.upload(trees), *owner._args, *((owner._of_pairs or []) if pairs else [])]
        self._sizes, self._scratch = (n_used, n_sums, levels, rows), dict[int, list[Any]]()
        self._with_ratio = pairs

    def begin(self, rows: slice, results: np.ndarray) -> bool:
        return False

    def launch(self, which: int, values: Any, results: Any, stream: Any) -> None:
        if which not in self._scratch:
            self._scratch[which] = self._make_scratch()
        args = values, *self._args, *self._scratch[which], results
        self.device.run(self._kernel, *args, stream=stream, shape=self._shape)

    def _make_scratch(self) -> list[Any]:
        """A column for every thread: kernels/gpu/shap.py."""
        (n_used, n_sums, levels, rows), n = self._sizes, self._shape[0] * self._shape[1]
        shapes: list[tuple[int, ...]] = [(n_sums, n)]
        if not self._is_shallow:
            shapes += [(levels, n), (rows, n), (2, rows, n), *([(rows, n)] if self._with_ratio else [])]
        empty = self.device.empty
        return [empty((n_used, n), np.float32), *(empty(shape, np.float64) for shape in shapes)]

    def keep(self, rows: slice, results: np.ndarray) -> None:
        grain = max(1, _COPY_VALUES // len(self._where))
        run_ranges(self._n_threads, len(results), grain, _spread, results, self._where, self._out[rows])


def _spread(results: np.ndarray, where: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out[..., i] (OUT) = results[..., where[i]] for some rows."""
    np.take(results[start:stop], where, axis=2, out=out[start:stop], mode="clip")


def _sizes(trees: np.ndarray) -> tuple[int, int]:
    """Levels, and levels times points: the most of any tree."""
    levels = trees["depth"].astype(np.int64) + 1
    return int(levels.max(initial=1)), int((levels * trees["n_points"]).max(initial=1))


def _ways_up(nodes: np.ndarray) -> np.ndarray:
    """Of every node 2 * its parent, + 1 if it lies right of it; -1 for a root."""
    up = np.full(len(nodes), -1, np.int32)
    for side, name in enumerate(("left", "right")):
        above = np.flatnonzero(nodes[name] >= 0)
        up[nodes[name][above]] = 2 * above + side
    return up
