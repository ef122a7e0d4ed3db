"""The linear booster against XGBoost's: the same weights, where its order of updates is not left to chance.

XGBoost's `shotgun` is compared with one thread: with more, its updates race and the weights differ from run to run.
"""

import json
import math
import statistics

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import t as student_t

import arboost

xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(300, 6)).astype(np.float32)
MISSING = np.where(RNG.random(DENSE.shape) < 0.2, np.float32(np.nan), DENSE)
SPARSE = scipy.sparse.random(300, 25, 0.1, format="csr", random_state=1, dtype=np.float32)
DATA = {"dense": DENSE, "missing": MISSING, "sparse": SPARSE}
Y = DENSE @ [1.0, -2.0, 0.0, 0.5, 0.1, 0.0] + 3.0
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
WEIGHT = RNG.uniform(0.5, 2, 300)
MULTI = {"objective": "multi:softprob", "num_class": 3}
DESCENT = {"updater": "coord_descent"}


def label(params):
    if "num_class" in params:
        return CLASSES
    objective = params.get("objective", "")
    return CLASSES > 0 if objective.startswith("binary:") else np.column_stack([Y, -Y]) if "targets" in params else Y


def train_both(X, params, n_rounds=12):
    y = label(params)
    full = {"booster": "gblinear", "nthread": 1, **{k: v for k, v in params.items() if k != "targets"}}
    return [lib.train(full, lib.DMatrix(X, y, weight=WEIGHT), n_rounds) for lib in (arboost, xgboost)]


def weights(booster):
    return np.float32(json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["weights"])


@pytest.mark.parametrize("name", list(DATA))
@pytest.mark.parametrize(
    "params",
    [
        {},
        DESCENT,
        {"reg_lambda": 0.1, "reg_alpha": 0.05, "eta": 0.8},
        {"base_score": 2.0},
        {"tolerance": 0.05},
        {"objective": "binary:logistic", **DESCENT, "lambda": 0.001},
        {"objective": "reg:absoluteerror"},
        {"targets": 2},
        MULTI,
        {**DESCENT, "feature_selector": "greedy"},
        {**DESCENT, "feature_selector": "greedy", "top_k": 3, **MULTI},
        {**DESCENT, "feature_selector": "thrifty"},
        {**DESCENT, "feature_selector": "thrifty", "top_k": 2, "alpha": 0.01},
    ],
    ids=str,
)
def test_weights(name, params):
    ours, theirs = train_both(DATA[name], params)
    np.testing.assert_allclose(weights(ours), weights(theirs), rtol=1e-5, atol=1e-5)
    found, wanted = ours.predict(arboost.DMatrix(DATA[name])), theirs.predict(xgboost.DMatrix(DATA[name]))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("params", [{}, MULTI], ids=["one", "multi"])
@pytest.mark.parametrize("format", ["json", "ubj"])
def test_files_both_ways(format, params):
    ours, theirs = train_both(MISSING, params)
    data, their_data = arboost.DMatrix(MISSING), xgboost.DMatrix(MISSING)
    for source in (ours, theirs):
        raw = source.save_raw(format)
        own, peer = (library.Booster(model_file=bytearray(raw)) for library in (arboost, xgboost))
        assert bytes(own.save_raw(format)) == bytes(peer.save_raw(format)) == bytes(raw)
        for options in ({"output_margin": True}, {"pred_contribs": True}, {"iteration_range": (0, 2)}):
            found, wanted = own.predict(data, **options), peer.predict(their_data, **options)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=str(options))
        assert own.num_boosted_rounds() == peer.num_boosted_rounds() == 12
        assert own.get_score() == peer.get_score()
        for dump_format in ("text", "json"):
            assert own.get_dump(dump_format=dump_format) == peer.get_dump(dump_format=dump_format)


@pytest.mark.parametrize(
    "params", [{"lambda": 0.1}, {**DESCENT, "feature_selector": "thrifty", "top_k": 2, "eta": 0.3}]
)
def test_configuration(params):
    configs = []
    for library in (arboost, xgboost):
        data = library.DMatrix(DENSE, Y)
        booster = library.Booster({"booster": "gblinear", **params}, [data])
        booster.update(data, 0)
        configs.append(booster.save_config())
    own, theirs = (json.loads(config)["learner"]["gradient_booster"] for config in configs)
    assert own == theirs
    fresh = arboost.Booster()
    fresh.load_config(configs[1])
    assert json.loads(fresh.save_config())["learner"]["gradient_booster"] == own
    xgboost.Booster().load_config(configs[0])


@pytest.mark.parametrize("params", [{}, MULTI], ids=["regressor", "classifier"])
def test_estimators(params):
    name = "XGBClassifier" if params else "XGBRegressor"
    own, peer = (
        getattr(lib, name)(booster="gblinear", n_estimators=8, n_jobs=1).fit(DENSE, label(params))
        for lib in (arboost, xgboost)
    )
    # theirs come from six printed digits, and of several classes are feature by feature where classes should be
    coefficients = own.coef_.T.reshape(own.coef_.shape)
    np.testing.assert_allclose(coefficients, peer.coef_, rtol=1e-5, atol=1e-5)
    assert own.coef_.dtype == peer.coef_.dtype
    np.testing.assert_allclose(own.intercept_, peer.intercept_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.feature_importances_, peer.feature_importances_, rtol=2e-3)


@pytest.mark.parametrize("selector", ["shuffle", "random"])
def test_as_good_over_five_seeds(load_dataset, selector):
    """Orders drawn at random: the paired difference of the loss on unseen rows is within what the seeds explain."""
    data = load_dataset("a9a", 4000)
    differences = []
    for seed in range(5):
        train, test = np.split(np.random.default_rng(seed).permutation(data.X.shape[0]), [3000])
        scores = []
        for library in (arboost, xgboost):
            params = {"booster": "gblinear", **DESCENT, "feature_selector": selector, "objective": "binary:logistic"}
            log: dict = {}
            library.train(
                {**params, "lambda": 1e-4, "seed": seed, "nthread": 1},
                library.DMatrix(data.X[train], data.y[train]),
                15,
                evals=[(library.DMatrix(data.X[test], data.y[test]), "test")],
                evals_result=log,
                verbose_eval=False,
            )
            scores.append(log["test"]["logloss"][-1])
        differences.append(scores[0] - scores[1])
    limit = student_t.ppf(0.975, 4) * statistics.stdev(differences) / math.sqrt(5)
    assert statistics.fmean(differences) <= max(limit, 0.002)
