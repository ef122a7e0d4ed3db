"""Trainings that a device must do to the CPU's bytes, and those that it leaves to the CPU; small data for both.

`N_ROWS` is what a simulated device can do in a second; a real one gets many rows and deep trees of every case.
"""

import os
import warnings

import numpy as np
import scipy.sparse as sp

import arboost

IS_REAL = os.environ.get("ARBOOST_TEST_DEVICE") == "cuda"
N_ROWS = 30_000 if IS_REAL else 90
N_FEATURES = 12 if IS_REAL else 4
N_ROUNDS = 6 if IS_REAL else 2
COMMON = {"max_depth": 7 if IS_REAL else 3, "max_bin": 256 if IS_REAL else 16, "eta": 0.5, "seed": 3, "nthread": 2}


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    X[:, 1] = rng.integers(0, 8, N_ROWS)
    X[:, 2] = rng.integers(0, 3, N_ROWS)
    X[rng.random(X.shape) < 0.1] = np.nan
    score = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
    return X, (score + 0.1 * rng.normal(size=N_ROWS)).astype(np.float32)


X, Y = _table()
TYPES = ["q", "c", "c", *("q" * (N_FEATURES - 3))]
SETS = {"feature_types": TYPES, "enable_categorical": True}
BINARY, CLASSES = {"label": (Y > 0).astype(int)}, {"label": np.digitize(Y, [-1, 1])}
POSITIVE, COUNTS = {"label": np.exp(Y / 2)}, {"label": np.floor(np.exp(Y / 2))}
SHARES = {"label": 1 / (1 + np.exp(-Y))}
TWO = {"label": np.stack([Y, -np.abs(Y)], axis=1)}
GROUPS = {"label": np.digitize(Y, [-1, 0, 1]), "qid": np.arange(N_ROWS) // 15}
OUTLIER = np.where(np.arange(N_ROWS) == 7, np.float32(1e9), Y)
MONOTONE = (1, 0, -1) + (0,) * (N_FEATURES - 3)
SOME_LEAVES = {"grow_policy": "lossguide", "max_leaves": 6, "max_depth": 0, "subsample": 0.7}
WIDE = {} if IS_REAL else {"data": np.linspace(0, 1, 300)[:, None] ** [1, 2], "label": np.sin(np.arange(300.0))}
MANY_CODES = {  # more than a byte holds
    "data": np.stack([np.arange(N_ROWS) * 7 % 300, np.nan_to_num(X[:, 0])], axis=1).astype(np.float32),
    "feature_types": ["c", "q"], "enable_categorical": True,
}  # fmt: skip


def objective(name, **more):
    return {"objective": name, **more}


# parameters; arguments of the matrix, where they are other than X and Y
ON_DEVICE = {
    "regression": ({}, {}),
    "no missing values": ({}, {"data": np.nan_to_num(X)}),
    "binary": (objective("binary:logistic"), BINARY),
    "raw margins": (objective("binary:logitraw", scale_pos_weight=3), BINARY),
    "hinge": (objective("binary:hinge"), BINARY),
    "shares": (objective("reg:logistic"), SHARES),
    "classes": (objective("multi:softprob", num_class=3, num_parallel_tree=2), CLASSES),
    "softmax": (objective("multi:softmax", num_class=3, max_delta_step=0.5), {**CLASSES, "weight": np.abs(Y)}),
    "counts": (objective("count:poisson"), COUNTS),
    "gamma": (objective("reg:gamma"), POSITIVE),
    "tweedie": (objective("reg:tweedie", tweedie_variance_power=1.3), COUNTS),
    "huber": (objective("reg:pseudohubererror", huber_slope=0.5), {}),
    "logarithms": (objective("reg:squaredlogerror"), POSITIVE),
    "absolute error": (objective("reg:absoluteerror"), {}),
    "quantiles": (objective("reg:quantileerror", quantile_alpha=[0.2, 0.8]), {}),
    "quantiles with weights": (
        objective("reg:quantileerror", quantile_alpha=[0, 0.3, 1], num_parallel_tree=2),
        {"weight": np.where(Y > 0, np.abs(Y), 0)},
    ),
    "quantiles of ties": (objective("reg:quantileerror", quantile_alpha=0.37), {"label": np.round(Y)}),
    "quantiles, and an outlier among weights": (objective("reg:absoluteerror"), {"weight": np.abs(OUTLIER)}),
    "medians of two targets": (objective("reg:absoluteerror"), TWO),
    "medians of a sample": (objective("reg:absoluteerror", subsample=0.5), {}),
    "medians in deep trees": (objective("reg:absoluteerror", max_depth=12), {}),
    "expectiles": (objective("reg:expectileerror", expectile_alpha=[0.2, 0.8]), {}),
    "ranking": (objective("rank:ndcg"), GROUPS),
    "ranking by hits": (objective("rank:map"), {**GROUPS, "label": BINARY["label"]}),
    "ranking by pairs": (objective("rank:pairwise", num_parallel_tree=2, subsample=0.7), GROUPS),
    "ranking by draws": (
        objective("rank:ndcg", lambdarank_pair_method="mean", lambdarank_num_pair_per_sample=3),
        {**GROUPS, "weight": np.linspace(0, 1, N_ROWS // 15)},
    ),
    "ranking with a bias": (objective("rank:ndcg", lambdarank_unbiased=True), GROUPS),
    "intervals": (
        objective("survival:aft"), {"label_lower_bound": np.exp(Y), "label_upper_bound": np.exp(Y) + 1, "label": None}
    ),
    "weighted intervals": (
        objective("survival:aft", aft_loss_distribution="extreme", aft_loss_distribution_scale=0.5),
        {"label_lower_bound": np.exp(Y), "label_upper_bound": np.full(N_ROWS, np.inf), "label": None,
         "weight": np.abs(Y)},
    ),
    "hazards": (objective("survival:cox"), {"label": Y}),
    "leaves": ({"grow_policy": "lossguide", "max_leaves": 6, "max_depth": 0}, {}),
    "few leaves": ({"max_leaves": 5}, {}),
    "no limit": ({"max_depth": 0, "min_child_weight": 5}, {}),
    "stumps": ({"max_depth": 1}, {}),
    "deeper than a launch": ({"max_depth": 14, "min_child_weight": 0.1, "gamma": 0.5}, {}),
    "two bins": ({"max_bin": 2}, {}),
    "a byte of bins": ({"max_bin": 256, "max_depth": 2}, {}),
    "wide codes": ({"max_bin": 400, "max_depth": 2}, WIDE),
    "penalties": ({"lambda": 3, "alpha": 0.7, "gamma": 0.1, "min_child_weight": 4}, {}),
    "steps": ({"max_delta_step": 0.2, "lambda": 0, "min_child_weight": 0}, {}),
    "rows": (objective("binary:logistic", subsample=0.6, num_parallel_tree=2), BINARY),
    "rows by gradients": ({"subsample": 0.5, "sampling_method": "gradient_based"}, {}),
    "goss": ({"sampling_method": "goss", "top_rate": 0.2, "other_rate": 0.3}, {}),
    "columns of trees": ({"colsample_bytree": 0.5}, {}),
    "columns of levels": ({"colsample_bylevel": 0.5}, {}),
    "columns of nodes": (
        {"colsample_bynode": 0.5, "grow_policy": "lossguide"}, {"feature_weights": np.arange(1, N_FEATURES + 1)}
    ),
    "interactions": ({"interaction_constraints": [[0, 1], [2, 3]]}, {}),
    "weights": ({}, {"weight": np.where(Y > 0, 0.0, np.abs(Y))}),
    "margins": (objective("binary:logistic"), {**BINARY, "base_margin": Y}),
    "an outlier": ({}, {"label": OUTLIER}),
    "an outlier among weights": (objective("binary:logistic"), {**BINARY, "weight": np.abs(OUTLIER)}),
    "several targets": ({}, TWO),
    "dropout": ({"booster": "dart", "rate_drop": 0.5}, {}),
    "sparse rows": ({}, {"data": sp.csr_matrix(np.nan_to_num(X) * (np.abs(X) > 0.5))}),
    "one-hot columns": ({}, {"data": sp.csr_matrix(np.eye(8, dtype=np.float32)[np.arange(N_ROWS) % 8])}),
    "one feature": ({}, {"data": X[:, :1]}),
    "nothing but missing": ({}, {"data": np.where(np.arange(N_FEATURES) == 1, np.float32(np.nan), X)}),
    "nothing to learn": ({}, {"label": np.zeros(N_ROWS)}),
    "one row": ({}, {"data": X[:1], "label": Y[:1]}),
    "monotone": ({"monotone_constraints": MONOTONE}, {}),
    "monotone leaves": (
        {"monotone_constraints": MONOTONE, **SOME_LEAVES}, {"weight": np.abs(Y)},
    ),
    "monotone classes": (
        objective("multi:softprob", num_class=3, monotone_constraints=MONOTONE, alpha=0.2, max_delta_step=0.6), CLASSES
    ),
    "monotone medians": (objective("reg:absoluteerror", monotone_constraints=MONOTONE), {}),
    "monotone, no missing values": ({"monotone_constraints": MONOTONE, "gamma": 0.1}, {"data": np.nan_to_num(X)}),
    "categories": ({}, SETS),
    "sets of categories": ({"max_cat_to_onehot": 1}, SETS),
    "small sets": ({"max_cat_to_onehot": 1, "max_cat_threshold": 2}, {**SETS, "data": np.nan_to_num(X)}),
    "leaves of categories": (
        objective("binary:logistic", max_cat_to_onehot=4, **SOME_LEAVES), {**SETS, **BINARY},
    ),
    "classes of categories": (
        objective("multi:softprob", num_class=3, max_cat_to_onehot=1, alpha=0.2, colsample_bynode=0.6),
        {**SETS, **CLASSES},
    ),
    "medians of categories": (objective("reg:absoluteerror", max_cat_to_onehot=2), SETS),
    "many categories": ({"max_cat_to_onehot": 1, "max_cat_threshold": 1000, "max_depth": 2}, MANY_CODES),
    "monotone categories": ({"monotone_constraints": MONOTONE, "max_cat_to_onehot": 4}, SETS),
    "smoothed": ({"path_smooth": 5}, {}),
    "smoothed leaves": (objective("binary:logistic", path_smooth=2.5, **SOME_LEAVES), {**BINARY, **SETS}),
    "smoothed and monotone": (
        objective("multi:softprob", num_class=3, path_smooth=3, monotone_constraints=MONOTONE, subsample=0.8),
        {**CLASSES, **SETS, "weight": np.abs(Y)},
    ),
    "smoothed medians": (objective("reg:absoluteerror", path_smooth=4), {}),
    "rows in leaves": ({"min_data_in_leaf": 10}, {}),
    "rows in leaves, by weight": (
        {"min_data_in_leaf": 8, **SOME_LEAVES}, {"weight": np.where(Y > 1, 0.0, np.abs(Y))}
    ),
    "rows in leaves of classes": (
        objective("multi:softprob", num_class=3, min_data_in_leaf=6, subsample=0.8, min_child_weight=0), CLASSES
    ),
    "rows in leaves of medians": (objective("reg:absoluteerror", min_data_in_leaf=9), {"weight": np.abs(Y)}),
    "rows in leaves, planes": (objective("binary:logistic", min_data_in_leaf=4), {**BINARY, "weight": np.abs(OUTLIER)}),
    "rows in leaves, wide codes": ({"min_data_in_leaf": 3, "max_bin": 400, "max_depth": 2}, {**WIDE, "weight": None}),
    "drawn candidates": ({"extra_trees": True}, {}),
    "drawn leaves": (objective("binary:logistic", extra_trees=True, num_parallel_tree=2, **SOME_LEAVES), BINARY),
    "drawn, of many rows": (
        objective("binary:logistic", extra_trees=True, min_data_in_leaf=5, colsample_bynode=0.7), BINARY
    ),
    "two rows": ({"min_child_weight": 0, "lambda": 0}, {"data": np.float32([[0], [1]]), "label": [0, 1]}),
}  # fmt: skip

# what the warning names; parameters; arguments of the matrix
ON_CPU = {
    "vectors": ("multi_output_tree", {"multi_strategy": "multi_output_tree"}, TWO),
    "symmetric": ("symmetric", {"grow_policy": "symmetric"}, {}),
    "sorted": ("exact", {"tree_method": "exact"}, {}),
    "proposals": ("approx", {"tree_method": "approx"}, {}),
    "local proposals": ("approx", {"tree_method": "approx", "sketch_proposal": "local"}, {}),
    "ordered boosting": ("boosting_type", {"boosting_type": "ordered"}, {}),
    "statistics": ("permutation", {"cat_strategy": "ordered_ts", "permutation_count": 2}, SETS),
    "linear": ("gblinear", {"booster": "gblinear"}, {}),
}


def matrix(given):
    """A matrix of a case's data."""
    given = {"data": X, "label": Y, **given}
    return arboost.DMatrix(given.pop("data"), given.pop("label"), **given)


def train(device, params, given, n_rounds=N_ROUNDS, **options):
    """Bytes of the model, margins of the training rows, metrics of every round, and what was warned of."""
    data, found = matrix(given), {}
    linear = params.get("booster") == "gblinear"
    params = {**({"seed": 3} if linear else COMMON), **params, "device": device}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        booster = arboost.train(
            params, data, n_rounds, evals=[(data, "train")], evals_result=found, verbose_eval=False, **options
        )
        margins = booster.predict(data, output_margin=True)
    messages = [str(w.message) for w in caught if "device=" in str(w.message)]
    return bytes(booster.save_raw()), margins.tobytes(), found, messages


# ---- matrices that are evaluated round by round ----

OTHER = np.concatenate([X[::2] * np.float32(3), X[:5] * np.float32(np.nan)])  # above and below all that was seen
OTHER_Y = np.concatenate([Y[::2], Y[:5]])
WEIGHT = np.abs(Y) + np.float32(0.1)
OF_NUMBERS = ["rmse", "mae", "mape", "mphe", "error@0.2"]
OF_BINARY = ["logloss", "error", "error@0.7", "auc", "aucpr", "rmse", "mae"]
OF_AMOUNTS = ["rmsle", "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik@1.3", "rmse"]

# objective and parameters, metrics, and how labels follow from Y
SCORED = {
    "regression": ({}, OF_NUMBERS, lambda y: y),
    "quantile": ({"quantile_alpha": 0.3}, ["quantile", "rmse"], lambda y: y),
    "expectile": ({"expectile_alpha": 0.3}, ["expectile"], lambda y: y),
    "huber": (objective("reg:pseudohubererror", huber_slope=0.5), ["mphe", "mae"], lambda y: y),
    "logarithms": (objective("reg:squaredlogerror"), ["rmsle"], lambda y: np.exp(y / 2)),
    "binary": (objective("binary:logistic"), OF_BINARY, lambda y: y > 0),
    "raw margins": (objective("binary:logitraw"), OF_BINARY, lambda y: y > 0),
    "hinge": (objective("binary:hinge"), ["error", "auc"], lambda y: y > 0),
    "shares": (objective("reg:logistic"), ["logloss", "auc", "aucpr", "rmse"], lambda y: 1 / (1 + np.exp(-y))),
    "counts": (objective("count:poisson"), OF_AMOUNTS, lambda y: np.floor(np.exp(y / 2))),
    "gamma": (objective("reg:gamma"), OF_AMOUNTS, lambda y: np.exp(y / 2)),
    "tweedie": (objective("reg:tweedie"), OF_AMOUNTS, lambda y: np.floor(np.exp(y / 2))),
    "classes": (
        objective("multi:softprob", num_class=3), ["merror", "mlogloss"], lambda y: np.digitize(y, [-1, 1])
    ),
    "softmax": (
        objective("multi:softmax", num_class=3, num_parallel_tree=2),
        ["mlogloss", "merror"], lambda y: np.digitize(y, [-1, 1]),
    ),
    "several targets": ({}, ["rmse", "mae"], lambda y: np.stack([y, -np.abs(y)], axis=1)),
    "an outlier": ({}, ["rmse"], lambda y: np.where(np.arange(len(y)) == 7, np.float32(1e9), y)),
    "absolute error": (objective("reg:absoluteerror"), ["mae", "rmse"], lambda y: y),
    "monotone": ({"monotone_constraints": MONOTONE}, ["rmse"], lambda y: y),
    "one-hot": ({"max_cat_to_onehot": 10}, ["rmse", "mae"], lambda y: y),
    "sets": (objective("binary:logistic", max_cat_to_onehot=1), ["logloss", "auc"], lambda y: y > 0),
    "few rows": ({"subsample": 0.6, "num_parallel_tree": 2}, ["rmse"], lambda y: y),
}  # fmt: skip


SCORED_SETS = ("one-hot", "sets")  # with columns of categories


def watch(device, params, evals, n_rounds=N_ROUNDS, **options):
    """Scores of every round, and the model's bytes; the first of evals is trained on."""
    found = {}
    booster = arboost.train(
        {**COMMON, **params, "device": device}, evals[0], n_rounds,
        evals=[(data, f"set {i}") for i, data in enumerate(evals)], evals_result=found, verbose_eval=False, **options,
    )  # fmt: skip
    return found, bytes(booster.save_raw())


def _watched(label_of, weighted, types=None):
    """One to train on, one with its values and one with its bins, of other rows."""
    options = ({"weight": WEIGHT}, {"weight": np.resize(WEIGHT, len(OTHER))}) if weighted else ({}, {})
    options = [more | (types or {}) for more in options]
    trained = arboost.DMatrix(X, label_of(Y), **options[0])
    bins = {"ref": trained, "max_bin": COMMON["max_bin"]}
    others = arboost.DMatrix, lambda *args, **more: arboost.QuantileDMatrix(*args, **more, **bins)
    return [trained, *(make(OTHER, label_of(OTHER_Y), **options[1]) for make in others)]


def score(device, case, weighted):
    """Scores of every round of a case, and the model's bytes."""
    params, metrics, label_of = SCORED[case]
    types = SETS if case in SCORED_SETS else None
    return watch(device, {**params, "eval_metric": metrics}, _watched(label_of, weighted, types))
