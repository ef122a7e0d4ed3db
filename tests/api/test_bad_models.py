"""Bad input to models of every kind: a clear error, and nothing is lost (the model trains on afterwards).

Messages are matched by the short pieces that XGBoost's users know them by.
"""

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = RNG.uniform(0.1, 1, N).astype(np.float32)
RELEVANCE = np.arange(N) % 3
GROUP = {"label": RELEVANCE, "group": [20, 40]}
BOUNDS = {"label_lower_bound": Y, "label_upper_bound": Y + 1}
RANK, COX, AFT = {"objective": "rank:ndcg"}, {"objective": "survival:cox"}, {"objective": "survival:aft"}
CLASSES = {"objective": "multi:softprob", "num_class": 3}


def _pieces(label, **more):
    return {"label": label, **more}


# name: (parameters, what the matrix should have, what it has instead, message)
BAD_DATA = {
    "unsorted qid": (RANK, GROUP, _pieces(RELEVANCE, qid=np.arange(N)[::-1] // 20), "sorted in non-decreasing order"),
    "no groups": (RANK, GROUP, _pieces(RELEVANCE), "Either `group` or `qid` is required"),
    "few qid": (RANK, GROUP, _pieces(RELEVANCE, qid=[0, 1]), "Invalid query group structure"),
    "groups of other rows": (RANK, GROUP, _pieces(RELEVANCE, group=[10, 20]), "Invalid query group structure"),
    "negative group": (RANK, GROUP, _pieces(RELEVANCE, group=[80, -20]), "group"),
    "negative relevance": (RANK, GROUP, _pieces(RELEVANCE - 1, group=[60]), "0 or positive integer: found -1"),
    "half relevance": (RANK, GROUP, _pieces(RELEVANCE / 2, group=[60]), "0 or positive integer"),
    "relevance of 40": (RANK, GROUP, _pieces(RELEVANCE * 20, group=[60]), "lesser than or equal to 31"),
    "relevance for map": (
        {"objective": "rank:map"}, _pieces(RELEVANCE % 2, group=[60]), GROUP, "only be used with binary labels",
    ),
    "weights of rows": (RANK, GROUP, {**GROUP, "weight": Y}, "number of query groups"),
    "two relevances": (RANK, GROUP, {**GROUP, "label": np.stack([RELEVANCE] * 2, 1)}, "multi-output|inconsistent"),
    "NaN relevance": (RANK, GROUP, {**GROUP, "label": np.where(RELEVANCE == 0, np.nan, 1)}, "contains NaN"),
    "time of zero": (COX, _pieces(Y), _pieces(np.where(RELEVANCE == 0, 0, Y)), "times other than 0, found 20"),
    "infinite time": (COX, _pieces(Y), _pieces(np.where(RELEVANCE == 0, np.inf, Y)), "infinity"),
    "no bounds": (AFT, BOUNDS, _pieces(Y), "label_lower_bound is not set"),
    "one bound": (AFT, BOUNDS, {"label_lower_bound": Y}, "label_upper_bound is not set"),
    "crossed bounds": (AFT, BOUNDS, {"label_lower_bound": Y + 2, "label_upper_bound": Y}, "in row 0"),
    "bounds of zero": (AFT, BOUNDS, {"label_lower_bound": Y * 0, "label_upper_bound": Y * 0}, "positive in row 0"),
    "few bounds": (AFT, BOUNDS, {"label_lower_bound": Y[:5], "label_upper_bound": Y[:5]}, "label_lower_bound"),
    "few labels": ({}, _pieces(Y), _pieces(Y[:50]), "Invalid size for `label`"),
    "label of three dimensions": ({}, _pieces(Y), _pieces(Y.reshape(5, 4, 3)), "Invalid shape"),
    "more targets": ({}, _pieces(Y), _pieces(np.stack([Y, Y], 1)), "2 a row, the model 1|inconsistent labels"),
    "fewer targets": ({}, _pieces(np.stack([Y, Y], 1)), _pieces(Y), "inconsistent labels"),
    "two labels, classes": (
        CLASSES, _pieces(RELEVANCE), _pieces(np.stack([RELEVANCE] * 2, 1)), "one label a row|inconsistent",
    ),
    "unknown class": (CLASSES, _pieces(RELEVANCE), _pieces(RELEVANCE + 1), r"in the range of \[0, num_class\)"),
    "half a class": (CLASSES, _pieces(RELEVANCE), _pieces(RELEVANCE / 2), "not a whole number"),
    "two labels, quantile": (
        {"objective": "reg:quantileerror", "quantile_alpha": 0.5},
        _pieces(Y), _pieces(np.stack([Y, Y], 1)), "Multi-target|inconsistent",
    ),
    "negative, gamma": ({"objective": "reg:gamma"}, _pieces(Y), _pieces(Y - 0.5), "must be positive for gamma"),
    "negative, poisson": ({"objective": "count:poisson"}, _pieces(Y), _pieces(Y - 0.5), "must be non-negative"),
    "NaN label": ({}, _pieces(Y), _pieces(np.where(RELEVANCE == 0, np.nan, Y)), "contains NaN"),
    "negative weight": ({}, _pieces(Y), _pieces(Y, weight=-Y), "Weights must be positive"),
    "other columns": ({}, _pieces(Y), _pieces(Y, data=X[:, :2]), "Feature shape mismatch"),
}  # fmt: skip


def _matrix(info):
    info = dict(info)
    return arboost.DMatrix(info.pop("data", X), **info)


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name):
    params, good, bad, message = BAD_DATA[name]
    model = arboost.Booster({"max_depth": 2, **params})
    model.update(_matrix(good), 0)
    with pytest.raises(ValueError, match=message):
        model.update(_matrix(bad), 1)
    model.update(_matrix(good), 1)
    assert model.num_boosted_rounds() == 2
    assert model.save_raw() == arboost.train({"max_depth": 2, **params}, _matrix(good), 2).save_raw()


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_from_the_first_round(name):
    params, _, bad, message = BAD_DATA[name]
    if name in ("more targets", "fewer targets", "other columns"):
        pytest.skip("a model without rounds takes any")
    with pytest.raises(ValueError, match=message):
        arboost.train(params, _matrix(bad), 1)


DART, LINEAR, MEAN = {"booster": "dart"}, {"booster": "gblinear"}, {**RANK, "lambdarank_pair_method": "mean"}
# name: (good parameters, a bad one, message)
BAD_PARAMS = {
    "too many directions": (
        {},
        {"monotone_constraints": (1, 0, 0, 1)},
        "less or equal to the number of features. It is 4, there are 3",
    ),
    "direction 2": ({}, {"monotone_constraints": (2, 0, 0)}, "expect 1, 0 or -1 per feature"),
    "direction one half": ({}, {"monotone_constraints": (0.5, 0, 0)}, "expect 1, 0 or -1"),
    "direction 3 by name": ({}, {"monotone_constraints": {"a": 3}}, "expect 1, 0 or -1"),
    "direction in words": ({}, {"monotone_constraints": "(up,0)"}, "expect 1, 0 or -1"),
    "direction of nobody": ({}, {"monotone_constraints": {"z": 1}}, "not a subset of training data feature names: z"),
    "set with nobody": ({}, {"interaction_constraints": [["a", "z"]]}, "not a subset of .*'z'"),
    "set with a number too large": ({}, {"interaction_constraints": [[0, 7]]}, "not a subset of .*7"),
    "set with a negative number": ({}, {"interaction_constraints": [[0, -1]]}, "not a subset of .*-1"),
    "set that is none": ({}, {"interaction_constraints": [0, 1]}, "list of lists"),
    "half a set": ({}, {"interaction_constraints": "[[0, 1], [2"}, "expect nested lists"),
    "rate_drop": (DART, {"rate_drop": 1.5}, r"rate_drop exceed bound \[0, 1\]"),
    "skip_drop": (DART, {"skip_drop": -0.1}, "skip_drop exceed bound"),
    "sample_type": (DART, {"sample_type": "few"}, "valid values are: {'uniform', 'weighted'}"),
    "normalize_type": (DART, {"normalize_type": "none"}, "valid values are: {'tree', 'forest'}"),
    "feature_selector": (LINEAR, {"feature_selector": "best"}, "'cyclic', 'shuffle', 'random', 'greedy', 'thrifty'"),
    "linear updater": (LINEAR, {"updater": "refresh"}, "Unknown linear updater refresh"),
    "selector of shotgun": (LINEAR, {"feature_selector": "greedy"}, "Unsupported feature selector for shotgun"),
    "updater": ({}, {"updater": "grow_slowly"}, "Unknown tree updater grow_slowly"),
    "updater that grows nothing": ({}, {"updater": "prune"}, "can not be used to create new trees"),
    "process_type": ({}, {"process_type": "undo"}, "valid values are: {'default', 'update'}"),
    "update by growing": ({}, {"process_type": "update", "updater": "grow_colmaker"}, "modify existing trees"),
    "booster": ({}, {"booster": "forest"}, "Unknown booster"),
    "another booster": ({}, {"booster": "gblinear"}, "was trained with 'gbtree'"),
    "num_parallel_tree": ({}, {"num_parallel_tree": 0}, "should be greater equal to 1"),
    "no quantile": ({}, {"objective": "reg:quantileerror"}, "set quantile_alpha"),
    "quantile": ({}, {"objective": "reg:quantileerror", "quantile_alpha": 1.5}, "quantile_alpha exceed bound"),
    "no expectile": ({}, {"objective": "reg:expectileerror"}, "set expectile_alpha"),
    "expectile": ({}, {"objective": "reg:expectileerror", "expectile_alpha": [2]}, "expectile_alpha exceed bound"),
    "no classes": ({}, {"objective": "multi:softprob"}, "num_class should be greater equal to 1"),
    "sampling_method": ({}, {"sampling_method": "size"}, "valid values are: {'uniform', 'gradient_based', 'goss'}"),
    "subsample": ({}, {"subsample": 1.5}, "subsample exceed bound"),
    "multi_strategy": ({}, {"multi_strategy": "both"}, "one_output_per_tree"),
    "pair method": (MEAN, {"lambdarank_pair_method": "all"}, "valid values are: {'topk', 'mean'}"),
    "no pairs": (MEAN, {"lambdarank_num_pair_per_sample": 0}, "lambdarank_num_pair_per_sample"),
    "bias norm": (MEAN, {"lambdarank_bias_norm": -1}, "should be greater equal to 0"),
    "distribution": (AFT, {"aft_loss_distribution": "cauchy"}, "'normal', 'logistic', 'extreme'"),
    "scale": (AFT, {"aft_loss_distribution_scale": 0}, "must be positive and finite"),
    "objective": ({}, {"objective": "reg:cubederror"}, "Unknown objective function"),
    "other outputs": ({}, {"objective": "multi:softprob", "num_class": 3}, "model has 1 outputs, .* has 3"),
    "tree_method": ({}, {"tree_method": "guess"}, "tree_method"),
}


@pytest.mark.parametrize("name", BAD_PARAMS)
def test_bad_parameters(name):
    params, bad, message = BAD_PARAMS[name]
    info = {**GROUP} if "rank:" in str(params) else {**BOUNDS} if params == AFT else {"label": Y}
    data = _matrix(info | {"feature_names": ["a", "b", "c"]})
    model = arboost.train(params, data, 1)
    before = model.save_raw()
    changed = model.copy()
    with pytest.raises(XGBoostError, match=message):
        changed.set_param(bad)
        changed.update(data, 1)
    assert model.save_raw() == before
    assert arboost.train(params, data, 1, xgb_model=model).num_boosted_rounds() == 2
    if name not in ("another booster", "other outputs"):
        with pytest.raises(XGBoostError, match=message):
            arboost.train(params | bad, data, 1)


def test_constraints_that_overlap_are_fine():
    data = _matrix({"label": Y})
    for sets in ([[0, 1], [1, 2]], [[0, 1], [0, 1]], [[0, 0]], [[]], []):
        assert arboost.train({"interaction_constraints": sets}, data, 1).num_boosted_rounds() == 1


def test_ranker_without_groups():
    with pytest.raises(ValueError, match="Either `group` or `qid` is required"):
        arboost.XGBRanker().fit(X, RELEVANCE)
    with pytest.raises(ValueError, match="sorted in non-decreasing order"):
        arboost.XGBRanker().fit(X, RELEVANCE, qid=np.arange(N)[::-1])
