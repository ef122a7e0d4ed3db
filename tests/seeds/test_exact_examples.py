"""Worked examples 1 and 4 under `tree_method="exact"`, where thresholds are the examples' own."""

import json

import numpy as np
import pytest

import arboost


def root_of(booster):
    return json.loads(booster.get_dump(with_stats=True, dump_format="json")[0])


def test_default_direction_of_the_sparsity_example():
    """All missing rows are of class 0: sent left with 0.2 and 0.5 they leave the classes apart."""
    values = [1.3, None, 1.1, 0.2, None, 1.9, 0.5, None, 1.5, 1.8]
    classes = np.array([1, 0, 1, 0, 0, 1, 0, 0, 1, 1], np.float32)
    data = arboost.DMatrix(np.array(values, np.float32)[:, None], classes)
    params = {"objective": "binary:logistic", "tree_method": "exact", "min_child_weight": 0, "max_depth": 1}
    booster = arboost.train(params, data, 1)
    root = root_of(booster)
    assert root["split_condition"] == pytest.approx(0.8)  # half-way between 0.5 and 1.1
    assert root["missing"] == root["yes"]
    assert ((booster.predict(data) > 0.5) == classes).all()


def test_every_node_learns_its_own_direction():
    """Age missing goes with the young, sex missing with the second group: X1 (?, male), X2 (15, ?), X3 (25, female)."""
    nan = np.nan
    rows = [[15, 0], [15, 1], [15, nan], [25, 0], [25, 1], [25, nan], [nan, 0], [nan, 1]]
    label = [2, 7, 7, 0, 0, 0, 2, 7]  # only the young are told apart
    data = arboost.DMatrix(np.array(rows, np.float32), label)
    params = {"tree_method": "exact", "max_depth": 2, "lambda": 0, "eta": 1, "min_child_weight": 0}
    booster = arboost.train(params, data, 1)
    root = root_of(booster)
    assert (root["split"], root["split_condition"], root["missing"]) == ("f0", 20, root["yes"])
    young = next(child for child in root["children"] if child["nodeid"] == root["yes"])
    assert (young["split"], young["split_condition"], young["missing"]) == ("f1", 0.5, young["no"])
    persons = arboost.DMatrix(np.array([[nan, 0], [15, nan], [25, 1]], np.float32))
    assert booster.predict(persons) == pytest.approx([2, 7, 0], abs=1e-5)


AGE = [23, 24, 26, 26, 27]
MASTERS = [0, 1, 1, 0, 1]
SALARY = np.array([50, 70, 80, 65, 85], np.float32)


def salary_tree(gamma):
    data = arboost.DMatrix(np.array([AGE, MASTERS], np.float32).T, SALARY)
    params = {"tree_method": "exact", "max_depth": 2, "min_child_weight": 0, "gamma": gamma}
    booster = arboost.train(params, data, 1)
    return root_of(booster), booster.predict(data).tolist()


def test_salary_thresholds_lie_half_way():
    root, _ = salary_tree(0)
    assert (root["split"], root["split_condition"]) == ("f1", 0.5)
    assert round(root["gain"], 2) == 364.58
    no, yes = root["children"]
    assert (yes["split_condition"], round(yes["gain"], 2)) == (25, 52.08)
    assert (no["split_condition"], round(no["gain"], 2)) == (24.5, 4.17)


def test_salary_gamma_prunes_from_the_bottom_up():
    root, predictions = salary_tree(50)
    no, yes = root["children"]
    assert "leaf" in no
    assert round(yes["gain"], 2) == 52.08
    assert predictions == [67.5, 70, 72.5, 67.5, 72.5]
