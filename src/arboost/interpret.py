"""Explaining predictions: SHAP values as a pair, apart from the bias (XGBoost's `interpret`, newer than 3.2)."""

from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.errors import XGBoostError, type_name

__all__ = ["shap_values"]


def shap_values(
    model: Any,
    X: Any,
    *,
    X_background: Any = None,
    output_margin: bool = False,
    iteration_range: tuple[int, int] | None = None,
    missing: float | None = None,
    validate_features: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """SHAP values of every feature, and the bias they are added to.

    Parameters
    ----------
    model :
        A `Booster`, or an estimator that has one.
    X :
        The rows: a `DMatrix` or whatever one is made of.
    X_background :
        Must be None: values against a background data set are not available.
    output_margin :
        Accepted for XGBoost's sake: the values always add up to the margin.
    iteration_range :
        Rounds [begin, end) to explain; by default those with which the model predicts.
    missing :
        What means "missing" in X, by default the estimator's `missing`, or NaN. Not for a DMatrix.
    validate_features :
        Compare feature names with those of the training data.

    Returns
    -------
    values, bias
        Of shapes (n, n_features) and (n,), with a dimension for outputs after the first where there are several.

    Examples
    --------
    >>> values, bias = arboost.interpret.shap_values(booster, X)  # doctest: +SKIP
    >>> np.allclose(values.sum(axis=-1) + bias, booster.predict(DMatrix(X), output_margin=True))  # doctest: +SKIP
    """
    if X_background is not None:
        raise XGBoostError("Background data is not supported: leave `X_background` out (path-dependent SHAP values).")
    contributions = _booster_of(model).predict(
        _matrix_of(model, X, missing),
        pred_contribs=True,
        iteration_range=_rounds_of(model, iteration_range),
        validate_features=validate_features,
    )
    return contributions[..., :-1], contributions[..., -1]


def _booster_of(model: Any) -> Booster:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not isinstance(booster, Booster):
        raise TypeError(f"`model` must be a Booster or an estimator with get_booster(), got {type_name(model)}.")
    return booster


def _rounds_of(model: Any, iteration_range: tuple[int, int] | None) -> tuple[int, int]:
    """The given rounds, else up to the best one where an estimator stopped early, else all."""
    if iteration_range is not None:
        return iteration_range
    if isinstance(model, Booster):
        return (0, 0)
    best = model.get_booster().attr("best_iteration")
    return (0, 0) if best is None else (0, int(best) + 1)


def _matrix_of(model: Any, X: Any, missing: float | None) -> DMatrix:
    if isinstance(X, DMatrix):
        if missing is not None:
            raise ValueError("`missing` must not be specified when `X` is a DMatrix: say it when the DMatrix is made.")
        return X
    return DMatrix(
        X,
        missing=getattr(model, "missing", np.nan) if missing is None else missing,
        nthread=getattr(model, "n_jobs", None),
        feature_types=getattr(model, "feature_types", None),
        enable_categorical=getattr(model, "enable_categorical", True),
    )
