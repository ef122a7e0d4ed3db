"""A packed forest against a walk through every tree, in both layouts and on any number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import pages
from arboost.predict import forest as forest_module
from arboost.predict.forest import Forest
from arboost.runtime.context import Context
from forests import random_tree


def make_data(rng, n_rows, n_features):
    """Whole numbers that meet the thresholds, with NaN and infinities."""
    data = rng.integers(-3, 5, (n_rows, n_features)).astype(np.float32)
    data[rng.random(data.shape) < 0.15] = np.nan
    data[rng.random(data.shape) < 0.05] = np.inf
    data[rng.random(data.shape) < 0.05] = -np.inf
    return data


def predict(forest, data, start, trees=slice(None), n_threads=1):
    margin = start.copy()
    forest.add_margins(Context(n_threads=n_threads), data, trees, margin)
    return margin


def find_leaves(forest, data, n_trees, trees=slice(None), n_threads=1):
    leaves = np.full((len(data), n_trees), -1, np.int32)
    forest.find_leaves(Context(n_threads=n_threads), data, trees, leaves)
    return leaves


@given(st.data())
def test_margins_and_leaves_of_any_forest(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=12))
    trees = [random_tree(rng, 3, n, max_depth=data.draw(st.sampled_from([1, 4, 30]))) for n in sizes]
    targets = [int(t) for t in rng.integers(0, 3, len(trees))]
    n_rows = data.draw(st.sampled_from([1, 2, 63, 64, 65, 130]))
    values = make_data(rng, n_rows, 3)
    start = rng.normal(size=(n_rows, 3)).astype(np.float32)
    forest = Forest(trees, targets)
    first = data.draw(st.integers(0, len(trees)))
    chosen = slice(first, data.draw(st.integers(first, len(trees))))
    margin = predict(forest, values, start, chosen)
    np.testing.assert_array_equal(margin, naive.predict(trees[chosen], targets[chosen], values, start))
    if trees[chosen]:
        leaves = find_leaves(forest, values, len(trees[chosen]), chosen)
        assert leaves.tolist() == [[naive.leaf_of_values(tree, x) for tree in trees[chosen]] for x in values]


def test_both_layouts_are_used_and_agree(monkeypatch):
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 4, n, max_depth=9) for n in rng.integers(70, 140, 12)]
    values, start = make_data(rng, 500, 4), np.zeros((500, 1), np.float32)
    perfect = Forest(trees, [0] * 12)
    monkeypatch.setattr(forest_module, "MAX_PERFECT_DEPTH", -1)
    general = Forest(trees, [0] * 12)
    assert (perfect.trees["depth"] >= 0).all()
    assert (general.trees["depth"] < 0).all()
    np.testing.assert_array_equal(predict(perfect, values, start), predict(general, values, start))
    np.testing.assert_array_equal(find_leaves(perfect, values, 12), find_leaves(general, values, 12))


def test_deep_and_thin_trees_are_not_blown_up():
    """A path of 30 nodes in the perfect layout would need 2**30 of them."""
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, 2, 60) for _ in range(3)]
    forest = Forest(trees, [0, 0, 0])
    assert max(tree.depth() for tree in trees) > 12
    assert (forest.trees["depth"] == -1).any()
    values, start = make_data(rng, 70, 2), np.zeros((70, 1), np.float32)
    np.testing.assert_array_equal(predict(forest, values, start), naive.predict(trees, [0] * 3, values, start))


def test_the_threshold_itself_goes_right():
    tree = random_tree(np.random.default_rng(2), 1, 1)
    tree.threshold[:] = [1.5, -10, 10]
    below = np.nextafter(np.float32(1.5), np.float32(0))
    values = np.array([[below], [1.5], [np.inf], [-np.inf], [np.nan]], np.float32)
    for default_left, missing in ((0, 10), (1, -10)):
        tree.default_left[0] = default_left
        margin = predict(Forest([tree], [0]), values, np.zeros((5, 1), np.float32))
        assert margin[:, 0].tolist() == [-10, 10, 10, -10, missing]


def test_leaves_only():
    tree = random_tree(np.random.default_rng(3), 1, 0)
    start = np.ones((3, 2), np.float32)
    margin = predict(Forest([tree, tree], [1, 1]), np.zeros((3, 1), np.float32), start)
    assert margin[:, 0].tolist() == [1, 1, 1]
    np.testing.assert_array_equal(margin[:, 1], start[:, 1] + tree.threshold[0] + tree.threshold[0])


def test_no_trees():
    forest = Forest([], [])
    start = np.ones((2, 1), np.float32)
    np.testing.assert_array_equal(predict(forest, np.zeros((2, 1), np.float32), start), start)


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_any_threads_and_chunks(monkeypatch, n_threads):
    rng = np.random.default_rng(4)
    trees = [random_tree(rng, 5, int(n), max_depth=12) for n in rng.integers(1, 60, 20)]
    targets = [t % 3 for t in range(20)]
    values, start = make_data(rng, 1000, 5), rng.normal(size=(1000, 3)).astype(np.float32)
    forest = Forest(trees, targets)
    expected, expected_leaves = predict(forest, values, start), find_leaves(forest, values, 20)
    monkeypatch.setattr(forest_module, "_SMALL_WORK", 1)
    with pages.cut_anywhere(n_threads):
        np.testing.assert_array_equal(predict(forest, values, start, n_threads=n_threads), expected)
        np.testing.assert_array_equal(find_leaves(forest, values, 20, n_threads=n_threads), expected_leaves)


def test_rows_do_not_touch_each_other():
    """A row's margin is the same alone, in a block that has missing values and in one that has none."""
    rng = np.random.default_rng(5)
    trees = [random_tree(rng, 3, 20, max_depth=6) for _ in range(10)]
    forest = Forest(trees, [0] * 10)
    values = make_data(rng, 150, 3)
    start = np.zeros((150, 1), np.float32)
    together = predict(forest, values, start)
    for r in range(150):
        np.testing.assert_array_equal(predict(forest, values[r : r + 1], start[:1]), together[r : r + 1])
