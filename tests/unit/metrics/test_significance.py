"""`ams@ratio` against XGBoost's, with ties, weights and ratios."""

import numpy as np
import pytest

import arboost
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

xgboost = pytest.importorskip("xgboost")
PARAMS = resolve({}).learner


def theirs(name, pred, label, weight):
    """XGBoost's value: the predictions go in as base margins of a model without trees."""
    data = xgboost.DMatrix(np.zeros((len(pred), 1)), label, weight=weight, base_margin=pred)
    params = {"eval_metric": name, "objective": "binary:logitraw", "nthread": 1}
    return float(xgboost.Booster(params, [data]).eval(data).split(":")[-1])


@pytest.mark.parametrize("ratio", ["0", "0.15", "0.5", "0.001", "1"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_values", [3, 1000])
def test_against_xgboost(ratio, weighted, n_values):
    rng = np.random.default_rng(7)
    pred = (rng.permutation(1000)[:200] % n_values / n_values).astype(np.float32)
    label = (pred + 0.5 * rng.random(200) > 0.6).astype(np.float32)
    weight = rng.random(200).astype(np.float32) + 0.1 if weighted else None
    metric = make_metric(f"ams@{ratio}", PARAMS)
    found = metric.evaluate(Context(), pred, label, weight)
    if n_values == 3 and ratio not in ("0", "1"):  # the cut is among equal predictions, whose order is open
        assert np.isfinite(found)
    else:
        np.testing.assert_allclose(found, theirs(f"ams@{ratio}", pred, label, weight), rtol=1e-5)


def test_names_and_bad_ratios():
    assert make_metric("ams@0", PARAMS).name == "ams@0"
    assert make_metric("ams@0.15", PARAMS).name == "ams@0.15"
    for name in ("ams", "ams@", "ams@x", "ams@2", "ams@-1"):
        with pytest.raises(XGBoostError, match="ratio"):
            make_metric(name, PARAMS)


def test_in_training():
    X = np.arange(40.0).reshape(20, 2)
    data = arboost.DMatrix(X, X[:, 0] > 20)
    log = {}
    params = {"eval_metric": ["auc", "ams@0"], "objective": "binary:logistic"}
    arboost.train(params, data, 2, evals=[(data, "t")], evals_result=log, verbose_eval=False)
    assert list(log["t"]) == ["auc", "ams@0"]
    assert log["t"]["ams@0"][-1] > 0
