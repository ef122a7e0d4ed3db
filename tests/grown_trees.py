"""Grown trees against the nodes of naive ones."""

import numpy as np

import naive
from arboost.tree.model import NO_PARENT


def check_tree(tree, nodes, params):
    """Every array of the finished tree against the naive nodes; bins are `pages.make_page`'s."""
    splits = [None if node.is_leaf else node.split for node in nodes]
    assert tree.left.tolist() == [node.left for node in nodes]
    assert tree.right.tolist() == [node.right for node in nodes]
    assert tree.parent.tolist() == [NO_PARENT, *(node.parent for node in nodes[1:])]
    assert tree.feature.tolist() == [s.feature if s else 0 for s in splits]
    assert tree.default_left.tolist() == [int(s.default_left) if s else 0 for s in splits]
    values = [s.bin + 1 if s else naive.leaf_value(node, params) for s, node in zip(splits, nodes)]
    np.testing.assert_array_equal(tree.threshold, np.array(values, np.float32))
    np.testing.assert_array_equal(tree.gain, np.array([s.gain if s else 0 for s in splits], np.float32))
    cover = [float(node.h) * params.h_unit for node in nodes]
    np.testing.assert_array_equal(tree.cover, np.array(cover, np.float32))
    weights = [node.weight if s else naive.leaf_value(node, params) for s, node in zip(splits, nodes)]
    np.testing.assert_array_equal(tree.base_weight, np.array(weights, np.float32))
