"""A model in training: margins that follow the trees, rounds that fail, data that changes."""

import gc
import weakref

import numpy as np
import pytest

import arboost
import naive
import pages
from arboost.boosters import gbtree
from arboost.boosters.learner import Learner
from arboost.levels.quantize import quantize
from arboost.matrix import adapt, iterator
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


def make_data(seed=0, n_rows=300, n_features=4, missing=0.1):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (n_rows, n_features)).astype(np.float32)
    y = (x[:, 0] + np.sin(x[:, 1]) * x[:, 2] + rng.normal(size=n_rows)).astype(np.float32)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


def trained(params, data, n_rounds=4):
    learner = Learner(params)
    for _ in range(n_rounds):
        learner.update(data)
    return learner


def same_trees(a, b):
    return len(a.model.trees) == len(b.model.trees) and all(
        s.equals(t) for s, t in zip(a.model.trees, b.model.trees, strict=True)
    )


def test_rounds_of_squared_error_against_the_naive_trainer():
    """Gradients are margin - label in float32; every tree and every margin agrees to the bit."""
    x, y = make_data()
    params = {"max_depth": 4, "eta": 0.25, "base_score": 1.5, "min_child_weight": 2}
    data = DMatrix(x, y)
    learner = trained(params, data)
    bins, n_bins, cuts = naive.bin_matrix(x)
    margin = np.full(len(y), 1.5, np.float32)
    for tree in learner.model.trees:
        gradients = quantize(Context(), margin - y, np.ones_like(y))
        p = pages.naive_params(pages.tree_params(**{k: v for k, v in params.items() if k != "base_score"}), gradients)
        nodes = naive.grow(bins, *pages.unpack(gradients), n_bins, p)
        values = [
            naive.leaf_value(node, p) if node.is_leaf else cuts[node.split.feature][node.split.bin] for node in nodes
        ]
        np.testing.assert_array_equal(tree.threshold, np.array(values, np.float32))
        assert tree.feature.tolist() == [0 if node.is_leaf else node.split.feature for node in nodes]
        for r, row in enumerate(bins):
            margin[r] += tree.threshold[naive.leaf_of_bins(nodes, row)]
    np.testing.assert_array_equal(learner.margins(data)[:, 0], margin)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"objective": "binary:logistic"},
        {"objective": "multi:softprob", "num_class": 3},
        {"objective": "reg:absoluteerror"},
        {"subsample": 0.5, "colsample_bytree": 0.5},
        {"num_parallel_tree": 3, "subsample": 0.7},
        {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 20},
        {"max_bin": 300, "max_depth": 12, "min_child_weight": 0},
        {"max_bin": 4},
    ],
    ids=str,
)
def test_training_margins_are_predictions_from_raw_values(params):
    x, y = make_data(1, 700)
    x[:, 3] = np.random.default_rng(3).normal(size=700)  # more distinct values than bins
    if "objective" in params and "error" not in params["objective"]:
        y = (y > np.median(y)) + (y > np.quantile(y, 0.8)) * (params.get("num_class", 0) > 2)
    data = DMatrix(x, y.astype(np.float32))
    learner = trained(params, data)
    model = learner.model
    start = learner.start_margin(len(y), None)
    margins = learner.margins(data)
    np.testing.assert_array_equal(margins, learner.predict_margins(DMatrix(x), slice(None)))
    np.testing.assert_array_equal(margins, naive.predict(model.trees, model.tree_info, x, start))


def test_margins_are_kept_and_brought_up_to_date():
    x, y = make_data()
    train, watch = DMatrix(x, y), DMatrix(x[:50])
    learner = trained({"max_depth": 3}, train, 2)
    first = learner.margins(watch)
    for _ in range(3):
        learner.update(train)
    assert learner.margins(watch) is first
    np.testing.assert_array_equal(first, learner.predict_margins(DMatrix(x[:50]), slice(None)))


def test_a_new_base_margin_is_noticed():
    x, y = make_data()
    data = DMatrix(x, y)
    learner = trained({}, data, 2)
    plain = learner.margins(data).copy()
    data.set_base_margin(np.full(len(y), 10, np.float32))
    shifted = learner.margins(data)
    np.testing.assert_allclose(shifted - plain, 10 - learner.base_margin()[0], rtol=1e-5)
    learner.update(data)
    np.testing.assert_array_equal(learner.margins(data), learner.predict_margins(data, slice(None)))


def test_a_base_margin_of_the_wrong_size():
    _x, _y = make_data()
    with pytest.raises(XGBoostError, match="base_margin has"):
        Learner().start_margin(10, np.zeros(11, np.float32))


def test_a_failed_round_leaves_the_model_whole(monkeypatch):
    """Interrupted after the first of three trees were added to the margins: the round is as if never begun."""
    x, y = make_data()
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}
    labels = (y > np.median(y)).astype(np.float32) + (y > np.quantile(y, 0.8))
    data = DMatrix(x, labels)
    learner = trained(params, data, 2)
    calls = []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return quantize(*args)

    monkeypatch.setattr(gbtree, "quantize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.update(data)
    assert len(calls) == 2
    assert learner.model.n_rounds == 2
    assert len(learner.model.trees) == 6
    monkeypatch.undo()
    learner.update(data)
    assert same_trees(learner, trained(params, data, 3))


def test_training_continues_on_other_data():
    x, y = make_data()
    one, other = DMatrix(x[:200], y[:200]), DMatrix(x[100:], y[100:])
    learner = trained({"max_depth": 3}, one, 2)
    learner.update(other)
    learner.update(one)
    assert learner.model.n_rounds == 4
    for data in (one, other):
        np.testing.assert_array_equal(learner.margins(data), learner.predict_margins(data, slice(None)))


def test_going_on_equals_going_through():
    """Also with sampling: draws depend on the number of rounds the model has."""
    x, y = make_data()
    params = {"subsample": 0.5, "colsample_bynode": 0.5, "seed": 3}
    data = DMatrix(x, y)
    whole = trained(params, data, 6)
    half = trained(params, data, 3).copy()
    for _ in range(3):
        half.update(DMatrix(x, y))
    assert same_trees(half, whole)


def test_parameters_may_change_between_rounds():
    x, y = make_data()
    data = DMatrix(x, y)
    learner = trained({"max_depth": 2, "nthread": 1}, data, 1)
    learner.set_params({"max_depth": 4, "eta": 1.0})
    learner.update(data)
    learner.set_params({"max_bin": 3})
    learner.update(data)
    learner.set_params({"nthread": 2})
    learner.update(data)
    depths = [tree.depth() for tree in learner.model.trees]
    assert depths[0] == 2
    assert max(depths[1:]) == 4
    x_values = {float(v) for f in range(4) for v in learner.model.trees[2].threshold[learner.model.trees[2].left >= 0]}
    assert len(x_values) <= 8  # three bins a feature
    np.testing.assert_array_equal(learner.margins(data), learner.predict_margins(data, slice(None)))


def test_new_labels_are_used_and_checked():
    x, y = make_data()
    data = DMatrix(x, y)
    learner = trained({"max_depth": 2}, data, 1)
    data.set_label(y + 100)
    learner.update(data)
    assert learner.margins(data).mean() > y.mean() + 20
    bad = y.copy()
    bad[3] = np.nan
    with pytest.raises((XGBoostError, ValueError)):
        data.set_label(bad)
        learner.update(data)
    assert learner.model.n_rounds == 2


def test_features_and_labels_are_needed():
    x, y = make_data()
    learner = trained({}, DMatrix(x, y), 1)
    with pytest.raises(XGBoostError, match=r"expected: 4, got 3"):
        learner.update(DMatrix(x[:, :3], y))
    with pytest.raises(XGBoostError, match="labels"):
        learner.update(DMatrix(x))
    with pytest.raises(XGBoostError, match="labels"):
        learner.evaluate(DMatrix(x))


def test_own_gradients():
    x, y = make_data()
    learner = Learner({"base_score": 0.0})
    data = DMatrix(x, y)
    twin = trained({"base_score": 0.0}, data, 2)
    for _ in range(2):
        margin = learner.margins(data) if learner.model.trees else np.zeros((len(y), 1), np.float32)
        learner.boost(data, margin - y[:, None], np.ones((len(y), 1), np.float32))
    assert same_trees(learner, twin)
    with pytest.raises(XGBoostError, match="NaN or infinite"):
        learner.boost(data, np.full((len(y), 1), np.nan, np.float32), np.ones((len(y), 1), np.float32))
    assert learner.model.n_rounds == 2


def test_a_copy_goes_its_own_way():
    x, y = make_data()
    data = DMatrix(x, y)
    learner = trained({}, data, 2)
    twin = learner.copy()
    twin.update(data)
    assert (learner.model.n_rounds, twin.model.n_rounds) == (2, 3)
    learner.update(data)
    assert same_trees(learner, twin)


def test_data_is_not_kept_alive():
    x, y = make_data()
    data = DMatrix(x, y)
    booster = arboost.train({}, data, 2)
    known = weakref.ref(data)
    del data
    gc.collect()
    assert known() is None
    assert booster.num_boosted_rounds() == 2


def test_forgetting_the_data_keeps_the_model():
    x, y = make_data()
    data = DMatrix(x, y)
    learner = trained({}, data, 2)
    before = learner.margins(data).copy()
    learner.forget_data()
    np.testing.assert_array_equal(learner.margins(data), before)


@pytest.mark.parametrize("n_rows, n_features", [(1, 1), (1, 3), (2, 1), (65, 1)])
def test_tiny_data(n_rows, n_features):
    x, y = make_data(0, n_rows, max(3, n_features))
    x = x[:, :n_features]
    for params in ({}, {"max_depth": 0, "min_child_weight": 0, "lambda": 0}, {"subsample": 0.5}):
        data = DMatrix(x, y)
        learner = trained(params, data, 3)
        np.testing.assert_array_equal(learner.margins(data), learner.predict_margins(data, slice(None)))
        if n_rows == 1:
            assert all(tree.n_nodes == 1 for tree in learner.model.trees)


def test_constant_and_missing_features():
    x, y = make_data()
    useless = np.column_stack([np.full(len(y), 7.0), np.full(len(y), np.nan)]).astype(np.float32)
    learner = trained({}, DMatrix(useless, y), 2)
    assert all(tree.n_nodes == 1 for tree in learner.model.trees)
    alone = trained({}, DMatrix(x, y), 3)
    both = trained({}, DMatrix(np.hstack([x, useless]), y), 3)
    for a, b in zip(alone.model.trees, both.model.trees):
        np.testing.assert_array_equal(a.threshold, b.threshold)


def test_a_constant_label_needs_no_tree():
    x, _ = make_data()
    learner = trained({}, DMatrix(x, np.full(len(x), 3.25, np.float32)), 2)
    assert all(tree.n_nodes == 1 for tree in learner.model.trees)
    assert (learner.margins(DMatrix(x)) == 3.25).all()


def test_rows_of_weight_zero_teach_nothing():
    x, y = make_data()
    weight = np.ones(len(y), np.float32)
    weight[200:] = 0
    with_all = trained({"max_depth": 3, "base_score": 0.0}, DMatrix(x, y, weight=weight), 3)
    without = trained({"max_depth": 3, "base_score": 0.0}, DMatrix(x[:200], y[:200], weight=weight[:200]), 3)
    for a, b in zip(with_all.model.trees, without.model.trees):
        assert a.feature.tolist() == b.feature.tolist()
        np.testing.assert_allclose(a.threshold, b.threshold, rtol=1e-5)


class Counted(arboost.DataIter):
    """Batches, and how often they were asked for."""

    def __init__(self, x, y, **options):
        self.x, self.y, self.at, self.n_passes = x, y, 0, 0
        super().__init__(**options)

    def reset(self):
        self.at, self.n_passes = 0, self.n_passes + 1

    def next(self, input_data):
        if self.at == len(self.x):
            return False
        part = slice(self.at, self.at + 100)
        self.at += 100
        input_data(data=self.x[part], label=self.y[part])
        return True


@pytest.mark.parametrize(
    "params, n_passes",
    [
        ({}, 1),
        ({"objective": "reg:absoluteerror", "subsample": 0.5, "num_parallel_tree": 2}, 1),
        ({"max_bin": 300, "grow_policy": "lossguide"}, 1),
        ({"booster": "dart", "rate_drop": 0.4}, 6),
        ({"tree_method": "approx"}, 6),
    ],
)
@pytest.mark.parametrize("is_continued", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
def test_evaluation_data_is_read_from_its_source_once(params, n_passes, is_continued, on_disk, monkeypatch, tmp_path):
    """Trees split at the cuts of the training data: bins by these say where a row goes, also beyond its values."""
    for module in (adapt, iterator):
        monkeypatch.setattr(module, "CHUNK_VALUES", 500)
    x, y = make_data()
    other_x, other_y = make_data(seed=1, n_rows=500, missing=0.3)
    other_x *= np.float32(1.3)
    other_x -= 2
    given = {"max_depth": 4, "seed": 1} | params
    first = arboost.train({"max_depth": 3, "max_bin": 4}, DMatrix(x, y), 2) if is_continued else None
    found = []
    source = Counted(other_x, other_y, cache_prefix=str(tmp_path) if on_disk else None)
    watched = DMatrix(source)
    before = source.n_passes
    for data in (DMatrix(other_x, other_y), watched):
        history = {}
        options = {"evals": [(data, "other")], "evals_result": history, "verbose_eval": False, "xgb_model": first}
        model = arboost.train(given, DMatrix(x, y), 6, **options)
        found.append((bytes(model.save_raw()), history))
    assert found[0] == found[1]
    assert source.n_passes - before == n_passes + (is_continued and n_passes == 1)
