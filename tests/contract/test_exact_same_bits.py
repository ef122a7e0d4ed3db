"""The same bytes from `tree_method="exact"` for any number of threads and any form of the same data."""

import numpy as np
import pytest
import scipy.sparse as sp

import arboost
from arboost.levels import exact

X = np.random.default_rng(0).normal(size=(3000, 6)).astype(np.float32)
X[:, 1] = np.round(2 * X[:, 1])
LABEL = (X[:, 0] + X[:, 1] * X[:, 2]).astype(np.float32)
X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
CASES = {
    "squared error": {},
    "logistic": {"objective": "binary:logistic"},
    "absolute error": {"objective": "reg:absoluteerror"},
    "gamma loss": {"objective": "reg:gamma"},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "sampled": {"subsample": 0.5, "colsample_bytree": 0.8, "colsample_bynode": 0.7, "num_parallel_tree": 2},
    "deep and pruned": {"max_depth": 0, "gamma": 0.2, "min_child_weight": 0},
    "constrained": {"monotone_constraints": "(1,0,0,0,-1,0)", "interaction_constraints": "[[0,1,2],[3,4,5]]"},
}


def label_for(params):
    objective = params.get("objective", "")
    if objective == "binary:logistic":
        return (LABEL > 0).astype(np.float32)
    if objective == "reg:gamma":
        return np.exp(LABEL / 4)
    return np.digitize(LABEL, [-1, 1]) if objective == "multi:softprob" else LABEL


def raw(params, data, n_rounds=3):
    model = arboost.train({"tree_method": "exact", "max_depth": 5, **params}, data, n_rounds)
    return bytes(model.save_raw()), model.predict(data).tobytes()


@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_any_number_of_threads(params, monkeypatch):
    monkeypatch.setattr(exact, "TEAM_ENTRIES", 0)
    monkeypatch.setattr(exact, "PIECE_ENTRIES", 5)
    alone = raw({**params, "nthread": 1}, arboost.DMatrix(X, label_for(params)))
    for n_threads in (2, 3, 8):
        assert raw({**params, "nthread": n_threads}, arboost.DMatrix(X, label_for(params))) == alone, n_threads


def test_any_form_of_the_data():
    dense = raw({}, arboost.DMatrix(X, LABEL))
    rows, columns = np.nonzero(~np.isnan(X))
    csr = sp.csr_matrix((X[rows, columns], (rows, columns)), X.shape)
    for data in (np.asfortranarray(X), X.astype(np.float64), np.where(np.isnan(X), -99, X), csr, csr.tocsc()):
        missing = -99 if isinstance(data, np.ndarray) and (data == -99).any() else None
        assert raw({}, arboost.DMatrix(data, LABEL, missing=missing)) == dense


def test_in_one_go_or_two():
    data = arboost.DMatrix(X, LABEL)
    params = {"tree_method": "exact", "max_depth": 5, "subsample": 0.7}
    whole = arboost.train(params, data, 6)
    half = arboost.train(params, data, 3)
    again = arboost.train(params, arboost.DMatrix(X, LABEL), 3, xgb_model=half)
    assert bytes(again.save_raw()) == bytes(whole.save_raw())


def test_training_margins_are_predictions():
    """What training keeps adding up, rows that were not sampled included, is what the finished model predicts."""
    data = arboost.DMatrix(X, LABEL)
    log = {}
    params = {"tree_method": "exact", "subsample": 0.4, "gamma": 1.0, "eval_metric": "rmse"}
    model = arboost.train(params, data, 4, evals=[(data, "train")], evals_result=log, verbose_eval=False)
    fresh = float(model.eval(arboost.DMatrix(X, LABEL)).split(":")[1])
    assert log["train"]["rmse"][-1] == pytest.approx(fresh, rel=1e-6)


def test_a_second_training_and_any_threads_with_features_left_out():
    params = {"colsample_bytree": 0.5, "colsample_bylevel": 0.7, "subsample": 0.8}
    data = arboost.DMatrix(X, LABEL)
    first = raw({**params, "nthread": 1}, data, 8)
    assert raw({**params, "nthread": 1}, data, 8) == first
    assert raw({**params, "nthread": 3}, arboost.DMatrix(X, LABEL), 8) == first
