"""LightGBM's models, converted: every way that values are missing, categories, all objectives that have a twin."""

import numpy as np
import pytest

pytest.importorskip("lightgbm")

import lightgbm as lgb

import arboost
from arboost.convert import from_lightgbm
from arboost.convert.drafts import above
from arboost.runtime.errors import XGBoostError

RNG = np.random.default_rng(1)
N = 600
X = RNG.normal(size=(N, 5)).astype(np.float32)
X[:, 3] = RNG.integers(0, 30, N)
SCORE = X[:, 0] + (X[:, 3] % 3 == 1) + np.where(X[:, 1] > 0, X[:, 2], 0)
HOLES = X.copy()
HOLES[RNG.random(X.shape) < 0.15] = np.nan
ZEROS = X.copy()
ZEROS[RNG.random(X.shape) < 0.3] = 0
BOTH = ZEROS.copy()
BOTH[RNG.random(X.shape) < 0.1] = np.nan
SMALL = {"num_leaves": 8, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1, "deterministic": True}
CLOSE = {"rtol": 2e-6, "atol": 2e-6}  # leaves and sums are float32


def train(data, label, rounds=12, categorical="auto", **params):
    return lgb.train({**SMALL, **params}, lgb.Dataset(data, label, categorical_feature=categorical), rounds)


@pytest.mark.parametrize("missing", [{}, {"zero_as_missing": True}, {"use_missing": False}], ids=str)
@pytest.mark.parametrize("data", [X, HOLES, ZEROS, BOTH], ids=["whole", "NaN", "zeros", "both"])
def test_missing_values_go_the_same_way(data, missing):
    theirs = train(data, SCORE, **missing)
    ours = from_lightgbm(theirs)
    for rows in (X, HOLES, ZEROS, BOTH, np.full((1, 5), 1e-36, np.float32), -np.full((1, 5), 1e-36, np.float32)):
        np.testing.assert_allclose(ours.inplace_predict(rows), theirs.predict(rows), **CLOSE)


@pytest.mark.parametrize("data", [X, HOLES], ids=["whole", "NaN"])
def test_categories_are_sets(data):
    theirs = train(data, SCORE, categorical=[3], min_data_per_group=1, cat_smooth=1, cat_l2=0)
    assert "cat_threshold" in theirs.model_to_string()
    ours = from_lightgbm(theirs)
    unseen = X.copy()
    unseen[:, 3] += 20  # 30 to 49 were not seen
    for rows in (X, HOLES, unseen):
        np.testing.assert_allclose(ours.inplace_predict(rows), theirs.predict(rows), **CLOSE)
    assert ours.feature_types[3] == "c"


def test_categories_of_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X[:, 0], "k": pd.Categorical(np.array(list("pqrst"))[X[:, 3].astype(int) % 5])})
    theirs = lgb.train(
        {**SMALL, "min_data_per_group": 1, "cat_smooth": 1}, lgb.Dataset(frame, frame.k.isin(["q", "s"]) + frame.x), 5
    )
    ours = from_lightgbm(theirs)
    reordered = frame.assign(k=frame.k.cat.reorder_categories(list("tsrqp")))
    for rows in (frame, reordered):
        np.testing.assert_allclose(ours.inplace_predict(rows), theirs.predict(rows), **CLOSE)
    assert ours.feature_names == ["x", "k"]


@pytest.mark.parametrize(
    "params, label",
    [
        ({"objective": "regression_l1"}, SCORE),
        ({"objective": "quantile", "alpha": 0.3}, SCORE),
        ({"objective": "huber"}, SCORE),
        ({"objective": "poisson"}, np.abs(SCORE)),
        ({"objective": "gamma"}, np.abs(SCORE) + 0.1),
        ({"objective": "tweedie"}, np.abs(SCORE)),
        ({"objective": "binary"}, SCORE > 0.5),
        ({"objective": "binary", "sigmoid": 2.0}, SCORE > 0.5),
        ({"objective": "cross_entropy"}, 1 / (1 + np.exp(-SCORE))),
        ({"objective": "multiclass", "num_class": 3}, np.digitize(SCORE, [0, 1])),
        ({"objective": "multiclassova", "num_class": 3}, np.digitize(SCORE, [0, 1])),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, SCORE),
        ({"boosting": "dart"}, SCORE),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_objectives(params, label):
    theirs = train(HOLES, label, **params)
    np.testing.assert_allclose(
        from_lightgbm(theirs).inplace_predict(HOLES), theirs.predict(HOLES), rtol=1e-5, atol=1e-6
    )


def test_estimators_files_and_explanations(tmp_path):
    theirs = lgb.LGBMClassifier(n_estimators=10, num_leaves=6, verbosity=-1, n_jobs=1).fit(HOLES, SCORE > 0)
    theirs.booster_.save_model(tmp_path / "model.txt")
    ours = from_lightgbm(theirs)
    np.testing.assert_allclose(ours.inplace_predict(HOLES), theirs.predict_proba(HOLES)[:, 1], **CLOSE)
    read = from_lightgbm(tmp_path / "model.txt")
    np.testing.assert_array_equal(read.inplace_predict(HOLES), ours.inplace_predict(HOLES))
    found = ours.predict(arboost.DMatrix(HOLES), pred_contribs=True)
    np.testing.assert_allclose(found.sum(axis=1), ours.inplace_predict(HOLES, predict_type="margin"), atol=1e-5)
    again = arboost.Booster(model_file=ours.save_raw())
    np.testing.assert_array_equal(again.inplace_predict(HOLES), ours.inplace_predict(HOLES))


def test_early_stopping_keeps_the_best_rounds():
    data = lgb.Dataset(X[:400], SCORE[:400])
    watched = lgb.Dataset(X[400:], RNG.normal(size=200), reference=data)
    theirs = lgb.train(SMALL, data, 50, valid_sets=[watched], callbacks=[lgb.early_stopping(2, verbose=False)])
    ours = from_lightgbm(theirs)
    assert ours.num_boosted_rounds() == theirs.best_iteration < 50
    np.testing.assert_allclose(ours.inplace_predict(X), theirs.predict(X), **CLOSE)


def test_a_tree_without_splits():
    theirs = train(X, np.ones(N), rounds=2)
    np.testing.assert_allclose(from_lightgbm(theirs).inplace_predict(X), theirs.predict(X), **CLOSE)


@pytest.mark.parametrize("params", [{}, {"objective": "binary"}], ids=str)
def test_linear_trees(params):
    label = SCORE > 0 if "objective" in params else SCORE + 0.3 * X[:, 1] ** 2
    data = lgb.Dataset(HOLES, label, params={"linear_tree": True, **params})
    theirs = lgb.train({**SMALL, "linear_tree": True, "linear_lambda": 0.1, **params}, data, 8)
    assert "leaf_coeff" in theirs.model_to_string()
    ours = from_lightgbm(theirs)
    for rows in (X, HOLES, 3 * X):
        np.testing.assert_allclose(ours.inplace_predict(rows), theirs.predict(rows), rtol=2e-5, atol=2e-5)
    again = arboost.Booster(model_file=ours.save_raw())
    np.testing.assert_array_equal(again.inplace_predict(X), ours.inplace_predict(X))


def test_what_has_no_twin_is_refused_by_name():
    with pytest.raises(XGBoostError, match="reg_sqrt"):
        from_lightgbm(train(X, np.abs(SCORE), reg_sqrt=True))
    with pytest.raises(XGBoostError, match="cross_entropy_lambda"):
        from_lightgbm(train(X, 1 / (1 + np.exp(-SCORE)), objective="cross_entropy_lambda"))
    with pytest.raises(TypeError, match="LightGBM"):
        from_lightgbm(3)


def test_thresholds_round_up():
    """x <= t and x < above(t) agree on every float32 near t."""
    exact = RNG.normal(size=1000) * 10.0 ** RNG.integers(-30, 30, 1000)
    found = above(exact)
    near = exact.astype(np.float32)
    for x in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
        np.testing.assert_array_equal(x.astype(np.float64) <= exact, x < found)
    assert above(1e300) == np.inf
