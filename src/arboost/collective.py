"""XGBoost's `collective`: how processes become workers of one training, and how a script talks to the others.

The workers are those of this thread's communicator (`runtime/comm.py`): processes that a tracker brings together
(`CommunicatorContext(dmlc_tracker_uri=...)`), that an MPI launcher has started (`CommunicatorContext()`), or that know
each other's addresses (`connect`). A process alone is rank 0 of 1, where every reduction is the identity.
"""

import pickle
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, unique
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from arboost.runtime import comm as comms
from arboost.runtime import mpi, rendezvous, sockets
from arboost.runtime.arguments import whole_number
from arboost.runtime.comm import LocalComm, current
from arboost.runtime.errors import XGBoostError
from arboost.runtime.mpi import MPIComm
from arboost.runtime.rendezvous import Listener, Membership
from arboost.runtime.sockets import SocketComm
from arboost.version import __version__

__all__ = [
    "CommunicatorContext",
    "Config",
    "Listener",
    "Op",
    "allreduce",
    "broadcast",
    "communicator_print",
    "connect",
    "finalize",
    "get_processor_name",
    "get_rank",
    "get_world_size",
    "init",
    "is_distributed",
    "signal_error",
]

T = TypeVar("T")
_DAY = 86_400.0


@dataclass
class Config:
    """How workers reach each other: what a distributed framework passes on to its communicators and tracker.

    Attributes
    ----------
    retry :
        How often a failed connection is tried again.
    timeout :
        Seconds that one operation of a communicator may take.
    tracker_host_ip, tracker_port, tracker_timeout :
        Where the tracker listens, and how long it waits for the workers.
    """

    retry: int | None = None
    timeout: int | None = None
    tracker_host_ip: str | None = None
    tracker_port: int | None = None
    tracker_timeout: int | None = None

    def get_comm_config(self, args: dict[str, Any]) -> dict[str, Any]:
        """`args` with this configuration's part for a communicator added."""
        for name in ("retry", "timeout"):
            value = getattr(self, name)
            if value is not None:
                args[f"dmlc_{name}"] = value
        return args


@unique
class Op(IntEnum):
    """How `allreduce` combines the workers' values."""

    MAX = 0
    MIN = 1
    SUM = 2
    BITWISE_AND = 3
    BITWISE_OR = 4
    BITWISE_XOR = 5


_UFUNCS: dict[Op, np.ufunc] = {
    Op.MAX: np.maximum,
    Op.MIN: np.minimum,
    Op.SUM: np.add,
    Op.BITWISE_AND: np.bitwise_and,
    Op.BITWISE_OR: np.bitwise_or,
    Op.BITWISE_XOR: np.bitwise_xor,
}


class _Session:
    """A communicator that was opened here, and what ends with it."""

    def __init__(self, comm: SocketComm | MPIComm, tracker: Membership | None = None):
        self.comm, self.tracker = comm, tracker

    def close(self) -> None:
        """Leave the group, done."""
        self.comm.close()
        if self.tracker is not None:
            self.tracker.leave()

    def fail(self, error: BaseException) -> None:
        """Leave the group and tell the others why. MPI ends all processes, this one too: the error is shown first."""
        reason = f"{type(error).__name__}: {error}"
        if isinstance(self.comm, MPIComm):
            traceback.print_exception(error)
        self.comm.abort(reason)
        self.comm.close()
        if self.tracker is not None:
            self.tracker.leave(reason)


class _Local(threading.local):
    session: _Session | None = None


_local = _Local()


def init(**args: Any) -> None:
    """Become a worker: this thread is one until `finalize`. `CommunicatorContext` does both, and is the safer way.

    Parameters
    ----------
    **args :
        XGBoost's names, in lower or upper case: `dmlc_tracker_uri` and `dmlc_tracker_port` (what a tracker's
        `worker_args` returns), `dmlc_task_id` (decides the rank where the tracker sorts by task), `dmlc_retry` (how
        often a failed connection is tried again, 3), `dmlc_timeout` (seconds to wait for a worker in one operation, and
        for all workers to come; 600, 0: no limit), `dmlc_communicator` ("rabit" or "mpi"). Without an address, a
        process that an MPI launcher has started becomes one of its world, and any other stays alone.

    Raises
    ------
    XGBoostError
        The arguments make no group, or, as a `CommError`, the group does not come together.
    """
    _open(args)


def _open(args: dict[str, Any]) -> bool:
    """Whether this thread has become a worker."""
    given = {name.lower(): value for name, value in args.items() if value is not None}
    kind = given.get("dmlc_communicator")
    if kind not in (None, "rabit", "federated", "mpi"):
        raise XGBoostError(f"Invalid communicator type {kind!r}: use 'rabit' or 'mpi', or leave it out.")
    if kind == "federated" or "federated_server_address" in given:
        raise XGBoostError("Federated learning is not available: use a tracker, MPI or `collective.connect`.")
    by_tracker = "dmlc_tracker_uri" in given or "dmlc_tracker_port" in given
    alone = isinstance(current(), LocalComm)
    if not by_tracker and kind != "mpi" and not (kind is None and alone and mpi.is_launched()):
        return False
    if not alone:
        raise XGBoostError(f"This thread is worker {get_rank()} of {get_world_size()} already: call `finalize` first.")
    session = _by_tracker(given) if by_tracker else _by_mpi()
    _local.session = session
    comms.set_current(session.comm)
    return True


def _by_tracker(given: dict[str, Any]) -> _Session:
    if not {"dmlc_tracker_uri", "dmlc_tracker_port"} <= given.keys():
        raise XGBoostError("A tracker has a `dmlc_tracker_uri` and a `dmlc_tracker_port`: pass its `worker_args()`.")
    host, port = rendezvous.parse_address((str(given["dmlc_tracker_uri"]), given["dmlc_tracker_port"]))
    timeout = whole_number("dmlc_timeout", given.get("dmlc_timeout", sockets.TIMEOUT), lower=0) or None
    retries = whole_number("dmlc_retry", given.get("dmlc_retry", rendezvous.RETRIES), lower=0)
    deadline = time.monotonic() + (timeout or _DAY)
    tracker = Membership(host, port, __version__, str(given.get("dmlc_task_id", "")), deadline, retries)
    try:
        place = (tracker.rank, tracker.addresses, tracker.listener, __version__, tracker.token)
        peers = rendezvous.meet(*place, deadline, retries)
        return _Session(SocketComm(tracker.rank, len(tracker.addresses), peers, timeout), tracker)
    except BaseException as error:
        tracker.leave(f"{type(error).__name__}: {error}")
        raise
    finally:
        tracker.listener.close()


def _by_mpi() -> _Session:
    """MPI's world; an error that nobody catches ends all of it: the others would wait for ever."""
    session, before = _Session(MPIComm()), sys.excepthook

    def end_all(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if _local.session is session:
            session.fail(error.with_traceback(where))
        before(kind, error, where)

    sys.excepthook = end_all
    return session


@contextmanager
def connect(
    rank: int,
    addresses: Sequence[str | tuple[str, int]],
    *,
    listener: Listener | None = None,
    group: str = "",
    timeout: float | None = sockets.TIMEOUT,
) -> Iterator[None]:
    """Be a worker for the length of a `with` block, among processes that know each other's addresses.

    All that a cluster's own tools, such as Ray's or Spark's, must do is to start the processes and let each know the
    addresses of all. An error that leaves the block is told to the other workers, who then raise it as a `CommError`.

    Parameters
    ----------
    rank :
        This process's place among the addresses; global rows are in the order of ranks.
    addresses :
        "host:port" of every worker.
    listener :
        Where this process listens, if it has made its address by a `Listener`; None: a new one at `addresses[rank]`.
    group :
        A name that only the workers of this group have; connections of others are refused.
    timeout :
        Seconds to wait for a worker in one operation, and for all workers to come; None: no limit.

    Examples
    --------
    >>> from arboost import collective
    >>> listener = collective.Listener("127.0.0.1")
    >>> with collective.connect(0, [listener.address], listener=listener):
    ...     collective.get_world_size()
    1
    """
    if not 0 <= rank < len(addresses):
        raise XGBoostError(f"Invalid rank {rank}: there are {len(addresses)} addresses, and ranks count from 0.")
    own = listener or Listener(*rendezvous.parse_address(addresses[rank]))
    try:
        deadline = time.monotonic() + (timeout or _DAY)
        peers = rendezvous.meet(rank, addresses, own, __version__, group, deadline)
    finally:
        own.close()
    comm = SocketComm(rank, len(addresses), peers, timeout)
    try:
        with comms.using(comm):
            yield
    finally:
        comm.close()


def finalize() -> None:
    """Leave the group that `init` has joined; without one there is nothing to do."""
    session, _local.session = _local.session, None
    if session is not None:
        comms.set_current(None)
        session.close()


def get_rank() -> int:
    """This worker's number among all, from 0 on."""
    return current().rank


def get_world_size() -> int:
    """Number of workers."""
    return current().world_size


def is_distributed() -> bool:
    """Whether this process is one of a group, be it the only one."""
    return not isinstance(current(), LocalComm)


def communicator_print(msg: Any) -> None:
    """Print a message, without the blanks around it: where the tracker runs, or else here."""
    session, text = _local.session, str(msg).strip()
    if session is None or session.tracker is None or not session.tracker.says(print=text):
        print(text, flush=True)


def get_processor_name() -> str:
    """The name of this machine."""
    return socket.gethostname()


def broadcast(data: T, root: int) -> T:
    """The data of worker `root`, on every worker.

    Parameters
    ----------
    data :
        What to send, anything that can be pickled; only the root's matters.
    root :
        Rank of the sender.
    """
    _check_rank(root)
    is_root = get_rank() == root
    if is_root and data is None:
        raise ValueError("need to pass in data when broadcasting: `data` is None on the worker that sends.")
    if not is_distributed():
        return data
    found: T = pickle.loads(current().broadcast(pickle.dumps(data) if is_root else None, root))
    return found


def allreduce(data: np.ndarray, op: Op) -> np.ndarray:
    """The workers' arrays combined element by element, in the order of their ranks: the same bits on all of them.

    Parameters
    ----------
    data :
        An array of integers or floats, of the same shape and type on every worker.
    op :
        How values are combined.

    Returns
    -------
    numpy.ndarray
        A new array, flat as in XGBoost.
    """
    if not isinstance(data, np.ndarray):
        raise TypeError(f"allreduce only takes in numpy.ndarray, got {type(data).__name__}; use numpy.asarray.")
    if data.dtype.kind not in "iuf":
        raise TypeError(f"data type {data.dtype} is not supported: convert to integers or floats.")
    combine, group = _UFUNCS[Op(op)], current()
    if combine in (np.bitwise_and, np.bitwise_or, np.bitwise_xor) and data.dtype.kind == "f" and is_distributed():
        raise XGBoostError(f"{Op(op).name} is for integers, not for {data.dtype}.")
    if data.dtype.kind in "iu" and combine in (np.add, np.maximum):  # no order matters: nobody needs all arrays
        flat = data.flatten()
        return group.allreduce_sum(flat) if combine is np.add else group.allreduce_max(flat)
    parts = [np.frombuffer(part, data.dtype) for part in group.allgather(data.tobytes())]
    if len({len(part) for part in parts}) > 1:
        raise XGBoostError(f"allreduce: the workers' arrays have different sizes: {[len(part) for part in parts]}.")
    total = parts[0].copy()
    for part in parts[1:]:
        combine(total, part, out=total)
    return total


def signal_error() -> None:
    """Tell the other workers that this one failed: their next call raises. Alone there is nobody to tell."""
    if not is_distributed():
        raise XGBoostError("signal_error: this process is not part of a distributed job; raise an exception instead.")
    current().abort("signal_error was called")


def _check_rank(root: int) -> None:
    if not 0 <= root < get_world_size():
        raise XGBoostError(f"Invalid root {root}: the ranks of {get_world_size()} worker(s) count from 0.")


class CommunicatorContext:
    """Being a worker for the length of a `with` block; the arguments are those of `init`.

    An error that leaves the block is told to the other workers, who then raise it as a `CommError`. (MPI knows no
    other way than to end all processes, after the error is printed.) Inside of workers that are connected already, a
    context without an address changes nothing.

    Examples
    --------
    >>> from arboost import collective
    >>> with collective.CommunicatorContext():
    ...     collective.get_world_size()
    1
    """

    def __init__(self, **args: Any) -> None:
        self.args = args
        self._opened = False

    def __enter__(self) -> dict[str, Any]:
        self._opened = _open(self.args)
        return self.args

    def __exit__(self, *args: Any) -> None:
        session, error = _local.session, args[1]
        if not self._opened or session is None:
            return
        self._opened = False
        if error is None or (isinstance(error, SystemExit) and not error.code):
            finalize()
            return
        _local.session = None
        comms.set_current(None)
        session.fail(error)
