"""DART against XGBoost: equal where nothing is left to chance, equally good where it is.

Draws differ from XGBoost's (it uses one stream of random numbers), so trained models are compared where the drops are
certain: rate_drop 0 and 1, and one_drop with a single tree. Files, predictions and explanations are compared for any.
"""

import json
import math
import statistics

import numpy as np
import pytest
from scipy.stats import t as student_t

import arboost
from boosting_cases import make_features, make_label

xgboost = pytest.importorskip("xgboost")

X = make_features(400, missing=0.1)
Y = make_label("reg:squarederror", X)
BASE = {"booster": "dart", "max_depth": 3, "nthread": 1}
MULTI = {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2}


def label(params):
    return np.digitize(Y, np.quantile(Y, [0.3, 0.6])) if "num_class" in params else Y


def train_both(n_rounds, params):
    y = label(params)
    return [lib.train({**BASE, **params}, lib.DMatrix(X, y), n_rounds) for lib in (arboost, xgboost)]


def weight_drop(booster):
    return np.float32(json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["weight_drop"])


@pytest.mark.parametrize("extra", [{}, MULTI], ids=["one", "multi"])
@pytest.mark.parametrize(
    ("n_rounds", "params"),
    [
        (8, {}),
        (8, {"rate_drop": 0.5, "skip_drop": 1.0, "one_drop": 1}),
        (8, {"rate_drop": 1.0}),
        (8, {"rate_drop": 1.0, "normalize_type": "forest", "eta": 0.1}),
        (2, {"one_drop": 1, "sample_type": "weighted"}),
        (2, {"one_drop": 1, "normalize_type": "forest"}),
    ],
    ids=str,
)
def test_certain_drops(n_rounds, params, extra):
    """The same weights to the bit; predictions as near as plain trees are."""
    if "one_drop" in params and "skip_drop" not in params and extra:
        extra = {"objective": "reg:squarederror"}  # one of six trees would be chance
    ours, theirs = train_both(n_rounds, params | extra)
    np.testing.assert_array_equal(weight_drop(ours), weight_drop(theirs))
    found, wanted = ours.predict(arboost.DMatrix(X)), theirs.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extra", [{}, MULTI], ids=["one", "multi"])
@pytest.mark.parametrize("format", ["json", "ubj"])
def test_files_both_ways(format, extra):
    params = {"rate_drop": 0.3, "one_drop": 1, "sample_type": "weighted"} | extra
    ours, theirs = train_both(9, params)
    data, their_data = arboost.DMatrix(X), xgboost.DMatrix(X)
    for booster, library in ((ours, xgboost), (theirs, arboost)):
        raw = booster.save_raw(format)
        other = library.Booster(model_file=bytearray(raw))
        assert bytes(other.save_raw(format)) == bytes(raw)
        pair = [(booster, data), (other, their_data)] if library is xgboost else [(other, data), (booster, their_data)]
        for options in (
            {"output_margin": True},
            {"output_margin": True, "iteration_range": (2, 7)},
            {"pred_leaf": True},
            {"pred_contribs": True},
            {"pred_contribs": True, "approx_contribs": True},
        ):
            found, wanted = (model.predict(matrix, **options) for model, matrix in pair)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6, err_msg=str(options))
        assert [tree.strip() for tree in booster.get_dump()] == [tree.strip() for tree in other.get_dump()]
        found, wanted = (model[3:6].predict(matrix) for model, matrix in pair)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_configuration():
    params = {"rate_drop": 0.25, "one_drop": 1, "normalize_type": "forest", "sample_type": "weighted", "skip_drop": 0.5}
    ours, theirs = train_both(2, params)
    own, wanted = (json.loads(b.save_config())["learner"]["gradient_booster"] for b in (ours, theirs))
    assert own == wanted
    fresh = arboost.Booster()
    fresh.load_config(theirs.save_config())
    assert fresh._learner.resolved.dart == ours._learner.resolved.dart
    assert fresh._learner.resolved.learner.booster == "dart"
    xgboost.Booster().load_config(ours.save_config())


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("california_housing", {"objective": "reg:squarederror"}),
        (
            "california_housing",
            {"objective": "reg:squarederror", "sample_type": "weighted", "normalize_type": "forest"},
        ),
        ("adult", {"objective": "binary:logistic", "one_drop": 1, "rate_drop": 0.05}),
    ],
    ids=str,
)
def test_as_good_over_five_seeds(load_dataset, name, params):
    """The mean paired difference of the metric on unseen rows is within what the seeds explain, or in our favour."""
    data = load_dataset(name, 3000)
    differences, losses = [], []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(data.y))
        train, test = np.split(order, [2000])
        scores = []
        for library in (arboost, xgboost):
            full = {
                "booster": "dart",
                "rate_drop": 0.1,
                "max_depth": 4,
                "eta": 0.3,
                "nthread": 1,
                "seed": seed,
                **params,
            }
            log: dict = {}
            library.train(
                full,
                library.DMatrix(data.X[train], data.y[train]),
                30,
                evals=[(library.DMatrix(data.X[test], data.y[test]), "test")],
                evals_result=log,
                verbose_eval=False,
            )
            (values,) = log["test"].values()
            scores.append(values[-1])
        differences.append(scores[0] - scores[1])
        losses.append(scores[1])
    limit = student_t.ppf(0.975, 4) * statistics.stdev(differences) / math.sqrt(5)
    assert statistics.fmean(differences) <= max(limit, 0.002 * statistics.fmean(losses))
