"""A finished tree as a struct of arrays."""

from dataclasses import replace

import numpy as np

from arboost.tree.model import NO_PARENT
from forests import random_tree


def naive_depth(tree, i=0):
    return 0 if tree.left[i] < 0 else 1 + max(naive_depth(tree, tree.left[i]), naive_depth(tree, tree.right[i]))


def test_counts():
    rng = np.random.default_rng(0)
    for n_splits in (0, 1, 2, 5, 40):
        tree = random_tree(rng, 3, n_splits)
        assert tree.n_nodes == 2 * n_splits + 1
        assert tree.n_leaves == n_splits + 1
        assert tree.depth() == naive_depth(tree)
        assert tree.parent[0] == NO_PARENT


def test_equality_is_of_every_array():
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 3, 4)
    assert tree.equals(replace(tree, threshold=tree.threshold.copy()))
    for name in ("left", "right", "parent", "feature", "threshold", "default_left", "gain", "cover", "base_weight"):
        changed = getattr(tree, name).copy()
        changed[-1] += 1
        assert not tree.equals(replace(tree, **{name: changed}))
    assert not tree.equals(replace(tree, n_features=4))
    assert not tree.equals(random_tree(rng, 3, 5))


def test_sets_are_what_was_taken():
    tree = random_tree(np.random.default_rng(2), 3, 5)
    inner = np.flatnonzero(tree.left >= 0)[:2].tolist()
    sets = {inner[0]: np.array([1, 4], np.int32), inner[1]: np.array([0], np.int32)}
    tree.take_sets(sets)
    assert {node: members.tolist() for node, members in tree.sets.items()} == {inner[0]: [1, 4], inner[1]: [0]}
    assert np.flatnonzero(tree.split_type).tolist() == inner
    tree.take_sets({})
    assert not tree.sets
    assert not tree.split_type.any()


def test_scaling_changes_leaves_and_values_of_nodes_alone():
    tree = random_tree(np.random.default_rng(3), 3, 5)
    half, is_leaf = tree.scaled(0.5), tree.left < 0
    np.testing.assert_array_equal(half.threshold, np.where(is_leaf, tree.threshold / 2, tree.threshold))
    np.testing.assert_array_equal(half.base_weight, tree.base_weight / 2)
    assert half.threshold.dtype == half.base_weight.dtype == np.float32
    assert tree.scaled(1) is tree
