"""Ordered boosting (worked example 10) against loops."""

import math

import numpy as np
import pytest

import arboost as xgb
from arboost.boosters.ordered import make_support
from arboost.kernels.ops import support as ops
from arboost.matrix.statistics import permuted_rows


def make_data(n=37, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    return X, (X[:, 0] + 0.5 * rng.standard_normal(n)).astype(np.float32)


def trained(params, data, n_rounds):
    """A model that still has its training state."""
    booster = xgb.Booster(params, [data])
    for i in range(n_rounds):
        booster.update(data, i)
    return booster


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 37])
def test_model_k_learns_from_half_of_the_rows_it_speaks_of(n):
    X, y = make_data(n)
    order = np.random.default_rng(1).permutation(n).astype(np.int32)
    support = make_support(order, xgb.DMatrix(X, y).info, np.zeros((n, 1), np.float32))
    assert support.n_models == 1 + (math.ceil(math.log2(n)) if n > 1 else 0)
    for place, row in enumerate(order):
        k = int(np.searchsorted(support.ptr, support.own[row], side="right")) - 1
        learnt = support.rows[support.ptr[k] : support.ptr[k] + support.n_learn[k]]
        assert k == (0 if place == 0 else math.floor(math.log2(place)) + 1)
        assert set(learnt) == set(order[: 2 ** (k - 1)] if k else [])
        assert row not in learnt
        assert support.rows[support.own[row]] == row


def naive_support_margins(model, X, y, order, base, eta, lam):
    """Margins that each row's own support model gives it, round by round from the trees' structure."""
    n, K = len(y), 1 + max(0, len(y) - 1).bit_length()
    margins = [np.full(n, base) for _ in range(K)]
    leaves = model.predict(xgb.DMatrix(X), pred_leaf=True).astype(int).reshape(n, -1)
    for tree in range(leaves.shape[1]):
        for k in range(K):
            learnt = order[: 2 ** (k - 1)] if k else order[:0]
            g = margins[k] - y
            for leaf in set(leaves[:, tree]):
                seen = [r for r in learnt if leaves[r, tree] == leaf]
                weight = -sum(g[r] for r in seen) / (len(seen) + lam) if seen else 0.0
                margins[k][leaves[:, tree] == leaf] += eta * weight
    own = np.empty(n)
    for place, row in enumerate(order):
        own[row] = margins[0 if place == 0 else math.floor(math.log2(place)) + 1][row]
    return own


def test_support_models_and_final_leaves_as_in_the_worked_example():
    X, y = make_data()
    data = xgb.DMatrix(X, y)
    params = {"boosting_type": "ordered", "eta": 0.5, "max_depth": 2, "permutation_count": 2, "seed": 3}
    model = trained(params, data, 4)
    base = float(model._learner.base_margin()[0])
    supports = model._learner._session.trainer._supports
    assert len(supports) == 2
    for p, support in enumerate(supports):
        expected = naive_support_margins(model, X, y, permuted_rows(3, p, len(y)), base, 0.5, 1.0)
        np.testing.assert_allclose(support.margin[0][support.own], expected, rtol=1e-4, atol=1e-5)
    # the model itself: leaf values from all rows, at its own margins
    margin = np.full(len(y), base)
    leaves = model.predict(data, pred_leaf=True).astype(int)
    for tree, of_row in zip(model._learner.model.trees, leaves.T, strict=True):
        for leaf in set(of_row):
            rows = of_row == leaf
            weight = -np.sum(margin[rows] - y[rows]) / (rows.sum() + 1.0)
            np.testing.assert_allclose(tree.threshold[leaf], 0.5 * weight, rtol=1e-4, atol=1e-5)
        margin += tree.threshold[of_row]
    np.testing.assert_allclose(model.predict(data), margin, rtol=1e-5, atol=1e-5)


def test_the_first_structure_is_that_of_plain_boosting():
    """Before the first tree all models say the same."""
    X, y = make_data(200)
    data = xgb.DMatrix(X, y)
    ordered, plain = (xgb.train({"boosting_type": kind, "max_depth": 3}, data, 1) for kind in ("ordered", "plain"))
    np.testing.assert_array_equal(ordered._learner.model.trees[0].feature, plain._learner.model.trees[0].feature)
    np.testing.assert_allclose(ordered.predict(data), plain.predict(data), rtol=1e-5, atol=1e-6)


def test_a_rows_label_does_not_move_its_own_support_margin():
    """With the structure given, whatever a row's label is, the model that speaks of it says the same."""
    X, y = make_data(50)
    order = np.random.default_rng(2).permutation(50).astype(np.int32)
    leaf = (X[:, 0] > 0).astype(np.int32)
    for row in (order[0], order[1], order[7], order[49]):
        found = []
        for label in (-5.0, 5.0):
            y[row] = label
            support = make_support(order, xgb.DMatrix(X, y).info, np.zeros((50, 1), np.float32))
            g = (support.margin[0] - support.info.label).astype(np.float32)
            sums, weights = np.zeros((support.n_models, 2, 2)), np.empty((support.n_models, 2), np.float32)
            reg = np.array([1.0, 0.0, 0.0, 0.0])
            segments = (support.rows, support.ptr, support.n_learn)
            args = (leaf, g, np.ones_like(g), reg, np.float32(0.3), sums, weights, support.margin[0])
            ops.add_leaf_weights(segments, *args, 0, support.n_models)
            found.append(support.margin[0][support.own[row]])
        assert found[0] == found[1]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_same_bits_for_any_threads(objective):
    X, y = make_data(500)
    y = y if objective == "reg:squarederror" else np.digitize(y, [0.0] if "binary" in objective else [-0.5, 0.5])
    params = {"objective": objective, "boosting_type": "ordered", "subsample": 0.8, "max_depth": 3}
    params |= {"num_class": 3} if "multi" in objective else {}
    raws = [xgb.train(params | {"nthread": n}, xgb.DMatrix(X, y), 5).save_raw() for n in (1, 2, 3)]
    assert raws[0] == raws[1] == raws[2]


def test_ordered_statistics_and_ordered_boosting_share_permutations():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (400, 2)).astype(np.float32)
    y = (rng.random(400) < 0.5).astype(np.float32)
    data = xgb.DMatrix(X, y, feature_types=["c", "c"], enable_categorical=True)
    params = {"objective": "binary:logistic", "boosting_type": "ordered", "cat_strategy": "ordered_ts", "max_depth": 3}
    models = [xgb.train(params | {"nthread": n}, data, 5) for n in (1, 2)]
    assert models[0].save_raw() == models[1].save_raw()
    assert np.isfinite(models[0].predict(data)).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"objective": "reg:absoluteerror"}, "reg:absoluteerror"),
        ({"booster": "dart"}, "dart"),
        ({"num_parallel_tree": 2}, "num_parallel_tree"),
    ],
)
def test_what_it_is_not_for_is_refused_by_name(params, words):
    X, y = make_data()
    with pytest.raises(xgb.core.XGBoostError, match=words):
        xgb.train({"boosting_type": "ordered"} | params, xgb.DMatrix(X, y), 1)
    with pytest.raises(xgb.core.XGBoostError, match="not gradients"):
        xgb.train({"boosting_type": "ordered"}, xgb.DMatrix(X, y), 1, obj=lambda p, d: (p - d.get_label(), p * 0 + 1))


@pytest.mark.parametrize("objective", ["count:poisson", "reg:squarederror"])
@pytest.mark.parametrize(
    "more", [{}, {"subsample": 0.3, "sampling_method": "gradient_based"}, {"grow_policy": "lossguide"}]
)
def test_leaves_of_all_rows_keep_monotone_constraints(objective, more):
    """Splits are bounded on support models' gradients, and leaves get the weights of others."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 8, (60, 3)).astype(np.float32), rng.poisson(2, 60)
        params = {"objective": objective, "boosting_type": "ordered", "permutation_count": 2, "eta": 0.5,
                  "min_child_weight": 0.1, "monotone_constraints": "(-1,0,1)", **more}  # fmt: skip
        data = xgb.DMatrix(X, y)
        scores: dict = {}
        model = xgb.train(params, data, 5, evals=[(data, "train")], evals_result=scores, verbose_eval=False)
        grid, margins = np.arange(8), {}
        for f in (0, 2):
            table = np.repeat(X, 8, axis=0)
            table[:, f] = np.tile(grid, len(X))
            margins[f] = model.predict(xgb.DMatrix(table), output_margin=True).reshape(len(X), 8)
        assert np.diff(margins[0], axis=1).max() <= 1e-6
        assert np.diff(margins[2], axis=1).min() >= -1e-6
        (kept,) = (values[-1] for values in scores["train"].values())
        reloaded = xgb.Booster(params, model_file=model.save_raw())
        assert float(reloaded.eval(xgb.DMatrix(X, y)).rpartition(":")[2]) == pytest.approx(kept, rel=1e-12)
