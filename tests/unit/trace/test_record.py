"""What a trace records is what the engine did: the same model, the same sums, the same reasons."""

from dataclasses import replace

import numpy as np
import pytest

import arboost
from arboost.levels.quantize import quantize
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.trace import Trace
from arboost.trace.parts import REASONS, VERDICTS
from arboost.trace.record import TraceMismatch, _NodeReader
from arboost.trace.search import Columns, Sums

OBJECTIVES = ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:absoluteerror", "count:poisson"]


def make_case(seed, method):
    """Random small data with missing values, ties and all kinds of regularisation."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 50)), int(rng.integers(1, 5))
    X = np.round(rng.normal(size=(n, d)), int(rng.integers(0, 3))).astype(np.float32)
    X[rng.random(X.shape) < rng.choice([0, 0.2, 0.5])] = np.nan
    if seed % 4 == 0:
        X[:, 0] = np.where(rng.random(n) < 0.5, np.nan, 1)  # all present values equal
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    y = rng.normal(size=n) if objective == "reg:squarederror" else rng.integers(0, 3 if "multi" in objective else 2, n)
    params = {
        "objective": objective, "tree_method": method, "max_depth": int(rng.integers(1, 5)),
        "gamma": float(rng.choice([0, 0.1, 1])), "lambda": float(rng.choice([0, 1, 3])),
        "alpha": float(rng.choice([0, 0, 0.5])), "max_delta_step": float(rng.choice([0, 0, 0.7])),
        "min_child_weight": float(rng.choice([0, 1, 2])),
    }  # fmt: skip
    if "multi" in objective:
        params["num_class"] = 3
    return X, y, params


@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("seed", range(10))
def test_the_model_is_the_one_that_train_gives(seed, method):
    X, y, params = make_case(seed, method)
    trace = arboost.trace(X, y, params, 2)
    model = arboost.train(params, arboost.DMatrix(X, y), 2)
    assert trace.booster.save_raw() == model.save_raw()
    after = np.array(trace.rounds[-1].margin)
    assert (after == model.predict(arboost.DMatrix(X), output_margin=True).reshape(after.shape)).all()


def sides(X, rows, c):
    x = X[rows, c.feature]
    left = np.where(np.isnan(x), c.default_left, x < c.threshold)
    return rows[left], rows[~left]


@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("seed", [0, 1, 5, 10, 11])
def test_every_candidate_is_what_its_rows_say(seed, method):
    """Rows, sums, similarities and gains against plain sums over the rows that a threshold sends left and right."""
    X, y, params = make_case(seed, method)
    params |= {"alpha": 0, "max_delta_step": 0}
    trace = arboost.trace(X, y, params, 2)
    n_candidates = 0
    for tree in (tree for r in trace.rounds for tree in r.trees):
        g, h = np.array(tree.g), np.array(tree.h)
        for node in tree.nodes:
            rows = np.array(node.rows, int)
            assert node.g == pytest.approx(g[rows].sum(), abs=1e-4)

            def score(chosen, g=g, h=h):
                total = h[chosen].sum()
                return g[chosen].sum() ** 2 / (total + params["lambda"]) if total > 0 else 0.0

            for c in node.candidates:
                left, right = sides(X, rows, c)
                assert (len(left), len(right)) == (c.n_left, c.n_right)
                assert len(left) and len(right)
                assert c.g_left == pytest.approx(g[left].sum(), abs=1e-4)
                assert c.h_right == pytest.approx(h[right].sum(), abs=1e-4)
                assert c.score_left == pytest.approx(score(left), rel=1e-3, abs=1e-4)
                assert c.gain == pytest.approx(score(left) + score(right) - score(rows), rel=1e-3, abs=1e-3)
                assert c.verdict in VERDICTS
                n_candidates += 1
    assert n_candidates > 10


def test_exact_looks_between_all_neighbouring_values():
    trace = arboost.trace([[1], [2], [2], [4], [8]], [1, 2, 3, 4, 9], {"max_depth": 1}, 1)
    assert [c.threshold for c in trace.rounds[0].trees[0].nodes[0].candidates] == [1.5, 3, 6]


def test_missing_values_are_tried_on_both_sides():
    trace = arboost.trace([[1], [2], [np.nan]], [1, 2, 9], {"max_depth": 1, "min_child_weight": 0}, 1)
    tried = [(c.n_left, c.n_right, c.default_left) for c in trace.rounds[0].trees[0].nodes[0].candidates]
    assert sorted(tried) == [(1, 2, False), (1, 2, True), (2, 1, False), (2, 1, True)]


def reasons_of(X, y, params):
    trace = arboost.trace(X, y, {"min_child_weight": 0, **params}, 1)
    return {node.id: node.reason for node in trace.rounds[0].trees[0].nodes}


def test_why_a_node_is_a_leaf():
    X, y = [[1], [2], [3], [4]], [0, 0, 10, 10]
    assert reasons_of(X, y, {"max_depth": 1}) == {0: "split", 1: "max_depth", 2: "max_depth"}
    assert reasons_of(X, y, {}) == {0: "split", 1: "no gain", 2: "no gain"}
    assert reasons_of([[1], [1]], [0, 1], {}) == {0: "alone"}
    assert reasons_of(X, y, {"min_child_weight": 3}) == {0: "light"}
    assert reasons_of(X, y, {"gamma": 1000}) == {0: "pruned", 1: "gone", 2: "gone"}
    assert reasons_of(X, y, {"gamma": 1000, "tree_method": "hist"}) == {0: "gamma"}
    budget = {"tree_method": "hist", "grow_policy": "lossguide", "max_leaves": 2, "lambda": 0}
    assert "max_leaves" in reasons_of(X, [0, 1, 10, 12], budget).values()


def test_a_weak_split_above_a_strong_one_stays():
    """Exclusive or: the first split gains nothing by itself, gamma spares it for those below."""
    X = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]]
    trace = arboost.trace(X, [0, 10, 10, 0, 0], {"gamma": 20, "max_depth": 2, "min_child_weight": 0}, 1)
    root = trace.rounds[0].trees[0].nodes[0]
    assert root.protected
    assert root.reason == "split"
    assert root.candidates[root.split].gain < 20


def test_what_the_engine_did_not_do_is_not_shown():
    """A tree with another threshold, gain or weight than the engine's sums give is refused."""
    X = np.array([[1], [2], [3], [4]], np.float32)
    data = arboost.DMatrix(X, [0, 0, 10, 10])
    params = {"tree_method": "exact", "max_depth": 1, "verbosity": 0}
    booster = arboost.Booster(params, [data])
    booster.update(data, 0)
    learner = booster._learner
    tree, leaves = learner.model.trees[0], booster.predict(data, pred_leaf=True).astype(int)
    g, h = learner.last_gradients()
    sums = Sums.of(quantize(Context(), g[0], h[0]), learner.tree_params)

    def read(tree):
        return _NodeReader(tree, tree, leaves, sums, Columns(X, None), learner.tree_params, True).read()

    assert [node.reason for node in read(tree)] == ["split", "max_depth", "max_depth"]
    for name, what in (("threshold", "split|leaf"), ("gain", "gain"), ("cover", "hessian")):
        with pytest.raises(TraceMismatch, match=what):
            read(replace(tree, **{name: getattr(tree, name) + np.float32(0.25)}))


def test_gradients_need_a_round():
    with pytest.raises(XGBoostError, match="No round"):
        arboost.Booster({})._learner.last_gradients()


# ---- what is refused ----

SMALL = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"subsample": 0.5}, "subsample"),
        ({"colsample_bynode": 0.5}, "colsample_bynode"),
        ({"booster": "gblinear"}, "booster"),
        ({"booster": "dart"}, "booster"),
        ({"tree_method": "approx"}, "tree_method"),
        ({"num_parallel_tree": 4}, "num_parallel_tree"),
        ({"monotone_constraints": "(1,0)"}, "monotone_constraints"),
        ({"interaction_constraints": "[[0]]"}, "interaction_constraints"),
    ],
)
def test_what_hides_data_from_a_tree_is_refused_by_name(params, name):
    with pytest.raises(XGBoostError, match=f"leave out.*{name}"):
        arboost.trace(SMALL, [0, 1, 0, 1], params)


@pytest.mark.parametrize(
    ("shape", "rounds", "message"),
    [
        ((5001, 1), 1, "5,000 rows.*sample"),
        ((4, 101), 1, "100 features"),
        ((4, 1), 21, "20 rounds"),
        ((4, 1), 0, "num_boost_round"),
        ((4, 1), 2.5, "num_boost_round"),
    ],
)
def test_what_no_one_could_read_is_refused(shape, rounds, message):
    with pytest.raises(XGBoostError, match=message):
        arboost.trace(np.zeros(shape), np.zeros(shape[0]), None, rounds)


def test_too_many_candidates_are_refused_with_advice():
    X = np.random.default_rng(0).normal(size=(3000, 20))
    with pytest.raises(XGBoostError, match=r"candidate split.*max_bin=32"):
        arboost.trace(X, X[:, 0], {"tree_method": "exact"}, 1)


def test_categories_become_columns():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"size": [1, 2, 3, 4], "colour": pandas.Categorical(["red", "b<[lue]", None, "red"])})
    trace = arboost.trace(X, [0, 5, 1, 0], {"min_child_weight": 0}, 1)
    assert trace.feature_names == ["size", "colour = bunder (lue)", "colour = red"]
    assert trace.to_dict()["X"] == [[1, 0, 1], [2, 1, 0], [3, None, None], [4, 0, 1]]
    assert [feature["category"] for feature in trace.to_dict()["features"]] == [
        [], ["colour", "b<[lue]"], ["colour", "red"]
    ]  # fmt: skip
    assert trace.to_dict()["features"][2]["values"] == {"0.0": "no", "1.0": "yes"}
    assert "colour != red" in trace.text()


def test_a_matrix_brings_its_weights_and_groups():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 2)), rng.integers(0, 3, 12)
    weight = rng.uniform(1, 3, 12)
    params = {"min_child_weight": 0, "max_depth": 3, "tree_method": "exact"}
    data = arboost.DMatrix(X, y, weight=weight)
    trace = arboost.trace(data, None, params)
    assert trace.booster.save_raw() == arboost.train(params, data, 3).save_raw()
    np.testing.assert_allclose(trace.rounds[0].trees[0].h, weight, rtol=1e-6)
    assert trace.to_dict()["group"] is None and trace.run.params["starts_at_mean"]

    ranked = arboost.DMatrix(X, y, group=[5, 7], weight=[1, 2])
    trace = arboost.trace(ranked, None, {**params, "objective": "rank:ndcg"})
    assert trace.to_dict()["group"] == [1] * 5 + [2] * 7
    assert trace.booster.save_raw() == arboost.train({**params, "objective": "rank:ndcg"}, ranked, 3).save_raw()


def test_weights_and_groups_outlive_categories():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"size": [1, 2, 3, 4], "colour": pandas.Categorical(["red", "blue", None, "red"])})
    data = arboost.DMatrix(X, [0, 2, 1, 0], group=[2, 2], weight=[1, 3], enable_categorical=True)
    trace = arboost.trace(data, None, {"objective": "rank:pairwise"}, 1)
    assert trace.to_dict()["group"] == [1, 1, 2, 2]
    g = trace.rounds[0].trees[0].g
    assert abs(g[2]) > 2 * abs(g[0]) > 0


def test_a_matrix_that_cannot_be_traced_is_refused():
    data = arboost.DMatrix(SMALL, [0, 1, 0, 1])
    with pytest.raises(XGBoostError, match="leave out y"):
        arboost.trace(data, [0, 1, 0, 1])
    with pytest.raises(XGBoostError, match="base_margin"):
        arboost.trace(arboost.DMatrix(SMALL, [0, 1, 0, 1], base_margin=[0, 0, 1, 1]))
    with pytest.raises(XGBoostError, match="label for every row, and got none"):
        arboost.trace(SMALL)


def test_unknown_parameters_are_warned_of_once():
    with pytest.warns(UserWarning, match="max_deepth") as warned:
        trace = arboost.trace(SMALL, [0, 1, 0, 1], {"max_deepth": 2, "gamma": 0.1}, 2)
        trace.to_html()
    assert len(warned) == 1


def test_rows_without_a_label_are_refused():
    with pytest.raises(XGBoostError, match="label for every row"):
        arboost.trace(SMALL, np.array([[0, 1], [1, 0], [np.nan, 1], [0, 0]]))


def test_defaults_suit_the_size_of_the_data():
    small = arboost.trace(SMALL, [0, 1, 0, 1], {}, 1).run.params
    assert (small["tree_method"], small["max_depth"]) == ("exact", 3)
    X = np.random.default_rng(0).normal(size=(300, 2))
    large = arboost.trace(X, X[:, 0], {"tree_method": "auto"}, 1).run.params
    assert (large["tree_method"], large["max_bin"]) == ("hist", 32)


def test_every_reason_is_a_sentence():
    assert all(text == text.strip(".") and text[0].islower() for text in REASONS.values())
    assert isinstance(arboost.trace(SMALL, [0, 1, 0, 1]), Trace)
