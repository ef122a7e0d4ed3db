"""What categorical features, monotone constraints and smoothed weights add to a growing tree.

The search is kernels/cpu/grow/special.py. An engine has this only if its data has categorical features or its
parameters ask for one of the others; else nothing of it is compiled or run.
"""

import numpy as np

from arboost.kernels.cpu.grow import arrays
from arboost.matrix.page import BinnedPage
from arboost.runtime.context import Context


def make_bounds(monotone: np.ndarray) -> arrays.Bounds:
    """Bounds of a tree that has only a root, which is free."""
    free = np.full(1, -np.inf), np.full(1, np.inf)
    return arrays.Bounds(monotone, *free, np.zeros(1), np.array([monotone.any(), 0.0], np.float64))


def grown_bounds(bounds: arrays.Bounds, n_nodes: int) -> arrays.Bounds:
    """The same with room for so many nodes."""
    names = ("least", "largest", "outputs")
    return bounds._replace(**{name: _grown(getattr(bounds, name), n_nodes) for name in names})


def _grown(old: np.ndarray, n: int) -> np.ndarray:
    """An array of n entries that begins with those of `old`."""
    new = np.zeros((n, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


class SpecialSearch:
    """Arrays of the special search: sets of categories and bounds of weights."""

    def __init__(self, ctx: Context, page: BinnedPage, monotone: np.ndarray, smooths: bool = False):
        is_category = page.cuts.is_categorical
        is_special = is_category | monotone.any() | smooths
        widest = int(page.n_bins[is_category].max(initial=1))
        self._of_features = (np.flatnonzero(is_special).astype(np.int32), is_special.astype(np.uint8))
        self._is_category = is_category.astype(np.uint8)
        self._limits = np.zeros(2, np.int64)
        self._sets = arrays.Sets(np.zeros(1, np.uint8), np.zeros((1, -(-widest // 64)), np.uint64))
        self._bounds = make_bounds(monotone)
        self._bounds.in_force[0] = monotone.any() or smooths
        weights, orders = np.empty((ctx.n_threads, widest), np.float32), np.empty((ctx.n_threads, 2, widest), np.int64)
        self._scratch = (weights, orders)
        self._arrays = self._bundle()

    def set_limits(self, max_cat_to_onehot: int, max_cat_threshold: int) -> None:
        """Take the limits of the search for sets of categories."""
        self._limits[:] = max_cat_to_onehot, max_cat_threshold

    def set_smooth(self, hessian: float) -> None:
        """Let a node of this hessian have half of its own weight and half of its parent's."""
        self._bounds.in_force[1] = hessian

    def arrays(self, n_nodes: int) -> tuple:
        """What the kernels call extra, with room for so many nodes."""
        if n_nodes > len(self._sets.is_set):
            self._sets = arrays.Sets(*(_grown(old, n_nodes) for old in self._sets))
            self._bounds = grown_bounds(self._bounds, n_nodes)
            self._arrays = self._bundle()
        return self._arrays

    def _bundle(self) -> tuple:
        fields = (*self._of_features, self._is_category, self._limits, self._sets, self._bounds, *self._scratch)
        found: tuple = arrays.plain(arrays.Special(*fields))
        return found

    def take(self, nodes: np.ndarray, spans: np.ndarray, bits: np.ndarray) -> None:
        """Take over what a device has found of a tree's nodes: (n, 3) least, largest and own weights, sets."""
        self.arrays(len(nodes))
        n = len(nodes)
        if self._bounds.in_force[0]:
            self._bounds.least[:n], self._bounds.largest[:n], self._bounds.outputs[:n] = spans[:n].T
        self._sets.is_set[:n] = self._is_category[nodes["feature"]] & (nodes["left"] >= 0)
        if self._sets.is_set.any():
            self._sets.bits[:n] = bits[:n]

    def sets(self, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(nodes, bits): the nodes that are split by a set, and their sets; left < 0 at leaves."""
        nodes = np.flatnonzero((self._sets.is_set[: len(left)] != 0) & (left >= 0)).astype(np.int32)
        return nodes, self._sets.bits[nodes]
