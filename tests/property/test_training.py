"""What must hold of any training: what the data means decides, not how it is written down."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import arboost

QUIET = {"nthread": 1, "verbosity": 0}


@st.composite
def matrices(draw, max_rows=60, max_features=4, n_values=8):
    """(x, y): few distinct values, some missing, and labels that depend on them with noise."""
    n_rows, n_features = draw(st.integers(2, max_rows)), draw(st.integers(1, max_features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.integers(-n_values, n_values, (n_rows, n_features)).astype(np.float32) / 4
    y = (x @ rng.normal(size=n_features) + rng.normal(size=n_rows)).astype(np.float32)
    x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.0, 0.2]))] = np.nan
    return x, y


growth = st.fixed_dictionaries(
    {
        "max_depth": st.integers(0, 5),
        "eta": st.sampled_from([0.1, 0.3, 1.0]),
        "lambda": st.sampled_from([0.0, 1.0, 5.0]),
        "alpha": st.sampled_from([0.0, 0.0, 0.5]),
        "gamma": st.sampled_from([0.0, 0.0, 1.0]),
        "min_child_weight": st.sampled_from([0.0, 1.0, 4.0]),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "max_leaves": st.sampled_from([0, 0, 5]),
        "max_bin": st.sampled_from([4, 256, 400]),
    }
)
objectives = st.sampled_from(["reg:squarederror", "binary:logistic"])


def labels_for(objective, y):
    return (y > np.median(y)).astype(np.float32) if objective == "binary:logistic" else y


def train(params, x, y, n_rounds=3, **meta):
    return arboost.train({**QUIET, **params}, arboost.DMatrix(x, y, **meta), n_rounds)


def margins(booster, x):
    return booster.predict(arboost.DMatrix(x), output_margin=True)


@given(matrices(), growth, objectives)
def test_training_loss_never_rises(data, params, objective):
    x, y = data
    y = labels_for(objective, y)
    metric = "rmse" if objective == "reg:squarederror" else "logloss"
    if objective == "binary:logistic":
        params = {**params, "lambda": max(params["lambda"], 1.0)}  # without it a Newton step may overshoot
    history = {}
    matrix = arboost.DMatrix(x, y)
    booster = arboost.train(
        {**QUIET, **params, "objective": objective, "eval_metric": metric},
        matrix,
        8,
        evals=[(matrix, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    losses = history["train"][metric]
    start = booster._learner.start_margin(len(y), None)[:, 0]
    if objective == "reg:squarederror":
        before = math.sqrt(np.mean((start.astype(np.float64) - y) ** 2))
    else:
        before = float(np.mean(np.logaddexp(0, start.astype(np.float64)) - y * start))
    slack = 1e-6 * max(before, 1e-3)  # margins are float32
    for earlier, later in zip([before, *losses], losses):
        assert later <= earlier + slack


@given(matrices(max_rows=40), growth, objectives, st.data())
def test_an_integer_weight_is_so_many_rows(data, params, objective, draw):
    x, y = data
    y = labels_for(objective, y)
    weight = np.array(draw.draw(st.lists(st.integers(1, 4), min_size=len(y), max_size=len(y))))
    params = {**params, "objective": objective, "base_score": 0.25, "max_bin": 256}
    weighted = train(params, x, y, 1, weight=weight.astype(np.float32))
    repeated = train(params, np.repeat(x, weight, axis=0), np.repeat(y, weight), 1)
    a, b = weighted._learner.model.trees[0], repeated._learner.model.trees[0]
    np.testing.assert_allclose(margins(weighted, x), margins(repeated, x), rtol=1e-4, atol=1e-4)
    if not _has_close_call(weighted):
        assert a.feature.tolist() == b.feature.tolist()
        np.testing.assert_allclose(a.threshold, b.threshold, rtol=1e-4, atol=1e-5)


def _has_close_call(booster):
    """A gain at the very edge of being one may come out on either side."""
    tree = booster._learner.model.trees[0]
    gains = tree.gain[tree.left >= 0]
    return bool(len(gains)) and float(gains.min()) < 1e-4


@given(matrices(), growth, objectives, st.integers(0, 2**32))
def test_the_order_of_rows_is_nothing(data, params, objective, seed):
    x, y = data
    y = labels_for(objective, y)
    order = np.random.default_rng(seed).permutation(len(y))
    params = {**params, "objective": objective}
    weight = np.random.default_rng(seed).uniform(0.5, 2, len(y)).astype(np.float32)
    for meta in ({}, {"weight": weight}):
        moved = {name: values[order] for name, values in meta.items()}
        assert train(params, x, y, **meta).save_raw() == train(params, x[order], y[order], **moved).save_raw()


@given(matrices(), growth, st.integers(0, 2**32))
def test_the_order_of_columns_is_nothing_but_their_names(data, params, seed):
    x, y = data
    order = np.random.default_rng(seed).permutation(x.shape[1])
    one, other = train(params, x, y), train(params, x[:, order], y)
    for a, b in zip(one._learner.model.trees, other._learner.model.trees):
        assume(not _may_tie(x, a))
        inner = a.left >= 0
        np.testing.assert_array_equal(a.feature[inner], order[b.feature[inner]])
        np.testing.assert_array_equal(a.threshold, b.threshold)
    np.testing.assert_array_equal(margins(one, x), margins(other, x[:, order]))


def _may_tie(x, tree):
    """Small nodes can often be split alike by two features, and then the lower number wins."""
    return x.shape[1] > 1 and bool((tree.cover[tree.left >= 0] < 15).any())


@given(matrices(), growth, objectives, st.integers(-20, 20), st.data())
def test_a_power_of_two_is_nothing(data, params, objective, exponent, draw):
    x, y = data
    y = labels_for(objective, y)
    scaled = x.copy()
    scaled[:, draw.draw(st.integers(0, x.shape[1] - 1))] *= np.float32(2.0) ** exponent
    params = {**params, "objective": objective}
    np.testing.assert_array_equal(margins(train(params, x, y), x), margins(train(params, scaled, y), scaled))


@given(matrices(), growth, objectives, st.floats(-100, 100, width=16), st.data())
def test_a_constant_feature_is_nothing(data, params, objective, value, draw):
    x, y = data
    y = labels_for(objective, y)
    place = draw.draw(st.integers(0, x.shape[1]))
    wider = np.insert(x, place, np.float32(value), axis=1)
    params = {**params, "objective": objective}
    one, other = train(params, x, y), train(params, wider, y)
    np.testing.assert_array_equal(margins(one, x), margins(other, wider))
    for a, b in zip(one._learner.model.trees, other._learner.model.trees):
        inner = a.left >= 0
        np.testing.assert_array_equal(a.feature[inner] + (a.feature[inner] >= place), b.feature[inner])


@given(matrices(), growth, objectives, st.sampled_from([np.exp, np.cbrt, np.arctan, lambda v: 3 * v - 100]))
def test_a_rising_function_of_a_feature_is_nothing(data, params, objective, rising):
    """Few distinct values: each has a bin of its own before and after."""
    x, y = data
    y = labels_for(objective, y)
    moved = x.copy()
    moved[:, 0] = rising(x[:, 0].astype(np.float64)).astype(np.float32)
    params = {**params, "objective": objective, "max_bin": 256}
    np.testing.assert_array_equal(margins(train(params, x, y), x), margins(train(params, moved, y), moved))


@given(matrices(), growth, st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_labels_in_another_unit(data, params, unit):
    """Squared error: a power of two on the labels is one on the predictions (no penalty has a unit then)."""
    x, y = data
    params = {**params, "alpha": 0.0, "gamma": 0.0}
    assume(y.std() > 0.01)
    one, other = train(params, x, y, 2), train(params, x, y * np.float32(unit), 2)
    gains = [t.gain[t.left >= 0] for b in (one, other) for t in b._learner.model.trees]
    assume(all(g.min(initial=1) > 1e-3 for g in gains))  # a gain must exceed a fixed least one
    np.testing.assert_array_equal(margins(one, x) * np.float32(unit), margins(other, x))


@settings(max_examples=30)
@given(matrices(max_rows=300), growth, st.sampled_from([0.3, 0.7]), st.integers(0, 9))
def test_sampling_depends_on_the_seed_alone(data, params, subsample, seed):
    x, y = data
    params = {**params, "subsample": subsample, "colsample_bytree": 0.7, "colsample_bynode": 0.8, "seed": seed}
    models = [train({**params, "nthread": n}, x, y).save_raw() for n in (1, 3)]
    assert models[0] == models[1]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_more_rounds_fit_better(objective):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5)).astype(np.float32)
    y = labels_for(objective, (x[:, 0] * x[:, 1] + x[:, 2]).astype(np.float32))
    errors = [
        np.abs(train({"objective": objective}, x, y, n).predict(arboost.DMatrix(x)) - y).mean() for n in (1, 5, 25)
    ]
    assert errors[0] > errors[1] > errors[2]
