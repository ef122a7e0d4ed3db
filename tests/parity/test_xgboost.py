"""Same parameters, same data: XGBoost's trees, predictions and scores.

The features have few distinct values, so both sides have one bin per value. Leaf values and scores differ in the last
digits (XGBoost sums floats); where two splits gain exactly the same, XGBoost's choice hangs on that rounding, so
parameters that make ties (see TIES) are left to the metrics.
"""

import json
import warnings

import numpy as np
import pytest

import arboost
from boosting_cases import OBJECTIVES, loss_params, make_features, make_label, n_outputs

xgboost = pytest.importorskip("xgboost")

X = {False: make_features(), True: make_features(missing=0.2)}
X_VALID = {False: make_features(150, seed=7), True: make_features(150, missing=0.2, seed=7)}
MISSING = pytest.mark.parametrize("missing", [False, True], ids=["dense", "missing"])
BASE = {"nthread": 1, "max_depth": 4}


def structure(tree):
    """A dumped tree without its numbers for gain, cover and leaf values."""
    if "leaf" in tree:
        return tree["nodeid"]
    keys = ("nodeid", "depth", "split", "split_condition", "yes", "no", "missing")
    return (*(tree[key] for key in keys), *(structure(child) for child in tree["children"]))


def values(tree):
    """Leaf values, gains and covers of a dumped tree, node by node."""
    if "leaf" in tree:
        return [(tree["leaf"], 0.0, tree["cover"])]
    return [(0.0, tree["gain"], tree["cover"]), *(v for child in tree["children"] for v in values(child))]


def fit(library, params, X, y, X_valid, y_valid, info, n_rounds):
    dtrain = library.DMatrix(X, y, **info)
    n = len(y_valid)
    dvalid = library.DMatrix(X_valid, y_valid, **{name: value[:n] for name, value in info.items()})
    log = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # XGBoost's about glibc or metrics of many quantiles
        booster = library.train(
            {**BASE, **params},
            dtrain,
            n_rounds,
            evals=[(dtrain, "train"), (dvalid, "valid")],
            evals_result=log,
            verbose_eval=False,
        )
    return booster, dtrain, dvalid, log


# The hessians of far-off rows are tiny here: XGBoost's float32 leaf values are 1e-5 off the float64 ones, ours 1e-7.
ROUNDED = {"reg:pseudohubererror": 1e-4}


def assert_same_training(params, missing, n_rounds=5, label=None, **info):
    """Both libraries, trained alike, are alike."""
    objective = params.get("objective", "reg:squarederror")
    rtol = ROUNDED.get(objective, 1e-5)
    data = X[missing], make_label(objective, X[missing]) if label is None else label
    valid = X_VALID[missing], make_label(objective, X_VALID[missing], seed=7)
    ours, *our_data, our_log = fit(arboost, params, *data, *valid, info, n_rounds)
    theirs, *their_data, their_log = fit(xgboost, params, *data, *valid, info, n_rounds)
    our_dump, their_dump = (
        [json.loads(tree) for tree in booster.get_dump(dump_format="json", with_stats=True)]
        for booster in (ours, theirs)
    )
    assert [structure(tree) for tree in our_dump] == [structure(tree) for tree in their_dump]
    for a, b in zip(our_dump, their_dump, strict=True):
        np.testing.assert_allclose(values(a), values(b), rtol=1e-3, atol=1e-4)
    for a, b in zip(our_data, their_data, strict=True):
        for kind in ({}, {"output_margin": True}):
            np.testing.assert_allclose(ours.predict(a, **kind), theirs.predict(b, **kind), rtol=rtol, atol=rtol)
        np.testing.assert_array_equal(ours.predict(a, pred_leaf=True), theirs.predict(b, pred_leaf=True))
    assert [(name, [*scores]) for name, scores in our_log.items()] == [(n, [*s]) for n, s in their_log.items()]
    for name, scores in their_log.items():
        for metric, score in scores.items():
            np.testing.assert_allclose(our_log[name][metric], score, rtol=1e-5, atol=1e-7, err_msg=f"{name} {metric}")


@MISSING
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective(objective, missing):
    assert_same_training(loss_params(objective), missing)


PARAMETERS = [
    {"max_depth": 1},
    {"max_depth": 2, "eta": 1.0},
    {"max_depth": 8},
    {"max_depth": 0, "gamma": 0.5},
    {"max_depth": 0, "max_leaves": 20, "grow_policy": "lossguide"},
    {"max_depth": 4, "max_leaves": 9, "grow_policy": "lossguide"},
    {"max_depth": 0, "min_child_weight": 5, "grow_policy": "lossguide"},
    {"max_depth": 6, "max_leaves": 11},
    {"gamma": 0.1},
    {"gamma": 5, "max_depth": 6},
    {"gamma": 2, "max_leaves": 16, "grow_policy": "lossguide"},
    {"reg_lambda": 10},
    {"reg_alpha": 1},
    {"reg_alpha": 0.5, "reg_lambda": 3, "gamma": 0.3},
    {"max_delta_step": 0.3},
    {"min_child_weight": 0},
    {"min_child_weight": 20},
    {"eta": 0.01},
    {"eta": 0},
    {"num_parallel_tree": 3},
    {"base_score": 0.3},
    {"base_score": 0.9, "num_parallel_tree": 2, "eta": 0.7},
]
NAMES = [",".join(f"{name}={value}" for name, value in params.items()) for params in PARAMETERS]


@MISSING
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob", "count:poisson"])
@pytest.mark.parametrize("params", PARAMETERS, ids=NAMES)
def test_parameters(params, objective, missing):
    assert_same_training({**loss_params(objective), **params}, missing, n_rounds=4)


@MISSING
@pytest.mark.parametrize("objective", ["reg:absoluteerror", "reg:quantileerror", "reg:gamma"])
@pytest.mark.parametrize(
    "params",
    [
        {"max_depth": 2, "eta": 1.0},
        {"max_depth": 0, "max_leaves": 12, "grow_policy": "lossguide"},
        {"gamma": 1},
        {"reg_alpha": 1},
        {"min_child_weight": 20},
        {"num_parallel_tree": 3},
        {"base_score": 0.3},
    ],
    ids=str,
)
def test_parameters_of_losses_with_ties(params, objective, missing):
    """Gradients of these losses have few distinct values, so splits tie easily; these parameters leave no tie here."""
    assert_same_training({**loss_params(objective), **params}, missing, n_rounds=4)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [("whole", False), ("whole", True), ("fractions", False), ("fractions", True), ("zeros", False)],
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights(objective, kind, missing):
    rng = np.random.default_rng(3)
    weight = rng.integers(1, 5, len(X[missing])).astype(np.float32)
    if kind == "fractions":
        weight = rng.random(len(weight)).astype(np.float32)
    elif kind == "zeros":
        weight[::3] = 0
    assert_same_training(loss_params(objective), missing, weight=weight)


@MISSING
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_base_margin(objective, missing):
    margin = np.random.default_rng(5).normal(size=(len(X[missing]), n_outputs(objective))).astype(np.float32) * 0.3
    assert_same_training(loss_params(objective), missing, base_margin=margin)


@MISSING
@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "reg:logistic"])
def test_scale_pos_weight(objective, missing):
    assert_same_training({**loss_params(objective), "scale_pos_weight": 3}, missing)


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
        {"objective": "reg:pseudohubererror", "huber_slope": 0.3},
        {"objective": "reg:quantileerror", "quantile_alpha": 0.5},
        {"objective": "count:poisson", "max_delta_step": 0.1},
    ],
    ids=lambda params: params["objective"],
)
def test_parameters_of_the_loss(params):
    assert_same_training(params, missing=True)


METRICS = {
    "reg:squarederror": ["rmse", "mae", "mape", "mphe", "rmsle"],
    "binary:logistic": ["logloss", "error", "error@0.3", "auc", "aucpr", "rmse"],
    "multi:softprob": ["merror", "mlogloss", "auc"],
    "count:poisson": ["poisson-nloglik", "rmse", "rmsle"],
    "reg:gamma": ["gamma-nloglik", "gamma-deviance", "mae"],
    "reg:tweedie": ["tweedie-nloglik@1.5", "tweedie-nloglik@1.3", "rmse"],
    "reg:quantileerror": ["quantile"],
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("objective", METRICS)
def test_metrics(objective, weighted):
    params = {**loss_params(objective), "eval_metric": METRICS[objective]}
    label = make_label(objective, X[True])
    if objective == "reg:squarederror":
        label = np.abs(label) + np.float32(0.1)  # rmsle and mape
    info = {"weight": np.random.default_rng(4).random(len(label)).astype(np.float32)} if weighted else {}
    assert_same_training(params, missing=True, label=label, **info)


def test_early_stopping():
    y = make_label("binary:logistic", X[True])
    y_valid = make_label("binary:logistic", X_VALID[True], seed=7)
    params = {**BASE, "objective": "binary:logistic", "eta": 0.8, "eval_metric": ["logloss", "auc"]}
    found = []
    for library in (arboost, xgboost):
        dtrain, dvalid = library.DMatrix(X[True], y), library.DMatrix(X_VALID[True], y_valid)
        booster = library.train(params, dtrain, 60, evals=[(dvalid, "v")], early_stopping_rounds=4, verbose_eval=False)
        found.append((booster.best_iteration, booster.num_boosted_rounds(), booster.best_score))
    assert found[0][:2] == found[1][:2]
    assert found[0][1] < 60
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-5)


CORNERS = {
    "one row": (np.array([[1.0, 2.0]]), np.array([3.0])),
    "one feature": (np.arange(20.0)[:, None] % 7, np.arange(20.0) % 5),
    "constant label": (make_features(40), np.full(40, 2.5)),
    "constant features": (np.ones((30, 3)), np.arange(30.0)),
    "a feature without values": (
        np.column_stack([np.full(60, np.nan), np.arange(60.0) % 11]),
        np.sin(np.arange(60.0)),
    ),
    "nothing but missing values": (np.full((25, 2), np.nan), np.arange(25.0)),
    "two values and missing ones": (np.tile([[0.0], [1.0], [np.nan]], (20, 1)), np.arange(60.0) % 3),
    "large values": (np.repeat([[-3e38], [1.0], [3e38]], 20, axis=0), np.arange(60.0) // 20),
    "denormal values": (np.repeat([[-1e-40], [0.0], [1e-40]], 20, axis=0), np.arange(60.0) // 20),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name):
    features, label = CORNERS[name]
    dumps, predictions = [], []
    for library in (arboost, xgboost):
        data = library.DMatrix(features.astype(np.float32), label.astype(np.float32))
        booster = library.train({**BASE, "min_child_weight": 0}, data, 3)
        dumps.append([structure(json.loads(tree)) for tree in booster.get_dump(dump_format="json")])
        predictions.append(booster.predict(data))
    assert dumps[0] == dumps[1]
    np.testing.assert_allclose(*predictions, rtol=1e-5, atol=1e-6)


TIES = [
    ("reg:squarederror", {"max_delta_step": 0.05, "reg_lambda": 0}),
    ("binary:logistic", {"reg_lambda": 0, "min_child_weight": 0}),
    ("reg:absoluteerror", {"max_delta_step": 0.2, "reg_alpha": 0.5}),
    ("multi:softprob", {"reg_lambda": 0}),
    ("reg:squarederror", {"max_bin": 16}),
    ("binary:logistic", {"max_bin": 5}),
]


@MISSING
@pytest.mark.parametrize(("objective", "params"), TIES, ids=str)
def test_where_trees_may_differ_the_fit_is_as_good(objective, params, missing):
    y, y_valid = make_label(objective, X[missing]), make_label(objective, X_VALID[missing], seed=7)
    args = ({**loss_params(objective), **params}, X[missing], y, X_VALID[missing], y_valid, {}, 10)
    ours, theirs = fit(arboost, *args)[-1], fit(xgboost, *args)[-1]
    for name in theirs:
        for metric, scores in theirs[name].items():
            assert ours[name][metric][-1] <= 1.15 * scores[-1], (name, metric)
