"""What a model is to who trains it, predicts with it and saves it, whatever it is made of."""

from typing import Any, ClassVar, Protocol

from arboost.boosters.gbtree import GBTree
from arboost.params.resolve import Resolved
from arboost.predict.forest import Forest
from arboost.tree.model import Tree


class Model(Protocol):
    """Rounds of one kind of booster: `GBTree`, `Dart` or `LinearModel`."""

    kind: ClassVar[str]
    """The parameter `booster`."""

    starts_alike: ClassVar[bool]
    """Whether the margins of all outputs start where those of the first one do."""

    @property
    def trees(self) -> list[Tree]:
        """Its trees, in the order of their rounds; none where it is made of something else."""

    def as_trees(self) -> GBTree:
        """Itself, for who needs trees; raises XGBoostError where it has none."""

    @property
    def n_rounds(self) -> int: ...

    @property
    def n_terms(self) -> int:
        """How many terms a margin is the sum of."""

    @property
    def n_targets(self) -> int:
        """How many outputs a round adds to; 0 without rounds."""

    @property
    def version(self) -> int:
        """Changes when margins that were made before are void, and not only lack the newest terms."""

    @property
    def is_fitted(self) -> bool:
        """Whether there are rounds, or rounds that wait to be updated."""

    def trees_per_round(self, asked: int) -> int:
        """The parallel trees that the next round has, where parameters ask for so many."""

    def add_blank_round(self, n_features: int, n_outputs: int, has_vectors: bool, n_parallel: int) -> None:
        """Append a round that adds nothing."""

    def end_update(self) -> None:
        """Forget the rounds that wait to be updated."""

    def copied(self) -> "Model":
        """A model that may go another way; what never changes is shared."""

    def slice_rounds(self, rounds: range) -> "Model":
        """A model of the chosen rounds."""

    def trees_of(self, begin: int, end: int) -> slice:
        """The terms of rounds begin..end."""

    def forest(self, first_tree: int = 0) -> Forest:
        """What predicts: the terms from the first one on."""

    def forest_of_round(self, params: Resolved, key: int, chosen: slice = slice(None)) -> Forest | None:
        """Those of the chosen terms that the next round's gradients see; None: all of them."""

    def saved(self) -> dict[str, Any]:
        """Its own fields of a `SavedModel`."""
