"""Names of metrics: parsing, defaults, direction; metrics as sums."""

import numpy as np
import pytest

from arboost.kernels.ops import metric as rows
from arboost.matrix.meta import MetaInfo
from arboost.metrics import METRICS, make_metric
from arboost.metrics.base import CurveSum
from arboost.params.resolve import resolve
from arboost.runtime import sums
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


AS_SUMS = ["rmse", "rmsle", "mae", "mape", "mphe", "logloss", "error", "error@0.7", "quantile", "expectile",
           "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik@1.3", "auc", "aucpr"]  # fmt: skip


def of_rows(weighted):
    rng = np.random.default_rng(0)
    info, pred = MetaInfo(500, 1), rng.uniform(0.01, 0.99, 500).astype(np.float32)
    info.set_label(rng.random(500) < pred)
    if weighted:
        info.set_weight(rng.random(500))
    return info, pred


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", AS_SUMS)
def test_a_metric_as_one_sum(name, weighted):
    """Who adds it up elsewhere has the very same number."""
    ctx, metric, (info, pred) = Context(), make_metric(name, PARAMS), of_rows(weighted)
    found = metric.as_sum(ctx, info, 1)
    if isinstance(found, CurveSum):
        total = sums.sum_of(found.steps, rows.rank_rows(pred), found.positive, found.negative, found.scale)
        assert total / found.largest <= 1.0
    else:
        arguments = found.arguments
        if name in ("quantile", "expectile"):
            arguments = [np.full(500, found.arguments[0])]
        total = sums.sum_rows(ctx, 500, found.weight, found.values, pred, found.label, *arguments)
    assert found.finish(total) == metric.evaluate_info(ctx, pred, info)


@pytest.mark.parametrize("name", AS_SUMS)
def test_what_is_no_such_sum(name):
    """Labels that are not there, or as many as nobody knows what to do with, are for `evaluate_info` to refuse."""
    metric, (info, _) = make_metric(name, PARAMS), of_rows(False)
    assert metric.as_sum(Context(), info, 3) is None
    info.label = None
    assert metric.as_sum(Context(), info, 1) is None
