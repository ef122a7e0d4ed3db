"""Categorical models and explanations against XGBoost, and the shap library on our models.

Values are sums of float32 numbers of different order: 1e-5 of the largest value of a row is the tolerance.
"""

import numpy as np
import pytest
import scipy.sparse

import arboost

xgb = pytest.importorskip("xgboost")

KINDS = (
    {"pred_contribs": True},
    {"pred_interactions": True},
    {"pred_contribs": True, "approx_contribs": True},
    {"pred_interactions": True, "approx_contribs": True},
)
N_ROWS, N_FEATURES = 600, 5


def target_of(x):
    x = np.nan_to_num(x)
    return np.sin(x[:, 0] * 2.3) + (x[:, 1] == 1) * x[:, 2] + x[:, 3] * x[:, 4]


def make_rows(n_categories=70, missing=0.1, seed=0):
    """Two columns of codes, three of numbers, missing values in all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    x[:, 0], x[:, 1] = rng.integers(0, n_categories, N_ROWS), rng.integers(0, 3, N_ROWS)
    x[rng.random(x.shape) < missing] = np.nan
    return x


CASES = {
    "numerical": ({"max_depth": 6}, "qqqqq"),
    "deep": ({"max_depth": 0, "grow_policy": "lossguide", "max_leaves": 120, "min_child_weight": 0}, "qqqqq"),
    "stumps": ({"max_depth": 1}, "ccqqq"),
    "one-hot": ({"max_depth": 5, "max_cat_to_onehot": 1000}, "ccqqq"),
    "partition": ({"max_depth": 6, "max_cat_to_onehot": 1}, "ccqqq"),
    "both": ({"max_depth": 6, "max_cat_to_onehot": 10, "objective": "binary:logistic"}, "ccqqq"),
    "forest": ({"max_depth": 5, "num_parallel_tree": 3, "subsample": 0.6, "seed": 1}, "ccqqq"),
    "classes": (
        {"max_depth": 4, "objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.7},
        "ccqqq",
    ),
    "no split": ({"max_depth": 3, "gamma": 1e9}, "ccqqq"),
}


@pytest.fixture(scope="module", params=list(CASES))
def pair(request):
    """(XGBoost's booster, ours from its file, feature types, rows)."""
    params, types = CASES[request.param]
    x = make_rows()
    y = target_of(x)
    if params.get("objective") == "binary:logistic":
        y = y > 0
    elif "num_class" in params:
        y = np.digitize(y, [-0.5, 0.5])
    theirs = xgb.train({"nthread": 1, **params}, theirs_of(x, types, label=y), 6)
    return theirs, arboost.Booster({"nthread": 2}, model_file=theirs.save_raw()), types, x


def theirs_of(x, types, **info):
    return xgb.DMatrix(x, feature_types=list(types), enable_categorical=True, **info)


def ours_of(x, types, **info):
    return arboost.DMatrix(x, feature_types=list(types), enable_categorical=True, **info)


def assert_close(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype == np.float32
    largest = np.abs(expected).reshape(len(expected), -1).max(axis=1).reshape(-1, *[1] * (expected.ndim - 1))
    assert (np.abs(found - expected) <= 1e-5 * largest + 1e-7).all()


def test_margins_and_leaves(pair):
    theirs, ours, types, x = pair
    x = x.copy()
    strange = [-1, -0.5, 1.7, 63.9, 64, 70, 127, 128, 200, 1e6, 2**24 - 1, 2**24, 1e30]
    x[: len(strange), 0] = strange
    margins = ours.predict(ours_of(x, types), output_margin=True)
    np.testing.assert_allclose(margins, theirs.predict(theirs_of(x, types), output_margin=True), rtol=1e-6, atol=1e-6)
    inplace = ours.inplace_predict(x, predict_type="margin")
    np.testing.assert_array_equal(inplace, margins)
    leaves = theirs.predict(theirs_of(x, types), pred_leaf=True)
    np.testing.assert_array_equal(ours.predict(ours_of(x, types), pred_leaf=True), leaves)


@pytest.mark.parametrize("strict_shape", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_explanations(pair, kind, strict_shape):
    theirs, ours, types, x = pair
    x = x[:100]
    expected = theirs.predict(theirs_of(x, types), strict_shape=strict_shape, **kind)
    found = ours.predict(ours_of(x, types), strict_shape=strict_shape, **kind)
    assert_close(found, expected)
    margins = ours.predict(ours_of(x, types), output_margin=True, strict_shape=strict_shape)
    axes = (-1, -2) if "pred_interactions" in kind else -1
    np.testing.assert_allclose(found.sum(axis=axes), margins, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_base_margin_takes_the_place_of_the_base_score(pair, kind):
    theirs, ours, types, x = pair
    x = x[:30]
    shape = theirs.predict(theirs_of(x, types), output_margin=True).shape
    base_margin = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    expected = theirs.predict(theirs_of(x, types, base_margin=base_margin), **kind)
    assert_close(ours.predict(ours_of(x, types, base_margin=base_margin), **kind), expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rounds(pair, kind):
    theirs, ours, types, x = pair
    x = x[:30]
    expected = theirs.predict(theirs_of(x, types), iteration_range=(0, 4), **kind)
    assert_close(ours.predict(ours_of(x, types), iteration_range=(0, 4), **kind), expected)
    # XGBoost refuses a range that does not begin with the first round, but explains a slice
    expected = theirs[2:5].predict(theirs_of(x, types), **kind)
    assert_close(ours.predict(ours_of(x, types), iteration_range=(2, 5), **kind), expected)
    assert_close(ours[2:5].predict(ours_of(x, types), **kind), expected)


def test_one_kind_at_a_time(pair):
    _, ours, types, x = pair
    data = ours_of(x[:3], types)
    for kinds in ({"pred_leaf"}, {"output_margin"}, {"pred_interactions"}):
        with pytest.raises(ValueError, match="One type of prediction at a time"):
            ours.predict(data, pred_contribs=True, **dict.fromkeys(kinds, True))
    np.testing.assert_array_equal(ours.predict(data, approx_contribs=True), ours.predict(data))


def test_sparse_data_and_files(pair, tmp_path):
    """Absent entries are missing values; a model saved again explains the same."""
    _, ours, types, x = pair
    present = ~np.isnan(x)
    rows, columns = np.nonzero(present)
    sparse = scipy.sparse.csr_matrix((x[present], (rows, columns)), shape=x.shape)
    expected = ours.predict(ours_of(x, types), pred_contribs=True)
    np.testing.assert_array_equal(ours.predict(ours_of(sparse, types), pred_contribs=True), expected)
    ours.save_model(tmp_path / "model.json")
    again = arboost.Booster(model_file=tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(ours_of(x, types), pred_contribs=True), expected)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_the_shap_library_explains_our_models(objective):
    shap = pytest.importorskip("shap")
    x = make_rows()
    y = target_of(x)
    y = y if objective == "reg:squarederror" else np.digitize(y, [-0.5, 0.5][: 1 + (objective != "binary:logistic")])
    params = {"objective": objective, "max_depth": 4, "nthread": 1}
    ours = arboost.train(params | ({"num_class": 3} if "multi" in objective else {}), arboost.DMatrix(x, y), 5)
    found = ours.predict(arboost.DMatrix(x), pred_contribs=True, strict_shape=True)
    explainer = shap.TreeExplainer(ours.to_shap())
    values = explainer.shap_values(x).reshape(len(x), N_FEATURES, -1).transpose(0, 2, 1)
    np.testing.assert_allclose(found[:, :, :-1], values, atol=1e-5)
    np.testing.assert_allclose(found[0, :, -1], np.ravel(explainer.expected_value), atol=1e-5)
    pairs = ours.predict(arboost.DMatrix(x[:20]), pred_interactions=True, strict_shape=True)
    values = explainer.shap_interaction_values(x[:20]).reshape(20, N_FEATURES, N_FEATURES, -1).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(pairs[:, :, :-1, :-1], values, atol=1e-5)


def test_the_shap_library_explains_categories_through_xgboost():
    """The documented line for categorical models: the file is XGBoost's, so XGBoost's own explainer takes it."""
    shap = pytest.importorskip("shap")
    x = make_rows(missing=0.0)
    model = xgb.train({"max_depth": 4, "nthread": 1}, theirs_of(x, "ccqqq", label=target_of(x)), 5)
    ours = arboost.Booster(model_file=model.save_raw())
    explainer = shap.TreeExplainer(xgb.Booster(model_file=ours.save_raw()))
    values = explainer.shap_values(theirs_of(x, "ccqqq"))
    found = ours.predict(ours_of(x, "ccqqq"), pred_contribs=True)
    np.testing.assert_allclose(found[:, :-1], values, atol=1e-5)
    with pytest.raises(arboost.core.XGBoostError, match="categorical"):
        ours.to_shap()
