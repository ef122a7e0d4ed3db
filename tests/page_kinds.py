"""A small table and kinds of models on it, for tests that lay its rows on pages."""

import numpy as np

N_ROWS = 3000
COMMON = {"max_depth": 5, "seed": 5}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[:, 1] = rng.integers(0, 40, N_ROWS)
    X[:, 2] = rng.integers(0, 3, N_ROWS)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
    return X, (y + 0.1 * rng.normal(size=N_ROWS)).astype(np.float32)


X, Y = table()
TYPES = ["q", "c", "c", "q", "q"]

KINDS = {
    "regression": ({}, {}),
    "binary": ({"objective": "binary:logistic"}, {"label": (Y > 0).astype(int)}),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, {"label": np.digitize(Y, [-1, 1])}),
    "lossguide": ({"grow_policy": "lossguide", "max_leaves": 25, "max_depth": 0}, {}),
    "deep": ({"max_depth": 0, "min_child_weight": 0}, {}),
    "symmetric": ({"grow_policy": "symmetric", "subsample": 0.7, "colsample_bynode": 0.8}, {}),
    "symmetric sets": (
        {"grow_policy": "symmetric", "max_cat_to_onehot": 1, "monotone_constraints": (1, 0, 0, 0, -1)},
        {"feature_types": TYPES, "enable_categorical": True},
    ),
    "rows in leaves": ({"min_data_in_leaf": 30, "objective": "reg:pseudohubererror"}, {}),
    "drawn candidates": ({"extra_trees": True, "subsample": 0.7}, {}),
    "smoothed": ({"path_smooth": 20, "objective": "binary:logistic"}, {"label": (Y > 0).astype(int)}),
    "goss": ({"sampling_method": "goss", "top_rate": 0.1, "other_rate": 0.2}, {}),
    "many bins": ({"max_bin": 900}, {}),
    "subsample": ({"subsample": 0.4}, {}),
    "gradient sample": ({"subsample": 0.4, "sampling_method": "gradient_based"}, {}),
    "columns": ({"colsample_bytree": 0.8, "colsample_bynode": 0.6}, {}),
    "monotone": ({"monotone_constraints": (1, 0, -1, 0, 0)}, {}),
    "interactions": ({"interaction_constraints": [[0, 1], [2, 3]]}, {}),
    "categories": ({}, {"feature_types": TYPES, "enable_categorical": True}),
    "sets": ({"max_cat_to_onehot": 1, "subsample": 0.7}, {"feature_types": TYPES, "enable_categorical": True}),
    "absolute error": ({"objective": "reg:absoluteerror"}, {}),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}, {}),
    "vectors": ({"multi_strategy": "multi_output_tree"}, {"label": np.stack([Y, -Y, Y**2], axis=1)}),
    "symmetric vectors": (
        {"multi_strategy": "multi_output_tree", "grow_policy": "symmetric", "subsample": 0.7},
        {"label": np.stack([Y, -Y, Y**2], axis=1)},
    ),
    "vectors split by sums": (
        {"multi_strategy": "multi_output_tree", "split_outputs": 1, "subsample": 0.4},
        {"label": np.stack([Y, -Y, Y**2], axis=1)},
    ),
    "weights": ({}, {"weight": np.linspace(0, 2, N_ROWS)}),
    "dart": ({"booster": "dart", "rate_drop": 0.4}, {}),
    "forest": ({"num_parallel_tree": 2, "subsample": 0.5}, {}),
    "ranking": ({"objective": "rank:ndcg"}, {"label": np.digitize(Y, [-1, 0, 1]), "qid": np.arange(N_ROWS) // 20}),
    "survival": ({"objective": "survival:aft"}, {"label_lower_bound": np.exp(Y), "label_upper_bound": np.exp(Y) + 1}),
}
