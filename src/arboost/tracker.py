"""XGBoost's `tracker`: gives the processes of a group their ranks and each other's addresses.

It runs in a thread of the process that starts the others, takes no part in training, and ends when all workers have
left. The workers talk to each other directly (`runtime/rendezvous.py`).
"""

import re
import secrets
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from arboost.runtime import rendezvous, settings
from arboost.runtime.arguments import positional_with_warning, whole_number
from arboost.runtime.errors import XGBoostError
from arboost.version import __version__

__all__ = ["RabitTracker", "get_family"]

_TICK = 0.1  # seconds after which the thread looks whether it is to stop


def get_family(addr: str) -> int:
    """IPv4 or IPv6, by Python's number for it."""
    return rendezvous.family_of(addr)


class RabitTracker:
    """Brings the workers of a group together.

    Parameters
    ----------
    n_workers :
        How many there are.
    host_ip :
        Address of this machine at which the workers reach it; None: the one that its packets leave by.
    port :
        Port to listen at; 0: a free one.
    sortby :
        How ranks are given: "host", by the workers' machines, or "task", by their `dmlc_task_id`. Numbers in an id
        count as numbers: "worker-10" comes after "worker-9". The rows of a group are in the order of ranks.
    timeout :
        Seconds for the workers to come, and for all to leave once one has left; 0: as long as it takes.

    Examples
    --------
    >>> from arboost.tracker import RabitTracker
    >>> tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1")
    >>> tracker.start()
    >>> sorted(tracker.worker_args())  # for collective.CommunicatorContext in each worker
    ['dmlc_tracker_port', 'dmlc_tracker_uri']
    >>> tracker.free()
    """

    @positional_with_warning
    def __init__(
        self, n_workers: int, host_ip: str | None, port: int = 0, *, sortby: str = "host", timeout: int = 0
    ) -> None:
        if sortby not in ("host", "task"):
            raise ValueError(f"Expecting either 'host' or 'task' for sortby, got {sortby!r}.")
        if whole_number("n_workers", n_workers) < 1:
            raise XGBoostError(f"n_workers must be at least 1, got {n_workers}.")
        if host_ip is not None:
            get_family(host_ip)  # an invalid address ends here
        self._listener = rendezvous.Listener(host_ip, port)
        self._service = _Service(self._listener, int(n_workers), sortby, float(timeout))
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to serve, in a thread; `wait_for` waits for its end."""
        if self._thread is not None:
            raise XGBoostError("The tracker is started already.")
        self._thread = threading.Thread(target=self._service.run, name="arboost-tracker", daemon=True)
        self._thread.start()

    def worker_args(self) -> dict[str, str | int]:
        """Arguments for the `collective.CommunicatorContext` of every worker."""
        return {"dmlc_tracker_uri": self._listener.host, "dmlc_tracker_port": self._listener.port}

    def wait_for(self, timeout: int | None = None) -> None:
        """Wait until all workers have left.

        Parameters
        ----------
        timeout :
            Seconds after which the tracker is stopped; None: as long as it takes.

        Raises
        ------
        XGBoostError
            The time is over, the group did not come together, or a worker failed.
        """
        if self._thread is None:
            raise XGBoostError("The tracker is not started.")
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.free()
            raise XGBoostError(f"Timeout waiting for the tracker: its workers have not left after {timeout} s.")
        if self._service.failure is not None:
            raise XGBoostError(self._service.failure)

    def free(self) -> None:
        """Stop the tracker; workers that are connected to each other go on."""
        self._service.stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._listener.close()

    def __del__(self) -> None:
        if hasattr(self, "_service"):
            self._service.stopped.set()


class _Client:
    """A connection to the tracker, and what is known about who is at its other end."""

    def __init__(self, sock: socket.socket):
        sock.setblocking(False)
        self.socket = sock
        self.greeting: dict[str, Any] | None = None
        self.rank: int | None = None
        self._buffer = bytearray()

    def read(self) -> list[dict[str, Any]]:
        """Messages that have come; OSError where the worker has gone, or is none."""
        with suppress(BlockingIOError):
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the connection ended")
            self._buffer += data
        return rendezvous.unpack(self._buffer)

    def answer(self, **content: Any) -> None:
        """Send something, unless nobody is there any more: reading will tell."""
        with suppress(OSError):
            self.socket.settimeout(5.0)
            self.socket.sendall(rendezvous.pack(content))
            self.socket.setblocking(False)

    @property
    def host(self) -> str:
        """The worker's machine, as the other workers reach it."""
        return rendezvous.parse_address(self.greeting["address"])[0] if self.greeting else ""


class _Service:
    """What the tracker's thread does: first the workers come, then they have ranks, in the end they leave."""

    def __init__(self, listener: rendezvous.Listener, n_workers: int, sortby: str, timeout: float):
        self.failure: str | None = None
        self.stopped = threading.Event()
        self._listener, self._n_workers, self._sortby, self._timeout = listener, n_workers, sortby, timeout
        self._selector = selectors.DefaultSelector()
        self._clients: list[_Client] = []
        self._is_complete = False
        self._n_left = 0  # workers with a rank that are gone
        self._deadline: float | None = None

    def run(self) -> None:
        """Serve until all workers have left, or the group cannot come together."""
        self._listener.socket.setblocking(False)
        with self._selector, self._listener.socket:
            self._selector.register(self._listener.socket, selectors.EVENT_READ)
            self._limit_time()
            while len(self._members()) < self._n_workers:
                self._look(f"{self._n_workers} workers have not come")
                if self.failure is not None:
                    break
            else:
                self._give_ranks()
                while self._n_left < self._n_workers and not self.stopped.is_set():
                    self._look("not all workers have left")
            for client in list(self._clients):
                client.answer(refused=self.failure or "the tracker was stopped")
                self._drop(client)

    def _limit_time(self) -> None:
        self._deadline = time.monotonic() + self._timeout if self._timeout > 0 else None

    def _members(self) -> list[_Client]:
        return [client for client in self._clients if client.greeting is not None]

    def _look(self, overdue: str) -> None:
        """Attend to whoever has something to say, for a moment."""
        for key, _ in self._selector.select(_TICK):
            if key.data is None:
                self._welcome()
            else:
                self._hear(key.data)
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._fail(f"{overdue} within {self._timeout:g} s")
            self.stopped.set()
        elif self.stopped.is_set():
            self._fail("the tracker was stopped")

    def _fail(self, reason: str) -> None:
        """The first reason stands: others follow from it."""
        self.failure = self.failure or reason

    def _welcome(self) -> None:
        with suppress(OSError):
            client = _Client(self._listener.socket.accept()[0])
            self._clients.append(client)
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def _hear(self, client: _Client) -> None:
        try:
            messages = client.read()
        except OSError as error:
            if client.rank is not None:
                self._fail(f"worker {client.rank} on {client.host} ended without leaving")
            elif client.greeting is None:
                settings.say(2, f"The tracker turns a caller away: {error}.")
            self._drop(client)
            return
        for message in messages:
            if client.greeting is None:
                self._greet(client, message)
            elif "print" in message:
                print(message["print"], flush=True)
            elif "done" in message:
                if message.get("error"):
                    self._fail(f"worker {client.rank} gave up: {message['error']}")
                self._drop(client)

    def _greet(self, client: _Client, message: dict[str, Any]) -> None:
        why = rendezvous.difference(rendezvous.greeting(__version__), message)
        if self._is_complete or len(self._members()) == self._n_workers:
            why = f"the group of {self._n_workers} worker(s) is complete"
        elif why is not None:  # without this worker the group never comes together
            self._fail(f"a worker is refused: {why}")
        if why is None:
            client.greeting = message
            return
        client.answer(refused=why)
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._selector.unregister(client.socket)
            client.socket.close()
            if client.rank is not None:
                if self._n_left == 0:
                    self._limit_time()
                self._n_left += 1

    def _give_ranks(self) -> None:
        by_host = self._sortby == "host"
        members = sorted(self._members(), key=lambda client: _order(client, by_host))  # then as they came
        addresses = [client.greeting["address"] for client in members if client.greeting]
        token = secrets.token_hex(16)
        self._deadline, self._is_complete = None, True
        for rank, client in enumerate(members):
            client.rank = rank
            client.answer(rank=rank, addresses=addresses, token=token)


def _order(client: _Client, by_host: bool) -> tuple:
    task = _by_numbers(str(client.greeting["task_id"])) if client.greeting else []
    return (_by_numbers(client.host), task) if by_host else (task,)


def _by_numbers(text: str) -> list[str | int]:
    """Text and numbers in turn, so that "task-10" comes after "task-9"."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", text))]
