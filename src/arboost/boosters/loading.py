"""From a model file's content to a learner that goes on with it."""

from typing import Any

import numpy as np

from arboost.boosters.dart import Dart
from arboost.boosters.gblinear import LinearModel
from arboost.boosters.gbtree import GBTree
from arboost.boosters.learner import Learner
from arboost.boosters.model import Model
from arboost.losses import loss_from_config
from arboost.modelio.cats import unpack_categories
from arboost.modelio.schema import SavedModel
from arboost.modelio.statistics import unpack_statistics


def learner_of(saved: SavedModel, params: dict[str, Any]) -> Learner:
    """A learner with the model of a file, and the parameters that were given beside it."""
    learner = Learner({**params, **_objective_params(saved), "booster": saved.booster})
    learner.model = _model_of(saved)
    learner.earlier_loss = loss_from_config(saved.objective, saved.n_classes)
    learner.base_score = np.asarray(saved.base_score, np.float32)
    learner.boost_from_average = saved.boost_from_average
    learner.n_features = saved.n_features
    learner.n_label_columns = saved.n_targets if learner.loss.n_targets() == 1 else 1
    learner.categories = unpack_categories(saved.cats, saved.feature_types)
    if saved.statistics is not None:
        learner.statistics, learner.categories = unpack_statistics(saved.statistics)
    return learner


def _model_of(saved: SavedModel) -> Model:
    if saved.linear_weights is not None:
        return LinearModel(weights=saved.linear_weights.reshape(-1, saved.n_groups), rounds=saved.linear_rounds)
    model = GBTree(list(saved.trees), list(saved.tree_info), list(saved.iteration_ptr), saved.num_parallel_tree)
    return Dart.of_trees(model, np.asarray(saved.tree_weights, np.float32)) if saved.booster == "dart" else model


def _objective_params(saved: SavedModel) -> dict[str, Any]:
    """The parameters that a model file's objective stands for."""
    config = loss_from_config(saved.objective, saved.n_classes).config()
    params: dict[str, Any] = {"objective": config["name"], "num_class": saved.n_classes}
    for group in config.values():
        if isinstance(group, dict):
            params.update(group)
    if config["name"] == "count:poisson":  # its max_delta_step shares its name with the trees'
        del params["max_delta_step"]
    return params
