"""Threads that go through one kernel together: a leader with orders, followers, and barriers.

The leader is the thread that runs the Python loop. Followers enter the kernel once per tree and stay in compiled
code: the leader posts an order, all carry it out, and the next order costs a memory write instead of a wake-up under
the GIL. `team` is one int64 array, a word per cache line. Whoever must give up sets ABORT, and nobody waits any more.
"""

from arboost.kernels.intrinsics import atomic_add, atomic_load, atomic_store, relax, yield_core
from arboost.kernels.jit import part

ORDER, POSTED, ARRIVED, GENERATION, ABORT, TAKEN, N_WORDS = 0, 8, 16, 24, 32, 40, 64
N_COUNTERS = 3  # kinds of jobs that one order may hand out: words TAKEN, TAKEN + 8, ...
STOP = 0  # the order that sends followers home
PATIENT_SPINS = 2_000  # looks, about 50 us, before every further look lets other threads run


@part
def _pause(spins):
    """Wait a little; longer after many looks, so that a busy machine is not kept from its work."""
    if spins > PATIENT_SPINS:
        yield_core()
    else:
        relax()


@part
def barrier(team, n_threads):
    """Wait for all threads of the team; True if the team was given up."""
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
            _pause(spins)
    return atomic_load(team, ABORT) != 0


@part
def post(team, order, n_threads):
    """The leader's call: let followers see a new order."""
    if n_threads > 1:
        for counter in range(N_COUNTERS):
            atomic_store(team, TAKEN + 8 * counter, 0)
        atomic_store(team, ORDER, order)
        atomic_add(team, POSTED, 1)


@part
def take_job(team, counter, job, n_threads):
    """Number of the next job nobody has taken, given the one just done (-1 before the first).

    Whoever is slow, or has its core taken away, takes fewer: nobody waits long for it.
    """
    return job + 1 if n_threads == 1 else atomic_add(team, TAKEN + 8 * counter, 1)


@part
def await_order(team, n_seen):
    """A follower's wait for order number n_seen + 1; STOP if the team was given up."""
    spins = 0
    while atomic_load(team, POSTED) == n_seen:
        if atomic_load(team, ABORT) != 0:
            return STOP
        spins += 1
        _pause(spins)
    return atomic_load(team, ORDER)
