"""A device trains the bytes that the CPU trains, in its own kernels or, where a warning says so, in the CPU's."""

import pickle
import warnings

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.levels.device import DeviceEngine


@pytest.fixture
def engines(monkeypatch):
    """Engines that trees were started on."""
    started = []
    start = DeviceEngine.start
    monkeypatch.setattr(DeviceEngine, "start", lambda engine, *args: started.append(engine) or start(engine, *args))
    return started


@pytest.mark.parametrize("case", cases.ON_DEVICE)
def test_trees_of_a_device(case, engines):
    params, given = cases.ON_DEVICE[case]
    of_cpu = cases.train("cpu", params, given)
    assert not engines
    of_device = cases.train("cuda", params, given)
    assert engines
    np.testing.assert_equal(of_device[2], of_cpu[2], "metrics")  # here NaN equals NaN
    assert of_device[1] == of_cpu[1], "margins"
    assert of_device[0] == of_cpu[0], "bytes"
    assert not of_device[3]


@pytest.mark.parametrize("given", [{}, cases.SETS], ids=["numbers", "categories"])
def test_trees_that_outgrow_their_room(given, engines, monkeypatch):
    """What is known of the nodes moves along."""
    capacities = set()
    reserve, slot = DeviceEngine._reserve, DeviceEngine.slot
    monkeypatch.setattr(DeviceEngine, "_reserve", lambda engine, n, _: reserve(engine, n if n != 256 else 4, 4))

    def watch(engine, which):
        capacities.add(engine._capacity)
        return slot(engine, which)

    monkeypatch.setattr(DeviceEngine, "slot", watch)
    params = {"monotone_constraints": cases.MONOTONE, "grow_policy": "lossguide", "max_depth": 0, "max_leaves": 60,
              "min_child_weight": 0, "max_cat_to_onehot": 1, "max_bin": 64}  # fmt: skip
    assert cases.train("cuda", params, given)[:3] == cases.train("cpu", params, given)[:3]
    assert len(capacities) > 1
    assert engines


@pytest.mark.parametrize("case", cases.ON_CPU)
def test_what_a_device_leaves_to_the_cpu(case, engines):
    name, params, given = cases.ON_CPU[case]
    of_device = cases.train("cuda", params, given)
    assert not engines
    (message,) = of_device[3]
    assert name in message
    assert of_device[:3] == cases.train("cpu", params, given)[:3]


# ---- other ways to train ----


def squared(margin, data):
    return margin - data.get_label().reshape(margin.shape), np.ones_like(margin)


def one_by_one(device):
    """Round by round, with gradients of the user's, of the objective's, and on either device."""
    data = cases.matrix({})
    booster = arboost.Booster({**cases.COMMON, "device": device})
    for i in range(4):
        booster.update(data, i, squared if i == 1 else None)
        if i == 2:
            booster.set_param({"device": "cpu"})
    return bytes(booster.save_raw())


def continued(device):
    data, params = cases.matrix(cases.BINARY), {**cases.COMMON, "objective": "binary:logistic", "device": device}
    first = arboost.train(params, data, 2)
    again = arboost.train({**params, "max_depth": 2, "subsample": 0.7}, data, 1, xgb_model=first)
    return bytes(again.save_raw())


def stopped_early(device):
    data, other = cases.matrix(cases.BINARY), arboost.DMatrix(cases.X[::2], cases.Y[::2] < 0)
    params = {**cases.COMMON, "objective": "binary:logistic", "device": device, "eval_metric": ["auc", "logloss"]}
    found = {}
    evals = [(data, "train"), (other, "other")]
    booster = arboost.train(
        params, data, 6, evals=evals, evals_result=found, early_stopping_rounds=2, verbose_eval=False
    )
    return booster.best_iteration, found, bytes(booster.save_raw())


def refreshed(device):
    data, params = cases.matrix({}), {**cases.COMMON, "device": device, "subsample": 0.6}
    return bytes(arboost.train({**params, "updater": "grow_quantile_histmaker,refresh"}, data, 2).save_raw())


def quantile_matrix(device):
    data = arboost.QuantileDMatrix(cases.X, cases.Y, max_bin=16)
    return bytes(arboost.train({**cases.COMMON, "max_bin": 16, "device": device}, data, 2).save_raw())


def several_matrices(device):
    """One model, two matrices in turn: margins of both are kept."""
    matrices = [cases.matrix({}), arboost.DMatrix(cases.X[::2], cases.Y[::2] + 1)]
    booster = arboost.Booster({**cases.COMMON, "device": device})
    for i in range(4):
        booster.update(matrices[i % 2], i)
    return booster.eval(matrices[0]), booster.eval(matrices[1]), bytes(booster.save_raw())


def other_labels(device):
    """Labels that change between rounds: the round that was begun ahead is thrown away."""
    data = cases.matrix({})
    booster = arboost.Booster({**cases.COMMON, "device": device})
    for i in range(4):
        booster.update(data, i)
        if i == 1:
            data.set_label(-cases.Y)
        if i == 2:
            booster.set_param({"eta": 0.1, "max_depth": 2})
    return bytes(booster.save_raw())


def copied(device):
    data = cases.matrix({})
    booster = arboost.Booster({**cases.COMMON, "device": device})
    booster.update(data, 0)
    twin = pickle.loads(pickle.dumps(booster))
    twin.update(data, 1)
    booster.update(data, 1)
    return bytes(booster.save_raw()), bytes(twin.save_raw())


WAYS = (one_by_one, continued, stopped_early, refreshed, quantile_matrix, several_matrices, other_labels, copied)


@pytest.mark.parametrize("way", WAYS)
def test_other_ways_to_train(way, engines):
    of_cpu = way("cpu")
    assert not engines
    assert way("cuda") == of_cpu
    assert engines


@pytest.mark.parametrize("n_pages", [1, 3])
def test_pages_on_disk(n_pages, tmp_path, engines):
    """One page is sent to the device, of several the CPU takes care."""
    page_bytes = 1 if n_pages > 1 else None

    class Parts(arboost.DataIter):
        def __init__(self):
            super().__init__(cache_prefix=str(tmp_path / "pages"), min_cache_page_bytes=page_bytes)
            self.at = 0

        def next(self, input_data):
            if self.at == 3:
                return False
            part = slice(self.at, None, 3)
            input_data(data=cases.X[part], label=cases.Y[part])
            self.at += 1
            return True

        def reset(self):
            self.at = 0

    data = arboost.ExtMemQuantileDMatrix(Parts(), max_bin=16)
    params = {**cases.COMMON, "max_bin": 16}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        of_device = arboost.train({**params, "device": "cuda"}, data, 2)
    assert bool(engines) == (n_pages == 1)
    assert [str(w.message).partition(" yet:")[0] for w in caught] == (
        ["device='cuda' has no data on several pages"] if n_pages > 1 else []
    )
    assert bytes(of_device.save_raw()) == bytes(arboost.train(params, data, 2).save_raw())
