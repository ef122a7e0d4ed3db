"""Shapes, types and values of every kind of prediction, next to XGBoost's of the very same model."""

import numpy as np
import pytest
import scipy.sparse as sp

import arboost
from boosting_cases import loss_params, make_features, make_label, n_outputs

xgboost = pytest.importorskip("xgboost")

X = make_features(200, missing=0.15)
OBJECTIVES = [
    "reg:squarederror",
    "binary:logistic",
    "binary:hinge",
    "multi:softprob",
    "multi:softmax",
    "reg:quantileerror",
    "count:poisson",
]
N_ROUNDS = 5
KINDS = [
    {},
    {"output_margin": True},
    {"pred_leaf": True},
    {"training": True},
    {"iteration_range": (1, 3)},
    {"iteration_range": (0, 1)},
    {"iteration_range": (2, 0)},
    {"iteration_range": (2, 2)},
    {"iteration_range": (0, N_ROUNDS), "output_margin": True},
    {"iteration_range": (0, 1), "pred_leaf": True},
]


@pytest.fixture(scope="module", params=[1, 2], ids=["trees", "forests"])
def pairs(request):
    """The same models as boosters of both libraries, by objective."""
    found = {}
    for objective in OBJECTIVES:
        params = {**loss_params(objective), "max_depth": 3, "nthread": 1, "num_parallel_tree": request.param}
        ours = arboost.train(params, arboost.DMatrix(X, make_label(objective, X)), N_ROUNDS)
        found[objective] = ours, xgboost.Booster({"nthread": 1}, model_file=ours.save_raw())
    return found


def assert_alike(ours, theirs):
    assert ours.dtype == theirs.dtype == np.float32
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strict_shape", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_predict(objective, kind, strict_shape, pairs):
    ours, theirs = pairs[objective]
    arguments = {**kind, "strict_shape": strict_shape}
    assert_alike(ours.predict(arboost.DMatrix(X), **arguments), theirs.predict(xgboost.DMatrix(X), **arguments))


@pytest.mark.parametrize("strict_shape", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize("predict_type", ["value", "margin"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_inplace_predict(objective, predict_type, strict_shape, pairs):
    ours, theirs = pairs[objective]
    for more in ({}, {"iteration_range": (1, 4)}):
        arguments = {**more, "predict_type": predict_type, "strict_shape": strict_shape}
        assert_alike(ours.inplace_predict(X, **arguments), theirs.inplace_predict(X, **arguments))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_base_margin(objective, pairs):
    ours, theirs = pairs[objective]
    margin = np.random.default_rng(0).normal(size=(len(X), n_outputs(objective))).astype(np.float32)
    for kind in ({}, {"output_margin": True}):
        assert_alike(
            ours.predict(arboost.DMatrix(X, base_margin=margin), **kind),
            theirs.predict(xgboost.DMatrix(X, base_margin=margin), **kind),
        )
    assert_alike(ours.inplace_predict(X, base_margin=margin), theirs.inplace_predict(X, base_margin=margin))
    flat = margin.reshape(-1)
    assert np.array_equal(ours.predict(arboost.DMatrix(X, base_margin=flat)), ours.inplace_predict(X, base_margin=flat))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_row_and_none(objective, pairs):
    ours, theirs = pairs[objective]
    for strict_shape in (False, True):
        arguments = {"strict_shape": strict_shape}
        one = X[:1]
        assert_alike(ours.predict(arboost.DMatrix(one), **arguments), theirs.predict(xgboost.DMatrix(one), **arguments))
        assert_alike(ours.inplace_predict(one, **arguments), theirs.inplace_predict(one, **arguments))
        for kind in KINDS:
            shape = ours.predict(arboost.DMatrix(one), **arguments, **kind).shape
            none = ours.predict(arboost.DMatrix(X[:0]), **arguments, **kind)
            assert none.shape == (0, *shape[1:])
            assert none.dtype == np.float32


def as_frame(X):
    return pytest.importorskip("pandas").DataFrame(X)


@pytest.mark.parametrize(
    "container",
    [
        lambda X: X,
        lambda X: X.astype(np.float64),
        np.asfortranarray,
        lambda X: X[::-1][::-1],
        lambda X: X.tolist(),
        as_frame,
        lambda X: as_frame(X).astype("Float64"),
        lambda X: sp.csr_matrix(np.where(np.isnan(X), 0, X + 1)),
    ],
    ids=["float32", "float64", "fortran", "strided", "list", "frame", "nullable", "csr"],
)
def test_inplace_predict_of_any_container(container, pairs):
    ours, theirs = pairs["multi:softprob"]
    assert_alike(ours.inplace_predict(container(X)), theirs.inplace_predict(container(X)))


def test_missing_values(pairs):
    ours, _ = pairs["reg:squarederror"]
    expected = ours.predict(arboost.DMatrix(X))
    filled = np.nan_to_num(X, nan=-1.0)
    assert np.array_equal(ours.inplace_predict(filled, missing=-1), expected)
    assert np.array_equal(ours.predict(arboost.DMatrix(filled, missing=-1)), expected)
    assert not np.array_equal(ours.inplace_predict(filled), expected)


def test_thresholds_are_float32(pairs):
    """x < threshold is decided in float32, as XGBoost does."""
    ours, theirs = pairs["reg:squarederror"]
    near = np.repeat(np.arange(1, 40.0)[:, None], 6, axis=1)
    for values in (near - 1e-9, near, near + 1e-9, np.nextafter(near.astype(np.float32), np.float32(0))):
        assert_alike(ours.inplace_predict(values), theirs.inplace_predict(values))


def test_infinite_values_are_values_in_place(pairs):
    ours, theirs = pairs["reg:squarederror"]
    extreme = np.where(X > 20, np.inf, np.where(X < 10, -np.inf, X))
    assert_alike(ours.inplace_predict(extreme), theirs.inplace_predict(extreme))


def test_the_result_belongs_to_the_caller(pairs):
    ours, _ = pairs["reg:squarederror"]
    data = arboost.DMatrix(X, make_label("reg:squarederror", X))
    first = ours.predict(data)
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(ours.predict(data), kept)
    assert ours.predict(data).flags.writeable


def test_feature_names_are_checked(pairs):
    names = list("abcdef")
    data = arboost.DMatrix(X, make_label("", X), feature_names=names)
    booster = arboost.train({"max_depth": 2}, data, 2)
    expected = booster.predict(data)
    other = arboost.DMatrix(X, feature_names=list("bacdef"))
    with pytest.raises(ValueError, match="feature_names mismatch"):
        booster.predict(other)
    assert np.array_equal(booster.predict(other, validate_features=False), expected)
    with pytest.raises(ValueError, match="did not contain feature names"):
        booster.predict(arboost.DMatrix(X))
    with pytest.raises(ValueError, match=r"feature_names mismatch(.|\n)*expected f in input data(.|\n)*not have.*: g"):
        booster.predict(arboost.DMatrix(X, feature_names=list("abcdeg")))
    assert np.array_equal(booster.inplace_predict(X), expected), "an array has no names to check"
    pandas = pytest.importorskip("pandas")
    assert np.array_equal(booster.inplace_predict(pandas.DataFrame(X, columns=names)), expected)
    reordered = pandas.DataFrame(X, columns=names)[list("bacdef")]
    assert np.array_equal(booster.inplace_predict(reordered), expected), "a frame's columns are found by name"
    unnamed, _ = pairs["reg:squarederror"]
    assert unnamed.predict(data).shape == (len(X),), "a model without names takes any"


def test_leaves_are_node_numbers(pairs):
    """pred_leaf gives the node numbers of the dump."""
    ours, _ = pairs["reg:squarederror"]
    leaves = ours.predict(arboost.DMatrix(X), pred_leaf=True)
    for tree, text in enumerate(ours.get_dump()):
        in_dump = {int(line.strip().split(":")[0]) for line in text.splitlines() if "leaf=" in line}
        assert set(np.unique(leaves[:, tree]).astype(int)) <= in_dump


def test_one_kind_at_a_time(pairs):
    ours, _ = pairs["reg:squarederror"]
    with pytest.raises(ValueError, match="One type of prediction at a time"):
        ours.predict(arboost.DMatrix(X), output_margin=True, pred_leaf=True)
    with pytest.raises(ValueError, match="predict_type"):
        ours.inplace_predict(X, predict_type="leaf")
