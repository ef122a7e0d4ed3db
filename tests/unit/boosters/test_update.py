"""`process_type="update"`: what is kept, what is refused, and the same bits for any threads (parity: tests/parity)."""

import pickle

import numpy as np
import pytest

import arboost
import pages
from arboost.core import XGBoostError
from arboost.params.resolve import resolve


def _data(seed=0, n=500, classes=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    score = (1 + seed) * X[:, 0] + X[:, 1] * X[:, 2]
    return arboost.DMatrix(X, np.digitize(score, [-0.5, 0.5]) if classes else score)


REFRESH = {"process_type": "update", "updater": "refresh", "verbosity": 0}
PRUNE = {"process_type": "update", "updater": "prune", "verbosity": 0}


@pytest.fixture(scope="module")
def base():
    return arboost.train({"max_depth": 4}, _data(), 5)


def test_the_model_given_stays_as_it_is(base):
    before = base.save_raw()
    arboost.train(REFRESH, _data(1), 5, xgb_model=base)
    assert base.save_raw() == before


@pytest.mark.parametrize("params", [REFRESH, PRUNE | {"gamma": 5.0}, REFRESH | {"updater": "refresh,prune"}])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_same_bits_for_any_threads(params, booster):
    old = arboost.train({"num_class": 3, "objective": "multi:softprob", "booster": booster}, _data(classes=True), 4)
    files = []
    for n_threads in pages.THREADS:
        with pages.cut_anywhere(n_threads):
            new = arboost.train(params | {"nthread": n_threads}, _data(1, classes=True), 4, xgb_model=old)
        files.append(bytes(new.save_raw()))
    assert all(file == files[0] for file in files)


def test_refreshing_on_the_same_data_changes_nothing(base):
    again = arboost.train(REFRESH, _data(), 5, xgb_model=base)
    np.testing.assert_allclose(again.predict(_data(1)), base.predict(_data(1)), rtol=1e-5, atol=1e-5)


def test_refreshing_fits_the_new_data(base):
    data = _data(1)
    label = data.get_label()
    new = arboost.train(REFRESH, data, 5, xgb_model=base)
    assert np.mean((new.predict(data) - label) ** 2) < 0.7 * np.mean((base.predict(data) - label) ** 2)


def test_everything_can_be_pruned_away(base):
    bare = arboost.train(PRUNE | {"gamma": 1e9}, _data(), 5, xgb_model=base)
    assert bare.get_score() == {}
    assert bare.num_boosted_rounds() == 5
    assert len(set(bare.predict(_data(1)).tolist())) == 1
    assert bare.predict(_data(), pred_leaf=True).max() == 0
    assert len(bare.trees_to_dataframe()) == 5
    loaded = pickle.loads(pickle.dumps(bare))
    assert loaded.save_raw() == bare.save_raw()


def test_exports_of_a_pruned_model(base):
    short = arboost.train(PRUNE | {"gamma": 20.0}, _data(), 5, xgb_model=base)
    assert 5 < len(short.trees_to_dataframe()) < len(base.trees_to_dataframe())
    data = _data(1)
    scope = {}
    exec(short.to_python(), scope)
    rows = data.get_data().toarray() if hasattr(data.get_data(), "toarray") else np.asarray(data.get_data())
    ours = [scope["predict"](row) for row in rows[:20].tolist()]
    np.testing.assert_allclose(ours, short.predict(data)[:20], rtol=1e-5, atol=1e-6)


def test_round_by_round_in_place(base):
    """`Booster.update` goes over one round a call; margins and packed trees follow."""
    model = base.copy()
    model.predict(_data(1))  # packs the old trees
    model.eval(_data(1))
    model.set_param(REFRESH)
    data = _data(1)
    for i in range(3):
        model.update(data, i)
        assert model.num_boosted_rounds() == i + 1
        assert float(model.eval(data).split(":")[1]) == pytest.approx(
            np.sqrt(np.mean((model.predict(data) - data.get_label()) ** 2)), rel=1e-5
        )
    whole = arboost.train(REFRESH, data, 3, xgb_model=base)
    assert whole.get_dump(with_stats=True) == model.get_dump(with_stats=True)
    model.set_param({"process_type": "default", "updater": ""})
    model.update(data, 3)
    assert model.num_boosted_rounds() == 4


def test_what_train_returns_grows_again(base):
    new = arboost.train(REFRESH, _data(1), 5, xgb_model=base)
    assert arboost.train({}, _data(1), 2, xgb_model=new).num_boosted_rounds() == 7


def test_a_round_that_fails_leaves_the_model(base):
    model = base.copy()
    model.set_param(REFRESH)
    before = model.get_dump(with_stats=True)
    bad = arboost.DMatrix(np.zeros((4, 2)), np.zeros(4))
    with pytest.raises(XGBoostError, match="Feature shape mismatch"):
        model.update(bad, 0)
    with pytest.raises(ValueError, match="objective"):
        model.boost(_data(1), 0, fobj=lambda margin, data: (_ for _ in ()).throw(ValueError("objective")))
    assert model.get_dump(with_stats=True) == before
    model.update(_data(1), 0)
    assert model.num_boosted_rounds() == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"updater": "refresh"}, "No more tree left for updating"),
        ({"updater": ""}, "can not be used to modify existing trees"),
        ({"updater": "grow_quantile_histmaker"}, "can not be used to modify existing trees"),
        ({"updater": "refresh,blah"}, "Unknown tree updater blah"),
        ({"updater": ["refresh"]}, "Unknown tree updater"),
        ({"updater": "shotgun"}, "gblinear"),
        ({"updater": "refresh", "process_type": "default"}, "can not be used to create new trees"),
        ({"updater": "grow_histmaker,grow_colmaker", "process_type": "default"}, "grows every tree twice"),
        ({"process_type": "change"}, "process_type"),
    ],
)
def test_refused(params, message, base):
    with pytest.raises(XGBoostError, match=message):
        arboost.train({"process_type": "update"} | params, _data(1), 6, xgb_model=base)


def test_no_model_to_update():
    with pytest.raises(XGBoostError, match="xgb_model"):
        arboost.train(REFRESH, _data(), 1)


def test_outputs_must_agree():
    many = {"num_class": 3, "objective": "multi:softprob", "base_score": 0.5}
    three = arboost.train(many, _data(classes=True), 2)
    with pytest.raises(XGBoostError, match="model has 3 outputs"):
        arboost.train(REFRESH | {"objective": "reg:squarederror", "num_class": 0}, _data(), 2, xgb_model=three)


@pytest.mark.parametrize(
    ("updater", "method"),
    [("grow_colmaker,prune", "exact"), ("grow_histmaker", "approx"), ("grow_quantile_histmaker,prune,sync", "hist")],
)
def test_growers_choose_the_tree_method(updater, method):
    assert resolve({"updater": updater, "tree_method": "hist"}).tree.tree_method == method


def test_estimators_update_too(base):
    data = _data(1)
    X, y = np.asarray(data.get_data().toarray()), data.get_label()
    estimator = arboost.XGBRegressor(n_estimators=5, process_type="update", updater="refresh")
    estimator.fit(X, y, xgb_model=base)
    expected = arboost.train(REFRESH, data, 5, xgb_model=base)
    np.testing.assert_array_equal(estimator.predict(X), expected.predict(data))
