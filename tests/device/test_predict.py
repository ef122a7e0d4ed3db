"""Margins and leaves that a device finds are the CPU's to the bit, in one piece or many."""

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.predict import device, forest


@pytest.fixture(autouse=True)
def little_work_is_enough(monkeypatch):
    monkeypatch.setattr(forest, "_DEVICE_WORK", 0)
    monkeypatch.setattr(forest, "_DEVICE_VISITS", 0)
    monkeypatch.setattr(device, "PIECE_BYTES", 1 << 18 if cases.IS_REAL else 400)


MODELS = {
    "numbers": ({"max_depth": 3}, {}),
    "classes": ({"objective": "multi:softprob", "num_class": 3, "max_depth": 2}, cases.CLASSES),
    "leaves": ({"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}, {}),
    "dropout": ({"booster": "dart", "rate_drop": 0.5}, {}),
    "symmetric": ({"grow_policy": "symmetric", "max_depth": 3}, {}),
    "categories": ({}, cases.SETS),
    "deep sets of categories": (
        {"max_cat_to_onehot": 1, "grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
        cases.SETS,
    ),
    "vectors": ({"multi_strategy": "multi_output_tree"}, cases.TWO),
}


@pytest.mark.parametrize("name", MODELS)
def test_margins_and_leaves(name):
    params, given = MODELS[name]
    booster = arboost.train({**cases.COMMON, **params}, cases.matrix(given), 4)
    for ask in ({"output_margin": True}, {}, {"pred_leaf": True}, {"iteration_range": (1, 3)}, {"pred_contribs": True}):
        wanted = booster.predict(cases.matrix(given), **ask)
        booster.set_param("device", "cuda")
        np.testing.assert_array_equal(booster.predict(cases.matrix(given), **ask), wanted)
        booster.set_param("device", "cpu")


def test_categories_that_are_no_codes_of_the_training():
    """Unseen ones, negative ones, fractions, missing ones."""
    booster = arboost.train({**cases.COMMON, "max_cat_to_onehot": 1}, cases.matrix(cases.SETS), 3)
    X = cases.X.copy()
    odd = np.float32([-1, 0.5, 3, 63, 64, 127, 128, 1e6, 1e30, np.inf, -np.inf, np.nan, 2])
    X[: len(odd), 1] = X[-len(odd) :, 2] = odd
    wanted = booster.inplace_predict(X), booster.predict(arboost.DMatrix(np.nan_to_num(X)), pred_leaf=True)
    booster.set_param("device", "cuda")
    np.testing.assert_array_equal(booster.inplace_predict(X), wanted[0])
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(np.nan_to_num(X)), pred_leaf=True), wanted[1])


def test_no_rows():
    booster = arboost.train(cases.COMMON, cases.matrix({}), 2)
    booster.set_param("device", "cuda")
    assert booster.inplace_predict(cases.X[:0]).shape == (0,)
