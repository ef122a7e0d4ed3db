"""What a simulated device was asked to do, done as late as it may be: when the host waits for it, in CUDA's order.

Launches, and copies in a stream, begin when they are asked for and end at any time. Who reads what they bring, or
writes over what they take, without waiting, finds here what he might find on a device on a bad day. The default
stream waits for all others and they for it, as numba-cuda makes them; others wait for nobody.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Stream:
    """Work that is done in its order. The default one is `DEFAULT`."""

    def synchronize(self) -> None:
        """Until all of it is done."""
        QUEUE.finish_stream(self)


class Event:
    """A place in the order of all that is asked for."""

    def __init__(self) -> None:
        self._at = 0

    def record(self, stream: Stream) -> None:
        """After what was asked for so far."""
        assert stream is DEFAULT, "streams that wait for nobody have no events here"
        self._at = QUEUE.n_asked

    def synchronize(self) -> None:
        """Until what was asked for before it is done."""
        QUEUE.finish(self._at)


class _Item(NamedTuple):
    number: int  # in the order of all
    stream: Stream
    do: Callable[[], Any]


class Queue:
    """Work that is not done yet."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self.n_asked = 0

    def add(self, stream: Any, do: Callable[[], Any]) -> None:
        """Ask for some work; 0 is the default stream too."""
        self._items.append(_Item(self.n_asked, stream or DEFAULT, do))
        self.n_asked += 1

    def finish(self, at: int | None = None) -> None:
        """Do all work, or that which was asked for before a place in the order."""
        while self._items and (at is None or self._items[0].number < at):
            self._items.pop(0).do()

    def finish_stream(self, stream: Stream) -> None:
        """Do the work of one stream, and of others what it has to wait for."""
        last = max((item.number for item in self._items if item.stream is stream), default=-1)
        waited = [item.number for item in self._items if item.stream is DEFAULT and item.number <= last]
        if waited:
            self.finish(waited[-1] + 1)
        for item in [item for item in self._items if item.stream is stream]:
            self._items.remove(item)
            item.do()


DEFAULT = Stream()
QUEUE = Queue()


def delay_copies(kind: Any) -> None:
    """Have the copies of a class of simulated arrays wait for what was asked for before, those of streams be late."""
    to_host, to_device = kind.copy_to_host, kind.copy_to_device

    def copy_to_host(self: Any, ary: Any = None, stream: Any = 0) -> Any:
        if stream:
            QUEUE.add(stream, lambda: to_host(self, ary))
            return ary
        QUEUE.finish()
        return to_host(self, ary)

    def copy_to_device(self: Any, ary: Any, stream: Any = 0) -> None:
        if stream:
            QUEUE.add(stream, lambda: to_device(self, ary))
            return
        QUEUE.finish()
        to_device(self, ary)

    kind.copy_to_host, kind.copy_to_device = copy_to_host, copy_to_device
