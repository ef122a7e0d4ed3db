"""`process_type="update"` against XGBoost: the same old model, the same new data, the same trees."""

import json
import warnings

import numpy as np
import pytest
import xgboost

import arboost

STEPS = ("refresh", "prune", "refresh,prune", "prune,refresh")


def _data(package, seed, n=400, kind="plain", weights=True):
    """Regression data; the second seed's labels follow another law, so that refreshing changes things."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 9, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    z = np.nan_to_num(X)
    score = (1 + seed) * z[:, 0] + z[:, 1] * z[:, 2] + (z[:, 3] % 3)
    label = {"plain": score, "multi": np.digitize(score, [0, 2]), "binary": score > 1, "targets": None}[kind]
    if kind == "targets":
        label = np.stack([score, -z[:, 1]], axis=1)
    options = {"feature_types": ["q", "q", "q", "c"], "enable_categorical": True}
    weight = rng.uniform(0.5, 2, n).astype(np.float32) if weights else None
    return package.DMatrix(X, np.asarray(label, np.float32), weight=weight, **options)


def _close(ours, theirs):
    """Dumps with statistics agree to float32 sums' accuracy."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        _close_nodes(json.loads(a), json.loads(b))


def _close_nodes(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        if key == "children":
            for x, y in zip(value, b[key], strict=True):
                _close_nodes(x, y)
        elif isinstance(value, float) or key in ("gain", "cover", "leaf"):
            assert value == pytest.approx(b[key], rel=2e-4, abs=2e-4), (key, a, b)
        else:
            assert value == b[key]


def _both(base, params, n_rounds, kind="plain", **how):
    """The same model updated by both libraries: (ours, theirs)."""
    results = []
    for package in (arboost, xgboost):
        model = package.Booster(model_file=bytearray(base.save_raw()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(
                package.train(
                    params | {"process_type": "update", "verbosity": 0},
                    _data(package, 1, kind=kind),
                    n_rounds,
                    xgb_model=model,
                    **how,
                )
            )
    return results


def _base(params, kind="plain", n_rounds=4):
    return xgboost.train({"max_depth": 4, "eta": 0.4} | params, _data(xgboost, 0, kind=kind), n_rounds)


def _compare(ours, theirs, kind="plain"):
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds()
    form = {"with_stats": True, "dump_format": "json"}
    _close(ours.get_dump(**form), theirs.get_dump(**form))
    expected = theirs.predict(_data(xgboost, 2, kind=kind))
    np.testing.assert_allclose(ours.predict(_data(arboost, 2, kind=kind)), expected, rtol=1e-3, atol=1e-3)


MODELS = {
    "plain": ("plain", {}),
    "regularised": ("plain", {"reg_alpha": 0.7, "reg_lambda": 0.3, "min_child_weight": 12, "max_delta_step": 0.6}),
    "binary": ("binary", {"objective": "binary:logistic"}),
    "absolute": ("plain", {"objective": "reg:absoluteerror"}),
    "multi": ("multi", {"objective": "multi:softprob", "num_class": 3}),
    "targets": ("targets", {}),
    "forest": ("plain", {"num_parallel_tree": 3, "subsample": 0.6}),
    "multi_forest": ("multi", {"objective": "multi:softmax", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.7}),
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", MODELS)
def test_same_trees(name, steps):
    kind, params = MODELS[name]
    base = _base(params, kind)
    update = params | {"updater": steps, "gamma": 2.0, "eta": 0.4, "max_depth": 3}
    _compare(*_both(base, update, 4, kind), kind)


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_fewer_rounds_cut_the_model(n_rounds):
    _compare(*_both(_base({}), {"updater": "refresh"}, n_rounds))


def test_leaves_stay_without_refresh_leaf():
    base = _base({})
    ours, theirs = _both(base, {"updater": "refresh", "refresh_leaf": False}, 4)
    _compare(ours, theirs)
    old = json.loads(bytes(base.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    new = json.loads(bytes(ours.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    assert [t["split_conditions"] for t in new] == [t["split_conditions"] for t in old]
    assert [t["sum_hessian"] for t in new] != [t["sum_hessian"] for t in old]


def test_dart_keeps_its_weights():
    dropout = {"booster": "dart", "rate_drop": 0.5, "one_drop": 1}
    base = _base(dropout)
    still = {"booster": "dart", "updater": "refresh,prune", "gamma": 1.0, "rate_drop": 0, "one_drop": 0}
    ours, theirs = _both(base, still, 3)
    _compare(ours, theirs)
    assert len(json.loads(bytes(ours.save_raw("json")))["learner"]["gradient_booster"]["weight_drop"]) == 3
    read = arboost.Booster(model_file=bytearray(theirs.save_raw()))  # with weights of trees that are there no more
    np.testing.assert_allclose(read.predict(_data(arboost, 2)), theirs.predict(_data(xgboost, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("steps", STEPS)
def test_files_of_updated_models_go_both_ways(steps, tmp_path):
    ours, theirs = _both(_base({}), {"updater": steps, "gamma": 3.0}, 4)
    ours.save_model(tmp_path / "ours.ubj")
    theirs.save_model(tmp_path / "theirs.ubj")
    x, a = _data(xgboost, 2), _data(arboost, 2)
    form = {"with_stats": True, "dump_format": "json"}
    read = xgboost.Booster(model_file=tmp_path / "ours.ubj")
    np.testing.assert_allclose(read.predict(x), ours.predict(a), rtol=1e-5, atol=1e-5)
    _close(ours.get_dump(**form), read.get_dump(**form))
    read = arboost.Booster(model_file=tmp_path / "theirs.ubj")
    np.testing.assert_allclose(read.predict(a), theirs.predict(x), rtol=1e-5, atol=1e-5)
    _close(read.get_dump(**form), theirs.get_dump(**form))


@pytest.mark.parametrize("steps", STEPS)
def test_explanations_of_updated_models(steps):
    """They sum to the margin, also where no row of the new data reaches a node (XGBoost 3.2 stops there)."""
    ours, _ = _both(_base({}), {"updater": steps, "gamma": 3.0}, 4)
    ours = arboost.train({"process_type": "update", "updater": steps}, _data(arboost, 1, n=12), 4, xgb_model=ours)
    data = _data(arboost, 2)
    margin = ours.predict(data, output_margin=True)
    for how in ({}, {"approx_contribs": True}):
        parts = ours.predict(data, pred_contribs=True, **how)
        np.testing.assert_allclose(parts.sum(axis=1), margin, rtol=1e-4, atol=1e-4)
    pairs = ours.predict(data, pred_interactions=True)
    np.testing.assert_allclose(pairs.sum(axis=(1, 2)), margin, rtol=1e-4, atol=1e-4)


def test_scores_during_an_update():
    results = {}
    for package in (arboost, xgboost):
        base = package.Booster(model_file=bytearray(_base({}).save_raw()))
        results[package] = {}
        params = {"process_type": "update", "updater": "refresh", "verbosity": 0}
        evals = [(_data(package, 1), "new"), (_data(package, 0), "old")]
        package.train(
            params, evals[0][0], 4, xgb_model=base, evals=evals, evals_result=results[package], verbose_eval=False
        )
    for name in ("new", "old"):
        assert results[arboost][name]["rmse"] == pytest.approx(results[xgboost][name]["rmse"], rel=1e-4)


def test_custom_objective_during_an_update():
    def squared(margin, data):
        return margin - data.get_label(), np.ones_like(margin)

    _compare(*_both(_base({}), {"updater": "refresh"}, 4, obj=squared))


@pytest.mark.parametrize("updater", ["grow_quantile_histmaker,refresh", "grow_quantile_histmaker,prune"])
def test_steps_after_growing(updater):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 9, (300, 3)).astype(np.float32)  # few values: both libraries cut them alike
    label = X[:, 0] + (X[:, 1] > 4) * X[:, 2] + rng.normal(size=300)
    params = {"updater": updater, "max_depth": 3, "base_score": 0.5, "gamma": 1.0, "verbosity": 0}
    models = [package.train(params, package.DMatrix(X, label), 3) for package in (arboost, xgboost)]
    form = {"with_stats": True, "dump_format": "json"}
    _close(models[0].get_dump(**form), models[1].get_dump(**form))


def test_refresh_after_growing_uses_all_rows():
    data = _data(arboost, 0, weights=False)
    params = {"updater": "grow_quantile_histmaker,refresh", "subsample": 0.3, "base_score": 0.5}
    model = arboost.train(params, data, 3)
    assert json.loads(model.get_dump(with_stats=True, dump_format="json")[2])["cover"] == data.num_row()
