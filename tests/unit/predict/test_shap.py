"""Explanations of whole forests: targets, slices, bias, threads; and categories as bits."""

import numpy as np
import pytest

import naive_shap
import pages
from arboost.predict import shap
from arboost.predict.forest import Forest
from arboost.predict.shap import Explainer, contributions, interactions, pack_bitsets
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from forests import random_tree

N_FEATURES = 4


def make_forest(seed, n_trees=9, n_targets=3, **statistics):
    rng = np.random.default_rng(seed)
    trees = [
        naive_shap.add_statistics(rng, random_tree(rng, N_FEATURES, int(n), 7), **statistics)
        for n in rng.integers(0, 20, n_trees)
    ]
    return trees, [t % n_targets for t in range(n_trees)], naive_shap.make_rows(rng, 40, N_FEATURES)


def explain(explainer, data, start, trees=slice(None), kind=contributions, approximate=False, n_threads=1):
    cut = len(data) // 3  # in two chunks
    chunks = [(0, data[:cut]), (cut, data[cut:])]
    return kind(Context(n_threads=n_threads), explainer, trees, chunks, start, approximate)


@pytest.mark.parametrize("chosen", [slice(None), slice(2, 7), slice(3, 3)])
def test_targets_slices_and_bias(chosen):
    trees, targets, data = make_forest(0, category_rate=0.3)
    start = np.random.default_rng(1).normal(size=(len(data), 3)).astype(np.float32)
    explainer = Explainer(trees, targets, N_FEATURES)
    found = explain(explainer, data, start, chosen)
    assert found.dtype == np.float32
    expected = np.zeros((len(data), 3, N_FEATURES + 1))
    expected[:, :, -1] = start
    for tree, target in zip(trees[chosen], targets[chosen], strict=True):
        expected[:, target] += [naive_shap.contributions(tree, x) for x in data]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_rows_of_interactions_sum_to_contributions_and_these_to_margins(n_targets):
    trees, targets, data = make_forest(2, n_trees=12, n_targets=n_targets, category_rate=0.3, empty_rate=0.1)
    start = np.zeros((len(data), n_targets), np.float32)
    forest = Forest(trees, targets)
    explainer = forest.explainer(N_FEATURES)
    assert forest.explainer(N_FEATURES) is explainer
    margin = start.copy()
    forest.add_margins(Context(), data, slice(None), margin)
    for approximate in (False, True):
        found = explain(explainer, data, start, approximate=approximate)
        pairs = explain(explainer, data, start, kind=interactions, approximate=approximate)
        assert pairs.shape == (len(data), n_targets, N_FEATURES + 1, N_FEATURES + 1)
        np.testing.assert_allclose(found.sum(axis=-1), margin, atol=1e-5)
        np.testing.assert_allclose(pairs.sum(axis=-1), found, atol=1e-5)


def test_one_feature_interacts_with_none():
    rng = np.random.default_rng(3)
    trees = [naive_shap.add_statistics(rng, random_tree(rng, 1, n, 5)) for n in (3, 9)]
    data = naive_shap.make_rows(rng, 10, 1)
    explainer, start = Explainer(trees, [0, 0], 1), np.zeros((10, 1), np.float32)
    pairs = explain(explainer, data, start, kind=interactions)
    np.testing.assert_array_equal(np.diagonal(pairs, axis1=2, axis2=3), explain(explainer, data, start))
    assert np.count_nonzero(pairs[:, :, 0, 1]) == np.count_nonzero(pairs[:, :, 1, 0]) == 0


@pytest.mark.parametrize("n_threads", pages.THREADS)
@pytest.mark.parametrize("kind", [contributions, interactions])
@pytest.mark.parametrize("approximate", [False, True])
def test_the_same_bits_on_any_threads(monkeypatch, n_threads, kind, approximate):
    trees, targets, data = make_forest(4, n_trees=20, category_rate=0.2)
    data = np.tile(data, (20, 1))
    start = np.zeros((len(data), 3), np.float32)
    explainer = Explainer(trees, targets, N_FEATURES)
    expected = explain(explainer, data, start, kind=kind, approximate=approximate)
    monkeypatch.setattr(shap, "_SMALL_WORK", 1)
    with pages.cut_anywhere(n_threads):
        found = explain(explainer, data, start, kind=kind, approximate=approximate, n_threads=n_threads)
    np.testing.assert_array_equal(found, expected)


def test_no_trees_and_no_rows():
    explainer = Explainer([], [], N_FEATURES)
    start = np.full((2, 1), 0.5, np.float32)
    data = np.zeros((2, N_FEATURES), np.float32)
    for kind in (contributions, interactions):
        found = kind(Context(), explainer, slice(None), [(0, data)], start, False)
        assert found.sum() == 1.0
        assert found[..., -1].ravel()[-1] == 0.5
        assert len(kind(Context(), explainer, slice(None), [], start[:0], False)) == 0


def test_unknown_covers_are_split_evenly():
    trees, targets, data = make_forest(5, n_targets=1)
    for tree in trees:
        tree.cover[:] = 0
    found = explain(Explainer(trees, targets, N_FEATURES), data, np.zeros((len(data), 1), np.float32))
    expected = [sum(naive_shap.contributions(tree, x) for tree in trees) for x in data]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_pruned_nodes_are_passed_over():
    """Nodes that nothing points to keep their place in the arrays."""
    tree = naive_shap.add_statistics(np.random.default_rng(6), random_tree(np.random.default_rng(6), 2, 5, 4))
    bottom = next(i for i in reversed(range(tree.n_nodes)) if tree.left[i] >= 0 and i > 0)
    data = naive_shap.make_rows(np.random.default_rng(7), 30, 2)
    tree.left[bottom] = tree.right[bottom] = -1
    start = np.zeros((30, 1), np.float32)
    found = explain(Explainer([tree], [0], 2), data, start)
    np.testing.assert_allclose(found[:, 0], [naive_shap.contributions(tree, x) for x in data], atol=1e-6)


def test_bitsets():
    rng = np.random.default_rng(8)
    trees = [naive_shap.add_statistics(rng, random_tree(rng, 3, n, 6), category_rate=0.7) for n in (4, 0, 9)]
    place, bits = pack_bitsets(trees)
    nodes = [(tree, i) for tree in trees for i in range(tree.n_nodes)]
    for (tree, i), start in zip(nodes, place, strict=True):
        if not len(tree.split_type) or not tree.split_type[i]:
            assert start == 0
            continue
        words = bits[start + 1 : start + 1 + int(bits[start])]
        codes = [64 * w + b for w, word in enumerate(words) for b in range(64) if int(word) >> b & 1]
        k = list(tree.categories_nodes).index(i)
        first = tree.categories_segments[k]
        assert codes == tree.categories[first : first + tree.categories_sizes[k]].tolist()


def test_shap_dictionary_refuses_categories():
    trees, targets, _ = make_forest(9, category_rate=0.5)
    with pytest.raises(XGBoostError, match="categorical"):
        shap.to_shap(trees, targets, np.zeros(3, np.float32), "reg:squarederror")
