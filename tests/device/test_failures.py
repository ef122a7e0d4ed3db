"""What goes wrong on a device is said clearly, the model is as it was, and the process goes on on the CPU."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.boosters.device import DeviceTrainer
from arboost.kernels.gpu.device import Device, DeviceLost, Launch
from arboost.predict import forest, shap
from arboost.runtime.errors import XGBoostError

BINARY = {**cases.COMMON, "objective": "binary:logistic"}
N_ROUNDS = 4


def matrix():
    return cases.matrix(cases.BINARY)


def model_of(device):
    return bytes(arboost.train({**BINARY, "device": device}, matrix(), N_ROUNDS).save_raw())


def go_on(booster, data, device):
    """Train what is left of N_ROUNDS."""
    booster.set_param({"device": device})
    for i in range(booster.num_boosted_rounds(), N_ROUNDS):
        booster.update(data, i)
    return bytes(booster.save_raw())


@pytest.mark.parametrize("what", ["rows", "histograms"])
def test_too_little_memory_is_said_before_anything_is_made(what, monkeypatch):
    made = []
    empty = Device.empty

    def free_bytes(device):
        """Too little for rows; or enough for them, but for nothing that comes after."""
        return 100 if what == "rows" or (2, cases.N_ROWS) in made else 100 * cases.N_ROWS

    monkeypatch.setattr(Device, "free_bytes", free_bytes)
    monkeypatch.setattr(Device, "empty", lambda device, shape, dtype: made.append(shape) or empty(device, shape, dtype))
    data = matrix()
    booster = arboost.Booster({**BINARY, "device": "cuda"})
    with pytest.raises(XGBoostError, match=rf"{what}.* need .* GB on the device, .* free.*device='cpu'"):
        booster.update(data, 0)
    rows = (2, cases.N_ROWS)
    assert (rows in made) == (what == "histograms")
    if rows in made:  # and after them nothing as large as histograms
        assert max(np.prod(shape) for shape in made[made.index(rows) + 1 :]) <= cases.N_ROWS
    assert go_on(booster, data, "cpu") == model_of("cpu")


@pytest.mark.parametrize(
    ("error", "said"),
    [(DeviceLost("the bus has gone"), "device 0 failed: the bus has gone"), (KeyboardInterrupt(), None)],
)
@pytest.mark.parametrize(("at", "then"), [(1, "cuda"), (2, "cpu"), (3, "cuda"), (6, "cuda"), (8, "cpu")])
def test_a_launch_that_fails(error, said, at, then, monkeypatch):
    """Whatever ends a round, at whichever launch: rounds are whole, and go on on either."""
    data, n_launches = matrix(), 0
    launch = Launch.__call__

    def failing(self, changes):
        nonlocal n_launches
        n_launches += 1
        if n_launches == at:
            raise error
        launch(self, changes)

    booster = arboost.Booster({**BINARY, "device": "cuda"})
    with monkeypatch.context() as during:
        during.setattr(Launch, "__call__", failing)
        with pytest.raises(XGBoostError if said else KeyboardInterrupt, match=said):
            for i in range(N_ROUNDS):
                booster.update(data, i)
    assert go_on(booster, data, then) == model_of("cpu")


def test_too_little_memory_for_many_outputs_is_said(monkeypatch):
    """After the rows have found room."""
    held = []
    monkeypatch.setattr(Device, "free_bytes", lambda device: 19 * cases.N_ROWS * 4 if held else 1 << 30)
    hold = DeviceTrainer.hold
    monkeypatch.setattr(DeviceTrainer, "hold", lambda *args: held.append(1) or hold(*args))
    params = {**cases.COMMON, "objective": "multi:softprob", "num_class": 4, "device": "cuda"}
    with pytest.raises(XGBoostError, match=r"margins and gradients of 4 outputs need .* GB on the device"):
        arboost.train(params, cases.matrix({"label": np.arange(cases.N_ROWS) % 4}), 1)


def test_margins_that_cannot_be_brought_back(monkeypatch):
    data = matrix()
    booster = arboost.Booster({**BINARY, "device": "cuda"})
    booster.update(data, 0)
    with monkeypatch.context() as during:

        def lost(self):
            raise DeviceLost("the bus has gone")

        during.setattr(Device, "use", lost)
        with pytest.raises(XGBoostError, match="the bus has gone"):
            booster.eval(data)
    evaluated = booster.eval(data)
    other = arboost.Booster({**BINARY, "device": "cpu"})
    other.update(data, 0)
    assert evaluated == other.eval(data)


def test_devices_that_are_not_there():
    with pytest.warns(UserWarning, match=r"Device is changed from cuda:77 to CPU.*numbered from 0"):
        model = model_of("cuda:77")
    assert model == model_of("cpu")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child():
    """It has no device, and says so; it trains on the CPU."""
    model_of("cuda")
    wanted = model_of("cpu")
    child = os.fork()
    if not child:
        try:
            model_of("cuda")
        except XGBoostError as error:
            os._exit(0 if "forked process" in str(error) and model_of("cpu") == wanted else 1)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_bad_gradients_are_named():
    data = cases.matrix({"label": np.full(cases.N_ROWS, 3e38)})
    params = {**cases.COMMON, "base_score": -3e38, "device": "cuda"}
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        arboost.train(params, data, 1)


class TwoDevices:
    """What `Device` asks of CUDA, on a machine of two: which of them is the thread's."""

    def __init__(self):
        self.current = None

    def select_device(self, ordinal):
        self.current = ordinal

    def get_current_device(self):
        return SimpleNamespace(id=self.current, MULTIPROCESSOR_COUNT=40, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=1 << 16)

    def legacy_default_stream(self):
        return 0


@pytest.mark.skipif(cases.IS_REAL, reason="looks at what a simulated machine of two is asked")
def test_whose_turn_it_is_is_the_threads_device(monkeypatch):
    machine = TwoDevices()
    monkeypatch.setattr("arboost.kernels.gpu.device.cuda", machine)
    monkeypatch.setattr("arboost.kernels.gpu.device.SIMULATED", False)
    monkeypatch.setattr("arboost.kernels.gpu.device.Staging", SimpleNamespace)
    first, second = Device(0), Device(1)
    for device in (first, second, first, first, second):
        device.use()
        assert machine.current == device.ordinal
    machine.select_device(0)  # as another library does
    second.use()
    assert machine.current == 1
    # 64 kB of shared memory are too little for two blocks of a processor, which wait for each other
    assert first.n_blocks == first.n_processors == 40


@pytest.mark.skipif(cases.IS_REAL, reason="calls one simulated device two")
@pytest.mark.parametrize("ask", ["margins", "contributions"])
def test_trees_follow_to_another_device(ask, monkeypatch):
    monkeypatch.setattr("arboost.kernels.gpu.device.n_devices", lambda: 2)
    for name in ("_DEVICE_WORK", "_DEVICE_VISITS"):
        monkeypatch.setattr(forest, name, 0)
    monkeypatch.setattr(shap, "_DEVICE_WORK", 0)
    data = matrix()
    booster = arboost.train({**BINARY, "device": "cpu"}, data, N_ROUNDS)
    options = {"output_margin": True} if ask == "margins" else {"pred_contribs": True}
    wanted = booster.predict(data, **options)
    used = []
    use = Device.use
    monkeypatch.setattr(Device, "use", lambda device: used.append(device.ordinal) or use(device))
    for ordinal in (0, 1, 0):
        used.clear()
        booster.set_param("device", f"cuda:{ordinal}")
        assert (booster.predict(cases.matrix(cases.BINARY), **options) == wanted).all()
        assert set(used) == {ordinal}


@pytest.mark.parametrize("begin", ["train", "predict"])
def test_a_device_that_cannot_be_opened(begin, monkeypatch):
    booster = arboost.train({**BINARY, "device": "cpu"}, matrix(), N_ROUNDS)
    monkeypatch.setattr("arboost.runtime.device._devices", {})
    monkeypatch.setattr(forest, "_DEVICE_VISITS", 0)
    monkeypatch.setattr(forest, "_DEVICE_WORK", 0)

    def taken(device, ordinal):
        raise DeviceLost("all of it is taken")

    monkeypatch.setattr(Device, "__init__", taken)
    with pytest.raises(XGBoostError, match="CUDA device 0 failed: all of it is taken"):
        if begin == "train":
            model_of("cuda")
        else:
            booster.set_param("device", "cuda")
            booster.predict(matrix())
    assert model_of("cpu") == bytes(booster.save_raw())
