"""Arrays that lie on a device are data, labels and weights like any other; where the device trains, they stay there."""

import numpy as np
import pytest

import arboost
import device_cases as cases
from arboost.matrix.device import DevicePage
from arboost.matrix.on_device import is_on_device

X, Y = cases.X, (cases.Y > 0).astype(np.float32)
PARAMS = {**cases.COMMON, "objective": "binary:logistic", "max_depth": 2}


class Simulated:
    """An array of a simulated device, whose memory is the host's."""

    def __init__(self, array):
        self._array = array
        self.__cuda_array_interface__ = dict(array.__array_interface__)


class Exporter:
    """An array that is only known by DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self):
        return self._array.__dlpack__()


class Batches(arboost.DataIter):
    def __init__(self, parts):
        super().__init__()
        self.parts, self.at = parts, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.parts):
            return False
        data, label = self.parts[self.at]
        input_data(data=data, label=label)
        self.at += 1
        return True


def there(array):
    if not cases.IS_REAL:
        return Simulated(array)
    from numba import cuda

    return cuda.to_device(array)


def model(data, device, **more):
    booster = arboost.train({**PARAMS, **more, "device": device}, data, 2)
    booster.set_param("device", "cpu")
    return bytes(booster.save_raw())


WANTED = model(arboost.DMatrix(X, Y), "cpu")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("form", ["float32", "float64", "other order", "dlpack"])
def test_data_of_a_device(form, device):
    table = {"float64": X.astype(np.float64), "other order": np.asfortranarray(X)}.get(form, X)
    if form == "dlpack":
        if cases.IS_REAL:
            pytest.skip("its capsule is one of the host")
        data = Exporter(table)
    else:
        data = there(table)
    assert is_on_device(data)
    assert model(arboost.DMatrix(data, there(Y)), device) == WANTED


def test_without_a_copy_on_the_host():
    matrix = arboost.DMatrix(there(X), Y)
    found = []
    matrix.chunks = lambda *args: found.append(args) or iter(())
    matrix.raw.chunks = matrix.chunks
    assert model(matrix, "cuda") == WANTED
    assert not found


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_bins_that_are_made_at_once(device):
    matrix = arboost.QuantileDMatrix(there(X), there(Y), max_bin=PARAMS["max_bin"])
    assert isinstance(matrix._bins, DevicePage)
    assert model(matrix, device) == WANTED
    other = arboost.QuantileDMatrix(there(X), Y, ref=matrix, max_bin=PARAMS["max_bin"])
    np.testing.assert_array_equal(other._bins.words, matrix._bins.words)


def test_weights_and_margins_of_a_device():
    weight, margin = np.abs(cases.Y), cases.Y / 2
    wanted = model(arboost.DMatrix(X, Y, weight=weight, base_margin=margin), "cpu")
    matrix = arboost.DMatrix(there(X), there(Y), weight=there(weight), base_margin=there(margin))
    assert model(matrix, "cuda") == wanted


@pytest.mark.parametrize("kind", [arboost.DMatrix, arboost.QuantileDMatrix])
def test_batches_of_a_device(kind):
    half = len(X) // 2
    parts = [(there(X[rows]), there(Y[rows])) for rows in (slice(0, half), slice(half, None))]
    options = {"max_bin": PARAMS["max_bin"]} if kind is arboost.QuantileDMatrix else {}
    assert model(kind(Batches(parts), **options), "cuda") == WANTED


def test_missing_marks_and_infinite_values():
    table = np.nan_to_num(X, nan=-1.0)
    assert model(arboost.DMatrix(there(table), Y, missing=-1.0), "cuda") == WANTED
    with pytest.raises(arboost.core.XGBoostError, match="inf"):
        arboost.DMatrix(there(np.where(table < 0, np.float32(np.inf), table)))


def test_prediction_in_place():
    booster = arboost.Booster(model_file=bytearray(WANTED))
    wanted = booster.inplace_predict(X)
    np.testing.assert_array_equal(booster.inplace_predict(there(X)), wanted)
    leaves = booster.predict(arboost.DMatrix(X), pred_leaf=True)
    shares = booster.predict(arboost.DMatrix(X), pred_contribs=True)
    booster.set_param("device", "cuda")
    found = booster.inplace_predict(there(X), base_margin=there(np.zeros(len(X), np.float32)))
    np.testing.assert_array_equal(
        np.asarray(found.get() if hasattr(found, "get") else found),
        booster.inplace_predict(X, base_margin=np.zeros(len(X), np.float32)),
    )
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(there(X))), wanted)
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(there(X)), pred_leaf=True), leaves)
    np.testing.assert_array_equal(booster.predict(arboost.DMatrix(there(X)), pred_contribs=True), shares)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_arrays_of_libraries(library):
    if not cases.IS_REAL:
        pytest.skip("needs a device")
    module = pytest.importorskip(library)
    send = module.asarray if library == "cupy" else lambda a: module.from_numpy(a).cuda()
    assert model(arboost.DMatrix(send(X), send(Y)), "cuda") == WANTED
    booster = arboost.Booster({"device": "cuda"}, model_file=bytearray(WANTED))
    found = booster.inplace_predict(send(X))
    np.testing.assert_array_equal(np.asarray(found.get()), booster.inplace_predict(X))


def test_what_has_no_room_is_refused_before_it_is_made(monkeypatch):
    table = there(X.astype(np.float64))
    monkeypatch.setattr("arboost.kernels.gpu.device.Device.free_bytes", lambda device: 100)
    with pytest.raises(arboost.core.XGBoostError, match="GB on the device"):
        arboost.DMatrix(table)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(arboost.core.XGBoostError, match="float16"):
        arboost.DMatrix(there(X.astype(np.float16)))
    with pytest.raises(arboost.core.XGBoostError, match="2-dimensional"):
        arboost.DMatrix(there(Y))
    masked = there(X)
    if not cases.IS_REAL:
        masked.__cuda_array_interface__["mask"] = masked
        with pytest.raises(arboost.core.XGBoostError, match="mask"):
            arboost.DMatrix(masked)
