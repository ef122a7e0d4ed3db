"""The best split of one node against every candidate tried in turn."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import pages
from arboost.kernels.cpu.grow import split
from arboost.kernels.dtypes import CANDIDATE
from arboost.runtime.context import Context

REG = ["reg_lambda", "reg_alpha", "max_delta_step", "min_child_weight", "gamma", "g_unit", "h_unit"]
find_splits = pages.compiled(split.find_splits)
find_splits_by_rows = pages.compiled(split.find_splits_by_rows)
select_splits = pages.compiled(split.select_splits)


def evaluate(page, bins, ranges, order, gradients, params, by_rows=(), allowed=None, cut=0.5):
    """Node records with their best splits; nodes in `by_rows` are evaluated without a histogram."""
    g, h = pages.unpack(gradients)
    nodes = pages.make_nodes(ranges, order, g, h, by_rows)
    n_slots = page.n_bins + page.cuts.has_missing
    slot_ptr = np.append(0, np.cumsum(n_slots)).astype(np.int64)
    hist = np.zeros((len(ranges), 2 * slot_ptr[-1]), np.int64)
    for i, (start, stop) in enumerate(ranges):
        if i not in by_rows:
            nodes[i]["hist"] = i
            for f, n in enumerate(page.n_bins.tolist()):
                sums = naive.histogram(bins.tolist(), order[start:stop], g, h, f, n)[: n_slots[f]]
                hist[i].reshape(2, -1)[:, slot_ptr[f] : slot_ptr[f + 1]] = np.array(sums).T
    evals = np.arange(len(ranges), dtype=np.int32)
    allowed = np.ones((1, page.n_features), np.uint8) if allowed is None else allowed
    reg = np.array([getattr(params, name) for name in REG])
    best = np.empty((len(ranges), page.n_features), CANDIDATE)
    data = (order.astype(np.int32), gradients.planes[0], gradients.planes[-1], gradients.packings[0][0])
    widest = int(page.n_bins.max()) + 1
    work, scores = np.zeros((split.SCRATCH_ROWS, widest), np.int64), np.empty(widest)
    work[split.EVERY_BIN] = np.arange(widest)
    scratch = work, (scores, scores.view(np.int64))
    arrays = pages.page_arrays(page)
    for n, find, source in (
        (best.size, find_splits, hist),
        (len(ranges), find_splits_by_rows, data),
        (len(ranges), select_splits, None),
    ):
        for start, stop in ((0, int(cut * n)), (int(cut * n), n)):
            if source is None:
                find(nodes, evals, best, reg, start, stop)
            else:
                find(arrays, (), nodes, evals, source, allowed, reg, best, scratch, start, stop)
    assert not work[split.G_SUMS :].any()
    return nodes


def check(nodes, bins, n_bins, ranges, order, gradients, params, allowed=None):
    g, h = pages.unpack(gradients)
    for i, (start, stop) in enumerate(ranges):
        mask = None if allowed is None else allowed[min(i, len(allowed) - 1)]
        split = naive.find_split(bins.tolist(), order[start:stop].tolist(), g, h, n_bins, params, mask)
        found = nodes[i]
        if split is None:
            assert found["feature"] == -1
            continue
        names = ("gain", "feature", "bin", "default_left", "g_left", "h_left")
        assert [found[name].item() for name in names] == [getattr(split, name) for name in names]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@given(data=st.data())
def test_any_node_from_histogram_and_from_rows(data, dtype):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_rows = data.draw(st.integers(2, 70))
    n_bins = [data.draw(st.sampled_from([1, 2, 5, 64, 65, 250])) for _ in range(data.draw(st.integers(1, 4)))]
    missing = [data.draw(st.sampled_from([0, 0.4, 1])) for _ in n_bins]
    bins = pages.make_bins(rng, n_rows, n_bins, missing)
    page = pages.make_page(bins, n_bins, dtype)
    gradients, _, _ = pages.quantized(rng, n_rows, data.draw(st.sampled_from(pages.KINDS)))
    params = naive.Params(
        reg_lambda=data.draw(st.sampled_from([0.0, 1.0, 2.5])),
        reg_alpha=data.draw(st.sampled_from([0.0, 0.0, 0.75])),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.0, 0.5])),
        min_child_weight=data.draw(st.sampled_from([0.0, 1.0, 5.0])),
        gamma=data.draw(st.sampled_from([0.0, 1.0])),
        g_unit=gradients.g_unit,
        h_unit=gradients.h_unit,
    )
    middle = data.draw(st.integers(1, n_rows - 1))
    ranges = [(0, n_rows), (0, middle), (middle, n_rows), (0, n_rows)]
    allowed = (rng.random((4, len(n_bins))) < 0.8).astype(np.uint8) if data.draw(st.booleans()) else None
    order = rng.permutation(n_rows)
    by_rows = data.draw(st.sets(st.sampled_from(range(4))))
    nodes = evaluate(page, bins, ranges, order, gradients, params, by_rows, allowed, data.draw(st.floats(0, 1)))
    check(nodes, bins, n_bins, ranges, order, gradients, params, allowed)


def unit_gradients(g, h=None):
    """Whole numbers as gradients: their quanta are exact."""
    g = np.asarray(g, np.float32)
    h = np.ones_like(g) if h is None else np.asarray(h, np.float32)
    return pages.quantize.quantize(Context(), g, h)


def best(bins, g, h=None, n_bins=8, **params):
    """The split of one node, found from its histogram and from its rows."""
    bins = np.asarray(bins).T
    gradients = unit_gradients(g, h)
    units = {"g_unit": gradients.g_unit, "h_unit": gradients.h_unit}
    p = naive.Params(**{"min_child_weight": 0.0, "reg_lambda": 0.0, **params, **units})
    page = pages.make_page(bins, [n_bins] * bins.shape[1])
    everything = (0, len(bins))
    nodes = evaluate(page, bins, [everything, everything], np.arange(len(bins)), gradients, p, {1})
    assert nodes[0]["gain"] == nodes[1]["gain"]
    found = [tuple(node[name].item() for name in ("feature", "bin", "default_left")) for node in nodes]
    assert found[0] == found[1]
    return found[0]


NONE = naive.MISSING


def test_of_equal_gains_the_lower_feature_is_taken():
    column = [0, 0, 1, 1]
    assert best([column, column, column], [-1, -1, 1, 1]) == (0, 0, 0)
    assert best([[3, 3, 3, 3], [1, 1, 0, 0], column], [-1, -1, 1, 1]) == (1, 0, 0)


def test_of_bins_that_separate_alike_the_lower_is_taken():
    assert best([[1, 1, 6, 6]], [-1, -1, 1, 1]) == (0, 1, 0)


def test_missing_left_takes_the_higher_bin():
    """Missing values belong with the low ones: the threshold lies just below the next occupied bin."""
    assert best([[1, NONE, 6, 6]], [-1, -1, 1, 1]) == (0, 5, 1)


def test_missing_right_is_taken_before_missing_left():
    """Missing rows that change neither side's score equally: symmetric data, both directions gain alike."""
    assert best([[0, 0, NONE, NONE, 5, 5]], [-1, -1, 0, 0, 1, 1]) == (0, 0, 0)


def test_missing_values_alone_on_the_right():
    assert best([[2, 2, NONE, NONE]], [-1, -1, 1, 1]) == (0, 2, 0)


def test_rows_without_weight_are_nowhere():
    """Bins whose sums are zero neither shift the threshold nor make a direction for missing values."""
    assert best([[0, 1, 6, 7]], [-1, 0, 0, 1], [1, 0, 0, 1]) == (0, 0, 0)
    assert best([[0, NONE, 6, 6]], [-1, 0, 1, 1], [1, 0, 1, 1]) == (0, 0, 0)


def test_no_split():
    assert best([[3, 3, 3]], [-1, 0, 1])[0] == -1
    assert best([[0, 1, 2]], [2, 2, 2])[0] == -1  # nothing to gain
    assert best([[0, 1]], [-1, 1], gamma=2.5)[0] == -1
    assert best([[0, 1]], [-1, 1], gamma=2.0)[0] == 0  # a gain of gamma is enough
    assert best([[0, 1]], [-1, 1], min_child_weight=1.5)[0] == -1
    assert best([[0, 1]], [-1, 1], min_child_weight=1.0)[0] == 0
    assert best([[NONE, NONE]], [-1, 1])[0] == -1


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(1, 50)), min_size=2, max_size=2), st.integers(0, 9))
def test_one_denominator_is_the_sum_of_two_fractions(sides, lam):
    (g_left, h_left), (g_right, h_right) = sides
    params = naive.Params(reg_lambda=float(lam), min_child_weight=0.0)
    exact = Fraction(g_left**2, h_left + lam) + Fraction(g_right**2, h_right + lam)
    score = naive.split_score(float(g_left), float(h_left), float(g_right), float(h_right), params)
    assert score == pytest.approx(float(exact), rel=1e-15)
    swapped = naive.split_score(float(g_right), float(h_right), float(g_left), float(h_left), params)
    assert score == swapped
