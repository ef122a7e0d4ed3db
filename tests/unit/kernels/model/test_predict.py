"""Walks through packed trees against walks node by node; packing itself is in tests/unit/predict."""

import numpy as np
import pytest

import naive
import naive_shap
from arboost.kernels.cpu.model import predict as ops
from arboost.kernels.dtypes import PACKED_TREE
from arboost.predict.shap import pack_bitsets
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


def pack_mixed(trees, perfect):
    """`pack` with the bitsets of categorical nodes."""
    packed, weight, leaf_node = pack(trees, perfect)
    places, bits = pack_bitsets(trees)
    category = np.zeros_like(packed[1])
    others = [np.empty_like(a) for a in (*packed[2:], weight, leaf_node)]
    parts = np.split(places, np.cumsum([tree.n_nodes for tree in trees])[:-1])
    for t, (tree, own) in enumerate(zip(trees, parts, strict=True)):
        ops.pack_tree(tree.left, tree.right, own, tree.threshold, tree.default_left, t, packed[0], category, *others)
    return (*packed, category, bits), weight, leaf_node


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


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("category_rate", [0.0, 0.4, 1.0])
def test_margins_and_leaves_with_categories(category_rate, perfect):
    rng = np.random.default_rng(7)
    trees = [random_tree(rng, 4, int(rng.integers(1, 20)), max_depth=7) for _ in range(9)]
    trees = [naive_shap.add_statistics(rng, tree, category_rate) for tree in trees]
    packed, weight, leaf_node = pack_mixed(trees, perfect)
    n = 3 * ops.BLOCK + 1
    data = naive_shap.make_rows(rng, n, 4)
    data[:2] = [[np.inf] * 4, [-np.inf] * 4]
    margin, leaves = np.zeros((n, 2), np.float32), np.full((n, 9), -1, np.int32)
    for span in ((0, 1), (1, ops.BLOCK + 5), (ops.BLOCK + 5, n)):
        ops.predict_margins_mixed(data, *packed, weight, margin, *span)
        ops.predict_leaves_mixed(data, *packed, leaf_node, leaves, *span)
    expected = [[naive_shap.leaf_of(tree, x) if abs(x).max() != np.inf else -1 for tree in trees] for x in data]
    finite = ~np.isinf(data).any(axis=1)
    np.testing.assert_array_equal(leaves[finite], np.array(expected)[finite])
    expected_margin = np.zeros((n, 2), np.float32)
    for t, tree in enumerate(trees):
        expected_margin[:, t % 2] += tree.threshold[leaves[:, t]]
    np.testing.assert_array_equal(margin, expected_margin)


INSIDE = [2, 2.9, 63, 130]
OUTSIDE = [0, 64, 131, 191, 192, 1e9, 2.0**63, 3e38, np.inf, -0.5, -2, -np.inf]


@pytest.mark.parametrize("code", INSIDE + OUTSIDE)
def test_only_codes_of_the_bitset_go_right(code):
    tree = random_tree(np.random.default_rng(2), 1, 1)
    tree.categories_nodes, tree.categories = np.zeros(1, np.int32), np.array([2, 63, 130], np.int32)
    tree.categories_segments, tree.categories_sizes = np.zeros(1, np.int64), np.array([3])
    data = np.array([[code]], np.float32)
    for perfect in (True, False):
        packed, weight, _ = pack_mixed([tree], perfect)
        margin = np.zeros((1, 2), np.float32)
        ops.predict_margins_mixed(data, *packed, weight, margin, 0, 1)
        assert margin[0, 0] == tree.threshold[2 if code in INSIDE else 1]


def test_nodes_cut_off_by_pruning():
    """A pruned tree keeps the places of its deleted nodes; nothing points to them."""
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 2, 12, max_depth=6)
    bottom = [i for i in range(1, tree.n_nodes) if tree.left[i] >= 0][-4:]
    for i in bottom:
        tree.left[i] = tree.right[i] = -1
    data = naive_shap.make_rows(rng, 50, 2)
    for perfect in (True, False):
        packed, _, leaf_node = pack([tree], perfect)
        leaves = np.zeros((50, 1), np.int32)
        ops.predict_leaves(data, *packed, leaf_node, leaves, 0, 50)
        assert leaves[:, 0].tolist() == [naive.leaf_of_values(tree, x) for x in data]


def test_more_rows_than_go_through_a_tree_at_a_time():
    rng = np.random.default_rng(5)
    trees = [random_tree(rng, 70, 40, max_depth=9) for _ in range(3)]
    data = rng.normal(size=(ops.MOST_ROWS + 3, 70)).astype(np.float32)
    found = []
    for perfect in (True, False):
        packed, weight, leaf_node = pack(trees, perfect)
        margin, leaves = np.zeros((len(data), 2), np.float32), np.full((len(data), 3), -1, np.int32)
        ops.predict_margins(data, *packed, weight, margin, 0, len(data))
        ops.predict_leaves(data, *packed, leaf_node, leaves, 0, len(data))
        found.append((margin, leaves))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
