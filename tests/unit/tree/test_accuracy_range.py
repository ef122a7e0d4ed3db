"""A wide range of gradients loses no accuracy: whole trainings against a float64 trainer that rounds nothing."""

import math

import numpy as np
import pytest

import arboost
import naive

N_ROWS = 1500
N_ROUNDS = 4
TOLERANCE = 1e-5
VARIANCE_POWER = 1.5
PARAMS = {"max_depth": 3, "min_child_weight": 10, "lambda": 1, "eta": 0.3, "nthread": 1}


def make_features(rng):
    x = np.round(rng.normal(size=(N_ROWS, 3)), 1).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x, np.nan_to_num(x)


def squared_error(margin, y):
    return margin - y, 1.0, (margin - y) ** 2 / 2


def gamma(margin, y):
    ratio = y / math.exp(margin)
    return 1 - ratio, ratio, margin + ratio


def tweedie(margin, y):
    a, b = 1 - VARIANCE_POWER, 2 - VARIANCE_POWER
    first, second = y * math.exp(a * margin), math.exp(b * margin)
    return second - first, b * second - a * first, -first / a + second / b


def gamma_labels(rng, x):
    """Log-normal with a heavy tail."""
    return np.exp(1.5 * x[:, 0] + rng.normal(0, 1.5, N_ROWS))


def tweedie_labels(rng, x):
    """Mostly nothing, sometimes a lot."""
    return np.where(rng.random(N_ROWS) < 0.6, 0, np.exp(x[:, 0] + rng.normal(2, 1.5, N_ROWS)))


def outlier_labels(rng, x):
    """One label a million times larger than the others."""
    y = x[:, 0] + 0.3 * x[:, 1] + rng.normal(0, 0.3, N_ROWS)
    y[700] = 1e6
    return y


def many_outliers(rng, x):
    y = outlier_labels(rng, x)
    y[rng.choice(N_ROWS, 30, replace=False)] *= 1e4
    return y


CASES = {
    "gamma": ("reg:gamma", gamma, gamma_labels, 1.0),
    "tweedie": ("reg:tweedie", tweedie, tweedie_labels, 1.0),
    "outlier": ("reg:squarederror", squared_error, outlier_labels, 0.0),
    "many outliers": ("reg:squarederror", squared_error, many_outliers, 0.0),
    "weighted outlier": ("reg:squarederror", squared_error, outlier_labels, 0.0),
}


def reference(x, y, weight, formula, start):
    """Trees, margins and mean loss of the naive trainer in float64."""

    def gradient(margin):
        terms = [formula(m, t) for m, t in zip(margin, y)]
        return [g * w for (g, _, _), w in zip(terms, weight)], [h * w for (_, h, _), w in zip(terms, weight)]

    p = naive.Params(max_depth=3, min_child_weight=10.0, eta=float(np.float32(0.3)))
    bins, n_bins, cuts = naive.bin_matrix(x)
    return *naive.boost(bins, n_bins, gradient, [start] * len(y), p, N_ROUNDS), cuts


def total_loss(margin, y, weight, formula):
    return sum(w * formula(float(m), t)[2] for m, t, w in zip(margin, y, weight))


@pytest.mark.parametrize("case", CASES)
def test_leaves_and_loss(case):
    objective, formula, make_labels, start = CASES[case]
    rng = np.random.default_rng(7)
    x, filled = make_features(rng)
    y = make_labels(rng, filled).astype(np.float32)
    weight = rng.uniform(0.5, 2, N_ROWS).astype(np.float32) if "weighted" in case else np.ones(N_ROWS, np.float32)
    # the same start for both; with a log link base_score is e**margin
    params = {**PARAMS, "objective": objective, "base_score": math.exp(start) if objective[4] in "gt" else start}
    meta = {"weight": weight} if "weighted" in case else {}
    data = arboost.DMatrix(x, y, **meta)
    booster = arboost.train(params, data, N_ROUNDS)
    labels, weights = y.astype(float).tolist(), weight.astype(float).tolist()
    start = float(booster._learner.start_margin(1, None)[0, 0])
    trees, expected_margin, cuts = reference(x, labels, weights, formula, start)
    margin = [start] * N_ROWS
    for tree, nodes in zip(booster._learner.model.trees, trees, strict=True):
        g = [formula(m, t)[0] * w for m, t, w in zip(margin, labels, weights)]
        check_tree(tree, nodes, cuts, g)
        for node in nodes:
            if node.is_leaf:
                for r in node.rows:
                    margin[r] += float(np.float32(0.3)) * naive.leaf_weight(node.g, node.h, naive.Params())
    assert max(node.depth for node in trees[0]) == 3
    found = booster.predict(data, output_margin=True)
    losses = [total_loss(m, labels, weights, formula) for m in (found, expected_margin)]
    assert losses[0] == pytest.approx(losses[1], rel=TOLERANCE)


def check_tree(tree, nodes, cuts, g):
    """Same splits; leaf values within the tolerance, relative to what the leaf's rows would give if none cancelled."""
    assert tree.feature.tolist() == [0 if node.is_leaf else node.split.feature for node in nodes]
    for i, node in enumerate(nodes):
        if not node.is_leaf:
            assert tree.threshold[i] == cuts[node.split.feature][node.split.bin]
            continue
        value = 0.3 * naive.leaf_weight(node.g, node.h, naive.Params())
        size = 0.3 * sum(abs(g[r]) for r in node.rows) / (node.h + 1)
        assert tree.threshold[i] == pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE * size)


def test_typical_rows_are_fitted_beside_an_outlier():
    """What an outlier must not do: round everyone else's gradient to nothing."""
    rng = np.random.default_rng(3)
    for n_rows in (300, 3000, 30_000):
        x = rng.normal(size=(n_rows, 2)).astype(np.float32)
        y = np.sign(x[:, 0]).astype(np.float32)
        x[0], y[0] = 9.0, 1e6  # alone beyond all others
        for meta in ({}, {"weight": rng.uniform(0.5, 2, n_rows)}):
            data = arboost.DMatrix(x, y, **meta)
            booster = arboost.train({**PARAMS, "base_score": 0.0, "min_child_weight": 0, "eta": 1.0}, data, 10)
            assert np.abs(booster.predict(data) - y)[1:].mean() < 0.02
