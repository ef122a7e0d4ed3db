"""Workers connected by sockets: every collective for any size, and what a broken group is told."""

import os
import pickle
import signal
import socket
import threading
import time

import numpy as np
import pytest

from arboost.runtime import comm as comms
from arboost.runtime import sockets
from arboost.runtime.errors import CommError, WorkerError, XGBoostError
from arboost.runtime.links import _HEADER
from arboost.runtime.sockets import SocketComm, peers_of
from groups import connect_pairs, run_group, run_threads

COUNTS = [1, 2, 3, 4, 5]


@pytest.fixture(params=["mesh", "cube"])
def topology(request, monkeypatch):
    """Every worker connected to every other, or the corners of a hypercube, which is otherwise for many."""
    if request.param == "cube":
        monkeypatch.setattr(sockets, "MESH_LIMIT", 0)
    return request.param


def parts_of(world_size, n, dtype):
    top = 100 if np.dtype(dtype).kind in "iu" else 1
    return [(top * np.random.default_rng(rank).random(n)).astype(dtype) for rank in range(world_size)]


# ---- what comes out ----


@pytest.mark.parametrize("world_size", COUNTS)
def test_reductions_of_any_size(topology, world_size):
    """No element, fewer than workers, as many, some that are sent to all at once, and many that are sent by parts."""
    cases = [
        (n, dtype)
        for n in (0, 1, world_size - 1, world_size, 5000, 12345)
        for dtype in (np.int64, np.int32, np.uint8, np.uint64)
    ]

    def work(comm):
        for n, dtype in cases:
            parts = parts_of(world_size, n, dtype)
            values = parts[comm.rank].copy()
            assert comm.allreduce_sum(values) is values
            np.testing.assert_array_equal(values, np.sum(parts, axis=0, dtype=dtype))
            values = parts[comm.rank].copy()
            assert comm.allreduce_max(values) is values
            np.testing.assert_array_equal(values, np.max(parts, axis=0))
        return "done"

    assert run_group(world_size, work) == ["done"] * world_size


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_a_million_values(topology, world_size):
    """More than sockets hold: everybody sends and receives at once."""
    parts = parts_of(world_size, 10**6, np.int64)
    total = np.sum(parts, axis=0)

    def work(comm):
        return all(np.array_equal(comm.allreduce_sum(parts[comm.rank].copy()), total) for _ in range(2))

    assert run_group(world_size, work) == [True] * world_size


@pytest.mark.parametrize("world_size", COUNTS)
def test_shapes_and_floats(topology, world_size):
    def work(comm):
        values = np.full((3, 4), comm.rank + 0.5)
        comm.allreduce_max(values)
        zero = comm.allreduce_max(np.array([-0.0 if comm.rank % 2 else 0.0])).tobytes()
        number = comm.allreduce_sum(np.array(7))
        return values.tolist(), zero, number.tolist()

    found = run_group(world_size, work)
    assert found == [([[world_size - 0.5] * 4] * 3, found[0][1], 7 * world_size)] * world_size  # the same bits


@pytest.mark.parametrize("world_size", COUNTS)
def test_bytes_of_any_length(topology, world_size):
    lengths = [100_000 * rank % 250_007 for rank in range(world_size)]

    def work(comm):
        data = bytes([comm.rank]) * lengths[comm.rank]
        gathered = comm.allgather(data)
        sent = [comm.broadcast(data if comm.rank == root else None, root) for root in range(world_size)]
        return gathered == sent == [bytes([rank]) * n for rank, n in enumerate(lengths)]

    assert run_group(world_size, work) == [True] * world_size


def test_a_large_group_needs_few_connections():
    assert peers_of(2, 5) == [0, 1, 3, 4]
    for world_size in (33, 64, 100, 1000):
        peers = [peers_of(rank, world_size) for rank in range(world_size)]
        assert all(rank in peers[peer] for rank in range(world_size) for peer in peers[rank])
        assert max(map(len, peers)) <= world_size.bit_length()


def test_forty_workers():
    def work(comm):
        total = comm.allreduce_sum(np.arange(5000) + comm.rank)
        return total[0], total[-1], comm.allgather(b"%d" % comm.rank)[39], comm.broadcast(b"from 35", 35)

    found = run_group(40, work)
    assert found == [(40 * 39 // 2, 40 * 39 // 2 + 40 * 4999, b"39", b"from 35")] * 40


def test_traffic_is_counted():
    def work(comm):
        comm.allreduce_sum(np.zeros(8, np.int64))
        comm.allgather(b"12345")
        return comm.traffic

    for traffic in run_group(3, work):
        assert traffic.calls == 2
        assert traffic.bytes_sent == traffic.bytes_received == 2 * (64 + 5 + 2 * _HEADER.size)
        assert traffic.seconds > 0


# ---- what cannot be ----


def test_what_is_not_reduced():
    (comm,) = connect_pairs(1)
    with pytest.raises(TypeError, match="integers, not float64"):
        comm.allreduce_sum(np.zeros(2))
    with pytest.raises(TypeError, match="not bool"):
        comm.allreduce_max(np.zeros(2, bool))
    with pytest.raises(ValueError, match="C-contiguous"):
        comm.allreduce_sum(np.zeros((4, 4), int)[:, ::2])
    with pytest.raises(XGBoostError, match="nothing to broadcast"):
        comm.broadcast(None, 0)
    with pytest.raises(XGBoostError, match=r"worker 0 of 3 is not connected to \[1, 2\]"):
        SocketComm(0, 3, {})


OUT_OF_STEP = {
    "lengths": lambda comm: comm.allreduce_sum(np.zeros(2 + comm.rank % 2, np.int64)),
    "types": lambda comm: comm.allreduce_sum(np.zeros(2, np.int64 if comm.rank else np.int32)),
    "calls": lambda comm: comm.allreduce_max(np.zeros(2, int)) if comm.rank else comm.allgather(b""),
}


@pytest.mark.parametrize("what", OUT_OF_STEP)
def test_who_is_out_of_step_is_told(topology, what):
    found = run_group(3, OUT_OF_STEP[what])
    assert all(isinstance(error, CommError) and not error.lost for error in found)
    assert any("out of step: worker" in str(error) for error in found)


def test_who_makes_more_calls_is_told(topology):
    """Workers that have left do not keep others waiting."""

    def work(comm):
        comm.allgather(b"")
        return comm.rank and comm.allgather(b"")

    done, *errors = run_group(3, work)
    assert done == 0
    assert all(isinstance(error, CommError) and not error.lost for error in errors)
    assert any("worker 0 has left" in str(error) for error in errors)


def test_an_error_ends_all_and_says_why(topology):
    def work(comm):
        comm.allgather(b"")
        if comm.rank == 1:
            raise ZeroDivisionError("mine")
        comm.allreduce_sum(np.zeros(200_000, int))

    found = run_group(5, work)
    assert isinstance(found.pop(1), ZeroDivisionError)
    assert {(str(error), error.peer, error.lost) for error in found} == {
        ("worker 1 gave up: ZeroDivisionError: mine", 1, False)
    }


@pytest.mark.parametrize("n", [1, 300_000])
def test_a_closed_connection_is_a_lost_worker(topology, n):
    """Everybody knows who was lost, also those who have it from others."""
    comms = connect_pairs(5)

    def work(comm):
        comm.allgather(b"")
        if comm.rank == 3:
            for peer in peers_of(3, 5):
                comm._links[peer].sock.close()
            return None
        try:
            return comm.allreduce_sum(np.zeros(n, int))
        except CommError as error:
            comm.abort(f"CommError: {error}")
            raise
        finally:
            comm.close()

    found = run_threads([lambda comm=comm: work(comm) for comm in comms])
    assert found.pop(3) is None
    assert {(error.peer, error.lost) for error in found} == {(3, True)}
    assert all("worker 3 was lost" in str(error) for error in found)


def test_a_worker_that_does_not_answer():
    ended = threading.Semaphore(0)  # once for each that waits: who leaves before has left, and was not lost

    def work(comm):
        if comm.rank == 1:
            for _ in range(2):
                ended.acquire()
            return None
        start = time.monotonic()
        try:
            return comm.allreduce_sum(np.zeros(200_000, int))
        finally:
            ended.release()
            assert time.monotonic() - start >= 1

    first, _, third = run_group(3, work, timeout=1.0)
    for error in (first, third):
        assert (error.peer, error.lost) == (1, True)
        assert "worker 1 does not answer: nothing has come for 1 s" in str(error)


def test_a_slow_worker_is_waited_for():
    """What counts is the time without a byte, and only within a call."""

    def work(comm):
        for _ in range(3):
            time.sleep(0.6 * comm.rank)
            comm.allgather(b"")
        return "done"

    assert run_group(2, work, timeout=1.5) == ["done"] * 2


def wait_for_call(comm):
    """Return when a thread of the worker is in a call."""
    while not comm._links._busy.locked():
        time.sleep(0.01)
    time.sleep(0.1)


def test_another_thread_may_abort_a_call():
    """As a cluster that was told to stop does."""
    first, second = connect_pairs(2)

    def stop():
        wait_for_call(first)
        first.abort("told to stop")
        first.abort("again")

    waiting = threading.Thread(target=stop)
    waiting.start()
    with pytest.raises(CommError, match="worker 0 gave up: told to stop"):
        first.allgather(b"")
    waiting.join()
    first.abort("CommError")  # as `using` does
    with pytest.raises(CommError, match="worker 0 gave up: told to stop"):
        first.allgather(b"")
    assert second.allgather(b"mine") == [b"", b"mine"]  # what was sent before has arrived
    with pytest.raises(CommError, match="worker 0 gave up: told to stop"):
        second.allgather(b"")


def test_a_worker_may_be_told_to_stop_between_calls():
    first, second = connect_pairs(2)
    thread = threading.Thread(target=first.abort, args=("enough",))
    thread.start()
    thread.join()
    for comm in (first, second):
        with pytest.raises(CommError, match="worker 0 gave up: enough") as error:
            comm.allgather(b"")
        assert (error.value.peer, error.value.lost) == (0, False)


def test_ctrl_c_ends_the_wait():
    """Half of the array is on its way, and the other worker comes late: it is told all the same."""
    first, second = connect_pairs(2)
    told = []

    def come_late():
        wait_for_call(first)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.4)
        with pytest.raises(CommError) as error:
            second.allreduce_sum(np.zeros(10**6, np.int64))
        told.append(str(error.value))

    thread = threading.Thread(target=come_late)
    thread.start()
    with pytest.raises(KeyboardInterrupt), comms.using(first):
        first.allreduce_sum(np.zeros(10**6, np.int64))
    thread.join()
    assert told == ["worker 0 gave up: KeyboardInterrupt"]


def test_a_stranger_is_not_a_worker():
    ours, theirs = socket.socketpair()
    comm = SocketComm(0, 2, {1: ours})
    theirs.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    with pytest.raises(CommError, match="worker 1 is in something unknown"):
        comm.allgather(b"")


def test_closing():
    first, second = connect_pairs(2)
    first.close()
    first.close()
    second.close()
    with pytest.raises(CommError, match="communicator is closed"):
        first.allgather(b"")


def test_errors_travel():
    error = pickle.loads(pickle.dumps(CommError("worker 2 was lost", 2, lost=True)))
    assert (str(error), error.peer, error.lost) == ("worker 2 was lost", 2, True)
    assert isinstance(error, WorkerError)


# ---- anything, at any moment ----

SIZES = [0, 1, 10, 5000, 100_000]


def make_calls(comm, steps, at, ending):
    """Collectives one after the other, checked; at one of them this worker may end."""
    p = comm.world_size
    for i, (kind, n, root) in enumerate(steps):
        if i == at:
            if ending == "error":
                raise ZeroDivisionError
            if ending == "lost":
                for peer in peers_of(comm.rank, p):
                    comm._links[peer].sock.close()
            return
        if kind == "sum":
            assert (comm.allreduce_sum(np.full(n, comm.rank)) == p * (p - 1) // 2).all()
        elif kind == "max":
            assert (comm.allreduce_max(np.full(n, float(comm.rank))) == p - 1).all()
        elif kind == "gather":
            assert comm.allgather(b"a" * (n * comm.rank % 7001)) == [b"a" * (n * rank % 7001) for rank in range(p)]
        else:
            assert comm.broadcast(b"z" * n if comm.rank == root else None, root) == b"z" * n


@pytest.mark.parametrize("seed", range(12))
def test_a_worker_may_end_at_any_call(topology, seed):
    """Nobody waits for ever, and everybody who could not finish knows which worker it was."""
    rng = np.random.default_rng(seed)
    world_size, n_calls = int(rng.integers(2, 7)), 6
    steps = [
        (rng.choice(["sum", "max", "gather", "broadcast"]), int(rng.choice(SIZES)), int(rng.integers(world_size)))
        for _ in range(n_calls)
    ]
    bad, at, ending = int(rng.integers(world_size)), int(rng.integers(n_calls)), ["error", "lost", "leave"][seed % 3]
    found = run_group(world_size, lambda comm: make_calls(comm, steps, at if comm.rank == bad else -1, ending))
    assert isinstance(found.pop(bad), ZeroDivisionError if ending == "error" else type(None))
    told = [error for error in found if error is not None]  # others need not have heard of it, in a broadcast
    assert all(isinstance(error, CommError) for error in told)
    assert {(error.peer, error.lost) for error in told} <= {(bad, ending == "lost")}
