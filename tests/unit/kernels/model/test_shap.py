"""Explanations of single trees against Shapley's definition."""

import numpy as np
import pytest

import naive_shap
from arboost.kernels.cpu.model import shap as ops
from arboost.predict.shap import Explainer
from arboost.runtime.context import Context
from forests import random_tree

N_FEATURES = 4


def make_tree(rng, n_splits, max_depth=8, **statistics):
    return naive_shap.add_statistics(rng, random_tree(rng, N_FEATURES, n_splits, max_depth), **statistics)


def explain(trees, data, approximate=False):
    explainer = Explainer(trees, [0] * len(trees), data.shape[1])
    out = np.zeros((len(data), 1, data.shape[1] + 1), np.float32)
    explainer.explain(Context(), data, slice(None), out, approximate)
    out[:, 0, -1] = explainer.mean(slice(None), 1)
    return out[:, 0]


def explain_pairs(trees, data):
    width = data.shape[1] + 1
    explainer = Explainer(trees, [0] * len(trees), data.shape[1])
    out = np.zeros((len(data), 1, width * width), np.float32)
    explainer.explain_pairs(Context(), data, slice(None), out)
    out[:, 0, -1] = explainer.mean(slice(None), 1)
    return out.reshape(len(data), width, width)


TREES = [(1, 1), (3, 2), (8, 4), (20, 8), (25, 3)]  # splits, depth: features come again on paths longer than 4


@pytest.mark.parametrize("statistics", [{}, {"category_rate": 0.5}, {"empty_rate": 0.6}], ids=str)
@pytest.mark.parametrize(("n_splits", "max_depth"), TREES)
def test_shapley_values_by_definition(n_splits, max_depth, statistics):
    rng = np.random.default_rng(n_splits)
    tree = make_tree(rng, n_splits, max_depth, **statistics)
    data = naive_shap.make_rows(rng, 20, N_FEATURES)
    found = explain([tree], data)
    np.testing.assert_allclose(found, [naive_shap.contributions(tree, x) for x in data], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("statistics", [{}, {"category_rate": 0.5}, {"empty_rate": 0.6}], ids=str)
@pytest.mark.parametrize(("n_splits", "max_depth"), TREES)
def test_interactions_by_definition(n_splits, max_depth, statistics):
    rng = np.random.default_rng(n_splits)
    tree = make_tree(rng, n_splits, max_depth, **statistics)
    data = naive_shap.make_rows(rng, 8, N_FEATURES)
    found = explain_pairs([tree], data)
    np.testing.assert_allclose(found, [naive_shap.interactions(tree, x) for x in data], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))


@pytest.mark.parametrize("statistics", [{}, {"category_rate": 0.5}, {"empty_rate": 0.6}], ids=str)
def test_approximate_values_by_definition(statistics):
    rng = np.random.default_rng(5)
    trees = [make_tree(rng, n, d, **statistics) for n, d in TREES]
    data = naive_shap.make_rows(rng, 30, N_FEATURES)
    expected = [sum(naive_shap.approximate_contributions(tree, x) for tree in trees) for x in data]
    np.testing.assert_allclose(explain(trees, data, approximate=True), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_rows", [1, 3, ops.BLOCK - 1, ops.BLOCK, ops.BLOCK + 1, 3 * ops.BLOCK + 5])
def test_rows_do_not_touch_each_other(n_rows):
    """A row's values have the same bits alone and at any place of a block."""
    rng = np.random.default_rng(n_rows)
    trees = [make_tree(rng, n, d, category_rate=0.2) for n, d in TREES]
    data = naive_shap.make_rows(rng, n_rows, N_FEATURES)
    together, pairs = explain(trees, data), explain_pairs(trees, data)
    for r in {0, n_rows // 2, n_rows - 1}:
        np.testing.assert_array_equal(explain(trees, data[r : r + 1]), together[r : r + 1])
        np.testing.assert_array_equal(explain_pairs(trees, data[r : r + 1]), pairs[r : r + 1])


def test_wide_data_takes_fewer_rows_at_a_time(monkeypatch):
    """More pairs than sums of a whole block: the values are the same."""
    rng = np.random.default_rng(7)
    n_features = 150
    trees = [naive_shap.add_statistics(rng, random_tree(rng, n_features, 60, 12)) for _ in range(40)]
    data = naive_shap.make_rows(rng, 20, n_features)
    explainer = Explainer(trees, [0] * len(trees), n_features)
    assert len(explainer._find_pairs()[1]) * ops.BLOCK > ops.MAX_PAIR_SUMS
    pairs = explain_pairs(trees, data)
    np.testing.assert_allclose(pairs.sum(axis=2), explain(trees, data), atol=1e-5)


def test_a_leaf_has_nothing_to_explain():
    rng = np.random.default_rng(8)
    tree = make_tree(rng, 0)
    data = naive_shap.make_rows(rng, 3, N_FEATURES)
    expected = np.zeros((3, N_FEATURES + 1), np.float32)
    expected[:, -1] = tree.threshold[0]
    np.testing.assert_array_equal(explain([tree], data), expected)
    np.testing.assert_array_equal(explain([tree], data, approximate=True), expected)
    assert np.count_nonzero(explain_pairs([tree], data)) == 3
