"""Kernels of ranking against plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_rank as naive
from arboost.kernels import rank_formulas
from arboost.kernels.cpu.round import rank
from arboost.matrix import groups
from arboost.runtime.context import Context
from pages import compiled

ONE = Context()
lists = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 4)), min_size=1, max_size=70)


def columns(rows):
    scores, label = np.array(rows, np.float32).T
    return np.ascontiguousarray(scores), np.ascontiguousarray(label)


@given(lists)
def test_rows_are_sorted_by_falling_value_and_inversions_are_counted(rows):
    scores, _ = columns(rows)
    n = len(scores)
    keys, spare = np.empty((2, n), np.uint64)
    inversions = compiled(rank._sort_rows)(scores, np.uint64(0), np.uint64(n), keys, spare)
    assert (keys & np.uint64(0xFFFFFFFF)).tolist() == naive.ranking(scores).tolist()
    assert inversions == sum(scores[i] < scores[j] for i in range(n) for j in range(i + 1, n))


def test_discounts_are_one_over_log2():
    got = groups.discounts(ONE, np.array([0, 3, 1003]), 2**32 - 1)
    np.testing.assert_allclose(got, 1.0 / np.log2(np.arange(1000) + 2.0), rtol=1e-15)
    assert got[0] == 1.0
    assert len(groups.discounts(ONE, np.array([0, 3, 1003]), 10)) == 10


@given(lists, st.sampled_from([1, 3, 100]), st.booleans())
def test_ideal_dcg_is_that_of_the_sorted_labels(rows, top, exp_gain):
    _, label = columns(rows)
    ptr = np.array([0, len(label) // 2, len(label)])
    got = groups.inverse_ideal_dcg(ONE, label, ptr, groups.discounts(ONE, ptr, 1000), top, exp_gain)
    for q, part in enumerate((label[: ptr[1]], label[ptr[1] :])):
        ideal = naive.dcg(part, naive.ranking(part), top, exp_gain)
        np.testing.assert_allclose(got[q], 1.0 / ideal if ideal else 0.0, rtol=1e-13)


@settings(deadline=None)
@given(lists, st.sampled_from([1, 2, 40]), st.booleans())
def test_list_scores(rows, top, empty_is_zero):
    scores, label = columns(rows)
    binary = (label > 2).astype(np.float32)
    ptr = np.array([0, len(label)])
    discount = groups.discounts(ONE, ptr, 1000)
    for kind, name, y in ((rank.NDCG, "ndcg", label), (rank.MAP, "map", binary), (rank.PRECISION, "pre", binary)):
        ideal = groups.inverse_ideal_dcg(ONE, y, ptr, discount, top, True)
        values = np.empty(1)
        chosen = np.array([kind, top, not empty_is_zero, True], np.int64)
        rank.list_scores(scores, y, ptr, ideal, discount, chosen, values, 0, 1)
        expected = naive.list_metric(name, y, scores, top, empty=0.0 if empty_is_zero else 1.0)
        np.testing.assert_allclose(values[0], expected, rtol=1e-12)


@given(lists)
def test_ordered_pairs_counts_pairs(rows):
    scores, label = columns(rows)
    values = np.empty(1)
    rank.ordered_pairs(scores, label, np.array([0, len(label)]), values, 0, 1)
    s = scores[naive.ranking(label)]
    n = len(s)
    if n < 3:
        assert np.isnan(values[0])
        return
    wins = sum((s[i] > s[j]) + 0.5 * (s[i] == s[j]) for i in range(n) for j in range(i + 1, n))
    np.testing.assert_allclose(values[0], wins / (n * (n - 1) / 2), rtol=1e-14)


def test_random_partners_have_another_label_and_are_drawn_evenly():
    draw = compiled(rank_formulas.draw_partner)
    counts = np.zeros(10, int)
    for i in range(8000):
        counts[draw(np.uint64(12345), np.uint64(i), np.uint64(3), np.uint64(6), np.uint64(10))] += 1
    assert counts[3:6].sum() == 0
    others = np.delete(counts, [3, 4, 5])
    assert abs(others - 8000 / 7).max() < 5 * np.sqrt(8000 / 7)


def test_bias_is_a_power_of_the_cost_over_the_first():
    sums = np.array([[2.0, 4.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
    bias = np.full((2, 4), 7, np.float32)
    rank.position_bias(sums, 0.5, bias, 0, 4)
    np.testing.assert_allclose(bias, [[1, 2**0.5, 0, 0.5**0.5], [7, 7, 7, 7]], rtol=1e-7)


def test_positions_are_summed_over_groups():
    ptr = np.array([0, 3, 3, 8])
    cost = np.random.default_rng(0).random((2, 8))
    got = np.zeros((2, 4))
    rank.sum_positions(ptr, cost, got, 0, 4)
    expected = np.zeros((2, 5))
    expected[:, :3] += cost[:, :3]
    expected += cost[:, 3:]
    np.testing.assert_allclose(got, expected[:, :4], rtol=1e-15)
