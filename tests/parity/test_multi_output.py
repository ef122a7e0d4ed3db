"""Several outputs against XGBoost: the same trees where cuts are the same, equally good ones on real data."""

import importlib
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


# ---- splits on reduced gradients ----

SPLITS = {
    "same": lambda g, h: (g, h),
    "none": lambda g, h: None,
    "mean": lambda g, h: (g.mean(axis=1), h.mean(axis=1)),
    "column": lambda g, h: (g.mean(axis=1, keepdims=True), h.mean(axis=1, keepdims=True)),
    "two": lambda g, h: (g[:, :2].copy(), h[:, :2].copy()),
}


def reduced(library, split):
    """Squared error that finds its splits on what `split` makes of the gradients."""

    class Reduced(importlib.import_module(f"{library.__name__}.objective").TreeObjective):
        def __call__(self, iteration, y_pred, dtrain):
            return y_pred - dtrain.get_label().reshape(y_pred.shape), np.ones_like(y_pred)

        def split_grad(self, iteration, grad, hess):
            return split(grad, hess)

    return Reduced()


@pytest.mark.parametrize("split", sorted(SPLITS))
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_depth": 2, "min_child_weight": 60},
        {"grow_policy": "lossguide", "max_leaves": 5, "reg_alpha": 2, "max_delta_step": 0.4},
        {"objective": "reg:absoluteerror", "max_depth": 3},
    ],
    ids=str,
)
def test_split_grad(split, params):
    models = [
        library.train(
            BASE | {"base_score": 0.5, **params},
            library.QuantileDMatrix(X, Y),
            4,
            obj=reduced(library, SPLITS[split]),
        )
        for library in (xgboost, arboost)
    ]
    for theirs, ours in zip(*map(trees_of, models), strict=True):
        for name in ("split_indices", "split_conditions", "left_children"):
            assert ours[name] == theirs[name]
        np.testing.assert_allclose(ours["sum_hessian"], theirs["sum_hessian"], rtol=1e-5)
        np.testing.assert_allclose(ours["leaf_weights"], theirs["leaf_weights"], rtol=1e-4, atol=1e-5)
    theirs, ours = models
    for read, library in ((arboost.Booster(model_file=theirs.save_raw()), arboost),
                          (xgboost.Booster(model_file=ours.save_raw()), xgboost)):  # fmt: skip
        np.testing.assert_allclose(read.predict(library.DMatrix(X)), ours.predict(arboost.DMatrix(X)), atol=1e-4)
    contributions = ours.predict(arboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=2), ours.predict(arboost.DMatrix(X)), atol=1e-4)


@pytest.mark.parametrize(
    "params",
    [
        {"num_parallel_tree": 3, "subsample": 0.6, "colsample_bynode": 0.5},
        {"subsample": 0.4, "sampling_method": "gradient_based"},
    ],
    ids=str,
)
def test_split_grad_of_samples(params):
    """The same bits for any number of threads, margins as the reloaded model predicts them, and an error that falls."""
    found = []
    for n_threads in (1, 3):
        data, history = arboost.QuantileDMatrix(X, Y), {}
        model = arboost.train(
            BASE | params | {"nthread": n_threads}, data, 6, obj=reduced(arboost, SPLITS["mean"]),
            evals=[(data, "train")], evals_result=history, verbose_eval=False,
        )  # fmt: skip
        found.append(bytes(model.save_raw()))
    assert found[0] == found[1]
    errors = history["train"]["rmse"]
    assert errors[-1] < 0.6 * errors[0]
    prediction = arboost.Booster(model_file=found[0]).predict(arboost.DMatrix(X))
    assert errors[-1] == pytest.approx(float(np.sqrt(np.mean((prediction - Y) ** 2))), rel=1e-5)


def test_split_grad_that_cannot_be_used():
    def fit(split, **params):
        return arboost.train(BASE | params, arboost.DMatrix(X, Y), 1, obj=reduced(arboost, split))

    with pytest.raises(ValueError, match="multi_strategy='multi_output_tree'"):
        fit(SPLITS["mean"], multi_strategy="one_output_per_tree")
    with pytest.raises(ValueError, match=r"for 400 rows; these have the shapes \(10,\)"):
        fit(lambda g, h: (g[:10, 0], h[:10, 0]))
    with pytest.raises(TypeError, match="returns two arrays"):
        fit(lambda g, h: (g[:, 0],))
    with pytest.raises(ValueError, match="NaN or infinite"):
        fit(lambda g, h: (g[:, 0] * np.nan, h[:, 0]))


# ---- medians in vectors ----


@pytest.mark.parametrize("eta", [0.3, 1.0])
def test_absolute_error_round_by_round(eta):
    """Where both cut alike, all rounds are alike: what parts the trees on other data is XGBoost's approximate cuts."""
    data = [library.DMatrix(X, Y) for library in (arboost, xgboost)]
    params = BASE | {"objective": "reg:absoluteerror", "eta": eta}
    ours, theirs = (library.train(params, d, 8) for library, d in zip((arboost, xgboost), data, strict=True))
    for n_rounds in range(1, 9):
        np.testing.assert_allclose(
            ours.predict(data[0], iteration_range=(0, n_rounds)),
            theirs.predict(data[1], iteration_range=(0, n_rounds)),
            rtol=1e-5, atol=1e-5,
        )  # fmt: skip


def test_absolute_error_with_missing_labels():
    """A leaf's weight for a target is the median residual of its rows that have that label."""
    label = np.where(np.random.default_rng(7).random(Y.shape) < 0.3, np.float32(np.nan), Y)
    params = BASE | {"objective": "reg:absoluteerror", "eta": 1, "max_depth": 3}
    data = arboost.DMatrix(X, label)
    model = arboost.train(params, data, 3)
    before = np.broadcast_to(np.nanmedian(label, axis=0), label.shape)
    np.testing.assert_allclose(arboost.train(params, data, 0).predict(data)[0], 0.5)
    for tree in range(3):
        leaf = model[tree].predict(data, pred_leaf=True)
        after = model.predict(data, iteration_range=(0, tree + 1))
        for one in np.unique(leaf):
            for target in range(3):
                rows = np.flatnonzero((leaf == one) & ~np.isnan(label[:, target]))
                step = np.median(label[rows, target] - before[rows, target])
                np.testing.assert_allclose(after[leaf == one, target] - before[leaf == one, target], step, atol=2e-5)
        before = after
