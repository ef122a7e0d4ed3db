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

    def allowed(self, nodes: np.ndarray, evals: np.ndarray) -> np.ndarray:
        """uint8 mask of features, one row for all of `evals` if they share it, else one row each."""
        if self._by_level == 1.0 and self._by_node == 1.0:
            return self._tree_mask
        masks = [self._mask(self._of_node(int(nodes["depth"][i]), int(i))) for i in evals]
        return np.stack(masks)

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
