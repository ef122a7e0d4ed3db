"""Walks through packed trees against walks node by node; packing itself is in tests/unit/predict."""

import numpy as np
import pytest

import naive
from arboost.kernels.cpu import predict as ops
from arboost.kernels.dtypes import PACKED_TREE
from forests import random_tree


def pack(trees, perfect):
    """Packed arrays with every tree in the one layout or the other."""
    records = np.zeros(len(trees), PACKED_TREE)
    n_nodes = n_leaves = 0
    for t, tree in enumerate(trees):
        depth = tree.depth()
        records[t] = (n_nodes, n_leaves, depth if perfect else -1, t % 2)
        n_nodes += (1 << depth) - 1 if perfect else tree.n_nodes
        n_leaves += 1 << depth if perfect else tree.n_nodes
    feature, child, leaf_node = np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.int32), np.zeros(n_leaves, np.int32)
    threshold, weight = np.full(n_nodes, np.inf, np.float32), np.full(n_leaves, np.nan, np.float32)
    default_left = np.zeros(n_nodes, np.uint8)
    for t, tree in enumerate(trees):
        source = (tree.left, tree.right, tree.feature, tree.threshold, tree.default_left)
        ops.pack_tree(*source, t, records, feature, threshold, default_left, child, weight, leaf_node)
    return (records, feature, threshold, default_left, child), weight, leaf_node


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("n_trees", [1, ops.CHECK_TREES, 20])  # few trees do not look for NaN first
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_margins_and_leaves(n_trees, perfect, missing):
    rng = np.random.default_rng(n_trees)
    trees = [random_tree(rng, 4, int(rng.integers(1, 20)), max_depth=7) for _ in range(n_trees)]
    packed, weight, leaf_node = pack(trees, perfect)
    assert not np.isnan(weight).any()  # every leaf below a shallow leaf is filled
    n = 3 * ops.BLOCK + 1
    data = rng.integers(-3, 4, (n, 4)).astype(np.float32)
    data[rng.random(data.shape) < missing] = np.nan
    data[:2] = [[np.inf] * 4, [-np.inf] * 4]
    start = rng.normal(size=(n, 2)).astype(np.float32)
    margin, leaves = start.copy(), np.full((n, n_trees), -1, np.int32)
    for span in ((0, 1), (1, ops.BLOCK + 5), (ops.BLOCK + 5, n)):
        ops.predict_margins(data, *packed, weight, margin, *span)
        ops.predict_leaves(data, *packed, leaf_node, leaves, *span)
    targets = [t % 2 for t in range(n_trees)]
    np.testing.assert_array_equal(margin, naive.predict(trees, targets, data, start))
    assert leaves.tolist() == [[naive.leaf_of_values(tree, x) for tree in trees] for x in data]
