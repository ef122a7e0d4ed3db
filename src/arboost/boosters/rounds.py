"""What one round of training is, whatever the model is made of."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from arboost.losses import Loss
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import Resolved, TreeParams

LeafSolver = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(target, rows, leaf_ptr, margin) -> the best value of each leaf, for losses whose best is not -G/(H + lambda)."""

Gradients = tuple[np.ndarray, np.ndarray]
"""g and h, (K, n) float32."""


class Round(NamedTuple):
    """What a trainer is given."""

    data: DMatrix
    g: np.ndarray  # (K, n) float32
    h: np.ndarray
    margin: np.ndarray  # (n, K), what the gradients were taken at
    key: int  # seeds its draws
    solver: LeafSolver | None
    split: Gradients | None  # other gradients, (n, J), that splits are found on
    params: Resolved
    loss: Loss | None  # whose gradients they are; None: the user's own


class Margins(Enum):
    """What a round has left of the margins it was given."""

    ADDED = "they hold what the round adds"
    BEHIND = "they are those before the round"
    VOID = "they are of no use any more"


class Trainer(Protocol):
    """Trains rounds on one matrix."""

    takes_split: bool
    """Whether splits may be found on other gradients than leaves are made of."""

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change between rounds."""

    def train_round(self, model: Any, turn: Round) -> Margins:
        """One round on the model, whole or not at all; tells what became of the margins."""
