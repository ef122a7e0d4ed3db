"""Minimal cost-complexity pruning (Breiman, Friedman, Olshen and Stone 1984, chapter 3).

A subtree with L leaves is worth (R(node) - R(subtree)) / (L - 1) a leaf, and R(node) - R(subtree) is what its splits
gain. The weakest subtree goes first. Impurities are of the whole tree, divided by the sum of weights.
"""

from dataclasses import replace

import numpy as np

from arboost.tree.model import NO_PARENT, Tree
from arboost.tree.update import levels


class Pruner:
    """One tree, from whole to its root.

    Parameters
    ----------
    tree
        The tree; inner nodes hold in `base_weight` what they would predict as leaves.
    decrease
        (n_nodes,) by how much each split lowers the impurity of the whole tree; 0 for leaves.
    """

    def __init__(self, tree: Tree, decrease: np.ndarray):
        self._tree = tree
        self._is_leaf = tree.left < 0
        self._worth, self._n_leaves = decrease.astype(np.float64), self._is_leaf.astype(np.int64)
        for nodes in reversed(levels(tree)[1:]):
            np.add.at(self._worth, tree.parent[nodes], self._worth[nodes])
            np.add.at(self._n_leaves, tree.parent[nodes], self._n_leaves[nodes])

    def weakest(self) -> tuple[int, float]:
        """The inner node whose subtree is worth least a leaf, and that worth; -1 and inf if only the root is left."""
        inner = np.flatnonzero(~self._is_leaf)
        if not len(inner):
            return -1, np.inf
        worth = self._worth[inner] / (self._n_leaves[inner] - 1)
        place = int(np.argmin(worth))  # of equal ones the nearest to the root
        return int(inner[place]), float(worth[place])

    def cut(self, node: int) -> float:
        """Make an inner node a leaf; returns by how much the impurity of the tree rises."""
        tree, worth, n_less = self._tree, float(self._worth[node]), int(self._n_leaves[node]) - 1
        above = node
        while above != NO_PARENT:
            self._worth[above] -= worth
            self._n_leaves[above] -= n_less
            above = int(tree.parent[above])
        below = [node]
        while below:
            inner = [i for i in below if not self._is_leaf[i]]
            self._is_leaf[inner] = True
            below = [int(child) for i in inner for child in (tree.left[i], tree.right[i])]
        return worth

    def result(self) -> Tree:
        """The tree as it is now, its nodes numbered anew."""
        return keep_above(self._tree, self._is_leaf)


def pruning_path(tree: Tree, decrease: np.ndarray, impurity: float) -> tuple[np.ndarray, np.ndarray]:
    """(alphas, impurities): the values of alpha at which the tree shrinks, and the impurity of its leaves from each on.

    `impurity` is that of the whole tree's leaves.
    """
    pruner = Pruner(tree, decrease)
    alphas, impurities = [0.0], [impurity]
    while True:
        node, alpha = pruner.weakest()
        if node < 0:
            return np.array(alphas), np.array(impurities)
        impurity += pruner.cut(node)
        if alpha <= alphas[-1]:  # several subtrees go at one value
            impurities[-1] = impurity
        else:
            alphas.append(alpha)
            impurities.append(impurity)


def prune(tree: Tree, decrease: np.ndarray, alpha: float) -> Tree:
    """The smallest subtree that minimises impurity + alpha * leaves."""
    pruner = Pruner(tree, decrease)
    while True:
        node, worth = pruner.weakest()
        if node < 0 or worth > alpha:
            return pruner.result()
        pruner.cut(node)


def keep_above(tree: Tree, is_leaf: np.ndarray) -> Tree:
    """The tree with some inner nodes made leaves; nodes below them are gone, the others keep their order."""
    kept = np.zeros(tree.n_nodes, np.bool_)
    kept[0] = True
    for nodes in levels(tree)[1:]:
        kept[nodes] = kept[tree.parent[nodes]] & ~is_leaf[tree.parent[nodes]]
    ids = np.flatnonzero(kept)
    place = np.full(tree.n_nodes, -1, np.int32)
    place[ids] = np.arange(len(ids), dtype=np.int32)
    leaf = is_leaf[ids]
    is_new = leaf & (tree.left[ids] >= 0)
    threshold, vectors = tree.threshold[ids], tree.vectors
    if tree.has_vectors:
        vectors = np.where(is_new[:, None], tree.base_weight[ids], vectors[ids])
    else:
        threshold = np.where(is_new, tree.base_weight[ids], threshold)
    parent = tree.parent[ids]
    short = replace(
        tree,
        left=np.where(leaf, np.int32(-1), place[tree.left[ids]]),
        right=np.where(leaf, np.int32(-1), place[tree.right[ids]]),
        parent=np.where(parent == NO_PARENT, np.int32(NO_PARENT), place[np.where(parent == NO_PARENT, 0, parent)]),
        feature=np.where(leaf, np.int32(0), tree.feature[ids]),
        threshold=threshold,
        default_left=np.where(leaf, np.uint8(0), tree.default_left[ids]),
        gain=np.where(leaf, np.float32(0), tree.gain[ids]),
        cover=tree.cover[ids],
        base_weight=tree.base_weight[ids],
        vectors=vectors,
    )
    if len(tree.categories_nodes):
        short.take_sets({int(place[i]): s for i, s in tree.sets.items() if kept[i] and not is_leaf[i]})
    return short
