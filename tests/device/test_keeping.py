"""Machine code of device kernels is kept: a second process compiles nothing, and has the same code."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import device_cases as cases

# On a real device a whole training; without one kernels for devices of two ages, up to what a driver is asked to load.
TRAINS = """if True:
    import hashlib
    import numpy as np
    import arboost
    X = np.random.default_rng(0).normal(size=(300_000, 5)).astype(np.float32)
    data = arboost.DMatrix(X, X[:, 0] > X[:, 1])
    model = arboost.train({"device": "cuda", "objective": "binary:logistic"}, data, 20)
    print(hashlib.sha256(model.save_raw()).hexdigest(), hashlib.sha256(model.inplace_predict(X)).hexdigest())
"""
COMPILES = """if True:
    import hashlib
    import sys
    from types import SimpleNamespace
    import numba.cuda as cuda
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devices

    def load(image, *callbacks):
        def function(name):
            print(hashlib.sha256(image.code).hexdigest(), name)
            return SimpleNamespace(module=module, name=name)
        module = SimpleNamespace(get_function=function, initialized=True)
        return module

    capability = int(sys.argv[1]), int(sys.argv[2])
    device = SimpleNamespace(id=0, compute_capability=capability)
    context = SimpleNamespace(device=device, create_module_image=load)
    devices._runtime = SimpleNamespace(get_or_create_context=lambda which: context)
    dispatcher.get_current_device = lambda: device
    from arboost.kernels import jit
    from arboost.kernels.gpu import keeping, round
    jit.announce = lambda message: print(message, file=sys.stderr) is None
    keeping._capabilities = lambda: {capability}
    array = lambda kind, n: cuda.types.Array(kind, n, "C")
    floats, matrix = (array(cuda.types.float32, n) for n in (1, 2))
    for name in ("logistic", "hinge"):
        kernel = round.gradient_kernel(name, 0)
        compiled = kernel.compile((matrix, cuda.types.int64, floats, floats, matrix, matrix))
        assert compiled is kernel.compile((matrix, cuda.types.int64, floats, floats, matrix, matrix))
"""
CAPABILITIES = [(9, 0)] if cases.IS_REAL else [(7, 5), (9, 0)]


def run(folder, capability):
    ran = subprocess.run(
        [sys.executable, "-c", TRAINS if cases.IS_REAL else COMPILES, *map(str, capability)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "ARBOOST_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    return ran.stdout, ran.stderr


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_later_process_compiles_nothing(capability, tmp_path):
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda, which compiles for devices, is not installed")
    made, said = run(tmp_path, capability)
    files = {path: path.read_bytes() for path in tmp_path.glob("*/gpu.*.kernel")}
    assert len(files) >= 2
    assert "training and prediction on a GPU" in said
    again, said = run(tmp_path, capability)
    assert again == made
    assert said == ""
    assert {path: path.read_bytes() for path in tmp_path.glob("*/gpu.*.kernel")} == files
    damaged = min(files, key=Path.as_posix)
    damaged.write_bytes(files[damaged][:-7])
    mended, said = run(tmp_path, capability)
    assert mended == made or not cases.IS_REAL  # names of parts count what a process has compiled before
    assert "compiling kernels" in said
    assert abs(len(damaged.read_bytes()) - len(files[damaged])) < 7
