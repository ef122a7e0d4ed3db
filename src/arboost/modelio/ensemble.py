"""What exporters need to know of a model: its trees, where margins start, and what turns a margin into a prediction."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arboost.losses.base import Loss
from arboost.losses.quantile import ExpectileError, QuantileError
from arboost.matrix.categories import Categories
from arboost.runtime.drafts import draft_of
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import Tree

# Objective -> the function from its margin to its prediction.
LINKS = {
    "binary:logistic": "sigmoid",
    "reg:logistic": "sigmoid",
    "binary:hinge": "positive",
    "multi:softprob": "softmax",
    "multi:softmax": "argmax",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
    "survival:aft": "exp",
    "survival:cox": "exp",
}


@dataclass(frozen=True)
class Ensemble:
    """A model to export."""

    trees: Sequence[Tree]
    tree_info: Sequence[int]  # the output that each tree adds to
    base_margin: np.ndarray  # (K,) float32
    n_features: int
    loss: Loss | None = None  # what turns margins into predictions; None: nothing does
    feature_names: Sequence[str] | None = None
    feature_types: Sequence[str] | None = None
    categories: Categories | None = None

    def __post_init__(self) -> None:
        """Exports have one weight a leaf: a tree with vectors is written once for every target."""
        if any(tree.is_linear for tree in self.trees):
            raise XGBoostError("This export knows leaves of one number: a model with linear_leaves cannot be had so.")
        if any(tree.has_vectors for tree in self.trees):
            pairs = [p for t, i in zip(self.trees, self.tree_info, strict=True) for p in t.per_target(i)]
            object.__setattr__(self, "trees", [tree for tree, _ in pairs])
            object.__setattr__(self, "tree_info", [target for _, target in pairs])

    @property
    def n_outputs(self) -> int:
        """Columns of the margin."""
        return len(self.base_margin)

    @property
    def link(self) -> str:
        """The output function: identity, sigmoid, exp, positive, softmax, argmax, sorted or expectiles.

        `sorted` puts the margins in the order of `ranks`; of `expectiles` each is a positive step above the one before.
        """
        loss = self.loss
        if loss is None or (loss.link is None and type(loss).transform is Loss.transform):
            return "identity"
        if isinstance(loss, QuantileError | ExpectileError):
            changes = isinstance(loss, ExpectileError) or loss.quantile_crossing != "allow"
            kind = "expectiles" if isinstance(loss, ExpectileError) else "sorted"
            return kind if changes and self.n_outputs > 1 else "identity"
        if loss.name not in LINKS:
            raise XGBoostError(f"The predictions of {loss.name} cannot be exported yet, only its margins.")
        return LINKS[loss.name]

    @property
    def ranks(self) -> list[int]:
        """Which of the sorted margins, from the lowest on, each output is."""
        assert isinstance(self.loss, QuantileError)
        order = np.argsort(self.loss.quantile_alpha, kind="stable")
        return np.argsort(order).tolist()

    def category_lists(self) -> list[list | None] | None:
        """Category values of every feature in the order of their codes, None for a numerical one."""
        if self.categories is None or self.categories.empty():
            return None
        return [None if values is None else values.tolist() for values in self.categories.values]


def write_file(path: str | os.PathLike[str] | None, content: bytes) -> None:
    """Write to a path, if there is one; `~` stands for the home directory."""
    if path is not None:
        with draft_of(path) as draft, open(draft, "wb") as out:
            out.write(content)
