"""Devices on a machine without one: what is missing is said, and the CPU does the work."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import arboost as xgb

X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = X[:, 0]


class OnDevice:
    """What only tells where its memory is."""

    __cuda_array_interface__ = {"shape": (4, 2), "typestr": "<f4", "data": (4096, False), "version": 3}


def needs_no_numba_cuda():
    if importlib.util.find_spec("numba_cuda") is not None or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        pytest.skip("numba-cuda is installed, or a device is simulated")


def test_the_cpu_trains_after_a_warning():
    needs_no_numba_cuda()
    with pytest.warns(UserWarning, match=r"Device is changed from cuda to CPU.*arboost\[cuda\]"):
        booster = xgb.train({"device": "cuda"}, xgb.DMatrix(X, Y), 2)
    wanted = xgb.train({"device": "cpu"}, xgb.DMatrix(X, Y), 2)
    np.testing.assert_array_equal(booster.predict(xgb.DMatrix(X)), wanted.predict(xgb.DMatrix(X)))


def test_an_array_of_a_device_says_what_it_needs():
    needs_no_numba_cuda()
    with pytest.raises(xgb.core.XGBoostError, match=r"CUDA device.*arboost\[cuda\]"):
        xgb.DMatrix(OnDevice())
    with pytest.raises(xgb.core.XGBoostError, match=r"arboost\[cuda\]"):
        xgb.DMatrix(X, OnDevice())
    booster = xgb.train({}, xgb.DMatrix(X, Y), 1)
    with pytest.raises(xgb.core.XGBoostError, match=r"arboost\[cuda\]"):
        booster.inplace_predict(OnDevice())


def test_cuda_is_not_imported_before_it_is_asked_for():
    program = (
        "import sys, numpy as np, arboost\n"
        "X = np.ones((20, 2)); b = arboost.train({}, arboost.DMatrix(X, X[:, 0]), 1); b.inplace_predict(X)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('numba_cuda', 'cuda', 'cupy', 'torch')"
        " or m.startswith(('numba.cuda.cudadrv', 'arboost.kernels.gpu'))])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().splitlines()[-1] == "[]"
