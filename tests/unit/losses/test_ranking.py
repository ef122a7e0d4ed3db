"""Ranking losses against plain float64 loops: derivatives, normalisation, weights, bias, errors, threads."""

import numpy as np
import pytest

import arboost
import naive_rank as naive
from arboost.losses import loss_from_config, make_loss
from arboost.losses.ranking import RankMap, RankNdcg, RankPairwise
from arboost.matrix.meta import MetaInfo
from arboost.params.resolve import resolve
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError, XGBoostError
from pages import cut_anywhere

KINDS = ("rank:ndcg", "rank:map", "rank:pairwise")
SIZES = np.array([7, 45, 1, 2, 0, 5, 60])  # with an empty group and one of a single document
PTR = np.append(0, np.cumsum(SIZES))
N = int(PTR[-1])


def make_info(kind="rank:ndcg", weight=None):
    rng = np.random.default_rng(3)
    label = rng.integers(0, 5, N)
    label[PTR[5] : PTR[6]] = 2  # one group of equal labels
    info = MetaInfo(N, 1)
    info.set_label(label > 2 if kind == "rank:map" else label)
    info.set_group(SIZES)
    if weight is not None:
        info.set_weight(weight)
    return info


def make_scores():
    scores = np.random.default_rng(4).normal(size=N).astype(np.float32)
    scores[20:30] = 0.25  # ties
    return scores


def gradient_of(loss, info, scores, key=0, ctx=None):
    g, h = np.full((2, 1, N), np.nan, np.float32)
    loss.check_info(info)
    loss.gradient_of(ctx or Context(), key, scores.reshape(-1, 1), info, g, h)
    return g[0], h[0]


def make(kind, **params):
    return make_loss(kind, resolve({"objective": kind, **params}).learner)


def naive_group(kind, info, scores, q, normalise=True, **options):
    rows = slice(PTR[q], PTR[q + 1])
    s = scores[rows].astype(np.float64)
    if not len(s):
        return np.zeros(0), np.zeros(0)
    pairs = naive.top_pairs(kind, info.label[rows].astype(np.float64), s, **options)
    g, h, total = naive.gradients(pairs, s)
    factor = naive.normalisation(total) if normalise else 1.0
    return g * factor, h * factor


OPTIONS = [
    ({}, {}),
    ({"lambdarank_num_pair_per_sample": 3}, {"top": 3}),
    ({"lambdarank_normalization": False}, {"normalise": False}),
    ({"lambdarank_score_normalization": False}, {"by_distance": False}),
    ({"ndcg_exp_gain": False}, {"exp_gain": False}),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("params", "options"), OPTIONS)
def test_gradients_are_those_of_the_naive_loops(kind, params, options):
    info, scores = make_info(kind), make_scores()
    g, h = gradient_of(make(kind, **params), info, scores)
    expected = [naive_group(kind, info, scores, q, **options) for q in range(len(SIZES))]
    for got, part in ((g, 0), (h, 1)):
        want = np.concatenate([pair[part] for pair in expected])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * abs(want).max())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_derivatives_of_the_pairwise_loss(kind):
    """For fixed pairs and weights: central differences in float64."""
    info, scores = make_info(kind), make_scores()
    g, h = gradient_of(make(kind, lambdarank_normalization=False), info, scores)
    rows = slice(PTR[1], PTR[2])
    s = scores[rows].astype(np.float64)
    pairs = naive.top_pairs(kind, info.label[rows].astype(np.float64), s)
    scale, e = float(abs(g[rows]).max()), 1e-4
    for i in range(0, len(s), 5):
        step = np.zeros(len(s))
        step[i] = e
        up, here, down = (naive.pair_loss(pairs, s + k * step) for k in (1, 0, -1))
        assert (up - down) / (2 * e) == pytest.approx(g[rows][i], rel=1e-4, abs=1e-5 * scale)
        assert 2 * (up - 2 * here + down) / e**2 == pytest.approx(h[rows][i], rel=1e-3, abs=1e-3 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["topk", "mean"])
def test_weights_of_groups_scale_them_and_average_to_one(kind, method):
    weight = np.random.default_rng(0).uniform(0.1, 3, len(SIZES)).astype(np.float32)
    scores = make_scores()
    loss = make(kind, lambdarank_pair_method=method)
    plain = gradient_of(loss, make_info(kind), scores)
    weighted = gradient_of(loss, make_info(kind, weight), scores)
    factor = np.repeat(weight * len(weight) / weight.sum(), SIZES)
    for a, b in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(a * factor, b, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_without_pairs_have_no_gradient(kind):
    for method in ("topk", "mean"):
        g, h = gradient_of(make(kind, lambdarank_pair_method=method), make_info(kind), make_scores())
        for q in (2, 5):
            assert not g[PTR[q] : PTR[q + 1]].any() and not h[PTR[q] : PTR[q + 1]].any()
        for q in (1, 6):
            assert abs(g[PTR[q] : PTR[q + 1]].sum(dtype=np.float64)) < 1e-4 * abs(g).max()
            assert (h[PTR[q] : PTR[q + 1]] >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "params",
    [{}, {"lambdarank_unbiased": True}, {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 3}],
)
def test_threads_do_not_change_a_bit(kind, params):
    results = []
    for n_threads, seed in ((1, 0), (2, 1), (5, 2)):
        loss, info, scores = make(kind, **params), make_info(kind), make_scores()
        with cut_anywhere(seed):
            first = gradient_of(loss, info, scores, 1, Context(n_threads))
            second = gradient_of(loss, info, scores + first[0], 2, Context(n_threads))
        results.append((*first, *second, *np.array(loss.config().get("ti+", []))))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_random_pairs_have_the_expected_gradient():
    """Every document draws evenly among those of another label, k times; the sum is divided by k."""
    label = np.array([2, 0, 1, 1, 0, 0, 0, 0], np.float64)
    scores = np.linspace(0, 1, 8).astype(np.float32)
    info = MetaInfo(8, 1)
    info.set_label(label)
    info.set_group([8])
    loss = make(
        "rank:pairwise",
        lambdarank_pair_method="mean",
        lambdarank_num_pair_per_sample=2,
        lambdarank_score_normalization=False,
    )
    g, h = np.empty((2, 1, 8), np.float32)
    draws = []
    for key in range(2000):
        loss.gradient_of(Context(), key, scores.reshape(-1, 1), info, g, h)
        draws.append(g[0].astype(np.float64))
    pairs = []
    for i in range(8):
        others = np.flatnonzero(label != label[i])
        pairs += [(i, j, 1 / len(others)) if label[i] > label[j] else (j, i, 1 / len(others)) for j in others]
    expected = naive.gradients(pairs, scores.astype(np.float64))[0]
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (abs(np.mean(draws, axis=0) - expected) < 5 * error + 1e-6).all()
    assert len({tuple(d) for d in draws[:50]}) > 10


def test_position_bias_is_learned_and_used():
    info, scores = make_info(), make_scores()
    loss = make("rank:ndcg", lambdarank_unbiased=True, lambdarank_bias_norm=0.5, lambdarank_num_pair_per_sample=10)
    plain = gradient_of(make("rank:ndcg", lambdarank_num_pair_per_sample=10), info, scores)
    first = gradient_of(loss, info, scores)
    np.testing.assert_array_equal(plain[0], first[0])  # the bias starts at 1
    costs = np.zeros((2, 10))
    for q in np.flatnonzero(SIZES):
        rows = slice(PTR[q], PTR[q + 1])
        s = scores[rows].astype(np.float64)
        for high, low, weight in naive.top_pairs("rank:ndcg", info.label[rows].astype(np.float64), s, top=10):
            if high < 10 and low < 10:
                cost = weight * np.logaddexp(0.0, s[high] - s[low])
                costs[0, high] += cost
                costs[1, low] += cost
    config = loss.config()
    for side, name in enumerate(("ti+", "tj-")):
        np.testing.assert_allclose(config[name], (costs[side] / costs[side, 0]) ** (1 / 1.5), rtol=1e-5)
    second = gradient_of(loss, info, scores)
    assert abs(second[0] - first[0]).max() > 1e-3


def test_a_copy_goes_on_with_the_bias_it_was_made_with():
    X = np.random.default_rng(0).normal(size=(N, 3))
    info = make_info()
    data = arboost.DMatrix(X, info.label, group=SIZES)
    model = arboost.train({"objective": "rank:ndcg", "lambdarank_unbiased": True}, data, 2)
    twin = model.copy()
    model.update(data, 2)
    twin.update(data, 2)
    assert twin.save_raw() == model.save_raw()


def test_model_file_keeps_parameters_and_bias():
    loss = make("rank:ndcg", lambdarank_unbiased=True, lambdarank_bias_norm=0.5, lambdarank_num_pair_per_sample=10)
    gradient_of(loss, make_info(), make_scores())
    again = loss_from_config(loss.config())
    assert again == loss
    assert again.config() == loss.config()
    np.testing.assert_array_equal(
        gradient_of(loss, make_info(), make_scores())[0], gradient_of(again, make_info(), make_scores())[0]
    )
    assert loss_from_config({"name": "rank:map"}) == RankMap()


@pytest.mark.parametrize(
    "change",
    [
        {"lambdarank_param": 3},
        {"lambdarank_param": {"lambdarank_pair_method": "most"}},
        {"ti+": ["a"] * 32},
        {"tj-": [float("nan")] * 32},
        {"ti+": [-1.0] * 32},
        {"ti+": [1.0]},
    ],
)
def test_damaged_model_files_are_refused(change):
    loss = make("rank:ndcg", lambdarank_unbiased=True)
    gradient_of(loss, make_info(), make_scores())
    with pytest.raises(ModelFileError, match=r"learner\.objective"):
        loss_from_config({**loss.config(), **change})


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("rank:ndcg", {"group_ptr": None}, "Either `group` or `qid` is required"),
        ("rank:ndcg", {"label": None}, "Invalid query group structure"),
        ("rank:ndcg", {"label": np.full(N, -1.0)}, "label must be either 0 or positive integer"),
        ("rank:ndcg", {"label": np.full(N, 0.5)}, "label must be either 0 or positive integer"),
        ("rank:ndcg", {"label": np.full(N, 32.0)}, "lesser than or equal to 31"),
        ("rank:ndcg", {"label": np.ones((N, 2))}, "multi-output for LTR is not yet supported"),
        ("rank:map", {"label": np.full(N, 2.0)}, "map can only be used with binary labels"),
        ("rank:pairwise", {"weight": np.ones(N)}, "number of query groups"),
    ],
)
def test_bad_input(kind, change, message):
    info = make_info(kind)
    for name, value in change.items():
        setattr(info, name, value)
    with pytest.raises(XGBoostError, match=message):
        make(kind).check_info(info)


def test_what_is_allowed():
    info = make_info()
    info.label = np.full(N, 100, np.float32)
    make("rank:ndcg", ndcg_exp_gain=False).check_info(info)
    info.label = np.linspace(-2, 2, N).astype(np.float32)
    make("rank:pairwise").check_info(info)


def test_default_metrics_are_xgboosts():
    assert RankNdcg().default_metric == "ndcg@32"
    assert RankMap(lambdarank_num_pair_per_sample=5).default_metric == "map@5"
    assert RankPairwise(lambdarank_pair_method="mean").default_metric == "ndcg"


def test_base_score_is_zero():
    assert RankNdcg().base_score_of(Context(), make_info()) == 0.0


def test_weights_must_not_all_be_zero():
    with pytest.raises(XGBoostError, match="sum to zero"):
        gradient_of(RankNdcg(), make_info(weight=np.zeros(len(SIZES))), make_scores())
