"""Which worker trains on which rows."""

import numpy as np
import pytest

pytest.importorskip("distributed")

from arboost.dask import grouping, plan
from arboost.dask.parts import Columns, Facts, Groups, Piece, describe, make_part, runs_of
from arboost.runtime.comm import Run
from arboost.runtime.errors import XGBoostError


def facts_of(*qids):
    return [describe({"data": np.zeros((len(qid), 2)), "qid": np.array(qid, int)}) for qid in qids]


def test_what_is_known_of_a_partition():
    assert describe({"data": np.zeros((3, 2))}) == Facts(3, 2, Columns(), None)
    assert facts_of([4, 4, 7])[0].groups == Groups(4, 7, 2, True)
    assert facts_of([4, 4])[0].groups == Groups(4, 4, 2, True)
    assert facts_of([4, 3])[0].groups == Groups(4, 3, 1, False)
    assert facts_of([])[0].groups is None


def test_fields_of_other_rows_are_refused():
    with pytest.raises(XGBoostError, match="Partition 7: `label` has 2 rows, the data has 3"):
        make_part(7, {"data": np.zeros((3, 2)), "label": np.zeros(2)})


def test_rows_stay_where_they_are():
    facts = [Facts(n, 2, Columns(), None) for n in (3, 0, 4, 1)]
    shares = plan.share_out(facts, ["b", "a", "a", "b"])
    assert shares == {"b": [Piece(0, 0, 3, 0), Piece(3, 0, 1, 7)], "a": [Piece(2, 0, 4, 3)]}
    assert plan.rank_workers([shares, {"c": []}], ["b"]) == ["a", "b", "c"]
    assert plan.rank_workers([{}], ["b", "a"]) == ["b"]


def test_of_several_holders_the_one_with_fewest_rows():
    assert plan.choose_owners([5, 1, 1, 9], [("b", "a"), ("a", "b"), ["a"], ("a", "b")]) == ["a", "b", "a", "b"]


def test_a_group_is_whole_on_the_worker_on_which_it_begins():
    facts = facts_of([1, 1, 2], [2, 2], [], [2, 3], [3, 3, 4], [5])
    shares = plan.share_out(facts, ["a", "b", "c", "b", "a", "c"])
    assert shares == {
        "a": [Piece(0, 0, 3, 0), Piece(1, 0, 2, 3), Piece(3, 0, 1, 5), Piece(4, 2, 3, 9)],
        "b": [Piece(3, 1, 2, 6), Piece(4, 0, 2, 7)],
        "c": [Piece(5, 0, 1, 10)],
    }
    ids = sorted(i for own in shares.values() for p in own for i in range(p.first_id, p.first_id + p.stop - p.start))
    assert ids == list(range(11))


def test_neighbours_are_one_run():
    pieces = [Piece(0, 0, 3, 0), Piece(1, 2, 4, 3), Piece(5, 0, 0, 9), Piece(6, 0, 2, 9), Piece(7, 0, 1, 11)]
    assert runs_of(pieces) == [Run(0, 5, 0), Run(5, 8, 4)]
    assert runs_of([Piece(0, 0, 0, 0)]) == runs_of([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_sorting_by_group_is_that_of_the_whole_table(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, 5)
    parts = [{"data": rng.normal(size=(n, 2)), "qid": rng.integers(0, 9, n)} for n in sizes]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(whole["qid"], kind="stable")
    bounds = grouping.choose_bounds([np.unique(part["qid"], return_counts=True) for part in parts], 5)
    cuts = [grouping.cut_groups(part, bounds) for part in parts]
    found = [grouping.join_groups([cut[b] for cut in cuts]) for b in range(len(bounds) + 1)]
    for name in whole:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in found]), whole[name][order])
    assert len(found) <= 5
    assert grouping.is_sorted([describe(part) for part in found])
    assert grouping.is_sorted([describe(part) for part in parts]) == bool((np.diff(whole["qid"]) >= 0).all())
