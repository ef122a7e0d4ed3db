"""A model is the same after saving, loading, pickling and copying, and it is the same model in XGBoost.

The format itself, byte by byte, is tested in tests/unit/modelio; here are whole boosters.
"""

import copy
import json
import pickle

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError
from boosting_cases import OBJECTIVES, loss_params, make_features, make_label, n_outputs

X = make_features(300, missing=0.15)
X_NEW = make_features(120, missing=0.3, seed=9)
FORMATS = pytest.mark.parametrize("format", ["json", "ubj"])
PARAMS = {"max_depth": 4, "nthread": 1, "eta": 0.4}
VARIANTS = {
    **{objective: loss_params(objective) for objective in OBJECTIVES},
    "forest": {**loss_params("multi:softprob"), "num_parallel_tree": 3, "subsample": 0.7},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "leaves only": {"gamma": 1e6},
    "base_score": {"objective": "binary:logistic", "base_score": 0.2},
    "many base_scores": {**loss_params("multi:softprob"), "base_score": [0.1, 0.2, 0.3, 0.4]},
    "tweedie power": {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
    "poisson step": {"objective": "count:poisson", "max_delta_step": 0.1},
    "huber slope": {"objective": "reg:pseudohubererror", "huber_slope": 2.0},
    "scale_pos_weight": {"objective": "binary:logistic", "scale_pos_weight": 2.5},
    "targets": {"targets": 3},
}


def make_data(library, name):
    objective = VARIANTS[name].get("objective", "reg:squarederror")
    label = make_label(objective, X)
    if name == "targets":
        label = np.column_stack([label, label**2, -label])
    return library.DMatrix(X, label)


def fit(library, name, n_rounds=4, **options):
    params = {key: value for key, value in VARIANTS[name].items() if key != "targets"}
    return library.train({**PARAMS, **params}, make_data(library, name), n_rounds, verbose_eval=False, **options)


@pytest.fixture(scope="module")
def ours():
    return {name: fit(arboost, name) for name in VARIANTS}


@pytest.fixture(scope="module")
def xgboost():
    return pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def theirs(xgboost):
    return {name: fit(xgboost, name) for name in VARIANTS}


def predictions(booster, X=X_NEW):
    library = arboost if isinstance(booster, arboost.Booster) else pytest.importorskip("xgboost")
    data = library.DMatrix(X)
    kinds = [{}, {"output_margin": True}, {"pred_leaf": True}, {"iteration_range": (1, 3)}]
    return [booster.predict(data, strict_shape=True, **kind) for kind in kinds]


def assert_same_bits(a, b):
    for x, y in zip(predictions(a), predictions(b), strict=True):
        assert x.dtype == y.dtype
        assert np.array_equal(x, y)


# ---- our own files ----


@FORMATS
@pytest.mark.parametrize("name", VARIANTS)
def test_save_load_save(name, format, ours, tmp_path):
    booster = ours[name]
    booster.save_model(tmp_path / f"model.{format}")
    loaded = arboost.Booster(model_file=tmp_path / f"model.{format}")
    assert_same_bits(loaded, booster)
    assert loaded.save_raw(format) == booster.save_raw(format) == (tmp_path / f"model.{format}").read_bytes()
    assert loaded.get_dump(with_stats=True) == booster.get_dump(with_stats=True)
    assert loaded.num_boosted_rounds() == booster.num_boosted_rounds()
    assert loaded.num_features() == booster.num_features()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    "twin_of", [copy.copy, copy.deepcopy, lambda b: b.copy(), lambda b: pickle.loads(pickle.dumps(b))]
)
def test_copies_and_pickles(name, twin_of, ours):
    booster = ours[name]
    before = booster.save_raw()
    twin = twin_of(booster)
    assert twin.save_raw() == before
    assert twin.save_config() == booster.save_config()
    assert_same_bits(twin, booster)
    twin.set_attr(mark="x")
    twin.update(make_data(arboost, name), twin.num_boosted_rounds())
    assert twin.num_boosted_rounds() == booster.num_boosted_rounds() + 1
    assert booster.save_raw() == before, "a copy's training changed the original"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(protocol, ours):
    booster = ours["multi:softprob"]
    assert_same_bits(pickle.loads(pickle.dumps(booster, protocol)), booster)


def test_what_a_file_carries(tmp_path):
    data = arboost.DMatrix(X, make_label("", X), feature_names=list("abcdef"), feature_types=["q"] * 5 + ["int"])
    booster = arboost.train(PARAMS, data, 3, evals=[(data, "t")], early_stopping_rounds=2, verbose_eval=False)
    booster.set_attr(author="someone", empty="", unicode="ä→∞")
    for loaded in (
        arboost.Booster(model_file=booster.save_raw("json")),
        arboost.Booster(model_file=booster.save_raw("ubj")),
        pickle.loads(pickle.dumps(booster)),
    ):
        assert loaded.feature_names == list("abcdef")
        assert loaded.feature_types == ["q"] * 5 + ["int"]
        assert loaded.attributes() == booster.attributes()
        assert loaded.best_iteration == booster.best_iteration
        assert loaded.best_score == booster.best_score


def test_parameters_travel_in_pickles_not_in_files():
    booster = arboost.train(
        {**PARAMS, "eta": 0.123, "eval_metric": ["mae", "rmse"]}, make_data(arboost, "lossguide"), 2
    )
    again = pickle.loads(pickle.dumps(booster))
    assert again.save_config() == booster.save_config()
    loaded = arboost.Booster(model_file=booster.save_raw())
    tree = json.loads(loaded.save_config())["learner"]["gradient_booster"]["tree_train_param"]
    assert float(tree["eta"]) == pytest.approx(0.3)
    assert arboost.Booster({"eta": 0.7}, model_file=booster.save_raw()).save_raw() == booster.save_raw()


def test_a_model_without_rounds():
    data = make_data(arboost, "reg:squarederror")
    empty = arboost.train(PARAMS, data, 0)
    loaded = arboost.Booster(model_file=empty.save_raw())
    assert np.array_equal(loaded.predict(data), np.full(len(X), 0.5, np.float32))
    assert loaded.get_dump() == []
    one_go = arboost.train(PARAMS, data, 2)
    for start in (empty, empty.save_raw(), pickle.loads(pickle.dumps(empty))):
        assert arboost.train(PARAMS, data, 2, xgb_model=start).save_raw() == one_go.save_raw()


@pytest.mark.parametrize("name", ["reg:squarederror", "multi:softprob", "reg:quantileerror", "forest", "targets"])
def test_slices(name, ours):
    booster = ours[name]
    data = arboost.DMatrix(X_NEW)
    part = booster[1:3]
    assert part.num_boosted_rounds() == 2
    assert np.array_equal(part.predict(data), booster.predict(data, iteration_range=(1, 3)))
    loaded = arboost.Booster(model_file=part.save_raw())
    assert np.array_equal(loaded.predict(data), part.predict(data))
    assert [b.num_boosted_rounds() for b in booster] == [1, 1, 1, 1]
    assert booster[:].save_raw() == booster.save_raw()
    assert booster[...].save_raw() == booster.save_raw()
    before = booster.save_raw()
    part.update(make_data(arboost, name), 2)
    assert booster.save_raw() == before


def test_a_file_that_cannot_be_read_changes_nothing(tmp_path, ours):
    booster = ours["binary:logistic"].copy()
    before = booster.save_raw()
    (tmp_path / "bad.json").write_text('{"learner": {}}')
    for bad in (tmp_path / "bad.json", tmp_path / "absent.ubj", before[:-20], b"", b"{}"):
        with pytest.raises(XGBoostError):
            booster.load_model(bad)
        assert booster.save_raw() == before
    with pytest.raises((XGBoostError, OSError)):
        booster.save_model(tmp_path / "no" / "such" / "folder.ubj")


# ---- XGBoost's files, and ours in XGBoost ----


@FORMATS
@pytest.mark.parametrize("name", VARIANTS)
def test_xgboost_loads_ours(name, format, ours, xgboost):
    booster = ours[name]
    loaded = xgboost.Booster(model_file=booster.save_raw(format))
    for a, b in zip(predictions(booster), predictions(loaded), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert np.array_equal(predictions(booster)[2], predictions(loaded)[2]), "leaf numbers"
    assert loaded.num_boosted_rounds() == booster.num_boosted_rounds()
    assert loaded.get_dump(with_stats=True) == booster.get_dump(with_stats=True)
    assert loaded.get_score(importance_type="weight") == booster.get_score(importance_type="weight")
    config = json.loads(loaded.save_config())["learner"]
    assert config["objective"] == json.loads(booster.save_config())["learner"]["objective"]


@FORMATS
@pytest.mark.parametrize("name", VARIANTS)
def test_ours_loads_xgboosts(name, format, theirs):
    booster = theirs[name]
    loaded = arboost.Booster(model_file=booster.save_raw(format))
    for a, b in zip(predictions(loaded), predictions(booster), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert loaded.get_dump(with_stats=True) == booster.get_dump(with_stats=True)
    assert loaded.get_score(importance_type="weight") == booster.get_score(importance_type="weight")
    for kind in ("gain", "cover", "total_gain", "total_cover"):
        assert loaded.get_score(importance_type=kind) == pytest.approx(
            booster.get_score(importance_type=kind), rel=1e-5
        )
    assert bytes(loaded.save_raw(format)) == bytes(booster.save_raw(format)), "written again as it was"


def test_ours_loads_what_xgboost_wrote_beside_the_trees(xgboost):
    names, types = list("abcdef"), ["float"] * 5 + ["int"]
    data = xgboost.DMatrix(X, make_label("", X), feature_names=names, feature_types=types)
    valid = xgboost.DMatrix(X_NEW, make_label("", X_NEW, 9), feature_names=names, feature_types=types)
    booster = xgboost.train(
        {**PARAMS, "eta": 1.0}, data, 30, evals=[(valid, "v")], early_stopping_rounds=2, verbose_eval=False
    )
    booster.set_attr(author="someone")
    loaded = arboost.Booster(model_file=booster.save_raw())
    assert loaded.attributes() == booster.attributes()
    assert (loaded.best_iteration, loaded.best_score) == (booster.best_iteration, booster.best_score)
    assert (loaded.feature_names, loaded.feature_types) == (names, types)
    ours = arboost.DMatrix(X_NEW, feature_names=names)
    best = (0, booster.best_iteration + 1)
    np.testing.assert_allclose(
        loaded.predict(ours, iteration_range=best), booster.predict(valid, iteration_range=best), rtol=1e-6
    )
    with pytest.raises(ValueError, match="feature_names mismatch"):
        loaded.predict(arboost.DMatrix(X_NEW, feature_names=list("abcdeg")))


@pytest.mark.parametrize(
    "name", ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:gamma", "forest", "targets"]
)
def test_training_goes_on_from_xgboosts_model(name, theirs, xgboost):
    """The trees that follow are those that XGBoost would have grown next."""
    params = {**PARAMS, "seed": 0}
    if name == "forest":
        params |= {"subsample": 1.0}
    raw = theirs[name].save_raw()
    ours = arboost.train(params, make_data(arboost, name), 2, xgb_model=raw)
    reference = xgboost.train(params, make_data(xgboost, name), 2, xgb_model=raw)
    assert ours.num_boosted_rounds() == reference.num_boosted_rounds() == 6
    assert len(ours.get_dump()) == len(reference.get_dump())
    for a, b in zip(predictions(ours), predictions(reference), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["reg:squarederror", "multi:softprob", "reg:quantileerror", "targets"])
def test_xgboost_goes_on_from_ours(name, ours, xgboost):
    params = {**PARAMS, "seed": 0}
    raw = ours[name].save_raw()
    reference = arboost.train(params, make_data(arboost, name), 2, xgb_model=raw)
    theirs = xgboost.train(params, make_data(xgboost, name), 2, xgb_model=raw)
    for a, b in zip(predictions(reference), predictions(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_base_margin_with_a_loaded_model(theirs, xgboost):
    margin = np.random.default_rng(0).normal(size=(len(X_NEW), n_outputs("multi:softprob"))).astype(np.float32)
    loaded = arboost.Booster(model_file=theirs["multi:softprob"].save_raw())
    np.testing.assert_allclose(
        loaded.predict(arboost.DMatrix(X_NEW, base_margin=margin)),
        theirs["multi:softprob"].predict(xgboost.DMatrix(X_NEW, base_margin=margin)),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_loaded_poisson_model_keeps_its_step():
    """`max_delta_step` of the loss is in the file; a parameter of the user's is in force before it."""
    label = make_label("count:poisson", X)
    model = arboost.train({**PARAMS, "objective": "count:poisson", "max_delta_step": 0.1}, arboost.DMatrix(X, label), 2)
    saved = model.save_raw("json")
    loaded = arboost.Booster(model_file=saved)
    assert loaded.save_raw("json") == saved

    def step_after(params):
        more = arboost.train({**PARAMS, **params}, arboost.DMatrix(X, label), 1, xgb_model=loaded)
        return float(
            json.loads(more.save_raw("json"))["learner"]["objective"]["poisson_regression_param"]["max_delta_step"]
        )

    assert step_after({}) == pytest.approx(0.1)
    assert step_after({"max_delta_step": 0.3}) == pytest.approx(0.3)
