"""What a driver is asked to launch: numba-cuda itself, above a driver of a few lines."""

import importlib.util
import os
import subprocess
import sys

import pytest

PROGRAM = """if True:
    import contextlib
    from types import SimpleNamespace
    import cuda.core
    import numpy as np
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devices, driver

    class Module:
        initialized = True

        def get_function(self, name):
            return SimpleNamespace(module=self, name=name, kernel=name, set_shared_memory_carveout=int)

    class Context:
        device = SimpleNamespace(id=0, compute_capability=(8, 6), MULTIPROCESSOR_COUNT=6)

        def memalloc(self, n_bytes):
            return driver.MemoryPointer(self, driver.binding.CUdeviceptr(1 << 20), n_bytes)

        def create_module_image(self, *image):
            return Module()

        def get_active_blocks_per_multiprocessor(self, function, n_threads, n_bytes):
            assert n_threads == 512 and n_bytes == 0
            return 1

    context = Context()
    devices._runtime = SimpleNamespace(
        ensure_context=contextlib.nullcontext, get_or_create_context=lambda which: context
    )
    dispatcher.get_current_device = lambda: context.device
    launched = []
    cuda.core.LaunchConfig = lambda **how: how
    cuda.core.launch = lambda *what: launched.append(what)

    from numba import cuda as numba_cuda
    from arboost.kernels.gpu import device, grow, keeping, leaf_quantile, round
    keeping._capabilities = set  # nothing is kept
    here = SimpleNamespace(n_threads=512)
    for kernel in (grow.grow, grow.grow_tree, leaf_quantile.solve_leaves, round.sum_rows, round.aft_gradient):
        assert kernel.targetoptions["max_registers"] * here.n_threads <= 65536, "a processor's registers"
    array = lambda dtype, *shape: numba_cuda.device_array(shape, dtype)
    table, floats = array(np.int32, 9, 4), array(np.float32, 100)
    launch = device.Launch(
        here, 12, leaf_quantile.solve_leaves, (array(np.uint32, 100, 2), False, 255, table, array(np.int64, 8),
        array(np.int64, 1), 0, np.float32(0.25), floats, array(np.float32, 100, 1), array(np.int64, 0), 1.0, 0.5,
        array(np.int32, 100), array(np.uint32, 100), array(np.int64, 9, 256, 2), array(np.int64, 9, 7),
        array(np.float32, 9), ()),
    )
    launch({7: np.float32(0.5)})
    alone = device.Launch(here, 12, round.sum_rows, (array(np.int64, 1, 100), array(np.int32, 1, 100), 7, 32,
                                                     array(np.int64, 2)))
    alone({2: 8})
    for _, how, name, *arguments in launched:
        together = how.get("is_cooperative", how.get("cooperative_launch"))
        numbers = [getattr(one, "value", one) for one in arguments]
        print(together, how["grid"], how["block"], numbers.count(0.5), numbers.count(0.25), numbers.count(8))
"""


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_blocks_that_wait_for_each_other_are_all_at_work():
    """Of twelve blocks six find room at a time: no more are launched where they meet, all of them elsewhere."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    together, alone = ran.stdout.splitlines()
    assert together.startswith("True (6, 1, 1) (512, 1, 1) 2 0 "), together  # the new learning rate, and alpha
    assert alone.startswith("False (12, 1, 1) (512, 1, 1) "), alone
