"""What categorical features, monotone constraints and smoothed weights add to trees that grow on a device.

An engine has this only if its data or its parameters ask for it; else no kernel has anything of it compiled.
"""

from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.gpu.device import Device
from arboost.levels.special import SpecialSearch
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context

KEYS_BYTES = 1 << 26  # memory for the sorting of categories


class SpecialNodes(NamedTuple):
    """Of a tree's nodes, on a device or its host: least, largest and own weights (n, 3), sets of categories."""

    spans: Any
    bits: Any

    def copy_from(self, other: "SpecialNodes", n: int) -> None:
        """Take over the first n nodes of another tree."""
        for mine, its in zip(self, other, strict=True):
            if mine.size:
                mine[:n].copy_to_device(its[:n])


class DeviceSpecial:
    """The special search on one page; () stands for what it does not need."""

    def __init__(self, ctx: Context, device: Device, page: BinnedPage, monotone: np.ndarray, smooths: bool):
        self.on_host = SpecialSearch(ctx, page, monotone, smooths)
        is_category = page.cuts.is_categorical
        self._constraints = (device.upload(monotone.astype(np.int64)),) if monotone.any() or smooths else ()
        widest = int(page.n_bins[is_category].max(initial=0))
        self._n_words = -(-widest // 64)
        self._limits = self._limits_sent = (0, 0)
        self._of_sets: tuple = ()
        if widest:
            size = 1 << (widest - 1).bit_length()
            n_workers = min(device.n_blocks * device.n_threads // 32, max(1, KEYS_BYTES // (8 * size)))
            features = np.flatnonzero(is_category).astype(np.int32)
            sent = (device.upload(array) for array in (is_category.astype(np.uint8), features, np.zeros(2, np.int64)))
            self._of_sets = (*sent, device.empty((n_workers, size), np.int64))

    def set_limits(self, max_cat_to_onehot: int, max_cat_threshold: int) -> None:
        """Take the limits of the search for sets of categories."""
        self._limits = (max_cat_to_onehot, max_cat_threshold)

    def send_limits(self) -> None:
        """Send them for the next tree, if they are other ones than the last."""
        if self._of_sets and self._limits != self._limits_sent:
            self._of_sets[2].copy_to_device(np.array(self._limits, np.int64))
            self._limits_sent = self._limits

    @property
    def bytes_of_node(self) -> int:
        """What a node needs besides its record."""
        return 24 * len(self._constraints) + 8 * self._n_words

    def nodes_in(self, block: Any, capacity: int) -> SpecialNodes:
        """Its parts of a block of memory for so many nodes."""
        end = 24 * capacity * len(self._constraints)
        spans = block[:end].view(np.float64).reshape(capacity, 3) if end else np.zeros((0, 3))
        if not self._n_words:
            return SpecialNodes(spans, np.zeros((0, 0), np.uint64))
        return SpecialNodes(spans, block[end:].view(np.uint64).reshape(capacity, self._n_words))

    def arguments(self, nodes: SpecialNodes) -> tuple[tuple, tuple]:
        """What the kernels call bounds and sets."""
        bounds = (*self._constraints, nodes.spans) if self._constraints else ()
        return bounds, (*self._of_sets, nodes.bits) if self._of_sets else ()
