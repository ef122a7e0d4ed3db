"""Worked examples 1, 2 and 4 as built-in traces, to the printed digit."""

import pytest

import arboost


def root_of(trace, round_index=0):
    return trace.rounds[round_index].trees[0].nodes[0]


def gains(trace, node):
    return {(trace.feature_names[c.feature], round(c.threshold, 4)): round(c.gain, 2) for c in node.candidates}


def test_salary():
    trace = arboost.trace.example("salary")
    assert trace.run.prediction == [[70]] * 5
    tree = trace.rounds[0].trees[0]
    assert [-g for g in tree.g] == [-20, 0, 10, -5, 15]
    assert tree.h == [1] * 5
    root, no, yes = tree.nodes[:3]
    assert root.score == 0
    assert gains(trace, root) == {
        ("age", 23.5): 280, ("age", 25): 233.33, ("age", 26.5): 157.5, ("master's", 0.5): 364.58
    }  # fmt: skip
    taken = root.candidates[root.split]
    assert (trace.feature_names[taken.feature], taken.score_right) == ("master's", 156.25)
    assert round(taken.score_left, 2) == 208.33
    assert gains(trace, yes) == {("age", 25): 52.08, ("age", 26.5): -10.42}
    assert gains(trace, no) == {("age", 24.5): 4.17}
    assert [node.reason for node in (root, no, yes)] == ["split", "pruned", "split"]
    outputs = {tuple(node.rows): round(node.weight, 2) for node in tree.nodes if node.value is not None}
    assert outputs == {(0, 3): -8.33, (1,): 0, (2, 4): 8.33}
    assert trace.rounds[0].prediction == [[67.5], [70], [72.5], [67.5], [72.5]]
    assert [-g for g in trace.rounds[1].trees[0].g] == [-17.5, 0, 7.5, -2.5, 12.5]


def test_dosage():
    trace = arboost.trace.example("dosage")
    tree, root = trace.rounds[0].trees[0], root_of(trace)
    assert [-g for g in tree.g] == [-0.5, 0.5, 0.5]
    assert tree.h == [0.25] * 3
    assert root.score == pytest.approx(1 / 3)
    first, second = root.candidates
    assert (first.threshold, first.score_left, first.score_right) == (5.5, 1, 2)
    assert (second.threshold, second.score_left, second.score_right) == (9.5, 0, 1)
    assert second.gain == pytest.approx(2 / 3)
    assert root.split == 0
    assert [node.weight for node in tree.nodes[1:]] == [-2, 2]
    assert [row[0] for row in trace.rounds[0].margin] == pytest.approx([-0.6, 0.6, 0.6])
    assert [round(row[0], 2) for row in trace.rounds[0].prediction] == [0.35, 0.65, 0.65]


def test_missing_values_go_left():
    trace = arboost.trace.example("missing")
    root = root_of(trace)
    taken = root.candidates[root.split]
    assert taken.default_left
    assert taken.threshold == pytest.approx(0.8)  # between 0.5 and 1.1
    assert (taken.n_left, taken.n_right, taken.n_missing) == (5, 5, 3)
    other = next(c for c in root.candidates if c.threshold == taken.threshold and not c.default_left)
    assert other.gain < taken.gain
    y = [label[0] for label in trace.to_dict()["y"]]
    assert [row[0] > 0.5 for row in trace.rounds[0].prediction] == [label == 1 for label in y]


def test_every_node_has_its_own_direction():
    trace = arboost.trace.example("directions")
    root, young = trace.rounds[0].trees[0].nodes[:2]
    sides = [
        (trace.feature_names[c.feature], c.default_left)
        for c in (root.candidates[root.split], young.candidates[young.split])
    ]
    assert sides == [("age", True), ("sex", False)]
    assert [row[0] for row in trace.rounds[0].prediction] == pytest.approx([2, 7, 7, 0, 0, 0, 2, 7], abs=1e-5)
