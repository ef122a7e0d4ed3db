"""How work is cut for a team of threads."""

import numpy as np
from numba import int64

from arboost.kernels.cpu.grow.team import N_COUNTERS
from arboost.kernels.jit import part

SPARE_JOBS = 4  # jobs per thread, at most, where jobs are taken one by one,
LARGE_JOB = 8  # and how many grains a job must hold: every cut is paid for in sums to merge
# Work that is worth a thread: rows to partition, (row, feature) additions, slots to add or subtract, slots to scan
SPLIT_ROWS, BUILD_UPDATES, MERGE_SLOTS, FIND_SLOTS = range(4)
SPLIT_JOBS, BUILD_JOBS, FIND_JOBS = (np.int64(counter) for counter in range(N_COUNTERS))


@part
def n_shares(work, grain, n_threads):
    """How many threads a piece of work deserves."""
    share = work // grain
    return n_threads if share > n_threads else share if share > 1 else int64(1)


@part
def n_jobs(work, grain, n_threads):
    """Into how many jobs work is cut: more than threads, if they stay large, so that a slow thread takes fewer."""
    share = n_shares(work, grain, n_threads)
    n_large = work // (LARGE_JOB * grain)
    most = SPARE_JOBS * share if share > 1 else int64(1)
    return most if n_large > most else n_large if n_large > share else share
