"""Symmetric trees are recognised by their shape, and predicted by the bits of their conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arboost
import naive
from arboost.kernels.cpu.model.symmetric import BLOCK
from arboost.predict.forest import Forest
from arboost.runtime.context import Context
from arboost.tree.model import NO_PARENT, Tree
from forests import level_conditions, random_tree


def symmetric_tree(rng, n_features, depth, leaf_chance=0.0):
    """One condition a level; with some chance a node above the last level is a leaf."""
    feature, threshold = rng.integers(0, n_features, depth), rng.integers(-2, 4, depth)
    default_left = rng.integers(0, 2, depth)
    links, level = [[-1, -1, NO_PARENT, 0]], [0]  # left, right, parent, depth
    for d in range(depth):
        split = [i for i in level if rng.random() >= leaf_chance or i == level[0]]
        level = []
        for i in split:
            links[i][0], links[i][1] = len(links), len(links) + 1
            level += [len(links), len(links) + 1]
            links += [[-1, -1, i, d + 1], [-1, -1, i, d + 1]]
    left, right, parent, at = np.array(links).T
    inner, at = left >= 0, np.minimum(at, depth - 1)
    n = len(links)
    return Tree(
        left.astype(np.int32), right.astype(np.int32), parent.astype(np.int32),
        np.where(inner, feature[at], 0).astype(np.int32),
        np.where(inner, threshold[at], rng.normal(size=n)).astype(np.float32),
        np.where(inner, default_left[at], 0).astype(np.uint8),
        *(np.zeros(n, np.float32) for _ in range(3)), n_features,
    )  # fmt: skip


def make_data(rng, n_rows, n_features):
    data = rng.integers(-3, 5, (n_rows, n_features)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf):
        data[rng.random(data.shape) < 0.1] = value
    return data


@given(st.data())
def test_margins_and_leaves(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    depths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    trees = [symmetric_tree(rng, 4, depth, data.draw(st.sampled_from([0.0, 0.4]))) for depth in depths]
    targets = [int(t) for t in rng.integers(0, 3, len(trees))]
    n_rows = data.draw(st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 300]))
    values, start = make_data(rng, n_rows, 4), rng.normal(size=(n_rows, 3)).astype(np.float32)
    forest = Forest(trees, targets)
    assert forest._is_symmetric == (max(depths) > 1)
    first = data.draw(st.integers(0, len(trees) - 1))
    chosen = slice(first, data.draw(st.integers(first + 1, len(trees))))
    margin, leaves = start.copy(), np.full((n_rows, len(trees[chosen])), -1, np.int32)
    forest.add_margins(Context(), values, chosen, margin)
    np.testing.assert_array_equal(margin, naive.predict(trees[chosen], targets[chosen], values, start))
    forest.find_leaves(Context(), values, chosen, leaves)
    assert leaves.tolist() == [[naive.leaf_of_values(tree, x) for tree in trees[chosen]] for x in values]


@pytest.mark.parametrize("n_threads", [2, 3])
def test_any_number_of_threads(n_threads):
    rng = np.random.default_rng(0)
    trees, values = [symmetric_tree(rng, 5, 6) for _ in range(40)], make_data(rng, 20_000, 5)
    forest, one, many = Forest(trees, [0] * 40), np.zeros((20_000, 1), np.float32), np.zeros((20_000, 1), np.float32)
    forest.add_margins(Context(n_threads=1), values, slice(None), one)
    forest.add_margins(Context(n_threads=n_threads), values, slice(None), many)
    np.testing.assert_array_equal(one, many)


def test_other_trees_are_not_taken_for_symmetric_ones():
    rng = np.random.default_rng(1)
    tree = symmetric_tree(rng, 5, 3)
    assert len(level_conditions(tree)) == 3
    assert Forest([tree], [0])._is_symmetric
    for array, value in (("feature", 1 + tree.feature[4] % 4), ("threshold", 9.0), ("default_left", 2)):
        changed = symmetric_tree(np.random.default_rng(1), 5, 3)
        getattr(changed, array)[4] = value
        assert level_conditions(changed) is None
        assert not Forest([changed], [0])._is_symmetric
    assert not Forest([tree, random_tree(rng, 5, 20)], [0, 0])._is_symmetric


def test_many_features_few_of_which_are_used():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 300)).astype(np.float32)
    booster = arboost.train({"grow_policy": "symmetric", "max_depth": 3}, arboost.DMatrix(X, X[:, 299] * X[:, 7]), 3)
    forest = booster._learner.forest()
    assert forest._is_symmetric
    assert len(forest._used) <= 10
    margin = np.full((400, 1), booster._learner.base_margin())
    trees = booster._learner.model.trees
    expected = naive.predict(trees, [0] * 3, X, margin)[:, 0]
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(X), output_margin=True), expected)


def test_dart_adds_to_and_weighs_a_symmetric_forest():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    params = {"grow_policy": "symmetric", "max_depth": 4, "booster": "dart", "rate_drop": 0.5}
    data = arboost.DMatrix(X, X[:, 0] * X[:, 1])
    booster = arboost.train(params, data, 8, evals=[(data, "train")], verbose_eval=False)
    assert booster._learner.forest()._is_symmetric
    again = arboost.Booster(model_file=booster.save_raw())
    np.testing.assert_allclose(again.predict(data), booster._learner.margins(data)[:, 0], rtol=1e-5, atol=1e-6)
