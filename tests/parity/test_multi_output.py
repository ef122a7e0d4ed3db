"""Several outputs against XGBoost: the same trees where cuts are the same, equally good ones on real data."""

import json
import math
import statistics

import numpy as np
import pytest
from scipy.stats import t as student_t

import arboost
import datasets

xgboost = pytest.importorskip("xgboost")

STRATEGIES = ("one_output_per_tree", "multi_output_tree")
BASE = {"multi_strategy": "multi_output_tree", "nthread": 1, "verbosity": 0}
_RNG = np.random.default_rng(0)
X = np.round(_RNG.standard_normal((400, 4)) * 8).astype(np.float32) / 8  # few values: every one has a cut of its own
Y = np.column_stack([X[:, 0] + X[:, 1], 2 * X[:, 1], X[:, 2] * X[:, 3]]).astype(np.float32)
HOLED = np.where(_RNG.random(X.shape) < 0.2, np.float32(np.nan), X)
WEIGHT = _RNG.random(400).astype(np.float32)


def structure(node):
    if "children" not in node:
        return None
    left, right = map(structure, node["children"])
    return node["split"], node["split_condition"], node["missing"], left, right


def check_same_trees(table, label, params, weight=None, n_rounds=5):
    """Equal splits, and weights within float32's rounding; XGBoost sums in float64, we in integers."""
    ours, theirs = (
        library.train(BASE | params, library.DMatrix(table, label, weight=weight), n_rounds)
        for library in (arboost, xgboost)
    )
    for mine, other in zip(ours.get_dump(dump_format="json"), theirs.get_dump(dump_format="json"), strict=True):
        assert structure(json.loads(mine)) == structure(json.loads(other.replace("...", "0")))
    margins = [
        model.predict(library.DMatrix(table), output_margin=True)
        for model, library in ((ours, arboost), (theirs, xgboost))
    ]
    np.testing.assert_allclose(*margins, rtol=1e-4, atol=2e-6)
    gains = [np.concatenate([tree["loss_changes"] for tree in trees_of(model)]) for model in (ours, theirs)]
    np.testing.assert_allclose(*gains, rtol=1e-3, atol=1e-4)
    covers = [np.concatenate([tree["sum_hessian"] for tree in trees_of(model)]) for model in (ours, theirs)]
    np.testing.assert_allclose(*covers, rtol=1e-5)


def trees_of(model):
    return json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize("table", [X, HOLED], ids=["dense", "holed"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_depth": 3, "min_child_weight": 20},
        {"alpha": 5, "lambda": 3},
        {"max_delta_step": 0.3},
        {"max_delta_step": 0.3, "alpha": 2},
        {"gamma": 3},
        {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
        {"max_bin": 400},
        {"num_parallel_tree": 2},
        {"base_score": 0.25},
    ],
    ids=str,
)
def test_same_trees(table, params):
    check_same_trees(table, Y, params)


@pytest.mark.parametrize(
    ("objective", "label"),
    [
        ("binary:logistic", Y > 0),
        ("reg:pseudohubererror", Y),
        ("reg:gamma", np.abs(Y) + 0.1),
        ("count:poisson", np.floor(np.abs(Y) * 3)),
        ("reg:tweedie", np.floor(np.abs(Y) * 3)),
        ("reg:absoluteerror", Y),
    ],
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_same_trees_for_objectives(objective, label, weight):
    check_same_trees(X, label.astype(np.float32), {"objective": objective}, weight, 3)


def test_same_trees_for_classes_and_quantiles():
    classes = np.digitize(Y[:, 0], [-1, 0, 1])
    check_same_trees(HOLED, classes, {"objective": "multi:softprob", "num_class": 4, "min_child_weight": 3})
    check_same_trees(HOLED, Y[:, 0], {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]})


@pytest.mark.parametrize("least", [0.3, 0.45, 0.81, 0.99, 1.01, 1.9])
def test_light_targets_get_no_weight(least):
    """min_child_weight is a target's own affair: too light, it has the weight 0 in that child, and the split stands."""
    G, H = np.array([[-10, -10], [9, 9]], np.float32), np.array([[1, 1], [0.4, 0.4]], np.float32)
    trees = []
    for library in (arboost, xgboost):
        data = library.DMatrix(np.array([[0], [1]], np.float32), np.zeros((2, 2)))
        params = BASE | {"eta": 1, "base_score": 0, "min_child_weight": least, "lambda": 0, "max_depth": 1}
        model = library.Booster(params, [data])
        model.boost(data, 0, grad=G, hess=H)
        trees.append(trees_of(model)[0])
    for name in ("left_children", "base_weights", "loss_changes", "sum_hessian"):
        np.testing.assert_allclose(*(tree[name] for tree in trees), rtol=1e-6, err_msg=name)


def load(name):
    try:
        return datasets.load(name)
    except datasets.DataUnavailable as reason:
        pytest.skip(str(reason))


def mean_loss(data, prediction, rows):
    """Squared error, each target on its own scale, or log loss."""
    y, p = data.y[rows], np.asarray(prediction, np.float64)
    if data.task == "multilabel":
        p = np.clip(p, 1e-15, 1 - 1e-15)
        return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))
    return float(np.mean((p - y) ** 2 / data.y.var(axis=0)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("name", "n_rounds"), [("rf1", 8), ("yeast_ml", 4)])
def test_as_good_on_real_data(name, n_rounds, strategy):
    """Five splits: the mean difference lies within its own noise, or we are better."""
    data = load(name).sample(2000)
    params = {"multi_strategy": strategy, "max_depth": 4, "eta": 0.3, "verbosity": 0, "nthread": 1}
    params["objective"] = "binary:logistic" if data.task == "multilabel" else "reg:squarederror"
    differences = []
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(data.y))
        train, test = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
        losses = []
        for library in (arboost, xgboost):
            model = library.train(params, library.DMatrix(data.X[train], data.y[train]), n_rounds)
            losses.append(mean_loss(data, model.predict(library.DMatrix(data.X[test])), test))
        differences.append(losses[0] / losses[1] - 1)
    error = statistics.stdev(differences) / math.sqrt(5)
    assert statistics.mean(differences) <= max(float(student_t.ppf(0.95, 4)) * error, 0.005), differences
