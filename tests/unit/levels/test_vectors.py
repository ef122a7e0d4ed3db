"""Trees with vectors in their leaves against trees grown row by row, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import naive_vector
import pages
from arboost.levels import buffers
from arboost.levels.quantize import quantize
from arboost.levels.vectors import quantize_targets
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.growers import HistogramGrower
from arboost.tree.model import NO_PARENT, NO_THRESHOLD

KINDS = ("packed", "equal hessians", "wide")  # one kind for every target: both forms of gradients in one tree


def make_targets(rng, n_rows, kinds=KINDS):
    """(gradients as the engine has them, the naive twin's targets)."""
    pairs = [pages.make_gradients(rng, n_rows, kind) for kind in kinds]
    g, h = (np.stack(part) for part in zip(*pairs))
    gradients = quantize_targets(Context(), g, h, np.empty(g.shape, np.int64))
    return gradients, [(*pages.unpack(t), t.g_unit, t.h_unit) for t in gradients.targets]


def grow(page, gradients, params, n_threads=1, sampled=None, key=0, **options):
    """(grown tree, margins that start at 0 after it)."""
    n_targets = len(gradients.targets)
    grower = HistogramGrower(Context(n_threads=n_threads), page, params, n_targets=n_targets)
    grown = grower.grow(gradients, sampled, key, **options)
    margin = np.zeros((page.n_rows, n_targets), np.float32)
    grower.add_weights(grown, margin, 0)
    return grown, margin


def check_against_naive(bins, n_bins, gradients, targets, params, dtype=np.uint8, sampled=None, **options):
    p = pages.naive_params(params)
    nodes = naive_vector.grow(bins.tolist(), targets, n_bins, p, sampled)
    grown, margin = grow(pages.make_page(bins, n_bins, dtype), gradients, params, sampled=sampled, **options)
    tree, splits = grown.tree, [None if node.is_leaf else node.split for node in nodes]
    assert tree.left.tolist() == [node.left for node in nodes]
    assert tree.right.tolist() == [node.right for node in nodes]
    assert tree.parent.tolist() == [NO_PARENT, *(node.parent for node in nodes[1:])]
    assert tree.feature.tolist() == [s.feature if s else 0 for s in splits]
    assert tree.default_left.tolist() == [int(s.default_left) if s else 0 for s in splits]
    np.testing.assert_array_equal(tree.threshold, np.array([s.bin + 1 if s else NO_THRESHOLD for s in splits], "f"))
    np.testing.assert_allclose(tree.gain, [s.gain if s else 0 for s in splits], rtol=1e-6)
    weights = np.array([naive_vector.weights(node, targets, p) for node in nodes])
    is_leaf = np.array([node.is_leaf for node in nodes])
    weights[is_leaf] *= np.float32(p.eta)
    np.testing.assert_array_equal(tree.base_weight, weights)
    np.testing.assert_array_equal(tree.vectors, np.where(is_leaf[:, None], weights, 0))
    cover = [sum(h * t[3] for (_, h), t in zip(node.sums, targets)) for node in nodes]
    np.testing.assert_allclose(tree.cover, cover, rtol=1e-6)
    leaves = [naive.leaf_of_bins(nodes, row) for row in bins.tolist()]
    np.testing.assert_array_equal(margin, tree.vectors[leaves])
    assert leaves == [naive.leaf_of_values(tree, x) for x in pages.raw_values(bins)]
    return nodes


GROWTH = {
    "depthwise": {"max_depth": 4},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "lossguide": {"max_depth": 5, "max_leaves": 9, "grow_policy": "lossguide"},
    "no split": {"gamma": 1e25},
    "gamma": {"max_depth": 0, "gamma": 2.5},
    "no lambda": {"min_child_weight": 0, "lambda": 0},
    "heavy": {"min_child_weight": 12.5, "lambda": 3.5},
    "L1": {"alpha": 2.25, "max_depth": 5},
    "small steps": {"max_delta_step": 0.25, "max_depth": 5},
    "everything": {"alpha": 0.5, "max_delta_step": 0.3, "gamma": 0.2, "min_child_weight": 3, "lambda": 0.1, "eta": 1},
}


@pytest.mark.parametrize("kinds", [KINDS, ("packed", "packed"), ("equal hessians",) * 4], ids=str)
@pytest.mark.parametrize("growth", GROWTH, ids=str)
def test_same_tree_as_the_naive_one(growth, kinds):
    rng = np.random.default_rng(len(growth))
    n_bins = [9, 1, 14, 2]
    bins = pages.make_bins(rng, 200, n_bins, [0.1, 0.5, 0, 0.3])
    nodes = check_against_naive(bins, n_bins, *make_targets(rng, 200, kinds), pages.tree_params(**GROWTH[growth]))
    assert len(nodes) > 1 or growth == "no split" or "wide" in kinds


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@settings(max_examples=25)
@given(data=st.data())
def test_any_small_matrix(data, dtype):
    n_rows, n_features = data.draw(st.integers(1, 120)), data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_bins = [data.draw(st.sampled_from([1, 2, 3, 12])) for _ in range(n_features)]
    missing = [data.draw(st.sampled_from([0.0, 0.3, 1.0])) for _ in range(n_features)]
    bins = pages.make_bins(rng, n_rows, n_bins, missing)
    kinds = tuple(data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4)))
    params = pages.tree_params(
        max_depth=data.draw(st.sampled_from([0, 1, 3])),
        grow_policy=data.draw(st.sampled_from(["depthwise", "lossguide"])),
        min_child_weight=data.draw(st.sampled_from([0, 1, 5])),
        reg_lambda=data.draw(st.sampled_from([0, 1])),
        reg_alpha=data.draw(st.sampled_from([0, 0, 0.5])),
    )
    sampled = np.flatnonzero(rng.random(n_rows) < 0.6).astype(np.int32) if data.draw(st.booleans()) else None
    check_against_naive(bins, n_bins, *make_targets(rng, n_rows, kinds), params, dtype, sampled=sampled)


@pytest.mark.parametrize("partition_all", [False, True])
@pytest.mark.parametrize("sample", [None, 0.5])
@pytest.mark.parametrize("params", [{"max_depth": 6}, {"colsample_bynode": 0.6, "colsample_bytree": 0.8}], ids=str)
def test_same_bits_for_any_number_of_threads(params, sample, partition_all):
    rng = np.random.default_rng(3)
    n_bins = [20, 8, 33, 5, 60]
    page = pages.make_page(pages.make_bins(rng, 3000, n_bins), n_bins)
    gradients, _ = make_targets(rng, 3000)
    sampled = None if sample is None else np.flatnonzero(rng.random(3000) < sample).astype(np.int32)
    first = None
    for n_threads in pages.THREADS:
        with pages.cut_anywhere(n_threads):
            grown, margin = grow(
                page, gradients, pages.tree_params(**params), n_threads, sampled, 5, partition_all=partition_all
            )
        first = first or (grown.tree, margin)
        assert grown.tree.n_nodes > 20
        assert grown.tree.equals(first[0])
        assert np.array_equal(margin, first[1])


def test_features_that_may_be_used():
    """Column sampling by tree and node, and interaction constraints, are the growth loop's own."""
    rng = np.random.default_rng(1)
    n_bins = [9, 9, 9, 9]
    bins = pages.make_bins(rng, 400, n_bins)
    gradients, _ = make_targets(rng, 400)
    page = pages.make_page(bins, n_bins)
    grown, _ = grow(page, gradients, pages.tree_params(interaction_constraints=[[0, 1], [2, 3]]))
    tree = grown.tree
    for node in np.flatnonzero(tree.left >= 0):
        path = {int(tree.feature[node])}
        while tree.parent[node] != NO_PARENT:
            node = tree.parent[node]
            path.add(int(tree.feature[node]))
        assert path <= {0, 1} or path <= {2, 3}


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_few_buffers_for_histograms(monkeypatch, policy):
    rng = np.random.default_rng(2)
    n_bins = [30, 30, 30]
    page = pages.make_page(pages.make_bins(rng, 8000, n_bins), n_bins)
    gradients, _ = make_targets(rng, 8000, ("packed", "packed"))
    params = pages.tree_params(max_depth=0, grow_policy=policy, min_child_weight=0)
    expected, _ = grow(page, gradients, params)
    monkeypatch.setattr(buffers, "MAX_BYTES", 0)
    found, _ = grow(page, gradients, params)
    assert found.tree.equals(expected.tree)


def test_gradients_of_targets():
    rng = np.random.default_rng(0)
    gradients, targets = make_targets(rng, 50)
    assert gradients.sources.tolist() == [[0, 32], [1, gradients.packings[1, 0]], [2, 0]]
    assert gradients.packings[:, 1].tolist() == [0, 2, 4, 5]
    assert gradients.totals(Context(), None).tolist() == [sum(v) for g, h, _, _ in targets for v in (g, h)]
    rows = np.array([3, 7, 9], np.int32)
    assert gradients.totals(Context(), rows).tolist() == [
        sum(v[r] for r in rows) for g, h, _, _ in targets for v in (g, h)
    ]
    packed, _ = make_targets(rng, 50, ("packed", "packed"))
    alone = quantize(Context(), *pages.make_gradients(np.random.default_rng(0), 50, "packed"))
    assert packed.planes.shape == (2, 50)
    assert np.array_equal(gradients.planes[0], alone.planes[0])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"tree_method": "exact"}, "Only the hist tree method"),
        ({"monotone_constraints": (1, 0)}, "Monotonic constraint"),
    ],
)
def test_what_vectors_cannot_do(params, words):
    bins = pages.make_bins(np.random.default_rng(0), 20, [3, 3])
    tree_params = pages.tree_params(max_depth=2)._replace(**params)
    with pytest.raises(XGBoostError, match=words):
        HistogramGrower(Context(), pages.make_page(bins, [3, 3]), tree_params, n_targets=2)
