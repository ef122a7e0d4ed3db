"""Leaves as features: the encoder, and trees into a logistic regression."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datasets
from arboost import XGBClassifier, XGBRegressor
from arboost.ensemble import GradientBoostingClassifier, LeafEncoder, LeafLogisticRegression, RandomForestClassifier

X, Y = load_breast_cancer(return_X_y=True)


@pytest.mark.parametrize(
    "trees",
    [XGBClassifier(n_estimators=7), RandomForestClassifier(n_estimators=7), GradientBoostingClassifier(n_estimators=7)],
    ids=lambda trees: type(trees).__name__,
)
def test_a_row_has_one_leaf_of_every_tree(trees):
    encoder = LeafEncoder(trees).fit(X, Y)
    found = encoder.transform(X)
    assert found.dtype == np.float32 and found.shape == (len(X), len(encoder.get_feature_names_out()))
    first = np.cumsum([0, *map(len, encoder.leaves_)])
    for t in range(7):
        part = found[:, first[t] : first[t + 1]]
        np.testing.assert_array_equal(part.sum(axis=1), 1)
        np.testing.assert_array_equal(encoder.leaves_[t][part.argmax(axis=1)], encoder.estimator_.apply(X)[:, t])
    assert encoder.get_feature_names_out()[0] == f"tree0_leaf{encoder.leaves_[0][0]}"


def test_fitted_trees_stay_as_they_are():
    trees = XGBRegressor(n_estimators=3).fit(X, Y)
    encoder = LeafEncoder(trees, prefit=True).fit(X)
    assert encoder.estimator_ is trees
    with pytest.raises(ValueError, match="prefit"):
        LeafEncoder(prefit=True).fit(X)


def test_several_classes_and_pipelines():
    rows, classes = load_iris(return_X_y=True)
    model = make_pipeline(LeafEncoder(XGBClassifier(n_estimators=5)), LogisticRegression())
    assert model.fit(rows, classes).score(rows, classes) > 0.95
    combined = LeafLogisticRegression(XGBClassifier(n_estimators=5)).fit(rows, classes)
    assert combined.predict_proba(rows).shape == (150, 3)
    assert combined.score(rows, classes) > 0.9


def test_both_parts_learn_from_rows_of_their_own():
    combined = LeafLogisticRegression(XGBClassifier(n_estimators=5), tree_share=0.6).fit(X, Y)
    root = combined.encoder_.estimator_.get_booster().trees_to_dataframe().Cover[0]
    assert root < 0.7 * 0.25 * len(X)  # hessians of 0.6 of the rows


def test_leaves_beat_trees_and_regression_alone():
    """On w8a, 300 binary features: log loss on rows that nobody has seen."""
    try:
        data = datasets.load("w8a").sample(6_000)
    except datasets.DataUnavailable as reason:
        pytest.skip(str(reason))
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    rows, labels = data.X[order], data.y[order]
    train, test = slice(4500), slice(4500, None)
    trees = XGBClassifier(n_estimators=40, max_depth=4, learning_rate=0.2)
    models = {
        "trees": trees,
        "regression": make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=300)),
        "both": LeafLogisticRegression(trees, tree_share=1.0),
    }
    loss = {
        name: log_loss(labels[test], model.fit(rows[train], labels[train]).predict_proba(rows[test]))
        for name, model in models.items()
    }
    assert loss["both"] < min(loss["trees"], loss["regression"])
