"""Refreshing and pruning against plain loops over rows and nodes."""

import numpy as np
import pytest

import pages
from arboost.kernels.cpu.round.refresh import add_leaf_sums as sum_kernel
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.tree.model import DELETED, NO_PARENT, Tree
from arboost.tree.update import add_leaf_sums, levels, prune, refresh

#        0
#      /   \
#     1     2
#    / \   / \
#   3   4 5   6
#      / \
#     7   8
LEFT = np.array([1, 3, 5, -1, 7, -1, -1, -1, -1], np.int32)
RIGHT = np.array([2, 4, 6, -1, 8, -1, -1, -1, -1], np.int32)
PARENT = np.array([NO_PARENT, 0, 0, 1, 1, 2, 2, 4, 4], np.int32)
ETA = np.float32(0.5)


def _tree(gain=(9, 5, 1, 0, 2, 0, 0, 0, 0)):
    floats = np.linspace(-1, 1, 9, dtype=np.float32)
    zeros = np.zeros(9, np.float32)
    return Tree(
        LEFT, RIGHT, PARENT, np.zeros(9, np.int32), floats, np.zeros(9, np.uint8), np.array(gain, np.float32), zeros,
        floats * 2, 1,
    )  # fmt: skip


def _params(**params):
    return resolve(params).tree


def _naive_prune(tree, gamma, max_depth):
    """Leaf flags after pruning, by recursion from the root."""
    is_leaf = {}

    def visit(node, depth):
        if tree.left[node] < 0:
            is_leaf[node] = True
            return True
        both = [visit(int(child), depth + 1) for child in (tree.left[node], tree.right[node])]
        is_leaf[node] = all(both) and (tree.gain[node] < gamma or 0 < max_depth < depth + 1)
        return is_leaf[node]

    visit(0, 0)
    return is_leaf


@pytest.mark.parametrize("gamma", [0.0, 1.5, 3.0, 6.0, 10.0])
@pytest.mark.parametrize("max_depth", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "gain", [(9, 5, 1, 0, 2, 0, 0, 0, 0), (1, 1, 9, 0, 1, 0, 0, 0, 0), (9, 1, 1, 0, 8, 0, 0, 0, 0)]
)
def test_prune(gamma, max_depth, gain):
    tree = _tree(gain)
    short, expected = prune(tree, _params(gamma=gamma, max_depth=max_depth), ETA), _naive_prune(tree, gamma, max_depth)
    reached = np.concatenate(levels(short))
    assert {int(i): bool(short.left[i] < 0) for i in reached} == {
        i: leaf for i, leaf in expected.items() if i == 0 or not expected[int(PARENT[i])]
    }
    for i in reached:
        if short.left[i] < 0 and LEFT[i] >= 0:
            assert short.threshold[i] == tree.base_weight[i] * ETA
        else:
            assert short.threshold[i] == tree.threshold[i]
    gone = np.setdiff1d(np.arange(9), reached)
    assert (short.feature[gone] == DELETED).all()
    assert (short.left[gone] == -1).all()


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_refresh(kind, n_threads):
    rng = np.random.default_rng(1)
    n, tree = 400, _tree()
    leaves = rng.choice([3, 5, 6, 7], (n, 2)).astype(np.int32)  # no row reaches leaf 8
    gradients, g, h = pages.quantized(rng, n, kind)
    sums = [np.zeros((9, 2), np.int64) for _ in range(2)]
    with pages.cut_anywhere(n_threads):
        ctx = Context(n_threads=n_threads)
        add_leaf_sums(ctx, leaves[:150], 0, gradients, sums)  # data comes in chunks
        add_leaf_sums(ctx, leaves[150:], 150, gradients, sums)
    expected = np.zeros((9, 2), np.int64)
    for leaf, a, b in zip(leaves[:, 1], g, h, strict=True):
        node = int(leaf)
        expected[node] += (a, b)
    np.testing.assert_array_equal(sums[1], expected)
    params = _params(reg_lambda=0.5, min_child_weight=3)
    fresh = refresh(Context(), tree, sums[1], gradients, params, ETA)
    for node in (7, 8, 3, 4, 1, 5, 6, 2, 0):
        if LEFT[node] >= 0:
            expected[node] = expected[LEFT[node]] + expected[RIGHT[node]]
    G, H = expected[:, 0] * gradients.g_unit, expected[:, 1] * gradients.h_unit
    weight = np.where(H >= 3, -G / (H + 0.5), 0)
    score = np.where(H >= 3, G**2 / (H + 0.5), 0)
    np.testing.assert_allclose(fresh.cover, H, rtol=1e-6)
    np.testing.assert_allclose(fresh.base_weight, weight, rtol=1e-5, atol=1e-7)
    for node in range(9):
        if LEFT[node] >= 0:
            gain = score[LEFT[node]] + score[RIGHT[node]] - score[node]
            assert fresh.gain[node] == pytest.approx(gain, rel=1e-4, abs=1e-4 * score.max())
            assert fresh.threshold[node] == tree.threshold[node]
        else:
            assert fresh.threshold[node] == pytest.approx(weight[node] * ETA, rel=1e-5, abs=1e-7)
    kept = refresh(Context(), tree, sums[1], gradients, params._replace(refresh_leaf=False), ETA)
    np.testing.assert_array_equal(kept.threshold, tree.threshold)


def test_the_kernel_works_on_ranges():
    leaves = np.array([[0], [1], [1], [0]], np.int32)
    planes = np.array([[1, 2, 4, 8], [10, 20, 40, 80]], np.int64)
    sums = np.zeros((2, 2), np.int64)
    for start, stop in ((0, 1), (1, 4), (4, 4)):
        sum_kernel(leaves, 0, planes, 0, 0, sums, start, stop)
    assert sums.tolist() == [[9, 90], [6, 60]]
