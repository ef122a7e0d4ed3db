"""Searches of a device that do not take every candidate, against the CPU's."""

import functools

import numba
import numpy as np
import pytest
from numba import int32

from arboost.kernels.cpu.grow import choice as forms_of_offer
from arboost.kernels.cpu.grow import split
from arboost.kernels.cpu.grow.arrays import Choice
from arboost.kernels.dtypes import CANDIDATE, FEW_ROWS, NODE
from arboost.kernels.gpu import arrays, choice
from arboost.kernels.gpu.jit import cuda, gpu_kernel
from device_cases import IS_REAL
from device_launch import run

assert forms_of_offer  # imported: `split.offer` has the form that is wanted here
together = functools.partial(gpu_kernel, max_registers=64)


@together
def _find(slot_ptr, n_bins, nodes, lists, state, hist, allowed, chosen, reg, best):
    choice.find_splits(slot_ptr, n_bins, nodes, lists, state, hist, allowed, int32(0), chosen, reg, best)
    cuda.cg.this_grid().sync()
    if cuda.blockIdx.x == 0:
        t, n_slots = int32(cuda.threadIdx.x), slot_ptr[n_bins.shape[0]]
        choice.subtract_totals(nodes, lists, state, hist, n_slots, t, int32(cuda.blockDim.x))


def draw_rows(rng, n_bins, n, counts):
    """(g, h, codes): sums that cancel, rows that weigh nothing, missing values; code n_bins[f] is missing."""
    g, h = rng.integers(-1, 2, n), rng.choice([0, 1, 1], n) * rng.integers(1, 3)
    if counts:
        h[:] = 1
    codes = np.stack([rng.integers(0, width, n) for width in n_bins])
    codes[rng.random(codes.shape) < 0.2] = 1_000
    if not counts and rng.random() < 0.5:  # pairs that cancel: bins that hold rows, and no sum
        m = n // 3
        g[:m], g[m : 2 * m], h[: 2 * m] = 1, -1, 0
        codes[:, :m] = codes[:, m : 2 * m]
    elif rng.random() < 0.5:  # some feature misses none
        codes[0] = rng.integers(0, n_bins[0], n)
    return g, h, np.minimum(codes, np.array(n_bins)[:, None])


def sums_of(g, h, codes, n_bins, with_missing):
    """Planes of sums and counts, flat; where nothing is missing there is no slot for it."""
    weighs = ((g | h) != 0).astype(np.int64)
    planes = []
    for values in (g, h, weighs):
        of_features = [np.bincount(c, values, n + 1)[: n + with_missing] for c, n in zip(codes, n_bins, strict=True)]
        planes.append(np.concatenate(of_features).astype(np.int64))
    return planes, int(weighs.sum())


@numba.njit(error_model="numpy")
def _offer(i, f, every, slot, n_slots, n, out, key, rows, work, score, score_bits, nodes, reg, best):
    bins, g_left, h_left = work[split.EVERY_BIN], work[split.G_LEFT], work[split.H_LEFT]
    width, chosen = n + 1, Choice(key, rows)
    if every:
        split.all_sums(out, slot, n_slots, n, g_left, h_left)
    else:
        n = split.occupied_sums(out, slot, n_slots, n, bins, g_left, h_left)
    if n > 0:
        source, scratch = (out, slot, n_slots, width), (work, (score, score_bits), chosen)
        split.offer(scratch, i, f, source, bins, g_left, h_left, n, nodes[i], reg, best[f])


def of_cpu(i, nodes, planes, n_bins, chosen, reg):
    """The best split on every feature; nodes of few rows are not searched by every bin."""
    best, n_slots, slot, n_rows = np.zeros(len(n_bins), CANDIDATE), len(planes[0]), 0, int(nodes["stop"][i])
    for f, n in enumerate(n_bins):
        work, score = np.zeros((split.SCRATCH_ROWS, max(n_bins) + 1), np.int64), np.zeros(max(n_bins) + 1)
        work[split.EVERY_BIN] = np.arange(max(n_bins) + 1)
        every = 2 * n_rows >= n and (i == 0 or n_rows > FEW_ROWS)
        scores = (score, score.view(np.int64))
        _offer(i, f, every, slot, n_slots, n, np.concatenate(planes), *chosen, work, *scores, nodes, reg, best)
        slot += n + 1
    return best


@pytest.mark.parametrize("seed", range(600 if IS_REAL else 200))
def test_splits(seed):
    rng = np.random.default_rng(seed)
    n_bins = rng.choice([1, 2, 3, 9, 33, 70, 255], int(rng.integers(1, 5))).tolist()
    i, n, counts = int(rng.integers(0, 2)), int(rng.choice([2, 7, 40, 70, 300])), bool(rng.random() < 0.3)
    key, least = int(rng.choice([0, 12345])), int(rng.choice([1, 2, 3, 8, 20]))
    plane = 1 if counts or least == 1 else choice.COUNTS
    g, h, codes = draw_rows(rng, n_bins, n, counts)
    node = np.zeros(1, NODE)
    node["stop"], node["g"], node["h"], node["depth"] = n, g.sum(), h.sum(), i
    reg = np.array([0.5, rng.choice([0, 0.3]), rng.choice([0, 0.5]), rng.choice([0, 0.25]), 0.0, 0.5, 0.25, 0.0])
    planes, total = sums_of(g, h, codes, n_bins, with_missing=False)
    # the node is what remains of its parent when its smaller sibling, with other rows, is taken away
    others = [rng.integers(0, 5, len(part)) for part in planes] + [np.array([7])]
    hist = np.stack([np.concatenate([*planes, [total]]) + np.concatenate(others), np.concatenate(others)])
    if plane == 1 and rng.random() < 0.5:
        hist = np.ascontiguousarray(hist[:, : 2 * len(planes[0])])
    nodes = np.zeros(2, NODE)
    nodes[i] = node[0]
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.EVAL_IDS, 0], lists[arrays.SMALLER, 0], state[arrays.EVALS] = i, 1, 1
    slot_ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
    best, allowed = np.zeros((1, len(n_bins)), CANDIDATE), np.ones((1, len(n_bins)), np.uint8)
    chosen = (np.array([key], np.uint64), np.array([least, plane], np.int64))
    after = run(_find, slot_ptr, np.int32(n_bins), nodes, lists, state, hist, allowed, chosen, reg, best)
    np.testing.assert_array_equal(after[5][0], (hist[0] - hist[1]))
    wide, _ = sums_of(g, h, codes, n_bins, with_missing=True)
    wanted = of_cpu(i, nodes, wide, n_bins, chosen, reg)
    np.testing.assert_array_equal(after[9][0]["score"], wanted["score"])
    has_one = wanted["score"] > 0
    np.testing.assert_array_equal(after[9][0][has_one], wanted[has_one])
