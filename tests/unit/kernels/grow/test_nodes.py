"""Bookkeeping of growth: children's ranges and sums, and which histogram is built, subtracted or not needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pages
from arboost.kernels.cpu.grow import nodes as expand
from arboost.kernels.cpu.grow.arrays import Plan
from arboost.kernels.dtypes import BUILD, BY_ROWS, FEW_ROWS, NO_HIST, NODE, SUBTRACT

open_nodes, plan_children = pages.compiled(expand.open_nodes), pages.compiled(expand.plan_children)
MANY = 10 * FEW_ROWS
REG = np.zeros(7)


def make_limits(max_depth, least_h, rows_decide=True):
    """Limits of a single machine, where rows may be counted, or of workers, where they may not."""
    counted = (2, FEW_ROWS, 1) if rows_decide else (0, expand.NEVER, 0)
    return np.array([max_depth, least_h, *counted], np.int64)


DEEP = make_limits(0, 0)  # no depth limit, any weight


class Table:
    """A node table with its stack of buffers, before `n` nodes of it are opened."""

    def __init__(self, n, n_free=20):
        self.nodes = np.zeros(3 * n + 2, NODE)
        self.nodes[:n]["feature"] = 0
        self.nodes["left"] = self.nodes["right"] = -1
        self.nodes["hist"] = NO_HIST
        self.free = np.full(n_free + n, -9, np.int32)  # room for all buffers: the free ones and the nodes' own
        self.free[:n_free] = np.arange(100, 100 + n_free)
        self.builds, self.subtracts = np.zeros(2 * n, BUILD), np.zeros(2 * n, SUBTRACT)
        self.evals = np.full(2 * n, -1, np.int32)
        self.counts = np.zeros(expand.N_COUNTS, np.int64)
        self.counts[expand.NODES], self.counts[expand.FREE] = n, n_free
        self.batch = np.arange(n, dtype=np.int32)

    def set_node(self, i, start, stop, hist, depth=0, g=10, h=1000, g_left=4, h_left=400):
        node = self.nodes[i]
        for name, value in locals().items():
            if name in NODE.names:
                node[name] = value

    def plan(self, limits=DEEP):
        return Plan(limits, self.free, self.builds, self.subtracts, self.evals, self.counts, np.ones(4, np.int64))

    def open(self, n_left, limits=DEEP):
        plan = self.plan(limits)
        plan_children((), self.nodes, self.batch, np.asarray(n_left, np.int64), REG, plan)
        n_builds, n_subtracts, n_evals = self.counts[[expand.BUILDS, expand.SUBTRACTS, expand.EVALS]]
        return self.builds[:n_builds], self.subtracts[:n_subtracts], self.evals[:n_evals]


def test_children_get_ranges_sums_and_links():
    table = Table(1)
    table.set_node(0, 100, 100 + 2 * MANY, 7, depth=3)
    table.open([MANY // 2])
    left, right = table.nodes[1], table.nodes[2]
    assert (table.nodes[0]["left"], table.nodes[0]["right"], table.nodes[0]["hist"]) == (1, 2, NO_HIST)
    assert (left["start"], left["stop"]) == (100, 100 + MANY // 2)
    assert (right["start"], right["stop"]) == (100 + MANY // 2, 100 + 2 * MANY)
    assert (left["g"], left["h"], right["g"], right["h"]) == (4, 400, 6, 600)
    for child in (left, right):
        assert (child["parent"], child["depth"], child["left"], child["feature"]) == (0, 4, -1, -1)


@pytest.mark.parametrize("n_left", [MANY // 4, 2 * MANY - MANY // 4])
def test_the_smaller_child_is_built_and_the_larger_remains(n_left):
    table = Table(1)
    table.set_node(0, 0, 2 * MANY, 7)
    builds, subtracts, evals = table.open([n_left])
    small, large = (1, 2) if n_left <= MANY else (2, 1)
    taken = table.nodes[small]["hist"]
    assert taken == 119
    assert builds.tolist() == [(table.nodes[small]["start"], table.nodes[small]["stop"], 0, taken, 1, 1, small, 0)]
    assert subtracts.tolist() == [(7, taken)]
    assert table.nodes[large]["hist"] == 7
    assert evals.tolist() == [1, 2]


def test_a_small_child_of_few_rows_is_taken_from_the_parent_row_by_row():
    table = Table(1)
    table.set_node(0, 0, MANY, 7)
    builds, subtracts, evals = table.open([FEW_ROWS])
    assert builds.tolist() == [(0, FEW_ROWS, 0, 7, -1, 0, 1, 0)]
    assert not len(subtracts)
    assert table.nodes["hist"][[1, 2]].tolist() == [BY_ROWS, 7]
    assert evals.tolist() == [1, 2]
    assert table.counts[expand.BY_ROWS_EVALS] == 1
    assert table.counts[expand.FREE] == 20


def test_few_rows_need_no_histogram_at_all():
    table = Table(1)
    table.set_node(0, 0, 2 * FEW_ROWS, 7)
    builds, _, evals = table.open([FEW_ROWS])
    assert not len(builds)
    assert table.nodes["hist"][[1, 2]].tolist() == [BY_ROWS, BY_ROWS]
    assert evals.tolist() == [1, 2]
    assert table.counts[expand.FREE] == 21
    assert table.free[20] == 7  # the parent's buffer came back


def test_a_node_without_its_histogram_has_both_children_built():
    table = Table(1)
    table.set_node(0, 0, 2 * MANY, NO_HIST)
    builds, subtracts, _ = table.open([MANY])
    assert [(b["start"], b["stop"], b["first"]) for b in builds] == [(0, MANY, 0), (MANY, 2 * MANY, MANY)]
    assert not len(subtracts)
    assert sorted(table.nodes["hist"][[1, 2]].tolist()) == [118, 119]


def test_leaves_are_not_evaluated():
    for limits, depth, h in (([1, 0], 0, 1000), ([0, 601], 0, 1000), ([3, 0], 2, 1000)):
        table = Table(1)
        table.set_node(0, 0, 2 * MANY, 7, depth=depth, h=h)
        builds, _, evals = table.open([MANY], make_limits(*limits))
        assert not len(builds)
        assert not len(evals)
        assert table.counts[expand.FREE] == 21
    table = Table(1)  # only one side is heavy enough: it takes over the parent's buffer, built afresh if smaller
    table.set_node(0, 0, 2 * MANY, 7)
    builds, _, evals = table.open([MANY + 1], make_limits(0, 500))
    assert evals.tolist() == [2]
    assert builds.tolist() == [(MANY + 1, 2 * MANY, 0, 7, 1, 1, 2, 0)]


@given(st.data())
def test_plans_of_many_nodes(data):
    """No buffer is owned twice, none is lost, and every histogram that is needed follows from the plan."""
    n = data.draw(st.integers(1, 6))
    table = Table(n)
    n_left, held, start = [], 0, 0
    for i in range(n):
        n_rows = data.draw(st.integers(2, 4 * FEW_ROWS))
        hist = data.draw(st.sampled_from([i, NO_HIST]))
        held += hist >= 0
        h_left = data.draw(st.integers(0, 100))
        table.set_node(i, start, start + n_rows, hist, depth=data.draw(st.integers(0, 2)), h=100, h_left=h_left)
        start += n_rows
        n_left.append(data.draw(st.integers(1, n_rows - 1)))
    limits = make_limits(data.draw(st.sampled_from([0, 3])), data.draw(st.sampled_from([0, 40])))
    before = table.counts[expand.FREE] + held
    parents = table.nodes.copy()
    builds, subtracts, evals = table.open(n_left, limits)
    children = table.nodes[n : 3 * n]
    owned = children["hist"][children["hist"] >= 0].tolist()
    free = table.free[: table.counts[expand.FREE]].tolist()
    assert len(set(owned + free)) == len(owned) + len(free) == before
    has = {int(b["hist"]): (int(b["start"]), int(b["stop"])) for b in builds if b["sign"] == 1}
    for i in range(n):
        left, right = table.nodes[table.nodes[i]["left"]], table.nodes[table.nodes[i]["right"]]
        for child, sibling in ((left, right), (right, left)):
            n_rows = child["stop"] - child["start"]
            splittable = n_rows > 1 and child["h"] >= limits[1] and (not limits[0] or child["depth"] < limits[0])
            if not splittable:
                assert child["hist"] == NO_HIST
            elif n_rows <= FEW_ROWS:
                assert child["hist"] == BY_ROWS
            elif has.get(int(child["hist"])) != (child["start"], child["stop"]):
                assert child["hist"] == parents[i]["hist"] >= 0  # the parent's, less the sibling's rows
                removed = [(s["large"], s["small"]) for s in subtracts if s["large"] == child["hist"]]
                row_wise = [(b["start"], b["stop"]) for b in builds if b["sign"] == -1 and b["hist"] == child["hist"]]
                if removed:
                    assert removed == [(child["hist"], sibling["hist"])]
                else:
                    assert row_wise == [(sibling["start"], sibling["stop"])]
    expected = [n + i for i in range(2 * n) if children[i]["hist"] != NO_HIST]
    assert evals.tolist() == expected
    assert table.counts[expand.BY_ROWS_EVALS] == np.count_nonzero(children["hist"] == BY_ROWS)
    assert builds["first"].tolist() == np.append(0, np.cumsum(builds["stop"] - builds["start"]))[:-1].tolist()
    assert table.counts[expand.BUILD_ROWS] == (builds["stop"] - builds["start"]).sum()


def test_nodes_without_a_split_give_their_buffers_back():
    table = Table(4, 5)
    for i, (feature, hist) in enumerate([(3, 0), (-1, 1), (-1, BY_ROWS), (0, BY_ROWS)]):
        table.nodes[i]["feature"], table.nodes[i]["hist"] = feature, hist
    opened = np.empty(4, np.int32)
    table.evals[:4], table.counts[expand.EVALS] = np.arange(4), 4
    open_nodes(table.nodes, table.plan(), opened)
    assert opened[: table.counts[expand.OPENED]].tolist() == [0, 3]
    assert table.counts[expand.FREE] == 6
    assert table.free[5] == 1
    assert table.nodes["hist"][:4].tolist() == [0, NO_HIST, NO_HIST, BY_ROWS]


def test_workers_plan_by_sums_over_all_rows():
    """Whatever rows are here: the lighter child is built, or subtracted though it needs no histogram of its own."""
    for n_left in (0, 3, 2 * MANY):
        table = Table(1)
        table.set_node(0, 0, 2 * MANY, 7, h=1000, h_left=300)
        builds, subtracts, evals = table.open([n_left], make_limits(0, 400, rows_decide=False))
        assert [(b["node"], b["hist"], b["sign"], b["fresh"]) for b in builds] == [(1, 119, 1, 1)]
        assert subtracts.tolist() == [(7, 119)]
        assert evals.tolist() == [2]
        assert table.counts[expand.BY_ROWS_EVALS] == 0
        table.nodes[2]["feature"] = 0
        open_nodes(table.nodes, table.plan(), np.empty(2, np.int32))
        assert table.counts[expand.FREE] == 20  # what was built for subtraction alone has come back
        assert table.nodes["hist"][[1, 2]].tolist() == [NO_HIST, 7]


def test_release_and_count():
    table = Table(3, 5)
    for i, hist in enumerate((4, BY_ROWS, NO_HIST)):
        table.set_node(i, 10 * i, 10 * i + i, hist)
    assert expand.count_rows(table.nodes, np.array([1, 2], np.int32)) == 3
    expand.release_histograms(table.nodes, np.arange(3, dtype=np.int32), table.free, table.counts)
    assert table.counts[expand.FREE] == 6
    assert table.free[5] == 4
    assert table.nodes["hist"][:3].tolist() == [NO_HIST] * 3


@pytest.mark.parametrize("n_rows, limits, planned", [(1, [0, 0], 0), (2, [0, 0], 1), (9, [0, 1001], 0)])
def test_root(n_rows, limits, planned):
    table = Table(1)
    table.set_node(0, 0, n_rows, NO_HIST)
    expand.plan_root((), table.nodes, REG, tuple(table.plan(make_limits(*limits))))
    assert table.counts[expand.EVALS] == planned == table.counts[expand.BUILDS]
    if planned:
        assert table.builds[0].item() == (0, n_rows, 0, table.nodes[0]["hist"], 1, 1, 0, -1)
