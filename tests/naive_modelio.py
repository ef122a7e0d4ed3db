"""Small models trained by XGBoost, one per corner of its file format, and a slow predictor that reads a SavedModel."""

import copy
import functools
import json
from dataclasses import dataclass

import numpy as np
import xgboost as xgb

from arboost.modelio.schema import SavedModel


@dataclass(frozen=True)
class Case:
    """A trained booster and rows to predict."""

    booster: xgb.Booster
    data: xgb.DMatrix
    X: np.ndarray

    def raw(self, format: str) -> bytes:
        return bytes(self.booster.save_raw(format))

    def doc(self) -> dict:
        """The parsed JSON file."""
        return json.loads(self.raw("json"))


def _numbers(n_rows: int = 250, n_features: int = 4, missing: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def _signal(X: np.ndarray) -> np.ndarray:
    filled = np.nan_to_num(X)
    noise = np.random.default_rng(8).normal(size=len(X))
    return filled[:, 0] - filled[:, 1] * filled[:, 2] + 0.3 * noise


def _case(params: dict, X: np.ndarray, y: np.ndarray, rounds: int = 4, data: dict | None = None, **train) -> Case:
    dmatrix = xgb.DMatrix(X, y, **(data or {}))
    params = {"nthread": 1, "max_depth": 3, **params}
    return Case(xgb.train(params, dmatrix, rounds, **train), dmatrix, X)


def _categorical(onehot: int) -> Case:
    X = _numbers()
    X[:, 0] = np.random.default_rng(9).integers(0, 9, len(X))
    X[::17, 0] = np.nan
    y = _signal(X) + np.nan_to_num(X[:, 0]) % 3
    data = {"feature_types": ["c", "q", "float", "q"], "enable_categorical": True}
    return _case({"max_cat_to_onehot": onehot}, X, y, data=data)


def _frame() -> Case:
    """String, integer and numerical columns of a DataFrame, so that the file holds a category container."""
    import pandas as pd

    X = _numbers(n_features=2)
    rng = np.random.default_rng(10)
    names = pd.Categorical(rng.choice(["bird", "cat", "dog", "eel"], len(X)))
    codes = pd.Categorical(rng.choice([3, 7, 2000, -5], len(X)))
    frame = pd.DataFrame({"animal": names, "x": X[:, 0], "code": codes, "y": X[:, 1]})
    X = np.column_stack([names.codes, X[:, 0], codes.codes, X[:, 1]]).astype(np.float32)
    dmatrix = xgb.DMatrix(frame, _signal(X), enable_categorical=True)
    booster = xgb.train({"nthread": 1, "max_depth": 3, "max_cat_to_onehot": 1}, dmatrix, 4)
    return Case(booster, dmatrix, X)


def _early_stopped() -> Case:
    X = _numbers()
    names = ["größe", "日本 語", 'quo"te\\', "😀/tab\tx"]
    data = {"feature_names": names, "feature_types": ["float", "int", "q", "i"]}
    dmatrix = xgb.DMatrix(X, (_signal(X) > 0).astype(float), **data)
    noise = xgb.DMatrix(X, np.random.default_rng(11).integers(0, 2, len(X)), **data)
    params = {"objective": "binary:logistic", "nthread": 1, "max_depth": 3}
    booster = xgb.train(
        params, dmatrix, 20, evals=[(noise, "noise")], early_stopping_rounds=3, verbose_eval=False, evals_result={}
    )
    booster.set_attr(note='a "quoted" \\ line\nnext ü 😀')
    return Case(booster, dmatrix, X)


def _huge_values() -> Case:
    """A threshold that overflows to infinity: it parts missing values from the rest."""
    X = (_numbers(missing=0.3) * np.float32(1e38)).astype(np.float32)
    return _case({"max_depth": 2}, X, np.isnan(X[:, 0]).astype(float), rounds=1)


@functools.cache
def gbtree_cases() -> dict[str, Case]:
    """Name -> a booster of scalar trees."""
    X = _numbers()
    y = _signal(X)
    positive = np.exp(y / 3)
    classes = np.digitize(y, [-1, 0, 1])
    return {
        "regression": _case({}, X, y),
        "binary": _case({"objective": "binary:logistic"}, X, (y > 0).astype(float)),
        "base_score": _case({"objective": "binary:logistic", "base_score": 0.3}, X, (y > 0).astype(float)),
        "multiclass": _case({"objective": "multi:softprob", "num_class": 4}, X, classes),
        "forest": _case(
            {"objective": "multi:softmax", "num_class": 4, "num_parallel_tree": 2, "subsample": 0.5}, X, classes, 2
        ),
        "poisson": _case({"objective": "count:poisson"}, X, positive),
        "quantile": _case({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}, X, y),
        "two_targets": _case({}, X, np.column_stack([y, -y])),
        "categorical_sets": _categorical(onehot=1),
        "categorical_onehot": _categorical(onehot=100),
        "frame": _frame(),
        "early_stopped": _early_stopped(),
        "pruned": _case({"tree_method": "exact", "gamma": 2.0, "max_depth": 5}, X, y, 2),
        "single_leaf": _case({"gamma": 1e9}, X, y, 1),
        "no_rounds": _case({}, X, y, 0),
        "huge_values": _huge_values(),
        "unbiased_rank": _case(
            {"objective": "rank:ndcg", "lambdarank_unbiased": 1},
            X,
            (y > 0).astype(int),
            2,
            {"qid": np.arange(250) // 50},
        ),
        "deep": _case({"max_depth": 0, "max_leaves": 60, "grow_policy": "lossguide"}, X, y, 2),
    }


@functools.cache
def other_cases() -> dict[str, Case]:
    """Name -> a booster that is not made of scalar trees."""
    X = _numbers()
    y = _signal(X)
    return {
        "dart": _case({"booster": "dart"}, X, y, 2),
        "gblinear": Case(xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, y), 2), xgb.DMatrix(X, y), X),
        "vector_leaf": _case({"multi_strategy": "multi_output_tree"}, X, np.column_stack([y, -y]), 2),
    }


def as_version_1(doc: dict) -> dict:
    """The same model as XGBoost 1.0 would have written it."""
    doc = copy.deepcopy(doc)
    doc["version"] = [1, 0, 0]
    learner = doc["learner"]
    for name in ("feature_names", "feature_types"):
        del learner[name]
    param = learner["learner_model_param"]
    scores = json.loads(param["base_score"])
    assert len(set(scores)) == 1
    param["base_score"] = repr(scores[0])
    for name in ("boost_from_average", "num_target"):
        del param[name]
    model = learner["gradient_booster"]["model"]
    for name in ("cats", "iteration_indptr"):
        del model[name]
    del model["gbtree_model_param"]["num_parallel_tree"]
    model["gbtree_model_param"]["size_leaf_vector"] = "0"
    for tree in model["trees"]:
        tree["default_left"] = [bool(left) for left in tree["default_left"]]
        tree["tree_param"]["size_leaf_vector"] = "0"
        for name in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[name]
    return doc


def find_leaf(tree, row: np.ndarray) -> int:
    """The leaf a row falls into; fails rather than walk for ever."""
    runs = zip(tree.categories_nodes, tree.categories_segments, tree.categories_sizes, strict=True)
    categories = {node: set(tree.categories[start : start + size].tolist()) for node, start, size in runs}
    node = 0
    for _ in range(tree.n_nodes):
        if tree.left[node] == -1:
            return node
        value = row[tree.feature[node]]
        if np.isnan(value):
            go_left = bool(tree.default_left[node])
        elif node in categories:
            go_left = int(value) not in categories[node]
        else:
            go_left = bool(value < tree.threshold[node])
        node = tree.left[node] if go_left else tree.right[node]
    raise AssertionError("the walk did not reach a leaf")


def find_leaves(model: SavedModel, X: np.ndarray) -> np.ndarray:
    """Leaf of every row in every tree."""
    return np.array([[find_leaf(tree, row) for tree in model.trees] for row in X]).reshape(len(X), len(model.trees))


def predict_margin(model: SavedModel, X: np.ndarray) -> np.ndarray:
    """Margin of every row and output, summed in tree order."""
    score = np.asarray(model.base_score)
    name = model.objective["name"]
    if name in ("binary:logistic", "reg:logistic"):
        score = np.log(score / (1 - score))
    elif name in ("count:poisson", "reg:gamma", "reg:tweedie"):
        score = np.log(score)
    margin = np.tile(np.broadcast_to(score, model.n_groups), (len(X), 1)).astype(np.float32)
    leaves = find_leaves(model, X)
    for i, (tree, group) in enumerate(zip(model.trees, model.tree_info, strict=True)):
        margin[:, group] += tree.threshold[leaves[:, i]]
    return margin
