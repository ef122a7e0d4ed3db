"""Messages between workers over sockets: they arrive whole, or an error names the worker, in bounded time.

A message is a header (kind of call, type of the values, number of the call, length) and its bytes. Workers make the
same calls in the same order, so a receiver knows what a header must say: who says something else is out of step. A
worker that gives up or leaves says so in a last message; a connection that ends without one is a lost worker.
"""

import json
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from arboost.runtime.errors import CommError

_HEADER = struct.Struct("<2sBBIQ")  # magic, kind, type code, number of the call, bytes that follow
_MAGIC = b"ar"
_TICK = 0.25  # seconds after which a waiting thread looks whether it was told to stop
_GOODBYE = 2.0  # seconds for telling the others why; a worker that is stuck does not get to know
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
# Few sockets, watched for one wait each: poll needs no system call to add one
_SELECTOR = getattr(selectors, "PollSelector", selectors.DefaultSelector)
_CAN_GATHER = hasattr(socket.socket, "sendmsg")  # several buffers by one system call: not on Windows


class Kind(IntEnum):
    """What a message belongs to."""

    ALLREDUCE_SUM = 1
    ALLREDUCE_MAX = 2
    ALLGATHER = 3
    BROADCAST = 4
    ABORT = 5  # the sender gives up; JSON of the reason follows
    LEAVE = 6  # the sender is done


_KNOWN = {kind.value: kind for kind in Kind}
_LAST = (Kind.ABORT, Kind.LEAVE)


class Call(NamedTuple):
    """What all workers are doing at the moment."""

    kind: Kind
    type_code: int  # of the values that are reduced (`type_code`); 0 for bytes
    number: int  # counted from the group's first call on

    def __str__(self) -> str:
        what = f"{self.kind.name.lower()} (call {self.number}"
        return f"{what}, {_type_name(self.type_code)})" if self.type_code else f"{what})"


_KINDS = {"i": 0x10, "u": 0x20, "f": 0x30}


def type_code(dtype: np.dtype) -> int:
    """One byte for a type: the kind of number above, the bytes of one below."""
    if dtype.kind not in _KINDS:
        raise TypeError(f"workers reduce integers and floats, not {dtype}")
    return _KINDS[dtype.kind] + dtype.itemsize


def _type_name(code: int) -> str:
    kinds = {0x10: "int", 0x20: "uint", 0x30: "float"}
    return f"{kinds.get(code & 0xF0, 'type ')}{8 * (code & 0x0F)}"


@dataclass
class Traffic:
    """What a worker has sent and waited for so far."""

    calls: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0  # in collective calls, most of them waiting


class Link:
    """The connection to one worker: what it is still to be sent, and where what it sends is put."""

    def __init__(self, peer: int, sock: socket.socket):
        self.peer, self.sock = peer, sock
        self.outgoing: list[memoryview] = []
        self.room = memoryview(bytearray())  # what is to be filled before the message is whole
        self.payload: memoryview | None = None  # where the bytes after the header go; None: memory of their length
        self._header = memoryview(bytearray(_HEADER.size))
        self._inbox = np.empty(0, np.uint8)
        self.in_header = False

    def inbox(self, n_bytes: int) -> np.ndarray:
        """Memory for a message, used again by the next one."""
        if len(self._inbox) < n_bytes:
            self._inbox = np.empty(n_bytes, np.uint8)
        return self._inbox[:n_bytes]

    def give(self, call: Call, data: memoryview) -> None:
        """Put a message on its way."""
        self.outgoing.append(memoryview(_HEADER.pack(_MAGIC, *call, len(data))))
        if len(data):
            self.outgoing.append(data)

    def expect(self, payload: memoryview | None) -> None:
        """Wait for a message from now on."""
        self.room, self.payload, self.in_header = self._header, payload, True

    def header(self) -> tuple[Call | None, int]:
        """(call, length) of the header that is there; no call: it is none of ours."""
        magic, kind, code, number, n_bytes = _HEADER.unpack(self._header)
        if magic != _MAGIC or kind not in _KNOWN:
            return None, 0
        return Call(_KNOWN[kind], code, number), n_bytes

    @property
    def events(self) -> int:
        """What the socket must be ready for before this goes on.

        Who is still being sent something has nothing to say, unless it gives up and listens no more.
        """
        return _READ | _WRITE if self.outgoing else _READ if self.room else 0

    def send_some(self) -> int:
        """Send what the socket takes; the number of bytes."""
        n = sent = self.sock.sendmsg(self.outgoing) if _CAN_GATHER else self.sock.send(self.outgoing[0])
        while self.outgoing and n >= len(self.outgoing[0]):
            n -= len(self.outgoing.pop(0))
        if n:
            self.outgoing[0] = self.outgoing[0][n:]
        return sent


class Links:
    """A worker's connections to the others.

    Parameters
    ----------
    rank
        This worker's.
    sockets
        By the rank of the worker at the other end. They belong to this object from now on.
    timeout
        Seconds without a byte from or to anybody, within one exchange, after which a worker is given up; None: never.
    """

    def __init__(self, rank: int, sockets: dict[int, socket.socket], timeout: float | None):
        self.rank, self.timeout, self.traffic = rank, timeout, Traffic()
        self._links = {peer: Link(peer, _tuned(sock)) for peer, sock in sorted(sockets.items())}
        self._busy = threading.Lock()  # held during a call: whoever aborts in the meantime leaves word
        self._stop: str | None = None
        self._failure: CommError | None = None
        self._is_closed = False
        self._call = Call(Kind.ALLGATHER, 0, 0)

    def __getitem__(self, peer: int) -> Link:
        return self._links[peer]

    def __len__(self) -> int:
        return len(self._links)

    # ---- calls ----

    @contextmanager
    def calling(self, kind: Kind, code: int = 0) -> Iterator[None]:
        """One collective call of one or more exchanges."""
        with self._busy:
            self._check_open()
            self._call = Call(kind, code, self._call.number + 1 & 0xFFFFFFFF)
            self.traffic.calls += 1
            start = time.perf_counter()
            try:
                yield
            except BaseException as error:  # also Ctrl-C: half a message may be on its way
                self._failure = error if isinstance(error, CommError) else self._own_failure(type(error).__name__)
                raise
            finally:
                self.traffic.seconds += time.perf_counter() - start

    def _check_open(self) -> None:
        if self._stop is not None and self._failure is None:
            self._failure = self._own_failure(self._stop)
        if self._failure is not None:
            raise CommError(*_parts(self._failure))
        if self._is_closed:
            raise CommError("this worker's communicator is closed", self.rank)

    def _own_failure(self, reason: str) -> CommError:
        return CommError(f"worker {self.rank} gave up: {reason}", self.rank)

    def exchange(self, give: dict[int, memoryview], take: dict[int, memoryview | None]) -> None:
        """Send to some, receive from some; returns when all of it is done.

        What is received fills the memory in `take`, or for None becomes the link's `payload`. What is sent must stay
        as it is until then.
        """
        links = self._links
        for peer, data in give.items():
            links[peer].give(self._call, data)
        for peer, payload in take.items():
            links[peer].expect(payload)
        for peer in give:
            self._send(links[peer])
        for peer in take:
            self._receive(links[peer])
        waiting = [links[peer] for peer in give.keys() | take.keys() if links[peer].events]
        if waiting:
            self._wait(waiting)

    def _wait(self, waiting: Iterable[Link]) -> None:
        """Go on with every link whose socket is ready, until nothing is left to do."""
        last = time.monotonic()
        with _SELECTOR() as selector:
            for link in waiting:
                selector.register(link.sock, link.events, link)
            while selector.get_map():
                ready = selector.select(_TICK)
                now = time.monotonic()
                if ready:
                    last = now
                elif self.timeout is not None and now - last > self.timeout:
                    raise self._stuck([key.data for key in selector.get_map().values()])
                if self._stop is not None:
                    raise self._own_failure(self._stop)
                for key, events in ready:
                    link = key.data
                    if events & _WRITE:
                        self._send(link)
                    if events & _READ:
                        self._receive(link)
                    if not link.events:
                        selector.unregister(link.sock)
                    elif link.events != key.events:
                        selector.modify(link.sock, link.events, link)

    def _send(self, link: Link) -> None:
        while link.outgoing:
            try:
                self.traffic.bytes_sent += link.send_some()
            except BlockingIOError:
                return
            except OSError as error:
                raise self._ended(link, error) from None

    def _receive(self, link: Link) -> None:
        if link.outgoing and not link.room:
            raise self._ended(link, OSError("it sends what nobody waits for"))
        while link.room:
            try:
                n = link.sock.recv_into(link.room)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._ended(link, error) from None
            if n == 0:
                raise self._ended(link, None)
            self.traffic.bytes_received += n
            link.room = link.room[n:]
            if link.in_header and not link.room:
                self._open(link)

    def _open(self, link: Link) -> None:
        """Check a header, and make room for what follows."""
        call, n_bytes = link.header()
        if call is not None and call.kind in _LAST:
            raise self._farewell(link, call.kind, n_bytes)
        wanted = n_bytes if link.payload is None else len(link.payload)
        if call != self._call or n_bytes != wanted:
            there = "something unknown" if call is None else f"{call} of {n_bytes} bytes"
            here = str(self._call) if link.payload is None else f"{self._call} of {wanted} bytes"
            message = f"workers are out of step: worker {link.peer} is in {there}, worker {self.rank} in {here}"
            raise CommError(message, link.peer)
        if link.payload is None:
            link.payload = memoryview(bytearray(n_bytes))
        link.room, link.in_header = link.payload, False

    # ---- when something is wrong ----

    def _farewell(self, link: Link, kind: Kind, n_bytes: int) -> CommError:
        """What a worker's last message means."""
        if kind == Kind.LEAVE:
            return CommError(f"worker {link.peer} has left, and worker {self.rank} is still in {self._call}", link.peer)
        try:
            told = json.loads(_read_rest(link.sock, n_bytes))
            return CommError(str(told["message"]), told["peer"], bool(told["lost"]))
        except (OSError, ValueError, KeyError):
            return CommError(f"worker {link.peer} gave up", link.peer)

    def _ended(self, link: Link, error: OSError | None) -> CommError:
        """Why a connection has ended: what the worker said before it did, or that it was lost."""
        with suppress(OSError):
            while True:  # to the end of what it has sent: its messages of before come first
                link.room[:] = _read_rest(link.sock, len(link.room))
                if not link.in_header:
                    link.expect(None)
                    continue
                call, n_bytes = link.header()
                if call is None:
                    break
                if call.kind in _LAST:
                    return self._farewell(link, call.kind, n_bytes)
                link.room, link.in_header = memoryview(bytearray(n_bytes)), False
        why = "its connection was closed" if error is None else error.strerror or str(error)
        return CommError(f"worker {link.peer} was lost: {why} (in {self._call})", link.peer, lost=True)

    def _stuck(self, waiting: list[Link]) -> CommError:
        peers = ", ".join(str(link.peer) for link in waiting)
        silent = min(waiting, key=lambda link: (not link.room, link.peer))
        return CommError(
            f"worker {peers} does not answer: nothing has come for {self.timeout:g} s (in {self._call}). If it is only "
            "slow, give a larger timeout.",
            silent.peer,
            lost=True,
        )

    def abort(self, reason: str) -> None:
        """Tell the others why this worker gives up; from another thread than the one in a call, have that one do so."""
        if not self._busy.acquire(blocking=False):
            self._stop = self._stop or reason
            return
        try:
            if self._failure is None:
                self._failure = self._own_failure(reason)
            message, peer, lost = _parts(self._failure)
            self._say(Kind.ABORT, json.dumps({"message": message, "peer": peer, "lost": lost}).encode())
        finally:
            self._busy.release()

    def close(self) -> None:
        """Leave the group; the others notice when they wait for this worker again."""
        with self._busy:
            if self._failure is None:
                self._say(Kind.LEAVE, b"")
            self._is_closed = True
            for link in self._links.values():
                link.sock.close()

    def _say(self, kind: Kind, data: bytes) -> None:
        """A last message to all, after what is on its way to them; once, and not for long."""
        if self._is_closed:
            return
        self._is_closed = True
        links = [link for link in self._links.values() if link.sock.fileno() >= 0]
        for link in links:
            link.give(Call(kind, 0, self._call.number), memoryview(data))
        deadline = time.monotonic() + _GOODBYE
        with _SELECTOR() as selector:
            for link in links:
                link.sock.setblocking(False)
                selector.register(link.sock, _READ | _WRITE, link)
            while selector.get_map() and time.monotonic() < deadline:
                for key, events in selector.select(_TICK):
                    if _is_said(key.data, events):
                        selector.unregister(key.data.sock)
        for link in links:
            with suppress(OSError):
                link.sock.shutdown(socket.SHUT_WR)


def _parts(error: CommError) -> tuple[str, int | None, bool]:
    return str(error), error.peer, error.lost


def _is_said(link: Link, events: int) -> bool:
    """Go on with a last message; True when it is sent, or nobody is there to hear it.

    What still comes is dropped, for the other side may be unable to listen before it has sent it.
    """
    try:
        if events & _WRITE:
            link.send_some()
        if events & _READ and not link.sock.recv(1 << 20):
            return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    return not link.outgoing


def _read_rest(sock: socket.socket, n_bytes: int) -> bytes:
    """The next bytes of a worker that is going: they have arrived, or will not take long. OSError if they do not."""
    sock.settimeout(_GOODBYE)
    data = bytearray()
    while len(data) < n_bytes:
        part = sock.recv(min(n_bytes - len(data), 1 << 16))
        if not part:
            raise ConnectionError("the connection ended before the message")
        data += part
    return bytes(data)


def _tuned(sock: socket.socket) -> socket.socket:
    """Non-blocking; small messages leave at once; a machine that has vanished is noticed in a minute.

    Not while something is on its way to it: a worker that computes does not read either. Then the timeout counts.
    """
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 0}
        for name, value in options.items():
            if hasattr(socket, name):  # not on all systems
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock
