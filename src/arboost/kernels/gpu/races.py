"""Races of simulated threads: two of them touch a number, one writes it, and no barrier lies between.

On a device nothing then says who comes first, however often it goes well. Barriers order what was done before them for
those who wait there: of the grid, a block (`syncthreads`), a warp (`syncwarp`). Shuffles and atomics order nothing.
A kernel that is watched gets its arrays, in shared memory too, as `Watched`, which tells the watch of every access.
An index below zero is refused as well: Python counts such from the end, and it is no bound that was meant.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


class RaceError(RuntimeError):
    """Threads touch a number in no order."""


class Watch:
    """All accesses since the whole grid last met."""

    def __init__(self, at_work: Callable[[], Any], harmless: frozenset[tuple[str, str]] = frozenset()):
        self._at_work = at_work  # asks which thread is
        self._harmless = harmless  # pairs of functions that may
        self._cells: dict[int, _Cell] = {}
        self.n_accesses = 0

    def forget(self) -> None:
        """The whole grid has met, or a launch begins."""
        self._cells.clear()

    def note(self, address: int, kind: str, what: tuple, depth: int = 2) -> None:
        """The thread that is at work reads, writes or atomically changes a number, `depth` calls above."""
        self.n_accesses += 1
        lane, cell = self._at_work(), self._cells.get(address)
        if cell is None:
            cell = self._cells[address] = _Cell()
        frame: Any = sys._getframe(depth)
        now = (lane, lane.block.n_met, lane.n_met, frame.f_code, frame.f_lineno)
        if cell.writer is not None:
            self._check(cell.writer, now, "written", kind, what)
        if kind != "read":
            for before in cell.readers.values():
                self._check(before, now, "read", kind, what)
        if kind != "changed":
            for before in cell.changers.values():
                self._check(before, now, "changed", kind, what)
        if kind == "written":
            cell.writer = now
            cell.readers.clear()
            cell.changers.clear()
        else:
            (cell.readers if kind == "read" else cell.changers)[lane] = now

    def _check(self, before: tuple, now: tuple, was: str, kind: str, what: tuple) -> None:
        other, n_block, n_warp = before[:3]
        lane = now[0]
        if (
            other is lane
            or (other.block is lane.block and n_block < lane.block.n_met)
            or (other.warp is lane.warp and n_warp < lane.n_met)
        ):
            return
        names = before[3].co_name, now[3].co_name
        if names in self._harmless or names[::-1] in self._harmless:
            return
        places = [
            f"{entry[3].co_filename.rpartition('/')[2]}:{entry[4]} ({entry[3].co_name})" for entry in (before, now)
        ]
        who = [f"thread {entry[0].t} of block {entry[0].block.number}" for entry in (before, now)]
        name = what[0] + "".join(f"[{part}]" for part in what[1:])
        raise RaceError(
            f"{name}: {was} by {who[0]} at {places[0]}, {kind} by {who[1]} at {places[1]}: nothing orders them"
        )


class _Cell:
    """Who touched a number last; a plain write comes after all that were before."""

    __slots__ = ("changers", "readers", "writer")

    def __init__(self) -> None:
        self.writer: tuple | None = None
        self.readers: dict[Any, tuple] = {}
        self.changers: dict[Any, tuple] = {}


class Watched:
    """An array, or a part of one, as kernels see it while they are watched."""

    __slots__ = ("_address", "_name", "_strides", "_watch", "array", "dtype", "ndim", "shape")

    def __init__(self, watch: Watch, array: np.ndarray, name: str):
        self._watch, self.array, self._name = watch, array, name
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype
        self._address, self._strides = array.__array_interface__["data"][0], array.strides

    def _place(self, index: Any) -> int:
        """The address of a number, -1 for more than one."""
        at = index if isinstance(index, tuple) else (index,)
        if len(at) < self.ndim or any(isinstance(i, slice) for i in at):
            return -1
        address = self._address
        for i, size, stride in zip(at, self.shape, self._strides, strict=True):
            if not 0 <= i < size:
                raise RaceError(f"{self._name}{[int(i) for i in at]} lies outside {self.shape}")
            address += int(i) * stride
        return address

    def __getitem__(self, index: Any) -> Any:
        address = self._place(index)
        if address < 0:
            return Watched(self._watch, self.array[index], self._name)
        if self.dtype.names:
            return _Record(self._watch, self.array[index], address, (self._name, index))
        self._watch.note(address, "read", (self._name, index))
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._watch.note(self._place(index), "written", (self._name, index))
        self.array[index] = value

    def note_change(self, index: Any) -> None:
        """An atomic operation changes a number."""
        self._watch.note(self._place(index), "changed", (self._name, index), 4)


class _Record:
    """One record: its fields are attributes."""

    __slots__ = ("_address", "_name", "_record", "_watch")

    def __init__(self, watch: Watch, record: Any, address: int, name: tuple):
        for slot, value in zip(_Record.__slots__, (address, name, record, watch), strict=True):
            object.__setattr__(self, slot, value)

    def _note(self, field: str, kind: str) -> None:
        offset = self._record.dtype.fields[field][1]
        self._watch.note(self._address + offset, kind, (*self._name, field), 3)

    def __getattr__(self, field: str) -> Any:
        self._note(field, "read")
        return getattr(self._record, field)

    def __setattr__(self, field: str, value: Any) -> None:
        self._note(field, "written")
        setattr(self._record, field, value)
