"""Every kind of model keeps the promises: the same bytes for any threads, files both ways, explanations, dumps."""

import json

import numpy as np
import pytest
import xgboost

import arboost
import pages

N, SIZES = 400, [30, 70, 100, 50, 150]
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 5)).astype(np.float32)
X[:, 4] = RNG.integers(0, 7, N)
X[RNG.random(X.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 4] % 2))
CLASSES = np.digitize(SCORE, [-0.5, 0.5])
TIMES = np.exp(SCORE).astype(np.float32)
PLAIN = {"label": SCORE}
GROUPS = {"label": CLASSES, "group": SIZES}
TARGETS = {"label": np.stack([SCORE, -X[:, 3], SCORE > 0], axis=1)}
TARGETS["label"][np.isnan(TARGETS["label"])] = 0
BOUNDS = {"label_lower_bound": TIMES, "label_upper_bound": np.where(CLASSES == 0, np.inf, TIMES)}


def _softmax(margin, data):
    p = np.exp(margin - margin.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p - np.eye(3)[data.get_label().astype(int)], 2 * p * (1 - p)


KINDS = {
    "monotone": ({"monotone_constraints": (1, -1, 0)}, PLAIN),
    "interactions": ({"interaction_constraints": [[0, 1], [2, 3, 4]]}, PLAIN),
    "dart": ({"booster": "dart", "rate_drop": 0.4, "one_drop": True}, PLAIN),
    "dart, weighted": (
        {"booster": "dart", "rate_drop": 0.4, "sample_type": "weighted", "normalize_type": "forest"}, PLAIN
    ),
    "gblinear": ({"booster": "gblinear", "reg_alpha": 0.01}, PLAIN),
    "gblinear, greedy": (
        {"booster": "gblinear", "updater": "coord_descent", "feature_selector": "greedy", "top_k": 3}, PLAIN
    ),
    "gblinear, classes": ({"booster": "gblinear", "objective": "multi:softprob", "num_class": 3}, {"label": CLASSES}),
    "forest": ({"num_parallel_tree": 4, "subsample": 0.6, "colsample_bynode": 0.6, "eta": 1}, PLAIN),
    "rank:ndcg": ({"objective": "rank:ndcg"}, GROUPS),
    "rank:pairwise, mean": ({"objective": "rank:pairwise", "lambdarank_pair_method": "mean"}, GROUPS),
    "rank:map, unbiased": (
        {"objective": "rank:map", "lambdarank_unbiased": True}, {"label": CLASSES > 1, "group": SIZES}
    ),
    "cox": ({"objective": "survival:cox"}, {"label": np.where(CLASSES == 0, -TIMES, TIMES)}),
    "aft": ({"objective": "survival:aft", "aft_loss_distribution": "logistic"}, BOUNDS),
    "targets": ({}, TARGETS),
    "labels": ({"objective": "binary:logistic"}, {"label": TARGETS["label"] > 0}),
    "vectors": ({"multi_strategy": "multi_output_tree"}, TARGETS),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, {"label": CLASSES}),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}, PLAIN),
    "expectiles": ({"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8]}, PLAIN),
    "gradient-based": ({"sampling_method": "gradient_based", "subsample": 0.3}, PLAIN),
    "gradient-based forest": (
        {"sampling_method": "gradient_based", "subsample": 0.3, "num_parallel_tree": 2}, {"label": SCORE}
    ),
    "refreshed": ({"process_type": "update", "updater": "refresh,prune", "gamma": 0.5}, PLAIN),
    "refreshed dart": (
        {"booster": "dart", "process_type": "update", "updater": "refresh", "rate_drop": 0.5}, PLAIN
    ),
    "custom": ({"objective": "multi:softprob", "num_class": 3, "obj": _softmax}, {"label": CLASSES}),
}  # fmt: skip
THEIRS_CANNOT = {"expectiles"}  # XGBoost has them from 3.3 on


def _matrix(name, package=arboost, info=None):
    """Data with gaps and a categorical feature; numbers where a kind of model takes no others."""
    info = KINDS[name][1] if info is None else info
    if "gblinear" in name:
        return package.DMatrix(np.nan_to_num(X), **info)
    kinds = ["q"] * 4 + (["q"] if name == "vectors" else ["c"])
    return package.DMatrix(X, feature_types=kinds, enable_categorical=True, **info)


def _train(name, n_threads=2, n_rounds=4):
    params = {"max_depth": 4, "nthread": n_threads, **KINDS[name][0]}
    data = _matrix(name)
    base = None
    if params.get("process_type") == "update":
        old = {key: value for key, value in params.items() if key not in ("process_type", "updater", "gamma")}
        base = arboost.train(old | {"seed": 1}, _matrix(name, info={"label": SCORE[::-1]}), n_rounds)
    return arboost.train(params, data, n_rounds, obj=params.pop("obj", None), xgb_model=base), data


@pytest.mark.parametrize("name", KINDS)
def test_the_same_bytes_for_any_threads(name):
    files = set()
    for n_threads in (1, 2, 5):
        with pages.cut_anywhere(n_threads):
            model, data = _train(name, n_threads)
            files.add(bytes(model.save_raw()) + model.predict(data).tobytes())
    assert len(files) == 1


@pytest.mark.parametrize("name", [name for name in KINDS if name not in THEIRS_CANNOT])
def test_files_go_both_ways(name):
    model, data = _train(name)
    theirs = xgboost.Booster(model_file=bytearray(model.save_raw()))
    their_data = _matrix(name, xgboost)
    expected = model.predict(data, output_margin=True)
    np.testing.assert_allclose(theirs.predict(their_data, output_margin=True), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(theirs.predict(their_data), model.predict(data), rtol=1e-4, atol=1e-5)
    back = arboost.Booster(model_file=bytearray(theirs.save_raw()))
    np.testing.assert_array_equal(back.predict(data, output_margin=True), expected)
    loaded = arboost.Booster(model_file=model.save_raw())
    assert loaded.save_raw() == model.save_raw()


@pytest.mark.parametrize("name", KINDS)
def test_explanations_sum_to_the_margin(name):
    model, data = _train(name)
    margin = model.predict(data, output_margin=True)
    parts = model.predict(data, pred_contribs=True)
    assert parts.shape[-1] == X.shape[1] + 1
    np.testing.assert_allclose(parts.sum(axis=-1), margin, rtol=1e-3, atol=1e-4)
    if "gblinear" not in name:
        pairs = model.predict(data, pred_interactions=True)
        np.testing.assert_allclose(pairs.sum(axis=-1), parts, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in THEIRS_CANNOT])
def test_dumps_are_xgboosts(name):
    model, _ = _train(name)
    theirs = xgboost.Booster(model_file=bytearray(model.save_raw()))
    with_stats = "gblinear" not in name and name != "vectors"  # those have none, of these XGBoost cannot dump them
    for form in ("text", "json"):
        ours, expected = (m.get_dump(with_stats=with_stats, dump_format=form) for m in (model, theirs))
        assert len(ours) == len(expected)
        if form == "json" and "gblinear" not in name:
            assert [json.loads(a) for a in ours] == [json.loads(b) for b in expected]
        else:
            assert ours == expected


@pytest.mark.parametrize("name", [name for name in KINDS if "refreshed" not in name])
def test_continued_is_one_go(name):
    model, data = _train(name)
    params = {"max_depth": 4, "nthread": 2, **KINDS[name][0]}
    obj = params.pop("obj", None)
    half = arboost.train(params, data, 2, obj=obj)
    whole = arboost.train(params, data, 2, obj=obj, xgb_model=half)
    assert whole.save_raw() == model.save_raw()
