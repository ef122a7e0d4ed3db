"""No kernel leaves it to chance which thread touches a number first: a simulated device watches every access."""

import re

import numpy as np
import pytest
from numba import int32

import device_cases as cases
from arboost.kernels.gpu import arrays, simulator
from arboost.kernels.gpu.jit import cuda, gpu_kernel, gpu_part
from arboost.kernels.gpu.races import RaceError, Watch
from device_launch import run

pytestmark = pytest.mark.skipif(cases.IS_REAL, reason="a real device cannot be watched")

# Who writes, who reads or writes meanwhile -> why either may come first.
HARMLESS = {
    ("_close", "_grow_levels"): "blocks that find a batch, and those that find none any more, end the tree alike",
    ("_find_next", "_find_next"): "a key that is too large already saves an atomic maximum, and no more",
}
# between them they launch every kernel in which threads meet, with every kind of arguments
GROWN = ("regression", "absolute error", "quantiles with weights", "ranking", "ranking by hits",
         "ranking by draws", "rows", "columns of nodes", "an outlier", "wide codes", "monotone leaves",
         "sets of categories", "leaves of categories", "smoothed and monotone",
         "rows in leaves, by weight", "rows in leaves, planes", "drawn, of many rows")  # fmt: skip
SCORED = ("binary", "sets")


@pytest.fixture
def watch(monkeypatch):
    watch = Watch(simulator.at_work, frozenset(HARMLESS))
    monkeypatch.setattr(simulator, "watch", watch)
    return watch


@pytest.mark.parametrize("case", GROWN)
def test_trees(case, watch):
    cases.train("cuda", *cases.ON_DEVICE[case], n_rounds=1)
    assert watch.n_accesses > 1000


@pytest.mark.parametrize("case", SCORED)
def test_scores(case, watch):
    cases.score("cuda", case, True)
    assert watch.n_accesses > 1000


# ---- what is found ----


@gpu_part
def _neighbour_of(t):
    return (t + 1) % cuda.blockDim.x


def hand_on(meet):
    """A kernel in which every thread takes what its neighbour in the block has written, after they have met or not."""

    @gpu_kernel
    def kernel(values, out):
        t = cuda.threadIdx.x
        if cuda.blockIdx.x == 0:
            values[t] = t
        meet()
        if cuda.blockIdx.x == 0:
            out[t] = values[_neighbour_of(t)]

    return kernel


@gpu_part
def _not_at_all():
    pass


@gpu_part
def _in_a_warp():
    cuda.syncwarp()


@gpu_part
def _by_a_shuffle():
    cuda.shfl_sync(arrays.ALL_LANES, int32(0), 0)


@gpu_part
def _in_a_block():
    cuda.syncthreads()


@gpu_part
def _in_the_grid():
    cuda.cg.this_grid().sync()


MEETINGS = {"not at all": (_not_at_all, True), "in a warp": (_in_a_warp, True), "by a shuffle": (_by_a_shuffle, True),
            "in a block": (_in_a_block, False), "in the grid": (_in_the_grid, False)}  # fmt: skip


@pytest.mark.parametrize("how", MEETINGS)
def test_what_is_handed_on_needs_a_barrier(how, watch):
    meet, is_race = MEETINGS[how]
    n = 64
    if is_race:
        with pytest.raises(RaceError, match=r"values\[.*\]: .* \(kernel\)"):
            run(hand_on(meet), np.zeros(n, np.int64), np.zeros(n, np.int64))
    else:
        found = run(hand_on(meet), np.zeros(n, np.int64), np.zeros(n, np.int64))[1]
        np.testing.assert_array_equal(found, (np.arange(n) + 1) % n)


@gpu_kernel
def _change_and_read(counts, out, meets):
    cuda.atomic.add(counts, 0, 1)
    if meets:
        cuda.syncthreads()
    if cuda.threadIdx.x == cuda.blockIdx.x == 0:
        out[0] = counts[0]


@gpu_kernel
def _change(counts, nodes):
    cuda.atomic.add(counts, 0, 1)
    node = nodes[cuda.grid(1)]
    node.depth = node.depth + 1


def test_atomic_changes_are_in_no_order(watch):
    from arboost.kernels.dtypes import NODE

    counts, nodes = run(_change, np.zeros(1, np.int64), np.zeros(999, NODE))
    assert counts[0] == nodes["depth"].sum() > 32
    for meets in (False, True):  # a block's barrier is none for the other blocks
        with pytest.raises(RaceError, match=r"counts\[0\]: "):
            run(_change_and_read, np.zeros(1, np.int64), np.zeros(1, np.int64), meets)


@gpu_kernel
def _part(values):
    lane = int32(cuda.threadIdx.x) & 31
    if lane < 16:
        values[cuda.grid(1)] = cuda.shfl_sync(arrays.ALL_LANES, lane, 0)
    else:
        values[cuda.grid(1)] = cuda.shfl_sync(arrays.ALL_LANES, lane, 0)


@gpu_kernel
def _below_zero(values):
    values[int32(cuda.grid(1)) - 1] = 1


def test_lanes_that_wait_in_different_places(watch):
    with pytest.raises(simulator.SimulationError, match="in different places"):
        run(_part, np.zeros(999, np.int32))


def test_indices_below_zero(watch):
    with pytest.raises(RaceError, match=re.escape("values[-1] lies outside (999,)")):
        run(_below_zero, np.zeros(999, np.int32))
