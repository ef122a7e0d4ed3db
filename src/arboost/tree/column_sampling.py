"""Column sampling: which features a tree, a level and a node may split on (colsample_by*, feature_weights)."""

import numpy as np

from arboost.kernels.ops import sample as ops
from arboost.runtime import rng

_DRAWS_AT_A_TIME = 1 << 20  # in memory


class ColumnSampler:
    """Nested samples: the tree's from all features, a level's from the tree's, a node's from its level's."""

    def __init__(self, rates: tuple[float, float, float], n_features: int, weights: np.ndarray | None, key: int):
        self._by_tree, self._by_level, self._by_node = rates
        self._n_features = n_features
        self._weights = weights
        self._key = key
        self._of_tree = self._draw(np.arange(n_features), self._by_tree, rng.TREE_COLUMNS, 0)
        self._of_level: dict[int, np.ndarray] = {}
        self._useless: np.ndarray | None = None  # (n_nodes, n_features / 8): bits of features passed over below a node
        self._tree_mask = self._mask(self._of_tree)[None, :]

    @property
    def per_node(self) -> bool:
        """True if nodes differ in the features they may use."""
        return self._by_level < 1.0 or self._by_node < 1.0

    def allowed(self) -> np.ndarray:
        """The tree's features as a uint8 mask of one row."""
        return self._tree_mask

    def write_allowed(self, nodes: np.ndarray, evals: np.ndarray, out: np.ndarray, turn: int = 0) -> bool:
        """Masks of the nodes in `evals`, one row each; `turn` > 0: what later turns of the draw give, if anything."""
        depths = nodes["depth"][evals]
        n_nodes = max(1, _DRAWS_AT_A_TIME // self._n_features)
        for depth in sorted(set(depths.tolist())):
            at = np.flatnonzero(depths == depth)
            for first in range(0, len(at), n_nodes):
                rows = at[first : first + n_nodes]
                out[rows] = self._masks(depth, evals[rows], nodes["parent"][evals[rows]], turn)
        return bool(out[: len(evals)].any())

    def drawn(self) -> tuple[int, np.ndarray, int] | None:
        """(key, features, n) for `ops.sample_columns`, if that makes the masks of all nodes; else None."""
        if self._by_node == 1.0 or self._by_level < 1.0 or self._weights is not None or self._useless is not None:
            return None
        return rng.make_key(self._key, rng.NODE_COLUMNS), self._of_tree, self._count(len(self._of_tree), self._by_node)

    def pass_over(self, nodes: np.ndarray, evals: np.ndarray, useless: np.ndarray) -> None:
        """Leave features, (n, n_features) bool, out of the draws below the nodes in `evals`, with those above them."""
        width = (self._n_features + 7) // 8
        known = np.zeros((0, width), np.uint8) if self._useless is None else self._useless
        if len(known) < len(nodes):
            known = np.concatenate([known, np.zeros((len(nodes) - len(known), width), np.uint8)])
        inherited = np.where(evals[:, None] > 0, known[nodes["parent"][evals]], np.uint8(0))
        known[evals] = inherited | np.packbits(useless, axis=1)
        self._useless = known

    def _masks(self, depth: int, nodes: np.ndarray, parents: np.ndarray, turn: int) -> np.ndarray:
        """Masks of some nodes of one level, (n, n_features) uint8: the draws of `rng.choose`, all at once."""
        if depth not in self._of_level:
            self._of_level[depth] = self._draw(self._of_tree, self._by_level, rng.LEVEL_COLUMNS, depth)
        features = self._of_level[depth]
        if self._by_node == 1.0:
            return np.tile(self._mask(features[: 0 if turn else None]), (len(nodes), 1))
        key, n = rng.make_key(self._key, rng.NODE_COLUMNS), self._count(len(features), self._by_node)
        masks = np.zeros((len(nodes), self._n_features), np.uint8)
        if self._weights is None and self._useless is None and turn == 0:
            draws = np.empty((2, len(features)), np.float64)
            ops.sample_columns(np.uint64(key), nodes, features, n, draws, masks, 0, len(nodes))
            return masks
        draws = rng.uniform_of_keys(rng.make_keys(key, nodes), features)
        if self._weights is not None:
            draws = rng.by_weight(draws, self._weights[features])
        if self._useless is not None and nodes[0] > 0:
            passed = np.unpackbits(self._useless[parents], axis=1, count=self._n_features)[:, features]
            draws[passed.astype(np.bool_)] = np.inf
        chosen = np.argsort(draws, axis=1, kind="stable")[:, turn * n : (turn + 1) * n]
        np.put_along_axis(masks, features[chosen], np.uint8(1), axis=1)
        return masks

    def _draw(self, features: np.ndarray, rate: float, purpose: int, where: int) -> np.ndarray:
        if rate == 1.0:
            return features
        n = self._count(len(features), rate)
        weights = None if self._weights is None else self._weights[features]
        return rng.choose(rng.make_key(self._key, purpose, where), features, n, weights)

    @staticmethod
    def _count(n_features: int, rate: float) -> int:
        return max(1, int(np.float32(rate) * np.float32(n_features)))  # as XGBoost: 0.7 of 10 is 7, not 6.9999999

    def _mask(self, features: np.ndarray) -> np.ndarray:
        mask = np.zeros(self._n_features, np.uint8)
        mask[features] = 1
        return mask
