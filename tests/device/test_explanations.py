"""Contributions and interactions that a device finds are the CPU's to the bit, in one piece or many."""

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.predict import device, device_shap, shap
from arboost.runtime.errors import XGBoostError


@pytest.fixture(autouse=True)
def explained(monkeypatch):
    """What was asked of devices: rows, and whether for pairs."""
    asked, run = [], device_shap.DeviceExplainer._run

    def watched(explainer, trees, data, *args):
        asked.append(len(data))
        run(explainer, trees, data, *args)

    monkeypatch.setattr(shap, "_DEVICE_WORK", 0)
    monkeypatch.setattr(device, "PIECE_BYTES", 1 << 18 if cases.IS_REAL else 500)
    monkeypatch.setattr(device_shap.DeviceExplainer, "_run", watched)
    return asked


MODELS = {
    "numbers": ({"max_depth": 4}, {}),
    "classes": ({"objective": "multi:softprob", "num_class": 3, "max_depth": 2}, cases.CLASSES),
    "leaves": ({"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}, {}),
    "dropout": ({"booster": "dart", "rate_drop": 0.5}, {}),
    "categories": ({"max_cat_to_onehot": 1}, cases.SETS),
    "vectors": ({"multi_strategy": "multi_output_tree"}, cases.TWO),
    "symmetric": ({"grow_policy": "symmetric", "max_depth": 3}, {}),
    "stumps": ({"max_depth": 1}, {}),
    "deep": ({"max_depth": 8, "min_child_weight": 0, "lambda": 0}, {}),
    "one feature": ({"max_depth": 3, "interaction_constraints": [[0]]}, {}),
    "linear leaves": ({"linear_leaves": True, "max_depth": 2}, {"data": np.nan_to_num(cases.X)}),
}
ASKED = (
    {"pred_contribs": True},
    {"pred_contribs": True, "iteration_range": (1, 3)},
    {"pred_interactions": True},
    {"pred_interactions": True, "iteration_range": (0, 1)},
)


def trained(name):
    params, given = MODELS[name]
    n_rows = 2000 if cases.IS_REAL else 40
    data = cases.matrix(given)
    return arboost.train({**cases.COMMON, **params}, data, 3), data.slice(np.arange(n_rows))


@pytest.mark.parametrize("name", MODELS)
def test_explanations(name, explained):
    booster, data = trained(name)
    for ask in ASKED:
        booster.set_param("device", "cpu")
        wanted = booster.predict(data, **ask)
        assert not explained
        booster.set_param("device", "cuda")
        found = booster.predict(data, **ask)
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32), str(ask))
        assert explained
        explained.clear()


def test_approximate_ones_stay_on_the_cpu(explained):
    booster, data = trained("numbers")
    wanted = booster.predict(data, pred_contribs=True, approx_contribs=True)
    booster.set_param("device", "cuda")
    found = booster.predict(data, pred_contribs=True, approx_contribs=True)
    np.testing.assert_array_equal(found, wanted)
    assert not explained


def test_little_work_stays_on_the_cpu(explained, monkeypatch):
    monkeypatch.setattr(shap, "_DEVICE_WORK", 100_000_000)
    booster, data = trained("numbers")
    booster.set_param("device", "cuda")
    booster.predict(data, pred_contribs=True)
    assert not explained


@pytest.mark.parametrize("ask", ASKED[::2])
def test_scratch_memory_has_a_limit(ask, explained, monkeypatch):
    """With room for a block the threads take turns; with less the CPU does it."""
    booster, data = trained("deep")
    wanted = booster.predict(data, **ask)
    booster.set_param("device", "cuda")
    for limit, n_asked in ((120_000 if not cases.IS_REAL else 1_000_000, 1), (100, 0)):
        monkeypatch.setattr(device_shap, "_SCRATCH_BYTES", limit)
        np.testing.assert_array_equal(booster.predict(data, **ask), wanted)
        assert len(explained) == n_asked
        explained.clear()


def test_a_failing_device_says_so(monkeypatch):
    booster, data = trained("numbers")
    booster.set_param("device", "cuda")

    def fail(*args, **options):
        from arboost.kernels.gpu.device import DeviceLost

        raise DeviceLost("it is gone")

    from arboost.kernels.gpu.device import Device

    booster.predict(data, pred_contribs=True)
    monkeypatch.setattr(Device, "run", fail)
    with pytest.raises(XGBoostError, match="CUDA device 0 failed: it is gone"):
        booster.predict(data, pred_contribs=True)
