"""Which device a `device` parameter means, and whether there is one."""

import functools
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

if TYPE_CHECKING:
    from arboost.kernels.gpu.device import Device

INSTALL = "install it with `pip install 'arboost[cuda]'`"


_devices: "dict[int, Device]" = {}  # that were used in this process


@functools.cache
def why_not(ordinal: int) -> str:
    """Why this CUDA device cannot be used; empty if it can."""
    simulated = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
    if not simulated and importlib.util.find_spec("numba_cuda") is None:
        return f"the package numba-cuda is not there: {INSTALL}"
    from arboost.kernels.gpu.device import DeviceLost, n_devices

    try:
        n = n_devices()
    except DeviceLost as lost:
        return f"CUDA finds no device ({lost})"
    return "" if ordinal < n else f"there are {n} CUDA devices, numbered from 0"


def ordinal_of(name: str) -> int:
    """The ordinal of "cuda", "cuda:1", "gpu:1"; of others 0."""
    return int(name.partition(":")[2] or 0)


def device(name: str) -> "Device":
    """The device of that name, which must be usable."""
    ordinal = ordinal_of(name)
    with clear_errors(ordinal):
        if ordinal not in _devices:
            from arboost.kernels.gpu.device import Device

            _devices.setdefault(ordinal, Device(ordinal))  # of two threads that come here both get the first one's
        return _devices[ordinal]


def device_of(ctx: Context) -> "Device | None":
    """The device that a context names; None: the CPU."""
    return None if ctx.device == "cpu" else device(ctx.device)


@contextmanager
def clear_errors(ordinal: int) -> Iterator[None]:
    """What a device says when it fails, as an error of ours; a model has the rounds that were finished."""
    try:
        yield
    except Exception as error:
        from arboost.kernels.gpu.device import first_line, is_failure

        if not is_failure(error):
            raise
        raise XGBoostError(
            f"CUDA device {ordinal} failed: {first_line(error)}. The model is as it was after its last round; with "
            "device='cpu' it goes on from there."
        ) from error
