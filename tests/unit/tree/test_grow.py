"""THE growth loop against a tree grown row by row, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import pages
from arboost.kernels.dtypes import FEW_ROWS
from arboost.levels import buffers
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower
from grown_trees import check_tree


def grow(page, gradients, params, n_threads=1, sampled=None, key=0, **options):
    """(grown tree, margins that start at 0 after it)."""
    grower = HistogramGrower(Context(n_threads=n_threads), page, params)
    grown = grower.grow(gradients, sampled, key, **options)
    margin = np.zeros((page.n_rows, 2), np.float32)
    grower.add_weights(grown, margin, 1)
    assert not margin[:, 0].any()
    return grown, margin[:, 1]


def check_against_naive(bins, n_bins, gradients, params, dtype=np.uint8, **options):
    """Grow, compare with the naive tree, and compare every row's margin with a walk by bins."""
    page = pages.make_page(bins, n_bins, dtype)
    g, h = pages.unpack(gradients)
    twin_params = pages.naive_params(params, gradients)
    sampled = options.get("sampled")
    nodes = naive.grow(bins.tolist(), g, h, n_bins, twin_params, sampled)
    grown, margin = grow(page, gradients, params, **options)
    check_tree(grown.tree, nodes, twin_params)
    leaves = [naive.leaf_of_bins(nodes, row) for row in bins.tolist()]
    np.testing.assert_array_equal(margin, grown.tree.threshold[leaves])
    raw = pages.raw_values(bins)
    assert leaves == [naive.leaf_of_values(grown.tree, x) for x in raw]
    return nodes


GROWTH = {
    "depthwise": {"max_depth": 4},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "deep lossguide": {"max_depth": 0, "grow_policy": "lossguide"},
    "lossguide": {"max_depth": 5, "max_leaves": 9, "grow_policy": "lossguide"},
    "few leaves": {"max_leaves": 6},
    "one split": {"max_depth": 1},
    "no split": {"gamma": 1e9},
    "gamma": {"max_depth": 0, "gamma": 2.5},
    "light": {"min_child_weight": 0, "lambda": 0},
    "heavy": {"min_child_weight": 12.5, "lambda": 3.5},
    "L1": {"alpha": 2.25, "max_depth": 5},
    "small steps": {"max_delta_step": 0.25, "max_depth": 5},
    "everything": {"alpha": 0.5, "max_delta_step": 0.3, "gamma": 0.2, "min_child_weight": 3, "lambda": 0.1, "eta": 1},
}


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("growth", GROWTH, ids=str)
def test_same_tree_as_the_naive_one(growth, kind):
    rng = np.random.default_rng(len(growth) * 10 + len(kind))
    n_bins = [12, 1, 30, 2, 7]
    bins = pages.make_bins(rng, 300, n_bins, [0.1, 0.5, 0, 0, 0.3])
    gradients, _, _ = pages.quantized(rng, 300, kind)
    nodes = check_against_naive(bins, n_bins, gradients, pages.tree_params(**GROWTH[growth]))
    if kind != "wide" and growth != "no split":
        assert len(nodes) > 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@given(data=st.data())
def test_any_small_matrix(data, dtype):
    n_rows, n_features = data.draw(st.integers(1, 150)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    most = 254 if dtype == np.uint8 else 900
    n_bins = [data.draw(st.sampled_from([1, 2, 3, 20, most])) for _ in range(n_features)]
    missing = [data.draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])) for _ in range(n_features)]
    bins = pages.make_bins(rng, n_rows, n_bins, missing)
    gradients, _, _ = pages.quantized(rng, n_rows, data.draw(st.sampled_from(pages.KINDS)))
    params = pages.tree_params(
        max_depth=data.draw(st.sampled_from([0, 1, 3, 6])),
        max_leaves=data.draw(st.sampled_from([0, 2, 5])),
        grow_policy=data.draw(st.sampled_from(["depthwise", "lossguide"])),
        min_child_weight=data.draw(st.sampled_from([0, 0.5, 1, 10])),
        reg_lambda=data.draw(st.sampled_from([0, 1])),
        reg_alpha=data.draw(st.sampled_from([0, 0, 0.5])),
        gamma=data.draw(st.sampled_from([0, 0, 0.5])),
    )
    sampled = None
    if data.draw(st.booleans()):
        sampled = np.flatnonzero(rng.random(n_rows) < 0.6).astype(np.int32)
    check_against_naive(bins, n_bins, gradients, params, dtype, sampled=sampled)


@pytest.mark.parametrize("kind", pages.KINDS)
def test_ties_have_one_order(kind):
    """Few bins, gradients of few values and repeated features: equal gains everywhere."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        bins = pages.make_bins(rng, 60, [3, 4], 0.2)
        bins = np.hstack([bins, bins[:, ::-1], 3 - np.where(bins == naive.MISSING, 4, bins)])
        g = rng.integers(-1, 2, 60).astype(np.float32)
        h = np.ones(60, np.float32) if kind == "equal hessians" else rng.integers(1, 3, 60).astype(np.float32)
        if kind == "wide":
            g[0] = 2.0**30
        if kind == "negative hessians":
            h[:3] = -1
        gradients = pages.quantize.quantize(Context(), g, h)
        check_against_naive(bins, [4] * 6, gradients, pages.tree_params(max_depth=4, min_child_weight=0))


@pytest.mark.parametrize("n_rows", [FEW_ROWS - 1, FEW_ROWS, FEW_ROWS + 1, 2 * FEW_ROWS, 2 * FEW_ROWS + 1])
def test_nodes_at_the_boundary_of_few_rows(n_rows):
    """One feature splits off exactly half of the rows, so that children have FEW_ROWS rows, or one more or less."""
    rng = np.random.default_rng(n_rows)
    n_bins = [2, 9, 5]
    bins = pages.make_bins(rng, n_rows, n_bins, [0, 0.2, 0])
    bins[:, 0] = np.arange(n_rows) >= n_rows // 2
    g, h = pages.make_gradients(rng, n_rows, "packed")
    g = g + np.float32(5) * (bins[:, 0] == 0)
    nodes = check_against_naive(bins, n_bins, pages.quantize.quantize(Context(), g, h), pages.tree_params())
    assert {len(node.rows) for node in nodes if node.depth == 1} == {n_rows // 2, n_rows - n_rows // 2}


@pytest.mark.parametrize("n_features", [63, 64, 65, 130])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_several_blocks_of_features(n_features, dtype):
    rng = np.random.default_rng(n_features)
    n_bins = [5] * n_features
    bins = pages.make_bins(rng, 200, n_bins, [0.2 * (f % 3 == 0) for f in range(n_features)])
    g, h = pages.make_gradients(rng, 200, "packed")
    g = g + 3 * (bins[:, -1] > 2).astype(np.float32)  # the last feature of the last block matters
    gradients = pages.quantize.quantize(Context(), g, h)
    nodes = check_against_naive(bins, n_bins, gradients, pages.tree_params(max_depth=3), dtype)
    assert nodes[0].split.feature == n_features - 1


def test_all_256_codes_of_a_byte():
    """A feature without missing values may use the code that means missing elsewhere."""
    rng = np.random.default_rng(5)
    n_bins = [256, 255]
    bins = pages.make_bins(rng, 900, n_bins, [0, 0.2])
    bins[:256, 0] = np.arange(256)
    g, h = pages.make_gradients(rng, 900, "packed")
    g = g + 4 * (bins[:, 0] == 255).astype(np.float32)
    gradients = pages.quantize.quantize(Context(), g, h)
    nodes = check_against_naive(bins, n_bins, gradients, pages.tree_params(max_depth=6, min_child_weight=0))
    assert any(node.split and node.split.feature == 0 and node.split.bin == 254 for node in nodes)


def check_threads(bins, n_bins, gradients, params, sampled=None, dtype=np.uint8):
    """Any number of threads, cut anywhere, grow the tree of one thread."""
    page = pages.make_page(bins, n_bins, dtype)
    expected, expected_margin = grow(page, gradients, params, sampled=sampled)
    assert expected.tree.n_leaves > 10
    for seed, n_threads in enumerate(pages.THREADS[1:]):
        with pages.cut_anywhere(seed):
            grown, margin = grow(page, gradients, params, n_threads, sampled)
        assert grown.tree.equals(expected.tree)
        np.testing.assert_array_equal(margin, expected_margin)


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_threads_and_chunks_change_nothing(policy, kind):
    """Enough rows that threads share nodes, and enough slots that they share the scan."""
    rng = np.random.default_rng(8)
    n_bins = [40, 3, 200, 17, 250, 250, 250, 250, 250, 250]
    bins = pages.make_bins(rng, 60_000, n_bins, [0.2 * (f % 2) for f in range(len(n_bins))])
    g, h = pages.make_gradients(rng, 60_000, kind)
    gradients = pages.quantize.quantize(Context(), g + 3 * np.sin(bins[:, 2]).astype(np.float32), h)
    sampled = np.flatnonzero(rng.random(60_000) < 0.8).astype(np.int32)
    params = pages.tree_params(max_depth=0, max_leaves=24, grow_policy=policy)
    assert 3 * buffers.GRAIN_ROWS < 0.8 * 60_000
    assert 60_000 * len(n_bins) > 4 * buffers.GRAIN_UPDATES
    for rows in (None, sampled):
        check_threads(bins, n_bins, gradients, params, rows)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_threads_share_blocks_of_features(dtype):
    rng = np.random.default_rng(9)
    n_bins = [30] * 140
    bins = pages.make_bins(rng, 5000, n_bins, [0.1 * (f % 2) for f in range(140)])
    gradients, _, _ = pages.quantized(rng, 5000, "packed")
    assert 3 * buffers.GRAIN_UPDATES < 5000 * 140
    check_threads(bins, n_bins, gradients, pages.tree_params(max_depth=5), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_one_node_shared_by_threads_has_the_right_histogram(n_threads, dtype):
    """Against a loop over the rows, with more rows than are summed in packed form at once."""
    rng = np.random.default_rng(10)
    n_bins = [9] * 12
    bins = pages.make_bins(rng, 40_000, n_bins, 0.1)
    g, h = pages.make_gradients(rng, 40_000, "packed")
    gradients = pages.quantize.quantize(Context(), g + (bins[:, 7] > 4).astype(np.float32), h)
    params = pages.tree_params(max_depth=1)
    nodes = naive.grow(bins.tolist(), *pages.unpack(gradients), n_bins, pages.naive_params(params, gradients))
    with pages.cut_anywhere(n_threads):
        grown, _ = grow(pages.make_page(bins, n_bins, dtype), gradients, params, n_threads)
    check_tree(grown.tree, nodes, pages.naive_params(params, gradients))


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("n_buffers", [16, 17, 23])
def test_few_histogram_buffers_give_the_same_tree(monkeypatch, policy, n_buffers):
    """Nodes that wait may lose their histograms; their children are then built from rows."""
    rng = np.random.default_rng(n_buffers)
    n_bins = [20, 20, 20]
    bins = pages.make_bins(rng, 12_000, n_bins, [0.1, 0, 0])
    page = pages.make_page(bins, n_bins)
    gradients, _, _ = pages.quantized(rng, 12_000, "packed")
    params = pages.tree_params(max_depth=0, grow_policy=policy, min_child_weight=0)
    expected, expected_margin = grow(page, gradients, params)
    assert np.count_nonzero(expected.tree.cover > FEW_ROWS) > 4 * n_buffers
    monkeypatch.setattr(buffers, "MAX_BYTES", 0)
    monkeypatch.setattr(buffers, "MIN_BUFFERS", n_buffers)
    grown, margin = grow(page, gradients, params)
    assert grown.tree.equals(expected.tree)
    np.testing.assert_array_equal(margin, expected_margin)


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_buffers_are_taken_from_nodes_that_have_one(monkeypatch, policy):
    """Large nodes wait with histograms, and small ones (evaluated by rows) wait behind them without."""
    rng = np.random.default_rng(2)
    n_rows, n_large = 24_000, 24
    group = rng.integers(0, n_large, n_rows)
    tiny = rng.random(n_rows) < 0.02
    bins = np.stack([group, tiny, rng.integers(0, 30, n_rows), rng.integers(0, 30, n_rows)], axis=1)
    n_bins = [n_large, 2, 30, 30]
    page = pages.make_page(bins, n_bins)
    g = (rng.normal(size=n_rows) + 3.0 * group + 20.0 * tiny * rng.normal(size=n_rows)).astype(np.float32)
    gradients = pages.quantize.quantize(Context(), g, np.ones(n_rows, np.float32))
    params = pages.tree_params(max_depth=0, max_leaves=400, grow_policy=policy, min_child_weight=0)
    expected, _ = grow(page, gradients, params)
    monkeypatch.setattr(buffers, "MAX_BYTES", 0)
    grown, _ = grow(page, gradients, params)
    assert grown.tree.equals(expected.tree)


def test_a_grower_serves_many_trees():
    """Arrays kept from one tree, larger or smaller, sampled or not, leave no trace in the next."""
    rng = np.random.default_rng(3)
    n_bins = [30, 30, 30]
    page = pages.make_page(pages.make_bins(rng, 2000, n_bins), n_bins)
    grower = HistogramGrower(Context(n_threads=2), page, pages.tree_params())
    sampled = np.flatnonzero(rng.random(2000) < 0.5).astype(np.int32)
    for depth, rows in [(8, None), (2, sampled), (0, sampled), (3, None), (9, None), (1, None)]:
        params = pages.tree_params(max_depth=depth)
        gradients, _, _ = pages.quantized(rng, 2000, "packed")
        grower.set_params(params)
        expected, _ = grow(page, gradients, params, sampled=rows)
        assert grower.grow(gradients, rows, 0).tree.equals(expected.tree)


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_leaf_rows_are_the_rows_of_the_leaves(n_threads):
    rng = np.random.default_rng(4)
    n_bins = [9, 30]
    bins = pages.make_bins(rng, 500, n_bins)
    page = pages.make_page(bins, n_bins)
    gradients, g, h = pages.quantized(rng, 500, "packed")
    for depth, rows in [(3, None), (1, None), (3, np.arange(0, 500, 3, dtype=np.int32))]:
        params = pages.tree_params(max_depth=depth)
        nodes = naive.grow(bins.tolist(), g, h, n_bins, pages.naive_params(params, gradients), rows)
        with pages.cut_anywhere(n_threads):
            grower = HistogramGrower(Context(n_threads=n_threads), page, params)
            grown = grower.grow(gradients, rows, 0, partition_all=True)
            found, leaf_ptr = grower.leaf_rows(grown)
        assert not len(grown.closed)
        assert grown.leaves.tolist() == [i for i, node in enumerate(nodes) if node.is_leaf]
        for k, leaf in enumerate(grown.leaves):
            assert found[leaf_ptr[k] : leaf_ptr[k + 1]].tolist() == nodes[leaf].rows


def test_leaf_rows_of_a_tree_without_splits():
    page = pages.make_page(np.zeros((7, 1), int), [1])
    gradients, _, _ = pages.quantized(np.random.default_rng(0), 7, "packed")
    grower = HistogramGrower(Context(), page, pages.tree_params())
    rows, leaf_ptr = grower.leaf_rows(grower.grow(gradients, None, 0, partition_all=True))
    assert rows.tolist() == list(range(7))
    assert leaf_ptr.tolist() == [0, 7]


def test_no_rows_sampled():
    """An empty sample gives a single leaf of weight 0, not a tree of all rows."""
    page = pages.make_page(np.arange(20).reshape(-1, 1), [20])
    gradients, _, _ = pages.quantized(np.random.default_rng(0), 20, "packed")
    grown, margin = grow(page, gradients, pages.tree_params(), sampled=np.zeros(0, np.int32))
    assert grown.tree.n_nodes == 1
    assert not margin.any()


@pytest.mark.parametrize("weight", [0.1, 0.3, 0.7, 1.1, 3.3])
def test_min_child_weight_is_met_by_equality(weight):
    """Two rows of equal hessian a side weigh exactly min_child_weight, whatever the hessian's binary digits."""
    h = np.full(4, weight, np.float32)
    gradients = pages.quantize.quantize(Context(), np.array([-1, -1, 1, 1], np.float32), h)
    page = pages.make_page(np.arange(4).reshape(-1, 1), [4])
    params = pages.tree_params(max_depth=1)._replace(min_child_weight=2 * float(h[0]))
    grown, _ = grow(page, gradients, params)
    assert grown.tree.n_leaves == 2
