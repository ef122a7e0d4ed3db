"""`tree_method="exact"`: XGBoost's trees, node by node, numbers and all; and what XGBoost refuses.

Where two splits gain the same to the last digits XGBoost's choice hangs on the rounding of its float sums, so the data
here is continuous, with ties among values but none among gains.
"""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import arboost
from arboost.runtime import memory
from arboost.runtime.errors import XGBoostError

xgboost = pytest.importorskip("xgboost")

N_ROWS = 400


def make_table(missing=0.2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[:, 3] = np.round(2 * X[:, 3])
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=N_ROWS)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


FULL, LABEL = make_table(0.0)
HOLED, _ = make_table()
WEIGHT = np.random.default_rng(1).random(N_ROWS).astype(np.float32)
BINARY = (LABEL > 0).astype(np.float32)
CLASSES = np.digitize(LABEL, [-0.5, 0.5])
LOGISTIC = {"objective": "binary:logistic"}


def train_both(X, y, params, n_rounds=3, weight=None):
    params = {"tree_method": "exact", "nthread": 2, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pair = []
        for library in (arboost, xgboost):
            data = library.DMatrix(X, y, weight=weight)
            pair.append((library.train(params, data, n_rounds), data))
    return pair


def assert_same_node(mine, theirs, gain_tolerance):
    """Two nodes of JSON dumps, and all below: the same splits to the bit, numbers up to float32 sums."""
    for key in ("nodeid", "depth", "split", "split_condition", "yes", "no", "missing"):
        assert mine.get(key) == theirs.get(key), (key, mine, theirs)
    assert mine["cover"] == pytest.approx(theirs["cover"], rel=1e-5)
    assert mine.get("leaf", 0) == pytest.approx(theirs.get("leaf", 0), rel=1e-4, abs=1e-6)
    assert mine.get("gain", 0) == pytest.approx(theirs.get("gain", 0), rel=gain_tolerance, abs=gain_tolerance)
    for a, b in zip(mine.get("children", ()), theirs.get("children", ()), strict=True):
        assert_same_node(a, b, gain_tolerance)


def assert_same_models(pair, gain_tolerance=1e-3):
    (mine, mine_data), (theirs, their_data) = pair
    dumps = [model.get_dump(with_stats=True, dump_format="json") for model in (mine, theirs)]
    for a, b in zip(*dumps, strict=True):
        assert_same_node(json.loads(a), json.loads(b), gain_tolerance)
    assert np.allclose(mine.predict(mine_data), theirs.predict(their_data), rtol=1e-4, atol=1e-5)
    loaded = xgboost.Booster(model_file=bytearray(mine.save_raw("ubj")))
    assert np.array_equal(loaded.predict(their_data, output_margin=True), mine.predict(mine_data, output_margin=True))


CASES = {
    "dense": (FULL, LABEL, {}),
    "missing": (HOLED, LABEL, {}),
    "logistic": (HOLED, BINARY, LOGISTIC),
    "deep": (HOLED, LABEL, {"max_depth": 12, "min_child_weight": 0.5}),
    "light children": (HOLED, BINARY, {**LOGISTIC, "min_child_weight": 5}),
    "gamma prunes from below": (HOLED, LABEL, {"gamma": 2.0, "max_depth": 8}),
    "alpha": (HOLED, LABEL, {"alpha": 1.0, "lambda": 0.5}),
    "max_delta_step": (HOLED, LABEL, {"max_delta_step": 0.8}),
    "monotone": (HOLED, LABEL, {"monotone_constraints": "(1,-1,0,1,0)"}),
    "monotone, dense, pruned": (FULL, LABEL, {"monotone_constraints": "(1,-1,0,1,0)", "gamma": 0.3}),
    "interactions": (HOLED, LABEL, {"interaction_constraints": "[[0,1],[2,3,4]]"}),
    "classes": (HOLED, CLASSES, {"objective": "multi:softprob", "num_class": 3}),
    "parallel trees": (HOLED, LABEL, {"num_parallel_tree": 3}),
    "poisson": (HOLED, np.round(np.exp(LABEL)), {"objective": "count:poisson"}),
    "dart": (HOLED, LABEL, {"booster": "dart"}),
    "one feature": (HOLED[:, :1], LABEL, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_same_trees(case):
    assert_same_models(train_both(*case))


@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "some zero"])
def test_same_trees_with_weights(zeros):
    """Rows of weight 0 still lend their values to thresholds, as in XGBoost."""
    weight = np.where(zeros & (np.arange(N_ROWS) % 7 == 0), 0, WEIGHT)
    assert_same_models(train_both(HOLED, LABEL, {"min_child_weight": 0.1}, weight=weight))


@pytest.mark.parametrize("one_hot", [False, True])
def test_same_trees_on_sparse_data(one_hot):
    """Absent entries are missing; explicit zeros are values."""
    S = sp.random(N_ROWS, 20, 0.2, format="csr", dtype=np.float32, random_state=1)
    if one_hot:
        S.data[:] = 1
    else:
        S.data[::5] = 0
    assert_same_models(train_both(S, LABEL, {"gamma": 0.1}))


def test_lossguide_is_ignored_with_a_word():
    pair = train_both(HOLED, LABEL, {"grow_policy": "lossguide", "max_leaves": 4})
    assert_same_models(pair)
    with pytest.warns(UserWarning, match="level by level"):
        arboost.train({"tree_method": "exact", "max_leaves": 4}, arboost.DMatrix(HOLED, LABEL), 1)


def test_columns_without_values_are_never_used():
    X = np.c_[np.full(N_ROWS, np.nan), HOLED, np.full(N_ROWS, np.nan)].astype(np.float32)
    assert_same_models(train_both(X, LABEL, {}))


def test_a_single_entry_of_sparse_data_has_its_own_row():
    data = arboost.DMatrix(sp.csr_matrix(([-1.0], [0], [0, 0, 0, 0, 1, 1, 1]), (6, 1)), [0, 0, 0, 9, 0, 0])
    for method in ("exact", "approx", "hist"):
        model = arboost.train({"tree_method": method, "min_child_weight": 0}, data, 3)
        np.testing.assert_array_equal(model._learner.margins(data)[:, 0], model.predict(data, output_margin=True))
        assert model.predict(data).argmax() == 3


def test_leaves_of_absolute_error_are_medians():
    """XGBoost's exact leaves them at a gradient step; its hist has the median of the residuals, as both have here."""
    data = arboost.DMatrix(HOLED, LABEL)
    params = {"objective": "reg:absoluteerror", "tree_method": "exact", "eta": 1, "base_score": 0}
    model = arboost.train(params, data, 1)
    leaf, prediction = model.predict(data, pred_leaf=True), model.predict(data)
    for number in np.unique(leaf):
        labels = np.sort(LABEL[leaf == number])
        low, high = labels[(len(labels) - 1) // 2], labels[len(labels) // 2]
        assert ((low <= prediction[leaf == number]) & (prediction[leaf == number] <= high)).all()


def test_same_training_through_updater():
    data = arboost.DMatrix(HOLED, LABEL)
    models = [
        arboost.train(params, data, 2).get_dump()
        for params in ({"tree_method": "exact"}, {"updater": "grow_colmaker,prune"})
    ]
    assert models[0] == models[1]


@pytest.mark.parametrize("library", [arboost, xgboost])
def test_what_is_refused(library):
    data = library.DMatrix(np.abs(np.round(FULL)), LABEL, feature_types=["c"] * 5, enable_categorical=True)
    with pytest.raises(ValueError, match="`exact` tree method doesn't support categorical features"):
        library.train({"tree_method": "exact"}, data, 1)
    bins = library.QuantileDMatrix(FULL, LABEL)
    with pytest.raises(ValueError, match="Only `hist` tree method can use `QuantileDMatrix`"):
        library.train({"tree_method": "exact"}, bins, 1)
    two = library.DMatrix(FULL, np.c_[LABEL, LABEL])
    with pytest.raises(ValueError, match="hist"):
        library.train({"tree_method": "exact", "multi_strategy": "multi_output_tree"}, two, 1)


def test_more_than_memory(monkeypatch):
    monkeypatch.setattr(memory, "limit", 20_000)
    data = arboost.DMatrix(FULL, LABEL)
    with pytest.raises(XGBoostError, match=r"of memory.*Use tree_method='hist'"):
        arboost.train({"tree_method": "exact"}, data, 1)


@pytest.mark.parametrize("sampling", [{"colsample_bytree": 0.71}, {"colsample_bytree": 0.3, "subsample": 0.6}], ids=str)
def test_features_left_out_of_a_tree_do_not_split_it(sampling):
    """What an earlier tree found for a feature is not taken for this one's: the margins
    kept in training are the predictions, and the loss falls as XGBoost's does."""
    data = pytest.importorskip("sklearn.datasets").load_breast_cancer()
    params = {**LOGISTIC, **sampling, "tree_method": "exact", "max_depth": 2, "eta": 0.47, "seed": 3}
    losses = {}
    for library in (arboost, xgboost):
        table, found = library.DMatrix(data.data, data.target), {}
        model = library.train(params, table, 14, evals=[(table, "train")], evals_result=found, verbose_eval=False)
        losses[library] = found["train"]["logloss"]
        if library is arboost:
            p = model.predict(library.DMatrix(data.data)).astype(np.float64)
            loss = -np.mean(np.where(data.target == 1, np.log(p), np.log1p(-p)))
            assert losses[library][-1] == pytest.approx(loss, rel=1e-5)
    assert losses[arboost][-1] < 1.25 * losses[xgboost][-1]
