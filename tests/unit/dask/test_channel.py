"""Connections of Dask become sockets: nothing of what is sent first is lost, and a peer that goes is an OSError."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

from distributed.comm import listen

from arboost.dask import channel
from arboost.runtime.errors import CommError


@pytest.fixture
def loop():
    """An event loop in a thread of its own, as a Dask worker has it."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


def start_worker(loop, answer=None):
    """Something that listens as a worker does, and knows one operation; `answer` is what it does instead."""
    worker = SimpleNamespace(loop=SimpleNamespace(asyncio_loop=loop), connection_args={}, handlers={})

    async def serve(comm):
        message = await comm.read()
        handler = worker.handlers[message.pop("op")]
        await (answer or handler)(comm, **message)

    async def start():
        return await listen("tcp://127.0.0.1:0", serve)

    listener = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    worker.address = listener.contact_address
    channel.open_door(worker)
    return worker


def join(workers, rank, session, is_wanted=lambda: True):
    addresses = [worker.address for worker in workers]
    return channel.open_sockets(workers[rank], session, rank, addresses, 5.0, is_wanted)


def test_what_is_sent_first_arrives(loop):
    """Both sides send as soon as they may: Dask's stream must not have read any of it."""
    workers = [start_worker(loop) for _ in range(2)]
    for turn in range(20):
        found = {}

        def work(rank, session=f"s{turn}", found=found):
            end = join(workers, rank, session)[1 - rank]
            end.setblocking(True)
            end.sendall(b"%d" % rank * 1000)
            found[rank] = b""
            while len(found[rank]) < 1000 and (part := end.recv(1000)):
                found[rank] += part
            end.close()
            channel.leave(workers[rank], session)

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {0: b"1" * 1000, 1: b"0" * 1000}


async def greet_and_go(comm, session, rank):
    comm.stream.socket.send(channel._ACK)
    comm.abort()


async def go(comm, session, rank):
    comm.abort()


@pytest.mark.parametrize("answer", [greet_and_go, go])
def test_a_worker_that_goes_while_connecting_is_lost(loop, answer):
    workers = [start_worker(loop, answer), start_worker(loop)]
    try:
        end = join(workers, 1, "s")[0]
    except CommError as error:
        assert error.lost and error.peer == 0
    else:  # it was there for a moment
        end.setblocking(True)
        assert end.recv(1) == b""


def test_who_is_told_to_stop_does_not_wait(loop):
    workers = [start_worker(loop) for _ in range(2)]
    stopper = threading.Timer(0.3, channel.stop_session, ("s", "enough", workers[0]))
    stopper.start()
    with pytest.raises(CommError, match="told to stop"):
        join(workers, 0, "s")
    stopper.join()
    with pytest.raises(CommError, match="told to stop"):
        join(workers, 0, "t", is_wanted=lambda: False)
    with pytest.raises(CommError, match="told to stop"):
        channel.on_stop(workers[0], "s", print)
