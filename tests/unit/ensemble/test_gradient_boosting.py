"""Classic gradient boosting against scikit-learn's, loss by loss."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn.ensemble

from arboost.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from arboost.ensemble.friedman import weighted_quantile

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = X[:, 0] * 2 + np.cos(3 * X[:, 1]) + 0.2 * RNG.standard_t(2, size=300)
NEW = RNG.normal(size=(200, 4)).astype(np.float32)
WEIGHT = 1 + 2 * RNG.random(300)
LOSSES = ["squared_error", "absolute_error", "huber", "quantile"]
SMALL = {"n_estimators": 20, "max_depth": 2, "min_samples_leaf": 5}


def their(kind, **params):
    return getattr(sklearn.ensemble, f"GradientBoosting{kind}")(random_state=0, **params)


@pytest.mark.parametrize(
    "loss, weight",
    # gradients of the quantile are two numbers: without weights splits tie, and scikit-learn draws one of them
    [*((loss, None) for loss in LOSSES[:3]), *((loss, WEIGHT) for loss in LOSSES)],
    ids=lambda value: value if isinstance(value, str) else "alike" if value is None else "weighted",
)
def test_regressor_is_scikit_learns(loss, weight):
    limits = SMALL if weight is None else SMALL | {"min_samples_leaf": 1}  # which rows count by weight here
    ours = GradientBoostingRegressor(loss=loss, alpha=0.8, **limits).fit(X, Y, sample_weight=weight)
    theirs = their("Regressor", loss=loss, alpha=0.8, **limits).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-5, atol=1e-5)
    for stage, wanted in zip(ours.staged_predict(NEW), theirs.staged_predict(NEW), strict=True):
        np.testing.assert_allclose(stage, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss, n_classes", [("log_loss", 2), ("exponential", 2), ("log_loss", 3)])
def test_classifier_is_scikit_learns(loss, n_classes):
    y = np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))
    ours = GradientBoostingClassifier(loss=loss, **SMALL).fit(X, y)
    theirs = their("Classifier", loss=loss, **SMALL).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(NEW), theirs.decision_function(NEW), atol=2e-5)
    np.testing.assert_allclose(ours.train_score_, theirs.train_score_, atol=1e-5)
    np.testing.assert_array_equal(list(ours.staged_predict(NEW)), list(theirs.staged_predict(NEW)))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_one_step_for_a_tree_lowers_the_loss(loss):
    model = GradientBoostingRegressor(loss=loss, step="tree", **SMALL).fit(X, Y)
    if loss != "huber":  # whose delta, and so whose scale, changes from round to round
        assert (np.diff(model.train_score_) <= 1e-9).all()
    assert model.score(X, Y) > 0.5


def test_line_search_is_the_leaves_own_for_squared_error():
    """Leaves that are means need no other factor than 1."""
    by_tree = GradientBoostingRegressor(step="tree", **SMALL).fit(X, Y)
    by_leaf = GradientBoostingRegressor(step="leaf", **SMALL).fit(X, Y)
    np.testing.assert_allclose(by_tree.predict(NEW), by_leaf.predict(NEW), rtol=1e-5, atol=1e-5)


def test_one_step_for_a_tree_is_the_best_one():
    y = (Y > 0).astype(int)
    model = GradientBoostingClassifier(step="tree", n_estimators=1, learning_rate=1.0, max_depth=2).fit(X, y)
    margin = next(model.staged_decision_function(X))
    start = model.init_[0]

    def loss(factor):
        score = start + factor * (margin - start)
        return np.mean(np.logaddexp(0, score) - y * score)

    assert loss(1.0) < min(loss(0.95), loss(1.05))


def test_rows_left_out_measure_every_round():
    model = GradientBoostingRegressor(subsample=0.5, **SMALL).fit(X, Y)
    assert model.oob_improvement_.shape == (20,)
    assert model.oob_improvement_[:5].min() > 0
    assert not hasattr(GradientBoostingRegressor(**SMALL).fit(X, Y), "oob_improvement_")


def test_stops_when_held_out_rows_gain_no_more():
    noise = RNG.normal(size=300)
    model = GradientBoostingRegressor(n_estimators=200, n_iter_no_change=3, validation_fraction=0.3).fit(X, noise)
    assert model.n_estimators_ < 50
    assert model.get_booster().num_boosted_rounds() == model.n_estimators_


def test_weighted_quantile_is_the_first_with_so_much_below():
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    assert [weighted_quantile(values, weight, q) for q in (0.1, 0.5, 0.51, 0.75, 0.8, 1.0)] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "params, message",
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "quantile", "alpha": 1.5}, "alpha"),
        ({"subsample": 0.0}, "subsample"),
        ({"step": "node"}, "step"),
        ({"n_estimators": 0}, "n_estimators"),
        ({"learning_rate": -1.0}, "learning_rate"),
    ],
)
def test_parameters_are_checked_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**params).fit(X, Y)


def test_exponential_loss_is_for_two_classes():
    with pytest.raises(ValueError, match="two classes"):
        GradientBoostingClassifier(loss="exponential").fit(X, np.digitize(Y, [-1, 1]))
