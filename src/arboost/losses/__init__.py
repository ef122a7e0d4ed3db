"""Losses: gradients, intercepts, links. Importing this package registers every loss by its name."""

from arboost.losses import classification, counts, quantile, ranking, regression, survival
from arboost.losses.base import LOSSES, Loss, fixed_base_score, loss_from_config, make_loss
from arboost.losses.custom import ScalarLoss

__all__ = [
    "LOSSES",
    "Loss",
    "ScalarLoss",
    "classification",
    "counts",
    "fixed_base_score",
    "loss_from_config",
    "make_loss",
    "quantile",
    "ranking",
    "regression",
    "survival",
]
