"""Metrics of ranked lists against plain loops and the installed XGBoost."""

import math

import numpy as np
import pytest

import naive_rank as naive
from arboost.matrix.meta import MetaInfo
from arboost.metrics import make_metric
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from pages import cut_anywhere

ONE = Context()
GRADED = ("ndcg", "ndcg@3", "ndcg@7-", "ndcg-", "ndcg@1000", "auc")
BINARY = (*GRADED, "map", "map@2", "map@4-", "map-", "pre", "pre@3", "pre@2-", "pre-", "aucpr")


def make(name, **params):
    return make_metric(name, resolve({"objective": "rank:pairwise", "eval_metric": name, **params}).learner)


def make_lists(seed, binary, tied=False, weighted=False):
    """Scores and a matrix of random groups, every group with a relevant document."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 70, 12)
    n = int(sizes.sum())
    label = rng.integers(0, 5, n)
    label[np.cumsum(sizes) - 1] = 4
    info = MetaInfo(n, 1)
    info.set_label(label > 2 if binary else label)
    info.set_group(sizes)
    if weighted:
        info.set_weight(rng.uniform(0.1, 2, len(sizes)))
    scores = rng.integers(0, 6, n) if tied else rng.normal(size=n)
    return scores.astype(np.float32), info


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_xgboosts(tied, weighted):
    xgboost = pytest.importorskip("xgboost")
    for seed in range(5):
        for binary, names in ((False, GRADED), (True, BINARY)):
            scores, info = make_lists(seed, binary, tied, weighted)
            for exp_gain in (True, False):
                data = xgboost.DMatrix(
                    np.zeros((len(scores), 1)),
                    info.label,
                    group=np.diff(info.group_ptr),
                    weight=info.weight,
                    base_margin=scores,
                )
                params = {"objective": "rank:pairwise", "base_score": 0, "ndcg_exp_gain": exp_gain, "nthread": 1}
                booster = xgboost.Booster({**params, "eval_metric": list(names)}, [data])
                for name, part in zip(names, booster.eval(data, "e").split("\t")[1:], strict=True):
                    shown, _, theirs = part.rpartition(":")
                    metric = make(name, ndcg_exp_gain=exp_gain)
                    assert shown == f"e-{metric.name}"
                    assert metric.evaluate_info(ONE, scores, info) == pytest.approx(float(theirs), abs=1e-9)


@pytest.mark.parametrize("name", ["ndcg", "map", "pre"])
def test_values_are_those_of_the_naive_loops(name):
    scores, info = make_lists(0, binary=True, weighted=True)
    for top in (None, 1, 4, 500):
        values = [
            naive.list_metric(name, info.label[a:b], scores[a:b], top or 32)
            for a, b in zip(info.group_ptr, info.group_ptr[1:], strict=False)
        ]
        got = make(name if top is None else f"{name}@{top}").evaluate_info(ONE, scores.reshape(-1, 1), info)
        assert got == pytest.approx(np.average(values, weights=info.weight), rel=1e-12)


@pytest.mark.parametrize(("name", "expected"), [("ndcg", 1), ("ndcg@2-", 0), ("map", 1), ("map-", 0), ("pre@1", 0)])
def test_lists_without_relevant_documents(name, expected):
    label = np.zeros(3, np.float32)
    assert make(name).evaluate(ONE, label, label) == expected
    info = MetaInfo(3, 1)
    info.set_label([0, 0, 1])
    info.set_group([2, 0, 1])  # an empty list counts as one without relevance
    assert make(name).evaluate_info(ONE, label, info) == pytest.approx((2 * expected + 1) / 3)


def test_a_weight_counts_for_lists_without_relevant_documents_too():
    info = MetaInfo(4, 1)
    info.set_label([0, 0, 0, 1])
    info.set_group([2, 2])
    scores = np.array([0, 1, 1, 0], np.float32)
    info.set_weight([0.5, 1.0])
    assert make("ndcg").evaluate_info(ONE, scores, info) == pytest.approx((0.5 + 1 / math.log2(3)) / 1.5)
    info.set_weight([0.0, 0.0])
    assert make("ndcg").evaluate_info(ONE, scores, info) == 0.0


def test_areas_of_groups():
    """As XGBoost: fewer than three rows have no auc, one class has no aucpr; no area at all is NaN with a warning."""
    info = MetaInfo(5, 1)
    info.set_label([1, 0, 1, 0, 1])
    info.set_group([2, 3])
    scores = np.array([1, 0, 0, 2, 3], np.float32)
    assert make("auc").evaluate_info(ONE, scores, info) == pytest.approx(1 / 3)
    assert make("aucpr").evaluate_info(ONE, scores, info) > 0.5
    info.set_weight([1.0, 0.0])
    assert make("auc").evaluate_info(ONE, scores, info) == 0.0
    info.set_weight([])
    info.set_label([1, 1, 1, 1, 1])
    with pytest.warns(UserWarning, match="only positive or negative"):
        assert math.isnan(make("aucpr").evaluate_info(ONE, scores, info))


@pytest.mark.parametrize("name", BINARY)
def test_threads_do_not_change_a_bit(name):
    scores, info = make_lists(3, binary=True, weighted=True)
    expected = make(name).evaluate_info(ONE, scores, info)
    for n_threads in (2, 5):
        with cut_anywhere(n_threads):
            assert make(name).evaluate_info(Context(n_threads), scores, info) == expected


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@x", "ndcg@", "map@2.5", "pre@-3", "ndcg@3--", "ndcg-@3"])
def test_bad_names(name):
    with pytest.raises(XGBoostError, match="greater equal to 1"):
        make(name)


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        ("ndcg", [0, -1, 1], "0 or positive integer"),
        ("ndcg@2", [0, 32, 1], "lesser than or equal to 31"),
        ("map", [0, 2, 1], "map can only be used with binary labels"),
        ("pre@2", [0, 0.5, 1], "pre can only be used with binary labels"),
    ],
)
def test_bad_labels(name, label, message):
    with pytest.raises(XGBoostError, match=message):
        make(name).evaluate(ONE, np.zeros(3, np.float32), np.array(label, np.float32))


def test_sizes_must_match():
    scores, info = make_lists(0, binary=True)
    with pytest.raises(XGBoostError, match="do not match"):
        make("ndcg").evaluate_info(ONE, scores[1:], info)
    info.weight = np.ones(info.n_rows, np.float32)
    for name in ("ndcg", "auc"):
        with pytest.raises(XGBoostError, match="number of query groups"):
            make(name).evaluate_info(ONE, scores, info)
    info.label, info.weight = np.full(info.n_rows, 3, np.float32), None
    with pytest.raises(XGBoostError, match="only binary relevance"):
        make("aucpr").evaluate_info(ONE, scores, info)
