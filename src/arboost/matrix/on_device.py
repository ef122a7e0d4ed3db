"""Tables and vectors of other libraries that lie on a CUDA device: cupy, torch, whatever has the interfaces."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from arboost.matrix.adapt import DenseData, RawData, shape_message
from arboost.runtime.context import Context
from arboost.runtime.device import device, device_of, why_not
from arboost.runtime.errors import XGBoostError

if TYPE_CHECKING:
    from arboost.matrix.device import DeviceValues

_CUDA, _CUDA_MANAGED = 2, 13  # DLPack's device types
_INTERFACE, _ON_DEVICE = "__cuda_array_interface__", "__dlpack_device__"


def values_on(ctx: Context, raw: RawData, feature_types: list[str] | None) -> "DeviceValues | None":
    """A table's values on the context's device, for cuts and bins; None where the CPU has to make them."""
    if device_of(ctx) is None or "c" in (feature_types or []):
        return None
    from arboost.matrix.device import make_values  # which builds on modules that ask here

    return make_values(ctx, raw)


class DeviceData(RawData):
    """A table of the device's; the host gets copies of its rows."""

    def __init__(self, array: Any, ordinal: int, missing: float):
        if array.ndim != 2:
            raise XGBoostError(shape_message(array.shape))
        super().__init__(array.shape[0], array.shape[1], missing)
        self.device_name = f"cuda:{ordinal}"
        self._device = device(self.device_name)
        self.values = self._read(array)

    def _read(self, array: Any) -> Any:
        """float32, C-ordered, NaN for missing; the array itself if it is so."""
        from arboost.kernels.gpu import binning

        is_plain = array.dtype == np.float32 and array.flags["C_CONTIGUOUS"]
        if not array.size or (is_plain and np.isnan(self.missing)):
            return array
        free = self._device.free_bytes()
        if 4 * array.size > free:
            raise XGBoostError(
                f"{array.shape[0]:,} x {array.shape[1]:,} values of dtype {array.dtype} become float32: "
                f"{4 * array.size / 1e9:.1f} GB on the device, {free / 1e9:.1f} GB are free. Pass C-ordered float32 "
                "with NaN for missing, which is taken as it is."
            )
        values = self._device.empty(array.shape, np.float32)
        self._device.run(binning.read_values, array, self.missing, not np.isnan(self.missing), values)
        return values

    def values_on(self, device: Any) -> Any:
        return self.values if device is self._device else super().values_on(device)

    def chunks_for(self, ctx: Context) -> Iterator[tuple[int, Any]]:
        return iter([(0, self.values)]) if device_of(ctx) is self._device else self.chunks()

    def take(self, rows: np.ndarray) -> DenseData:
        return DenseData(self._host(0, self.n_rows)[rows])

    def _host(self, first: int, stop: int) -> np.ndarray:
        self._device.use()
        found: np.ndarray = self.values[first:stop].copy_to_host()
        return found

    def _count_values(self, ctx: Context) -> tuple[np.ndarray, np.ndarray]:
        from arboost.kernels.gpu import counting

        if not self.values.size:
            return np.zeros(self.n_features, np.int64), np.zeros(self.n_features, np.int64)
        self._device.use()
        found = self._device.zeros((2, self.n_features), np.int64)
        self._device.run(counting.scan_values, self.values.view(np.uint32), found)
        present, infinite = found.copy_to_host()
        return present, infinite

    def _convert(self, values: np.ndarray, first_row: int, first_feature: int) -> np.ndarray:
        self._fill(values, first_row, first_feature)
        return values

    def _fill(self, out: np.ndarray, first_row: int, first_feature: int) -> None:
        if out.size:
            rows = self._host(first_row, first_row + len(out))
            np.copyto(out, rows[:, first_feature : first_feature + out.shape[1]])


def is_on_device(data: Any) -> bool:
    """Whether this is an array in the memory of a CUDA device."""
    if isinstance(data, np.ndarray | list | tuple | str):
        return False
    try:
        return hasattr(data, _INTERFACE) or (hasattr(data, _ON_DEVICE) and _dlpack_type(data) in (_CUDA, _CUDA_MANAGED))
    except RuntimeError:  # a torch tensor that is part of a computation of gradients
        return True


def _dlpack_type(data: Any) -> int:
    return int(data.__dlpack_device__()[0])


def read_device_array(data: Any, missing: float) -> RawData:
    """A table on a device; without numba-cuda a copy of it on the host."""
    array, ordinal = _adopted(data)
    return DenseData(array, missing) if isinstance(array, np.ndarray) else DeviceData(array, ordinal, missing)


def host_copy(data: Any) -> np.ndarray:
    """A copy on the host of an array on a device."""
    array, _ = _adopted(data)
    return array if isinstance(array, np.ndarray) else np.asarray(array.copy_to_host())


def _adopted(data: Any) -> tuple[Any, int]:
    """(the array, and on which device it lies); an array of the host where this process has no use of the device."""
    data = data.detach() if hasattr(data, "detach") else data
    ordinal = int(data.__dlpack_device__()[1]) if hasattr(data, _ON_DEVICE) else 0
    reason = why_not(ordinal)
    if reason:
        return _copy_of_library(data, reason), ordinal
    device(f"cuda:{ordinal}").use()
    from arboost.kernels.gpu.foreign import adopt

    try:
        array = adopt(data)
    except TypeError as error:
        raise XGBoostError(f"{type(data)} on a CUDA device could not be read: {error}.") from error
    if array.dtype.kind not in "biuf" or array.dtype == np.float16:
        raise XGBoostError(f"dtype {array.dtype} of an array on a CUDA device is not supported: pass float32.")
    return array, ordinal


def _copy_of_library(data: Any, reason: str) -> np.ndarray:
    """A copy that the array's own library makes."""
    if hasattr(data, "get"):  # cupy
        return np.asarray(data.get())
    if hasattr(data, "cpu"):  # torch
        return np.asarray(data.cpu())
    raise XGBoostError(
        f"{type(data)} lies on a CUDA device, and {reason}; or pass an array in main memory (for a tensor: "
        "tensor.detach().cpu().float())."
    )


def like_input(result: np.ndarray, data: Any, ctx: Context) -> Any:
    """A prediction where XGBoost has it: a cupy array for data on the device that predicts, if cupy is there."""
    if device_of(ctx) is None or not is_on_device(data):
        return result
    try:
        import cupy
    except ImportError:
        return result
    return cupy.asarray(result)
