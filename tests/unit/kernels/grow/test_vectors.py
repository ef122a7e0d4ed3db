"""Kernels of trees with vectors in their leaves against plain Python."""

import numpy as np
import pytest

import naive_vector
import pages
from arboost.kernels.cpu.grow import partition, routes, vectors
from arboost.kernels.cpu.grow.arrays import Page
from arboost.kernels.dtypes import NODE


@pytest.fixture(scope="module")
def add_scores():
    return pages.compiled(vectors.add_scores)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lambda": 0, "min_child_weight": 0},
        {"min_child_weight": 8},
        {"alpha": 3},
        {"max_delta_step": 0.2},
        {"alpha": 1, "max_delta_step": 0.2, "min_child_weight": 5},
    ],
    ids=str,
)
def test_scores(add_scores, params):
    rng = np.random.default_rng(0)
    tree_params = pages.tree_params(**params)
    p = pages.naive_params(tree_params)
    reg = np.array([p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, 0, 1, 1], np.float64)
    g, h = rng.integers(-900, 900, 20), rng.integers(0, 60, 20)
    h[3:6] = 0
    unit = np.array([2.0**-7, 2.0**-4])
    total, missing = (g.sum() + 77, h.sum() + 40), (77, 40)
    g_left, h_left = np.cumsum(g), np.cumsum(h)
    for extra in ((0, 0), missing):
        score = rng.normal(size=20)
        expected = score.copy()
        add_scores(g_left, h_left, 20, extra, total, unit, reg, score)
        for k in range(20):
            left = int(g_left[k] + extra[0]), int(h_left[k] + extra[1])
            right = int(total[0]) - left[0], int(total[1]) - left[1]
            expected[k] += naive_vector.pair_score(left, right, (None, None, *unit), p)
        np.testing.assert_array_equal(score, expected)


def test_sums_are_handed_down():
    nodes = np.zeros(5, NODE)
    nodes["parent"] = [-1, 0, 0, 2, 2]
    nodes["left"], nodes["right"] = [1, -1, 3, -1, -1], [2, -1, 4, -1, -1]
    sums, left_sums = np.zeros((2, 5, 4), np.int64)
    sums[0], left_sums[0], left_sums[2] = [10, 20, 30, 40], [1, 2, 3, 4], [4, 5, 6, 7]
    hand_down = pages.compiled(vectors.hand_down)
    for i in (0, 2):
        hand_down(nodes, i, sums, left_sums)
    assert sums.tolist() == [[10, 20, 30, 40], [1, 2, 3, 4], [9, 18, 27, 36], [4, 5, 6, 7], [5, 13, 21, 29]]


def test_weights_to_margins():
    """Leaves with rows of their own, leaves whose rows lie with their parent, and rows outside the sample."""
    rng = np.random.default_rng(1)
    bins = rng.integers(0, 5, (60, 2)).astype(np.uint8)
    bins[rng.random(bins.shape) < 0.2] = 255
    nodes = np.zeros(5, NODE)
    nodes["left"], nodes["right"] = [1, 3, -1, -1, -1], [2, 4, -1, -1, -1]
    nodes["feature"], nodes["bin"], nodes["default_left"] = [0, 1, -1, -1, -1], [2, 1, 0, 0, 0], [1, 0, 0, 0, 0]
    weights = rng.normal(size=(5, 3)).astype(np.float32)

    def side(r, node):
        code = bins[r, nodes["feature"][node]]
        return bool(nodes["default_left"][node]) if code == 255 else code <= nodes["bin"][node]

    leaf = np.array([(3 if side(r, 1) else 4) if side(r, 0) else 2 for r in range(60)])
    rows = np.argsort(leaf == 2, kind="stable").astype(np.int32)
    middle = int(np.sum(leaf != 2))
    nodes["start"], nodes["stop"] = [0, 0, middle, 0, 0], [60, middle, 60, 0, 0]
    for cut in (0, 7, middle, 60):
        margin = np.zeros((60, 3), np.float32)
        own, shared = np.array([2], np.int32), np.array([1], np.int32)
        for a, b in ((0, min(cut, 60 - middle)), (min(cut, 60 - middle), 60 - middle)):
            partition.add_leaf_weights(nodes, own, weights, rows, False, 0, margin, a, b)
        columns = np.ascontiguousarray(bins.T)
        page = tuple(Page(bins, columns, np.zeros(3, np.int64), np.full(2, 5), 255, 0))
        for a, b in ((0, min(cut, middle)), (min(cut, middle), middle)):
            partition.add_split_weights(page, (), nodes, shared, weights, rows, False, 0, margin, a, b)
        np.testing.assert_array_equal(margin, weights[leaf])
    skip = (np.arange(60) % 3 == 0).astype(np.uint8)
    margin = np.zeros((60, 3), np.float32)
    table = np.empty((len(nodes), routes.N_ROUTE), np.int64)
    routes.write_routes((), (), nodes, 255, table, 0, len(nodes))
    partition.add_weights_by_bins(bins, 0, table, (), weights, skip, 255, 0, margin, 0, 60)
    np.testing.assert_array_equal(margin, np.where(skip[:, None], 0, weights[leaf]))
