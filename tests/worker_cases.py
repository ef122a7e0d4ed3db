"""Kinds of models that workers train, and the share of the rows that each of them has.

Shares are unequal; some have no rows at all. Whatever workers are, threads or processes, the model must be that of one
machine.
"""

import numpy as np

import arboost

N_ROWS, GROUP = 600, 12
COMMON = {"max_depth": 4, "seed": 5, "nthread": 1}
# where the shares end, in groups of rows
ENDS = {1: [50], 2: [17, 50], 3: [0, 33, 50], 5: [3, 3, 30, 31, 50]}
COUNTS = sorted(ENDS)


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[:, 1] = rng.integers(0, 40, N_ROWS)
    X[:, 2] = rng.integers(0, 3, N_ROWS)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[N_ROWS // 2 :, 3] = np.nan_to_num(X[N_ROWS // 2 :, 3])  # missing in some shares only
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
    return X, (y + 0.1 * rng.normal(size=N_ROWS)).astype(np.float32)


X, Y = table()
CATEGORIES = {"feature_types": ["q", "c", "c", "q", "q"], "enable_categorical": True}
BINARY = {"label": (Y > 0).astype(int)}
CLASSES = {"label": np.digitize(Y, [-1, 1])}
SORTED = {"label": np.sort(Y > 0.8).astype(int)}  # whole shares without a positive label
GRADES = {"label": np.digitize(Y, [-1, 0, 1]), "qid": np.arange(N_ROWS) // GROUP}
GROUPS = {"label": (Y > 0).astype(int), "qid": np.arange(N_ROWS) // GROUP}
TARGETS = {"label": np.stack([Y, -Y, Y**2], axis=1)}
GAPS = {"label": np.where(np.arange(N_ROWS)[:, None] < [0, 300, 100], np.nan, TARGETS["label"])}
WEIGHT = {"weight": np.linspace(0, 2, N_ROWS) ** 2}
GROUP_WEIGHT = {"weight": np.linspace(0, 2, N_ROWS // GROUP)}
BOUNDS = {"label": None, "label_lower_bound": np.exp(Y), "label_upper_bound": np.exp(Y) + np.arange(N_ROWS) % 2}
EVERY_MEAN = ["rmse", "rmsle", "mae", "mphe", "logloss", "error", "error@0.3", "poisson-nloglik", "ams@0.2"]
LIST_METRICS = ["ndcg", "ndcg@3", "map", "map@5-", "pre@4", "auc", "aucpr"]

KINDS = {
    "regression": ({}, {}),
    "binary": ({"objective": "binary:logistic", "eval_metric": ["logloss", "auc", "aucpr", "error@0.3"]}, BINARY),
    "no positive label": ({"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}, SORTED),
    "scaled positives": ({"objective": "binary:logistic", "scale_pos_weight": 3}, BINARY | WEIGHT),
    "hinge": ({"objective": "binary:hinge"}, BINARY),
    "classes": ({"objective": "multi:softprob", "num_class": 3, "eval_metric": ["merror", "mlogloss", "auc"]}, CLASSES),
    "weighted classes": ({"objective": "multi:softmax", "num_class": 4, "eval_metric": "aucpr"}, CLASSES | WEIGHT),
    "poisson": ({"objective": "count:poisson"}, {"label": np.round(np.exp(Y))}),
    "tweedie": ({"objective": "reg:tweedie"}, {"label": np.maximum(Y, 0)} | WEIGHT),
    "gamma": (
        {"objective": "reg:gamma", "eval_metric": ["gamma-nloglik", "gamma-deviance", "mape"]},
        {"label": np.exp(Y)},
    ),
    "log error": ({"objective": "reg:squaredlogerror"}, {"label": np.exp(Y)}),
    "huber": ({"objective": "reg:pseudohubererror"}, {}),
    "absolute error": ({"objective": "reg:absoluteerror"}, {}),
    "weighted absolute error": ({"objective": "reg:absoluteerror", "subsample": 0.5}, WEIGHT),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0, 0.2, 0.5, 0.9, 1]}, {}),
    "weighted quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.8]}, WEIGHT),
    "expectiles": ({"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8]}, WEIGHT),
    "all means": ({"objective": "reg:logistic", "eval_metric": EVERY_MEAN}, BINARY | WEIGHT),
    "ndcg": ({"objective": "rank:ndcg", "eval_metric": ["ndcg", "ndcg@3", "ndcg-", "auc"]}, GRADES),
    "map": ({"objective": "rank:map", "eval_metric": LIST_METRICS}, GROUPS | GROUP_WEIGHT),
    "pairwise": ({"objective": "rank:pairwise"}, GRADES | GROUP_WEIGHT),
    "random pairs": ({"objective": "rank:ndcg", "lambdarank_pair_method": "mean"}, GRADES),
    "unbiased": ({"objective": "rank:ndcg", "lambdarank_unbiased": True}, GRADES),
    "unbiased pairs": (
        {"objective": "rank:pairwise", "lambdarank_unbiased": True, "lambdarank_pair_method": "mean"},
        GRADES,
    ),
    "one list": ({"objective": "binary:logistic", "eval_metric": ["ndcg@20", "map", "pre@9"]}, BINARY),
    "aft": ({"objective": "survival:aft", "eval_metric": ["aft-nloglik", "interval-regression-accuracy"]}, BOUNDS),
    "subsample": ({"subsample": 0.4}, {}),
    "hardly any row": ({"subsample": 0.01, "min_child_weight": 0}, {}),
    "gradient sample": ({"subsample": 0.4, "sampling_method": "gradient_based"}, {}),
    "columns": ({"colsample_bytree": 0.8, "colsample_bylevel": 0.8, "colsample_bynode": 0.6}, {}),
    "feature weights": ({"colsample_bynode": 0.5}, {"feature_weights": [1, 2, 3, 4, 0]}),
    "lossguide": ({"grow_policy": "lossguide", "max_leaves": 25, "max_depth": 0}, {}),
    "deep": ({"max_depth": 0, "min_child_weight": 0}, {}),
    "symmetric": ({"grow_policy": "symmetric", "max_depth": 5, "colsample_bylevel": 0.8}, {}),
    "deep symmetric": ({"grow_policy": "symmetric", "max_depth": 0, "min_child_weight": 0, "max_leaves": 90}, {}),
    "symmetric sets": (
        {"grow_policy": "symmetric", "max_cat_to_onehot": 1, "monotone_constraints": (1, 0, 0, 0, -1)},
        CATEGORIES,
    ),
    "rows in leaves": ({"min_data_in_leaf": 9, "objective": "binary:logistic"}, BINARY),
    "rows in leaves of equal hessians": ({"min_data_in_leaf": 9, "extra_trees": True}, {}),
    "smoothed": ({"path_smooth": 20, "subsample": 0.6}, WEIGHT),
    "goss": ({"sampling_method": "goss", "objective": "binary:logistic"}, BINARY | WEIGHT),
    "goss of classes": ({"sampling_method": "goss", "objective": "multi:softprob", "num_class": 3}, CLASSES),
    "goss of vectors": ({"multi_strategy": "multi_output_tree", "sampling_method": "goss", "top_rate": 0.4}, TARGETS),
    "many bins": ({"max_bin": 900}, {}),
    "monotone": ({"monotone_constraints": (1, 0, -1, 0, 0)}, {}),
    "monotone medians": ({"monotone_constraints": (1, 0, -1, 0, 0), "objective": "reg:absoluteerror"}, {}),
    "interactions": ({"interaction_constraints": [[0, 1], [2, 3]]}, {}),
    "categories": ({}, CATEGORIES),
    "sets": ({"max_cat_to_onehot": 1, "subsample": 0.7}, CATEGORIES),
    "weights": ({}, WEIGHT),
    "base margin": ({"objective": "binary:logistic"}, BINARY | {"base_margin": np.linspace(-1, 1, N_ROWS)}),
    "base score": ({"base_score": 0.25}, {}),
    "approx": ({"tree_method": "approx", "max_bin": 16, "objective": "binary:logistic"}, BINARY),
    "approx sample": ({"tree_method": "approx", "sketch_eps": 0.1, "subsample": 0.5}, WEIGHT | CATEGORIES),
    "dart": ({"booster": "dart", "rate_drop": 0.4}, {}),
    "forest": ({"num_parallel_tree": 2, "subsample": 0.5}, {}),
    "targets": ({"eval_metric": ["rmse", "mae"]}, TARGETS | WEIGHT),
    "targets with gaps": ({}, GAPS),
    "vectors": ({"multi_strategy": "multi_output_tree", "subsample": 0.7}, TARGETS),
    "symmetric vectors": ({"multi_strategy": "multi_output_tree", "grow_policy": "symmetric"}, TARGETS),
    "vectors split by sums": (
        {"multi_strategy": "multi_output_tree", "split_outputs": 1, "subsample": 0.7},
        TARGETS,
    ),
    "vectors of gradient samples": (
        {"multi_strategy": "multi_output_tree", "subsample": 0.5, "sampling_method": "gradient_based"},
        TARGETS,
    ),
    "vectors of medians": ({"multi_strategy": "multi_output_tree", "objective": "reg:absoluteerror"}, GAPS),
    "linear leaves": ({"linear_leaves": True, "linear_lambda": 1.0}, WEIGHT),
    "linear leaves of samples": (
        {"linear_leaves": True, "subsample": 0.5, "objective": "multi:softprob", "num_class": 3},
        CLASSES | CATEGORIES,
    ),
    "refreshed": ({"updater": "grow_quantile_histmaker,refresh", "subsample": 0.5}, {}),
}


def share_of(world_size, rank, ends=None):
    """The rows of one worker."""
    ends = [0, *(GROUP * end for end in ENDS[world_size])] if ends is None else [0, *ends]
    return slice(ends[rank], ends[rank + 1])


def cut(field, values, rows):
    """A field of some rows."""
    if values is None or field in ("feature_types", "enable_categorical", "feature_weights"):
        return values
    if len(values) < N_ROWS:  # of groups
        return values[rows.start // GROUP : rows.stop // GROUP]
    return values[rows]


def matrix_of(fields, rows, kind=arboost.DMatrix, data=X):
    fields = {name: cut(name, values, rows) for name, values in ({"label": Y} | fields).items()}
    return kind(data[rows], **fields, nthread=1)


def train(params, fields, rows=slice(0, N_ROWS), n_rounds=4, make=matrix_of, **options):
    matrix, result = make(fields, rows), {}
    options = {"evals": [(matrix, "train")], "evals_result": result, "verbose_eval": False} | options
    model = arboost.train({**COMMON, **params}, matrix, n_rounds, **options)
    return bytes(model.save_raw()), repr(result)
