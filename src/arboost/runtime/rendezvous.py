"""How processes find each other: by a tracker that all know (`arboost.tracker`), or by a list of addresses.

Either way every process listens, and in the end the higher rank of a pair has connected to the lower. Before that
connection carries anything, both ends say which protocol and version they speak and which group they mean; who
differs is refused by name. Messages are JSON after their length. Nothing is encrypted: for networks that are trusted.
"""

import json
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from arboost.runtime.errors import CommError, XGBoostError
from arboost.runtime.sockets import peers_of

PROTOCOL = f"arboost workers 1, {sys.byteorder}-endian"
RETRIES = 3
_LENGTH = struct.Struct("<4sI")
_MAGIC = b"arbo"
_LONGEST = 1 << 24  # bytes of a message; longer ones are not ours
_PAUSE = 0.25  # seconds between two tries to connect
_GREETING = 10.0  # seconds that a stranger has to say who it is

Address = str | tuple[str, int]


# ---- messages ----


def pack(content: dict[str, Any]) -> bytes:
    """A message."""
    data = json.dumps(content).encode()
    return _LENGTH.pack(_MAGIC, len(data)) + data


def unpack(buffer: bytearray) -> list[dict[str, Any]]:
    """Take whole messages off the front of what has been received.

    Raises
    ------
    ConnectionError
        It is none of our messages.
    """
    found = []
    while len(buffer) >= _LENGTH.size:
        end = _LENGTH.size + _length_in(bytes(buffer[: _LENGTH.size]))
        if len(buffer) < end:
            break
        found.append(_content_of(bytes(buffer[_LENGTH.size : end])))
        del buffer[:end]
    return found


def _length_in(head: bytes) -> int:
    magic, length = _LENGTH.unpack(head)
    if magic != _MAGIC or length > _LONGEST:
        raise ConnectionError("the other side does not speak arboost's protocol")
    return int(length)


def _content_of(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConnectionError("the other side does not speak arboost's protocol")
    return content


def receive(sock: socket.socket, deadline: float) -> dict[str, Any]:
    """One message and not a byte more, before a time of `time.monotonic`; OSError if it does not come."""
    return _content_of(_receive_bytes(sock, _length_in(_receive_bytes(sock, _LENGTH.size, deadline)), deadline))


def _receive_bytes(sock: socket.socket, n_bytes: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < n_bytes:
        sock.settimeout(_left(deadline))
        part = sock.recv(n_bytes - len(data))
        if not part:
            raise ConnectionError("the other side closed the connection")
        data += part
    return bytes(data)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left


def greeting(version: str, **more: Any) -> dict[str, Any]:
    """What both ends of a connection say first."""
    return {"protocol": PROTOCOL, "version": version, **more}


def difference(own: dict[str, Any], other: dict[str, Any]) -> str | None:
    """In what two greetings differ so that their processes cannot work together, or None."""
    for what in ("protocol", "version"):
        if own[what] != other.get(what):
            return f"it has {what} {other.get(what)!r}, this one {own[what]!r}: all workers must run the same arboost"
    return None


# ---- addresses ----


def parse_address(address: Address) -> tuple[str, int]:
    """(host, port) of "host:port", "[::1]:port" or a pair."""
    try:
        host, port = address.rsplit(":", 1) if isinstance(address, str) else address
        return str(host).strip("[]"), int(port)
    except (TypeError, ValueError):
        raise XGBoostError(f"An address is 'host:port', got {address!r}.") from None


def own_host() -> str:
    """The address of this machine by which others are likely to reach it."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which way packets would leave
        return str(probe.getsockname()[0])
    with suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def family_of(host: str) -> socket.AddressFamily:
    """IPv4 or IPv6; OSError (socket.gaierror) where there is no such host."""
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]


class Listener:
    """A port at which the other workers find this process.

    Parameters
    ----------
    host
        Name or address of this machine as the others know it; None: the one that this machine's packets leave by.
    port
        0: a free one.
    """

    def __init__(self, host: str | None = None, port: int = 0):
        self.host = host or own_host()
        try:
            self.socket = socket.create_server((self.host, port), family=family_of(self.host), backlog=1024)
        except OSError as error:
            raise XGBoostError(f"Cannot listen at {self.host}:{port}: {error}.") from None
        self.port: int = self.socket.getsockname()[1]

    @property
    def address(self) -> str:
        """ "host:port", to be told to the others."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()


# ---- workers ----


def connect(host: str, port: int, deadline: float, retries: int | None = None) -> socket.socket:
    """A connection, tried again while nobody listens there: so often, or (None) until the deadline; OSError."""
    tries = 0
    while True:
        try:
            return socket.create_connection((host, port), timeout=_left(deadline))
        except OSError:
            tries += 1
            if (retries is not None and tries > retries) or time.monotonic() + _PAUSE > deadline:
                raise
            time.sleep(_PAUSE)


def meet(
    rank: int,
    addresses: Sequence[Address],
    listener: Listener,
    version: str,
    token: str,
    deadline: float,
    retries: int | None = None,
) -> dict[int, socket.socket]:
    """Connect to every worker that this one talks to; all of them call this at about the same time.

    Parameters
    ----------
    rank
        This worker's place among the addresses.
    addresses
        Of all workers, by rank.
    listener
        Where this worker listens.
    version
        Of the package.
    token
        A text that only the workers of this group have.
    deadline
        Time of `time.monotonic` until which all must have come.
    retries
        How often to try again where a worker does not listen yet; None: until the deadline.
    """
    peers = peers_of(rank, len(addresses))
    found: dict[int, socket.socket] = {}
    try:
        for peer in peers:
            if peer < rank:
                host, port = parse_address(addresses[peer])
                greet = greeting(version, token=token, rank=rank, world_size=len(addresses))
                found[peer] = _call_on(peer, host, port, greet, deadline, retries)
        _wait_for(listener, {peer for peer in peers if peer > rank}, found, version, token, len(addresses), deadline)
    except BaseException:
        for sock in found.values():
            sock.close()
        raise
    return found


def _call_on(
    peer: int, host: str, port: int, greet: dict[str, Any], deadline: float, retries: int | None
) -> socket.socket:
    """A connection to a worker of lower rank, which agrees to it."""
    where = f"worker {peer} at {host}:{port}"
    try:
        sock = connect(host, port, deadline, retries)
    except OSError as error:
        raise CommError(f"{where} cannot be reached: {error}", peer, lost=True) from None
    try:
        sock.sendall(pack(greet))
        answer = receive(sock, deadline)
    except OSError as error:
        sock.close()
        raise CommError(f"{where} does not answer: {error}", peer, lost=True) from None
    if "refused" in answer:
        sock.close()
        raise CommError(f"{where} refuses worker {greet['rank']}: {answer['refused']}", peer)
    return sock


def _wait_for(
    listener: Listener,
    missing: set[int],
    found: dict[int, socket.socket],
    version: str,
    token: str,
    world_size: int,
    deadline: float,
) -> None:
    """Take the calls of workers of higher rank into `found`; who is not one of them is turned away."""
    own = greeting(version, token=token, world_size=world_size)
    while missing:
        try:
            listener.socket.settimeout(_left(deadline))
            sock, _ = listener.socket.accept()
        except TimeoutError:
            late = ", ".join(map(str, sorted(missing)))
            raise CommError(f"worker {late} did not come in time", min(missing), lost=True) from None
        try:
            greet = receive(sock, min(deadline, time.monotonic() + _GREETING))
            why = difference(own, greet) or _not_expected(own, greet, missing)
            sock.sendall(pack({"refused": why} if why else {}))
        except OSError:
            sock.close()
            continue
        if why is None:
            found[greet["rank"]] = sock
            missing.discard(greet["rank"])
            continue
        sock.close()
        if greet.get("token") == token:
            raise CommError(f"worker {greet.get('rank')} is refused: {why}", greet.get("rank"))


def _not_expected(own: dict[str, Any], greet: dict[str, Any], missing: set[int]) -> str | None:
    if greet.get("token") != own["token"]:
        return "it belongs to another group of workers"
    if greet.get("world_size") != own["world_size"]:
        return f"it knows {greet.get('world_size')} workers, this one {own['world_size']}"
    return None if greet.get("rank") in missing else f"a worker {greet.get('rank')} is not waited for (any more)"


class Membership:
    """A worker's place in the group that a tracker has put together, and its line to the tracker.

    Raises
    ------
    CommError
        The tracker cannot be reached, refuses this worker, or does not get all workers together in time.
    """

    def __init__(self, host: str, port: int, version: str, task_id: str, deadline: float, retries: int):
        where = f"the tracker at {host}:{port}"
        try:
            self._socket = connect(host, port, deadline, retries)
        except OSError as error:
            raise CommError(f"{where} cannot be reached: {error}") from None
        try:
            self.listener = Listener(self._socket.getsockname()[0])
            self.say(**greeting(version, task_id=task_id, address=self.listener.address))
            place = receive(self._socket, deadline)
        except OSError as error:
            self.close()
            raise CommError(f"{where} gives no rank: {error}. Have all workers come?") from None
        if "refused" in place:
            self.close()
            raise CommError(f"{where} refuses this worker: {place['refused']}")
        self.rank: int = place["rank"]
        self.addresses: list[str] = place["addresses"]
        self.token: str = place["token"]

    def say(self, **content: Any) -> None:
        """Tell the tracker something."""
        self._socket.sendall(pack(content))

    def says(self, **content: Any) -> bool:
        """Tell the tracker something, unless it is gone: workers can do without it."""
        try:
            self.say(**content)
        except OSError:
            return False
        return True

    def leave(self, error: str | None = None) -> None:
        """Say that this worker is done, or why it fails; a tracker that is gone already does not mind."""
        self.says(done=True, error=error)
        self.close()

    def close(self) -> None:
        """End the line without a word, as a worker that has died would."""
        self._socket.close()
        if hasattr(self, "listener"):
            self.listener.close()
