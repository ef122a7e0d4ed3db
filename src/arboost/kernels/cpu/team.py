"""Threads that go through one kernel together: who enters when, barriers, and a short wait for the next call.

A kernel for a team takes (team, thread, n_threads) last, calls `enter` first and `leave` last. Entering is in
turn, so that threads do not fight for the GIL on their way in; leaving waits for all, then a worker stays for a
moment in case the next call is near: a call then costs microseconds, not a wake-up. `team` is one int64 array,
one cache line per word. A thread that must not go on (its caller was interrupted) sets ABORT and nobody waits.
"""

from numba import int64

from arboost.kernels.intrinsics import atomic_add, atomic_load, atomic_store, relax, yield_core
from arboost.kernels.jit import kernel, part

# words, one per cache line: call number, threads inside, barrier, and tickets for workers from TICKETS on
CALL, TURN, ARRIVED, GENERATION, ABORT, TICKETS = 0, 8, 16, 24, 32, 40
LINE = 8
YIELD_SPINS = 2_000  # about 50 us of waiting before each next look lets other threads run


@part
def barrier(team, n_threads):
    """Wait for all threads of the team; True if the call was given up."""
    if n_threads == 1:
        return False
    generation = atomic_load(team, GENERATION)
    if atomic_add(team, ARRIVED, 1) == n_threads - 1:
        atomic_store(team, ARRIVED, 0)
        atomic_store(team, GENERATION, generation + 1)
    else:
        spins = 0
        while atomic_load(team, GENERATION) == generation and atomic_load(team, ABORT) == 0:
            spins += 1
            if spins > YIELD_SPINS:
                yield_core()
            else:
                relax()
    return atomic_load(team, ABORT) != 0


@part
def enter(team, n_threads):
    """Let the next thread in."""
    if n_threads > 1:
        atomic_add(team, TURN, 1)


@part
def leave(team, thread, n_threads, patience):
    """Wait for all; a worker then waits up to `patience` looks for its next ticket."""
    if n_threads > 1 and not barrier(team, n_threads) and thread > 0:
        _await(team, thread, atomic_load(team, TICKETS + LINE * thread), patience)


@part
def _await(team, thread, last_ticket, patience):
    spins = int64(0)
    while spins < patience:
        if atomic_load(team, TICKETS + LINE * thread) != last_ticket and atomic_load(team, TURN) >= thread:
            return True
        spins += 1
        relax()
    return False


@kernel
def await_ticket(team, thread, last_ticket, patience):
    """True once this worker has a new ticket and its turn has come; False if that takes too long."""
    return _await(team, thread, last_ticket, patience)
