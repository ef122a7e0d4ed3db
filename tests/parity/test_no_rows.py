"""Matrices without rows: training, evaluating and predicting as XGBoost does, and where it gives up, kindly."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import arboost

xgboost = pytest.importorskip("xgboost")

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
LIBRARIES = (xgboost, arboost)
BOOSTERS = ("gbtree", "gblinear", "dart")
ALIKE = ("reg:squarederror", "reg:absoluteerror", "binary:hinge", "rank:ndcg", "rank:pairwise", "survival:aft")
# XGBoost's base score of these is 0 (a probability of 1e-6), or it refuses them, or ends the process (rank:map).
BLANK = {
    "binary:logistic": 0.5,
    "reg:logistic": 0.5,
    "count:poisson": 1.0,
    "reg:gamma": 1.0,
    "reg:tweedie": 1.0,
    "survival:cox": 1.0,
    "rank:map": 0.0,
    "multi:softprob": [1 / 3] * 3,
    "multi:softmax": 0.0,
    "reg:quantileerror": [0.0, 0.0],
    "reg:expectileerror": [0.0, np.log(2)],
}


def no_rows(library, data=X[:0]):
    return library.DMatrix(data, label=[], label_lower_bound=[], label_upper_bound=[])


def train(library, params, n_rounds=3):
    data, history = no_rows(library), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.train(params, data, n_rounds, evals=[(data, "none")], evals_result=history, verbose_eval=False)
    return model, history


@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("objective", ALIKE)
def test_base_score_only(booster, objective):
    (theirs, their_history), (ours, history) = (
        train(library, {"booster": booster, "objective": objective}) for library in LIBRARIES
    )
    assert {name: dict(scores) for name, scores in their_history.items()} == history
    np.testing.assert_array_equal(ours.predict(arboost.DMatrix(X)), theirs.predict(xgboost.DMatrix(X)))
    assert ours.predict(no_rows(arboost)).shape == (0,)
    assert ours.num_boosted_rounds() == 3 and len(ours.get_dump()) == len(theirs.get_dump())
    reloaded = xgboost.Booster(model_file=ours.save_raw())
    np.testing.assert_array_equal(reloaded.predict(xgboost.DMatrix(X)), ours.predict(arboost.DMatrix(X)))


@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("objective", sorted(BLANK))
def test_a_margin_of_zero_where_xgboost_gives_up(booster, objective):
    params = {"booster": booster, "objective": objective, "num_class": 3 if "multi:" in objective else None}
    params |= {"quantile_alpha": [0.1, 0.9]} if "quantile" in objective else {}
    params |= {"expectile_alpha": [0.1, 0.9]} if "expectile" in objective else {}
    params = {name: value for name, value in params.items() if value is not None}
    ours, history = train(arboost, params)
    expected = np.broadcast_to(np.asarray(BLANK[objective], np.float32).T, ours.predict(arboost.DMatrix(X)).shape)
    np.testing.assert_allclose(ours.predict(arboost.DMatrix(X)), expected, rtol=2e-6)
    assert np.isfinite(list(history["none"].values())).all()


@pytest.mark.parametrize("tree_method", ["hist", "approx", "exact"])
def test_tree_methods_and_vectors(tree_method):
    assert train(arboost, {"tree_method": tree_method})[0].predict(arboost.DMatrix(X)).tolist() == [0.0] * 40
    data = arboost.DMatrix(X[:0], label=np.zeros((0, 3)))
    with pytest.warns(UserWarning, match="Empty dataset"):
        vectors = arboost.train({"multi_strategy": "multi_output_tree", "num_parallel_tree": 2}, data, 2)
    assert vectors.predict(arboost.DMatrix(X)).shape == (40, 3)
    assert json.loads(vectors.save_config())["learner"]["learner_model_param"]["num_target"] == "3"


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, pd.DataFrame, np.asarray])
def test_kinds_of_data(make):
    empty = make(X[:0])
    for data in (arboost.DMatrix(empty), arboost.QuantileDMatrix(empty, label=[])):
        with pytest.warns(UserWarning, match="Empty dataset") as caught:
            model = arboost.train({}, data, 3)
        assert len(caught) == 1  # not once a round
        assert model.predict(data).shape == (0,)
        assert model.inplace_predict(make(X)).tolist() == [0.0] * 40


def test_continued_training_adds_nothing():
    data = [library.DMatrix(X, X[:, 0]) for library in LIBRARIES]
    for library, full in zip(LIBRARIES, data, strict=True):
        model = library.train({}, full, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = library.train({}, no_rows(library), 2, xgb_model=model)
        assert more.num_boosted_rounds() == 4
        np.testing.assert_array_equal(more.predict(full), model.predict(full))
        again = library.train({}, full, 1, xgb_model=more)
        assert again.num_boosted_rounds() == 5


@pytest.mark.parametrize(
    "metric", ["rmse", "mae", "logloss", "error", "ndcg", "ndcg@5-", "map@3", "aft-nloglik", "auc"]
)
def test_metrics(metric):
    values = []
    for library in LIBRARIES:
        model = library.train({"eval_metric": metric, "disable_default_eval_metric": 1}, library.DMatrix(X, X[:, 0]), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values.append(model.eval(no_rows(library)))
    assert values[0] == values[1]


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBClassifier", "XGBRFRegressor", "XGBRanker"])
def test_estimators(name):
    found = []
    for library in LIBRARIES:
        model = getattr(library, name)(n_estimators=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[:0], np.zeros(0), **({"qid": []} if name == "XGBRanker" else {}))
        found.append(model.predict(X))
    np.testing.assert_array_equal(*found)


def test_a_given_base_score_stays():
    model, _ = train(arboost, {"base_score": 0.25, "objective": "binary:logistic"})
    np.testing.assert_allclose(model.predict(arboost.DMatrix(X)), 0.25, rtol=1e-6)


def test_a_custom_objective_sees_no_rows():
    with pytest.warns(UserWarning, match="Empty dataset"):
        model = arboost.train({}, no_rows(arboost), 2, obj=lambda margin, data: (margin, np.ones_like(margin)))
    assert model.predict(arboost.DMatrix(X)).tolist() == [0.5] * 40
