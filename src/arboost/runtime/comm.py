"""How workers agree: one protocol; today the only implementation is one process alone.

Every method combines integers or maxima, so the result cannot depend on the order of workers.
"""

from typing import Protocol

import numpy as np


class Comm(Protocol):
    """A group of processes training one model together."""

    rank: int
    world_size: int

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        """Element-wise integer sum over workers, in place."""

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        """Element-wise maximum over workers, in place."""


class LocalComm:
    """One process: every reduction is the identity."""

    rank = 0
    world_size = 1

    def allreduce_sum(self, values: np.ndarray) -> np.ndarray:
        return values

    def allreduce_max(self, values: np.ndarray) -> np.ndarray:
        return values
