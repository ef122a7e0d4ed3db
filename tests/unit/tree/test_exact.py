"""Exact growth against a plain referee: every kind of column, gradient and limit; then rows, samples and memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_exact
import pages
from arboost.kernels.cpu.sorted import exact as ops
from arboost.levels import exact
from arboost.levels.quantize import quantize
from arboost.matrix.adapt import adapt
from arboost.matrix.sorted import make_sorted
from arboost.runtime import memory
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.growers import ExactGrower
from arboost.tree.model import DELETED

N_ROWS = 90


def make_values(rng, n_rows=N_ROWS, missing=0.25):
    """Columns: continuous and with ties, both with holes; a full one; constant with holes; empty; constant and full."""
    X = rng.normal(size=(n_rows, 6)).astype(np.float32)
    X[:, 1] = np.round(2 * X[:, 1])
    X[:, 3], X[:, 5] = 2.5, 1.0
    X[rng.random(X.shape) < np.array([missing, missing, 0, missing, 1, 0])] = np.nan
    return X


def make_grower(X, n_threads=1, feature_weights=None, **params):
    ctx, raw = Context(n_threads=n_threads), adapt(X)
    return ExactGrower(ctx, make_sorted(ctx, raw), raw, pages.tree_params(**params), feature_weights)


def assert_same(grown, root, g, h, p, eta):
    """The grown tree has the referee's splits, and its leaves the referee's values."""
    tree = grown.tree

    def walk(i, node):
        if node.split is None:
            assert tree.left[i] == -1
            assert tree.threshold[i] == np.float32(naive_exact.leaf_value(node, g, h, p)) * np.float32(eta)
            return
        gain, feature, threshold, default_left = node.split
        found = (tree.feature[i], tree.threshold[i], tree.default_left[i])
        assert found == (feature, threshold, default_left)
        assert tree.gain[i] == np.float32(gain)
        walk(tree.left[i], node.left)
        walk(tree.right[i], node.right)

    walk(0, root)


PARAMS = {
    "plain": {},
    "free": {"min_child_weight": 0, "reg_lambda": 0.5, "max_depth": 0},
    "heavy": {"min_child_weight": 6},
    "gamma": {"gamma": 1.5},
    "alpha": {"reg_alpha": 0.7},
    "delta": {"max_delta_step": 0.2},
}


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_tree_is_the_referees(params, kind):
    rng = np.random.default_rng(3)
    X = make_values(rng)
    gradients, g, h = pages.quantized(rng, N_ROWS, kind)
    grower = make_grower(X, **params)
    tree_params = pages.tree_params(**params)
    p = pages.naive_params(tree_params, gradients)
    grown = grower.grow(gradients, None, 0)
    assert_same(grown, naive_exact.grow(X.tolist(), g, h, p), g, h, p, tree_params.eta)
    again = grower.grow(gradients, None, 0)
    assert again.tree.equals(grown.tree)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(0, 1), st.integers(1, 12))
def test_small_tables(seed, n_rows, missing, n_distinct):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_distinct, (n_rows, 3)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    gradients, g, h = pages.quantized(rng, n_rows, "packed")
    params = {"max_depth": 3, "min_child_weight": 0.3}
    p = pages.naive_params(pages.tree_params(**params), gradients)
    grown = make_grower(X, **params).grow(gradients, None, 0)
    assert_same(grown, naive_exact.grow(X.tolist(), g, h, p), g, h, p, pages.tree_params().eta)


@pytest.mark.parametrize(("ahead", "block"), [(0, 7), (3, 1), (256, 4096)])
def test_prefetch_and_block_size_change_nothing(ahead, block):
    rng = np.random.default_rng(5)
    X = make_values(rng, 3000)
    gradients, _, _ = pages.quantized(rng, 3000, "packed")
    grower = make_grower(X)
    usual = grower.grow(gradients, None, 0)
    grower.columns_engine.tune(ahead, block)
    assert grower.grow(gradients, None, 0).tree.equals(usual.tree)


def test_sampled_rows_alone_make_the_tree_and_all_get_its_weights():
    rng = np.random.default_rng(1)
    X = make_values(rng)
    gradients, g, h = pages.quantized(rng, N_ROWS, "packed")
    sampled = np.flatnonzero(rng.random(N_ROWS) < 0.6).astype(np.int32)
    grower = make_grower(X)
    grown = grower.grow(gradients, sampled, 0)
    p = pages.naive_params(pages.tree_params(), gradients)
    assert_same(grown, naive_exact.grow(X.tolist(), g, h, p, rows=sampled.tolist()), g, h, p, 0.3)
    margin = np.zeros((N_ROWS, 2), np.float32)
    grower.add_weights(grown, margin, 1)
    assert not margin[:, 0].any()
    assert np.array_equal(margin[:, 1], [walk_tree(grown.tree, x) for x in X])


def walk_tree(tree, x):
    i = 0
    while tree.left[i] >= 0:
        v, split = x[tree.feature[i]], tree.threshold[i]
        i = tree.left[i] if v < split or (np.isnan(v) and tree.default_left[i]) else tree.right[i]
    return tree.threshold[i]


@pytest.mark.parametrize("gamma", [0, 3])
def test_rows_of_leaves(gamma):
    """With pruning, rows of what was cut off belong to the leaf that is left of it."""
    rng = np.random.default_rng(2)
    X = make_values(rng, 400)
    gradients, _, _ = pages.quantized(rng, 400, "equal hessians")
    grower = make_grower(X, gamma=gamma)
    sampled = np.arange(0, 400, 2, dtype=np.int32)
    grown = grower.grow(gradients, sampled, 0, partition_all=True)
    assert (grown.tree.feature == DELETED).any() == bool(gamma)
    rows, leaf_ptr = grower.leaf_rows(grown)
    assert sorted(rows) == sampled.tolist()
    for k, leaf in enumerate(grown.leaves):
        mine = rows[leaf_ptr[k] : leaf_ptr[k + 1]]
        assert list(mine) == sorted(mine)
        assert all(walk_tree(grown.tree, X[r]) == grown.tree.threshold[leaf] for r in mine)
        assert np.isclose(len(mine), grown.tree.cover[leaf])


def test_columns_are_drawn_per_tree_level_and_node():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 10)).astype(np.float32)
    gradients, _, _ = pages.quantized(rng, 500, "packed")
    used = [
        set(make_grower(X, **{name: 0.2}).grow(gradients, None, 7).tree.feature.tolist())
        for name in ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
    ]
    assert len(used[0] - {0}) <= 2  # leaves have feature 0
    assert len(used[1]) > 3
    assert len(used[2]) > 3
    weights = np.array([0.0] * 8 + [1.0, 1.0])
    tree = make_grower(X, feature_weights=weights, colsample_bytree=0.2).grow(gradients, None, 7).tree
    assert set(tree.feature[tree.left >= 0].tolist()) <= {8, 9}


def test_neighbouring_floats_are_told_apart():
    """XGBoost sends both of them right where the column has missing values."""
    low = np.float32(1)
    high = np.nextafter(low, np.float32(2))
    X = np.array([[low], [low], [high], [high], [np.nan]], np.float32)
    ctx = Context()
    gradients = quantize(ctx, np.array([-1, -1, 1, 1, 1], np.float32), np.ones(5, np.float32))
    grown = make_grower(X, reg_lambda=0).grow(gradients, None, 0)
    assert grown.tree.threshold[0] == high
    assert grown.tree.cover.tolist() == [5, 2, 3]


@pytest.mark.parametrize("n_rows", [1, 2, 63, 64, 65])
def test_few_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 2)).astype(np.float32)
    gradients, g, h = pages.quantized(rng, n_rows, "equal hessians")
    p = pages.naive_params(pages.tree_params(), gradients)
    grown = make_grower(X).grow(gradients, None, 0)
    assert_same(grown, naive_exact.grow(X.tolist(), g, h, p), g, h, p, 0.3)


def test_deep_trees_outgrow_the_first_arrays():
    """More nodes, and more of them at once, than there is room for at first, with threads in the kernel."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20_000, 2)).astype(np.float32)
    gradients, _, _ = pages.quantized(rng, len(X), "equal hessians")
    trees = [make_grower(X, n, max_depth=12).grow(gradients, None, 0).tree for n in (1, 3)]
    assert trees[0].n_nodes > 500
    assert trees[0].equals(trees[1])


@pytest.mark.parametrize("n_features", [1, 2, 6])
@pytest.mark.parametrize("sampled", [False, True])
def test_long_runs_are_cut_into_pieces(n_features, sampled, monkeypatch):
    """Fewer columns than threads: a column is shared, and the tree is what one thread makes of it."""
    rng = np.random.default_rng(6)
    X = make_values(rng, 2000)[:, :n_features]
    gradients, _, _ = pages.quantized(rng, 2000, "packed")
    rows = np.flatnonzero(rng.random(2000) < 0.7).astype(np.int32) if sampled else None
    monkeypatch.setattr(exact, "TEAM_ENTRIES", 0)
    monkeypatch.setattr(exact, "PIECE_ENTRIES", 1)
    alone = make_grower(X).grow(gradients, rows, 0)
    for n_threads in (2, 3, 16):
        grower = make_grower(X, n_threads)
        n_pieces = watch_pieces(grower)
        assert grower.grow(gradients, rows, 0).tree.equals(alone.tree)
        assert (max(n_pieces) > 1) == (n_features < n_threads)


def watch_pieces(grower):
    """A list that takes the number of pieces of every order to come."""
    seen, order = [], grower.engine._team.order

    def watch(*args):
        order(*args)
        seen.append(int(grower.engine._counts[ops.PIECES]))

    grower.engine._team.order = watch
    return seen


def test_too_little_memory_is_said_before_anything_is_allocated(monkeypatch):
    ctx = Context(n_threads=2)
    exact.check_memory(ctx, 1000, 10**5, 1000)
    monkeypatch.setattr(memory, "limit", 10**6)
    with pytest.raises(XGBoostError, match=r"tree_method='exact' on 100000 values needs about 1.\d MiB .* 1.0 MiB are"):
        exact.check_memory(ctx, 1000, 10**5, 1000)
