"""The training matrix on a CUDA device: values go there once, cuts are counted and bins are made there.

Only dense numerical data that fits; all other data is binned on the CPU, to the same bins, and its bins are sent.
"""

import weakref
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.gpu import binning, counting
from arboost.kernels.gpu.device import Device
from arboost.matrix.adapt import RawData, SparseData
from arboost.matrix.cuts import Cuts, keys_of_values
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context
from arboost.runtime.device import clear_errors, device_of

_TILE_BYTES = 1 << 30  # of the counters and slots of features that are counted together
_SPARE_BYTES = 1 << 26
_KEY_MISSING = 0xFFFFFFFF


class Picked(NamedTuple):
    """What counting has found of every feature: slots 1 .. n_slots[f], as the kernels of data/counting.py have them."""

    n_slots: np.ndarray
    bases: np.ndarray
    prefixes: np.ndarray
    totals: np.ndarray
    all_kept: np.ndarray


class DevicePage(BinnedPage):
    """Bins that lie on a device; the host gets a copy if it asks."""

    def __init__(self, owner: Device, cuts: Cuts, words: Any, n_rows: int, dtype: np.dtype):
        rest = {"cuts": cuts, "bundles": None, "sparse": None, "first_row": 0}
        own = {"device": owner, "on_device": words, "_n_rows": n_rows, "_dtype": dtype}
        for name, value in (rest | own).items():
            object.__setattr__(self, name, value)  # as BinnedPage is frozen

    device: Device
    on_device: Any  # (n_rows, 2 n_words) uint32

    @cached_property
    def words(self) -> np.ndarray:
        with clear_errors(self.device.ordinal):
            self.device.use()
            words: np.ndarray = self.on_device.copy_to_host().view(np.uint64)
        return words

    @cached_property
    def columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.words.view(self.bin_dtype)[:, : self.n_features].T)

    @property
    def n_rows(self) -> int:
        return int(self._n_rows)  # type: ignore[attr-defined]

    @property
    def n_columns(self) -> int:
        return self.n_features

    @property
    def n_words(self) -> int:
        return int(self.on_device.shape[1]) // 2

    @property
    def bin_dtype(self) -> np.dtype:
        found: np.dtype = self._dtype  # type: ignore[attr-defined]
        return found

    @property
    def nbytes(self) -> int:
        return int(8 * self.n_words * self.n_rows)


class DeviceValues:
    """All float32 values of a table on a device, NaN for missing."""

    def __init__(self, owner: Device, raw: RawData):
        self.device = owner
        self.values = raw.values_on(owner)
        self._bits = self.values.view(np.uint32)

    @property
    def _n_features(self) -> int:
        return int(self.values.shape[1])

    def pick(self, weights: np.ndarray, n_bins: np.ndarray) -> Picked:
        """Where the bins of every feature begin, by weights on integers, (n_rows,) or one for all."""
        n, width = self._n_features, int(n_bins.max()) + 2
        step = max(1, min(n, _TILE_BYTES // _bytes_of_tile(width)))
        with clear_errors(self.device.ordinal):
            self.device.use()
            sent = self.device.upload(weights)
            parts = [self._pick_tile(first, n_bins[first : first + step], width, sent) for first in range(0, n, step)]
        return Picked(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _pick_tile(self, first: int, n_bins: np.ndarray, width: int, weights: Any) -> Picked:
        """The features from `first` on, as many as n_bins."""
        device, n = self.device, len(n_bins)
        of_bins = device.upload(n_bins.astype(np.int32))
        state = device.upload(np.stack([np.zeros(n), np.ones(n)]).astype(np.int32))
        totals = device.empty(n, np.int64)
        # of slots: weight below, weight below that is in no slot, and leading bits
        before, after = ([device.empty((n, width), dtype) for dtype in (np.int64, np.int64, np.uint32)] for _ in "12")
        root = [device.upload(np.zeros((n, 1), dtype)) for dtype in (np.int64, np.uint32)]
        no_slots, slots = device.empty((1, 1), np.int32), device.zeros((n, counting.TOP_CELLS), np.int32)
        counts = device.zeros((n, counting.TOP_CELLS), np.int64)
        device.run(counting.count_top_bits, self._bits, first, weights, counts)
        tables = (of_bins, state, totals)
        device.run(counting.pick_cells, counts, 16, *tables, *root, slots, no_slots, *after)
        deep_slots = [device.zeros((n, 256 * width), np.int32) for _ in range(2)]
        counts = device.empty((n, 256 * width), np.int64)
        for level in range(2):
            before, after = after, before
            device.clear(counts)
            device.run(
                counting.count_low_bits, self._bits, first, weights, slots, deep_slots[0], level == 1, counts
            )  # fmt: skip
            device.run(
                counting.pick_cells, counts, 8, *tables, *before[1:], deep_slots[level], no_slots, *after
            )  # fmt: skip
        found = state.copy_to_host()
        return Picked(
            found[counting.N_SLOTS].astype(np.int64), after[0].copy_to_host(), after[2].copy_to_host(),
            totals.copy_to_host(), found[counting.ALL_KEPT] != 0,
        )  # fmt: skip

    def bins(self, cuts: Cuts, dtype: np.dtype) -> DevicePage:
        """The page of all rows."""
        device, n_rows = self.device, int(self.values.shape[0])
        n_inner = cuts.n_bins.astype(np.int64) - 1
        n_steps = max(1, int(n_inner.max(initial=0)).bit_length())
        keys = np.full((self._n_features, (1 << n_steps) - 1), _KEY_MISSING, np.uint32)
        is_inner = np.ones(len(cuts.values), np.bool_)
        is_inner[cuts.ptr[1:] - 1] = False
        keys[np.arange(keys.shape[1]) < n_inner[:, None]] = keys_of_values(cuts.values[is_inner])
        missing_code, n_words = int(np.iinfo(dtype).max), 2 * -(-self._n_features * dtype.itemsize // 8)
        with clear_errors(device.ordinal):
            device.use()
            words, sent = device.empty((n_rows, n_words), np.uint32), device.upload(keys)
            device.run(binning.bin_values, self._bits, sent, n_steps, missing_code, 8 * dtype.itemsize, words)
        return DevicePage(device, cuts, words, n_rows, dtype)


def _bytes_of_tile(width: int) -> int:
    """Of counters and slots of a feature."""
    return int(12 * counting.TOP_CELLS + 16 * 256 * width)


def make_values(ctx: Context, raw: RawData) -> DeviceValues | None:
    """The values on the context's device; None if that is no device, or they are for the CPU to bin.

    They are sent anew unless somebody still holds them.
    """
    owner = device_of(ctx)
    if (
        owner is None
        or not ctx.is_alone
        or isinstance(raw, SparseData)
        or raw.is_streamed
        or raw.n_rows * raw.n_features == 0
    ):
        return None
    kept = None if raw.sent is None else raw.sent()
    if isinstance(kept, DeviceValues):
        return kept
    n_counted = min(_TILE_BYTES, raw.n_features * _bytes_of_tile(256)) + _SPARE_BYTES
    n_bytes = raw.n_rows * (4 * raw.n_features + 8 * -(-raw.n_features // 4)) + n_counted
    with clear_errors(owner.ordinal):
        owner.use()
        if n_bytes > owner.free_bytes():
            return None
        values = DeviceValues(owner, raw)
    raw.sent = weakref.ref(values)
    return values
