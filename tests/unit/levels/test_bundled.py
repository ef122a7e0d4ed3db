"""Features that share columns, or have none: the same trees as with a column for each."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost as xgb
from arboost.levels import bundled
from arboost.levels.quantize import quantize
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.tree.growers import HistogramGrower

PARAMS = [
    {"max_depth": 5},
    {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 12},
    {"max_depth": 4, "colsample_bynode": 0.5, "reg_alpha": 0.1},
]


def one_hot(rng, n_rows, n):
    return np.eye(n, dtype=np.float32)[rng.integers(0, n, n_rows)]


def counts(rng, n_rows, n):
    """Exclusive features of several values, mostly zero."""
    table = np.zeros((n_rows, n), np.float32)
    table[np.arange(n_rows), rng.integers(0, n, n_rows)] = rng.integers(-3, 6, n_rows)
    return table


def dense_table(rng, n_rows):
    table = np.hstack([rng.normal(size=(n_rows, 2)), one_hot(rng, n_rows, 9), counts(rng, n_rows, 5)])
    table[rng.random(n_rows) < 0.2, 1] = np.nan
    table[:, 4] = np.where(table[:, 4] > 0, rng.integers(0, 3, n_rows), np.nan)  # missing, where others are zero
    return table.astype(np.float32)


def sparse_table(rng, n_rows):
    scattered = sp.random(n_rows, 40, density=0.05, format="csr", random_state=rng, dtype=np.float32)
    scattered.data = np.round(3 * rng.normal(size=scattered.nnz)).astype(np.float32)  # explicit zeros are among them
    return sp.hstack([scattered, sp.csr_matrix(one_hot(rng, n_rows, 9)), dense_table(rng, n_rows)[:, :1]]).tocsr()


def grow(page, ctx, params, gradients, sampled):
    grower = HistogramGrower(ctx, page, params)
    grown = grower.grow(gradients, sampled, key=3)
    margin = np.zeros((page.n_rows, 1), np.float32)
    grower.add_weights(grown, margin, 0)
    return grown.tree, margin


@pytest.mark.parametrize("make_table", [dense_table, sparse_table])
@given(data=st.data())
@settings(max_examples=25)
def test_the_trees_do_not_depend_on_how_features_are_stored(data, make_table):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_rows = data.draw(st.sampled_from([4200, 7000]))
    table = make_table(rng, n_rows)
    ctx = Context(n_threads=data.draw(st.integers(1, 3)))
    params = resolve(data.draw(st.sampled_from(PARAMS))).tree
    g, h = rng.normal(size=n_rows).astype(np.float32), (rng.random(n_rows) + 0.1).astype(np.float32)
    g += table[:, [0]].toarray()[:, 0] if sp.issparse(table) else table[:, 3]
    if data.draw(st.booleans()):
        g[0] = 1e9  # a range that needs two planes
    sampled = np.flatnonzero(rng.random(n_rows) < 0.6).astype(np.int32) if data.draw(st.booleans()) else None
    gradients = quantize(ctx, g, h)
    page = xgb.DMatrix(table).binned(ctx, 256, True, True)
    assert page.bundles is not None
    assert page.n_columns < page.n_features
    plain = grow(page.unbundled(ctx), ctx, params, gradients, sampled)
    found = grow(page, ctx, params, gradients, sampled)
    assert found[0].equals(plain[0])
    np.testing.assert_array_equal(found[1], plain[1])


def test_more_sparse_features_than_spare_columns(monkeypatch):
    monkeypatch.setattr(bundled, "SPARE_COLUMNS", 2)
    rng = np.random.default_rng(5)
    table, ctx, params = sparse_table(rng, 3000), Context(n_threads=2), resolve({"max_depth": 6}).tree
    g, h = rng.normal(size=3000).astype(np.float32), np.ones(3000, np.float32)
    for f in range(8):
        g += 2 * table[:, [f]].toarray()[:, 0]
    page, gradients = xgb.DMatrix(table).binned(ctx, 256, True, True), quantize(ctx, g, h)
    assert len(page.sparse.features) > 8
    plain, found = (grow(p, ctx, params, gradients, None) for p in (page.unbundled(ctx), page))
    used = set(found[0].feature[found[0].left >= 0].tolist())
    assert len(used & set(page.sparse.features.tolist())) > 2
    assert found[0].equals(plain[0])


def test_leaf_solvers_see_the_sampled_rows_alone(monkeypatch):
    rng = np.random.default_rng(6)
    table = sparse_table(rng, 2000)
    y = table[:, [0]].toarray()[:, 0] + rng.normal(size=2000)
    params = {"objective": "reg:absoluteerror", "subsample": 0.5, "seed": 3, "max_depth": 4}
    kept = xgb.train(params, xgb.DMatrix(table, y), 5).save_raw()
    binned = xgb.DMatrix.binned
    monkeypatch.setattr(xgb.DMatrix, "binned", lambda self, ctx, n, *kind, **more: binned(self, ctx, n, False, False))
    assert xgb.train(params, xgb.DMatrix(table, y), 5).save_raw() == kept
