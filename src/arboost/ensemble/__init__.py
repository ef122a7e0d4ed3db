"""Estimators beyond XGBoost's: those that need no tuning, forests, a single tree, AdaBoost, classic gradient boosting.

Names come with their modules on first use; all of them need scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arboost.ensemble.adaboost import AdaBoostClassifier, AdaBoostRegressor
    from arboost.ensemble.boosted import BoostedClassifier, BoostedRegressor
    from arboost.ensemble.decision_tree import DecisionTreeClassifier, DecisionTreeRegressor
    from arboost.ensemble.forest import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from arboost.ensemble.gradient_boosting import GradientBoostingClassifier, GradientBoostingRegressor
    from arboost.ensemble.leaves import LeafEncoder, LeafLogisticRegression

_LAZY = {
    "AdaBoostClassifier": "adaboost",
    "AdaBoostRegressor": "adaboost",
    "BoostedClassifier": "boosted",
    "BoostedRegressor": "boosted",
    "DecisionTreeClassifier": "decision_tree",
    "DecisionTreeRegressor": "decision_tree",
    "ExtraTreesClassifier": "forest",
    "ExtraTreesRegressor": "forest",
    "GradientBoostingClassifier": "gradient_boosting",
    "GradientBoostingRegressor": "gradient_boosting",
    "LeafEncoder": "leaves",
    "LeafLogisticRegression": "leaves",
    "RandomForestClassifier": "forest",
    "RandomForestRegressor": "forest",
}

__all__ = [
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "BoostedClassifier",
    "BoostedRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "LeafEncoder",
    "LeafLogisticRegression",
    "RandomForestClassifier",
    "RandomForestRegressor",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'arboost.ensemble' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"arboost.ensemble.{_LAZY[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
