"""Arrays of other libraries that lie on a device, taken as they are: CUDA's array interface, else DLPack."""

import ctypes
from typing import Any

import numpy as np

from arboost.kernels.gpu.jit import SIMULATED, cuda

_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # DLPack's type codes


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor, which is the first of its managed tensors' fields."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def adopt(data: Any) -> Any:
    """The same memory as an array of numba-cuda's, which keeps `data` alive; all that was begun on it is done.

    Raises TypeError for what has no type of ours, or a mask.
    """
    interface = getattr(data, "__cuda_array_interface__", None)
    owner = data
    if interface is None:
        owner = data.__dlpack__()
        interface = _interface_of(owner)
    if interface.get("mask") is not None:
        raise TypeError("it has a mask")
    if SIMULATED:
        return _adopt_simulated(interface, owner)
    array = cuda.from_cuda_array_interface(interface, owner=owner)
    cuda.synchronize()
    return array


def _interface_of(capsule: Any) -> dict[str, Any]:
    """What a DLPack capsule says, in the words of the array interface. The capsule keeps the memory."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(get_pointer(capsule, b"dltensor"))
    if tensor.code not in _KINDS or tensor.lanes != 1:
        raise TypeError(f"its DLPack type code is {tensor.code}")
    item = tensor.bits // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * item for i in range(tensor.ndim)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    kind = np.dtype(f"{_KINDS[tensor.code]}{item}").str
    return {"shape": shape, "strides": strides, "typestr": kind, "data": (address, False), "version": 3}


def _adopt_simulated(interface: dict[str, Any], owner: Any) -> Any:
    """A simulated device's memory is the host's."""

    class Holder:
        __array_interface__ = {k: interface[k] for k in ("shape", "strides", "typestr", "data")} | {"version": 3}
        kept = owner

    return cuda.to_device(np.array(Holder()))
