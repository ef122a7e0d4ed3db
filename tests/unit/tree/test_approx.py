"""Both kinds of proposals against trees grown row by row, to the last bit; and what users see of them."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import arboost
import naive
import naive_approx
import pages
from arboost.levels import local_proposals
from arboost.matrix.adapt import adapt
from arboost.matrix.sorted import make_sorted
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.tree.approx import ApproxGrower, count_bins
from arboost.tree.growers import local_grower
from arboost.tree.model import NO_PARENT

KINDS = ("global", "local")


def make_features(rng, n, missing=0.2):
    """Continuous, rounded, skewed, few-valued and constant columns; a share of the values is missing."""
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = np.exp(2 * X[:, 2])
    X[:, 3] = rng.integers(0, 3, n)
    X[:, 4] = 7.5
    X[:, 5] = np.where(rng.random(n) < 0.8, 0.0, X[:, 5])
    X[rng.random(X.shape) < missing * (np.arange(6) % 2)] = np.nan
    return X.astype(np.float32)


def make_grower(kind, X, params, n_threads=1):
    ctx, raw = Context(n_threads=n_threads), adapt(X, None)
    columns = make_sorted(ctx, raw)
    return ApproxGrower(ctx, columns, None, params) if kind == "global" else local_grower(ctx, columns, raw, params)


def grow(kind, X, gradients, params, n_threads=1, sampled=None):
    """(grown tree, margins that start at 0 after it, its grower)."""
    grower = make_grower(kind, X, params, n_threads)
    grower.set_params(params)
    grown = grower.grow(gradients, sampled, 0)
    margin = np.zeros((len(X), 2), np.float32)
    grower.add_weights(grown, margin, 1)
    assert not margin[:, 0].any()
    return grown, margin[:, 1], grower


def check_against_naive(kind, X, gradients, params, sampled=None):
    g, h = pages.unpack(gradients)
    p = pages.naive_params(params, gradients)
    twin = naive_approx.grow_global if kind == "global" else naive_approx.grow_local
    nodes, thresholds = twin(X, g, h, count_bins(params), p, sampled)
    grown, margin, _ = grow(kind, X, gradients, params, sampled=sampled)
    tree, splits = grown.tree, [None if node.is_leaf else node.split for node in nodes]
    assert tree.left.tolist() == [node.left for node in nodes]
    assert tree.right.tolist() == [node.right for node in nodes]
    assert tree.parent.tolist() == [NO_PARENT, *(node.parent for node in nodes[1:])]
    assert tree.feature.tolist() == [s.feature if s else 0 for s in splits]
    assert tree.default_left.tolist() == [int(s.default_left) if s else 0 for s in splits]
    values = [naive.leaf_value(node, p) if t is None else t for t, node in zip(thresholds, nodes, strict=True)]
    np.testing.assert_array_equal(tree.threshold, np.array(values, np.float32))
    np.testing.assert_array_equal(tree.gain, np.array([s.gain if s else 0 for s in splits], np.float32))
    np.testing.assert_array_equal(tree.cover, np.array([float(n.h) * p.h_unit for n in nodes], np.float32))
    leaves = [naive.leaf_of_values(tree, x) for x in X]
    np.testing.assert_array_equal(margin, tree.threshold[leaves])
    return nodes


GROWTH = {
    "depthwise": {"max_depth": 4},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "lossguide": {"max_depth": 0, "max_leaves": 9, "grow_policy": "lossguide"},
    "few leaves": {"max_leaves": 5},
    "one split": {"max_depth": 1},
    "no split": {"gamma": 1e9},
    "everything": {"alpha": 0.5, "max_delta_step": 0.3, "gamma": 0.2, "min_child_weight": 3, "lambda": 0.1, "eta": 1},
}


@pytest.mark.parametrize("hessians", pages.KINDS)
@pytest.mark.parametrize("growth", GROWTH, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_same_tree_as_the_naive_one(kind, growth, hessians):
    rng = np.random.default_rng(len(growth) + 7 * len(hessians))
    X = make_features(rng, 250)
    gradients, _, _ = pages.quantized(rng, 250, hessians)
    params = pages.tree_params(tree_method="approx", sketch_eps=0.11, **GROWTH[growth])
    nodes = check_against_naive(kind, X, gradients, params)
    if hessians != "wide" and growth != "no split":
        assert len(nodes) > 1


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_small_matrix(kind, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = data.draw(st.integers(1, 120))
    X = make_features(rng, n, data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    gradients, _, _ = pages.quantized(rng, n, data.draw(st.sampled_from(pages.KINDS)))
    candidates = data.draw(st.sampled_from([{"max_bin": 2}, {"max_bin": 3}, {"sketch_eps": 0.04}, {"max_bin": 256}]))
    params = pages.tree_params(
        **candidates,
        max_depth=data.draw(st.sampled_from([0, 1, 3])),
        max_leaves=data.draw(st.sampled_from([0, 4])),
        grow_policy=data.draw(st.sampled_from(["depthwise", "lossguide"])),
        min_child_weight=data.draw(st.sampled_from([0, 1])),
    )
    sampled = None
    if data.draw(st.booleans()):
        sampled = np.flatnonzero(rng.random(n) < 0.6).astype(np.int32)
    check_against_naive(kind, X, gradients, params, sampled)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_matter(kind, sampled, monkeypatch):
    monkeypatch.setattr(local_proposals, "SHARED_ENTRIES", 0)
    rng = np.random.default_rng(5)
    n = 20_000  # runs of more than one entry a block
    X = make_features(rng, n)
    gradients, _, _ = pages.quantized(rng, n, "packed")
    rows = np.flatnonzero(rng.random(n) < 0.5).astype(np.int32) if sampled else None
    params = pages.tree_params(sketch_eps=0.02, max_depth=7)
    expected, expected_margin, _ = grow(kind, X, gradients, params, 1, rows)
    assert expected.tree.n_leaves > 50
    for n_threads in pages.THREADS:
        with pages.cut_anywhere(n_threads):
            grown, margin, grower = grow(kind, X, gradients, params, n_threads, rows)
        assert grown.tree.equals(expected.tree)
        np.testing.assert_array_equal(margin, expected_margin)
        found, leaf_ptr = grower.leaf_rows(grower.grow(gradients, rows, 0, partition_all=True))
        assert sorted(found.tolist()) == (list(range(n)) if rows is None else rows.tolist())
        assert leaf_ptr[-1] == len(found)


@pytest.mark.parametrize("kind", KINDS)
def test_long_runs_have_the_same_proposals(kind):
    """More rows than blocks of a run, and sums of weights that need all 64 bits."""
    rng = np.random.default_rng(6)
    n = 150_000
    X = rng.normal(size=(n, 2)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 2)
    g, h = pages.make_gradients(rng, n, "wide")
    gradients = pages.quantize.quantize(Context(), g, h)
    check_against_naive(kind, X, gradients, pages.tree_params(sketch_eps=0.05, max_depth=2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_grower_serves_many_trees(kind):
    rng = np.random.default_rng(3)
    X = make_features(rng, 900)
    grower = make_grower(kind, X, pages.tree_params(sketch_eps=0.05), 2)
    sampled = np.flatnonzero(rng.random(900) < 0.5).astype(np.int32)
    for depth, rows in [(8, None), (2, sampled), (0, sampled), (3, None), (1, None)]:
        params = pages.tree_params(max_depth=depth, sketch_eps=0.05)
        gradients, _, _ = pages.quantized(rng, 900, "packed")
        grower.set_params(params)
        expected, _, _ = grow(kind, X, gradients, params, sampled=rows)
        assert grower.grow(gradients, rows, 0).tree.equals(expected.tree)


def test_equal_weights_are_not_proposed_from_twice(monkeypatch):
    rng = np.random.default_rng(4)
    X = make_features(rng, 400)
    grower = make_grower("global", X, pages.tree_params(max_bin=20))
    calls = []
    propose = grower._proposed.propose
    monkeypatch.setattr(grower._proposed, "propose", lambda weights: calls.append(1) or propose(weights))
    for _ in range(3):
        g = rng.normal(size=400).astype(np.float32)
        grower.grow(pages.quantize.quantize(Context(), g, np.ones(400, np.float32)), None, 0)
    assert len(calls) == 1
    grower.grow(pages.quantized(rng, 400, "packed")[0], None, 0)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("given", "n_bins"),
    [
        ({"sketch_eps": 0.03}, 34),  # 33 candidates
        ({"sketch_eps": 0.01}, 100),
        ({"sketch_eps": 0.1}, 10),
        ({"sketch_eps": 0.9}, 2),
        ({"sketch_eps": 1e-7}, 65535),
        ({"max_bin": 77}, 77),
        ({}, 256),
        ({"sketch_eps": 0.5, "max_bin": 77}, 2),
    ],
)
def test_number_of_bins(given, n_bins):
    assert count_bins(pages.tree_params(**given)) == n_bins


# ---- through the front door ----

PARAMS = {"tree_method": "approx", "objective": "binary:logistic", "max_depth": 4, "eta": 0.5}


def make_data(n=1500, seed=0, **fields):
    rng = np.random.default_rng(seed)
    X = make_features(rng, n)
    score = np.nan_to_num(X[:, 0]) + X[:, 2] / 10 + rng.normal(size=n)
    return arboost.DMatrix(X, (score > 0.5).astype(np.float32), **fields)


@pytest.mark.parametrize("proposal", KINDS)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subsample": 0.6, "colsample_bytree": 0.7, "colsample_bynode": 0.7},
        {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
        {"monotone_constraints": (1, 0, 1, 0, 0, -1)},
        {"interaction_constraints": [[0, 1], [2, 3, 5]]},
        {"objective": "reg:absoluteerror"},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"booster": "dart", "rate_drop": 0.3},
    ],
    ids=lambda more: "-".join(more) or "plain",
)
def test_any_number_of_threads_gives_the_same_model(proposal, more, monkeypatch):
    monkeypatch.setattr(local_proposals, "SHARED_ENTRIES", 0)
    params = PARAMS | {"sketch_proposal": proposal, "sketch_eps": 0.07} | more
    data = make_data()
    models = {bytes(arboost.train(params | {"nthread": n}, data, 4).save_raw()) for n in pages.THREADS}
    assert len(models) == 1


@pytest.mark.parametrize("proposal", KINDS)
def test_monotone_constraints_hold(proposal):
    data = make_data(3000)
    params = PARAMS | {"sketch_proposal": proposal, "monotone_constraints": (1, 0, -1, 0, 0, 0), "sketch_eps": 0.05}
    booster = arboost.train(params, data, 10)
    grid = np.tile(np.zeros(6, np.float32), (50, 1))
    for f, sign in ((0, 1), (2, -1)):
        moved = grid.copy()
        moved[:, f] = np.linspace(-3, 8, 50)
        assert (sign * np.diff(booster.inplace_predict(moved)) >= 0).all()


@pytest.mark.parametrize("proposal", KINDS)
def test_interaction_constraints_hold(proposal):
    params = PARAMS | {"sketch_proposal": proposal, "interaction_constraints": [[0, 1], [2, 3, 5]]}
    booster = arboost.train(params, make_data(), 5)
    frame = booster.trees_to_dataframe()
    by_id = frame.set_index("ID")
    for _, node in frame[frame.Feature != "Leaf"].iterrows():
        for child in (node.Yes, node.No):
            feature = by_id.Feature[child]
            group = {"f0": 0, "f1": 0, "f2": 1, "f3": 1, "f5": 1}
            assert feature == "Leaf" or group.get(feature) == group.get(node.Feature)


def test_one_level_of_local_and_global_trees_is_the_same():
    """At the root both propose from the same rows."""
    data = make_data()
    models = [
        arboost.train(PARAMS | {"sketch_proposal": kind, "max_depth": 1, "subsample": 0.8}, data, 5).get_dump()
        for kind in KINDS
    ]
    assert models[0] == models[1]


def test_categories_with_global_proposals():
    """Categorical bins are codes whatever is proposed: with all values as candidates the model is that of `hist`."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 9, 800), rng.integers(0, 30, 800)]).astype(np.float32)
    y = (np.isin(X[:, 0], [1, 5, 6]) + X[:, 1] / 30 + rng.normal(size=800) / 4).astype(np.float32)
    data = arboost.DMatrix(X, y, feature_types=["c", "q"], enable_categorical=True)
    dumps = [arboost.train({"tree_method": m, "max_depth": 3}, data, 4).get_dump() for m in ("approx", "hist")]
    assert dumps[0] == dumps[1]
    many = {"sketch_eps": 0.2, "tree_method": "approx"}
    assert arboost.train(many, data, 3).get_dump() != dumps[0]


def test_categories_with_local_proposals_are_refused():
    data = arboost.DMatrix(np.zeros((9, 1)), np.arange(9), feature_types=["c"], enable_categorical=True)
    with pytest.raises(XGBoostError, match="doesn't support categorical features"):
        arboost.train({"tree_method": "approx", "sketch_proposal": "local"}, data, 1)


@pytest.mark.parametrize("eps", [0, 1, -0.5, 2, "nan"])
def test_eps_out_of_range(eps):
    with pytest.raises(XGBoostError, match="sketch_eps"):
        arboost.train({"tree_method": "approx", "sketch_eps": eps}, make_data(50), 1)


def test_other_bad_input():
    with pytest.raises(XGBoostError, match="sketch_proposal"):
        arboost.train({"tree_method": "approx", "sketch_proposal": "regional"}, make_data(50), 1)
    binned = arboost.QuantileDMatrix(np.zeros((9, 1)), np.arange(9))
    with pytest.raises(XGBoostError, match="Only the `hist` tree method can use the `QuantileDMatrix`"):
        arboost.train({"tree_method": "approx"}, binned, 1)


@pytest.mark.parametrize("proposal", KINDS)
def test_empty_columns_and_few_rows(proposal):
    params = {"tree_method": "approx", "sketch_proposal": proposal, "min_child_weight": 0}
    X = np.full((4, 3), np.nan, np.float32)
    X[:, 1] = [1, 2, 3, 4]
    booster = arboost.train(params, arboost.DMatrix(X, [0, 0, 1, 1]), 2)
    assert set(booster.get_score()) == {"f1"}
    one = arboost.train(params, arboost.DMatrix(X[:1], [3.0]), 2)
    assert one.predict(arboost.DMatrix(X)).tolist() == [3.0] * 4
    nothing = arboost.train(params, arboost.DMatrix(X[:, ::2], [0, 0, 1, 1]), 2)
    assert len(set(nothing.predict(arboost.DMatrix(X[:, ::2])).tolist())) == 1


@pytest.mark.parametrize("proposal", KINDS)
def test_continued_training_and_other_parameters_make_a_new_grower(proposal):
    data = make_data()
    params = PARAMS | {"sketch_proposal": proposal, "sketch_eps": 0.1}
    whole = arboost.train(params, data, 4)
    half = arboost.train(params, data, 2)
    assert arboost.train(params, data, 2, xgb_model=half).get_dump() == whole.get_dump()
    booster = arboost.Booster(params)
    booster.update(data, 0)
    booster.set_param({"sketch_eps": 0.5})
    booster.update(data, 1)
    coarse = arboost.train(params | {"sketch_eps": 0.5}, data, 1, xgb_model=arboost.train(params, data, 1))
    assert booster.get_dump() == coarse.get_dump()


@pytest.mark.parametrize("proposal", KINDS)
def test_absent_entries_are_missing_and_stored_zeros_are_values(proposal):
    X = make_features(np.random.default_rng(8), 700)
    y = np.nan_to_num(X).sum(axis=1)
    is_absent = np.isnan(X) | (np.arange(700) % 3 == 0)[:, None]
    rows, columns = np.nonzero(~is_absent)
    stored = scipy.sparse.csr_matrix((X[rows, columns], (rows, columns)), shape=X.shape)
    assert (stored.data == 0).any()
    params = {"tree_method": "approx", "sketch_proposal": proposal, "sketch_eps": 0.1, "subsample": 0.7}
    dense = arboost.train(params, arboost.DMatrix(np.where(is_absent, np.nan, X), y), 3)
    assert arboost.train(params, arboost.DMatrix(stored, y), 3).get_dump() == dense.get_dump()


def test_estimators_and_updaters_know_it():
    data = make_data()
    plain = arboost.train({"tree_method": "approx", "max_depth": 3, "max_bin": 16}, data, 2)
    named = arboost.train({"updater": "grow_histmaker", "max_depth": 3, "max_bin": 16}, data, 2)
    assert named.get_dump() == plain.get_dump()
    pytest.importorskip("sklearn")
    model = arboost.XGBRegressor(tree_method="approx", n_estimators=2, max_depth=3, max_bin=16, sketch_proposal="local")
    X = data.get_data().toarray()
    model.fit(X, data.get_label())
    assert model.get_booster().get_dump() != plain.get_dump()


@pytest.mark.parametrize("subsample", [1.0, 0.6])
def test_sparse_data_is_binned_by_its_entries_and_gives_the_same_model(subsample):
    rng = np.random.default_rng(4)
    table = np.where(rng.random((3000, 30)) < 0.05, rng.normal(size=(3000, 30)), np.nan).astype(np.float32)
    table[:, 0] = rng.normal(size=3000)
    y = np.nan_to_num(table).sum(axis=1) + rng.normal(size=3000) > 0
    rows, columns = np.nonzero(~np.isnan(table))
    sparse = scipy.sparse.csr_matrix((table[rows, columns], (rows, columns)), table.shape)
    params = {"tree_method": "approx", "max_bin": 16, "objective": "binary:logistic", "subsample": subsample, "seed": 2}
    dense_model, sparse_model = (
        arboost.train(params, arboost.DMatrix(data, y), 4).save_raw() for data in (table, sparse)
    )
    assert sparse_model == dense_model
