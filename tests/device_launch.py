"""Launches of kernels on arrays of the host, for tests of their pieces."""

import numpy as np

from arboost.runtime.device import device


def run(kernel, *args):
    """Launch; the arguments, arrays in tuples too, as they are afterwards."""
    here = device("cuda")
    here.use()
    there = [_sent(here, arg) for arg in args]
    here.run(kernel, *there)
    return [_fetched(arg) for arg in there]


def _sent(here, arg):
    if isinstance(arg, tuple):
        return tuple(_sent(here, item) for item in arg)
    return here.upload(arg) if isinstance(arg, np.ndarray) else arg


def _fetched(arg):
    if isinstance(arg, tuple):
        return tuple(_fetched(item) for item in arg)
    return arg.copy_to_host() if hasattr(arg, "copy_to_host") else arg
