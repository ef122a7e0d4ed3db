"""Histograms against sums by loop, for any way of cutting the work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import pages
from arboost.kernels.cpu.grow import histogram
from arboost.kernels.dtypes import BLOCK_FEATURES, BUILD, STRIDE, SUBTRACT

build_histograms = pages.compiled(histogram.build_histograms)
merge_histograms = pages.compiled(histogram.merge_histograms)
subtract_histograms = pages.compiled(histogram.subtract_histograms)


def make_builds(ranges, signs=None):
    """BUILD records: build i adds rows[start:stop] to buffer i."""
    builds = np.zeros(len(ranges), BUILD)
    first = 0
    for i, (start, stop) in enumerate(ranges):
        sign = 1 if signs is None else signs[i]
        builds[i] = (start, stop, first, i, sign, sign > 0, i, -1)
        first += stop - start
    return builds, first


def run(page, rows, gradients, builds, bounds, subtracts=(), hist=None):
    """All buffers after building in the row spans that `bounds` begins and ends; checks the accumulator."""
    arrays = pages.page_arrays(page)
    width = 2 * int(arrays.slot_ptr[-1])
    hist = np.full((len(builds), width), -7, np.int64) if hist is None else hist.copy()
    bounds = np.asarray(bounds, np.int64)
    partial = np.full((len(bounds) - 1, 2, width), 13, np.int64)
    acc = np.zeros(BLOCK_FEATURES * STRIDE, np.int64)
    for values, packing in zip(gradients.planes, gradients.packings):
        for block in range(-(-page.n_features // BLOCK_FEATURES)):
            for s, (start, stop) in enumerate(zip(bounds.tolist(), bounds.tolist()[1:])):
                common = (arrays, rows, not len(rows), values, packing, builds, acc)
                build_histograms(*common, partial[s], hist, block, start, stop)
    assert not acc.any()
    plan = np.array(list(subtracts), SUBTRACT)
    for start in range(0, width, 37):
        span = (start, min(width, start + 37))
        merge_histograms(builds, bounds, partial, hist, *span)
        subtract_histograms(plan, hist, *span)
    return hist


def expected(page, bins, rows, g, h):
    """One buffer by loop: all gradient slots, then all hessian slots."""
    sums = []
    for f, n in enumerate(page.n_bins):
        found = naive.histogram(bins, rows, g, h, f, int(n))
        sums += found if page.cuts.has_missing[f] else found[:-1]
    return [s[0] for s in sums] + [s[1] for s in sums]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("kind", pages.KINDS)
@given(data=st.data())
def test_any_nodes_cut_anywhere(data, kind, dtype):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_rows = data.draw(st.integers(1, 60))
    n_bins = [data.draw(st.sampled_from([1, 3, 200])) for _ in range(data.draw(st.integers(1, 4)))]
    bins = pages.make_bins(rng, n_rows, n_bins, data.draw(st.sampled_from([0, 0.3, 1])))
    page = pages.make_page(bins, n_bins, dtype)
    gradients, g, h = pages.quantized(rng, n_rows, kind)
    limit = data.draw(st.integers(1, n_rows))
    for packing in gradients.packings:  # rows between two flushes
        packing[2] = min(limit, packing[2])
    identity = data.draw(st.booleans())
    order = np.arange(n_rows) if identity else rng.permutation(n_rows)
    rows = pages.ALL_ROWS if identity else order.astype(np.int32)
    cuts = sorted(data.draw(st.sets(st.integers(0, n_rows), max_size=4)))
    ranges = [(a, b) for a, b in zip([0, *cuts], [*cuts, n_rows]) if a < b]
    ranges = ranges[data.draw(st.integers(0, len(ranges) - 1)) :]
    builds, total = make_builds(ranges)
    bounds = [0, *sorted(data.draw(st.sets(st.integers(1, total), max_size=5)) - {total}), total]
    hist = run(page, rows, gradients, builds, bounds)
    for found, (start, stop) in zip(hist, ranges):
        assert found.tolist() == expected(page, bins.tolist(), order[start:stop], g, h)


@pytest.mark.parametrize("kind", pages.KINDS)
@pytest.mark.parametrize("bounds", [[0, 90], [0, 20, 90], [0, 5, 50, 55, 60, 90]], ids=str)
def test_what_remains_of_the_parent(kind, bounds):
    """The larger child is the parent less the smaller one: subtracted after it is built, or row by row."""
    rng = np.random.default_rng(1)
    n_bins = [20, 3, 9]
    bins = pages.make_bins(rng, 200, n_bins)
    page = pages.make_page(bins, n_bins)
    gradients, g, h = pages.quantized(rng, 200, kind)
    order = rng.permutation(200)
    parent = expected(page, bins.tolist(), order, g, h)
    small = expected(page, bins.tolist(), order[:50], g, h)
    large = expected(page, bins.tolist(), order[50:], g, h)
    part = expected(page, bins.tolist(), order[:160], g, h)
    hist = np.array([[0] * len(parent), parent, parent], np.int64)
    builds, _ = make_builds([(0, 50), (160, 200)], [1, -1])
    hist = run(page, order.astype(np.int32), gradients, builds, bounds, [(2, 0)], hist)
    assert hist.tolist() == [small, part, large]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 64, 65, 129])
def test_words_and_blocks_of_features(n_features, dtype):
    rng = np.random.default_rng(n_features)
    n_bins = [4] * n_features
    bins = pages.make_bins(rng, 40, n_bins, [0.3 * (f % 2) for f in range(n_features)])
    page = pages.make_page(bins, n_bins, dtype)
    gradients, g, h = pages.quantized(rng, 40, "packed")
    builds, total = make_builds([(0, 25), (25, 40)])
    hist = run(page, pages.ALL_ROWS, gradients, builds, [0, 30, total])
    for found, rows in zip(hist, (range(25), range(25, 40))):
        assert found.tolist() == expected(page, bins.tolist(), rows, g, h)


@pytest.mark.parametrize("kind", ["equal hessians", "packed"])
def test_packed_sums_do_not_overflow(kind):
    """The largest gradients, all of one sign and in one bin, for more rows than are summed in packed form."""
    n_rows = 20_000
    bins = np.zeros((n_rows, 1), int)
    page = pages.make_page(bins, [1])
    for sign in (-1, 1):
        g = np.full(n_rows, sign * np.float32(2) - sign * np.float32(2) ** -23, np.float32)
        h = np.full(n_rows, 3.9999, np.float32)
        if kind == "packed":
            h[0] = 0.5
        gradients = pages.quantize.quantize(pages.Context(), g, h)
        assert len(gradients.planes) == 1
        g_quanta, h_quanta = pages.unpack(gradients)
        builds, total = make_builds([(0, n_rows)])
        hist = run(page, pages.ALL_ROWS, gradients, builds, [0, total])
        assert hist.tolist() == [[sum(g_quanta), sum(h_quanta)]]
