"""What the installed XGBoost does with one row, one leaf or one label vector."""

import json
import warnings

import numpy as np
import xgboost

LAMBDA = 2.0**60  # so heavy that a leaf is -g / LAMBDA


def train(params, label, weight=None, base_margin=None, n_rounds=1):
    """A model of one constant feature: every tree is one leaf."""
    label = np.asarray(label, np.float32)
    data = xgboost.DMatrix(np.zeros((len(label), 1)), label, weight=weight, base_margin=base_margin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xgboost.train({"nthread": 1, "max_depth": 1, **params}, data, n_rounds)


def learner(booster):
    return json.loads(bytes(booster.save_raw("json")))["learner"]


def trees(booster):
    return learner(booster)["gradient_booster"]["model"]["trees"]


def base_score(params, label, weight=None):
    """The estimated base_score as the model file has it."""
    return np.array(json.loads(learner(train(params, label, weight))["learner_model_param"]["base_score"]), np.float32)


def gradient(params, margin, label, weight):
    """g and h of one row, read back from the leaf weight and cover of the trees of one round."""
    fixed = {"base_score": 0.5, "eta": 1, "min_child_weight": 0, "lambda": str(int(LAMBDA))}
    booster = train({**fixed, **params}, [label], [weight], np.asarray(margin, np.float32).reshape(1, -1))
    h = np.array([tree["sum_hessian"][0] for tree in trees(booster)], np.float32)
    leaves = np.array([tree["split_conditions"][0] for tree in trees(booster)], np.float32)
    return (-leaves.astype(np.float64) * (LAMBDA + h)).astype(np.float32), h


def leaf_value(params, label, margin, weight=None):
    """The value of a single leaf that holds all rows."""
    booster = train({"base_score": 0, "eta": 1, **params}, label, weight, margin)
    return np.float32(trees(booster)[0]["split_conditions"][0])


def predict(params, margin):
    """Predictions for given margins, strictly shaped."""
    data = xgboost.DMatrix(np.zeros((len(margin), 1)), np.zeros(len(margin)), base_margin=margin)
    return xgboost.Booster({"base_score": 0.5, "nthread": 1, **params}, [data]).predict(data, strict_shape=True)
