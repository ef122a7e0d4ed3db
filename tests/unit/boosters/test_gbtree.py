"""Rounds of trees: targets, parallel trees, slices, and margins that follow."""

import itertools

import numpy as np
import pytest

import naive
import pages
from arboost.boosters.gbtree import GBTree, TreeTrainer
from arboost.boosters.sampling import sample_rows
from arboost.runtime import rng as draws
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower
from forests import random_tree

N_ROWS = 400
N_BINS = [12, 5, 30]


@pytest.fixture
def bins():
    return pages.make_bins(np.random.default_rng(0), N_ROWS, N_BINS)


def make_gradients(n_targets=1):
    pairs = [pages.make_gradients(np.random.default_rng(k), N_ROWS, "packed") for k in range(n_targets)]
    return np.stack([g for g, _ in pairs]), np.stack([h for _, h in pairs])


def make_trainer(bins, n_threads=1, **params):
    params = pages.tree_params(**params)
    ctx, page = Context(n_threads=n_threads), pages.make_page(bins, N_BINS)
    trainer = TreeTrainer(ctx, page.n_rows, params, HistogramGrower(ctx, page, params, None))
    trainer.set_params(params)
    return trainer


def test_one_round_against_naive_trees(bins):
    """Two targets: each has its own tree, and its own column of the margins."""
    g, h = make_gradients(2)
    start = np.random.default_rng(5).normal(size=(N_ROWS, 2)).astype(np.float32)
    margin = start.copy()
    trees, targets = make_trainer(bins, max_depth=4, eta=0.5).grow_round(g, h, margin, 11, None)
    assert targets == [0, 1]
    for target, tree in enumerate(trees):
        gradients = pages.quantize.quantize(Context(), g[target], h[target])
        params = pages.naive_params(pages.tree_params(max_depth=4, eta=0.5), gradients)
        nodes = naive.grow(bins.tolist(), *pages.unpack(gradients), N_BINS, params)
        leaves = [naive.leaf_of_bins(nodes, row) for row in bins.tolist()]
        np.testing.assert_array_equal(tree.threshold[leaves], [naive.leaf_value(nodes[i], params) for i in leaves])
    np.testing.assert_array_equal(margin, naive.predict(trees, targets, pages.raw_values(bins), start))


@pytest.mark.parametrize("subsample", [1.0, 0.5, 1e-7])
@pytest.mark.parametrize("n_parallel", [1, 3])
def test_margins_are_those_of_the_trees(bins, subsample, n_parallel):
    """Every row gets every tree's weight, also rows outside its sample; parallel trees share eta."""
    g, h = make_gradients()
    options = {"subsample": subsample, "num_parallel_tree": n_parallel, "max_depth": 5, "eta": 0.7}
    margin = np.zeros((N_ROWS, 1), np.float32)
    trees, targets = make_trainer(bins, **options).grow_round(g, h, margin, 3, None)
    assert targets == [0] * n_parallel
    np.testing.assert_array_equal(margin, naive.predict(trees, targets, pages.raw_values(bins), 0 * margin))
    gradients = pages.quantize.quantize(Context(), g[0], h[0])
    eta = float(np.float32(0.7) / np.float32(n_parallel))
    params = pages.naive_params(pages.tree_params(max_depth=5)._replace(eta=eta), gradients)
    for parallel, tree in enumerate(trees):
        rows = sample_rows(Context(), N_ROWS, subsample, draws.make_key(3, 0, parallel))
        nodes = naive.grow(bins.tolist(), *pages.unpack(gradients), N_BINS, params, rows)
        assert tree.n_nodes == len(nodes)
        values = [naive.leaf_value(node, params) for node in nodes if node.is_leaf]
        np.testing.assert_array_equal(tree.threshold[tree.left < 0], values)
    if subsample == 1.0:
        assert all(tree.equals(trees[0]) for tree in trees)
    elif n_parallel > 1:
        assert subsample < 0.1 or not trees[0].equals(trees[1])


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_sampling_is_the_same_for_any_threads(bins, n_threads):
    g, h = make_gradients(2)
    options = {"subsample": 0.6, "colsample_bynode": 0.6, "colsample_bytree": 0.9, "max_depth": 0}
    margin = np.zeros((N_ROWS, 2), np.float32)
    expected, _ = make_trainer(bins, **options).grow_round(g, h, margin, 3, None)
    with pages.cut_anywhere(n_threads):
        again = np.zeros((N_ROWS, 2), np.float32)
        trees, _ = make_trainer(bins, n_threads, **options).grow_round(g, h, again, 3, None)
    assert all(a.equals(b) for a, b in zip(trees, expected, strict=True))
    np.testing.assert_array_equal(margin, again)


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("n_parallel", [1, 2])
def test_a_solver_replaces_leaf_values(bins, subsample, n_parallel):
    """It sees each leaf's rows and the margins from before the round, and its values are scaled by eta."""
    g, h = make_gradients()
    start = np.random.default_rng(1).normal(size=(N_ROWS, 1)).astype(np.float32)
    margin, seen = start.copy(), []

    def solver(target, rows, leaf_ptr, before):
        np.testing.assert_array_equal(before, start)
        assert target == 0
        seen.append((rows.copy(), leaf_ptr.copy()))
        return np.array([rows[a:b].mean() for a, b in itertools.pairwise(leaf_ptr)], np.float32)

    options = {"subsample": subsample, "num_parallel_tree": n_parallel, "max_depth": 3, "eta": 0.25}
    trees, targets = make_trainer(bins, **options).grow_round(g, h, margin, 9, solver)
    raw = pages.raw_values(bins)
    np.testing.assert_array_equal(margin, naive.predict(trees, targets, raw, start))
    for tree, (rows, leaf_ptr) in zip(trees, seen, strict=True):
        leaves = np.flatnonzero(tree.left < 0)
        for k, leaf in enumerate(leaves):
            own = rows[leaf_ptr[k] : leaf_ptr[k + 1]]
            assert {naive.leaf_of_values(tree, raw[r]) for r in own} == {leaf}
            expected = np.float32(own.mean()) * (np.float32(0.25) / np.float32(n_parallel))
            assert tree.threshold[leaf] == expected
        assert len(rows) == leaf_ptr[-1] == (N_ROWS if subsample == 1.0 else len(set(rows.tolist())))


def make_model(n_rounds, trees_per_round):
    rng = np.random.default_rng(0)
    model = GBTree()
    for _ in range(n_rounds):
        model.add_round([random_tree(rng, 2, 3) for _ in range(trees_per_round)], list(range(trees_per_round)))
    return model


def test_rounds_and_slices():
    model = make_model(5, 3)
    assert model.n_rounds == 5
    assert model.iteration_ptr == [0, 3, 6, 9, 12, 15]
    part = model.slice_rounds(range(1, 5, 2))
    assert part.n_rounds == 2
    assert part.iteration_ptr == [0, 3, 6]
    assert [id(t) for t in part.trees] == [id(t) for t in model.trees[3:6] + model.trees[9:12]]
    assert part.tree_info == [0, 1, 2, 0, 1, 2]
    assert model.n_rounds == 5
    assert GBTree().n_rounds == 0


def test_forest_from_a_tree_on():
    model = make_model(2, 2)
    assert len(model.forest().trees) == 4
    assert model.forest(3).trees["target"].tolist() == [1]
