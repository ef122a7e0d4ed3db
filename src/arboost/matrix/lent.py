"""The user's memory under flags of our own."""

import numpy as np


class _Holder:
    """Lends an array's memory under other flags."""

    def __init__(self, array: np.ndarray, interface: dict):
        self._array = array
        self.__array_interface__ = interface


def plain_view(array: np.ndarray) -> np.ndarray:
    """The same memory without the read-only flag: Numba would compile every kernel again for read-only arrays."""
    if array.flags.writeable or not array.size:
        return np.asarray(array)
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Holder(array, interface))
