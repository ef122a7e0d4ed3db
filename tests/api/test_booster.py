"""Booster: attributes, slices, evaluation, parameters, configuration, dumps, importances; next to XGBoost's."""

import json

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError
from boosting_cases import OBJECTIVES, loss_params, make_features, make_label

xgboost = pytest.importorskip("xgboost")

X = make_features(200, missing=0.1)
Y = make_label("reg:squarederror", X)
PARAMS = {"max_depth": 3, "nthread": 1}


def make(library, objective="reg:squarederror", n_rounds=4, **params):
    data = library.DMatrix(X, make_label(objective, X))
    return library.train({**PARAMS, **loss_params(objective), **params}, data, n_rounds), data


@pytest.fixture
def booster():
    return make(arboost)[0]


@pytest.fixture
def dtrain():
    return arboost.DMatrix(X, Y)


# ---- attributes ----


def test_attributes(booster):
    booster.set_attr(text="x", number=3, real=2.5, truth=True)
    assert booster.attributes() == {"text": "x", "number": "3", "real": "2.5", "truth": "True"}
    assert booster.attr("number") == "3"
    assert booster.attr("absent") is None
    booster.set_attr(text=None, absent=None)
    assert "text" not in booster.attributes()
    booster.attributes()["number"] = "changed"
    assert booster.attr("number") == "3"


def test_best_iteration_is_an_attribute(booster):
    for name in ("best_iteration", "best_score"):
        with pytest.raises(AttributeError, match="only defined when early stopping is used"):
            getattr(booster, name)
        assert not hasattr(booster, name)
    booster.best_iteration, booster.best_score = 2, 0.25
    assert (booster.best_iteration, booster.best_score) == (2, 0.25)
    assert booster.attributes() == {"best_iteration": "2", "best_score": "0.25"}


def test_features(booster):
    assert booster.feature_names is None
    assert booster.feature_types is None
    assert booster.num_features() == 6
    booster.feature_names = list("abcdef")
    booster.feature_types = ["q"] * 6
    assert booster.feature_names == list("abcdef")
    assert booster.feature_types == ["q"] * 6
    assert "[a<" in "".join(booster.get_dump())
    booster.feature_names = None
    assert booster.feature_names is None


def test_names_come_from_the_data():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"i": np.arange(50), "f": np.linspace(0, 1, 50), "b": np.arange(50) % 2 == 0})
    found = []
    for library in (arboost, xgboost):
        data = library.DMatrix(frame, np.arange(50.0))
        for booster in (library.Booster({}, [data]), library.train({"nthread": 1}, data, 1)):
            found.append((booster.feature_names, booster.feature_types))
    assert found == [(["i", "f", "b"], ["int", "float", "i"])] * 4


def test_later_data_must_have_the_same_features(dtrain):
    named = arboost.DMatrix(X, Y, feature_names=list("abcdef"))
    booster = arboost.train(PARAMS, named, 1)
    with pytest.raises(ValueError, match="feature_names mismatch"):
        booster.update(arboost.DMatrix(X, Y, feature_names=list("uvwxyz")), 1)
    with pytest.raises(ValueError, match="did not contain feature names"):
        booster.update(dtrain, 1)
    unnamed = arboost.train(PARAMS, dtrain, 1)
    unnamed.update(named, 1)
    assert unnamed.feature_names == list("abcdef")


# ---- slices ----


def test_slices(booster, dtrain):
    booster.set_attr(mark="x", best_iteration="1", best_score="0.5")
    for chosen, rounds in [
        (0, [0]),
        (3, [3]),
        (-1, [3]),
        (np.int64(2), [2]),
        (slice(None), [0, 1, 2, 3]),
        (..., [0, 1, 2, 3]),
        (slice(1, 3), [1, 2]),
        (slice(1, None), [1, 2, 3]),
        (slice(..., 2), [0, 1]),
        (slice(0, 4, 2), [0, 2]),
        (slice(None, -1), [0, 1, 2]),
    ]:
        part = booster[chosen]
        assert part.get_dump() == [booster.get_dump()[r] for r in rounds], chosen
        assert part.attributes() == {"mark": "x"}
        assert part.num_features() == 6
    assert [b.get_dump() for b in booster] == [[tree] for tree in booster.get_dump()]
    assert booster.best_iteration == 1, "slicing changed the model"


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (4, IndexError),
        (-5, IndexError),
        (slice(0, 9), IndexError),
        (slice(2, 2), XGBoostError),
        (slice(3, 1), ValueError),
        (slice(None, None, -1), ValueError),
        ((1, 2), ValueError),
        ("a", TypeError),
        (1.5, TypeError),
        (None, TypeError),
    ],
    ids=str,
)
def test_bad_slices(chosen, error, booster):
    with pytest.raises(error):
        booster[chosen]


# ---- training and evaluation ----


def test_update_and_boost_are_train(dtrain):
    expected = arboost.train(PARAMS, dtrain, 3).save_raw()
    booster = arboost.Booster(PARAMS, [dtrain])
    for i in range(3):
        booster.update(dtrain, i)
    assert booster.save_raw() == expected

    def squared_error(margin, data):
        return margin - data.get_label(), np.ones_like(margin)

    custom = arboost.train({**PARAMS, "base_score": 0.5}, dtrain, 3, obj=squared_error).save_raw()
    by_hand = arboost.Booster({**PARAMS, "base_score": 0.5})
    for i in range(3):
        margin = by_hand.predict(dtrain, output_margin=True) if i else np.full(len(Y), 0.5, np.float32)
        by_hand.boost(dtrain, i, grad=margin - Y, hess=np.ones_like(Y))
    assert by_hand.save_raw() == custom
    by_function = arboost.Booster({**PARAMS, "base_score": 0.5})
    for i in range(3):
        by_function.boost(dtrain, i, fobj=squared_error)
    assert by_function.save_raw() == custom


def test_looking_before_training_changes_nothing(dtrain):
    """The intercept is still estimated after an evaluation or a prediction of the untrained model."""
    for look in (lambda b: b.eval(dtrain), lambda b: b.predict(dtrain), lambda b: b.save_config(), lambda b: b.copy()):
        booster = arboost.Booster(PARAMS, [dtrain])
        look(booster)
        booster.update(dtrain, 0)
        assert booster.save_raw() == arboost.train(PARAMS, dtrain, 1).save_raw()


def test_before_training(dtrain):
    booster = arboost.Booster()
    assert booster.num_boosted_rounds() == 0
    for call in (lambda: booster.predict(dtrain), lambda: booster.inplace_predict(X), booster.save_raw):
        with pytest.raises(XGBoostError, match="not been trained"):
            call()
    known = arboost.Booster({"base_score": 0.3}, [dtrain])
    assert known.num_features() == 6
    assert np.array_equal(known.predict(dtrain), np.full(len(X), 0.3, np.float32))
    with pytest.raises(TypeError, match="cache"):
        arboost.Booster({}, [X])


def test_evaluation_text():
    for objective, more in (("reg:squarederror", {}), ("binary:logistic", {"eval_metric": ["auc", "error@0.3"]})):
        (ours, our_data), (theirs, their_data) = (make(library, objective, **more) for library in (arboost, xgboost))
        lines = ours.eval(our_data), theirs.eval(their_data)
        assert numbers(lines[0]) == pytest.approx(numbers(lines[1]), rel=1e-5)
        assert words(lines[0]) == words(lines[1])
        lines = (
            ours.eval_set([(our_data, "a"), (our_data, "b")], 3),
            theirs.eval_set([(their_data, "a"), (their_data, "b")], 3),
        )
        assert words(lines[0]) == words(lines[1])
        assert words(ours.eval(our_data, "name", 7)) == words(theirs.eval(their_data, "name", 7))


def words(line):
    return [part.split(":")[0] for part in line.split("\t")]


def numbers(line):
    return [float(part.split(":")[1]) for part in line.split("\t")[1:]]


def test_evaluation_with_a_metric_of_ones_own(booster, dtrain):
    seen = []

    def metric(prediction, data):
        seen.append((prediction.copy(), data))
        return "mine", 0.25

    assert booster.eval_set([(dtrain, "t")], feval=metric).endswith("\tt-mine:0.25000000000000000")
    assert seen[0][1] is dtrain
    assert np.array_equal(seen[0][0], booster.predict(dtrain, output_margin=True))
    for twin, data in ((booster, dtrain), make(xgboost)):
        many = twin.eval_set([(data, "t"), (data, "u")], feval=lambda p, d: [("x", 1), ("y", 2)])
        assert words(many) == ["[0]", "t-rmse", "u-rmse", "t-x", "t-y", "u-x", "u-y"]
    for bad in ([(X, "t")], [(dtrain, 3)]):
        with pytest.raises(TypeError):
            booster.eval_set(bad)


def test_reset_and_copy_keep_the_model(booster, dtrain):
    before = booster.save_raw()
    assert booster.reset() is booster
    assert booster.save_raw() == before
    twin = booster.copy()
    twin.update(dtrain, 4)
    assert booster.save_raw() == before
    assert arboost.Booster(model_file=booster).save_raw() == before


# ---- parameters ----


def test_set_param(booster, dtrain):
    for form in ({"eta": 0.5}, [("eta", 0.5)], ("eta", 0.5)):
        twin = booster.copy()
        twin.set_param(*form) if isinstance(form, tuple) else twin.set_param(form)
        assert tree_param(twin)["eta"] == "0.5"
        twin.update(dtrain, 4)
        assert twin.get_dump()[:4] == booster.get_dump()
    with pytest.raises(XGBoostError, match="max_depth"):
        booster.set_param({"max_depth": -1})
        booster.update(dtrain, 4)
    booster.set_param({"max_depth": 2})
    booster.update(dtrain, 4)
    assert booster.num_boosted_rounds() == 5


def test_base_score_can_be_set_later():
    found = []
    for library in (arboost, xgboost):
        booster, data = make(library)
        booster.set_param({"base_score": 3.0})
        found.append(booster.predict(data))
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_rounds_have_as_many_trees_as_the_first():
    for params in ({}, {"num_parallel_tree": 3}):
        counts = []
        for library in (arboost, xgboost):
            booster, data = make(library, n_rounds=2, num_parallel_tree=2)
            counts.append(len(library.train({**PARAMS, **params}, data, 1, xgb_model=booster.save_raw()).get_dump()))
        assert counts == [6, 6]


def tree_param(booster):
    return json.loads(booster.save_config())["learner"]["gradient_booster"]["tree_train_param"]


# ---- configuration ----

PATHS = [
    "version",
    "learner.learner_model_param.base_score",
    "learner.learner_model_param.num_class",
    "learner.learner_model_param.num_target",
    "learner.learner_model_param.num_feature",
    "learner.learner_train_param.objective",
    "learner.learner_train_param.booster",
    "learner.generic_param.nthread",
    "learner.gradient_booster.name",
    "learner.gradient_booster.gbtree_train_param.tree_method",
    "learner.gradient_booster.gbtree_train_param.updater",
    "learner.gradient_booster.gbtree_model_param.num_trees",
    "learner.gradient_booster.gbtree_model_param.num_parallel_tree",
    "learner.gradient_booster.tree_train_param.eta",
    "learner.gradient_booster.tree_train_param.learning_rate",
    "learner.gradient_booster.tree_train_param.max_depth",
    "learner.gradient_booster.tree_train_param.lambda",
    "learner.gradient_booster.tree_train_param.subsample",
    "learner.objective",
    "learner.metrics",
]


def at(config, path):
    for step in path.split("."):
        config = config[step]
    return config


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_configuration_has_what_tools_read(objective):
    configs = [json.loads(make(library, objective, n_rounds=1)[0].save_config()) for library in (arboost, xgboost)]
    for path in PATHS:
        ours, theirs = (at(config, path) for config in configs)
        assert type(ours) is type(theirs), path
        if path.endswith("base_score"):
            np.testing.assert_allclose(json.loads(ours), json.loads(theirs), rtol=1e-5, atol=1e-7)
        elif path not in ("version", "learner.metrics"):
            assert ours == theirs, path
    names = [[metric["name"] for metric in at(config, "learner.metrics")] for config in configs]
    assert names[0] == names[1]


@pytest.mark.parametrize("kind", ["quantile", "expectile"])
def test_configuration_has_the_alphas_of_metrics(kind):
    params = {"objective": f"reg:{kind}error", f"{kind}_alpha": [0.25, 0.5]}
    booster = arboost.train(params, arboost.DMatrix(np.zeros((4, 1)), np.arange(4)), 1)
    metrics = json.loads(booster.save_config())["learner"]["metrics"]
    assert metrics == [{"name": kind, f"{kind}_loss_param": {f"{kind}_alpha": "[2.5E-1,5E-1]"}}]


def test_configuration_round_trip(dtrain):
    params = {**PARAMS, "eta": 0.2, "subsample": 0.7, "seed": 5, "grow_policy": "lossguide", "max_leaves": 7}
    params |= {"eval_metric": ["mae", "rmse"], "objective": "reg:pseudohubererror", "huber_slope": 2.0, "gamma": 0.1}
    booster = arboost.Booster(params, [dtrain])
    twin = arboost.Booster({}, [dtrain])
    twin.load_config(booster.save_config())
    assert twin.save_config() == booster.save_config()
    for b in (booster, twin):
        b.update(dtrain, 0)
    assert twin.save_raw() == booster.save_raw()


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "reg:quantileerror", "reg:tweedie"])
def test_configuration_of_xgboost(objective):
    theirs, _ = make(xgboost, objective, eta=0.2, subsample=0.7, seed=5, eval_metric=["mae"])
    ours = arboost.Booster()
    ours.load_config(theirs.save_config())
    config, wanted = json.loads(ours.save_config()), json.loads(theirs.save_config())
    same = ("learner_train_param.objective", "generic_param.seed", "objective", "gradient_booster.tree_train_param.eta")
    for path in same:
        assert at(config, f"learner.{path}") == at(wanted, f"learner.{path}")


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"learner": 3}'])
def test_bad_configuration_changes_nothing(text, booster):
    before = booster.save_config()
    with pytest.raises(XGBoostError, match="configuration"):
        booster.load_config(text)
    assert booster.save_config() == before


# ---- text and importances ----


@pytest.fixture
def same_models():
    ours, _ = make(arboost, "multi:softprob")
    ours.feature_names = [f"name {i}" for i in range(6)]
    return ours, xgboost.Booster(model_file=ours.save_raw())


@pytest.mark.parametrize("with_stats", [False, True])
@pytest.mark.parametrize("dump_format", ["text", "json", "dot"])
def test_dumps(dump_format, with_stats, same_models, tmp_path):
    ours, theirs = same_models
    arguments = {"with_stats": with_stats, "dump_format": dump_format}
    assert ours.get_dump(**arguments) == theirs.get_dump(**arguments)
    for name, booster in (("ours", ours), ("theirs", theirs)):
        booster.dump_model(tmp_path / name, **arguments)
    assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()


def test_feature_map(same_models, tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("".join(f"{i}\tmapped{i}\t{'int' if i % 2 else 'q'}\n" for i in range(6)))
    ours, theirs = same_models
    assert ours.get_dump(fmap=path) == theirs.get_dump(fmap=str(path))
    assert ours.get_score(fmap=path) == theirs.get_score(fmap=str(path))
    assert "mapped" in "".join(ours.get_dump(path))


@pytest.mark.parametrize("kind", ["weight", "gain", "cover", "total_gain", "total_cover"])
def test_importances(kind, same_models):
    ours, theirs = (booster.get_score(importance_type=kind) for booster in same_models)
    assert [*ours] == [*theirs]
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert all(type(score) is float for score in ours.values())


def test_fscore_and_unknown_importance(same_models):
    ours, theirs = same_models
    assert ours.get_fscore() == theirs.get_fscore()
    with pytest.raises(XGBoostError, match="Unknown feature importance type"):
        ours.get_score(importance_type="luck")
    with pytest.raises(XGBoostError, match="dump format"):
        ours.get_dump(dump_format="yaml")
    with pytest.raises(XGBoostError, match="Unknown model format"):
        ours.save_raw("yaml")


def test_a_model_of_leaves():
    booster, data = make(arboost, gamma=1e9)
    assert booster.get_score() == {}
    assert all(dump.startswith("0:leaf=") for dump in booster.get_dump())
    assert len(set(booster.predict(data).tolist())) == 1
