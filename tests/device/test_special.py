"""Searches under bounds and for sets of categories on a device, against the CPU's, whose source is run as Python."""

import functools

import numpy as np
import pytest
from numba import int32

from arboost.kernels.cpu.grow import bounds as cpu_bounds
from arboost.kernels.cpu.grow import categories as cpu_categories
from arboost.kernels.cpu.grow import split as cpu_split
from arboost.kernels.cpu.grow.arrays import Bounds
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.kernels.gpu import arrays, bounds, categories, partition, plan, split
from arboost.kernels.gpu.jit import cuda, gpu_kernel
from arboost.kernels.gpu.simulator import python_form
from device_cases import IS_REAL
from device_launch import run

together = functools.partial(gpu_kernel, max_registers=64)
MISSING = 255
SEEDS = range(400 if IS_REAL else 100)


# ---- the best split ----


@together
def _find(slot_ptr, n_bins, nodes, lists, state, hist, allowed, bounded, sets, reg, best):
    grid = cuda.cg.this_grid()
    split.find_splits(slot_ptr, n_bins, nodes, lists, state, hist, allowed, int32(0), bounded, sets, reg, best)
    if len(sets) > 0:
        categories.find_sets(slot_ptr, n_bins, nodes, lists, state, hist, allowed, int32(0), bounded, sets, reg, best)
    grid.sync()
    if cuda.blockIdx.x == 0:
        t = int32(cuda.threadIdx.x)
        split.select_splits(nodes, lists, state, best, bounded, reg, t // 32, int32(cuda.blockDim.x) // 32, t & 31)
    grid.sync()
    if len(sets) > 0:
        categories.keep_sets(slot_ptr, n_bins, nodes, lists, state, hist, sets, reg)


def draw_node(rng, n_bins, n_rows):
    """A node of few distinct gradients, so that scores and weights tie; some values are missing, some bins empty."""
    slot_ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
    g, h = rng.integers(-2, 3, n_rows), rng.integers(0, 3, n_rows)
    h = h if rng.random() < 0.7 else np.ones(n_rows, np.int64)
    hist = np.zeros((2, slot_ptr[-1]), np.int64)
    for f, n in enumerate(n_bins):
        codes = rng.integers(0, n, n_rows)
        is_there = (rng.random(n_rows) < rng.choice([0.6, 1.0])) | (g > rng.choice([-1, 0, 9]))
        for plane, values in zip(hist, (g, h), strict=True):
            np.add.at(plane, slot_ptr[f] + codes[is_there], values[is_there])
    node = np.zeros(1, NODE)
    node["stop"], node["g"], node["h"], node["feature"] = n_rows, g.sum(), h.sum(), -1
    return slot_ptr, hist.reshape(1, -1), node


def of_cpu(slot_ptr, n_bins, node, hist, bounded, is_category, limits, n_words, reg):
    """The node with its split, and its set."""
    node, n, widest = node.copy().view(np.recarray), len(n_bins), int(n_bins.max())
    best = np.zeros((1, n), CANDIDATE).view(np.recarray)
    constraints, spans = bounded or (np.zeros(n, np.int64), np.zeros((1, 3)))
    smooth = reg[7] * int(node["h"][0]) * reg[6] / int(node["stop"][0])
    of_bounds = Bounds(constraints, *spans.T, np.array([len(bounded) > 0, smooth]))
    source = (hist, None, None, None, None, 0)
    scratch = (*np.zeros((2, widest), np.int64), np.zeros(widest, np.float32), *np.zeros((2, widest), np.int64))
    work, scores = np.zeros((cpu_split.SCRATCH_ROWS, widest + 1), np.int64), np.zeros(widest + 1)
    work[cpu_split.EVERY_BIN] = np.arange(widest + 1)
    for f in range(n):
        found, allowed = best[0, f], python_form(cpu_bounds.limits_of)(of_bounds, node, 0, f, reg)
        if is_category[f]:
            args = (node[0], f, source, slot_ptr, int(n_bins[f]), limits, allowed, reg, scratch, found)
            python_form(cpu_categories.find_set)(*args)
        elif bounded:
            args = (node[0], f, source, slot_ptr, int(n_bins[f]), allowed, reg, work, found)
            python_form(cpu_bounds.find_bounded)(*args)
        else:
            bins, g, h = work[cpu_split.BINS], work[cpu_split.G_LEFT], work[cpu_split.H_LEFT]
            filled = python_form(cpu_split.occupied_sums)(hist[0], slot_ptr[f], slot_ptr[-1], n_bins[f], bins, g, h)
            if filled:
                scored = (scores, scores.view(np.int64))
                python_form(cpu_split.best_of)(bins, g, h, filled, node[0], reg, scored, found)
    chosen = cpu_bounds.select_by_gain if bounded else None
    if chosen is None:
        python_form(cpu_split.select_splits)(node, [0], best, reg, 0, 1)
    else:
        python_form(chosen)(node, np.zeros(1, np.int32), best, reg)
    bits, f = np.zeros(n_words, np.uint64), node.feature[0]
    if f >= 0 and is_category[f]:
        args = (node[0], f, source, slot_ptr, int(n_bins[f]), limits, reg, scratch, bits)
        python_form(cpu_categories.keep_set)(*args)
    return node, bits


@pytest.mark.parametrize("seed", SEEDS)
def test_splits(seed):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 5))
    n_bins = rng.choice([1, 2, 3, 7, 40, 130], n_features).astype(np.int32)
    is_category = (rng.random(n_features) < 0.6).astype(np.uint8)
    bounded, sets = (), ()
    slot_ptr, hist, node = draw_node(rng, n_bins, int(rng.choice([3, 10, 60, 400])))
    if rng.random() < 0.6 or not is_category.any():
        least, largest = np.sort(rng.choice([-np.inf, -0.7, -0.1, 0.0, 0.2, 1.0, np.inf], 2, replace=False))
        bounded = (rng.integers(-1, 2, n_features), np.array([[least, largest, 0.0]]))
    limits = np.array([rng.choice([0, 1, 4, 50]), rng.choice([1, 2, 5, 64, 1000])], np.int64)
    if is_category.any():
        widest = int(n_bins[is_category != 0].max())
        keys = np.full((int(rng.choice([1, 2, 100])), 1 << (widest - 1).bit_length()), 7, np.int64)
        features = np.flatnonzero(is_category).astype(np.int32)
        sets = (is_category, features, limits, keys, np.full((1, -(-widest // 64)), 99, np.uint64))
    reg = np.zeros(8)
    reg[:7] = [0.5, rng.choice([0, 0.3]), rng.choice([0, 0.5]), rng.choice([0, 0.25]), rng.choice([0, 0.2]), 0.5, 0.25]
    if bounded:
        reg[7] = rng.choice([0, 2.5])
        sums, weight = (node["g"][0] * reg[5], node["h"][0] * reg[6]), python_form(cpu_bounds.bounded_weight)
        bounded[1][0, 2] = rng.normal() if reg[7] else weight(*sums, *bounded[1][0, :2], 0.0, 0.0, reg)
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.SMALLER, 0], state[arrays.EVALS] = -1, 1
    best, allowed = np.zeros((1, n_features), CANDIDATE), np.ones((1, n_features), np.uint8)
    after = run(_find, slot_ptr, n_bins, node, lists, state, hist, allowed, bounded, sets, reg, best)
    n_words = sets[4].shape[1] if sets else 0
    wanted, bits = of_cpu(slot_ptr, n_bins, node, hist, bounded, is_category, limits, n_words, reg)
    (found,) = after[2]
    names = ("feature", "gain", "bin", "default_left", "g_left", "h_left")
    if wanted["feature"][0] < 0:
        names = ("feature",)
    assert [found[name] for name in names] == [wanted[name][0] for name in names]
    if sets and found["feature"] >= 0 and is_category[found["feature"]]:
        np.testing.assert_array_equal(after[8][4][0], bits)


# ---- bounds of children ----


@gpu_kernel
def _make_children(nodes, bounded, reg):
    for b in range(cuda.grid(1), 3, cuda.gridsize(1)):
        plan.make_children(nodes, b, 3 + 2 * b, 0, bounded, reg)


@gpu_kernel
def _weigh(nodes, bounded, reg, weights):
    for i in range(cuda.grid(1), nodes.shape[0], cuda.gridsize(1)):
        weights[i] = bounds.weight_of(bounded, nodes, i, reg)


@pytest.mark.parametrize("path_smooth", [0.0, 3.0])
def test_bounds_of_children(path_smooth):
    reg = np.array([1.0, 0.1, 0.0, 0.0, 0.0, 0.5, 0.25, path_smooth])
    nodes, constraints, spans = np.zeros(9, NODE), np.array([1, -1, 0]), np.full((9, 3), 9.0)
    nodes["g"][:3], nodes["h"][:3], nodes["g_left"][:3], nodes["h_left"][:3] = [5, -4, 7], 20, [9, 1, -3], [8, 9, 5]
    nodes["feature"][:3], nodes["stop"][0] = range(3), 7
    spans[:3] = [[-0.3, 0.2, 0.1], [-np.inf, 0.4, -2.0], [0.0, np.inf, 0.6]]
    before = [column.copy() for column in spans.T]
    made, after, _ = run(_make_children, nodes, (constraints, spans), reg)
    of_cpu = Bounds(constraints, *before, np.array([1.0, path_smooth * 20 * 0.25 / 7]))
    for i in range(3):
        python_form(cpu_bounds.hand_down)(of_cpu, made.view(np.recarray), i, reg)
    np.testing.assert_array_equal(after[1], np.stack(before, axis=1))
    weights = run(_weigh, made, after, reg, np.zeros(9))[-1]
    wanted = [python_form(cpu_bounds._weight_of_node)(of_cpu, made.view(np.recarray), i, reg) for i in range(3, 9)]
    np.testing.assert_array_equal(weights[3:], wanted)


# ---- the order of categories ----


@gpu_kernel
def _sort(hist, n, reg, keys, order):
    if cuda.grid(1) < 32:
        lane = int32(cuda.threadIdx.x)
        categories.sort_categories(hist, 0, 0, n, n, reg, keys, lane)
        for k in range(lane, n, 32):
            order[k] = categories.category_at(keys, k)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100, *([1000, 65536] if IS_REAL else [])])
def test_the_order_of_categories(n):
    """By weight, then by number; weights of zero with either sign are equal."""
    rng = np.random.default_rng(n)
    g, h = rng.integers(-3, 4, n), rng.integers(0, 3, n)
    reg = np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.5, 0.25, 0.0])
    keys = np.zeros(1 << (n - 1).bit_length(), np.int64)
    order = run(_sort, np.append(g, h)[None], n, reg, keys, np.zeros(n, np.int32))[-1]
    weight = python_form(cpu_categories.leaf_weight)
    weights = np.float32([weight(a * 0.5, b * 0.25, reg) for a, b in zip(g, h, strict=True)])
    np.testing.assert_array_equal(order, np.argsort(weights, kind="stable"))


# ---- rows ----


@together
def _split_rows(bins, missing, rows, nodes, lists, moved, state, sets):
    info = cuda.shared.array(4, int32)
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x < 32:
        bits = arrays.bits_of_size(cuda.blockDim.x * partition.ROWS_OF_THREAD)
        plan.plan_batch(nodes, lists, moved, state, bits, int32(cuda.threadIdx.x))
    cuda.cg.this_grid().sync()
    partition.split_rows(bins, False, missing, rows, False, nodes, lists, moved, state, sets, info)


@pytest.mark.parametrize("default_left", [0, 1])
def test_rows_part_by_sets_and_by_bins(default_left):
    rng, n = np.random.default_rng(4), 20_000 if IS_REAL else 300
    codes = rng.integers(0, 100, (n, 4)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.2] = MISSING
    sets = np.random.default_rng(1).integers(0, 1 << 63, (3, 2)).astype(np.uint64)
    is_category = np.array([0, 1, 0, 1], np.uint8)
    of_sets = (
        is_category,
        np.flatnonzero(is_category).astype(np.int32),
        np.zeros(2, np.int64),
        np.zeros((1, 128)),
        sets,
    )
    nodes = np.zeros(2, NODE)
    nodes["start"], nodes["stop"], nodes["feature"], nodes["bin"] = [0, n // 3], [n // 3, n], [3, 2], 44
    nodes["default_left"] = default_left
    rows = np.stack([rng.permutation(n), np.full(n, -1)]).astype(np.int32)
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.BATCH_IDS, :2], state[arrays.BATCH] = [0, 1], 2
    args = (codes.view(np.uint32), MISSING, rows, nodes, lists, np.zeros((8, 2), np.int32), state, of_sets)
    after = run(_split_rows, *args)
    members = np.unpackbits(sets.view(np.uint8), axis=1, bitorder="little").astype(bool)
    for k, node in enumerate(nodes):
        span = slice(node["start"], node["stop"])
        mine = rows[0, span]
        code = codes[mine, node["feature"]]
        is_left = code <= 44 if k else ~members[0, np.minimum(code, 127)]
        is_left = np.where(code == MISSING, bool(default_left), is_left)
        n_left = int(after[5][k, 0])
        assert n_left == is_left.sum()
        assert sorted(after[2][1, span][:n_left]) == sorted(mine[is_left])
        assert sorted(after[2][1, span][n_left:]) == sorted(mine[~is_left])
