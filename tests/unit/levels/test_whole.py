"""Trees grown in one call against a brute-force search of every node, their draws and their limits."""

import numpy as np
import pytest

import arboost
from arboost.levels.whole import Labels, WholeRules, WholeTreeEngine
from arboost.runtime.context import Context

RNG = np.random.default_rng(11)
N = 150
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.normal(size=N).round(1)]).astype(np.float32)
X[RNG.random(N) < 0.1, 0] = np.nan
NUMBERS = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) * (X[:, 1] > 1) + 0.3 * RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
ONE_HOT = {k: np.eye(k)[RNG.integers(0, k, N)] for k in (2, 5)}


def labels_of(kind):
    """(Labels, what they stand for as columns)."""
    if kind == "numbers":
        return Labels.of_numbers(NUMBERS), NUMBERS[:, None]
    classes = ONE_HOT[kind]
    return Labels.of_classes(classes.argmax(axis=1), kind), classes if kind > 2 else classes[:, 1:]


def make(X, kind="numbers", max_bin=64, ends=None, labels=None):
    page = arboost.DMatrix(X).binned(Context(n_threads=1), max_bin)
    return WholeTreeEngine(page, labels_of(kind)[0] if labels is None else labels, ends), page


def score(targets, weight):
    total = weight.sum()
    return (np.square(weight @ targets) / total).sum() if total else 0.0


def best_gain(codes, missing, targets, weight, least=1):
    """The largest gain of all cuts, with missing values on either side; None if nothing can be parted."""
    best = None
    for column, gone in zip(codes, missing, strict=True):
        for cut in range(column.max() + 1):
            for to_left in (False, True):
                left = np.where(gone, to_left, column <= cut)
                if min(weight[left].sum(), weight[~left].sum()) >= least:
                    parts = score(targets[left], weight[left]) + score(targets[~left], weight[~left])
                    gain = parts - score(targets, weight)
                    best = gain if best is None else max(best, gain)
    return best


@pytest.mark.parametrize("kind", ["numbers", 2, 5])
@pytest.mark.parametrize("least", [1, 5])
def test_every_node_has_the_best_of_all_splits(kind, least):
    engine, page = make(X, kind)
    _, targets = labels_of(kind)
    grown = engine.grow(WEIGHT, WholeRules(least_leaf=least), 3)
    codes, missing = page.columns.astype(int), np.isnan(X.T)
    assert len(grown.nodes) > 20
    seen = np.sort(grown.rows)
    np.testing.assert_array_equal(seen, np.flatnonzero(WEIGHT > 0))
    for node in grown.nodes:
        rows = np.sort(grown.rows[node["start"] : node["stop"]])
        weight, own = WEIGHT[rows], targets[rows]
        assert node["h"] * grown.weight_unit == weight.sum()
        expected = best_gain(codes[:, rows], missing[:, rows], own, weight, least)
        if node["left"] < 0:
            assert expected is None or (own == own[0]).all()
            continue
        assert node["gain"] * grown.gain_unit == pytest.approx(expected, abs=1e-6)
        left = np.where(
            missing[node["feature"], rows], node["default_left"], codes[node["feature"], rows] <= node["bin"]
        )
        one, other = grown.nodes[[node["left"], node["right"]]]
        assert (one["start"], other["stop"], one["stop"]) == (node["start"], node["stop"], other["start"])
        np.testing.assert_array_equal(rows[left == 1], np.sort(grown.rows[one["start"] : one["stop"]]))
    np.testing.assert_array_equal(engine.find_leaves(grown, grown.rows), leaf_of_rows(grown))


def leaf_of_rows(grown):
    leaves = np.empty(len(grown.rows), np.int32)
    for i in np.flatnonzero(grown.nodes["left"] < 0):
        leaves[grown.nodes["start"][i] : grown.nodes["stop"][i]] = i
    return leaves


def test_sums_of_nodes():
    engine, _ = make(X)
    grown = engine.grow(WEIGHT, WholeRules(max_depth=3), 3)
    columns = RNG.integers(0, 3, N).astype(np.int32)
    sums = grown.sums(columns, NUMBERS, 3)
    for node, found in zip(grown.nodes, sums, strict=True):
        rows = grown.rows[node["start"] : node["stop"]]
        np.testing.assert_allclose(found, np.bincount(columns[rows], NUMBERS[rows], 3), atol=1e-12)


def test_a_page_without_missing_values_may_use_all_codes():
    """256 bins in one byte: the last one is a bin like others."""
    x = np.arange(512, dtype=np.float32)[:, None]
    y = (x[:, 0] >= 510).astype(float)
    engine, page = make(x, max_bin=256, labels=Labels.of_numbers(y))
    assert page.columns.max() == 255
    assert page.columns.dtype == np.uint8
    nodes = engine.grow(np.ones(512), WholeRules(), 1).nodes
    assert nodes["bin"][0] == 254
    assert len(nodes) == 3


def test_a_cut_lies_in_the_middle_of_the_bins_that_nobody_is_in():
    x = np.arange(100, dtype=np.float32)[:, None]
    weight = np.isin(np.arange(100), [10, 11, 50, 51]).astype(float)
    engine, _ = make(x, labels=Labels.of_numbers((x[:, 0] > 30).astype(float)), max_bin=100)
    assert engine.grow(weight, WholeRules(), 1).nodes["bin"][0] == 30


def test_limits():
    engine, _ = make(X)
    whole = engine.grow(WEIGHT, WholeRules(), 3).nodes
    flat = engine.grow(WEIGHT, WholeRules(max_depth=2), 3).nodes
    assert flat["depth"].max() == 2
    heavy = engine.grow(WEIGHT, WholeRules(least_split=20.0), 3).nodes
    assert heavy["h"][heavy["left"] >= 0].min() >= 20
    assert len(heavy) < len(whole)
    gaining = engine.grow(WEIGHT, WholeRules(least_gain=1.0), 3)
    assert (gaining.nodes["gain"][gaining.nodes["left"] >= 0] * gaining.gain_unit).min() >= 1.0
    few = engine.grow(WEIGHT, WholeRules(max_leaves=7), 3).nodes
    assert np.count_nonzero(few["left"] < 0) == 7
    kept = np.sort(few["gain"][few["left"] >= 0])
    waiting = few["gain"][(few["left"] < 0) & (few["feature"] >= 0)]
    assert waiting.max() <= kept[0]  # the largest gains came first


def test_weights_and_numbers_of_any_size():
    """Powers of two change nothing; other factors no more than rounding does."""
    splits = []
    for factor, scale in ((1.0, 1.0), (2.0**-20, 2.0**30), (2.0**40, 2.0**-30)):
        engine, _ = make(X, labels=Labels.of_numbers(NUMBERS * scale))
        grown = engine.grow((WEIGHT + 0.3) * factor, WholeRules(max_depth=4), 3)
        inner = grown.nodes[grown.nodes["left"] >= 0]  # of leaves nobody writes a bin
        splits.append((grown.nodes["left"].tolist(), inner[["feature", "bin"]].tolist()))
        assert grown.nodes["h"][0] * grown.weight_unit == pytest.approx((WEIGHT + 0.3).sum() * factor, rel=1e-6)
    assert splits[0] == splits[1] == splits[2]


@pytest.mark.parametrize("kind", ["numbers", 5])
def test_drawn_cuts_follow_the_values(kind):
    """Between the least and the largest value of the node every cut may come, those behind wide gaps more often."""
    x = np.array([0, 1, 2, 3, 103], np.float32).repeat(20)[:, None]
    labels = Labels.of_numbers(np.arange(100.0)) if kind == "numbers" else Labels.of_classes(np.arange(100) % 5, 5)
    engine, _ = make(x, labels=labels, ends=np.array([[0], [103]], np.float32))
    cuts = [engine.grow(np.ones(100), WholeRules(max_depth=1), key).nodes["bin"][0] for key in range(300)]
    assert set(cuts) <= {0, 1, 2, 3}
    assert 0.9 < np.mean(np.array(cuts) == 3) < 1.0


@pytest.mark.parametrize("kind", ["numbers", 2, 5])
def test_drawn_trees_part_what_can_be_parted(kind):
    ends = np.stack([np.nanmin(X, axis=0), np.nanmax(X, axis=0)])
    engine, _ = make(X, kind, ends=ends)
    _, targets = labels_of(kind)
    grown = engine.grow(WEIGHT, WholeRules(n_drawn=1), 5)
    for node in grown.nodes[grown.nodes["left"] < 0]:
        rows = grown.rows[node["start"] : node["stop"]]
        assert (targets[rows] == targets[rows[0]]).all() or len(np.unique(X[rows], axis=0, equal_nan=True)) == 1
    assert len({engine.grow(WEIGHT, WholeRules(n_drawn=1), key).nodes["feature"][0] for key in range(20)}) == 3


def test_a_feature_of_one_value_is_never_chosen():
    engine, _ = make(np.column_stack([X, np.ones(N), np.full(N, np.nan)]).astype(np.float32))
    nodes = engine.grow(WEIGHT, WholeRules(n_drawn=2), 1).nodes
    assert nodes["feature"].max() <= 2
