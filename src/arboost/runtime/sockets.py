"""Workers that are processes, connected by sockets (`links.py`), whoever has made the connections.

Up to MESH_LIMIT workers, every one is connected to every other. Small arrays then go to everybody in one round; of
large ones each worker adds up its part and sends it round, which moves 2 (p - 1) / p of their bytes. More workers are
the corners of a hypercube, those beyond a power of two guests of a corner: log2(p) connections each, and as many rounds
of halving and doubling, where a ring would need p rounds and a star would carry all bytes through one machine.
"""

import socket
import struct
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from arboost.runtime.errors import XGBoostError
from arboost.runtime.links import Kind, Links, Traffic, type_code

MESH_LIMIT = 32
TIMEOUT = 600.0  # seconds without any byte from a worker that is waited for
_SMALL = 32_768  # bytes that everybody is sent as they are: one round is quicker than two of fewer bytes
_COUNT = struct.Struct("<I")
_PART = struct.Struct("<IQ")  # rank and length of what a worker has given


def peers_of(rank: int, world_size: int) -> list[int]:
    """The workers that a worker must be connected to."""
    if world_size <= MESH_LIMIT:
        return [peer for peer in range(world_size) if peer != rank]
    return _Cube(rank, world_size).peers


class SocketComm:
    """One of a group of processes (or threads).

    Parameters
    ----------
    rank, world_size
        This worker's number and how many there are.
    sockets
        Connected stream sockets by the rank of the worker at the other end, at least those of `peers_of`. They belong
        to this object from now on: `close` closes them.
    timeout
        Seconds without a byte from a worker that is waited for, after which it is given up as lost; None: never.
    """

    def __init__(self, rank: int, world_size: int, sockets: dict[int, socket.socket], timeout: float | None = TIMEOUT):
        lacking = [peer for peer in peers_of(rank, world_size) if peer not in sockets]
        if lacking:
            raise XGBoostError(f"worker {rank} of {world_size} is not connected to {lacking}.")
        self.rank, self.world_size = rank, world_size
        self._cube = _Cube(rank, world_size) if world_size > MESH_LIMIT else None
        self._peers = peers_of(rank, world_size)
        self._links = Links(rank, sockets, timeout)

    @property
    def traffic(self) -> Traffic:
        """Calls, bytes and seconds so far."""
        return self._links.traffic

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind not in "iu":
            raise TypeError(f"workers add up integers, not {values.dtype}: sums of floats depend on their order")
        return self._reduce(Kind.ALLREDUCE_SUM, values, np.add)

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        return self._reduce(Kind.ALLREDUCE_MAX, values, np.maximum)

    def _reduce(self, kind: Kind, values: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
        if not values.flags.c_contiguous:
            raise ValueError("workers reduce C-contiguous arrays")
        flat = values.reshape(-1)
        with self._links.calling(kind, type_code(values.dtype)):
            if self._cube is not None:
                self._reduce_in_cube(self._cube, flat, ufunc)
            elif flat.nbytes <= _SMALL:
                self._reduce_at_once(flat, ufunc)
            else:
                self._reduce_by_parts(flat, ufunc)
        return values

    def _reduce_at_once(self, flat: np.ndarray, ufunc: np.ufunc) -> None:
        """Everybody gets everything."""
        data = memoryview(flat.tobytes())
        parts = self._swap(dict.fromkeys(self._peers, data), flat)
        self._combine(ufunc, flat, parts)

    def _reduce_by_parts(self, flat: np.ndarray, ufunc: np.ufunc) -> None:
        """Everybody gets a part of the array from all, and sends what becomes of it to all."""
        bounds = [len(flat) * i // self.world_size for i in range(self.world_size + 1)]
        slices = [flat[first:last] for first, last in pairwise(bounds)]
        mine = slices[self.rank]
        parts = self._swap({peer: _bytes_of(slices[peer]) for peer in self._peers}, mine)
        self._combine(ufunc, mine, parts)
        give = dict.fromkeys(self._peers, _bytes_of(mine))
        self._links.exchange(give, {peer: _bytes_of(slices[peer]) for peer in self._peers})

    def _swap(self, give: dict[int, memoryview], like: np.ndarray) -> dict[int, np.ndarray]:
        """Send, and get an array like `like` from each of the same workers: in memory that the next call uses again."""
        boxes = {peer: self._links[peer].inbox(like.nbytes) for peer in give}
        self._links.exchange(give, {peer: box.data for peer, box in boxes.items()})
        return {peer: box.view(like.dtype) for peer, box in boxes.items()}

    def _combine(self, ufunc: np.ufunc, own: np.ndarray, parts: dict[int, np.ndarray]) -> None:
        """Reduce into `own`, in the order of ranks: which of 0.0 and -0.0 is the larger one may depend on it."""
        below = [parts[peer] for peer in sorted(parts) if peer < self.rank]
        for part in below[1:]:
            ufunc(below[0], part, out=below[0])
        if below:
            ufunc(below[0], own, out=own)
        for peer in sorted(parts):
            if peer > self.rank:
                ufunc(own, parts[peer], out=own)

    def _reduce_in_cube(self, cube: "_Cube", flat: np.ndarray, ufunc: np.ufunc) -> None:
        if cube.host is not None:
            self._links.exchange({cube.host: _bytes_of(flat)}, {})
            self._links.exchange({}, {cube.host: _bytes_of(flat)})
            return
        if cube.guest is not None:
            box = self._links[cube.guest].inbox(flat.nbytes)
            self._links.exchange({}, {cube.guest: box.data})
            ufunc(flat, box.view(flat.dtype), out=flat)
        if flat.nbytes <= _SMALL:
            for peer in cube.neighbours:
                self._combine(ufunc, flat, self._swap({peer: _bytes_of(flat)}, flat))
        else:
            self._halve_and_double(cube, flat, ufunc)
        if cube.guest is not None:
            self._links.exchange({cube.guest: _bytes_of(flat)}, {})

    def _halve_and_double(self, cube: "_Cube", flat: np.ndarray, ufunc: np.ufunc) -> None:
        """Keep the sums of one half after the other, then give them back in the other direction."""
        kept, steps = flat, []
        for peer in reversed(cube.neighbours):
            middle = len(kept) // 2
            lower, upper = kept[:middle], kept[middle:]
            kept, given = (lower, upper) if self.rank < peer else (upper, lower)
            self._combine(ufunc, kept, self._swap({peer: _bytes_of(given)}, kept))
            steps.append((peer, kept, given))
        for peer, whole, other in reversed(steps):
            self._links.exchange({peer: _bytes_of(whole)}, {peer: _bytes_of(other)})

    def allgather(self, data: bytes) -> list[bytes]:
        with self._links.calling(Kind.ALLGATHER):
            return self._gather(data)

    def _gather(self, data: bytes) -> list[bytes]:
        if self._cube is not None:
            return self._gather_in_cube(self._cube, data)
        self._links.exchange(dict.fromkeys(self._peers, memoryview(data)), dict.fromkeys(self._peers))
        return [data if rank == self.rank else self._taken(rank) for rank in range(self.world_size)]

    def _gather_in_cube(self, cube: "_Cube", data: bytes) -> list[bytes]:
        parts = {self.rank: data}
        if cube.host is not None:
            self._links.exchange({cube.host: memoryview(_pack(parts))}, {})
            self._links.exchange({}, {cube.host: None})
            parts = _unpack(self._taken(cube.host))
        if cube.guest is not None:
            self._links.exchange({}, {cube.guest: None})
            parts |= _unpack(self._taken(cube.guest))
        for peer in cube.neighbours:
            self._links.exchange({peer: memoryview(_pack(parts))}, {peer: None})
            parts |= _unpack(self._taken(peer))
        if cube.guest is not None:
            self._links.exchange({cube.guest: memoryview(_pack(parts))}, {})
        return [parts[rank] for rank in range(self.world_size)]

    def _taken(self, peer: int) -> bytes:
        """What a worker has just sent."""
        link = self._links[peer]
        payload, link.payload = link.payload, None
        return b"" if payload is None else bytes(payload)

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        is_root = self.rank == root
        if is_root and data is None:
            raise XGBoostError("nothing to broadcast: `data` is None on the worker that sends.")
        own = data if is_root and data is not None else b""
        with self._links.calling(Kind.BROADCAST):
            if self._cube is not None:
                return self._gather(own)[root]
            if is_root:
                self._links.exchange(dict.fromkeys(self._peers, memoryview(own)), {})
                return own
            self._links.exchange({}, {root: None})
            return self._taken(root)

    def abort(self, reason: str) -> None:
        """Give up, and say why; also from another thread while one is in a call, which then raises CommError."""
        self._links.abort(reason)

    def close(self) -> None:
        """Leave the group. Those who go on calling are told."""
        self._links.close()


class _Cube:
    """Who talks to whom in a hypercube of the largest power of two; a worker beyond it is guest of one below."""

    def __init__(self, rank: int, world_size: int):
        n_corners = 1 << (world_size.bit_length() - 1)
        self.host = rank - n_corners if rank >= n_corners else None
        self.guest = rank + n_corners if self.host is None and rank + n_corners < world_size else None
        n_bits = n_corners.bit_length() - 1
        self.neighbours = [] if self.host is not None else [rank ^ 1 << bit for bit in range(n_bits)]

    @property
    def peers(self) -> list[int]:
        others = (self.host, self.guest)
        return sorted([*self.neighbours, *(peer for peer in others if peer is not None)])


def _bytes_of(values: np.ndarray) -> memoryview:
    """The memory of a contiguous array, also of an empty one."""
    return values.view(np.uint8).data


def _pack(parts: dict[int, bytes]) -> bytes:
    """What several workers have given, as one message."""
    heads = (_PART.pack(rank, len(data)) for rank, data in parts.items())
    return b"".join([_COUNT.pack(len(parts)), *heads, *parts.values()])


def _unpack(message: bytes) -> dict[int, bytes]:
    (n,) = _COUNT.unpack_from(message)
    heads: Iterable[tuple[int, int]] = _PART.iter_unpack(message[_COUNT.size : _COUNT.size + n * _PART.size])
    parts, first = {}, _COUNT.size + n * _PART.size
    for rank, length in heads:
        parts[rank] = message[first : first + length]
        first += length
    return parts
