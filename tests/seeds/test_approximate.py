"""Worked example 5: eps = 0.03 proposes about 33 candidates per feature, for a tree (global) or a split (local)."""

import numpy as np
import pytest

import arboost
from arboost.matrix.adapt import adapt
from arboost.matrix.proposed import ProposedPage
from arboost.matrix.sorted import make_sorted
from arboost.matrix.summary import WeightedQuantileSketch
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.tree.approx import count_bins

EPS = 0.03


def test_about_33_candidates_and_no_more_weight_than_eps_between_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 1)).astype(np.float32)
    hessian = rng.integers(1, 1000, 10_000)
    ctx = Context()
    n_bins = count_bins(resolve({"tree_method": "approx", "sketch_eps": EPS}).tree)
    proposed = ProposedPage(ctx, make_sorted(ctx, adapt(X, None)), n_bins)
    proposed.propose(hessian)
    candidates = proposed.page.cuts.values[:-1]
    assert len(np.unique(candidates)) == 33
    between = np.bincount(proposed.page.columns[0], weights=hessian)
    assert between.max() <= EPS * hessian.sum() + hessian.max()


def test_the_sketch_proposes_the_same_within_eps():
    """The weight of a row is its hessian; the stream may come in pieces."""
    rng = np.random.default_rng(1)
    values, hessian = rng.normal(size=20_000).astype(np.float32), rng.integers(1, 1000, 20_000)
    sketch = WeightedQuantileSketch(EPS / 10)
    for x, h in zip(np.split(values, 20), np.split(hessian, 20), strict=True):
        sketch.push(x, h)
    candidates = sketch.quantiles(np.arange(1, 34) / 34)
    ranks = [hessian[values < c].sum() / hessian.sum() for c in candidates]
    np.testing.assert_allclose(ranks, np.arange(1, 34) / 34, atol=EPS / 10)


def train(X, y, proposal, eps):
    params = {"tree_method": "approx", "sketch_proposal": proposal, "sketch_eps": eps, "max_depth": 5, "eta": 1.0}
    data = arboost.DMatrix(X, y)
    return float(np.mean((arboost.train(params, data, 1).predict(data) - y) ** 2))


def test_global_needs_a_smaller_eps_for_the_same_accuracy():
    """One feature, three waves, five levels: local halves again what is left, global has five bins for all of it."""
    X = np.linspace(0, 1, 4096, dtype=np.float32)[:, None]
    y = np.sin(20 * X[:, 0])
    losses = {(kind, eps): train(X, y, kind, eps) for kind in ("global", "local") for eps in (0.2, 0.1, 0.02)}
    assert losses["local", 0.2] < 0.5 * losses["global", 0.2]
    assert losses["local", 0.2] < losses["global", 0.1]
    assert losses["global", 0.02] < 0.5 * losses["global", 0.2]


@pytest.mark.parametrize("proposal", ["global", "local"])
def test_global_proposes_once_for_a_tree_and_local_after_every_split(proposal):
    rng = np.random.default_rng(2)
    X = rng.random((5000, 1)).astype(np.float32)
    data = arboost.DMatrix(X, np.sin(20 * X[:, 0]))
    params = {"tree_method": "approx", "sketch_proposal": proposal, "sketch_eps": EPS, "max_depth": 8, "max_leaves": 0}
    booster = arboost.train(params | {"min_child_weight": 0}, data, 1)
    thresholds = booster.trees_to_dataframe().Split.dropna().nunique()
    assert (thresholds <= 33) == (proposal == "global")
