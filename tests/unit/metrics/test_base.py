"""Names of metrics: parsing, defaults, direction."""

import numpy as np
import pytest

from arboost.metrics import METRICS, make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

PARAMS = resolve({"quantile_alpha": 0.5, "expectile_alpha": 0.5, "eval_metric": ["quantile", "expectile"]}).learner


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("rmse", "rmse"),
        ("error", "error"),
        ("error@0.5", "error"),
        ("error@0.70", "error@0.7"),
        ("error@-1e-3", "error@-0.001"),
        ("tweedie-nloglik@1.30", "tweedie-nloglik@1.3"),
        ("tweedie-nloglik@1", "tweedie-nloglik@1"),
        ("poisson-nloglik", "poisson-nloglik"),
    ],
)
def test_names_are_shown_as_xgboost_does(name, shown):
    assert make_metric(name, PARAMS).name == shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rmsee", "Unknown metric function rmsee.*mean `rmse`"),
        ("zzz", "Unknown metric function zzz. Known metrics"),
        ("", "Unknown metric function"),
        ("error@", "unable to parse the threshold"),
        ("error@abc", "unable to parse the threshold"),
        ("tweedie-nloglik", "must be in format tweedie-nloglik@rho"),
        ("tweedie-nloglik@2", r"interval \[1, 2\)"),
        ("tweedie-nloglik@0.9", r"interval \[1, 2\)"),
        ("tweedie-nloglik@nan", r"interval \[1, 2\)"),
        ("rmse@3", "takes no parameter"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(XGBoostError, match=message):
        make_metric(name, PARAMS)


def test_quantile_needs_its_alpha():
    with pytest.raises(XGBoostError, match="quantile_alpha"):
        make_metric("quantile", resolve({}).learner)


def test_which_are_maximized():
    arguments = {"tweedie-nloglik": "@1.5", "ams": "@0.1"}
    made = {name: make_metric(name + arguments.get(name, ""), PARAMS) for name in METRICS}
    ranks = {name + minus for name in ("ndcg", "map", "pre") for minus in ("", "-")}
    larger_is_better = {"auc", "aucpr", "ams", "interval-regression-accuracy"} | ranks
    assert {name for name in METRICS if made[name].maximize} == larger_is_better


@pytest.mark.parametrize("name", ["rmse", "mlogloss", "auc", "quantile"])
def test_labels_are_needed(name):
    with pytest.raises(XGBoostError, match="label set cannot be empty"):
        make_metric(name, PARAMS).evaluate(Context(), np.zeros(3, np.float32), None)
