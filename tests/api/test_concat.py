"""Slices of models, against XGBoost's, and `Booster.concat`, which puts them together again."""

import numpy as np
import pytest
import xgboost

import arboost
from arboost.core import Booster, XGBoostError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2])
CLASSES = np.digitize(SCORE, [-0.5, 0.5])

KINDS = {
    "plain": ({}, SCORE),
    "logistic": ({"objective": "binary:logistic"}, SCORE > 0),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
    "targets": ({}, np.stack([SCORE, -SCORE, X[:, 3] > 0], axis=1)),
    "forest": ({"num_parallel_tree": 3, "subsample": 0.5}, SCORE),
    "forest of classes": (
        {"objective": "multi:softmax", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.5}, CLASSES
    ),
    "dart": ({"booster": "dart", "rate_drop": 0.5, "one_drop": True}, SCORE),
    "dart of classes": (
        {"booster": "dart", "rate_drop": 0.5, "objective": "multi:softprob", "num_class": 3}, CLASSES
    ),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}, SCORE),
}  # fmt: skip
# XGBoost 3.2 refuses steps that do not divide the range
SLICES = [slice(0, 2), slice(2, 6), slice(0, 6, 2), slice(1, 5, 4), slice(0, 6, 3), slice(5, 6), slice(3, 6)]


def _train(kind, package=arboost, n_rounds=6):
    params, label = KINDS[kind]
    return package.train({"max_depth": 3} | params, package.DMatrix(X, label), n_rounds)


def _margin(model, package=arboost, **how):
    return model.predict(package.DMatrix(X), output_margin=True, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_are_xgboosts(kind):
    """The same file, sliced by both: the same trees and predictions."""
    ours = _train(kind)
    theirs = xgboost.Booster(model_file=bytearray(ours.save_raw()))
    for chosen in SLICES:
        a, b = ours[chosen], theirs[chosen]
        assert a.num_boosted_rounds() == b.num_boosted_rounds()
        assert a.get_dump(with_stats=True) == b.get_dump(with_stats=True)
        np.testing.assert_allclose(_margin(a), _margin(b, xgboost), rtol=1e-5, atol=1e-5)
        back = Booster(model_file=bytearray(b.save_raw()))
        np.testing.assert_array_equal(_margin(back), _margin(a))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_make_the_whole(kind):
    model = _train(kind)
    whole = Booster.concat([model[:2], model[2:3], model[3:]])
    assert whole.save_raw() == model.save_raw()
    np.testing.assert_array_equal(_margin(whole), _margin(model))
    assert Booster.concat(list(model)).save_raw() == model.save_raw()
    assert Booster.concat([model]).save_raw() == model.save_raw()


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_adds_trees_on_one_intercept(kind):
    a = _train(kind)
    params, label = KINDS[kind]
    b = arboost.train({"max_depth": 2, "seed": 5} | params, arboost.DMatrix(X[:150], np.asarray(label)[:150]), 3)
    whole = Booster.concat([a, b])
    of_b = np.atleast_1d(b._learner.base_margin())
    expected = _margin(a) + _margin(b) - (of_b if len(of_b) > 1 else of_b[0])
    np.testing.assert_allclose(_margin(whole), expected, rtol=1e-5, atol=1e-5)
    read = xgboost.Booster(model_file=bytearray(whole.save_raw()))
    np.testing.assert_allclose(_margin(read, xgboost), _margin(whole), rtol=1e-5, atol=1e-5)
    assert whole[:6].save_raw() == a.save_raw()
    assert whole[6:].get_dump(with_stats=True) == b.get_dump(with_stats=True)
    parts = whole.predict(arboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(parts.sum(axis=-1), _margin(whole), rtol=1e-4, atol=1e-4)


def test_training_goes_on():
    model = _train("plain")
    whole = Booster.concat([model[:3], model[3:]])
    data = arboost.DMatrix(X, SCORE)
    on, expected = (arboost.train({"max_depth": 3}, data, 2, xgb_model=m) for m in (whole, model))
    assert on.save_raw() == expected.save_raw()


def test_trees_with_and_without_weights():
    dart = _train("dart")
    whole = Booster.concat([_train("plain"), dart])
    assert whole.num_boosted_rounds() == 12
    added = _margin(dart) - dart._learner.base_margin()[0]
    np.testing.assert_allclose(_margin(whole), _margin(_train("plain")) + added, rtol=1e-4, atol=1e-5)


def test_the_models_stay_and_the_best_round_goes():
    a, b = _train("plain"), _train("plain", n_rounds=2)
    a.set_attr(best_iteration="3", note="kept")
    before = a.save_raw(), b.save_raw()
    whole = Booster.concat([a, b])
    assert whole.attributes() == {"note": "kept"}
    assert (a.save_raw(), b.save_raw()) == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: arboost.train({}, arboost.DMatrix(X[:, :3], SCORE), 1), "number of features: 3 and 4"),
        (lambda: _train("logistic"), "objective: 'binary:logistic' and 'reg:squarederror'"),
        (lambda: _train("targets"), "number of outputs: 3 and 1"),
        (lambda: _train("forest"), "num_parallel_tree: 3 and 1"),
        (lambda: arboost.train({}, arboost.DMatrix(X, SCORE, feature_names=list("abcz")), 1), "feature names"),
        (
            lambda: arboost.train(
                {}, arboost.DMatrix(X, SCORE, feature_names=list("abcd"), feature_types=["int"] * 4), 1
            ),
            "feature types",
        ),
        (lambda: arboost.train({"booster": "gblinear"}, arboost.DMatrix(X, SCORE), 1), "gblinear"),
        (Booster, "has not been trained"),
        (lambda: "model.json", "is a str"),
    ],
)
def test_refused(other, message):
    names = {"feature_names": list("abcd"), "feature_types": ["float"] * 4}
    first = arboost.train({}, arboost.DMatrix(X, SCORE, **names), 1)
    with pytest.raises((XGBoostError, TypeError), match=message):
        Booster.concat([first, other()])
    assert first.num_boosted_rounds() == 1


def test_other_codes_of_categories_are_refused():
    pandas = pytest.importorskip("pandas")
    models = []
    for levels in (["a", "b", "c"], ["c", "b", "a"]):
        frame = pandas.DataFrame({"f": pandas.Categorical(np.array(["a", "b", "c"])[CLASSES], categories=levels)})
        models.append(arboost.train({}, arboost.DMatrix(frame, SCORE, enable_categorical=True), 1))
    assert Booster.concat([models[0], models[0]]).num_boosted_rounds() == 2
    with pytest.raises(XGBoostError, match="codes of categories"):
        Booster.concat(models)


def test_nothing_is_refused():
    with pytest.raises(XGBoostError, match="nothing to concatenate"):
        Booster.concat([])
