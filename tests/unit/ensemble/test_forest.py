"""Forests: bags, votes, out-of-bag estimates, and accuracy like scikit-learn's."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn.ensemble
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import balanced_accuracy_score

import arboost
from arboost.ensemble import (
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from arboost.ensemble.forest import bag_counts

CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def test_bags_are_draws_with_replacement():
    counts = np.array([bag_counts(key, 1000, 1000) for key in range(50)])
    assert (counts.sum(axis=1) == 1000).all()
    assert counts.mean(axis=1) == pytest.approx(1.0)
    assert (counts == 0).mean() == pytest.approx((1 - 1 / 1000) ** 1000, abs=0.005)
    assert len({tuple(bag) for bag in counts}) == 50
    assert bag_counts(3, 1000, 200).sum() == 200


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("data", [CANCER, IRIS], ids=["two", "three"])
def test_probabilities_are_means_of_the_trees(data, voting):
    X, y = data
    forest = RandomForestClassifier(n_estimators=12, max_depth=4, voting=voting).fit(X, y)
    leaves = forest.apply(X)
    assert leaves.shape == (len(X), 12)
    trees = forest.get_booster()._learner.model.trees
    if len(forest.classes_) == 2:
        members = [tree.threshold[nodes] * 12 for tree, nodes in zip(trees, leaves.T, strict=True)]
        shares = np.mean(members, axis=0)
        np.testing.assert_allclose(forest.predict_proba(X)[:, 1], shares, atol=1e-6)
    else:
        members = [tree.vectors[nodes] * 12 for tree, nodes in zip(trees, leaves.T, strict=True)]
        np.testing.assert_allclose(forest.predict_proba(X), np.mean(members, axis=0), atol=1e-6)
    votes = np.asarray(members)
    if voting == "hard":
        np.testing.assert_allclose(votes, np.rint(votes), atol=1e-6)
    np.testing.assert_allclose(forest.predict_proba(X).sum(axis=1), 1.0, atol=1e-6)


def test_out_of_bag_rows_are_predicted_by_the_trees_that_have_not_seen_them():
    X, y = DIABETES
    with pytest.warns(UserWarning, match="do not have OOB scores"):
        forest = RandomForestRegressor(n_estimators=10, max_depth=5, oob_score=True, random_state=4).fit(X, y)
    sums, counts = np.zeros(len(y)), np.zeros(len(y))
    for number in range(10):
        key = arboost.runtime.rng.make_key(4, number)
        bag = bag_counts(arboost.runtime.rng.make_key(key, 0), len(y), len(y))
        one = forest.get_booster()._learner.model.trees[number]
        values = one.threshold[forest.apply(X)[:, number]] * 10 + forest.get_booster()._learner.base_score[0]
        sums[bag == 0] += values[bag == 0]
        counts[bag == 0] += 1
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(forest.oob_prediction_, sums / counts, rtol=1e-5)
    assert np.isnan(forest.oob_prediction_).sum() == (counts == 0).sum()


def test_out_of_bag_scores_are_honest():
    X, y = CANCER
    ours = RandomForestClassifier(n_estimators=60, oob_score=True).fit(X, y)
    theirs = sklearn.ensemble.RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    assert ours.oob_score_ == pytest.approx(theirs.oob_score_, abs=0.015)
    assert ours.oob_decision_function_.shape == (len(y), 2)
    assert ours.score(X, y) > ours.oob_score_
    own = RandomForestClassifier(n_estimators=60, oob_score=balanced_accuracy_score).fit(X, y)
    decided = own.classes_[own.oob_decision_function_.argmax(axis=1)]
    assert own.oob_score_ == balanced_accuracy_score(y, decided)


def test_noise_has_no_out_of_bag_score():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    forest = RandomForestRegressor(n_estimators=40, oob_score=True).fit(X, y)
    assert forest.score(X, y) > 0.7
    assert forest.oob_score_ < 0.1


def test_accuracy_is_scikit_learns():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8000, 10)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.2 * rng.normal(size=8000)
    for kind, theirs, target in (
        (RandomForestRegressor, sklearn.ensemble.RandomForestRegressor, y),
        (RandomForestClassifier, sklearn.ensemble.RandomForestClassifier, (y > 1).astype(int)),
        (RandomForestClassifier, sklearn.ensemble.RandomForestClassifier, np.digitize(y, [0, 1, 2])),
    ):
        ours = kind(n_estimators=30).fit(X[:2000], target[:2000]).score(X[2000:], target[2000:])
        known = theirs(30, random_state=0, n_jobs=2).fit(X[:2000], target[:2000]).score(X[2000:], target[2000:])
        assert ours > known - 0.02


def test_extra_trees_draw_their_thresholds():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 10)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.2 * rng.normal(size=3000)
    for kind, theirs, target in (
        (ExtraTreesRegressor, sklearn.ensemble.ExtraTreesRegressor, y),
        (ExtraTreesClassifier, sklearn.ensemble.ExtraTreesClassifier, (y > 1).astype(int)),
        (ExtraTreesClassifier, sklearn.ensemble.ExtraTreesClassifier, np.digitize(y, [0, 1, 2])),
    ):
        ours = kind(n_estimators=30).fit(X[:2000], target[:2000])
        known = theirs(30, random_state=0, n_jobs=2).fit(X[:2000], target[:2000]).score(X[2000:], target[2000:])
        assert ours.score(X[2000:], target[2000:]) > known - 0.03
        assert ours.score(X[:2000], target[:2000]) > 0.99  # all trees see all rows, and grow until leaves are pure
    one = ExtraTreesRegressor(n_estimators=20, max_features=None, max_depth=1).fit(X, y)
    assert len({(int(t.feature[0]), float(t.threshold[0])) for t in one._trees}) > 10
    with pytest.raises(ValueError, match="one target"):
        ExtraTreesRegressor().fit(X, np.column_stack([y, y]))


def test_features_of_one_value_are_passed_over():
    """Of 40 features a node sees 2, and most are constant in it: it goes on until one parts it."""
    rng = np.random.default_rng(3)
    X = np.zeros((600, 40), np.float32)
    X[np.arange(600), rng.integers(0, 38, 600)] = 1
    X[:, 38:] = rng.normal(size=(600, 2))
    for n_classes in (2, 3):
        y = rng.integers(0, n_classes, 600)
        forest = RandomForestClassifier(n_estimators=5, max_features=2, bootstrap=False).fit(X, y)
        np.testing.assert_array_equal(forest.predict(X), y)  # two continuous features tell all rows apart


def test_without_bootstrap_and_draws_all_trees_are_one():
    X, y = DIABETES
    forest = RandomForestRegressor(n_estimators=3, bootstrap=False, max_depth=4, max_bin=1000).fit(X, y)
    tree = DecisionTreeRegressor(max_depth=4).fit(X, y)
    np.testing.assert_allclose(forest.predict(X), tree.predict(X), rtol=1e-5)


def test_several_targets_at_once():
    X, y = DIABETES
    both = np.column_stack([y, -2 * y])
    forest = RandomForestRegressor(n_estimators=25, oob_score=True).fit(X, both)
    np.testing.assert_allclose(forest.predict(X)[:, 1], -2 * forest.predict(X)[:, 0], rtol=1e-4)
    assert forest.oob_prediction_.shape == both.shape


def test_max_samples_and_class_weight():
    X, y = CANCER
    small = RandomForestClassifier(n_estimators=5, max_samples=0.1).fit(X, y)
    whole = RandomForestClassifier(n_estimators=5).fit(X, y)
    assert sum(t.n_leaves for t in small._trees) < sum(t.n_leaves for t in whole._trees)
    shifted = RandomForestClassifier(n_estimators=20, max_depth=2, class_weight={0: 50.0, 1: 1.0}).fit(X, y)
    plain = RandomForestClassifier(n_estimators=20, max_depth=2).fit(X, y)
    assert shifted.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1


@pytest.mark.parametrize(
    "params, message",
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"oob_score": True, "bootstrap": False}, "bootstrap"),
        ({"max_samples": 2.0}, "max_samples"),
        ({"max_samples": 5, "bootstrap": False}, "max_samples"),
        ({"voting": "loud"}, "voting"),
    ],
)
def test_parameters_are_checked_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        RandomForestClassifier(**params).fit(*IRIS)


def test_categories_of_frames():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"k": pd.Categorical(rng.choice(list("abcdefgh"), 400)), "x": rng.normal(size=400)})
    y = frame.k.isin(list("bdg")) * 2.0 + frame.x
    forest = RandomForestRegressor(n_estimators=10, enable_categorical=True).fit(frame, y)
    assert forest.score(frame, y) > 0.95
    reordered = frame.assign(k=frame.k.cat.reorder_categories(list("hgfedcba")))
    np.testing.assert_array_equal(forest.predict(reordered), forest.predict(frame))
