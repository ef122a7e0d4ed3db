"""What the installed XGBoost's metrics say of given predictions."""

import warnings

import numpy as np
import xgboost


def evaluate(name, pred, label, weight=None, **params):
    """The value of metric `name`: predictions reach the metric as base margins of a model without trees."""
    pred = np.asarray(pred, np.float32)
    settings = {"objective": "reg:squarederror", "base_score": 0.0, "nthread": 1, "eval_metric": name, **params}
    if pred.ndim == 2 and np.ndim(label) == 1 and "quantile_alpha" not in params:
        settings.update(objective="multi:softprob", num_class=pred.shape[1])
        pred = np.log(pred)
    elif pred.ndim == 2 and "quantile_alpha" in params:
        settings.update(objective="reg:quantileerror")
    data = xgboost.DMatrix(np.zeros((len(label), 1)), label, weight=weight, base_margin=pred)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        booster = xgboost.Booster(settings, [data])
        return float(booster.eval(data).rsplit(":", 1)[1])
