"""Which rows are in which node, from one tree to the next, and their weights to margins."""

import itertools

import numpy as np
import pytest

import pages
from arboost.kernels.cpu.grow.arrays import IN_ORDER
from arboost.kernels.dtypes import NODE
from arboost.levels import buffers
from arboost.levels.rowsets import RowSets
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower

N_ROWS = 40_000  # enough for several threads to share a node
N_BINS = [8, 30]


@pytest.fixture(scope="module")
def bins():
    return pages.make_bins(np.random.default_rng(0), N_ROWS, N_BINS, [0.2, 0])


def test_all_rows_are_not_written_down(bins):
    rowsets = RowSets(Context(), N_ROWS)
    assert rowsets.reset(None) == N_ROWS
    assert rowsets.in_order
    rowsets.arrays(1).state[IN_ORDER] = 0  # what the first split does
    assert not rowsets.in_order
    assert rowsets.reset(None) == N_ROWS  # the next tree begins afresh
    assert rowsets.in_order


def test_sampled_rows_are(bins):
    rowsets = RowSets(Context(), N_ROWS)
    sampled = np.arange(3, N_ROWS, 7, dtype=np.int32)
    assert rowsets.reset(sampled) == len(sampled)
    assert not rowsets.in_order
    assert rowsets.ids[: len(sampled)].tolist() == sampled.tolist()
    rowsets.ids[0] = 0  # a tree permutes its own copy
    assert sampled[0] == 3
    assert rowsets.reset(sampled[:0]) == 0  # no rows are not all rows
    assert not rowsets.in_order


def test_room_for_many_nodes(bins):
    rowsets = RowSets(Context(), N_ROWS)
    for n in (0, 1, 64, 65, 1000):
        rows, temp, n_left, *_ = rowsets.arrays(n)
        assert len(rows) == len(temp) == N_ROWS
        assert len(n_left) >= n


@pytest.mark.parametrize("n_threads", pages.THREADS)
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_rows_of_every_leaf_are_in_order(bins, n_threads, share):
    """A stable partition at every level, also where threads share a node: rows of a leaf stay ascending."""
    assert N_ROWS * share > 3 * buffers.GRAIN_ROWS
    rng = np.random.default_rng(1)
    page = pages.make_page(bins, N_BINS)
    gradients, _, _ = pages.quantized(rng, N_ROWS, "packed")
    sampled = None if share == 1.0 else np.flatnonzero(rng.random(N_ROWS) < share).astype(np.int32)
    params = pages.tree_params(max_depth=4)
    grower = HistogramGrower(Context(n_threads=n_threads), page, params)
    with pages.cut_anywhere(n_threads):
        grown = grower.grow(gradients, sampled, 0, partition_all=True)
    rows, leaf_ptr = grower.leaf_rows(grown)
    assert sorted(rows.tolist()) == (list(range(N_ROWS)) if sampled is None else sampled.tolist())
    assert len(leaf_ptr) > 10
    for a, b in itertools.pairwise(leaf_ptr):
        assert (np.diff(rows[a:b]) > 0).all()


@pytest.mark.parametrize("n_threads", pages.THREADS)
def test_weights_reach_every_row_once(bins, n_threads):
    rowsets, page = RowSets(Context(n_threads=n_threads), N_ROWS), pages.make_page(bins, N_BINS)
    order = np.random.default_rng(2).permutation(N_ROWS).astype(np.int32)
    rowsets.reset(order)
    nodes = np.zeros(7, NODE)
    bounds = [0, 10, 10, 20_000, N_ROWS]  # one node has no rows
    for i in range(4):
        nodes[i]["start"], nodes[i]["stop"] = bounds[i], bounds[i + 1]
    nodes[3]["bin"], nodes[3]["left"], nodes[3]["right"] = 3, 5, 6
    weights = np.arange(1, 8, dtype=np.float32)
    margin = np.zeros((N_ROWS, 2), np.float32)
    with pages.cut_anywhere(n_threads):
        rowsets.add_leaf_weights(nodes, np.array([0, 1, 2], np.int32), weights, margin, 1)
        arrays = tuple(pages.page_arrays(page))
        rowsets.add_split_weights(arrays, (), nodes, np.array([3], np.int32), weights, margin, 1)
    expected = np.zeros(N_ROWS, np.float32)
    expected[order[:10]], expected[order[10:20_000]] = 1, 3
    last = order[20_000:]
    expected[last] = np.where((bins[last, 0] <= 3) & (bins[last, 0] >= 0), 6, 7)
    np.testing.assert_array_equal(margin[:, 1], expected)
    assert not margin[:, 0].any()
