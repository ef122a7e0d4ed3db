"""A Booster from trees that were not grown by `train`: those of ensembles, and those of other libraries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.boosters.gbtree import GBTree
from arboost.matrix.categories import Categories
from arboost.tree.model import Tree


def assemble(
    params: dict[str, Any],
    rounds: Sequence[Sequence[tuple[Tree, int]]],
    base_score: Any,
    n_features: int,
    *,
    n_targets: int = 1,
    num_parallel_tree: int = 1,
    feature_names: list[str] | None = None,
    feature_types: list[str] | None = None,
    categories: Categories | None = None,
) -> Booster:
    """A model of given trees.

    Parameters
    ----------
    params
        Its parameters, the objective above all.
    rounds
        For every round its trees, each with the output that it adds to.
    base_score
        One number, or one for each output, in the space of the objective's predictions.
    n_features
        Columns of the data.
    n_targets
        Outputs, where the objective does not say so itself: several label columns.
    num_parallel_tree
        Trees a round and output.
    feature_names, feature_types, categories
        What the data had.
    """
    booster = Booster(params)
    model = GBTree(num_parallel_tree=num_parallel_tree)
    for pairs in rounds:
        model.add_round([tree for tree, _ in pairs], [target for _, target in pairs])
    learner = booster._learner
    learner.model = model
    learner.base_score = np.atleast_1d(np.asarray(base_score, np.float32))
    learner.boost_from_average = False
    learner.n_features, learner.n_label_columns = n_features, n_targets
    learner.categories = categories
    booster._feature_names, booster._feature_types = feature_names, feature_types
    learner.base_margin()  # refuses a base_score that the objective cannot have
    return booster
