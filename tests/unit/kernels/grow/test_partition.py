"""Rows to children and leaf weights to margins, for any way of cutting the work."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import pages
from arboost.kernels.cpu.grow import partition
from arboost.kernels.cpu.grow.arrays import Rows
from arboost.kernels.dtypes import NODE, PIECE

split_rows, place_rows = pages.compiled(partition.split_rows), pages.compiled(partition.place_rows)
MARGIN_START = np.float32(0.125)


def make_case(data, dtype):
    """A page, a permutation of its rows (or all in order), nodes that own parts of it, and a split for each."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_rows = data.draw(st.integers(1, 50))
    n_bins = [6, 250]
    bins = pages.make_bins(rng, n_rows, n_bins, data.draw(st.sampled_from([0, 0.4])))
    page = pages.make_page(bins, n_bins, dtype)
    identity = data.draw(st.booleans())
    order = np.arange(n_rows) if identity else rng.permutation(n_rows)
    cuts = sorted(data.draw(st.sets(st.integers(0, n_rows), max_size=4)))
    nodes = np.zeros(len(cuts) + 1, NODE)
    splits = []
    for i, (start, stop) in enumerate(zip([0, *cuts], [*cuts, n_rows])):
        feature = int(rng.integers(2))
        splits.append(naive.Split(0, feature, int(rng.integers(-1, n_bins[feature])), bool(rng.integers(2)), 0, 0))
        nodes[i]["start"], nodes[i]["stop"] = start, stop
        nodes[i]["feature"], nodes[i]["bin"] = feature, splits[-1].bin
        nodes[i]["default_left"] = splits[-1].default_left
    batch = np.flatnonzero(rng.random(len(nodes)) < 0.8).astype(np.int32)
    if identity and not len(batch):
        batch = np.arange(len(nodes), dtype=np.int32)
    total = int(sum(nodes["stop"][batch] - nodes["start"][batch]))
    inner = sorted(data.draw(st.sets(st.integers(1, max(1, total)), max_size=5)) - {total}) if total else []
    return rng, page, bins, order, identity, nodes, splits, batch, [0, *inner, total]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@given(data=st.data())
def test_a_stable_partition_cut_anywhere(data, dtype):
    _, page, bins, order, identity, nodes, splits, batch, bounds = make_case(data, dtype)
    rows = np.full(len(order), -1, np.int32) if identity else order.astype(np.int32)
    temp, n_left = np.empty_like(rows), np.full(len(batch), -5, np.int64)
    pieces = np.zeros((len(bounds) - 1, 2), PIECE)
    sets = Rows(rows, temp, n_left, pieces, np.array([identity], np.int64))
    for s, span in enumerate(itertools.pairwise(bounds)):
        split_rows(pages.page_arrays(page), (), nodes, batch, sets, identity, pieces[s], *span)
    flat = pieces.reshape(-1)
    for p in range(len(flat)):
        place_rows(nodes, batch, flat, sets, p, p + 1)
    for b, i in enumerate(batch):
        start, stop = nodes[i]["start"], nodes[i]["stop"]
        left, right = naive.partition(bins.tolist(), order[start:stop].tolist(), splits[i])
        if start < stop:
            assert n_left[b] == len(left)
        assert rows[start:stop].tolist() == left + right
    if not identity:  # rows of other nodes stay where they are
        for i in set(range(len(nodes))) - set(batch.tolist()):
            part = slice(nodes[i]["start"], nodes[i]["stop"])
            assert rows[part].tolist() == order[part].tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@given(data=st.data())
def test_weights_of_leaves_and_of_unpartitioned_children(data, dtype):
    rng, page, bins, order, identity, nodes, splits, batch, bounds = make_case(data, dtype)
    rows = pages.ALL_ROWS if identity else order.astype(np.int32)
    weights = rng.normal(size=3 * len(nodes)).astype(np.float32)
    nodes["left"], nodes["right"] = len(nodes) + 2 * np.arange(len(nodes)), len(nodes) + 2 * np.arange(len(nodes)) + 1
    by_leaf, by_split = np.full((2, len(order), 3), MARGIN_START, np.float32)
    for span in itertools.pairwise(bounds):
        partition.add_leaf_weights(nodes, batch, weights, rows, identity, 2, by_leaf, *span)
        args = (tuple(pages.page_arrays(page)), (), nodes, batch, weights, rows, identity, 1)
        partition.add_split_weights(*args, by_split, *span)
    leaf_twin, split_twin = np.full((2, len(order), 3), MARGIN_START, np.float32)
    for i in batch:
        for r in order[nodes[i]["start"] : nodes[i]["stop"]]:
            leaf_twin[r, 2] += weights[i]
            left = naive.goes_left(bins[r][splits[i].feature], splits[i])
            split_twin[r, 1] += weights[nodes[i]["left"] if left else nodes[i]["right"]]
    np.testing.assert_array_equal(by_leaf, leaf_twin)
    np.testing.assert_array_equal(by_split, split_twin)


def test_the_last_code_of_a_byte_is_a_bin_where_nothing_is_missing():
    bins = np.arange(256).reshape(-1, 1)
    page = pages.make_page(bins, [256])
    nodes = np.zeros(1, NODE)
    nodes[0]["stop"], nodes[0]["bin"] = 256, 254
    rows, n_left = np.arange(256, dtype=np.int32), np.zeros(1, np.int64)
    sets = Rows(rows, rows.copy(), n_left, np.zeros((1, 2), PIECE), np.zeros(1, np.int64))
    split_rows(pages.page_arrays(page), (), nodes, np.zeros(1, np.int32), sets, False, sets.pieces[0], 0, 256)
    assert n_left[0] == 255
    assert rows[-1] == 255
