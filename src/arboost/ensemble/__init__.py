"""Estimators beyond XGBoost's, with scikit-learn's interface; each comes with its module on first use."""

import importlib
from typing import Any

_LAZY = {
    "BoostedClassifier": "arboost.ensemble.boosted",
    "BoostedRegressor": "arboost.ensemble.boosted",
}

__all__ = ["BoostedClassifier", "BoostedRegressor"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'arboost.ensemble' has no attribute {name!r}")
    found = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
