"""Small data for whole trainings: features of few distinct values (the bins are XGBoost's), labels for every loss."""

import numpy as np

N_CLASSES = 4
OBJECTIVES = [
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:logistic",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
    "binary:logistic",
    "binary:logitraw",
    "binary:hinge",
    "count:poisson",
    "reg:gamma",
    "reg:tweedie",
    "multi:softmax",
    "multi:softprob",
]


def make_features(n=400, missing=0.0, seed=0):
    """(n, 6) float32: five columns of 40 levels and one of 3; a share of the values is missing."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, (n, 6)).astype(np.float32)
    X[:, 5] = rng.integers(0, 3, n)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def make_label(objective, X, seed=0):
    """A noisy label that the objective allows."""
    rng = np.random.default_rng(seed + 1)
    Z = np.nan_to_num(X, nan=15.0)
    n = len(X)
    score = Z[:, 0] / 20 + np.sin(Z[:, 1] / 6) + 0.5 * (Z[:, 2] > 20) * Z[:, 5] + 0.3 * rng.standard_normal(n)
    if objective.startswith("multi:"):
        label = np.digitize(score, [0.7, 1.4, 2.2])
    elif objective.startswith("binary:"):
        label = score > 1.5
    elif objective == "reg:logistic":
        label = 1 / (1 + np.exp(1.5 - score))
    elif objective == "count:poisson":
        label = rng.poisson(np.exp(score / 2))
    elif objective == "reg:gamma":
        label = np.exp(score / 2) * rng.gamma(2, 0.5, n) + 0.01
    elif objective == "reg:tweedie":
        label = rng.poisson(np.exp(score / 2)) * rng.gamma(2, 0.5, n)
    elif objective == "reg:squaredlogerror":
        label = np.exp(score / 3)
    else:
        label = score
    return label.astype(np.float32)


def loss_params(objective):
    """The objective and what it cannot do without."""
    needs = {"reg:quantileerror": {"quantile_alpha": [0.2, 0.7]}}
    if objective.startswith("multi:"):
        return {"objective": objective, "num_class": N_CLASSES}
    return {"objective": objective, **needs.get(objective, {})}


def n_outputs(objective):
    """Columns of the margin."""
    return N_CLASSES if objective.startswith("multi:") else 2 if objective == "reg:quantileerror" else 1
