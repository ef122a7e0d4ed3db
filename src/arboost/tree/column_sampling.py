"""Column sampling: which features a tree, a level and a node may split on (colsample_by*, feature_weights)."""

import numpy as np

from arboost.runtime import rng


class ColumnSampler:
    """Nested samples: the tree's from all features, a level's from the tree's, a node's from its level's."""

    def __init__(self, rates: tuple[float, float, float], n_features: int, weights: np.ndarray | None, key: int):
        self._by_tree, self._by_level, self._by_node = rates
        self._n_features = n_features
        self._weights = weights
        self._key = key
        self._of_tree = self._draw(np.arange(n_features), self._by_tree, rng.TREE_COLUMNS, 0)
        self._of_level: dict[int, np.ndarray] = {}
        self._tree_mask = self._mask(self._of_tree)[None, :]

    @property
    def per_node(self) -> bool:
        """True if nodes differ in the features they may use."""
        return self._by_level < 1.0 or self._by_node < 1.0

    def allowed(self) -> np.ndarray:
        """The tree's features as a uint8 mask of one row."""
        return self._tree_mask

    def write_allowed(self, nodes: np.ndarray, evals: np.ndarray, out: np.ndarray) -> None:
        """Masks of the nodes in `evals`, one row each."""
        for row, i in zip(out, evals.tolist(), strict=False):
            row[:] = 0
            row[self._of_node(int(nodes["depth"][i]), i)] = 1

    def _of_node(self, depth: int, node: int) -> np.ndarray:
        if depth not in self._of_level:
            self._of_level[depth] = self._draw(self._of_tree, self._by_level, rng.LEVEL_COLUMNS, depth)
        return self._draw(self._of_level[depth], self._by_node, rng.NODE_COLUMNS, node)

    def _draw(self, features: np.ndarray, rate: float, purpose: int, where: int) -> np.ndarray:
        if rate == 1.0:
            return features
        n = max(1, int(np.float32(rate) * np.float32(len(features))))  # as XGBoost: 0.7 of 10 is 7, not 6.9999999
        weights = None if self._weights is None else self._weights[features]
        return rng.choose(rng.make_key(self._key, purpose, where), features, n, weights)

    def _mask(self, features: np.ndarray) -> np.ndarray:
        mask = np.zeros(self._n_features, np.uint8)
        mask[features] = 1
        return mask
