"""What categorical features and monotone constraints add to a growing tree.

The search is kernels/cpu/level_general.py. A grower has this only if its data has categorical features or its
parameters have constraints; others neither compile nor run any of it.
"""

import numpy as np

from arboost.kernels.cpu import constrained
from arboost.matrix.page import BinnedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.tree.model import Tree

CATEGORY_THRESHOLD = np.float32(1e-45)  # what XGBoost's files hold where a split has no threshold


class GeneralSearch:
    """Arrays of the general search, and from its results the trees' sets of categories and bounded weights."""

    def __init__(self, ctx: Context, page: BinnedPage, monotone: np.ndarray):
        self._is_category = page.cuts.is_categorical.astype(np.uint8)
        self._is_bounded = np.array([monotone.any()], np.int64)
        every = np.arange(page.n_features, dtype=np.int32)
        self._features = every if self._is_bounded[0] else np.flatnonzero(self._is_category).astype(np.int32)
        self._monotone = monotone
        self._min_values = page.cuts.min_values
        widest = int(page.n_bins[page.cuts.is_categorical].max(initial=1))
        self._n_words = -(-widest // 64)
        self._scratch = (
            np.empty((ctx.n_threads, widest), np.float32),
            np.empty((ctx.n_threads, 2, widest), np.int64),
        )
        self._limits = np.zeros(2, np.int64)
        # the column that kernels make; the grower's own, for other growers may use the page at the same time
        n_made = page.n_rows if self._is_category.any() else 0
        self.layout = (np.empty(n_made, page.bin_dtype),)  # see kernels/cpu/routes.py
        self._per_node: tuple[np.ndarray, ...] = ()
        self.room_for(1)

    def set_params(self, params: TreeParams) -> None:
        """Take the limits of the search for sets of categories."""
        self._limits[:] = params.max_cat_to_onehot, params.max_cat_threshold

    def room_for(self, n_nodes: int) -> None:
        """Room for so many nodes, keeping what is known."""
        old = self._per_node
        if old and len(old[0]) >= n_nodes:
            return
        feature_of, default_of = np.full(n_nodes, -1, np.int32), np.zeros(n_nodes, np.int32)
        bits = np.zeros((n_nodes, self._n_words), np.uint64)
        least, largest = np.full(n_nodes, -np.inf), np.full(n_nodes, np.inf)
        fresh: tuple[np.ndarray, ...] = (feature_of, default_of, bits, least, largest)
        for new, kept in zip(fresh, old, strict=False):
            new[: len(kept)] = kept
        self._per_node = fresh

    def start_tree(self) -> None:
        """No node has a set of categories, the root is free."""
        feature_of, _, _, least, largest = self._per_node
        feature_of[:] = -1
        least[0], largest[0] = -np.inf, np.inf

    def without(self, allowed: np.ndarray) -> np.ndarray:
        """Masks of features for the plain search: those searched here are not its."""
        plain = allowed.copy()
        plain[:, self._features] = 0
        return plain

    @property
    def categories(self) -> tuple[np.ndarray, ...]:
        """What the kernels call categories."""
        return self._features, self._is_category, self._limits, *self._per_node[:3]

    def arrays(self, allowed: np.ndarray) -> tuple:
        """What the kernels call general."""
        bounds = (self._monotone, *self._per_node[3:], self._is_bounded)
        return self.categories, bounds, allowed, self._scratch

    def feature_of(self, nodes: np.ndarray) -> np.ndarray:
        """The feature every node is split on; -1 if it is not."""
        own = self._per_node[0][: len(nodes)]
        return np.where(own >= 0, own, nodes["feature"])

    def bound_children(self, nodes: np.ndarray, batch: np.ndarray, reg: np.ndarray) -> None:
        """Hand the bounds of the nodes in `batch` down to their new children."""
        if self._is_bounded[0]:
            feature_of, _, _, least, largest = self._per_node
            constrained.bound_children(nodes, batch, reg, self._monotone, feature_of, least, largest, 0, len(batch))

    def as_plain(self, nodes: np.ndarray) -> np.ndarray:
        """Nodes whose made column is replaced by a real feature, for code that looks thresholds up."""
        plain = nodes.copy()
        plain["feature"] = self.feature_of(nodes)
        np.maximum(plain["bin"], 0, out=plain["bin"])
        return plain

    def finish(self, tree: Tree, nodes: np.ndarray, reg: np.ndarray, eta: float) -> None:
        """Write bounded weights, thresholds below all values and sets of categories into a finished tree."""
        if self._is_bounded[0]:
            bounds = self._per_node[3:]
            out = (tree.threshold, tree.base_weight)
            constrained.bound_weights(nodes, reg, np.float32(eta), *bounds, *out, 0, tree.n_nodes)
            lowest = (nodes["bin"] < 0) & (tree.left >= 0)
            tree.threshold[lowest] = self._min_values[tree.feature[lowest]]
        feature_of, default_of, bits, _, _ = self._per_node
        found = np.flatnonzero((feature_of[: tree.n_nodes] >= 0) & (tree.left >= 0))
        if not len(found):
            return
        tree.split_type = np.zeros(tree.n_nodes, np.uint8)
        tree.split_type[found] = 1
        tree.default_left[found] = default_of[found]
        tree.threshold[found] = CATEGORY_THRESHOLD
        is_member = np.unpackbits(bits[found].view(np.uint8), axis=1, bitorder="little")
        tree.categories = np.nonzero(is_member)[1].astype(np.int32)
        tree.categories_nodes = found.astype(np.int32)
        tree.categories_sizes = is_member.sum(axis=1, dtype=np.int64)
        tree.categories_segments = np.concatenate([[0], np.cumsum(tree.categories_sizes)[:-1]]).astype(np.int64)
