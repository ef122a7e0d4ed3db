"""min_data_in_leaf, extra_trees and path_smooth against trees grown row by row, to the last bit; what they are for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arboost
import naive
import naive_smooth
import pages
from arboost.core import XGBoostError
from arboost.runtime import rng as draws
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower
from grown_trees import check_tree

N_BINS = [12, 1, 30, 2, 7]


def grow(page, gradients, params, n_threads=1, sampled=None, key=0):
    grower = HistogramGrower(Context(n_threads=n_threads), page, params)
    grown = grower.grow(gradients, sampled, key)
    margin = np.zeros((page.n_rows, 1), np.float32)
    grower.add_weights(grown, margin, 0)
    return grown, margin[:, 0]


def naive_draw(key):
    """The hash that draws a candidate."""
    key = draws.make_key(key, draws.SPLITS) | 1
    return lambda node, f, n: naive.mix(key ^ naive.mix((node << 32) ^ f)) % n


def check_against_naive(bins, n_bins, gradients, params, sampled=None, key=3):
    p = pages.naive_params(params, gradients)
    g, h = pages.unpack(gradients)
    draw = naive_draw(key) if params.extra_trees else None
    nodes = naive.grow(bins.tolist(), g, h, n_bins, p, sampled, draw=draw)
    grown, margin = grow(pages.make_page(bins, n_bins), gradients, params, 1, sampled, key)
    check_tree(grown.tree, nodes, p)
    leaves = [naive.leaf_of_bins(nodes, row) for row in bins.tolist()]
    np.testing.assert_array_equal(margin, grown.tree.threshold[leaves])
    return nodes


GROWTH = {
    "plain": {"max_depth": 5},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "lossguide": {"max_depth": 0, "grow_policy": "lossguide", "max_leaves": 12},
    "L1": {"max_depth": 5, "alpha": 1.5, "min_child_weight": 3},
}
CHOICES = {
    "rows": {"min_data_in_leaf": 12},
    "drawn": {"extra_trees": True},
    "both": {"min_data_in_leaf": 5, "extra_trees": True},
}


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("choice", CHOICES)
def test_same_tree_as_the_naive_one(choice, growth, kind):
    rng = np.random.default_rng(len(choice) * 100 + len(growth) * 10 + len(kind))
    bins = pages.make_bins(rng, 250, N_BINS, [0.1, 0.5, 0, 0, 0.3])
    gradients, _, _ = pages.quantized(rng, 250, kind)
    params = pages.tree_params(**GROWTH[growth], **CHOICES[choice])
    nodes = check_against_naive(bins, N_BINS, gradients, params)
    if choice != "drawn":
        assert all(len(node.rows) >= CHOICES[choice]["min_data_in_leaf"] for node in nodes)


@given(data=st.data())
def test_any_small_matrix(data):
    n_rows, n_features = data.draw(st.integers(1, 120)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_bins = [data.draw(st.sampled_from([1, 2, 3, 20, 200])) for _ in range(n_features)]
    bins = pages.make_bins(rng, n_rows, n_bins, [data.draw(st.sampled_from([0.0, 0.3, 1.0])) for _ in n_bins])
    gradients, _, _ = pages.quantized(rng, n_rows, data.draw(st.sampled_from(pages.KINDS)))
    params = pages.tree_params(
        max_depth=data.draw(st.sampled_from([0, 3])),
        min_child_weight=data.draw(st.sampled_from([0, 1])),
        min_data_in_leaf=data.draw(st.sampled_from([0, 1, 2, 20])),
        extra_trees=data.draw(st.booleans()),
    )
    sampled = np.flatnonzero(rng.random(n_rows) < 0.6).astype(np.int32) if data.draw(st.booleans()) else None
    check_against_naive(bins, n_bins, gradients, params, sampled)


def test_any_number_of_threads():
    rng = np.random.default_rng(1)
    bins = pages.make_bins(rng, 3000, N_BINS, 0.1)
    gradients, _, _ = pages.quantized(rng, 3000, "packed")
    page = pages.make_page(bins, N_BINS)
    for choice in ({"min_data_in_leaf": 9}, {"extra_trees": True}, {"path_smooth": 20}):
        params = pages.tree_params(max_depth=7, **choice)
        expected, expected_margin = grow(page, gradients, params)
        assert expected.tree.n_leaves > 20
        for seed, n_threads in enumerate(pages.THREADS[1:]):
            with pages.cut_anywhere(seed):
                grown, margin = grow(page, gradients, params, n_threads)
            assert grown.tree.equals(expected.tree)
            np.testing.assert_array_equal(margin, expected_margin)


# ---- what they are for ----


def table(n_rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n_rows)).astype(np.float32)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_leaves_have_so_many_rows(objective):
    X, y = table()
    y = (y > 0).astype(np.float32) if "binary" in objective else y
    params = {"objective": objective, "min_data_in_leaf": 40, "max_depth": 0, "min_child_weight": 0}
    data = arboost.DMatrix(X, y)
    booster = arboost.train(params, data, 4)
    leaves = booster.predict(data, pred_leaf=True)
    assert all(np.unique(column, return_counts=True)[1].min() >= 40 for column in leaves.T)
    free = arboost.train({**params, "min_data_in_leaf": 1}, data, 4).predict(data, pred_leaf=True)
    assert np.unique(free[:, 0], return_counts=True)[1].min() < 40


def test_drawn_candidates_differ_between_trees_nodes_and_seeds():
    X, y = table()
    data = arboost.DMatrix(X, y)
    params = {"extra_trees": True, "max_depth": 3, "num_parallel_tree": 2}
    first, second = arboost.train(params, data, 1).get_dump()
    other, _ = arboost.train(params | {"seed": 1}, data, 1).get_dump()
    assert len({first, second, other}) == 3
    assert arboost.train(params, data, 1).get_dump() == [first, second]


SMOOTH = {
    "plain": {"max_depth": 4, "path_smooth": 10},
    "much": {"max_depth": 3, "path_smooth": 1000},
    "heavy": {"max_depth": 4, "path_smooth": 3, "min_child_weight": 6, "lambda": 0.5},
    "L1": {"max_depth": 4, "path_smooth": 5, "alpha": 0.7, "gamma": 0.3},
}


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("growth", SMOOTH)
def test_smoothed_weights_are_the_naive_ones(growth, kind):
    rng = np.random.default_rng(len(growth) + len(kind))
    bins = pages.make_bins(rng, 200, N_BINS, [0.1, 0.5, 0, 0, 0.3])
    gradients, g, h = pages.quantized(rng, 200, kind)
    params = pages.tree_params(**SMOOTH[growth])
    p = pages.naive_params(params, gradients)
    nodes = naive_smooth.grow(bins.tolist(), g, h, N_BINS, p)
    grown, _ = grow(pages.make_page(bins, N_BINS), gradients, params)
    assert grown.tree.left.tolist() == [node.left for node in nodes]
    splits = [None if node.is_leaf else node.split for node in nodes]
    assert grown.tree.feature.tolist() == [s.feature if s else 0 for s in splits]
    np.testing.assert_array_equal(grown.tree.gain, np.array([s.gain if s else 0 for s in splits], np.float32))
    leaves = [naive.leaf_value(node, p) for node in nodes if node.is_leaf]
    np.testing.assert_array_equal(grown.tree.threshold[grown.tree.left < 0], np.array(leaves, np.float32))


def test_smoothing_is_lightgbms():
    """One split of 3 and 7 rows: each leaf lies n / (n + s) of the way from the root's weight to its own."""
    X = np.repeat([0.0, 1.0], [3, 7])[:, None]
    y = np.repeat([-2.0, 1.0], [3, 7])
    params = {"max_depth": 1, "path_smooth": 5, "lambda": 0, "eta": 1, "base_score": 0, "min_child_weight": 0}
    leaves = np.unique(arboost.train(params, arboost.DMatrix(X, y), 1).predict(arboost.DMatrix(X)))
    root = y.mean()
    expected = [-2 * 3 / 8 + root * 5 / 8, 1 * 7 / 12 + root * 5 / 12]
    np.testing.assert_allclose(leaves, expected, rtol=1e-6)


def test_smoothing_works_with_constraints_sets_and_symmetric_trees():
    X, y = table()
    X[:, 4] = np.random.default_rng(0).integers(0, 6, len(X))
    data = arboost.DMatrix(X, y + X[:, 4] % 2, feature_types=["q"] * 4 + ["c"], enable_categorical=True)
    for more in ({}, {"monotone_constraints": (1, 0, 0, 0, 0)}, {"grow_policy": "symmetric"}):
        weights = {}
        for smooth in (0, 50):
            booster = arboost.train({"max_depth": 4, "path_smooth": smooth, **more}, data, 1)
            tree = booster._learner.model.trees[0]
            weights[smooth] = tree.threshold[tree.left < 0].std()
        assert weights[50] < weights[0]


@pytest.mark.parametrize("name", ["min_data_in_leaf", "extra_trees", "path_smooth"])
@pytest.mark.parametrize(
    ("params", "types", "only"),
    [
        ({"tree_method": "exact"}, None, None),
        ({"tree_method": "approx", "sketch_proposal": "local"}, None, None),
        ({"multi_strategy": "multi_output_tree", "objective": "multi:softprob", "num_class": 3}, None, None),
        ({"monotone_constraints": (1, 0)}, None, ("min_data_in_leaf", "extra_trees")),
        ({}, ["c", "q"], ("min_data_in_leaf", "extra_trees")),
        ({"path_smooth": 1.0}, None, ("min_data_in_leaf", "extra_trees")),
        ({"grow_policy": "symmetric"}, None, ("min_data_in_leaf",)),
    ],
)
def test_what_is_not_there_is_refused_by_name(name, params, types, only):
    data = arboost.DMatrix(
        np.arange(60, dtype=np.float32).reshape(-1, 2) % 7, np.arange(30) % 3, feature_types=types,
        enable_categorical=types is not None,
    )  # fmt: skip
    params = {**params, name: 1 if name == "extra_trees" else 2}
    if only is not None and name not in only:
        arboost.train(params, data, 1)
        return
    with pytest.raises(XGBoostError, match=name):
        arboost.train(params, data, 1)
