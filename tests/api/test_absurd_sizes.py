"""Sizes that cannot be are refused by name, before the memory is asked for; a limit stands for the machine's."""

import json

import numpy as np
import pytest

import arboost
from arboost.runtime import memory
from arboost.runtime.context import MIN_THREAD_LIMIT, available_threads, resolve_threads
from arboost.runtime.errors import XGBoostError

HUGE = 2**31 - 1
X = np.random.default_rng(0).random((40, 3)).astype(np.float32)
Y = (X[:, 0] * 3).astype(int)
PARAMS = {"max_depth": 2, "nthread": 1}


@pytest.fixture(autouse=True)
def one_gibibyte(monkeypatch):
    monkeypatch.setattr(memory, "limit", 1 << 30)


def claiming(n_features: int, **params) -> bytearray:
    """A small model file that claims many features."""
    params = {"nthread": 1, **params} if params else PARAMS
    doc = json.loads(bytes(arboost.train(params, arboost.DMatrix(X, Y), 2).save_raw("json")))
    learner = doc["learner"]
    learner["learner_model_param"]["num_feature"] = str(n_features)
    model = learner["gradient_booster"]["model"]
    for tree in model.get("trees", []):
        tree["tree_param"]["num_feature"] = str(n_features)
    if "weights" in model:
        model.update(weights=[], boosted_rounds=0)
    return bytearray(json.dumps(doc).encode())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objective": "multi:softprob", "num_class": 10**9}, "1000000000 outputs .num_class.* needs about"),
        ({"objective": "multi:softmax", "num_class": HUGE}, f"{HUGE} outputs"),
        ({"num_parallel_tree": 10**9}, "num_parallel_tree=1000000000"),
        ({"max_bin": HUGE}, "max_bin"),
    ],
)
def test_parameters(params, message):
    data = arboost.DMatrix(X, Y)
    with pytest.raises(XGBoostError, match=message):
        arboost.train({**PARAMS, **params}, data, 1)
    assert arboost.train(PARAMS, data, 1).num_boosted_rounds() == 1


def test_outputs_of_a_booster_that_was_never_trained():
    data = arboost.DMatrix(X, Y)
    booster = arboost.Booster({"objective": "multi:softprob", "num_class": 10**9, "nthread": 1}, [data])
    with pytest.raises(XGBoostError, match="1000000000 outputs"):
        booster.predict(data)


@pytest.mark.parametrize("params", [{"max_depth": HUGE}, {"max_leaves": HUGE, "grow_policy": "lossguide"}])
def test_limits_that_no_tree_reaches_are_fine(params):
    same = {"max_depth": 0} if "max_depth" in params else {"grow_policy": "lossguide"}
    models = [arboost.train({**PARAMS, **p}, arboost.DMatrix(X, Y), 2) for p in (params, same)]
    assert models[0].get_dump() == models[1].get_dump()


def test_threads():
    most = max(MIN_THREAD_LIMIT, 2 * available_threads())
    for n in (most + 1, 100_000, HUGE):
        with pytest.warns(UserWarning, match=f"nthread is {n}; {most} threads are used"):
            assert resolve_threads(n) == most
    assert resolve_threads(np.int64(3)) == 3
    for wrong in (2.5, "4", True):
        with pytest.raises(XGBoostError, match="nthread is a whole number of threads"):
            arboost.DMatrix(X, nthread=wrong)
    data = arboost.DMatrix(X, Y)
    with pytest.warns(UserWarning, match="nthread is 100000"):
        many = arboost.train({**PARAMS, "nthread": 100_000}, data, 2)
    assert many.get_dump() == arboost.train(PARAMS, data, 2).get_dump()


def test_a_model_that_claims_many_features_answers_about_those_it_has():
    booster, honest = (arboost.Booster(model_file=claiming(n)) for n in (HUGE, 3))
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        assert booster.get_score(importance_type=kind) == honest.get_score(importance_type=kind)
    assert booster.get_dump(with_stats=True) == honest.get_dump(with_stats=True)
    assert booster.trees_to_dataframe().equals(honest.trees_to_dataframe())
    assert booster.num_features() == HUGE
    assert arboost.Booster(model_file=booster.save_raw()).num_features() == HUGE
    with pytest.raises(XGBoostError, match=f"A list of {HUGE} features"):
        booster.get_categories()


@pytest.mark.parametrize("kind", ["gbtree", "gblinear"])
def test_importances_of_many_features(kind):
    estimator = arboost.XGBRegressor(n_jobs=1)
    estimator.load_model(claiming(HUGE, booster=kind))
    with pytest.raises(XGBoostError, match=f"feature_importances_ of {HUGE} features needs about 8.0 GiB"):
        _ = estimator.feature_importances_


def test_a_linear_model_that_claims_many_features():
    booster = arboost.Booster(model_file=claiming(HUGE, booster="gblinear"))
    assert booster.get_score() == {}
    with pytest.raises(XGBoostError, match=f"The text of {HUGE} weights"):
        booster.get_dump()


def test_trees_of_a_round_that_a_file_claims():
    doc = json.loads(bytes(arboost.train(PARAMS, arboost.DMatrix(X, Y), 2).save_raw("json")))
    doc["learner"]["gradient_booster"]["model"]["gbtree_model_param"]["num_parallel_tree"] = str(HUGE)
    with pytest.raises(XGBoostError, match=f"num_parallel_tree: {HUGE} exceeds the trees of every round"):
        arboost.Booster(model_file=bytearray(json.dumps(doc).encode()))


def test_a_text_file_with_a_wrong_index(tmp_path):
    path = tmp_path / "a.svm"
    for index, message in ((HUGE, "too large"), (HUGE - 1, f"A sparse table of {HUGE} features needs about 32.0 GiB")):
        path.write_text(f"1 0:1 {index}:2\n0 1:1\n")
        with pytest.raises(XGBoostError, match=message):
            arboost.DMatrix(f"{path}?format=libsvm")


def test_groups():
    data = arboost.DMatrix(X, Y)
    for sizes in ([2**63 - 1, 2**63 - 1, 42], [HUGE, HUGE], [10**18]):
        data.set_group(sizes)
        with pytest.raises(XGBoostError, match=r"group structure"):
            arboost.train({"objective": "rank:ndcg"}, data, 1)


def test_contributions():
    data = arboost.DMatrix(np.ones((2000, 500), np.float32))
    booster = arboost.train(PARAMS, arboost.DMatrix(np.random.default_rng(0).random((50, 500)), np.arange(50)), 1)
    with pytest.raises(XGBoostError, match=r"pred_interactions of 500 features needs about 1.9 GiB"):
        booster.predict(data, pred_interactions=True)
    assert booster.predict(data, pred_contribs=True).shape == (2000, 501)
