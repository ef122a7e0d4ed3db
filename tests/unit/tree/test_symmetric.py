"""Symmetric trees against ones grown row by row, to the last bit; and what they promise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arboost
import naive
import pages
from arboost.core import XGBoostError
from arboost.levels.quantize import quantize
from arboost.runtime.context import Context
from arboost.tree.growers import SymmetricGrower
from arboost.tree.model import NO_PARENT
from forests import level_conditions
from naive_symmetric import Grower

N_BINS = [12, 1, 30, 2, 7]


def params_of(**params):
    return pages.tree_params(grow_policy="symmetric", **params)


def make_page(bins, n_bins, categorical=()):
    """`pages.make_page` with some features' bins being codes of categories."""
    page = pages.make_page(bins, n_bins)
    is_categorical = np.isin(np.arange(len(n_bins)), categorical)
    return replace(page, cuts=replace(page.cuts, is_categorical=is_categorical))


def grow(page, gradients, params, n_threads=1, sampled=None, **options):
    grower = SymmetricGrower(Context(n_threads=n_threads), page, params)
    grown = grower.grow(gradients, sampled, 0, **options)
    margin = np.zeros((page.n_rows, 1), np.float32)
    grower.add_weights(grown, margin, 0)
    return grown, margin[:, 0]


def check_tree(tree, nodes, p, categorical=()):
    """Every array of the finished tree against the naive nodes."""
    splits = [None if node.is_leaf else node.split for node in nodes]
    assert tree.left.tolist() == [node.left for node in nodes]
    assert tree.right.tolist() == [node.right for node in nodes]
    assert tree.parent.tolist() == [NO_PARENT, *(node.parent for node in nodes[1:])]
    assert tree.feature.tolist() == [s.feature if s else 0 for s in splits]
    assert tree.default_left.tolist() == [int(s.default_left) if s else 0 for s in splits]
    for i, (split, node) in enumerate(zip(splits, nodes, strict=True)):
        if split is None:
            assert tree.threshold[i] == naive.leaf_value(node, p)
        elif split.feature not in categorical:
            assert tree.threshold[i] == split.bin + 1
    np.testing.assert_array_equal(tree.gain, np.array([s.gain if s else 0 for s in splits], np.float32))
    cover = [float(node.h) * p.h_unit for node in nodes]
    np.testing.assert_array_equal(tree.cover, np.array(cover, np.float32))


def check_against_naive(bins, n_bins, gradients, params, categorical=(), **options):
    p = pages.naive_params(params, gradients)
    g, h = pages.unpack(gradients)
    monotone = [int(d) for d in params.monotone_constraints] if params.monotone_constraints != "()" else None
    twin = Grower(
        bins.tolist(), g, h, n_bins, p, monotone, categorical, params.max_cat_to_onehot, params.max_cat_threshold
    )
    nodes = twin.grow(options.get("sampled"))
    grown, margin = grow(make_page(bins, n_bins, categorical), gradients, params, **options)
    check_tree(grown.tree, nodes, p, categorical)
    leaf_of = {r: i for i, node in enumerate(nodes) if node.is_leaf for r in node.rows}
    seen = sorted(leaf_of)
    np.testing.assert_array_equal(margin[seen], grown.tree.threshold[[leaf_of[r] for r in seen]])
    return grown.tree


GROWTH = {
    "plain": {"max_depth": 4},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "few leaves": {"max_depth": 6, "max_leaves": 11},
    "one level": {"max_depth": 1},
    "no split": {"gamma": 1e9},
    "gamma": {"max_depth": 0, "gamma": 1.5},
    "light": {"min_child_weight": 0, "lambda": 0},
    "heavy": {"min_child_weight": 12.5, "lambda": 3.5},
    "L1": {"alpha": 2.25, "max_depth": 5},
    "small steps": {"max_delta_step": 0.25, "max_depth": 5},
    "everything": {"alpha": 0.5, "max_delta_step": 0.3, "gamma": 0.05, "min_child_weight": 3, "lambda": 0.1, "eta": 1},
    "monotone": {"max_depth": 4, "monotone_constraints": (1, 0, -1, 0, 1)},
    "monotone, heavy": {"max_depth": 3, "monotone_constraints": (-1, 1, 1, 0, 0), "min_child_weight": 8, "alpha": 0.5},
}


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("growth", GROWTH, ids=str)
def test_same_tree_as_the_naive_one(growth, kind):
    rng = np.random.default_rng(len(growth) * 10 + len(kind))
    bins = pages.make_bins(rng, 120, N_BINS, [0.1, 0.5, 0, 0, 0.3])
    gradients, _, _ = pages.quantized(rng, 120, kind)
    tree = check_against_naive(bins, N_BINS, gradients, params_of(**GROWTH[growth]))
    if kind in ("equal hessians", "packed") and growth != "no split":
        assert tree.n_nodes > 1


@pytest.mark.parametrize(
    "limits", [{}, {"max_cat_to_onehot": 100}, {"max_cat_threshold": 3}, {"monotone_constraints": (0, 0, 1, 0, 0)}]
)
@pytest.mark.parametrize("kind", ["equal hessians", "packed", "wide"])
def test_sets_of_categories(limits, kind):
    rng = np.random.default_rng(len(limits) + len(kind))
    bins = pages.make_bins(rng, 150, N_BINS, [0.1, 0, 0, 0, 0.2])
    gradients, _, _ = pages.quantized(rng, 150, kind)
    tree = check_against_naive(
        bins, N_BINS, gradients, params_of(max_depth=4, min_child_weight=0, **limits), categorical=(0, 3, 4)
    )
    assert tree.split_type.any()


@given(data=st.data())
def test_any_small_matrix(data):
    n_rows, n_features = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_bins = [data.draw(st.sampled_from([1, 2, 3, 20])) for _ in range(n_features)]
    missing = [data.draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])) for _ in range(n_features)]
    bins = pages.make_bins(rng, n_rows, n_bins, missing)
    gradients, _, _ = pages.quantized(rng, n_rows, data.draw(st.sampled_from(pages.KINDS)))
    params = params_of(
        max_depth=data.draw(st.sampled_from([0, 1, 3, 6])),
        max_leaves=data.draw(st.sampled_from([0, 2, 5])),
        min_child_weight=data.draw(st.sampled_from([0, 0.5, 1, 10])),
        reg_lambda=data.draw(st.sampled_from([0, 1])),
        reg_alpha=data.draw(st.sampled_from([0, 0, 0.5])),
        gamma=data.draw(st.sampled_from([0, 0, 0.5])),
    )
    categorical = [f for f in range(n_features) if data.draw(st.booleans())]
    sampled = np.flatnonzero(rng.random(n_rows) < 0.6).astype(np.int32) if data.draw(st.booleans()) else None
    check_against_naive(bins, n_bins, gradients, params, categorical, sampled=sampled)


def test_any_number_of_threads():
    rng = np.random.default_rng(1)
    bins = pages.make_bins(rng, 3000, N_BINS, 0.1)
    gradients, _, _ = pages.quantized(rng, 3000, "packed")
    for more, categorical in (({}, ()), ({"monotone_constraints": (1, 0, 0, 0, 0)}, (0, 3, 4))):
        page, params = make_page(bins, N_BINS, categorical), params_of(max_depth=7, **more)
        expected, expected_margin = grow(page, gradients, params)
        assert expected.tree.n_leaves > 60
        for seed, n_threads in enumerate(pages.THREADS[1:]):
            with pages.cut_anywhere(seed):
                grown, margin = grow(page, gradients, params, n_threads)
            assert grown.tree.equals(expected.tree)
            np.testing.assert_array_equal(margin, expected_margin)


def test_levels_beyond_the_buffers_that_others_get_by_with(monkeypatch):
    """All nodes of a level have histograms at a time, whatever MAX_BYTES says."""
    from arboost.levels import buffers

    rng = np.random.default_rng(2)
    bins = pages.make_bins(rng, 800, [20, 20], 0)
    gradients, _, _ = pages.quantized(rng, 800, "packed")
    page, params = make_page(bins, [20, 20]), params_of(max_depth=8, min_child_weight=0)
    expected, _ = grow(page, gradients, params)
    assert expected.tree.n_leaves > 64
    monkeypatch.setattr(buffers, "MAX_BYTES", 1)
    again, _ = grow(page, gradients, params)
    assert again.tree.equals(expected.tree)


def test_one_condition_a_level():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X[:, :3], axis=1) * np.nan_to_num(X[:, 3])
    booster = arboost.train({"grow_policy": "symmetric", "max_depth": 5}, arboost.DMatrix(X, y), 5)
    for tree in booster._learner.model.trees:
        conditions = level_conditions(tree)
        assert conditions is not None
        assert len(conditions) == 5


def test_columns_are_drawn_for_a_level():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 8)).astype(np.float32)
    y = X @ np.arange(1, 9)
    seen = set()
    for rate in ("colsample_bynode", "colsample_bylevel", "colsample_bytree"):
        params = {"grow_policy": "symmetric", "max_depth": 4, rate: 0.3, "seed": 1}
        trees = arboost.train(params, arboost.DMatrix(X, y), 8)._learner.model.trees
        assert all(level_conditions(tree) is not None for tree in trees)
        seen |= {condition.feature for tree in trees for condition in level_conditions(tree)}
    assert len(seen) > 5


def test_interaction_constraints_hold():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    params = {"grow_policy": "symmetric", "max_depth": 4, "interaction_constraints": [[0, 1], [2, 3, 4]]}
    for tree in arboost.train(params, arboost.DMatrix(X, X.prod(axis=1)), 10)._learner.model.trees:
        used = {condition.feature for condition in level_conditions(tree)}
        assert used <= {0, 1} or used <= {2, 3, 4} or used == {5}


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror"])
def test_monotone_constraints_hold(objective):
    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, size=(1500, 3)).astype(np.float32)
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    params = {"grow_policy": "symmetric", "objective": objective, "monotone_constraints": (1, -1, 0), "max_depth": 5}
    booster = arboost.train(params, arboost.DMatrix(X, y), 15)
    for f, direction in ((0, 1), (1, -1)):
        base = rng.uniform(-2, 2, size=(60, 1, 3)).repeat(40, axis=1)
        base[:, :, f] = np.linspace(-2.5, 2.5, 40)
        found = booster.predict(arboost.DMatrix(base.reshape(-1, 3))).reshape(60, 40)
        assert (direction * np.diff(found, axis=1) >= -1e-6).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tree_method": "exact"}, "exact"),
        ({"tree_method": "approx", "sketch_proposal": "local"}, "sketch_proposal"),
        ({"max_depth": 17}, "max_depth"),
    ],
)
def test_what_is_not_there_is_refused_by_name(params, message):
    X = np.arange(60, dtype=np.float32).reshape(-1, 2)
    data = arboost.DMatrix(X, np.arange(30) % 3)
    with pytest.raises(XGBoostError, match=message) as caught:
        arboost.train({"grow_policy": "symmetric", **params}, data, 1)
    assert "symmetric" in str(caught.value)


def test_approx_grows_them_too():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(800, 4)).astype(np.float32)
    params = {"grow_policy": "symmetric", "tree_method": "approx", "max_depth": 4}
    booster = arboost.train(params, arboost.DMatrix(X, X[:, 0] * X[:, 1]), 4)
    assert all(len(level_conditions(tree)) == 4 for tree in booster._learner.model.trees)


def test_the_policy_may_change_from_round_to_round():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(500, 4)).astype(np.float32)
    data = arboost.DMatrix(X, X[:, 0] * X[:, 1])
    booster = arboost.Booster({"max_depth": 3}, [data])
    for i, policy in enumerate(["depthwise", "symmetric", "lossguide", "symmetric"]):
        booster.set_param("grow_policy", policy)
        booster.update(data, i)
    found = [level_conditions(tree) is not None for tree in booster._learner.model.trees]
    assert found == [False, True, False, True]


def test_a_light_node_stays_a_leaf_of_weight_zero():
    """Rows 0 and 1 are parted from the others at the first level and weigh too little for a weight."""
    bins = np.array([[0, 0], [0, 1], *([1, 0], [1, 1]) * 20])
    g = np.array([9, 9, *(-1, 1) * 20], np.float32)
    gradients = quantize(Context(), g, np.ones(len(g), np.float32))
    tree = check_against_naive(bins, [2, 2], gradients, params_of(max_depth=2, min_child_weight=3))
    light = (tree.cover == 2) & (tree.left < 0)
    assert not tree.threshold[light].any()


def grow_vectors(g, h, n_threads=1, **params):
    """A tree with vectors in its leaves on the gradients (n, K) of rows whose features are always the same."""
    X = np.random.default_rng(9).normal(size=(len(g), 5)).astype(np.float32)
    X[::7, 1] = np.nan
    params = {"grow_policy": "symmetric", "base_score": 0, "nthread": n_threads, **params}
    if g.shape[1] > 1:
        params |= {"multi_strategy": "multi_output_tree", "num_target": g.shape[1]}
    data = arboost.DMatrix(X, g if g.shape[1] > 1 else g[:, 0])
    booster = arboost.Booster(params, [data])
    booster.boost(data, 0, grad=g, hess=h)
    return booster._learner.model.trees[0]


@pytest.mark.parametrize("params", [{}, {"alpha": 0.5, "max_depth": 8}, {"min_child_weight": 9, "gamma": 1.5}])
def test_vectors_are_found_by_sums_over_targets(params):
    """A target without gradients changes nothing; the same target twice doubles every gain."""
    rng = np.random.default_rng(10)
    g, h = rng.normal(size=(2000, 1)).astype(np.float32), rng.uniform(0.5, 1, (2000, 1)).astype(np.float32)
    alone, zero = grow_vectors(g, h, **params), np.zeros_like(g)
    beside = grow_vectors(np.hstack([g, zero]), np.hstack([h, zero]), **params)
    twice = grow_vectors(np.hstack([g, g]), np.hstack([h, h]), **params | {"gamma": 2 * params.get("gamma", 0)})
    assert len(level_conditions(alone)) > 2
    for tree, factor in ((beside, 1), (twice, 2)):
        for name in ("left", "right", "feature", "default_left"):
            np.testing.assert_array_equal(getattr(tree, name), getattr(alone, name))
        is_leaf = alone.left < 0
        np.testing.assert_array_equal(tree.vectors[is_leaf, 0], alone.threshold[is_leaf])
        np.testing.assert_array_equal(tree.threshold[~is_leaf], alone.threshold[~is_leaf])
        np.testing.assert_allclose(tree.gain, factor * alone.gain, rtol=1e-6)
    assert not beside.vectors[:, 1].any()
    np.testing.assert_array_equal(twice.vectors[:, 0], twice.vectors[:, 1])


def test_vectors_have_one_condition_a_level_on_any_threads():
    rng = np.random.default_rng(11)
    g, h = rng.normal(size=(20_000, 3)).astype(np.float32), np.ones((20_000, 3), np.float32)
    trees = [grow_vectors(g, h, n, colsample_bynode=0.5) for n in (1, 3)]
    assert trees[0].equals(trees[1])
    assert len(level_conditions(trees[0])) == 6
