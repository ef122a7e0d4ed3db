"""XGBoost's `collective`: how a script, such as a custom objective's, talks to the workers that train with it.

The workers are those of this thread's communicator (`runtime/comm.py`); a process alone is rank 0 of 1, where every
reduction is the identity. A communicator that would need a tracker's address, or the federated kind, is refused.
"""

import pickle
import socket
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Any, TypeVar

import numpy as np

from arboost.runtime.comm import current
from arboost.runtime.errors import XGBoostError

__all__ = [
    "CommunicatorContext",
    "Config",
    "Op",
    "allreduce",
    "broadcast",
    "communicator_print",
    "finalize",
    "get_processor_name",
    "get_rank",
    "get_world_size",
    "init",
    "is_distributed",
    "signal_error",
]

T = TypeVar("T")
_ELSEWHERE = ("dmlc_tracker_uri", "dmlc_tracker_port", "federated_server_address")


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


def init(**args: Any) -> None:
    """Open the communicator: checks the arguments; workers that run in one process are connected already.

    Parameters
    ----------
    **args :
        XGBoost's names: `dmlc_communicator` ("rabit"), `dmlc_retry`, `dmlc_timeout`, `dmlc_task_id` and so on, in
        lower or upper case. An address of a tracker or a server is refused: workers do not connect over a network.
    """
    given = {name.lower(): value for name, value in args.items() if value is not None}
    kind = given.get("dmlc_communicator", "rabit")
    if kind not in ("rabit", "federated"):
        raise XGBoostError(f"Invalid communicator type {kind!r}: use 'rabit', or leave `dmlc_communicator` out.")
    remote = [name for name in _ELSEWHERE if name in given]
    if kind == "federated" or remote:
        why = f"`{remote[0]}` is given" if remote else "the federated communicator is asked for"
        raise XGBoostError(f"Distributed training is not available in this version, but {why}; train in one process.")


def finalize() -> None:
    """Close the communicator; there is nothing to close."""


def get_rank() -> int:
    """This worker's number among all, from 0 on."""
    return current().rank


def get_world_size() -> int:
    """Number of workers."""
    return current().world_size


def is_distributed() -> bool:
    """Whether there are other workers."""
    return get_world_size() > 1


def communicator_print(msg: Any) -> None:
    """Print a message, without the blanks around it; of several workers the tracker would print it."""
    print(str(msg).strip(), flush=True)


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
    """The communicator for the length of a `with` block.

    Examples
    --------
    >>> from arboost import collective
    >>> with collective.CommunicatorContext():
    ...     collective.get_world_size()
    1
    """

    def __init__(self, **args: Any) -> None:
        self.args = args

    def __enter__(self) -> dict[str, Any]:
        init(**self.args)
        return self.args

    def __exit__(self, *args: Any) -> None:
        finalize()
