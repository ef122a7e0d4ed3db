"""How a team of threads carries out orders, whatever a level is made of.

`perform` does what an order says. Each kind of level has its own form, registered beside its kernels and chosen by the
type of `level`: level.py (rows in memory), paged.py (rows on pages), sorted/exact.py (sorted columns).
"""

from arboost.kernels.cpu.grow.team import STOP, await_order, barrier, post
from arboost.kernels.jit import part


def perform(order, level, team, thread, n_threads):
    """Carry out one order together with the other threads; True if the team was given up."""
    raise NotImplementedError  # only its compiled forms are ever called


@part
def carry_out(order, level, team, thread, n_threads):
    """The leader (thread 0) carries out one order; a follower all orders until it is sent home.

    For a follower, `order` is the number of orders that were posted before it came.
    """
    if thread == 0:
        post(team, order, n_threads)
    n_seen = order
    while True:
        if thread > 0:
            order = await_order(team, n_seen)
            n_seen += 1
        if order != STOP and perform(order, level, team, thread, n_threads):
            return
        # all must be through before the leader goes on, or a follower would read the next plan
        if order == STOP or barrier(team, n_threads) or thread == 0:
            return
