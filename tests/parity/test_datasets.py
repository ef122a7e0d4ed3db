"""On real data with XGBoost's parameters the test score is XGBoost's.

Cuts of continuous features differ a little (XGBoost sketches, we count), so scores differ by noise there; where every
feature has few distinct values, the cuts and with them the scores are the same.
"""

import numpy as np
import pytest

import arboost

xgboost = pytest.importorskip("xgboost")

N_ROWS = 5000
N_ROUNDS = 25
PARAMS = {
    "regression": {"objective": "reg:squarederror"},
    "binary": {"objective": "binary:logistic"},
    "multiclass": {"objective": "multi:softprob"},
    "count": {"objective": "count:poisson"},
}


def last_test_score(library, dataset, seed):
    """The last test score of a training on seven tenths of the rows."""
    params = {**PARAMS[dataset.task], "max_depth": 6, "eta": 0.2, "nthread": 1, "seed": seed}
    if dataset.task == "multiclass":
        params["num_class"] = dataset.n_classes
    order = np.random.default_rng(seed).permutation(len(dataset.y))
    cut = int(0.7 * len(order))
    dtrain, dtest = (library.DMatrix(dataset.X[rows], dataset.y[rows]) for rows in (order[:cut], order[cut:]))
    log = {}
    library.train(params, dtrain, N_ROUNDS, evals=[(dtest, "test")], evals_result=log, verbose_eval=False)
    return next(iter(log["test"].values()))[-1]


@pytest.mark.parametrize(
    "name",
    ["california_housing", "diamonds", "adult", "bank_marketing", "electricity", "higgs_7k", "messidor", "gmsc"],
)
def test_score_is_within_noise_of_xgboosts(name, load_dataset):
    dataset = load_dataset(name, N_ROWS)
    scores = np.array(
        [[last_test_score(library, dataset, seed) for library in (arboost, xgboost)] for seed in range(5)]
    )
    ratio = scores[:, 0] / scores[:, 1]
    noise = ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert ratio.mean() < 1 + max(0.01, 2.5 * noise), scores
    assert abs(ratio.mean() - 1) < 0.04, scores


@pytest.mark.parametrize("name", ["bike_sharing", "agaricus", "a9a"])
def test_score_is_xgboosts_where_the_cuts_are(name, load_dataset):
    dataset = load_dataset(name, N_ROWS)
    assert last_test_score(arboost, dataset, 0) == pytest.approx(last_test_score(xgboost, dataset, 0), rel=2e-3)


@pytest.mark.parametrize("name", ["letter", "covtype", "bemtpl97"])
def test_score_of_many_classes_and_counts(name, load_dataset):
    dataset = load_dataset(name, N_ROWS)
    assert last_test_score(arboost, dataset, 0) == pytest.approx(last_test_score(xgboost, dataset, 0), rel=0.04)
