"""What must hold of any explanation (Shapley's axioms), of models trained here."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import arboost
import naive_shap

QUIET = {"nthread": 1, "verbosity": 0}


@st.composite
def models(draw, max_features=4):
    """(booster, rows): few distinct values, some missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features = draw(st.integers(1, max_features))
    x = rng.integers(-4, 4, (draw(st.integers(2, 80)), n_features)).astype(np.float32) / 2
    y = (x @ rng.normal(size=n_features) + np.prod(x[:, :2], axis=1)).astype(np.float32)
    x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    params = {"max_depth": draw(st.integers(1, 8)), "min_child_weight": 0, "eta": 0.7, **QUIET}
    if draw(st.booleans()):
        params |= {"objective": "binary:logistic"}
        y = (y > np.median(y)).astype(np.float32)
    return arboost.train(params, arboost.DMatrix(x, y), draw(st.integers(1, 4))), x[:20]


def explain(booster, x, **kind):
    return booster.predict(arboost.DMatrix(x), **kind)


@given(models(), st.booleans())
def test_sums_equal_margins(model, approximate):
    booster, x = model
    margins = explain(booster, x, output_margin=True)
    scale = 1 + np.abs(margins)
    single = explain(booster, x, pred_contribs=True, approx_contribs=approximate)
    pairs = explain(booster, x, pred_interactions=True, approx_contribs=approximate)
    assert (np.abs(single.sum(axis=1) - margins) <= 1e-5 * scale).all()
    assert (np.abs(pairs.sum(axis=2) - single).max(axis=1) <= 1e-5 * scale).all()
    np.testing.assert_array_equal(pairs, pairs.transpose(0, 2, 1))


@given(models())
def test_shapley_values_by_definition(model):
    booster, x = model
    trees = booster._learner.model.trees
    expected = np.array([sum(naive_shap.contributions(tree, row) for tree in trees) for row in x[:5]])
    found = explain(booster, x[:5], pred_contribs=True)
    np.testing.assert_allclose(found[:, :-1], expected[:, :-1], rtol=1e-4, atol=1e-5)


@given(models())
def test_a_feature_that_is_never_split_on_adds_nothing(model):
    booster, x = model
    unused = [f for f in range(x.shape[1]) if f"f{f}" not in booster.get_fscore()]
    assert not explain(booster, x, pred_contribs=True)[:, unused].any()
    assert not explain(booster, x, pred_interactions=True)[:, unused].any()


@given(models())
def test_values_add_up_over_rounds(model):
    booster, x = model
    n = booster.num_boosted_rounds()
    whole = explain(booster, x, pred_contribs=True)
    parts = sum(explain(booster, x, pred_contribs=True, iteration_range=(r, r + 1)) for r in range(n))
    np.testing.assert_allclose(parts[:, :-1], whole[:, :-1], rtol=1e-4, atol=1e-5)
