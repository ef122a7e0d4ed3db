"""Packed trees with vectors in their leaves, alone and beside trees of one target, against a walk through each."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import pages
from arboost.predict import forest as forest_module
from arboost.predict.forest import Forest
from arboost.runtime.context import Context
from arboost.tree.model import NO_THRESHOLD
from forests import random_tree

K = 3


def vector_tree(rng, n_features, n_splits, max_depth=30):
    tree = random_tree(rng, n_features, n_splits, max_depth)
    is_leaf = tree.left < 0
    vectors = np.where(is_leaf[:, None], rng.normal(size=(tree.n_nodes, K)), 0).astype(np.float32)
    threshold = np.where(is_leaf, NO_THRESHOLD, tree.threshold).astype(np.float32)
    cover = rng.uniform(1, 9, tree.n_nodes).astype(np.float32)
    return replace(tree, threshold=threshold, vectors=vectors, base_weight=vectors.copy(), cover=cover)


def make_data(rng, n_rows):
    data = rng.integers(-3, 5, (n_rows, 3)).astype(np.float32)
    data[rng.random(data.shape) < 0.15] = np.nan
    return data


def walk(trees, targets, data, margin):
    margin = margin.copy()
    for r, x in enumerate(data):
        for tree, target in zip(trees, targets):
            leaf = naive.leaf_of_values(tree, x)
            if tree.has_vectors:
                margin[r] += tree.vectors[leaf]
            else:
                margin[r, target] += tree.threshold[leaf]
    return margin


@settings(max_examples=40)
@given(st.data())
def test_margins_of_any_forest(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kinds = data.draw(st.lists(st.booleans(), min_size=1, max_size=12))
    deepest = data.draw(st.sampled_from([1, 4, 30]))
    trees = [(vector_tree if kind else random_tree)(rng, 3, int(rng.integers(0, 40)), deepest) for kind in kinds]
    targets = [0 if tree.has_vectors else int(rng.integers(0, K)) for tree in trees]
    values = make_data(rng, data.draw(st.sampled_from([1, 64, 130])))
    start = rng.normal(size=(len(values), K)).astype(np.float32)
    first = data.draw(st.integers(0, len(trees)))
    chosen = slice(first, data.draw(st.integers(first, len(trees))))
    margin = start.copy()
    Forest(trees, targets).add_margins(Context(), values, chosen, margin)
    np.testing.assert_array_equal(margin, walk(trees[chosen], targets[chosen], values, start))


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_same_bits_for_any_number_of_threads(monkeypatch, n_threads):
    monkeypatch.setattr(forest_module, "_SMALL_WORK", 1)
    rng = np.random.default_rng(0)
    trees = [vector_tree(rng, 3, 60, 9) for _ in range(12)]
    values = make_data(rng, 500)
    margin = np.zeros((500, K), np.float32)
    Forest(trees, [0] * 12).add_margins(Context(n_threads=n_threads), values, slice(None), margin)
    np.testing.assert_array_equal(margin, walk(trees, [0] * 12, values, 0 * margin))


def test_beside_categorical_trees():
    rng = np.random.default_rng(1)
    plain = random_tree(rng, 3, 6)
    inner = int(np.flatnonzero(plain.left >= 0)[0])
    split_type = np.zeros(plain.n_nodes, np.uint8)
    split_type[inner] = 1
    categories = {"categories": np.array([1, 3], np.int32), "categories_nodes": np.array([inner], np.int32)}
    categories |= {"categories_segments": np.zeros(1, np.int64), "categories_sizes": np.array([2], np.int64)}
    trees = [replace(plain, split_type=split_type, **categories), vector_tree(rng, 3, 9)]
    values, margin = make_data(rng, 50), np.zeros((50, K), np.float32)
    Forest(trees, [1, 0]).add_margins(Context(), values, slice(None), margin)
    expected = np.zeros((50, K), np.float32)
    Forest(trees[:1], [1]).add_margins(Context(), values, slice(None), expected)
    np.testing.assert_array_equal(margin, walk(trees[1:], [0], values, expected))


def test_explanations_are_those_of_one_tree_per_target():
    rng = np.random.default_rng(2)
    trees = [vector_tree(rng, 3, 7, 4), random_tree(rng, 3, 5, 4), vector_tree(rng, 3, 5, 4)]
    trees[1].cover[:] = 1
    values = make_data(rng, 30)
    whole = Forest(trees, [0, 1, 0]).explainer(3)
    for chosen in (slice(None), slice(0, 1), slice(1, 3), slice(1, 1)):
        found = np.zeros((30, K, 4), np.float32)
        whole.explain(Context(), values, chosen, found, False)
        pairs = [pair for tree, t in zip(trees[chosen], [0, 1, 0][chosen]) for pair in tree.per_target(t)]
        copies, targets = [tree for tree, _ in pairs], [target for _, target in pairs]
        expected = np.zeros_like(found)
        Forest(copies, targets).explainer(3).explain(Context(), values, slice(None), expected, False)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(whole.mean(chosen, K), Forest(copies, targets).explainer(3).mean(slice(None), K))


def test_a_target_of_a_tree():
    tree = vector_tree(np.random.default_rng(3), 3, 9)
    is_leaf = tree.left < 0
    for target in range(K):
        one = tree.of_target(target)
        assert not one.has_vectors
        assert one.n_targets == 1
        assert np.array_equal(one.threshold[is_leaf], tree.vectors[is_leaf, target])
        assert np.array_equal(one.threshold[~is_leaf], tree.threshold[~is_leaf])
        assert np.array_equal(one.base_weight, tree.base_weight[:, target])
    assert tree.n_targets == K
    assert [t for _, t in tree.per_target(9)] == [0, 1, 2]
    assert one.per_target(9) == [(one, 9)]
