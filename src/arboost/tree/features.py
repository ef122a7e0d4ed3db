"""Which features the nodes of one tree may be split on: column sampling and interaction constraints together."""

import numpy as np

from arboost.tree.column_sampling import ColumnSampler
from arboost.tree.constraints import Interactions


class TreeFeatures:
    """What levels/base.py calls features."""

    def __init__(self, columns: ColumnSampler, interactions: Interactions | None):
        self._columns, self._interactions = columns, interactions
        self.differ = columns.per_node or interactions is not None  # whether nodes of one tree may use different ones
        if interactions is not None:
            interactions.forget()

    def of_tree(self) -> np.ndarray:
        """(1, n_features) uint8: those that the tree may use."""
        return self._columns.allowed()

    def write(self, nodes: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
        """Masks of the nodes `ids`, one row of `out` each."""
        if self._columns.per_node:
            self._columns.write_allowed(nodes, ids, out)
        else:
            out[: len(ids)] = self._columns.allowed()
        self._constrain(nodes, ids, out)

    def drawn(self) -> tuple[int, np.ndarray, int] | None:
        """(key, features, n) where each node has n of these features, drawn by its number; else None."""
        return self._columns.drawn() if self._interactions is None else None

    def pass_over(self, nodes: np.ndarray, ids: np.ndarray, useless: np.ndarray) -> None:
        """Leave features that cannot part the nodes `ids` out of the draws below them."""
        self._columns.pass_over(nodes, ids, useless)

    def write_next(self, nodes: np.ndarray, ids: np.ndarray, out: np.ndarray, turn: int) -> bool:
        """Masks of the features that come next in the draws of the nodes `ids`; False if there are none."""
        found = self._columns.per_node and self._columns.write_allowed(nodes, ids, out, turn)
        self._constrain(nodes, ids, out)
        return found

    def _constrain(self, nodes: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
        if self._interactions is not None:
            for row, i in zip(out, ids.tolist(), strict=False):
                row &= self._interactions.allowed(nodes, i)
