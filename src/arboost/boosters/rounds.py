"""What one round of training is, whatever the model is made of."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from arboost.losses import Loss
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.meta import MetaInfo
from arboost.metrics import Metric
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

    keeps_margins: bool
    """Whether it is a `MarginKeeper` too."""

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change between rounds."""

    def train_round(self, model: Any, turn: Round) -> Margins:
        """One round on the model, whole or not at all; tells what became of the margins."""


class MarginKeeper(Protocol):
    """A trainer that keeps margins of its own from round to round, and finds gradients and metrics at them."""

    has_gradients: bool
    """Whether the last round's gradients were its own."""

    def can_keep(self, loss: Loss, info: MetaInfo) -> bool:
        """Whether it can do so for this loss on this matrix."""

    def hold(self, data: DMatrix, margin: np.ndarray) -> bool:
        """Take over the margins of the matrix that it trains on, or of another one; False: of that it cannot."""

    def holds(self, data: DMatrix) -> bool:
        """Whether it has the margins of a matrix, with all that the last round has added."""

    def fetch(self, data: DMatrix, margin: np.ndarray) -> None:
        """Bring the margins of a matrix back (OUT)."""

    def score(self, loss: Loss, metrics: Sequence[Metric], matrices: Sequence[DMatrix]) -> list[list[float | None]]:
        """The metrics of matrices that it holds; None for those that it cannot find."""

    def train_kept_round(self, model: Any, turn: Round) -> Margins:
        """One round at the margins that are kept."""

    def last_gradients(self) -> Gradients:
        """Copies of the gradients of the last round, (K, n)."""
