"""Sockets between Dask workers, over the ports that they listen on anyway: no tracker, no port of our own.

The one file that leans on parts of `distributed` that it does not document: `Worker.handlers`, which its own shuffle
uses too, and a TCP comm's `stream`. A worker connects to the worker port of every lower rank, says `op=arboost_channel`
with the session and its rank, and both take the connection over from Dask: its socket is duplicated, Dask's end is
closed. Nobody sends before the other side has done so, or Dask might swallow it. An encrypted stream stays in Dask's
event loop, which copies between it and a local pair of sockets. Workers of one process are given such a pair directly.
"""

import asyncio
import concurrent.futures
import platform
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from distributed.comm import CommClosedError, connect
from distributed.comm.addressing import parse_address
from distributed.core import Status

from arboost.runtime.errors import CommError, XGBoostError
from arboost.runtime.sockets import peers_of
from arboost.version import __version__

_OP = "arboost_channel"
_ACK, _GO = b"arboost\n", b"!"
_TICK = 0.2  # seconds after which a waiting worker looks whether it is still wanted
_PUMP_BYTES = 1 << 18
_STOPPED = "this worker was told to stop"
_KEPT_IDS = 1000  # of sessions that are over: who comes late is turned away


class _Lobby:
    """Where the connections of this process's workers wait to be fetched: (address, session) -> {rank: socket}."""

    def __init__(self) -> None:
        self._arrived: dict[tuple[str, str], dict[int, socket.socket]] = {}
        self._over: deque[tuple[str, str]] = deque(maxlen=_KEPT_IDS)
        self._stops: dict[tuple[str, str], Callable[[str], None]] = {}
        self._changed = threading.Condition()

    def deliver(self, address: str, session: str, rank: int, end: socket.socket) -> None:
        """A connection from worker `rank` has come."""
        with self._changed:
            if (address, session) in self._over:
                end.close()
                return
            self._arrived.setdefault((address, session), {})[rank] = end
            self._changed.notify_all()

    def fetch(
        self, address: str, session: str, ranks: set[int], is_wanted: Callable[[], bool]
    ) -> dict[int, socket.socket]:
        """The connections from these workers, when all have come: they may be busy with other work for long."""
        key = (address, session)
        with self._changed:
            while not ranks <= self._arrived.get(key, {}).keys():
                if key in self._over or not is_wanted():
                    raise CommError(_STOPPED)
                self._changed.wait(_TICK)
            return self._arrived.pop(key, {})

    def is_over(self, address: str, session: str) -> bool:
        """Whether a session was ended."""
        with self._changed:
            return (address, session) in self._over

    def on_stop(self, address: str, session: str, stop: Callable[[str], None]) -> None:
        """What to call when somebody wants the session to end."""
        with self._changed:
            if (address, session) in self._over:
                raise CommError(_STOPPED)
            self._stops[address, session] = stop

    def end(self, address: str, session: str, reason: str | None = None) -> None:
        """Forget a session; with a reason, end what runs of it."""
        key = (address, session)
        with self._changed:
            stop = self._stops.pop(key, None)
            for end in self._arrived.pop(key, {}).values():
                end.close()
            self._over.append(key)
            self._changed.notify_all()
        if stop is not None and reason is not None:
            stop(reason)


_lobby = _Lobby()


# ---- called on workers by the client, by `Client.run` ----


def open_door(dask_worker: Any = None) -> dict[str, str]:
    """Let this worker take connections; tells what must be the same on all workers."""
    dask_worker.handlers.setdefault(_OP, _Door(dask_worker.address).take)
    return {"arboost": __version__, "numpy": np.__version__, "processor": platform.machine()}


def stop_session(session: str, reason: str, dask_worker: Any = None) -> None:
    """End this worker's part of a training."""
    _lobby.end(dask_worker.address, session, reason)


# ---- called by the task that trains ----


def open_sockets(
    worker: Any, session: str, rank: int, addresses: list[str], timeout: float, is_wanted: Callable[[], bool]
) -> dict[int, socket.socket]:
    """A connected socket for every rank that this one talks to.

    Parameters
    ----------
    worker
        The Dask worker that this is.
    session
        Name of the training that all workers of it know.
    rank
        This worker's.
    addresses
        Dask addresses by rank.
    timeout
        Seconds to wait for a connection to be made. Waiting for the tasks of other workers to begin has no limit.
    is_wanted
        Asked now and then while waiting.

    Raises
    ------
    CommError
        A worker cannot be reached, or this one is not wanted any more.
    """
    ends: dict[int, socket.socket] = {}
    try:
        peers = peers_of(rank, len(addresses))
        for peer in [peer for peer in peers if peer < rank]:
            try:
                ends[peer] = _connect(worker, addresses[peer], session, rank, timeout, is_wanted)
            except OSError as error:
                message = f"worker {peer} at {addresses[peer]} cannot be reached: {str(error) or 'it does not answer'}"
                raise CommError(message, peer=peer, lost=True) from error
        ends |= _lobby.fetch(worker.address, session, {peer for peer in peers if peer > rank}, is_wanted)
        for peer in [peer for peer in peers if peer > rank]:
            _await_go(peer, ends[peer], timeout)
        return ends
    except BaseException:
        for end in ends.values():
            end.close()
        raise


def _await_go(peer: int, end: socket.socket, timeout: float) -> None:
    """Until the worker that has connected says that the connection is its own now."""
    end.settimeout(timeout)
    try:
        if end.recv(len(_GO)) == _GO:
            return
        why = "its connection was closed"
    except OSError as error:
        why = str(error)
    raise CommError(f"worker {peer} was lost: {why}", peer=peer, lost=True)


def on_stop(worker: Any, session: str, stop: Callable[[str], None]) -> None:
    """Have `stop` called, in another thread, when the client wants this worker to end its part."""
    _lobby.on_stop(worker.address, session, stop)


def leave(worker: Any, session: str) -> None:
    """This worker's part is over; connections that still come are closed."""
    _lobby.end(worker.address, session)


# ---- how a connection becomes a socket ----


def _connect(
    worker: Any, address: str, session: str, rank: int, timeout: float, is_wanted: Callable[[], bool]
) -> socket.socket:
    """A socket to the worker at `address`."""
    if parse_address(address)[0] == "inproc":
        end, other = socket.socketpair()
        _lobby.deliver(address, session, rank, other)
    else:
        call = asyncio.run_coroutine_threadsafe(_ask(worker, address, session, rank, timeout), worker.loop.asyncio_loop)
        while not concurrent.futures.wait([call], _TICK).done:
            if _lobby.is_over(worker.address, session) or not is_wanted():
                call.cancel()
                raise CommError(_STOPPED)
        end = call.result()
    end.setblocking(True)
    end.sendall(_GO)
    return end


async def _ask(worker: Any, address: str, session: str, rank: int, timeout: float) -> socket.socket:
    """Connect, say who we are, and wait for the answer, which comes from the other side's own socket."""
    deadline = time.monotonic() + timeout
    comm = await connect(address, timeout=timeout, **worker.connection_args)
    try:
        await comm.write({"op": _OP, "session": session, "rank": rank})
        answer = await asyncio.wait_for(_stream_of(comm).read_bytes(len(_ACK)), deadline - time.monotonic())
        if bytes(answer) != _ACK:
            raise OSError("it does not know arboost's connections; is the same version installed there?")
    except BaseException:
        comm.abort()
        raise
    return _take_over(comm)[0]


class _Door:
    """What a worker does with a connection that is meant for us."""

    def __init__(self, address: str):
        self._address = address

    async def take(self, comm: Any, session: str, rank: int) -> Any:
        """Handler of the operation: Dask hands over the connection and hears no more of it."""
        end, pump = _take_over(comm)
        with suppress(OSError):  # who has gone in the meantime is noticed by whoever fetches the connection
            end.send(_ACK)  # a few bytes: they fit
        _lobby.deliver(self._address, session, rank, end)
        if pump is not None:
            await pump  # Dask would read from the stream as soon as this returns
        return Status.dont_reply


def _stream_of(comm: Any) -> Any:
    stream = getattr(comm, "stream", None)
    if stream is None and comm.closed():
        raise CommClosedError("its connection was closed")
    if stream is None:
        kind = parse_address(comm.peer_address)[0]
        raise XGBoostError(f"Dask's protocol {kind}:// is not supported: use a cluster of tcp:// or tls:// addresses.")
    return stream


def _take_over(comm: Any) -> tuple[socket.socket, asyncio.Future | None]:
    """The socket under a comm, which is closed; of an encrypted one, the near end of a pair, and what feeds it."""
    stream = _stream_of(comm)
    if stream.socket is None:
        raise CommClosedError("its connection was closed")
    try:
        end: socket.socket = stream.socket.dup()
    except NotImplementedError:  # ssl
        near, far = socket.socketpair()
        _pumps.add(pump := asyncio.ensure_future(_pump(comm, far)))
        pump.add_done_callback(_pumps.discard)
        return near, pump
    comm.abort()
    return end, None


_pumps: set[asyncio.Future] = set()  # the event loop itself keeps no task alive


async def _pump(comm: Any, far: socket.socket) -> None:
    """Copy both ways until one side ends, then end the other."""
    loop, stream = asyncio.get_running_loop(), _stream_of(comm)
    far.setblocking(False)

    async def outwards() -> None:
        while data := await loop.sock_recv(far, _PUMP_BYTES):
            await stream.write(data)

    async def inwards() -> None:
        while True:
            await loop.sock_sendall(far, await stream.read_bytes(_PUMP_BYTES, partial=True))

    tasks = [asyncio.ensure_future(way()) for way in (outwards, inwards)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
        with suppress(OSError, asyncio.CancelledError):
            await task
    far.close()
    comm.abort()
