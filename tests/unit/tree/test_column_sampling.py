"""Column sampling: how many, which, and that samples are nested."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.kernels.dtypes import NODE
from arboost.runtime import rng
from arboost.tree.column_sampling import ColumnSampler

rates = st.floats(0.0625, 1, width=32)


def make_nodes(depths):
    nodes = np.zeros(len(depths), NODE)
    nodes["depth"] = depths
    return nodes, np.arange(len(depths), dtype=np.int32)


def masks(sampler, nodes, evals):
    """The mask of every node, one row each."""
    if not sampler.per_node:
        return np.repeat(sampler.allowed(), len(evals), axis=0)
    out = np.full((len(evals) + 1, sampler.allowed().shape[1]), 9, np.uint8)  # room for more nodes than there are
    sampler.write_allowed(nodes, evals, out)
    assert (out[-1] == 9).all()
    return out[:-1]


def n_chosen(rate, n):
    """XGBoost's count: a float32 product, cut off, at least one."""
    return n if rate == 1 else max(1, int(np.float32(rate) * np.float32(n)))


@given(st.tuples(rates, rates, rates), st.integers(1, 60), st.integers(0, 2**64 - 1))
def test_counts_and_nesting(by, n_features, key):
    nodes, evals = make_nodes([0, 1, 1, 2, 2, 2, 2])
    allowed = masks(ColumnSampler(by, n_features, None, key), nodes, evals).astype(bool)
    n_tree = n_chosen(by[0], n_features)
    n_level = n_chosen(by[1], n_tree)
    n_node = n_chosen(by[2], n_level)
    assert set(allowed.sum(axis=1)) == {n_node}
    assert allowed.any(axis=0).sum() <= n_tree
    for depth in range(3):
        assert allowed[nodes["depth"] == depth].any(axis=0).sum() <= n_level
    again = masks(ColumnSampler(by, n_features, None, key), nodes, evals[::-1]).astype(bool)
    np.testing.assert_array_equal(again[::-1], allowed)  # who asks first does not matter


@pytest.mark.parametrize("rate, n_features, n", [(0.7, 10, 7), (0.9, 10, 9), (0.3, 10, 3), (0.01, 10, 1), (0.5, 5, 2)])
def test_counts_as_xgboost_has_them(rate, n_features, n):
    rate = float(np.float32(rate))  # as parameters arrive
    nodes, evals = make_nodes([0])
    assert masks(ColumnSampler((rate, 1.0, 1.0), n_features, None, 3), nodes, evals).sum() == n


def test_all_columns_is_one_row_for_all_nodes():
    sampler = ColumnSampler((1.0, 1.0, 1.0), 5, None, 0)
    assert not sampler.per_node
    assert sampler.allowed().tolist() == [[1] * 5]
    assert sampler.allowed().dtype == np.uint8
    assert not ColumnSampler((0.5, 1.0, 1.0), 5, None, 0).per_node
    assert ColumnSampler((1.0, 0.5, 1.0), 5, None, 0).per_node


def test_a_level_shares_its_sample_and_the_tree_its_own():
    nodes, evals = make_nodes([1, 1, 1, 2, 2])
    by_level = masks(ColumnSampler((1.0, 0.5, 1.0), 40, None, 9), nodes, evals)
    assert len({row.tobytes() for row in by_level[:3]}) == 1
    assert len({row.tobytes() for row in by_level}) == 2
    by_node = masks(ColumnSampler((1.0, 1.0, 0.5), 40, None, 9), nodes, evals)
    assert len({row.tobytes() for row in by_node}) == 5
    keys = {masks(ColumnSampler((0.5, 1.0, 1.0), 40, None, key), nodes, evals).tobytes() for key in range(5)}
    assert len(keys) == 5


def test_weights():
    """Heavy features come more often, those without weight not at all."""
    weights = np.array([0, 1, 1, 6, 0, 1], np.float32)
    nodes, evals = make_nodes([0])
    counts = np.zeros(6)
    for key in range(500):
        for by in ((0.34, 1.0, 1.0), (1.0, 1.0, 0.34)):
            counts += masks(ColumnSampler(by, 6, weights, key), nodes, evals)[0]
    assert counts[[0, 4]].tolist() == [0, 0]
    assert counts.sum() == 1000 * 2
    assert counts[3] > 1.5 * counts[[1, 2, 5]].max()


@pytest.mark.parametrize("weighted", [False, True])
def test_all_nodes_at_once_draw_what_each_would_alone(weighted):
    weights = np.linspace(0, 1, 30).astype(np.float32) if weighted else None
    nodes, evals = make_nodes([3] * 2000)
    found = masks(ColumnSampler((1.0, 1.0, 0.2), 30, weights, 77), nodes, evals)
    for node in range(0, 2000, 97):
        key = rng.make_key(77, rng.NODE_COLUMNS, node)
        np.testing.assert_array_equal(np.flatnonzero(found[node]), rng.choose(key, np.arange(30), 6, weights))


def test_later_turns_draw_the_rest():
    """Five turns of 0.2 are all features, each once; a sixth has none."""
    nodes, evals = make_nodes([2] * 50)
    sampler, total = ColumnSampler((1.0, 1.0, 0.2), 30, None, 5), np.zeros((50, 30), int)
    for turn in range(5):
        out = np.zeros((50, 30), np.uint8)
        assert sampler.write_allowed(nodes, evals, out, turn)
        total += out
    assert (total == 1).all()
    assert not sampler.write_allowed(nodes, evals, np.zeros((50, 30), np.uint8), 5)
    by_level = ColumnSampler((1.0, 0.5, 1.0), 30, None, 5)
    assert not by_level.write_allowed(nodes, evals, np.zeros((50, 30), np.uint8), 1)


def test_features_passed_over_are_drawn_last_below():
    """What cannot part a node is inherited by its children, and theirs; other branches go on drawing it."""
    nodes, _ = make_nodes([0, 1, 1, 2, 2])
    nodes["parent"] = [-1, 0, 0, 1, 1]
    sampler = ColumnSampler((1.0, 1.0, 0.2), 10, None, 5)
    useless = np.zeros((1, 10), bool)
    useless[0, :5] = True
    sampler.pass_over(nodes, np.array([0], np.int32), useless)
    useless[0, :5], useless[0, 5:8] = False, True
    sampler.pass_over(nodes, np.array([1], np.int32), useless)
    out = np.zeros((2, 10), np.uint8)
    sampler.write_allowed(nodes, np.array([2, 3], np.int32), out)
    assert out.sum(axis=1).tolist() == [2, 2]
    assert not out[0, :5].any()
    assert out[1].tolist() == [0] * 8 + [1, 1]
