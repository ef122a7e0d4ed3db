"""The pieces of a growing tree on a device, one by one, against plain Python and against the CPU's kernels."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
from numba import int32

import naive
from arboost.kernels.dtypes import CANDIDATE, NODE
from arboost.kernels.gpu import arrays, grow, histogram, partition, plan, quantize, split
from arboost.kernels.gpu import round as rounds
from arboost.kernels.gpu.jit import cuda, gpu_kernel
from arboost.levels import quantize as on_host
from arboost.runtime.context import Context
from arboost.runtime.device import device
from arboost.runtime.errors import XGBoostError
from device_cases import IS_REAL

MANY = 200_000 if IS_REAL else 700
MISSING = 255


together = functools.partial(gpu_kernel, max_registers=64)  # blocks that wait for each other must all fit at a time


def run(kernel, *args):
    """Launch; the arrays as they are afterwards."""
    here = device("cuda")
    here.use()
    sent = [here.upload(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    here.run(kernel, *sent)
    return [there.copy_to_host() for there, arg in zip(sent, args, strict=True) if isinstance(arg, np.ndarray)]


# ---- one warp ----


@gpu_kernel
def _scan_all(values, out):
    out[cuda.grid(1)] = arrays.scan(values[cuda.grid(1)], int32(cuda.threadIdx.x) & 31)


def test_a_warp_adds_up():
    here = device("cuda")
    n = here.n_blocks * here.n_threads
    values = np.random.default_rng(0).integers(-99, 99, n)
    _, found = run(_scan_all, values, np.zeros(n, np.int64))
    np.testing.assert_array_equal(found.reshape(-1, 32), np.cumsum(values.reshape(-1, 32), axis=1))


@gpu_kernel
def _find_units(lists, n, out):
    for unit in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[unit] = arrays.find_unit(lists, arrays.BUILD_PTR, n, unit)


def test_the_node_of_a_unit():
    """Nodes without units are passed over."""
    lists = np.zeros((arrays.N_LISTS, 8), np.int32)
    lists[arrays.BUILD_PTR, :6] = [0, 2, 2, 5, 6, 6]
    found = run(_find_units, lists, 5, np.zeros(6, np.int64))[1]
    np.testing.assert_array_equal(found, [0, 0, 2, 2, 2, 3])


# ---- gradients to integers ----


@together
def _quantize(g, h, values, found, reg):
    quantize.quantize(cuda.cg.this_grid(), g, h, values, found, reg)


def gradients(kind, n):
    rng = np.random.default_rng(1)
    g, h = rng.normal(size=(2, n)).astype(np.float32)
    h = np.abs(h) + np.float32(0.01)
    if kind == "equal hessians":
        h[:] = 1.5
    elif kind == "zeros":
        g[:], h[:] = 0, 0
    elif kind == "negative hessians":
        h[::7] *= -1
    elif kind == "wide":
        g[0] = 1e30
    elif kind == "rather wide":
        g[0] = 4e3
    elif kind == "tiny":
        g *= np.float32(1e-40)
    elif kind == "weights of zero":
        g[: n // 2] = h[: n // 2] = 0
    return g, h


KINDS = ("usual", "equal hessians", "zeros", "negative hessians", "wide", "rather wide", "tiny", "weights of zero")


SIZES = [1, 2, 100, 8191, 8192, 8193, 20_000]
SIZES_OF = [(kind, n) for kind in KINDS for n in (SIZES if IS_REAL or kind in ("usual", "rather wide") else SIZES[:3])]


@pytest.mark.parametrize(("kind", "n"), SIZES_OF)
def test_integers_are_those_of_the_host(kind, n):
    g, h = gradients(kind, n)
    wanted = on_host.quantize(Context(), g, h)
    reg = np.zeros(8)
    _, _, values, found, reg = run(
        _quantize, g, h, np.zeros((2, n), np.int64), np.zeros(quantize.N_FOUND, np.int64), reg
    )
    shift, n_block = wanted.packings[0, 0], wanted.packings[0, 2]
    assert found[quantize.IS_BAD] == quantize.GOOD
    assert (found[quantize.SHIFT], found[quantize.BLOCK_ROWS]) == (shift, n_block)
    np.testing.assert_array_equal(values[: len(wanted.planes)], wanted.planes)
    assert (reg[quantize.G_UNIT], reg[quantize.H_UNIT]) == (wanted.g_unit, wanted.h_unit)
    assert tuple(found[quantize.SUMS + 2 : quantize.SUMS + 4]) == wanted.total(Context(), None)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gradients_that_are_no_numbers(bad):
    g, h = gradients("usual", 50)
    g[3] = bad
    found = run(_quantize, g, h, np.zeros((1, 50), np.int64), np.zeros(quantize.N_FOUND, np.int64), np.zeros(8))[3]
    assert found[quantize.IS_BAD] == quantize.NOT_FINITE
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        on_host.quantize(Context(), g, h)


def test_gradients_that_need_a_plane_each():
    g, h = gradients("negative hessians", 50)
    found = run(_quantize, g, h, np.zeros((1, 50), np.int64), np.zeros(quantize.N_FOUND, np.int64), np.zeros(8))[3]
    assert found[quantize.IS_BAD] == quantize.NEEDS_PLANES


@pytest.mark.parametrize("shift", [0, 12, 32])
def test_sums_of_some_rows(shift):
    rng = np.random.default_rng(2)
    g, h = rng.integers(-500, 500, MANY), rng.integers(0, 500, MANY)
    planes = np.stack([g, h]) if not shift else ((g << shift) + h)[None]
    rows = rng.permutation(MANY).astype(np.int32)[None]
    sums = run(rounds.sum_rows, planes, rows, MANY // 3, shift, np.zeros(2, np.int64))[2]
    some = rows[0, : MANY // 3]
    assert tuple(sums) == (g[some].sum(), h[some].sum())


# ---- bins ----


def words_of(codes, wide):
    """Rows of codes as rows of 32-bit words."""
    per_word = 2 if wide else 4
    n, n_features = codes.shape
    padded = np.zeros((n, -(-n_features // per_word) * per_word), np.uint16 if wide else np.uint8)
    padded[:, :n_features] = codes
    return padded.view(np.uint32)


def table(n, n_features, n_bins, wide=False, seed=0):
    """Codes of random rows; the first feature misses none, the last all of its values."""
    rng = np.random.default_rng(seed)
    missing = 0xFFFF if wide else MISSING
    codes = rng.integers(0, n_bins, (n, n_features))
    codes[rng.random(codes.shape) < 0.2] = missing
    codes[:, 0] = rng.integers(0, n_bins, n)
    if n_features > 1:
        codes[:, -1] = missing
    return codes, missing


def node_at(start, stop, depth=0, buffer=-1, feature=-1):
    node = np.zeros(1, NODE)
    node["start"], node["stop"], node["depth"], node["hist"], node["feature"] = start, stop, depth, buffer, feature
    return node


@gpu_kernel
def _build(bins, n_words, slot_ptr, n_bins, planes, shift, parts, rows, in_order, nodes, lists, state, hist):
    sums = cuda.shared.array(8192, int32)
    if parts == histogram.DIRECT:
        wide = False
        histogram.build_directly(bins, wide, slot_ptr, n_bins, planes, shift, rows, in_order, nodes, lists, state, hist)
    else:
        histogram.build(
            bins, n_words, slot_ptr, n_bins, planes, shift, parts, rows, in_order, nodes, lists, state, hist, sums
        )


@pytest.mark.parametrize("n_features", [1, 4, 5, 9, 17])
@pytest.mark.parametrize("layout", ["halves", "quarters", "quarters in two planes", "direct"])
def test_histograms(layout, n_features):
    """Two nodes of rows in any order, negative and large gradients among them, in every layout of sums."""
    rng = np.random.default_rng(3)
    parts = {"halves": histogram.HALVES, "direct": histogram.DIRECT}.get(layout, histogram.QUARTERS)
    shift = {"halves": 32, "quarters": 14}.get(layout, 0)
    g = rng.integers(-(2 ** (17 if shift else 39)), 2 ** (17 if shift else 39), MANY)
    h = rng.integers(0, 2**18 if shift == 32 else 2**3 if shift else 2**39, MANY)
    planes = ((g << shift) + h)[None] if shift else np.stack([g, h])
    codes, _ = table(MANY, n_features, 60)
    n_bins = np.full(n_features, 60, np.int32)
    slot_ptr = np.append(0, np.cumsum(n_bins)).astype(np.int32)
    rows = np.stack([rng.permutation(MANY), rng.permutation(MANY)]).astype(np.int32)
    nodes = np.concatenate([node_at(0, MANY), node_at(5, MANY // 2, 1, 1), node_at(MANY // 2, MANY, 2, 0)])
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    bits = 8
    lists[arrays.BUILD_IDS, :2] = [1, 2]
    units = [-(-int(node["stop"] - node["start"]) // (1 << bits)) for node in nodes[1:]]
    lists[arrays.BUILD_PTR, :3] = np.append(0, np.cumsum(units))
    state[arrays.BUILDS], state[arrays.CHUNK_BITS] = 2, bits
    bins = words_of(codes, wide=False)
    sent = (bins, bins.shape[1], slot_ptr, n_bins, planes, shift, parts, rows, False, nodes, lists, state)
    hist = run(_build, *sent, np.zeros((2, 2 * int(slot_ptr[-1])), np.int64))[-1]
    for node in nodes[1:]:
        mine = rows[node["depth"] & 1, node["start"] : node["stop"]]
        wanted = np.zeros((2, n_features, MISSING + 1), np.int64)
        for plane, values in zip(wanted, (g, h), strict=True):
            np.add.at(plane, (np.arange(n_features), codes[mine]), values[mine][:, None])
        np.testing.assert_array_equal(hist[node["hist"]].reshape(2, n_features, 60), wanted[:, :, :60])


# ---- splits ----


@together
def _find(slot_ptr, n_bins, nodes, lists, state, hist, allowed, reg, best):
    split.find_splits(slot_ptr, n_bins, nodes, lists, state, hist, allowed, int32(0), (), (), reg, best)
    cuda.cg.this_grid().sync()
    if cuda.blockIdx.x == 0:
        t = int32(cuda.threadIdx.x)
        split.select_splits(nodes, lists, state, best, (), reg, t // 32, int32(cuda.blockDim.x) // 32, t & 31)


@pytest.mark.parametrize("seed", range(40 if IS_REAL else 12))
def test_splits(seed):
    """Few distinct gradients, so that scores tie; missing values, empty bins, features that are not allowed."""
    rng = np.random.default_rng(seed)
    n_features, n_bins, n = int(rng.integers(1, 5)), int(rng.choice([1, 2, 7, 40, 255])), int(rng.integers(2, 30))
    codes, missing = table(n, n_features, n_bins, seed=seed)
    codes[codes == missing] = naive.MISSING
    g, h = rng.integers(-2, 3, n), rng.integers(0, 3, n)
    penalties = {"reg_alpha": 0.3 * (seed % 3 == 1), "max_delta_step": 0.5 * (seed % 4 == 3), "gamma": 0.2 * (seed % 2)}
    allowed = (rng.random(n_features) < 0.8).astype(np.uint8)
    slot_ptr = (np.arange(n_features + 1) * n_bins).astype(np.int32)
    sums = np.array([naive.histogram(codes, range(n), g, h, f, n_bins)[:n_bins] for f in range(n_features)], np.int64)
    # the node is what remains of its parent when its smaller sibling, with other rows, is taken away
    smaller = rng.integers(-5, 5, sums.shape)
    hist = np.stack([(sums + smaller).transpose(2, 0, 1).ravel(), smaller.transpose(2, 0, 1).ravel()])
    node = node_at(0, n, 1, 0)
    node["g"], node["h"] = g.sum(), h.sum()
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.SMALLER, 0], state[arrays.EVALS] = 1, 1
    p = naive.Params(reg_lambda=0.5, min_child_weight=0.25, g_unit=0.5, h_unit=0.25, **penalties)
    reg = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, p.gamma, p.g_unit, p.h_unit, 0]
    best = np.zeros((1, n_features), CANDIDATE)
    sent = (slot_ptr, np.full(n_features, n_bins, np.int32), node, lists, state, hist, allowed[None])
    after = run(_find, *sent, np.array(reg, np.float64), best)
    (found,), hist = after[2], after[5]
    np.testing.assert_array_equal(hist[0], sums.transpose(2, 0, 1).ravel())
    wanted = naive.find_split(codes, range(n), g, h, [n_bins] * n_features, p, allowed)
    if wanted is None:
        assert found["feature"] == -1
        return
    assert found["gain"] == wanted.gain
    names = ("feature", "default_left", "g_left", "h_left")
    assert [found[name] for name in names] == [getattr(wanted, name) for name in names]
    column, other = codes[:, wanted.feature], replace(wanted, bin=found["bin"])  # empty bins part rows alike
    assert [naive.goes_left(b, other) for b in column] == [naive.goes_left(b, wanted) for b in column]


# ---- rows ----


@together
def _split_rows(bins, wide, missing, rows, in_order, nodes, lists, moved, state):
    info = cuda.shared.array(4, int32)
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x < 32:
        bits = arrays.bits_of_size(cuda.blockDim.x * partition.ROWS_OF_THREAD)
        plan.plan_batch(nodes, lists, moved, state, bits, int32(cuda.threadIdx.x))
    cuda.cg.this_grid().sync()
    partition.split_rows(bins, wide, missing, rows, in_order, nodes, lists, moved, state, (), info)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_rows_part(wide, in_order):
    rng = np.random.default_rng(4)
    codes, missing = table(MANY, 5, 40, wide)
    bounds = [0, MANY] if in_order else [0, MANY // 3, MANY // 3 + 1, MANY]
    nodes = np.concatenate(
        [node_at(a, b, 0 if in_order else 1, 0, 1 + k) for k, (a, b) in enumerate(itertools.pairwise(bounds))]
    )
    nodes["bin"], nodes["default_left"] = 17, np.arange(len(nodes)) % 2
    rows = np.stack([np.full(MANY, -1), rng.permutation(MANY)]).astype(np.int32)
    if in_order:
        rows[1] = -1
    lists, state = np.zeros((arrays.N_LISTS, 8), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.BATCH_IDS, : len(nodes)], state[arrays.BATCH] = np.arange(len(nodes)), len(nodes)
    if not in_order:  # node 0 is the root, whose rows alone may not be written down
        assert nodes[0]["depth"] == 1
    sent = (words_of(codes, wide), wide, missing, rows, in_order, nodes, lists, np.full((8, 2), 9, np.int32), state)
    after = run(_split_rows, *sent)
    parted, moved = after[1], after[4]
    for k, node in enumerate(nodes):
        span = slice(node["start"], node["stop"])
        mine = np.arange(MANY) if in_order else rows[1, span]
        code = codes[mine, node["feature"]]
        is_left = (code <= node["bin"]) | ((code == missing) & bool(node["default_left"]))
        to = parted[1 if in_order else 0, span]
        n_left = int(moved[k, 0])
        assert (n_left, int(moved[k, 1])) == (is_left.sum(), (~is_left).sum())
        assert sorted(to[:n_left]) == sorted(mine[is_left])
        assert sorted(to[n_left:]) == sorted(mine[~is_left])


@pytest.mark.parametrize("wide", [False, True])
def test_rows_find_their_leaves(wide):
    codes, missing = table(MANY, 3, 40, wide)
    width = 16 if wide else 8
    table_ = np.array([[1, 0, 20, 0], [3, 1 * width, 9, 1], [-1] * 4, [-1] * 4, [-1] * 4], np.int32)
    weights = np.arange(5, dtype=np.float32) / 3
    left = codes[:, 0] <= 20
    far = (codes[:, 1] <= 9) | (codes[:, 1] == missing)
    wanted = np.where(left, np.where(far, 3, 4), 2)
    bins = words_of(codes, wide)
    found = run(grow.find_leaves, bins, wide, missing, table_, np.zeros(MANY, np.int32), ())[-1]
    np.testing.assert_array_equal(found, wanted)
    margin = np.random.default_rng(0).normal(size=(MANY, 2)).astype(np.float32)
    after = run(grow.add_weights, bins, wide, missing, table_, weights, np.zeros(1, np.int64), 1, margin, ())[-1]
    np.testing.assert_array_equal(after[:, 1], margin[:, 1] + weights[wanted])
    np.testing.assert_array_equal(after[:, 0], margin[:, 0])


# ---- who needs which histogram ----


@gpu_kernel
def _plan_builds(nodes, lists, state, n_groups, most_rows, out):
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x < 32:
        plan.plan_builds(nodes, lists, state, n_groups, most_rows, int32(cuda.threadIdx.x))


@pytest.mark.parametrize("sizes", [[1], [5000], [256, 257, 0, 1], [100_000] * 40, [10_000_000]])
@pytest.mark.parametrize("most_rows", [1000, 1024, 8192])
def test_stretches_of_rows_are_short_enough(sizes, most_rows):
    """No stretch has more rows than 32-bit sums can take, and together they are all rows."""
    stops = np.cumsum(sizes)
    nodes = np.concatenate([node_at(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)])
    lists, state = np.zeros((arrays.N_LISTS, 64), np.int32), np.zeros(arrays.N_STATE, np.int64)
    lists[arrays.BUILD_IDS, : len(sizes)], state[arrays.BUILDS] = np.arange(len(sizes)), len(sizes)
    _, lists, state, _ = run(_plan_builds, nodes, lists, state, 3, most_rows, np.zeros(1, np.int64))
    chunk = 1 << int(state[arrays.CHUNK_BITS])
    assert chunk <= most_rows
    wanted = np.append(0, np.cumsum([-(-size // chunk) for size in sizes]))
    np.testing.assert_array_equal(lists[arrays.BUILD_PTR, : len(sizes) + 1], wanted)
