"""Ranking against the installed XGBoost: models, metrics, files, and NDCG on real queries."""

import json

import numpy as np
import pytest

import arboost
import datasets

xgboost = pytest.importorskip("xgboost")

KINDS = ("rank:ndcg", "rank:map", "rank:pairwise")
CASES = [
    {},
    {"lambdarank_num_pair_per_sample": 3, "lambdarank_score_normalization": False},
    {"lambdarank_normalization": False, "eta": 0.03},
    {"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.5},
    {"ndcg_exp_gain": False, "max_depth": 2},
]


def make_queries(seed=5, n=1500, binary=False, weighted=False):
    """Features of few levels, so that both libraries cut them alike; queries of 1 to 60 documents."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 16, (n, 6)).astype(np.float32)
    z = X[:, 0] * 0.2 + np.sin(X[:, 1]) + rng.normal(size=n)
    y = np.clip(np.floor(z - z.min()), 0, 4)
    y[: n // 20] = 2  # queries of equal labels
    qid = np.sort(rng.integers(0, n // 25, n))
    weight = rng.uniform(0.2, 2, len(np.unique(qid))) if weighted else None
    return {"data": X, "label": (y > 2).astype(np.float32) if binary else y, "qid": qid, "weight": weight}


def train(library, params, queries, n_rounds=5):
    data = library.DMatrix(**queries)
    history = {}
    params = {"eta": 0.3, "max_depth": 3, "nthread": 1, **params}
    booster = library.train(params, data, n_rounds, evals=[(data, "train")], evals_result=history, verbose_eval=False)
    return booster, history["train"], booster.predict(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_models_are_equal(kind, case, weighted):
    queries = make_queries(binary=kind == "rank:map", weighted=weighted)
    params = {"objective": kind, **case}
    (theirs, their_history, their_pred), (ours, history, pred) = (train(m, params, queries) for m in (xgboost, arboost))
    np.testing.assert_allclose(pred, their_pred, rtol=1e-4, atol=2e-5)
    assert list(history) == list(their_history)  # the default metric's name
    if not weighted:
        for name in history:
            np.testing.assert_allclose(history[name], their_history[name], atol=2e-4)
    assert ours.get_dump()[0].count("leaf") == theirs.get_dump()[0].count("leaf")


def test_unbiased_state_follows_xgboosts():
    params = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "lambdarank_num_pair_per_sample": 12}
    objectives = []
    for library in (xgboost, arboost):
        booster, _, _ = train(library, params, make_queries())
        objectives.append(json.loads(bytes(booster.save_raw("json")))["learner"]["objective"])
    assert objectives[0]["lambdarank_param"] == objectives[1]["lambdarank_param"]
    for name in ("ti+", "tj-"):
        np.testing.assert_allclose(objectives[0][name], objectives[1][name], rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw_format", ["json", "ubj"])
def test_model_files_load_both_ways(kind, raw_format):
    queries = make_queries(binary=kind == "rank:map")
    params = {"objective": kind, "lambdarank_unbiased": True, "lambdarank_pair_method": "mean"}
    for source, target in ((arboost, xgboost), (xgboost, arboost)):
        booster, _, pred = train(source, params, queries)
        again = target.Booster()
        again.load_model(booster.save_raw(raw_format))
        np.testing.assert_array_equal(again.predict(target.DMatrix(queries["data"])), pred)
        saved, read = (json.loads(bytes(b.save_raw("json")))["learner"]["objective"] for b in (booster, again))
        assert saved["lambdarank_param"] == read["lambdarank_param"]


@pytest.mark.parametrize("method", ["topk", "mean"])
def test_threads_give_the_same_model(method):
    queries = make_queries(n=4000)
    params = {"objective": "rank:ndcg", "lambdarank_pair_method": method, "lambdarank_unbiased": True}
    raws = [
        bytes(train(arboost, {**params, "nthread": n_threads}, queries)[0].save_raw("json")) for n_threads in (1, 2, 3)
    ]
    assert raws[0] == raws[1] == raws[2]


def test_random_pairs_learn_as_well():
    scores = {}
    for library in (xgboost, arboost):
        scores[library] = []
        for seed in range(5):
            params = {"objective": "rank:ndcg", "lambdarank_pair_method": "mean", "seed": seed}
            params |= {"lambdarank_num_pair_per_sample": 2, "eval_metric": "ndcg@10"}
            booster, _, _ = train(library, params, make_queries(seed), 10)
            held_out = library.DMatrix(**make_queries(seed + 100))
            scores[library].append(float(booster.eval(held_out).rpartition(":")[2]))
    theirs, ours = scores[xgboost], scores[arboost]
    assert np.mean(ours) > np.mean(theirs) - max(0.01, 2 * np.std(theirs))


def simulate_clicks(n_queries=150, n_shown=12, seed=0):
    """Clicks on lists shown in a noisy order: the chance that a document is looked at falls with its position."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n_queries * n_shown, 5)).astype(np.float32)
    relevance = X[:, 0] / 4 + X[:, 1] / 8 + rng.normal(size=len(X)) * 0.3
    shown = np.argsort(-(X[:, 0] + rng.normal(size=len(X)) * 8).reshape(n_queries, n_shown), axis=1)
    order = (shown + n_shown * np.arange(n_queries)[:, None]).reshape(-1)
    X, relevance = X[order], relevance[order]
    position = np.tile(np.arange(n_shown), n_queries)
    chance = 1 / (1 + np.exp(-3 * (relevance - np.median(relevance)))) / (1 + position)
    clicks = (rng.random(len(X)) < chance).astype(np.float32)
    queries = {"data": X, "label": clicks, "qid": np.repeat(np.arange(n_queries), n_shown)}
    return queries, np.clip(np.floor(relevance), 0, 4)


def learned_bias(booster):
    objective = json.loads(booster.save_config())["learner"]["objective"]
    return np.array([objective["ti+"], objective["tj-"]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["topk", "mean"])
def test_position_bias_falls_with_the_position(kind, method):
    queries, relevance = simulate_clicks()
    params = {"objective": kind, "lambdarank_unbiased": True, "lambdarank_pair_method": method}
    params["lambdarank_num_pair_per_sample"] = 12 if method == "topk" else 32
    biases, ranks = [], []
    for library in (xgboost, arboost):
        first = learned_bias(train(library, params, queries, 1)[0])
        booster, _, prediction = train(library, params, queries, 8)
        biases.append((first, learned_bias(booster)))
        judged = library.DMatrix(queries["data"], relevance, qid=queries["qid"], base_margin=prediction)
        blank = library.train({"eval_metric": "ndcg@5", "objective": "rank:ndcg", "max_depth": 1, "eta": 0}, judged, 1)
        ranks.append(float(blank.eval(judged).rpartition(":")[2]))
    (their_first, theirs), (our_first, ours) = biases
    assert ours.shape == theirs.shape == (2, 12)
    # the first round's pairs are the same with topk; random ones are other draws of the same distribution
    np.testing.assert_allclose(our_first[0], their_first[0], rtol=1e-5 if method == "topk" else 0.1)
    assert ours[0, 0] == 1.0 and ours[0, 1:4].max() < 1.0
    assert ours[0, 8:].mean() < ours[0, 4:8].mean() < ours[0, 1:4].mean() < 0.9
    np.testing.assert_allclose(ours[0], theirs[0], atol=0.15)
    assert ranks[1] > ranks[0] - 0.02


def test_position_bias_needs_clicks_at_the_first_position():
    """The bias is relative to the first position's: where nobody clicked there, it stays 1 in both libraries."""
    queries, _ = simulate_clicks()
    queries["label"] = np.where(np.arange(len(queries["label"])) % 12 == 0, 0, queries["label"]).astype(np.float32)
    params = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "lambdarank_num_pair_per_sample": 12}
    for library in (xgboost, arboost):
        bias = learned_bias(train(library, params, queries, 3)[0])
        assert bias[0].tolist() == [1.0] * 12
        assert bias[1].min() < 1.0


def test_a_bias_of_few_positions_survives_a_file():
    queries, _ = simulate_clicks()
    params = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "lambdarank_pair_method": "mean"}
    for library in (xgboost, arboost):
        booster, _, _ = train(library, params, queries, 3)
        read = arboost.Booster(model_file=booster.save_raw())
        np.testing.assert_allclose(learned_bias(read), learned_bias(booster), rtol=1e-6)
        more = arboost.train({**params, "max_depth": 3}, arboost.DMatrix(**queries), 1, xgb_model=read)
        assert learned_bias(more).shape == (2, 12)
        assert learned_bias(more)[0, -1] < 0.9  # not begun anew at 1


def test_contributions_and_dump_work():
    booster, _, pred = train(arboost, {"objective": "rank:ndcg"}, make_queries())
    contributions = booster.predict(arboost.DMatrix(make_queries()["data"]), pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=1), pred, atol=1e-4)
    assert len(booster.get_dump()) == 5


def test_custom_objective_sees_the_groups():
    queries = make_queries()
    sizes = np.unique(queries["qid"], return_counts=True)[1]
    seen = []

    def centred(pred, data):
        """Squared error of scores and labels, both measured from their query's mean."""
        seen.append(data.get_group())
        query = np.repeat(np.arange(len(sizes)), data.get_group())
        difference = pred - data.get_label()
        mean = np.bincount(query, difference) / data.get_group()
        return difference - mean[query], np.ones(len(pred))

    data = arboost.DMatrix(**queries)
    history = {}
    params = {"objective": "rank:ndcg", "disable_default_eval_metric": True, "eval_metric": "ndcg@5"}
    arboost.train(params, data, 10, obj=centred, evals=[(data, "t")], evals_result=history, verbose_eval=False)
    np.testing.assert_array_equal(seen[0], sizes)
    assert history["t"]["ndcg@5"][-1] > history["t"]["ndcg@5"][0]


def test_bad_queries():
    X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    with pytest.raises(arboost.core.XGBoostError, match="sorted in non-decreasing order"):
        arboost.DMatrix(X, y, qid=[0, 1, 0, 1])
    with pytest.raises(arboost.core.XGBoostError, match="Either `group` or `qid` is required"):
        arboost.train({"objective": "rank:ndcg"}, arboost.DMatrix(X, y), 1)
    with pytest.raises(arboost.core.XGBoostError, match="0 or positive integer"):
        arboost.train({"objective": "rank:ndcg"}, arboost.DMatrix(X, -y, group=[4]), 1)


def test_ranker_estimator():
    pytest.importorskip("sklearn")
    queries = make_queries()
    X, y, qid = queries["data"], queries["label"], queries["qid"]
    ours = arboost.XGBRanker(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y, qid=qid)
    theirs = xgboost.XGBRanker(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y, qid=qid)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4, atol=2e-5)
    with pytest.raises(ValueError, match="group` or `qid` is required"):
        arboost.XGBRanker().fit(X, y)


def load_queries(name):
    pandas = pytest.importorskip("pandas")
    try:
        data = datasets.load(name)
    except datasets.DataUnavailable as reason:
        pytest.skip(str(reason))
    return data, pandas.read_parquet(datasets.data_folder() / data.entry["file"], columns=["qid"])["qid"].to_numpy()


@pytest.mark.parametrize("name", ["lgb_rank", "mq2008_fold1_test"])
def test_real_queries_within_noise(name):
    """NDCG@5 and @10 of held-out queries, five splits: the mean difference is within the spread of differences."""
    data, qid = load_queries(name)
    X = np.round(data.X, 2)  # fewer bins: seconds instead of minutes
    scores = {library: [] for library in (xgboost, arboost)}
    for seed in range(5):
        queries = np.random.default_rng(seed).permutation(np.unique(qid))
        is_test = np.isin(qid, queries[: len(queries) // 4])
        for library, own in scores.items():
            parts = [library.DMatrix(X[rows], data.y[rows], qid=qid[rows]) for rows in (~is_test, is_test)]
            params = {
                "objective": "rank:ndcg",
                "eta": 0.1,
                "max_depth": 4,
                "nthread": 1,
                "seed": seed,
                "subsample": 0.8,
            }
            booster = library.train({**params, "eval_metric": ["ndcg@5", "ndcg@10"]}, parts[0], 20)
            own.append([float(part.rpartition(":")[2]) for part in booster.eval(parts[1]).split("\t")[1:]])
    differences = np.array(scores[arboost]) - np.array(scores[xgboost])
    limit = 2.78 * differences.std(axis=0, ddof=1) / np.sqrt(5)  # t(0.975) of four degrees of freedom
    assert (differences.mean(axis=0) > -np.maximum(limit, 0.005)).all()
