"""Trainings on a device have the CPU's bytes: tests/device, in a process of its own, on a simulated device."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import arboost
from arboost.runtime.device import why_not

FOLDER = Path(__file__).parents[1] / "device"


def test_a_simulated_device_does_what_the_cpu_does():
    simulated = {"ARBOOST_TEST_DEVICE": "simulator", "NUMBA_ENABLE_CUDASIM": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", str(FOLDER)],
        env=os.environ | simulated, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


def test_without_a_device_a_warning_says_why():
    """One warning, the CPU's model, and nothing of CUDA's is imported."""
    if not why_not(0):
        pytest.skip("there is a device")
    X, y = np.arange(20.0)[:, None], np.arange(20.0)
    trained = {}
    for name in ("cpu", "cuda"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained[name] = bytes(arboost.train({"device": name}, arboost.DMatrix(X, y), 2).save_raw())
    assert trained["cpu"] == trained["cuda"]
    (message,) = [str(w.message) for w in caught]
    assert message.startswith("Device is changed from cuda to CPU: ")
