"""One CUDA device: arrays on it, copies to and from it, launches. All of CUDA's own names are in here and in jit.py."""

import functools
import os
import threading
from typing import Any

import numpy as np

from arboost.kernels.gpu import binning
from arboost.kernels.gpu.jit import SIMULATED, cuda, shaped
from arboost.kernels.gpu.simulator import SimulationError
from arboost.kernels.gpu.staging import Staging

_THREADS, _BLOCKS_PER_PROCESSOR = (64, 1) if SIMULATED else (512, 2)
_SHARED_BYTES = 34 << 10  # that a block of any kernel takes at most, and what CUDA keeps beside it
_MOST_BLOCKS = 4  # of a processor, that have 32 registers a thread


class DeviceLost(RuntimeError):
    """The device cannot be used here, or has failed."""


def is_failure(error: BaseException) -> bool:
    """Whether an error comes from the device: its driver, its memory, a launch."""
    module = f".{type(error).__module__}."
    return isinstance(error, DeviceLost) or ".cuda." in module or module == f".{SimulationError.__module__}."


def first_line(error: BaseException) -> str:
    """What an error says, in one line: some of numba-cuda's have many."""
    said = str(error).strip().partition("\n")[0] or repr(error)
    return f"too little of its memory is free ({said})" if "OUT_OF_MEMORY" in said else said


class Device:
    """A device of this process, by its ordinal."""

    def __init__(self, ordinal: int):
        self.ordinal = ordinal
        self._process = os.getpid()
        self._threads = threading.local()  # which of them have used it
        self.use()
        self.n_threads = _THREADS
        # the stream of all launches, by a name under which copies do not wait for their end
        self._stream = cuda.legacy_default_stream()
        self.n_processors, per_processor = 2, _BLOCKS_PER_PROCESSOR
        if not SIMULATED:
            found = cuda.get_current_device()
            self.n_processors = found.MULTIPROCESSOR_COUNT
            # blocks that wait for each other must all be at work: small devices have room for one a processor
            per_processor = max(1, min(per_processor, found.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR // _SHARED_BYTES))
        self.n_blocks = self.n_processors * per_processor
        self.staging = Staging()

    def use(self) -> None:
        """Make it the calling thread's device; a forked child has none."""
        if os.getpid() != self._process:
            raise DeviceLost("a forked process cannot use the CUDA device of its parent: start it with 'spawn'")
        if SIMULATED:
            return
        # Another device of ours, or another library, may have been the thread's since. Who has used none is not asked:
        # the answer would open the first one.
        if not getattr(self._threads, "has_it", False) or cuda.get_current_device().id != self.ordinal:
            cuda.select_device(self.ordinal)
            self._threads.has_it = True

    def empty(self, shape: Any, dtype: Any) -> Any:
        """An array on the device, its content unknown."""
        return cuda.device_array(shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """An array of zeros on the device."""
        array = self.empty(shape, dtype)
        self.clear(array)
        return array

    def clear(self, array: Any) -> None:
        """Set all of a C-ordered array to zero."""
        if SIMULATED:
            array.copy_to_device(np.zeros(array.shape, array.dtype))
        else:
            self.run(binning.clear, array.reshape(array.size))

    def upload(self, values: np.ndarray, to: Any = None) -> Any:
        """A copy of an array on the device, in `to` if that is given."""
        if values.size == 0:
            return cuda.device_array(values.shape, values.dtype) if to is None else to
        return cuda.to_device(np.ascontiguousarray(values), to=to)

    def pinned(self, shape: Any, dtype: Any) -> np.ndarray:
        """An array of the host that copies reach three times as fast."""
        array: np.ndarray = cuda.pinned_array(shape, dtype)
        return array

    def copy_later(self, array: Any, to: np.ndarray) -> None:
        """Begin a copy to pinned memory, after what was launched before; who reads it waits for a `mark` behind it."""
        array.copy_to_host(to, stream=self._stream)

    def mark(self, event: Any) -> None:
        """Note with an event (`make_event`) what was launched so far."""
        event.record(self._stream)

    def make_event(self) -> Any:
        """What `mark` notes with; its `synchronize` waits for that, and for nothing that was launched later."""
        return cuda.event(timing=False)

    def run(self, kernel: Any, *args: Any, stream: Any = 0, shape: tuple[int, int] | None = None) -> None:
        """Launch a kernel, on all of the device or `shape` (blocks, threads); copies of the same stream wait for it."""
        n_blocks, n_threads = shape or (self.n_blocks, self.n_threads)
        shaped(kernel, n_blocks, n_threads, stream)(*args)

    def prepare(self, kernel: Any, n_blocks: int, *args: Any) -> "Launch":
        """A launch that is repeated: arrays stay the same, numbers may change. Fewer blocks where they would wait for
        each other and not all be at work."""
        return Launch(self, n_blocks, kernel, args)

    def blocks_of(self, n_rows: int) -> int:
        """How many blocks suit a kernel in which every thread has rows of its own, and few registers."""
        return max(1, min(-(-n_rows // self.n_threads), self.n_processors * _MOST_BLOCKS))

    def wait(self) -> None:
        """Until the device has done all that was asked of it."""
        cuda.synchronize()

    def free_bytes(self) -> int:
        """Memory of the device that nobody has taken."""
        if SIMULATED:
            return 1 << 30
        context = cuda.current_context()
        context.deallocations.clear()  # numba-cuda gives memory back late
        return int(context.get_memory_info().free)


class Launch:
    """A kernel and its arguments, made ready once: numba-cuda looks at every argument anew, for 10 us each."""

    def __init__(self, device: Device, n_blocks: int, kernel: Any, args: tuple):
        self._device, self._kernel, self._args = device, kernel, list(args)
        self._flat: list[Any] | None = None
        if SIMULATED:
            return
        from cuda.core import LaunchConfig, launch
        from numba.cuda._compat import CUDA_CORE_GE_1_0

        signature = tuple(kernel.typeof_pyval(arg) for arg in args)
        compiled = kernel.overloads.get(signature) or kernel.compile(signature)
        flat: list[Any] = []
        self._places = []
        for kind, value in zip(compiled.argument_types, args, strict=True):
            self._places.append(len(flat))
            compiled._prepare_args(kind, value, 0, [], flat)
        self._flat = flat
        if compiled.cooperative:  # blocks that wait for each other must all be at work
            n_blocks = max(1, min(n_blocks, compiled.max_cooperative_grid_blocks(device.n_threads)))
        configured = shaped(kernel, n_blocks, device.n_threads)
        together = {"is_cooperative" if CUDA_CORE_GE_1_0 else "cooperative_launch": compiled.cooperative}
        shape = LaunchConfig(grid=configured.griddim, block=configured.blockdim, shmem_size=0, **together)
        entry = compiled._codelibrary.get_cufunc().kernel
        self._launch = functools.partial(launch, configured.stream, shape, entry)

    def __call__(self, changes: dict[int, Any]) -> None:
        """Launch it, with other numbers in some places."""
        if self._flat is None:
            for which, value in changes.items():
                self._args[which] = value
            self._device.run(self._kernel, *self._args)
            return
        for which, value in changes.items():
            at = self._places[which]
            self._flat[at] = type(self._flat[at])(value)
        self._launch(*self._flat)


def n_devices() -> int:
    """How many devices there are; raises DeviceLost with the reason if none can be used."""
    if SIMULATED:
        return 1
    try:
        return len(cuda.gpus)
    except Exception as error:  # no driver, no device, or one that this driver does not know: numba-cuda has many
        raise DeviceLost(first_line(error)) from error
