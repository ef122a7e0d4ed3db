"""Cuts and bins that are made on a device are those of the CPU, to the bit, and nothing of them is made twice."""

import numpy as np
import pytest

from arboost.kernels.gpu import staging
from arboost.matrix import cuts as cutting
from arboost.matrix import device, page
from arboost.matrix.adapt import adapt
from arboost.runtime.context import Context
from device_cases import IS_REAL

CPU, DEVICE = Context(), Context(device="cuda")
N = 20_000 if IS_REAL else 80
RNG = np.random.default_rng(3)
NORMAL = RNG.normal(size=(N, 2)).astype(np.float32)
HOLES = np.where(RNG.random(NORMAL.shape) < 0.3, np.float32(np.nan), NORMAL)
WEIGHTS = RNG.random(N).astype(np.float32)
ODD = np.float32(
    [0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 1.0, np.nextafter(np.float32(1), np.float32(2))]
)

CASES = {
    "few bins": (NORMAL, 4, None, None),
    "a bin for each value": (NORMAL[:40], 256, None, None),
    "missing values": (HOLES, 256, None, None),
    "weights": (HOLES, 16, WEIGHTS, None),
    "rows that weigh nothing": (HOLES, 16, np.where(WEIGHTS < 0.5, np.float32(0), WEIGHTS), None),
    "few values": (RNG.integers(0, 5, (N, 2)), 8, None, None),
    "a mark for missing": (RNG.integers(0, 5, (N, 2)), 300, None, 2),
    "two-byte codes": (RNG.normal(size=(20 * N if IS_REAL else 400, 1)), 300, None, None),
    "odd values": (np.stack([ODD, ODD[::-1]], axis=1), 5, None, None),
    "one value, and none": (np.float32([[3, np.nan]] * 5), 256, None, None),
    "two bins": (NORMAL, 2, WEIGHTS, None),
    "other order": (np.asfortranarray(NORMAL.astype(np.float64)), 7, None, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_cuts_and_bins(case):
    data, max_bin, weight, missing = CASES[case]
    raw = adapt(data, missing)
    cuts = cutting.make_cuts(CPU, adapt(data, missing), weight, max_bin)
    found = cutting.make_cuts(DEVICE, raw, weight, max_bin)
    assert found.digest == cuts.digest
    made, binned = page.make_binned(DEVICE, raw, found), page.make_binned(CPU, adapt(data, missing), cuts)
    assert isinstance(made, device.DevicePage)
    assert made.bin_dtype == binned.bin_dtype
    np.testing.assert_array_equal(made.words, binned.words)
    np.testing.assert_array_equal(made.columns, binned.columns)
    assert (made.n_rows, made.n_words, made.n_columns) == (binned.n_rows, binned.n_words, binned.n_columns)


def test_tiles_of_features(monkeypatch):
    monkeypatch.setattr(device, "_TILE_BYTES", 1)
    cuts = cutting.make_cuts(CPU, adapt(HOLES), None, 8)
    assert cutting.make_cuts(DEVICE, adapt(HOLES), None, 8).digest == cuts.digest


def test_rows_in_several_pieces(monkeypatch):
    monkeypatch.setattr(staging, "PIECE_BYTES", 64)
    monkeypatch.setattr(staging, "FEW_BYTES", 0)
    values = device.make_values(DEVICE, adapt(HOLES.astype(np.float64), missing=-1.0))
    np.testing.assert_array_equal(values.values.copy_to_host(), HOLES)


def test_values_are_sent_once():
    raw = adapt(NORMAL)
    values = device.make_values(DEVICE, raw)
    assert device.make_values(DEVICE, raw) is values
    sent = raw.sent
    del values
    assert sent() is None


def test_what_does_not_fit_is_left_to_the_cpu(monkeypatch):
    monkeypatch.setattr("arboost.kernels.gpu.device.Device.free_bytes", lambda device: 1000)
    assert device.make_values(DEVICE, adapt(NORMAL)) is None
