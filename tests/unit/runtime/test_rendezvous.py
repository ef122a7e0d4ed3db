"""How processes find each other, and whom they refuse. Workers are threads here, their connections are real."""

import socket
import time

import pytest

from arboost.runtime import rendezvous
from arboost.runtime.errors import CommError, XGBoostError
from arboost.runtime.rendezvous import Listener, meet, parse_address
from groups import run_threads

HOST = "127.0.0.1"


def meet_all(world_size, versions=None, groups=None, ranks=None, seconds=20.0):
    """What `meet` gives each worker; connections that were made are closed."""
    listeners = [Listener(HOST) for _ in range(world_size)]
    addresses = [listener.address for listener in listeners]

    def work(rank):
        version = versions[rank] if versions else "1.0"
        group = groups[rank] if groups else "us"
        found = meet(rank, addresses, listeners[rank], version, group, time.monotonic() + seconds)
        try:
            return {peer: _port_of_peer(sock, rank > peer) for peer, sock in found.items()}
        finally:
            for sock in found.values():
                sock.close()

    def _port_of_peer(sock, called):
        return (sock.getpeername() if called else sock.getsockname())[1]

    found = run_threads([lambda rank=rank: work(rank) for rank in ranks or range(world_size)])
    for listener in listeners:
        listener.close()
    return found, [listener.port for listener in listeners]


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_everybody_meets_everybody(world_size):
    """The higher rank has called at the port of the lower."""
    found, ports = meet_all(world_size)
    wanted = [
        {peer: ports[min(rank, peer)] for peer in range(world_size) if peer != rank} for rank in range(world_size)
    ]
    assert found == wanted


def test_another_version_is_refused_by_name():
    found, _ = meet_all(2, versions=["1.0", "2.0"])
    assert all(isinstance(error, CommError) and not error.lost for error in found)
    assert "worker 1 is refused: it has version '2.0', this one '1.0'" in str(found[0])
    assert "refuses worker 1: it has version '2.0', this one '1.0'" in str(found[1])


def test_another_protocol_is_refused_by_name(monkeypatch):
    own = rendezvous.greeting("1.0")
    assert rendezvous.difference(own, own) is None
    monkeypatch.setattr(rendezvous, "PROTOCOL", "arboost workers 2")
    assert "it has protocol 'arboost workers 2'" in rendezvous.difference(own, rendezvous.greeting("1.0"))


def test_a_worker_of_another_group_is_turned_away():
    first, second = meet_all(2, groups=["us", "them"], seconds=2.0)[0]
    assert "worker 1 did not come in time" in str(first) and first.peer == 1 and first.lost
    assert "it belongs to another group of workers" in str(second)


@pytest.mark.parametrize(
    "talk", [b"", b"GET / HTTP/1.0\r\n\r\n", b"arbo\x04\x00\x00\x00[1, ", b"arbo\x02\x00\x00\x00[]"]
)
def test_strangers_are_turned_away(talk):
    """Who connects and is no worker does not keep the workers from each other."""
    listeners = [Listener(HOST), Listener(HOST)]
    addresses = [listener.address for listener in listeners]
    with socket.create_connection((HOST, listeners[0].port)) as stranger:
        stranger.sendall(talk)
        stranger.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 20
        works = [lambda r=r: meet(r, addresses, listeners[r], "1", "", deadline) for r in range(2)]
        found = run_threads(works)
    for part, listener in zip(found, listeners, strict=True):
        (sock,) = part.values()
        sock.close()
        listener.close()


def test_workers_that_do_not_come():
    (alone,), _ = meet_all(3, ranks=[0], seconds=0.3)
    assert "worker 1, 2 did not come in time" in str(alone) and (alone.peer, alone.lost) == (1, True)
    (late,), _ = meet_all(3, ranks=[1], seconds=0.3)
    assert "worker 0 at 127.0.0.1" in str(late) and (late.peer, late.lost) == (0, True)


def test_who_does_not_listen_yet_is_waited_for():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    listeners = [None, Listener(HOST)]
    addresses = [f"{HOST}:{port}", listeners[1].address]

    def late():
        time.sleep(0.4)
        listeners[0] = Listener(HOST, port)
        return meet(0, addresses, listeners[0], "1", "", time.monotonic() + 20)

    found = run_threads([late, lambda: meet(1, addresses, listeners[1], "1", "", time.monotonic() + 20)])
    for part, listener in zip(found, listeners, strict=True):
        (sock,) = part.values()
        sock.close()
        listener.close()


def test_addresses():
    assert parse_address("a:80") == parse_address(("a", 80)) == parse_address(["a", "80"]) == ("a", 80)
    assert parse_address("[::1]:80") == ("::1", 80)
    for wrong in ("a", "a:b", 7, None, ("a",)):
        with pytest.raises(XGBoostError, match="An address is 'host:port'"):
            parse_address(wrong)
    listener = Listener(HOST)
    assert parse_address(listener.address) == (HOST, listener.port)
    with pytest.raises(XGBoostError, match="Cannot listen"):
        Listener(HOST, listener.port)
    listener.close()
    with pytest.raises(XGBoostError, match="Cannot listen"):
        Listener("192.0.2.55")  # not this machine's
