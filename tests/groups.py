"""Groups of workers for tests: threads of this process that are connected by sockets."""

import socket
import threading

from arboost.runtime import comm as comms
from arboost.runtime.sockets import SocketComm, peers_of


def connect_pairs(world_size, **options):
    """The communicators of a group."""
    sockets = [{} for _ in range(world_size)]
    for rank in range(world_size):
        for peer in peers_of(rank, world_size):
            if rank < peer:
                sockets[rank][peer], sockets[peer][rank] = socket.socketpair()
    return [SocketComm(rank, world_size, sockets[rank], **options) for rank in range(world_size)]


def run_threads(works):
    """[work() for work in works], each in a thread of its own; an error is a result too."""
    results = [None] * len(works)

    def run(i):
        try:
            results[i] = works[i]()
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run_group(world_size, work, **options):
    """[work(comm) for every worker], each a thread with a socket to every other; errors are results."""

    def run(comm):
        try:
            with comms.using(comm):
                return work(comm)
        finally:
            comm.close()

    return run_threads([lambda comm=comm: run(comm) for comm in connect_pairs(world_size, **options)])
