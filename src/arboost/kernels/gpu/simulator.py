"""Device code without a device: every thread of a launch is a Python generator, and a scheduler lets them take turns.

Numba's own simulator has one thread of the system for each of CUDA's and one block; a tree takes it minutes. Here a
function that waits for others (barriers, shuffles) is rewritten so that it yields where it waits. Which warp goes on,
and in which order its lanes do, is drawn: code that relies on an order, or lacks a barrier, gives other results.
Memory that nobody has written holds rubbish. Formulas become Python functions again, the functions they call too.
"""

import ast
import inspect
import random
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numba.np import numpy_support

from arboost.kernels.gpu import late
from arboost.kernels.gpu.races import Watch, Watched

WARP = 32
ALL_LANES = 0xFFFFFFFF
RUBBISH = 0x5A
WARP_WAITS = ("syncwarp", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "match_any_sync", "ballot_sync")
BLOCK_WAIT, GRID_WAIT = "syncthreads", "sync"
WAITS = (*WARP_WAITS, BLOCK_WAIT, GRID_WAIT)

order = random.Random(0)
"""Draws who goes on; tests seed it."""

watch: Watch | None = None
"""Who is told of every access to an array, if somebody is: slower by half."""


class SimulationError(RuntimeError):
    """The threads of a launch can never go on, or do what has no meaning on a device."""


# ---- functions that wait become generators ----


class Part:
    """A piece of a kernel: called, it runs, or is a generator if it waits somewhere."""

    def __init__(self, function: Callable):
        self.py_func = function
        self._form: Any = None
        self._waits = False

    def __call__(self, *args: Any) -> Any:
        return self.form(*args)

    @property
    def form(self) -> Callable:
        if self._form is None:
            self._form, self._waits = _rewritten(self.py_func)
        return self._form

    @property
    def waits(self) -> bool:
        return self.form is not None and self._waits


class _Waiting(ast.NodeTransformer):
    """Rewrites calls that wait: `cuda.shfl_sync(...)` is yielded to the scheduler, parts that wait are gone through."""

    def __init__(self, names: dict[str, Any]):
        self._names, self.found = names, False

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in WAITS:
            self.found = True
            return ast.Yield(ast.Tuple([ast.Constant(called.attr), *node.args], ast.Load()))
        part = self._value_of(called)
        if isinstance(part, Part) and part.waits:
            self.found = True
            return ast.YieldFrom(node)
        return node

    def _value_of(self, called: ast.expr) -> Any:
        if isinstance(called, ast.Name):
            return self._names.get(called.id)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            module = self._names.get(called.value.id)
            return getattr(module, called.attr, None) if isinstance(module, ModuleType) else None
        return None


def _rewritten(function: Callable) -> tuple[Callable, bool]:
    """The function as the scheduler runs it, and whether it waits."""
    assert isinstance(function, FunctionType)
    names = dict(function.__globals__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names |= {name: cell.cell_contents for name, cell in cells}
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    waiting = _Waiting(names)
    definition.body = [waiting.visit(statement) for statement in definition.body]
    if not waiting.found:
        return function, False
    exec(compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec"), names)
    return names[definition.name], True


# ---- launches ----


class Kernel(Part):
    """What Python launches: `kernel[n_blocks, n_threads, stream](*args)`."""

    def __getitem__(self, shape: tuple) -> Callable:
        n_blocks, n_threads, stream = shape
        return lambda *args: late.QUEUE.add(stream, lambda: _Launch(int(n_blocks), int(n_threads)).run(self, args))


class _Lane:
    """One thread of a launch."""

    def __init__(self, launch: "_Launch", block: "_Block", t: int):
        self.launch, self.block, self.t, self.warp = launch, block, t, t // WARP + block.number * launch.n_threads
        self.n_shared = 0  # shared arrays that it has asked for
        self.n_met = 0  # how often its warp has met at `syncwarp`
        self.run: Iterator[tuple] = iter(())
        self.waits: tuple | None = None  # for what; None: it is done
        self.answer: Any = None


class _Block:
    """The threads that share memory."""

    def __init__(self, launch: "_Launch", number: int, n_threads: int):
        self.number, self.shared = number, list[Any]()
        self.n_met = 0  # how often its threads have met at a barrier
        lanes = [_Lane(launch, self, t) for t in range(n_threads)]
        self.warps = [lanes[first : first + WARP] for first in range(0, n_threads, WARP)]


class _Launch:
    """A grid of blocks that take turns."""

    def __init__(self, n_blocks: int, n_threads: int):
        if n_threads % WARP:
            raise SimulationError(f"{n_threads} threads are no whole warps")
        self.n_blocks, self.n_threads = n_blocks, n_threads
        self._blocks = [_Block(self, b, n_threads) for b in range(n_blocks)]

    def run(self, kernel: Kernel, args: tuple) -> None:
        global _lane
        if _lane is not None:
            raise SimulationError("a kernel launches no kernel")
        inside = [_inside(arg, name) for arg, name in zip(args, kernel.py_func.__code__.co_varnames, strict=False)]
        form, waits = kernel.form, kernel.waits
        if watch is not None:
            watch.forget()
        try:
            with np.errstate(all="ignore"):
                for warp in self._warps():
                    for lane in warp:
                        _lane = lane
                        if waits:
                            lane.run, lane.waits = form(*inside), ("begins",)
                        else:
                            form(*inside)
                while self._go_on():
                    pass
        finally:
            _lane = None

    def _warps(self) -> list[list[_Lane]]:
        warps = [warp for block in self._blocks for warp in block.warps]
        order.shuffle(warps)
        return warps

    def _go_on(self) -> bool:
        """Every warp to its next barrier, then open those that all have reached; False: all threads are done."""
        for warp in self._warps():
            while any(lane.waits is not None and lane.waits[0] == "begins" for lane in warp):
                self._run_warp(warp)
        for block in self._blocks:
            _open(block.warps, BLOCK_WAIT)
        if not any(_may_run(lane) for warp in self._warps() for lane in warp):
            _open(self._warps(), GRID_WAIT)
        lanes = [lane for warp in self._warps() for lane in warp if lane.waits is not None]
        if lanes and not any(_may_run(lane) for lane in lanes):
            raise SimulationError(f"threads wait for ever: {sorted({lane.waits[0] for lane in lanes if lane.waits})}")
        return bool(lanes)

    def _run_warp(self, warp: list[_Lane]) -> None:
        """Every lane to where it waits; exchanges between lanes are made as soon as all have come to one."""
        global _lane
        lanes = [lane for lane in warp if _may_run(lane)]
        order.shuffle(lanes)
        for lane in lanes:
            _lane = lane
            answer, lane.answer = lane.answer, None
            try:
                lane.waits = lane.run.send(answer)  # type: ignore[attr-defined]
            except StopIteration:
                lane.waits = None
        waits = [lane.waits for lane in warp]
        if watch is not None and len({_place_of(lane) for lane in warp if lane.waits is not None}) > 1:
            raise SimulationError(f"lanes of a warp wait in different places: {waits}")
        if any(wait is not None and wait[0] in WARP_WAITS for wait in waits):
            _exchange(warp, waits)


def _may_run(lane: _Lane) -> bool:
    return lane.waits is not None and lane.waits[0] == "begins"


def _place_of(lane: _Lane) -> tuple:
    """Where a thread waits: lines of the functions that it is in."""
    lines, run = [], lane.run
    while run is not None:
        lines.append(run.gi_frame.f_lineno)  # type: ignore[attr-defined]
        run = run.gi_yieldfrom  # type: ignore[attr-defined]
    return tuple(lines)


def _open(warps: list[list[_Lane]], wait: str) -> None:
    """Let all threads go on if all that are not done have come to this barrier."""
    lanes = [lane for warp in warps for lane in warp if lane.waits is not None]
    if lanes and all(lane.waits is not None and lane.waits[0] == wait for lane in lanes):
        if wait == GRID_WAIT and len(lanes) < sum(len(warp) for warp in warps):
            raise SimulationError("some threads are done, and others wait for the whole grid")
        lanes[0].block.n_met += 1
        if wait == GRID_WAIT and watch is not None:
            watch.forget()
        for lane in lanes:
            lane.waits = ("begins",)


def _exchange(warp: list[_Lane], waits: list[Any]) -> None:
    """What every lane gets from an exchange, in which all of them take part."""
    kinds = {None if wait is None else wait[0] for wait in waits}
    if len(kinds) > 1:
        raise SimulationError(f"lanes of a warp have parted: {kinds}")
    for here, lane in enumerate(warp):
        kind, *args = waits[here]
        if args and args[0] != ALL_LANES:
            raise SimulationError(f"some lanes alone exchange values: mask {args[0]:x}")
        if kind == "match_any_sync":
            lane.answer = sum(1 << other for other in range(WARP) if waits[other][2] == args[1])
        elif kind == "ballot_sync":
            lane.answer = sum(1 << other for other in range(WARP) if waits[other][2])
        elif args:
            _, value, other = args
            source = {"shfl_sync": int(other) % WARP, "shfl_up_sync": here - int(other)}.get(kind, here + int(other))
            lane.answer = waits[source][2] if 0 <= source < WARP else value
        lane.n_met += kind == "syncwarp"
        lane.waits = ("begins",)


def _inside(arg: Any, name: str) -> Any:
    """An argument as device code sees it: fields of records are attributes."""
    if isinstance(arg, tuple):
        return tuple(_inside(item, f"{name}[{i}]") for i, item in enumerate(arg))
    array = getattr(arg, "_ary", arg)
    if not isinstance(array, np.ndarray):
        return _scalar(arg)
    return _watched(array.view(np.recarray) if array.dtype.names else array, name)


def _watched(array: np.ndarray, name: str) -> Any:
    return array if watch is None else Watched(watch, array, name)


def _scalar(value: Any) -> Any:
    """A number with the type that Numba gives it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return np.int64(value) if isinstance(value, int) else np.float64(value)


# ---- the module `cuda` ----

_lane: Any = None


def at_work() -> Any:
    """The thread that runs."""
    return _lane


class _Shared:
    """`cuda.shared`: the n-th array that a thread asks for is the n-th of its block."""

    def array(self, shape: Any, dtype: Any) -> np.ndarray:
        shared, n = _lane.block.shared, _lane.n_shared
        _lane.n_shared += 1
        if n == len(shared):
            shared.append(_watched(_rubbish(shape, numpy_support.as_dtype(dtype)), f"shared array {n}"))
        return shared[n]


class _Local:
    """`cuda.local`: arrays of one thread."""

    def array(self, shape: Any, dtype: Any) -> np.ndarray:
        return _rubbish(shape, numpy_support.as_dtype(dtype))


class _Atomic:
    """`cuda.atomic`: nobody else runs meanwhile."""

    def add(self, array: Any, index: Any, value: Any) -> Any:
        return self._change(array, index, lambda before: array.dtype.type(before + value))

    def max(self, array: Any, index: Any, value: Any) -> Any:
        return self._change(array, index, lambda before: max(before, value))

    def _change(self, array: Any, index: Any, to: Callable) -> Any:
        if isinstance(array, Watched):
            array.note_change(index)
            array = array.array
        before = array[index]
        array[index] = to(before)
        return before


def _rubbish(shape: Any, dtype: Any) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = RUBBISH
    return array


class Module:
    """`numba.cuda`; what kernels ask for is answered for the thread that runs."""

    shared, local, atomic = _Shared(), _Local(), _Atomic()
    cg = SimpleNamespace(this_grid=lambda: None)

    stream, event, synchronize = late.Stream, staticmethod(lambda timing: late.Event()), late.QUEUE.finish

    def __init__(self, cuda: Any):
        self._cuda = cuda
        late.delay_copies(type(cuda.device_array(1, np.uint8)))

    def legacy_default_stream(self) -> late.Stream:
        return late.DEFAULT

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cuda, name)

    def pinned_array(self, shape: Any, dtype: Any) -> np.ndarray:
        return _rubbish(shape, dtype)

    def device_array(self, shape: Any, dtype: Any) -> Any:
        array = self._cuda.device_array(shape, dtype)
        array._ary[...] = _rubbish(array._ary.shape, dtype)
        return array

    @property
    def threadIdx(self) -> Any:
        return SimpleNamespace(x=np.int32(_lane.t))

    @property
    def blockIdx(self) -> Any:
        return SimpleNamespace(x=np.int32(_lane.block.number))

    @property
    def blockDim(self) -> Any:
        return SimpleNamespace(x=np.int32(_lane.launch.n_threads))

    @property
    def gridDim(self) -> Any:
        return SimpleNamespace(x=np.int32(_lane.launch.n_blocks))

    def popc(self, value: Any) -> Any:
        return np.int32(int(value).bit_count())

    def grid(self, n_dimensions: int) -> Any:
        return np.int64(_lane.block.number * _lane.launch.n_threads + _lane.t)

    def gridsize(self, n_dimensions: int) -> Any:
        return np.int64(_lane.launch.n_blocks * _lane.launch.n_threads)


# ---- formulas ----


def _bits_of(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(np.int64 if x.dtype == np.float64 else np.uint32)[()]


def _float_of(bits: Any) -> Any:
    bits = np.asarray(bits)
    return bits.view(np.float64 if bits.dtype.itemsize == 8 else np.float32)[()]


_forms: dict[str, Any] = {"bits_of": _bits_of, "float_of": _float_of}


def python_form(part: Any) -> Any:
    """A compiled formula as a Python function; those that it calls are Python functions too."""
    function = getattr(part, "py_func", None)
    if function is None:  # Numba's intrinsics
        return _forms[part._name]
    name = f"{function.__module__}.{function.__qualname__}"
    if name not in _forms:
        _forms[name] = form = FunctionType(function.__code__, dict(function.__globals__), function.__name__)
        for called in function.__code__.co_names:
            value = function.__globals__.get(called)
            if called in ("bits_of", "float_of"):
                form.__globals__[called] = _forms[called]
            elif hasattr(value, "py_func"):
                form.__globals__[called] = python_form(value)
    return _forms[name]
