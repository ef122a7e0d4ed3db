"""Every kernel that the simulator runs is compiled for a real device with the types it was given, and fuses nothing."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import arboost
import device_cases as cases
import device_compile
from arboost.kernels.gpu import simulator
from arboost.predict import forest, shap

# between them they launch every kernel, with every kind of arguments
CASES = ("regression", "binary", "hinge", "softmax", "counts", "gamma", "tweedie", "huber", "logarithms", "leaves",
         "absolute error", "quantiles with weights", "rows", "rows by gradients", "wide codes", "ranking",
         "ranking by draws", "intervals", "monotone", "monotone leaves", "sets of categories",
         "medians of categories", "leaves of categories", "smoothed leaves", "monotone categories",
         "rows in leaves, by weight", "rows in leaves of classes", "drawn leaves")  # fmt: skip
PREDICTED = ("regression", "sets of categories")
PROGRAM = Path(device_compile.__file__)


FEW_BLOCKS = """
import warnings
from arboost.kernels.gpu import binning, jit
warnings.simplefilter("error")
jit.shaped(binning.clear, 1, 64)
"""


# What no documentation promises and device code leans on -> who needs it, and for what.
PARTS = {
    "_compat:CUDA_CORE_GE_1_0": "device: what cuda-core calls a cooperative launch",
    "cudadrv.nvvm:compile_ir": "jit: the option that nothing is fused",
    "codegen:CUDACodeLibrary._ensure_cc": "keeping: machine code of one kind of device",
    "codegen:CUDACodeLibrary.get_cubin": "keeping: machine code of a kernel",
    "codegen:CUDACodeLibrary.get_cufunc": "device: launches that are repeated",
    "core.compiler_lock:global_compiler_lock": "jit, keeping: one thread compiles or links at a time",
    "core.config:CUDA_LOW_OCCUPANCY_WARNINGS": "jit: no warning of few blocks",
    "core.sigutils:normalize_signature": "keeping: types of a signature",
    "dispatcher:_Kernel._prepare_args": "device: launches that are repeated",
    "dispatcher:_Kernel._rebuild": "keeping: a kernel of kept machine code",
    "dispatcher:_Kernel.max_cooperative_grid_blocks": "device: blocks that wait for each other",
    "dispatcher:_Kernel.bind": "keeping: a kernel of kept machine code",
    "dispatcher:CUDADispatcher.add_overload": "keeping: kept kernels become known",
    "dispatcher:CUDADispatcher.typeof_pyval": "device: launches that are repeated",
    "typing:signature": "keeping: a kept kernel's signature",
}
LOOK = """
import functools, importlib, sys
for part in sys.argv[1:]:
    module, _, names = part.partition(":")
    try:
        functools.reduce(getattr, names.split("."), importlib.import_module(f"numba.cuda.{module}"))
    except (ImportError, AttributeError):
        print(part)
from numba.cuda.codegen import CUDACodeLibrary
vars(CUDACodeLibrary(None, "library"))["_nvvm_options"], vars(CUDACodeLibrary(None, "library"))["_cubin_cache"]
"""


def test_what_numba_cuda_does_not_promise_is_there():
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda, which compiles for devices, is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, *PARTS], env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    moved = {part: PARTS[part] for part in ran.stdout.split()}
    assert not moved, moved


def test_few_blocks_are_nothing_to_warn_of():
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda, which compiles for devices, is not installed")
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", FEW_BLOCKS], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.skipif(cases.IS_REAL, reason="a real device compiles what it runs")
def test_machine_code_has_no_other_arithmetic_than_a_cpu(tmp_path, monkeypatch):
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda, which compiles for devices, is not installed")
    launches = set()
    run = simulator._Launch.run

    def watch(launch, kernel, args):
        launches.add(device_compile.describe(kernel, args))
        run(launch, kernel, args)

    monkeypatch.setattr(simulator._Launch, "run", watch)
    for name in ("_DEVICE_WORK", "_DEVICE_VISITS"):
        monkeypatch.setattr(forest, name, 0)
    for case in CASES:
        params, given = cases.ON_DEVICE[case]
        model = cases.train("cuda", params, given, n_rounds=1)[0]
        if case in PREDICTED:
            booster = arboost.Booster({"device": "cuda"}, model_file=bytearray(model))
            for leaves in (False, True):
                booster.predict(cases.matrix(given), pred_leaf=leaves)
    monkeypatch.setattr(shap, "_DEVICE_WORK", 0)
    for max_depth in (2, 8):
        params = {**cases.COMMON, "max_depth": max_depth, "min_child_weight": 0}
        booster = arboost.train(params, cases.matrix({}), 1)
        booster.set_param("device", "cuda")
        for ask in ("pred_contribs", "pred_interactions"):
            booster.predict(cases.matrix({}), **{ask: True})
    for case in cases.SCORED:
        cases.score("cuda", case, False)
    (tmp_path / "launches").write_bytes(pickle.dumps(launches))
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "launches")],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    lines = ran.stdout.splitlines()
    assert len(lines) == len(launches) > 10
    assert not [line for line in lines if not line.endswith(" {}")]
